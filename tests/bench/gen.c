#include "tests/bench/gen.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/bench/gen_prefixes.h"

/* Shares of a million (tests/bench/README.md). */
static const struct {
    uint32_t count; /* VNIs per million routes */
    uint32_t routes;
} classes[] = { { 2, 100000 }, { 1, 30000 }, { 10, 3000 }, { 100, 400 }, { 1000, 40 } };
#define CLASSES   (sizeof(classes) / sizeof(classes[0]))
#define MILLION   UINT64_C(1000000)
#define SMALL_MIN 2
#define SMALL_MAX 8
#define NC_COUNT  4096
#define DEFAULT_MILL                                                                   \
    40 /* of 1,000 VNIs have an internet default: 1 % of the routes                    \
        */
#define V4_PERCENT 75

struct gen {
    struct gen_config config;
    uint32_t *sizes; /* routes of each VNI, in random order */
    uint32_t vni_count;
    struct gen_prefixes announced;

    /* The VNI being given out: its routes and VMs, and the set of VM addresses. */
    struct entry *entries; /* routes, then VMs */
    uint64_t *seen;        /* hashes of VM addresses, open addressing, 0 free */
    uint32_t seen_mask;
    uint32_t place;
    uint32_t at; /* next entry of it */
    uint32_t entry_count;
};

uint64_t gen_random(uint64_t *state)
{
    uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));

    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static uint32_t below(uint64_t *random, uint32_t n)
{
    return (uint32_t)(gen_random(random) % n);
}

void gen_config_init(struct gen_config *c)
{
    *c = (struct gen_config){ .seed = 1, .routes = MILLION, .cluster = "x86-1" };
}

/* The random stream of one purpose at one place. */
static uint64_t stream(const struct gen *g, uint64_t purpose, uint64_t place)
{
    uint64_t state =
        g->config.seed ^ purpose << 56 ^ place * UINT64_C(0x2545f4914f6cdd1d);

    gen_random(&state);
    return state;
}

/* --- which VNIs, and how large ---------------------------------------------------- */

/* A permutation of 24-bit numbers: four Feistel rounds of 12 bits. */
static uint32_t permute24(const struct gen *g, uint32_t v)
{
    uint32_t left = v >> 12;
    uint32_t right = v & 0xfff;

    for (uint64_t round = 0; round < 4; round++) {
        uint64_t state = stream(g, 1 + round, right);
        uint32_t mixed = left ^ (uint32_t)(gen_random(&state) & 0xfff);

        left = right;
        right = mixed;
    }
    return left << 12 | right;
}

uint32_t gen_vni(const struct gen *g, uint32_t place)
{
    uint32_t vni = permute24(g, place);

    /* 0 is no VNI; the last number's turn never comes. */
    return vni ? vni : permute24(g, VNI_MAX);
}

uint32_t gen_vni_count(const struct gen *g)
{
    return g->vni_count;
}

uint32_t gen_vni_routes(const struct gen *g, uint32_t place)
{
    return g->sizes[place];
}

/* Appends the large VNIs; returns their routes.  A class that n does not fill once
 * becomes one smaller VNI with the same share. */
static uint32_t add_large(struct gen *g, uint32_t *count)
{
    const uint64_t n = g->config.routes;
    uint32_t routes = 0;

    for (size_t i = 0; i < CLASSES; i++) {
        uint64_t share = classes[i].count * n;
        uint64_t size = classes[i].routes;
        uint64_t vnis = (share + MILLION / 2) / MILLION;

        if (share < MILLION) {
            size = size * share / MILLION;
            vnis = 1;
        }
        for (; size > SMALL_MAX && vnis > 0 && *count < g->vni_count; vnis--) {
            g->sizes[(*count)++] = (uint32_t)size;
            routes += (uint32_t)size;
        }
    }
    return routes;
}

/* One small VNI's size, such that the others can still take the rest. */
static uint32_t draw_small(uint32_t routes, uint32_t vnis, uint64_t *random)
{
    double more = (double)routes / vnis - SMALL_MIN; /* mean above the least */
    double stop = 1 / (1 + (more > 0 ? more : 0));
    uint32_t size = SMALL_MIN;
    uint32_t others = vnis - 1;

    while (size < SMALL_MAX && (double)(gen_random(random) >> 11) * 0x1p-53 >= stop) {
        size++;
    }
    if (size + SMALL_MIN * others > routes) {
        size = routes > SMALL_MIN * others ? routes - SMALL_MIN * others : 1;
    }
    if (size + SMALL_MAX * others < routes) {
        size = routes - SMALL_MAX * others;
    }
    return size;
}

static void draw_sizes(struct gen *g)
{
    uint64_t random = stream(g, 8, 0);
    uint32_t count = 0;
    uint32_t left = g->config.routes - add_large(g, &count);

    while (count < g->vni_count) {
        uint32_t size = draw_small(left, g->vni_count - count, &random);

        g->sizes[count++] = size;
        left -= size;
    }
    for (uint32_t i = count - 1; i > 0; i--) {
        uint32_t k = below(&random, i + 1);
        uint32_t size = g->sizes[i];

        g->sizes[i] = g->sizes[k];
        g->sizes[k] = size;
    }
}

/* --- routes ----------------------------------------------------------------------- */

/* Walks a list in an order that looks random and repeats nothing. */
struct walk {
    const struct prefix_list *list;
    uint64_t at;
    uint64_t step; /* coprime to the list's length */
};

static uint64_t gcd(uint64_t a, uint64_t b)
{
    while (b) {
        uint64_t rest = a % b;

        a = b;
        b = rest;
    }
    return a;
}

static struct walk walk_start(const struct prefix_list *list, uint64_t *random)
{
    struct walk w = { .list = list };

    w.at = gen_random(random) % list->count;
    do {
        w.step = 1 + gen_random(random) % list->count;
    } while (gcd(w.step, list->count) != 1);
    return w;
}

static struct prefix walk_next(struct walk *w)
{
    w->at = (w->at + w->step) % w->list->count;
    return w->list->at[w->at];
}

/* The k-th private prefix of a small VNI: its own /20, or part of it, of one /16 of
 * 10.0.0.0/8; for IPv6 a /64 of one /48 of fd00::/8 (RFC 4193). */
static struct prefix private_prefix(const struct gen *g, uint32_t place, uint32_t k,
                                    bool is_v6, uint64_t *random)
{
    uint64_t site = stream(g, 9, place);
    uint64_t id = gen_random(&site);
    struct prefix p;

    if (is_v6) {
        uint8_t b[16] = { 0xfd,
                          (uint8_t)id,
                          (uint8_t)(id >> 8),
                          (uint8_t)(id >> 16),
                          (uint8_t)(id >> 24),
                          (uint8_t)(id >> 32),
                          0,
                          (uint8_t)k };

        p = (struct prefix){ ip_v6(b), 64 };
    } else {
        p.len = (uint8_t)(20 + 2 * below(random, 5));
        p.addr = ip_v4(0x0a000000u | (uint32_t)(id & 0xff) << 16 | (k & 15) << 12 |
                       below(random, 4096));
        prefix_mask(&p);
    }
    return p;
}

/* NC number `i`, in the region's underlay; every 20th has an IPv6 address. */
static struct ip nc_address(uint32_t i)
{
    if (i % 20 == 19) {
        uint8_t b[16] = { 0xfd, 0x64, [14] = (uint8_t)(i >> 8), [15] = (uint8_t)i };

        return ip_v6(b);
    }
    return ip_v4(0x0a800001u + i);
}

static void draw_action(const struct gen *g, uint32_t place, uint64_t *random,
                        struct route_action *ret)
{
    uint32_t r = below(random, 1000);

    ret->scope = SCOPE_LOCAL;
    if (r < 10 && place % 2 == 1) { /* half of the VNIs, so 5 of 1,000 in all */
        ret->scope = SCOPE_PEER;
        ret->vni = gen_vni(g, below(random, g->vni_count / 2) * 2);
    } else if (r >= 10 && r < 15) {
        ret->scope = r < 13 ? SCOPE_IDC : SCOPE_REGION;
        ret->endpoint = ip_v4(0x0ac00001u + below(random, 64));
        ret->vni = 1 + below(random, VNI_MAX);
    }
}

static bool has_internet(const struct gen *g, uint32_t place)
{
    uint64_t random = stream(g, 10, place);

    return below(&random, 1000) < DEFAULT_MILL;
}

static void draw_routes(struct gen *g, uint32_t place, uint32_t count, uint64_t *random)
{
    const bool is_announced = count > SMALL_MAX;
    struct walk v4 = walk_start(&g->announced.v4, random);
    struct walk v6 = walk_start(&g->announced.v6, random);

    for (uint32_t k = 0; k < count; k++) {
        struct entry *e = &g->entries[k];
        bool is_v6 = below(random, 100) >= V4_PERCENT;

        memset(e, 0, sizeof(*e));
        e->table = TABLE_VXLAN_ROUTE;
        e->vni = gen_vni(g, place);
        if (is_announced) {
            e->route.dst = walk_next(is_v6 ? &v6 : &v4);
        } else {
            e->route.dst = private_prefix(g, place, k, is_v6, random);
        }
        draw_action(g, place, random, &e->route.action);
    }
    if (has_internet(g, place)) {
        struct route_action *a = &g->entries[0].route.action;
        struct prefix *dst = &g->entries[0].route.dst;

        *dst = (struct prefix){ .addr.family = dst->addr.family };
        *a = (struct route_action){ .scope = SCOPE_INTERNET };
    }
}

/* --- VMs -------------------------------------------------------------------------- */

/* True when the address was not there yet. */
static bool see(struct gen *g, const struct ip *ip)
{
    uint64_t low;
    uint64_t high;
    uint64_t hash;
    uint32_t i;

    memcpy(&high, ip->b, 8);
    memcpy(&low, ip->b + 8, 8);
    hash = high ^ (low + ip->family) * UINT64_C(0x9e3779b97f4a7c15);
    hash = gen_random(&hash) | 1;
    for (i = (uint32_t)(hash >> 32) & g->seen_mask; g->seen[i];
         i = (i + 1) & g->seen_mask) {
        if (g->seen[i] == hash) {
            return false;
        }
    }
    g->seen[i] = hash;
    return true;
}

static struct ip random_inside(const struct prefix *p, uint64_t *random)
{
    struct ip ip = p->addr;
    uint8_t bits[16];
    uint64_t draw[2] = { gen_random(random), gen_random(random) };

    memcpy(bits, draw, sizeof(bits));
    for (unsigned i = 0; i < ip_size(&ip); i++) {
        unsigned fixed = p->len > 8 * i ? p->len - 8 * i : 0;

        ip.b[i] |= fixed >= 8 ? 0 : bits[i] & 0xff >> fixed;
    }
    return ip;
}

/* A new address inside the route, or, where it is too narrow and its addresses are
 * taken by a wider one's VMs, in the family's private block. */
static struct ip draw_vm(struct gen *g, const struct prefix *dst, uint64_t *random)
{
    struct prefix from = *dst;
    struct entry e = { .table = TABLE_VM_NC, .vni = 1 };

    e.vm_nc.nc = nc_address(0);
    for (unsigned tries = 0;; tries++) {
        if (tries == 16 || dst->len == 0) {
            from = (struct prefix){ ip_v4(0x0a000000u), 8 };
            if (dst->addr.family == IP_V6) {
                uint8_t private6[16] = { 0xfd };

                from.addr = ip_v6(private6);
            }
        }
        e.vm_nc.vm = random_inside(&from, random);
        if (entry_check(&e, NULL) == RC_OK && see(g, &e.vm_nc.vm)) {
            return e.vm_nc.vm;
        }
    }
}

static void draw_vms(struct gen *g, uint32_t count, uint64_t *random)
{
    uint32_t slots = 16;

    while (slots < 2 * count) {
        slots *= 2;
    }
    g->seen_mask = slots - 1;
    memset(g->seen, 0, slots * sizeof(*g->seen));
    for (uint32_t k = 0; k < count; k++) {
        struct entry *e = &g->entries[count + k];

        memset(e, 0, sizeof(*e));
        e->table = TABLE_VM_NC;
        e->vni = g->entries[k].vni;
        e->vm_nc.vm = draw_vm(g, &g->entries[k].route.dst, random);
        e->vm_nc.nc = nc_address(below(random, NC_COUNT));
        if (g->config.has_macs) {
            uint64_t mac = gen_random(random);

            e->vm_nc.has_mac = true;
            memcpy(e->vm_nc.mac, &mac, 6);
            e->vm_nc.mac[0] = 0x02; /* locally administered, unicast */
        }
    }
}

/* --- the object ------------------------------------------------------------------- */

static void open_vni(struct gen *g)
{
    uint32_t count = g->sizes[g->place];
    uint64_t random = stream(g, 11, g->place);

    draw_routes(g, g->place, count, &random);
    draw_vms(g, count, &random);
    g->entry_count = 2 * count;
    g->at = 0;
    g->place++;
}

bool gen_next(struct gen *g, struct entry *ret)
{
    if (g->at == g->entry_count) {
        if (g->place == g->vni_count) {
            return false;
        }
        open_vni(g);
    }
    *ret = g->entries[g->at++];
    return true;
}

void gen_rewind(struct gen *g)
{
    g->place = 0;
    g->at = 0;
    g->entry_count = 0;
}

void gen_tenant(const struct gen *g, uint32_t place, struct entry *ret)
{
    memset(ret, 0, sizeof(*ret));
    ret->table = TABLE_TENANT;
    ret->vni = gen_vni(g, place);
    ret->tenant.flags = has_internet(g, place) ? VNI_INTERNET : 0;
    snprintf(ret->tenant.cluster, sizeof(ret->tenant.cluster), "%s", g->config.cluster);
}

static enum rc gen_fill(struct gen *g, struct err *err)
{
    uint32_t largest = 0;
    uint32_t slots = 16;
    enum rc rc;

    g->vni_count = g->config.routes / 4;
    g->sizes = calloc(g->vni_count, sizeof(*g->sizes));
    if (!g->sizes) {
        return err_set(err, RC_NO_MEMORY, "gen: out of memory");
    }
    draw_sizes(g);
    for (uint32_t i = 0; i < g->vni_count; i++) {
        largest = g->sizes[i] > largest ? g->sizes[i] : largest;
    }
    while (slots < 2 * largest) {
        slots *= 2;
    }
    g->entries = malloc(2 * (size_t)largest * sizeof(*g->entries));
    g->seen = malloc(slots * sizeof(*g->seen));
    if (!g->entries || !g->seen) {
        return err_set(err, RC_NO_MEMORY, "gen: out of memory");
    }
    if (g->config.data_dir) {
        rc = gen_prefixes_read(g->config.data_dir, &g->announced, err);
    } else {
        rc = gen_prefixes_make(g->config.seed, largest + 1000, &g->announced, err);
    }
    if (!rc && (g->announced.v4.count < largest || g->announced.v6.count < largest)) {
        rc = err_set(err, RC_RANGE,
                     "gen: fewer announced prefixes than the largest VNI "
                     "has routes (%u)",
                     largest);
    }
    return rc;
}

enum rc gen_new(const struct gen_config *c, struct gen **ret, struct err *err)
{
    struct gen *g;
    enum rc rc;

    if (c->routes < 8 || c->routes > 4 * (VNI_MAX - 1)) {
        return err_set(err, RC_RANGE, "gen: %u routes: not 8 to %u", c->routes,
                       4 * (VNI_MAX - 1));
    }
    g = calloc(1, sizeof(*g));
    if (!g) {
        return err_set(err, RC_NO_MEMORY, "gen: out of memory");
    }
    g->config = *c;
    rc = gen_fill(g, err);
    if (rc) {
        gen_free(g);
        return rc;
    }
    *ret = g;
    return RC_OK;
}

void gen_free(struct gen *g)
{
    if (g) {
        gen_prefixes_fini(&g->announced);
        free(g->sizes);
        free(g->entries);
        free(g->seen);
        free(g);
    }
}
