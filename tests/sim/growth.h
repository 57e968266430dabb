/*
 * growth - a region that grows for years, in one process: the real core, sync, sessions
 * and memory devices, with networks and disks that take no time.
 *
 * Time goes week by week.  What a week brings is done in its first minutes, by commands
 * and simulated seconds, until all is in sync again; then the rest of it passes in one
 * jump.  Clusters are built when the core says so: when it refuses tenants for want of
 * room.  Everything is drawn from one seed.
 *
 *   growth_shell.c   the shells: core, store, agents
 *   growth_course.c  what tenants and operators do
 *   growth_check.c   what must hold, always
 *   growth_main.c    the command line
 */
#pragma once

#include "agent/driver/driver_memory.h"
#include "agent/session/session.h"
#include "controller/core/core.h"
#include "controller/store/store_memory.h"

#define GROWTH_CLUSTERS_MAX 128
#define GROWTH_NODES_MAX    (2 * GROWTH_CLUSTERS_MAX) /* one of each side */
#define GROWTH_BIG_MAX      64
#define GROWTH_WEEK_MS      UINT64_C(604800000)

struct growth_config {
    uint64_t seed;
    unsigned weeks;
    uint32_t from, to; /* tenants */
    bool is_verbose;
};

struct growth_msg {
    struct growth_msg *next;
    struct growth_node *node;
    uint64_t link;
    bool is_to_core;
    union {
        struct ctl_msg ctl;
        struct agent_msg agent;
    };
};

struct growth_node {
    struct growth *growth;
    char name[NODE_NAME_MAX + 1];
    unsigned cluster;
    struct memory_device *device;
    struct driver *driver;
    struct session *session;
    uint64_t link; /* the core's session id; 0: none */
    bool is_dialling;
};

struct growth_cluster {
    char name[CLUSTER_NAME_MAX + 1];
    bool is_h;
    unsigned backing; /* of XGW-H */
    uint32_t seen;    /* tenants, by the last check */
};

struct growth_tenant {
    uint32_t vms;     /* 1 to so many were put */
    uint32_t inbound; /* peers that lead to it */
    uint32_t peer;    /* its place plus 1; 0: none */
    uint32_t rules;   /* of access */
    bool is_alive;
    bool is_passing; /* a festival takes it along */
    uint8_t seen[2]; /* by the check: on x86, on XGW-H */
};

/* A top customer: announced, then it comes. */
struct growth_big {
    uint32_t tenant; /* its place plus 1; 0: free */
    unsigned weeks_left;
    uint32_t vms_a_week;
};

struct growth_counts {
    uint64_t commands, entries, deleted, bursts, too_big, festivals, restarts;
    uint64_t attacks, built, critical, critical_ended, moves, moved, moved_back,
        move_refused, checks;
};

struct growth {
    struct growth_config config;
    uint64_t random;
    uint64_t hash;
    uint64_t now_ms;
    unsigned week;
    char failure[600];
    struct growth_counts counts;

    struct memory_db *db;
    struct store *store;
    struct core *core;
    bool is_loaded;
    struct growth_msg *first;
    struct growth_msg **end;
    uint64_t last_link;
    uint64_t last_token;
    bool is_answered;
    struct core_reply reply; /* the last one */

    struct growth_cluster clusters[GROWTH_CLUSTERS_MAX];
    unsigned cluster_count;
    struct growth_node nodes[GROWTH_NODES_MAX];
    unsigned node_count;

    struct growth_tenant *tenants; /* in the order they came */
    uint32_t tenant_count, tenant_cap, alive;
    uint32_t *place_of; /* VNI → place in `tenants`, plus 1 */
    struct growth_big big[GROWTH_BIG_MAX];
};

/* ---- growth_course.c ---- */

uint64_t growth_random(struct growth *g, uint64_t below);
void growth_note(struct growth *g, uint64_t a, uint64_t b); /* into the hash */
void growth_fail(struct growth *g, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
bool growth_run(struct growth *g, const struct growth_config *config);
void growth_fini(struct growth *g);
static inline uint32_t growth_vni(uint32_t place)
{
    return 1 + (uint32_t)((uint64_t)place * 104729 % VNI_MAX);
}

/* ---- growth_shell.c ---- */

void shell_start(struct growth *g); /* the controller */
void shell_stop(struct growth *g);
void shell_add_node(struct growth *g, unsigned cluster, char side);
void shell_fini(struct growth *g);
/* Puts a command through; its reply. */
const struct core_reply *shell_command(struct growth *g, struct command *cmd);
/* Seconds pass until all nodes are in sync and no operation runs. */
void shell_settle(struct growth *g);
void shell_pass(struct growth *g, uint64_t ms); /* at once */

/* ---- growth_check.c ---- */

void check_levels(struct growth *g); /* after each command */
void check_week(struct growth *g);   /* all, when settled */
