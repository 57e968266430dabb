/*
 * operations: long work, from its request to its end.
 *
 * A record in the store says which step is being waited for.  What this process alone
 * knows of a running one (since when, what it asked nodes) is its run, and is made
 * anew after a restart: steps are safe to wait for twice.
 *
 *   MOVE ─▶ record ─▶ run ─▶ facts ─▶ verdict ─▶ STEP (a command of our own) ─▶ record
 *
 * Here: records, and what is asked for.  operation_runs.c: how they go on.
 */
#include "controller/core/core_internal.h"

/* ---- records ---- */

bool command_is_operation(const struct command *cmd)
{
    switch (cmd->kind) {
    case COMMAND_MOVE:
    case COMMAND_BUILD:
    case COMMAND_DRAIN:
    case COMMAND_RETIRE:
    case COMMAND_CANCEL:
    case COMMAND_STEP:
    case COMMAND_FORGET:
    case COMMAND_PROCEED:
        return true;
    default:
        return false;
    }
}

bool command_is_own(const struct command *cmd)
{
    return cmd->kind == COMMAND_STEP || cmd->kind == COMMAND_FORGET || cmd->parent;
}

const struct operation *objects_work(const struct objects *o, const char *cluster)
{
    for (uint32_t i = 0; i < o->operation_count; i++) {
        const struct operation *op = &o->operations[i];

        if (op->state == OPERATION_RUNNING && op->kind != OPERATION_MOVE &&
            strcmp(operation_cluster(op), cluster) == 0) {
            return op;
        }
    }
    return NULL;
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

bool objects_note_operation(struct objects *o, const struct operation *was,
                            const struct operation *op)
{
    struct map_slot *slot;

    o->running_count += op->state == OPERATION_RUNNING;
    o->running_count -= was && was->state == OPERATION_RUNNING;
    if (op->kind != OPERATION_MOVE) {
        return true;
    }
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

/* The cluster takes tenants: it serves, or it is being built, by `parent`. */
static enum rc check_takes(const struct core *c, const struct cluster *k,
                           uint64_t parent, struct err *err)
{
    const struct operation *work = objects_work(&c->tip_objects, k->name);

    if (k->state == CLUSTER_SERVING ||
        (work && work->kind == OPERATION_BUILD && operation_number(work) == parent)) {
        return RC_OK;
    }
    return err_field(err, RC_CONFLICT, "cluster", "cluster_not_serving",
                     "cluster %s is %s and takes no new tenants", k->name,
                     cluster_state_name(k->state));
}

static enum rc find_target(const struct core *c, const char *name, uint64_t parent,
                           struct home *ret, struct err *err)
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
    return check_takes(c, k, parent, err);
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
    if (c->tip_objects.running_count >= OPERATIONS_OPEN_MAX) {
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

void operation_begin(struct core *c, struct pending *p, enum operation_kind kind,
                     struct operation *o)
{
    operation_name(c->next_seq, o->id);
    o->kind = (uint8_t)kind;
    o->state = OPERATION_RUNNING;
    o->step = 1;
    memcpy(o->who, p->command.who, sizeof(o->who));
    o->created_ms = c->unix_ms;
    memcpy(p->reply.operation, o->id, sizeof(o->id));
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
    operation_begin(c, p, OPERATION_MOVE, o);
    o->parent = cmd->parent;
    o->move.is_held = cmd->move.is_held;
    o->move.vni = cmd->move.vni;
    o->move.drain_ms = cmd->move.drain_ms;
    o->move.ignores_steering = cmd->move.ignores_steering;
    home_of_row(&row, &o->move.from);
    rc = find_target(c, cmd->move.cluster, cmd->parent, &o->move.to, err);
    rc = rc ? rc : check_move(c, o, err);
    return rc ? rc : room_take_move(c, p, &o->move);
}

static void take_copy(const struct operation *from, struct operation *ret)
{
    *ret = *from;
    operation_hold(ret);
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
    if (!operation_is_revocable(have)) {
        return err_field(err, RC_CONFLICT, "id", "irrevocable",
                         "operation %s is at step %s, which only goes forward%s", id,
                         operation_step_name(have),
                         have->kind == OPERATION_MOVE
                             ? ": when it is done, move the tenant back"
                             : "");
    }
    take_copy(have, o);
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
    if (have->kind != OPERATION_MOVE || have->step > MOVE_STEER ||
        have->move.waived_by[0]) {
        return err_field(err, RC_CONFLICT, "id", "waits_for_no_consumer",
                         "operation %s waits for no consumer", have->id);
    }
    take_copy(have, o);
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
        (have->kind == OPERATION_BUILD && have->build.stage != cmd->step.stage) ||
        (have->is_cancelled && operation_is_revocable(have) &&
         cmd->step.verdict == VERDICT_GOES_ON)) {
        return err_set(&p->reply.err, RC_STALE, "the operation has gone on");
    }
    take_copy(have, o);
    operation_advance(o, cmd->step.verdict, cmd->step.text);
    if (o->kind == OPERATION_BUILD && o->step == BUILD_ADMIT && !o->build.cut[0]) {
        return build_find_cuts(c, &o->build, &p->reply.err);
    }
    if (o->kind == OPERATION_MOVE && o->state == OPERATION_RUNNING &&
        o->step == MOVE_STEER) {
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
    switch (cmd->kind) {
    case COMMAND_MOVE:
        rc = begin_move(c, p, o);
        break;
    case COMMAND_CANCEL:
        rc = cancel(c, cmd->name, o, &p->reply.err);
        break;
    case COMMAND_PROCEED:
        rc = proceed(c, cmd, o, &p->reply.err);
        break;
    case COMMAND_STEP:
        rc = next_step(c, p, o);
        break;
    default:
        rc = work_begin(c, p, o);
        break;
    }
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
