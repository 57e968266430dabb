/*
 * operations: long work, from its request to its end.
 *
 * A record in the store says which step is being waited for.  What this process alone
 * knows of a running one (since when, what it asked nodes) is its run, and is made
 * anew after a restart: steps are safe to wait for twice.
 *
 *   MOVE ─▶ record ─▶ run ─▶ facts ─▶ verdict ─▶ STEP (a command of our own) ─▶ record
 *
 * At most ACTIVE_MAX move at a time, the oldest first; others wait their turn.
 */
#include "controller/core/core_internal.h"

#include "proto/base/log.h"

#include <stdio.h>

#define ACTIVE_MAX    8
#define LOOK_AGAIN_MS 500  /* nodes say nothing when they merely stay away */
#define RETRY_MS      1000 /* after a step that the store did not take */

/* ---- records ---- */

static uint64_t operation_number(const struct operation *o)
{
    return strtoull(o->id + 3, NULL, 10);
}

bool command_is_operation(const struct command *cmd)
{
    return cmd->kind == COMMAND_MOVE || cmd->kind == COMMAND_CANCEL ||
           cmd->kind == COMMAND_STEP || cmd->kind == COMMAND_FORGET ||
           cmd->kind == COMMAND_PROCEED;
}

bool command_is_own(const struct command *cmd)
{
    return cmd->kind == COMMAND_STEP || cmd->kind == COMMAND_FORGET;
}

const struct operation *objects_move(const struct objects *o, uint32_t vni)
{
    struct map_slot *slot = map_find(&o->moves, vni);
    char id[OPERATION_ID_MAX + 1];

    if (!slot) {
        return NULL;
    }
    operation_name(slot->a, id);
    return objects_operation(o, id);
}

static bool home_names(const struct home *h, const char *cluster)
{
    return strcmp(h->x86, cluster) == 0 || strcmp(h->h, cluster) == 0;
}

bool objects_move_needs(const struct objects *o, const char *cluster)
{
    struct map_slot *slot;
    uint32_t at = 0;

    while ((slot = map_each(&o->moves, &at))) {
        const struct operation *op = objects_move(o, (uint32_t)slot->key);

        if (home_names(&op->move.from, cluster) || home_names(&op->move.to, cluster)) {
            return true;
        }
    }
    return false;
}

bool objects_note_operation(struct objects *o, const struct operation *op)
{
    struct map_slot *slot;

    if (op->state == OPERATION_RUNNING) {
        slot = map_add(&o->moves, op->move.vni);
        if (slot) {
            slot->a = operation_number(op);
        }
        return slot;
    }
    slot = map_find(&o->moves, op->move.vni);
    if (slot && slot->a == operation_number(op)) {
        map_remove(&o->moves, slot);
    }
    return true;
}

/* ---- what is asked for ---- */

static enum rc find_target(const struct core *c, const char *name, struct home *ret,
                           struct err *err)
{
    const struct cluster *k = objects_cluster(&c->tip_objects, name);

    if (!k) {
        return err_field(err, RC_INVALID, "cluster", "unknown_cluster",
                         "there is no cluster '%s'", name);
    }
    if (k->kind == CLUSTER_LB) {
        return err_field(err, RC_INVALID, "cluster", "cluster_kind",
                         "cluster %s: no tenant is at home on load balancers", name);
    }
    if (k->kind == CLUSTER_XGW_H) {
        memcpy(ret->h, k->name, sizeof(ret->h));
        memcpy(ret->x86, k->backing, sizeof(ret->x86));
    } else {
        memcpy(ret->x86, k->name, sizeof(ret->x86));
    }
    return RC_OK;
}

static enum rc check_move(const struct core *c, const struct operation *o,
                          struct err *err)
{
    uint32_t vni = o->move.vni;
    const struct operation *running = objects_move(&c->tip_objects, vni);

    if (running) {
        return err_field(err, RC_CONFLICT, "vni", "tenant_is_moving",
                         "vni %u: operation %s moves it already", vni, running->id);
    }
    if (home_equal(&o->move.from, &o->move.to)) {
        return err_field(err, RC_CONFLICT, "cluster", "already_home",
                         "vni %u is at home there already", vni);
    }
    if (!o->move.to.h[0] && (table_set_rows(c->tip, vni, TABLE_ACL) ||
                             table_set_rows(c->tip, vni, TABLE_METER))) {
        return err_field(err, RC_CONFLICT, "cluster", "xgw_h_needed",
                         "vni %u has rules or a meter, which hold on XGW-H only", vni);
    }
    if (o->move.drain_ms > MOVE_DRAIN_MS_MAX) {
        return err_field(err, RC_RANGE, "drain_ms", "range", "at most %d ms",
                         MOVE_DRAIN_MS_MAX);
    }
    if (c->tip_objects.moves.count >= OPERATIONS_OPEN_MAX) {
        return err_field(err, RC_FULL, "", "operations_open",
                         "%d operations are under way: wait for some of them",
                         OPERATIONS_OPEN_MAX);
    }
    return RC_OK;
}

static void home_of_row(const struct tenant_row *row, struct home *ret)
{
    memcpy(ret->x86, row->cluster, row->cluster_len);
    memcpy(ret->h, row->h_home, row->h_home_len);
    ret->half = row->half;
}

static enum rc begin_move(struct core *c, struct pending *p, struct operation *o)
{
    const struct command *cmd = &p->command;
    struct err *err = &p->reply.err;
    struct tenant_row row;
    enum rc rc;

    if (!tenant_row_of(table_set_rows(c->tip, cmd->move.vni, TABLE_TENANT), &row)) {
        return err_field(err, RC_NOT_FOUND, "vni", "unknown_tenant",
                         "vni %u is no tenant", cmd->move.vni);
    }
    operation_name(c->next_seq, o->id);
    o->kind = OPERATION_MOVE;
    o->state = OPERATION_RUNNING;
    o->step = MOVE_INSTALL;
    memcpy(o->who, cmd->who, sizeof(o->who));
    o->created_ms = c->unix_ms;
    o->move.vni = cmd->move.vni;
    o->move.drain_ms = cmd->move.drain_ms;
    o->move.ignores_steering = cmd->move.ignores_steering;
    home_of_row(&row, &o->move.from);
    rc = find_target(c, cmd->move.cluster, &o->move.to, err);
    rc = rc ? rc : check_move(c, o, err);
    rc = rc ? rc : room_take_move(c, p, &o->move);
    memcpy(p->reply.operation, o->id, sizeof(o->id));
    return rc;
}

/* Null: `err`. */
static const struct operation *find_running(const struct core *c, const char *id,
                                            struct err *err)
{
    const struct operation *have = objects_operation(&c->tip_objects, id);

    if (!have) {
        err_field(err, RC_NOT_FOUND, "id", "unknown_operation",
                  "there is no operation %s", id);
        return NULL;
    }
    if (have->state != OPERATION_RUNNING) {
        err_field(err, RC_CONFLICT, "id", "operation_is_over",
                  "operation %s is over: %s", id, operation_state_name(have->state));
        return NULL;
    }
    return have;
}

static enum rc cancel(const struct core *c, const char *id, struct operation *o,
                      struct err *err)
{
    const struct operation *have = find_running(c, id, err);

    if (!have) {
        return err->code;
    }
    if (!move_is_revocable(have)) {
        return err_field(err, RC_CONFLICT, "id", "irrevocable",
                         "operation %s is at step %s, which only goes forward: when it "
                         "is done, move the tenant back",
                         id, operation_step_name(have));
    }
    *o = *have;
    o->is_cancelled = true;
    return RC_OK;
}

static enum rc proceed(const struct core *c, const struct command *cmd,
                       struct operation *o, struct err *err)
{
    const struct operation *have = find_running(c, cmd->proceed.id, err);

    if (!have) {
        return err->code;
    }
    if (!cmd->proceed.why[0]) {
        return err_field(err, RC_INVALID, "reason", "required",
                         "reason: why it goes on without them");
    }
    if (have->step > MOVE_STEER || have->move.waived_by[0]) {
        return err_field(err, RC_CONFLICT, "id", "waits_for_no_consumer",
                         "operation %s waits for no consumer", have->id);
    }
    *o = *have;
    memcpy(o->move.waived_by, cmd->who[0] ? cmd->who : "unknown",
           cmd->who[0] ? sizeof(cmd->who) : sizeof("unknown"));
    memcpy(o->move.waived_why, cmd->proceed.why, sizeof(o->move.waived_why));
    return RC_OK;
}

/* ---- its steps ---- */

/* The tenant's row with its new homes. */
static struct blob *steer_ops(const struct core *c, const struct operation *o)
{
    struct rows *rows = table_set_rows(c->tip, o->move.vni, TABLE_TENANT);
    struct rows_iter it = rows_begin(rows, TABLE_TENANT);
    struct batch_writer w;
    struct entry e;
    struct row row;
    struct blob *ops;

    if (!rows || !rows_next(&it, &row) ||
        entry_unpack(TABLE_TENANT, o->move.vni, &row, &e, NULL)) {
        return NULL;
    }
    memcpy(e.tenant.cluster, o->move.to.x86, sizeof(e.tenant.cluster));
    memcpy(e.tenant.h_home, o->move.to.h, sizeof(e.tenant.h_home));
    e.tenant.half = o->move.to.half;
    batch_writer_init(&w);
    batch_add_entry(&w, ENTRY_PUT, &e);
    ops = batch_writer_finish(&w);
    batch_writer_fini(&w);
    return ops;
}

static enum rc next_step(struct core *c, struct pending *p, struct operation *o)
{
    const struct command *cmd = &p->command;
    const struct operation *have = objects_operation(&c->tip_objects, cmd->step.id);

    if (!have || have->state != OPERATION_RUNNING || have->step != cmd->step.from ||
        (have->is_cancelled && move_is_revocable(have) &&
         cmd->step.verdict == MOVE_GOES_ON)) {
        return err_set(&p->reply.err, RC_STALE, "the operation has gone on");
    }
    *o = *have;
    if (cmd->step.verdict == MOVE_GOES_BACK) {
        o->state = OPERATION_UNDONE;
        memcpy(o->text, cmd->step.text, sizeof(o->text));
        return RC_OK;
    }
    if (o->step == MOVE_STEPS) {
        o->state = OPERATION_DONE;
        return RC_OK;
    }
    o->step++;
    if (o->step == MOVE_STEER) {
        p->ops = steer_ops(c, o);
        return p->ops ? RC_OK
                      : err_set(&p->reply.err, RC_NOT_FOUND, "the tenant is gone");
    }
    return RC_OK;
}

static struct blob *operation_blob(const struct operation *o)
{
    struct buf packed = BUF_INIT;
    struct blob *blob = NULL;

    operation_pack(o, &packed);
    if (!buf_failed(&packed)) {
        blob = blob_copy(packed.data, packed.len);
    }
    buf_fini(&packed);
    return blob;
}

enum rc operation_evaluate(struct core *c, struct pending *p, struct object_change *ret,
                           struct blob **ret_value)
{
    const struct command *cmd = &p->command;
    struct operation *o = NULL;
    enum rc rc;

    blob_unref(p->ops); /* of the time before, if it is checked again */
    p->ops = NULL;
    ret->kind = cmd->kind;
    if (cmd->kind == COMMAND_FORGET) {
        memcpy(ret->name, cmd->name, sizeof(ret->name));
        return RC_OK;
    }
    o = calloc(1, sizeof(*o));
    if (!o) {
        ret->kind = COMMAND_ENTRIES;
        return err_set(&p->reply.err, RC_NO_MEMORY, "out of memory");
    }
    ret->operation = o;
    rc = cmd->kind == COMMAND_MOVE      ? begin_move(c, p, o)
         : cmd->kind == COMMAND_CANCEL  ? cancel(c, cmd->name, o, &p->reply.err)
         : cmd->kind == COMMAND_PROCEED ? proceed(c, cmd, o, &p->reply.err)
                                        : next_step(c, p, o);
    if (!rc) {
        o->changed_ms = c->unix_ms;
        *ret_value = operation_blob(o);
        rc = *ret_value ? RC_OK : err_set(&p->reply.err, RC_NO_MEMORY, "out of memory");
    }
    if (rc) {
        object_change_fini(ret);
    }
    return rc;
}

/* ---- runs ---- */

static struct run *run_find(const struct core *c, const char *id)
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
        free(r);
    }
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
    if (r->step != o->step) {
        run_clear_gate(r);
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

void operations_committed(struct core *c, const struct operation *o)
{
    if (o->state == OPERATION_RUNNING) {
        run_at_step(c, o);
    } else {
        run_remove(c, o->id);
    }
    effect_log(c, LOG_INFO, "operation",
               "id=%s kind=%s vni=%u state=%s step=%s cause=\"%s\"", o->id,
               operation_kind_name(o->kind), o->move.vni,
               operation_state_name(o->state), operation_step_name(o), o->text);
    operations_note(c);
}

void operations_answered(struct core *c, const struct command *cmd, enum rc rc)
{
    struct run *r = cmd->kind == COMMAND_STEP ? run_find(c, cmd->step.id) : NULL;

    if (r) {
        r->is_writing = false;
        r->retry_ms = rc && rc != RC_STALE ? c->now_ms + RETRY_MS : 0;
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
           (c->objects.moves.count > 0 || c->objects.operation_count > OPERATIONS_KEPT);
}

uint64_t operations_wake(const struct core *c)
{
    return c->phase == PHASE_SERVING && c->objects.moves.count > 0 ? c->operations_at_ms
                                                                   : UINT64_MAX;
}

void operations_tick(struct core *c)
{
    if (operations_wake(c) <= c->now_ms) {
        operations_note(c);
    }
}

static void submit_step(struct core *c, const struct operation *o, struct run *r,
                        enum move_verdict verdict, const char *why)
{
    struct command cmd = { .kind = COMMAND_STEP };

    memcpy(cmd.who, o->who, sizeof(cmd.who));
    memcpy(cmd.step.id, o->id, sizeof(cmd.step.id));
    cmd.step.from = o->step;
    cmd.step.verdict = verdict;
    if (verdict == MOVE_GOES_BACK) {
        memcpy(cmd.step.text, why, OPERATION_TEXT_MAX + 1);
    }
    r->is_writing = true;
    queue_add(c, &cmd);
}

static void go_on(struct core *c, const struct operation *o)
{
    struct run *r = run_at_step(c, o);
    char why[OPERATION_TEXT_MAX + 1] = "";
    char what[OPERATION_TEXT_MAX + 1];
    struct move_facts facts;
    enum move_verdict verdict;

    if (r->is_writing || r->retry_ms > c->now_ms) {
        return;
    }
    move_facts_of(c, o, r, &facts, why);
    verdict = move_next(o, &facts, what);
    memcpy(r->waits, what, sizeof(r->waits));
    if (verdict != MOVE_STAYS) {
        submit_step(c, o, r, verdict, what);
    }
}

/* One that is over, the oldest. */
static void forget_one(struct core *c)
{
    struct command cmd = { .kind = COMMAND_FORGET, .who = "controller" };

    if (c->is_forgetting ||
        c->objects.operation_count - c->objects.moves.count <= OPERATIONS_KEPT) {
        return;
    }
    for (uint32_t i = 0; i < c->objects.operation_count; i++) {
        if (c->objects.operations[i].state != OPERATION_RUNNING) {
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
    for (uint32_t i = 0; i < c->objects.operation_count && active < ACTIVE_MAX; i++) {
        if (c->objects.operations[i].state == OPERATION_RUNNING) {
            active++;
            go_on(c, &c->objects.operations[i]);
        }
    }
    forget_one(c);
    return true;
}

/* ---- reads ---- */

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
