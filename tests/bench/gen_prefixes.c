#include "tests/bench/gen_prefixes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/bench/gen.h"

#define FULL_TABLE "prefixes/bart-tier1-fulltable.prefixes.txt.gz"

/* How many of 10,000 announced prefixes have each length: counted in the full table
 * (901,899 IPv4 and 160,147 IPv6 prefixes); lengths below 1 in 1,000 are left out. */
struct length_share {
    uint8_t len;
    uint16_t share;
};
static const struct length_share v4_lengths[] = {
    { 24, 5962 }, { 22, 1204 }, { 23, 1070 }, { 21, 563 }, { 20, 472 }, { 19, 276 },
    { 18, 153 },  { 16, 150 },  { 17, 91 },   { 15, 23 },  { 14, 13 },  { 32, 23 },
};
static const struct length_share v6_lengths[] = {
    { 48, 4714 }, { 32, 1408 }, { 44, 897 }, { 40, 838 }, { 36, 374 }, { 29, 273 },
    { 47, 197 },  { 46, 190 },  { 33, 183 }, { 34, 163 }, { 42, 144 }, { 38, 101 },
    { 45, 97 },   { 39, 86 },   { 35, 65 },  { 37, 55 },  { 41, 56 },  { 30, 41 },
    { 28, 12 },   { 31, 18 },   { 64, 88 },
};

void gen_prefixes_fini(struct gen_prefixes *p)
{
    free(p->v4.at);
    free(p->v6.at);
    *p = (struct gen_prefixes){ 0 };
}

static bool list_add(struct prefix_list *l, const struct prefix *p)
{
    if (l->count == l->cap) {
        uint32_t cap = l->cap ? 2 * l->cap : 4096;
        struct prefix *grown = realloc(l->at, cap * sizeof(*grown));

        if (!grown) {
            return false;
        }
        l->at = grown;
        l->cap = cap;
    }
    l->at[l->count++] = *p;
    return true;
}

static int compare(const void *a, const void *b)
{
    return prefix_compare(a, b);
}

static void list_unique(struct prefix_list *l)
{
    uint32_t n = 0;

    qsort(l->at, l->count, sizeof(*l->at), compare);
    for (uint32_t i = 0; i < l->count; i++) {
        if (n == 0 || prefix_compare(&l->at[n - 1], &l->at[i]) != 0) {
            l->at[n++] = l->at[i];
        }
    }
    l->count = n;
}

/* Could a tenant have this as a local route? */
static bool is_fit(const struct prefix *p)
{
    struct entry e = { .table = TABLE_VXLAN_ROUTE, .vni = 1 };

    e.route.dst = *p;
    e.route.action.scope = SCOPE_LOCAL;
    return entry_check(&e, NULL) == RC_OK;
}

static enum rc read_lines(FILE *f, struct gen_prefixes *ret, struct err *err)
{
    char line[PREFIX_TEXT_MAX + 2];

    while (fgets(line, sizeof(line), f)) {
        struct prefix p;
        enum rc rc = prefix_parse(line, strcspn(line, "\r\n"), &p, err);

        if (rc) {
            return err_wrap(err, rc, "%s", FULL_TABLE);
        }
        if (is_fit(&p) && !list_add(p.addr.family == IP_V4 ? &ret->v4 : &ret->v6, &p)) {
            return err_set(err, RC_NO_MEMORY, "%s: out of memory", FULL_TABLE);
        }
    }
    return RC_OK;
}

/* Starts `gzip -dc path` with its output in `*ret`. */
static pid_t start_gzip(const char *path, FILE **ret)
{
    int ends[2];
    pid_t pid;

    if (pipe(ends)) {
        return -1;
    }
    pid = fork();
    if (pid == 0) {
        dup2(ends[1], STDOUT_FILENO);
        close(ends[0]);
        close(ends[1]);
        execlp("gzip", "gzip", "-dc", path, (char *)NULL);
        _exit(127);
    }
    close(ends[1]);
    *ret = pid > 0 ? fdopen(ends[0], "r") : NULL;
    if (!*ret) {
        close(ends[0]);
    }
    return pid;
}

enum rc gen_prefixes_read(const char *dir, struct gen_prefixes *ret, struct err *err)
{
    struct gen_prefixes got = { 0 };
    char path[4096];
    FILE *f = NULL;
    int status = -1;
    enum rc rc = RC_OK;
    pid_t pid;

    snprintf(path, sizeof(path), "%s/%s", dir, FULL_TABLE);
    if (access(path, R_OK)) {
        return err_set(err, RC_NOT_FOUND, "%s: no full table there", path);
    }
    pid = start_gzip(path, &f);
    if (f) {
        rc = read_lines(f, &got, err);
        fclose(f);
    }
    if (pid > 0) {
        waitpid(pid, &status, 0);
    }
    if (!rc && (status != 0 || got.v4.count == 0 || got.v6.count == 0)) {
        rc = err_set(err, RC_NOT_FOUND, "%s: cannot be read with gzip", path);
    }
    if (rc) {
        gen_prefixes_fini(&got);
        return rc;
    }
    list_unique(&got.v4);
    list_unique(&got.v6);
    *ret = got;
    return RC_OK;
}

static uint8_t draw_length(const struct length_share *shares, uint64_t *random)
{
    uint32_t r = (uint32_t)(gen_random(random) % 10000);
    uint32_t i = 0;

    while (r >= shares[i].share) {
        r -= shares[i++].share;
    }
    return shares[i].len;
}

static struct prefix draw_v4(uint64_t *random)
{
    struct prefix p = { .len = draw_length(v4_lengths, random) };
    uint32_t addr;

    do {
        addr = (uint32_t)gen_random(random);
    } while (addr >> 24 < 1 || addr >> 24 > 223 || addr >> 24 == 127);
    p.addr = ip_v4(addr);
    prefix_mask(&p);
    return p;
}

static struct prefix draw_v6(uint64_t *random)
{
    struct prefix p = { .len = draw_length(v6_lengths, random) };
    uint64_t high = gen_random(random) >> 3 | UINT64_C(1) << 61; /* 2000::/3 */
    uint8_t bytes[16] = { 0 };

    for (int i = 0; i < 8; i++) {
        bytes[i] = (uint8_t)(high >> (56 - 8 * i));
    }
    p.addr = ip_v6(bytes);
    prefix_mask(&p);
    return p;
}

static bool make_list(struct prefix_list *l, uint32_t count,
                      struct prefix (*draw)(uint64_t *), uint64_t *random)
{
    while (l->count < count) {
        /* Enough more that few rounds are left, doubles taken into account. */
        for (uint32_t left = count + count / 8 + 16; left > 0; left--) {
            struct prefix p = draw(random);

            if (is_fit(&p) && !list_add(l, &p)) {
                return false;
            }
        }
        list_unique(l);
    }
    return true;
}

enum rc gen_prefixes_make(uint64_t seed, uint32_t count, struct gen_prefixes *ret,
                          struct err *err)
{
    struct gen_prefixes made = { 0 };
    uint64_t random = seed;

    if (!make_list(&made.v4, count, draw_v4, &random) ||
        !make_list(&made.v6, count, draw_v6, &random)) {
        gen_prefixes_fini(&made);
        return err_set(err, RC_NO_MEMORY, "prefixes: out of memory");
    }
    *ret = made;
    return RC_OK;
}
