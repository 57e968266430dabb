/*
 * operation_runs: how operations go on, from facts to their next step.
 *
 * At most OPERATIONS_ACTIVE_MAX moves are under way at a time, the oldest first; others
 * wait their turn.  Those that are held wait for their parent and take nobody's turn.
 */
#include "controller/core/core_internal.h"

#include "proto/base/log.h"

#define LOOK_AGAIN_MS 500  /* nodes say nothing when they merely stay away */
#define RETRY_MS      1000 /* after a step that the store did not take */

/* ---- runs ---- */

struct run *run_find(const struct core *c, const char *id)
{
    struct run *r = c->runs;

    while (r && strcmp(r->id, id) != 0) {
        r = r->next;
    }
    return r;
}

static void run_remove(struct core *c, const char *id)
{
    struct run **at = &c->runs;

    while (*at && strcmp((*at)->id, id) != 0) {
        at = &(*at)->next;
    }
    if (*at) {
        struct run *r = *at;

        *at = r->next;
        run_clear_gate(r);
        brood_free(r->brood);
        free(r);
    }
}

static uint8_t stage_of(const struct operation *o)
{
    return o->kind == OPERATION_BUILD ? o->build.stage : 0;
}

/* The run of an operation that is at this step now. */
static struct run *run_at_step(struct core *c, const struct operation *o)
{
    struct run *r = run_find(c, o->id);

    if (!r) {
        r = core_need(calloc(1, sizeof(*r)));
        memcpy(r->id, o->id, sizeof(r->id));
        r->next = c->runs;
        c->runs = r;
    }
    if (r->step != o->step || r->stage != stage_of(o)) {
        run_clear_gate(r);
        brood_next_step(r->brood);
        r->stage = stage_of(o);
        r->step = o->step;
        r->began_ms = c->now_ms;
        r->since_revision = c->revision;
        r->steered_at = VNI_MIN;
        r->waits[0] = '\0';
    }
    return r;
}

void operations_fini(struct core *c)
{
    while (c->runs) {
        run_remove(c, c->runs->id);
    }
}

static void log_step(struct core *c, const struct operation *o)
{
    if (o->kind == OPERATION_MOVE) {
        effect_log(c, LOG_INFO, "operation",
                   "id=%s kind=move vni=%u state=%s step=%s cause=\"%s\"", o->id,
                   o->move.vni, operation_state_name(o->state), operation_step_name(o),
                   o->text);
        return;
    }
    effect_log(c, LOG_INFO, "operation",
               "id=%s kind=%s cluster=%s state=%s step=%s stage=%u cause=\"%s\"", o->id,
               operation_kind_name(o->kind), operation_cluster(o),
               operation_state_name(o->state), operation_step_name(o), stage_of(o),
               o->text);
}

void operations_committed(struct core *c, const struct operation *o)
{
    if (o->state == OPERATION_RUNNING) {
        run_at_step(c, o);
    } else {
        run_remove(c, o->id);
    }
    log_step(c, o);
    if (o->parent && o->state == OPERATION_UNDONE) {
        brood_move_undone(c, o);
    }
    operations_note(c);
}

void operations_answered(struct core *c, const struct command *cmd,
                         const struct err *err)
{
    struct run *r = cmd->kind == COMMAND_STEP ? run_find(c, cmd->step.id) : NULL;

    if (r) {
        r->is_writing = false;
        r->retry_ms = err->code && err->code != RC_STALE ? c->now_ms + RETRY_MS : 0;
    }
    if (cmd->parent) {
        brood_answered(c, cmd, err);
    }
    c->is_forgetting = c->is_forgetting && cmd->kind != COMMAND_FORGET;
    operations_note(c);
}

/* ---- going on ---- */

void operations_note(struct core *c)
{
    c->operations_are_idle = false;
}

bool operations_have_work(const struct core *c)
{
    return c->phase == PHASE_SERVING && !c->operations_are_idle &&
           (c->objects.running_count > 0 ||
            c->objects.operation_count > OPERATIONS_KEPT);
}

uint64_t operations_wake(const struct core *c)
{
    return c->phase == PHASE_SERVING && c->objects.running_count > 0
               ? c->operations_at_ms
               : UINT64_MAX;
}

void operations_tick(struct core *c)
{
    if (operations_wake(c) <= c->now_ms) {
        operations_note(c);
    }
}

void operations_look_at(struct core *c, uint64_t at_ms)
{
    c->operations_at_ms = at_ms < c->operations_at_ms ? at_ms : c->operations_at_ms;
}

bool operation_submit_step(struct core *c, const struct operation *o, enum verdict v,
                           const char *why)
{
    struct run *r = run_at_step(c, o);
    struct command cmd = { .kind = COMMAND_STEP };

    if (r->is_writing || r->retry_ms > c->now_ms) {
        return false;
    }
    memcpy(cmd.who, o->who, sizeof(cmd.who));
    memcpy(cmd.step.id, o->id, sizeof(cmd.step.id));
    cmd.step.from = o->step;
    cmd.step.stage = stage_of(o);
    cmd.step.verdict = v;
    if (v == VERDICT_GOES_BACK) {
        memcpy(cmd.step.text, why, OPERATION_TEXT_MAX + 1);
    }
    r->is_writing = true;
    queue_add(c, &cmd);
    return true;
}

static enum verdict look(struct core *c, const struct operation *o, struct run *r,
                         char what[OPERATION_TEXT_MAX + 1])
{
    char why[OPERATION_TEXT_MAX + 1] = "";
    struct move_facts facts;

    if (o->kind != OPERATION_MOVE) {
        return work_next(c, o, r, what);
    }
    move_facts_of(c, o, r, &facts, why);
    return move_next(o, &facts, what);
}

static void go_on(struct core *c, const struct operation *o)
{
    struct run *r = run_at_step(c, o);
    char what[OPERATION_TEXT_MAX + 1];
    enum verdict verdict;

    if (r->is_writing || r->retry_ms > c->now_ms) {
        return;
    }
    verdict = look(c, o, r, what);
    memcpy(r->waits, what, sizeof(r->waits));
    if (verdict != VERDICT_STAYS) {
        operation_submit_step(c, o, verdict, what);
    }
}

/* What a running operation may still want to know of its moves stays. */
static bool may_forget(const struct core *c, const struct operation *o)
{
    char parent[OPERATION_ID_MAX + 1];
    const struct operation *p;

    if (o->state == OPERATION_RUNNING || !o->parent || o->state == OPERATION_UNDONE) {
        return o->state != OPERATION_RUNNING;
    }
    operation_name(o->parent, parent);
    p = objects_operation(&c->objects, parent);
    return !p || p->state != OPERATION_RUNNING;
}

/* One that is over, the oldest. */
static void forget_one(struct core *c)
{
    struct command cmd = { .kind = COMMAND_FORGET, .who = "controller" };

    if (c->is_forgetting ||
        c->objects.operation_count - c->objects.running_count <= OPERATIONS_KEPT) {
        return;
    }
    for (uint32_t i = 0; i < c->objects.operation_count; i++) {
        if (may_forget(c, &c->objects.operations[i])) {
            memcpy(cmd.name, c->objects.operations[i].id, OPERATION_ID_MAX + 1);
            c->is_forgetting = true;
            queue_add(c, &cmd);
            return;
        }
    }
}

bool operations_work(struct core *c)
{
    uint32_t active = 0;

    if (!operations_have_work(c)) {
        return false;
    }
    c->operations_are_idle = true;
    c->operations_at_ms = c->now_ms + LOOK_AGAIN_MS;
    for (uint32_t i = 0; i < c->objects.operation_count; i++) {
        const struct operation *o = &c->objects.operations[i];
        bool is_held = o->kind == OPERATION_MOVE && o->step == MOVE_HELD;

        if (o->state != OPERATION_RUNNING) {
            continue;
        }
        if (o->kind != OPERATION_MOVE || is_held) {
            go_on(c, o);
        } else if (active < OPERATIONS_ACTIVE_MAX) {
            active++;
            go_on(c, o);
        }
    }
    forget_one(c);
    return true;
}

/* ---- reads ---- */

uint32_t core_operation_count(const struct core *c)
{
    return c->objects.operation_count;
}

const struct operation *core_operation_at(const struct core *c, uint32_t index)
{
    return index < c->objects.operation_count ? &c->objects.operations[index] : NULL;
}

const struct operation *core_operation_find(const struct core *c, const char *id)
{
    return objects_operation(&c->objects, id);
}

const char *core_operation_waits(const struct core *c, const char *id)
{
    const struct run *r = run_find(c, id);

    return r ? r->waits : "";
}

bool core_operation_work(const struct core *c, const char *id,
                         struct core_work_status *ret)
{
    const struct operation *o = objects_operation(&c->objects, id);
    const struct run *r = run_find(c, id);

    return o && o->state == OPERATION_RUNNING && r && r->brood &&
           brood_status(r->brood, o->kind, ret);
}

const struct operation *core_cluster_work(const struct core *c, const char *cluster)
{
    return objects_work(&c->objects, cluster);
}
