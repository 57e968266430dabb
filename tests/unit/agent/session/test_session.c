#include "agent/session/session.h"

#include <string.h>

#include "proto/model/object.h"
#include "tests/unit/unit.h"

/* A session whose shell is this test: what came out last of each kind. */
struct rig {
    uint64_t read_id; /* of the last read-back asked for */
    uint32_t read_vni;
    struct session *session;
    uint64_t now_ms;
    unsigned count[SESSION_LOG + 1];
    struct telemetry telemetry;
    unsigned sent[AGENT_ROWS + 1];
    uint64_t counters_id;           /* of the last question to the device */
    struct agent_counters counters; /* the last answer; its items: */
    struct vni_counter counted[4];
    uint64_t probe_ids[PROBES_MAX]; /* the device's, as they were asked */
    struct agent_probe probe;       /* the last answer, without its frame … */
    uint32_t probe_frame;           /* … of so many bytes */
    struct session_out dial;
    struct agent_hello hello;
    struct agent_ack ack;
    struct agent_audit audit;
    struct blob *told_rows; /* of the last ROWS */
    struct exception exceptions[EXCEPTIONS_MAX];
    unsigned digests;
    struct driver_write writes[64];
    unsigned write_count;
    uint64_t config_id;
    struct device_state device;
    char log[300];
};

static void note_send(struct rig *r, const struct agent_msg *m)
{
    r->sent[m->kind]++;
    if (m->kind == AGENT_HELLO) {
        r->hello = m->hello;
    } else if (m->kind == AGENT_ACK) {
        r->ack = m->ack;
        ck_assert_uint_le(m->ack.exception_listed, ARRAY_LEN(r->exceptions));
        if (m->ack.exception_listed > 0) {
            memcpy(r->exceptions, m->ack.exceptions,
                   m->ack.exception_listed * sizeof(struct exception));
        }
        r->ack.exceptions = NULL;
    } else if (m->kind == AGENT_TELEMETRY) {
        r->telemetry = *m->telemetry;
    } else if (m->kind == AGENT_DIGESTS) {
        r->digests++;
    } else if (m->kind == AGENT_AUDIT) {
        r->audit = m->audit;
    } else if (m->kind == AGENT_ROWS) {
        ck_assert_int_eq(m->rows.rc, RC_OK);
        blob_unref(r->told_rows);
        r->told_rows = blob_ref(m->rows.rows);
    } else if (m->kind == AGENT_COUNTERS) {
        r->counters = m->counters;
        ck_assert_uint_le(m->counters.item_count, ARRAY_LEN(r->counted));
        for (uint32_t i = 0; i < m->counters.item_count; i++) {
            r->counted[i] = m->counters.items[i];
        }
    } else if (m->kind == AGENT_PROBE) {
        r->probe = m->probe;
        r->probe_frame = m->probe.result.frame ? m->probe.result.frame->len : 0;
        r->probe.result.frame = NULL;
    }
}

static void drain(struct rig *r)
{
    struct session_out out;

    while (session_next_out(r->session, &out)) {
        r->count[out.kind]++;
        switch (out.kind) {
        case SESSION_DIAL:
            r->dial = out;
            break;
        case SESSION_SEND:
            note_send(r, &out.send);
            break;
        case SESSION_WRITE:
            ck_assert_uint_lt(r->write_count, ARRAY_LEN(r->writes));
            r->writes[r->write_count] = out.write;
            blob_ref(out.write.ops);
            r->write_count++;
            break;
        case SESSION_CONFIGURE:
            r->config_id = out.configure.id;
            break;
        case SESSION_READ:
            r->read_id = out.read.id;
            r->read_vni = out.read.vni;
            break;
        case SESSION_COUNTERS:
            r->counters_id = out.counters.id;
            ck_assert_uint_eq(out.counters.from_vni, 5);
            break;
        case SESSION_PROBE:
            ck_assert_uint_eq(out.probe.frame->len, 60);
            r->probe_ids[(r->count[SESSION_PROBE] - 1) % PROBES_MAX] = out.probe.id;
            break;
        case SESSION_LOG:
            snprintf(r->log, sizeof(r->log), "%s %s", out.log.event, out.log.text);
            break;
        default:
            break;
        }
        session_out_fini(&out);
    }
}

static void feed(struct rig *r, const struct session_in *in)
{
    session_step(r->session, r->now_ms, in);
    drain(r);
}

static void read_end(struct rig *r, enum rc rc)
{
    feed(r, &(struct session_in){ .kind = SESSION_DEVICE_READ_END,
                                  .read_end = { r->read_id, rc } });
}

static void tick_at(struct rig *r, uint64_t now_ms)
{
    r->now_ms = now_ms;
    feed(r, &(struct session_in){ .kind = SESSION_TICK });
}

static void rig_init(struct rig *r, const char *device_id)
{
    struct session_config config = { .device_kind = DEVICE_X86,
                                     .redial_min_ms = 100,
                                     .redial_max_ms = 5000,
                                     .write_timeout_ms = 1000,
                                     .writes_in_flight = 2,
                                     .controller_count = 3 };

    memset(r, 0, sizeof(*r));
    snprintf(config.device_id, sizeof(config.device_id), "%s", device_id);
    r->now_ms = 1000;
    r->session = session_new(&config);
    r->device = (struct device_state){ .boot_id = 7 };
    tick_at(r, 1000);
    ck_assert_uint_eq(r->count[SESSION_DIAL], 1);
}

static void rig_fini(struct rig *r)
{
    for (unsigned i = 0; i < r->write_count; i++) {
        blob_unref(r->writes[i].ops);
    }
    blob_unref(r->told_rows);
    session_free(r->session);
}

static void device_up(struct rig *r)
{
    unsigned reads = r->count[SESSION_READ];

    feed(r, &(struct session_in){ .kind = SESSION_DEVICE_UP, .state = &r->device });
    if (r->count[SESSION_READ] > reads) {
        read_end(r, RC_OK);
    }
}

static void link_up(struct rig *r)
{
    feed(r, &(struct session_in){ .kind = SESSION_LINK_UP });
}

static void link_down(struct rig *r)
{
    feed(r, &(struct session_in){ .kind = SESSION_LINK_DOWN });
}

static void hear(struct rig *r, struct ctl_msg *m)
{
    feed(r, &(struct session_in){ .kind = SESSION_LINK_MSG, .ctl = m });
    ctl_msg_fini(m);
}

static uint32_t telemetry_ms; /* of the next ASSIGN */

static void assign_of(struct rig *r, uint64_t term, uint64_t hello_id,
                      struct blob *config)
{
    struct ctl_msg m = { .kind = CTL_ASSIGN };

    m.assign.term = term;
    strcpy(m.assign.group, "x86-1");
    m.assign.beat_ms = 500;
    m.assign.telemetry_ms = telemetry_ms;
    m.assign.hello_id = hello_id;
    m.assign.config = config;
    hear(r, &m);
}

static void assign(struct rig *r)
{
    assign_of(r, 3, r->hello.hello_id, NULL);
}

/* Ready to take batches, with an empty device. */
static void start(struct rig *r)
{
    rig_init(r, "gw-1");
    device_up(r);
    link_up(r);
    assign(r);
    ck_assert(session_status(r->session).is_assigned);
}

static struct row vm_row(struct buf *to, uint32_t vm, uint32_t nc)
{
    struct entry e = { .table = TABLE_VM_NC, .vni = 5 };
    struct row row;
    size_t key_len;

    e.vm_nc.vm = ip_v4(0x0a000000 + vm);
    e.vm_nc.nc = ip_v4(0x0b000000 + nc);
    buf_reset(to);
    entry_pack_key(&e, to);
    key_len = to->len;
    entry_pack_value(&e, to);
    row.key = to->data;
    row.key_len = (uint8_t)key_len;
    row.value = to->data + key_len;
    row.value_len = (uint8_t)(to->len - key_len);
    return row;
}

/* One run of VMs first … first + count - 1, all with NC `nc`. */
static struct blob *vms(enum batch_op op, uint32_t first, uint32_t count, uint32_t nc)
{
    static const struct bucket whole = { 0 };
    struct batch_writer w;
    struct buf one = BUF_INIT;
    struct buf rows = BUF_INIT;
    struct blob *b;

    batch_writer_init(&w);
    for (uint32_t i = 0; i < count; i++) {
        struct row row = vm_row(&one, first + i, nc);

        buf_add(&rows, row.key, row.key_len);
        if (op != BATCH_DELETE) {
            buf_add(&rows, row.value, row.value_len);
        }
    }
    batch_add_rows(&w, op, TABLE_VM_NC, 5, op == BATCH_REPLACE ? &whole : NULL,
                   rows.data, (uint32_t)rows.len, count);
    b = batch_writer_finish(&w);
    batch_writer_fini(&w);
    buf_fini(&one);
    buf_fini(&rows);
    return b;
}

static void batch(struct rig *r, uint64_t seq, uint64_t revision, struct blob *ops)
{
    struct ctl_msg m = { .kind = CTL_BATCH };

    m.batch.seq = seq;
    m.batch.revision = revision;
    m.batch.ready = revision != 0;
    m.batch.ops = ops;
    hear(r, &m);
}

static void done(struct rig *r, unsigned index, enum rc rc,
                 const struct exception *exceptions, uint32_t count)
{
    struct driver_done d = { .id = r->writes[index].id,
                             .rc = rc,
                             .exceptions = exceptions,
                             .exception_count = count };

    ck_assert_uint_lt(index, r->write_count);
    feed(r, &(struct session_in){ .kind = SESSION_DEVICE_DONE, .done = &d });
}

static uint64_t believed_vms(const struct rig *r)
{
    return table_set_count(session_believed(r->session), TABLE_VM_NC);
}

START_TEST(nothing_is_said_before_the_device_was_read_back)
{
    struct rig r;

    rig_init(&r, "gw-1");
    link_up(&r);
    ck_assert_uint_eq(r.sent[AGENT_HELLO], 1); /* no data plane: says so at once */
    ck_assert_uint_eq(r.hello.boot_id, 0);
    feed(&r, &(struct session_in){ .kind = SESSION_DEVICE_UP, .state = &r.device });
    ck_assert_uint_eq(r.count[SESSION_READ], 1);
    ck_assert_uint_eq(r.sent[AGENT_HELLO], 1);
    read_end(&r, RC_OK);
    ck_assert_uint_eq(r.sent[AGENT_HELLO], 2);
    ck_assert_uint_eq(r.hello.boot_id, 7);
    ck_assert(!r.hello.believed);
    link_down(&r);
    tick_at(&r, 20000);
    link_up(&r);
    ck_assert_uint_eq(r.sent[AGENT_HELLO], 3);
    ck_assert(r.hello.believed); /* not read back again for a mere reconnect */
    ck_assert_uint_eq(r.count[SESSION_READ], 1);
    rig_fini(&r);
}
END_TEST

START_TEST(a_lower_term_is_refused_and_a_higher_one_adopted)
{
    struct rig r;

    rig_init(&r, "gw-1");
    r.device.term = 9;
    device_up(&r);
    link_up(&r);
    ck_assert_uint_eq(r.hello.term_seen, 9);
    assign_of(&r, 8, r.hello.hello_id, NULL);
    ck_assert_uint_eq(r.count[SESSION_HANGUP], 1);
    ck_assert(!session_status(r.session).is_assigned);
    link_down(&r);
    tick_at(&r, 20000);
    link_up(&r);
    assign_of(&r, 12, r.hello.hello_id, NULL);
    ck_assert(session_status(r.session).is_assigned);
    batch(&r, 1, 5, vms(BATCH_PUT, 1, 1, 1));
    ck_assert_uint_eq(r.writes[0].term, 12);
    rig_fini(&r);
}
END_TEST

START_TEST(pauses_between_dials_double_and_differ_by_device)
{
    static const char *const ids[] = { "gw-1", "gw-2" };
    uint64_t pauses[2][10];

    for (unsigned d = 0; d < 2; d++) {
        struct rig r;
        uint64_t most = 100;

        rig_init(&r, ids[d]);
        for (unsigned i = 0; i < 10; i++) {
            uint64_t from = r.now_ms;
            uint64_t at;

            ck_assert_uint_eq(r.dial.dial.index, i % 3); /* each in its turn */
            link_down(&r);
            at = session_next_wake(r.session);
            pauses[d][i] = at - from;
            ck_assert_uint_ge(pauses[d][i], most / 2);
            ck_assert_uint_le(pauses[d][i], most);
            tick_at(&r, at - 1);
            ck_assert_uint_eq(r.count[SESSION_DIAL], i + 1);
            tick_at(&r, at);
            ck_assert_uint_eq(r.count[SESSION_DIAL], i + 2);
            most = most * 2 < 5000 ? most * 2 : 5000;
        }
        rig_fini(&r);
    }
    ck_assert_mem_ne(pauses[0], pauses[1], sizeof(pauses[0]));
}
END_TEST

/* How long after the loss of its link the session dials again. */
static uint64_t pause_of(struct rig *r)
{
    unsigned dials = r->count[SESSION_DIAL];
    uint64_t from = r->now_ms;

    link_down(r);
    while (r->count[SESSION_DIAL] == dials) {
        tick_at(r, session_next_wake(r->session));
    }
    return r->now_ms - from;
}

START_TEST(a_session_that_does_not_last_is_no_success)
{
    struct rig r;
    uint64_t most = 100;

    start(&r);
    for (unsigned i = 0; i < 8; i++) {
        ck_assert_uint_ge(pause_of(&r), most / 2); /* put out at once, time and again */
        most = most * 2 < 5000 ? most * 2 : 5000;
        link_up(&r);
        assign(&r);
    }
    tick_at(&r, r.now_ms + 5000);
    ck_assert_uint_le(pause_of(&r), 100);
    rig_fini(&r);
}
END_TEST

START_TEST(a_redirect_is_followed_at_once_but_not_in_circles)
{
    struct rig r;

    rig_init(&r, "gw-1");
    device_up(&r);
    for (unsigned i = 0; i < 5; i++) {
        struct ctl_msg m = { .kind = CTL_REDIRECT };
        unsigned dials = r.count[SESSION_DIAL];

        link_up(&r);
        strcpy(m.redirect, "10.0.0.2:7000");
        hear(&r, &m);
        ck_assert_uint_eq(r.count[SESSION_HANGUP], i + 1);
        link_down(&r);
        if (i < 3) {
            ck_assert_uint_eq(r.count[SESSION_DIAL], dials + 1);
        } else {
            ck_assert_uint_eq(r.count[SESSION_DIAL], dials); /* a pause first */
            tick_at(&r, session_next_wake(r.session));
        }
        ck_assert_str_eq(r.dial.dial.redirect, "10.0.0.2:7000");
    }
    rig_fini(&r);
}
END_TEST

START_TEST(a_malformed_batch_ends_the_link_and_touches_nothing)
{
    static const struct {
        const char *bytes;
        size_t len;
        uint64_t seq;
    } cases[] = {
        { "\x01\x03\x00\x00\x05\x00\x00\x00\x01\x00\x00\x00\x09zzzzzzzzz", 22, 1 },
        { "\x01\x03", 2, 1 },                              /* cut */
        { "\x07\x03\x00\x00\x05\0\0\0\0\0\0\0\0", 13, 1 }, /* no such op */
        { "", 0, 2 },                                      /* the first is number 1 */
        { "", 0, 0 },
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct rig r;

        start(&r);
        batch(&r, cases[i].seq, 5, blob_copy(cases[i].bytes, cases[i].len));
        ck_assert_uint_eq(r.count[SESSION_HANGUP], 1);
        ck_assert_uint_eq(r.write_count, 0);
        ck_assert_ptr_nonnull(strstr(r.log, "message refused"));
        rig_fini(&r);
    }
}
END_TEST

START_TEST(more_messages_than_the_window_allows_end_the_link)
{
    struct rig r;

    start(&r);
    for (uint64_t seq = 1; seq <= UINT64_C(4) * SESSION_WINDOW; seq++) {
        batch(&r, seq, 0, vms(BATCH_PUT, (uint32_t)seq, 1, 1));
    }
    ck_assert_uint_eq(r.count[SESSION_HANGUP], 1);
    ck_assert_uint_eq(r.write_count, 2); /* the device was not swamped either */
    rig_fini(&r);
}
END_TEST

START_TEST(what_is_there_already_is_not_written_but_applied_advances)
{
    struct rig r;

    start(&r);
    batch(&r, 1, 5, vms(BATCH_PUT, 1, 9, 1));
    done(&r, 0, RC_OK, NULL, 0);
    batch(&r, 2, 6, vms(BATCH_REPLACE, 1, 9, 1));
    batch(&r, 3, 7, vms(BATCH_PUT, 3, 2, 1));
    batch(&r, 4, 8, vms(BATCH_DELETE, 20, 2, 0));
    ck_assert_uint_eq(r.write_count, 3); /* two at a time */
    done(&r, 1, RC_OK, NULL, 0);
    done(&r, 2, RC_OK, NULL, 0);
    done(&r, 3, RC_OK, NULL, 0);
    ck_assert_uint_eq(r.write_count, 4);
    for (unsigned i = 1; i < 4; i++) {
        ck_assert_ptr_null(r.writes[i].ops);
        ck_assert_uint_eq(r.writes[i].revision, 5 + i);
    }
    ck_assert_uint_eq(session_status(r.session).device_writes, 1);
    ck_assert_uint_eq(r.ack.seq, 4);
    ck_assert_uint_eq(r.ack.applied, 8);
    rig_fini(&r);
}
END_TEST

START_TEST(puts_go_before_deletes_and_only_what_differs_goes)
{
    struct batch_reader reader;
    struct batch_run run;
    struct rig r;

    start(&r);
    batch(&r, 1, 5, vms(BATCH_PUT, 1, 10, 1));
    done(&r, 0, RC_OK, NULL, 0);
    batch(&r, 2, 6, vms(BATCH_REPLACE, 6, 10, 1)); /* 1-5 go, 11-15 come */
    ck_assert_uint_eq(r.write_count, 3);
    ck_assert_uint_eq(r.writes[1].revision, 0);
    ck_assert_uint_eq(r.writes[2].revision, 6); /* with the last piece */
    for (unsigned i = 1; i <= 2; i++) {
        reader = batch_reader_of(r.writes[i].ops->data, r.writes[i].ops->len);
        ck_assert(batch_next(&reader, &run));
        ck_assert_int_eq(run.op, i == 1 ? BATCH_PUT : BATCH_DELETE);
        ck_assert_uint_eq(run.count, 5);
        ck_assert(!batch_next(&reader, &run));
    }
    rig_fini(&r);
}
END_TEST

START_TEST(a_query_is_answered_when_all_before_it_is_done)
{
    struct ctl_msg q = { .kind = CTL_QUERY };
    struct rig r;

    start(&r);
    batch(&r, 1, 0, vms(BATCH_PUT, 1, 1, 1));
    q.query.query_id = 1;
    q.query.item_count = 1;
    q.query.items[0].table = TABLE_VM_NC;
    hear(&r, &q);
    ck_assert_uint_eq(r.digests, 0);
    done(&r, 0, RC_OK, NULL, 0);
    ck_assert_uint_eq(r.digests, 1);
    rig_fini(&r);
}
END_TEST

START_TEST(what_a_full_table_refused_is_named_and_written_once_there_is_room)
{
    struct exception full = { EXCEPTION_FULL, TABLE_VM_NC, 5, 5, { 4, 10, 0, 0, 3 } };
    struct rig r;

    start(&r);
    batch(&r, 1, 5, vms(BATCH_PUT, 1, 3, 1));
    done(&r, 0, RC_OK, &full, 1);
    ck_assert_uint_eq(r.ack.seq, 1);
    ck_assert_uint_eq(r.ack.applied, 5);
    ck_assert_uint_eq(r.ack.exception_count, 1);
    ck_assert_int_eq(r.exceptions[0].reason, EXCEPTION_FULL);
    ck_assert_mem_eq(r.exceptions[0].key, full.key, 5);
    ck_assert_uint_eq(believed_vms(&r), 2);
    batch(&r, 2, 6, vms(BATCH_DELETE, 1, 1, 0));
    done(&r, 1, RC_OK, NULL, 0);
    ck_assert_uint_eq(r.write_count, 3); /* tried again at once */
    ck_assert_uint_eq(r.ack.exception_count, 1);
    done(&r, 2, RC_OK, NULL, 0);
    ck_assert_uint_eq(r.ack.exception_count, 0);
    ck_assert_uint_eq(believed_vms(&r), 2);
    rig_fini(&r);
}
END_TEST

/* What an operator reads at the controller is what stands, not what has healed. */
START_TEST(the_list_of_exceptions_follows_what_heals)
{
    struct exception full[2] = {
        { EXCEPTION_REFUSED, TABLE_VM_NC, 5, 5, { 4, 10, 0, 0, 2 } },
        { EXCEPTION_REFUSED, TABLE_VM_NC, 5, 5, { 4, 10, 0, 0, 3 } },
    };
    struct rig r;

    start(&r);
    batch(&r, 1, 5, vms(BATCH_PUT, 1, 3, 1));
    done(&r, 0, RC_OK, full, 2);
    ck_assert_uint_eq(r.ack.exception_count, 2);
    ck_assert_uint_eq(r.ack.exception_listed, 2);
    ck_assert_uint_eq(r.ack.standing, 0);
    batch(&r, 2, 6, vms(BATCH_DELETE, 2, 1, 0));
    done(&r, 1, RC_OK, NULL, 0);
    ck_assert_uint_eq(r.ack.exception_count, 1);
    ck_assert_uint_eq(r.ack.exception_listed, 1);
    ck_assert_uint_eq(r.ack.standing, 1);
    ck_assert_mem_eq(r.exceptions[0].key, full[1].key, 5);
    rig_fini(&r);
}
END_TEST

/* VMs of VNI 5 that a PUT in `ops` names, by their number. */
static unsigned note_tried(const struct blob *ops, bool *tried)
{
    struct batch_reader b = batch_reader_of(ops->data, ops->len);
    struct batch_run run;
    unsigned n = 0;

    while (batch_next(&b, &run)) {
        struct run_reader it = run_reader_of(&run);
        struct row row;

        while (run_next(&it, &row)) {
            tried[(unsigned)row.key[3] << 8 | row.key[4]] = true;
            n++;
        }
    }
    return n;
}

/* Who stands first among thousands that do not fit must not starve the rest: among
 * them may be those that do fit. */
START_TEST(of_many_that_do_not_fit_each_has_its_turn)
{
    enum { MANY = 2500 };
    static struct exception full[MANY];
    static bool tried[65536];
    struct rig r;

    for (unsigned i = 0; i < MANY; i++) {
        full[i] = (struct exception){ EXCEPTION_FULL,
                                      TABLE_VM_NC,
                                      5,
                                      5,
                                      { 4, 10, 0, (uint8_t)((i + 1) >> 8),
                                        (uint8_t)(i + 1) } };
    }
    start(&r);
    batch(&r, 1, 5, vms(BATCH_PUT, 1, MANY, 1));
    done(&r, 0, RC_OK, full, MANY);
    for (unsigned round = 1; round <= 3; round++) {
        unsigned n;
        static struct exception again[MANY];
        unsigned count = 0;
        static bool now[65536];

        tick_at(&r, r.now_ms + 10000);
        ck_assert_uint_eq(r.write_count, round + 1);
        memset(now, 0, sizeof(now));
        n = note_tried(r.writes[round].ops, now);
        ck_assert_uint_gt(n, 0);
        for (unsigned i = 1; i <= MANY; i++) {
            tried[i] |= now[i];
            if (now[i]) {
                again[count++] = full[i - 1];
            }
        }
        done(&r, round, RC_OK, again, count);
    }
    for (unsigned i = 1; i <= MANY; i++) {
        ck_assert_msg(tried[i], "VM %u was never tried again", i);
    }
    rig_fini(&r);
}
END_TEST

START_TEST(a_delete_of_a_refused_entry_clears_it_without_a_write)
{
    struct exception no = { EXCEPTION_REFUSED, TABLE_VM_NC, 5, 5, { 4, 10, 0, 0, 1 } };
    struct rig r;

    start(&r);
    batch(&r, 1, 5, vms(BATCH_PUT, 1, 1, 1));
    done(&r, 0, RC_OK, &no, 1);
    ck_assert_uint_eq(r.ack.exception_count, 1);
    tick_at(&r, 100000);
    ck_assert_uint_eq(r.write_count, 1); /* what was refused is not tried again */
    batch(&r, 2, 6, vms(BATCH_DELETE, 1, 1, 0));
    done(&r, 1, RC_OK, NULL, 0);
    ck_assert_ptr_null(r.writes[1].ops);
    ck_assert_uint_eq(r.ack.exception_count, 0);
    rig_fini(&r);
}
END_TEST

START_TEST(a_failed_write_leaves_a_newer_one_of_the_same_key_alone)
{
    struct rig r;

    start(&r);
    batch(&r, 1, 5, vms(BATCH_PUT, 1, 2, 1));
    batch(&r, 2, 6, vms(BATCH_PUT, 2, 1, 2)); /* before the first was answered */
    done(&r, 0, RC_NO_MEMORY, NULL, 0);
    ck_assert_uint_eq(r.ack.exception_listed, 1); /* VM 1; VM 2 has a newer value */
    done(&r, 1, RC_OK, NULL, 0);
    ck_assert_uint_eq(r.ack.exception_count, 1);
    ck_assert_mem_eq(r.exceptions[0].key, "\x04\x0a\x00\x00\x01", 5);
    tick_at(&r, r.now_ms + 5000);
    ck_assert_uint_eq(r.write_count, 3);
    {
        struct blob *want = vms(BATCH_PUT, 1, 1, 1);

        ck_assert_uint_eq(r.writes[2].ops->len, want->len);
        ck_assert_mem_eq(r.writes[2].ops->data, want->data, want->len);
        blob_unref(want);
    }
    done(&r, 2, RC_OK, NULL, 0);
    ck_assert_uint_eq(r.ack.exception_count, 0);
    ck_assert_uint_eq(believed_vms(&r), 2);
    rig_fini(&r);
}
END_TEST

START_TEST(a_write_without_an_answer_is_unknown_until_the_answer_comes)
{
    struct rig r;

    start(&r);
    batch(&r, 1, 5, vms(BATCH_PUT, 1, 2, 1));
    tick_at(&r, r.now_ms + 999);
    ck_assert_uint_eq(r.sent[AGENT_ACK], 0);
    tick_at(&r, r.now_ms + 1);
    ck_assert_uint_eq(r.ack.seq, 1);
    ck_assert_uint_eq(r.ack.applied, 0); /* not beyond what is known */
    ck_assert_uint_eq(r.ack.exception_count, 2);
    ck_assert_int_eq(r.exceptions[0].reason, EXCEPTION_UNKNOWN);
    done(&r, 0, RC_OK, NULL, 0);
    ck_assert_uint_eq(r.ack.exception_count, 0);
    ck_assert_uint_eq(r.ack.applied, 5);
    rig_fini(&r);
}
END_TEST

START_TEST(a_lost_link_does_nothing_to_the_device)
{
    struct rig r;
    unsigned writes;

    start(&r);
    batch(&r, 1, 5, vms(BATCH_PUT, 1, 2, 1));
    writes = r.write_count;
    link_down(&r);
    tick_at(&r, r.now_ms + 100000); /* also: the write was late */
    done(&r, 0, RC_OK, NULL, 0);
    ck_assert_uint_eq(r.write_count, writes);
    ck_assert_uint_eq(r.count[SESSION_CONFIGURE], 0);
    ck_assert_uint_eq(believed_vms(&r), 2);
    link_up(&r);
    ck_assert_uint_eq(r.hello.applied, 5);
    ck_assert(r.hello.ready);
    rig_fini(&r);
}
END_TEST

START_TEST(a_new_data_plane_starts_a_new_conversation_on_the_same_link)
{
    struct rig r;
    uint64_t old;

    start(&r);
    old = r.hello.hello_id;
    feed(&r, &(struct session_in){ .kind = SESSION_DEVICE_DOWN });
    ck_assert_uint_eq(r.hello.boot_id, 0); /* said at once */
    r.device = (struct device_state){ .boot_id = 8 };
    device_up(&r);
    ck_assert_uint_eq(r.hello.boot_id, 8);
    /* What was under way is of the old conversation. */
    batch(&r, 1, 5, vms(BATCH_PUT, 1, 2, 1));
    assign_of(&r, 3, old, NULL);
    batch(&r, 2, 6, vms(BATCH_PUT, 3, 2, 1));
    ck_assert_uint_eq(r.write_count, 0);
    ck_assert_uint_eq(r.count[SESSION_HANGUP], 0);
    assign(&r);
    batch(&r, 1, 7, vms(BATCH_PUT, 5, 2, 1));
    ck_assert_uint_eq(r.write_count, 1);
    rig_fini(&r);
}
END_TEST

START_TEST(a_configuration_goes_to_the_device_once_and_before_the_tables)
{
    struct blob *config = blob_copy("some configuration", 18);
    struct driver_done d = { .rc = RC_OK };
    struct rig r;

    start(&r);
    assign_of(&r, 3, r.hello.hello_id, blob_ref(config));
    ck_assert_uint_eq(r.count[SESSION_CONFIGURE], 1);
    batch(&r, 1, 5, vms(BATCH_PUT, 1, 2, 1));
    ck_assert_uint_eq(r.write_count, 0);
    d.id = r.config_id;
    feed(&r, &(struct session_in){ .kind = SESSION_DEVICE_DONE, .done = &d });
    ck_assert_uint_eq(r.write_count, 1);
    done(&r, 0, RC_OK, NULL, 0);
    assign_of(&r, 3, r.hello.hello_id, blob_ref(config));
    ck_assert_uint_eq(r.count[SESSION_CONFIGURE], 1); /* it has it */
    link_down(&r);
    tick_at(&r, r.now_ms + 10000);
    link_up(&r);
    ck_assert_uint_eq(r.hello.config_digest,
                      device_config_bytes_digest(config->data, config->len));
    blob_unref(config);
    rig_fini(&r);
}
END_TEST

START_TEST(beats_come_as_often_as_was_said_and_carry_the_last_totals)
{
    struct device_totals totals = { .rx_packets = 42 };
    struct rig r;
    uint64_t from;

    start(&r);
    from = r.now_ms;
    feed(&r, &(struct session_in){ .kind = SESSION_DEVICE_TOTALS, .totals = &totals });
    for (uint64_t i = 1; i <= 10; i++) {
        ck_assert_uint_eq(session_next_wake(r.session), from + 500 * i);
        tick_at(&r, from + 500 * i);
        ck_assert_uint_eq(r.sent[AGENT_BEAT], i);
    }
    link_down(&r);
    tick_at(&r, from + 60000);
    ck_assert_uint_eq(r.sent[AGENT_BEAT], 10);
    rig_fini(&r);
}
END_TEST

/* The device as it counts: `t` seconds after its start. */
static void totals_at(struct rig *r, uint64_t t, uint64_t rate, uint64_t drops)
{
    const struct device_reading readings[] = {
        { "port/up0", "rx_bps", READING_LOAD, true, t * rate, 1000000 },
        { "", "memory", READING_LOAD, false, 100 + t, 1000 },
    };
    const struct device_drop drop = { "mtu", drops };
    const struct device_totals totals = { .rx_packets = 10 * t,
                                          .readings = readings,
                                          .reading_count = 2,
                                          .drop_list = &drop,
                                          .drop_count = 1 };

    feed(r, &(struct session_in){ .kind = SESSION_DEVICE_TOTALS, .totals = &totals });
}

START_TEST(counters_become_rates_each_second)
{
    struct rig r;

    telemetry_ms = 1000;
    start(&r);
    ck_assert_uint_eq(r.count[SESSION_POLL_TOTALS], 1); /* at once: to compare with */
    totals_at(&r, 1, 5000, 7);
    ck_assert_uint_eq(r.sent[AGENT_TELEMETRY], 0);
    tick_at(&r, r.now_ms + 1000);
    ck_assert_uint_eq(r.count[SESSION_POLL_TOTALS], 2);
    totals_at(&r, 2, 5000, 9);
    ck_assert_uint_eq(r.sent[AGENT_TELEMETRY], 1);
    ck_assert_uint_eq(r.telemetry.boot_id, r.device.boot_id);
    ck_assert_uint_eq(r.telemetry.span_ms, 1000);
    ck_assert_uint_eq(r.telemetry.received, 10);
    ck_assert_uint_eq(r.telemetry.reading_count, 2);
    ck_assert_str_eq(r.telemetry.readings[0].part, "port/up0");
    ck_assert_uint_eq(r.telemetry.readings[0].mean, 5000);
    ck_assert_uint_eq(r.telemetry.readings[0].capacity, 1000000);
    ck_assert_uint_eq(r.telemetry.readings[1].max, 102);
    ck_assert_uint_eq(r.telemetry.drop_count, 1);
    ck_assert_uint_eq(r.telemetry.drops[0].packets, 2); /* what was before is old */
    /* An answer that came late made this one's time look short. */
    tick_at(&r, r.now_ms + 1000);
    totals_at(&r, 1000, 5000, 9);
    ck_assert_uint_eq(r.sent[AGENT_TELEMETRY], 2);
    ck_assert_uint_eq(r.telemetry.readings[0].mean,
                      1000000); /* what the link carries */
    telemetry_ms = 0;
    rig_fini(&r);
}
END_TEST

START_TEST(aggregates_have_least_mean_and_greatest_and_a_restart_compares_nothing)
{
    struct rig r;

    telemetry_ms = 10000;
    start(&r);
    totals_at(&r, 0, 0, 0);
    for (uint64_t t = 1; t <= 10; t++) { /* t^2 in all, so 2t - 1 in the second */
        tick_at(&r, r.now_ms + 1000);
        totals_at(&r, t, t, 0);
    }
    ck_assert_uint_eq(r.sent[AGENT_TELEMETRY], 1);
    ck_assert_uint_eq(r.telemetry.span_ms, 10000);
    ck_assert_uint_eq(r.telemetry.received, 100);
    ck_assert_uint_eq(r.telemetry.readings[0].min, 1);
    ck_assert_uint_eq(r.telemetry.readings[0].mean, 10);
    ck_assert_uint_eq(r.telemetry.readings[0].max, 19);
    /* The device starts anew: its counters begin at 0, and nothing is a rate of that.
     */
    for (uint64_t t = 1; t <= 11; t++) {
        tick_at(&r, r.now_ms + 1000);
        totals_at(&r, t, 3, 0);
    }
    ck_assert_uint_eq(r.sent[AGENT_TELEMETRY], 2);
    ck_assert_uint_eq(r.telemetry.received, 100);
    ck_assert_uint_eq(r.telemetry.readings[0].min, 3);
    ck_assert_uint_eq(r.telemetry.readings[0].max, 3);
    telemetry_ms = 0;
    rig_fini(&r);
}
END_TEST

START_TEST(a_device_with_a_newer_term_ends_the_link_and_is_read_back_first)
{
    struct rig r;

    start(&r);
    batch(&r, 1, 5, vms(BATCH_PUT, 1, 2, 1));
    done(&r, 0, RC_STALE, NULL, 0);
    ck_assert_uint_eq(r.count[SESSION_HANGUP], 1);
    link_down(&r);
    tick_at(&r, r.now_ms + 10000);
    ck_assert_uint_eq(r.count[SESSION_READ], 2);
    link_up(&r);
    ck_assert_uint_eq(r.sent[AGENT_HELLO], 1);
    read_end(&r, RC_OK);
    ck_assert_uint_eq(r.sent[AGENT_HELLO], 2);
    ck_assert_uint_eq(believed_vms(&r), 0);
    rig_fini(&r);
}
END_TEST

START_TEST(a_new_conversation_voids_the_wishes_of_the_old)
{
    struct rig r;

    start(&r);
    batch(&r, 1, 5, vms(BATCH_PUT, 1, 2, 1));
    done(&r, 0, RC_NO_MEMORY, NULL, 0);
    ck_assert_uint_eq(r.ack.exception_count, 2);
    link_down(&r);
    tick_at(&r, r.now_ms + 10000);
    link_up(&r);
    assign(&r);
    tick_at(&r, r.now_ms + 100000); /* the controller has compared, and wants neither */
    ck_assert_uint_eq(r.write_count, 1);
    ck_assert_uint_eq(session_status(r.session).exception_count, 0);
    rig_fini(&r);
}
END_TEST

START_TEST(no_answer_to_hello_is_not_waited_for_for_ever)
{
    struct rig r;

    rig_init(&r, "gw-1");
    device_up(&r);
    link_up(&r);
    ck_assert_uint_eq(r.sent[AGENT_HELLO], 1);
    tick_at(&r, session_next_wake(r.session));
    ck_assert_uint_eq(r.count[SESSION_HANGUP], 1);
    rig_fini(&r);
}
END_TEST

static void ask_counters(struct rig *r, uint64_t ask_id)
{
    struct ctl_msg m = { .kind = CTL_COUNTERS };

    m.counters = (struct ctl_counters){ ask_id, 5 };
    feed(r, &(struct session_in){ .kind = SESSION_LINK_MSG, .ctl = &m });
}

static void answer_counters(struct rig *r, uint64_t id, enum rc rc)
{
    static const struct vni_counter items[] = { { 5, 1, 2, 300 }, { 9, 4, 1, 64 } };
    struct device_counters c = {
        .id = id, .rc = rc, .next_vni = 11, .items = items, .count = rc == RC_OK ? 2 : 0
    };

    feed(r, &(struct session_in){ .kind = SESSION_DEVICE_COUNTERS, .counters = &c });
}

START_TEST(counters_are_told_as_the_device_tells_them_and_once)
{
    struct rig r;
    uint64_t first;

    start(&r);
    batch(&r, 1, 5, vms(BATCH_PUT, 1, 2, 1)); /* a write under way is no matter */
    ask_counters(&r, 70);
    first = r.counters_id;
    ask_counters(&r, 71); /* voids the one before */
    answer_counters(&r, first, RC_OK);
    ck_assert_uint_eq(r.sent[AGENT_COUNTERS], 0);
    answer_counters(&r, r.counters_id, RC_OK);
    answer_counters(&r, r.counters_id, RC_OK);
    ck_assert_uint_eq(r.sent[AGENT_COUNTERS], 1);
    ck_assert_uint_eq(r.counters.ask_id, 71);
    ck_assert_int_eq(r.counters.rc, RC_OK);
    ck_assert_uint_eq(r.counters.next_vni, 11);
    ck_assert_uint_eq(r.counters.item_count, 2);
    ck_assert_uint_eq(r.counted[1].vni, 9);
    ck_assert_uint_eq(r.counted[0].bytes, 300);
    ask_counters(&r, 72);
    answer_counters(&r, r.counters_id, RC_NOT_FOUND);
    ck_assert_uint_eq(r.sent[AGENT_COUNTERS], 2);
    ck_assert_int_eq(r.counters.rc, RC_NOT_FOUND);
    rig_fini(&r);
}
END_TEST

START_TEST(counters_that_the_device_does_not_tell_are_told_to_be_late_or_not_at_all)
{
    struct rig r;

    start(&r);
    ask_counters(&r, 70);
    ck_assert_uint_le(session_next_wake(r.session), r.now_ms + 1000);
    tick_at(&r, r.now_ms + 1000);
    ck_assert_uint_eq(r.sent[AGENT_COUNTERS], 1);
    ck_assert_int_eq(r.counters.rc, RC_TIMEOUT);
    ask_counters(&r, 71);
    feed(&r,
         &(struct session_in){ .kind = SESSION_DEVICE_DOWN }); /* a new HELLO says it */
    answer_counters(&r, r.counters_id, RC_OK);
    ck_assert_uint_eq(r.sent[AGENT_COUNTERS], 1);
    rig_fini(&r);
}
END_TEST

static void ask_probe(struct rig *r, uint64_t probe_id)
{
    struct ctl_msg m = { .kind = CTL_PROBE, .probe = { probe_id, blob_new(60) } };

    feed(r, &(struct session_in){ .kind = SESSION_LINK_MSG, .ctl = &m });
    ctl_msg_fini(&m);
}

static void answer_probe(struct rig *r, uint64_t id, const struct probe_result *result)
{
    struct device_probe p = { id, result };

    feed(r, &(struct session_in){ .kind = SESSION_DEVICE_PROBE, .probe = &p });
}

START_TEST(probes_are_answered_each_by_its_own_id_and_once)
{
    struct probe_result forwarded = { .outcome = PROBE_FORWARDED,
                                      .port = "up0",
                                      .frame = blob_new(64) };
    struct probe_result dropped = { .outcome = PROBE_DROPPED, .reason = "route_miss" };
    struct rig r;

    start(&r);
    ask_probe(&r, 70);
    ask_probe(&r, 71);
    answer_probe(&r, r.probe_ids[1], &dropped);
    ck_assert_uint_eq(r.probe.probe_id, 71);
    ck_assert_str_eq(r.probe.result.reason, "route_miss");
    answer_probe(&r, r.probe_ids[0], &forwarded);
    ck_assert_uint_eq(r.probe.probe_id, 70);
    ck_assert_str_eq(r.probe.result.port, "up0");
    ck_assert_uint_eq(r.probe_frame, 64);
    answer_probe(&r, r.probe_ids[0], &forwarded);
    answer_probe(&r, 0, &forwarded);
    ck_assert_uint_eq(r.sent[AGENT_PROBE], 2);
    blob_unref(forwarded.frame);
    rig_fini(&r);
}
END_TEST

START_TEST(probes_that_come_together_are_asked_and_answered_one_by_one)
{
    struct probe_result kept = { .outcome = PROBE_KEPT };
    struct ctl_msg m = { .kind = CTL_PROBES, .probes.count = 3 };
    struct rig r;

    start(&r);
    for (uint32_t i = 0; i < 3; i++) {
        m.probes.at[i] = (struct ctl_probe){ 80 + i, blob_new(60) };
    }
    feed(&r, &(struct session_in){ .kind = SESSION_LINK_MSG, .ctl = &m });
    ctl_msg_fini(&m);
    ck_assert_uint_eq(r.sent[AGENT_PROBE], 0);
    for (uint64_t i = 3; i > 0; i--) {
        answer_probe(&r, r.probe_ids[i - 1], &kept);
        ck_assert_uint_eq(r.probe.probe_id, 79 + i);
    }
    ck_assert_uint_eq(r.sent[AGENT_PROBE], 3);
    rig_fini(&r);
}
END_TEST

START_TEST(more_probes_than_may_be_under_way_are_refused_and_late_ones_said_to_be)
{
    struct probe_result kept = { .outcome = PROBE_KEPT };
    struct rig r;

    start(&r);
    for (uint64_t i = 0; i < PROBES_MAX; i++) {
        ask_probe(&r, 100 + i);
    }
    ck_assert_uint_eq(r.sent[AGENT_PROBE], 0);
    ask_probe(&r, 200);
    ck_assert_uint_eq(r.sent[AGENT_PROBE], 1);
    ck_assert_uint_eq(r.probe.probe_id, 200);
    ck_assert_int_eq(r.probe.result.rc, RC_FULL);
    ck_assert_str_ne(r.probe.result.error, "");
    answer_probe(&r, r.probe_ids[3], &kept);
    ask_probe(&r, 201); /* in the place that became free */
    ck_assert_uint_eq(r.sent[AGENT_PROBE], 2);
    ck_assert_uint_le(session_next_wake(r.session), r.now_ms + 1000);
    tick_at(&r, r.now_ms + 1000);
    ck_assert_uint_eq(r.sent[AGENT_PROBE], 2 + PROBES_MAX);
    ck_assert_int_eq(r.probe.result.rc, RC_TIMEOUT);
    answer_probe(&r, r.probe_ids[5], &kept);
    ck_assert_uint_eq(r.sent[AGENT_PROBE], 2 + PROBES_MAX);
    rig_fini(&r);
}
END_TEST

/* ---- audits ---- */

static void ask_audit(struct rig *r, uint64_t id, uint32_t vni)
{
    hear(r, &(struct ctl_msg){ .kind = CTL_AUDIT, .audit = { id, vni } });
}

static void tell_rows(struct rig *r, struct blob *batch)
{
    feed(r, &(struct session_in){ .kind = SESSION_DEVICE_ROWS,
                                  .rows = { r->read_id, batch->data, batch->len } });
    blob_unref(batch);
}

/* The NC of a VM as ROWS tells it: the last byte; 0: there is none. */
static unsigned told_nc(struct rig *r, uint32_t vm)
{
    struct ctl_msg m = { .kind = CTL_ROWS,
                         .rows = { 9, { TABLE_VM_NC, { TREE_DEPTH, 5 }, { 0, 0 } } } };
    struct buf one = BUF_INIT;
    struct row want = vm_row(&one, vm, 0);
    unsigned found = 0;
    struct batch_reader in;
    struct batch_run run;

    hear(r, &m);
    ck_assert_ptr_nonnull(r->told_rows);
    in = batch_reader_of(r->told_rows->data, r->told_rows->len);
    while (batch_next(&in, &run)) {
        struct run_reader it = run_reader_of(&run);
        struct row row;

        ck_assert_int_eq(run.op, BATCH_PUT);
        while (run_next(&it, &row)) {
            if (row_compare(&row, &want) == 0) {
                found = row.value[4]; /* family, 11.0.0.x */
            }
        }
    }
    buf_fini(&one);
    return found;
}

/* VMs 1 to 10 with NC 1, written and there. */
static void start_with_vms(struct rig *r)
{
    start(r);
    batch(r, 1, 5, vms(BATCH_PUT, 1, 10, 1));
    done(r, 0, RC_OK, NULL, 0);
}

START_TEST(an_audit_of_all_lets_writes_go_on_and_believes_what_was_read)
{
    struct rig r;
    unsigned reads;

    start_with_vms(&r);
    reads = r.count[SESSION_READ];
    ask_audit(&r, 77, 0);
    ck_assert_uint_eq(r.count[SESSION_READ], reads + 1);
    ck_assert_uint_eq(r.read_vni, 0);

    /* What is written meanwhile is as it was written, whatever was read of it. */
    batch(&r, 2, 6, vms(BATCH_PUT, 2, 1, 9));
    batch(&r, 3, 7, vms(BATCH_PUT, 11, 1, 1));
    batch(&r, 4, 8, vms(BATCH_DELETE, 7, 1, 0));
    ck_assert_uint_eq(r.write_count, 3); /* two at once; the third waits for one */
    done(&r, 1, RC_OK, NULL, 0);
    tell_rows(&r, vms(BATCH_PUT, 1, 2, 1)); /* of before */
    tell_rows(&r, vms(BATCH_PUT, 4, 1, 3)); /* another value, and no 3 */
    tell_rows(&r, vms(BATCH_PUT, 5, 6, 1));
    tell_rows(&r, vms(BATCH_PUT, 20, 1, 1)); /* nobody wrote it */
    ck_assert_uint_eq(r.sent[AGENT_AUDIT], 0);
    read_end(&r, RC_OK);
    done(&r, 2, RC_OK, NULL, 0);
    done(&r, 3, RC_OK, NULL, 0);

    ck_assert_uint_eq(r.sent[AGENT_AUDIT], 1);
    ck_assert_uint_eq(r.audit.audit_id, 77);
    ck_assert_int_eq(r.audit.rc, RC_OK);
    ck_assert_uint_eq(r.audit.found[TABLE_VM_NC].count, 10);
    ck_assert_uint_eq(told_nc(&r, 1), 1);
    ck_assert_uint_eq(told_nc(&r, 2), 9);
    ck_assert_uint_eq(told_nc(&r, 3), 0);
    ck_assert_uint_eq(told_nc(&r, 4), 3);
    ck_assert_uint_eq(told_nc(&r, 7), 0);
    ck_assert_uint_eq(told_nc(&r, 11), 1);
    ck_assert_uint_eq(told_nc(&r, 20), 1);

    /* And so what is to be written is what differs from it. */
    batch(&r, 5, 9, vms(BATCH_PUT, 3, 2, 1));
    done(&r, 4, RC_OK, NULL, 0);
    ck_assert_uint_eq(told_nc(&r, 3), 1);
    ck_assert_uint_eq(told_nc(&r, 4), 1);
    rig_fini(&r);
}
END_TEST

START_TEST(probes_of_a_device_that_went_away_are_forgotten_with_the_conversation)
{
    struct probe_result kept = { .outcome = PROBE_KEPT };
    struct rig r;

    start(&r);
    ask_probe(&r, 70);
    feed(&r, &(struct session_in){ .kind = SESSION_DEVICE_DOWN });
    answer_probe(&r, r.probe_ids[0], &kept);
    ask_probe(&r, 71); /* before the ASSIGN that begins the next one */
    ck_assert_uint_eq(r.count[SESSION_PROBE], 1);
    ck_assert_uint_eq(r.sent[AGENT_PROBE], 0);
    rig_fini(&r);
}
END_TEST

START_TEST(a_row_that_is_not_sound_counts_as_missing_or_as_what_was_found)
{
    struct rig r;

    start_with_vms(&r);
    ask_audit(&r, 1, 0);
    tell_rows(&r, vms(BATCH_PUT, 1, 10, 1));
    tell_rows(&r, vms(BATCH_DELETE, 5, 1, 0)); /* as believed, but not sound */
    tell_rows(&r, vms(BATCH_PUT, 6, 1, 4));
    tell_rows(&r, vms(BATCH_DELETE, 6, 1, 0));
    tell_rows(&r, vms(BATCH_PUT, 30, 1, 2));
    tell_rows(&r, vms(BATCH_DELETE, 30, 1, 0));
    read_end(&r, RC_OK);
    ck_assert_uint_eq(told_nc(&r, 4), 1);
    ck_assert_uint_eq(told_nc(&r, 5), 0);
    ck_assert_uint_eq(told_nc(&r, 6), 4);
    ck_assert_uint_eq(told_nc(&r, 30), 2);

    /* Nobody mended it: it is found again as it was. */
    ask_audit(&r, 2, 0);
    tell_rows(&r, vms(BATCH_PUT, 1, 10, 1));
    tell_rows(&r, vms(BATCH_DELETE, 5, 1, 0));
    tell_rows(&r, vms(BATCH_PUT, 6, 1, 4));
    tell_rows(&r, vms(BATCH_DELETE, 6, 1, 0));
    tell_rows(&r, vms(BATCH_PUT, 30, 1, 2));
    tell_rows(&r, vms(BATCH_DELETE, 30, 1, 0));
    read_end(&r, RC_OK);
    ck_assert_uint_eq(told_nc(&r, 6), 4);
    ck_assert_uint_eq(told_nc(&r, 30), 2);
    rig_fini(&r);
}
END_TEST

START_TEST(one_audit_at_a_time_and_one_of_a_vni_holds_what_comes_behind_it)
{
    struct rig r;

    start_with_vms(&r);
    ask_audit(&r, 1, 0);
    ask_audit(&r, 2, 5);
    ck_assert_uint_eq(r.audit.audit_id, 2);
    ck_assert_int_eq(r.audit.rc, RC_CONFLICT);
    tell_rows(&r, vms(BATCH_PUT, 1, 10, 1));
    read_end(&r, RC_OK);
    ck_assert_uint_eq(r.audit.audit_id, 1);

    ask_audit(&r, 3, 5);
    batch(&r, 2, 6, vms(BATCH_PUT, 2, 1, 9));
    ck_assert_uint_eq(r.write_count, 1);
    tell_rows(&r, vms(BATCH_PUT, 1, 9, 1));
    read_end(&r, RC_OK);
    ck_assert_uint_eq(r.audit.audit_id, 3);
    ck_assert_uint_eq(r.audit.found[TABLE_VM_NC].count, 9);
    ck_assert_uint_eq(r.write_count, 2);
    done(&r, 1, RC_OK, NULL, 0);
    ck_assert_uint_eq(told_nc(&r, 10), 0);
    rig_fini(&r);
}
END_TEST

START_TEST(a_read_back_that_fails_says_so_and_changes_nothing)
{
    struct rig r;

    start_with_vms(&r);
    ask_audit(&r, 1, 0);
    tell_rows(&r, vms(BATCH_PUT, 1, 3, 1));
    read_end(&r, RC_UNREACHABLE);
    ck_assert_int_eq(r.audit.rc, RC_UNREACHABLE);
    ck_assert_uint_eq(believed_vms(&r), 10);
    ask_audit(&r, 2, 0);
    tick_at(&r, r.now_ms + 119999);
    ck_assert_uint_eq(r.sent[AGENT_AUDIT], 1);
    tick_at(&r, r.now_ms + 1);
    ck_assert_uint_eq(r.sent[AGENT_AUDIT], 2);
    ck_assert_int_eq(r.audit.rc, RC_TIMEOUT);
    ck_assert_uint_eq(believed_vms(&r), 10);
    rig_fini(&r);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("session");

    tcase_add_test(tc, nothing_is_said_before_the_device_was_read_back);
    tcase_add_test(tc, a_lower_term_is_refused_and_a_higher_one_adopted);
    tcase_add_test(tc, pauses_between_dials_double_and_differ_by_device);
    tcase_add_test(tc, a_session_that_does_not_last_is_no_success);
    tcase_add_test(tc, a_redirect_is_followed_at_once_but_not_in_circles);
    tcase_add_test(tc, a_malformed_batch_ends_the_link_and_touches_nothing);
    tcase_add_test(tc, more_messages_than_the_window_allows_end_the_link);
    tcase_add_test(tc, what_is_there_already_is_not_written_but_applied_advances);
    tcase_add_test(tc, puts_go_before_deletes_and_only_what_differs_goes);
    tcase_add_test(tc, a_query_is_answered_when_all_before_it_is_done);
    tcase_add_test(tc,
                   what_a_full_table_refused_is_named_and_written_once_there_is_room);
    tcase_add_test(tc, of_many_that_do_not_fit_each_has_its_turn);
    tcase_add_test(tc, the_list_of_exceptions_follows_what_heals);
    tcase_add_test(tc, a_delete_of_a_refused_entry_clears_it_without_a_write);
    tcase_add_test(tc, a_failed_write_leaves_a_newer_one_of_the_same_key_alone);
    tcase_add_test(tc, a_write_without_an_answer_is_unknown_until_the_answer_comes);
    tcase_add_test(tc, a_lost_link_does_nothing_to_the_device);
    tcase_add_test(tc, a_new_data_plane_starts_a_new_conversation_on_the_same_link);
    tcase_add_test(tc, a_configuration_goes_to_the_device_once_and_before_the_tables);
    tcase_add_test(tc, counters_are_told_as_the_device_tells_them_and_once);
    tcase_add_test(
        tc, counters_that_the_device_does_not_tell_are_told_to_be_late_or_not_at_all);
    tcase_add_test(tc, probes_are_answered_each_by_its_own_id_and_once);
    tcase_add_test(tc, probes_that_come_together_are_asked_and_answered_one_by_one);
    tcase_add_test(
        tc, more_probes_than_may_be_under_way_are_refused_and_late_ones_said_to_be);
    tcase_add_test(
        tc, probes_of_a_device_that_went_away_are_forgotten_with_the_conversation);
    tcase_add_test(tc, beats_come_as_often_as_was_said_and_carry_the_last_totals);
    tcase_add_test(tc, counters_become_rates_each_second);
    tcase_add_test(
        tc, aggregates_have_least_mean_and_greatest_and_a_restart_compares_nothing);
    tcase_add_test(tc, a_device_with_a_newer_term_ends_the_link_and_is_read_back_first);
    tcase_add_test(tc, a_new_conversation_voids_the_wishes_of_the_old);
    tcase_add_test(tc, no_answer_to_hello_is_not_waited_for_for_ever);
    tcase_add_test(tc, an_audit_of_all_lets_writes_go_on_and_believes_what_was_read);
    tcase_add_test(tc, a_row_that_is_not_sound_counts_as_missing_or_as_what_was_found);
    tcase_add_test(tc, one_audit_at_a_time_and_one_of_a_vni_holds_what_comes_behind_it);
    tcase_add_test(tc, a_read_back_that_fails_says_so_and_changes_nothing);
    return unit_run("session", tc);
}
