/*
 * answer: the store's events and answers, and what they make of the queue.
 *
 * When a transaction fails, the tip is taken back to before it, in slices, the last
 * change first.  It alone is answered with the failure; those behind it fail in the
 * store as well (record.h, Chain) and are checked again once all answers are in.
 */
#include "controller/core/core_internal.h"

#define PROBE_RETRY_MS 1000

static bool is_in_flight(const struct pending *p)
{
    return p->state == PENDING_FLYING || p->state == PENDING_UNKNOWN;
}

/* The entries of `from` and all behind it are to be taken out of the tip. */
static void undo_entries(struct core *c, struct pending *from)
{
    for (struct pending *p = from; p; p = p->next) {
        if (p->state == PENDING_COMMITTED) {
            continue; /* only its answer is due */
        }
        place_release(c, &p->placed);
        check_at_fini(&p->at);
        if (is_in_flight(p) || p->stage >= CHECK_BEFORE) {
            p->must_undo = true;
            c->queue.undo_count++;
            c->queue.flying -= is_in_flight(p);
        }
        object_change_fini(&p->object);
        blob_unref(p->object_value);
        p->object_value = NULL;
        /* What is answered was judged on what is undone now. */
        p->state = PENDING_WAITING;
        p->stage = CHECK_NOT;
    }
}

void queue_undo(struct core *c, struct pending *from)
{
    undo_entries(c, from);
    objects_fini(&c->tip_objects);
    core_must(objects_copy(&c->objects, &c->tip_objects));
    for (struct pending *p = c->queue.head; p && p != from; p = p->next) {
        if (is_in_flight(p) && p->object.kind != COMMAND_ENTRIES) {
            core_must(objects_apply(&c->tip_objects, &p->object, REVISION_IN_FLIGHT));
        }
    }
}

static void finish(struct core *c, struct pending *p)
{
    p->state = PENDING_DONE;
    c->queue.flying--;
    queue_answer(c);
}

static bool is_same_object(const struct object_change *a, const struct object_change *b)
{
    return a->kind != COMMAND_ENTRIES && b->kind != COMMAND_ENTRIES &&
           strcmp(object_kind(a->kind), object_kind(b->kind)) == 0 &&
           strcmp(object_change_name(a), object_change_name(b)) == 0;
}

/* The tip has the object as in flight; now it has a revision that callers can know,
 * unless one behind changes it again. */
static void settle_object(struct core *c, const struct pending *p, uint64_t revision)
{
    for (const struct pending *q = p->next; q; q = q->next) {
        if (is_in_flight(q) && is_same_object(&p->object, &q->object)) {
            return;
        }
    }
    core_must(objects_apply(&c->tip_objects, &p->object, revision));
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
        settle_object(c, p, ev->revision);
    }
    results_commit(c, &p->command, ev->revision, p->seq, &p->reply.counts, &p->changes);
    commit_changes(c, ev->revision, true, &p->changes, &p->placed);
    if (c->job.kind == JOB_COMMIT &&
        (is_answered || p->object.kind != COMMAND_ENTRIES)) {
        commit_show(c); /* together with its object, and before its answer */
    }
    if (p->command.kind == COMMAND_ENTRIES || p->ops) {
        checkpoint_journal(c, p->ops ? p->ops->len : 0);
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
    core_must(!txn_put(txn, record_key_meta("probe"), record_pack_u64(seq)));
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
    queue_answer(c);
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
        p->must_undo = false; /* the tip is of no more use */
    }
    c->queue.undo_count = 0;
    queue_answer(c);
}
