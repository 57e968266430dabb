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

static bool is_same(const struct hpart_row *a, const struct hpart_row *b)
{
    return a->priority == b->priority && a->length == b->length &&
           a->key.vni == b->key.vni && a->key.hi == b->key.hi && a->key.lo == b->key.lo;
}

/* Of two rows that match: of one priority the longer one, which P4Runtime leaves to
 * the target. */
static bool goes_first(const struct hpart_row *a, const struct hpart_row *b)
{
    return a->priority != b->priority ? a->priority > b->priority
                                      : a->length > b->length;
}

const struct hpart_row *hparts_find(const struct hparts *p, uint32_t part,
                                    const struct hpart_row *row)
{
    const struct hpart *at = hparts_at(p, part);

    for (unsigned i = 0; at && i < at->count; i++) {
        if (is_same(&at->row[i], row)) {
            return &at->row[i];
        }
    }
    return NULL;
}

/* Puts `rows` in the partition's place. */
static enum rc replace(struct hparts *p, uint32_t part, const struct hpart_row *rows,
                       unsigned count)
{
    size_t bytes = sizeof(struct hpart) + count * sizeof(*rows);
    uint32_t lines = (uint32_t)((bytes + LINE_BYTES - 1) / LINE_BYTES);
    struct hpart *old = atomic_load_explicit(&p->at[part], memory_order_relaxed);
    struct hpart *fresh = NULL;

    if (count > 0) {
        uint32_t line = lines_alloc(p->lines, lines);

        if (!line) {
            return RC_NO_MEMORY;
        }
        fresh = lines_at(p->lines, line);
        fresh->count = (uint16_t)count;
        fresh->lines = (uint16_t)lines;
        memcpy(fresh->row, rows, count * sizeof(*rows));
    }
    atomic_store_explicit(&p->at[part], fresh, memory_order_release);
    if (old) {
        uint32_t line =
            (uint32_t)((size_t)((const uint8_t *)old - p->lines->base) / LINE_BYTES);

        retire_add(p->retire, RETIRED_LINES, line, old->lines);
    }
    return RC_OK;
}

enum rc hparts_add(struct hparts *p, uint32_t part, const struct hpart_row *row)
{
    const struct hpart *at = hparts_at(p, part);
    unsigned count = at ? at->count : 0;
    struct hpart_row rows[HPARTS_SLOTS_MAX];
    unsigned place = 0;

    if (count >= p->slots) {
        return RC_FULL;
    }
    while (place < count && !goes_first(row, &at->row[place])) {
        place++;
    }
    if (at) {
        memcpy(rows, at->row, place * sizeof(*rows));
        memcpy(rows + place + 1, at->row + place, (count - place) * sizeof(*rows));
    }
    rows[place] = *row;
    return replace(p, part, rows, count + 1);
}

enum rc hparts_set(struct hparts *p, uint32_t part, const struct hpart_row *row)
{
    const struct hpart *at = hparts_at(p, part);
    struct hpart_row rows[HPARTS_SLOTS_MAX];

    for (unsigned i = 0; i < at->count; i++) {
        rows[i] = is_same(&at->row[i], row) ? *row : at->row[i];
    }
    return replace(p, part, rows, at->count);
}

enum rc hparts_del(struct hparts *p, uint32_t part, const struct hpart_row *row)
{
    const struct hpart *at = hparts_at(p, part);
    struct hpart_row rows[HPARTS_SLOTS_MAX];
    unsigned count = 0;

    for (unsigned i = 0; i < at->count; i++) {
        if (!is_same(&at->row[i], row)) {
            rows[count++] = at->row[i];
        }
    }
    return replace(p, part, rows, count);
}
