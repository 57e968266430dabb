/* groups: what holds one desired set, and where tenants are at home. */
#include "controller/core/core_internal.h"

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

void group_add(struct core *c, const char *name, unsigned cluster_kind)
{
    static const uint8_t kinds[] = {
        [CLUSTER_X86] = GROUP_X86, [CLUSTER_XGW_H] = GROUP_H, [CLUSTER_LB] = GROUP_LB
    };
    bool found;
    uint32_t at = group_search(c, name, &found);
    struct group *g;

    if (found) {
        return;
    }
    g = core_need(calloc(1, sizeof(*g)));
    memcpy(g->name, name, strnlen(name, sizeof(g->name) - 1));
    g->kind = kinds[cluster_kind];
    g->desired = core_need(table_set_new());
    g->revision = c->revision;
    g->place = PLACEMENT_NONE;
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
    map_fini(&g->loads);
    map_fini(&g->ncs[0]);
    map_fini(&g->ncs[1]);
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
    if (c->groups[at]->place != PLACEMENT_NONE) {
        placement_remove_cluster(c->placement, c->groups[at]->place);
    }
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

/* half(1) has_reserve(1) and the reservation (proto/model/entry.h). */
static void read_rest(const uint8_t *p, struct tenant_row *ret)
{
    struct reader in = reader_of(p + 2, p[1] ? TENANT_RESERVE_SIZE : 0);

    ret->half = p[0];
    ret->reserve = (struct tenant_reserve){ 0 };
    if (p[1]) {
        ret->reserve.routes = read_u32(&in);
        ret->reserve.vms = read_u32(&in);
        ret->reserve.bps = read_u64(&in);
        ret->reserve.pps = read_u64(&in);
    }
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
    read_rest((const uint8_t *)ret->h_home + ret->h_home_len, ret);
    return true;
}

static struct group *group_named(const struct core *c, const char *name, size_t len)
{
    char text[CLUSTER_NAME_MAX + 1] = "";

    memcpy(text, name, len);
    return len > 0 ? group_find(c, text) : NULL;
}

struct homes homes_of_tenant(const struct core *c, const struct rows *tenant)
{
    struct homes h = { 0 };
    struct tenant_row row;

    if (tenant_row_of(tenant, &row)) {
        h.of[GROUP_X86] = group_named(c, row.cluster, row.cluster_len);
        h.of[GROUP_H] = group_named(c, row.h_home, row.h_home_len);
    }
    return h;
}

struct homes homes_of_vni(const struct core *c, uint32_t vni)
{
    return homes_of_tenant(c, committed_rows(c, vni, TABLE_TENANT));
}

static void holders_add(struct holders *h, struct group *g)
{
    if (g && !holders_have(h, g)) {
        h->at[h->count++] = g;
    }
}

bool holders_have(const struct holders *h, const struct group *g)
{
    for (unsigned i = 0; i < h->count; i++) {
        if (h->at[i] == g) {
            return true;
        }
    }
    return false;
}

struct holders holders_beside(const struct core *c, const struct rows *tenant,
                              const struct home *also)
{
    struct homes homes = homes_of_tenant(c, tenant);
    struct holders h = { 0 };

    for (unsigned k = 0; k < GROUP_KINDS; k++) {
        holders_add(&h, homes.of[k]);
    }
    if (also) {
        holders_add(&h, group_find(c, also->x86));
        holders_add(&h, also->h[0] ? group_find(c, also->h) : NULL);
    }
    return h;
}

struct holders holders_of(const struct core *c, uint32_t vni, const struct rows *tenant)
{
    const struct operation *move = tenant ? objects_move(&c->objects, vni) : NULL;

    return holders_beside(c, tenant, move ? move_also(move) : NULL);
}

struct holders holders_of_vni(const struct core *c, uint32_t vni)
{
    return holders_of(c, vni, committed_rows(c, vni, TABLE_TENANT));
}

struct group *homes_steering(const struct homes *h)
{
    return h->of[GROUP_H] ? h->of[GROUP_H] : h->of[GROUP_X86];
}
