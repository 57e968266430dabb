/* Placement: where a tenant would go and why, what is on a cluster, moves that would
 * help.  Amounts are in the resource's unit; which resources there are, placement
 * says. */
#include "controller/api/rest_internal.h"

#include <stdlib.h>
#include <string.h>

#define CANDIDATES_MAX 1024
#define MOVES_MAX      100
#define PEERS_MAX      64
#define THRESHOLD_BP   500 /* 5 points of a cluster's fullest resource */

static const struct core *core_of(const struct rest_request *r)
{
    return shell_core(r->rest->config.shell);
}

/* ---- numbers ---- */

static json_t *amount_json(uint64_t amount, uint32_t scale)
{
    return scale > 1 ? json_real((double)amount / scale)
                     : json_integer((json_int_t)amount);
}

/* Of each half, where the resource has halves. */
static json_t *pair_json(json_t *first, json_t *second, bool per_half)
{
    if (per_half) {
        return json_pack("[o, o]", first, second);
    }
    json_decref(second);
    return json_pack("[o]", first);
}

static const char *half_name(enum half half)
{
    static const char *const names[] = { "0", "1", "by_dst" };

    return names[half];
}

static bool is_per_half(const struct resource_set *set, unsigned i)
{
    return set->has_halves && set->at[i].per_half;
}

/* Percent, to a hundredth, of what anybody wants to know of more than all. */
static double percent(double share)
{
    return share > 1e6 ? 1e8 : (double)(long long)(share * 10000 + 0.5) / 100;
}

json_t *rest_cluster_use(const struct core *core, const char *cluster)
{
    const struct placement *p = core_placement(core);
    uint32_t id = core_place_of(core, cluster);
    const struct placement_cluster *c = placement_cluster_at(p, id);
    json_t *uses;
    json_t *percents;
    struct usage u;

    if (!c) {
        return NULL;
    }
    uses = json_object();
    percents = json_object();
    placement_usage(p, id, &u);
    for (unsigned i = 0; i < c->set.count; i++) {
        const struct resource *r = &c->set.at[i];
        uint32_t a = usage_level_bp(&c->set, &u, HALF_0, i);
        uint32_t b = usage_level_bp(&c->set, &u, HALF_1, i);

        json_object_set_new(uses, r->name,
                            json_pack("{s:s, s:o, s:o}", "unit", r->unit, "used",
                                      pair_json(amount_json(u.amount[0][i], r->scale),
                                                amount_json(u.amount[1][i], r->scale),
                                                is_per_half(&c->set, i)),
                                      "capacity",
                                      amount_json(c->set.capacity[i], r->scale)));
        json_object_set_new(percents, r->name,
                            json_real(percent((a > b ? a : b) / 1e4)));
    }
    return json_pack("{s:I, s:b, s:f, s:f, s:o, s:o}", "tenants",
                     (json_int_t)placement_tenants(p, id), "takes_tenants", c->is_open,
                     "sale_percent", c->sale_bp / 100.0, "fullest_percent",
                     percent(placement_fullness(p, id)), "used_percent", percents,
                     "use", uses);
}

/* ---- where a tenant would go ---- */

static json_t *lines_json(const struct resource_set *set,
                          const struct placement_line *lines, unsigned count)
{
    json_t *list = json_array();

    for (unsigned i = 0; i < count; i++) {
        const struct placement_line *l = &lines[i];
        const struct resource *r = &set->at[i];
        uint64_t free_0 = l->room > l->used[0] ? l->room - l->used[0] : 0;
        uint64_t free_1 = l->room > l->used[1] ? l->room - l->used[1] : 0;
        bool two = is_per_half(set, i);

        json_array_append_new(
            list,
            json_pack(
                "{s:s, s:s, s:o, s:o, s:o, s:o, s:o, s:o}", "resource", r->name, "unit",
                r->unit, "needed", amount_json(l->need, r->scale), "free",
                pair_json(amount_json(free_0, r->scale), amount_json(free_1, r->scale),
                          two),
                "used",
                pair_json(amount_json(l->used[0], r->scale),
                          amount_json(l->used[1], r->scale), two),
                "room", amount_json(l->room, r->scale), "capacity",
                amount_json(l->capacity, r->scale), "fits",
                pair_json(json_boolean(l->fits[0]), json_boolean(l->fits[1]), two)));
    }
    return list;
}

static json_t *candidate_json(const struct placement *p,
                              const struct placement_candidate *k)
{
    const struct placement_cluster *c = placement_cluster_at(p, k->cluster);
    const struct placement_cluster *behind = placement_cluster_at(p, k->backing);
    json_t *json = json_pack(
        "{s:s, s:s, s:b, s:I, s:f, s:f, s:f, s:o}", "cluster", c->name, "verdict",
        placement_verdict_name(k->verdict), "is_too_big", k->is_too_big, "peers",
        (json_int_t)k->peers, "sale_percent", c->sale_bp / 100.0, "fullest_percent",
        percent(k->before), "fullest_percent_after", percent(k->after), "dimensions",
        lines_json(&c->set, k->at, k->count));

    if (c->set.has_halves) {
        json_object_set_new(json, "half", json_string(half_name(k->half)));
    }
    if (behind) {
        json_object_set_new(
            json, "backing",
            json_pack("{s:s, s:o}", "cluster", behind->name, "dimensions",
                      lines_json(&behind->set, k->backing_at, k->backing_count)));
    }
    return json;
}

static json_t *chosen_json(const struct placement *p,
                           const struct placement_candidate *k)
{
    const struct placement_cluster *c = placement_cluster_at(p, k->cluster);
    const struct placement_cluster *behind = placement_cluster_at(p, k->backing);

    return behind ? json_pack("{s:s, s:s, s:s}", "cluster", behind->name, "h_home",
                              c->name, "half", half_name(k->half))
                  : json_pack("{s:s}", "cluster", c->name);
}

/* Absent: `*io` stays. */
static enum rc query_whole(const struct rest_request *r, const char *name, uint64_t *io,
                           struct err *err)
{
    const char *text = rest_query(r, name);

    if (!text) {
        return RC_OK;
    }
    if (!*text || strlen(text) > 15 || strspn(text, "0123456789") != strlen(text)) {
        return err_field(err, RC_INVALID, name, "number",
                         "%s: not a whole number of at most 15 digits", name);
    }
    *io = strtoull(text, NULL, 10);
    return RC_OK;
}

static enum rc query_kind(const struct rest_request *r, unsigned *io, struct err *err)
{
    const char *text = rest_query(r, "kind");
    int kind = text ? cluster_kind_parse(text, strlen(text)) : (int)*io;

    if (kind < 0 || kind == CLUSTER_LB) { /* nobody is at home there */
        return err_field(err, RC_INVALID, "kind", "cluster_kind",
                         "kind: not x86 or xgw-h");
    }
    *io = (unsigned)kind;
    return RC_OK;
}

/* "100,200" */
static enum rc query_peers(const struct rest_request *r, uint32_t peers[PEERS_MAX],
                           uint32_t *ret_count, struct err *err)
{
    const char *text = rest_query(r, "peers");
    uint32_t count = 0;

    while (text && *text) {
        char *end;
        unsigned long vni = strtoul(text, &end, 10);

        if (end == text || (*end && *end != ',') || vni < VNI_MIN || vni > VNI_MAX ||
            count == PEERS_MAX) {
            return err_field(err, RC_INVALID, "peers", "vni_list",
                             "peers: not VNIs with commas between, at most %d",
                             PEERS_MAX);
        }
        peers[count++] = (uint32_t)vni;
        text = *end ? end + 1 : end;
    }
    *ret_count = count;
    return RC_OK;
}

static enum rc read_ask(const struct rest_request *r, struct core_place_ask *ret,
                        uint32_t peers[PEERS_MAX], struct err *err)
{
    struct tenant_counts *t = &ret->counts;
    enum rc rc = query_kind(r, &ret->kind, err);

    ret->peers = peers;
    rc = rc ? rc : query_whole(r, "routes", &t->routes, err);
    rc = rc ? rc : query_whole(r, "vms_v4", &t->vms_v4, err);
    rc = rc ? rc : query_whole(r, "vms_v6", &t->vms_v6, err);
    rc = rc ? rc : query_whole(r, "rules", &t->acl_rules, err);
    rc = rc ? rc : query_whole(r, "bps", &t->bps, err);
    rc = rc ? rc : query_whole(r, "pps", &t->pps, err);
    rc = rc ? rc : rest_query_bool(r, "metered", &t->is_metered, err);
    return rc ? rc : query_peers(r, peers, &ret->peer_count, err);
}

static void send_candidates(struct rest_request *r, const struct core_place_ask *ask)
{
    const struct placement *p = core_placement(core_of(r));
    struct placement_candidate *all = calloc(CANDIDATES_MAX, sizeof(*all));
    json_t *list = json_array();
    json_t *chosen = json_null();
    struct err err = { 0 };
    uint32_t count;

    if (!all) {
        json_decref(list);
        err_set(&err, RC_NO_MEMORY, "no memory");
        rest_problem(r, &err);
        return;
    }
    count = core_place(core_of(r), ask, all, CANDIDATES_MAX);
    for (uint32_t i = 0; i < count && i < CANDIDATES_MAX; i++) {
        json_array_append_new(list, candidate_json(p, &all[i]));
        if (all[i].verdict == PLACEMENT_CHOSEN) {
            chosen = chosen_json(p, &all[i]);
        }
    }
    free(all);
    rest_reply_json(
        r, 200,
        json_pack("{s:o, s:o, s:o}", "proposal",
                  json_is_null(chosen) ? json_string("build a cluster") : json_null(),
                  "chosen", chosen, "candidates", list));
}

void rest_get_placement(struct rest_request *r)
{
    struct core_place_ask ask = { 0 };
    uint32_t peers[PEERS_MAX];
    struct err err = { 0 };

    if (read_ask(r, &ask, peers, &err) != RC_OK) {
        rest_problem(r, &err);
        return;
    }
    send_candidates(r, &ask);
}

/* ---- moves ---- */

static json_t *end_json(const struct placement *p, uint32_t id, enum half half,
                        double before, double after)
{
    const struct placement_cluster *c = placement_cluster_at(p, id);
    json_t *json = json_pack("{s:s, s:f, s:f}", "cluster", c->name, "fullest_percent",
                             percent(before), "fullest_percent_after", percent(after));

    if (c->set.has_halves) {
        json_object_set_new(json, "half", json_string(half_name(half)));
    }
    return json;
}

void rest_get_rebalance(struct rest_request *r)
{
    const struct placement *p = core_placement(core_of(r));
    struct placement_move moves[MOVES_MAX];
    unsigned kind = CLUSTER_XGW_H;
    uint32_t threshold = THRESHOLD_BP;
    uint32_t most = MOVES_MAX;
    uint32_t count = 0;
    struct err err = { 0 };
    json_t *list;

    if (query_kind(r, &kind, &err) ||
        rest_query_u32(r, "thresholdBp", 1, 10000, &threshold, &err) ||
        rest_query_u32(r, "limit", 1, MOVES_MAX, &most, &err)) {
        rest_problem(r, &err);
        return;
    }
    if (core_rebalance(core_of(r), kind, threshold, moves, most, &count) != RC_OK) {
        err_set(&err, RC_NO_MEMORY, "no memory");
        rest_problem(r, &err);
        return;
    }
    list = json_array();
    for (uint32_t i = 0; i < count; i++) {
        const struct placement_move *m = &moves[i];

        json_array_append_new(
            list,
            json_pack("{s:I, s:o, s:o}", "vni", (json_int_t)m->id, "from",
                      end_json(p, m->from, m->from_half, m->from_before, m->from_after),
                      "to", end_json(p, m->to, m->to_half, m->to_before, m->to_after)));
    }
    rest_reply_json(r, 200,
                    json_pack("{s:s, s:I, s:o}", "kind", cluster_kind_name(kind),
                              "threshold_bp", (json_int_t)threshold, "moves", list));
}
