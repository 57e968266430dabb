/* What a read-back makes of a switch that somebody else wrote to, or that lost things:
 * it is put right in itself, and after the controller's comparison holds what it
 * should. */
#include <string.h>

#include "tests/unit/agent/xgwh/rig.h"

static struct phys_sizes sizes_of_test(void)
{
    struct phys_sizes s = *phys_sizes_tofino();

    s.meters = 32;
    s.table[PHYS_VM_NC] = 40;
    return s;
}

/* Writes that no row asked for: the switch must take them; what they answer meanwhile
 * is nobody's promise. */
static void carry_out(struct rig *r)
{
    for (unsigned i = 0; i < r->writes.count; i++) {
        const struct phys_write *w = &r->writes.at[i];

        for (unsigned half = 0; half < r->halves; half++) {
            if (w->entry.half == half || w->entry.half == PHYS_BOTH) {
                const char *wrong = soft_write(r->soft, half, w);

                ck_assert_msg(!wrong, "write %u: table %s op %d half %u: %s", i,
                              phys_table_desc((enum phys_table)w->entry.table)->name,
                              w->op, half, wrong);
            }
        }
    }
    for (unsigned i = 0; i < r->writes.meter_count; i++) {
        if (r->writes.meters[i].meter == PHYS_METER_VNI) {
            r->meters[r->writes.meters[i].index] = r->writes.meters[i].config;
        }
    }
}

static void fill(struct rig *r)
{
    struct ip base = ip_v6((const uint8_t[16]){ 0xfd, [15] = 1 });

    for (uint32_t vni = 1; vni <= 6; vni++) {
        struct entry rows[40] = { row_vni(vni, vni & 1, (uint8_t)(vni % 3)) };
        uint8_t ops[40];
        unsigned n = 1;

        rows[n++] = row_local(vni, "10.0.0.0/8");
        rows[n++] = row_scope(vni, "10.1.0.0/16", SCOPE_IDC, 77, "192.0.2.1");
        rows[n++] = row_scope(vni, "10.2.0.0/16", SCOPE_REGION, 77, "2001:db8::1");
        rows[n++] = row_scope(vni, "10.3.0.0/16", SCOPE_PEER, 1 + vni % 6, NULL);
        rows[n++] = row_scope(vni, "10.4.0.0/16", SCOPE_SERVICE, 0, "dns");
        rows[n++] = row_scope(vni, "::/0", SCOPE_INTERNET, 0, NULL);
        rows[n++] = row_local(vni, "fd00::/16");
        for (unsigned i = 0; i < 12; i++) {
            char nc[32];

            snprintf(nc, sizeof(nc), i % 3 ? "172.16.0.%u" : "2001:db8:1::%u", 1 + i);
            rows[n] = row_vm(vni, "10.0.0.1", nc);
            rows[n].vm_nc.vm.b[3] = (uint8_t)(1 + i);
            n++;
            rows[n] = row_vm(vni, "10.0.0.1", nc);
            rows[n++].vm_nc.vm = collide(&base, i / 2);
        }
        rows[n] = (struct entry){ .table = TABLE_METER, .vni = vni };
        rows[n++].meter = (struct meter){ 1000, 2000 + vni, 10000, 20000 };
        rows[n] = (struct entry){ .table = TABLE_ACL, .vni = vni };
        rows[n].acl.priority = 7;
        rows[n].acl.action = ACL_DENY;
        rows[n].acl.match.src = rows[6].route.dst;
        rows[n].acl.match.dst = rows[6].route.dst;
        rows[n].acl.match.has_proto = true;
        rows[n].acl.match.proto = IP_PROTO_TCP;
        rows[n].acl.match.sport = (struct port_range){ 0, 65535 };
        rows[n++].acl.match.dport = (struct port_range){ 22, 25 };
        memset(ops, BATCH_PUT, sizeof(ops));
        rig_apply(r, rows, ops, n);
        ck_assert_uint_eq(r->exceptions.count, 0);
    }
    rig_check(r);
}

/* ---- what may happen to a switch ---- */

/* Bits of an entry, within what the table can hold. */
static void flip(struct rig *r, struct phys_entry *e, bool in_key)
{
    uint8_t *bytes = in_key ? e->key : e->data;
    unsigned len = in_key ? phys_table_desc((enum phys_table)e->table)->key_len
                          : phys_action_desc((enum phys_action)e->action)->data_len;
    unsigned at = len > 0 ? rig_random(r, len) : 0;
    uint8_t bit = (uint8_t)(1u << rig_random(r, 8));

    if (in_key) {
        bit &= e->mask[at];
    }
    bytes[at] ^= bit;
}

/* The cell of vni_meter that a metered VNI's entry names; 0: of one that is none. */
static unsigned metered_index(const struct phys_entry *vni)
{
    return vni->data[0] & PHYS_VNI_METERED ? vni->data[2] << 8 | vni->data[3] : 0;
}

static void corrupt_meter(struct rig *r)
{
    const struct soft_table *t = &r->soft->tables[0][PHYS_VNI];
    unsigned index = t->count > 0 ? metered_index(&t->at[rig_random(r, t->count)]) : 0;

    if (index > 0 && index < r->sizes.meters) {
        r->meters[index].cir ^= 1 + rig_random(r, 7);
    }
}

static void corrupt(struct rig *r)
{
    unsigned half = rig_random(r, r->halves);
    struct soft_table *t;
    struct phys_write w = { 0 };

    if (rig_random(r, 8) == 0) {
        corrupt_meter(r);
        return;
    }
    do {
        t = &r->soft->tables[half][rig_random(r, PHYS_TABLES)];
    } while (t->count == 0);
    w.entry = t->at[rig_random(r, t->count)];
    switch (rig_random(r, 4)) {
    case 0: /* lost */
        w.op = PHYS_DELETE;
        w.entry.action = 0;
        memset(w.entry.data, 0, sizeof(w.entry.data));
        break;
    case 1: /* another value */
        w.op = PHYS_MODIFY;
        if (w.entry.table == PHYS_ACL) { /* whose value is the action */
            w.entry.action = w.entry.action == PHYS_DENY ? PHYS_PERMIT : PHYS_DENY;
        } else {
            flip(r, &w.entry, false);
        }
        break;
    case 2: /* the same under another key */
        w.op = PHYS_INSERT;
        flip(r, &w.entry, true);
        break;
    default: /* in the spill as well */
        w.op = PHYS_INSERT;
        if (w.entry.table == PHYS_VM_NC) {
            w.entry.table = PHYS_VM_NC_SPILL;
            w.entry.action = PHYS_SPILL_NC;
        } else {
            w.entry.priority += w.entry.priority > 0;
        }
    }
    soft_write(r->soft, half, &w); /* one that it does not take changes nothing */
}

/* ---- the controller's comparison ---- */

static void delete_extra(struct rig *r)
{
    const struct table_set *rows = xgwh_tables(r->x);
    struct model extra = { 0 };

    for (uint32_t vni = table_set_next(rows, VNI_MIN, ~0u); vni != 0;
         vni = vni == VNI_MAX ? 0 : table_set_next(rows, vni + 1, ~0u)) {
        for (int t = 0; t < TABLE_COUNT; t++) {
            struct rows_iter it = rows_begin(
                table_set_rows(rows, vni, (enum table_id)t), (enum table_id)t);
            struct row row;

            while (rows_next(&it, &row)) {
                struct entry e;

                ck_assert_int_eq(entry_unpack((enum table_id)t, vni, &row, &e, NULL),
                                 RC_OK);
                if (!model_find(&r->model, &e)) {
                    model_put(&extra, &e);
                }
            }
        }
    }
    for (unsigned i = 0; i < extra.count; i++) {
        rig_change(r, &extra.at[i], BATCH_DELETE);
        carry_out(r);
    }
    free(extra.at);
}

static void compare(struct rig *r)
{
    struct xgwh_sink sink;

    for (int table = 0; table < TABLE_COUNT; table++) {
        for (unsigned i = 0; i < r->model.count; i++) {
            if (r->model.at[i].table == table) {
                rig_change(r, &r->model.at[i], BATCH_PUT);
                ck_assert_uint_eq(r->exceptions.count, 0);
                carry_out(r);
            }
        }
    }
    delete_extra(r);
    sink = rig_sink(r);
    ck_assert_int_eq(xgwh_sweep(r->x, &sink, NULL, NULL), RC_OK);
    carry_out(r);
    ck_assert_uint_eq(xgwh_status(r->x).unnamed, 0);
    rig_check(r);
}

static void harm_and_heal(unsigned halves, uint64_t seed)
{
    struct phys_sizes sizes = sizes_of_test();
    struct xgwh_findings f;
    struct rig r;

    rig_init(&r, &sizes, halves);
    fill(&r);
    r.seed = seed;
    for (unsigned round = 0; round < 60; round++) {
        unsigned harms = 1 + rig_random(&r, 6);

        for (unsigned i = 0; i < harms; i++) {
            corrupt(&r);
        }
        if (round % 3 == 2) {
            xgwh_free(r.x);
            r.x = rig_new(&r);
        }
        rig_read(&r, r.x, &f);
        carry_out(&r);
        compare(&r);
        rig_read(&r, r.x, &f);
        ck_assert_uint_eq(r.writes.count, 0);
        ck_assert_uint_eq(f.unnamed + f.foreign + f.dangling + f.orphans + f.duplicate +
                              f.split + f.changed + f.lost,
                          0);
    }
    rig_fini(&r);
}

START_TEST(whatever_was_done_to_the_switch_is_found_and_put_right)
{
    harm_and_heal(1 + (unsigned)_i % 2, 7 + (uint64_t)_i);
}
END_TEST

/* An audit that finds no row may be believed: whatever was done, each row's answer is
 * still the one that it should be.  One that finds some has a name for all. */
START_TEST(what_is_told_as_it_should_be_is_answered_so)
{
    struct phys_sizes sizes = sizes_of_test();
    struct xgwh_findings f;
    unsigned found = 0;
    struct rig r;

    rig_init(&r, &sizes, 1 + (unsigned)_i % 2);
    fill(&r);
    r.seed = 100 + (uint64_t)_i;
    for (unsigned round = 0; round < 100; round++) {
        r.names_all = true;
        corrupt(&r);
        rig_read(&r, r.x, &f);
        if (rig_tells_the_model(&r)) {
            rig_check_answers(&r);
        } else {
            found++;
        }
        r.names_all = false;
        carry_out(&r);
        compare(&r);
        rig_read(&r, r.x, &f);
        ck_assert_uint_eq(r.writes.count, 0);
        ck_assert(rig_tells_the_model(&r));
    }
    ck_assert_uint_gt(found, 30);
    rig_fini(&r);
}
END_TEST

/* In both halves alike, so that neither tells on the other. */
START_TEST(a_rule_that_does_the_other_thing_is_not_sound_and_put_right)
{
    struct phys_sizes sizes = sizes_of_test();
    struct xgwh_findings f;
    struct rig r;

    rig_init(&r, &sizes, 2);
    fill(&r);
    for (unsigned half = 0; half < 2; half++) {
        for (unsigned i = 0; i < r.soft->tables[half][PHYS_ACL].count; i++) {
            r.soft->tables[half][PHYS_ACL].at[i].action = PHYS_PERMIT;
        }
    }
    rig_read(&r, r.x, &f);
    ck_assert_uint_gt(f.foreign, 0);
    ck_assert(!rig_tells_the_model(&r));
    carry_out(&r);
    compare(&r);
    rig_check_answers(&r);
    ck_assert(rig_tells_the_model(&r));
    rig_fini(&r);
}
END_TEST

/* Told twice in a row, a row is not sound until it is written; then its entry is
 * written once, and nothing else. */
START_TEST(an_entry_that_comes_twice_is_written_with_its_row)
{
    struct phys_sizes sizes = sizes_of_test();
    struct entry vm4 = row_vm(2, "10.0.0.1", "172.16.0.1");
    struct entry other = row_vm(2, "10.0.0.2", "172.16.0.2");
    struct xgwh_sink sink;
    struct xgwh_findings f;
    struct rig r;

    rig_init(&r, &sizes, 2);
    rig_put(&r, &vm4);
    rig_put(&r, &other);
    ck_assert(rig_tells_the_model(&r));
    ck_assert_int_eq(xgwh_read_begin(r.x), RC_OK);
    for (unsigned i = 0; i < 2 * PHYS_TABLES; i++) {
        const struct soft_table *t = &r.soft->tables[i % 2][i / 2];

        for (unsigned k = 0; k < t->count; k++) {
            struct phys_entry e = t->at[k];
            bool is_twice = e.table == PHYS_VM_NC && e.key[7] == 1;

            e.half = i % 2;
            ck_assert_int_eq(xgwh_read_entry(r.x, &e), RC_OK);
            ck_assert_int_eq(is_twice ? xgwh_read_entry(r.x, &e) : RC_OK, RC_OK);
        }
    }
    sink = rig_sink(&r);
    ck_assert_int_eq(xgwh_read_end(r.x, &sink, &f, NULL), RC_OK);
    ck_assert_uint_eq(r.writes.count, 0);
    ck_assert_uint_eq(f.changed + f.lost, 0);
    ck_assert(!rig_tells_the_model(&r));
    rig_change(&r, &other, BATCH_PUT);
    ck_assert_uint_eq(r.writes.count, 0);
    ck_assert(!rig_tells_the_model(&r));
    rig_change(&r, &vm4, BATCH_PUT);
    ck_assert_uint_eq(r.writes.count, 1);
    ck_assert_int_eq(r.writes.at[0].op, PHYS_MODIFY);
    ck_assert_int_eq(r.writes.at[0].entry.table, PHYS_VM_NC);
    ck_assert_uint_eq(r.writes.at[0].entry.key[7], 1);
    carry_out(&r);
    ck_assert(rig_tells_the_model(&r));
    rig_fini(&r);
}
END_TEST

START_TEST(a_switch_that_lost_everything_gets_it_again)
{
    struct phys_sizes sizes = sizes_of_test();
    struct xgwh_findings f;
    struct rig r;

    rig_init(&r, &sizes, 2);
    fill(&r);
    soft_free(r.soft);
    r.soft = soft_new(&r.sizes, 2);
    rig_read(&r, r.x, &f);
    ck_assert_uint_eq(f.lost, r.model.count);
    ck_assert_uint_eq(table_set_vni_count(xgwh_tables(r.x)), 0);
    compare(&r);
    rig_fini(&r);
}
END_TEST

/* ---- names ---- */

START_TEST(what_the_switch_cannot_say_is_unnamed_until_it_is_sent)
{
    struct phys_sizes sizes = sizes_of_test();
    struct entry vm4 = row_vm(2, "10.0.0.1", "172.16.0.1");
    struct entry vm6 = row_vm(2, "fd00::1", "172.16.0.1");
    struct entry local = row_local(2, "10.0.0.0/8");
    struct entry idc = row_scope(2, "10.1.0.0/16", SCOPE_IDC, 9, "192.0.2.1");
    struct entry region = row_scope(2, "10.1.0.0/16", SCOPE_REGION, 9, "192.0.2.1");
    struct entry dns = row_scope(2, "10.2.0.0/16", SCOPE_SERVICE, 0, "dns");
    struct xgwh_findings f;
    struct xgwh_sink sink;
    struct rig r;

    rig_init(&r, &sizes, 2);
    rig_put(&r, &vm4);
    rig_put(&r, &vm6);
    rig_put(&r, &local);
    rig_put(&r, &idc);
    rig_put(&r, &dns);
    xgwh_free(r.x);
    r.x = rig_new(&r);
    rig_read(&r, r.x, &f);
    ck_assert_uint_eq(r.writes.count, 0);
    ck_assert_uint_eq(f.unnamed, 3); /* vm6, idc, dns */
    ck_assert_uint_eq(table_set_count(xgwh_tables(r.x), TABLE_VM_NC), 1);
    ck_assert_uint_eq(table_set_count(xgwh_tables(r.x), TABLE_VXLAN_ROUTE), 1);

    rig_put(&r, &region); /* the same tunnel by another scope: it is the row's to say */
    ck_assert_uint_eq(r.writes.count, 0);
    rig_put(&r, &vm6);
    ck_assert_uint_eq(r.writes.count, 0);
    ck_assert_uint_eq(xgwh_status(r.x).unnamed, 1);
    sink = rig_sink(&r);
    ck_assert_int_eq(xgwh_sweep(r.x, &sink, NULL, NULL), RC_OK);
    ck_assert_uint_eq(r.writes.count, 1); /* dns goes */
    carry_out(&r);
    rig_fini(&r);
}
END_TEST

START_TEST(a_meter_that_is_as_it_should_be_is_not_written_again)
{
    struct phys_sizes sizes = sizes_of_test();
    struct xgwh_findings f;
    struct rig r;
    unsigned changed;

    rig_init(&r, &sizes, 2);
    fill(&r);
    for (unsigned round = 0; round < 4; round++) {
        const struct phys_entry *vni = &r.soft->tables[0][PHYS_VNI].at[2];
        unsigned meter_writes = 0;

        /* The first agent keeps its rows, the others are new; the last two find a cell
         * that somebody else wrote to. */
        if (round > 0) {
            xgwh_free(r.x);
            r.x = rig_new(&r);
        }
        changed = round >= 2;
        r.meters[metered_index(vni)].pburst += changed;
        rig_read(&r, r.x, &f);
        ck_assert_uint_eq(r.writes.meter_count, 0);
        carry_out(&r);
        for (unsigned i = 0; i < r.model.count; i++) {
            if (r.model.at[i].table == TABLE_METER) {
                rig_change(&r, &r.model.at[i], BATCH_PUT);
                meter_writes += r.writes.meter_count;
                carry_out(&r);
            }
        }
        ck_assert_uint_eq(meter_writes, changed);
        compare(&r);
    }
    rig_fini(&r);
}
END_TEST

START_TEST(rows_come_in_order_and_are_a_batch)
{
    struct phys_sizes sizes = sizes_of_test();
    struct rig r;

    rig_init(&r, &sizes, 2);
    fill(&r);
    rig_check_rows_told(&r);
    rig_fini(&r);
}
END_TEST

START_TEST(an_unfinished_read_back_changes_nothing)
{
    struct phys_sizes sizes = sizes_of_test();
    struct phys_entry e;
    struct rig r;

    rig_init(&r, &sizes, 2);
    fill(&r);
    ck_assert_int_eq(xgwh_read_begin(r.x), RC_OK);
    e = r.soft->tables[0][PHYS_VM_NC].at[0];
    e.half = 0;
    ck_assert_int_eq(xgwh_read_entry(r.x, &e), RC_OK);
    e.half = PHYS_BOTH;
    ck_assert_int_eq(xgwh_read_entry(r.x, &e), RC_INVALID);
    xgwh_read_abort(r.x);
    rig_check(&r);
    e.half = 0;
    ck_assert_int_eq(xgwh_read_entry(r.x, &e), RC_INVALID); /* none has begun */
    rig_fini(&r);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("xgwh_read");

    tcase_set_timeout(tc, 120);
    tcase_add_loop_test(tc, whatever_was_done_to_the_switch_is_found_and_put_right, 0,
                        6);
    tcase_add_loop_test(tc, what_is_told_as_it_should_be_is_answered_so, 0, 2);
    tcase_add_test(tc, an_entry_that_comes_twice_is_written_with_its_row);
    tcase_add_test(tc, a_rule_that_does_the_other_thing_is_not_sound_and_put_right);
    tcase_add_test(tc, a_switch_that_lost_everything_gets_it_again);
    tcase_add_test(tc, what_the_switch_cannot_say_is_unnamed_until_it_is_sent);
    tcase_add_test(tc, a_meter_that_is_as_it_should_be_is_not_written_again);
    tcase_add_test(tc, rows_come_in_order_and_are_a_batch);
    tcase_add_test(tc, an_unfinished_read_back_changes_nothing);
    return unit_run("xgwh_read", tc);
}
