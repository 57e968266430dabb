#include "tests/integration/fwd_tables.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct fwd_tables {
    struct table_set *records;
    struct fib *fib;
    struct fib_reader reader;
};

static enum rc read_lines(FILE *f, const char *path, struct batch_writer *to,
                          struct err *err)
{
    char line[2048];
    unsigned number = 0;

    while (fgets(line, sizeof(line), f) != NULL) {
        struct entry e;
        enum entry_op op;

        number++;
        line[strcspn(line, "\n")] = '\0';
        if (entry_parse_json(line, strlen(line), &op, &e, err) != RC_OK) {
            return err_wrap(err, RC_INVALID, "%s:%u", path, number);
        }
        batch_add_entry(to, op, &e);
    }
    return RC_OK;
}

static enum rc read_file(const char *path, struct batch_writer *to, struct err *err)
{
    FILE *f = fopen(path, "r");
    enum rc rc;

    if (f == NULL) {
        return err_set(err, RC_NOT_FOUND, "%s: cannot be opened", path);
    }
    rc = read_lines(f, path, to, err);
    fclose(f);
    return rc;
}

static enum rc apply(struct fwd_tables *t, const struct blob *batch, struct err *err)
{
    struct change_list changes = { 0 };
    struct fib_exceptions refused = { 0 };
    struct rows_change total;
    enum rc rc =
        table_set_apply(t->records, batch->data, batch->len, &changes, &total, err);

    if (rc == RC_OK && fib_apply(t->fib, t->records, &changes, &refused) != RC_OK) {
        rc = err_set(err, RC_FULL, "%u entries cannot be placed", refused.count);
    }
    fib_exceptions_fini(&refused);
    change_list_fini(&changes);
    return rc;
}

/* Everything in one batch. */
static enum rc load(struct fwd_tables *t, const char *path, struct err *err)
{
    struct batch_writer writer;
    struct blob *batch = NULL;
    enum rc rc;

    batch_writer_init(&writer);
    rc = read_file(path, &writer, err);
    if (rc == RC_OK) {
        batch = batch_writer_finish(&writer);
        rc = batch == NULL ? err_set(err, RC_NO_MEMORY, "no memory for entries")
                           : apply(t, batch, err);
    }
    blob_unref(batch);
    batch_writer_fini(&writer);
    return rc;
}

enum rc fwd_tables_load(const char *path, struct fwd_tables **ret, struct err *err)
{
    struct fwd_tables *t = aligned_alloc(_Alignof(struct fwd_tables), sizeof(*t));
    enum rc rc;

    if (t == NULL) {
        return err_set(err, RC_NO_MEMORY, "no memory for tables");
    }
    *t = (struct fwd_tables){ .records = table_set_new(), .fib = fib_new(NULL) };
    if (t->records == NULL || t->fib == NULL) {
        rc = err_set(err, RC_NO_MEMORY, "no memory for tables");
    } else {
        fib_reader_online(t->fib, &t->reader);
        rc = load(t, path, err);
    }
    if (rc != RC_OK) {
        fwd_tables_free(t);
        return rc;
    }
    *ret = t;
    return RC_OK;
}

void fwd_tables_free(struct fwd_tables *t)
{
    if (t == NULL) {
        return;
    }
    fib_free(t->fib);
    table_set_free(t->records);
    free(t);
}

struct fib *fwd_tables_fib(struct fwd_tables *t)
{
    return t->fib;
}
