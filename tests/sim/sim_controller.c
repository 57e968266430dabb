#include "tests/sim/sim.h"

#include <stdlib.h>
#include <string.h>

#include "proto/base/log.h"

static struct sim_link *find_link(struct sim *s, uint64_t id)
{
    struct sim_link *l = s->links;

    while (l && l->id != id) {
        l = l->next;
    }
    return l;
}

/* A flush; now and then the disk is busy with something else. */
static uint64_t disk_delay(struct sim *s)
{
    return sim_random(s, 100) == 0 ? sim_between(s, 100, 3000) : sim_between(s, 1, 8);
}

static void take_effects(struct sim *s)
{
    struct core_effect e;
    struct sim_link *l;

    while (s->core && core_next_effect(s->core, &e)) {
        switch (e.kind) {
        case CORE_TXN:
            if (s->store_at_ms == UINT64_MAX) {
                s->store_at_ms = s->now_ms + disk_delay(s);
            }
            if (!s->is_quiet && sim_random(s, 400) == 0) {
                s->crash_at_ms = s->now_ms + sim_between(s, 1, 20);
            }
            store_submit(s->store, e.txn);
            continue; /* the store took it */
        case CORE_REPLY:
            churn_reply(s, &e.reply);
            break;
        case CORE_SEND:
            l = find_link(s, e.send.session);
            sim_note(s, "send", e.send.session, e.send.msg.kind);
            if (l) {
                link_send_ctl(s, l, &e.send.msg);
                continue;
            }
            break;
        case CORE_CLOSE:
            l = find_link(s, e.close.session);
            sim_note(s, "close", e.close.session, e.close.why.code);
            if (e.close.why.code == RC_INVALID) {
                sim_fail(s, "the core refused a message: %s", e.close.why.msg);
            }
            if (l) {
                l->core_is_off = true; /* it has forgotten the session itself */
                link_break(s, l);
            }
            break;
        case CORE_ALARM:
            sim_note(s, "alarm", e.alarm.alarm.kind, e.alarm.news);
            break;
        case CORE_LOG:
            if (s->config.is_verbose) {
                printf("%9.3f core: %s %s\n", (double)s->now_ms / 1e3, e.log.event,
                       e.log.text);
            }
            break;
        }
        core_effect_fini(&e);
    }
}

void controller_input(struct sim *s, const struct core_in *in)
{
    if (!s->core) {
        return;
    }
    core_step(s->core, s->now_ms, UINT64_C(1700000000000) + s->now_ms, in);
    take_effects(s);
    if (s->core && (core_revision(s->core) != s->core_revision || !s->was_projected)) {
        check_event(s);
        s->was_projected = core_is_projected(s->core);
    }
}

static void on_event(void *ctx, const struct store_event *event)
{
    struct sim *s = ctx;

    sim_note(s, "event", event->revision, event->kv_count);
    controller_input(s, &(struct core_in){ .kind = CORE_STORE_EVENT, .event = event });
}

static void on_done(void *ctx, const struct store_done *done)
{
    struct sim *s = ctx;

    sim_note(s, "done", done->revision, done->rc);
    controller_input(s, &(struct core_in){ .kind = CORE_STORE_DONE, .done = done });
}

static void ask_range(struct sim *s, const struct store_key *behind)
{
    struct store_key from;
    struct store_key end;

    core_load_range(&from, &end);
    if (behind) {
        from = store_key_after(behind);
    }
    store_range(s->store, 1, from, end, 200);
}

static void on_range(void *ctx, const struct store_range_reply *reply)
{
    struct sim *s = ctx;
    struct core_in in = { .kind = CORE_LOADED };

    in.loaded.kvs = reply->kvs;
    in.loaded.count = reply->kv_count;
    controller_input(s, &in);
    if (reply->more) {
        ask_range(s, &reply->kvs[reply->kv_count - 1].key);
        return;
    }
    s->is_loaded = true;
    in = (struct core_in){ .kind = CORE_READY, .ready_revision = reply->revision };
    controller_input(s, &in);
    if (core_failure(s->core)) {
        sim_fail(s, "the controller does not start: %s", core_failure(s->core)->msg);
    }
    check_event(s);
}

static const struct store_events events = { on_event, on_done, on_range };

void controller_start(struct sim *s)
{
    struct core_config config;

    s->controller_at_ms = 0;
    s->store = store_memory_open(s->db, &events, s);
    core_config_default(&config);
    config.term = s->store->term;
    config.beat_ms = SIM_BEAT_MS;
    config.checkpoint_bytes = 64 << 10; /* often, so that crashes fall amid them */
    config.checkpoint_age_ms = 120000;
    config.step_units = 24; /* few, so that all that can be done in slices is */
    s->core = core_new(&config);
    s->is_loaded = false;
    s->store_at_ms = s->now_ms + sim_between(s, 1, 50);
    sim_note(s, "controller", config.term, 0);
    ask_range(s, NULL);
}

void controller_crash(struct sim *s)
{
    if (!s->core) {
        return;
    }
    sim_note(s, "controller crash", store_memory_queued(s->store), 0);
    s->crash_at_ms = 0;
    store_memory_crash(s->store, (uint32_t)sim_random(s, 5));
    s->store = NULL;
    core_free(s->core);
    s->core = NULL;
    s->store_at_ms = UINT64_MAX;
    for (struct sim_link *l = s->links; l; l = l->next) {
        l->core_is_off = true;
        link_break(s, l);
    }
    churn_controller_lost(s);
    for (unsigned i = 0; i < s->config.nodes; i++) {
        s->agents[i].is_silent = false;
    }
}

void controller_open(struct sim *s, struct sim_link *l)
{
    struct core_in in = { .kind = CORE_SESSION_OPEN };

    in.session.id = l->id;
    in.session.device_id = l->agent->name;
    controller_input(s, &in);
}

void controller_command(struct sim *s, const struct command *command)
{
    controller_input(s, &(struct core_in){ .kind = CORE_COMMAND, .command = command });
}

/* One thing the disk does; then it is busy again. */
static void step_store(struct sim *s)
{
    if (s->store_at_ms > s->now_ms) {
        return;
    }
    store_memory_step(s->store);
    if (s->store) {
        s->store_at_ms =
            store_memory_has_work(s->store) ? s->now_ms + disk_delay(s) : UINT64_MAX;
    }
}

void controller_step(struct sim *s)
{
    if (!s->core) {
        if (s->controller_at_ms != 0 && s->controller_at_ms <= s->now_ms) {
            controller_start(s);
        }
        return;
    }
    if (s->crash_at_ms != 0 && s->crash_at_ms <= s->now_ms) {
        s->counts.controller_crashes++;
        controller_crash(s);
        s->controller_at_ms = s->now_ms + sim_between(s, 10, 30000);
        return;
    }
    step_store(s);
    if (s->store_at_ms == UINT64_MAX && store_memory_has_work(s->store)) {
        s->store_at_ms = s->now_ms + disk_delay(s);
    }
    if (core_next_wake(s->core) <= s->now_ms) {
        controller_input(s, &(struct core_in){ .kind = CORE_TICK });
    }
    for (int i = 0; i < 64 && core_has_work(s->core); i++) {
        controller_input(s, &(struct core_in){ .kind = CORE_CONTINUE });
    }
}

uint64_t controller_wake(const struct sim *s)
{
    uint64_t at;

    if (!s->core) {
        return s->controller_at_ms ? s->controller_at_ms : UINT64_MAX;
    }
    at = core_next_wake(s->core);
    if (at <= s->now_ms) {
        at = s->now_ms + 1;
    }
    if (s->store_at_ms < at) {
        at = s->store_at_ms;
    }
    if (s->crash_at_ms != 0 && s->crash_at_ms < at) {
        at = s->crash_at_ms;
    }
    return core_has_work(s->core) ? s->now_ms : at;
}
