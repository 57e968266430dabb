/*
 * command: the queue of commands, from their check against the tip to their answer.
 *
 * Commands are checked, submitted and answered in the order they came.  One that needs
 * no transaction (refused, a repeat, nothing to change, dry run) still waits for those
 * before it, for it was judged on what they make of the region.
 */
#include "controller/core/core_internal.h"

static void pending_free(struct pending *p)
{
    blob_unref(p->ops);
    blob_unref(p->asked);
    if (p->command.kind == COMMAND_PUT_REGION) {
        free((struct region *)p->command.region);
    } else if (p->command.kind == COMMAND_PUT_POLICY) {
        free((struct policy *)p->command.policy);
    } else if (p->command.kind == COMMAND_BUILD) {
        blob_unref(p->command.build.vnis);
    }
    change_list_fini(&p->changes);
    object_change_fini(&p->object);
    blob_unref(p->object_value);
    free(p->placed.at);
    check_at_fini(&p->at);
    free(p);
}

static void refuse(struct core *c, const struct command *cmd, enum rc rc,
                   const char *why)
{
    struct core_reply reply = { .token = cmd->token, .bad_index = UINT32_MAX };

    err_set(&reply.err, rc, "%s", why);
    if (command_is_own(cmd)) {
        operations_answered(c, cmd, &reply.err);
    } else {
        effect_reply(c, &reply);
    }
}

void queue_add(struct core *c, const struct command *cmd)
{
    struct pending *p;

    if (c->phase == PHASE_FAILED || c->phase == PHASE_DEPOSED) {
        refuse(c, cmd, RC_UNREACHABLE, c->failure.msg);
        return;
    }
    p = calloc(1, sizeof(*p));
    if (!p) {
        refuse(c, cmd, RC_NO_MEMORY, "out of memory");
        return;
    }
    p->command = *cmd;
    p->object.kind = COMMAND_ENTRIES;
    if (cmd->kind == COMMAND_ENTRIES) {
        p->ops = blob_ref(cmd->entries.ops);
    } else if (cmd->kind == COMMAND_BUILD) {
        blob_ref(cmd->build.vnis);
    } else if (cmd->kind == COMMAND_PUT_REGION) {
        struct region *copy = malloc(sizeof(*copy));

        if (!copy) {
            free(p);
            refuse(c, cmd, RC_NO_MEMORY, "out of memory");
            return;
        }
        *copy = *cmd->region;
        p->command.region = copy;
    } else if (cmd->kind == COMMAND_PUT_POLICY) {
        struct policy *copy = malloc(sizeof(*copy));

        if (!copy) {
            free(p);
            refuse(c, cmd, RC_NO_MEMORY, "out of memory");
            return;
        }
        *copy = *cmd->policy;
        p->command.policy = copy;
    }
    if (c->queue.tail) {
        c->queue.tail->next = p;
    } else {
        c->queue.head = p;
    }
    c->queue.tail = p;
}

/* The revision of an answer without a transaction: the state it describes, or the
 * first result's that came in just before. */
static void set_revision(struct core *c, struct pending *p)
{
    const struct request *r = p->reply.repeated && p->command.request_id[0]
                                  ? results_request(&c->results, p->command.request_id)
                                  : NULL;

    p->reply.revision = r ? r->revision : c->revision;
}

/* Answers what is finished at the head. */
void queue_answer(struct core *c)
{
    struct queue *q = &c->queue;

    while (q->head && q->head->state == PENDING_DONE && !q->head->must_undo) {
        struct pending *p = q->head;

        if (p->reply.err.code == RC_OK && p->reply.revision == 0) {
            set_revision(c, p);
        }
        if (command_is_own(&p->command)) {
            operations_answered(c, &p->command, &p->reply.err);
        } else {
            effect_reply(c, &p->reply);
        }
        q->head = p->next;
        if (!q->head) {
            q->tail = NULL;
        }
        pending_free(p);
    }
}

static struct pending *first_waiting(const struct core *c)
{
    struct pending *p = c->queue.head;

    while (p && p->state != PENDING_WAITING) {
        p = p->next;
    }
    return p;
}

bool queue_has_work(const struct core *c)
{
    const struct queue *q = &c->queue;

    return c->phase == PHASE_SERVING &&
           (q->undo_count > 0 ||
            (!q->is_draining && q->flying < c->config.max_in_flight && q->tail &&
             q->tail->state == PENDING_WAITING));
}

/* ---- checking ---- */

static void undo_slice(struct core *c)
{
    while (c->queue.undo_count > 0 && c->units > 0) {
        struct pending *last = NULL;

        for (struct pending *p = c->queue.head; p; p = p->next) {
            last = p->must_undo ? p : last;
        }
        if (tip_take_back(c, last)) {
            check_at_fini(&last->at);
            last->must_undo = false;
            c->queue.undo_count--;
        }
    }
    if (c->queue.undo_count == 0) {
        queue_answer(c);
    }
}

void queue_undo_all(struct core *c)
{
    queue_undo(c, c->queue.head);
    while (c->queue.undo_count > 0) {
        c->units = UINT32_MAX;
        undo_slice(c);
    }
}

/* The command before `p` that is in flight with the same request id or a later line of
 * the same import. */
static const struct pending *find_twin(const struct core *c, const struct pending *p)
{
    const struct command *cmd = &p->command;

    for (const struct pending *q = c->queue.head; q && q != p; q = q->next) {
        const struct command *other = &q->command;
        bool flies = q->state != PENDING_DONE && q->state != PENDING_WAITING;

        if (flies && cmd->request_id[0] &&
            strcmp(cmd->request_id, other->request_id) == 0) {
            return q;
        }
        if (flies && command_is_import(cmd) && command_is_import(other) &&
            !memcmp(cmd->entries.import_digest, other->entries.import_digest, 16) &&
            cmd->entries.import_next_line <= other->entries.import_next_line) {
            return q;
        }
    }
    return NULL;
}

static bool is_repeat(struct core *c, struct pending *p)
{
    const struct command *cmd = &p->command;
    const struct request *r =
        cmd->request_id[0] ? results_request(&c->results, cmd->request_id) : NULL;
    const struct pending *twin;

    if (cmd->dry_run) {
        return false;
    }
    if (r) {
        p->reply.revision = r->revision;
        p->reply.counts = r->counts;
    } else if (command_is_import(cmd) &&
               cmd->entries.import_next_line <=
                   results_import(&c->results, cmd->entries.import_digest)) {
        p->reply.revision = c->revision;
    } else {
        twin = find_twin(c, p);
        if (!twin) {
            return false;
        }
        /* Answered behind the twin, with the revision of that moment. */
        p->reply.counts = twin->reply.counts;
    }
    p->reply.repeated = true;
    return true;
}

/* The line that the import of `p` is to go on with: behind what is stored and what is
 * in flight. */
static uint64_t import_expects(const struct core *c, const struct pending *p)
{
    const uint8_t *digest = p->command.entries.import_digest;
    uint64_t line = results_import(&c->results, digest);

    for (const struct pending *q = c->queue.head; q && q != p; q = q->next) {
        const struct command *other = &q->command;

        if (q->state != PENDING_DONE && q->state != PENDING_WAITING &&
            command_is_import(other) &&
            !memcmp(digest, other->entries.import_digest, 16)) {
            line = other->entries.import_next_line;
        }
    }
    return line ? line : 1;
}

static enum rc check_import(const struct core *c, struct pending *p)
{
    const struct command *cmd = &p->command;
    uint64_t expected;

    if (!command_is_import(cmd)) {
        return RC_OK;
    }
    expected = import_expects(c, p);
    if (cmd->entries.import_first_line == expected) {
        return RC_OK;
    }
    return err_field(&p->reply.err, RC_CONFLICT, "first_line", "import_gap",
                     "the import goes on with line %llu, not %llu",
                     (unsigned long long)expected,
                     (unsigned long long)cmd->entries.import_first_line);
}

/* What the checked rows come to, or the operation that they belong to; true: all is
 * done, false: they are to be taken out again. */
static bool conclude(struct core *c, struct pending *p)
{
    const struct command *cmd = &p->command;
    const struct rows_change *n = &p->reply.counts;

    if (p->reply.err.code) {
        return false;
    }
    if (cmd->kind == COMMAND_ENTRIES && n->added + n->changed + n->deleted == 0 &&
        !cmd->request_id[0] && !command_is_import(cmd)) {
        place_release(c, &p->placed);
        return true; /* nothing to store */
    }
    if (cmd->dry_run) {
        return false;
    }
    if (cmd->kind == COMMAND_ENTRIES) {
        return !pending_submit(c, p, NULL);
    }
    core_must(objects_apply(&c->tip_objects, &p->object, REVISION_IN_FLIGHT));
    if (pending_submit(c, p, p->object_value)) {
        queue_undo(c, p); /* makes the tip's objects anew */
    }
    return true;
}

/* What needs no look at rows. */
static void check_command(struct core *c, struct pending *p)
{
    const struct command *cmd = &p->command;

    if (cmd->kind != COMMAND_ENTRIES) {
        operation_evaluate(c, p, &p->object, &p->object_value);
    } else if (!check_import(c, p)) {
        units_spend(&c->units, cmd->entries.ops ? cmd->entries.ops->len / 8 : 0);
        batch_check_static(cmd, &p->reply.bad_index, &p->reply.err);
    }
}

/* One slice of the present stage; true: the next one is due, or `p->reply.err`. */
static bool check_stage(struct core *c, struct pending *p)
{
    switch (p->stage) {
    case CHECK_NOT:
        if (p->command.kind == COMMAND_MOVE && c->job.placed.count > 0) {
            return false; /* as in place_batch.c */
        }
        check_command(c, p);
        return true;
    case CHECK_STATIC:
        return place_batch(c, p);
    case CHECK_PLACED:
        batch_check_before(c, p);
        return true;
    case CHECK_BEFORE:
        return tip_apply(c, p);
    case CHECK_APPLIED:
        return tip_drop(c, p);
    case CHECK_DROPPED:
        return peers_follow(&c->tip_peers, &p->changes, false, &p->at.peers, &c->units);
    default:
        return batch_check_state(c, p);
    }
}

static void end_check(struct pending *p)
{
    p->stage = CHECK_NOT;
    check_at_fini(&p->at);
    blob_unref(p->object_value);
    p->object_value = NULL;
}

/* From stage to stage, as far as the step's units go; false: to be continued.  The tip
 * is ahead in between, and the overlay has what was before, as if it were in flight. */
static bool evaluate_rows(struct core *c, struct pending *p)
{
    while (c->units > 0 && p->stage != CHECK_BACK) {
        if (!check_stage(c, p)) {
            return false;
        }
        if (p->stage < CHECK_FOLLOWED && !p->reply.err.code) {
            p->stage++;
        } else if (p->stage >= CHECK_PLACED && conclude(c, p)) {
            end_check(p);
            return true;
        } else {
            p->stage = CHECK_BACK;
        }
        check_at_fini(&p->at);
    }
    if (p->stage == CHECK_BACK && c->units > 0 && tip_take_back(c, p)) {
        object_change_fini(&p->object);
        end_check(p);
        return true;
    }
    return false;
}

static void evaluate_object(struct core *c, struct pending *p)
{
    struct object_change ch = { .kind = COMMAND_ENTRIES };
    struct blob *value = NULL;
    bool same = false;

    if (object_evaluate(c, &p->command, &ch, &value, &same, &p->reply.err)) {
        blob_unref(value);
        return;
    }
    p->reply.counts.unchanged = same;
    p->reply.counts.changed = !same;
    if ((same && !p->command.request_id[0]) || p->command.dry_run) {
        object_change_fini(&ch);
        blob_unref(value);
        return;
    }
    p->object = ch;
    if (!objects_apply(&c->tip_objects, &ch, REVISION_IN_FLIGHT)) {
        err_set(&p->reply.err, RC_NO_MEMORY, "out of memory");
    } else {
        pending_submit(c, p, value);
    }
    if (p->reply.err.code) {
        object_change_fini(&p->object);
        queue_undo(c, p); /* makes the tip's objects anew */
    }
    blob_unref(value);
}

bool queue_work(struct core *c)
{
    struct pending *p;

    if (!queue_has_work(c)) {
        return false;
    }
    if (c->queue.undo_count > 0) {
        undo_slice(c);
        return true;
    }
    p = first_waiting(c);
    if (p->stage == CHECK_NOT) {
        p->reply =
            (struct core_reply){ .token = p->command.token, .bad_index = UINT32_MAX };
    }
    if (p->stage != CHECK_NOT || !is_repeat(c, p)) {
        if (p->command.kind != COMMAND_ENTRIES && !command_is_operation(&p->command)) {
            evaluate_object(c, p);
        } else if (!evaluate_rows(c, p)) {
            return true;
        }
    }
    if (p->state == PENDING_WAITING) {
        p->state = PENDING_DONE;
    }
    queue_answer(c);
    return true;
}

void queue_fini(struct core *c)
{
    while (c->queue.head) {
        struct pending *next = c->queue.head->next;

        pending_free(c->queue.head);
        c->queue.head = next;
    }
}
