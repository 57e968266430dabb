/* switch_seen - what packets get, out of the structures that they are looked up in:
 * what read-backs tell, and what a write finds there. */
#include "agent/fwdh/switch_impl.h"

#include <string.h>

/* The entry that is named as `name`, with nothing in it yet. */
static void name_of(const struct phys_entry *name, struct phys_entry *ret)
{
    *ret = *name;
    ret->half = 0;
    ret->action = phys_table_desc((enum phys_table)name->table)->actions[0];
    memset(ret->data, 0, sizeof(ret->data));
}

static void put_be24(uint8_t *to, uint32_t v)
{
    to[0] = (uint8_t)(v >> 16);
    store_be16(to + 1, (uint16_t)v);
}

/* ---- exact tables ---- */

struct exact_entry hswitch_exact_key(const struct phys_entry *e)
{
    switch ((enum phys_table)e->table) {
    case PHYS_VNI:
        return (struct exact_entry){ .w0 = hvni_key(load_be24(e->key)) };
    case PHYS_VM_NC_CONFLICT:
        return (struct exact_entry){ .w0 = load_be64(e->key + 3),
                                     .w1 = load_be64(e->key + 11),
                                     .vni = load_be24(e->key) | HCONFLICT_VNI };
    default: /* vm_nc and vm_nc_spill: vni(3) tag(1) key(4) */
        return (struct exact_entry){ .w0 = hvm_key(load_be24(e->key), e->key[3] & 1,
                                                   load_be32(e->key + 4)) };
    }
}

struct exact *hswitch_exact(struct hhalf *h, enum phys_table table)
{
    switch (table) {
    case PHYS_VNI:
        return &h->vni;
    case PHYS_VM_NC:
        return &h->vm_nc;
    case PHYS_VM_NC_SPILL:
        return &h->spill;
    case PHYS_VM_NC_CONFLICT:
        return &h->conflict;
    default:
        return NULL;
    }
}

static const struct exact *exact_of(const struct hhalf *h, enum phys_table table)
{
    return hswitch_exact((struct hhalf *)h, table); /* only looked into */
}

static void exact_data(uint64_t value, struct phys_entry *ret)
{
    if (ret->table == PHYS_VNI) {
        ret->data[0] = (uint8_t)(value >> 32);
        ret->data[1] = (uint8_t)(value >> 40);
        store_be16(ret->data + 2, (uint16_t)(value >> 48));
    } else {
        put_be24(ret->data, (uint32_t)value);
    }
}

/* The entry of what stands in a slot. */
static void exact_entry_of(enum phys_table table, const struct exact_entry *x,
                           struct phys_entry *ret)
{
    struct phys_entry e = { .table = (uint8_t)table };

    phys_mask_exact(table, e.mask);
    if (table == PHYS_VNI) {
        put_be24(e.key, (uint32_t)(x->w0 & EXACT_VNI_KEY) >> 1);
    } else if (table == PHYS_VM_NC_CONFLICT) {
        hkey_store((struct hkey){ x->w0, x->w1, x->vni & 0xffffff }, e.key);
    } else {
        put_be24(e.key, (uint32_t)(x->w0 >> 33) & 0xffffff);
        e.key[3] = x->w0 >> 32 & 1;
        store_be32(e.key + 4, (uint32_t)x->w0);
    }
    name_of(&e, ret);
    exact_data(table == PHYS_VNI ? x->w0 : x->val, ret);
}

/* ---- the others ---- */

static void tcam_data(const struct htrie_row *row, struct phys_entry *ret)
{
    store_be16(ret->data, row->part);
    ret->data[2] = row->scope;
    put_be24(ret->data + 3, row->vni);
    put_be24(ret->data + 6, row->idx);
}

/* A row that another one of its prefix hides answers nothing: its record has it. */
static bool tcam_seen(const struct hhalf *h, const struct phys_entry *e,
                      struct phys_entry *ret)
{
    const struct hrecords *records = &h->records[PHYS_ROUTE_TCAM];
    struct hkey key = hswitch_route_key(e, e->key);
    const struct htrie_row *row =
        htrie_find(&h->trie, &key, (unsigned)hswitch_route_length(e));
    uint32_t record;

    if (!row || row->priority < e->priority) {
        return false;
    }
    if (row->priority == e->priority) {
        tcam_data(row, ret);
        return true;
    }
    record = hrecords_find(records, e);
    return record != HRECORDS_NONE && hrecords_get(records, record, ret);
}

static bool nc_seen(const struct hhalf *h, uint32_t index, struct phys_entry *ret)
{
    uint64_t word[2];

    if (index >= HNC_COUNT || !hnc_read(&h->nc[index], word)) {
        return false;
    }
    ret->action = index >= PHYS_NC6_FIRST ? PHYS_NC6 : PHYS_NC4;
    memcpy(ret->data, word, index >= PHYS_NC6_FIRST ? 16 : 4);
    return true;
}

static bool bucket_seen(const struct hhalf *h, const struct phys_entry *e,
                        struct phys_entry *ret)
{
    const _Atomic(uint32_t) *table =
        e->table == PHYS_NEXT_HOP ? h->next_hop : h->fallback;
    uint32_t value =
        atomic_load_explicit(&table[hswitch_bucket_of(e)], memory_order_relaxed);

    if (e->table == PHYS_NEXT_HOP) {
        store_be16(ret->data, (uint16_t)value);
    } else {
        put_be24(ret->data, value);
    }
    return (value & HROW_SET) != 0;
}

static bool port_out_seen(const struct hhalf *h, const struct phys_entry *e,
                          struct phys_entry *ret)
{
    const struct hport_out *row = atomic_load_explicit(
        &h->port_out[hswitch_port_out_of(e)], memory_order_relaxed);
    unsigned source;

    if (!row) {
        return false;
    }
    source = row->action == PHYS_SRC4 ? 4 : row->action == PHYS_SRC6 ? 16 : 0;
    ret->action = row->action;
    memcpy(ret->data, row->source, source);
    memcpy(ret->data + source, row->smac, 6);
    memcpy(ret->data + source + 6, row->dmac, 6);
    return true;
}

/* Between a write and its publishing the records are what counts. */
static bool acl_seen(const struct hhalf *h, const struct phys_entry *e,
                     struct phys_entry *ret)
{
    const struct hrecords *records = &h->records[PHYS_ACL];
    const struct hacl *acl = atomic_load_explicit(&h->acl, memory_order_relaxed);
    uint32_t at;

    if (h->acl_is_stale) {
        at = hrecords_find(records, e);
        return at != HRECORDS_NONE && hrecords_get(records, at, ret);
    }
    at = acl ? hacl_find_entry(acl, e) : HRECORDS_NONE;
    if (at != HRECORDS_NONE) {
        hacl_entry(acl, at, ret);
    }
    return at != HRECORDS_NONE;
}

bool hswitch_seen(const struct hhalf *h, const struct phys_entry *e,
                  struct phys_entry *ret)
{
    struct exact_entry key;
    uint64_t value;
    uint32_t at;

    name_of(e, ret);
    switch ((enum phys_table)e->table) {
    case PHYS_VNI:
    case PHYS_VM_NC:
    case PHYS_VM_NC_SPILL:
    case PHYS_VM_NC_CONFLICT:
        key = hswitch_exact_key(e);
        if (!exact_find(exact_of(h, (enum phys_table)e->table), &key, &value)) {
            return false;
        }
        exact_data(value, ret);
        return true;
    case PHYS_ROUTE_TCAM:
        return tcam_seen(h, e, ret);
    case PHYS_NC:
        return nc_seen(h, load_be24(e->key), ret);
    case PHYS_NEXT_HOP:
    case PHYS_FALLBACK:
        return bucket_seen(h, e, ret);
    case PHYS_PORT_OUT:
        return port_out_seen(h, e, ret);
    case PHYS_ACL:
        return acl_seen(h, e, ret);
    default: /* vtep and source: what is compiled of them cannot be told apart */
        at = hrecords_find(&h->records[e->table], e);
        return at != HRECORDS_NONE && hrecords_get(&h->records[e->table], at, ret);
    }
}

bool hswitch_is_recorded(const struct hhalf *h, const struct phys_entry *seen)
{
    const struct hrecords *records = &h->records[seen->table];
    uint32_t row = hrecords_find(records, seen);
    struct phys_entry record;

    return row != HRECORDS_NONE && hrecords_get(records, row, &record) &&
           record.action == seen->action &&
           memcmp(record.data, seen->data, sizeof(record.data)) == 0;
}

/* ---- along the structures ---- */

/* Of a slot: what packets get by a key that no record has, or that stands twice. */
static bool stray_slot(const struct hhalf *h, enum phys_table table,
                       const struct exact_entry *x, bool is_found,
                       struct phys_entry *ret)
{
    struct phys_entry e;

    exact_entry_of(table, x, &e);
    if (is_found) {
        *ret = e;
        return hrecords_find(&h->records[table], &e) == HRECORDS_NONE;
    }
    return hswitch_seen(h, &e, ret); /* of a key that no lookup finds: nobody gets it */
}

static bool stray_exact(const struct hhalf *h, enum phys_table table, struct hcursor *c,
                        uint32_t *budget, struct phys_entry *ret)
{
    struct exact_entry x;
    bool is_found;

    while (exact_next(exact_of(h, table), &c->slots, budget, &x, &is_found)) {
        if (stray_slot(h, table, &x, is_found, ret)) {
            return true;
        }
    }
    return false;
}

static bool stray_tcam(const struct hswitch *s, const struct hhalf *h,
                       struct hcursor *c, uint32_t *budget, struct phys_entry *ret)
{
    const struct htrie_node *n;

    while (*budget > 0 && htrie_next(&h->trie, &c->nodes, &n)) {
        struct phys_entry e = { .table = PHYS_ROUTE_TCAM };

        --*budget;
        if (n) {
            e.priority = n->row.priority;
            hkey_store(n->key, e.key);
            hkey_store(s->masks.at[n->length], e.mask);
            name_of(&e, ret);
            tcam_data(&n->row, ret);
            if (hrecords_find(&h->records[PHYS_ROUTE_TCAM], ret) == HRECORDS_NONE) {
                return true;
            }
        }
    }
    return false;
}

static uint32_t array_size(enum phys_table table)
{
    return table == PHYS_NC         ? HNC_COUNT
           : table == PHYS_NEXT_HOP ? HNEXT_HOP_COUNT
           : table == PHYS_FALLBACK ? HFALLBACK_COUNT
           : table == PHYS_PORT_OUT ? HPORT_OUT_COUNT
                                    : 0;
}

/* Most places are empty: a look that costs little. */
static bool array_has(const struct hhalf *h, enum phys_table table, uint32_t at)
{
    switch (table) {
    case PHYS_NC:
        return atomic_load_explicit(&h->nc[at].version, memory_order_relaxed) & 2;
    case PHYS_NEXT_HOP:
        return atomic_load_explicit(&h->next_hop[at], memory_order_relaxed) != 0;
    case PHYS_FALLBACK:
        return atomic_load_explicit(&h->fallback[at], memory_order_relaxed) != 0;
    default:
        return atomic_load_explicit(&h->port_out[at], memory_order_relaxed) != NULL;
    }
}

/* The key of place `at` of an array. */
static void array_key(enum phys_table table, uint32_t at, struct phys_entry *ret)
{
    *ret = (struct phys_entry){ .table = (uint8_t)table };
    phys_mask_exact(table, ret->mask);
    switch (table) {
    case PHYS_NC:
        put_be24(ret->key, at);
        break;
    case PHYS_NEXT_HOP:
        ret->key[0] = at >> 8 & 1;
        ret->key[1] = (uint8_t)at;
        break;
    case PHYS_FALLBACK:
        ret->key[0] = at >> 10 & 1;
        store_be16(ret->key + 1, at & 0x3ff);
        break;
    default:
        store_be16(ret->key, (uint16_t)(at >> 2 & 0x1ff));
        ret->key[2] = at >> 1 & 1;
        ret->key[3] = at & 1;
        break;
    }
}

static bool stray_place(const struct hhalf *h, enum phys_table table, struct hcursor *c,
                        uint32_t *budget, struct phys_entry *ret)
{
    struct phys_entry e;

    while (*budget > 0 && c->at < array_size(table)) {
        uint32_t at = c->at++;

        --*budget;
        if (!array_has(h, table, at)) {
            continue;
        }
        array_key(table, at, &e);
        if (hswitch_seen(h, &e, ret) &&
            hrecords_find(&h->records[table], &e) == HRECORDS_NONE) {
            return true;
        }
    }
    return false;
}

static bool stray_rule(const struct hhalf *h, struct hcursor *c, uint32_t *budget,
                       struct phys_entry *ret)
{
    const struct hacl *acl = atomic_load_explicit(&h->acl, memory_order_relaxed);

    while (*budget > 0 && acl && !h->acl_is_stale && c->at < acl->rule_count) {
        --*budget;
        hacl_entry(acl, c->at++, ret);
        if (hrecords_find(&h->records[PHYS_ACL], ret) == HRECORDS_NONE) {
            return true;
        }
    }
    return false;
}

bool hswitch_next_stray(const struct hswitch *s, unsigned half, enum phys_table table,
                        struct hcursor *c, uint32_t *budget, struct phys_entry *ret)
{
    const struct hhalf *h = &s->half[half];

    if (exact_of(h, table)) {
        return stray_exact(h, table, c, budget, ret);
    }
    return table == PHYS_ROUTE_TCAM ? stray_tcam(s, h, c, budget, ret)
           : table == PHYS_ACL      ? stray_rule(h, c, budget, ret)
                                    : stray_place(h, table, c, budget, ret);
}
