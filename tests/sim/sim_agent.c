#include "tests/sim/sim.h"

#include <stdlib.h>
#include <string.h>

#include "proto/base/log.h"

/* ---- pipes and links ---- */

static struct sim_msg *pipe_add(struct sim *s, struct sim_pipe *p)
{
    struct sim_msg *m = calloc(1, sizeof(*m));
    uint64_t due = s->now_ms + sim_between(s, 1, 20);

    if (sim_random(s, 200) == 0) {
        due += sim_between(s, 100, 3000); /* a retransmission */
    }
    m->due_ms = due > p->last_due_ms ? due : p->last_due_ms;
    p->last_due_ms = m->due_ms;
    *p->end = m;
    p->end = &m->next;
    return m;
}

static struct sim_msg *pipe_take(struct sim *s, struct sim_pipe *p)
{
    struct sim_msg *m = p->first;

    if (!m || m->due_ms > s->now_ms) {
        return NULL;
    }
    p->first = m->next;
    if (!p->first) {
        p->end = &p->first;
    }
    return m;
}

static void pipe_clear(struct sim_pipe *p, bool is_ctl)
{
    while (p->first) {
        struct sim_msg *m = p->first;

        p->first = m->next;
        if (!m->is_end && is_ctl) {
            ctl_msg_fini(&m->ctl);
        } else if (!m->is_end) {
            agent_msg_fini(&m->agent);
        }
        free(m);
    }
    p->end = &p->first;
}

void link_send_ctl(struct sim *s, struct sim_link *l, struct ctl_msg *m)
{
    if (l->is_broken) {
        ctl_msg_fini(m);
        return;
    }
    pipe_add(s, &l->to_agent)->ctl = *m;
}

/* What is on its way may or may not arrive before the end does. */
void link_break(struct sim *s, struct sim_link *l)
{
    if (l->is_broken) {
        return;
    }
    l->is_broken = true;
    if (sim_random(s, 2)) {
        pipe_clear(&l->to_agent, true);
        pipe_clear(&l->to_core, false);
    }
    pipe_add(s, &l->to_agent)->is_end = true;
    pipe_add(s, &l->to_core)->is_end = true;
}

static void feed(struct sim_agent *a, const struct session_in *in);

static void link_deliver_agent(struct sim *s, struct sim_link *l)
{
    struct sim_agent *a = l->agent;
    struct sim_msg *m;

    while (!l->agent_is_off && (m = pipe_take(s, &l->to_agent))) {
        if (m->is_end) {
            l->agent_is_off = true;
            if (a->link == l) {
                a->link = NULL;
                feed(a, &(struct session_in){ .kind = SESSION_LINK_DOWN });
            }
        } else {
            if (a->link == l && a->session) {
                feed(a,
                     &(struct session_in){ .kind = SESSION_LINK_MSG, .ctl = &m->ctl });
            }
            ctl_msg_fini(&m->ctl);
        }
        free(m);
    }
}

static void link_deliver_core(struct sim *s, struct sim_link *l)
{
    struct core_in in = { .kind = CORE_SESSION_MSG };
    struct sim_msg *m;

    while (!l->core_is_off && (m = pipe_take(s, &l->to_core))) {
        in.session.id = l->id;
        in.session.device_id = l->agent->name;
        if (m->is_end) {
            l->core_is_off = true;
            in.kind = CORE_SESSION_CLOSED;
            controller_input(s, &in);
        } else {
            l->agent->heard_ms = s->now_ms;
            if (l->agent->is_silent) {
                struct core_in alive = { .kind = CORE_LIVENESS };

                l->agent->is_silent = false;
                alive.liveness.device_id = l->agent->name;
                controller_input(s, &alive);
            }
            in.session.msg = &m->agent;
            controller_input(s, &in);
            agent_msg_fini(&m->agent);
        }
        free(m);
    }
}

static void link_free(struct sim_link *l)
{
    pipe_clear(&l->to_agent, true);
    pipe_clear(&l->to_core, false);
    free(l);
}

void links_step(struct sim *s)
{
    struct sim_link **at = &s->links;

    for (struct sim_link *l = s->links; l; l = l->next) {
        if (l->is_broken || !l->agent->is_partitioned) {
            link_deliver_agent(s, l);
            link_deliver_core(s, l);
        }
    }
    while (*at) {
        struct sim_link *l = *at;

        if (l->is_broken && l->agent_is_off && l->core_is_off && l->agent->link != l) {
            *at = l->next;
            link_free(l);
        } else {
            at = &l->next;
        }
    }
}

uint64_t links_wake(const struct sim *s)
{
    uint64_t at = UINT64_MAX;

    for (const struct sim_link *l = s->links; l; l = l->next) {
        if (!l->is_broken && l->agent->is_partitioned) {
            continue;
        }
        if (!l->agent_is_off && l->to_agent.first && l->to_agent.first->due_ms < at) {
            at = l->to_agent.first->due_ms;
        }
        if (!l->core_is_off && l->to_core.first && l->to_core.first->due_ms < at) {
            at = l->to_core.first->due_ms;
        }
    }
    return at;
}

void links_fini(struct sim *s)
{
    while (s->links) {
        struct sim_link *l = s->links;

        s->links = l->next;
        link_free(l);
    }
}

/* ---- the agent's shell ---- */

static void carry_out(struct sim_agent *a, struct session_out *out)
{
    struct sim *s = a->sim;

    switch (out->kind) {
    case SESSION_DIAL:
        a->dial_at_ms = s->now_ms + sim_between(s, 1, 30);
        break;
    case SESSION_HANGUP:
        if (a->link) {
            struct sim_link *l = a->link;

            a->link = NULL;
            l->agent_is_off = true;
            link_break(s, l);
            feed(a, &(struct session_in){ .kind = SESSION_LINK_DOWN });
        }
        break;
    case SESSION_SEND:
        if (a->link && !a->link->is_broken) {
            pipe_add(s, &a->link->to_core)->agent = out->send;
            return; /* the pipe took it */
        }
        break;
    case SESSION_WRITE:
        a->driver->cls->write(a->driver, &out->write);
        break;
    case SESSION_CONFIGURE:
        a->driver->cls->configure(a->driver, out->configure.id, out->configure.term,
                                  out->configure.config);
        break;
    case SESSION_READ:
        a->driver->cls->read(a->driver, out->read.id, out->read.vni);
        break;
    case SESSION_POLL_TOTALS:
        a->driver->cls->poll_totals(a->driver);
        break;
    case SESSION_COUNTERS: /* nobody asks in here */
        break;
    case SESSION_PROBE:
        a->driver->cls->probe(a->driver, out->probe.id, out->probe.frame);
        break;
    case SESSION_LOG:
        if (s->config.is_verbose) {
            printf("%9.3f %s: %s %s\n", (double)s->now_ms / 1e3, a->name,
                   out->log.event, out->log.text);
        }
        if (out->log.level >= LOG_ERROR && !a->is_tainted) {
            sim_fail(s, "%s: %s %s", a->name, out->log.event, out->log.text);
        }
        break;
    }
    session_out_fini(out);
}

static void feed(struct sim_agent *a, const struct session_in *in)
{
    struct session_out out;

    if (!a->session) {
        return;
    }
    session_step(a->session, a->sim->now_ms, in);
    while (a->session && session_next_out(a->session, &out)) {
        carry_out(a, &out);
    }
}

static void on_up(void *ctx, const struct device_state *state)
{
    struct sim_agent *a = ctx;

    sim_note(a->sim, "device up", a->index, state->boot_id);
    feed(a, &(struct session_in){ .kind = SESSION_DEVICE_UP, .state = state });
}

static void on_down(void *ctx, const struct err *cause)
{
    feed(ctx, &(struct session_in){ .kind = SESSION_DEVICE_DOWN, .cause = cause });
}

static void on_done(void *ctx, const struct driver_done *done)
{
    struct sim_agent *a = ctx;

    sim_note(a->sim, "write done", a->index, done->rc);
    feed(a, &(struct session_in){ .kind = SESSION_DEVICE_DONE, .done = done });
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

static const struct driver_events events = { .up = on_up,
                                             .down = on_down,
                                             .done = on_done,
                                             .rows = on_rows,
                                             .read_end = on_read_end,
                                             .totals = on_totals,
                                             .probe = on_probe };

static void observe(void *ctx, const struct driver_write *w,
                    const struct change_list *changes)
{
    struct sim_agent *a = ctx;

    sim_note(a->sim, "write", a->index, w->revision);
    a->sim->counts.device_writes += changes->count > 0;
    check_write(a);
    if (sim_is_lb(a->index % SIM_CLUSTERS)) {
        moves_check_steered(a, changes);
    }
}

void agent_start(struct sim_agent *a)
{
    struct session_config config = { .device_kind = DEVICE_X86,
                                     .redial_min_ms = 200,
                                     .redial_max_ms = 10000,
                                     .write_timeout_ms = 5000,
                                     .writes_in_flight = 4,
                                     .controller_count = 1 };

    if (sim_is_h(a->index % SIM_CLUSTERS)) {
        config.device_kind = DEVICE_SOFT_H;
    } else if (sim_is_lb(a->index % SIM_CLUSTERS)) {
        config.device_kind = DEVICE_LB;
    }
    snprintf(config.device_id, sizeof(config.device_id), "%s", a->name);
    a->start_at_ms = 0;
    a->session = session_new(&config);
    a->driver = driver_memory_new(a->device, &events, a);
    a->driver->cls->open(a->driver);
    feed(a, &(struct session_in){ .kind = SESSION_TICK });
}

void agent_crash(struct sim_agent *a)
{
    struct session *gone = a->session;

    if (!gone) {
        return;
    }
    a->session = NULL;
    a->dial_at_ms = 0;
    a->driver->cls->close(a->driver);
    a->driver = NULL;
    session_free(gone);
    if (a->link) {
        a->link->agent_is_off = true;
        link_break(a->sim, a->link);
        a->link = NULL;
    }
}

void agent_init(struct sim *s, unsigned index)
{
    struct sim_agent *a = &s->agents[index];

    a->sim = s;
    a->index = index;
    snprintf(a->name, sizeof(a->name), "gw-%u", index);
    sim_cluster_name(index % SIM_CLUSTERS, a->cluster);
    a->device = memory_device_new(&(struct memory_device_config){
        .boot_id = 1 + index * UINT64_C(1000000), .work_ms = 1, .answer_ms = 1 });
    memory_device_observe(a->device, observe, a);
    agent_start(a);
}

void agent_fini(struct sim_agent *a)
{
    agent_crash(a);
    memory_device_free(a->device);
}

static void finish_dial(struct sim_agent *a)
{
    struct sim *s = a->sim;
    struct sim_link *l;

    a->dial_at_ms = 0;
    if (a->is_partitioned || !s->core || !core_is_ready(s->core)) {
        feed(a, &(struct session_in){ .kind = SESSION_LINK_DOWN });
        return;
    }
    l = calloc(1, sizeof(*l));
    l->id = ++s->last_session;
    l->agent = a;
    l->to_agent.end = &l->to_agent.first;
    l->to_core.end = &l->to_core.first;
    l->next = s->links;
    s->links = l;
    a->link = l;
    a->heard_ms = s->now_ms;
    sim_note(s, "link", a->index, l->id);
    controller_open(s, l);
    feed(a, &(struct session_in){ .kind = SESSION_LINK_UP });
}

/* The liveness detector, in the small: silence is reported once. */
static void detect(struct sim_agent *a)
{
    struct sim *s = a->sim;

    if (s->core && !a->is_silent && a->heard_ms != 0 &&
        s->now_ms >= a->heard_ms + 3 * SIM_BEAT_MS) {
        struct core_in in = { .kind = CORE_LIVENESS };

        a->is_silent = true;
        in.liveness.device_id = a->name;
        in.liveness.is_silent = true;
        controller_input(s, &in);
    }
}

void agent_step(struct sim_agent *a)
{
    uint64_t now = a->sim->now_ms;

    if (a->device_at_ms != 0 && a->device_at_ms <= now) {
        a->device_at_ms = 0;
        memory_device_start(a->device);
    }
    if (a->start_at_ms != 0 && a->start_at_ms <= now) {
        agent_start(a);
    }
    if (a->heal_at_ms != 0 && a->heal_at_ms <= now) {
        a->heal_at_ms = 0;
        a->is_partitioned = false;
        memory_device_stall(a->device, false);
    }
    if (memory_device_next_wake(a->device) <= now) {
        memory_device_step(a->device, now);
    }
    if (a->dial_at_ms != 0 && a->dial_at_ms <= now) {
        finish_dial(a);
    }
    if (a->session && session_next_wake(a->session) <= now) {
        feed(a, &(struct session_in){ .kind = SESSION_TICK });
    }
    detect(a);
}

static uint64_t sooner(uint64_t at, uint64_t other)
{
    return other != 0 && other < at ? other : at;
}

uint64_t agent_wake(const struct sim_agent *a)
{
    uint64_t at = memory_device_next_wake(a->device);

    if (a->session) {
        uint64_t wake = session_next_wake(a->session);

        at = wake < at ? wake : at;
    }
    at = sooner(at, a->device_at_ms);
    at = sooner(at, a->start_at_ms);
    at = sooner(at, a->heal_at_ms);
    at = sooner(at, a->dial_at_ms);
    if (a->sim->core && !a->is_silent && a->heard_ms != 0) {
        at = sooner(at, a->heard_ms + 3 * SIM_BEAT_MS);
    }
    return at;
}
