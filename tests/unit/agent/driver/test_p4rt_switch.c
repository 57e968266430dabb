/* The connection to a switch, writes in order, reads as streams: against a server with
 * faults. */
#include "agent/driver/p4rt_reader.h"
#include "agent/driver/p4rt_writer.h"
#include "tests/unit/agent/driver/switch_rig.h"

/* A client, and what it heard. */
struct client {
    struct switch_rig *rig;
    struct p4rt_switch *sw;
    struct p4rt_writer *writer;
    unsigned found, lost, roles, pushed, stopped, ends;
    bool is_primary;
    uint64_t highest;
    enum rc pushed_rc;
    struct err cause;
    uint64_t reached;
    unsigned reached_count;
    size_t flying; /* as was told last */
    size_t most_flying;
    struct p4rt_outcome outcome;
    unsigned entries[PHYS_TABLES][2];
    uint64_t counter_sum;
    enum rc read_rc;
    struct err read_err;
    char packet[32];
    struct p4rt_packet got;
};

static void on_found(void *ctx)
{
    ((struct client *)ctx)->found++;
}

static void on_lost(void *ctx, const struct err *cause)
{
    struct client *c = ctx;

    c->lost++;
    c->cause = *cause;
    p4rt_writer_drop(c->writer);
}

static void on_role(void *ctx, bool is_primary, uint64_t highest)
{
    struct client *c = ctx;

    c->roles++;
    c->is_primary = is_primary;
    c->highest = highest;
}

static void on_pushed(void *ctx, enum rc rc, const struct err *err)
{
    struct client *c = ctx;

    c->pushed++;
    c->pushed_rc = rc;
    if (err) {
        c->cause = *err;
    }
}

static void on_packet(void *ctx, uint8_t device, const struct p4rt_packet *p)
{
    struct client *c = ctx;

    ck_assert_uint_eq(device, 0);
    ck_assert_uint_lt(p->len, sizeof(c->packet));
    memcpy(c->packet, p->bytes, p->len);
    c->got = *p;
}

static void on_reached(void *ctx, uint64_t mark)
{
    struct client *c = ctx;

    ck_assert_uint_gt(mark, c->reached);
    c->reached = mark;
    c->reached_count++;
}

static void on_stopped(void *ctx, const struct p4rt_outcome *first)
{
    struct client *c = ctx;

    c->stopped++;
    c->outcome = *first;
}

static void on_moved(void *ctx)
{
    struct client *c = ctx;
    size_t flying = p4rt_writer_flying(c->writer);

    ck_assert_uint_ne(flying, c->flying);
    c->flying = flying;
    c->most_flying = flying > c->most_flying ? flying : c->most_flying;
}

static const struct p4rt_switch_events events = { on_found, on_lost, on_role, on_pushed,
                                                  on_packet };
static const struct p4rt_writer_events writer_events = { on_reached, on_stopped,
                                                         on_moved };

static void client_init(struct client *c, struct switch_rig *rig,
                        const struct p4rt_switch_options *o,
                        const struct p4rt_writer_options *w)
{
    struct err err = { 0 };

    memset(c, 0, sizeof(*c));
    c->rig = rig;
    ck_assert_msg(p4rt_switch_new(rig->loop, o, &events, c, &c->sw, &err) == RC_OK,
                  "%s", err.msg);
    c->writer = p4rt_writer_new(c->sw, rig->loop, w, &writer_events, c);
    ck_assert_ptr_nonnull(c->writer);
    p4rt_switch_open(c->sw);
}

static void client_fini(struct client *c)
{
    p4rt_writer_free(c->writer);
    p4rt_switch_free(c->sw);
}

/* Primary with our program on the switch. */
static void client_ready(struct client *c, struct switch_rig *rig, uint8_t devices,
                         const struct p4rt_writer_options *w)
{
    struct p4rt_switch_options o = rig_options(rig, devices);

    client_init(c, rig, &o, w);
    RIG_UNTIL(rig, c->found == 1);
    p4rt_switch_claim(c->sw, 7);
    RIG_UNTIL(rig, c->roles == 1);
    ck_assert(c->is_primary);
    p4rt_switch_push(c->sw);
    RIG_UNTIL(rig, c->pushed == 1);
    ck_assert_int_eq(c->pushed_rc, RC_OK);
}

static struct phys_write vm_write(enum phys_op op, uint32_t i, uint8_t half)
{
    struct phys_write w = { .op = (uint8_t)op };

    w.entry.table = PHYS_VM_NC;
    w.entry.half = half;
    w.entry.key[2] = 7;
    w.entry.key[4] = (uint8_t)(i >> 24);
    w.entry.key[5] = (uint8_t)(i >> 16);
    w.entry.key[6] = (uint8_t)(i >> 8);
    w.entry.key[7] = (uint8_t)i;
    phys_mask_exact(PHYS_VM_NC, w.entry.mask);
    if (op != PHYS_DELETE) {
        w.entry.action = PHYS_SET_NC;
        w.entry.data[2] = 17;
    }
    return w;
}

static const struct p4rt_writer_options plain = { 0 };

START_TEST(an_empty_switch_gets_the_program_and_keeps_it)
{
    struct switch_rig rig;
    struct client c;

    rig_init(&rig);
    client_ready(&c, &rig, 2, &plain);
    ck_assert_uint_eq(rig.sw->counts.pushes[1], 2); /* VERIFY, each device */
    ck_assert_uint_eq(rig.sw->counts.pushes[5], 2); /* RECONCILE_AND_COMMIT */
    ck_assert_uint_eq(rig.sw->counts.pushes[3], 0); /* never one that wipes */
    ck_assert_uint_eq(test_switch_program(rig.sw, 1)->len, rig.p4info->len);
    test_switch_disconnect(rig.sw);
    RIG_UNTIL(&rig, c.found == 2);
    ck_assert_uint_eq(c.lost, 1);
    ck_assert_int_eq(p4rt_switch_program(c.sw, 0), P4RT_PROGRAM_OURS);
    ck_assert_int_eq(p4rt_switch_program(c.sw, 1), P4RT_PROGRAM_OURS);
    ck_assert(!p4rt_switch_is_primary(c.sw)); /* to be claimed anew */
    client_fini(&c);
    rig_fini(&rig);
}
END_TEST

START_TEST(a_target_that_cannot_verify_or_reconcile_is_committed_to_when_empty)
{
    struct switch_rig rig;
    struct client c;

    rig_init(&rig);
    rig.sw->faults.no_verify = true;
    rig.sw->faults.no_reconcile = true;
    rig.sw->faults.config_is_error = true;
    client_ready(&c, &rig, 1, &plain);
    ck_assert_uint_eq(rig.sw->counts.pushes[3], 1);
    client_fini(&c);
    rig_fini(&rig);
}
END_TEST

START_TEST(a_target_that_falls_over_at_reconcile_is_never_asked_to)
{
    struct switch_rig rig;
    struct client c;
    struct p4rt_switch_options o;

    rig_init(&rig);
    o = rig_options(&rig, 1);
    o.cannot_reconcile = true;
    client_init(&c, &rig, &o, &plain);
    RIG_UNTIL(&rig, c.found == 1);
    p4rt_switch_claim(c.sw, 7);
    RIG_UNTIL(&rig, c.roles == 1);
    p4rt_switch_push(c.sw);
    RIG_UNTIL(&rig, c.pushed == 1);
    ck_assert_int_eq(c.pushed_rc, RC_OK);
    ck_assert_uint_eq(rig.sw->counts.pushes[1], 1);
    ck_assert_uint_eq(rig.sw->counts.pushes[5], 0);
    ck_assert_uint_eq(rig.sw->counts.pushes[3], 1);
    client_fini(&c);
    rig_fini(&rig);
}
END_TEST

START_TEST(a_program_that_the_switch_refuses_is_an_error_and_no_end)
{
    struct switch_rig rig;
    struct client c;
    struct p4rt_switch_options o;

    rig_init(&rig);
    rig.sw->faults.refuses_program = true;
    o = rig_options(&rig, 1);
    client_init(&c, &rig, &o, &plain);
    RIG_UNTIL(&rig, c.found == 1);
    p4rt_switch_claim(c.sw, 7);
    RIG_UNTIL(&rig, c.roles == 1);
    p4rt_switch_push(c.sw);
    RIG_UNTIL(&rig, c.pushed == 1);
    ck_assert_int_eq(c.pushed_rc, RC_INVALID);
    ck_assert_ptr_nonnull(strstr(c.cause.msg, "does not take the program"));
    client_fini(&c);
    rig_fini(&rig);
}
END_TEST

static void lose_a_table(P4__Config__V1__P4Info *info, int arg)
{
    (void)arg;
    info->tables[PHYS_VM_NC_CONFLICT] = info->tables[--info->n_tables];
}

START_TEST(another_program_is_named_and_left_alone)
{
    struct switch_rig rig;
    struct client c;
    struct p4rt_switch_options o;
    struct blob *other = rig_program(lose_a_table, 0);

    rig_init(&rig);
    test_switch_load(rig.sw, 1, other->data, other->len);
    o = rig_options(&rig, 2);
    client_init(&c, &rig, &o, &plain);
    RIG_UNTIL(&rig, c.lost >= 2); /* it looks again, ever more slowly */
    ck_assert_uint_eq(c.found, 0);
    ck_assert_int_eq(c.cause.code, RC_CONFLICT);
    ck_assert_str_eq(c.cause.rule, "p4info");
    ck_assert_str_eq(c.cause.field, "vm_nc_conflict");
    ck_assert_ptr_nonnull(strstr(c.cause.msg, "device 2"));
    ck_assert_uint_eq(rig.sw->counts.pushes[1] + rig.sw->counts.pushes[3] +
                          rig.sw->counts.pushes[5],
                      0);
    client_fini(&c);
    blob_unref(other);
    rig_fini(&rig);
}
END_TEST

START_TEST(another_program_is_replaced_where_that_is_asked_for)
{
    struct switch_rig rig;
    struct client c;
    struct p4rt_switch_options o;
    struct blob *other = rig_program(lose_a_table, 0);

    rig_init(&rig);
    test_switch_load(rig.sw, 0, other->data, other->len);
    o = rig_options(&rig, 1);
    o.replaces_other_program = true;
    client_init(&c, &rig, &o, &plain);
    RIG_UNTIL(&rig, c.found == 1);
    ck_assert_int_eq(p4rt_switch_program(c.sw, 0), P4RT_PROGRAM_OTHER);
    p4rt_switch_claim(c.sw, 1);
    RIG_UNTIL(&rig, c.roles == 1);
    p4rt_switch_push(c.sw);
    RIG_UNTIL(&rig, c.pushed == 1);
    ck_assert_int_eq(c.pushed_rc, RC_OK);
    ck_assert_uint_eq(rig.sw->counts.pushes[3], 1);
    ck_assert_uint_eq(test_switch_program(rig.sw, 0)->len, rig.p4info->len);
    client_fini(&c);
    blob_unref(other);
    rig_fini(&rig);
}
END_TEST

START_TEST(the_higher_term_is_primary_and_the_other_hears_of_it)
{
    struct switch_rig rig;
    struct client a;
    struct client b;
    struct p4rt_switch_options o;

    rig_init(&rig);
    client_ready(&a, &rig, 2, &plain);
    o = rig_options(&rig, 2);
    client_init(&b, &rig, &o, &plain);
    RIG_UNTIL(&rig, b.found == 1);
    p4rt_switch_claim(b.sw, 6);
    RIG_UNTIL(&rig, b.roles == 1);
    ck_assert(!b.is_primary);
    ck_assert_uint_eq(b.highest, 7);
    p4rt_switch_claim(b.sw, 9);
    RIG_UNTIL(&rig, b.roles >= 2 && b.is_primary);
    RIG_UNTIL(&rig, a.roles >= 2 && a.highest == 9);
    ck_assert(!a.is_primary);
    ck_assert(!p4rt_switch_is_primary(a.sw));
    p4rt_switch_claim(a.sw, 10);
    RIG_UNTIL(&rig, a.is_primary && !b.is_primary);
    ck_assert_uint_eq(test_switch_primary(rig.sw, 1), 10);
    client_fini(&a);
    client_fini(&b);
    rig_fini(&rig);
}
END_TEST

START_TEST(an_election_id_that_is_taken_ends_the_connection_with_a_reason)
{
    struct switch_rig rig;
    struct client a;
    struct client b;
    struct p4rt_switch_options o;

    rig_init(&rig);
    client_ready(&a, &rig, 1, &plain);
    o = rig_options(&rig, 1);
    client_init(&b, &rig, &o, &plain);
    RIG_UNTIL(&rig, b.found == 1);
    p4rt_switch_claim(b.sw, 7);
    RIG_UNTIL(&rig, b.lost == 1);
    ck_assert_ptr_nonnull(strstr(b.cause.msg, "election id is taken"));
    ck_assert(p4rt_switch_is_primary(a.sw));
    client_fini(&a);
    client_fini(&b);
    rig_fini(&rig);
}
END_TEST

START_TEST(a_request_that_was_answered_grows_no_more)
{
    struct p4rt_writer_options w = { 0 };
    struct switch_rig rig;
    struct client c;

    rig_init(&rig);
    client_ready(&c, &rig, 2, &w);
    for (uint32_t i = 0; i < 3; i++) {
        struct phys_write write = vm_write(PHYS_INSERT, i, 0);

        p4rt_writer_entry(c.writer, &write); /* with no barrier between */
        RIG_UNTIL(&rig, p4rt_writer_is_idle(c.writer));
        ck_assert_uint_eq(test_switch_count(rig.sw, 0, PHYS_VM_NC), i + 1);
    }
    client_fini(&c);
    rig_fini(&rig);
}
END_TEST

/* What two packed apart is sent one behind the other, each in its own order. */
START_TEST(requests_of_others_come_behind_a_barrier_with_theirs_kept)
{
    struct p4rt_writer_options w = { .window = 8 };
    struct switch_rig rig;
    struct client c;

    rig_init(&rig);
    rig.sw->faults.reorders = true;
    client_ready(&c, &rig, 2, &w);
    for (uint32_t i = 0; i < 200; i++) {
        struct p4rt_requests_options packing = p4rt_writer_packing(c.writer);
        struct phys_write write = vm_write(PHYS_INSERT, 7, 0);
        struct p4rt_requests more;

        p4rt_requests_init(&more, &packing);
        p4rt_requests_entry(&more, &write);
        write = vm_write(PHYS_DELETE, 7, 0);
        write.barrier = true;
        p4rt_requests_entry(&more, &write);
        p4rt_writer_take(c.writer, &more);
        ck_assert(TAILQ_EMPTY(&more.items));
        p4rt_writer_mark(c.writer, i + 1);
    }
    RIG_UNTIL(&rig, c.reached == 200);
    ck_assert_uint_eq(p4rt_writer_updates(c.writer), 400);
    ck_assert_uint_eq(test_switch_count(rig.sw, 0, PHYS_VM_NC), 0);
    client_fini(&c);
    rig_fini(&rig);
}
END_TEST

START_TEST(writes_go_to_the_halves_they_are_for_in_requests_of_bounded_size)
{
    struct p4rt_writer_options w = { .request_updates = 100, .window = 3 };
    struct switch_rig rig;
    struct client c;

    rig_init(&rig);
    rig.sw->faults.reorders = true;
    client_ready(&c, &rig, 2, &w);
    for (uint32_t i = 0; i < 1000; i++) {
        struct phys_write write = vm_write(PHYS_INSERT, i, (uint8_t)(i % 2));

        p4rt_writer_entry(c.writer, &write);
        write = vm_write(PHYS_INSERT, 5000 + i, PHYS_BOTH);
        p4rt_writer_entry(c.writer, &write);
    }
    p4rt_writer_mark(c.writer, 1);
    ck_assert_uint_gt(p4rt_writer_bytes(c.writer), 3000 * 30);
    RIG_UNTIL(&rig, c.reached == 1 && c.flying == 0);
    ck_assert(p4rt_writer_is_idle(c.writer));
    ck_assert_uint_eq(p4rt_writer_bytes(c.writer), 0);
    ck_assert_uint_eq(p4rt_writer_updates(c.writer), 3000);
    ck_assert_uint_gt(c.most_flying, 2 * 100 * 30);
    ck_assert_uint_le(c.most_flying, 2 * 3 * 100 * P4RT_UPDATE_MAX);
    ck_assert_uint_eq(test_switch_count(rig.sw, 0, PHYS_VM_NC), 1500);
    ck_assert_uint_eq(test_switch_count(rig.sw, 1, PHYS_VM_NC), 1500);
    ck_assert_uint_eq(rig.sw->counts.most_updates, 100);
    ck_assert_uint_gt(rig.sw->counts.most_writes_at_once, 1);
    ck_assert_uint_le(rig.sw->counts.most_writes_at_once, 2 * 3);
    client_fini(&c);
    rig_fini(&rig);
}
END_TEST

START_TEST(nothing_behind_a_barrier_is_sent_before_all_in_front_is_done)
{
    struct p4rt_writer_options w = { .window = 8 };
    struct switch_rig rig;
    struct client c;

    rig_init(&rig);
    rig.sw->faults.reorders = true; /* so that one request is no order */
    client_ready(&c, &rig, 2, &w);
    for (uint32_t i = 0; i < 200; i++) {
        struct phys_write write = vm_write(PHYS_INSERT, i, PHYS_BOTH);

        p4rt_writer_entry(c.writer, &write);
        write = vm_write(i % 2 ? PHYS_DELETE : PHYS_MODIFY, i, PHYS_BOTH);
        write.barrier = true;
        p4rt_writer_entry(c.writer, &write);
        p4rt_writer_mark(c.writer, i + 1);
    }
    RIG_UNTIL(&rig, c.reached == 200 || c.stopped);
    ck_assert_msg(c.stopped == 0, "%s", c.outcome.err.msg);
    ck_assert_uint_eq(c.reached_count, 200);
    ck_assert_uint_eq(rig.sw->counts.failed_updates, 0);
    ck_assert_uint_eq(test_switch_count(rig.sw, 1, PHYS_VM_NC), 100);
    client_fini(&c);
    rig_fini(&rig);
}
END_TEST

START_TEST(a_full_table_stops_it_and_is_named)
{
    struct p4rt_writer_options w = { .request_updates = 50, .window = 1 };
    struct switch_rig rig;
    struct client c;

    rig_init(&rig);
    client_ready(&c, &rig, 1, &w);
    rig.sw->faults.capacity[PHYS_VM_NC] = 120;
    for (uint32_t i = 0; i < 1000; i++) {
        struct phys_write write = vm_write(PHYS_INSERT, i, 0);

        p4rt_writer_entry(c.writer, &write);
        if (i == 99 || i == 999) {
            p4rt_writer_barrier(c.writer);
            p4rt_writer_mark(c.writer, i);
        }
    }
    RIG_UNTIL(&rig, c.stopped == 1);
    ck_assert_uint_eq(c.reached, 99);
    ck_assert(c.outcome.is_known && c.outcome.is_refusal && c.outcome.is_full);
    ck_assert(!c.outcome.is_not_primary);
    ck_assert_int_eq(c.outcome.err.code, RC_FULL);
    ck_assert_ptr_nonnull(strstr(c.outcome.err.msg, "insert vm_nc"));
    ck_assert_uint_eq(c.outcome.mark, 999);
    ck_assert_uint_eq(rig.sw->counts.updates, 150); /* nothing behind it was sent */
    ck_assert(p4rt_writer_is_idle(c.writer));
    /* And it goes on. */
    rig.sw->faults.capacity[PHYS_VM_NC] = 0;
    {
        struct phys_write write = vm_write(PHYS_INSERT, 5000, 0);

        p4rt_writer_entry(c.writer, &write);
        p4rt_writer_mark(c.writer, 2000);
    }
    RIG_UNTIL(&rig, c.reached == 2000);
    client_fini(&c);
    rig_fini(&rig);
}
END_TEST

START_TEST(what_contradicts_the_tables_is_no_refusal)
{
    struct switch_rig rig;
    struct client c;
    struct phys_write write = vm_write(PHYS_INSERT, 1, 0);

    rig_init(&rig);
    client_ready(&c, &rig, 1, &plain);
    ck_assert(test_switch_insert(rig.sw, 0, &write.entry));
    p4rt_writer_entry(c.writer, &write);
    RIG_UNTIL(&rig, c.stopped == 1);
    ck_assert_int_eq(c.outcome.err.code, RC_EXISTS);
    ck_assert(c.outcome.is_known && !c.outcome.is_refusal);
    write = vm_write(PHYS_DELETE, 2, 0);
    p4rt_writer_entry(c.writer, &write);
    RIG_UNTIL(&rig, c.stopped == 2);
    ck_assert_int_eq(c.outcome.err.code, RC_NOT_FOUND);
    ck_assert(c.outcome.is_known && !c.outcome.is_refusal);
    client_fini(&c);
    rig_fini(&rig);
}
END_TEST

START_TEST(an_answer_that_does_not_come_or_says_little_leaves_the_outcome_open)
{
    struct p4rt_writer_options w = { .deadline_ms = 200 };
    struct switch_rig rig;
    struct client c;
    struct phys_write write = vm_write(PHYS_INSERT, 1, 0);

    rig_init(&rig);
    client_ready(&c, &rig, 1, &w);
    rig.sw->faults.lose_answers = 1;
    p4rt_writer_entry(c.writer, &write);
    RIG_UNTIL(&rig, c.stopped == 1);
    ck_assert_int_eq(c.outcome.err.code, RC_TIMEOUT);
    ck_assert(!c.outcome.is_known);
    rig.sw->faults.no_details = true;
    p4rt_writer_entry(c.writer, &write);
    RIG_UNTIL(&rig, c.stopped == 2);
    ck_assert(!c.outcome.is_known);
    client_fini(&c);
    rig_fini(&rig);
}
END_TEST

START_TEST(errors_of_as_many_updates_as_a_request_may_have_come_through)
{
    struct switch_rig rig;
    struct client c;

    rig_init(&rig);
    client_ready(&c, &rig, 1, &plain);
    rig.sw->faults.refuse_code = RPC_RESOURCE_EXHAUSTED;
    rig.sw->faults.refuse_table = PHYS_VM_NC;
    for (uint32_t i = 0; i < 8192; i++) {
        struct phys_write write = vm_write(PHYS_INSERT, i, 0);

        p4rt_writer_entry(c.writer, &write);
    }
    RIG_UNTIL(&rig, c.stopped == 1);
    ck_assert_uint_eq(rig.sw->counts.most_updates, 8192);
    ck_assert_msg(c.outcome.is_known && c.outcome.is_full, "%s", c.outcome.err.msg);
    client_fini(&c);
    rig_fini(&rig);
}
END_TEST

START_TEST(one_that_is_not_primary_any_more_is_told_and_writes_nothing)
{
    struct switch_rig rig;
    struct client a;
    struct client b;
    struct p4rt_switch_options o;
    struct phys_write write = vm_write(PHYS_INSERT, 1, PHYS_BOTH);

    rig_init(&rig);
    client_ready(&a, &rig, 1, &plain);
    o = rig_options(&rig, 1);
    client_init(&b, &rig, &o, &plain);
    RIG_UNTIL(&rig, b.found == 1);
    /* Both at once: the write meets a switch that has another primary. */
    p4rt_switch_claim(b.sw, 8);
    p4rt_writer_entry(a.writer, &write);
    RIG_UNTIL(&rig, b.is_primary && !a.is_primary);
    rig_run_ms(&rig, 50);
    if (a.stopped) {
        ck_assert(a.outcome.is_not_primary);
    }
    p4rt_writer_drop(a.writer);
    write = vm_write(PHYS_INSERT, 2, PHYS_BOTH);
    p4rt_writer_entry(a.writer, &write);
    rig_run_ms(&rig, 50);
    ck_assert_ptr_null(test_switch_find(rig.sw, 0, &write.entry));
    client_fini(&a);
    client_fini(&b);
    rig_fini(&rig);
}
END_TEST

/* ---- reading ---- */

static void read_entry(void *ctx, const struct phys_entry *e)
{
    struct client *c = ctx;

    ck_assert_uint_lt(e->half, 2);
    c->entries[e->table][e->half]++;
}

static void read_counter(void *ctx, enum phys_counter counter, uint8_t device,
                         uint64_t index, uint64_t packets, uint64_t bytes)
{
    struct client *c = ctx;

    ck_assert_int_eq(counter, PHYS_COUNTER_DROP);
    c->counter_sum += packets * 1000 + bytes + index * 7 + device;
}

static void read_end(void *ctx, enum rc rc, const struct err *err)
{
    struct client *c = ctx;

    c->ends++;
    c->read_rc = rc;
    c->read_err = *err;
}

static const struct p4rt_read_events read_events = { .entry = read_entry,
                                                     .counter = read_counter,
                                                     .end = read_end };

START_TEST(a_read_tells_every_entry_of_every_table_of_both_devices)
{
    struct switch_rig rig;
    struct client c;

    rig_init(&rig);
    client_ready(&c, &rig, 2, &plain);
    for (uint32_t i = 0; i < 3000; i++) {
        struct phys_write write = vm_write(PHYS_INSERT, i, 0);

        ck_assert(test_switch_insert(rig.sw, i % 3 == 0, &write.entry));
    }
    for (unsigned t = 0; t < PHYS_TABLES; t++) {
        struct phys_entry e = { .table = (uint8_t)t };

        if (t != PHYS_VM_NC) {
            e.action = phys_table_desc((enum phys_table)t)->actions[0];
            e.priority = phys_table_desc((enum phys_table)t)->has_priority ? 3 : 0;
            phys_mask_exact((enum phys_table)t, e.mask);
            ck_assert(test_switch_insert(rig.sw, 1, &e));
        }
    }
    ck_assert_ptr_nonnull(p4rt_read_tables(c.sw, &read_events, &c));
    RIG_UNTIL(&rig, c.ends == 1);
    ck_assert_msg(c.read_rc == RC_OK, "%s", c.read_err.msg);
    ck_assert_uint_eq(c.entries[PHYS_VM_NC][0], 2000);
    ck_assert_uint_eq(c.entries[PHYS_VM_NC][1], 1000);
    for (unsigned t = 0; t < PHYS_TABLES; t++) {
        if (t != PHYS_VM_NC) {
            ck_assert_uint_eq(c.entries[t][0], 0);
            ck_assert_uint_eq(c.entries[t][1], 1);
        }
    }
    client_fini(&c);
    rig_fini(&rig);
}
END_TEST

START_TEST(counters_are_found_by_their_names_and_read_cell_by_cell)
{
    struct switch_rig rig;
    struct client c;
    uint32_t id;

    rig_init(&rig);
    client_ready(&c, &rig, 1, &plain);
    id = p4rt_switch_info(c.sw)->counter_id[PHYS_COUNTER_DROP][0];
    test_switch_set_counter(rig.sw, 0, id, 3, 5, 600);
    test_switch_set_counter(rig.sw, 0, id, 4, 1, 60);
    test_switch_set_counter(rig.sw, 0, id + 1, 4, 100, 100);
    ck_assert_ptr_nonnull(p4rt_read_counter(c.sw, PHYS_COUNTER_DROP, &read_events, &c));
    RIG_UNTIL(&rig, c.ends == 1);
    ck_assert_int_eq(c.read_rc, RC_OK);
    ck_assert_uint_eq(c.counter_sum, 5 * 1000 + 600 + 3 * 7 + 1000 + 60 + 4 * 7);
    client_fini(&c);
    rig_fini(&rig);
}
END_TEST

START_TEST(every_part_of_a_counter_is_read_and_of_cells_those_that_were_asked_for)
{
    const uint32_t index[] = { 3, 5 };
    const struct p4rt_cells some = { PHYS_COUNTER_DROP, index, 2 };
    struct switch_rig rig;
    struct client c;

    rig_init(&rig);
    blob_unref(rig.p4info);
    rig.p4info = rig_program(p4info_split_drops, 3);
    client_ready(&c, &rig, 1, &plain);
    for (uint32_t i = 3; i < 6; i++) {
        test_switch_set_counter(rig.sw, 0, 0x12000009, i, 1, 0);
        test_switch_set_counter(rig.sw, 0, P4INFO_DROP_PART(1), i, 20, 0);
        test_switch_set_counter(rig.sw, 0, P4INFO_DROP_PART(2), i, 300, 0);
    }
    ck_assert_ptr_nonnull(p4rt_read_counter(c.sw, PHYS_COUNTER_DROP, &read_events, &c));
    RIG_UNTIL(&rig, c.ends == 1);
    ck_assert_uint_eq(c.counter_sum, 3 * 321 * 1000 + 3 * 7 * (3 + 4 + 5));
    c.counter_sum = 0;
    ck_assert_ptr_nonnull(p4rt_read_cells(c.sw, &some, 1, &read_events, &c));
    RIG_UNTIL(&rig, c.ends == 2);
    ck_assert_int_eq(c.read_rc, RC_OK);
    ck_assert_uint_eq(c.counter_sum, 2 * 321 * 1000 + 3 * 7 * (3 + 5));
    client_fini(&c);
    rig_fini(&rig);
}
END_TEST

START_TEST(a_read_that_breaks_ends_once_with_the_reason)
{
    struct switch_rig rig;
    struct client c;
    struct p4rt_switch_options o;

    rig_init(&rig);
    o = rig_options(&rig, 2);
    client_init(&c, &rig, &o, &plain);
    RIG_UNTIL(&rig, c.found == 1); /* no program: reads are refused */
    ck_assert_ptr_nonnull(p4rt_read_tables(c.sw, &read_events, &c));
    RIG_UNTIL(&rig, c.ends == 1);
    ck_assert_int_ne(c.read_rc, RC_OK);
    ck_assert_ptr_nonnull(strstr(c.read_err.msg, "no program"));
    rig_run_ms(&rig, 30);
    ck_assert_uint_eq(c.ends, 1);
    p4rt_read_cancel(p4rt_read_tables(c.sw, &read_events, &c));
    rig_run_ms(&rig, 50);
    ck_assert_uint_eq(c.ends, 1);
    client_fini(&c);
    rig_fini(&rig);
}
END_TEST

START_TEST(meters_and_packets_go_through)
{
    struct phys_meter_write meter = { .meter = PHYS_METER_FB_CLASS,
                                      .half = PHYS_BOTH,
                                      .index = 1,
                                      .config = { 1000, 2000, 3000, 4000 } };
    struct switch_rig rig;
    struct client c;
    struct phys_meter_config got;
    const struct buf *out;
    struct p4rt_packet hello = { 300, false, 0, (const uint8_t *)"hello", 5 };
    struct p4rt_packet world = { 9, false, 0, (const uint8_t *)"world", 5 };
    struct p4rt_packet sent;

    rig_init(&rig);
    client_ready(&c, &rig, 1, &plain);
    p4rt_writer_meter(c.writer, &meter);
    p4rt_writer_mark(c.writer, 1);
    RIG_UNTIL(&rig, c.reached == 1);
    ck_assert(test_switch_meter(
        rig.sw, 0, p4rt_switch_info(c.sw)->meter_id[PHYS_METER_FB_CLASS], 1, &got));
    ck_assert_uint_eq(got.cir, 1000);
    ck_assert_uint_eq(got.pburst, 4000);
    ck_assert_int_eq(p4rt_switch_packet_out(c.sw, 0, &hello), RC_OK);
    out = test_switch_packet_out(rig.sw, &sent);
    RIG_UNTIL(&rig, out->len == 5);
    test_switch_packet_out(rig.sw, &sent);
    ck_assert_uint_eq(sent.port, 300);
    ck_assert(!sent.is_probe);
    test_switch_packet_in(rig.sw, 0, &world);
    RIG_UNTIL(&rig, strcmp(c.packet, "world") == 0);
    ck_assert_uint_eq(c.got.port, 9);
    ck_assert(!c.got.is_probe);
    hello.is_probe = true;
    ck_assert_int_eq(p4rt_switch_packet_out(c.sw, 0, &hello), RC_OK);
    out = test_switch_packet_out(rig.sw, &sent);
    RIG_UNTIL(&rig, (test_switch_packet_out(rig.sw, &sent), sent.is_probe));
    world.is_probe = true;
    world.reason = 31;
    test_switch_packet_in(rig.sw, 0, &world);
    RIG_UNTIL(&rig, c.got.is_probe);
    ck_assert_uint_eq(c.got.reason, 31);
    client_fini(&c);
    rig_fini(&rig);
}
END_TEST

START_TEST(options_that_make_no_sense_are_refused)
{
    struct switch_rig rig;
    struct p4rt_switch_options o;
    struct p4rt_switch *sw = NULL;
    struct blob *other = rig_program(lose_a_table, 0);
    struct err err = { 0 };

    rig_init(&rig);
    o = rig_options(&rig, 2);
    o.device_id[1] = o.device_id[0];
    ck_assert_int_eq(p4rt_switch_new(rig.loop, &o, &events, NULL, &sw, &err),
                     RC_INVALID);
    o = rig_options(&rig, 1);
    o.p4info = other;
    ck_assert_int_eq(p4rt_switch_new(rig.loop, &o, &events, NULL, &sw, &err),
                     RC_CONFLICT);
    ck_assert_ptr_nonnull(strstr(err.msg, "our own p4info"));
    ck_assert_ptr_null(sw);
    blob_unref(other);
    rig_fini(&rig);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("p4rt_switch");

    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, an_empty_switch_gets_the_program_and_keeps_it);
    tcase_add_test(tc,
                   a_target_that_cannot_verify_or_reconcile_is_committed_to_when_empty);
    tcase_add_test(tc, a_target_that_falls_over_at_reconcile_is_never_asked_to);
    tcase_add_test(tc, a_program_that_the_switch_refuses_is_an_error_and_no_end);
    tcase_add_test(tc, another_program_is_named_and_left_alone);
    tcase_add_test(tc, another_program_is_replaced_where_that_is_asked_for);
    tcase_add_test(tc, the_higher_term_is_primary_and_the_other_hears_of_it);
    tcase_add_test(tc, an_election_id_that_is_taken_ends_the_connection_with_a_reason);
    tcase_add_test(tc,
                   writes_go_to_the_halves_they_are_for_in_requests_of_bounded_size);
    tcase_add_test(tc, a_request_that_was_answered_grows_no_more);
    tcase_add_test(tc, requests_of_others_come_behind_a_barrier_with_theirs_kept);
    tcase_add_test(tc, nothing_behind_a_barrier_is_sent_before_all_in_front_is_done);
    tcase_add_test(tc, a_full_table_stops_it_and_is_named);
    tcase_add_test(tc, what_contradicts_the_tables_is_no_refusal);
    tcase_add_test(tc,
                   an_answer_that_does_not_come_or_says_little_leaves_the_outcome_open);
    tcase_add_test(tc, errors_of_as_many_updates_as_a_request_may_have_come_through);
    tcase_add_test(tc, one_that_is_not_primary_any_more_is_told_and_writes_nothing);
    tcase_add_test(tc, a_read_tells_every_entry_of_every_table_of_both_devices);
    tcase_add_test(tc, counters_are_found_by_their_names_and_read_cell_by_cell);
    tcase_add_test(
        tc, every_part_of_a_counter_is_read_and_of_cells_those_that_were_asked_for);
    tcase_add_test(tc, a_read_that_breaks_ends_once_with_the_reason);
    tcase_add_test(tc, meters_and_packets_go_through);
    tcase_add_test(tc, options_that_make_no_sense_are_refused);
    return unit_run("p4rt_switch", tc);
}
