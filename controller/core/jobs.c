/*
 * jobs: what a store event makes of indices and groups, in slices.
 *
 * A commit's job first moves the view that readers see (commit.c); then the indices of
 * peers, MACs and activity follow, then every group's desired set, tenant by tenant.
 * Events and answers of the store that come meanwhile wait in order, so all that a job
 * stands on stays as it is, and a group's set is always that of a revision plus what of
 * the next one was told to its sessions already.
 *
 * Order.  Of one VNI the VM-NC entries first, for its routes may wait for them.  Groups
 * that gain a tenant before those that lose it, x86 before XGW-H, which relies on it;
 * and those that peer to it, and load balancers, in between.
 *
 * A new policy concerns all tenants with an XGW-H home: they are projected again, one
 * job each.  Until then a group misses what it should hold (waits.c, reads.c).
 */
#include "controller/core/core_internal.h"

enum phase { PHASE_VMS, PHASE_ROWS, PHASE_SOURCES, PHASE_GONE, PHASE_OVER };

/* ---- sessions ---- */

/* What was done to desired sets in this step and not told yet. */
static void tell_so_far(struct core *c)
{
    struct projecting *p = &c->job.now;

    for (uint32_t i = 0; i < c->group_count; i++) {
        struct group *g = c->groups[i];
        struct blob *ops;
        struct err err;

        if (batch_writer_bytes(&g->writer) == 0) {
            continue;
        }
        ops = core_need(batch_writer_finish(&g->writer));
        if (p->is_moving && p->group == g) { /* its set has what came before */
            core_must(
                !table_set_apply(g->desired, ops->data, ops->len, NULL, NULL, &err));
        }
        sessions_change(c, g, 0, ops);
        blob_unref(ops);
    }
}

static void tell_group(struct core *c, struct group *g, uint64_t revision)
{
    struct blob *ops = NULL;

    g->revision = revision;
    if (g->session_count > 0) {
        ops = core_need(batch_writer_finish(&g->writer));
        sessions_change(c, g, revision, ops);
        blob_unref(ops);
    }
    batch_writer_reset(&g->writer);
    g->is_touched = false;
    g->has_gained = false;
}

/* Groups that gained a tenant hear of it before those that lost it, and of them x86
 * before XGW-H; load balancers, who lead to it, come with the last. */
static void tell_groups(struct core *c, uint64_t revision)
{
    for (unsigned turn = 0; turn < GROUP_KINDS + 1; turn++) {
        for (uint32_t i = 0; i < c->group_count; i++) {
            struct group *g = c->groups[i];

            if (g->is_touched &&
                (turn == GROUP_KINDS || (g->has_gained && g->kind == turn))) {
                tell_group(c, g, revision);
            }
        }
    }
    for (uint32_t i = 0; i < c->group_count; i++) {
        c->groups[i]->has_gained = false;
    }
}

void jobs_tell(struct core *c)
{
    tell_groups(c, c->revision);
}

/* ---- indices ---- */

/* One slice of what one change means to peers, MACs, activity and reservations; true:
 * all of it. */
static bool index_change(struct core *c, const struct table_change *ch)
{
    const enum table_id table = (enum table_id)ch->table;
    struct peer_update peers;
    struct peer_update tip_peers;
    struct job *j = &c->job;
    struct row b;
    struct row a;

    units_spend(&c->units, 2);
    if (table == TABLE_TENANT) {
        demand_tenant(c, ch->vni, ch->after);
    }
    if (table != TABLE_VXLAN_ROUTE && table != TABLE_VM_NC) {
        return true;
    }
    if (!j->is_comparing) {
        rows_compare_begin(&j->compare, ch->before, ch->after, table);
        j->is_comparing = true;
        j->mac_change = 0;
    }
    peer_update_begin(&peers, &c->peers, ch->vni);
    peer_update_begin(&tip_peers, &c->tip_peers, ch->vni);
    while (rows_compare_next(&j->compare, &c->units, &b, &a)) {
        const struct row *before = b.key ? &b : NULL;
        const struct row *after = a.key ? &a : NULL;

        activity_note(&c->activity, c->now_ms, table, before, after);
        if (table == TABLE_VXLAN_ROUTE) {
            peer_update_row(&peers, before, after, &c->units);
            if (!j->is_own) {
                peer_update_row(&tip_peers, before, after, &c->units);
            }
        } else {
            j->mac_change += resident_mac_change(before, after);
        }
    }
    peer_update_end(&peers);
    peer_update_end(&tip_peers);
    if (!j->compare.is_over) {
        return false;
    }
    j->is_comparing = false;
    resident_note_macs(c, ch->vni, j->mac_change);
    return true;
}

static bool index_changes(struct core *c)
{
    struct job *j = &c->job;

    for (; j->indexed < j->changes.count; j->indexed++) {
        if (c->units == 0 || !index_change(c, &j->changes.at[j->indexed])) {
            return false;
        }
    }
    return true;
}

/* ---- what is to be projected next ---- */

static bool begin(struct core *c, struct projecting task)
{
    c->job.now = task;
    projecting_begin(c, &c->job.now);
    return true;
}

/* Each group in its turn; false: that was the last. */
static bool next_group(struct job *j, const struct holders *holders, struct group **ret)
{
    if (j->held_at >= holders->count) {
        return false;
    }
    *ret = holders->at[j->held_at++];
    return true;
}

/* The tenant is looked at in a group that it came to if `was` had it not. */
static void note_gain(struct group *g, const struct holders *was)
{
    g->has_gained = g->has_gained || !holders_have(was, g);
}

/* The next group that `now` has and `was` has not. */
static bool next_other(struct job *j, const struct holders *now,
                       const struct holders *was, struct group **ret)
{
    while (next_group(j, now, ret)) {
        if (!holders_have(was, *ret)) {
            return true;
        }
    }
    return false;
}

static bool rows_task(struct core *c, const struct table_change *ch)
{
    struct holders holders = holders_of_vni(c, ch->vni);
    struct projecting task = { .vni = ch->vni, .mask = 1u << ch->table, .change = ch };

    if (!next_group(&c->job, &holders, &task.group)) {
        return false;
    }
    if (task.group->kind == GROUP_H) {
        /* From scratch where the present rows are by other rules. */
        bool turned = ch->table == TABLE_VM_NC && resident_v6_turned(c, ch->vni);
        bool anew =
            turned || (c->policy_job.next_vni && ch->vni >= c->policy_job.next_vni);

        task.mask |= ch->table == TABLE_ACL ? 1u << TABLE_VNI : 0; /* its flag */
        task.mask |= anew ? 1u << TABLE_VXLAN_ROUTE | 1u << TABLE_VM_NC : 0;
        task.change = anew ? NULL : ch;
    }
    return begin(c, task);
}

static bool tenant_task(struct core *c, const struct table_change *ch)
{
    struct holders was = holders_of(c, ch->vni, ch->before);
    struct holders now = holders_of_vni(c, ch->vni);
    struct projecting task = { .vni = ch->vni, .mask = UINT32_MAX };

    if (!next_group(&c->job, &now, &task.group)) {
        return false;
    }
    note_gain(task.group, &was);
    return begin(c, task);
}

/* The routes of all that peer to `vni`. */
static bool source_task(struct core *c, uint32_t vni)
{
    const struct sources *s = peer_index_sources(&c->peers, vni);
    struct job *j = &c->job;
    uint32_t from;

    while ((from = sources_next(s, j->source))) {
        struct projecting task = { .vni = from, .mask = 1u << TABLE_VXLAN_ROUTE };
        struct holders holders = holders_of_vni(c, from);

        j->source = from;
        if (next_group(j, &holders, &task.group)) {
            return begin(c, task);
        }
        j->source++;
        j->held_at = 0;
    }
    return false;
}

static bool has_moved(const struct core *c, const struct table_change *ch)
{
    struct homes before = homes_of_tenant(c, ch->before);
    struct homes now = homes_of_tenant(c, ch->after);

    return memcmp(&before, &now, sizeof(before)) != 0;
}

/* Those that lead to a tenant which changed its homes. */
static bool leads_task(struct core *c, const struct table_change *ch)
{
    if (!has_moved(c, ch)) {
        return false;
    }
    if (source_task(c, ch->vni)) {
        return true;
    }
    steering_note_tenant(c, ch->vni);
    return false;
}

static bool gone_task(struct core *c, const struct table_change *ch)
{
    struct holders was = holders_of(c, ch->vni, ch->before);
    struct holders now = holders_of_vni(c, ch->vni);
    struct projecting task = { .vni = ch->vni, .mask = UINT32_MAX, .is_gone = true };

    if (next_other(&c->job, &was, &now, &task.group)) {
        return begin(c, task);
    }
    if (!ch->after) {
        resident_forget(c, ch->vni);
    }
    return false;
}

/* What the present phase has to do about a change; false: nothing more. */
static bool change_task(struct core *c, const struct table_change *ch)
{
    bool is_tenant = ch->table == TABLE_TENANT;

    switch ((enum phase)c->job.phase) {
    case PHASE_VMS:
        return ch->table == TABLE_VM_NC && rows_task(c, ch);
    case PHASE_ROWS:
        return is_tenant ? tenant_task(c, ch)
                         : ch->table != TABLE_VM_NC && rows_task(c, ch);
    case PHASE_SOURCES:
        return is_tenant && leads_task(c, ch);
    default:
        return is_tenant && gone_task(c, ch);
    }
}

/* Begins the next task, or stops for want of units; false: there is none. */
static bool next_of_commit(struct core *c)
{
    struct job *j = &c->job;

    for (; j->phase < PHASE_OVER; j->phase++, j->at = 0) {
        for (; j->at < j->changes.count; j->at++) {
            if (c->units == 0 || change_task(c, &j->changes.at[j->at])) {
                return true;
            }
            j->held_at = 0;
            j->source = 0;
            units_spend(&c->units, 1);
        }
    }
    return false;
}

static bool next_of_cluster(struct core *c)
{
    struct job *j = &c->job;
    uint32_t behind = j->at;
    struct map_slot *slot;

    while ((slot = map_each(&c->peers.in, &behind))) {
        struct homes homes = homes_of_vni(c, (uint32_t)slot->key);

        if (c->units == 0 || (homes_steering(&homes) == j->cluster &&
                              source_task(c, (uint32_t)slot->key))) {
            return true;
        }
        j->at = behind;
        j->held_at = 0;
        j->source = 0;
        units_spend(&c->units, 4);
    }
    return false;
}

/* The tenant's row is what it was: only where it comes to or goes from is looked at. */
static bool next_of_move(struct core *c)
{
    struct job *j = &c->job;
    struct holders now = holders_of_vni(c, j->vni);
    struct projecting task = { .vni = j->vni, .mask = UINT32_MAX };

    if (j->phase == PHASE_ROWS) {
        if (next_other(j, &now, &j->was, &task.group)) {
            note_gain(task.group, &j->was);
            return begin(c, task);
        }
        j->phase = PHASE_GONE;
        j->held_at = 0;
    }
    task.is_gone = true;
    return next_other(j, &j->was, &now, &task.group) && begin(c, task);
}

/* By the policy: of XGW-H, where it is or goes. */
static bool next_of_tenant(struct core *c)
{
    struct job *j = &c->job;
    struct holders holders = holders_of_vni(c, j->vni);
    struct projecting task = { .vni = j->vni,
                               .mask = 1u << TABLE_VM_NC | 1u << TABLE_VXLAN_ROUTE };

    while (next_group(j, &holders, &task.group)) {
        if (task.group->kind == GROUP_H) {
            return begin(c, task);
        }
    }
    return false;
}

static bool next_task(struct core *c)
{
    switch (c->job.kind) {
    case JOB_COMMIT:
        return next_of_commit(c);
    case JOB_CLUSTER:
        return next_of_cluster(c);
    case JOB_MOVE:
        return next_of_move(c);
    default:
        return next_of_tenant(c);
    }
}

/* ---- jobs ---- */

static void job_fini(struct job *j)
{
    projecting_fini(&j->now);
    change_list_fini(&j->changes);
    free(j->placed.at);
    *j = (struct job){ 0 };
}

static bool job_project(struct core *c)
{
    struct job *j = &c->job;

    while (c->units > 0) {
        if (!j->now.is_running && !next_task(c)) {
            return true;
        }
        if (j->now.is_running && c->units > 0) {
            projecting_work(c, &j->now);
        }
    }
    return false;
}

/* Lets go of the changes; true: of all. */
static bool job_let_go(struct core *c)
{
    struct change_list *l = &c->job.changes;

    while (l->count > 0 && c->units > 0) {
        change_list_cut(l, l->count < 256 ? l->count : 256);
        units_spend(&c->units, 1024);
    }
    return l->count == 0;
}

static void job_slice(struct core *c)
{
    struct job *j = &c->job;

    if (!j->is_told) {
        if (!commit_prepare(c) || !commit_clean(c) || !index_changes(c) ||
            !job_project(c)) {
            tell_so_far(c);
            return;
        }
        if (j->kind == JOB_TENANT) {
            c->policy_job.next_vni = j->vni < VNI_MAX ? j->vni + 1 : 0;
        }
        place_release(c, &j->placed);
        tell_groups(c, j->revision);
        operations_note(c);
        j->is_told = true;
    }
    if (job_let_go(c)) {
        job_fini(j);
    }
}

/* Several records in one event: each needs those before it. */
static void job_finish(struct core *c)
{
    uint32_t units = c->units;

    while (c->job.kind != JOB_NONE) {
        c->units = UINT32_MAX;
        job_slice(c);
    }
    c->units = units;
}

static void job_begin(struct core *c, struct job job)
{
    job_finish(c);
    c->job = job;
    job_slice(c);
}

void jobs_commit(struct core *c, uint64_t revision, bool is_own,
                 struct change_list *changes, struct placed_list *placed)
{
    struct job job = { .kind = JOB_COMMIT, .revision = revision, .is_own = is_own };

    job.changes = *changes;
    *changes = (struct change_list){ 0 };
    if (placed) {
        job.placed = *placed;
        *placed = (struct placed_list){ 0 };
    }
    job_begin(c, job);
}

void jobs_cluster(struct core *c, uint64_t revision, struct group *g)
{
    job_begin(c,
              (struct job){ .kind = JOB_CLUSTER, .revision = revision, .cluster = g });
}

void jobs_move(struct core *c, uint64_t revision, const struct operation *before,
               const struct operation *after)
{
    struct rows *tenant = committed_rows(c, after->move.vni, TABLE_TENANT);
    struct job job = { .kind = JOB_MOVE, .revision = revision, .phase = PHASE_ROWS };

    if (!tenant || (before->state == OPERATION_RUNNING && before->step < MOVE_STEER &&
                    after->state == OPERATION_RUNNING &&
                    (after->step == MOVE_HELD || after->step == MOVE_STEER))) {
        return; /* holders stay the same; MOVE_STEER: the tenant's change comes with it
                 */
    }
    job.vni = after->move.vni;
    job.was = holders_beside(c, tenant, move_also(before));
    job_begin(c, job);
}

/* ---- a new policy ---- */

void jobs_policy(struct core *c, uint64_t revision)
{
    c->policy_job.next_vni = VNI_MIN;
    c->policy_job.revision = revision;
}

/* The next tenants by the new policy; false: there is none to look at. */
static bool policy_work(struct core *c)
{
    if (c->phase != PHASE_SERVING || !c->policy_job.next_vni) {
        return false;
    }
    while (c->units > 0 && c->policy_job.next_vni && c->job.kind == JOB_NONE) {
        uint32_t vni = core_tenant_next(c, c->policy_job.next_vni);

        units_spend(&c->units, 8);
        c->policy_job.next_vni = vni;
        if (vni) {
            job_begin(c, (struct job){
                             .kind = JOB_TENANT, .revision = c->revision, .vni = vni });
        }
    }
    return true;
}

/* ---- who waits ---- */

bool jobs_must_wait(const struct core *c)
{
    return c->job.kind != JOB_NONE || c->deferred;
}

void jobs_defer(struct core *c, const struct core_in *in)
{
    struct deferred *d = core_need(calloc(1, sizeof(*d)));

    if (in->kind == CORE_STORE_EVENT) {
        d->is_event = true;
        d->event = *in->event;
        d->kvs = core_need(calloc(in->event->kv_count + 1, sizeof(*d->kvs)));
        for (uint32_t i = 0; i < in->event->kv_count; i++) {
            d->kvs[i] = in->event->kvs[i];
            if (d->kvs[i].value) {
                blob_ref(d->kvs[i].value);
            }
        }
        d->event.kvs = d->kvs;
    } else {
        d->done = *in->done;
    }
    if (!c->deferred) {
        c->deferred_tail = &c->deferred;
    }
    *c->deferred_tail = d;
    c->deferred_tail = &d->next;
}

static void deferred_free(struct deferred *d)
{
    for (uint32_t i = 0; d->is_event && i < d->event.kv_count; i++) {
        blob_unref(d->kvs[i].value);
    }
    free(d->kvs);
    free(d);
}

static void take_deferred(struct core *c)
{
    struct deferred *d = c->deferred;

    c->deferred = d->next;
    if (d->is_event) {
        core_store_event(c, &d->event);
    } else {
        core_store_done(c, &d->done);
    }
    deferred_free(d);
}

bool jobs_have_work(const struct core *c)
{
    return (c->phase == PHASE_STARTING || c->phase == PHASE_SERVING) &&
           (jobs_must_wait(c) || (c->phase == PHASE_SERVING && c->policy_job.next_vni));
}

bool jobs_work(struct core *c)
{
    if (!jobs_have_work(c)) {
        return false;
    }
    if (c->job.kind != JOB_NONE) {
        job_slice(c);
        return true;
    }
    if (c->deferred) {
        take_deferred(c);
        return true;
    }
    return policy_work(c);
}

bool jobs_are_behind(const struct core *c, const struct group *g, uint64_t revision)
{
    if (c->job.kind != JOB_NONE && c->job.kind != JOB_TENANT && !c->job.is_told &&
        c->job.revision <= revision) {
        return true;
    }
    return steering_is_behind(c, g) || (g->kind == GROUP_H && c->policy_job.next_vni &&
                                        c->policy_job.revision <= revision);
}

void jobs_fini(struct core *c)
{
    job_fini(&c->job);
    while (c->deferred) {
        struct deferred *next = c->deferred->next;

        deferred_free(c->deferred);
        c->deferred = next;
    }
}

/* ---- the start ---- */

void jobs_project_all(struct core *c)
{
    const uint32_t tenants = 1u << TABLE_TENANT;
    uint32_t vni = table_set_next(c->tip, VNI_MIN, tenants);

    while (vni) {
        struct holders holders = holders_of_vni(c, vni);

        for (unsigned i = 0; i < holders.count; i++) {
            c->units = UINT32_MAX;
            begin(c, (struct projecting){
                         .group = holders.at[i], .vni = vni, .mask = UINT32_MAX });
            core_must(projecting_work(c, &c->job.now));
        }
        steering_note_tenant(c, vni);
        vni = vni < VNI_MAX ? table_set_next(c->tip, vni + 1, tenants) : 0;
    }
    for (uint32_t i = 0; i < c->group_count; i++) {
        c->groups[i]->revision = c->revision;
        c->groups[i]->is_touched = false;
        c->groups[i]->has_gained = false;
    }
}
