/*
 * suggest - which service should be on XGW-H, and why: mature, heavy, stable ones
 * there, new, volatile, light ones on XGW-x86.  Advice only; nothing is moved.
 *
 * A COMMAND_SUGGEST makes the suggestion in slices; when it is answered, the outcome is
 * read with core_suggestion().  A service is judged by what the core itself counts:
 * entries, changes, age.  How much traffic a service carries nobody has measured yet,
 * so it is said to be unknown, and no service is called heavy or light.
 */
#pragma once

#include "controller/core/core.h"

#define SUGGEST_REASON_MAX 239

#define SUGGEST_WATCH_MS  UINT64_C(3600000)   /* an update rate needs so long a look */
#define SUGGEST_MATURE_MS UINT64_C(604800000) /* 7 days */
/* Stable: at most one change a minute, or a tenth of the entries in an hour. */
#define SUGGEST_STABLE_PER_HOUR    60
#define SUGGEST_STABLE_PER_ENTRIES 10

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
};

/* Changes of an hour, by the window; 0 of no window. */
double suggest_changes_per_hour(const struct service_figures *f);

/* Where it should be, and why, in a sentence with the figures.  Pure. */
enum policy_place suggest_judge(const struct service_figures *f,
                                char ret_reason[SUGGEST_REASON_MAX + 1]);

struct service_advice {
    struct service_figures figures;
    enum policy_place place;
    char reason[SUGGEST_REASON_MAX + 1];
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
    struct resident_size now;
    struct resident_size then; /* were the advice followed; closed like `now` */
};

/* The last one; null before the first.  Borrowed until the next step. */
const struct suggestion *core_suggestion(const struct core *c);
