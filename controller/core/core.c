/* core: one input in, effects out. */
#include "controller/core/core_internal.h"

#include "controller/core/live.h"
#include "proto/base/log.h"

#include <stdarg.h>
#include <stdio.h>

#define IN_FLIGHT_MAX 32
#define LATE_MS       200

void core_config_default(struct core_config *c)
{
    *c = (struct core_config){
        .beat_ms = 1000,
        .silent_beats = 3,
        .session_timeout_ms = 30000,
        .request_keep_ms = 600000,
        .max_in_flight = 16,
        .checkpoint_bytes = 32u << 20,
        .checkpoint_age_ms = 600000,
        .checkpoint_idle_ms = 5000,
        .least_routes = 2,
        .least_vms = 2,
        .x86_node = { .cores = 32,
                      .pps_per_core = 1e6,
                      .port_bps = 100e9,
                      .memory_bytes = 64e9,
                      .entry_bytes = 71 },
        .frame_bytes = 500,
        .audit_interval_ms = 600000,
        .audit_repairs = true,
        .suggest_watch_ms = SUGGEST_WATCH_MS,
        .suggest_mature_ms = SUGGEST_MATURE_MS,
        .step_units = 8192,
    };
}

struct core *core_new(const struct core_config *config)
{
    struct core *c = calloc(1, sizeof(*c));

    if (!c) {
        return NULL;
    }
    c->config = *config;
    if (c->config.max_in_flight == 0 || c->config.max_in_flight > IN_FLIGHT_MAX) {
        c->config.max_in_flight = IN_FLIGHT_MAX;
    }
    c->effects_tail = &c->effects;
    c->pump_is_idle = true;
    audits_init(c);
    probes_init(c);
    c->tip = table_set_new();
    c->tenants = table_set_new();
    c->health = health_new();
    level_settings_default(&c->objects.levels);
    c->tip_objects.levels = c->objects.levels;
    if (!c->health || !c->tip || !c->tenants || !place_init(c) ||
        !peer_index_init(&c->tip_peers) || !peer_index_init(&c->peers)) {
        core_free(c);
        return NULL;
    }
    return c;
}

void core_free(struct core *c)
{
    struct core_effect e;

    if (!c) {
        return;
    }
    while (core_next_effect(c, &e)) {
        core_effect_fini(&e);
    }
    jobs_fini(c);
    queue_fini(c);
    waits_fini(c);
    traffic_fini(c); /* before its sessions go */
    devices_fini(c);
    groups_fini(c);
    demand_fini(c);
    place_fini(c);
    suggest_fini(c);
    operations_fini(c);
    audits_fini(c);
    lives_fini(c);
    probes_fini(c);
    health_free(c->health);
    activity_fini(&c->activity);
    results_fini(&c->results);
    checkpoint_fini(c);
    overlay_fini(c);
    rows_unref(c->load.rows);
    peer_index_fini(&c->tip_peers);
    peer_index_fini(&c->peers);
    map_fini(&c->tip_homes);
    map_fini(&c->v6_macs);
    map_fini(&c->revisions);
    objects_fini(&c->objects);
    objects_fini(&c->tip_objects);
    table_set_free(c->tip);
    free(c);
}

uint64_t text_hash(const char *text)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325); /* FNV-1a, 64 bit */

    for (; *text; text++) {
        hash = (hash ^ (uint8_t)*text) * UINT64_C(0x100000001b3);
    }
    return hash ? hash : 1;
}

void core_load_range(struct store_key *ret_from, struct store_key *ret_end)
{
    record_load_range(ret_from, ret_end);
}

/* ---- effects ---- */

struct core_effect *effect_add(struct core *c, enum core_effect_kind kind)
{
    struct effect_node *n = core_need(calloc(1, sizeof(*n)));

    n->effect.kind = kind;
    *c->effects_tail = n;
    c->effects_tail = &n->next;
    return &n->effect;
}

void effect_reply(struct core *c, const struct core_reply *reply)
{
    effect_add(c, CORE_REPLY)->reply = *reply;
}

void effect_log(struct core *c, int level, const char *event, const char *fmt, ...)
{
    struct core_effect *e = effect_add(c, CORE_LOG);
    va_list args;

    e->log.level = level;
    snprintf(e->log.event, sizeof(e->log.event), "%s", event);
    va_start(args, fmt);
    vsnprintf(e->log.text, sizeof(e->log.text), fmt, args);
    va_end(args);
}

void effect_close(struct core *c, uint64_t session, enum rc rc, const char *fmt, ...)
{
    struct core_effect *e = effect_add(c, CORE_CLOSE);
    char text[sizeof(e->close.why.msg)];
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    e->close.session = session;
    err_set(&e->close.why, rc, "%s", text);
}

bool core_next_effect(struct core *c, struct core_effect *ret)
{
    struct effect_node *n = c->effects;

    if (!n) {
        return false;
    }
    *ret = n->effect;
    c->effects = n->next;
    if (!c->effects) {
        c->effects_tail = &c->effects;
    }
    free(n);
    return true;
}

void core_effect_fini(struct core_effect *e)
{
    if (e->kind == CORE_TXN) {
        store_txn_free(e->txn);
        e->txn = NULL;
    } else if (e->kind == CORE_REPLY) {
        live_trace_free(e->reply.live);
        e->reply.live = NULL;
    } else if (e->kind == CORE_SEND) {
        ctl_msg_fini(&e->send.msg);
    }
}

/* ---- steps ---- */

void core_depose(struct core *c, const char *why)
{
    if (c->phase == PHASE_DEPOSED || c->phase == PHASE_FAILED) {
        return;
    }
    c->phase = PHASE_DEPOSED;
    if (!c->failure.code) {
        err_set(&c->failure, RC_STALE, "%s", why);
    }
    effect_log(c, LOG_ERROR, "leadership lost", "term=%llu cause=\"%s\"",
               (unsigned long long)c->config.term, c->failure.msg);
    queue_fail_all(c, RC_UNREACHABLE, c->failure.msg);
    waits_fail_all(c, RC_UNREACHABLE, c->failure.msg);
    suggest_fail_all(c, RC_UNREACHABLE, c->failure.msg);
    lives_fail_all(c, RC_UNREACHABLE, c->failure.msg);
    operations_fini(c);
    for (const struct session *s = c->sessions; s; s = s->next) {
        effect_close(c, s->id, RC_UNREACHABLE, "%s", c->failure.msg);
    }
    while (c->sessions) {
        sessions_drop(c);
    }
}

static void term_done(struct core *c, const struct store_done *done)
{
    if (done->rc) {
        c->failure = done->err;
        core_depose(c, "the term could not be written");
        return;
    }
    c->fence = done->revision;
    c->phase = PHASE_SERVING;
    effect_log(c, LOG_INFO, "serving",
               "term=%llu revision=%llu tenants=%llu routes=%llu vm_nc=%llu",
               (unsigned long long)c->config.term, (unsigned long long)c->revision,
               (unsigned long long)c->count[TABLE_TENANT],
               (unsigned long long)c->count[TABLE_VXLAN_ROUTE],
               (unsigned long long)c->count[TABLE_VM_NC]);
}

void core_store_done(struct core *c, const struct store_done *done)
{
    switch (tag_kind(done->tag)) {
    case TAG_TERM:
        term_done(c, done);
        break;
    case TAG_CHECKPOINT:
        checkpoint_done(c, done);
        break;
    case TAG_AUDIT:
    case TAG_PROBES:
        break; /* what is not stored is lost with us, and made again */
    default:
        queue_done(c, done);
        break;
    }
}

static bool is_newer_term(const struct core *c, const struct store_event *ev)
{
    const struct store_key term = record_key_meta("term");

    for (uint32_t i = 0; i < ev->kv_count; i++) {
        if (store_key_compare(&ev->kvs[i].key, &term) == 0 && ev->kvs[i].value) {
            struct reader r = reader_of(ev->kvs[i].value->data, ev->kvs[i].value->len);

            return read_u64(&r) > c->config.term;
        }
    }
    return false;
}

void core_store_event(struct core *c, const struct store_event *ev)
{
    if (c->phase == PHASE_LOADING || c->phase == PHASE_FAILED ||
        ev->revision <= c->revision) {
        return; /* what is loaded has it already */
    }
    if (ev->tag != 0 && tag_kind(ev->tag) != TAG_COMMAND) {
        c->revision = ev->revision;
        return;
    }
    if (ev->tag != 0) {
        queue_event(c, ev);
        return;
    }
    commit_foreign(c, ev);
    if (is_newer_term(c, ev)) {
        core_depose(c, "another controller has taken over");
    }
}

/* One slice of what is to be done, each kind in its turn. */
static void work(struct core *c)
{
    static bool (*const slices[])(struct core *) = {
        jobs_work,       queue_work,   sessions_configure, sessions_pump,
        checkpoint_work, suggest_work, operations_work,    steering_work,
        waits_work,      audits_work,  lives_work,         probes_work,
    };
    enum { SLICES = sizeof(slices) / sizeof(slices[0]) };

    for (unsigned i = 0; i < SLICES; i++) {
        bool (*slice)(struct core *) = slices[c->turn++ % SLICES];

        if (slice(c)) {
            if (slice != waits_work) {
                waits_note(c);
            }
            return;
        }
    }
}

static void command(struct core *c, const struct command *cmd)
{
    if (cmd->kind == COMMAND_WAIT) {
        waits_add(c, cmd);
    } else if (cmd->kind == COMMAND_SUGGEST) {
        suggest_add(c, cmd);
    } else if (cmd->kind == COMMAND_AUDIT) {
        audits_ask(c, cmd);
    } else if (cmd->kind == COMMAND_TRACE) {
        lives_ask(c, cmd);
    } else if (cmd->kind == COMMAND_PROBE) {
        probes_begin(c, cmd);
    } else if (cmd->kind == COMMAND_CONSUMER_ACK) {
        consumers_ack(c, cmd);
    } else {
        queue_add(c, cmd);
    }
}

static void tick(struct core *c)
{
    sessions_tick(c);
    traffic_tick(c);
    operations_tick(c);
    audits_tick(c);
    lives_tick(c);
    probes_look(c);
    watch_tick(c);
    if (c->queue.probe_at_ms && c->queue.probe_at_ms <= c->now_ms) {
        queue_probe(c);
    }
}

void core_step(struct core *c, uint64_t now_ms, uint64_t unix_ms,
               const struct core_in *in)
{
    /* Our own lateness is no fault of a device.  (A little is usual, and must not put
     * a deadline off for ever.) */
    if (c->promised_ms && now_ms > c->promised_ms + LATE_MS) {
        sessions_extend(c, now_ms - c->promised_ms);
        traffic_extend(c, now_ms - c->promised_ms);
        lives_extend(c, now_ms - c->promised_ms);
    }
    c->now_ms = now_ms;
    c->unix_ms = unix_ms;
    c->units = c->config.step_units;
    switch (in->kind) {
    case CORE_LOADED:
        if (c->phase == PHASE_LOADING) {
            load_kvs(c, in->loaded.kvs, in->loaded.count);
        }
        break;
    case CORE_READY:
        load_ready(c, in->ready_revision);
        break;
    case CORE_COMMAND:
        command(c, in->command);
        break;
    case CORE_STORE_EVENT:
        if (jobs_must_wait(c)) {
            jobs_defer(c, in);
        } else {
            core_store_event(c, in->event);
        }
        break;
    case CORE_STORE_DONE:
        if (jobs_must_wait(c)) {
            jobs_defer(c, in);
        } else {
            core_store_done(c, in->done);
        }
        break;
    case CORE_SESSION_OPEN:
    case CORE_SESSION_MSG:
    case CORE_SESSION_CLOSED:
        sessions_input(c, in);
        break;
    case CORE_LIVENESS:
        sessions_liveness(c, in->liveness.device_id, in->liveness.is_silent);
        break;
    case CORE_TICK:
    case CORE_CONTINUE:
        break;
    }
    tick(c);
    if (in->kind != CORE_CONTINUE) {
        waits_note(c);
    }
    if (c->phase == PHASE_SERVING) {
        if (c->units > c->config.step_units / 2) {
            work(c);
        }
        waits_work(c);
    } else if (c->phase == PHASE_STARTING) {
        jobs_work(c);
    }
    c->promised_ms = core_has_work(c) ? 0 : core_next_wake(c);
}

bool core_has_work(const struct core *c)
{
    return queue_has_work(c) ||
           (c->phase == PHASE_SERVING &&
            (sessions_have_work(c) || c->must_configure)) ||
           checkpoint_has_work(c) || jobs_have_work(c) || suggest_has_work(c) ||
           operations_have_work(c) || steering_has_work(c) || waits_have_work(c) ||
           lives_have_work(c) || probes_have_work(c);
}

uint64_t core_next_wake(const struct core *c)
{
    uint64_t wakes[] = {
        sessions_wake(c),    waits_wake(c),
        checkpoint_wake(c),  operations_wake(c),
        audits_wake(c),      watch_wake(c),
        traffic_wake(c),     lives_wake(c),
        probes_next_wake(c), c->queue.probe_at_ms ? c->queue.probe_at_ms : UINT64_MAX
    };
    uint64_t wake = UINT64_MAX;

    for (unsigned i = 0; i < sizeof(wakes) / sizeof(wakes[0]); i++) {
        wake = wakes[i] < wake ? wakes[i] : wake;
    }
    return wake;
}
