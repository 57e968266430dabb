/*
 * watch: the region's health (controller/health): what the core sees goes in, what
 * follows comes out as alarms, lines of the log, and the one call of what is to be done
 * about a critical node.
 */
#include "controller/core/core_internal.h"

#include <stdio.h>

#include "proto/base/log.h"

#define WATCH_MS 1000
#define RETRY_MS UINT64_C(10000) /* after a delete that the store did not take */

static uint64_t now_s(const struct core *c)
{
    return c->unix_ms / 1000;
}

uint32_t watch_telemetry_ms(const struct core *c)
{
    return c->device_count > TELEMETRY_NODES ? TELEMETRY_LARGE_MS : TELEMETRY_MS;
}

const struct health *core_health(const struct core *c)
{
    return c->health;
}

const struct level_settings *core_levels(const struct core *c)
{
    return &c->objects.levels;
}

void core_set_history(struct core *c, struct history *history)
{
    health_set_history(c->health, history);
}

/* ---- in ---- */

void watch_objects(struct core *c)
{
    c->watch_ms = c->now_ms;
    c->festival_look_ms = c->now_ms;
    audits_objects(c);
    health_set_levels(c->health, &c->objects.levels);
    for (uint32_t i = 0; i < c->objects.node_count; i++) {
        const struct node *n = &c->objects.nodes[i];
        const struct cluster *cluster = objects_cluster(&c->objects, n->cluster);

        if (cluster) {
            health_node(c->health, n->name, n->cluster, cluster->kind,
                        n->side == cluster->active_side);
        }
    }
}

void watch_node_gone(struct core *c, const char *node)
{
    health_node_gone(c->health, now_s(c), node);
}

void watch_telemetry(struct core *c, const struct device *d, const struct telemetry *t)
{
    health_telemetry(c->health, now_s(c), d->name, t);
}

void watch_state(struct core *c, const struct device *d, const char *cause)
{
    static const enum health_state states[] = { [NODE_JOINING] = HEALTH_WELL,
                                                [NODE_ONLINE] = HEALTH_WELL,
                                                [NODE_SUSPECT] = HEALTH_SILENT,
                                                [NODE_OFFLINE] = HEALTH_DOWN };

    health_node_state(c->health, now_s(c), d->name, states[d->state], cause);
    c->watch_ms = c->now_ms;
}

void watch_blind(struct core *c, uint32_t lost, uint32_t known)
{
    health_blind(c->health, now_s(c), c->suspects_itself, lost, known);
    c->watch_ms = c->now_ms;
}

void watch_audit(struct core *c, const struct audit_record *r)
{
    const struct audit_findings *f = r->found;
    bool is_wrong = r->result == AUDIT_DIFFERS || r->result == AUDIT_REPAIRED;

    if (r->result == AUDIT_FAILED) {
        return; /* nothing is known; who is silent is told elsewhere */
    }
    /* One that was repaired is told, and cleared at once: it stands for a minute. */
    if (is_wrong) {
        health_audit(c->health, now_s(c), r->node, audit_findings_total(f),
                     f->count[AUDIT_MISSING], f->count[AUDIT_EXTRA],
                     f->count[AUDIT_DIFFERENT], r->number, r->result == AUDIT_REPAIRED);
    }
    if (r->result != AUDIT_DIFFERS && r->vni == 0) {
        health_audit_clean(c->health, now_s(c), r->node);
    }
    c->watch_ms = c->now_ms;
}

void watch_trace(struct core *c, const char *node, const char *what)
{
    health_trace(c->health, now_s(c), node, what);
    c->watch_ms = c->now_ms;
}

void watch_contradiction(struct core *c, const char *cluster, const char *node,
                         const char *other)
{
    health_contradiction(c->health, now_s(c), cluster, node, other);
    c->watch_ms = c->now_ms;
}

/* ---- acknowledgements ---- */

enum rc watch_check_ack(const struct core *c, const struct command *cmd,
                        struct alarm_ack *ret, struct err *err)
{
    return alarms_make_ack(health_alarms_of(c->health), now_s(c), cmd->alarm_id,
                           cmd->who, ret, err);
}

enum rc watch_check_forget(const struct core *c, const char *name, struct err *err)
{
    if (objects_revision(&c->tip_objects, "ack", name) == REVISION_IN_FLIGHT ||
        !alarms_ack_is_spent(health_alarms_of(c->health), now_s(c), name)) {
        return err_set(err, RC_CONFLICT, "acknowledgement %s is a new one", name);
    }
    return RC_OK;
}

void watch_load_acks(struct core *c)
{
    for (uint32_t i = 0; i < c->objects.ack_count; i++) {
        core_must(alarms_ack(health_alarms(c->health), now_s(c), &c->objects.acks[i]) ==
                  RC_OK);
    }
}

void watch_acked(struct core *c, const struct alarm_ack *ack)
{
    core_must(alarms_ack(health_alarms(c->health), now_s(c), ack) == RC_OK);
    effect_log(c, LOG_INFO, "alarm acknowledged",
               "alarm=%s kind=%s subject=%s who=\"%s\"", ack->name,
               alarm_kind_name(ack->kind), ack->subject, ack->who);
}

void watch_forgot(struct core *c, const char *name)
{
    alarms_drop_ack(health_alarms(c->health), name);
    c->ack_retry_ms = 0;
}

/* One after the other. */
static void forget_spent_acks(struct core *c)
{
    const char *name = alarms_next_spent_ack(health_alarms_of(c->health), now_s(c));
    struct command cmd = { .kind = COMMAND_FORGET_ACK, .who = "controller" };

    if (name && c->ack_retry_ms <= c->now_ms) {
        memcpy(cmd.name, name, strlen(name));
        queue_add(c, &cmd);
        c->ack_retry_ms = c->now_ms + RETRY_MS;
    }
}

/* ---- out ---- */

/* A node is critical by its own load or fault: it should go, and others share its
 * load, or a standby take its place.  Nobody does that yet: it is said. */
static void recover_critical(struct core *c, const struct health_event *e)
{
    effect_log(c, LOG_ERROR, "node critical",
               "node=%s subject=%s resource=%s percent=%.2f next=\"an operator's\"",
               e->node, e->subject, e->change.level.resource,
               e->change.level.bp / 100.0);
}

static void tell_level(struct core *c, const struct health_event *e)
{
    effect_log(c, e->change.to >= WATER_SAFE ? LOG_WARN : LOG_INFO, "water level",
               "subject=%s resource=%s from=%s to=%s percent=%.2f", e->subject,
               e->change.level.resource, water_name(e->change.from),
               water_name(e->change.to), e->change.level.bp / 100.0);
}

static void tell_alarm(struct core *c, const struct health_event *e)
{
    struct core_effect *effect = effect_add(c, CORE_ALARM);

    effect->alarm.news = e->news;
    effect->alarm.alarm = e->alarm;
}

static void take_events(struct core *c)
{
    struct health_event e;
    bool has_crossed = false;

    while (health_next_event(c->health, now_s(c), &e)) {
        switch (e.kind) {
        case HEALTH_LEVEL:
            tell_level(c, &e);
            has_crossed = true;
            break;
        case HEALTH_CRITICAL:
            recover_critical(c, &e);
            break;
        case HEALTH_ALARM:
            tell_alarm(c, &e);
            break;
        }
    }
    if (has_crossed) {
        place_refresh(c); /* sale has closed or opened */
    }
}

/* ---- time ---- */

static void look_at_devices(struct core *c)
{
    struct node_status status;

    for (uint32_t i = 0; i < c->device_count; i++) {
        struct device *d = c->devices[i];

        if (core_node_status(c, d->name, &status) == RC_OK) {
            health_node_sync(c->health, now_s(c), d->name, status.in_sync);
        }
        if (d->exception_count || d->exception_told) {
            health_node_refused(c->health, now_s(c), d->name, d->exception_count);
            d->exception_told = d->exception_count;
        }
    }
}

/* On all ports of the active side, as told not long ago. */
static uint64_t received_bps(const struct core *c, const struct group *g)
{
    char subject[SUBJECT_MAX + 1];
    const struct level_subject *s;
    const struct level *l;

    snprintf(subject, sizeof(subject), "cluster/%s", g->name);
    s = levels_find(health_levels(c->health), subject);
    l = s ? level_of(s, "rx_bps") : NULL;
    return l && l->seen_s + HEALTH_STALE_S > now_s(c) ? l->used : 0;
}

/* Tables by the capacity model; of halves the fuller one.  Traffic is measured. */
static void look_at_cluster(struct core *c, struct group *g)
{
    const struct cluster *cluster = objects_cluster(&c->objects, g->name);
    const struct placement_cluster *x = placement_cluster_at(c->placement, g->place);
    struct usage use;

    demand_cluster(c, g, received_bps(c, g));
    placement_usage(c->placement, g->place, &use);
    for (unsigned i = 0; cluster && i < x->set.count; i++) {
        uint64_t used =
            use.amount[0][i] > use.amount[1][i] ? use.amount[0][i] : use.amount[1][i];

        if (!x->set.is_shared_out[i] && x->set.capacity[i] > 0) {
            health_model(c->health, now_s(c), g->name, cluster->kind, x->set.at[i].name,
                         used / x->set.at[i].scale,
                         x->set.capacity[i] / x->set.at[i].scale);
        }
    }
}

void watch_tick(struct core *c)
{
    if (c->phase != PHASE_SERVING || c->watch_ms > c->now_ms) {
        return;
    }
    look_at_devices(c);
    festivals_tick(c);
    consumers_tick(c);
    for (uint32_t i = 0; c->device_count > 0 && i < c->group_count; i++) {
        if (c->groups[i]->kind < GROUP_KINDS) { /* no tenant is at home on others */
            look_at_cluster(c, c->groups[i]);
        }
    }
    health_tick(c->health, now_s(c));
    take_events(c);
    forget_spent_acks(c);
    c->watch_ms = c->now_ms + WATCH_MS;
}

/* Once a second while there is anything to look at. */
uint64_t watch_wake(const struct core *c)
{
    bool is_busy = c->device_count > 0 || festivals_are_open(c) ||
                   health_next_s(c->health, now_s(c)) != UINT64_MAX;

    return c->phase == PHASE_SERVING && is_busy ? c->watch_ms : UINT64_MAX;
}
