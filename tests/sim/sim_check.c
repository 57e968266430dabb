#include "tests/sim/sim.h"

#include <stdlib.h>
#include <string.h>

static struct digest root_of(const struct table_set *set, int table)
{
    return table_set_digest(set, (enum table_id)table, (struct tree_node){ 0 });
}

static bool is_same(struct digest a, struct digest b)
{
    return a.sum == b.sum && a.count == b.count;
}

static bool is_same_set(const struct table_set *a, const struct table_set *b)
{
    for (int t = 0; t < TABLE_COUNT; t++) {
        if (!is_same(root_of(a, t), root_of(b, t))) {
            return false;
        }
    }
    return true;
}

/* ---- at every step that matters ---- */

/* Keeps what each cluster's desired set was at this revision. */
void check_event(struct sim *s)
{
    struct sim_state *at;
    uint64_t since;

    if (!s->core || !core_is_ready(s->core)) {
        return;
    }
    s->core_revision = core_revision(s->core);
    at = &s->history[s->history_count % SIM_HISTORY];
    if (s->history_count > 0 &&
        s->history[(s->history_count - 1) % SIM_HISTORY].revision == s->core_revision) {
        at = &s->history[(s->history_count - 1) % SIM_HISTORY];
    } else {
        s->history_count++;
    }
    /* A core that starts finds what no core saw committed: the last of that counts. */
    since = s->history_count > 1
                ? s->history[(s->history_count - 2) % SIM_HISTORY].revision + 1
                : s->core_revision;
    memset(at, 0, sizeof(*at));
    at->since = since;
    at->revision = s->core_revision;
    for (unsigned c = 0; c < SIM_CLUSTERS; c++) {
        char name[CLUSTER_NAME_MAX + 1];

        sim_cluster_name(c, name);
        for (int t = 0; core_cluster_find(s->core, name) && t < TABLE_COUNT; t++) {
            at->roots[c][t] = core_group_digest(s->core, name, (enum table_id)t);
        }
    }
}

/* The state at `revision`; null when it is too long ago. */
static const struct sim_state *state_at(const struct sim *s, uint64_t revision)
{
    uint64_t n = s->history_count < SIM_HISTORY ? s->history_count : SIM_HISTORY;

    for (uint64_t i = 1; i <= n; i++) {
        const struct sim_state *at = &s->history[(s->history_count - i) % SIM_HISTORY];

        if (at->since <= revision) {
            return at;
        }
    }
    return NULL;
}

/* `applied` is never beyond what the device holds: at the end of the write that set it,
 * the device holds exactly what was desired at that revision. */
void check_write(struct sim_agent *a)
{
    struct sim *s = a->sim;
    struct device_state state = memory_device_state(a->device);
    const struct sim_state *at;

    if (a->last_applied == state.applied && a->last_boot_id == state.boot_id) {
        return;
    }
    a->last_applied = state.applied;
    a->last_boot_id = state.boot_id;
    at = state_at(s, state.applied);
    if (a->is_tainted || !at) {
        return;
    }
    s->counts.applied_checks++;
    for (int t = 0; t < TABLE_COUNT; t++) {
        struct digest have = root_of(memory_device_tables(a->device), t);

        if (!is_same(have, at->roots[a->index % SIM_CLUSTERS][t])) {
            sim_fail(s,
                     "%s says applied=%llu and holds %llu rows of %s, not the %llu "
                     "of that revision (state of %llu to %llu), or other ones (%s; "
                     "now desired: %llu)",
                     a->name, (unsigned long long)state.applied,
                     (unsigned long long)have.count, table_name((enum table_id)t),
                     (unsigned long long)at->roots[a->index % SIM_CLUSTERS][t].count,
                     (unsigned long long)at->since, (unsigned long long)at->revision,
                     is_same(have, root_of(session_believed(a->session), t))
                         ? "as it believes"
                         : "and believes another thing",
                     (unsigned long long)(s->core
                                              ? core_group_digest(s->core, a->cluster,
                                                                  (enum table_id)t)
                                                    .count
                                              : 0));
            return;
        }
    }
}

/* ---- commands ---- */

void check_model_apply(struct table_set *model, const struct blob *ops)
{
    struct batch_reader r = batch_reader_of(ops->data, ops->len);
    struct batch_run run;

    table_set_apply(model, ops->data, ops->len, NULL, NULL, NULL);
    while (batch_next(&r, &run)) {
        if (run.table == TABLE_TENANT && run.op == BATCH_DELETE) {
            table_set_put(model, run.vni, TABLE_VXLAN_ROUTE, NULL);
            table_set_put(model, run.vni, TABLE_VM_NC, NULL);
            table_set_put(model, run.vni, TABLE_ACL, NULL);
            table_set_put(model, run.vni, TABLE_METER, NULL);
        }
    }
}

static bool is_vni_same(const struct sim *s, uint32_t vni)
{
    static const enum table_id tables[] = { TABLE_TENANT, TABLE_VXLAN_ROUTE,
                                            TABLE_VM_NC, TABLE_ACL, TABLE_METER };

    for (unsigned i = 0; i < 5; i++) {
        const struct rows *have = core_rows(s->core, vni, tables[i]);
        const struct rows *want = table_set_rows(s->model, vni, tables[i]);

        if (rows_count(have) != rows_count(want) ||
            rows_digest(have) != rows_digest(want)) {
            return false;
        }
    }
    return true;
}

/* A command without an answer was done whole or not at all. */
void check_resolve(struct sim *s)
{
    for (unsigned i = 0; i < SIM_COMMANDS_MAX; i++) {
        struct sim_command *c = &s->commands[i];

        if (c->token == 0 || !c->is_unknown) {
            continue;
        }
        if (c->ops && !is_vni_same(s, c->vni)) {
            check_model_apply(s->model, c->ops);
            if (!is_vni_same(s, c->vni)) {
                moves_follow_newest(s, c->vni); /* a build or a drain moved it then */
            }
            if (!is_vni_same(s, c->vni)) {
                sim_fail(s, "vni %u: a command without an answer is half done", c->vni);
            }
        }
        blob_unref(c->ops);
        memset(c, 0, sizeof(*c));
    }
}

static void check_acknowledged(struct sim *s)
{
    uint32_t vni;

    for (vni = table_set_next(s->model, VNI_MIN, ~0u); vni != 0;
         vni = table_set_next(s->model, vni + 1, ~0u)) {
        if (!is_vni_same(s, vni)) {
            sim_fail(s, "vni %u: an acknowledged write is lost", vni);
            return;
        }
    }
    if (core_count(s->core, TABLE_TENANT) != table_set_count(s->model, TABLE_TENANT) ||
        core_count(s->core, TABLE_VM_NC) != table_set_count(s->model, TABLE_VM_NC) ||
        core_count(s->core, TABLE_ACL) != table_set_count(s->model, TABLE_ACL)) {
        sim_fail(s, "the intent holds what nobody wrote");
    }
}

/* ---- desired, from the intent, in the plainest way ---- */

/* All entries of one VNI, in the plainest form. */
struct entries {
    struct entry *at;
    uint32_t count;
};

static void read_entries(const struct sim *s, uint32_t vni, struct entries *to)
{
    to->count = 0;
    for (int t = 0; t < TABLE_COUNT; t++) {
        struct rows *rows = table_set_rows(s->model, vni, (enum table_id)t);
        struct rows_iter it = rows_begin(rows, (enum table_id)t);
        struct row row;

        to->at = realloc(to->at, (to->count + rows_count(rows) + 1) * sizeof(*to->at));
        while (rows && rows_next(&it, &row)) {
            entry_unpack((enum table_id)t, vni, &row, &to->at[to->count++], NULL);
        }
    }
}

/* The tenant row of a VNI; false: none. */
static bool tenant_of(const struct sim *s, uint32_t vni, struct entry *ret)
{
    struct rows_iter it =
        rows_begin(table_set_rows(s->model, vni, TABLE_TENANT), TABLE_TENANT);
    struct row row;

    return it.rows && rows_next(&it, &row) &&
           entry_unpack(TABLE_TENANT, vni, &row, ret, NULL) == RC_OK;
}

static const char *home_of(const struct entry *tenant, bool is_h)
{
    return is_h ? tenant->tenant.h_home : tenant->tenant.cluster;
}

/* By the policy of the set-up: idc and internet are XGW-x86's. */
static bool is_chosen(const struct entries *all, const struct entry *e)
{
    const struct ip *ip = e->table == TABLE_VM_NC ? &e->vm_nc.vm : &e->route.dst.addr;
    bool has_v6_mac = false;

    if (e->table == TABLE_VXLAN_ROUTE && (e->route.action.scope == SCOPE_IDC ||
                                          e->route.action.scope == SCOPE_INTERNET)) {
        return false;
    }
    for (uint32_t i = 0; i < all->count; i++) {
        has_v6_mac = has_v6_mac ||
                     (all->at[i].table == TABLE_VM_NC &&
                      all->at[i].vm_nc.vm.family == IP_V6 && all->at[i].vm_nc.has_mac);
    }
    if (e->table == TABLE_VM_NC && e->vm_nc.has_mac) {
        return false;
    }
    return !(ip->family == IP_V6 && has_v6_mac &&
             (e->table == TABLE_VM_NC || e->route.action.scope == SCOPE_LOCAL));
}

/* Whether XGW-H answers for what covers a route that is not chosen.  What is chosen by
 * this policy is answered, and what is not chosen falls back, so the longest tells. */
static bool is_answered_around(const struct entries *all, const struct entry *e)
{
    const struct entry *best = NULL;

    for (uint32_t i = 0; i < all->count; i++) {
        const struct entry *k = &all->at[i];

        if (k->table == TABLE_VXLAN_ROUTE && k->route.dst.len < e->route.dst.len &&
            prefix_covers(&k->route.dst, &e->route.dst) &&
            (!best || k->route.dst.len > best->route.dst.len)) {
            best = k;
        }
    }
    return best && is_chosen(all, best);
}

/* What an XGW-H group holds of `e`; false: nothing. */
static bool make_resident(const struct entries *all, struct entry *e)
{
    if ((e->table != TABLE_VXLAN_ROUTE && e->table != TABLE_VM_NC) ||
        is_chosen(all, e)) {
        return true;
    }
    if (e->table == TABLE_VM_NC || !is_answered_around(all, e)) {
        return false;
    }
    memset(&e->route.action, 0, sizeof(e->route.action));
    e->route.action.scope = SCOPE_FALLBACK;
    return true;
}

static void make_vni(const struct entries *all, bool is_h, struct entry *e)
{
    struct entry vni = { .table = TABLE_VNI, .vni = e->vni };

    vni.vni_row.flags = e->tenant.flags;
    for (uint32_t i = 0; is_h && i < all->count; i++) {
        vni.vni_row.flags |= all->at[i].table == TABLE_ACL ? VNI_ACL : 0;
        vni.vni_row.half = (uint8_t)(e->tenant.half - 1);
    }
    *e = vni;
}

static void make_peer(const struct sim *s, const char *cluster, bool is_h,
                      struct entry *e)
{
    struct entry peer;
    const char *home;

    if (!tenant_of(s, e->route.action.vni, &peer) ||
        strcmp(home_of(&peer, is_h), cluster) == 0) {
        return;
    }
    home = peer.tenant.h_home[0] ? peer.tenant.h_home : peer.tenant.cluster;
    e->route.action.scope = SCOPE_DERIVED;
    e->route.action.endpoint = core_cluster_find(s->core, home)->vip_v4;
}

static void add_desired(const struct sim *s, const struct entries *all, uint32_t i,
                        const char *cluster, bool is_h, struct batch_writer *to)
{
    struct entry e = all->at[i];

    if (is_h ? !make_resident(all, &e)
             : e.table == TABLE_ACL || e.table == TABLE_METER) {
        return;
    }
    if (e.table == TABLE_TENANT) {
        make_vni(all, is_h, &e);
    } else if (e.table == TABLE_VXLAN_ROUTE && e.route.action.scope == SCOPE_PEER) {
        make_peer(s, cluster, is_h, &e);
    }
    batch_add_entry(to, ENTRY_PUT, &e);
}

/* Where a load balancer sends the tenant's packets. */
static void add_steering(const struct entry *tenant, struct batch_writer *to)
{
    struct entry e = { .table = TABLE_VNI_CLUSTER, .vni = tenant->vni };

    strcpy(e.vni_cluster.cluster, home_of(tenant, tenant->tenant.h_home[0]));
    batch_add_entry(to, ENTRY_PUT, &e);
}

static struct table_set *make_desired(const struct sim *s, unsigned cluster)
{
    struct table_set *set = table_set_new();
    struct entries all = { NULL, 0 };
    struct batch_writer w;
    struct blob *ops;
    char name[CLUSTER_NAME_MAX + 1];

    sim_cluster_name(cluster, name);
    batch_writer_init(&w);
    for (uint32_t vni = table_set_next(s->model, VNI_MIN, ~0u); vni != 0;
         vni = table_set_next(s->model, vni + 1, ~0u)) {
        struct entry tenant;

        if (tenant_of(s, vni, &tenant) && sim_is_lb(cluster)) {
            add_steering(&tenant, &w);
            continue;
        }
        if (!tenant_of(s, vni, &tenant) ||
            strcmp(home_of(&tenant, sim_is_h(cluster)), name) != 0) {
            continue;
        }
        read_entries(s, vni, &all);
        for (uint32_t i = 0; i < all.count; i++) {
            add_desired(s, &all, i, name, sim_is_h(cluster), &w);
        }
    }
    ops = batch_writer_finish(&w);
    table_set_apply(set, ops->data, ops->len, NULL, NULL, NULL);
    blob_unref(ops);
    batch_writer_fini(&w);
    free(all.at);
    return set;
}

/* ---- when all is quiet ---- */

bool check_is_settled(const struct sim *s)
{
    if (!s->core || !core_is_ready(s->core) || core_has_work(s->core) ||
        store_memory_has_work(s->store) || churn_has_outstanding(s) ||
        !moves_are_over(s)) {
        return false;
    }
    for (unsigned i = 0; i < s->config.nodes; i++) {
        const struct sim_agent *a = &s->agents[i];
        struct node_status n;

        if (!a->session || !a->link || a->link->is_broken || a->heal_at_ms != 0 ||
            a->device_at_ms != 0 || a->link->to_core.first || a->link->to_agent.first ||
            !session_status(a->session).is_assigned) {
            return false;
        }
        if (core_node_status(s->core, s->agents[i].name, &n) != RC_OK || !n.in_sync ||
            !n.has_session || n.state != NODE_ONLINE) {
            return false;
        }
    }
    return true;
}

static void check_device(struct sim *s, struct sim_agent *a,
                         const struct table_set *want)
{
    struct session_status st = session_status(a->session);

    if (!is_same_set(memory_device_tables(a->device), want)) {
        sim_fail(s, "%s: in sync, and not equal to what is desired", a->name);
    } else if (!is_same_set(session_believed(a->session), want)) {
        sim_fail(s, "%s: believes another thing than the device holds", a->name);
    } else if (st.exception_count != 0 || !st.ready) {
        sim_fail(s, "%s: %u exceptions, ready=%d", a->name, st.exception_count,
                 st.ready);
    } else {
        a->is_tainted = false;
    }
}

/* No VNI is in two clusters of a kind; one in an XGW-H cluster is in that behind it. */
static void check_homes(struct sim *s, struct table_set *const sets[SIM_CLUSTERS])
{
    for (unsigned c = 0; c < SIM_HOMES; c++) {
        for (uint32_t vni = table_set_next(sets[c], VNI_MIN, ~0u); vni != 0;
             vni = table_set_next(sets[c], vni + 1, ~0u)) {
            if (c % SIM_X86 == 0 && table_set_next(sets[c + 1], vni, ~0u) == vni) {
                sim_fail(s, "vni %u has two homes of a kind", vni);
            }
            if (sim_is_h(c) && table_set_next(sets[c - SIM_X86], vni, ~0u) != vni) {
                sim_fail(s, "vni %u is on XGW-H and not behind it", vni);
            }
        }
    }
}

void check_all(struct sim *s)
{
    struct table_set *sets[SIM_CLUSTERS];

    s->counts.checks++;
    check_resolve(s);
    check_acknowledged(s);
    for (unsigned c = 0; c < SIM_CLUSTERS; c++) {
        char name[CLUSTER_NAME_MAX + 1];

        sim_cluster_name(c, name);
        sets[c] = make_desired(s, c);
        if (!is_same_set(sets[c], core_group_desired(s->core, name))) {
            sim_fail(s, "%s: desired is not what follows from the intent", name);
        }
    }
    for (unsigned i = 0; i < s->config.nodes; i++) {
        check_device(s, &s->agents[i], sets[i % SIM_CLUSTERS]);
    }
    check_homes(s, sets);
    works_check(s);
    for (unsigned c = 0; c < SIM_CLUSTERS; c++) {
        table_set_free(sets[c]);
    }
}
