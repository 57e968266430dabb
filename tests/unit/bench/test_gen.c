#include "tests/unit/unit.h"

#include <string.h>

#include "tests/bench/gen.h"

static struct gen *make(uint64_t seed, uint32_t routes)
{
    struct gen_config config;
    struct gen *g = NULL;
    struct err err = { 0 };

    gen_config_init(&config);
    config.seed = seed;
    config.routes = routes;
    ck_assert_msg(gen_new(&config, &g, &err) == RC_OK, "%s", err.msg);
    return g;
}

/* VNI → place, for the whole 24-bit space. */
static uint32_t *places_of(const struct gen *g)
{
    uint32_t *places = calloc(VNI_MAX + 1, sizeof(*places));

    ck_assert_ptr_nonnull(places);
    for (uint32_t i = 0; i < gen_vni_count(g); i++) {
        uint32_t vni = gen_vni(g, i);

        if (vni < VNI_MIN || vni > VNI_MAX || places[vni] != 0) {
            ck_abort_msg("vni %u at place %u: none, or there already", vni, i);
        }
        places[vni] = i + 1;
    }
    return places;
}

START_TEST(a_million_routes_have_the_shape_of_the_benches)
{
    /* VNIs of each size per million routes. */
    const struct {
        uint32_t routes;
        uint32_t vnis;
    } want[] = {
        { 100000, 2 }, { 30000, 1 }, { 3000, 10 }, { 400, 100 }, { 40, 1000 }
    };
    struct gen *g = make(1, 1000000);
    uint32_t small = gen_vni_count(g);
    uint64_t routes = 0;

    ck_assert_uint_eq(gen_vni_count(g), 250000);
    for (size_t w = 0; w < ARRAY_LEN(want); w++) {
        uint32_t vnis = 0;

        for (uint32_t i = 0; i < gen_vni_count(g); i++) {
            vnis += gen_vni_routes(g, i) == want[w].routes;
        }
        ck_assert_uint_eq(vnis, want[w].vnis);
        small -= vnis;
    }
    for (uint32_t i = 0; i < gen_vni_count(g); i++) {
        routes += gen_vni_routes(g, i);
        small -= gen_vni_routes(g, i) >= 2 && gen_vni_routes(g, i) <= 8;
    }
    ck_assert_uint_eq(routes, 1000000);
    ck_assert_uint_eq(small, 0);
    free(places_of(g));
    gen_free(g);
}
END_TEST

struct tally {
    uint32_t routes;
    uint32_t vms;
    uint32_t v4;
    uint32_t scope[SCOPE_COUNT];
    uint32_t outside; /* VMs that are not in their route */
};

static int compare_bytes(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(struct entry));
}

/* The entry's key alone, as bytes that sort and compare. */
static struct entry key_only(const struct entry *e)
{
    struct entry key;

    memset(&key, 0, sizeof(key));
    key.table = e->table;
    key.vni = e->vni;
    if (e->table == TABLE_VXLAN_ROUTE) {
        memcpy(key.route.dst.addr.b, e->route.dst.addr.b, 16);
        key.route.dst.addr.family = e->route.dst.addr.family;
        key.route.dst.len = e->route.dst.len;
    } else {
        memcpy(key.vm_nc.vm.b, e->vm_nc.vm.b, 16);
        key.vm_nc.vm.family = e->vm_nc.vm.family;
    }
    return key;
}

static void count_route(struct tally *t, const struct entry *e)
{
    t->routes++;
    t->v4 += e->route.dst.addr.family == IP_V4;
    t->scope[e->route.action.scope]++;
}

START_TEST(every_entry_is_valid_and_no_key_comes_twice)
{
    const uint32_t sizes[] = { 8, 1000, 100000 };
    const uint32_t n = sizes[_i];
    struct gen *g = make(5, n);
    uint32_t *places = places_of(g);
    struct entry *keys = calloc(2 * (size_t)n, sizeof(*keys));
    struct entry *open = calloc(n, sizeof(*open)); /* routes that wait for their VM */
    uint32_t count = 0;
    uint32_t head = 0;
    uint32_t tail = 0;
    struct tally t = { 0 };
    struct entry e;

    while (gen_next(g, &e)) {
        struct err err = { 0 };

        if (entry_check(&e, &err) || places[e.vni] == 0 || count == 2 * n) {
            ck_abort_msg("entry %u: %s", count, err.msg);
        }
        keys[count++] = key_only(&e);
        if (e.table == TABLE_VXLAN_ROUTE) {
            count_route(&t, &e);
            open[tail++] = e;
            continue;
        }
        t.vms++;
        if (head == tail || open[head].vni != e.vni) {
            ck_abort_msg("entry %u: a VM without its route", count);
        }
        t.outside += !prefix_contains(&open[head++].route.dst, &e.vm_nc.vm);
    }
    ck_assert_uint_eq(t.routes, n);
    ck_assert_uint_eq(t.vms, n);
    qsort(keys, count, sizeof(*keys), compare_bytes);
    for (uint32_t i = 1; i < count; i++) {
        if (compare_bytes(&keys[i - 1], &keys[i]) == 0) {
            ck_abort_msg("vni %u: one key twice", keys[i].vni);
        }
    }
    ck_assert_uint_le(t.outside, n / 1000);
    if (n == 100000) {
        ck_assert_uint_ge(t.v4, 74000);
        ck_assert_uint_le(t.v4, 76000);
        ck_assert_uint_ge(t.scope[SCOPE_LOCAL], 97500);
        ck_assert_uint_ge(t.scope[SCOPE_INTERNET], 800); /* 1 % */
        ck_assert_uint_le(t.scope[SCOPE_INTERNET], 1200);
        ck_assert_uint_ge(t.scope[SCOPE_PEER], 400); /* 0.5 % */
        ck_assert_uint_le(t.scope[SCOPE_PEER], 600);
        ck_assert_uint_ge(t.scope[SCOPE_IDC] + t.scope[SCOPE_REGION], 400);
        ck_assert_uint_le(t.scope[SCOPE_IDC] + t.scope[SCOPE_REGION], 600);
    }
    free(open);
    free(keys);
    free(places);
    gen_free(g);
}
END_TEST

START_TEST(peers_are_tenants_without_peers_of_their_own)
{
    struct gen *g = make(9, 200000);
    uint32_t *places = places_of(g);
    bool *has_peer = calloc(gen_vni_count(g), sizeof(*has_peer));
    bool *is_peer = calloc(gen_vni_count(g), sizeof(*is_peer));
    uint32_t both = 0;
    struct entry e;

    while (gen_next(g, &e)) {
        if (e.table == TABLE_VXLAN_ROUTE && e.route.action.scope == SCOPE_PEER) {
            ck_assert_uint_ne(places[e.route.action.vni], 0);
            has_peer[places[e.vni] - 1] = true;
            is_peer[places[e.route.action.vni] - 1] = true;
        }
    }
    for (uint32_t i = 0; i < gen_vni_count(g); i++) {
        both += has_peer[i] && is_peer[i];
    }
    ck_assert_uint_eq(both, 0);
    free(has_peer);
    free(is_peer);
    free(places);
    gen_free(g);
}
END_TEST

/* Tenants and entries as text: what a file of them would say. */
static uint64_t fingerprint(struct gen *g)
{
    uint64_t sum = 0;
    struct entry e;

    for (uint32_t i = 0; i < gen_vni_count(g); i++) {
        gen_tenant(g, i, &e);
        ck_assert_int_eq(entry_check(&e, NULL), RC_OK);
        sum = sum * 31 + e.vni + e.tenant.flags;
    }
    while (gen_next(g, &e)) {
        struct buf b = BUF_INIT;
        struct row row;

        entry_pack_key(&e, &b);
        row.key = b.data;
        row.key_len = (uint8_t)b.len;
        row.value = NULL;
        row.value_len = 0;
        sum = sum * 31 + row_digest(e.table, e.vni, &row);
        buf_fini(&b);
    }
    return sum;
}

START_TEST(one_seed_is_one_stream_and_another_is_another)
{
    struct gen *a = make(3, 5000);
    struct gen *b = make(3, 5000);
    struct gen *c = make(4, 5000);
    uint64_t first = fingerprint(a);

    ck_assert_uint_eq(fingerprint(b), first);
    ck_assert_uint_ne(fingerprint(c), first);
    gen_rewind(a);
    ck_assert_uint_eq(fingerprint(a), first);
    gen_free(a);
    gen_free(b);
    gen_free(c);
}
END_TEST

START_TEST(nonsense_is_refused_with_a_reason)
{
    struct gen_config config;
    struct gen *g = NULL;
    struct err err = { 0 };

    gen_config_init(&config);
    config.routes = 7;
    ck_assert_int_eq(gen_new(&config, &g, &err), RC_RANGE);
    config.routes = 1000;
    config.data_dir = "/nowhere";
    ck_assert_int_eq(gen_new(&config, &g, &err), RC_NOT_FOUND);
    ck_assert_ptr_nonnull(strstr(err.msg, "/nowhere"));
    ck_assert_ptr_null(g);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("gen");

    tcase_set_timeout(tc, 120);
    tcase_add_test(tc, a_million_routes_have_the_shape_of_the_benches);
    tcase_add_loop_test(tc, every_entry_is_valid_and_no_key_comes_twice, 0, 3);
    tcase_add_test(tc, peers_are_tenants_without_peers_of_their_own);
    tcase_add_test(tc, one_seed_is_one_stream_and_another_is_another);
    tcase_add_test(tc, nonsense_is_refused_with_a_reason);
    return unit_run("gen", tc);
}
