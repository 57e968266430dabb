/*
 * works: a cluster is built, drained or retired: what may be asked for, and the facts
 * of each step.  The rules are controller/lifecycle's, the moves brood.c's.
 */
#include "controller/core/core_internal.h"

#include <stdio.h>

/* ---- what may be asked for ---- */

/* A cluster that no other work is done on; null: `err`. */
static const struct cluster *find_cluster(const struct core *c, const char *name,
                                          struct err *err)
{
    const struct cluster *k = objects_cluster(&c->tip_objects, name);
    const struct operation *work = objects_work(&c->tip_objects, name);

    if (!k) {
        err_field(err, RC_NOT_FOUND, "cluster", "unknown_cluster",
                  "there is no cluster '%s'", name);
        return NULL;
    }
    if (k->kind == CLUSTER_LB) {
        err_field(err, RC_INVALID, "cluster", "cluster_kind",
                  "cluster %s: no tenant is at home on load balancers", name);
        return NULL;
    }
    if (work) {
        err_field(err, RC_CONFLICT, "cluster", "cluster_in_work",
                  "cluster %s: operation %s (%s) is at work on it", name, work->id,
                  operation_kind_name(work->kind));
        return NULL;
    }
    return k;
}

static enum rc check_drain_ms(uint32_t ms, struct err *err)
{
    return ms <= MOVE_DRAIN_MS_MAX
               ? RC_OK
               : err_field(err, RC_RANGE, "drain_ms", "range", "drain_ms: at most %d",
                           MOVE_DRAIN_MS_MAX);
}

static enum rc check_vnis(const struct core *c, const struct build *b, struct err *err)
{
    struct map seen = { 0 };
    enum rc rc = RC_OK;

    for (uint32_t i = 0; !rc && i < b->vni_count; i++) {
        uint32_t vni = build_vni(b, i);
        struct map_slot *slot = map_add(&seen, vni);

        if (!slot) {
            rc = err_set(err, RC_NO_MEMORY, "out of memory");
        } else if (slot->a) {
            rc = err_field(err, RC_INVALID, "tenants", "duplicate_key",
                           "vni %u is named twice", vni);
        } else if (!table_set_rows(c->tip, vni, TABLE_TENANT)) {
            rc = err_field(err, RC_NOT_FOUND, "tenants", "unknown_tenant",
                           "vni %u is no tenant", vni);
        } else {
            slot->a = 1;
        }
    }
    map_fini(&seen);
    return rc;
}

static uint32_t region_hold_ms(const struct core *c)
{
    uint32_t ms = c->tip_objects.region.admission_hold_ms;

    return ms ? ms : ADMISSION_HOLD_MS_DEFAULT;
}

static enum rc begin_build(const struct core *c, const struct command *cmd,
                           struct operation *o, struct err *err)
{
    const struct build *b = &cmd->build;
    const struct cluster *k = find_cluster(c, b->cluster, err);
    enum rc rc = k ? RC_OK : err->code;

    if (!rc && cluster_is_announced(k->state)) {
        rc =
            err_field(err, RC_CONFLICT, "cluster", "cluster_state",
                      "cluster %s is %s: only one that carries no packets can be built",
                      k->name, cluster_state_name(k->state));
    }
    if (!rc && (b->vni_count < 1 || b->vni_count > BUILD_TENANTS_MAX)) {
        rc = err_field(err, RC_RANGE, "tenants", "range", "tenants: 1 to %d",
                       BUILD_TENANTS_MAX);
    }
    if (!rc && b->hold_ms > ADMISSION_HOLD_MS_MAX &&
        b->hold_ms != BUILD_HOLD_MS_REGION) {
        rc = err_field(err, RC_RANGE, "hold_ms", "range", "hold_ms: at most %d",
                       ADMISSION_HOLD_MS_MAX);
    }
    rc = rc ? rc : check_drain_ms(b->drain_ms, err);
    rc = rc ? rc : check_vnis(c, b, err);
    if (!rc) {
        o->build = *b;
        o->build.hold_ms =
            b->hold_ms == BUILD_HOLD_MS_REGION ? region_hold_ms(c) : b->hold_ms;
        blob_ref(o->build.vnis);
    }
    return rc;
}

/* No XGW-H cluster stands before it. */
static enum rc check_backs_none(const struct core *c, const char *name, struct err *err)
{
    for (uint32_t i = 0; i < c->tip_objects.cluster_count; i++) {
        const struct cluster *k = &c->tip_objects.clusters[i];

        if (strcmp(k->backing, name) == 0 && k->state != CLUSTER_RETIRED) {
            return err_field(err, RC_CONFLICT, "cluster", "cluster_backs",
                             "cluster %s backs cluster %s: drain and retire that first",
                             name, k->name);
        }
    }
    return RC_OK;
}

static enum rc begin_drain(const struct core *c, const struct command *cmd,
                           struct operation *o, struct err *err)
{
    const struct drain *d = &cmd->drain;
    const struct cluster *k = find_cluster(c, d->cluster, err);
    const struct cluster *to = objects_cluster(&c->tip_objects, d->to);
    enum rc rc = k ? RC_OK : err->code;

    if (!rc && k->state != CLUSTER_SERVING && k->state != CLUSTER_DRAINING) {
        rc = err_field(err, RC_CONFLICT, "cluster", "cluster_state",
                       "cluster %s is %s: only one that serves can be drained", k->name,
                       cluster_state_name(k->state));
    }
    rc = rc ? rc : check_backs_none(c, d->cluster, err);
    if (!rc && d->to[0] && (!to || to == k || to->kind != k->kind)) {
        rc = err_field(err, RC_INVALID, "to", to ? "cluster_kind" : "unknown_cluster",
                       "to: '%s' is no other cluster of kind %s", d->to,
                       cluster_kind_name(k->kind));
    }
    if (!rc && to && to->state != CLUSTER_SERVING) {
        rc = err_field(err, RC_CONFLICT, "to", "cluster_not_serving",
                       "cluster %s is %s and takes no new tenants", to->name,
                       cluster_state_name(to->state));
    }
    rc = rc ? rc : check_drain_ms(d->drain_ms, err);
    o->drain = *d;
    return rc;
}

static enum rc begin_retire(const struct core *c, const struct command *cmd,
                            struct operation *o, struct err *err)
{
    const char *name = cmd->retire.cluster;
    const struct cluster *k = find_cluster(c, name, err);
    const struct map_slot *homes = map_find(&c->tip_homes, text_hash(name));
    enum rc rc = k ? check_backs_none(c, name, err) : err->code;

    if (!rc && homes && homes->a > 0) {
        rc = err_field(err, RC_CONFLICT, "cluster", "cluster_in_use",
                       "cluster %s is the home of %llu tenants: drain it first", name,
                       (unsigned long long)homes->a);
    }
    if (!rc && objects_move_needs(&c->tip_objects, name)) {
        rc = err_field(err, RC_CONFLICT, "cluster", "cluster_in_use",
                       "cluster %s: a tenant is moving from it or to it", name);
    }
    o->retire = cmd->retire;
    return rc;
}

enum rc work_begin(struct core *c, struct pending *p, struct operation *o)
{
    const struct command *cmd = &p->command;
    struct err *err = &p->reply.err;

    if (c->tip_objects.running_count >= OPERATIONS_OPEN_MAX) {
        return err_field(err, RC_FULL, "", "operations_open",
                         "%d operations are under way: wait for some of them",
                         OPERATIONS_OPEN_MAX);
    }
    switch (cmd->kind) {
    case COMMAND_BUILD:
        operation_begin(c, p, OPERATION_BUILD, o);
        return begin_build(c, cmd, o, err);
    case COMMAND_DRAIN:
        operation_begin(c, p, OPERATION_DRAIN, o);
        return begin_drain(c, cmd, o, err);
    default:
        operation_begin(c, p, OPERATION_RETIRE, o);
        return begin_retire(c, cmd, o, err);
    }
}

enum rc build_find_cuts(const struct core *c, struct build *b, struct err *err)
{
    uint64_t *bps = calloc(b->vni_count, sizeof(*bps));

    if (!bps) {
        return err_set(err, RC_NO_MEMORY, "out of memory");
    }
    for (uint32_t i = 0; i < b->vni_count; i++) {
        const struct map_slot *slot = map_find(&c->growth, build_vni(b, i));
        const struct growth *g = slot ? slot->p : NULL;

        bps[i] = g ? g->measured_bps : 0;
    }
    build_cuts(bps, b->vni_count, b->cut);
    free(bps);
    return RC_OK;
}

/* ---- what is seen ---- */

static void say(char why[OPERATION_TEXT_MAX + 1], const char *node, const char *what)
{
    if (!why[0]) {
        snprintf(why, OPERATION_TEXT_MAX + 1, "node %s %s", node, what);
    }
}

static void count_nodes(const struct core *c, const char *cluster,
                        struct build_facts *f, char why[OPERATION_TEXT_MAX + 1])
{
    const struct group *g = group_find(c, cluster);

    for (uint32_t i = 0; g && i < c->device_count; i++) {
        const struct device *d = c->devices[i];

        if (d->group != g) {
            continue;
        }
        f->nodes++;
        if (d->state != NODE_ONLINE) {
            say(why, d->name, d->session ? "is not online yet" : "has not dialled");
        } else if (d->exception_count > 0) {
            say(why, d->name, "refuses entries");
        } else if (!d->session || !device_has_applied(d, g->revision)) {
            say(why, d->name, "does not hold all yet");
        } else {
            f->nodes_ready++;
        }
    }
}

/* A level of the cluster that is at `water` or above. */
static bool is_at(const struct core *c, const char *cluster, enum water water,
                  char why[OPERATION_TEXT_MAX + 1])
{
    const struct level *l = health_cluster_at(c->health, cluster, water, false);

    if (l) {
        snprintf(why, OPERATION_TEXT_MAX + 1, "cluster %s: %s at %u.%02u %%", cluster,
                 l->resource, l->bp / 100, l->bp % 100);
    }
    return l;
}

static bool node_has_breach(const struct core *c, const struct device *d,
                            char why[OPERATION_TEXT_MAX + 1])
{
    char subject[SUBJECT_MAX + 1];

    snprintf(subject, sizeof(subject), "node/%s", d->name);
    if (!device_may_forward(d)) {
        snprintf(why, OPERATION_TEXT_MAX + 1, "node %s is down", d->name);
    } else if (d->exception_count > 0) {
        snprintf(why, OPERATION_TEXT_MAX + 1, "node %s refuses %u entries", d->name,
                 d->exception_count);
    } else if (alarms_find(health_alarms_of(c->health), ALARM_LOSS, subject)) {
        snprintf(why, OPERATION_TEXT_MAX + 1, "node %s loses packets", d->name);
    } else {
        return false;
    }
    return true;
}

bool work_has_breach(const struct core *c, const char *cluster,
                     char why[OPERATION_TEXT_MAX + 1])
{
    const struct cluster *k = objects_cluster(&c->objects, cluster);
    const struct group *g = group_find(c, cluster);

    for (uint32_t i = 0; g && i < c->device_count; i++) {
        if (c->devices[i]->group == g && node_has_breach(c, c->devices[i], why)) {
            return true;
        }
    }
    return is_at(c, cluster, WATER_SAFE, why) ||
           (k && k->backing[0] && is_at(c, k->backing, WATER_CRITICAL, why));
}

/* Every load balancer was told which nodes there are; what it is told next, it does
 * after that. */
static bool balancers_know(const struct core *c, char why[OPERATION_TEXT_MAX + 1])
{
    for (uint32_t i = 0; i < c->device_count; i++) {
        const struct device *d = c->devices[i];

        if (d->group->kind == GROUP_LB && device_may_forward(d) &&
            (!d->session || d->session->must_configure)) {
            say(why, d->name, "was not told yet");
            return false;
        }
    }
    return true;
}

/* ---- facts ---- */

static uint8_t state_of(const struct core *c, const char *cluster)
{
    const struct cluster *k = objects_cluster(&c->objects, cluster);

    return k ? k->state : CLUSTER_STATES;
}

static enum verdict build(struct core *c, const struct operation *o, struct run *r,
                          char ret_why[OPERATION_TEXT_MAX + 1])
{
    struct build_facts f = { .state = state_of(c, o->build.cluster) };
    char why[OPERATION_TEXT_MAX + 1] = "";

    switch (o->step) {
    case BUILD_JOIN:
        count_nodes(c, o->build.cluster, &f, why);
        break;
    case BUILD_AUDIT:
        f.gate = brood_audit(c, o, r, why);
        break;
    case BUILD_PROBE:
        f.gate = brood_probe(c, o, r, why);
        break;
    case BUILD_ANNOUNCE:
        f.is_announced = balancers_know(c, why);
        break;
    case BUILD_ADMIT:
        f.has_breach = work_has_breach(c, o->build.cluster, why);
        brood_build(c, o, r, &f.tally, why);
        count_nodes(c, o->build.cluster, &f, why);
        f.stage_ms = brood_stage_ms(c, r, &f.tally, f.nodes_ready == f.nodes);
        break;
    case BUILD_LOAD:
    case BUILD_BACK:
        brood_build(c, o, r, &f.tally, why);
        break;
    default:
        break;
    }
    brood_put_state(c, o, r, build_state(o, &f));
    f.why = why[0] ? why : NULL;
    return build_next(o, &f, ret_why);
}

static enum verdict drain(struct core *c, const struct operation *o, struct run *r,
                          char ret_why[OPERATION_TEXT_MAX + 1])
{
    struct drain_facts f = { 0 };
    char why[OPERATION_TEXT_MAX + 1] = "";

    if (brood_put_state(c, o, r, drain_state(o))) {
        brood_drain(c, o, r, &f, why);
    }
    f.state = state_of(c, o->drain.cluster);
    f.why = why[0] ? why : NULL;
    return drain_next(o, &f, ret_why);
}

static enum verdict retire(struct core *c, const struct operation *o, struct run *r,
                           char ret_why[OPERATION_TEXT_MAX + 1])
{
    struct retire_facts f = { 0 };
    char why[OPERATION_TEXT_MAX + 1] = "";

    brood_put_state(c, o, r, CLUSTER_RETIRED);
    f.state = state_of(c, o->retire.cluster);
    f.is_withdrawn = balancers_know(c, why);
    f.why = why[0] ? why : NULL;
    return retire_next(&f, ret_why);
}

enum verdict work_next(struct core *c, const struct operation *o, struct run *r,
                       char ret_why[OPERATION_TEXT_MAX + 1])
{
    switch (o->kind) {
    case OPERATION_BUILD:
        return build(c, o, r, ret_why);
    case OPERATION_DRAIN:
        return drain(c, o, r, ret_why);
    default:
        return retire(c, o, r, ret_why);
    }
}
