/*
 * projection - how intent and objects become each group's desired set, in slices.
 *
 *   making    the rows of one table that a group is to hold, made from the intent's
 *   transit   a tenant's tables of one group on their way from what it holds to that
 *   job       what one store event, or one tenant under a new policy, makes of all
 * groups
 *
 * A slice ends when the step's units are used up (core_internal.h).  What was done by
 * then is in the group's desired set and was told to its sessions, so at every moment
 * they are to hold what the set holds; only the revision is told at the job's end.
 * While a job runs, store events and answers wait (jobs.c): nothing that it stands on
 * can change under it.
 *
 * For the files of controller/core alone.
 */
#pragma once

#include "controller/core/compare.h"
#include "controller/core/core.h"
#include "controller/store/store.h"
#include "proto/model/object.h"
#include "proto/model/table_set.h"

struct group;

/* Kinds that tenants are at home at, and the load balancers in front of them. */
enum group_kind { GROUP_X86, GROUP_H, GROUP_KINDS, GROUP_LB = GROUP_KINDS };

/* The groups that hold a tenant's rows: its homes, and those of a move. */
struct holders {
    struct group *at[2 * GROUP_KINDS];
    unsigned count;
};

/* place_batch.c: what is in flight and counted on clusters already. */
struct placed_list {
    struct placed *at;
    uint32_t count, cap;
};

/* ---- making.c: rows that follow from others, one by one ---- */

#define COVER_MAX 130 /* nested prefixes: 0 to 128 */

/* Which rows XGW-H is to hold, by a policy. */
struct resident_rules {
    const struct policy *policy;
    bool on_h[SCOPE_COUNT]; /* of scope service: the default of those without a rule */
    bool has_v6_vms;
};

struct making;
/* Says with making_differ() what becomes of a row if it does not stay as it is. */
typedef void making_visit(struct making *m, const struct row *row);

struct making {
    const struct core *core;
    const struct group *group;
    uint32_t vni;
    enum table_id table;
    making_visit *visit; /* null: none is being made */
    struct rows_iter it; /* over `source`, whose rows are looked at */
    struct rows *source;
    struct rows *made; /* so far; null while only counted */
    bool is_count;
    uint64_t left_off; /* rows */
    /* resident.c: the rules, and what covers the row that is looked at */
    struct resident_rules rules;
    struct {
        const uint8_t *key;
        bool is_answered;
    } cover[COVER_MAX];
    unsigned depth;
    /* what differs, of this slice */
    struct rows_step *steps;
    uint32_t count;
    uint32_t cap;
    struct buf values; /* of those steps that have one, in order */
};

/* Keeps references to both: `from` is what is changed, `source` what is looked at. */
void making_begin(struct making *m, struct rows *from, struct rows *source,
                  making_visit *visit);
/* Another value for the row; length 0: it is left off. */
void making_differ(struct making *m, const struct row *row, const uint8_t *value,
                   uint8_t value_len);
/* One slice; true: it is over. */
bool making_work(struct making *m, uint32_t *units);
/* Carries out the steps so far. */
void making_apply(struct making *m);
/* Gives what was made, and ends it. */
struct rows *making_take(struct making *m);
void making_fini(struct making *m); /* also half-way; all zero is fine */

/* ---- transit.c ---- */

struct transit {
    struct group *group;
    uint32_t vni;
    uint32_t mask; /* 1 << table of those that change */
    struct rows *before[TABLE_COUNT];
    struct rows *after[TABLE_COUNT];
    unsigned pass;
    bool is_comparing;
    struct rows_compare compare;
    struct kept *kept; /* of a pass that goes backwards, the last ones */
};

/* Takes the rows of `t->after`; group, vni and mask are set.  Those that stay as they
 * are fall out of the mask. */
void transit_begin(struct transit *t);
/* One slice; true: the group's desired set is there. */
bool transit_work(struct core *c, struct transit *t);
void transit_fini(struct transit *t);

/* ---- tenant.c: all tables of a tenant in one group ---- */

struct projecting {
    bool is_running;
    struct group *group;
    uint32_t vni;
    uint32_t mask;
    const struct table_change *change; /* all that changed of its table; null: any */
    bool is_gone;                      /* the tenant leaves the group */
    unsigned table;                    /* the next one to be made */
    bool is_moving;
    struct making making;
    struct transit transit;
};

void projecting_begin(struct core *c, struct projecting *p);
bool projecting_work(struct core *c, struct projecting *p);
void projecting_fini(struct projecting *p);

/* ---- jobs.c: what a store event makes of indices and groups ---- */

enum job_kind { JOB_NONE, JOB_COMMIT, JOB_CLUSTER, JOB_MOVE, JOB_TENANT };

struct job {
    enum job_kind kind;
    uint64_t revision;
    struct group *cluster; /* JOB_CLUSTER: its addresses changed */
    uint32_t vni;          /* JOB_MOVE, JOB_TENANT */
    struct holders was;    /* JOB_MOVE: who held it before */
    /* JOB_COMMIT: the changes, and how many of them are done with */
    struct change_list changes;
    struct placed_list placed; /* held until the clusters have it */
    bool is_own;
    uint32_t prepared; /* for readers to see */
    uint32_t cleaned;  /* seen, and out of the overlay */
    uint32_t indexed;
    bool is_visible; /* readers see them */
    uint64_t count[TABLE_COUNT];
    uint64_t digest[TABLE_COUNT];
    struct rows_compare compare; /* of the one that is being indexed */
    bool is_comparing;
    int64_t mac_change;
    /* What is to be projected next. */
    unsigned phase;
    uint32_t at;      /* change, or slot of the index of peers */
    uint32_t source;  /* of those that peer to it: the first that is to be done */
    unsigned held_at; /* of the groups that hold it */
    struct projecting now;
    bool is_told;
};

struct deferred {
    struct deferred *next;
    bool is_event;
    struct store_event event;
    struct store_kv *kvs; /* the event's, with references */
    struct store_done done;
};

/* Takes what is in the lists.  What others wrote, the tip's peers are to follow, too.
 */
void jobs_commit(struct core *c, uint64_t revision, bool is_own,
                 struct change_list *changes, struct placed_list *placed);
/* The cluster's addresses changed: all that peers to its tenants is derived again. */
void jobs_cluster(struct core *c, uint64_t revision, struct group *g);
/* A move went from `before` to `after`, and the tenant's row stays as it is. */
void jobs_move(struct core *c, uint64_t revision, const struct operation *before,
               const struct operation *after);
/* The policy changed: every tenant of XGW-H is projected again. */
void jobs_policy(struct core *c, uint64_t revision);
/* The store's events and answers are to wait. */
bool jobs_must_wait(const struct core *c);
void jobs_defer(struct core *c, const struct core_in *in);
/* The sessions of groups that were touched are told, as of now; no job is running. */
void jobs_tell(struct core *c);
bool jobs_work(struct core *c); /* one slice; false: nothing to do */
bool jobs_have_work(const struct core *c);
/* Whether the group lacks something of the state as of `revision`. */
bool jobs_are_behind(const struct core *c, const struct group *g, uint64_t revision);
void jobs_project_all(struct core *c); /* while starting */
void jobs_fini(struct core *c);
