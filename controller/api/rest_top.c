/* The heaviest flows and tenants of a node, a cluster, the region. */
#include "controller/api/rest_internal.h"
#include "controller/api/top_ask.h"

#include <stdlib.h>

static json_t *row_json(const struct top_row *row, enum top_kind kind)
{
    const struct top_item *x = &row->item;
    char src[IP_TEXT_MAX];
    char dst[IP_TEXT_MAX];
    json_t *json = json_pack(
        "{s:I, s:I, s:I, s:I}", "vni", (json_int_t)x->vni, "bps", (json_int_t)row->bps,
        "error_bps", (json_int_t)row->error_bps, "nodes", (json_int_t)row->nodes);

    if (kind == TOP_FLOWS) {
        ip_print(&x->src, src);
        ip_print(&x->dst, dst);
        json_object_set_new(json, "src", json_string(src));
        json_object_set_new(json, "dst", json_string(dst));
        json_object_set_new(json, "proto", json_integer(x->proto));
        json_object_set_new(json, "sport", json_integer(x->sport));
        json_object_set_new(json, "dport", json_integer(x->dport));
    }
    return json;
}

static json_t *sum_json(const struct top_sum *sum, enum top_kind kind)
{
    json_t *items = json_array();

    for (uint32_t i = 0; i < sum->count; i++) {
        json_array_append_new(items, row_json(&sum->rows[i], kind));
    }
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:o}", "nodes", (json_int_t)sum->nodes,
                     "without", (json_int_t)sum->without, "unable",
                     (json_int_t)sum->unable, "bps", (json_int_t)sum->bps, "rest_bps",
                     (json_int_t)sum->rest_bps, "items", items);
}

static void get_top(struct rest_request *r, enum top_kind kind)
{
    const struct core *c = shell_core(r->rest->config.shell);
    struct top_sum *sum = calloc(1, sizeof(*sum));
    uint32_t room = TOP_ROWS;
    struct err err = { 0 };
    enum rc rc = rest_query_u32(r, "count", 1, TOP_ROWS_MAX, &room, &err);

    if (!sum) {
        rc = err.code = RC_NO_MEMORY;
    }
    rc = rc ? rc
            : top_ask(c, shell_unix_ms() / 1000, rest_query(r, "cluster"),
                      rest_query(r, "node"), kind, room, sum, &err);
    if (rc) {
        rest_problem(r, &err);
    } else {
        rest_reply_json(r, 200, sum_json(sum, kind));
    }
    free(sum);
}

void rest_get_top_flows(struct rest_request *r)
{
    get_top(r, TOP_FLOWS);
}

void rest_get_top_tenants(struct rest_request *r)
{
    get_top(r, TOP_TENANTS);
}
