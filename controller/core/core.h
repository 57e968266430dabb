/*
 * core - the region's deterministic state machine.
 *
 * One input at a time goes into core_step() with the time; effects come out of
 * core_next_effect().  It never reads a clock, a socket, a random source or a thread,
 * and no step takes more than 10 ms: long work is done in slices, one for each
 * CORE_CONTINUE input, for as long as core_has_work() says so.
 *
 * State changes only by store events, in revision order, on leader and followers alike.
 * A command is checked against the state plus what is in flight and becomes a store
 * transaction; its reply waits for the transaction.  Reads see committed state only.
 *
 *   intent    every tenant's entries as the API put them (one table_set)
 *   desired   of each group: a pure function of intent and objects (one table_set)
 *   applied   of each device: a revision and a short list of exceptions
 *
 * One owner, one thread.  The daemon's shell (controller/main.c) and tests/sim feed it.
 */
#pragma once

#include "controller/audit/audit.h"
#include "controller/audit/plan.h"
#include "controller/capacity/profile.h"
#include "controller/health/health.h"
#include "controller/lifecycle/build.h"
#include "controller/lifecycle/drain.h"
#include "controller/lifecycle/move.h"
#include "controller/placement/placement.h"
#include "controller/probe/probes_record.h"
#include "controller/store/store.h"
#include "proto/model/agent_msg.h"
#include "proto/model/consumer.h"
#include "proto/model/festival.h"
#include "proto/model/object.h"

struct core;

struct core_config {
    uint64_t term;               /* of this leadership: the store's */
    uint32_t beat_ms;            /* max(100 ms, nodes/1000 s) */
    uint32_t silent_beats;       /* beats missed until a device is silent; default 3 */
    uint32_t session_timeout_ms; /* no answer to a QUERY or BATCH for so long ends it */
    uint32_t request_keep_ms;    /* request ids; default 600,000 */
    uint64_t suggest_watch_ms;   /* of suggest.h */
    uint64_t suggest_mature_ms;  /* likewise */
    uint32_t vni_quarantine_ms;  /* a freed VNI is not reused before; default 0 */
    uint32_t max_in_flight;     /* store transactions, at most 32; more wait in order */
    uint32_t checkpoint_bytes;  /* of journal, then pages are written; default 32 MiB */
    uint32_t checkpoint_age_ms; /* or when the oldest record is so old; 600,000 */
    uint32_t checkpoint_idle_ms; /* or nothing was committed for so long; 5,000 */
    uint32_t least_routes;    /* a tenant counts as having at least so many: what it */
    uint32_t least_vms;       /* has when it comes says little; default 2 and 2 */
    struct x86_node x86_node; /* what a node of XGW-x86 is made of */
    double frame_bytes;       /* the mean frame, for packets a second of XGW-H; 500 */
    uint64_t audit_interval_ms; /* each node is audited about so often; 0: only when
                                   asked for; default 600,000 */
    bool audit_repairs;         /* scheduled ones repair what differs; default true */
    uint32_t step_units; /* work of one step (core_internal.h); tests take less */
};

void core_config_default(struct core_config *c);

struct core *core_new(const struct core_config *config); /* null: no memory */
void core_free(struct core *c);

/* ---- inputs ---- */

enum command_kind {
    COMMAND_ENTRIES, /* a batch of entries, tenants included; all or nothing */
    COMMAND_PUT_REGION,
    COMMAND_PUT_CLUSTER,
    COMMAND_DELETE_CLUSTER, /* CONFLICT while tenants or nodes name it */
    COMMAND_PUT_NODE,
    COMMAND_DELETE_NODE,
    COMMAND_PUT_POLICY,
    COMMAND_PUT_LEVELS,   /* settings of water levels */
    COMMAND_PUT_FESTIVAL, /* refused when its load would not fit, unless confirmed */
    COMMAND_DELETE_FESTIVAL,
    COMMAND_MOVE,       /* begins one; the reply names the operation */
    COMMAND_CANCEL,     /* an operation, where it can still be taken back */
    COMMAND_STEP,       /* the core's own: an operation's next step */
    COMMAND_FORGET,     /* the core's own: of an old operation */
    COMMAND_WAIT,       /* answer when `wait.revision` is applied */
    COMMAND_SUGGEST,    /* answer when the advice of suggest.h is made */
    COMMAND_AUDIT,      /* begin audits; the reply says which; nothing is stored yet */
    COMMAND_TRACE,      /* answer when the nodes on the way were asked: live.h */
    COMMAND_PROBE,      /* begin probes; the reply says which; nothing is stored yet */
    COMMAND_ACK,        /* acknowledge the alarm `alarm_id`, also over a restart */
    COMMAND_FORGET_ACK, /* the core's own: an acknowledgement that is spent */
    COMMAND_PUT_CONSUMER,
    COMMAND_DELETE_CONSUMER, /* nothing waits for it any more */
    COMMAND_CONSUMER_ACK,    /* steering of a revision is followed; not stored */
    COMMAND_PROCEED, /* an operation goes on without consumers that it waits for */
    COMMAND_BUILD,   /* begins it: a cluster; the reply names the operation */
    COMMAND_DRAIN,   /* the same */
    COMMAND_RETIRE,  /* the same */
};

struct command {
    uint64_t token; /* the caller's; comes back in the reply */
    enum command_kind kind;
    char who[64];         /* for the audit log */
    char request_id[64];  /* "" = none; a repeat returns the first result */
    bool dry_run;         /* all checks, no change */
    bool confirm;         /* the caller confirms a mass delete */
    uint64_t if_revision; /* object's or VNI's mod revision must equal; 0 = any */
    uint64_t parent;      /* the core's own, for the operation of that number; else 0 */
    union {
        struct {
            struct blob *ops; /* PUT and DELETE runs; checked again by the core */
            bool create_only; /* a put of a key that exists and differs: RC_EXISTS */
            uint8_t import_digest[16]; /* resume token: all zero = not an import */
            /* An import's batches follow each other without a gap: `first` must be
             * the line behind the last batch (1 at first), or RC_CONFLICT with rule
             * import_gap; so nothing behind a refused batch is ever applied. */
            uint64_t import_first_line;
            uint64_t import_next_line;
        } entries;
        const struct region *region; /* large, so borrowed */
        const struct policy *policy; /* the same */
        struct cluster cluster;
        struct node node;
        struct level_settings levels;
        struct festival festival;
        struct consumer consumer;
        struct {
            char name[REGION_NAME_MAX + 1];
            uint64_t revision;
        } consumer_ack;
        struct {
            char id[OPERATION_ID_MAX + 1];
            char why[OPERATION_TEXT_MAX + 1];
        } proceed;
        uint64_t alarm_id;
        struct { /* of one node, a cluster's, a VNI's holders; none of them: all */
            char node[NODE_NAME_MAX + 1];
            char cluster[CLUSTER_NAME_MAX + 1];
            uint32_t vni; /* only its rows */
            bool repairs;
        } audit;
        struct { /* of one node, a cluster's; of neither: of all gateways */
            char node[NODE_NAME_MAX + 1];
            char cluster[CLUSTER_NAME_MAX + 1];
            uint32_t vni; /* of its holders, and only its rows; 0: of all */
        } probe;
        char name[64]; /* deletes; the operation of CANCEL */
        struct {
            uint32_t vni;
            char cluster[CLUSTER_NAME_MAX + 1]; /* x86, or XGW-H with what backs it */
            uint32_t drain_ms;
            bool ignores_steering;
            bool is_held; /* with a parent */
        } move;
        struct build build; /* cluster, hold_ms, drain_ms, vni_count, vnis */
        struct drain drain;
        struct retire retire;
        struct {
            char id[OPERATION_ID_MAX + 1];
            uint8_t from;  /* the step that is over … */
            uint8_t stage; /* … and its stage, of BUILD_ADMIT; else 0 */
            enum verdict verdict;
            char text[OPERATION_TEXT_MAX + 1];
        } step;
        struct {
            uint32_t vni;
            struct ip dst;
            struct ip src;    /* of its family; of IP_NONE: any */
            uint8_t underlay; /* as of core_trace() */
        } trace;
        struct {
            uint32_t seconds; /* between both looks at the traffic; 0: no look */
        } suggest;
        struct {
            uint64_t revision;
            char cluster[CLUSTER_NAME_MAX + 1]; /* "" = all */
            uint64_t deadline_ms;               /* on core_step's clock */
        } wait;
    };
};

enum core_in_kind {
    CORE_LOADED,  /* keys of core_load_range(), in order, while starting */
    CORE_READY,   /* everything up to `revision` was loaded: begin to serve */
    CORE_COMMAND, /* borrows; keeps blobs by reference */
    CORE_STORE_EVENT,
    CORE_STORE_DONE,
    CORE_SESSION_OPEN, /* a device dialled: `session.id`, authenticated `device_id` */
    CORE_SESSION_MSG,
    CORE_SESSION_CLOSED,
    CORE_LIVENESS, /* alive or silent, from the detector's thread */
    CORE_TICK,
    CORE_CONTINUE,
};

struct core_in {
    enum core_in_kind kind;
    union {
        struct {
            const struct store_kv *kvs;
            uint32_t count;
        } loaded;
        uint64_t ready_revision;
        const struct command *command;
        const struct store_event *event;
        const struct store_done *done;
        struct {
            uint64_t id;
            const char *device_id;
            const struct agent_msg *msg; /* SESSION_MSG */
        } session;
        struct {
            const char *device_id;
            bool is_silent;
        } liveness;
    };
};

/* What the shell reads from the store and feeds as CORE_LOADED before CORE_READY. */
void core_load_range(struct store_key *ret_from, struct store_key *ret_end);

/* `now_ms` is monotonic and never goes back; `unix_ms` is for records only. */
void core_step(struct core *c, uint64_t now_ms, uint64_t unix_ms,
               const struct core_in *in);

/* ---- effects ---- */

enum core_effect_kind {
    CORE_TXN,   /* submit to the store; the shell takes it */
    CORE_REPLY, /* the answer to a command */
    CORE_SEND,  /* to a session */
    CORE_CLOSE, /* a session, with the reason */
    CORE_ALARM, /* tell the outside */
    CORE_LOG,
};

struct live_trace; /* live.h */

struct core_reply {
    uint64_t token;
    struct err err;     /* RC_OK, or why not */
    uint32_t bad_index; /* ENTRIES: the entry that broke the rule; UINT32_MAX = none */
    uint64_t revision;  /* of the change */
    struct rows_change counts;
    bool repeated; /* the request id was seen before: the first result */
    char operation[OPERATION_ID_MAX + 1]; /* MOVE, BUILD, DRAIN, RETIRE */
    uint64_t audit_first;                 /* AUDIT: number of the first one … */
    uint32_t audit_count;                 /* … and how many, numbered on from it */
    struct live_trace *live;              /* TRACE; goes with the effect */
    uint64_t probes_first;                /* PROBE: the same */
    uint32_t probes_count;
    bool applied;      /* every online node of every group it touches has it */
    char missing[512]; /* WAIT at its deadline: nodes that have not, comma-separated */
};

struct core_effect {
    enum core_effect_kind kind;
    union {
        struct store_txn *txn;
        struct core_reply reply;
        struct {
            uint64_t session;
            struct ctl_msg msg;
        } send;
        struct {
            uint64_t session;
            struct err why;
        } close;
        struct {
            enum alarm_news news;
            struct alarm alarm;
        } alarm;
        struct {
            int level; /* enum log_level */
            char event[48];
            char text[256];
        } log;
    };
};

bool core_next_effect(struct core *c, struct core_effect *ret);
void core_effect_fini(struct core_effect *e); /* frees what the shell did not take */

bool core_has_work(const struct core *c);
uint64_t core_next_wake(const struct core *c); /* now_ms of the next needed TICK */

/* ---- reads: committed state, pure, same thread; borrowed until the next step ---- */

bool core_is_ready(const struct core *c);
/* Not null: what is stored is damaged, or another controller leads; it serves no more
 * and the shell ends the process. */
const struct err *core_failure(const struct core *c);
uint64_t core_revision(const struct core *c);

const struct region *core_region(const struct core *c); /* null before the first put */

const struct policy *core_policy(const struct core *c); /* the default before a put */
/* What XGW-H nodes hold does not follow the policy yet: it is being worked on. */
bool core_policy_is_pending(const struct core *c);
/* Every group's desired set is that of core_revision(); else it is on its way there. */
bool core_is_projected(const struct core *c);

/* Objects in name order; null behind the last. */
const struct cluster *core_cluster_at(const struct core *c, uint32_t index);
const struct cluster *core_cluster_find(const struct core *c, const char *name);
const struct node *core_node_at(const struct core *c, uint32_t index);
const struct node *core_node_find(const struct core *c, const char *name);
uint64_t core_object_revision(const struct core *c, const char *kind, const char *name);

struct tenant_status {
    uint32_t vni;
    uint8_t flags;
    char cluster[CLUSTER_NAME_MAX + 1];
    char h_home[CLUSTER_NAME_MAX + 1]; /* "": none */
    uint8_t half;                      /* as in its entry: 1 + enum vni_half; 0: none */
    struct tenant_reserve reserve;
    char name[TENANT_NAME_MAX + 1];
    uint32_t route_count, vm_nc_count, rule_count;
    uint64_t mod_revision; /* last change of any of its entries, or of the start */
};
enum rc core_tenant(const struct core *c, uint32_t vni, struct tenant_status *ret);
/* Smallest tenant VNI >= `from`; 0 = none. */
uint32_t core_tenant_next(const struct core *c, uint32_t from);
/* Committed rows of a VNI; null = none. */
struct rows *core_rows(const struct core *c, uint32_t vni, enum table_id table);
uint64_t core_count(const struct core *c, enum table_id table);
struct digest core_digest(const struct core *c,
                          enum table_id table); /* of the intent */
struct digest core_group_digest(const struct core *c, const char *cluster,
                                enum table_id table);
/* What the nodes of a cluster are to hold; null: no such cluster.  Borrowed. */
const struct table_set *core_group_desired(const struct core *c, const char *cluster);
/* Resume token of an import: 0 = begin, else the next line (1-based). */
uint64_t core_import_next_line(const struct core *c, const uint8_t digest[16]);

enum node_state { NODE_JOINING, NODE_ONLINE, NODE_SUSPECT, NODE_OFFLINE };

struct node_status {
    enum node_state state;
    bool has_session;
    bool is_syncing;
    bool in_sync; /* applied >= the group's last change and no exceptions */
    uint64_t boot_id;
    uint64_t applied;
    uint64_t desired; /* the group's last change */
    bool ready;
    bool is_member; /* load balancers may send to it */
    uint32_t exception_count;
    const struct exception *exceptions; /* the first listed ones */
    uint32_t exception_listed;
    uint64_t last_seen_ms; /* core_step's clock; 0 = never */
    uint64_t rx_packets, tx_packets, rx_bytes, tx_bytes, drops;
};
enum rc core_node_status(const struct core *c, const char *node,
                         struct node_status *ret);

/* Levels, alarms, history (controller/health/health.h). */
const struct health *core_health(const struct core *c);
const struct level_settings *core_levels(const struct core *c);
/* In name order; null behind the last. */
const struct festival *core_festival_at(const struct core *c, uint32_t index);
const struct festival *core_festival_find(const struct core *c, const char *name);
/* In name order; null behind the last. */
const struct consumer *core_consumer_at(const struct core *c, uint32_t index);
const struct consumer *core_consumer_find(const struct core *c, const char *name);

struct consumer_status {
    uint64_t acked;     /* revision; 0: none since the start */
    uint64_t seen_ms;   /* unix, of its last acknowledgement; 0: none since the start */
    uint32_t awaited_s; /* the longest that a move waits for it; 0: none does */
};
void core_consumer_status(const struct core *c, const struct consumer *x,
                          struct consumer_status *ret);
/* The cluster whose VIPs a VNI's traffic is to be sent to; null: no such tenant. */
const struct cluster *core_steering(const struct core *c, uint32_t vni);
/* The revision that core_steering() is of: who follows it may acknowledge that. */
uint64_t core_steering_revision(const struct core *c);
/* Takes the history that was read from files; only what the shell keeps is kept. */
void core_set_history(struct core *c, struct history *history);

uint32_t core_operation_count(const struct core *c);
/* Operations in the order of their making; null behind the last. */
const struct operation *core_operation_at(const struct core *c, uint32_t index);
const struct operation *core_operation_find(const struct core *c, const char *id);
/* The running build, drain or retire of a cluster; null: none. */
const struct operation *core_cluster_work(const struct core *c, const char *cluster);
/* What a running operation waits for: one sentence, "" when that is not known yet. */
const char *core_operation_waits(const struct core *c, const char *id);
/* The named tenants of a running build, those that a running drain has to move: as they
 * stood when they were looked at.  False: not known yet, or another kind. */
struct core_work_status {
    uint32_t named, there, held, moving, stuck;
};
bool core_operation_work(const struct core *c, const char *id,
                         struct core_work_status *ret);
/* Whether it waits, at the step that steers, for what this consumer is to acknowledge.
 */
bool core_operation_awaits(const struct core *c, const struct operation *o,
                           const struct consumer *x);

/* The smallest number of an audit >= `from`, running or kept; 0: none. */
uint64_t core_audit_next(const struct core *c, uint64_t from);
/* RC_NOT_FOUND; the caller ends it with audit_record_fini(). */
enum rc core_audit(const struct core *c, uint64_t number, struct audit_record *ret);
/* The smallest number of a node's probes >= `from`, running or kept; 0: none. */
uint64_t core_probes_next(const struct core *c, uint64_t from);
/* RC_NOT_FOUND. */
enum rc core_probes(const struct core *c, uint64_t number, struct probes_record *ret);
/* What was last observed of a node; null: no such node. */
const struct audit_node *core_audit_node(const struct core *c, const char *node);

/* The clusters and what is on them, tenants in flight included; ids by core_place_of()
 * (PLACEMENT_NONE: no such cluster).  For reading. */
const struct placement *core_placement(const struct core *c);
uint32_t core_place_of(const struct core *c, const char *cluster);

/* A tenant that might come. */
struct core_place_ask {
    unsigned kind; /* enum cluster_kind of its home; 0: as a new tenant is placed */
    struct tenant_counts counts;
    const uint32_t *peers; /* VNIs */
    uint32_t peer_count;
};
/* Where it would go, and why: placement_explain(). */
uint32_t core_place(const struct core *c, const struct core_place_ask *ask,
                    struct placement_candidate *ret, uint32_t cap);

/* Moves that would bring down the fullest clusters of a kind by `threshold_bp` each, of
 * their largest tenants: placement_rebalance().  Proposes only. */
enum rc core_rebalance(const struct core *c, unsigned cluster_kind,
                       uint32_t threshold_bp, struct placement_move *ret, uint32_t cap,
                       uint32_t *ret_count);

/* What happens to a packet, hop by hop.  Pure. */
enum trace_kind {
    TRACE_TENANT, /* the VNI's tenant and home */
    TRACE_ROUTE,  /* the entry that decides in `vni` */
    TRACE_VM_NC,
    TRACE_FORWARD,  /* final outer destination and VNI */
    TRACE_DROP,     /* with the reason's name, as the data plane counts it */
    TRACE_FALLBACK, /* from XGW-H to the cluster behind it, which starts over */
};
/* As it comes to the nodes of a cluster. */
struct trace_packet {
    uint32_t vni;
    uint8_t underlay; /* IP_V4 or IP_V6 */
    struct ip from;   /* the VIP of the cluster before; of IP_NONE: from an NC */
    bool is_fallback; /* from XGW-H, to the fallback address of an XGW-x86 */
};
struct trace_hop {
    enum trace_kind kind;
    uint32_t vni;
    char cluster[CLUSTER_NAME_MAX + 1]; /* where this hop is looked up; "": nowhere */
    struct entry entry;                 /* ROUTE, VM_NC, TENANT */
    struct ip outer_dst;                /* FORWARD */
    char reason[32];                    /* DROP */
    char note[160];                     /* one sentence for people */
    struct trace_packet came;           /* what the cluster's nodes look at … */
    bool is_verdict;                    /* … and this is what they make of it */
};
#define TRACE_HOPS_MAX 32 /* a chain of 4 VNIs, each on XGW-H and on XGW-x86 */
/* `underlay`: the family over which the packet comes; IP_NONE: that of the VIP which
 * steering gives. */
uint32_t core_trace(const struct core *c, uint32_t vni, const struct ip *dst,
                    uint8_t underlay, struct trace_hop ret[TRACE_HOPS_MAX]);
