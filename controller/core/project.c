/*
 * project: each group's desired set, a pure function of intent and objects.
 *
 *   tenant       → vni row of the home group, with its flags
 *   vxlan_route  → itself; but a peer whose home is another group becomes `derived`:
 *                  that group's VIP (v4 if it has one) and the peer's VNI
 *   vm_nc        → itself
 *
 * Rows that come out unchanged are shared, not copied.
 */
#include "controller/core/core_internal.h"

/* ---- groups ---- */

static const char *group_name(const void *element)
{
    return (*(struct group *const *)element)->name;
}

static uint32_t group_search(const struct core *c, const char *name, bool *ret_found)
{
    return names_search(c->groups, c->group_count, sizeof(*c->groups), group_name, name,
                        ret_found);
}

struct group *group_find(const struct core *c, const char *name)
{
    bool found;
    uint32_t at = group_search(c, name, &found);

    return found ? c->groups[at] : NULL;
}

void group_add(struct core *c, const char *name)
{
    bool found;
    uint32_t at = group_search(c, name, &found);
    struct group *g;

    if (found) {
        return;
    }
    g = core_need(calloc(1, sizeof(*g)));
    memcpy(g->name, name, strnlen(name, sizeof(g->name) - 1));
    g->desired = core_need(table_set_new());
    g->revision = c->revision;
    batch_writer_init(&g->writer);
    c->groups = core_need(realloc(c->groups, (c->group_count + 1) * sizeof(void *)));
    memmove(&c->groups[at + 1], &c->groups[at], (c->group_count - at) * sizeof(void *));
    c->groups[at] = g;
    c->group_count++;
}

static void group_free(struct group *g)
{
    table_set_free(g->desired);
    batch_writer_fini(&g->writer);
    free(g);
}

void group_remove(struct core *c, const char *name)
{
    bool found;
    uint32_t at = group_search(c, name, &found);

    if (!found) {
        return;
    }
    sessions_close_group(c, c->groups[at], "its cluster was deleted");
    group_free(c->groups[at]);
    c->group_count--;
    memmove(&c->groups[at], &c->groups[at + 1], (c->group_count - at) * sizeof(void *));
}

void groups_fini(struct core *c)
{
    for (uint32_t i = 0; i < c->group_count; i++) {
        group_free(c->groups[i]);
    }
    free(c->groups);
    c->groups = NULL;
    c->group_count = 0;
}

bool tenant_row_of(const struct rows *rows, struct tenant_row *ret)
{
    struct rows_iter it = rows_begin(rows, TABLE_TENANT);
    struct row row;

    if (!rows || !rows_next(&it, &row) || row.value_len < 3) {
        return false;
    }
    ret->flags = row.value[0];
    ret->cluster_len = row.value[1];
    ret->cluster = (const char *)row.value + 2;
    ret->name_len = row.value[2 + ret->cluster_len];
    ret->name = ret->cluster + ret->cluster_len + 1;
    ret->h_home_len = (uint8_t)ret->name[ret->name_len];
    ret->h_home = ret->name + ret->name_len + 1;
    return true;
}

static struct group *group_of_tenant(const struct core *c, const struct rows *tenant)
{
    struct tenant_row row;
    char name[CLUSTER_NAME_MAX + 1];

    if (!tenant_row_of(tenant, &row)) {
        return NULL;
    }
    memcpy(name, row.cluster, row.cluster_len);
    name[row.cluster_len] = '\0';
    return group_find(c, name);
}

struct group *group_of_vni(const struct core *c, uint32_t vni)
{
    return group_of_tenant(c, committed_rows(c, vni, TABLE_TENANT));
}

/* ---- rows ---- */

static struct rows *project_vni(const struct rows *tenant, uint32_t vni)
{
    struct tenant_row row;
    struct rows_step step = { 0 };
    struct rows_change counts;
    struct rows *made;
    uint8_t value[2] = { 0 };

    if (!tenant_row_of(tenant, &row)) {
        return NULL;
    }
    value[0] = row.flags;
    step.row = (struct row){ .key = value, .value = value, .value_len = sizeof(value) };
    core_must(!rows_edit(NULL, TABLE_VNI, vni, &step, 1, &made, &counts));
    return made;
}

/* Room of a derived value: scope, tag, endpoint, VNI. */
#define DERIVED_MAX 21

static uint8_t derive(const struct core *c, const struct group *home, uint32_t peer,
                      uint8_t value[DERIVED_MAX])
{
    const struct cluster *cluster = objects_cluster(&c->objects, home->name);
    const struct ip *vip = cluster->vip_v4.family ? &cluster->vip_v4 : &cluster->vip_v6;
    unsigned size = ip_size(vip);

    value[0] = SCOPE_DERIVED;
    value[1] = vip->family;
    memcpy(value + 2, vip->b, size);
    value[2 + size] = (uint8_t)(peer >> 16);
    value[3 + size] = (uint8_t)(peer >> 8);
    value[4 + size] = (uint8_t)peer;
    return (uint8_t)(5 + size);
}

/* The committed routes of `vni` as group `g` holds them.  One reference. */
static struct rows *project_routes(const struct core *c, uint32_t vni,
                                   const struct group *g)
{
    struct rows *routes = committed_rows(c, vni, TABLE_VXLAN_ROUTE);
    struct rows *out = table_set_rows(c->peers.out, vni, TABLE_VXLAN_ROUTE);
    struct rows_iter it = rows_begin(out, TABLE_VXLAN_ROUTE);
    uint8_t(*values)[DERIVED_MAX];
    struct rows_step *steps;
    struct rows_change counts;
    struct rows *made = NULL;
    uint32_t count = 0;
    struct row row;

    if (!out) {
        return rows_ref(routes);
    }
    steps = core_need(malloc(rows_count(out) * sizeof(*steps)));
    values = core_need(malloc(rows_count(out) * sizeof(*values)));
    while (rows_next(&it, &row)) {
        uint32_t peer = row_peer(&row);
        const struct group *home = group_of_vni(c, peer);

        if (home && home != g) {
            steps[count].row = row;
            steps[count].row.value_len = derive(c, home, peer, values[count]);
            steps[count].row.value = values[count];
            count++;
        }
    }
    if (count == 0) {
        made = rows_ref(routes);
    } else {
        core_must(
            !rows_edit(routes, TABLE_VXLAN_ROUTE, vni, steps, count, &made, &counts));
    }
    free(steps);
    free(values);
    return made;
}

static struct rows *project_rows(const struct core *c, uint32_t vni,
                                 enum table_id table, const struct group *g)
{
    switch (table) {
    case TABLE_VNI:
        return project_vni(committed_rows(c, vni, TABLE_TENANT), vni);
    case TABLE_VXLAN_ROUTE:
        return project_routes(c, vni, g);
    default:
        return rows_ref(committed_rows(c, vni, table));
    }
}

/* ---- changes ---- */

/* Takes `rows`. */
static void set_desired(struct group *g, uint32_t vni, enum table_id table,
                        struct rows *rows)
{
    const struct bucket all = { 0 };
    struct rows *have = table_set_rows(g->desired, vni, table);

    if (have == rows) {
        rows_unref(rows);
        return;
    }
    if (rows_digest(have) != rows_digest(rows) ||
        rows_count(have) != rows_count(rows)) {
        g->is_touched = true;
        if (g->session_count > 0) {
            rows_diff(have, rows, table, vni, all, &g->writer);
        }
    }
    core_must(!table_set_put(g->desired, vni, table, rows));
}

static const enum table_id projected[] = { TABLE_VM_NC, TABLE_VXLAN_ROUTE, TABLE_VNI };

static void project_tenant(struct core *c, uint32_t vni, struct group *before,
                           struct group *after)
{
    if (after) {
        after->has_gained = after->has_gained || before != after;
        for (unsigned i = 0; i < 3; i++) {
            set_desired(after, vni, projected[i],
                        project_rows(c, vni, projected[i], after));
        }
    }
    if (before && before != after) {
        for (unsigned i = 0; i < 3; i++) {
            set_desired(before, vni, projected[2 - i], NULL);
        }
    }
}

/* The routes of all that peer to `vni`. */
static void project_sources(struct core *c, uint32_t vni)
{
    const struct peer_sources *s = peer_index_sources(&c->peers, vni);

    for (uint32_t i = 0; s && i < s->count; i++) {
        struct group *g = group_of_vni(c, s->at[i].vni);

        if (g) {
            set_desired(g, s->at[i].vni, TABLE_VXLAN_ROUTE,
                        project_routes(c, s->at[i].vni, g));
        }
    }
}

static void tell_group(struct core *c, struct group *g, uint64_t revision)
{
    struct blob *ops = NULL;

    g->revision = revision;
    if (g->session_count > 0) {
        ops = core_need(batch_writer_finish(&g->writer));
        sessions_change(c, g, revision, ops);
        blob_unref(ops);
    }
    g->is_touched = false;
    g->has_gained = false;
}

/* Groups that gained a tenant hear of it before those that lost it. */
static void tell_groups(struct core *c, uint64_t revision)
{
    for (int gained = 1; gained >= 0; gained--) {
        for (uint32_t i = 0; i < c->group_count; i++) {
            struct group *g = c->groups[i];

            if (g->is_touched && (g->has_gained || !gained)) {
                tell_group(c, g, revision);
            }
        }
    }
    for (uint32_t i = 0; i < c->group_count; i++) {
        c->groups[i]->has_gained = false;
    }
}

void project_changes(struct core *c, uint64_t revision, const struct change_list *l)
{
    for (uint32_t i = 0; i < l->count; i++) {
        const struct table_change *ch = &l->at[i];
        struct group *g = group_of_vni(c, ch->vni);

        if (ch->table == TABLE_TENANT) {
            struct group *before = group_of_tenant(c, ch->before);

            project_tenant(c, ch->vni, before, g);
            if (before != g) {
                project_sources(c, ch->vni);
            }
        } else if (g) {
            set_desired(g, ch->vni, ch->table, project_rows(c, ch->vni, ch->table, g));
        }
    }
    tell_groups(c, revision);
}

void project_cluster(struct core *c, uint64_t revision, struct group *g)
{
    struct map_slot *slot;
    uint32_t at = 0;

    while ((slot = map_each(&c->peers.in, &at))) {
        if (group_of_vni(c, (uint32_t)slot->key) == g) {
            project_sources(c, (uint32_t)slot->key);
        }
    }
    tell_groups(c, revision);
}

void project_all(struct core *c)
{
    const uint32_t tenants = 1u << TABLE_TENANT;
    uint32_t vni = table_set_next(c->tip, VNI_MIN, tenants);

    while (vni) {
        project_tenant(c, vni, NULL, group_of_vni(c, vni));
        vni = vni < VNI_MAX ? table_set_next(c->tip, vni + 1, tenants) : 0;
    }
    for (uint32_t i = 0; i < c->group_count; i++) {
        c->groups[i]->revision = c->revision;
        c->groups[i]->is_touched = false;
        c->groups[i]->has_gained = false;
    }
}
