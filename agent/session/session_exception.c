#include "agent/session/session_impl.h"

#include <stdlib.h>
#include <string.h>

enum rc exceptions_init(struct session *s)
{
    for (int i = 0; i < EXCEPTION_SETS; i++) {
        s->exceptions[i] = table_set_new();
        if (!s->exceptions[i]) {
            return RC_NO_MEMORY;
        }
    }
    return RC_OK;
}

void exceptions_fini(struct session *s)
{
    for (int i = 0; i < EXCEPTION_SETS; i++) {
        table_set_free(s->exceptions[i]);
        s->exceptions[i] = NULL;
    }
    free(s->new_exceptions);
    s->new_exceptions = NULL;
    s->new_exception_count = 0;
}

enum rc exceptions_clear(struct session *s)
{
    s->new_exception_count = 0;
    if (exceptions_count(s) == 0) {
        return RC_OK;
    }
    exceptions_fini(s);
    return exceptions_init(s);
}

static uint64_t set_count(const struct table_set *set)
{
    uint64_t n = 0;

    for (int t = 0; t < TABLE_COUNT; t++) {
        n += table_set_count(set, (enum table_id)t);
    }
    return n;
}

uint32_t exceptions_count(const struct session *s)
{
    uint64_t n = 0;

    for (int i = 0; i < EXCEPTION_SETS; i++) {
        n += set_count(s->exceptions[i]);
    }
    for (const struct flight *f = s->flights; f; f = f->next) {
        n += f->is_done ? 0 : f->retry_rows;
    }
    return n < UINT32_MAX ? (uint32_t)n : UINT32_MAX;
}

bool exceptions_can_retry(const struct session *s)
{
    return set_count(s->exceptions[MISSING]) + set_count(s->exceptions[EXTRA]) > 0;
}

/* Puts or deletes (null value) one row. */
static enum rc set_row(struct table_set *set, enum table_id table, uint32_t vni,
                       const struct row *row)
{
    struct rows_step step = { *row };
    struct rows *old = table_set_rows(set, vni, table);
    struct rows *now;
    enum rc rc = rows_edit(old, table, vni, &step, 1, &now, NULL);

    if (rc == RC_OK) {
        rc = table_set_put(set, vni, table, now);
        if (rc != RC_OK) {
            rows_unref(now);
        }
    }
    return rc;
}

/* Removes the key from all three. */
static enum rc forget_row(struct session *s, enum table_id table, uint32_t vni,
                          const struct row *key)
{
    struct row gone = { .key = key->key, .key_len = key->key_len };
    enum rc rc = RC_OK;

    for (int i = 0; rc == RC_OK && i < EXCEPTION_SETS; i++) {
        if (table_set_rows(s->exceptions[i], vni, table)) {
            rc = set_row(s->exceptions[i], table, vni, &gone);
        }
    }
    return rc;
}

static enum rc supersede_run(struct session *s, const struct batch_run *run)
{
    enum table_id table = (enum table_id)run->table;
    struct run_reader it = run_reader_of(run);
    struct row row;
    enum rc rc = RC_OK;
    bool has_any = false;

    for (int i = 0; i < EXCEPTION_SETS; i++) {
        has_any |= table_set_rows(s->exceptions[i], run->vni, table) != NULL;
    }
    if (!has_any) {
        return RC_OK;
    }
    if (run->op == BATCH_REPLACE) {
        struct batch_writer w;
        struct blob *empty;

        batch_writer_init(&w);
        batch_add_rows(&w, BATCH_REPLACE, table, run->vni, &run->bucket, NULL, 0, 0);
        empty = batch_writer_finish(&w);
        batch_writer_fini(&w);
        rc = empty ? RC_OK : RC_NO_MEMORY;
        for (int i = 0; rc == RC_OK && i < EXCEPTION_SETS; i++) {
            rc = table_set_apply(s->exceptions[i], empty->data, empty->len, NULL, NULL,
                                 NULL);
        }
        blob_unref(empty);
        return rc;
    }
    while (rc == RC_OK && run_next(&it, &row)) {
        rc = forget_row(s, table, run->vni, &row);
    }
    return rc;
}

enum rc exceptions_supersede(struct session *s, const struct blob *ops)
{
    struct batch_reader r;
    struct batch_run run;
    enum rc rc = RC_OK;

    if (!ops || exceptions_count(s) == 0) {
        return RC_OK;
    }
    r = batch_reader_of(ops->data, ops->len);
    while (rc == RC_OK && batch_next(&r, &run)) {
        rc = supersede_run(s, &run);
    }
    return rc;
}

/* For the next ACK; beyond EXCEPTIONS_MAX they are only counted. */
static void list_new(struct session *s, uint8_t reason, enum table_id table,
                     uint32_t vni, const struct row *key)
{
    struct exception *e;

    if (s->new_exception_count >= EXCEPTIONS_MAX) {
        return;
    }
    if (!s->new_exceptions) {
        s->new_exceptions = calloc(EXCEPTIONS_MAX, sizeof(*s->new_exceptions));
        if (!s->new_exceptions) {
            return; /* counted all the same */
        }
    }
    e = &s->new_exceptions[s->new_exception_count++];
    memset(e, 0, sizeof(*e));
    e->reason = reason;
    e->table = (uint8_t)table;
    e->vni = vni;
    e->key_len = key->key_len;
    memcpy(e->key, key->key, key->key_len);
}

enum rc exceptions_add(struct session *s, uint8_t reason, enum table_id table,
                       uint32_t vni, const struct row *key, const struct row *want)
{
    /* What is kept of a failed delete is its key; the empty value of a `local` route
     * or of nothing at all would do, but a set holds whole rows: the device's own. */
    enum rc rc = forget_row(s, table, vni, key);
    struct row row = want ? *want : *key;
    enum exception_set set = !want                         ? EXTRA
                             : reason == EXCEPTION_REFUSED ? REFUSED
                                                           : MISSING;

    if (rc == RC_OK) {
        rc = set_row(s->exceptions[set], table, vni, &row);
    }
    if (rc == RC_OK) {
        list_new(s, reason, table, vni, key);
        s->must_ack = true;
    }
    return rc;
}

/* Appends up to `left` rows of `set` as PUT or DELETE; returns how many. */
static uint32_t add_retry(const struct table_set *set, enum batch_op op, uint32_t left,
                          struct batch_writer *w)
{
    uint32_t n = 0;
    uint32_t vni = table_set_next(set, VNI_MIN, ~0u);

    while (vni != 0 && n < left) {
        for (int t = 0; t < TABLE_COUNT; t++) {
            struct rows_iter it = rows_begin(table_set_rows(set, vni, (enum table_id)t),
                                             (enum table_id)t);
            struct row row;

            while (n < left && rows_next(&it, &row)) {
                if (op == BATCH_DELETE) {
                    row.value = NULL;
                    row.value_len = 0;
                }
                batch_add_row(w, op, (enum table_id)t, vni, &row);
                n++;
            }
        }
        vni = vni == VNI_MAX ? 0 : table_set_next(set, vni + 1, ~0u);
    }
    return n;
}

struct blob *exceptions_take_retry(struct session *s)
{
    struct batch_writer w;
    struct blob *ops;
    uint32_t n;

    batch_writer_init(&w);
    /* Deletes first here: they may make the room that the rest failed for. */
    n = add_retry(s->exceptions[EXTRA], BATCH_DELETE, RETRY_ROWS, &w);
    add_retry(s->exceptions[MISSING], BATCH_PUT, RETRY_ROWS - n, &w);
    ops = batch_writer_finish(&w);
    batch_writer_fini(&w);
    if (ops && exceptions_supersede(s, ops) != RC_OK) {
        s->is_out_of_memory = true;
    }
    return ops;
}
