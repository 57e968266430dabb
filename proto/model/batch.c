#include "proto/model/batch.h"

#include <assert.h>
#include <string.h>

#include "proto/model/table_type.h"

enum { COUNT_AT = 5, BYTES_AT = 9, MAX_DEPTH = 8 };

void batch_writer_init(struct batch_writer *w)
{
    *w = (struct batch_writer){ .buf = BUF_INIT };
}

void batch_writer_fini(struct batch_writer *w)
{
    buf_fini(&w->buf);
    batch_writer_init(w);
}

void batch_writer_reset(struct batch_writer *w)
{
    buf_reset(&w->buf);
    w->has_run = false;
    w->entry_count = 0;
}

static void put_u32(uint8_t *to, uint32_t v)
{
    to[0] = (uint8_t)(v >> 24);
    to[1] = (uint8_t)(v >> 16);
    to[2] = (uint8_t)(v >> 8);
    to[3] = (uint8_t)v;
}

/* Where the table's key is the VNI, a row to delete has no bytes. */
static bool is_keyless_delete(uint8_t op, uint8_t table)
{
    return op == BATCH_DELETE && table_type_of(table)->key_fields == 0;
}

static void close_run(struct batch_writer *w)
{
    if (w->has_run && !buf_failed(&w->buf)) {
        uint8_t *header = w->buf.data + w->run_at;
        size_t rows_at = w->run_at + BATCH_RUN_HEADER;

        if (w->run.op == BATCH_REPLACE) {
            rows_at += 5;
        }
        put_u32(header + COUNT_AT, w->run.count);
        put_u32(header + BYTES_AT, (uint32_t)(w->buf.len - rows_at));
    }
    w->has_run = false;
}

/* Goes on with the open run when it is of the same kind, else starts one. */
static void open_run(struct batch_writer *w, uint8_t op, uint8_t table, uint32_t vni,
                     const struct bucket *bucket)
{
    if (w->has_run && w->run.op == op && w->run.table == table && w->run.vni == vni &&
        op != BATCH_REPLACE && !is_keyless_delete(op, table)) {
        return;
    }
    close_run(w);
    w->run_at = w->buf.len;
    w->has_run = true;
    w->run = (struct batch_run){ .op = op, .table = table, .vni = vni };
    buf_u8(&w->buf, op);
    buf_u8(&w->buf, table);
    buf_u24(&w->buf, vni);
    buf_u64(&w->buf, 0); /* count and bytes: close_run() fills them in */
    if (op == BATCH_REPLACE) {
        buf_u8(&w->buf, bucket->depth);
        buf_u32(&w->buf, bucket->path);
    }
}

static void count_rows(struct batch_writer *w, uint32_t count)
{
    w->run.count += count;
    w->entry_count += count;
}

void batch_add_entry(struct batch_writer *w, enum entry_op op, const struct entry *e)
{
    open_run(w, op == ENTRY_DELETE ? BATCH_DELETE : BATCH_PUT, e->table, e->vni, NULL);
    entry_pack_key(e, &w->buf);
    if (op == ENTRY_PUT) {
        entry_pack_value(e, &w->buf);
    }
    count_rows(w, 1);
}

void batch_add_row(struct batch_writer *w, enum batch_op op, enum table_id table,
                   uint32_t vni, const struct row *row)
{
    assert(op != BATCH_REPLACE);
    open_run(w, (uint8_t)op, (uint8_t)table, vni, NULL);
    buf_add(&w->buf, row->key, row->key_len);
    if (op == BATCH_PUT) {
        buf_add(&w->buf, row->value, row->value_len);
    }
    count_rows(w, 1);
}

void batch_add_rows(struct batch_writer *w, enum batch_op op, enum table_id table,
                    uint32_t vni, const struct bucket *bucket, const uint8_t *rows,
                    uint32_t bytes, uint32_t count)
{
    assert((op == BATCH_REPLACE) == (bucket != NULL));
    if (count == 0 && op != BATCH_REPLACE) {
        return;
    }
    open_run(w, (uint8_t)op, (uint8_t)table, vni, bucket);
    buf_add(&w->buf, rows, bytes);
    count_rows(w, count);
}

size_t batch_writer_bytes(const struct batch_writer *w)
{
    return w->buf.len;
}

struct blob *batch_writer_finish(struct batch_writer *w)
{
    struct blob *blob = NULL;

    close_run(w);
    if (!buf_failed(&w->buf)) {
        blob = blob_copy(w->buf.data, w->buf.len);
    }
    batch_writer_reset(w);
    return blob;
}

struct batch_reader batch_reader_of(const void *bytes, size_t len)
{
    return (struct batch_reader){ .in = reader_of(bytes, len) };
}

static bool bucket_is_sound(struct bucket b)
{
    if (b.depth > MAX_DEPTH) {
        return false;
    }
    return b.depth == MAX_DEPTH || (b.path & (UINT32_MAX >> (4 * b.depth))) == 0;
}

/* Can that many rows have that many bytes?  Bounds the work that a header can ask. */
static bool counts_are_sound(const struct batch_run *run)
{
    if (is_keyless_delete(run->op, run->table)) {
        return run->count == 1 && run->bytes == 0;
    }
    if (run->count == 0) {
        return run->op == BATCH_REPLACE && run->bytes == 0;
    }
    return run->count <= run->bytes;
}

bool batch_next(struct batch_reader *r, struct batch_run *run)
{
    struct batch_run got = { 0 };

    if (r->failed || reader_left(&r->in) == 0) {
        return false;
    }
    got.op = read_u8(&r->in);
    got.table = read_u8(&r->in);
    got.vni = read_u24(&r->in);
    got.count = read_u32(&r->in);
    got.bytes = read_u32(&r->in);
    if (got.op == BATCH_REPLACE) {
        got.bucket.depth = read_u8(&r->in);
        got.bucket.path = read_u32(&r->in);
    }
    got.rows = read_bytes(&r->in, got.bytes);
    if (!got.rows || got.op < BATCH_PUT || got.op > BATCH_REPLACE ||
        got.table >= TABLE_COUNT || got.vni < VNI_MIN || !bucket_is_sound(got.bucket) ||
        !counts_are_sound(&got)) {
        r->failed = true;
        return false;
    }
    *run = got;
    return true;
}

struct run_reader run_reader_of(const struct batch_run *run)
{
    return (struct run_reader){
        .in = reader_of(run->rows, run->bytes),
        .table = run->table,
        .has_value = run->op != BATCH_DELETE,
        .left = run->count,
    };
}

bool run_next(struct run_reader *it, struct row *ret)
{
    size_t used;

    if (it->failed) {
        return false;
    }
    if (it->left == 0) {
        it->failed = reader_left(&it->in) > 0;
        return false;
    }
    if (!it->has_value && table_type_of(it->table)->key_fields == 0) {
        *ret = (struct row){ .key = it->in.p };
        it->left--;
        return true;
    }
    used = row_scan(it->table, it->in.p, reader_left(&it->in), it->has_value, ret);
    if (used == 0) {
        it->failed = true;
        return false;
    }
    it->in.p += used;
    it->left--;
    return true;
}

static enum rc check_replaced(const struct batch_run *run, const struct row *before,
                              const struct row *row, struct err *err)
{
    uint32_t path = (uint32_t)(row_key_hash(row) >> 32);
    unsigned depth = run->bucket.depth;

    if (depth > 0 && (path ^ run->bucket.path) >> (32 - 4 * depth) != 0) {
        return err_field(err, RC_INVALID, "key", "bucket",
                         "a row outside of the bucket that the run replaces");
    }
    if (before->key && row_compare(before, row) >= 0) {
        return err_field(err, RC_INVALID, "key", "ascending",
                         "rows of a replace are not in ascending order");
    }
    return RC_OK;
}

static enum rc check_run(const struct batch_run *run, uint32_t *count, struct err *err)
{
    struct run_reader it = run_reader_of(run);
    struct row before = { 0 };
    struct row row;
    struct entry e;

    while (run_next(&it, &row)) {
        enum rc rc = entry_unpack(run->table, run->vni, &row, &e, err);

        if (rc == RC_OK && run->op == BATCH_REPLACE) {
            rc = check_replaced(run, &before, &row, err);
        }
        if (rc != RC_OK) {
            return rc;
        }
        before = row;
        (*count)++;
    }
    if (it.failed) {
        return err_field(err, RC_INVALID, "rows", "packed_form",
                         "table %s: malformed row", table_name(run->table));
    }
    return RC_OK;
}

enum rc batch_check(const void *bytes, size_t len, bool allow_replace,
                    uint32_t *ret_count, uint32_t *ret_index, struct err *err)
{
    struct batch_reader r = batch_reader_of(bytes, len);
    struct batch_run run;
    uint32_t count = 0;
    enum rc rc = RC_OK;

    while (rc == RC_OK && batch_next(&r, &run)) {
        if (run.op == BATCH_REPLACE && !allow_replace) {
            rc = err_field(err, RC_INVALID, "op", "op_known",
                           "a replace run is not taken here");
            break;
        }
        rc = check_run(&run, &count, err);
    }
    if (rc == RC_OK && r.failed) {
        rc = err_field(err, RC_INVALID, "run", "packed_form", "malformed run header");
    }
    if (rc == RC_OK) {
        if (ret_count) {
            *ret_count = count;
        }
        return RC_OK;
    }
    if (ret_index) {
        *ret_index = count;
    }
    /* Whatever rule a row broke, bytes that break one are no batch (batch.h). */
    if (err) {
        err->code = RC_INVALID;
    }
    return RC_INVALID;
}
