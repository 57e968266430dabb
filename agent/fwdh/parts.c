#include "agent/fwdh/parts.h"

static size_t table_bytes(const struct hparts *p)
{
    return (size_t)p->partitions * sizeof(*p->at);
}

int hparts_init(struct hparts *p, uint32_t partitions, uint32_t slots,
                const struct hmasks *masks, struct lines *lines, struct retire *retire)
{
    *p = (struct hparts){ .masks = masks,
                          .lines = lines,
                          .retire = retire,
                          .partitions = partitions,
                          .slots = slots };
    p->at = lines_reserve(table_bytes(p));
    return p->at ? 0 : -1;
}

void hparts_fini(struct hparts *p)
{
    lines_unreserve(p->at, table_bytes(p));
    p->at = NULL;
}

static const uint32_t *priorities(const struct hpart *p)
{
    return (const uint32_t *)(hpart_hi(p) + p->cap);
}

struct hpart_row hpart_row_of(const struct hpart *p, unsigned i)
{
    const struct hpart_result *r = &hpart_results(p)[i];

    return (struct hpart_row){
        .key = { .vni = p->head[i] >> 8, .hi = hpart_hi(p)[i], .lo = hpart_lo(p)[i] },
        .priority = priorities(p)[i],
        .length = (uint8_t)p->head[i],
        .action = r->action,
        .half = r->half,
        .cls = r->cls,
        .vni = r->vni,
        .nc = r->nc
    };
}

/* Of two rows that match: of one priority the longer one, which P4Runtime leaves to
 * the target. */
static bool goes_first(const struct hpart_row *row, const struct hpart *p, unsigned i)
{
    uint32_t other = priorities(p)[i];

    return row->priority != other ? row->priority > other
                                  : row->length > (uint8_t)p->head[i];
}

int hparts_find(const struct hparts *p, uint32_t part, const struct hpart_row *row)
{
    const struct hpart *at = hparts_at(p, part);
    uint32_t head = row->key.vni << 8 | row->length;

    for (unsigned i = 0; at && i < at->count; i++) {
        if (at->head[i] == head && hpart_lo(at)[i] == row->key.lo &&
            hpart_hi(at)[i] == row->key.hi && priorities(at)[i] == row->priority) {
            return (int)i;
        }
    }
    return -1;
}

/* ---- writing a partition anew ---- */

/* The arrays of a run, to fill. */
struct arrays {
    uint32_t *head;
    uint64_t *lo;
    struct hpart_result *result;
    uint64_t *hi;
    uint32_t *priority;
};

static struct arrays arrays_of(struct hpart *p)
{
    struct arrays a = { .head = p->head, .lo = (uint64_t *)(p->head + p->cap) };

    a.result = (struct hpart_result *)(a.lo + p->cap);
    a.hi = (uint64_t *)(a.result + p->cap);
    a.priority = (uint32_t *)(a.hi + p->cap);
    return a;
}

static size_t part_bytes(unsigned cap)
{
    return sizeof(struct hpart) + cap * (2 * sizeof(uint32_t) + 2 * sizeof(uint64_t) +
                                         sizeof(struct hpart_result));
}

static void put_row(const struct arrays *to, unsigned at, const struct hpart_row *row)
{
    to->head[at] = row->key.vni << 8 | row->length;
    to->lo[at] = row->key.lo;
    to->hi[at] = row->key.hi;
    to->priority[at] = row->priority;
    to->result[at] = (struct hpart_result){ .vni = row->vni & 0xffffff,
                                            .action = row->action,
                                            .nc = row->nc & 0xffffff,
                                            .half = row->half & 3,
                                            .cls = row->cls & 1 };
}

static void copy_rows(const struct arrays *to, unsigned at, const struct hpart *from,
                      unsigned first, unsigned count)
{
    if (count > 0) {
        memcpy(to->head + at, from->head + first, count * sizeof(*to->head));
        memcpy(to->lo + at, hpart_lo(from) + first, count * sizeof(*to->lo));
        memcpy(to->result + at, hpart_results(from) + first,
               count * sizeof(*to->result));
        memcpy(to->hi + at, hpart_hi(from) + first, count * sizeof(*to->hi));
        memcpy(to->priority + at, priorities(from) + first,
               count * sizeof(*to->priority));
    }
}

/* A run of `count` rows, none of them filled in; null without memory. */
static struct hpart *part_new(struct hparts *p, unsigned count)
{
    unsigned cap = (count + 1) & ~1u;
    uint32_t lines = (uint32_t)((part_bytes(cap) + LINE_BYTES - 1) / LINE_BYTES);
    uint32_t line = lines_alloc(p->lines, lines);
    struct hpart *fresh = line ? lines_at(p->lines, line) : NULL;

    if (fresh) {
        fresh->count = (uint16_t)count;
        fresh->cap = (uint16_t)cap;
        fresh->lines = (uint16_t)lines;
    }
    return fresh;
}

static void publish(struct hparts *p, uint32_t part, struct hpart *fresh)
{
    struct hpart *old = atomic_load_explicit(&p->at[part], memory_order_relaxed);

    atomic_store_explicit(&p->at[part], fresh, memory_order_release);
    if (old) {
        uint32_t line =
            (uint32_t)((size_t)((const uint8_t *)old - p->lines->base) / LINE_BYTES);

        retire_add(p->retire, RETIRED_LINES, line, old->lines);
    }
}

/* The partition with the `removed` rows at `place` taken out and `row`, if any, put
 * there. */
static enum rc splice(struct hparts *p, uint32_t part, unsigned place, unsigned removed,
                      const struct hpart_row *row)
{
    const struct hpart *old = hparts_at(p, part);
    unsigned had = old ? old->count : 0;
    unsigned added = row != NULL;
    unsigned count = had - removed + added;
    struct hpart *fresh = count > 0 ? part_new(p, count) : NULL;
    struct arrays to;
    uint64_t any = 0;

    if (count > 0 && !fresh) {
        return RC_NO_MEMORY;
    }
    if (fresh) {
        to = arrays_of(fresh);
        copy_rows(&to, 0, old, 0, place);
        if (row) {
            put_row(&to, place, row);
        }
        copy_rows(&to, place + added, old, place + removed, had - place - removed);
        for (unsigned i = 0; i < count; i++) {
            any |= to.hi[i];
        }
        fresh->has_hi = any != 0;
    }
    publish(p, part, fresh);
    return RC_OK;
}

enum rc hparts_add(struct hparts *p, uint32_t part, const struct hpart_row *row)
{
    const struct hpart *at = hparts_at(p, part);
    unsigned count = at ? at->count : 0;
    unsigned place = 0;

    if (count >= p->slots) {
        return RC_FULL;
    }
    while (place < count && !goes_first(row, at, place)) {
        place++;
    }
    return splice(p, part, place, 0, row);
}

enum rc hparts_set(struct hparts *p, uint32_t part, unsigned place,
                   const struct hpart_row *row)
{
    return splice(p, part, place, 1, row);
}

enum rc hparts_del(struct hparts *p, uint32_t part, unsigned place)
{
    return splice(p, part, place, 1, NULL);
}
