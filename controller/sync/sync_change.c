#include "controller/sync/sync_impl.h"

#include <stdlib.h>

#define SORT_ROWS 8192u /* looked at in one call; some milliseconds at most */

static void pop_raw(struct sync *s)
{
    struct raw_change *c = s->raw;

    s->raw = c->next;
    if (!s->raw) {
        s->raw_end = &s->raw;
    }
    blob_unref(c->ops);
    free(c);
}

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
    while (s->raw) {
        pop_raw(s);
    }
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

enum rc changes_add(struct sync *s, uint64_t revision, struct blob *ops)
{
    struct raw_change *c;

    if (s->work_count == 0 && !s->raw && ops->len <= BATCH_MAX_BYTES) {
        enum rc rc = queue_change(s, revision, blob_ref(ops)); /* shared by sessions */

        return !rc && s->change_bytes > SYNC_BACKLOG_BYTES ? RC_FULL : rc;
    }
    c = calloc(1, sizeof(*c));
    if (!c) {
        return RC_NO_MEMORY;
    }
    c->revision = revision;
    c->ops = blob_ref(ops);
    c->reader = batch_reader_of(ops->data, ops->len);
    *s->raw_end = c;
    s->raw_end = &c->next;
    return RC_OK;
}

/* Enters the next run that is not left to the walk as a whole; false: the end. */
static bool next_run(struct sync *s, struct raw_change *c, uint32_t *rows)
{
    while (*rows > 0 && batch_next(&c->reader, &c->run)) {
        uint64_t lo = position(c->run.table, c->run.vni, 0);
        uint64_t hi = lo | UINT32_MAX;
        const struct work *any = walk_find(s, lo, hi);

        --*rows;
        if (any && any->lo <= lo && any->hi >= hi && is_left(any, c->run.op)) {
            continue;
        }
        c->rows = run_reader_of(&c->run);
        c->in_run = true;
        return true;
    }
    return false;
}

/* Copies the next row if it has to be forwarded. */
static void copy_row(struct sync *s, const struct raw_change *c, const struct row *row,
                     struct batch_writer *w)
{
    const struct batch_run *run = &c->run;
    uint64_t at = position(run->table, run->vni, 0);

    if (s->work_count > 0) {
        at |= row_key_hash(row) >> 32;
    }
    if (s->work_count == 0 || !is_left(walk_find(s, at, at), run->op)) {
        batch_add_row(w, (enum batch_op)run->op, (enum table_id)run->table, run->vni,
                      row);
    }
}

enum rc changes_sort(struct sync *s)
{
    struct raw_change *c = s->raw;
    uint32_t rows = SORT_ROWS;
    struct batch_writer w;
    struct row row;
    bool is_over;
    enum rc rc = RC_OK;

    batch_writer_init(&w);
    while (rows > 0 && batch_writer_bytes(&w) < BATCH_SEND_BYTES &&
           (c->in_run || next_run(s, c, &rows))) {
        if (run_next(&c->rows, &row)) {
            copy_row(s, c, &row, &w);
            rows--;
        } else {
            c->in_run = false;
        }
    }
    is_over = rows > 0 && batch_writer_bytes(&w) < BATCH_SEND_BYTES;
    if (batch_writer_bytes(&w) > 0) {
        rc = queue_change(s, is_over ? c->revision : 0, batch_writer_finish(&w));
    } else if (is_over && c->revision && s->work_count == 0) {
        s->must_end = true; /* the last piece went without the revision */
    }
    batch_writer_fini(&w);
    if (is_over) {
        pop_raw(s);
    }
    return !rc && s->change_bytes > SYNC_BACKLOG_BYTES ? RC_FULL : rc;
}
