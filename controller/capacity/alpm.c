#include "controller/capacity/alpm.h"

#include <math.h>
#include <string.h>

/* --- the estimate ----------------------------------------------------------------- */

/* Tries of up to OCTAVES doublings of B keys are worked through.  Beyond, rows grow in
 * proportion to keys, with a ripple that repeats at each doubling (under 1 % with B =
 * 16): the mean over the last doubling takes it out. */
#define OCTAVES  3
#define KEYS_MAX ((1 << OCTAVES) * ALPM_BUCKET_MAX)
#define NEVER    1e-9 /* chances below it add nothing that would be seen */

/* What the carve makes of tries of n random keys, for each n.  130 KiB, on the stack of
 * the one function that makes it. */
struct carve {
    unsigned bucket;
    float left[KEYS_MAX + 1][ALPM_BUCKET_MAX + 1]; /* chance to leave r to the parent */
    double rows[KEYS_MAX + 1];                     /* partitions, expected */
};

/* Two subtrees of k and n - k keys meet, with chance `w`. */
static void meet(struct carve *c, unsigned n, unsigned k, double w,
                 double left[ALPM_BUCKET_MAX + 1])
{
    const float *a = c->left[k];
    const float *b = c->left[n - k];

    c->rows[n] += w * (c->rows[k] + c->rows[n - k]);
    for (unsigned i = 0; i <= c->bucket; i++) {
        if (a[i] * w < NEVER) {
            continue;
        }
        for (unsigned j = 0; j <= c->bucket; j++) {
            double chance = w * (double)a[i] * (double)b[j];
            bool is_full = i + j > c->bucket;

            c->rows[n] += is_full ? chance : 0;
            left[is_full ? (i < j ? i : j) : i + j] += chance;
        }
    }
}

/* Fills in tries of n > B keys from those of fewer. */
static void carve_keys(struct carve *c, unsigned n)
{
    double left[ALPM_BUCKET_MAX + 1] = { 0 };
    double split = 1 - 2 * pow(0.5, n); /* all on one side: the same trie again */

    for (unsigned k = 1; k < n; k++) {
        double w =
            exp(lgamma(n + 1.0) - lgamma(k + 1.0) - lgamma(n - k + 1.0) - n * log(2)) /
            split;

        if (w > NEVER) {
            meet(c, n, k, w, left);
        }
    }
    for (unsigned r = 0; r <= c->bucket; r++) {
        c->left[n][r] = (float)left[r];
    }
}

double alpm_random_fill(unsigned bucket)
{
    struct carve c;
    unsigned most = bucket << OCTAVES;
    double fill = 0;

    memset(&c, 0, sizeof(c));
    c.bucket = bucket;
    for (unsigned n = 0; n <= most; n++) {
        double left = 0;

        if (n <= bucket) {
            c.left[n][n] = 1;
            continue;
        }
        carve_keys(&c, n);
        for (unsigned r = 0; r <= bucket; r++) {
            left += r * (double)c.left[n][r];
        }
        if (n > most / 2) {
            fill += (n - left) / (c.rows[n] * bucket);
        }
    }
    return fill / (most - most / 2);
}

double alpm_rows(double routes, unsigned bucket, double fill)
{
    return routes / (bucket * fill);
}

/* --- the counter ------------------------------------------------------------------ */

void alpm_counter_init(struct alpm_counter *c, unsigned bucket)
{
    memset(c, 0, sizeof(*c));
    c->bucket = bucket;
}

static unsigned to_string(uint32_t vni, const struct prefix *dst,
                          uint8_t to[ALPM_STRING])
{
    memset(to, 0, ALPM_STRING);
    to[0] = (uint8_t)(vni >> 16);
    to[1] = (uint8_t)(vni >> 8);
    to[2] = (uint8_t)vni;
    if (dst->addr.family == IP_V6) {
        memcpy(to + 3, dst->addr.b, 16);
        return 24u + dst->len;
    }
    to[13] = to[14] = 0xff;
    memcpy(to + 15, dst->addr.b, 4);
    return 24u + 96 + dst->len;
}

/* Bits that both strings begin with, at most `most`. */
static unsigned shared_bits(const uint8_t *a, const uint8_t *b, unsigned most)
{
    unsigned i = 0;

    while (i < ALPM_STRING && a[i] == b[i]) {
        i++;
    }
    if (i < ALPM_STRING) {
        /* of the byte that differs, what leads it */
        i = 8 * i + (unsigned)__builtin_clz((unsigned)(a[i] ^ b[i])) - 24;
    } else {
        i *= 8;
    }
    return i < most ? i : most;
}

/* Two sides and the routes of the node where they meet: what goes on upwards. */
static uint32_t join(const struct alpm_counter *c, uint32_t a, uint32_t b, uint32_t own,
                     uint64_t *partitions)
{
    if (a + b + own <= c->bucket) {
        return a + b + own;
    }
    ++*partitions;
    a = a < b ? a : b; /* the larger one is a partition now */
    if (a + own <= c->bucket) {
        return a + own;
    }
    ++*partitions;
    return own;
}

/* Closes the open nodes deeper than `depth`; a node opens there if none was. */
static void close_below(struct alpm_counter *c, unsigned depth)
{
    uint32_t left = 0;
    bool has_any = false;

    while (c->depth > 0 && c->path[c->depth - 1].depth > depth) {
        const struct alpm_node *n = &c->path[--c->depth];

        left = join(c, n->has_left ? n->left : 0, has_any ? left : 0, n->own,
                    &c->partitions);
        has_any = true;
    }
    if (!has_any) {
        return;
    }
    if (c->depth == 0 || c->path[c->depth - 1].depth < depth) {
        c->path[c->depth++] = (struct alpm_node){ .depth = (uint8_t)depth };
    }
    /* What follows differs at this bit, so this was the side of the 0. */
    c->path[c->depth - 1].has_left = true;
    c->path[c->depth - 1].left = left;
}

bool alpm_counter_add(struct alpm_counter *c, uint32_t vni, const struct prefix *dst)
{
    uint8_t string[ALPM_STRING];
    unsigned bits = to_string(vni, dst, string);
    unsigned shared;

    if (c->routes > 0) {
        int order = memcmp(string, c->last, ALPM_STRING);

        if (order < 0 || (order == 0 && bits <= c->last_bits)) {
            return false;
        }
        shared =
            shared_bits(string, c->last, bits < c->last_bits ? bits : c->last_bits);
        close_below(c, shared);
    }
    c->path[c->depth++] = (struct alpm_node){ .depth = (uint8_t)bits, .own = 1 };
    memcpy(c->last, string, ALPM_STRING);
    c->last_bits = (uint8_t)bits;
    c->routes++;
    return true;
}

uint64_t alpm_counter_rows(const struct alpm_counter *c)
{
    uint64_t rows = c->partitions;
    uint32_t left = 0;

    for (unsigned i = c->depth; i-- > 0;) {
        left = join(c, c->path[i].has_left ? c->path[i].left : 0, left, c->path[i].own,
                    &rows);
    }
    return rows + (left > 0);
}
