#include "controller/capacity/predict.h"

#include <string.h>

#include "controller/capacity/conflict.h"

void half_counter_init(struct half_counter *c, const struct layout *l)
{
    memset(c, 0, sizeof(*c));
    alpm_counter_init(&c->alpm, l->partition_slots);
}

bool half_counter_route(struct half_counter *c, uint32_t vni, const struct prefix *dst)
{
    return alpm_counter_add(&c->alpm, vni, dst);
}

void half_counter_vni(struct half_counter *c, uint64_t vms_v4, uint64_t vms_v6)
{
    c->counts.vnis++;
    c->counts.vms += vms_v4 + vms_v6;
    c->counts.conflicts += conflict_expected((double)vms_v6);
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
