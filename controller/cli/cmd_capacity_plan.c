/* xgwctl capacity plan: nodes, clusters and cost of a region; when clusters fill up. */
#include "controller/cli/cmd.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "controller/capacity/chip.h"
#include "controller/capacity/layout.h"
#include "controller/capacity/region.h"
#include "controller/cli/capacity_history.h"
#include "controller/cli/cli_number.h"
#include "controller/cli/cli_print.h"

#define GBPS 1e9
#define TBPS 1e12

/* Sailfish's worked region, section 2.3, and what its production runs on. */
#define REGION_BPS   (15 * TBPS)
#define SOFTWARE_BPS (100 * GBPS)
#define NODE_USD     10000
#define X86_SHARE    0.0002 /* below 0.2 per mille of the traffic */
#define ECMP_NODES   64     /* upstream groups have 16 to 64 next hops */
#define TIERS_MAX    3

struct plan {
    const char *name;
    const char *what;
    struct tier_input tiers[TIERS_MAX];
    unsigned count;
};

/* ---- results ---- */

static json_t *tier_json(const struct tier_input *in, const struct tier_plan *p)
{
    return json_pack("{s:s, s:f, s:f, s:f, s:i, s:i, s:i, s:i, s:i, s:f, s:f}", "tier",
                     in->name, "traffic_bps", in->traffic_bps, "node_bps", in->node_bps,
                     "level_pct", in->level_bp / 100.0, "sides", (int)in->sides,
                     "clusters", (int)p->clusters, "cluster_side_nodes", (int)p->side,
                     "side_nodes", (int)p->side_sum, "nodes", (int)p->nodes,
                     "runs_at_pct", p->level_bp / 100.0, "cost_usd", p->cost_usd);
}

/* Appends a plan to `plans`; `*old_usd` is what savings are counted from. */
static enum rc add_plan(json_t *plans, const struct plan *plan, double old_usd,
                        double *ret_usd, struct err *err)
{
    json_t *tiers = json_array();
    json_int_t nodes = 0;
    double usd = 0;

    for (unsigned i = 0; i < plan->count; i++) {
        struct tier_plan p;

        if (tier_plan_make(&plan->tiers[i], &p, err) != RC_OK) {
            json_decref(tiers);
            return err->code;
        }
        nodes += p.nodes;
        usd += p.cost_usd;
        json_array_append_new(tiers, tier_json(&plan->tiers[i], &p));
    }
    json_array_append_new(
        plans, json_pack("{s:s, s:s, s:o, s:I, s:f, s:f}", "plan", plan->name, "what",
                         plan->what, "tiers", tiers, "nodes", nodes, "cost_usd", usd,
                         "saved_pct", cli_round(100 * region_saved(old_usd, usd), 2)));
    *ret_usd = usd;
    return RC_OK;
}

/* "15T", for tables. */
static void set_bps(json_t *row, const char *key, double bps)
{
    char text[32];

    if (bps >= TBPS) {
        snprintf(text, sizeof(text), "%gT", cli_round(bps / TBPS, 4));
    } else {
        snprintf(text, sizeof(text), "%gG", cli_round(bps / GBPS, 4));
    }
    json_object_set_new(row, key, json_string(text));
}

/* A line a tier; sums stand below each plan that has several. */
static void print_plans(json_t *plans)
{
    static const struct cli_column columns[] = {
        { "PLAN", "plan" },         { "TIER", "tier" },
        { "TRAFFIC", "traffic" },   { "NODE", "node" },
        { "LEVEL %", "level_pct" }, { "SIDES", "sides" },
        { "CLUSTERS", "clusters" }, { "A SIDE", "side_nodes" },
        { "NODES", "nodes" },       { "RUNS AT %", "runs_at_pct" },
        { "COST $", "cost" },       { "SAVED %", "saved_pct" },
        { "WHAT", "what" },         { NULL, NULL }
    };
    json_t *rows = json_array();
    struct buf text = BUF_INIT;
    json_t *plan;
    size_t i;

    json_array_foreach(plans, i, plan)
    {
        json_t *tiers = json_object_get(plan, "tiers");
        json_t *tier;
        size_t t;

        json_array_foreach(tiers, t, tier)
        {
            json_t *row = json_copy(tier);

            json_object_set(row, "plan", json_object_get(plan, "plan"));
            set_bps(row, "traffic",
                    json_number_value(json_object_get(row, "traffic_bps")));
            set_bps(row, "node", json_number_value(json_object_get(row, "node_bps")));
            json_object_set_new(row, "cost",
                                json_integer((json_int_t)json_number_value(
                                    json_object_get(row, "cost_usd"))));
            if (json_array_size(tiers) == 1) {
                json_object_set(row, "what", json_object_get(plan, "what"));
                json_object_set(row, "saved_pct", json_object_get(plan, "saved_pct"));
            }
            json_array_append_new(rows, row);
        }
        if (json_array_size(tiers) > 1) {
            json_t *row = json_copy(plan);

            json_object_set_new(row, "tier", json_string("together"));
            json_object_set_new(row, "cost",
                                json_integer((json_int_t)json_number_value(
                                    json_object_get(plan, "cost_usd"))));
            json_array_append_new(rows, row);
        }
    }
    cli_table(rows, columns, &text);
    cli_print_buf(&text);
    json_decref(rows);
}

static enum cli_exit print(const struct cli *cli, json_t *plans)
{
    json_t *json = json_pack("{s:o}", "plans", plans);

    if (cli->settings.output == CLI_TABLE) {
        print_plans(plans);
    } else {
        cli_print_json(json, (enum cli_output)cli->settings.output);
    }
    json_decref(json);
    return CLI_OK;
}

/* ---- the worked examples ---- */

static double h_node_bps(void)
{
    return chip_bps(&chips[0], &layout_xgw_h.path, 512);
}

static struct tier_input software(double traffic_bps, uint32_t level_bp, uint32_t sides)
{
    return (struct tier_input){ "software", traffic_bps, SOFTWARE_BPS, level_bp,
                                sides,      ECMP_NODES,  sides,        NODE_USD };
}

/* XGW-H with its x86 fallback. */
static struct plan hardware(const char *name, const char *what, uint32_t level_bp)
{
    struct plan p = { name, what, { { 0 } }, 2 };

    p.tiers[0] = (struct tier_input){ "xgw-h",    REGION_BPS, h_node_bps(), level_bp, 2,
                                      ECMP_NODES, 2,          NODE_USD };
    p.tiers[1] = software(REGION_BPS * X86_SHARE, 5000, 2);
    p.tiers[1].name = "xgw-x86";
    return p;
}

static enum cli_exit print_examples(const struct cli *cli)
{
    const struct plan plans[] = {
        { "software-bare",
          "software at its limit, nothing in reserve",
          { software(REGION_BPS, 10000, 1) },
          1 },
        { "software-50",
          "software at a level of 50 %",
          { software(REGION_BPS, 5000, 1) },
          1 },
        { "software-50-backup",
          "the same with 1:1 backup: what savings count from",
          { software(REGION_BPS, 5000, 2) },
          1 },
        hardware("xgw-h-94", "Sailfish as deployed, 5 x 2", 9400),
        hardware("xgw-h-50", "the same at a level of 50 %, 10 x 2", 5000),
    };
    json_t *json = json_array();
    struct err err = { 0 };
    double old_usd = 0;

    for (unsigned i = 0; i < sizeof(plans) / sizeof(plans[0]); i++) {
        double usd = 0;

        if (add_plan(json, &plans[i], old_usd, &usd, &err) != RC_OK) {
            json_decref(json);
            return cli_fail(&err);
        }
        old_usd = usd > old_usd ? usd : old_usd;
    }
    return print(cli, json);
}

/* ---- a region of the operator's ---- */

static bool has_own(const struct cli *cli)
{
    const struct cli_option *o = cli->command->options;

    for (unsigned i = 0; o[i].name; i++) {
        if (cli->options[i] && strcmp(o[i].name, "history") != 0 &&
            strcmp(o[i].name, "safe") != 0) {
            return true;
        }
    }
    return false;
}

/* What the command line says, or a region as Sailfish's. */
struct asked {
    double traffic_bps;
    double node_bps;
    double lb_bps;  /* 0: no front LB */
    double x86_pct; /* of the traffic */
    double level_pct;
    double lb_level_pct;
    double x86_level_pct;
    uint32_t sides;
    uint32_t ecmp;
    double node_usd;
};

static enum rc read_asked(const struct cli *cli, struct asked *a, struct err *err)
{
    enum rc rc;

    *a = (struct asked){ REGION_BPS, h_node_bps(), 0, X86_SHARE * 100, 50,
                         50,         50,           2, ECMP_NODES,      NODE_USD };
    if ((rc = cli_option_number(cli, "traffic", 1, 1e18, &a->traffic_bps, err)) ||
        (rc = cli_option_number(cli, "node", 1, 1e18, &a->node_bps, err)) ||
        (rc = cli_option_percent(cli, "level", 0.01, 100, &a->level_pct, err)) ||
        (rc = cli_option_whole(cli, "sides", 1, 2, &a->sides, err)) ||
        (rc = cli_option_whole(cli, "ecmp", 2, 1024, &a->ecmp, err)) ||
        (rc = cli_option_percent(cli, "x86-share", 0, 100, &a->x86_pct, err)) ||
        (rc =
             cli_option_percent(cli, "x86-level", 0.01, 100, &a->x86_level_pct, err)) ||
        (rc = cli_option_number(cli, "lb-node", 1, 1e18, &a->lb_bps, err)) ||
        (rc = cli_option_percent(cli, "lb-level", 0.01, 100, &a->lb_level_pct, err))) {
        return rc;
    }
    return cli_option_number(cli, "node-cost", 0, 1e9, &a->node_usd, err);
}

static void add_tier(struct plan *plan, const struct asked *a, const char *name,
                     double traffic_bps, double node_bps, double level_pct)
{
    plan->tiers[plan->count++] =
        (struct tier_input){ .name = name,
                             .traffic_bps = traffic_bps,
                             .node_bps = node_bps,
                             .level_bp = (uint32_t)lround(level_pct * 100),
                             .sides = a->sides,
                             .ecmp_max = a->ecmp,
                             .side_min = a->sides, /* a backup, and one that may fail */
                             .node_cost_usd = a->node_usd };
}

static enum rc read_plan(const struct cli *cli, struct plan *ret, struct err *err)
{
    struct asked a;
    enum rc rc = read_asked(cli, &a, err);

    if (rc != RC_OK) {
        return rc;
    }
    *ret = (struct plan){ .name = "region", .what = "as asked for" };
    if (a.lb_bps > 0) {
        add_tier(ret, &a, "lb", a.traffic_bps, a.lb_bps, a.lb_level_pct);
    }
    add_tier(ret, &a, "gateway", a.traffic_bps, a.node_bps, a.level_pct);
    if (a.x86_pct > 0) {
        add_tier(ret, &a, "xgw-x86", a.traffic_bps * a.x86_pct / 100, SOFTWARE_BPS,
                 a.x86_level_pct);
    }
    return RC_OK;
}

static enum cli_exit print_own(const struct cli *cli)
{
    struct plan plan;
    struct plan old = { "software", "", { { 0 } }, 1 };
    json_t *plans = json_array();
    json_t *olds = json_array();
    struct err err = { 0 };
    double old_usd = 0;
    double usd = 0;
    enum rc rc = read_plan(cli, &plan, &err);

    if (rc == RC_OK) {
        /* Savings count from the same traffic on software, alike but for the node. */
        old.tiers[0] = plan.tiers[0];
        old.tiers[0].node_bps = SOFTWARE_BPS;
        rc = add_plan(olds, &old, 0, &old_usd, &err);
    }
    rc = rc == RC_OK ? add_plan(plans, &plan, old_usd, &usd, &err) : rc;
    json_decref(olds);
    if (rc != RC_OK) {
        json_decref(plans);
        return cli_fail(&err);
    }
    return print(cli, plans);
}

enum cli_exit cmd_capacity_plan(struct cli *cli)
{
    if (cli_option(cli, "history")) {
        if (has_own(cli)) {
            return cli_usage(cli, "--history stands alone, with --safe");
        }
        return capacity_history_print(cli);
    }
    if (cli_option(cli, "safe")) {
        return cli_usage(cli, "--safe belongs to --history");
    }
    return has_own(cli) ? print_own(cli) : print_examples(cli);
}
