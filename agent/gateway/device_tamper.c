/* For tests: what a fault does to one of the two places in which a device holds rows.
 */
#include "agent/gateway/device_impl.h"

#include <string.h>

/* The fib alone: it follows from what the records say to what they would say. */
static enum rc tamper_structures(struct device *d, const struct device_tamper *t,
                                 struct err *err)
{
    struct change_list changes = { 0 };
    struct fib_exceptions refused = { 0 };
    enum rc rc = table_set_apply(d->records, t->ops, t->len, &changes, NULL, err);

    if (rc == RC_OK) {
        rc = fib_apply(d->fib, d->records, &changes, &refused);
        table_set_undo(d->records, &changes);
    }
    fib_exceptions_fini(&refused);
    change_list_fini(&changes);
    return rc ? err_set(err, rc, "structures: not tampered with") : RC_OK;
}

static enum rc tamper_marks(struct device *d, const struct device_tamper *t)
{
    struct batch_reader r = batch_reader_of(t->ops, t->len);
    struct batch_run run;

    while (batch_next(&r, &run)) {
        struct run_reader it = run_reader_of(&run);
        struct row row;

        while (run.table == TABLE_VM_NC && run_next(&it, &row)) {
            fib_flip_mark(d->fib, run.vni, row.key, row.key_len);
        }
    }
    return RC_OK;
}

/* A row without a value is not kept in a set: a flag stands for it. */
static enum rc keep(struct device *d, const struct device_tamper *t, struct err *err)
{
    struct table_set **kept = &d->kept[t->place - 1];

    *kept = *kept ? *kept : table_set_new();
    return *kept ? table_set_apply(*kept, t->ops, t->len, NULL, NULL, err)
                 : err_set(err, RC_NO_MEMORY, "no memory");
}

enum rc device_tamper(struct device *d, const struct device_tamper *t, struct err *err)
{
    uint32_t count;
    uint32_t index;
    enum rc rc = batch_check(t->ops, t->len, false, &count, &index, err);

    if (rc == RC_OK && (t->place < TAMPER_RECORDS || t->place > TAMPER_MARKS ||
                        (t->keeps && t->place == TAMPER_MARKS))) {
        rc = err_set(err, RC_INVALID, "place: records, structures or marks");
    }
    if (rc != RC_OK) {
        return rc;
    }
    if (t->place == TAMPER_MARKS) {
        return tamper_marks(d, t);
    }
    if (t->keeps) {
        return keep(d, t, err);
    }
    return t->place == TAMPER_RECORDS
               ? table_set_apply(d->records, t->ops, t->len, NULL, NULL, err)
               : tamper_structures(d, t, err);
}

/* The rows that `c` deleted and `kept` names, as PUTs; they are kept once. */
static enum rc put_back(struct table_set *kept, const struct table_change *c,
                        struct batch_writer *to, struct err *err)
{
    enum table_id table = (enum table_id)c->table;
    const struct rows *rows = table_set_rows(kept, c->vni, table);
    struct rows_iter it = rows_begin(rows, table);
    struct batch_writer once;
    struct row row;
    struct blob *ops;
    enum rc rc;

    batch_writer_init(&once);
    while (rows_next(&it, &row)) {
        struct row key = { .key = row.key, .key_len = row.key_len };
        struct row was;

        if (rows_find(c->before, table, row.key, row.key_len, &was) &&
            !rows_find(c->after, table, row.key, row.key_len, &row)) {
            batch_add_row(to, BATCH_PUT, table, c->vni, &was);
            batch_add_row(&once, BATCH_DELETE, table, c->vni, &key);
        }
    }
    ops = batch_writer_finish(&once);
    rc = ops ? table_set_apply(kept, ops->data, ops->len, NULL, NULL, err)
             : RC_NO_MEMORY;
    blob_unref(ops);
    batch_writer_fini(&once);
    return rc;
}

enum rc tamper_after_write(struct device *d, const struct change_list *changes,
                           struct err *err)
{
    enum rc rc = RC_OK;

    for (unsigned place = TAMPER_RECORDS; place <= TAMPER_STRUCTURES; place++) {
        struct batch_writer back;
        struct blob *ops;

        batch_writer_init(&back);
        for (uint32_t i = 0; d->kept[place - 1] && i < changes->count; i++) {
            rc = rc ? rc : put_back(d->kept[place - 1], &changes->at[i], &back, err);
        }
        ops = batch_writer_finish(&back);
        if (rc == RC_OK && ops && ops->len > 0) {
            rc = device_tamper(
                d,
                &(struct device_tamper){ .place = (enum tamper_place)place,
                                         .ops = ops->data,
                                         .len = ops->len },
                err);
        }
        blob_unref(ops);
        batch_writer_fini(&back);
    }
    return rc;
}
