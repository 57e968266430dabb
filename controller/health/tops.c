#include "controller/health/tops.h"

#include <stdlib.h>
#include <string.h>

/* One item of one node, as rates. */
struct part {
    struct top_item item;
    uint64_t bps, error_bps;
    uint64_t rest_bps; /* of its node's list */
};

/* Upwards: a bound from above stays one. */
static uint64_t rate_above(uint64_t bytes, uint32_t interval_ms)
{
    return (uint64_t)(((unsigned __int128)bytes * 8000 + interval_ms - 1) /
                      interval_ms);
}

static uint64_t rate_below(uint64_t bytes, uint32_t interval_ms)
{
    return (uint64_t)((unsigned __int128)bytes * 8000 / interval_ms);
}

static int compare_u32(uint32_t a, uint32_t b)
{
    return (a > b) - (a < b);
}

static int compare_items(const struct top_item *a, const struct top_item *b)
{
    int order = compare_u32(a->vni, b->vni);

    order = order ? order : ip_compare(&a->src, &b->src);
    order = order ? order : ip_compare(&a->dst, &b->dst);
    order = order ? order : compare_u32(a->proto, b->proto);
    order = order ? order : compare_u32(a->sport, b->sport);
    return order ? order : compare_u32(a->dport, b->dport);
}

static int by_item(const void *a, const void *b)
{
    const struct part *x = a;
    const struct part *y = b;

    return compare_items(&x->item, &y->item);
}

static int heavier(const void *a, const void *b)
{
    const struct top_row *x = a;
    const struct top_row *y = b;

    if (x->bps != y->bps) {
        return x->bps > y->bps ? -1 : 1;
    }
    return compare_items(&x->item, &y->item); /* the same list every time */
}

static const struct top_list *list_of(const struct top_report *r, enum top_kind kind)
{
    return kind == TOP_FLOWS ? &r->flows : &r->tenants;
}

static uint32_t collect(const struct top_report *r, enum top_kind kind, struct part *to)
{
    const struct top_list *l = list_of(r, kind);

    for (uint32_t i = 0; i < l->count; i++) {
        const struct top_item *x = &l->items[i];

        to[i].item = *x;
        to[i].bps = rate_above(x->bytes, r->interval_ms);
        to[i].error_bps = to[i].bps - rate_below(x->bytes - x->error, r->interval_ms);
        to[i].rest_bps = rate_above(l->rest, r->interval_ms);
    }
    return l->count;
}

/* Parts of the same become one row; nodes that do not list it may have had as much of
 * it as they say of what they leave out. */
static uint32_t sum_up(const struct part *parts, uint32_t n, uint64_t rest_bps,
                       struct top_row *rows)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < n;) {
        struct top_row *row = &rows[count++];
        uint64_t unseen = rest_bps;
        uint32_t first = i;

        *row = (struct top_row){ .item = parts[i].item };
        for (; i < n && compare_items(&parts[i].item, &parts[first].item) == 0; i++) {
            row->bps += parts[i].bps;
            row->error_bps += parts[i].error_bps;
            row->nodes++;
            unseen -= parts[i].rest_bps < unseen ? parts[i].rest_bps : unseen;
        }
        row->bps += unseen;
        row->error_bps += unseen;
    }
    return count;
}

enum rc tops_merge(const struct top_report *const reports[], uint32_t count,
                   enum top_kind kind, uint32_t room, struct top_sum *ret)
{
    size_t most = (size_t)count * TOP_LIST_MAX + 1;
    struct part *parts = malloc(most * sizeof(*parts));
    struct top_row *rows = malloc(most * sizeof(*rows));
    struct top_sum sum = { .nodes = count };
    uint32_t n = 0;

    if (!parts || !rows) {
        free(parts);
        free(rows);
        return RC_NO_MEMORY;
    }
    for (uint32_t i = 0; i < count; i++) {
        n += collect(reports[i], kind, parts + n);
        sum.bps += rate_below(reports[i]->bytes, reports[i]->interval_ms);
        sum.rest_bps +=
            rate_above(list_of(reports[i], kind)->rest, reports[i]->interval_ms);
    }
    qsort(parts, n, sizeof(*parts), by_item);
    n = sum_up(parts, n, sum.rest_bps, rows);
    qsort(rows, n, sizeof(*rows), heavier);
    room = room < TOP_ROWS_MAX ? room : TOP_ROWS_MAX;
    sum.count = n < room ? n : room;
    if (n > sum.count && rows[sum.count].bps > sum.rest_bps) {
        sum.rest_bps = rows[sum.count].bps;
    }
    memcpy(sum.rows, rows, sum.count * sizeof(*rows));
    free(parts);
    free(rows);
    *ret = sum;
    return RC_OK;
}
