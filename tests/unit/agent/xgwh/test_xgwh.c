/* What the mapping promises, rule by rule: full tables, refusals, configuration, state,
 * keys.  test_xgwh_churn and test_xgwh_read have the properties. */
#include <string.h>

#include "agent/xgwh/phys_make.h"
#include "tests/unit/agent/xgwh/rig.h"

static struct ip base_v6(void)
{
    return ip_v6((const uint8_t[16]){ 0xfd, [15] = 1 });
}

/* ---- keys ---- */

START_TEST(crc32_is_that_of_zlib)
{
    uint8_t bytes[16];

    ck_assert_uint_eq(phys_crc32((const uint8_t *)"123456789", 9), 0xcbf43926);
    for (unsigned i = 0; i < 1000; i++) {
        for (unsigned k = 0; k < 16; k++) {
            bytes[k] = (uint8_t)(i * 37 + k * i * 11 + k);
        }
        ck_assert_uint_eq(phys_crc32(bytes, 16), soft_crc32(bytes, 16));
    }
}
END_TEST

START_TEST(addresses_that_collide_are_all_found)
{
    struct phys_sizes sizes = *phys_sizes_tofino();
    struct ip base = base_v6();
    struct rig r;

    rig_init(&r, &sizes, 2);
    for (unsigned i = 0; i < 20; i++) {
        struct entry e = row_vm(3, "10.0.0.1", "172.16.0.1");

        e.vm_nc.vm = collide(&base, i);
        e.vm_nc.nc.b[3] = (uint8_t)(1 + i);
        ck_assert_uint_eq(soft_crc32(e.vm_nc.vm.b, 16), soft_crc32(base.b, 16));
        rig_put(&r, &e);
    }
    ck_assert_uint_eq(r.soft->tables[1][PHYS_VM_NC].count, 1);
    ck_assert_uint_eq(r.soft->tables[1][PHYS_VM_NC_CONFLICT].count, 19);
    rig_check(&r);
    while (r.model.count > 0) {
        struct entry e = r.model.at[0];

        rig_delete(&r, &e);
        rig_check(&r);
    }
    rig_fini(&r);
}
END_TEST

/* ---- what a chip cannot do ---- */

START_TEST(what_the_chip_cannot_do_is_refused_and_writes_nothing)
{
    struct phys_sizes sizes = *phys_sizes_tofino();
    struct entry mac = row_vm(3, "10.0.0.1", "172.16.0.1");
    struct entry vlan = row_vni(3, VNI_INNER_VLAN, 1);
    struct rig r;

    mac.vm_nc.has_mac = true;
    mac.vm_nc.mac[0] = 2;
    rig_init(&r, &sizes, 2);
    rig_put(&r, &mac);
    ck_assert_uint_eq(r.exceptions.count, 1);
    ck_assert_uint_eq(r.exceptions.at[0].reason, EXCEPTION_REFUSED);
    ck_assert_uint_eq(r.writes.count, 0);
    rig_put(&r, &vlan);
    ck_assert_uint_eq(r.exceptions.count, 1);
    ck_assert_uint_eq(r.exceptions.at[0].reason, EXCEPTION_REFUSED);
    ck_assert_uint_eq(r.writes.count, 0);
    rig_check(&r);
    rig_fini(&r);
}
END_TEST

START_TEST(a_batch_that_is_none_changes_nothing)
{
    struct phys_sizes sizes = *phys_sizes_tofino();
    struct entry tenant = { .table = TABLE_TENANT, .vni = 3 };
    struct batch_writer w;
    struct xgwh_exceptions x = { 0 };
    struct xgwh_sink sink;
    struct blob *b;
    struct rig r;

    rig_init(&r, &sizes, 2);
    sink = rig_sink(&r);
    ck_assert_int_eq(xgwh_apply(r.x, (const uint8_t *)"abc", 3, &sink, &x, NULL, NULL),
                     RC_INVALID);
    strcpy(tenant.tenant.cluster, "c");
    batch_writer_init(&w);
    batch_add_entry(&w, ENTRY_PUT, &tenant);
    b = batch_writer_finish(&w);
    ck_assert_int_eq(xgwh_apply(r.x, b->data, b->len, &sink, &x, NULL, NULL),
                     RC_INVALID);
    ck_assert_uint_eq(r.writes.count, 0);
    blob_unref(b);
    batch_writer_fini(&w);
    rig_fini(&r);
}
END_TEST

/* ---- full tables ---- */

enum full {
    FULL_VNI,
    FULL_VM,
    FULL_CONFLICT,
    FULL_ROUTES,
    FULL_NC,
    FULL_ACL,
    FULL_METER
};

static struct phys_sizes tiny(void)
{
    struct phys_sizes s = *phys_sizes_tofino();

    s.table[PHYS_VNI] = 20;
    s.table[PHYS_VM_NC] = 20;
    s.table[PHYS_VM_NC_SPILL] = 20;
    s.table[PHYS_VM_NC_CONFLICT] = 10;
    s.table[PHYS_ROUTE_TCAM] = 8;
    s.table[PHYS_ROUTE_PART] = 32;
    s.partitions = 8;
    s.partition_slots = 4;
    s.table[PHYS_NC] = 16;
    s.table[PHYS_ACL] = 12;
    s.meters = 8;
    return s;
}

/* The n-th row that goes into the table. */
static struct entry nth(enum full which, unsigned n)
{
    struct entry e = row_vm(3, "10.0.0.1", "172.16.0.1");
    struct ip base = base_v6();

    switch (which) {
    case FULL_VNI:
        return row_vni(1 + n, 0, (1 + n) & 1);
    case FULL_VM:
        e.vm_nc.vm.b[3] = (uint8_t)(1 + n);
        return e;
    case FULL_CONFLICT:
        e.vm_nc.vm = collide(&base, n);
        return e;
    case FULL_ROUTES:
        e = row_local(3, "10.0.0.0/32");
        e.route.dst.addr.b[2] = (uint8_t)(n * 7);
        e.route.dst.addr.b[3] = (uint8_t)n;
        return e;
    case FULL_NC:
        e.vm_nc.vm.b[3] = (uint8_t)(1 + n);
        e.vm_nc.nc.b[3] = (uint8_t)(1 + n);
        return e;
    case FULL_ACL:
        e = (struct entry){ .table = TABLE_ACL, .vni = 3 };
        e.acl.priority = (uint16_t)(1 + n);
        e.acl.action = ACL_DENY;
        e.acl.match.src = e.acl.match.dst = row_local(3, "10.0.0.0/8").route.dst;
        e.acl.match.has_proto = true;
        e.acl.match.proto = IP_PROTO_UDP;
        e.acl.match.sport = (struct port_range){ 0, 65535 };
        e.acl.match.dport = (struct port_range){ 3, 4 }; /* two entries */
        return e;
    default:
        e = (struct entry){ .table = TABLE_METER, .vni = 1 + n };
        e.meter = (struct meter){ 8, 8, 10000, 10000 };
        return e;
    }
}

/* How many rows fit: what the sizes and the load say. */
static const struct {
    enum full which;
    unsigned fit; /* 0: some, but not all */
} full_cases[] = {
    { FULL_VNI, 17 },     /* 20 x 0.877 */
    { FULL_VM, 34 },      /* 17 in each of both parts */
    { FULL_CONFLICT, 9 }, /* one has the key, 10 x 0.877 the rest */
    { FULL_ROUTES, 0 },   /* how many depends on how they are carved */
    { FULL_NC, 8 },       /* one family's share of 16 */
    { FULL_ACL, 6 },      /* 12 entries */
    { FULL_METER, 7 },    /* index 0 is none */
};

START_TEST(a_row_too_many_is_an_exception_and_fits_once_there_is_room)
{
    struct phys_sizes sizes = tiny();
    struct entry first = nth(full_cases[_i].which, 0);
    struct entry both[2];
    uint8_t ops[2] = { BATCH_PUT, BATCH_DELETE };
    unsigned n = 0;
    struct rig r;

    rig_init(&r, &sizes, 2);
    for (; n < 60; n++) {
        struct entry e = nth(full_cases[_i].which, n);

        rig_put(&r, &e);
        if (r.exceptions.count > 0) {
            break;
        }
        rig_check(&r);
    }
    ck_assert_uint_eq(r.exceptions.count, 1);
    ck_assert_uint_eq(r.exceptions.at[0].reason, EXCEPTION_FULL);
    ck_assert_uint_eq(r.writes.count, 0);
    ck_assert(full_cases[_i].fit == 0 ? n > 4 : n == full_cases[_i].fit);
    rig_check(&r);
    /* In one batch with a delete, the put finds the room; among routes it depends on
     * where that is. */
    for (unsigned i = 1; full_cases[_i].fit == 0 && i < n; i += 2) {
        struct entry e = nth(full_cases[_i].which, i);

        rig_delete(&r, &e);
    }
    both[0] = nth(full_cases[_i].which, n);
    both[1] = first;
    rig_apply(&r, both, ops, 2);
    ck_assert_uint_eq(r.exceptions.count, 0);
    rig_check(&r);
    rig_fini(&r);
}
END_TEST

static struct entry meter_of_vni(uint32_t vni, uint64_t bps)
{
    struct entry e = { .table = TABLE_METER, .vni = vni };

    e.meter = (struct meter){ bps, bps, 10000, 10000 };
    return e;
}

/* VNIs from 1 to `last` that have an index of their own. */
static unsigned count_counted(const struct rig *r, uint32_t last)
{
    unsigned n = 0;
    uint32_t index;

    for (uint32_t vni = 1; (vni = xgwh_counted_next(r->x, vni, &index)) != 0; vni++) {
        ck_assert_uint_le(vni, last);
        ck_assert_uint_eq(index, xgwh_counted_index(r->x, vni));
        n++;
    }
    return n;
}

/* 7 indexes, 10 VNIs. */
START_TEST(vnis_are_counted_while_there_are_indexes_and_give_them_back_to_meters)
{
    struct phys_sizes sizes = tiny();
    struct entry meters[7];
    uint8_t ops[7];
    struct rig r;

    rig_init(&r, &sizes, 2);
    r.is_unordered = true;
    for (uint32_t vni = 1; vni <= 10; vni++) {
        struct entry e = row_vni(vni, 0, vni & 1);

        rig_put(&r, &e);
        rig_check(&r);
        ck_assert_uint_eq(count_counted(&r, 10), vni < 7 ? vni : 7);
    }
    ck_assert_uint_eq(xgwh_status(r.x).usage.meters, 0);
    /* One that is counted: its own index, no other entry is touched. */
    meters[0] = meter_of_vni(2, 800);
    rig_put(&r, &meters[0]);
    ck_assert_uint_eq(r.writes.count, 1);
    rig_check(&r);
    /* One that is not: somebody else's. */
    meters[0] = meter_of_vni(9, 800);
    rig_put(&r, &meters[0]);
    ck_assert_uint_eq(r.exceptions.count, 0);
    ck_assert_uint_ne(xgwh_counted_index(r.x, 9), 0);
    ck_assert_uint_eq(count_counted(&r, 10), 7);
    rig_check(&r);
    /* All that there are, in one batch; then no more. */
    for (uint32_t i = 0; i < 5; i++) {
        meters[i] = meter_of_vni(3 + i, 8000);
        ops[i] = BATCH_PUT;
    }
    rig_apply(&r, meters, ops, 5);
    ck_assert_uint_eq(r.exceptions.count, 0);
    ck_assert_uint_eq(xgwh_status(r.x).usage.meters, 7);
    rig_check(&r);
    meters[0] = meter_of_vni(1, 800);
    rig_put(&r, &meters[0]);
    ck_assert_uint_eq(r.exceptions.count, 1);
    rig_check(&r);
    /* Who loses its meter is counted still, and lets everything pass; an index that is
     * free goes to one that had none. */
    rig_delete(&r, &meters[1]);
    ck_assert_uint_ne(xgwh_counted_index(r.x, 4), 0);
    rig_check(&r);
    meters[0] = row_vni(4, 0, 0);
    rig_delete(&r, &meters[0]);
    rig_apply(&r, NULL, NULL, 0);
    ck_assert_uint_eq(count_counted(&r, 10), 7);
    rig_check(&r);
    rig_fini(&r);
}
END_TEST

START_TEST(a_new_agent_tells_who_is_metered_from_who_is_counted)
{
    struct phys_sizes sizes = tiny();
    struct entry meter = meter_of_vni(2, 800);
    struct xgwh_findings f;
    struct xgwh *x;
    struct rig r;

    rig_init(&r, &sizes, 2);
    for (uint32_t vni = 1; vni <= 3; vni++) {
        struct entry e = row_vni(vni, 0, vni & 1);

        rig_put(&r, &e);
    }
    rig_put(&r, &meter);
    x = rig_new(&r);
    rig_read(&r, x, &f);
    ck_assert_uint_eq(r.writes.count + r.writes.meter_count, 0);
    ck_assert_uint_eq(f.unnamed, 1); /* what the meter says */
    for (uint32_t vni = 1; vni <= 3; vni++) {
        ck_assert_uint_eq(xgwh_counted_index(x, vni), xgwh_counted_index(r.x, vni));
    }
    xgwh_free(r.x);
    r.x = x;
    rig_put(&r, &meter);
    ck_assert_uint_eq(r.writes.count, 0);
    rig_check(&r);
    rig_fini(&r);
}
END_TEST

/* Somebody wrote that VNI 1, which has no meter, has the index of VNI 2, which has. */
START_TEST(a_vni_found_at_a_meters_index_is_not_held_back_by_it)
{
    struct phys_sizes sizes = tiny();
    struct entry meter = meter_of_vni(2, 800);
    struct xgwh_findings f;
    struct phys_write w = { .op = PHYS_MODIFY };
    struct rig r;

    rig_init(&r, &sizes, 1);
    for (uint32_t vni = 1; vni <= 2; vni++) {
        struct entry e = row_vni(vni, 0, 0);

        rig_put(&r, &e);
    }
    rig_put(&r, &meter);
    w.entry = phys_make(PHYS_VNI, PHYS_BOTH, 0);
    phys_set_key(&w.entry, 0, 1);
    phys_set_action(&w.entry, PHYS_SET_VNI);
    phys_set_param(&w.entry, 2, xgwh_counted_index(r.x, 2));
    ck_assert_ptr_null(soft_write(r.soft, 0, &w));
    rig_read(&r, r.x, &f);
    r.is_disturbed = true;
    rig_follow(&r);
    r.is_disturbed = false;
    rig_put(&r, &meter); /* if it was lost, the controller sends it again */
    ck_assert_uint_eq(r.exceptions.count, 0);
    rig_check(&r);
    rig_fini(&r);
}
END_TEST

START_TEST(what_was_spilled_moves_back_when_there_is_room)
{
    struct phys_sizes sizes = tiny();
    struct xgwh_status s;
    struct rig r;

    rig_init(&r, &sizes, 2);
    for (unsigned n = 0; n < 30; n++) {
        struct entry e = nth(FULL_VM, n);

        rig_put(&r, &e);
    }
    s = xgwh_status(r.x);
    ck_assert_uint_eq(s.usage.used[PHYS_VM_NC][1], 17);
    ck_assert_uint_eq(s.usage.used[PHYS_VM_NC_SPILL][1], 13);
    for (unsigned n = 0; n < 10; n++) {
        struct entry e = nth(FULL_VM, n);

        rig_delete(&r, &e);
    }
    rig_apply(&r, NULL, NULL, 0);
    s = xgwh_status(r.x);
    ck_assert_uint_eq(s.usage.used[PHYS_VM_NC][1], 17);
    ck_assert_uint_eq(s.usage.used[PHYS_VM_NC_SPILL][1], 3);
    rig_check(&r);
    rig_fini(&r);
}
END_TEST

START_TEST(a_large_batch_has_few_barriers)
{
    enum { ROWS = 1000 };
    struct phys_sizes sizes = *phys_sizes_tofino();
    struct entry *rows = calloc(2 * ROWS, sizeof(*rows));
    uint8_t ops[2 * ROWS];
    struct rig r;

    rig_init(&r, &sizes, 2);
    for (unsigned i = 0; i < ROWS; i++) {
        rows[2 * i] = row_vm(3 + i % 7, "10.0.0.1", "172.16.0.1");
        rows[2 * i].vm_nc.vm.b[2] = (uint8_t)(i >> 8);
        rows[2 * i].vm_nc.vm.b[3] = (uint8_t)i;
        rows[2 * i].vm_nc.nc.b[3] = (uint8_t)(1 + i % 50);
        rows[2 * i + 1] = row_local(3 + i % 7, "10.0.0.0/32");
        rows[2 * i + 1].route.dst.addr.b[2] = (uint8_t)(i >> 8);
        rows[2 * i + 1].route.dst.addr.b[3] = (uint8_t)i;
    }
    memset(ops, BATCH_PUT, sizeof(ops));
    rig_batch(&r, rows, ops, 2 * ROWS);
    ck_assert_uint_eq(r.exceptions.count, 0);
    ck_assert_uint_eq(r.cost.rows, 2 * ROWS);
    ck_assert_uint_le(r.cost.barriers, 14); /* a re-pack has some of its own */
    free(rows);
    rig_fini(&r);
}
END_TEST

/* Each VNI's default calls for a guard; both halves, and all VNIs, go together. */
START_TEST(a_batch_of_many_ipv6_defaults_has_few_barriers)
{
    enum { ROWS = 200 };
    struct phys_sizes sizes = *phys_sizes_tofino();
    struct entry rows[ROWS];
    uint8_t ops[ROWS];
    struct rig r;

    rig_init(&r, &sizes, 2);
    for (unsigned i = 0; i < ROWS; i++) {
        rows[i] = row_local(10 + i, "::/0");
    }
    memset(ops, BATCH_PUT, sizeof(ops));
    rig_batch(&r, rows, ops, ROWS);
    ck_assert_uint_eq(r.exceptions.count, 0);
    ck_assert_uint_eq(xgwh_status(r.x).guards, ROWS);
    ck_assert_uint_le(r.cost.barriers, 8);
    rig_fini(&r);
}
END_TEST

/* VNI 3's four IPv4 routes fill a row that its guard would be in; its default would be
 * in the row above, where there is room. */
START_TEST(an_ipv6_default_without_room_for_its_guard_is_refused)
{
    static const char *const routes[] = { "10.0.0.0/24",     "10.0.1.0/24",
                                          "10.0.2.0/24",     "10.0.3.0/24",
                                          "2001:db8::1/128", "2001:db8::2/128" };
    struct phys_sizes sizes = tiny();
    struct entry v6_default = row_local(3, "::/0");
    struct rig r;

    rig_init(&r, &sizes, 2);
    for (unsigned i = 0; i < ARRAY_LEN(routes); i++) {
        struct entry e = row_local(3, routes[i]);

        rig_put(&r, &e);
    }
    for (unsigned n = 0; r.exceptions.count == 0; n++) {
        struct entry e = nth(FULL_ROUTES, n);

        e.vni = 5;
        rig_put(&r, &e);
    }
    for (unsigned i = 4; i < 6; i++) {
        struct entry gone = row_local(3, routes[i]);

        rig_delete(&r, &gone);
        rig_put(&r, &v6_default);
        ck_assert_uint_eq(r.exceptions.count, 1);
        ck_assert_uint_eq(r.exceptions.at[0].reason, EXCEPTION_FULL);
        ck_assert_uint_eq(xgwh_status(r.x).guards, 0);
        rig_check(&r);
    }
    rig_fini(&r);
}
END_TEST

/* ---- configuration ---- */

static struct xgwh_config config_of_test(const struct prefix *sources)
{
    struct xgwh_config c = { .digest = 5,
                             .own_count = 2,
                             .own = { ip_v4(0x0a000001), base_v6() },
                             .source_v4 = ip_v4(0x0a000002),
                             .source_v6 = base_v6(),
                             .source_count = 1,
                             .sources = sources,
                             .uplink_count = 3,
                             .member_count = 2 };

    for (unsigned i = 0; i < 3; i++) {
        c.uplinks[i] = (struct xgwh_uplink){ .port = (uint16_t)(8 + i),
                                             .weight = 1,
                                             .has_v4 = true,
                                             .has_v6 = i > 0,
                                             .smac = { 2, (uint8_t)i } };
    }
    c.members[0] = (struct xgwh_member){ .v4 = ip_v4(0x0a000010), .weight = 3 };
    c.members[1] = (struct xgwh_member){ .v4 = ip_v4(0x0a000011), .weight = 1 };
    return c;
}

/* How many buckets of a table and family have this port or member address. */
static unsigned buckets(const struct rig *r, enum phys_table table, bool is_v4,
                        uint64_t value)
{
    const struct soft_table *t = &r->soft->tables[1][table];
    unsigned n = 0;

    for (unsigned i = 0; i < t->count; i++) {
        n += soft_key(&t->at[i], 0) == is_v4 && soft_param(&t->at[i], 0) == value;
    }
    return n;
}

static void configure(struct rig *r, const struct xgwh_config *c)
{
    struct xgwh_sink sink = rig_sink(r);

    ck_assert_int_eq(xgwh_configure(r->x, c, &sink, NULL, NULL), RC_OK);
    rig_follow(r);
    rig_check(r);
}

/* 1,000,001 bytes/s of the whole node: what both halves let pass, each for itself, is
 * that, to a byte; with one half it is all of that half's. */
START_TEST(the_nodes_fallback_meter_is_shared_out_to_its_halves)
{
    struct phys_sizes sizes = *phys_sizes_tofino();
    struct prefix source = row_local(1, "10.0.0.0/8").route.dst;
    struct xgwh_config c = config_of_test(&source);

    c.fallback_class[PHYS_CLASS_MISS] =
        (struct phys_meter_config){ 1000001, 20000, 1000001, 20000 };
    for (unsigned halves = 1; halves <= 2; halves++) {
        unsigned seen = 0;
        struct rig r;

        rig_init(&r, &sizes, halves);
        configure(&r, &c);
        for (unsigned i = 0; i < r.writes.meter_count; i++) {
            const struct phys_meter_write *w = &r.writes.meters[i];

            if (w->meter == PHYS_METER_FB_CLASS && w->index == PHYS_CLASS_MISS) {
                ck_assert_uint_eq(w->config.cir, halves == 1 ? 1000001 : 500001);
                ck_assert_uint_eq(w->config.pir, halves == 1 ? 1000001 : 500001);
                ck_assert_uint_eq(w->config.pburst, 20000);
                seen++;
            }
        }
        ck_assert_uint_eq(seen, 1);
        rig_fini(&r);
    }
}
END_TEST

/* Into an xgwh that knows nothing: all entries, and of the fallback's meters what
 * `cells` wrote. */
static void read_anew(struct rig *r, const struct phys_meter_write *cells,
                      unsigned count)
{
    struct xgwh_findings f;
    struct xgwh_sink sink;

    xgwh_free(r->x);
    r->x = rig_new(r);
    sink = rig_sink(r);
    ck_assert_int_eq(xgwh_read_begin(r->x), RC_OK);
    for (unsigned half = 0; half < r->halves; half++) {
        for (unsigned t = 0; t < PHYS_TABLES; t++) {
            for (unsigned i = 0; i < r->soft->tables[half][t].count; i++) {
                struct phys_entry e = r->soft->tables[half][t].at[i];

                e.half = (uint8_t)half;
                ck_assert_int_eq(xgwh_read_entry(r->x, &e), RC_OK);
            }
        }
        for (unsigned i = 0; i < count; i++) {
            xgwh_read_meter(r->x, (enum phys_meter)cells[i].meter, half, cells[i].index,
                            &cells[i].config);
        }
    }
    ck_assert_int_eq(xgwh_read_end(r->x, &sink, &f, NULL), RC_OK);
}

START_TEST(fallback_meters_that_are_read_as_they_should_be_are_not_written)
{
    struct phys_sizes sizes = *phys_sizes_tofino();
    struct prefix source = row_local(1, "10.0.0.0/8").route.dst;
    struct xgwh_config c = config_of_test(&source);
    struct phys_meter_write *cells;
    struct rig r;
    unsigned count;

    c.fallback_class[PHYS_CLASS_MISS] =
        (struct phys_meter_config){ 1000001, 20000, 1000001, 20000 };
    c.fallback_tenant[PHYS_CLASS_SERVICE] =
        (struct phys_meter_config){ 1000, 20000, 2000, 20000 };
    rig_init(&r, &sizes, 2);
    configure(&r, &c);
    count = r.writes.meter_count;
    ck_assert_uint_eq(count, 2 + 2 * sizes.fallback_buckets);
    cells = malloc(count * sizeof(*cells));
    memcpy(cells, r.writes.meters, count * sizeof(*cells));

    read_anew(&r, cells, count);
    configure(&r, &c);
    ck_assert_uint_eq(r.writes.meter_count, 0);

    cells[count - 1].config.pir++; /* one bucket is another: all of its class's */
    read_anew(&r, cells, count);
    configure(&r, &c);
    ck_assert_uint_eq(r.writes.meter_count, sizes.fallback_buckets);

    read_anew(&r, cells, count - 1); /* one was not told */
    configure(&r, &c);
    ck_assert_uint_eq(r.writes.meter_count, sizes.fallback_buckets);
    free(cells);
    rig_fini(&r);
}
END_TEST

START_TEST(a_configuration_fills_the_buckets_and_is_written_once)
{
    struct phys_sizes sizes = *phys_sizes_tofino();
    struct prefix source = row_local(1, "10.0.0.0/8").route.dst;
    struct xgwh_config c = config_of_test(&source);
    struct xgwh_sink sink;
    struct rig r;

    rig_init(&r, &sizes, 2);
    configure(&r, &c);
    ck_assert_uint_eq(r.soft->tables[0][PHYS_VTEP].count, 0); /* not ready yet */
    ck_assert_uint_eq(r.soft->tables[0][PHYS_SOURCE].count, 1);
    ck_assert_uint_eq(r.soft->tables[1][PHYS_NEXT_HOP].count, 512);
    ck_assert_uint_eq(r.soft->tables[1][PHYS_PORT_OUT].count, 2 * (3 + 2));
    ck_assert_uint_eq(r.soft->tables[1][PHYS_FALLBACK].count, 1024); /* no v6 member */
    ck_assert_uint_ge(buckets(&r, PHYS_NEXT_HOP, true, 8), 85);
    ck_assert_uint_eq(buckets(&r, PHYS_NEXT_HOP, false, 9), 128);
    ck_assert_uint_eq(buckets(&r, PHYS_FALLBACK, true, PHYS_NC_RESERVED), 768);
    ck_assert_uint_eq(r.writes.meter_count, 2 + 2 * sizes.fallback_buckets);
    configure(&r, &c);
    ck_assert_uint_eq(r.writes.count + r.writes.meter_count, 0);

    sink = rig_sink(&r);
    ck_assert(!xgwh_is_ready(r.x));
    ck_assert_int_eq(xgwh_set_ready(r.x, &sink, NULL, NULL), RC_OK);
    rig_follow(&r);
    ck_assert(xgwh_is_ready(r.x));
    ck_assert_uint_eq(r.soft->tables[0][PHYS_VTEP].count, 2);
    rig_check(&r);
    rig_fini(&r);
}
END_TEST

START_TEST(an_uplink_that_goes_moves_its_own_buckets_only)
{
    struct phys_sizes sizes = *phys_sizes_tofino();
    struct xgwh_config c = config_of_test(NULL);
    unsigned had;
    struct rig r;

    c.source_count = 0;
    rig_init(&r, &sizes, 2);
    configure(&r, &c);
    had = buckets(&r, PHYS_NEXT_HOP, true, 8);
    c.uplinks[0] = c.uplinks[2];
    c.uplink_count = 2;
    configure(&r, &c);
    for (unsigned i = 0; i < r.writes.count; i++) {
        const struct phys_entry *e = &r.writes.at[i].entry;

        ck_assert(e->table == PHYS_NEXT_HOP || e->table == PHYS_PORT_OUT);
    }
    ck_assert_uint_eq(r.writes.count, had + 2); /* and port 8's two rows */
    ck_assert_uint_eq(buckets(&r, PHYS_NEXT_HOP, true, 9), 128);
    rig_fini(&r);
}
END_TEST

START_TEST(a_configuration_that_does_not_fit_changes_nothing)
{
    struct phys_sizes sizes = *phys_sizes_tofino();
    struct prefix *many = calloc(600, sizeof(*many));
    struct xgwh_config c = config_of_test(many);
    struct xgwh_sink sink;
    struct rig r;

    for (unsigned i = 0; i < 600; i++) {
        many[i] = (struct prefix){ .addr = ip_v4(0x0a000000 + (i << 8)), .len = 24 };
    }
    c.source_count = 600; /* of 512 */
    rig_init(&r, &sizes, 2);
    sink = rig_sink(&r);
    ck_assert_int_eq(xgwh_set_ready(r.x, &sink, NULL, NULL), RC_CONFLICT);
    ck_assert_int_eq(xgwh_configure(r.x, &c, &sink, NULL, NULL), RC_FULL);
    c.source_count = 1;
    c.uplinks[0].port = 512;
    ck_assert_int_eq(xgwh_configure(r.x, &c, &sink, NULL, NULL), RC_RANGE);
    ck_assert_uint_eq(r.writes.count, 0);
    rig_check(&r);
    free(many);
    rig_fini(&r);
}
END_TEST

/* ---- state ---- */

START_TEST(the_switch_remembers_what_the_driver_wrote)
{
    struct phys_sizes sizes = *phys_sizes_tofino();
    struct xgwh_state s = { .boot_id = UINT64_C(0x1122334455667788),
                            .term = 9,
                            .applied = 77,
                            .config_digest = 5 };
    struct xgwh_state got = { 0 };
    struct xgwh_findings f;
    struct xgwh_sink sink;
    struct rig r;

    rig_init(&r, &sizes, 2);
    sink = rig_sink(&r);
    ck_assert_int_eq(xgwh_put_state(r.x, &s, &sink, NULL), RC_OK);
    rig_follow(&r);
    ck_assert_uint_eq(r.writes.count, 2);
    for (unsigned i = 0; i < 2; i++) {
        ck_assert(xgwh_state_of_entry(&r.writes.at[i].entry, &got));
    }
    ck_assert_mem_eq(&got, &s, sizeof(s));
    s.applied++;
    sink = rig_sink(&r);
    ck_assert_int_eq(xgwh_put_state(r.x, &s, &sink, NULL), RC_OK);
    rig_follow(&r);
    ck_assert_uint_eq(r.writes.count, 1);
    xgwh_free(r.x);
    r.x = rig_new(&r);
    rig_read(&r, r.x, &f);
    ck_assert_uint_eq(r.writes.count, 0);
    got = xgwh_state(r.x);
    ck_assert_mem_eq(&got, &s, sizeof(s));
    rig_fini(&r);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("xgwh");

    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, crc32_is_that_of_zlib);
    tcase_add_test(tc, addresses_that_collide_are_all_found);
    tcase_add_test(tc, what_the_chip_cannot_do_is_refused_and_writes_nothing);
    tcase_add_test(tc, a_batch_that_is_none_changes_nothing);
    tcase_add_loop_test(tc, a_row_too_many_is_an_exception_and_fits_once_there_is_room,
                        0, ARRAY_LEN(full_cases));
    tcase_add_test(
        tc, vnis_are_counted_while_there_are_indexes_and_give_them_back_to_meters);
    tcase_add_test(tc, a_new_agent_tells_who_is_metered_from_who_is_counted);
    tcase_add_test(tc, a_vni_found_at_a_meters_index_is_not_held_back_by_it);
    tcase_add_test(tc, what_was_spilled_moves_back_when_there_is_room);
    tcase_add_test(tc, a_large_batch_has_few_barriers);
    tcase_add_test(tc, a_batch_of_many_ipv6_defaults_has_few_barriers);
    tcase_add_test(tc, an_ipv6_default_without_room_for_its_guard_is_refused);
    tcase_add_test(tc, the_nodes_fallback_meter_is_shared_out_to_its_halves);
    tcase_add_test(tc, a_configuration_fills_the_buckets_and_is_written_once);
    tcase_add_test(tc, fallback_meters_that_are_read_as_they_should_be_are_not_written);
    tcase_add_test(tc, an_uplink_that_goes_moves_its_own_buckets_only);
    tcase_add_test(tc, a_configuration_that_does_not_fit_changes_nothing);
    tcase_add_test(tc, the_switch_remembers_what_the_driver_wrote);
    return unit_run("xgwh", tc);
}
