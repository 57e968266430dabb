#include "controller/capacity/profile.h"

#include <math.h>
#include <string.h>

#include "controller/capacity/conflict.h"

/* Rows are shared by small tenants, so they are counted in thousandths. */
#define MILLI 1000
/* A tenant of a few VMs expects some 1e-9 conflicts. */
#define MICRO 1000000

void profile_demand(const struct profile *p, const struct tenant_counts *t,
                    struct demand *ret)
{
    memset(ret, 0, sizeof(*ret));
    p->demand(p, t, ret);
}

/* Appends a dimension; returns its place. */
static unsigned add(struct resource_set *set, struct resource r, double capacity)
{
    r.scale = r.scale ? r.scale : 1;
    set->at[set->count] = r;
    set->capacity[set->count] = capacity > 0 ? (uint64_t)floor(capacity * r.scale) : 0;
    return set->count++;
}

static void add_traffic(struct resource_set *set, struct resource r, double capacity)
{
    set->is_shared_out[add(set, r, capacity)] = true;
}

/* --- XGW-H ------------------------------------------------------------------------ */

/* Order of an H profile's dimensions, for h_demand() alone. */
enum {
    H_VNI,
    H_ROUTE,
    H_VM_NC,
    H_CONFLICT,
    H_NC_V4,
    H_NC_V6,
    H_METER,
    H_ACL,
    H_BPS,
    H_PPS
};

static void h_demand(const struct profile *p, const struct tenant_counts *t,
                     struct demand *ret)
{
    double rows = (double)t->routes * p->route_rows_each;

    ret->amount[H_VNI] = 1;
    ret->amount[H_ROUTE] =
        t->route_millirows ? t->route_millirows : (uint64_t)ceil(rows * MILLI);
    ret->amount[H_VM_NC] = t->vms_v4 + t->vms_v6;
    ret->amount[H_CONFLICT] =
        (uint64_t)ceil(conflict_expected((double)t->vms_v6) * MICRO);
    ret->amount[H_NC_V4] = t->ncs_v4;
    ret->amount[H_NC_V6] = t->ncs_v6;
    ret->amount[H_METER] = t->is_metered;
    ret->amount[H_ACL] = t->acl_rules;
    ret->amount[H_BPS] = t->bps;
    ret->amount[H_PPS] = t->pps;
}

/* Entries that a half holds of all tables of one resource. */
static double holds(const struct layout *l, const struct chip *c, const char *resource)
{
    double sum = 0;

    for (unsigned i = 0; i < l->table_count; i++) {
        const struct layout_table *t = &l->tables[i];

        if (t->resource && strcmp(t->resource, resource) == 0) {
            sum += layout_table_usable(t, c);
        }
    }
    return sum;
}

void profile_init_h(struct profile *p, const struct layout *l, const struct chip *c,
                    double frame_bytes)
{
    struct resource_set *set = &p->set;

    memset(p, 0, sizeof(*p));
    p->name = l->name;
    p->demand = h_demand;
    p->route_rows_each = 1 / l->routes_per_row;
    set->has_halves = true;
    add(set, (struct resource){ "vni", "entries", "VNIs known", 1, false, 0 },
        holds(l, c, "vni"));
    add(set,
        (struct resource){ "route", "rows", "TCAM rows, a partition each", MILLI, true,
                           RESOURCE_COPIED },
        holds(l, c, "route"));
    add(set,
        (struct resource){ "vm_nc", "entries", "VMs, in vm_nc and its spill", 1, true,
                           RESOURCE_SPLIT },
        holds(l, c, "vm_nc"));
    add(set,
        (struct resource){ "conflict", "entries", "v6 VMs whose 32-bit key is taken",
                           MICRO, true, RESOURCE_SPLIT },
        holds(l, c, "conflict"));
    add(set, (struct resource){ "nc_v4", "entries", "IPv4 NCs and endpoints", 1, 0, 0 },
        holds(l, c, "nc_v4"));
    add(set, (struct resource){ "nc_v6", "entries", "IPv6 NCs and endpoints", 1, 0, 0 },
        holds(l, c, "nc_v6"));
    add(set, (struct resource){ "meter", "meters", "tenants with a rate", 1, 0, 0 },
        holds(l, c, "meter"));
    add(set, (struct resource){ "acl", "rows", "ACL rules", 1, 0, 0 },
        holds(l, c, "acl"));
    add_traffic(set,
                (struct resource){ "bps", "bit/s", "traffic, as it arrives", 1, true,
                                   RESOURCE_SPLIT },
                chip_bps(c, &l->path, frame_bytes) / 2);
    add_traffic(set,
                (struct resource){ "pps", "packets/s", "packets, as they arrive", 1,
                                   true, RESOURCE_SPLIT },
                chip_pps(c, &l->path, frame_bytes) / 2);
}

/* Partitions, and with them rows, are no more than their number's 16 bits can name. */
#define BENCH_SCALE 8
#define BENCH_ROWS  (65536 - 1)

void profile_init_h_bench(struct profile *p, const struct layout *l,
                          const struct chip *c, double frame_bytes)
{
    profile_init_h(p, l, c, frame_bytes);
    p->set.capacity[H_VNI] *= BENCH_SCALE;
    p->set.capacity[H_ROUTE] = (uint64_t)BENCH_ROWS * MILLI;
    p->set.capacity[H_VM_NC] *= BENCH_SCALE;
    p->set.capacity[H_CONFLICT] *= BENCH_SCALE;
}

/* --- XGW-x86 ---------------------------------------------------------------------- */

enum { X86_MEMORY, X86_BPS, X86_PPS };

static void x86_demand(const struct profile *p, const struct tenant_counts *t,
                       struct demand *ret)
{
    double entries = 1 + (double)t->routes + (double)t->vms_v4 + (double)t->vms_v6;

    ret->amount[X86_MEMORY] = (uint64_t)ceil(entries * p->x86_entry_bytes);
    ret->amount[X86_BPS] = t->bps;
    ret->amount[X86_PPS] = t->pps;
}

void profile_init_x86(struct profile *p, const struct x86_node *node)
{
    memset(p, 0, sizeof(*p));
    p->name = "xgw-x86";
    p->demand = x86_demand;
    p->x86_entry_bytes = node->entry_bytes;
    add(&p->set, (struct resource){ "memory", "bytes", "table entries", 1, 0, 0 },
        node->memory_bytes);
    add_traffic(&p->set,
                (struct resource){ "bps", "bit/s", "traffic, as it arrives", 1, 0, 0 },
                node->port_bps);
    add_traffic(&p->set,
                (struct resource){ "pps", "packets/s", "all cores together", 1, 0, 0 },
                node->cores * node->pps_per_core);
}
