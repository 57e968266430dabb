#include "controller/sync/sync_impl.h"

#include <stdlib.h>
#include <string.h>

/* ---- works ---- */

struct work work_of_node(enum work_kind kind, uint8_t table, struct tree_node node)
{
    uint64_t vnis = UINT64_C(1) << (24 - 6 * node.depth);
    uint64_t lo = position(table, node.vni, 0);

    return (struct work){ .lo = lo,
                          .hi = lo + (vnis << 32) - 1,
                          .kind = (uint8_t)kind,
                          .table = table,
                          .depth = node.depth };
}

static struct work work_of_bucket(enum work_kind kind, uint8_t table, uint32_t vni,
                                  struct bucket bucket)
{
    uint64_t lo = position(table, vni, bucket.path);

    return (struct work){ .lo = lo,
                          .hi = lo + (UINT64_C(1) << (32 - 4 * bucket.depth)) - 1,
                          .kind = (uint8_t)kind,
                          .table = table,
                          .depth = TREE_DEPTH,
                          .bucket_depth = bucket.depth };
}

static struct bucket work_bucket(const struct work *w)
{
    return (struct bucket){ w->bucket_depth, (uint32_t)w->lo };
}

/* Index of the first work (in array order: descending) whose `lo` is <= `at`. */
static uint32_t work_index(const struct sync *s, uint64_t at)
{
    uint32_t from = 0;
    uint32_t to = s->work_count;

    while (from < to) {
        uint32_t mid = from + (to - from) / 2;

        if (s->works[mid].lo > at) {
            from = mid + 1;
        } else {
            to = mid;
        }
    }
    return from;
}

enum rc walk_add(struct sync *s, const struct work *add, uint32_t count)
{
    uint32_t at;

    if (count == 0) {
        return RC_OK;
    }
    if (s->work_count + count > s->work_cap) {
        uint32_t cap = s->work_cap * 2 + count + 64;
        struct work *more = realloc(s->works, cap * sizeof(*more));

        if (!more) {
            return RC_NO_MEMORY;
        }
        s->works = more;
        s->work_cap = cap;
    }
    at = work_index(s, add[0].lo);
    memmove(s->works + at + count, s->works + at,
            (s->work_count - at) * sizeof(*s->works));
    for (uint32_t i = 0; i < count; i++) {
        s->works[at + i] = add[count - 1 - i];
    }
    s->work_count += count;
    return RC_OK;
}

const struct work *walk_find(const struct sync *s, uint64_t lo, uint64_t hi)
{
    uint32_t i = work_index(s, hi); /* the last that begins at or before `hi` */

    return i < s->work_count && s->works[i].hi >= lo ? &s->works[i] : NULL;
}

static struct work *next_work(const struct sync *s)
{
    return s->work_count > 0 ? &s->works[s->work_count - 1] : NULL;
}

static void query_free(struct query *q)
{
    free(q->children);
    free(q);
}

static void pop_query(struct sync *s)
{
    struct query *q = s->queries;

    s->queries = q->next;
    if (!s->queries) {
        s->queries_end = &s->queries;
    }
    s->query_count--;
    query_free(q);
}

static void stop_asking(struct sync *s)
{
    if (s->asking) {
        query_free(s->asking);
    }
    rows_unref(s->asked);
    s->asking = NULL;
    s->asked = NULL;
}

void walk_fini(struct sync *s)
{
    while (s->queries) {
        pop_query(s);
    }
    stop_asking(s);
    free(s->works);
    s->works = NULL;
    s->work_count = 0;
    s->work_cap = 0;
    s->is_putting = false;
}

void walk_restart(struct sync *s)
{
    changes_fini(s);
    for (struct query *q = s->queries; q; q = q->next) {
        q->is_void = true;
    }
    stop_asking(s);
    s->work_count = 0;
    s->is_putting = false;
    s->must_end = true;
    for (int t = TABLE_VNI; t < TABLE_COUNT; t++) {
        struct work w = work_of_node(WORK_QUERY, (uint8_t)t, (struct tree_node){ 0 });

        if (walk_add(s, &w, 1) != RC_OK) {
            s->has_device = false; /* nothing is sent; the session's timeout ends it */
        }
    }
}

bool walk_is_over(const struct sync *s)
{
    return s->work_count == 0 && s->query_count == 0 && !s->asking && !s->is_putting;
}

bool walk_can_ask(const struct sync *s)
{
    const struct work *w = next_work(s);

    return !s->is_putting &&
           (s->asking || (w && w->kind == WORK_QUERY && s->query_count < QUERIES_MAX));
}

/* Whether an answer may still add works of a table that comes before this one. */
static bool is_early(const struct sync *s, const struct work *w)
{
    for (const struct query *q = s->queries; q; q = q->next) {
        for (uint32_t i = 0; !q->is_void && i < q->item_count; i++) {
            if (table_rank(q->items[i].table) < table_rank(w->table)) {
                return true;
            }
        }
    }
    return false;
}

bool walk_can_send(const struct sync *s)
{
    const struct work *w = next_work(s);

    return s->is_putting || (w && w->kind != WORK_QUERY && !is_early(s, w));
}

/* ---- asking ---- */

static struct query *query_new(void)
{
    struct query *q = calloc(1, sizeof(*q));

    if (q) {
        q->children = malloc((size_t)QUERY_MAX * 64 * sizeof(*q->children));
    }
    if (q && !q->children) {
        free(q);
        q = NULL;
    }
    return q;
}

/* Closes the item with its `n` children behind those of the one before. */
static void end_item(struct query *q, unsigned n)
{
    q->first[q->item_count + 1] = q->first[q->item_count] + n;
    q->item_count++;
}

/* Takes the next work as an item; false: no more of that kind. */
static bool begin_item(struct sync *s, struct query *q, uint32_t *rows)
{
    const struct work *w = next_work(s);
    struct query_item *of = &q->items[q->item_count];
    enum table_id table;

    if (!w || w->kind != WORK_QUERY) {
        return false;
    }
    of->table = w->table;
    of->node = (struct tree_node){ w->depth, position_vni(w->lo) };
    of->bucket = work_bucket(w);
    s->work_count--;
    table = (enum table_id)of->table;
    if (of->node.depth < TREE_DEPTH) {
        end_item(q, table_set_children(s->desired, table, of->node,
                                       q->children + q->first[q->item_count]));
        *rows -= *rows < 64 ? *rows : 64;
        return true;
    }
    s->asked = rows_ref(table_set_rows(s->desired, of->node.vni, table));
    s->asked_at = rows_begin(s->asked, table);
    memset(s->asked_buckets, 0, sizeof(s->asked_buckets));
    if (!s->asked) {
        end_item(q, 0);
    }
    return true;
}

/* Goes on with the digests of a VNI's buckets; false: the slice is over before. */
static bool digest_item(struct sync *s, struct query *q, uint32_t *rows)
{
    const struct query_item *of = &q->items[q->item_count];
    struct tree_child *to = q->children + q->first[q->item_count];
    unsigned n = 0;

    if (!rows_bucket_digests_on(&s->asked_at, of->node.vni, of->bucket, rows,
                                s->asked_buckets)) {
        return false;
    }
    for (uint8_t i = 0; i < 16; i++) {
        if (s->asked_buckets[i].count > 0) {
            to[n++] = (struct tree_child){ i, s->asked_buckets[i] };
        }
    }
    end_item(q, n);
    rows_unref(s->asked);
    s->asked = NULL;
    return true;
}

static void send_query(struct sync *s, struct ctl_query *ret)
{
    struct query *q = s->asking;
    uint32_t n = q->first[q->item_count];
    struct tree_child *children = realloc(q->children, (n + 1) * sizeof(*q->children));

    q->children = children ? children : q->children;
    q->id = ++s->last_query_id;
    *s->queries_end = q;
    s->queries_end = &q->next;
    s->query_count++;
    s->asking = NULL;
    ret->query_id = q->id;
    ret->item_count = q->item_count;
    memcpy(ret->items, q->items, sizeof(q->items));
    /* A QUERY's item takes some 20 bytes, an answer's child some 12. */
    s->query_bytes += 20 * (2 * q->item_count + 1) + 12 * n;
}

bool walk_ask(struct sync *s, struct ctl_query *ret)
{
    uint32_t most = s->work_count > WORKS_WIDE ? 8 : QUERY_MAX;
    uint32_t rows = SLICE_DIGESTS;

    s->asking = s->asking ? s->asking : query_new();
    if (!s->asking) {
        return false;
    }
    while (s->asking->item_count < most && rows > 0) {
        if (s->asked && !digest_item(s, s->asking, &rows)) {
            return false;
        }
        if (s->asking->item_count < most && !begin_item(s, s->asking, &rows)) {
            break;
        }
    }
    while (s->asked) { /* begun with the last of the slice */
        if (!digest_item(s, s->asking, &rows)) {
            return false;
        }
    }
    send_query(s, ret);
    return true;
}

/* ---- answers ---- */

/* What to do about a child of the VNI tree that differs. */
static struct work work_of_child(const struct sync *s, const struct query_item *of,
                                 uint8_t index, uint64_t device_count)
{
    struct tree_node node = { (uint8_t)(of->node.depth + 1), of->node.vni };
    enum work_kind kind = WORK_QUERY;

    node.vni |= (uint32_t)index << (24 - 6 * node.depth);
    if (device_count == 0) {
        kind = WORK_PUT;
    } else if (node.depth == TREE_DEPTH) {
        const struct rows *rows =
            table_set_rows(s->desired, node.vni, (enum table_id)of->table);

        kind = rows_bytes(rows) <= REPLACE_BYTES ? WORK_REPLACE : WORK_QUERY;
    }
    return work_of_node(kind, of->table, node);
}

static struct work work_of_child_bucket(const struct query_item *of, uint8_t index,
                                        uint64_t want_count)
{
    struct bucket b = { (uint8_t)(of->bucket.depth + 1), of->bucket.path };

    b.path |= (uint32_t)index << (32 - 4 * b.depth);
    return work_of_bucket(want_count <= REPLACE_ENTRIES || b.depth == BUCKET_DEPTH_MAX
                              ? WORK_REPLACE
                              : WORK_QUERY,
                          of->table, of->node.vni, b);
}

static uint32_t replace_max(uint8_t table)
{
    return table == TABLE_VXLAN_ROUTE ? REPLACE_ROUTES_MAX : REPLACE_MAX;
}

/* Where most of a bucket's children differ and it is not large, it is sent whole: so
 * it is packed once, and no further questions are asked.
 *
 * Of routes already where two differ: what a VNI lacks of them is one run then, which a
 * device takes as one change.  In parts they could be a set that answers otherwise than
 * both that of before and that of after: a route, and not yet the longer one that takes
 * something out of it. */
static bool is_better_whole(const struct sync *s, const struct query_item *of,
                            uint64_t want_count, uint32_t different)
{
    const struct rows *rows =
        table_set_rows(s->desired, of->node.vni, (enum table_id)of->table);
    uint32_t count = rows_count(rows);
    bool is_route = of->table == TABLE_VXLAN_ROUTE;

    return of->node.depth == TREE_DEPTH && different >= (is_route ? 2 : 8) &&
           count > 0 &&
           want_count * rows_bytes(rows) / count <=
               (is_route ? REPLACE_ROUTES_MAX / 4 * 3 : BATCH_SEND_BYTES);
}

/* Compares one item with what was desired, and adds the works that follow. */
static enum rc compare_item(struct sync *s, const struct query_item *of,
                            const struct tree_child *want, uint32_t want_count,
                            const struct digests_item *have)
{
    struct work works[64];
    uint64_t want_rows = 0;
    uint32_t n = 0;
    uint32_t w = 0;
    uint32_t h = 0;

    while (w < want_count || h < have->child_count) {
        unsigned iw = w < want_count ? want[w].index : UINT8_MAX;
        unsigned ih = h < have->child_count ? have->children[h].index : UINT8_MAX;
        unsigned index = iw < ih ? iw : ih;
        struct digest dw = { 0 };
        struct digest dh = { 0 };

        if (iw == index) {
            dw = want[w++].digest;
        }
        if (ih == index) {
            dh = have->children[h++].digest;
        }
        want_rows += dw.count;
        if (dw.sum != dh.sum || dw.count != dh.count) {
            works[n++] = of->node.depth < TREE_DEPTH
                             ? work_of_child(s, of, (uint8_t)index, dh.count)
                             : work_of_child_bucket(of, (uint8_t)index, dw.count);
        }
    }
    if (is_better_whole(s, of, want_rows, n)) {
        works[0] = work_of_bucket(WORK_REPLACE, of->table, of->node.vni, of->bucket);
        n = 1;
    }
    return walk_add(s, works, n);
}

static bool is_answer(const struct query *q, const struct agent_digests *d)
{
    if (!q || q->id != d->query_id || q->item_count != d->item_count) {
        return false;
    }
    for (uint32_t i = 0; i < q->item_count; i++) {
        const struct digests_item *item = &d->items[i];
        uint32_t max = query_item_child_max(&item->of);

        if (!query_item_equal(&q->items[i], &item->of) || item->child_count > max) {
            return false;
        }
        for (uint32_t c = 0; c < item->child_count; c++) {
            if (item->children[c].index >= max ||
                (c > 0 && item->children[c].index <= item->children[c - 1].index)) {
                return false;
            }
        }
    }
    return true;
}

enum rc sync_digests(struct sync *s, const struct agent_digests *digests,
                     struct err *err)
{
    struct query *q = s->queries;
    enum rc rc = RC_OK;

    if (!is_answer(q, digests)) {
        return err_field(err, RC_INVALID, "digests.query_id", "unasked",
                         "digests that nobody asked for");
    }
    for (uint32_t i = 0; rc == RC_OK && !q->is_void && i < q->item_count; i++) {
        rc = compare_item(s, &q->items[i], q->children + q->first[i],
                          q->first[i + 1] - q->first[i], &digests->items[i]);
    }
    pop_query(s);
    if (rc != RC_OK) {
        walk_restart(s);
    }
    return RC_OK;
}

/* ---- sending ---- */

/* Adds a whole table of a VNI as one run.  False: it grew too large for that. */
static bool pack_replace(struct sync *s, const struct work *work,
                         struct batch_writer *w, uint32_t *looked_at)
{
    enum table_id table = (enum table_id)work->table;
    uint32_t vni = position_vni(work->lo);
    struct bucket bucket = work_bucket(work);
    const struct rows *rows = table_set_rows(s->desired, vni, table);
    struct buf packed = BUF_INIT;
    uint32_t count;
    bool fits;

    if (bucket.depth == 0 && rows_bytes(rows) > replace_max(work->table)) {
        return false;
    }
    count = rows_bucket_pack(rows, table, bucket, &packed);
    *looked_at += rows_count(rows);
    fits = packed.len <= replace_max(work->table) || bucket.depth == BUCKET_DEPTH_MAX;
    if (buf_failed(&packed)) {
        w->buf.failed = true;
    } else if (fits) {
        batch_add_rows(w, BATCH_REPLACE, table, vni, &bucket, packed.data,
                       (uint32_t)packed.len, count);
    }
    buf_fini(&packed);
    return fits;
}

/* Puts rows of the table that is under way, from where it stopped. */
static void pack_putting(struct sync *s, struct batch_writer *w, uint32_t *looked_at)
{
    enum table_id table = (enum table_id)s->put_table;
    const struct rows *rows = table_set_rows(s->desired, s->put_vni, table);
    struct rows_iter it = s->put_key_len > 0
                              ? rows_seek(rows, table, s->put_key, s->put_key_len)
                              : rows_begin(rows, table);
    struct row row;

    while (rows_next(&it, &row)) {
        if (batch_writer_bytes(w) >= BATCH_SEND_BYTES) {
            memcpy(s->put_key, row.key, row.key_len);
            s->put_key_len = row.key_len;
            return;
        }
        batch_add_row(w, BATCH_PUT, table, s->put_vni, &row);
        ++*looked_at;
    }
    s->is_putting = false;
}

/* Takes the first VNI off a WORK_PUT. */
static void pack_put(struct sync *s, struct work *work, struct batch_writer *w,
                     uint32_t *looked_at)
{
    enum table_id table = (enum table_id)work->table;
    uint32_t last = position_vni(work->hi);
    uint32_t from = position_vni(work->lo);
    uint32_t vni = table_set_next(s->desired, from ? from : VNI_MIN, 1u << table);
    struct rows *rows;

    if (vni == 0 || vni >= last) {
        s->work_count--; /* nothing, or nothing behind it */
    } else {
        work->lo = position(work->table, vni + 1, 0);
    }
    if (vni == 0 || vni > last) {
        return;
    }
    rows = table_set_rows(s->desired, vni, table);
    if (rows_bytes(rows) > BATCH_SEND_BYTES / 2) {
        s->is_putting = true;
        s->put_table = (uint8_t)table;
        s->put_vni = vni;
        s->put_key_len = 0;
        return;
    }
    for (uint32_t i = 0; i < rows_page_count(rows); i++) {
        struct rows_page page = rows_page_at(rows, i);

        batch_add_rows(w, BATCH_PUT, table, vni, NULL, page.data, page.bytes,
                       page.count);
    }
    *looked_at += rows_count(rows) + 24;
}

struct blob *walk_pack(struct sync *s)
{
    struct batch_writer w;
    uint32_t looked_at = 0;
    struct blob *ops = NULL;

    batch_writer_init(&w);
    while (batch_writer_bytes(&w) < BATCH_SEND_BYTES && looked_at < SLICE_ROWS) {
        struct work *work = next_work(s);

        if (s->is_putting) {
            pack_putting(s, &w, &looked_at);
        } else if (work && is_early(s, work)) {
            break;
        } else if (work && work->kind == WORK_PUT) {
            pack_put(s, work, &w, &looked_at);
        } else if (work && work->kind == WORK_REPLACE) {
            if (pack_replace(s, work, &w, &looked_at)) {
                s->work_count--;
            } else {
                work->kind = WORK_QUERY;
            }
        } else {
            break;
        }
    }
    if (batch_writer_bytes(&w) > 0) {
        ops = batch_writer_finish(&w);
        if (!ops) {
            walk_restart(s); /* memory is out: what was taken off is lost */
        }
    }
    batch_writer_fini(&w);
    return ops;
}
