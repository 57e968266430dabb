#include "controller/audit/audit_walk.h"

#include <stdlib.h>
#include <string.h>

/* A node or bucket that differs. */
struct step {
    struct query_item of;
    bool is_small; /* its rows are asked for */
};

/* One item of the QUERY under way: its children as desired when it was sent. */
struct asked {
    struct query_item of;
    struct digest want[64];
};

struct audit_walk {
    const struct table_set *desired;
    audit_known_fn *is_known;
    void *ctx;
    struct audit_findings *found;
    struct step *steps; /* the last is next */
    uint32_t count, cap;
    uint64_t id; /* of the message under way, or the last */
    bool is_waiting;
    uint32_t asks;
    struct asked asked[QUERY_MAX];
    uint32_t asked_count;
    struct step rows_of; /* the ROWS under way … */
    struct rows *want;   /* … and the VNI's rows as desired when it was sent */
};

const char *audit_kind_name(unsigned kind)
{
    static const char *const names[] = { "unknown", "missing", "extra", "different" };

    return kind < AUDIT_KINDS ? names[kind] : names[0];
}

uint64_t audit_findings_total(const struct audit_findings *f)
{
    return f->count[AUDIT_MISSING] + f->count[AUDIT_EXTRA] + f->count[AUDIT_DIFFERENT];
}

static bool push(struct audit_walk *w, const struct query_item *of, bool is_small)
{
    if (w->count == w->cap) {
        uint32_t cap = w->cap * 2 + 64;
        struct step *more = realloc(w->steps, cap * sizeof(*more));

        if (!more) {
            return false;
        }
        w->steps = more;
        w->cap = cap;
    }
    w->steps[w->count++] = (struct step){ *of, is_small };
    return true;
}

static bool is_as_desired(const struct table_set *desired, const struct query_item *of,
                          const struct digest *observed)
{
    struct digest want = table_set_digest(desired, (enum table_id)of->table, of->node);

    return want.sum == observed[of->table].sum &&
           want.count == observed[of->table].count;
}

struct audit_walk *audit_walk_new(const struct table_set *desired, uint32_t vni,
                                  const struct digest *observed,
                                  audit_known_fn *is_known, void *ctx,
                                  struct audit_findings *ret)
{
    struct audit_walk *w = calloc(1, sizeof(*w));
    bool is_full = !w;

    if (w) {
        w->desired = desired;
        w->is_known = is_known;
        w->ctx = ctx;
        w->found = ret;
    }
    for (unsigned t = TABLE_COUNT; !is_full && t-- > TABLE_VNI;) {
        struct query_item of = { .table = (uint8_t)t,
                                 .node = { vni ? TREE_DEPTH : 0, vni } };

        if (!observed || !is_as_desired(desired, &of, observed)) {
            is_full = !push(w, &of, false);
        }
    }
    if (is_full) {
        audit_walk_free(w);
        return NULL;
    }
    return w;
}

void audit_walk_free(struct audit_walk *w)
{
    if (w) {
        rows_unref(w->want);
        free(w->steps);
        free(w);
    }
}

bool audit_walk_is_over(const struct audit_walk *w)
{
    return w->count == 0 && !w->is_waiting;
}

/* ---- asking ---- */

static struct rows *desired_rows(const struct audit_walk *w,
                                 const struct query_item *of)
{
    return table_set_rows(w->desired, of->node.vni, (enum table_id)of->table);
}

static void ask_item(struct audit_walk *w, const struct query_item *of)
{
    struct asked *a = &w->asked[w->asked_count++];
    struct tree_child children[64];
    unsigned n;

    memset(a, 0, sizeof(*a));
    a->of = *of;
    if (of->node.depth == TREE_DEPTH) {
        rows_bucket_digests(desired_rows(w, of), (enum table_id)of->table, of->node.vni,
                            of->bucket, a->want);
        return;
    }
    n = table_set_children(w->desired, (enum table_id)of->table, of->node, children);
    for (unsigned i = 0; i < n; i++) {
        a->want[children[i].index] = children[i].digest;
    }
}

static void ask_rows(struct audit_walk *w, struct ctl_msg *ret)
{
    w->rows_of = w->steps[--w->count];
    w->want = rows_ref(desired_rows(w, &w->rows_of.of));
    ret->kind = CTL_ROWS;
    ret->rows = (struct ctl_rows){ .ask_id = w->id, .of = w->rows_of.of };
}

bool audit_walk_next(struct audit_walk *w, struct ctl_msg *ret)
{
    if (w->is_waiting || w->count == 0) {
        return false;
    }
    memset(ret, 0, sizeof(*ret));
    w->id = AUDIT_QUERY_ID | ++w->asks;
    w->is_waiting = true;
    if (w->steps[w->count - 1].is_small) {
        ask_rows(w, ret);
        return true;
    }
    w->asked_count = 0;
    ret->kind = CTL_QUERY;
    ret->query.query_id = w->id;
    while (w->count > 0 && !w->steps[w->count - 1].is_small &&
           w->asked_count < QUERY_MAX) {
        ret->query.items[w->asked_count] = w->steps[--w->count].of;
        ask_item(w, &ret->query.items[w->asked_count]);
    }
    ret->query.item_count = w->asked_count;
    return true;
}

/* ---- digests ---- */

/* Counted without being looked at. */
static void count_only(struct audit_walk *w, struct digest want, struct digest have)
{
    w->found->is_cut = true;
    if (want.count > have.count) {
        w->found->count[AUDIT_MISSING] += want.count - have.count;
    } else if (have.count > want.count) {
        w->found->count[AUDIT_EXTRA] += have.count - want.count;
    } else {
        w->found->count[AUDIT_DIFFERENT]++;
    }
}

static struct query_item child_of(const struct query_item *of, unsigned index)
{
    struct query_item child = *of;

    if (of->node.depth < TREE_DEPTH) {
        child.node.depth++;
        child.node.vni |= (uint32_t)index << (24 - 6 * child.node.depth);
    } else {
        child.bucket.depth++;
        child.bucket.path |= (uint32_t)index << (32 - 4 * child.bucket.depth);
    }
    return child;
}

static enum rc child_differs(struct audit_walk *w, const struct query_item *of,
                             unsigned index, struct digest want, struct digest have)
{
    struct query_item child = child_of(of, index);
    uint64_t most = want.count > have.count ? want.count : have.count;
    bool is_small = child.node.depth == TREE_DEPTH &&
                    (most <= AUDIT_ROWS_MAX || child.bucket.depth == BUCKET_DEPTH_MAX);

    if (w->found->listed == AUDIT_LISTED_MAX || w->asks + w->count >= AUDIT_ASKS_MAX) {
        count_only(w, want, have);
        return RC_OK;
    }
    return push(w, &child, is_small) ? RC_OK : RC_NO_MEMORY;
}

static enum rc compare_item(struct audit_walk *w, const struct asked *a,
                            const struct digests_item *have)
{
    unsigned max = query_item_child_max(&a->of);
    unsigned h = 0;

    if (!query_item_equal(&a->of, &have->of)) {
        return RC_INVALID;
    }
    for (unsigned i = 0; i < max; i++) {
        struct digest is = { 0 };
        enum rc rc;

        if (h < have->child_count && have->children[h].index == i) {
            is = have->children[h++].digest;
        }
        if (is.sum == a->want[i].sum && is.count == a->want[i].count) {
            continue;
        }
        rc = child_differs(w, &a->of, i, a->want[i], is);
        if (rc != RC_OK) {
            return rc;
        }
    }
    return h == have->child_count ? RC_OK : RC_INVALID;
}

enum rc audit_walk_digests(struct audit_walk *w, const struct agent_digests *d)
{
    enum rc rc = RC_OK;

    if (!w->is_waiting || d->query_id != w->id || d->item_count != w->asked_count) {
        return RC_INVALID;
    }
    w->is_waiting = false;
    for (uint32_t i = 0; rc == RC_OK && i < d->item_count; i++) {
        rc = compare_item(w, &w->asked[i], &d->items[i]);
    }
    return rc;
}

/* ---- rows ---- */

static void note(struct audit_walk *w, enum audit_kind kind, const struct row *want,
                 const struct row *have)
{
    struct audit_findings *f = w->found;
    const struct query_item *of = &w->rows_of.of;
    const struct row *key = want ? want : have;
    struct audit_difference *d;

    if (kind != AUDIT_EXTRA && w->is_known &&
        w->is_known(w->ctx, (enum table_id)of->table, of->node.vni, key)) {
        f->refused++;
        return;
    }
    f->count[kind]++;
    if (f->listed == AUDIT_LISTED_MAX) {
        return;
    }
    d = &f->at[f->listed++];
    *d = (struct audit_difference){ .kind = (uint8_t)kind,
                                    .table = of->table,
                                    .vni = of->node.vni,
                                    .key_len = key->key_len,
                                    .expected_len = want ? want->value_len : 0,
                                    .found_len = have ? have->value_len : 0 };
    memcpy(d->key, key->key, key->key_len);
    if (want) {
        memcpy(d->expected, want->value, want->value_len);
    }
    if (have) {
        memcpy(d->found, have->value, have->value_len);
    }
}

static void compare_rows(struct audit_walk *w, const struct rows *want,
                         const struct rows *have)
{
    enum table_id table = (enum table_id)w->rows_of.of.table;
    struct rows_iter a = rows_begin(want, table);
    struct rows_iter b = rows_begin(have, table);
    struct row x;
    struct row y;
    bool has_x = rows_next(&a, &x);
    bool has_y = rows_next(&b, &y);

    while (has_x || has_y) {
        int order = !has_x ? 1 : !has_y ? -1 : row_compare(&x, &y);

        if (order < 0) {
            note(w, AUDIT_MISSING, &x, NULL);
        } else if (order > 0) {
            note(w, AUDIT_EXTRA, NULL, &y);
        } else if (x.value_len != y.value_len ||
                   memcmp(x.value, y.value, x.value_len) != 0) {
            note(w, AUDIT_DIFFERENT, &x, &y);
        }
        has_x = order <= 0 ? rows_next(&a, &x) : has_x;
        has_y = order >= 0 ? rows_next(&b, &y) : has_y;
    }
}

/* The rows of the bucket that the device told; they must be of it and in order. */
static enum rc take_rows(const struct audit_walk *w, const struct agent_rows *r,
                         struct rows **ret)
{
    const struct query_item *of = &w->rows_of.of;
    struct batch_reader in;
    struct batch_run run;
    uint32_t count;
    uint32_t index;

    *ret = NULL;
    if (!r->rows) {
        return RC_OK;
    }
    if (batch_check(r->rows->data, r->rows->len, false, &count, &index, NULL)) {
        return RC_INVALID;
    }
    in = batch_reader_of(r->rows->data, r->rows->len);
    if (!batch_next(&in, &run) || run.op != BATCH_PUT || run.table != of->table ||
        run.vni != of->node.vni) {
        return RC_INVALID;
    }
    return rows_load((enum table_id)run.table, run.vni, run.rows, run.bytes, NULL, ret);
}

enum rc audit_walk_rows(struct audit_walk *w, const struct agent_rows *r)
{
    enum table_id table = (enum table_id)w->rows_of.of.table;
    uint32_t vni = w->rows_of.of.node.vni;
    struct buf packed = BUF_INIT;
    struct rows *want = NULL;
    struct rows *have = NULL;
    enum rc rc;

    if (!w->is_waiting || r->ask_id != w->id || r->rc != RC_OK) {
        return RC_INVALID;
    }
    w->is_waiting = false;
    rc = take_rows(w, r, &have);
    if (rc == RC_OK &&
        rows_bucket_pack(w->want, table, w->rows_of.of.bucket, &packed) > 0) {
        rc = buf_failed(&packed) ? RC_NO_MEMORY
                                 : rows_load(table, vni, packed.data,
                                             (uint32_t)packed.len, NULL, &want);
    }
    if (rc == RC_OK) {
        compare_rows(w, want, have);
    }
    buf_fini(&packed);
    rows_unref(want);
    rows_unref(have);
    rows_unref(w->want);
    w->want = NULL;
    return rc;
}
