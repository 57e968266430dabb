/* switch_write - updates of the physical tables: checks, limits, and for each table
 * what packets look at. */
#include "agent/fwdh/switch_impl.h"

#include <string.h>

/* ---- what packets look at, table by table ---- */

static enum rc put_exact(struct exact *table, struct exact_entry x)
{
    bool existed;
    uint64_t old;

    return exact_put(table, &x, &existed, &old);
}

/* With all copies of it, which only a fault makes. */
static void del_exact(struct hhalf *h, const struct phys_entry *e)
{
    struct exact *table = hswitch_exact(h, (enum phys_table)e->table);
    struct exact_entry key = hswitch_exact_key(e);
    uint64_t old;

    (void)exact_del(table, &key, &old);
    (void)exact_purge(table, &key, false);
}

static struct exact_entry vni_entry(const struct phys_entry *e)
{
    uint64_t slot =
        hvni_slot(load_be24(e->key), e->data[0], e->data[1], load_be16(e->data + 2));

    return (struct exact_entry){ .w0 = slot };
}

/* vm_nc and vm_nc_spill: vni(3) tag(1) key(4). */
static struct exact_entry vm_entry(const struct phys_entry *e)
{
    return (struct exact_entry){ .w0 = hvm_key(load_be24(e->key), e->key[3] & 1,
                                               load_be32(e->key + 4)),
                                 .val = load_be24(e->data) };
}

static struct exact_entry conflict_entry(const struct phys_entry *e)
{
    return (struct exact_entry){ .w0 = load_be64(e->key + 3),
                                 .w1 = load_be64(e->key + 11),
                                 .vni = load_be24(e->key) | HCONFLICT_VNI,
                                 .val = load_be24(e->data) };
}

static struct htrie_row tcam_row(const struct phys_entry *e)
{
    return (struct htrie_row){ .priority = e->priority,
                               .part = load_be16(e->data),
                               .scope = e->data[2],
                               .vni = load_be24(e->data + 3),
                               .idx = load_be24(e->data + 6) };
}

static enum rc put_tcam(struct hhalf *h, const struct phys_entry *e)
{
    const struct hrecords *records = &h->records[PHYS_ROUTE_TCAM];
    uint32_t other = hrecords_best(records, e, hrecords_find(records, e));
    struct hkey key = hswitch_route_key(e, e->key);
    struct htrie_row row = tcam_row(e);
    struct phys_entry best;

    if (other != HRECORDS_NONE && hrecords_get(records, other, &best) &&
        best.priority > e->priority) {
        return RC_OK; /* hidden by the other row of its prefix */
    }
    return htrie_put(&h->trie, &key, (unsigned)hswitch_route_length(e), &row);
}

static enum rc del_tcam(struct hhalf *h, const struct phys_entry *e)
{
    const struct hrecords *records = &h->records[PHYS_ROUTE_TCAM];
    uint32_t other = hrecords_best(records, e, hrecords_find(records, e));
    struct hkey key = hswitch_route_key(e, e->key);
    struct phys_entry best;
    struct htrie_row row;

    if (other == HRECORDS_NONE || !hrecords_get(records, other, &best)) {
        return htrie_del(&h->trie, &key, (unsigned)hswitch_route_length(e));
    }
    if (best.priority > e->priority) {
        return RC_OK;
    }
    row = tcam_row(&best);
    return htrie_put(&h->trie, &key, (unsigned)hswitch_route_length(e), &row);
}

static void put_nc(struct hhalf *h, const struct phys_entry *e)
{
    struct hnc *nc = &h->nc[load_be24(e->key)];
    uint32_t version = atomic_load_explicit(&nc->version, memory_order_relaxed);
    unsigned copy = !(version & 1);
    uint64_t word[2] = { 0, 0 };

    memcpy(word, e->data, e->action == PHYS_NC4 ? 4 : 16);
    atomic_store_explicit(&nc->word[copy][0], word[0], memory_order_release);
    atomic_store_explicit(&nc->word[copy][1], word[1], memory_order_release);
    atomic_store_explicit(&nc->version, ((version | 3) + 1) | 2 | copy,
                          memory_order_release);
}

static void del_nc(struct hhalf *h, const struct phys_entry *e)
{
    struct hnc *nc = &h->nc[load_be24(e->key)];
    uint32_t version = atomic_load_explicit(&nc->version, memory_order_relaxed);

    atomic_store_explicit(&nc->version, ((version | 3) + 1) | (version & 1),
                          memory_order_release);
}

static void put_bucket(struct hhalf *h, const struct phys_entry *e, uint32_t value)
{
    _Atomic(uint32_t) *table = e->table == PHYS_NEXT_HOP ? h->next_hop : h->fallback;

    atomic_store_explicit(&table[hswitch_bucket_of(e)], value, memory_order_release);
}

/* Replaces a row of port_out; `e` null of action: takes it out. */
static enum rc put_port_out(struct hswitch *s, struct hhalf *h,
                            const struct phys_entry *e, bool is_there)
{
    unsigned place = hswitch_port_out_of(e);
    const struct hport_out *old =
        atomic_load_explicit(&h->port_out[place], memory_order_relaxed);
    struct hport_out *fresh = NULL;

    if (is_there) {
        uint32_t line = lines_alloc(&s->lines, 1);
        unsigned source = e->action == PHYS_SRC4 ? 4 : e->action == PHYS_SRC6 ? 16 : 0;

        if (!line) {
            return RC_NO_MEMORY;
        }
        fresh = lines_at(&s->lines, line);
        memset(fresh, 0, sizeof(*fresh));
        fresh->action = e->action;
        memcpy(fresh->source, e->data, source);
        memcpy(fresh->smac, e->data + source, 6);
        memcpy(fresh->dmac, e->data + source + 6, 6);
    }
    atomic_store_explicit(&h->port_out[place], fresh, memory_order_release);
    if (old) {
        retire_add(&s->retire, RETIRED_LINES, hswitch_line(s, old), 1);
    }
    return RC_OK;
}

enum rc hswitch_put_seen(struct hswitch *s, struct hhalf *h, const struct phys_entry *e)
{
    switch ((enum phys_table)e->table) {
    case PHYS_VTEP:
    case PHYS_SOURCE:
        h->config_is_stale = true;
        return RC_OK;
    case PHYS_VNI:
        return put_exact(&h->vni, vni_entry(e));
    case PHYS_ACL:
        h->acl_is_stale = true;
        return RC_OK;
    case PHYS_ROUTE_TCAM:
        return put_tcam(h, e);
    case PHYS_VM_NC:
        return put_exact(&h->vm_nc, vm_entry(e));
    case PHYS_VM_NC_SPILL:
        return put_exact(&h->spill, vm_entry(e));
    case PHYS_VM_NC_CONFLICT:
        return put_exact(&h->conflict, conflict_entry(e));
    case PHYS_NC:
        put_nc(h, e);
        return RC_OK;
    case PHYS_NEXT_HOP:
        put_bucket(h, e, HROW_SET | load_be16(e->data));
        return RC_OK;
    case PHYS_FALLBACK:
        put_bucket(h, e, HROW_SET | load_be24(e->data));
        return RC_OK;
    case PHYS_PORT_OUT:
        return put_port_out(s, h, e, true);
    case PHYS_ROUTE_PART:
    case PHYS_TABLES:
        break;
    }
    return RC_BUG;
}

enum rc hswitch_del_seen(struct hswitch *s, struct hhalf *h, const struct phys_entry *e)
{
    switch ((enum phys_table)e->table) {
    case PHYS_VTEP:
    case PHYS_SOURCE:
        h->config_is_stale = true;
        return RC_OK;
    case PHYS_VNI:
    case PHYS_VM_NC:
    case PHYS_VM_NC_SPILL:
    case PHYS_VM_NC_CONFLICT:
        del_exact(h, e);
        return RC_OK;
    case PHYS_ACL:
        h->acl_is_stale = true;
        return RC_OK;
    case PHYS_ROUTE_TCAM:
        return del_tcam(h, e);
    case PHYS_NC:
        del_nc(h, e);
        return RC_OK;
    case PHYS_NEXT_HOP:
    case PHYS_FALLBACK:
        put_bucket(h, e, 0);
        return RC_OK;
    case PHYS_PORT_OUT:
        return put_port_out(s, h, e, false);
    case PHYS_ROUTE_PART:
    case PHYS_TABLES:
        break;
    }
    return RC_BUG;
}

/* ---- an update ---- */

static enum rc fail(struct err *err, const struct phys_entry *e, enum rc rc)
{
    const char *name = phys_table_desc((enum phys_table)e->table)->name;

    switch (rc) {
    case RC_EXISTS:
        return err_set(err, rc, "%s: the entry is there already", name);
    case RC_NOT_FOUND:
        return err_set(err, rc, "%s: no such entry", name);
    case RC_FULL:
        return err_set(err, rc, "%s: the table is full", name);
    case RC_NO_MEMORY:
        return err_set(err, rc, "%s: no memory", name);
    default:
        return rc;
    }
}

static struct hpart_row part_row(const struct phys_entry *e)
{
    struct hpart_row row = { .key = hswitch_route_key(e, e->key),
                             .priority = e->priority,
                             .length = (uint8_t)hswitch_route_length(e),
                             .action = e->action };

    if (e->action == PHYS_PEER) {
        row.vni = load_be24(e->data);
        row.half = e->data[3];
    } else if (e->action == PHYS_TUNNEL) {
        row.vni = load_be24(e->data);
        row.nc = load_be24(e->data + 3);
    } else if (e->action == PHYS_TO_X86) {
        row.cls = e->data[0] & 1;
    }
    return row;
}

static enum rc write_part(struct hhalf *h, enum phys_op op, const struct phys_entry *e)
{
    uint32_t part = load_be16(e->key);
    struct hpart_row row = part_row(e);
    int place = hparts_find(&h->parts, part, &row);
    enum rc rc;

    if ((place >= 0) == (op == PHYS_INSERT)) {
        return place >= 0 ? RC_EXISTS : RC_NOT_FOUND;
    }
    if (op == PHYS_MODIFY) {
        return hparts_set(&h->parts, part, (unsigned)place, &row);
    }
    if (op == PHYS_DELETE && hswitch_keeps(h, HTAMPER_STRUCTURES, e)) {
        return RC_OK;
    }
    rc = op == PHYS_INSERT ? hparts_add(&h->parts, part, &row)
                           : hparts_del(&h->parts, part, (unsigned)place);
    if (rc == RC_OK) {
        h->part_rows += op == PHYS_INSERT ? 1 : UINT32_MAX;
    }
    return rc;
}

static enum rc delete_entry(struct hswitch *s, struct hhalf *h,
                            const struct phys_entry *e, uint32_t row)
{
    enum rc rc =
        hswitch_keeps(h, HTAMPER_STRUCTURES, e) ? RC_OK : hswitch_del_seen(s, h, e);

    if (rc == RC_OK && row != HRECORDS_NONE && !hswitch_keeps(h, HTAMPER_RECORDS, e)) {
        hrecords_remove(&h->records[e->table], row);
    }
    return rc;
}

/* Is it there?  What packets get is what counts; the records follow. */
static enum rc write_record(struct hswitch *s, struct hhalf *h, enum phys_op op,
                            const struct phys_entry *e)
{
    struct hrecords *records = &h->records[e->table];
    struct exact *exact = hswitch_exact(h, (enum phys_table)e->table);
    uint32_t row = hrecords_find(records, e);
    struct phys_entry was;
    enum rc rc;

    if (hswitch_seen(h, e, &was) == (op == PHYS_INSERT)) {
        return op == PHYS_INSERT ? RC_EXISTS : RC_NOT_FOUND;
    }
    if (op == PHYS_DELETE) {
        return delete_entry(s, h, e, row);
    }
    if (row == HRECORDS_NONE && records->count >= records->limit) {
        return RC_FULL;
    }
    if (row == HRECORDS_NONE && !hrecords_reserve(records)) {
        return RC_NO_MEMORY;
    }
    rc = hswitch_put_seen(s, h, e);
    if (rc != RC_OK) {
        return rc;
    }
    if (exact && op == PHYS_MODIFY) {
        struct exact_entry key = hswitch_exact_key(e);

        (void)exact_purge(exact, &key, true);
    }
    if (row == HRECORDS_NONE) {
        (void)hrecords_add(records, e);
    } else {
        hrecords_set(records, row, e);
    }
    return RC_OK;
}

static void prefetch_exact(const struct exact *table, uint64_t key)
{
    const struct exact_dir *dir =
        atomic_load_explicit(&table->dir, memory_order_relaxed);

    __builtin_prefetch(exact_home_in(table, dir, exact_hash1(table, key)), 1);
}

void hswitch_prefetch(const struct hswitch *s, unsigned half,
                      const struct phys_entry *e)
{
    const struct hhalf *h = &s->half[half];

    if (e->table == PHYS_ROUTE_PART) {
        __builtin_prefetch(&h->parts.at[load_be16(e->key) % s->sizes.partitions]);
        return;
    }
    hrecords_prefetch(&h->records[e->table], e);
    if (e->table == PHYS_VNI) {
        prefetch_exact(&h->vni, vni_entry(e).w0 & EXACT_VNI_KEY);
    } else if (e->table == PHYS_VM_NC) {
        prefetch_exact(&h->vm_nc, vm_entry(e).w0);
    }
}

enum rc hswitch_write(struct hswitch *s, unsigned half, enum phys_op op,
                      const struct phys_entry *e, struct err *err)
{
    struct hhalf *h = &s->half[half];
    enum rc rc = hswitch_check(s, op, e, err);

    if (rc != RC_OK) {
        return rc;
    }
    if (!retire_reserve(&s->retire, HSWITCH_RETIRES)) {
        return fail(err, e, RC_NO_MEMORY);
    }
    return fail(err, e,
                e->table == PHYS_ROUTE_PART ? write_part(h, op, e)
                                            : write_record(s, h, op, e));
}

/* ---- meters and counters ---- */

static bool is_open(const struct phys_meter_config *c)
{
    return (c->cir | c->cburst | c->pir | c->pburst) == 0;
}

enum rc hswitch_set_meter(struct hswitch *s, unsigned half, enum phys_meter meter,
                          uint64_t index, const struct phys_meter_config *config,
                          struct err *err)
{
    const struct hmeter_config *old;
    struct hmeter_config *fresh = NULL;
    uint32_t line;

    _Static_assert(sizeof(*fresh) <= LINE_BYTES, "a line each");
    if (index >= hswitch_meter_count(s, meter)) {
        return err_field(err, RC_INVALID, phys_meter_name(meter), "index",
                         "%s: no such index", phys_meter_name(meter));
    }
    if (!retire_reserve(&s->retire, 1)) {
        return err_set(err, RC_NO_MEMORY, "%s: no memory", phys_meter_name(meter));
    }
    if (!is_open(config)) {
        line = lines_alloc(&s->lines, 1);
        if (!line) {
            return err_set(err, RC_NO_MEMORY, "%s: no memory", phys_meter_name(meter));
        }
        fresh = lines_at(&s->lines, line);
        hmeter_config_init(fresh, config);
    }
    old = hmeter_set(&s->half[half].meter[meter][index], fresh);
    if (old) {
        retire_add(&s->retire, RETIRED_LINES, hswitch_line(s, old), 1);
    }
    return RC_OK;
}

enum rc hswitch_set_counter(struct hswitch *s, unsigned half, enum phys_counter counter,
                            uint64_t index, const struct hcount *value, struct err *err)
{
    struct hhalf *h = &s->half[half];
    struct hcount *base = h->base[counter];
    struct hcount now;

    if (index >= hswitch_counter_count(s, counter)) {
        return err_field(err, RC_INVALID, phys_counter_name(counter), "index",
                         "%s: no such index", phys_counter_name(counter));
    }
    hswitch_get_counter(s, half, counter, (uint32_t)index, &now);
    base[index].packets += now.packets - value->packets;
    base[index].bytes += now.bytes - value->bytes;
    return RC_OK;
}

/* ---- emptying ---- */

/* Lets go of what was retired now and then. */
static void breathe(struct hswitch *s, unsigned *written)
{
    if (++*written % 4096 == 0) {
        atomic_fetch_add(&s->retire.epoch, 1);
        hswitch_reclaim_lines(s);
    }
}

/* First along the records, whatever packets get by them, then what no record leads to.
 */
static enum rc clear_table(struct hswitch *s, unsigned half, enum phys_table table,
                           struct err *err)
{
    struct hrecords *records = &s->half[half].records[table];
    struct hcursor c = { .at = 0 };
    uint32_t budget = UINT32_MAX;
    struct phys_entry e;
    unsigned written = 0;
    enum rc rc = RC_OK;

    for (uint32_t row = 0; table != PHYS_ROUTE_PART && row < records->top; row++) {
        if (!hrecords_get(records, row, &e)) {
            continue;
        }
        rc = hswitch_write(s, half, PHYS_DELETE, &e, err);
        if (rc == RC_NOT_FOUND) {
            hrecords_remove(records, row);
        } else if (rc != RC_OK) {
            return rc;
        }
        breathe(s, &written);
    }
    rc = RC_OK;
    while (rc == RC_OK && hswitch_next(s, half, table, &c, &budget, &e, NULL)) {
        rc = hswitch_write(s, half, PHYS_DELETE, &e, err);
        c.row = 0; /* of a partition: those behind moved up */
        breathe(s, &written);
    }
    return rc;
}

enum rc hswitch_clear(struct hswitch *s, unsigned half, struct err *err)
{
    const struct phys_meter_config open = { 0, 0, 0, 0 };
    const struct hcount zero = { 0, 0 };
    bool changed;
    /* vtep first and at once: from there on nothing is forwarded by half a table. */
    enum rc rc = clear_table(s, half, PHYS_VTEP, err);

    rc = rc == RC_OK ? hswitch_publish(s, &changed, err) : rc;
    for (unsigned t = 0; t < PHYS_TABLES && rc == RC_OK; t++) {
        rc = clear_table(s, half, (enum phys_table)t, err);
    }
    for (unsigned m = 0; m < PHYS_METERS && rc == RC_OK; m++) {
        for (uint32_t i = 0; i < hswitch_meter_count(s, (enum phys_meter)m); i++) {
            (void)hswitch_set_meter(s, half, (enum phys_meter)m, i, &open, NULL);
        }
    }
    for (unsigned k = 0; k < PHYS_COUNTERS && rc == RC_OK; k++) {
        for (uint32_t i = 0; i < hswitch_counter_count(s, (enum phys_counter)k); i++) {
            (void)hswitch_set_counter(s, half, (enum phys_counter)k, i, &zero, NULL);
        }
    }
    return rc;
}
