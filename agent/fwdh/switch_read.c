/* switch_read - the physical tables as they are read back. */
#include "agent/fwdh/switch_impl.h"

#include <string.h>

static void part_entry(uint32_t part, const struct hpart_row *row,
                       struct phys_entry *ret)
{
    uint8_t *d = ret->data;

    memset(ret, 0, sizeof(*ret));
    ret->table = PHYS_ROUTE_PART;
    ret->action = row->action;
    ret->priority = row->priority;
    store_be16(ret->key, (uint16_t)part);
    hkey_store(row->key, ret->key + 2);
    if (row->action == PHYS_PEER || row->action == PHYS_TUNNEL) {
        d[0] = (uint8_t)(row->vni >> 16);
        store_be16(d + 1, (uint16_t)row->vni);
    }
    if (row->action == PHYS_PEER) {
        d[3] = row->half;
    } else if (row->action == PHYS_TUNNEL) {
        d[3] = (uint8_t)(row->nc >> 16);
        store_be16(d + 4, (uint16_t)row->nc);
    } else if (row->action == PHYS_TO_X86) {
        d[0] = row->cls;
    }
}

static void fill_part(const struct hswitch *s, uint32_t part,
                      const struct hpart_row *row, struct phys_entry *ret)
{
    part_entry(part, row, ret);
    phys_mask_exact(PHYS_ROUTE_PART, ret->mask);
    hkey_store(s->masks.at[row->length], ret->mask + 2);
}

static bool next_part(const struct hswitch *s, const struct hhalf *h, struct hcursor *c,
                      uint32_t *budget, struct phys_entry *ret)
{
    while (c->at<h->parts.partitions && * budget> 0) {
        const struct hpart *p = hparts_at(&h->parts, c->at);

        --*budget;
        if (p && c->row < p->count) {
            struct hpart_row row = hpart_row_of(p, c->row++);

            fill_part(s, c->at, &row, ret);
            return true;
        }
        c->at++;
        c->row = 0;
    }
    return false;
}

/* Along the records: what packets get by the key of each. */
static bool next_recorded(const struct hhalf *h, const struct hrecords *records,
                          struct hcursor *c, uint32_t *budget, struct phys_entry *ret)
{
    struct phys_entry record;

    while (c->row<records->top && * budget> 0) {
        --*budget;
        if (hrecords_get(records, c->row++, &record) && hswitch_seen(h, &record, ret)) {
            return true;
        }
    }
    return false;
}

static bool tell(const struct hhalf *h, const struct phys_entry *e, bool *ret_is_sound)
{
    if (ret_is_sound) {
        *ret_is_sound = e->table == PHYS_ROUTE_PART || hswitch_is_recorded(h, e);
    }
    return true;
}

bool hswitch_next(const struct hswitch *s, unsigned half, enum phys_table table,
                  struct hcursor *c, uint32_t *budget, struct phys_entry *ret,
                  bool *ret_is_sound)
{
    const struct hhalf *h = &s->half[half];

    if (table == PHYS_ROUTE_PART) {
        return next_part(s, h, c, budget, ret) && tell(h, ret, ret_is_sound);
    }
    if (!c->is_behind_records) {
        if (next_recorded(h, &h->records[table], c, budget, ret)) {
            return tell(h, ret, ret_is_sound);
        }
        c->is_behind_records = *budget > 0;
    }
    if (!c->is_behind_records || !hswitch_next_stray(s, half, table, c, budget, ret)) {
        return false;
    }
    if (ret_is_sound) {
        *ret_is_sound = false;
    }
    return true;
}

bool hswitch_find(const struct hswitch *s, unsigned half, const struct phys_entry *key,
                  struct phys_entry *ret, bool *ret_is_sound)
{
    const struct hhalf *h = &s->half[half];

    if (key->table == PHYS_ROUTE_PART) {
        uint32_t part = load_be16(key->key);
        struct hkey mask = hkey_load(key->mask + 2);
        int length = hkey_prefix_length(&mask);
        struct hpart_row want = { .key = hkey_load(key->key + 2),
                                  .length = (uint8_t)length,
                                  .priority = key->priority };
        int place = length < 0 || part >= h->parts.partitions
                        ? -1
                        : hparts_find(&h->parts, part, &want);

        if (place >= 0) {
            want = hpart_row_of(hparts_at(&h->parts, part), (unsigned)place);
            fill_part(s, part, &want, ret);
        }
        return place >= 0 && tell(h, ret, ret_is_sound);
    }
    return hswitch_seen(h, key, ret) && tell(h, ret, ret_is_sound);
}

uint32_t hswitch_count(const struct hswitch *s, unsigned half, enum phys_table table)
{
    return table == PHYS_ROUTE_PART ? s->half[half].part_rows
                                    : s->half[half].records[table].count;
}

void hswitch_get_meter(const struct hswitch *s, unsigned half, enum phys_meter meter,
                       uint32_t index, struct phys_meter_config *ret)
{
    const struct hmeter_config *c = atomic_load_explicit(
        &s->half[half].meter[meter][index].config, memory_order_relaxed);

    *ret = c ? c->given : (struct phys_meter_config){ 0, 0, 0, 0 };
}

/* Of all workers. */
static struct hcount counted(const struct hswitch *s, unsigned half,
                             enum phys_counter counter, uint32_t index)
{
    struct hcount sum = { 0, 0 };

    for (unsigned i = 0; i < s->options.workers; i++) {
        const struct hworker *w = &s->workers[i];
        const struct hcell *cell =
            counter == PHYS_COUNTER_DROP ? &w->drop[half][index] : &w->vni[half][index];

        sum.packets += atomic_load_explicit(&cell->packets, memory_order_relaxed);
        sum.bytes += atomic_load_explicit(&cell->bytes, memory_order_relaxed);
    }
    return sum;
}

/* A port belongs to one half; the other's cell of it counts nothing. */
static struct hcount counted_by_port(const struct hswitch *s, unsigned half,
                                     enum phys_counter counter, uint32_t port)
{
    struct hcount rx = { 0, 0 };
    struct hcount tx = { 0, 0 };

    if (s->options.port_counts && port < s->options.port_count &&
        port % HSWITCH_HALVES == half) {
        s->options.port_counts(s->options.port_counts_arg, port, &rx, &tx);
    }
    return counter == PHYS_COUNTER_PORT_RX ? rx : tx;
}

void hswitch_get_counter(const struct hswitch *s, unsigned half,
                         enum phys_counter counter, uint32_t index, struct hcount *ret)
{
    const struct hcount *base = &s->half[half].base[counter][index];
    bool is_of_port =
        counter == PHYS_COUNTER_PORT_RX || counter == PHYS_COUNTER_PORT_TX;

    *ret = is_of_port ? counted_by_port(s, half, counter, index)
                      : counted(s, half, counter, index);
    ret->packets -= base->packets;
    ret->bytes -= base->bytes;
}
