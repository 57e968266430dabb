/* peers: which VNI's routes lead to which other VNI. */
#include "controller/core/core_internal.h"

bool peer_index_init(struct peer_index *p)
{
    p->out = table_set_new();
    return p->out != NULL;
}

void peer_index_fini(struct peer_index *p)
{
    struct map_slot *slot;
    uint32_t at = 0;

    while ((slot = map_each(&p->in, &at))) {
        free(slot->p);
    }
    map_fini(&p->in);
    table_set_free(p->out);
    p->out = NULL;
}

const struct peer_sources *peer_index_sources(const struct peer_index *p, uint32_t vni)
{
    struct map_slot *slot = map_find(&p->in, vni);

    return slot ? slot->p : NULL;
}

/* Index of the first source >= `vni`. */
static uint32_t source_search(const struct peer_sources *s, uint32_t vni)
{
    uint32_t low = 0;
    uint32_t high = s->count;

    while (low < high) {
        uint32_t mid = (low + high) / 2;

        if (s->at[mid].vni < vni) {
            low = mid + 1;
        } else {
            high = mid;
        }
    }
    return low;
}

static void source_add(struct peer_index *p, uint32_t target, uint32_t vni)
{
    struct map_slot *slot = core_need(map_add(&p->in, target));
    struct peer_sources *s = slot->p;
    uint32_t i;

    if (!s || s->count == s->cap) {
        uint32_t cap = s ? 2 * s->cap : 2;
        size_t size = sizeof(*s) + cap * sizeof(s->at[0]);
        struct peer_sources *grown = core_need(s ? realloc(s, size) : calloc(1, size));

        grown->cap = cap;
        s = grown;
        slot->p = s;
    }
    i = source_search(s, vni);
    if (i == s->count || s->at[i].vni != vni) {
        memmove(&s->at[i + 1], &s->at[i], (s->count - i) * sizeof(s->at[0]));
        s->at[i] = (struct peer_source){ .vni = vni };
        s->count++;
    }
    s->at[i].routes++;
}

static void source_drop(struct peer_index *p, uint32_t target, uint32_t vni)
{
    struct map_slot *slot = map_find(&p->in, target);
    struct peer_sources *s = slot ? slot->p : NULL;
    uint32_t i = s ? source_search(s, vni) : 0;

    assert(s && i < s->count && s->at[i].vni == vni);
    if (--s->at[i].routes > 0) {
        return;
    }
    s->count--;
    memmove(&s->at[i], &s->at[i + 1], (s->count - i) * sizeof(s->at[0]));
    if (s->count == 0) {
        free(s);
        map_remove(&p->in, slot);
    }
}

struct update {
    struct peer_index *index;
    uint32_t vni;
    struct rows_step *steps;
    uint32_t count;
    uint32_t cap;
};

static void update_visit(void *ctx, const struct row *before, const struct row *after)
{
    struct update *u = ctx;
    uint32_t was = row_peer(before);
    uint32_t is = row_peer(after);
    struct row row;

    if (was == is) {
        return;
    }
    row = is ? *after : *before;
    if (!is) {
        row.value = NULL;
        row.value_len = 0;
    }
    if (u->count == u->cap) {
        u->cap = u->cap ? 2 * u->cap : 16;
        u->steps = core_need(realloc(u->steps, u->cap * sizeof(*u->steps)));
    }
    u->steps[u->count++].row = row;
    if (is) {
        source_add(u->index, is, u->vni);
    }
    if (was) {
        source_drop(u->index, was, u->vni);
    }
}

void peer_index_update(struct peer_index *p, uint32_t vni, const struct rows *before,
                       const struct rows *after)
{
    struct update u = { .index = p, .vni = vni };
    struct rows_change counts;
    struct rows *made;

    rows_compare_walk(before, after, TABLE_VXLAN_ROUTE, update_visit, &u);
    if (u.count > 0) {
        core_must(!rows_edit(table_set_rows(p->out, vni, TABLE_VXLAN_ROUTE),
                             TABLE_VXLAN_ROUTE, vni, u.steps, u.count, &made, &counts));
        core_must(!table_set_put(p->out, vni, TABLE_VXLAN_ROUTE, made));
    }
    free(u.steps);
}

/* Goes to the next page with rows; the page index and bounds of an iterator that
 * stands at a page's end are those of that page. */
static void enter_page(struct rows_iter *it)
{
    while (it->p == it->end && it->page + 1 < rows_page_count(it->rows)) {
        struct rows_page page = rows_page_at(it->rows, ++it->page);

        it->p = page.data;
        it->end = page.data + page.bytes;
    }
}

/* Steps over pages that both hold, as long as both stand at the start of the same. */
static void skip_shared(struct rows_iter *a, struct rows_iter *b)
{
    for (;;) {
        enter_page(a);
        enter_page(b);
        if (a->p == a->end || a->p != b->p) {
            return;
        }
        a->p = a->end;
        b->p = b->end;
    }
}

void rows_compare_walk(const struct rows *before, const struct rows *after,
                       enum table_id table, rows_visit *visit, void *ctx)
{
    struct rows_iter b = rows_begin(before, table);
    struct rows_iter a = rows_begin(after, table);
    struct row b_row = { 0 };
    struct row a_row = { 0 };
    bool has_b = false;
    bool has_a = false;

    for (;;) {
        int order;

        if (before && after && !has_b && !has_a) {
            skip_shared(&b, &a);
        }
        has_b = has_b || rows_next(&b, &b_row);
        has_a = has_a || rows_next(&a, &a_row);
        if (!has_b && !has_a) {
            return;
        }
        order = !has_b ? 1 : !has_a ? -1 : row_compare(&b_row, &a_row);
        if (order != 0 || b_row.value_len != a_row.value_len ||
            memcmp(b_row.value, a_row.value, b_row.value_len) != 0) {
            visit(ctx, order <= 0 ? &b_row : NULL, order >= 0 ? &a_row : NULL);
        }
        has_b = has_b && order > 0;
        has_a = has_a && order < 0;
    }
}
