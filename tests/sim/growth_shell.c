/* growth_shell: what the daemons' shells do, where nothing takes time or fails. */
#include "tests/sim/growth.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/log.h"

#define SETTLE_MS UINT64_C(1800000)

/* ---- messages ---- */

static struct growth_msg *queue(struct growth *g, struct growth_node *n,
                                bool is_to_core)
{
    struct growth_msg *m = calloc(1, sizeof(*m));

    m->node = n;
    m->link = n->link;
    m->is_to_core = is_to_core;
    *g->end = m;
    g->end = &m->next;
    return m;
}

static void drop(struct growth_msg *m)
{
    if (m->is_to_core) {
        agent_msg_fini(&m->agent);
    } else {
        ctl_msg_fini(&m->ctl);
    }
    free(m);
}

static void feed(struct growth_node *n, const struct session_in *in);
static void input(struct growth *g, const struct core_in *in);

static bool deliver(struct growth *g)
{
    struct growth_msg *m = g->first;
    struct core_in in = { .kind = CORE_SESSION_MSG };

    if (!m) {
        return false;
    }
    g->first = m->next;
    g->end = g->first ? g->end : &g->first;
    if (m->link == m->node->link && m->is_to_core) {
        in.session.id = m->link;
        in.session.device_id = m->node->name;
        in.session.msg = &m->agent;
        input(g, &in);
    } else if (m->link == m->node->link) {
        feed(m->node, &(struct session_in){ .kind = SESSION_LINK_MSG, .ctl = &m->ctl });
    }
    drop(m);
    return true;
}

static struct growth_node *node_of(struct growth *g, uint64_t link)
{
    for (unsigned i = 0; i < g->node_count; i++) {
        if (g->nodes[i].link == link) {
            return &g->nodes[i];
        }
    }
    return NULL;
}

/* The core forgets it by itself, or was told. */
static void hang_up(struct growth_node *n)
{
    n->link = 0;
    feed(n, &(struct session_in){ .kind = SESSION_LINK_DOWN });
}

/* ---- the controller ---- */

static void take_effect(struct growth *g, struct core_effect *e)
{
    struct growth_node *n;

    switch (e->kind) {
    case CORE_TXN:
        store_submit(g->store, e->txn);
        return;
    case CORE_REPLY:
        if (e->reply.token == g->last_token) {
            g->reply = e->reply;
            g->is_answered = true;
        }
        break;
    case CORE_SEND:
        n = node_of(g, e->send.session);
        if (n) {
            queue(g, n, false)->ctl = e->send.msg;
            return;
        }
        break;
    case CORE_CLOSE:
        n = node_of(g, e->close.session);
        if (e->close.why.code == RC_INVALID) {
            growth_fail(g, "the core refused a message: %s", e->close.why.msg);
        }
        if (n) {
            hang_up(n);
        }
        break;
    case CORE_ALARM:
        growth_note(g, e->alarm.alarm.kind, e->alarm.news);
        break;
    case CORE_LOG:
        if (g->config.is_verbose && e->log.level >= LOG_WARN) {
            printf("week %u core: %s %s\n", g->week, e->log.event, e->log.text);
        }
        break;
    }
    core_effect_fini(e);
}

static void input(struct growth *g, const struct core_in *in)
{
    struct core_effect e;

    if (!g->core) {
        return;
    }
    core_step(g->core, g->now_ms, UINT64_C(1700000000000) + g->now_ms, in);
    while (g->core && core_next_effect(g->core, &e)) {
        take_effect(g, &e);
    }
}

static void on_event(void *ctx, const struct store_event *event)
{
    input(ctx, &(struct core_in){ .kind = CORE_STORE_EVENT, .event = event });
}

static void on_done(void *ctx, const struct store_done *done)
{
    input(ctx, &(struct core_in){ .kind = CORE_STORE_DONE, .done = done });
}

static void ask_range(struct growth *g, const struct store_key *behind)
{
    struct store_key from;
    struct store_key end;

    core_load_range(&from, &end);
    store_range(g->store, 1, behind ? store_key_after(behind) : from, end, 500);
}

static void on_range(void *ctx, const struct store_range_reply *reply)
{
    struct growth *g = ctx;
    struct core_in in = { .kind = CORE_LOADED };

    in.loaded.kvs = reply->kvs;
    in.loaded.count = reply->kv_count;
    input(g, &in);
    if (reply->more) {
        ask_range(g, &reply->kvs[reply->kv_count - 1].key);
        return;
    }
    g->is_loaded = true;
    input(g,
          &(struct core_in){ .kind = CORE_READY, .ready_revision = reply->revision });
}

static const struct store_events store_events = { on_event, on_done, on_range };

void shell_start(struct growth *g)
{
    struct core_config config;

    g->store = store_memory_open(g->db, &store_events, g);
    core_config_default(&config);
    config.term = g->store->term;
    config.beat_ms = 10000;
    config.session_timeout_ms = 600000;
    g->core = core_new(&config);
    g->is_loaded = false;
    ask_range(g, NULL);
    while (!core_is_ready(g->core) && !core_failure(g->core)) {
        if (store_memory_has_work(g->store)) {
            store_memory_step(g->store);
        } else {
            input(g, &(struct core_in){ .kind = CORE_CONTINUE });
        }
    }
    if (core_failure(g->core)) {
        growth_fail(g, "the controller does not start: %s", core_failure(g->core)->msg);
    }
}

void shell_stop(struct growth *g)
{
    core_free(g->core);
    g->core = NULL;
    store_memory_crash(g->store, UINT32_MAX);
    g->store = NULL;
    for (unsigned i = 0; i < g->node_count; i++) {
        if (g->nodes[i].link) {
            hang_up(&g->nodes[i]);
        }
    }
}

/* ---- agents ---- */

static void carry_out(struct growth_node *n, struct session_out *out)
{
    struct core_in in = { .kind = CORE_SESSION_CLOSED };

    switch (out->kind) {
    case SESSION_DIAL:
        n->is_dialling = true;
        break;
    case SESSION_HANGUP:
        if (n->link) {
            in.session.id = n->link;
            in.session.device_id = n->name;
            n->link = 0;
            input(n->growth, &in);
            feed(n, &(struct session_in){ .kind = SESSION_LINK_DOWN });
        }
        break;
    case SESSION_SEND:
        if (n->link) {
            queue(n->growth, n, true)->agent = out->send;
            return;
        }
        break;
    case SESSION_WRITE:
        n->driver->cls->write(n->driver, &out->write);
        break;
    case SESSION_CONFIGURE:
        n->driver->cls->configure(n->driver, out->configure.id, out->configure.term,
                                  out->configure.config);
        break;
    case SESSION_READ:
        n->driver->cls->read(n->driver, out->read.id, out->read.vni);
        break;
    case SESSION_POLL_TOTALS:
        n->driver->cls->poll_totals(n->driver);
        break;
    case SESSION_PROBE:
        n->driver->cls->probe(n->driver, out->probe.id, out->probe.frame);
        break;
    case SESSION_COUNTERS: /* nobody asks in here */
        break;
    case SESSION_LOG:
        if (out->log.level >= LOG_ERROR) {
            growth_fail(n->growth, "%s: %s %s", n->name, out->log.event, out->log.text);
        }
        break;
    }
    session_out_fini(out);
}

static void feed(struct growth_node *n, const struct session_in *in)
{
    struct session_out out;

    session_step(n->session, n->growth->now_ms, in);
    while (session_next_out(n->session, &out)) {
        carry_out(n, &out);
    }
}

static void on_up(void *ctx, const struct device_state *state)
{
    feed(ctx, &(struct session_in){ .kind = SESSION_DEVICE_UP, .state = state });
}

static void on_down(void *ctx, const struct err *cause)
{
    feed(ctx, &(struct session_in){ .kind = SESSION_DEVICE_DOWN, .cause = cause });
}

static void on_write_done(void *ctx, const struct driver_done *done)
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

static void on_probe(void *ctx, const struct device_probe *probe)
{
    feed(ctx, &(struct session_in){ .kind = SESSION_DEVICE_PROBE, .probe = probe });
}

static const struct driver_events driver_events = { .up = on_up,
                                                    .down = on_down,
                                                    .done = on_write_done,
                                                    .rows = on_rows,
                                                    .read_end = on_read_end,
                                                    .totals = on_totals,
                                                    .probe = on_probe };

void shell_add_node(struct growth *g, unsigned cluster, char side)
{
    struct growth_node *n = &g->nodes[g->node_count];
    struct session_config config = { .redial_min_ms = 200,
                                     .redial_max_ms = 2000,
                                     .write_timeout_ms = 600000,
                                     .writes_in_flight = 4,
                                     .controller_count = 1 };
    char home[CLUSTER_NAME_MAX + 1];

    n->growth = g;
    n->cluster = cluster;
    memcpy(home, g->clusters[cluster].name, sizeof(home));
    snprintf(n->name, sizeof(n->name), "%s-%c", home, side);
    snprintf(config.device_id, sizeof(config.device_id), "%s", n->name);
    config.device_kind = g->clusters[cluster].is_h ? DEVICE_SOFT_H : DEVICE_X86;
    n->device = memory_device_new(&(struct memory_device_config){
        .boot_id = 1 + g->node_count * UINT64_C(1000000),
        .work_ms = 1,
        .answer_ms = 1 });
    n->session = session_new(&config);
    n->driver = driver_memory_new(n->device, &driver_events, n);
    g->node_count++;
    n->driver->cls->open(n->driver);
    feed(n, &(struct session_in){ .kind = SESSION_TICK });
}

static void dial(struct growth_node *n)
{
    struct core_in in = { .kind = CORE_SESSION_OPEN };

    n->is_dialling = false;
    n->link = ++n->growth->last_link;
    in.session.id = n->link;
    in.session.device_id = n->name;
    input(n->growth, &in);
    feed(n, &(struct session_in){ .kind = SESSION_LINK_UP });
}

void shell_fini(struct growth *g)
{
    shell_stop(g);
    for (unsigned i = 0; i < g->node_count; i++) {
        g->nodes[i].driver->cls->close(g->nodes[i].driver);
        session_free(g->nodes[i].session);
        memory_device_free(g->nodes[i].device);
    }
    while (g->first) {
        struct growth_msg *m = g->first;

        g->first = m->next;
        drop(m);
    }
}

/* ---- time ---- */

/* All that is to be done at this moment. */
static void work(struct growth *g)
{
    bool is_busy = true;

    while (is_busy && !g->failure[0]) {
        is_busy = false;
        while (deliver(g)) {
            is_busy = true;
        }
        while (store_memory_has_work(g->store)) {
            store_memory_step(g->store);
            is_busy = true;
        }
        if (core_has_work(g->core)) {
            input(g, &(struct core_in){ .kind = CORE_CONTINUE });
            is_busy = true;
        }
    }
}

static void wake_nodes(struct growth *g)
{
    for (unsigned i = 0; i < g->node_count; i++) {
        struct growth_node *n = &g->nodes[i];

        if (memory_device_next_wake(n->device) <= g->now_ms) {
            memory_device_step(n->device, g->now_ms);
        }
        if (n->is_dialling) {
            dial(n);
        }
        if (session_next_wake(n->session) <= g->now_ms) {
            feed(n, &(struct session_in){ .kind = SESSION_TICK });
        }
    }
}

static void step(struct growth *g, uint64_t end_ms)
{
    uint64_t at = core_next_wake(g->core);

    for (unsigned i = 0; i < g->node_count; i++) {
        uint64_t device = memory_device_next_wake(g->nodes[i].device);
        uint64_t session = session_next_wake(g->nodes[i].session);

        at = device < at ? device : at;
        at = session < at ? session : at;
    }
    at = at < end_ms ? at : end_ms;
    g->now_ms = at > g->now_ms ? at : g->now_ms + 1;
    input(g, &(struct core_in){ .kind = CORE_TICK });
    wake_nodes(g);
    work(g);
}

void shell_pass(struct growth *g, uint64_t ms)
{
    g->now_ms += ms;
    input(g, &(struct core_in){ .kind = CORE_TICK });
    wake_nodes(g);
    work(g);
}

const struct core_reply *shell_command(struct growth *g, struct command *cmd)
{
    uint64_t end_ms = g->now_ms + SETTLE_MS;

    snprintf(cmd->who, sizeof(cmd->who), "growth");
    cmd->token = ++g->last_token;
    g->is_answered = false;
    g->counts.commands++;
    input(g, &(struct core_in){ .kind = CORE_COMMAND, .command = cmd });
    work(g);
    while (!g->is_answered && g->now_ms < end_ms && !g->failure[0]) {
        step(g, end_ms);
    }
    if (!g->is_answered) {
        growth_fail(g, "a command was not answered");
        g->reply.err.code = RC_TIMEOUT;
    }
    growth_note(g, g->reply.err.code, g->reply.revision);
    check_levels(g);
    return &g->reply;
}

/* Null: all is settled; else what is not. */
static const char *unsettled(const struct growth *g)
{
    const struct operation *o;
    struct node_status status;

    for (unsigned i = 0; i < g->node_count; i++) {
        if (core_node_status(g->core, g->nodes[i].name, &status) || !status.in_sync ||
            !status.has_session || status.state != NODE_ONLINE) {
            return g->nodes[i].name;
        }
    }
    for (uint32_t i = 0; (o = core_operation_at(g->core, i)); i++) {
        if (o->state == OPERATION_RUNNING) {
            return o->id;
        }
    }
    return core_is_projected(g->core) ? NULL : "the groups";
}

static void tell_unsettled(struct growth *g)
{
    const char *who = unsettled(g);
    struct node_status st = { 0 };

    if (who) {
        core_node_status(g->core, who, &st);
        growth_fail(
            g,
            "not settled within half an hour: %s (session %d, state %d, applied "
            "%llu of %llu, exceptions %u); waits: %s",
            who, st.has_session, st.state, (unsigned long long)st.applied,
            (unsigned long long)st.desired, st.exception_count,
            core_operation_waits(g->core, who));
    }
}

void shell_settle(struct growth *g)
{
    uint64_t end_ms = g->now_ms + SETTLE_MS;
    uint64_t least_ms = g->now_ms + 25000; /* telemetry is told and looked at */

    while (!g->failure[0] && (g->now_ms < least_ms || unsettled(g))) {
        if (g->now_ms >= end_ms) {
            tell_unsettled(g);
        }
        step(g, least_ms > g->now_ms ? least_ms : end_ms);
    }
}
