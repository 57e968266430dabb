/*
 * suggest: the advice on the policy.
 *
 * First the traffic is measured, if that was asked for, and shared out; then services
 * are judged, and in slices over the tenants it is counted what XGW-H would hold by the
 * policy that follows.  The count is made by the walk that makes the resident set, so
 * what is promised is closed like what is held.
 */
#include "controller/core/suggest.h"

#include "controller/core/core_internal.h"

#include <stdio.h>

#define SLICE_ROWS  20000u /* walked in one step: some 2 ms */
#define SLICE_SLOTS 2000u  /* VNIs with traffic */

/* ---- all of them ---- */

static void suggestion_free(struct suggestion *s)
{
    if (s) {
        free(s->traffic.unmeasured);
        free(s->services);
        free(s);
    }
}

static void add_service(struct core *c, const char *service,
                        const struct service_activity *a, bool is_rest)
{
    struct suggestion *s = c->suggest_job.making;
    struct service_figures *f = &s->services[s->count++].figures;

    snprintf(f->service, sizeof(f->service), "%s", service);
    f->is_rest = is_rest;
    f->place = policy_of_service(&c->objects.policy, service);
    f->entries = a->entries;
    f->changes = activity_changes(&c->activity, a, c->now_ms, &f->window_ms);
    f->age_ms = a->entries > 0 ? c->now_ms - a->first_ms : 0;
    f->is_older = a->is_older;
    f->has_changed = a->has_changed;
    f->quiet_ms = c->now_ms - (a->has_changed ? a->last_ms : c->activity.start_ms);
}

/* Scopes first, each at its number less one.  False: no memory. */
static bool list_services(struct core *c)
{
    struct suggest_job *job = &c->suggest_job;
    const struct activity *a = &c->activity;
    struct suggestion *s = calloc(1, sizeof(*s));

    if (s) {
        s->services = calloc(SCOPE_SERVICE + a->name_count, sizeof(*s->services));
    }
    if (!s || !s->services) {
        free(s);
        return false;
    }
    s->revision = c->revision;
    s->watched_ms = c->now_ms - a->start_ms;
    s->limits.watch_ms = c->config.suggest_watch_ms;
    s->limits.mature_ms = c->config.suggest_mature_ms;
    job->making = s;
    job->policy = c->objects.policy;
    job->next_vni = VNI_MIN;
    for (unsigned scope = SCOPE_LOCAL; scope <= SCOPE_SERVICE; scope++) {
        if (scope != SCOPE_SERVICE || a->scopes[scope - 1].entries > 0) {
            add_service(c, scope_name((enum route_scope)scope), &a->scopes[scope - 1],
                        scope == SCOPE_SERVICE);
        }
    }
    for (uint32_t i = 0; i < a->name_count; i++) {
        if (a->names[i].entries > 0) {
            add_service(c, a->names[i].service, &a->names[i], false);
        }
    }
    return true;
}

static void judge_services(struct core *c)
{
    struct suggest_job *job = &c->suggest_job;

    for (uint32_t i = 0; i < job->making->count; i++) {
        struct service_advice *advice = &job->making->services[i];
        const struct service_figures *f = &advice->figures;

        advice->place = suggest_judge(&job->making->limits, f, advice->reason);
        if (advice->place != f->place &&
            policy_set(&job->policy, f->service, advice->place, NULL) != RC_OK) {
            advice->place = f->place;
            snprintf(advice->reason, sizeof(advice->reason),
                     "the policy holds %d rules and has no room for one more: stays",
                     POLICY_RULES_MAX);
        }
    }
    job->next_vni = VNI_MIN;
    job->phase = SUGGEST_COUNT;
}

static void answer_all(struct core *c, const struct err *err)
{
    struct suggest_job *job = &c->suggest_job;

    while (job->waits) {
        struct suggest_wait *w = job->waits;
        struct core_reply reply = { .token = w->token, .bad_index = UINT32_MAX };

        reply.err = *err;
        reply.revision = c->revision;
        effect_reply(c, &reply);
        job->waits = w->next;
        free(w);
    }
}

static void finish(struct core *c)
{
    const struct tree_node root = { 0 };
    const struct err none = { 0 };
    struct suggest_job *job = &c->suggest_job;
    struct suggestion *s = job->making;

    for (uint32_t i = 0; i < c->group_count; i++) {
        const struct group *g = c->groups[i];

        if (g->kind == GROUP_H) {
            s->now.routes +=
                table_set_digest(g->desired, TABLE_VXLAN_ROUTE, root).count;
            s->now.vms += table_set_digest(g->desired, TABLE_VM_NC, root).count;
        }
    }
    suggestion_free(job->last);
    job->last = s;
    job->making = NULL;
    job->phase = SUGGEST_IDLE;
    answer_all(c, &none);
}

bool suggest_has_work(const struct core *c)
{
    return c->phase == PHASE_SERVING && c->suggest_job.waits &&
           (c->suggest_job.phase != SUGGEST_MEASURE || traffic_is_measured(c));
}

/* ---- one slice ---- */

/* The first who asked says how long to look. */
static void begin(struct core *c)
{
    struct suggest_job *job = &c->suggest_job;
    const struct suggest_wait *first = job->waits;

    while (first->next) { /* the newest stands in front */
        first = first->next;
    }
    job->phase = SUGGEST_MEASURE;
    if (first->seconds > 0) {
        traffic_begin(c, first->seconds);
    } else {
        traffic_fini(c);
    }
}

static void list(struct core *c)
{
    struct suggest_job *job = &c->suggest_job;
    struct err err = { 0 };

    if (!list_services(c)) {
        err_set(&err, RC_NO_MEMORY, "out of memory");
        answer_all(c, &err);
        job->phase = SUGGEST_IDLE;
    } else if (c->traffic.seconds > 0) {
        job->phase = SUGGEST_USES;
    } else {
        judge_services(c);
    }
}

/* One slice of what XGW-H would hold of a tenant; true: all of it.  It is looked at as
 * it is when its turn comes. */
static bool count_tenant(struct core *c, uint32_t vni)
{
    struct suggest_job *job = &c->suggest_job;
    struct resident_size *then = &job->making->then;
    struct making *m = &job->counting;

    for (; job->counted < 2; job->counted++) {
        enum table_id table = job->counted ? TABLE_VM_NC : TABLE_VXLAN_ROUTE;

        if (!m->visit && !homes_of_vni(c, vni).of[GROUP_H]) {
            continue;
        }
        if (!m->visit) {
            resident_count_begin(c, vni, table, &job->policy, m);
            job->counted_rows = rows_count(committed_rows(c, vni, table));
        }
        if (!making_work(m, &c->units)) {
            return false;
        }
        *(job->counted ? &then->vms : &then->routes) += job->counted_rows - m->left_off;
        making_fini(m);
    }
    job->counted = 0;
    return true;
}

static void count(struct core *c)
{
    struct suggest_job *job = &c->suggest_job;

    while (job->next_vni && c->units > 0) {
        uint32_t vni = job->counting.visit ? job->counting.vni
                                           : core_tenant_next(c, job->next_vni);

        units_spend(&c->units, 8);
        if (vni && !count_tenant(c, vni)) {
            job->next_vni = vni;
            return;
        }
        job->next_vni = vni && vni < VNI_MAX ? vni + 1 : 0;
    }
    if (job->next_vni == 0) {
        finish(c);
    }
}

bool suggest_work(struct core *c)
{
    struct suggest_job *job = &c->suggest_job;

    if (!suggest_has_work(c)) {
        return false;
    }
    switch (job->phase) {
    case SUGGEST_IDLE:
        begin(c);
        break;
    case SUGGEST_MEASURE:
        list(c);
        break;
    case SUGGEST_USES:
        job->phase = suggest_uses_work(c, SLICE_ROWS) ? SUGGEST_SHARE : SUGGEST_USES;
        break;
    case SUGGEST_SHARE:
        if (suggest_share_work(c, SLICE_SLOTS)) {
            judge_services(c);
        }
        break;
    case SUGGEST_COUNT:
        count(c);
        break;
    }
    return true;
}

/* ---- who asks ---- */

void suggest_add(struct core *c, const struct command *cmd)
{
    struct core_reply reply = { .token = cmd->token, .bad_index = UINT32_MAX };
    struct suggest_wait *w = NULL;

    if (c->phase != PHASE_SERVING) {
        err_set(&reply.err, RC_UNREACHABLE, "the region is not served");
    } else if (!(w = malloc(sizeof(*w)))) {
        err_set(&reply.err, RC_NO_MEMORY, "out of memory");
    }
    if (!w) {
        effect_reply(c, &reply);
        return;
    }
    *w =
        (struct suggest_wait){ c->suggest_job.waits, cmd->token, cmd->suggest.seconds };
    c->suggest_job.waits = w;
}

void suggest_fail_all(struct core *c, enum rc rc, const char *why)
{
    struct err err = { 0 };

    err_set(&err, rc, "%s", why);
    answer_all(c, &err);
}

void suggest_fini(struct core *c)
{
    making_fini(&c->suggest_job.counting);
    suggestion_free(c->suggest_job.making);
    suggestion_free(c->suggest_job.last);
    suggest_share_fini(&c->suggest_job);
    while (c->suggest_job.waits) {
        struct suggest_wait *next = c->suggest_job.waits->next;

        free(c->suggest_job.waits);
        c->suggest_job.waits = next;
    }
}

const struct suggestion *core_suggestion(const struct core *c)
{
    return c->suggest_job.last;
}
