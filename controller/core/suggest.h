/*
 * suggest - which service should be on XGW-H, and why: mature, heavy, stable ones
 * there, new, volatile, light ones on XGW-x86.  Advice only; nothing is moved.
 *
 * A COMMAND_SUGGEST makes the suggestion in slices; when it is answered, the outcome is
 * read with core_suggestion().  A service is judged by what the core itself counts,
 * entries, changes and age, and by its traffic (traffic.h), if that was to be measured.
 *
 * **Traffic is an interval.**  Nodes count VNIs, not services.  At least: what VNIs
 * send that use no other service.  At most: what all VNIs send that use it, their own
 * or by a peer, and all VNIs that are not counted one by one.
 *
 * **Heavy** are the services that, the largest first, together carry 80 % of the
 * traffic.  A service is called heavy, or light, if it is one whatever the services
 * carry within their intervals; so the advice to move towards XGW-H holds by what it
 * carries at least, the one towards XGW-x86 by what it carries at most.
 */
#pragma once

#include "controller/core/core.h"

#define SUGGEST_REASON_MAX 239

#define SUGGEST_HEAVY_PERCENT 80

#define SUGGEST_WATCH_MS  UINT64_C(3600000)   /* an update rate needs so long a look */
#define SUGGEST_MATURE_MS UINT64_C(604800000) /* 7 days */

/* These are defaults. */
struct suggest_limits {
    uint64_t watch_ms;
    uint64_t mature_ms;
};
/* Stable: at most one change a minute, or a tenth of the entries in an hour. */
#define SUGGEST_STABLE_PER_HOUR    60
#define SUGGEST_STABLE_PER_ENTRIES 10

enum service_weight {
    WEIGHT_UNKNOWN, /* not measured, or there was no traffic */
    WEIGHT_HEAVY,
    WEIGHT_LIGHT,
    WEIGHT_EITHER, /* within its interval */
};

struct service_figures {
    char service[POLICY_SERVICE_MAX + 1]; /* as in the policy */
    /* All names for which the core has no room to count them one by one. */
    bool is_rest;
    enum policy_place place; /* as the policy is */
    uint64_t entries;        /* routes; of `local` the VM-NC entries too */
    uint64_t changes;        /* rows put, replaced or deleted in the last … */
    uint64_t window_ms;      /* … so long: since the start, at most a day */
    uint64_t age_ms;         /* since its first entry */
    bool is_older;           /* it was there at the start: at least that old */
    bool has_changed;        /* since the start */
    uint64_t quiet_ms;       /* since its last change; else since the start */
    enum service_weight weight;
    uint64_t least_bps, most_bps; /* bits a second; 0 of WEIGHT_UNKNOWN */
    uint64_t total_bps;           /* of all services together */
};

/* Changes of an hour, by the window; 0 of no window. */
double suggest_changes_per_hour(const struct service_figures *f);

/* Where it should be, and why, in a sentence with the figures.  Pure. */
enum policy_place suggest_judge(const struct suggest_limits *limits,
                                const struct service_figures *f,
                                char ret_reason[SUGGEST_REASON_MAX + 1]);

struct service_advice {
    struct service_figures figures;
    enum policy_place place;
    char reason[SUGGEST_REASON_MAX + 1];
};

/* Fills the weights from the intervals.  Pure. */
void suggest_weigh(struct service_advice *services, uint32_t count, uint64_t total_bps);

/* A node whose counters are not in it. */
struct unmeasured_node {
    char name[DEVICE_ID_MAX + 1];
    char why[80];
};

/* What was measured; all zero: nothing was to be. */
struct suggest_traffic {
    uint32_t seconds;
    uint64_t total_bps;     /* of VNIs that use any service */
    uint64_t uncounted_bps; /* of it: of VNIs that are not counted one by one */
    uint32_t measured;      /* nodes */
    uint32_t unmeasured_count;
    struct unmeasured_node *unmeasured;
};

/* Entries on all XGW-H clusters. */
struct resident_size {
    uint64_t routes;
    uint64_t vms;
};

struct suggestion {
    uint64_t revision;   /* of the region when the services were judged */
    uint64_t watched_ms; /* since the core's start */
    uint32_t count;      /* scopes first, then names in order */
    struct service_advice *services;
    struct suggest_limits limits;
    struct suggest_traffic traffic;
    struct resident_size now;
    struct resident_size then; /* were the advice followed; closed like `now` */
};

/* The last one; null before the first.  Borrowed until the next step. */
const struct suggestion *core_suggestion(const struct core *c);
