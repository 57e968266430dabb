/* A full table of the internet in one VNI, and churn in it, against a linear scan. */
#include "tests/bench/gen_prefixes.h"
#include "tests/unit/agent/fwd/region.h"

enum { VNI = 77, BATCHES = 4, ROUNDS = 6, ASKED = 64 };

struct table {
    struct prefix *at;
    bool *stands;
    uint32_t count;
};

static void table_of(struct table *t, const struct gen_prefixes *p)
{
    t->count = p->v4.count + p->v6.count;
    t->at = malloc(t->count * sizeof *t->at);
    t->stands = calloc(t->count, sizeof *t->stands);
    ck_assert(t->at && t->stands);
    memcpy(t->at, p->v4.at, p->v4.count * sizeof *t->at);
    memcpy(t->at + p->v4.count, p->v6.at, p->v6.count * sizeof *t->at);
}

/* Route number i peers to VNI 1000 + i, where nothing is: the answer names the route
 * by its VNI. */
static struct entry table_entry(const struct table *t, uint32_t i)
{
    struct entry e = { .table = TABLE_VXLAN_ROUTE, .vni = VNI };

    e.route.dst = t->at[i];
    e.route.action.scope = SCOPE_PEER;
    e.route.action.vni = 1000 + i;
    return e;
}

static uint32_t scan(const struct table *t, const struct ip *ip)
{
    uint32_t best = t->count;

    for (uint32_t i = 0; i < t->count; i++) {
        if (t->stands[i] && prefix_contains(&t->at[i], ip) &&
            (best == t->count || t->at[i].len > t->at[best].len)) {
            best = i;
        }
    }
    return best;
}

/* Half of the addresses random, half at random places of random prefixes. */
static struct ip address(const struct table *t, uint64_t *seed, unsigned i)
{
    const struct prefix *p = &t->at[random_below(seed, t->count)];
    struct ip ip = p->addr;
    unsigned from = i % 4 < 2 ? p->len : 8;

    for (unsigned bit = from; bit < ip_size(&ip) * 8; bit++) {
        uint8_t mask = (uint8_t)(0x80 >> bit % 8);
        bool is_set = i % 4 == 0 ? random_below(seed, 2) : i % 4 == 1;

        ip.b[bit / 8] = is_set ? ip.b[bit / 8] | mask : ip.b[bit / 8] & (uint8_t)~mask;
    }
    return ip;
}

static void check(struct region *r, const struct table *t, uint64_t *seed)
{
    struct fib_query q[ASKED];
    struct ip ip[ASKED];

    for (unsigned i = 0; i < ASKED; i++) {
        ip[i] = address(t, seed, i);
        q[i] = query_of(VNI, &ip[i]);
    }
    fib_resolve_burst(r->fib, q, ASKED);
    for (unsigned i = 0; i < ASKED; i++) {
        uint32_t want = scan(t, &ip[i]);

        ck_assert_uint_eq(q[i].kind, FIB_DROP_ROUTE_MISS);
        ck_assert_uint_eq(q[i].out_vni, want < t->count ? 1000 + want : VNI);
        ck_assert_uint_eq(q[i].lookups, want < t->count ? 2 : 1);
    }
}

static void run(const struct gen_prefixes *p)
{
    struct region r;
    struct table t;
    struct entry vni = vni_entry(VNI, 0);
    uint64_t seed = 11;

    table_of(&t, p);
    region_init(&r, NULL);
    region_queue(&r, ENTRY_PUT, &vni);
    for (unsigned part = 0; part < BATCHES; part++) {
        for (uint32_t i = part; i < t.count; i += BATCHES) {
            struct entry e = table_entry(&t, i);

            region_queue(&r, ENTRY_PUT, &e);
            t.stands[i] = true;
        }
        region_commit(&r, UINT64_MAX);
        ck_assert_int_eq(r.rc, RC_OK);
        check(&r, &t, &seed);
    }
    for (unsigned round = 0; round < ROUNDS; round++) {
        for (unsigned n = 0; n < 2000; n++) {
            uint32_t i = random_below(&seed, t.count);
            struct entry e = table_entry(&t, i);

            t.stands[i] = random_below(&seed, 2);
            region_queue(&r, t.stands[i] ? ENTRY_PUT : ENTRY_DELETE, &e);
        }
        region_commit(&r, UINT64_MAX);
        ck_assert_int_eq(r.rc, RC_OK);
        check(&r, &t, &seed);
    }
    region_audit(&r);
    region_fini(&r);
    free(t.at);
    free(t.stands);
}

START_TEST(a_full_table_in_one_vni_answers_as_a_scan_under_churn)
{
    const char *dir = getenv("XGW_DATA");
    struct gen_prefixes p = { 0 };
    struct err err = { 0 };

    if (gen_prefixes_read(dir ? dir : "../shared/data", &p, &err)) {
        printf("skipped: no full table: %s\n", err.msg);
        return;
    }
    run(&p);
    gen_prefixes_fini(&p);
}
END_TEST

START_TEST(a_made_up_table_in_one_vni_answers_as_a_scan_under_churn)
{
    struct gen_prefixes p = { 0 };

    ck_assert_int_eq(gen_prefixes_make(3, 20000, &p, NULL), RC_OK);
    run(&p);
    gen_prefixes_fini(&p);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("fib_table");

    tcase_set_timeout(tc, 240);
    tcase_add_test(tc, a_full_table_in_one_vni_answers_as_a_scan_under_churn);
    tcase_add_test(tc, a_made_up_table_in_one_vni_answers_as_a_scan_under_churn);
    return unit_run("fib_table", tc);
}
