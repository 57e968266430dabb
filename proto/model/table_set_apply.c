#include "proto/model/rows_impl.h"
#include "proto/model/table_set_impl.h"

#include <stdlib.h>

/* One run of the batch and where it belongs. */
struct part {
    uint64_t target; /* VNI and table: what sorts and groups */
    uint32_t order;  /* in the batch */
    struct batch_run run;
};

struct apply {
    struct table_set *set;
    struct part *parts; /* in batch order, or sorted by target and then batch order */
    uint32_t part_count;
    uint32_t part_cap;
    struct rows_step *steps; /* of one target */
    uint32_t step_count;
    uint32_t step_cap;
    struct change_list *changes;
    struct rows_change total;
};

void change_list_cut(struct change_list *l, uint32_t n)
{
    for (; n > 0; n--) {
        l->count--;
        rows_unref(l->at[l->count].before);
        rows_unref(l->at[l->count].after);
    }
}

void change_list_fini(struct change_list *l)
{
    change_list_cut(l, l->count);
    free(l->at);
    *l = (struct change_list){ 0 };
}

static bool change_list_reserve(struct change_list *l)
{
    if (l->count == l->cap) {
        uint32_t cap = l->cap ? 2 * l->cap : 4;
        struct table_change *grown = realloc(l->at, cap * sizeof(*grown));

        if (!grown) {
            return false;
        }
        l->at = grown;
        l->cap = cap;
    }
    return true;
}

bool change_list_push(struct change_list *l, const struct table_change *change)
{
    if (!change_list_reserve(l)) {
        return false;
    }
    l->at[l->count++] = *change;
    return true;
}

static bool add_part(struct apply *a, const struct batch_run *run)
{
    if (a->part_count == a->part_cap) {
        uint32_t cap = a->part_cap ? 2 * a->part_cap : 4;
        struct part *grown = realloc(a->parts, cap * sizeof(*grown));

        if (!grown) {
            return false;
        }
        a->parts = grown;
        a->part_cap = cap;
    }
    a->parts[a->part_count] =
        (struct part){ (uint64_t)run->vni << 8 | run->table, a->part_count, *run };
    a->part_count++;
    return true;
}

static int part_compare(const void *a, const void *b)
{
    const struct part *x = a;
    const struct part *y = b;

    if (x->target != y->target) {
        return x->target < y->target ? -1 : 1;
    }
    return x->order < y->order ? -1 : x->order > y->order;
}

/* Reads the runs and groups them: all of one (VNI, table) in a row. */
static enum rc read_parts(struct apply *a, const void *batch, size_t len,
                          struct err *err)
{
    struct batch_reader reader = batch_reader_of(batch, len);
    struct batch_run run;
    uint64_t last = 0;
    bool sorted = true;

    while (batch_next(&reader, &run)) {
        if (run.table >= TABLE_COUNT || run.vni < VNI_MIN || run.vni > VNI_MAX) {
            return err_set(err, RC_INVALID, "batch: table %u, vni %u", run.table,
                           run.vni);
        }
        if (!add_part(a, &run)) {
            return err_set(err, RC_NO_MEMORY, "batch: out of memory");
        }
        sorted = sorted && last <= a->parts[a->part_count - 1].target;
        last = a->parts[a->part_count - 1].target;
    }
    if (reader.failed) {
        return err_set(err, RC_INVALID, "batch: damaged run header");
    }
    if (!sorted) {
        qsort(a->parts, a->part_count, sizeof(*a->parts), part_compare);
    }
    return RC_OK;
}

static bool add_step(struct apply *a, const struct row *row)
{
    if (a->step_count == a->step_cap) {
        uint32_t cap = a->step_cap ? 2 * a->step_cap : 16;
        struct rows_step *grown = realloc(a->steps, cap * sizeof(*grown));

        if (!grown) {
            return false;
        }
        a->steps = grown;
        a->step_cap = cap;
    }
    a->steps[a->step_count++].row = *row;
    return true;
}

static bool in_bucket(const struct row *row, struct bucket bucket)
{
    uint32_t mask = bucket.depth ? UINT32_MAX << (32 - 4 * bucket.depth) : 0;

    return mask == 0 || ((uint32_t)(row_key_hash(row) >> 32) & mask) == bucket.path;
}

/* A REPLACE starts by deleting all its bucket holds: what stands in `old`, and what
 * steps before it have put there. */
static bool add_sweep(struct apply *a, const struct rows *old,
                      const struct batch_run *run)
{
    struct rows_iter it = rows_begin(old, run->table);
    const uint32_t before = a->step_count;
    struct row row;

    for (uint32_t i = 0; i < before; i++) {
        row = a->steps[i].row;
        row.value = NULL;
        row.value_len = 0;
        if (in_bucket(&row, run->bucket) && !add_step(a, &row)) {
            return false;
        }
    }
    while (rows_next(&it, &row)) {
        row.value = NULL;
        row.value_len = 0;
        if (in_bucket(&row, run->bucket) && !add_step(a, &row)) {
            return false;
        }
    }
    return true;
}

static enum rc add_run(struct apply *a, const struct rows *old,
                       const struct batch_run *run, struct err *err)
{
    struct run_reader it = run_reader_of(run);
    struct row row;

    if (run->op == BATCH_REPLACE && !add_sweep(a, old, run)) {
        return err_set(err, RC_NO_MEMORY, "batch: out of memory");
    }
    while (run_next(&it, &row)) {
        if (!add_step(a, &row)) {
            return err_set(err, RC_NO_MEMORY, "batch: out of memory");
        }
    }
    if (it.failed) {
        return err_set(err, RC_INVALID, "batch: damaged row of vni %u", run->vni);
    }
    return RC_OK;
}

/* Carries out the collected steps on one (VNI, table). */
static enum rc apply_steps(struct apply *a, uint32_t vni, enum table_id table,
                           struct rows *old, struct err *err)
{
    struct table_change change = { .vni = vni, .table = (uint8_t)table };
    const struct rows_change *n = &change.counts;
    enum rc rc;

    if (!change_list_reserve(a->changes)) {
        return err_set(err, RC_NO_MEMORY, "batch: out of memory");
    }
    rc = rows_edit(old, table, vni, a->steps, a->step_count, &change.after,
                   &change.counts);
    if (rc) {
        return err_set(err, rc, "batch: vni %u: out of memory", vni);
    }
    a->total.added += n->added;
    a->total.changed += n->changed;
    a->total.deleted += n->deleted;
    a->total.unchanged += n->unchanged;
    if (n->added + n->changed + n->deleted == 0) {
        rows_unref(change.after);
        return RC_OK;
    }
    change.before = rows_ref(old);
    rc = set_put(a->set, vni, table, rows_ref(change.after));
    if (rc) {
        rows_unref(change.after); /* the reference that the set did not take */
        rows_unref(change.after);
        rows_unref(change.before);
        return err_set(err, rc, "batch: vni %u: out of memory", vni);
    }
    a->changes->at[a->changes->count++] = change;
    return RC_OK;
}

/* All runs of one (VNI, table), from part `*at` on. */
static enum rc apply_target(struct apply *a, uint32_t *at, struct err *err)
{
    const struct part *first = &a->parts[*at];
    const uint32_t vni = first->run.vni;
    const enum table_id table = first->run.table;
    struct rows *old = table_set_rows(a->set, vni, table);
    enum rc rc = RC_OK;

    a->step_count = 0;
    for (; *at < a->part_count && a->parts[*at].target == first->target && !rc;
         (*at)++) {
        rc = add_run(a, old, &a->parts[*at].run, err);
    }
    return rc ? rc : apply_steps(a, vni, table, old, err);
}

/* Puts `before` back for the changes from `from` on, last first. */
static void undo_from(struct table_set *s, const struct change_list *l, uint32_t from)
{
    for (uint32_t i = l->count; i > from; i--) {
        const struct table_change *change = &l->at[i - 1];

        if (set_put(s, change->vni, change->table, rows_ref(change->before))) {
            /* The room that the change left was given back since, and now memory is
             * out: a set that is neither before nor after must not live on.  The
             * process starts again from what is durable. */
            abort();
        }
    }
}

enum rc table_set_apply(struct table_set *s, const void *batch, size_t len,
                        struct change_list *changes, struct rows_change *ret_total,
                        struct err *err)
{
    struct change_list own = { 0 };
    struct apply a = { .set = s, .changes = changes ? changes : &own };
    const uint32_t first = a.changes->count;
    enum rc rc = read_parts(&a, batch, len, err);

    if (!rc) {
        set_trim(s);
    }
    for (uint32_t at = 0; at < a.part_count && !rc;) {
        rc = apply_target(&a, &at, err);
    }
    if (rc) {
        undo_from(s, a.changes, first);
        change_list_cut(a.changes, a.changes->count - first);
    } else if (ret_total) {
        *ret_total = a.total;
    }
    change_list_fini(&own);
    free(a.parts);
    free(a.steps);
    return rc;
}

void table_set_undo(struct table_set *s, const struct change_list *changes)
{
    undo_from(s, changes, 0);
}
