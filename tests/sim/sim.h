/*
 * sim - a region in one process and no time: the real core, sync, session and store
 * logic, with simulated networks, devices, disks and clocks.
 *
 * Everything that happens is drawn from one seed, and time jumps from wake-up to
 * wake-up, so an hour costs a fraction of a second and a failure replays exactly.
 *
 *   sim.c             time, and the hour's course: churn and faults, then quiet
 *   sim_controller.c  the daemon's shell: core, store, sessions
 *   sim_agent.c       each agent's shell: session, driver, device, link
 *   sim_churn.c       what tenants do, and what was acknowledged to them
 *   sim_moves.c       tenants that move
 *   sim_consumers.c   who follows steering from outside
 *   sim_works.c       clusters that are drained, retired and built
 *   sim_fault.c       what goes wrong
 *   sim_check.c       what must hold
 */
#pragma once

#include <stdio.h>

#include "agent/driver/driver_memory.h"
#include "agent/session/session.h"
#include "controller/core/core.h"
#include "controller/store/store_memory.h"

#define SIM_NODES_MAX    64
#define SIM_X86          2             /* clusters of each kind that has tenants */
#define SIM_HOMES        (SIM_X86 * 2) /* x86-0, x86-1, h-0, h-1; x86-n is behind h-n */
#define SIM_CLUSTERS     (SIM_HOMES + 1) /* and lb in front of all of them */
#define SIM_COMMANDS_MAX 8               /* outstanding at once */
#define SIM_HISTORY      4096
#define SIM_BEAT_MS      UINT64_C(10000)

struct sim_config {
    uint64_t seed;
    double hours;
    unsigned nodes;
    unsigned tenants;
    bool is_verbose;
};

/* Something on its way through the simulated network. */
struct sim_msg {
    struct sim_msg *next;
    uint64_t due_ms;
    bool is_end; /* the stream is over; nothing follows */
    union {
        struct ctl_msg ctl;
        struct agent_msg agent;
    };
};

struct sim_pipe {
    struct sim_msg *first;
    struct sim_msg **end;
    uint64_t last_due_ms;
};

/* One dialled stream.  The two ends hear of its end each in their own time. */
struct sim_link {
    struct sim_link *next;
    uint64_t id; /* the core's session id */
    struct sim_agent *agent;
    bool is_broken;    /* nothing new gets on it */
    bool agent_is_off; /* the agent's end is closed */
    bool core_is_off;
    struct sim_pipe to_agent;
    struct sim_pipe to_core;
};

struct sim_agent {
    struct sim *sim;
    unsigned index;
    char name[NODE_NAME_MAX + 1];
    char cluster[CLUSTER_NAME_MAX + 1];
    struct memory_device *device;
    struct driver *driver;   /* null while the agent is down */
    struct session *session; /* likewise */
    struct sim_link *link;   /* as the agent sees it */
    uint64_t dial_at_ms;     /* 0 = not dialling */
    uint64_t start_at_ms;    /* the agent comes back; 0 = it is up */
    uint64_t device_at_ms;   /* the device comes back; 0 = it is up */
    uint64_t heal_at_ms;     /* stalled or partitioned until then; 0 = neither */
    bool is_partitioned;
    uint64_t heard_ms; /* by the liveness detector */
    bool is_silent;
    /* What may be wrong in the device without anybody knowing: no check of `applied`
     * until it was compared as a whole. */
    bool is_tainted;
    uint64_t last_applied; /* as checked last */
    uint64_t last_boot_id;
    bool is_corrupt; /* behind the agent's back: only a read-back shows it */
};

/* What an `applied` of a revision means, for each cluster. */
struct sim_state {
    uint64_t since; /* the first revision that it is the state of */
    uint64_t revision;
    struct digest roots[SIM_CLUSTERS][TABLE_COUNT];
};

#define SIM_FOLLOWED 65537 /* a prime: the VNIs of a run do not meet in it */

#define SIM_CONSUMERS 2

struct sim_consumer {
    uint64_t at_ms;                  /* it reads steering again */
    bool is_silent;                  /* until then, for long */
    uint64_t followed[SIM_FOLLOWED]; /* by VNI: the last move that it followed */
};

/* A command whose outcome is not known yet. */
struct sim_command {
    uint64_t token; /* 0 = free */
    uint32_t vni;
    struct blob *ops; /* null: a move, which changes no row by itself */
    bool is_unknown;  /* its answer will never come */
};

struct sim_counts {
    uint64_t moves, moved, refuted; /* … because a probe said otherwise */
    uint64_t turned;                /* rows of load balancers, by moves */
    uint64_t builds, built, drains, drained, cancels; /* of clusters */
    uint64_t followings, waived; /* of consumers; moves that did not wait for them */
    uint64_t steps, commands, acknowledged, refused, unknown;
    uint64_t link_cuts, partitions, agent_crashes, device_crashes, disconnects;
    uint64_t controller_crashes, store_errors, write_errors, corruptions, stalls, lies;
    uint64_t device_writes, checks, applied_checks;
};

struct sim {
    struct sim_config config;
    uint64_t random;
    uint64_t now_ms;
    uint64_t hash; /* of everything that happened, in order */
    struct sim_counts counts;
    char failure[512]; /* the first invariant that did not hold */

    /* controller */
    struct memory_db *db;
    struct store *store; /* null while the controller is down */
    struct core *core;
    bool is_loaded;
    uint64_t controller_at_ms; /* it comes back */
    uint64_t store_at_ms;      /* the disk's next answer */
    uint64_t crash_at_ms;      /* it dies amid a transaction; 0 = it does not */
    uint64_t core_revision;    /* last recorded */
    bool was_projected;        /* the desired sets were that revision's */
    struct sim_link *links;
    uint64_t last_session;
    struct sim_state history[SIM_HISTORY];
    uint64_t history_count;

    /* agents */
    struct sim_agent agents[SIM_NODES_MAX];

    /* churn */
    struct table_set *model; /* what was acknowledged */
    struct sim_command commands[SIM_COMMANDS_MAX];
    uint64_t last_token;
    uint64_t followed_revision;
    uint64_t followed[SIM_FOLLOWED]; /* by VNI: the last move that the model knows */
    struct sim_consumer consumers[SIM_CONSUMERS];
    uint64_t consumers_revision;
    uint64_t passed[SIM_FOLLOWED]; /* by VNI: the last move that was seen to go on */
    uint64_t works_at_ms;          /* somebody looks at the clusters again */
    uint64_t works_counted;        /* the last build or drain that is counted as done */
    uint64_t churn_at_ms;
    uint32_t setup_step;
    bool is_setup_waiting;

    /* faults */
    uint64_t fault_at_ms;
    bool is_quiet; /* no churn, no faults */
};

/* ---- sim.c ---- */

uint64_t sim_random(struct sim *s, uint64_t below);
uint64_t sim_between(struct sim *s, uint64_t low, uint64_t high); /* both inside */
void sim_note(struct sim *s, const char *what, uint64_t a, uint64_t b); /* the trace */
void sim_fail(struct sim *s, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* Runs all of it; false with `failure`. */
bool sim_run(struct sim *s, const struct sim_config *config);
void sim_fini(struct sim *s);

/* ---- sim_controller.c ---- */

void controller_start(struct sim *s);
void controller_crash(struct sim *s);
void controller_input(struct sim *s, const struct core_in *in);
void controller_step(struct sim *s); /* what is due */
uint64_t controller_wake(const struct sim *s);
void controller_command(struct sim *s, const struct command *command);
void controller_open(struct sim *s, struct sim_link *l);

/* ---- sim_agent.c ---- */

void agent_init(struct sim *s, unsigned index);
void agent_fini(struct sim_agent *a);
void agent_start(struct sim_agent *a);
void agent_crash(struct sim_agent *a);
void agent_step(struct sim_agent *a);
uint64_t agent_wake(const struct sim_agent *a);
void link_send_ctl(struct sim *s, struct sim_link *l, struct ctl_msg *m); /* takes */
void link_break(struct sim *s, struct sim_link *l); /* both ends hear of it later */
void links_step(struct sim *s);
uint64_t links_wake(const struct sim *s);
void links_fini(struct sim *s);

/* ---- sim_works.c: clusters are drained, retired and built again ---- */

uint64_t works_wake(const struct sim *s);
void works_step(struct sim *s);
/* Whoever is at home somewhere can be reached there, and no cluster is half built. */
void works_check(struct sim *s);

/* ---- sim_consumers.c ---- */

void consumers_name(unsigned consumer, char ret[REGION_NAME_MAX + 1]);
uint64_t consumers_wake(const struct sim *s);
void consumers_step(struct sim *s);
void consumers_check(struct sim *s);

/* ---- sim_moves.c ---- */

bool moves_are_over(const struct sim *s);
/* The model follows the newest steered move of the VNI, once more. */
void moves_follow_newest(struct sim *s, uint32_t vni);
/* The first of those that may have gone on since the last look. */
uint32_t moves_first_of_newest(const struct sim *s);
bool moves_is_moving(const struct sim *s, uint32_t vni);
void moves_begin(struct sim *s, uint32_t vni, struct sim_command *slot);
void moves_follow(struct sim *s); /* the model learns of homes that have changed */
/* A load balancer was written to. */
void moves_check_steered(struct sim_agent *lb, const struct change_list *changes);

/* ---- sim_churn.c ---- */

uint64_t sim_next_token(struct sim *s);

void sim_cluster_name(unsigned cluster, char ret[CLUSTER_NAME_MAX + 1]);
static inline bool sim_is_h(unsigned cluster)
{
    return cluster >= SIM_X86 && cluster < SIM_HOMES;
}
static inline bool sim_is_lb(unsigned cluster)
{
    return cluster == SIM_HOMES;
}

void churn_setup(struct sim *s); /* region, clusters, nodes */
bool churn_is_set_up(const struct sim *s);
void churn_step(struct sim *s);
void churn_reply(struct sim *s, const struct core_reply *r);
void churn_controller_lost(struct sim *s);
bool churn_has_outstanding(const struct sim *s);
void churn_fini(struct sim *s);

/* ---- sim_fault.c ---- */

void fault_step(struct sim *s);
void fault_heal(struct sim *s);

/* ---- sim_check.c ---- */

void check_event(struct sim *s);            /* a revision was committed */
void check_write(struct sim_agent *a);      /* a device write was carried out */
void check_resolve(struct sim *s);          /* outcomes that were not known */
bool check_is_settled(const struct sim *s); /* every device in sync */
void check_all(struct sim *s);              /* when settled: everything */
void check_model_apply(struct table_set *model, const struct blob *ops);
