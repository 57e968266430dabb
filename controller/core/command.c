/*
 * command: the queue of commands, from their check against the tip to their answer.
 *
 * Commands are checked, submitted and answered in the order they came.  One that needs
 * no transaction (refused, a repeat, nothing to change, dry run) still waits for those
 * before it, for it was judged on what they make of the region.
 *
 * When a transaction fails, the tip is taken back to before it.  It alone is answered
 * with the failure; those behind it fail in the store as well (record.h, Chain) and are
 * checked again once all answers are in.
 */
#include "controller/core/core_internal.h"

#define PROBE_RETRY_MS 1000

static void pending_free(struct pending *p)
{
    if (p->command.kind == COMMAND_ENTRIES) {
        blob_unref(p->command.entries.ops);
    }
    if (p->command.kind == COMMAND_PUT_REGION) {
        free((struct region *)p->command.region);
    }
    change_list_fini(&p->changes);
    object_change_fini(&p->object);
    free(p);
}

static void refuse(struct core *c, const struct command *cmd, enum rc rc,
                   const char *why)
{
    struct core_reply reply = { .token = cmd->token, .bad_index = UINT32_MAX };

    err_set(&reply.err, rc, "%s", why);
    effect_reply(c, &reply);
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
        blob_ref(cmd->entries.ops);
    } else if (cmd->kind == COMMAND_PUT_REGION) {
        struct region *copy = malloc(sizeof(*copy));

        if (!copy) {
            free(p);
            refuse(c, cmd, RC_NO_MEMORY, "out of memory");
            return;
        }
        *copy = *cmd->region;
        p->command.region = copy;
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
static void answer_head(struct core *c)
{
    struct queue *q = &c->queue;

    while (q->head && q->head->state == PENDING_DONE) {
        struct pending *p = q->head;

        if (p->reply.err.code == RC_OK && p->reply.revision == 0) {
            set_revision(c, p);
        }
        effect_reply(c, &p->reply);
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

    return c->phase == PHASE_SERVING && !q->is_draining &&
           q->flying < c->config.max_in_flight && q->tail &&
           q->tail->state == PENDING_WAITING;
}

/* ---- transactions ---- */

uint64_t tag_new(struct core *c, enum tag_kind kind)
{
    return ++c->next_tag << 2 | kind;
}

struct store_txn *txn_new(struct core *c, uint64_t tag)
{
    struct store_txn *txn = store_txn_new(tag);

    if (txn &&
        store_txn_compare(txn, STORE_MOD_REVISION, record_key_meta("term"), c->fence)) {
        store_txn_free(txn);
        return NULL;
    }
    return txn;
}

void txn_submit(struct core *c, struct store_txn *txn)
{
    struct core_effect *e = effect_add(c, CORE_TXN);

    e->txn = txn;
}

/* Puts what `value` gives and drops our reference; null: no memory. */
static enum rc put(struct store_txn *txn, struct store_key key, struct blob *value)
{
    enum rc rc = value ? store_txn_put(txn, key, value) : RC_NO_MEMORY;

    blob_unref(value);
    return rc;
}

static enum rc add_audit(struct core *c, struct store_txn *txn, const struct pending *p)
{
    const struct command *cmd = &p->command;
    struct audit a = { .unix_ms = c->unix_ms, .counts = p->reply.counts };
    static const char *const verbs[] = {
        [COMMAND_ENTRIES] = "entries",
        [COMMAND_PUT_REGION] = "put region",
        [COMMAND_PUT_CLUSTER] = "put cluster",
        [COMMAND_DELETE_CLUSTER] = "delete cluster",
        [COMMAND_PUT_NODE] = "put node",
        [COMMAND_DELETE_NODE] = "delete node",
    };

    memcpy(a.what, verbs[cmd->kind], strlen(verbs[cmd->kind]));
    memcpy(a.who, cmd->who, strnlen(cmd->who, sizeof(a.who) - 1));
    memcpy(a.request_id, cmd->request_id,
           strnlen(cmd->request_id, sizeof(a.request_id) - 1));
    if (cmd->kind != COMMAND_ENTRIES) {
        const char *name = object_change_name(&p->object);

        memcpy(a.name, name, strnlen(name, sizeof(a.name) - 1));
    } else if (command_is_import(cmd)) {
        a.import_next_line = cmd->entries.import_next_line;
    }
    return put(txn, record_key_seq('a', p->seq), record_pack_audit(&a));
}

static enum rc add_freed(struct core *c, struct store_txn *txn, const struct pending *p)
{
    struct buf freed = BUF_INIT;
    enum rc rc = RC_OK;

    for (uint32_t i = 0; c->config.vni_quarantine_ms && i < p->changes.count; i++) {
        if (p->changes.at[i].table == TABLE_TENANT && !p->changes.at[i].after) {
            if (freed.len == 0) {
                buf_u64(&freed, c->unix_ms);
            }
            buf_u24(&freed, p->changes.at[i].vni);
        }
    }
    if (buf_failed(&freed)) {
        rc = RC_NO_MEMORY;
    } else if (freed.len > 0) {
        rc = put(txn, record_key_seq('f', p->seq), blob_copy(freed.data, freed.len));
    }
    buf_fini(&freed);
    return rc;
}

static enum rc add_chain(struct core *c, struct store_txn *txn, uint64_t seq)
{
    enum rc rc =
        store_txn_compare(txn, STORE_CREATE_REVISION, record_key_ticket(seq), 0);

    (void)c;
    rc = rc ? rc : put(txn, record_key_ticket(seq), blob_copy("", 0));
    return rc ? rc : store_txn_delete(txn, record_key_ticket(seq + 1));
}

static enum rc add_results(struct core *c, struct store_txn *txn,
                           const struct pending *p)
{
    const struct command *cmd = &p->command;
    enum rc rc = results_expire(c, txn);

    if (!rc && cmd->request_id[0]) {
        struct result res = { c->unix_ms, p->reply.counts };

        rc = put(txn, record_key_result(cmd->request_id), record_pack_result(&res));
    }
    if (!rc && command_is_import(cmd)) {
        rc = put(txn, record_key_import(cmd->entries.import_digest),
                 record_pack_u64_pair(cmd->entries.import_next_line, c->unix_ms));
    }
    return rc;
}

static enum rc submit(struct core *c, struct pending *p, struct blob *object)
{
    struct store_txn *txn;
    struct blob *ops =
        p->command.kind == COMMAND_ENTRIES ? p->command.entries.ops : NULL;
    enum rc rc = RC_NO_MEMORY;

    p->seq = c->next_seq;
    p->tag = tag_new(c, TAG_COMMAND);
    txn = txn_new(c, p->tag);
    if (txn) {
        rc = add_chain(c, txn, p->seq);
        rc = rc ? rc
                : put(txn, record_key_seq('j', p->seq),
                      ops ? blob_ref(ops) : blob_copy("", 0));
        rc = rc ? rc : add_audit(c, txn, p);
        rc = rc ? rc : add_freed(c, txn, p);
        rc = rc ? rc : add_results(c, txn, p);
    }
    if (!rc && p->object.kind != COMMAND_ENTRIES) {
        struct store_key key = record_key_object(object_kind(p->object.kind),
                                                 object_change_name(&p->object));

        rc = object ? store_txn_put(txn, key, object) : store_txn_delete(txn, key);
    }
    if (rc) {
        store_txn_free(txn);
        return err_set(&p->reply.err, RC_NO_MEMORY, "out of memory");
    }
    txn_submit(c, txn);
    c->next_seq++;
    c->queue.flying++;
    c->queue.answers++;
    p->state = PENDING_FLYING;
    return RC_OK;
}

/* ---- checking ---- */

static void take_back(struct core *c, struct pending *p)
{
    tip_follow(c, &p->changes, true);
    table_set_undo(c->tip, &p->changes);
    change_list_fini(&p->changes);
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

static void evaluate_entries(struct core *c, struct pending *p)
{
    const struct command *cmd = &p->command;
    const struct rows_change *n = &p->reply.counts;

    if (check_import(c, p)) {
        return;
    }

    if (!p->is_checked && batch_check_static(cmd, &p->reply.bad_index, &p->reply.err)) {
        return;
    }
    p->is_checked = true;
    if (batch_evaluate(c, p)) {
        return;
    }
    if (cmd->dry_run) {
        take_back(c, p);
        return;
    }
    if (n->added + n->changed + n->deleted == 0 && !cmd->request_id[0] &&
        !command_is_import(cmd)) {
        return; /* nothing to store */
    }
    if (submit(c, p, NULL)) {
        take_back(c, p);
        return;
    }
    overlay_add(c, &p->changes, p->tag);
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
        submit(c, p, value);
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
    p = first_waiting(c);
    p->reply =
        (struct core_reply){ .token = p->command.token, .bad_index = UINT32_MAX };
    if (!is_repeat(c, p)) {
        if (p->command.kind == COMMAND_ENTRIES) {
            evaluate_entries(c, p);
        } else {
            evaluate_object(c, p);
        }
    }
    if (p->state == PENDING_WAITING) {
        p->state = PENDING_DONE;
    }
    answer_head(c);
    return true;
}

/* ---- the store's answers ---- */

static bool is_in_flight(const struct pending *p)
{
    return p->state == PENDING_FLYING || p->state == PENDING_UNKNOWN;
}

/* Undoes the entries of `p` and all behind it, last first. */
static void undo_entries(struct core *c, struct pending *p)
{
    if (!p) {
        return;
    }
    undo_entries(c, p->next);
    if (p->state == PENDING_COMMITTED) {
        return; /* only its answer is due */
    }
    if (is_in_flight(p)) {
        take_back(c, p);
        c->queue.flying--;
    }
    object_change_fini(&p->object);
    /* What is answered was judged on what is undone now. */
    p->state = PENDING_WAITING;
}

void queue_undo(struct core *c, struct pending *from)
{
    undo_entries(c, from);
    overlay_clear(c);
    objects_fini(&c->tip_objects);
    core_must(objects_copy(&c->objects, &c->tip_objects));
    for (struct pending *p = c->queue.head; p && p != from; p = p->next) {
        if (is_in_flight(p)) {
            overlay_add(c, &p->changes, p->tag);
            if (p->object.kind != COMMAND_ENTRIES) {
                core_must(
                    objects_apply(&c->tip_objects, &p->object, REVISION_IN_FLIGHT));
            }
        }
    }
}

static void finish(struct core *c, struct pending *p)
{
    p->state = PENDING_DONE;
    c->queue.flying--;
    answer_head(c);
}

void queue_event(struct core *c, const struct store_event *ev)
{
    struct pending *p = c->queue.head;
    bool is_answered;

    while (p && p->tag != ev->tag) {
        p = p->next;
    }
    if (!p || !is_in_flight(p)) {
        /* The chain lets nothing of ours take effect that was given up. */
        commit_foreign(c, ev);
        return;
    }
    is_answered = p->state == PENDING_UNKNOWN;
    p->state = PENDING_COMMITTED;
    p->reply.revision = ev->revision;
    c->committed_seq = p->seq;
    if (p->object.kind != COMMAND_ENTRIES) {
        commit_object(c, ev->revision, &p->object);
    }
    results_commit(c, &p->command, ev->revision, p->seq, &p->reply.counts, &p->changes);
    commit_changes(c, ev->revision, p->tag, &p->changes);
    if (p->command.kind == COMMAND_ENTRIES) {
        checkpoint_journal(c, p->command.entries.ops ? p->command.entries.ops->len : 0);
    }
    if (is_answered) {
        finish(c, p);
    }
}

static void send_probe(struct core *c, uint64_t seq)
{
    struct store_txn *txn;

    c->probe_tag = tag_new(c, TAG_PROBE);
    txn = core_need(txn_new(c, c->probe_tag));
    core_must(
        !store_txn_compare(txn, STORE_CREATE_REVISION, record_key_ticket(seq + 1), 0));
    core_must(!put(txn, record_key_meta("probe"), record_pack_u64(seq)));
    c->queue.probe_at_ms = 0;
    txn_submit(c, txn);
}

static struct pending *last_unknown(const struct core *c)
{
    struct pending *last = NULL;

    for (struct pending *p = c->queue.head; p; p = p->next) {
        if (p->state == PENDING_FLYING) {
            return NULL; /* its answer will tell */
        }
        last = p->state == PENDING_UNKNOWN ? p : last;
    }
    return last;
}

void queue_probe(struct core *c)
{
    struct pending *p = last_unknown(c);

    if (p && !c->probe_tag) {
        send_probe(c, p->seq);
    }
}

/* `p` took no effect; it is answered with `err`, and all behind it is checked again. */
static void fail_from(struct core *c, struct pending *p, enum rc rc, const char *why)
{
    queue_undo(c, p);
    c->next_seq = p->seq;
    c->probe_tag = 0; /* what it asks after is over */
    p->state = PENDING_DONE;
    p->reply =
        (struct core_reply){ .token = p->command.token, .bad_index = UINT32_MAX };
    err_set(&p->reply.err, rc, "%s", why);
    c->queue.is_draining = c->queue.answers > 0;
    answer_head(c);
}

/* The first of those whose fate is not known, up to `end`. */
static struct pending *first_unknown(const struct core *c, const struct pending *end)
{
    for (struct pending *p = c->queue.head; p && p != end; p = p->next) {
        if (p->state == PENDING_UNKNOWN) {
            return p;
        }
    }
    return NULL;
}

static void probe_done(struct core *c, const struct store_done *done)
{
    struct pending *p = first_unknown(c, NULL);

    c->probe_tag = 0;
    if (done->rc == RC_OK) {
        /* Events come in order and before answers, so there is nothing unknown. */
        return;
    }
    if (done->rc == RC_STALE && p) {
        fail_from(c, p, RC_UNREACHABLE, "the store did not take the change: try again");
        return;
    }
    c->queue.probe_at_ms = c->now_ms + PROBE_RETRY_MS;
}

static void command_done(struct core *c, struct pending *p,
                         const struct store_done *done)
{
    struct pending *unknown;

    if (p->state == PENDING_COMMITTED) {
        finish(c, p); /* its event came: the answer is no more news */
        return;
    }
    if (done->rc == RC_TIMEOUT) {
        p->state = PENDING_UNKNOWN;
        queue_probe(c);
        return;
    }
    if (done->rc != RC_STALE) {
        fail_from(c, p, done->rc ? done->rc : RC_BUG,
                  done->rc ? done->err.msg : "the store answered without an event");
        queue_probe(c);
        return;
    }
    unknown = first_unknown(c, p);
    if (unknown) {
        fail_from(c, unknown, RC_UNREACHABLE,
                  "the store did not take the change: try again");
        return;
    }
    core_depose(c, "another controller has taken over");
}

void queue_done(struct core *c, const struct store_done *done)
{
    struct pending *p = c->queue.head;

    if (tag_kind(done->tag) == TAG_PROBE) {
        if (done->tag == c->probe_tag) {
            probe_done(c, done);
        }
        return;
    }
    while (p && (p->tag != done->tag || p->state == PENDING_WAITING)) {
        p = p->next;
    }
    c->queue.answers--;
    if (p) {
        command_done(c, p, done);
    }
    if (c->queue.answers == 0) {
        c->queue.is_draining = false;
    }
}

void queue_fail_all(struct core *c, enum rc rc, const char *why)
{
    for (struct pending *p = c->queue.head; p; p = p->next) {
        if (p->state != PENDING_DONE && p->state != PENDING_COMMITTED) {
            p->reply = (struct core_reply){ .token = p->command.token,
                                            .bad_index = UINT32_MAX };
            err_set(&p->reply.err, rc, "%s", why);
        }
        p->state = PENDING_DONE;
    }
    answer_head(c);
}

void queue_fini(struct core *c)
{
    while (c->queue.head) {
        struct pending *next = c->queue.head->next;

        pending_free(c->queue.head);
        c->queue.head = next;
    }
}
