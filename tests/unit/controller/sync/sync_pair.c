#include "tests/unit/controller/sync/sync_pair.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/buf.h"
#include "proto/rpc/agent_codec.h"

struct pair_msg {
    struct pair_msg *next;
    uint64_t due_ms;
    struct buf bytes;
};

/* splitmix64 (Steele, Lea, Flood 2014) */
uint64_t pair_random(struct pair *p, uint64_t below)
{
    uint64_t z = (p->random += UINT64_C(0x9e3779b97f4a7c15));

    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return (z ^ (z >> 31)) % below;
}

/* ---- the link ---- */

static void queue_clear(struct pair_queue *q)
{
    while (q->first) {
        struct pair_msg *m = q->first;

        q->first = m->next;
        buf_fini(&m->bytes);
        free(m);
    }
    q->end = &q->first;
}

static struct pair_msg *queue_add(struct pair *p, struct pair_queue *q)
{
    struct pair_msg *m = calloc(1, sizeof(*m));
    uint64_t due = p->now_ms + pair_random(p, p->delay_max_ms + 1);

    ck_assert_ptr_nonnull(m);
    m->due_ms = due > q->last_due_ms ? due : q->last_due_ms; /* in order */
    q->last_due_ms = m->due_ms;
    *q->end = m;
    q->end = &m->next;
    return m;
}

static void queue_count(struct pair_queue *q, const struct pair_msg *m)
{
    q->messages++;
    q->bytes += m->bytes.len;
}

void pair_to_agent(struct pair *p, struct ctl_msg *msg)
{
    struct pair_msg *m = queue_add(p, &p->to_agent);
    struct blob *tail;

    ck_assert_int_eq(ctl_msg_encode(msg, &m->bytes, &tail), RC_OK);
    if (tail) {
        buf_add(&m->bytes, tail->data, tail->len);
    }
    ck_assert(!buf_failed(&m->bytes));
    queue_count(&p->to_agent, m);
    ctl_msg_fini(msg);
}

/* ---- the agent's shell ---- */

static void drain(struct pair *p);

static void feed(struct pair *p, const struct session_in *in)
{
    session_step(p->session, p->now_ms, in);
    drain(p);
}

static void on_up(void *ctx, const struct device_state *state)
{
    feed(ctx, &(struct session_in){ .kind = SESSION_DEVICE_UP, .state = state });
}

static void on_down(void *ctx, const struct err *cause)
{
    feed(ctx, &(struct session_in){ .kind = SESSION_DEVICE_DOWN, .cause = cause });
}

static void on_done(void *ctx, const struct driver_done *done)
{
    feed(ctx, &(struct session_in){ .kind = SESSION_DEVICE_DONE, .done = done });
}

static void on_rows(void *ctx, uint64_t read_id, const uint8_t *batch, size_t len)
{
    struct session_in in = { .kind = SESSION_DEVICE_ROWS };

    in.rows.read_id = read_id;
    in.rows.batch = batch;
    in.rows.len = len;
    feed(ctx, &in);
}

static void on_read_end(void *ctx, uint64_t read_id, enum rc rc, const struct err *err)
{
    (void)err;
    feed(ctx, &(struct session_in){ .kind = SESSION_DEVICE_READ_END,
                                    .read_end = { read_id, rc } });
}

static void on_totals(void *ctx, const struct device_totals *totals)
{
    feed(ctx, &(struct session_in){ .kind = SESSION_DEVICE_TOTALS, .totals = totals });
}

static const struct driver_events events = {
    .up = on_up,
    .down = on_down,
    .done = on_done,
    .rows = on_rows,
    .read_end = on_read_end,
    .totals = on_totals,
};

void pair_cut(struct pair *p)
{
    p->is_linked = false;
    p->has_session = false;
    p->dial_due_ms = 0;
    queue_clear(&p->to_agent);
    queue_clear(&p->to_ctl);
    if (p->session) {
        feed(p, &(struct session_in){ .kind = SESSION_LINK_DOWN });
    }
}

static void carry_out(struct pair *p, struct session_out *out)
{
    switch (out->kind) {
    case SESSION_DIAL:
        p->dials++;
        p->dial_due_ms = p->now_ms + 1 + pair_random(p, p->delay_max_ms + 1);
        break;
    case SESSION_HANGUP:
        p->hangups++;
        pair_cut(p);
        break;
    case SESSION_SEND:
        if (p->is_linked) {
            struct pair_msg *m = queue_add(p, &p->to_ctl);

            ck_assert_int_eq(agent_msg_encode(&out->send, &m->bytes), RC_OK);
            queue_count(&p->to_ctl, m);
        }
        break;
    case SESSION_WRITE:
        p->driver->cls->write(p->driver, &out->write);
        break;
    case SESSION_CONFIGURE:
        p->driver->cls->configure(p->driver, out->configure.id, out->configure.term,
                                  out->configure.config);
        break;
    case SESSION_READ:
        p->driver->cls->read(p->driver, out->read.id, out->read.vni);
        break;
    case SESSION_POLL_TOTALS:
        p->driver->cls->poll_totals(p->driver);
        break;
    case SESSION_COUNTERS: /* nobody asks in here */
    case SESSION_PROBE:
        break;
    case SESSION_LOG:
        snprintf(p->last_log, sizeof(p->last_log), "%s %s", out->log.event,
                 out->log.text);
        break;
    }
}

static void drain(struct pair *p)
{
    struct session_out out;

    while (p->session && session_next_out(p->session, &out)) {
        carry_out(p, &out);
        session_out_fini(&out);
    }
}

void pair_start_agent(struct pair *p)
{
    struct session_config config = { .device_id = "gw-1",
                                     .device_kind = DEVICE_X86,
                                     .redial_min_ms = 100,
                                     .redial_max_ms = 2000,
                                     .write_timeout_ms = 5000,
                                     .writes_in_flight = 4,
                                     .controller_count = 1 };

    p->session = session_new(&config);
    p->driver = driver_memory_new(p->device, &events, p);
    ck_assert(p->session && p->driver);
    p->driver->cls->open(p->driver);
    feed(p, &(struct session_in){ .kind = SESSION_TICK });
}

void pair_stop_agent(struct pair *p)
{
    struct session *s = p->session;

    p->session = NULL;
    pair_cut(p);
    if (p->driver) {
        p->driver->cls->close(p->driver);
        p->driver = NULL;
    }
    session_free(s);
}

/* ---- the controller ---- */

static void say_assign(struct pair *p, uint64_t hello_id)
{
    struct ctl_msg m = { .kind = CTL_ASSIGN };

    m.assign.term = p->term;
    strcpy(m.assign.group, "x86-1");
    m.assign.beat_ms = (uint32_t)p->beat_ms;
    m.assign.hello_id = hello_id;
    m.assign.config = blob_ref(p->config);
    pair_to_agent(p, &m);
}

static void hear(struct pair *p, const struct agent_msg *m)
{
    enum rc rc = RC_OK;

    switch (m->kind) {
    case AGENT_HELLO:
        p->hellos++;
        p->has_session = true;
        sync_start(p->sync, &m->hello);
        say_assign(p, m->hello.hello_id);
        break;
    case AGENT_DIGESTS:
        rc = sync_digests(p->sync, &m->digests, NULL);
        break;
    case AGENT_ACK:
        rc = sync_ack(p->sync, &m->ack, NULL);
        break;
    case AGENT_BEAT:
    case AGENT_AUDIT:
    case AGENT_TELEMETRY:
    case AGENT_COUNTERS:
    case AGENT_PROBE:
    case AGENT_ROWS:
        break;
    }
    if (rc != RC_OK) {
        p->refused++;
        pair_cut(p);
    }
}

static void send_what_is_due(struct pair *p)
{
    struct ctl_msg m;

    if (!p->has_session || (p->is_lazy && pair_random(p, 3) == 0)) {
        return;
    }
    while (sync_next(p->sync, &m)) {
        pair_to_agent(p, &m);
        if (p->is_lazy && pair_random(p, 2) == 0) {
            return;
        }
    }
}

void pair_change(struct pair *p, struct blob *ops)
{
    p->revision++;
    if (ops) {
        ck_assert_int_eq(
            table_set_apply(p->desired, ops->data, ops->len, NULL, NULL, NULL), RC_OK);
    }
    sync_change(p->sync, p->revision, ops);
    blob_unref(ops);
    send_what_is_due(p);
}

void pair_restart_controller(struct pair *p)
{
    pair_cut(p);
    p->term++;
    sync_free(p->sync);
    p->sync = sync_new(p->desired, p->revision);
    ck_assert_ptr_nonnull(p->sync);
}

void pair_init(struct pair *p, uint64_t seed)
{
    memset(p, 0, sizeof(*p));
    p->random = seed;
    p->desired = table_set_new();
    p->revision = 1;
    p->term = 1;
    p->beat_ms = 1000;
    p->sync = sync_new(p->desired, p->revision);
    p->device = memory_device_new(&(struct memory_device_config){ .boot_id = 1 });
    p->to_agent.end = &p->to_agent.first;
    p->to_ctl.end = &p->to_ctl.first;
    ck_assert(p->desired && p->sync && p->device);
}

void pair_fini(struct pair *p)
{
    pair_stop_agent(p);
    sync_free(p->sync);
    table_set_free(p->desired);
    memory_device_free(p->device);
    blob_unref(p->config);
}

void pair_preset(struct pair *p, const struct blob *ops)
{
    ck_assert_int_eq(memory_device_preset(p->device, ops), RC_OK);
}

/* ---- time ---- */

static bool is_quiet_queue(const struct pair *p)
{
    return !p->to_agent.first && !p->to_ctl.first;
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static bool deliver_dial(struct pair *p)
{
    if (p->dial_due_ms == 0 || p->dial_due_ms > p->now_ms) {
        return false;
    }
    p->dial_due_ms = 0;
    if (p->must_fail_dial) {
        feed(p, &(struct session_in){ .kind = SESSION_LINK_DOWN });
    } else {
        p->is_linked = true;
        feed(p, &(struct session_in){ .kind = SESSION_LINK_UP });
    }
    return true;
}

static struct pair_msg *queue_take(struct pair *p, struct pair_queue *q)
{
    struct pair_msg *m = q->first;

    if (!m || m->due_ms > p->now_ms) {
        return NULL;
    }
    q->first = m->next;
    if (!q->first) {
        q->end = &q->first;
    }
    return m;
}

static bool deliver(struct pair *p)
{
    struct pair_msg *m = queue_take(p, &p->to_agent);
    struct err err = { 0 };

    if (m) {
        struct ctl_msg ctl;

        ck_assert_msg(ctl_msg_decode(m->bytes.data, m->bytes.len, &ctl, &err) == RC_OK,
                      "%s", err.msg);
        feed(p, &(struct session_in){ .kind = SESSION_LINK_MSG, .ctl = &ctl });
        ctl_msg_fini(&ctl);
    } else if ((m = queue_take(p, &p->to_ctl))) {
        struct agent_msg agent;

        ck_assert_msg(agent_msg_decode(m->bytes.data, m->bytes.len, &agent, &err) ==
                          RC_OK,
                      "%s", err.msg);
        hear(p, &agent);
        agent_msg_fini(&agent);
    } else {
        return false;
    }
    buf_fini(&m->bytes);
    free(m);
    return true;
}

bool pair_step(struct pair *p)
{
    uint64_t at = memory_device_next_wake(p->device);
    bool more = p->has_session && sync_has_work(p->sync);

    if (p->session) {
        at = earlier(at, session_next_wake(p->session));
    }
    if (p->dial_due_ms != 0) {
        at = earlier(at, p->dial_due_ms);
    }
    if (p->to_agent.first) {
        at = earlier(at, p->to_agent.first->due_ms);
    }
    if (p->to_ctl.first) {
        at = earlier(at, p->to_ctl.first->due_ms);
    }
    if (more) {
        at = earlier(at, p->now_ms + 1);
    }
    if (at == UINT64_MAX) {
        return false;
    }
    p->now_ms = at > p->now_ms ? at : p->now_ms;
    if (!deliver_dial(p) && !deliver(p)) {
        memory_device_step(p->device, p->now_ms);
        if (p->session) {
            feed(p, &(struct session_in){ .kind = SESSION_TICK });
        }
    }
    send_what_is_due(p);
    return true;
}

bool pair_settle(struct pair *p)
{
    for (int i = 0; i < 100000; i++) {
        if (p->has_session && is_quiet_queue(p) && sync_status(p->sync).in_sync &&
            !sync_has_work(p->sync)) {
            return true;
        }
        if (!pair_step(p)) {
            return false;
        }
    }
    return false;
}

bool pair_is_equal(const struct pair *p)
{
    for (int t = 0; t < TABLE_COUNT; t++) {
        struct tree_node root = { 0 };
        struct digest a = table_set_digest(p->desired, (enum table_id)t, root);
        struct digest b =
            table_set_digest(memory_device_tables(p->device), (enum table_id)t, root);

        if (a.sum != b.sum || a.count != b.count) {
            return false;
        }
    }
    return true;
}
