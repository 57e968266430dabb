/*
 * suggest: the advice on the policy.
 *
 * Services are judged when it begins; then, in slices over the tenants, it is counted
 * what XGW-H would hold by the policy that follows.  The count is made by the walk that
 * makes the resident set, so what is promised is closed like what is held.
 */
#include "controller/core/suggest.h"

#include "controller/core/core_internal.h"

#include <stdio.h>

#define SLICE_ROWS 20000u /* walked in one step: some 2 ms */

/* ---- one service ---- */

double suggest_changes_per_hour(const struct service_figures *f)
{
    return f->window_ms
               ? (double)f->changes * (double)SUGGEST_WATCH_MS / (double)f->window_ms
               : 0;
}

static bool is_stable(const struct service_figures *f)
{
    double rate = suggest_changes_per_hour(f);

    return rate <= SUGGEST_STABLE_PER_HOUR ||
           rate <= (double)f->entries / SUGGEST_STABLE_PER_ENTRIES;
}

/* "3 d", "5 h", "12 min". */
static const char *span(uint64_t ms, char to[32])
{
    uint64_t minutes = ms / 60000;

    if (minutes >= 2 * 24 * 60) {
        snprintf(to, 32, "%llu d", (unsigned long long)(minutes / (24 * 60)));
    } else if (minutes >= 120) {
        snprintf(to, 32, "%llu h", (unsigned long long)(minutes / 60));
    } else {
        snprintf(to, 32, "%llu min", (unsigned long long)minutes);
    }
    return to;
}

static enum policy_place judge_internet(const struct service_figures *f, char *reason)
{
    snprintf(reason, SUGGEST_REASON_MAX + 1,
             f->place == POLICY_XGW_H && f->entries > 0
                 ? "XGW-H hands these packets to XGW-x86 anyway, and a miss goes there "
                   "too: %llu entries that only take room"
                 : "XGW-H hands these packets to XGW-x86 anyway (%llu entries)",
             (unsigned long long)f->entries);
    return POLICY_XGW_X86;
}

/* Not XGW-H's for its changes or its youth. */
static enum policy_place judge_restless(const struct service_figures *f, char *reason)
{
    const char *caution =
        f->place == POLICY_XGW_H
            ? "; its traffic is unknown: see first that XGW-x86 can carry it"
            : "";
    char age[32];

    if (!is_stable(f)) {
        snprintf(reason, SUGGEST_REASON_MAX + 1,
                 "volatile: %.0f changes/h of %llu entries; stable is up to %d/h, or a "
                 "%dth of the entries%s",
                 suggest_changes_per_hour(f), (unsigned long long)f->entries,
                 SUGGEST_STABLE_PER_HOUR, SUGGEST_STABLE_PER_ENTRIES, caution);
    } else {
        snprintf(reason, SUGGEST_REASON_MAX + 1,
                 "new: its first entry came %s ago; mature is from %d d%s",
                 span(f->age_ms, age), (int)(SUGGEST_MATURE_MS / 86400000), caution);
    }
    return POLICY_XGW_X86;
}

/* Stable and not known to be new: traffic would decide. */
static enum policy_place judge_settled(const struct service_figures *f, char *reason)
{
    char age[32];

    if (strncmp(f->service, "service:", 8) == 0) {
        snprintf(reason, SUGGEST_REASON_MAX + 1,
                 "stable (%.0f changes/h); XGW-H hands its packets to XGW-x86 wherever "
                 "its %llu entries are: stays",
                 suggest_changes_per_hour(f), (unsigned long long)f->entries);
    } else {
        snprintf(
            reason, SUGGEST_REASON_MAX + 1,
            "stable (%.0f changes/h), %s %s old; whether it is heavy is not known, "
            "for nobody has measured its traffic: stays",
            suggest_changes_per_hour(f), f->is_older ? "at least" : "mature,",
            span(f->age_ms, age));
    }
    return f->place;
}

enum policy_place suggest_judge(const struct service_figures *f,
                                char ret_reason[SUGGEST_REASON_MAX + 1])
{
    char watched[32];

    if (strcmp(f->service, "internet") == 0) {
        return judge_internet(f, ret_reason);
    }
    if (f->entries == 0) {
        snprintf(ret_reason, SUGGEST_REASON_MAX + 1, "no entries: stays");
        return f->place;
    }
    if (f->is_rest) {
        snprintf(ret_reason, SUGGEST_REASON_MAX + 1,
                 "%llu entries of services beyond the %d names that are counted one by "
                 "one: not judged",
                 (unsigned long long)f->entries, ACTIVITY_NAMES_MAX);
        return f->place;
    }
    if (f->window_ms < SUGGEST_WATCH_MS) {
        snprintf(ret_reason, SUGGEST_REASON_MAX + 1,
                 "watched for %s only; an update rate needs an hour: stays",
                 span(f->window_ms, watched));
        return f->place;
    }
    if (!is_stable(f) || (!f->is_older && f->age_ms < SUGGEST_MATURE_MS)) {
        return judge_restless(f, ret_reason);
    }
    return judge_settled(f, ret_reason);
}

/* ---- all of them ---- */

static void suggestion_free(struct suggestion *s)
{
    if (s) {
        free(s->services);
        free(s);
    }
}

static void add_service(struct core *c, const char *service,
                        const struct service_activity *a, bool is_rest)
{
    struct suggest_job *job = &c->suggest_job;
    struct service_advice *advice = &job->making->services[job->making->count++];
    struct service_figures *f = &advice->figures;

    snprintf(f->service, sizeof(f->service), "%s", service);
    f->is_rest = is_rest;
    f->place = policy_of_service(&c->objects.policy, service);
    f->entries = a->entries;
    f->changes = activity_changes(&c->activity, a, c->now_ms, &f->window_ms);
    f->age_ms = a->entries > 0 ? c->now_ms - a->first_ms : 0;
    f->is_older = a->is_older;
    f->has_changed = a->has_changed;
    f->quiet_ms = c->now_ms - (a->has_changed ? a->last_ms : c->activity.start_ms);
    advice->place = suggest_judge(f, advice->reason);
    if (advice->place != f->place &&
        policy_set(&job->policy, service, advice->place, NULL) != RC_OK) {
        advice->place = f->place;
        snprintf(advice->reason, sizeof(advice->reason),
                 "the policy holds %d rules and has no room for one more: stays",
                 POLICY_RULES_MAX);
    }
}

/* False: no memory. */
static bool begin(struct core *c)
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
    answer_all(c, &none);
}

bool suggest_has_work(const struct core *c)
{
    return c->phase == PHASE_SERVING && c->suggest_job.waits;
}

bool suggest_work(struct core *c)
{
    struct suggest_job *job = &c->suggest_job;
    struct err err = { 0 };
    uint64_t rows = 0;
    uint32_t vni;

    if (!suggest_has_work(c)) {
        return false;
    }
    if (job->next_vni == 0 && !begin(c)) {
        err_set(&err, RC_NO_MEMORY, "out of memory");
        answer_all(c, &err);
        return true;
    }
    for (vni = core_tenant_next(c, job->next_vni); vni && rows < SLICE_ROWS;
         vni = vni < VNI_MAX ? core_tenant_next(c, vni + 1) : 0) {
        struct homes homes = homes_of_vni(c, vni);

        rows += 8;
        if (homes.of[GROUP_H]) {
            rows += rows_count(committed_rows(c, vni, TABLE_VXLAN_ROUTE)) +
                    rows_count(committed_rows(c, vni, TABLE_VM_NC));
            resident_count(c, vni, homes.of[GROUP_H], &job->policy, &job->making->then);
        }
    }
    job->next_vni = vni;
    if (vni == 0) {
        finish(c);
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
    *w = (struct suggest_wait){ c->suggest_job.waits, cmd->token };
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
    suggestion_free(c->suggest_job.making);
    suggestion_free(c->suggest_job.last);
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
