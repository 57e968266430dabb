/* The mapping against a naive model under random churn, looked at after every single
 * write, in every order that the barriers allow; and read back in between. */
#include <string.h>

#include "tests/unit/agent/xgwh/rig.h"

enum { VNIS = 6, BATCH_ROWS = 60 };

/* A chip so small that 12 of its 32-bit keys collide all the time and its spill is in
 * use. */
static struct phys_sizes small_sizes(void)
{
    struct phys_sizes s = *phys_sizes_tofino();

    s.meters = 10;
    s.table[PHYS_VNI] = 64;
    s.table[PHYS_ROUTE_TCAM] = 512;
    s.table[PHYS_ROUTE_PART] = 2048;
    s.partitions = 512;
    s.partition_slots = 4;
    s.table[PHYS_VM_NC] = 30;
    s.table[PHYS_VM_NC_SPILL] = 400;
    s.table[PHYS_VM_NC_CONFLICT] = 400;
    return s;
}

static struct prefix random_prefix(struct rig *r)
{
    static const uint8_t bits4[] = { 0, 8, 9, 15, 16, 24, 31, 32 };
    static const uint8_t bits6[] = { 0, 1, 8, 32, 64, 80, 81, 95, 96, 127, 128 };
    struct prefix p = { 0 };

    if (rig_random(r, 2)) {
        p.addr = ip_v4(0x0a000000u | rig_random(r, 4) << 16 | rig_random(r, 4));
        p.len = bits4[rig_random(r, ARRAY_LEN(bits4))];
    } else {
        uint8_t b[16] = {
            0xfd, [7] = (uint8_t)rig_random(r, 3), [15] = (uint8_t)rig_random(r, 4)
        };

        memset(b, 0, rig_random(r, 3) == 0 ? 8 : 0); /* near ::/0 and the pool */
        p.addr = ip_v6(b);
        p.len = bits6[rig_random(r, ARRAY_LEN(bits6))];
        if (b[0] == 0 && p.len > 95) {
            p.len = 95;
        }
    }
    prefix_mask(&p);
    return p;
}

static struct ip random_nc(struct rig *r)
{
    uint8_t b[16] = { 0x20, 1, [15] = (uint8_t)(1 + rig_random(r, 9)) };

    return rig_random(r, 2) ? ip_v6(b) : ip_v4(0xac100001u + rig_random(r, 9));
}

static struct entry random_route(struct rig *r)
{
    static const uint8_t scopes[] = { SCOPE_LOCAL,   SCOPE_FALLBACK, SCOPE_PEER,
                                      SCOPE_IDC,     SCOPE_REGION,   SCOPE_INTERNET,
                                      SCOPE_SERVICE, SCOPE_DERIVED };
    struct entry e = { .table = TABLE_VXLAN_ROUTE, .vni = 1 + rig_random(r, VNIS) };
    struct route_action *a = &e.route.action;

    e.route.dst = random_prefix(r);
    a->scope = scopes[rig_random(r, ARRAY_LEN(scopes))];
    if (a->scope == SCOPE_PEER) {
        a->vni = 1 + (e.vni + rig_random(r, VNIS - 1)) % VNIS;
    } else if (a->scope == SCOPE_SERVICE) {
        snprintf(a->service, sizeof(a->service), "s%u", rig_random(r, 3));
    } else if (a->scope != SCOPE_LOCAL && a->scope != SCOPE_INTERNET &&
               a->scope != SCOPE_FALLBACK) {
        a->vni = 100 + rig_random(r, 3);
        a->endpoint = random_nc(r);
    }
    return e;
}

/* v6 addresses fall into 4 classes of 8 with one CRC32 each. */
static struct entry random_vm(struct rig *r)
{
    struct entry e = { .table = TABLE_VM_NC, .vni = 1 + rig_random(r, VNIS) };

    if (rig_random(r, 2)) {
        e.vm_nc.vm = ip_v4(0x0a000001u + rig_random(r, 24));
    } else {
        uint8_t b[16] = { 0xfd, [7] = (uint8_t)rig_random(r, 4), [15] = 1 };
        struct ip base = ip_v6(b);

        e.vm_nc.vm = collide(&base, rig_random(r, 8));
    }
    e.vm_nc.nc = random_nc(r);
    e.vm_nc.has_mac = rig_random(r, 40) == 0;
    e.vm_nc.mac[0] = e.vm_nc.has_mac ? 2 : 0;
    return e;
}

/* Now and then one moves to another half, or into both. */
static struct entry random_vni(struct rig *r)
{
    uint32_t vni = 1 + rig_random(r, VNIS);
    uint8_t half = r->places[vni];

    if (rig_random(r, 5) == 0) {
        half = (uint8_t)rig_random(r, VNI_HALF_COUNT);
    }
    return row_vni(vni, rig_random(r, 12) ? (uint8_t)rig_random(r, 4) : VNI_INNER_VLAN,
                   half);
}

/* Two of three are about ports, and half about the default of their family. */
static struct entry random_rule(struct rig *r)
{
    struct entry e = { .table = TABLE_ACL, .vni = 1 + rig_random(r, VNIS) };
    struct acl_match *m = &e.acl.match;

    e.acl.priority = (uint16_t)(1 + rig_random(r, 4));
    e.acl.action = (uint8_t)(1 + rig_random(r, 2));
    m->src = random_prefix(r);
    do {
        m->dst = random_prefix(r);
    } while (m->dst.addr.family != m->src.addr.family);
    m->sport = m->dport = (struct port_range){ 0, 65535 };
    m->has_proto = rig_random(r, 3) > 0;
    if (m->has_proto) {
        m->proto = rig_random(r, 2) ? IP_PROTO_TCP : IP_PROTO_UDP;
        m->dport.first = (uint16_t)(78 + rig_random(r, 4));
        m->dport.last = (uint16_t)(m->dport.first + rig_random(r, 4));
        m->sport.last = (uint16_t)(rig_random(r, 4) ? 65535 : 2);
    }
    return e;
}

static struct entry random_meter(struct rig *r)
{
    struct entry e = { .table = TABLE_METER, .vni = 1 + rig_random(r, VNIS) };

    e.meter.committed_bps = rig_random(r, 1000);
    e.meter.peak_bps = 1001 + rig_random(r, 1000);
    e.meter.committed_burst = METER_BURST_MIN + rig_random(r, 4);
    e.meter.peak_burst = 20000;
    return e;
}

static struct entry random_row(struct rig *r)
{
    switch (rig_random(r, 12)) {
    case 0:
        return random_vni(r);
    case 1:
    case 2:
    case 3:
    case 4:
        return random_route(r);
    case 5:
        return random_rule(r);
    case 6:
        return random_meter(r);
    default:
        return random_vm(r);
    }
}

/* Some of them one row, most a few, some many; rows that stand are met often. */
static void random_batch(struct rig *r)
{
    struct entry rows[BATCH_ROWS];
    uint8_t ops[BATCH_ROWS];
    unsigned count = rig_random(r, 4) ? 1 + rig_random(r, 6) : 1;

    count = rig_random(r, 20) ? count : BATCH_ROWS;
    for (unsigned i = 0; i < count; i++) {
        bool is_delete = rig_random(r, 100) < 48;

        rows[i] = is_delete && r->model.count > 0
                      ? r->model.at[rig_random(r, r->model.count)]
                      : random_row(r);
        ops[i] = is_delete ? BATCH_DELETE : BATCH_PUT;
        for (unsigned k = 0; k < i; k++) {
            if (memcmp(&rows[k], &rows[i], sizeof(rows[i])) == 0) {
                ops[i] = ops[k]; /* of one key the model knows one wish */
            }
        }
    }
    rig_apply(r, rows, ops, count);
}

/* What is refused here is what the chip cannot do, never for want of room. */
static void check_refusals(const struct rig *r)
{
    for (unsigned i = 0; i < r->exceptions.count; i++) {
        const struct exception *e = &r->exceptions.at[i];

        ck_assert_uint_eq(e->reason, EXCEPTION_REFUSED);
        ck_assert(e->table == TABLE_VM_NC || e->table == TABLE_VNI);
    }
}

/* A meter stands on the switch once its VNI does: else a read-back loses it. */
static void delete_homeless_meters(struct rig *r)
{
    for (uint32_t vni = 1; vni <= VNIS; vni++) {
        struct entry key = row_vni(vni, 0, 0);
        struct entry meter = { .table = TABLE_METER, .vni = vni };

        if (!model_find(&r->model, &key) && model_find(&r->model, &meter)) {
            rig_delete(r, &meter);
        }
    }
}

/* With the rows held before, a read-back of a healthy switch finds nothing to do. */
static void read_back(struct rig *r)
{
    struct xgwh_findings f;

    delete_homeless_meters(r);
    rig_read(r, r->x, &f);
    ck_assert_uint_eq(r->writes.count, 0);
    ck_assert_uint_eq(f.unnamed + f.foreign + f.dangling + f.orphans + f.duplicate +
                          f.split + f.changed + f.lost,
                      0);
    rig_check(r);
}

/* The switch forgets the half of a VNI together with its row. */
static bool has_lost_places(const struct rig *r)
{
    for (uint32_t vni = 1; r->halves == 2 && vni <= VNIS; vni++) {
        struct entry key = row_vni(vni, 0, 0);

        if (r->places[vni] != (vni & 1) && !model_find(&r->model, &key)) {
            return true;
        }
    }
    return false;
}

/* An agent that starts knows no names; the controller sends what is missing, and that
 * writes nothing. */
static void start_anew(struct rig *r)
{
    struct xgwh *x = rig_new(r);
    struct xgwh_findings f;
    struct xgwh_sink sink;
    uint8_t put = BATCH_PUT;
    unsigned writes = 0;

    delete_homeless_meters(r);
    rig_read(r, x, &f);
    ck_assert_uint_eq(r->writes.count, 0);
    xgwh_free(r->x);
    r->x = x;
    for (unsigned i = 0; i < r->model.count; i++) {
        struct entry e = r->model.at[i];

        rig_apply(r, &e, &put, 1);
        ck_assert_uint_eq(r->exceptions.count, 0);
        writes += r->writes.count;
    }
    /* ... but meters, whose configuration was not read. */
    sink = rig_sink(r);
    ck_assert_int_eq(xgwh_sweep(x, &sink, NULL, NULL), RC_OK);
    rig_follow(r);
    ck_assert_uint_eq(xgwh_status(x).unnamed, 0);
    /* A key that another claimed first costs its owner an entry of its own. */
    ck_assert_uint_le(writes + r->writes.count, f.unnamed);
    rig_check(r);
}

static void churn(unsigned halves, uint64_t seed, unsigned batches)
{
    struct phys_sizes sizes = small_sizes();
    struct rig r;

    rig_init(&r, &sizes, halves);
    r.seed = seed;
    r.is_unordered = true;
    for (unsigned i = 0; i < 8; i++) {
        struct entry e = random_row(&r);

        model_put(&r.probes, &e);
    }
    for (unsigned i = 0; i < batches; i++) {
        random_batch(&r);
        check_refusals(&r);
        if (i % 64 == 63) {
            rig_check(&r);
        }
        if (i % 512 == 300) {
            read_back(&r);
        }
        if (i % 256 == 200 && !has_lost_places(&r)) {
            start_anew(&r);
        }
    }
    rig_check(&r);
    printf("halves %u: %llu lookups, %llu strangers\n", halves,
           (unsigned long long)r.lookups, (unsigned long long)r.strangers);
    while (r.model.count > 0) {
        struct entry e = r.model.at[0];

        rig_delete(&r, &e);
    }
    rig_check(&r);
    for (unsigned half_ = 0; half_ < halves; half_++) {
        for (unsigned t = 0; t < PHYS_TABLES; t++) {
            ck_assert_uint_eq(r.soft->tables[half_][t].count, 0);
        }
    }
    rig_fini(&r);
}

static const uint64_t seeds[] = { 1, 2, 3, 4 };

START_TEST(every_lookup_between_two_writes_gets_the_old_or_the_new_answer)
{
    churn(2, seeds[_i], 2500);
}
END_TEST

START_TEST(the_same_without_halves)
{
    churn(1, seeds[_i] + 100, 1500);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("xgwh_churn");

    tcase_set_timeout(tc, 250);
    tcase_add_loop_test(tc,
                        every_lookup_between_two_writes_gets_the_old_or_the_new_answer,
                        0, ARRAY_LEN(seeds));
    tcase_add_loop_test(tc, the_same_without_halves, 0, ARRAY_LEN(seeds));
    return unit_run("xgwh_churn", tc);
}
