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
    free(s->listed);
    s->listed = NULL;
    s->listed_count = 0;
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
    s->must_list = true;
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
    s->must_list = true;
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

static bool is_same_key(const struct exception *a, const struct exception *b)
{
    return a->vni == b->vni && a->table == b->table && a->key_len == b->key_len &&
           memcmp(a->key, b->key, a->key_len) == 0;
}

static bool is_among(const struct exception *list, uint32_t count,
                     const struct exception *e)
{
    for (uint32_t i = 0; i < count; i++) {
        if (is_same_key(&list[i], e)) {
            return true;
        }
    }
    return false;
}

static bool stands(const struct session *s, const struct exception *e)
{
    enum table_id table = (enum table_id)e->table;

    for (int i = 0; i < EXCEPTION_SETS; i++) {
        const struct rows *rows = table_set_rows(s->exceptions[i], e->vni, table);
        struct row row;

        if (rows && rows_find(rows, table, e->key, e->key_len, &row)) {
            return true;
        }
    }
    return false;
}

/* Those that do not stand any more are left out: who reads the list at the controller
 * must not look for what has healed.  While a retry is on its way it is not complete,
 * and only the new ones are named. */
void exceptions_list(struct session *s, struct agent_ack *a)
{
    uint32_t n = s->new_exception_count;
    struct exception *all;
    uint32_t count = n;

    if (n == 0 && !s->must_list) {
        return;
    }
    all = calloc(EXCEPTIONS_MAX, sizeof(*all));
    if (!all) {
        return; /* counted all the same */
    }
    if (n > 0) {
        memcpy(all, s->new_exceptions, n * sizeof(*all));
    }
    for (uint32_t i = 0; i < s->listed_count && count < EXCEPTIONS_MAX; i++) {
        if (stands(s, &s->listed[i]) && !is_among(all, n, &s->listed[i])) {
            all[count++] = s->listed[i];
        }
    }
    s->must_list = count != a->exception_count;
    a->exception_listed = s->must_list ? n : count;
    a->standing = a->exception_listed - n;
    free(s->new_exceptions);
    s->new_exceptions = NULL;
    s->new_exception_count = 0;
    if (a->exception_listed > 0) {
        a->exceptions = calloc(a->exception_listed, sizeof(*all));
        if (a->exceptions) {
            memcpy(a->exceptions, all, a->exception_listed * sizeof(*all));
        } else {
            a->exception_listed = 0;
            a->standing = 0;
        }
    }
    free(s->listed);
    s->listed = all;
    s->listed_count = count;
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

/* Appends up to `left` rows of `table` in `set` that lie behind `from` (all, if null),
 * as PUT or DELETE, and moves `at` to the last of them; returns how many. */
static uint32_t add_behind(const struct table_set *set, enum batch_op op,
                           enum table_id table, const struct retry_place *from,
                           uint32_t left, struct retry_place *at,
                           struct batch_writer *w)
{
    struct row behind = { .key = from ? from->key : NULL,
                          .key_len = from ? from->key_len : 0 };
    uint32_t n = 0;
    uint32_t vni = table_set_next(set, from ? from->vni : VNI_MIN, 1u << table);

    while (vni != 0 && n < left) {
        const struct rows *rows = table_set_rows(set, vni, table);
        bool is_first = from && vni == from->vni;
        struct rows_iter it = is_first
                                  ? rows_seek(rows, table, behind.key, behind.key_len)
                                  : rows_begin(rows, table);
        struct row row;

        while (n < left && rows_next(&it, &row)) {
            if (is_first && row_compare(&row, &behind) == 0) {
                continue;
            }
            if (op == BATCH_DELETE) {
                row.value = NULL;
                row.value_len = 0;
            }
            batch_add_row(w, op, table, vni, &row);
            at->vni = vni;
            at->key_len = row.key_len;
            memcpy(at->key, row.key, row.key_len);
            n++;
        }
        vni = vni == VNI_MAX ? 0 : table_set_next(set, vni + 1, 1u << table);
    }
    return n;
}

/* RETRY_ROWS of each table, from where the last retry ended and round: rows that still
 * do not fit must not keep those behind them, or another table's, from their turn. */
static void add_retry(struct session *s, enum exception_set which, enum batch_op op,
                      struct batch_writer *w)
{
    const struct table_set *set = s->exceptions[which];

    for (int t = 0; t < TABLE_COUNT; t++) {
        struct retry_place *at = &s->retried[which][t];
        struct retry_place from = *at;

        if (from.vni == 0 ||
            add_behind(set, op, (enum table_id)t, &from, RETRY_ROWS, at, w) == 0) {
            add_behind(set, op, (enum table_id)t, NULL, RETRY_ROWS, at, w);
        }
    }
}

struct blob *exceptions_take_retry(struct session *s)
{
    struct batch_writer w;
    struct blob *ops;

    batch_writer_init(&w);
    /* Deletes first here: they may make the room that the rest failed for. */
    add_retry(s, EXTRA, BATCH_DELETE, &w);
    add_retry(s, MISSING, BATCH_PUT, &w);
    ops = batch_writer_finish(&w);
    batch_writer_fini(&w);
    if (ops && exceptions_supersede(s, ops) != RC_OK) {
        s->is_out_of_memory = true;
    }
    return ops;
}
