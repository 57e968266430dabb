#include "controller/sync/sync_impl.h"

#include <stdlib.h>

void changes_fini(struct sync *s)
{
    while (s->changes) {
        struct change *c = s->changes;

        s->changes = c->next;
        blob_unref(c->ops);
        free(c);
    }
    s->changes_end = &s->changes;
    s->change_bytes = 0;
}

/* Takes `ops`. */
static enum rc queue_change(struct sync *s, uint64_t revision, struct blob *ops)
{
    struct change *c = calloc(1, sizeof(*c));

    if (!c || !ops) {
        free(c);
        blob_unref(ops);
        return RC_NO_MEMORY;
    }
    c->revision = revision;
    c->ops = ops;
    *s->changes_end = c;
    s->changes_end = &c->next;
    s->change_bytes += ops->len;
    return RC_OK;
}

/* Whether a row's change is left to the walk. */
static bool is_left(const struct work *w, uint8_t op)
{
    /* Where the device is empty a delete is passed on: a put of the same key may have
     * been, before it was known to be empty. */
    return w && (w->kind != WORK_PUT || op != BATCH_DELETE);
}

/* Moves a full writer's bytes to the queue. */
static enum rc flush(struct sync *s, struct batch_writer *w, size_t at_least)
{
    if (batch_writer_bytes(w) < at_least) {
        return RC_OK;
    }
    return queue_change(s, 0, batch_writer_finish(w));
}

/* Copies what has to be forwarded of one run. */
static enum rc copy_run(struct sync *s, const struct batch_run *run,
                        struct batch_writer *w)
{
    uint64_t lo = position(run->table, run->vni, 0);
    uint64_t hi = lo | UINT32_MAX;
    const struct work *any = walk_find(s, lo, hi);
    struct run_reader it = run_reader_of(run);
    struct row row;
    enum rc rc = RC_OK;

    if (any && any->lo <= lo && any->hi >= hi && is_left(any, run->op)) {
        return RC_OK;
    }
    while (rc == RC_OK && run_next(&it, &row)) {
        uint64_t at = any ? lo | row_key_hash(&row) >> 32 : 0;

        if (any && is_left(walk_find(s, at, at), run->op)) {
            continue;
        }
        batch_add_row(w, (enum batch_op)run->op, (enum table_id)run->table, run->vni,
                      &row);
        rc = flush(s, w, BATCH_SEND_BYTES);
    }
    return rc;
}

enum rc changes_add(struct sync *s, uint64_t revision, struct blob *ops)
{
    struct batch_reader r = batch_reader_of(ops->data, ops->len);
    struct batch_writer w;
    struct batch_run run;
    enum rc rc = RC_OK;

    if (s->work_count == 0 && ops->len <= BATCH_MAX_BYTES) {
        return queue_change(s, revision, blob_ref(ops)); /* shared by all sessions */
    }
    batch_writer_init(&w);
    while (rc == RC_OK && batch_next(&r, &run)) {
        rc = copy_run(s, &run, &w);
    }
    if (rc == RC_OK && batch_writer_bytes(&w) > 0) {
        rc = queue_change(s, revision, batch_writer_finish(&w));
    } else if (rc == RC_OK && s->work_count == 0) {
        s->must_end = true; /* the last piece went without the revision */
    }
    batch_writer_fini(&w);
    return rc;
}
