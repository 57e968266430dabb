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
        sources_free(slot->p);
    }
    map_fini(&p->in);
    table_set_free(p->out);
    p->out = NULL;
}

const struct sources *peer_index_sources(const struct peer_index *p, uint32_t vni)
{
    struct map_slot *slot = map_find(&p->in, vni);

    return slot ? slot->p : NULL;
}

static void source_add(struct peer_index *p, uint32_t target, uint32_t vni)
{
    struct map_slot *slot = core_need(map_add(&p->in, target));
    struct sources *s = slot->p;

    sources_add(&s, vni);
    slot->p = s;
}

static void source_drop(struct peer_index *p, uint32_t target, uint32_t vni)
{
    struct map_slot *slot = map_find(&p->in, target);
    struct sources *s = slot ? slot->p : NULL;

    sources_drop(&s, vni);
    if (s) {
        slot->p = s;
    } else {
        map_remove(&p->in, slot);
    }
}

void peer_update_begin(struct peer_update *u, struct peer_index *p, uint32_t vni)
{
    *u = (struct peer_update){ .index = p,
                               .vni = vni,
                               .out = table_set_rows(p->out, vni, TABLE_VXLAN_ROUTE) };
}

void peer_update_row(struct peer_update *u, const struct row *before,
                     const struct row *after, uint32_t *units)
{
    const struct row *key = after ? after : before;
    uint32_t is = row_peer(after);
    uint32_t was = 0;
    struct row have;

    if (!is && !row_peer(before)) {
        return;
    }
    units_spend(units, 2);
    if (u->out && rows_find(u->out, TABLE_VXLAN_ROUTE, key->key, key->key_len, &have)) {
        was = row_peer(&have);
    }
    if (was == is) {
        return;
    }
    if (u->count == u->cap) {
        u->cap = u->cap ? 2 * u->cap : 16;
        u->steps = core_need(realloc(u->steps, u->cap * sizeof(*u->steps)));
    }
    u->steps[u->count].row = *key;
    if (!is) {
        u->steps[u->count].row.value = NULL;
        u->steps[u->count].row.value_len = 0;
    }
    u->count++;
    if (is) {
        source_add(u->index, is, u->vni);
    }
    if (was) {
        source_drop(u->index, was, u->vni);
    }
}

void peer_update_end(struct peer_update *u)
{
    struct rows_change counts;
    struct rows *made;

    if (u->count > 0) {
        core_must(!rows_edit(u->out, TABLE_VXLAN_ROUTE, u->vni, u->steps, u->count,
                             &made, &counts));
        core_must(!table_set_put(u->index->out, u->vni, TABLE_VXLAN_ROUTE, made));
    }
    free(u->steps);
}

bool peers_follow(struct peer_index *p, const struct change_list *l, bool is_undo,
                  struct peers_at *at, uint32_t *units)
{
    for (; at->change < l->count; at->change++) {
        const struct table_change *ch =
            &l->at[is_undo ? l->count - 1 - at->change : at->change];
        struct peer_update u;
        struct row b;
        struct row a;

        if (ch->table != TABLE_VXLAN_ROUTE) {
            continue;
        }
        if (!at->is_comparing) {
            rows_compare_begin(&at->compare, is_undo ? ch->after : ch->before,
                               is_undo ? ch->before : ch->after, TABLE_VXLAN_ROUTE);
            at->is_comparing = true;
        }
        peer_update_begin(&u, p, ch->vni);
        while (rows_compare_next(&at->compare, units, &b, &a)) {
            peer_update_row(&u, b.key ? &b : NULL, a.key ? &a : NULL, units);
        }
        peer_update_end(&u);
        if (!at->compare.is_over) {
            return false;
        }
        at->is_comparing = false;
    }
    return true;
}
