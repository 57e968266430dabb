/*
 * profile - what one kind of gateway can hold and carry, and what a tenant needs of it.
 *
 * A profile joins a resource set (resource.h) with the function that turns a tenant's
 * counts into a demand.  Only here is it known which dimensions a kind has; whoever
 * places tenants or watches levels holds a profile and loops.
 *
 * Values only, made by the caller; any thread.
 */
#pragma once

#include "controller/capacity/layout.h"
#include "controller/capacity/resource.h"

/* What is known of a tenant (a VNI). */
struct tenant_counts {
    uint64_t routes; /* both families */
    uint64_t vms_v4;
    uint64_t vms_v6;
    uint64_t ncs_v4; /* distinct NCs and tunnel endpoints; shared ones count again */
    uint64_t ncs_v6;
    uint64_t acl_rules;
    bool is_metered;
    uint64_t bps; /* measured or reserved, the larger */
    uint64_t pps;
    /* TCAM rows if they were counted (alpm.h), in 1/1,000; 0: estimated from `routes`
     */
    uint64_t route_millirows;
};

struct profile {
    const char *name;
    struct resource_set set;
    double route_rows_each; /* of an H profile: expected rows a route */
    double x86_entry_bytes; /* of an x86 profile */
    void (*demand)(const struct profile *p, const struct tenant_counts *t,
                   struct demand *ret);
};

/* What a tenant needs of this kind of gateway.  Rounded up. */
void profile_demand(const struct profile *p, const struct tenant_counts *t,
                    struct demand *ret);

/* XGW-H: every tenant-filled table of the image, and traffic, per half.  `frame_bytes`
 * is the mean frame, which packets a second are worked out for. */
void profile_init_h(struct profile *p, const struct layout *l, const struct chip *c,
                    double frame_bytes);

/* The same of a switch in software whose tables that grow with the tenants are eight
 * times as large, as phys_sizes_bench() of agent/xgwh says. */
void profile_init_h_bench(struct profile *p, const struct layout *l,
                          const struct chip *c, double frame_bytes);

/* What an XGW-x86 node is made of. */
struct x86_node {
    double cores;        /* workers */
    double pps_per_core; /* 1 Mpps published; better from the core model */
    double port_bps;
    double memory_bytes; /* for tables */
    double entry_bytes;  /* a table entry; seen: 71 */
};

void profile_init_x86(struct profile *p, const struct x86_node *node);
