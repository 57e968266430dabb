/*
 * session_audit: reading back for the controller.
 *
 * What was found becomes what is believed, so that QUERY and ROWS are answered from it
 * and a BATCH is compared with it.  Of one VNI, nothing is written until the end.  Of
 * all, changes go on: they are gathered, and at the end their keys are taken from
 * believed as it is then.
 */
#include "agent/session/session_impl.h"

#include <string.h>

#include "proto/base/log.h"

bool audit_is_under_way(const struct session *s)
{
    return s->audit.read_id != 0;
}

bool audit_holds(const struct session *s)
{
    return audit_is_under_way(s) && (s->audit.vni != 0 || s->config.reads_alone);
}

void audit_drop(struct session *s)
{
    table_set_free(s->audit.found);
    table_set_free(s->audit.unsound);
    s->audit.found = NULL;
    s->audit.unsound = NULL;
    change_list_fini(&s->audit.touched);
    s->audit.read_id = 0;
}

static void answer(struct session *s, uint64_t audit_id, enum rc rc, uint32_t vni)
{
    struct tree_node node = { .depth = vni ? TREE_DEPTH : 0, .vni = vni };
    struct session_out *out = session_out_add(s, SESSION_SEND);

    if (!out) {
        return;
    }
    out->send.kind = AGENT_AUDIT;
    out->send.audit.audit_id = audit_id;
    out->send.audit.rc = rc;
    for (unsigned t = 0; rc == RC_OK && t < TABLE_COUNT; t++) {
        out->send.audit.found[t] =
            table_set_digest(s->believed, (enum table_id)t, node);
    }
}

void audit_begin(struct session *s, const struct ctl_audit *a)
{
    struct session_out *out;

    if (audit_is_under_way(s)) {
        answer(s, a->audit_id, RC_CONFLICT, a->vni); /* one at a time: ask again */
        return;
    }
    out = session_out_add(s, SESSION_READ);
    s->audit.found = table_set_new();
    s->audit.unsound = table_set_new();
    if (!out || !s->audit.found || !s->audit.unsound) {
        s->is_out_of_memory = true;
        return;
    }
    out->read.id = ++s->last_id;
    out->read.vni = a->vni;
    s->audit.read_id = out->read.id;
    s->audit.audit_id = a->audit_id;
    s->audit.vni = a->vni;
    s->audit.deadline_ms =
        s->now_ms + (a->vni ? s->config.write_timeout_ms : AUDIT_ALL_MS);
}

void audit_touch(struct session *s, const struct change_list *changes)
{
    if (!audit_is_under_way(s)) {
        return;
    }
    for (uint32_t i = 0; i < changes->count; i++) {
        struct table_change c = changes->at[i];

        rows_ref(c.before);
        rows_ref(c.after);
        if (!change_list_push(&s->audit.touched, &c)) {
            rows_unref(c.before);
            rows_unref(c.after);
            audit_end(s, RC_NO_MEMORY);
            return;
        }
    }
}

static bool find(const struct table_set *set, uint8_t table, uint32_t vni,
                 const struct row *key, struct row *ret)
{
    const struct rows *rows = table_set_rows(set, vni, (enum table_id)table);

    return rows && rows_find(rows, (enum table_id)table, key->key, key->key_len, ret);
}

/* Applies what the writer holds. */
static enum rc apply(struct table_set *to, struct batch_writer *w)
{
    struct blob *ops = batch_writer_finish(w);
    enum rc rc =
        ops ? table_set_apply(to, ops->data, ops->len, NULL, NULL, NULL) : RC_NO_MEMORY;

    blob_unref(ops);
    return rc;
}

/* ---- rows that are read ---- */

/* Rows that are not sound (driver.h).  What the device was told to hold does not stand
 * there as it should, so it counts as missing; else it is what it is. */
static enum rc take_unsound(struct session *s, const struct batch_run *run)
{
    enum table_id table = (enum table_id)run->table;
    struct run_reader it = run_reader_of(run);
    struct batch_writer missing;
    struct batch_writer kept;
    struct row key;
    enum rc rc;

    batch_writer_init(&missing);
    batch_writer_init(&kept);
    while (run_next(&it, &key)) {
        struct row found;
        struct row told;

        if (!find(s->audit.found, run->table, run->vni, &key, &found)) {
            continue;
        }
        if (find(s->believed, run->table, run->vni, &key, &told) &&
            found.value_len == told.value_len &&
            memcmp(found.value, told.value, found.value_len) == 0 &&
            !(s->unsound && find(s->unsound, run->table, run->vni, &key, &told))) {
            batch_add_row(&missing, BATCH_DELETE, table, run->vni, &key);
        } else {
            batch_add_row(&kept, BATCH_PUT, table, run->vni, &found);
        }
    }
    rc = apply(s->audit.unsound, &kept);
    rc = rc ? rc : apply(s->audit.found, &missing);
    batch_writer_fini(&missing);
    batch_writer_fini(&kept);
    return rc;
}

static bool has_unsound(const uint8_t *batch, size_t len)
{
    struct batch_reader r = batch_reader_of(batch, len);
    struct batch_run run;

    while (batch_next(&r, &run)) {
        if (run.op == BATCH_DELETE) {
            return true;
        }
    }
    return false;
}

static enum rc take_runs(struct session *s, const uint8_t *batch, size_t len)
{
    struct batch_reader r = batch_reader_of(batch, len);
    struct batch_run run;
    enum rc rc = RC_OK;

    while (rc == RC_OK && batch_next(&r, &run)) {
        rc = run.op == BATCH_DELETE
                 ? take_unsound(s, &run)
                 : table_set_apply(s->audit.found, run.rows - BATCH_RUN_HEADER,
                                   run.bytes + (size_t)BATCH_RUN_HEADER, NULL, NULL,
                                   NULL);
    }
    return rc;
}

void audit_rows(struct session *s, const uint8_t *batch, size_t len)
{
    uint32_t count;
    uint32_t index;
    struct err err = { 0 };
    enum rc rc = batch_check(batch, len, false, &count, &index, &err);

    if (rc == RC_OK) {
        rc = has_unsound(batch, len)
                 ? take_runs(s, batch, len)
                 : table_set_apply(s->audit.found, batch, len, NULL, NULL, &err);
    }
    if (rc != RC_OK) {
        session_log(s, LOG_ERROR, "audit's read-back damaged", "entry=%u cause=\"%s\"",
                    index, err.msg);
        audit_end(s, rc);
    }
}

/* ---- the end ---- */

/* The rows of `change` as they are believed now. */
static void add_believed(struct session *s, const struct table_change *change,
                         struct batch_writer *to)
{
    static const struct bucket whole = { 0 };
    enum table_id table = (enum table_id)change->table;
    struct batch_writer w;
    struct blob *steps;
    struct batch_reader r;
    struct batch_run run;

    batch_writer_init(&w);
    rows_diff(change->before, change->after, table, change->vni, whole, &w);
    steps = batch_writer_finish(&w);
    r = batch_reader_of(steps ? steps->data : NULL, steps ? steps->len : 0);
    while (batch_next(&r, &run)) {
        struct run_reader it = run_reader_of(&run);
        struct row row;
        struct row now;

        while (run_next(&it, &row)) {
            struct row key = { .key = row.key, .key_len = row.key_len };
            bool is_there = find(s->believed, change->table, change->vni, &key, &now);

            batch_add_row(to, is_there ? BATCH_PUT : BATCH_DELETE, table, change->vni,
                          is_there ? &now : &key);
        }
    }
    s->is_out_of_memory |= !steps;
    blob_unref(steps);
    batch_writer_fini(&w);
}

static enum rc believe_all(struct session *s)
{
    struct batch_writer w;
    enum rc rc;

    batch_writer_init(&w);
    for (uint32_t i = 0; i < s->audit.touched.count; i++) {
        add_believed(s, &s->audit.touched.at[i], &w);
    }
    rc = apply(s->audit.found, &w);
    batch_writer_fini(&w);
    if (rc == RC_OK) {
        struct table_set *was = s->believed;

        s->believed = s->audit.found;
        s->audit.found = was;
        was = s->unsound;
        s->unsound = s->audit.unsound;
        s->audit.unsound = was;
    }
    return rc;
}

/* The VNI's rows of `from` in the place of those of `to`. */
static enum rc take_vni(struct session *s, struct table_set *to,
                        const struct table_set *from)
{
    enum rc rc = RC_OK;

    for (unsigned t = 0; rc == RC_OK && t < TABLE_COUNT; t++) {
        struct rows *rows =
            rows_ref(table_set_rows(from, s->audit.vni, (enum table_id)t));

        rc = table_set_put(to, s->audit.vni, (enum table_id)t, rows);
        if (rc != RC_OK) {
            rows_unref(rows);
        }
    }
    return rc;
}

static enum rc believe_vni(struct session *s)
{
    if (!s->unsound) {
        s->unsound = table_set_new();
    }
    if (!s->unsound || take_vni(s, s->unsound, s->audit.unsound) != RC_OK) {
        return RC_NO_MEMORY;
    }
    return take_vni(s, s->believed, s->audit.found);
}

enum rc audit_wished(struct session *s, const struct blob *ops)
{
    struct batch_reader r = batch_reader_of(ops ? ops->data : NULL, ops ? ops->len : 0);
    struct batch_writer w;
    struct batch_run run;
    enum rc rc = RC_OK;

    if (!s->unsound || table_set_vni_count(s->unsound) == 0) {
        return RC_OK;
    }
    batch_writer_init(&w);
    while (batch_next(&r, &run)) {
        struct run_reader it = run_reader_of(&run);
        struct row row;

        if (run.op == BATCH_REPLACE) {
            batch_add_rows(&w, BATCH_REPLACE, (enum table_id)run.table, run.vni,
                           &run.bucket, NULL, 0, 0);
            continue;
        }
        while (run_next(&it, &row)) {
            struct row key = { .key = row.key, .key_len = row.key_len };

            batch_add_row(&w, BATCH_DELETE, (enum table_id)run.table, run.vni, &key);
        }
    }
    rc = apply(s->unsound, &w);
    batch_writer_fini(&w);
    return rc;
}

void audit_end(struct session *s, enum rc rc)
{
    uint64_t id = s->audit.audit_id;
    uint32_t vni = s->audit.vni;

    if (rc == RC_OK) {
        rc = vni ? believe_vni(s) : believe_all(s);
    }
    audit_drop(s);
    answer(s, id, rc, vni);
}

void audit_tick(struct session *s)
{
    if (audit_is_under_way(s) && s->audit.deadline_ms <= s->now_ms) {
        session_log(s, LOG_WARN, "audit's read-back late",
                    "next=\"the controller asks again\"");
        audit_end(s, RC_TIMEOUT);
    }
}
