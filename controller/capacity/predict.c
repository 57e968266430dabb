#include "controller/capacity/predict.h"

#include <string.h>

#include "controller/capacity/conflict.h"

void half_counter_init(struct half_counter *c, const struct layout *l)
{
    memset(c, 0, sizeof(*c));
    alpm_counter_init(&c->alpm, l->partition_slots);
}

/* ::ffff:0:0/96, where IPv4 stands among the 128-bit addresses. */
static const struct prefix pool = { { IP_V6, { [10] = 0xff, [11] = 0xff } }, 96 };
static const struct prefix v4_default = { { IP_V4, { 0 } }, 0 };

static struct prefix prefix_of(const struct row *row)
{
    struct prefix p = { { row->key[0], { 0 } }, row->key[row->key_len - 1] };

    memcpy(p.addr.b, row->key + 1, row->key_len - 2u);
    return p;
}

/* Counts the routes from `it` on, of one family, while they stand before (or behind)
 * IPv4 in the order of the strings. */
static bool add_routes(struct half_counter *c, uint32_t vni, struct rows_iter it,
                       uint8_t family, bool is_before, bool *has_over)
{
    struct row row;

    while (rows_next(&it, &row) && row.key[0] == family) {
        struct prefix p = prefix_of(&row);
        bool is_over = prefix_covers(&p, &pool);

        *has_over |= is_over;
        if (family == IP_V6 &&
            (is_over || memcmp(p.addr.b, pool.addr.b, 16) < 0) != is_before) {
            continue;
        }
        if (!alpm_counter_add(&c->alpm, vni, &p)) {
            return false;
        }
    }
    return true;
}

bool half_counter_vni(struct half_counter *c, uint32_t vni, const struct rows *routes,
                      const struct rows *vms)
{
    static const uint8_t v4_first[] = { IP_V4, 0, 0, 0, 0, 0 };
    static const uint8_t v6_first[18] = { IP_V6 };
    struct rows_iter v4 =
        rows_seek(routes, TABLE_VXLAN_ROUTE, v4_first, sizeof(v4_first));
    struct rows_iter v6 =
        rows_seek(routes, TABLE_VXLAN_ROUTE, v6_first, sizeof(v6_first));
    struct rows_iter it = rows_begin(vms, TABLE_VM_NC);
    struct row row;
    uint64_t v6_vms = 0;
    bool has_over = false;
    bool is_guarded =
        rows_find(routes, TABLE_VXLAN_ROUTE, v4_first, sizeof(v4_first), &row);

    if (!add_routes(c, vni, v6, IP_V6, true, &has_over) ||
        (has_over && !is_guarded && !alpm_counter_add(&c->alpm, vni, &v4_default)) ||
        !add_routes(c, vni, v4, IP_V4, false, &has_over) ||
        !add_routes(c, vni, v6, IP_V6, false, &has_over)) {
        return false;
    }
    while (rows_next(&it, &row)) {
        v6_vms += row.key[0] == IP_V6;
    }
    c->counts.vnis++;
    c->counts.vms += rows_count(vms);
    c->counts.conflicts += conflict_expected((double)v6_vms);
    return true;
}

struct half_counts half_counter_sum(const struct half_counter *c)
{
    struct half_counts sum = c->counts;

    sum.routes = c->alpm.routes;
    sum.route_rows = alpm_counter_rows(&c->alpm);
    return sum;
}

/* What fills each table but those of VM-NC. */
static double entries_of(const struct layout *l, const struct layout_table *t,
                         const struct half_counts *h, const struct node_counts *node)
{
    const char *r = t->resource;
    double rows =
        h->route_rows ? (double)h->route_rows : (double)h->routes / l->routes_per_row;

    if (!r) {
        return strcmp(t->name, "route_part") == 0 ? rows * l->partition_slots : 0;
    }
    if (strcmp(r, "route") == 0) {
        return rows;
    }
    if (strcmp(r, "conflict") == 0) {
        return h->conflicts;
    }
    if (strcmp(r, "vni") == 0) {
        return (double)node->vnis;
    }
    if (strcmp(r, "nc_v4") == 0) {
        return (double)node->ncs_v4;
    }
    if (strcmp(r, "nc_v6") == 0) {
        return (double)node->ncs_v6;
    }
    if (strcmp(r, "acl") == 0) {
        return (double)node->acl_rules;
    }
    return strcmp(r, "meter") == 0 ? (double)node->meters : 0;
}

/* VM-NC entries fill vm_nc first, and its spill with what is left. */
static void fill_half(const struct layout *l, const struct chip *c,
                      const struct half_counts *h, const struct node_counts *node,
                      double entries[PREDICT_TABLES_MAX])
{
    const struct layout_table *first = layout_table(l, "vm_nc");
    const struct layout_table *spill = layout_table(l, "vm_nc_spill");
    double vms = (double)h->vms - h->conflicts;
    double room = first ? layout_table_usable(first, c) : 0;

    for (unsigned i = 0; i < l->table_count; i++) {
        const struct layout_table *t = &l->tables[i];

        entries[i] = entries_of(l, t, h, node);
        if (t == first) {
            entries[i] = vms < room ? vms : room;
        } else if (t == spill) {
            entries[i] = vms > room ? vms - room : 0;
        }
    }
}

void capacity_predict(const struct layout *l, const struct chip *c,
                      const struct half_counts half[2], const struct node_counts *node,
                      struct physical_use *ret)
{
    memset(ret, 0, sizeof(*ret));
    for (unsigned h = 0; h < 2; h++) {
        fill_half(l, c, &half[h], node, ret->entries[h]);
    }
    for (unsigned i = 0; i < l->table_count; i++) {
        const struct layout_table *t = &l->tables[i];
        double usable = layout_table_usable(t, c);

        for (unsigned h = 0; h < (t->is_halved ? 2u : 1u); h++) {
            double used = ret->entries[h][i];

            ret->tcam_rows += t->match == MATCH_TERNARY ? used : 0;
            ret->sram_words += used * t->words;
            if (used / usable > ret->fullest) {
                ret->fullest = used / usable;
                ret->fullest_table = i;
            }
        }
    }
}
