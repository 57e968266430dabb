/* What several nodes tell of their heaviest, added up, against what each flow had. */
#include "tests/unit/unit.h"

#include "agent/fwd/top_sketch.h"
#include "controller/health/health.h"
#include "proto/model/object.h"
#include "tests/unit/agent/fwd/flows.h"

#include <string.h>

#define INTERVAL_MS 10000

static struct flow_key key_of(uint32_t number)
{
    struct flow_key key = { .vni = number % 7 + 1,
                            .family = IP_V4,
                            .proto = PROTO_UDP };

    memcpy(key.src, &number, sizeof(number));
    return key;
}

static uint32_t number_of(const struct top_item *item)
{
    uint32_t number;

    memcpy(&number, item->src.b, sizeof(number));
    return number;
}

/* What a gateway's sketch of its flows becomes on its way (driver_gateway_top.c). */
static void tell(const struct top_sketch *s, uint32_t interval_ms,
                 struct top_report *ret)
{
    struct top_entry list[TOP_LIST_MAX];

    memset(ret, 0, sizeof(*ret));
    ret->interval_ms = interval_ms;
    ret->bytes = top_sketch_total(s);
    ck_assert_int_eq(top_sketch_merge((const struct top_sketch *const[]){ s }, 1, list,
                                      TOP_LIST_MAX, &ret->flows.count,
                                      &ret->flows.rest),
                     RC_OK);
    for (uint32_t i = 0; i < ret->flows.count; i++) {
        struct top_item *to = &ret->flows.items[i];

        to->vni = list[i].key.vni;
        to->src.family = to->dst.family = IP_V4;
        memcpy(to->src.b, list[i].key.src, 4);
        to->proto = list[i].key.proto;
        to->bytes = list[i].bytes;
        to->error = list[i].error;
    }
}

static double bps(double bytes, uint32_t interval_ms)
{
    return bytes * 8000 / interval_ms;
}

enum { FLOWS = 30000, NODES = 5 };

/* Nodes whose streams were `had[node][flow]` bytes. */
static void check_bounds(const struct top_sum *sum, uint64_t had[NODES][FLOWS],
                         const uint32_t interval_ms[NODES])
{
    static bool is_listed[FLOWS];
    static double really[FLOWS];
    double all = 0;

    memset(is_listed, 0, sizeof(is_listed));
    memset(really, 0, sizeof(really));
    for (uint32_t k = 0; k < FLOWS; k++) {
        for (unsigned n = 0; n < NODES; n++) {
            really[k] += bps((double)had[n][k], interval_ms[n]);
        }
        all += really[k];
    }
    ck_assert_double_eq_tol((double)sum->bps, all, NODES);
    for (uint32_t i = 0; i < sum->count; i++) {
        const struct top_row *row = &sum->rows[i];
        uint32_t k = number_of(&row->item);

        ck_assert_uint_lt(k, FLOWS);
        ck_assert_msg(!is_listed[k], "flow %u twice", k);
        is_listed[k] = true;
        ck_assert_double_le(really[k], (double)row->bps);
        ck_assert_double_ge(really[k], (double)row->bps - (double)row->error_bps);
        ck_assert(i == 0 || row->bps <= sum->rows[i - 1].bps);
    }
    for (uint32_t k = 0; k < FLOWS; k++) {
        ck_assert(is_listed[k] || really[k] <= (double)sum->rest_bps);
    }
}

/* Flows of real sizes spread over nodes: some on one, some on all, with sketches that
 * are too small for them and intervals that differ. */
START_TEST(bounds_hold_for_the_sum_of_nodes)
{
    static const uint32_t capacities[] = { 40, 256, 1024 };
    static uint64_t had[NODES][FLOWS];
    static struct top_report reports[NODES];
    static struct top_sum sum;
    const uint32_t interval_ms[NODES] = { 10000, 10010, 9990, 12345, 10000 };
    const struct top_report *all[NODES];
    struct top_sketch *s[NODES];
    struct flows f;

    memset(had, 0, sizeof(had));
    flows_make(&f, FLOWS, (uint64_t)_i + 7);
    for (unsigned n = 0; n < NODES; n++) {
        s[n] = top_sketch_new(capacities[_i]);
        ck_assert_ptr_nonnull(s[n]);
    }
    for (uint32_t i = 0; i < f.packet_count; i++) {
        uint32_t k = f.order[i];
        unsigned n = k % 3 == 0 ? i % NODES : k % 2;
        struct flow_key key = key_of(k);

        top_sketch_add(s[n], &key, f.flow[k].packet_bytes);
        had[n][k] += f.flow[k].packet_bytes;
    }
    for (unsigned n = 0; n < NODES; n++) {
        tell(s[n], interval_ms[n], &reports[n]);
        all[n] = &reports[n];
        top_sketch_free(s[n]);
    }
    for (uint32_t room = 1; room <= TOP_ROWS_MAX; room += 33) {
        ck_assert_int_eq(tops_merge(all, NODES, TOP_FLOWS, room, &sum), RC_OK);
        ck_assert_uint_le(sum.count, room);
        ck_assert_uint_ge(sum.count, room < TOP_LIST_MAX ? room : TOP_LIST_MAX);
        check_bounds(&sum, had, interval_ms);
    }
    printf(
        "%s flows on %d nodes, %u counters: the first is wrong by at most %.3f %% of "
        "all, one that is not listed has at most %.3f %%\n",
        f.is_real ? "real" : "invented", NODES, capacities[_i],
        100.0 * (double)sum.rows[0].error_bps / (double)sum.bps,
        100.0 * (double)sum.rest_bps / (double)sum.bps);
    flows_fini(&f);
}
END_TEST

static struct telemetry message;

static void tell_tenant(struct health *h, uint64_t now_s, const char *node,
                        uint32_t vni, uint64_t bytes)
{
    memset(&message, 0, sizeof(message));
    message.span_ms = 1000;
    message.top.interval_ms = INTERVAL_MS;
    message.top.bytes = bytes;
    message.top.tenants.count = 1;
    message.top.tenants.items[0].vni = vni;
    message.top.tenants.items[0].bytes = bytes;
    health_telemetry(h, now_s, node, &message);
}

START_TEST(a_selection_counts_its_nodes_and_who_told_nothing_lately)
{
    static const struct {
        const char *cluster, *node;
        uint64_t at_s;
        uint32_t nodes, without;
        uint64_t bps;
    } cases[] = {
        { NULL, NULL, 1000, 3, 1, 480 }, { "k1", NULL, 1000, 2, 0, 240 },
        { "k2", NULL, 1000, 1, 1, 240 }, { NULL, "b", 1000, 1, 0, 160 },
        { NULL, "d", 1000, 0, 1, 0 },    { "k1", "c", 1000, 0, 0, 0 },
        { NULL, NULL, 1030, 3, 1, 480 }, { NULL, NULL, 1031, 0, 4, 0 },
    };
    static struct top_sum sum;
    struct health *h = health_new();

    health_node(h, "a", "k1", CLUSTER_X86, true);
    health_node(h, "b", "k1", CLUSTER_X86, true);
    health_node(h, "c", "k2", CLUSTER_X86, true);
    health_node(h, "d", "k2", CLUSTER_XGW_H, true);
    tell_tenant(h, 990, "a", 7, 1);
    tell_tenant(h, 1000, "a", 100, 100); /* instead of what it said before */
    tell_tenant(h, 1000, "b", 100, 200);
    tell_tenant(h, 1000, "c", 100, 300);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        ck_assert_int_eq(health_top(h, cases[i].at_s, cases[i].cluster, cases[i].node,
                                    TOP_TENANTS, 10, &sum),
                         RC_OK);
        ck_assert_uint_eq(sum.nodes, cases[i].nodes);
        ck_assert_uint_eq(sum.without, cases[i].without);
        ck_assert_uint_eq(sum.count, cases[i].nodes > 0);
        ck_assert_uint_eq(sum.count ? sum.rows[0].bps : 0, cases[i].bps);
    }
    health_node_gone(h, 1000, "c");
    ck_assert_int_eq(health_top(h, 1000, NULL, NULL, TOP_TENANTS, 10, &sum), RC_OK);
    ck_assert_uint_eq(sum.nodes, 2);
    /* A message without one leaves the last. */
    memset(&message, 0, sizeof(message));
    message.span_ms = 1000;
    health_telemetry(h, 1001, "a", &message);
    ck_assert_int_eq(health_top(h, 1001, NULL, "a", TOP_TENANTS, 10, &sum), RC_OK);
    ck_assert_uint_eq(sum.rows[0].item.vni, 100);
    health_free(h);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("tops");

    tcase_set_timeout(tc, 120);
    tcase_add_loop_test(tc, bounds_hold_for_the_sum_of_nodes, 0, 3);
    tcase_add_test(tc, a_selection_counts_its_nodes_and_who_told_nothing_lately);
    return unit_run("tops", tc);
}
