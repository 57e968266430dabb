/*
 * core_internal - what the files of controller/core share and nobody else includes.
 *
 *   tip        committed state and everything in flight: what commands are checked
 *              against (table_set, objects, peers)
 *   committed  the tip, but for the (VNI, table)s in `overlay`; objects and peers of
 *              its own
 *
 * Memory: a command that cannot get memory is refused.  Once a change is durable it
 * must take effect, so there core_need() ends the process, which starts again from
 * what is stored.
 */
#pragma once

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "controller/core/activity.h"
#include "controller/core/core.h"
#include "controller/core/map.h"
#include "controller/core/probes.h"
#include "controller/core/projection.h"
#include "controller/core/record.h"
#include "controller/core/sources.h"
#include "controller/core/suggest.h"
#include "controller/core/traffic.h"
#include "controller/probe/course.h"
#include "controller/sync/sync.h"

/* Ends the process when memory that must be had is not: see above. */
static inline void *core_need(void *memory)
{
    if (!memory) {
        abort();
    }
    return memory;
}

static inline void core_must(bool done)
{
    if (!done) {
        abort();
    }
}

/* A step has so many units of work, of 100 to 500 ns each: a row looked at, a key
 * looked up.  Long work spends them and goes on in the next step when they are used up.
 */
static inline void units_spend(uint32_t *units, uint32_t n)
{
    *units -= n < *units ? n : *units;
}

/* What the API puts: all but the derived `vni`.  And of these, what belongs to a tenant
 * and goes with it. */
#define INTENT_TABLES                                                                  \
    (1u << TABLE_TENANT | 1u << TABLE_VXLAN_ROUTE | 1u << TABLE_VM_NC |                \
     1u << TABLE_ACL | 1u << TABLE_METER)
static const enum table_id owned_tables[] = { TABLE_VXLAN_ROUTE, TABLE_VM_NC, TABLE_ACL,
                                              TABLE_METER };
enum { OWNED_TABLES = sizeof(owned_tables) / sizeof(owned_tables[0]) };

static inline uint64_t row_set_key(uint32_t vni, uint8_t table)
{
    return (uint64_t)vni << 8 | table;
}

/* ---- names.c: arrays sorted by name ---- */

/* The name of the element at `element`. */
typedef const char *name_of_fn(const void *element);

/* Index of the first of `count` elements of `size` bytes whose name is not below
 * `name`;
 * `*ret_found` when it is that one. */
uint32_t names_search(const void *array, uint32_t count, size_t size,
                      name_of_fn *name_of, const char *name, bool *ret_found);

/* ---- objects.c: region, clusters and nodes, by name ---- */

struct objects {
    bool has_region;
    struct region region;
    uint64_t region_revision;
    struct policy policy; /* all zero: the default */
    uint64_t policy_revision;
    struct level_settings levels;
    uint64_t levels_revision;   /* 0: the default */
    struct festival *festivals; /* sorted by name */
    uint64_t *festival_revisions;
    uint32_t festival_count;
    struct cluster *clusters; /* sorted by name */
    uint64_t *cluster_revisions;
    uint32_t cluster_count;
    struct node *nodes;
    uint64_t *node_revisions;
    uint32_t node_count;
    struct operation *operations;
    uint64_t *operation_revisions;
    uint32_t operation_count;
    struct consumer *consumers; /* sorted by name */
    uint64_t *consumer_revisions;
    uint32_t consumer_count;
    struct alarm_ack *acks; /* sorted by name */
    uint64_t *ack_revisions;
    uint32_t ack_count;
    uint32_t running_count; /* of operations */
    struct map moves;       /* VNI → a: the number of its running move */
};

#define REVISION_IN_FLIGHT UINT64_MAX

struct object_change {
    enum command_kind kind; /* PUT_… or DELETE_…; COMMAND_ENTRIES: none */
    union {
        struct region *region; /* owned */
        struct policy *policy; /* owned */
        struct cluster cluster;
        struct node node;
        struct operation *operation; /* owned */
        struct level_settings levels;
        struct festival festival;
        struct consumer consumer;
        struct alarm_ack ack;
        char name[64];
    };
};
void object_change_fini(struct object_change *ch);

void objects_fini(struct objects *o);
bool objects_copy(const struct objects *from, struct objects *ret);
const struct cluster *objects_cluster(const struct objects *o, const char *name);
const struct node *objects_node(const struct objects *o, const char *name);
const struct festival *objects_festival(const struct objects *o, const char *name);
const struct consumer *objects_consumer(const struct objects *o, const char *name);
uint64_t objects_revision(const struct objects *o, const char *kind, const char *name);
/* False: no memory. */
bool objects_apply(struct objects *o, const struct object_change *ch,
                   uint64_t revision);
struct pending;
/* Checks the command against the tip and fills the change and the object's stored
 * form (null for a delete).  `*ret_same`: nothing would change. */
enum rc object_evaluate(struct core *c, const struct command *cmd,
                        struct object_change *ret, struct blob **ret_value,
                        bool *ret_same, struct err *err);
enum rc object_load(struct core *c, const struct store_kv *kv, struct err *err);
const char *object_kind(enum command_kind kind); /* "region", "cluster", … */
const char *object_change_name(const struct object_change *ch);

/* ---- peers.c: peer routes by VNI, in both directions ---- */

struct peer_index {
    struct table_set *out; /* only the peer routes of TABLE_VXLAN_ROUTE */
    struct map in;         /* target VNI → p: struct sources */
};

bool peer_index_init(struct peer_index *p);
void peer_index_fini(struct peer_index *p);
/* Routes of `vni` change, each of them at most once between begin and end.  What the
 * index has of a route counts, not what it was before: so a change that was followed in
 * part can be followed again, or back. */
struct peer_update {
    struct peer_index *index;
    uint32_t vni;
    struct rows *out; /* what the index has */
    struct rows_step *steps;
    uint32_t count;
    uint32_t cap;
};
void peer_update_begin(struct peer_update *u, struct peer_index *p, uint32_t vni);
void peer_update_row(struct peer_update *u, const struct row *before,
                     const struct row *after, uint32_t *units);
void peer_update_end(struct peer_update *u);
/* Follows a change list, or leads back along it.  One slice; true: all of it. */
struct peers_at {
    uint32_t change;
    bool is_comparing;
    struct rows_compare compare;
};
bool peers_follow(struct peer_index *p, const struct change_list *l, bool is_undo,
                  struct peers_at *at, uint32_t *units);
/* Those whose routes lead to `vni`, as often as routes do. */
const struct sources *peer_index_sources(const struct peer_index *p, uint32_t vni);

/* VNI that a packed peer route leads to; 0: no peer route. */
static inline uint32_t row_peer(const struct row *row)
{
    if (!row || row->value_len < 4 || row->value[0] != SCOPE_PEER) {
        return 0;
    }
    return (uint32_t)row->value[1] << 16 | (uint32_t)row->value[2] << 8 | row->value[3];
}

/* ---- chains.c: loops and long chains of peer routes ---- */

/* Checks every chain that the route `row` of `vni` may have made, which came or went:
 * no destination may see a VNI twice, nor pass more than 3 peers.  `*work` counts down;
 * RC_RANGE when it is used up. */
enum rc chains_check(struct core *c, uint32_t vni, const struct row *row,
                     uint32_t *work, struct err *err);

/* ---- command.c: the queue of commands ---- */

enum pending_state {
    PENDING_WAITING, /* not checked yet, or to be checked again */
    PENDING_FLYING,  /* its transaction was submitted */
    PENDING_UNKNOWN, /* the store could not say whether it took effect */
    PENDING_COMMITTED,
    PENDING_DONE, /* only its reply is due */
};

/* How far the check of a batch went, which may take several steps. */
enum check_stage {
    CHECK_NOT,
    CHECK_STATIC,   /* everything that does not depend on state is done, … */
    CHECK_PLACED,   /* its tenants have homes, … */
    CHECK_BEFORE,   /* and so is what is looked at before it is applied */
    CHECK_APPLIED,  /* the tip has its rows … */
    CHECK_DROPPED,  /* without those of tenants that it deletes, … */
    CHECK_FOLLOWED, /* and so have the peers */
    CHECK_BACK,     /* it is taken out again: refused, or a dry run */
};

/* Where the check of a stage goes on. */
struct check_at {
    struct place_at {
        bool is_begun;
        bool is_making; /* another batch, for one that leaves something to us */
        struct batch_reader reader;
        struct batch_writer made;
        uint32_t index;
    } place;
    uint32_t bytes;  /* of the batch that are applied */
    uint32_t change; /* of those that are done with */
    struct peers_at peers;
    unsigned phase; /* of the rules that need what the batch makes of the tip */
    bool is_comparing;
    struct rows_compare compare;
    uint32_t chain_work;
    struct map tenants; /* VNI → a: deleted entries, b: all of them before */
    struct room_gain *gain;
};
void check_at_fini(struct check_at *at); /* all zero again */

struct pending {
    struct pending *next;
    struct command command;
    enum pending_state state;
    enum check_stage stage; /* while it is waiting */
    struct check_at at;
    bool must_undo; /* the tip has what it is not to have any more */
    uint64_t tag;
    uint64_t seq;
    struct core_reply reply;
    struct blob *ops; /* rows to change: of ENTRIES, and of some steps; null: none */
    struct change_list changes;
    struct object_change object;
    struct blob *object_value; /* its stored form, while an operation is checked */
    struct blob *asked;        /* the batch as it came, if place.c made another of it */
    struct placed_list placed;
};

struct queue {
    struct pending *head;
    struct pending *tail;
    uint32_t flying;      /* FLYING, UNKNOWN and COMMITTED */
    uint32_t answers;     /* transactions whose answer is due, failed ones included */
    uint32_t undo_count;  /* of those that must be undone: nothing is checked before */
    bool is_draining;     /* one failed: wait for all answers, then check again */
    uint64_t probe_at_ms; /* when to ask again; 0: not */
};

void queue_add(struct core *c, const struct command *cmd);
void queue_answer(struct core *c); /* what is finished at the head */
bool queue_work(struct core *c);   /* checks one command; false: nothing to do */
bool queue_has_work(const struct core *c);
void queue_event(struct core *c, const struct store_event *ev);
void queue_done(struct core *c, const struct store_done *done);
void queue_fail_all(struct core *c, enum rc rc, const char *why);
void queue_fini(struct core *c);
/* What is in flight is to be undone; `from` and all behind are to be checked again. */
void queue_undo(struct core *c, struct pending *from);
void queue_undo_all(struct core *c); /* and is, at once */

void queue_probe(struct core *c); /* asks after what is unknown, when none is asked */

/* Tags say whose answer it is. */
enum tag_kind {
    TAG_COMMAND,
    TAG_CHECKPOINT,
    TAG_PROBE,
    TAG_TERM,
    TAG_AUDIT,
    TAG_PROBES
};
uint64_t tag_new(struct core *c, enum tag_kind kind);
static inline enum tag_kind tag_kind(uint64_t tag)
{
    return (enum tag_kind)(tag & 7);
}

/* ---- txn.c ---- */

/* Makes and submits the transaction of `p`; `object`: the stored form, null for a
 * delete and for entries.  On RC_NO_MEMORY nothing was submitted; `p->reply.err`. */
enum rc pending_submit(struct core *c, struct pending *p, struct blob *object);
/* Puts `value` and drops the caller's reference; null: no memory. */
enum rc txn_put(struct store_txn *txn, struct store_key key, struct blob *value);
/* A transaction with the fence; null: no memory. */
struct store_txn *txn_new(struct core *c, uint64_t tag);
void txn_submit(struct core *c, struct store_txn *txn);

/* ---- validate.c, validate_static.c: the rules of a batch ---- */

/* The rules that need no state: size, form, tables that take entries, no key twice.
 * Else `*ret_index` is the offending entry's, UINT32_MAX for the batch as a whole. */
enum rc batch_check_static(const struct command *cmd, uint32_t *ret_index,
                           struct err *err);
/* The rules on what is there before. */
enum rc batch_check_before(struct core *c, struct pending *p);
/* One slice of every rule that needs what it makes of the tip; true: that was all, or
 * one is broken: `p->reply.err`. */
bool batch_check_state(struct core *c, struct pending *p);

/* ---- tip.c ---- */

/* One slice each; true: all of it, or out of memory: `p->reply.err`. */
bool tip_apply(struct core *c, struct pending *p);
bool tip_drop(struct core *c, struct pending *p);
bool tip_take_back(struct core *c, struct pending *p);
/* The same for what others wrote, all at once.  The list gets what was changed. */
enum rc tip_apply_record(struct core *c, const struct blob *ops, struct change_list *l,
                         struct err *err);
/* Tenants by home, along a change list or back. */
void tip_count_homes(struct core *c, const struct change_list *l, bool is_undo);
/* Drops the other rows of the tenant that the change deletes; appends to the list.
 * RC_NO_MEMORY: what was dropped so far is in the list. */
enum rc tip_drop_tenant(struct table_set *s, struct change_list *l, uint32_t vni,
                        struct rows_change *total);

/* The same for a record that is replayed over pages of which some are older and some
 * newer than it: what a deleted tenant owned goes, also where the tenant's own row is
 * gone already. */
enum rc tip_replay_drops(struct table_set *s, const struct blob *ops,
                         struct change_list *l, struct rows_change *total);

/* ---- commit.c ---- */

/* Takes what is in the lists; null `placed`: nothing. */
void commit_changes(struct core *c, uint64_t revision, bool is_own,
                    struct change_list *l, struct placed_list *placed);
/* One slice of moving the view that readers see: nothing of it is seen before all is
 * prepared.  True: it is there. */
bool commit_prepare(struct core *c);
void commit_show(struct core *c); /* all of that at once */
bool commit_clean(struct core *c);
void commit_object(struct core *c, uint64_t revision, const struct object_change *ch);
void commit_foreign(struct core *c, const struct store_event *ev);
/* The tip went ahead along the list from `from` on, or was taken back. */
void overlay_add(struct core *c, const struct change_list *l, uint32_t from);
void overlay_drop(struct core *c, const struct change_list *l);
void overlay_fini(struct core *c);
/* Committed rows, borrowed. */
struct rows *committed_rows(const struct core *c, uint32_t vni, enum table_id table);

struct session;

/* ---- operations.c: long work, its steps and its gates ---- */

/* The running move of a VNI; null: none. */
const struct operation *objects_move(const struct objects *o, uint32_t vni);
/* Some running move goes from or to the cluster. */
bool objects_move_needs(const struct objects *o, const char *cluster);
const struct operation *objects_operation(const struct objects *o, const char *id);
/* The running build, drain or retire of the cluster; null: none. */
const struct operation *objects_work(const struct objects *o, const char *cluster);
/* Keeps `moves` and `running_count` in step with an operation that was `was` (null: it
 * is new); false: no memory. */
bool objects_note_operation(struct objects *o, const struct operation *was,
                            const struct operation *op);
bool command_is_operation(const struct command *cmd);
bool command_is_own(const struct command *cmd); /* nobody waits for its answer */
/* Checks the command against the tip; fills the change, the rows that go with it
 * (`p->ops`) and the stored form. */
enum rc operation_evaluate(struct core *c, struct pending *p, struct object_change *ret,
                           struct blob **ret_value);
/* What all kinds begin with; the reply names it. */
void operation_begin(struct core *c, struct pending *p, enum operation_kind kind,
                     struct operation *o);

/* ---- operation_runs.c: how they go on ---- */

#define OPERATIONS_ACTIVE_MAX 8 /* moves */

void operations_committed(struct core *c, const struct operation *op);
/* The core's own command was answered. */
void operations_answered(struct core *c, const struct command *cmd,
                         const struct err *err);
/* They are looked at again then, or before. */
void operations_look_at(struct core *c, uint64_t at_ms);
/* False: a step of it is on its way already, or the store just refused one. */
bool operation_submit_step(struct core *c, const struct operation *o, enum verdict v,
                           const char *why);
struct run *run_find(const struct core *c, const char *id); /* null: none */
void operations_note(struct core *c); /* something they may wait for happened */
bool operations_work(struct core *c);
bool operations_have_work(const struct core *c);
uint64_t operations_wake(const struct core *c);
void operations_tick(struct core *c);
void operations_fini(struct core *c);

/* ---- moves.c: the facts that a move waits for ---- */

/* What this process knows of a running operation. */
struct run {
    struct run *next;
    char id[OPERATION_ID_MAX + 1];
    uint8_t step;            /* that the rest is of … */
    uint8_t stage;           /* … and its stage */
    uint64_t began_ms;       /* that step, or the process */
    uint64_t since_revision; /* by then it was committed */
    uint32_t steered_at;     /* of those that peer to the tenant: those before follow */
    bool is_writing;         /* its next step is on its way to the store */
    uint64_t retry_ms;       /* after a step that the store did not take */
    struct ask *asks;        /* of the gate: what nodes are asked */
    uint32_t ask_count;
    struct brood *brood; /* of kinds that are made of moves; null: not looked yet */
    char waits[OPERATION_TEXT_MAX + 1];
};
void move_facts_of(struct core *c, const struct operation *o, struct run *r,
                   struct move_facts *ret, char why[OPERATION_TEXT_MAX + 1]);

/* ---- works.c: building, draining and retiring clusters ---- */

/* Checks a request that begins one, and fills the operation. */
enum rc work_begin(struct core *c, struct pending *p, struct operation *o);
/* One look at it, which may submit commands of its own. */
enum verdict work_next(struct core *c, const struct operation *o, struct run *r,
                       char ret_why[OPERATION_TEXT_MAX + 1]);
/* The stages of its admission, by the traffic that is measured now. */
enum rc build_find_cuts(const struct core *c, struct build *b, struct err *err);
/* What speaks against letting more of a region's traffic onto the cluster; false:
 * nothing. */
bool work_has_breach(const struct core *c, const char *cluster,
                     char why[OPERATION_TEXT_MAX + 1]);

/* ---- brood.c: the moves of one operation, and what else is done for it ---- */

struct brood;

void brood_free(struct brood *b);      /* null is fine */
void brood_next_step(struct brood *b); /* null is fine */
/* A move of the operation `o->parent` was taken back. */
void brood_move_undone(struct core *c, const struct operation *o);
/* The answer to a command that was submitted for the operation `cmd->parent`. */
void brood_answered(struct core *c, const struct command *cmd, const struct err *err);
/* Looks at the named tenants, and begins, lets in or takes back moves as the step
 * wants it. */
void brood_build(struct core *c, const struct operation *o, struct run *r,
                 struct build_tally *ret, char why[OPERATION_TEXT_MAX + 1]);
/* Looks at the tenants of the cluster, and begins moves unless it is cancelled. */
void brood_drain(struct core *c, const struct operation *o, struct run *r,
                 struct drain_facts *ret, char why[OPERATION_TEXT_MAX + 1]);
/* What the last whole look saw; false: there was none. */
bool brood_status(const struct brood *b, unsigned kind, struct core_work_status *ret);
/* Since all tenants of the stage are in and every node is well, ms; 0: it is not so. */
uint64_t brood_stage_ms(struct core *c, struct run *r, const struct build_tally *t,
                        bool is_well);
/* Sees to it that the cluster is in that state; true: it is. */
bool brood_put_state(struct core *c, const struct operation *o, struct run *r,
                     uint8_t state);
/* The read-back, or the probes, of all nodes of the cluster. */
enum gate brood_audit(struct core *c, const struct operation *o, struct run *r,
                      char why[OPERATION_TEXT_MAX + 1]);
enum gate brood_probe(struct core *c, const struct operation *o, struct run *r,
                      char why[OPERATION_TEXT_MAX + 1]);

/* ---- move_gates.c ---- */
enum gate move_gate(struct core *c, const struct operation *o, struct run *r,
                    char why[OPERATION_TEXT_MAX + 1]);
void run_clear_gate(struct run *r);
/* The node says HELLO: it does not know of what it was asked before. */
void moves_forget_asks(struct core *c, const char *node);
/* A node's answer to what it was asked at a gate. */
void moves_audit(struct core *c, const struct session *s, const struct agent_audit *a);
void moves_probe(struct core *c, const struct session *s, const struct agent_probe *p);

/* ---- audits.c: what nodes really hold ---- */

#define AUDITS_KEPT 1000

struct kept_audit {
    uint64_t number;
    struct blob *packed; /* audit_record_pack() */
};

struct audit_run;

struct audits {
    struct audit_plan plan;
    struct audit_run *runs; /* in the order of asking */
    struct audit_run **runs_end;
    struct kept_audit *kept; /* ascending */
    uint32_t kept_count;
    uint64_t last_number;
    uint64_t look_ms; /* again then */
    bool is_idle;
};

void audits_init(struct core *c);
void audits_fini(struct core *c);
void audits_ask(struct core *c, const struct command *cmd);
/* Begins one of each node of the cluster, numbered on from `*ret_first`; how many. */
uint32_t audits_ask_cluster(struct core *c, const char *cluster, const char *who,
                            bool repairs, uint64_t *ret_first);
/* Nodes, their clusters or sides changed. */
void audits_objects(struct core *c);
void audits_node_gone(struct core *c, const char *node);
void audits_answer(struct core *c, const struct session *s,
                   const struct agent_audit *a);
void audits_digests(struct core *c, const struct session *s,
                    const struct agent_digests *d);
void audits_rows(struct core *c, const struct session *s, const struct agent_rows *r);
/* The node says HELLO: it does not know of what it was asked before. */
void audits_forget_asks(struct core *c, const char *node);
void audits_note(struct core *c); /* something they may wait for happened */
bool audits_work(struct core *c);
bool audits_have_work(const struct core *c);
uint64_t audits_wake(const struct core *c);
void audits_tick(struct core *c);
/* A stored audit: "/o/audit/NUMBER"; false: the key is none of an audit. */
bool audits_load(struct core *c, const struct store_kv *kv, enum rc *ret,
                 struct err *err);

/* ---- live.c: traces that ask the nodes on the way ---- */

/* Where a node differed: what was traced. */
struct live_key {
    uint32_t vni;
    uint8_t underlay;
    struct ip dst;
};
#define LIVE_KEYS_MAX 8 /* of one node; more only say that it is wrong */

void lives_ask(struct core *c, const struct command *cmd);
void lives_probe(struct core *c, const struct session *s, const struct agent_probe *p);
/* The node says HELLO: it does not know of what it was asked before. */
void lives_forget_asks(struct core *c, const char *node);
void lives_note(struct core *c); /* something they may wait for happened */
bool lives_work(struct core *c); /* one slice; false: nothing to do */
bool lives_have_work(const struct core *c);
uint64_t lives_wake(const struct core *c);
void lives_tick(struct core *c);
void lives_extend(struct core *c, uint64_t late_ms); /* we were late ourselves */
void lives_fail_all(struct core *c, enum rc rc, const char *why);
void lives_fini(struct core *c);
/* ---- probes.c: what nodes make of packets ---- */

struct probes_run;

struct probes {
    struct probes_run *runs; /* in the order of asking */
    struct probes_run **runs_end;
    struct kept_audit *kept; /* ascending; probes_record_pack() */
    uint32_t kept_count;
    uint64_t last_number;
    uint64_t look_ms; /* again then */
    bool is_idle;
};

void probes_init(struct core *c);
/* What a course of probes has to know of the node. */
struct course_facts probes_facts_of(const struct core *c, const char *node);
void probes_fini(struct core *c);
void probes_begin(struct core *c, const struct command *cmd);
void probes_node_gone(struct core *c, const char *node);
/* True: it was an answer to one of these. */
bool probes_take_answer(struct core *c, const struct session *s,
                        const struct agent_probe *p);
/* The node says HELLO: it does not know of what it was asked before. */
void probes_forget_asks(struct core *c, const char *node);
void probes_note(struct core *c); /* something they may wait for happened */
bool probes_work(struct core *c);
bool probes_have_work(const struct core *c);
uint64_t probes_next_wake(const struct core *c);
void probes_look(struct core *c);
/* A stored record: "/o/probes/NUMBER"; false: the key is none of probes. */
bool probes_load(struct core *c, const struct store_kv *kv, enum rc *ret,
                 struct err *err);

/* ---- results.c: request ids, imports, freed VNIs ---- */

struct request {
    struct request *next; /* by age */
    struct request *same; /* of the same hash */
    uint64_t revision;
    uint64_t expires_ms; /* on core_step's clock */
    struct rows_change counts;
    char id[64];
};

struct import {
    uint8_t digest[16];
    uint64_t next_line;
    uint64_t used; /* order of last use */
};

#define IMPORTS_MAX 1024

/* VNIs that went with one mutation. */
struct freed {
    struct freed *next;
    uint64_t seq;
    uint64_t ends_ms; /* on core_step's clock */
    uint32_t count;
    uint32_t vnis[];
};

struct results {
    struct map requests; /* hash of the id → struct request */
    struct request *oldest;
    struct request *newest;
    struct import *imports;
    uint32_t import_count;
    uint64_t import_used;
    struct map freed; /* VNI → a: ends (core_step's clock), b: sequence number */
    struct freed *first_freed; /* by age */
    struct freed *last_freed;
};
void results_fini(struct results *r);
const struct request *results_request(const struct results *r, const char *id);
uint64_t results_import(const struct results *r, const uint8_t digest[16]);
/* Deletes of what has expired, a few for each transaction. */
enum rc results_expire(struct core *c, struct store_txn *txn);
enum rc results_load(struct core *c, const struct store_kv *kv, struct err *err);
/* What a committed command leaves here. */
void results_commit(struct core *c, const struct command *cmd, uint64_t revision,
                    uint64_t seq, const struct rows_change *counts,
                    const struct change_list *l);
bool command_is_import(const struct command *cmd);

/* ---- groups.c ---- */

struct group {
    char name[CLUSTER_NAME_MAX + 1];
    uint8_t kind; /* enum group_kind */
    struct table_set *desired;
    uint64_t revision; /* of its last change */
    uint32_t session_count;
    uint64_t look;   /* moves.c: the last one in which it followed */
    bool is_touched; /* by the commit in progress */
    bool has_gained; /* a tenant */
    struct {
        uint32_t nodes, online;
        bool misses;
    } tally; /* waits.c, for the length of a call */
    struct batch_writer writer;
    uint32_t place;    /* its cluster's id in placement */
    struct map loads;  /* demand.c: VNI → what it holds of the tenant */
    struct map ncs[2]; /* of XGW-H: v4, v6 NCs and endpoints → a: rows that name it */
    uint64_t peak_bps; /* demand_cluster() */
    uint64_t rest_bps; /* what of it counts for no tenant, in each half */
};

/* Where a tenant is at home: one group of each kind; null: none. */
struct homes {
    struct group *of[GROUP_KINDS];
};

struct group *group_find(const struct core *c, const char *name);
void group_add(struct core *c, const char *name, unsigned cluster_kind);
void group_remove(struct core *c, const char *name);
void groups_fini(struct core *c);
/* Committed. */
struct homes homes_of_vni(const struct core *c, uint32_t vni);
struct homes homes_of_tenant(const struct core *c, const struct rows *tenant);
/* Null `tenant`: none. */
struct holders holders_of(const struct core *c, uint32_t vni,
                          const struct rows *tenant);
/* The homes, and `also` (null: none) beside them. */
struct holders holders_beside(const struct core *c, const struct rows *tenant,
                              const struct home *also);
struct holders holders_of_vni(const struct core *c, uint32_t vni);
bool holders_have(const struct holders *h, const struct group *g);
/* Where others send this tenant's traffic: the XGW-H home, else the x86 one. */
struct group *homes_steering(const struct homes *h);

/* ---- demand.c: what each tenant takes of the clusters that hold it ---- */

/* What is announced for a tenant and what was measured. */
struct growth {
    struct tenant_reserve reserve;
    uint64_t measured_bps;
    uint64_t measured_pps;
    uint64_t round; /* … in which measurement */
    bool has_h_home;
};

/* A row of XGW-H's comes, goes or changes; null: it is not there. */
void demand_row(struct group *g, enum table_id table, const struct row *before,
                const struct row *after);
/* The tables of `mask` that `g` holds of the VNI become these; of XGW-H, each row that
 * differs was told before. */
void demand_tables(struct core *c, struct group *g, uint32_t vni, uint32_t mask,
                   struct rows *const after[]);
/* The tenant's row, which may have another reservation, is about to be projected. */
void demand_tenant(struct core *c, uint32_t vni, const struct rows *tenant);
/* One node saw so much of the tenant; what several saw in one round (traffic.h) adds
 * up. Packets a second follow from the mean frame. */
void demand_measured(struct core *c, uint32_t vni, uint64_t bps, uint64_t round);
/* All that the cluster's ports receive now; what is more than was counted for its
 * tenants counts as well, by the peak of about the last hour. */
void demand_cluster(struct core *c, struct group *g, uint64_t bps);
/* What it takes of the group's cluster now; false: it is not there. */
bool demand_of_vni(const struct core *c, const struct group *g, uint32_t vni,
                   struct demand *ret, enum half *ret_half);
/* What it would take of another cluster of that kind. */
void demand_of_tenant(const struct core *c, unsigned kind, uint32_t vni,
                      bool takes_traffic, struct demand *ret);
/* The vector of what a tenant has, or is announced to have where that is more. */
void demand_of_counts(const struct core *c, unsigned kind, struct tenant_counts counts,
                      const struct tenant_reserve *reserve, bool takes_traffic,
                      struct demand *ret);
void demand_fini(struct core *c);

/* ---- place.c: the clusters of placement ---- */

#define PLACE_NEAR_MAX 64 /* peers that are looked at for one tenant */

bool place_init(struct core *c);
void place_fini(struct core *c);
/* After any change of clusters, nodes and water levels. */
void place_refresh(struct core *c);
/* A side has no more nodes than routers take next hops. */
enum rc place_check_node(const struct objects *o, const struct node *x,
                         struct err *err);
enum rc place_check_region(const struct objects *o, const struct region *r,
                           struct err *err);
unsigned place_kind(const struct core *c); /* of group, of a new tenant's home */
uint32_t place_near(const struct core *c,
                    uint32_t peer); /* where a peer is, by the tip */
void place_ask(const struct core *c, unsigned kind, const struct tenant_counts *counts,
               const struct tenant_reserve *reserve, const uint32_t *near,
               uint32_t near_count, struct placement_ask *ret);
/* "h-1: route needs 300 and has 20 rows left"; its length, as snprintf's. */
size_t place_print_candidate(const struct core *c, const struct placement_candidate *k,
                             char *to, size_t size);

/* ---- place_batch.c: the homes of a batch's tenants ---- */

/* One slice of making of the batch one that names every home and half; true: it is, or
 * RC_CONFLICT, where a new tenant finds no room: `p->reply.err`. */
bool place_batch(struct core *c, struct pending *p);
/* Counts it on the cluster until then: */
void place_hold(struct core *c, struct pending *p, uint32_t place, enum half half,
                const struct demand *need);
/* The same of tenants that are there already: in room_coming(). */
void place_hold_gain(struct core *c, struct pending *p, uint32_t place, enum half half,
                     const struct demand *need);
/* What was placed is counted as what clusters hold, or is taken back. */
void place_release(struct core *c, struct placed_list *l);

/* ---- room.c: whether clusters that are named have room ---- */

/* Holds a new tenant on the clusters that it names, and chooses the half that it does
 * not name; RC_CONFLICT with the numbers where one of them has no room for it. */
enum rc room_take_named(struct core *c, struct pending *p,
                        const struct placement_ask *ask, struct entry *e);
/* The same for a tenant that moves: on the clusters of `m->to` that it is not on, and
 * the half there. */
enum rc room_take_move(struct core *c, struct pending *p, struct move *m);

/* ---- room_gain.c: entries of tenants that are there ---- */

/* What the changes of an applied batch add to clusters, one by one. */
void room_gain_add(struct core *c, struct pending *p, const struct table_change *ch);
/* Holds all of it; RC_FULL with the numbers where it lifts a table above the critical
 * level, or one is critical: then `*ret_vni` gains there, by rows of `*ret_table`. */
enum rc room_gain_take(struct core *c, struct pending *p, uint32_t *ret_vni,
                       enum table_id *ret_table);
void room_gain_free(struct room_gain *g);
/* What batches in flight add to a cluster, for place_hold_gain(). */
struct usage *room_coming(struct core *c, uint32_t place);

/* ---- tenant.c ---- */

#define DERIVED_MAX 21 /* scope, tag, endpoint, VNI */
/* The value of a route to `peer`, whose steering group is `home`; its length. */
uint8_t derived_pack(const struct core *c, const struct group *home, uint32_t peer,
                     uint8_t value[DERIVED_MAX]);

/* ---- steering.c: what load balancers know of tenants and nodes ---- */

/* The tenant's homes changed, or it came or went. */
void steering_note_tenant(struct core *c, uint32_t vni);
/* A group of load balancers is new: it is filled in slices. */
void steering_fill(struct core *c);
bool steering_is_behind(const struct core *c, const struct group *g);
bool steering_work(struct core *c); /* one slice; false: nothing to do */
bool steering_has_work(const struct core *c);
/* A node's state changed, it has applied what it lacked, or it is gone. */
void steering_note_devices(struct core *c);
void steering_presume_members(struct core *c); /* our start */
/* To a load balancer's configuration: who carries packets of which cluster. */
void steering_add_members(const struct core *c, struct device_config *config);

/* ---- resident.c: which of a tenant's rows an XGW-H group holds ---- */

/* From scratch: to be worked off. */
void resident_routes_begin(const struct core *c, uint32_t vni, const struct group *g,
                           struct making *m);
void resident_vms_begin(const struct core *c, uint32_t vni, struct making *m);
/* The same from `have`, which was right before the change, if the rules stayed. */
struct rows *resident_vms_changed(const struct core *c, struct rows *have,
                                  const struct table_change *ch);
/* Little enough changed, or is there, to be compared at once. */
bool resident_is_small(const struct table_change *ch);
/* False: so much would have to be looked at that it is to be made from scratch. */
bool resident_routes_changed(const struct core *c, const struct group *g,
                             struct rows *have, const struct table_change *ch,
                             struct rows **ret);
/* No row that the route change puts is left off, replaced or derived. */
bool resident_is_plain(const struct core *c, const struct group *g,
                       const struct table_change *ch);
/* What a changed VM-NC row means for `v6_macs`, and keeps it, before anything of the
 * commit is projected. */
int64_t resident_mac_change(const struct row *before, const struct row *after);
void resident_note_macs(struct core *c, uint32_t vni, int64_t change);
void resident_forget(struct core *c, uint32_t vni); /* the tenant is gone */
/* By this commit all IPv6 VM-NC entries of the VNI became resident, or none. */
bool resident_v6_turned(const struct core *c, uint32_t vni);
/* Counts what would be left off of the VNI's table by this policy. */
void resident_count_begin(const struct core *c, uint32_t vni, enum table_id table,
                          const struct policy *policy, struct making *m);

/* ---- suggest.c: the advice on the policy ---- */

struct suggest_wait {
    struct suggest_wait *next;
    uint64_t token;
    uint32_t seconds;
};

/* Which services a VNI's routes name, by their place in the suggestion. */
#define SERVICE_BITS  256
#define SERVICE_OTHER (SERVICE_BITS - 1) /* one that came since they were listed */
struct service_set {
    uint64_t bits[SERVICE_BITS / 64];
};
_Static_assert(SCOPE_SERVICE + ACTIVITY_NAMES_MAX < SERVICE_OTHER, "one bit each");

enum suggest_phase {
    SUGGEST_IDLE,
    SUGGEST_MEASURE, /* traffic.h is at work */
    SUGGEST_USES,    /* what each VNI uses */
    SUGGEST_SHARE,   /* of the traffic, among what it uses */
    SUGGEST_COUNT,   /* what XGW-H would hold */
};

struct suggest_job {
    struct suggest_wait *waits; /* who comes while it runs is answered with them */
    enum suggest_phase phase;
    uint32_t next_vni;        /* of the walk over tenants */
    uint32_t at_slot;         /* of that over the traffic */
    struct map uses;          /* VNI → a: its place in `sets`, plus 1 */
    struct service_set *sets; /* of VNIs on XGW-H */
    uint32_t set_count, set_cap;
    unsigned counted; /* of the present tenant's: routes, then VMs */
    struct making counting;
    uint64_t counted_rows;
    struct policy policy; /* the one that is suggested */
    struct suggestion *making;
    struct suggestion *last;
};

/* suggest_share.c: the traffic's share among services.  One slice each; true: over. */
bool suggest_uses_work(struct core *c, uint32_t rows);
bool suggest_share_work(struct core *c, uint32_t slots);
void suggest_share_fini(struct suggest_job *job);

void suggest_add(struct core *c, const struct command *cmd);
bool suggest_work(struct core *c); /* one slice; false: nothing to do */
bool suggest_has_work(const struct core *c);
void suggest_fail_all(struct core *c, enum rc rc, const char *why);
void suggest_fini(struct core *c);

/* ---- checkpoint.c ---- */

struct checkpoint {
    struct map dirty; /* (VNI, table) → a: rows that the pages hold, b: DIRTY_… */
    struct map round; /* the same, of the round in progress */
    bool is_running;
    uint64_t cut;           /* records up to this one are folded by the round */
    uint64_t journal_bytes; /* of records that are not folded */
    uint64_t round_bytes;
    uint64_t first_ms; /* of the oldest such record */
    uint64_t last_ms;  /* of the newest */
    uint64_t retry_ms; /* after a failure */
    uint32_t next_vni; /* the walk over the tip; 0: over */
    uint32_t at_slot;  /* then over what is left of the round */
    uint32_t flying;
    bool has_failed;
    bool is_walked;  /* all pages were submitted */
    bool is_closing; /* the last transaction was submitted */
    bool is_ending;  /* what the round kept is let go */
    struct {
        uint64_t key; /* 0: none */
        struct rows *base;
        struct rows *target;
        bool is_unaligned;
        uint32_t puts_left;
        uint32_t deletes_done;
    } job;
};

enum {
    DIRTY_UNALIGNED = 1, /* which pages are stored is not known */
    DIRTY_DONE = 2,
};

void checkpoint_note(struct core *c, uint32_t vni, uint8_t table, struct rows *before);
void checkpoint_note_unaligned(struct core *c, uint32_t vni, uint8_t table);
void checkpoint_journal(struct core *c, size_t bytes);
bool checkpoint_work(struct core *c);
bool checkpoint_has_work(const struct core *c);
uint64_t checkpoint_wake(const struct core *c);
void checkpoint_done(struct core *c, const struct store_done *done);
void checkpoint_fini(struct core *c);

/* ---- load.c ---- */

struct load {
    uint64_t key; /* of the rows being put together */
    struct rows *rows;
    uint32_t pages;
    bool is_unaligned;
    uint64_t folded;
    uint64_t last_seq;
    uint64_t stored_term;
};
void load_kvs(struct core *c, const struct store_kv *kvs, uint32_t count);
void load_ready(struct core *c, uint64_t revision);

/* ---- devices.c ---- */

struct device {
    char name[DEVICE_ID_MAX + 1];
    struct group *group; /* its node's cluster's */
    enum node_state state;
    uint64_t boot_id;
    uint64_t applied;
    bool ready;
    bool is_silent;
    bool is_member;      /* load balancers may send to it */
    bool is_last_member; /* though it is down */
    uint32_t exception_count;
    uint32_t exception_told; /* to health */
    struct exception *exceptions;
    uint64_t *exception_from; /* applied before the ACK that brought it … */
    uint64_t *exception_to;   /* … and after */
    uint32_t exception_listed;
    uint64_t last_seen_ms;
    struct agent_beat beat;
    struct session *session;                  /* null: none */
    struct live_key differing[LIVE_KEYS_MAX]; /* live traces, the oldest first */
    unsigned differing_count;
};

struct session {
    struct session *next;
    uint64_t id;
    char device_id[DEVICE_ID_MAX + 1];
    struct device *device; /* after a good HELLO */
    uint8_t device_kind;   /* as it said */
    struct group *group;
    struct sync *sync;
    struct blob *config;
    uint32_t telemetry_ms; /* as it was told */
    bool must_configure;   /* objects changed since its configuration was looked at */
    uint64_t hello_id;
    uint64_t hello_revision; /* of the group then */
    uint64_t opened_ms;
    uint64_t asked_ms; /* when an answer became due; 0: none is */
};

void devices_fini(struct core *c);
struct device *device_find(const struct core *c, const char *name);
void device_put(struct core *c, const struct node *node);
void device_remove(struct core *c, const char *name);
void device_set_state(struct core *c, struct device *d, enum node_state state,
                      const char *cause);
/* Online, or suspect, or not heard of since our start: it forwards with the tables it
 * has. */
bool device_may_forward(const struct device *d);
/* It holds what its group had by that revision, as far as its session says. */
bool device_has_applied(const struct device *d, uint64_t revision);
void device_clear_exceptions(struct device *d);
/* It said that it does not hold this row as it should. */
bool device_has_exception(const struct device *d, enum table_id table, uint32_t vni,
                          const struct row *key);
void device_note_exceptions(struct device *d, const struct agent_ack *ack);
void device_note_ready(struct core *c, struct device *d, bool ready);

/* ---- sessions.c ---- */

/* What the node is to be told: a packed device_config, the caller's. */
struct blob *session_make_config(const struct core *c, const struct node *node);
/* Closes the stream, logs why, and forgets the session. */
void session_end(struct core *c, struct session *s, enum rc rc, const char *why);
void sessions_input(struct core *c, const struct core_in *in);
void sessions_liveness(struct core *c, const char *device_id, bool is_silent);
void sessions_change(struct core *c, struct group *g, uint64_t revision,
                     struct blob *ops);
void sessions_objects_changed(struct core *c);
/* One slice of what that means to sessions; false: nothing. */
bool sessions_configure(struct core *c);
void sessions_members_changed(struct core *c); /* of load balancers */
bool sessions_pump(struct core *c);            /* one slice; false: nothing to send */
bool sessions_have_work(const struct core *c);
void sessions_tick(struct core *c);
void sessions_extend(struct core *c, uint64_t late_ms);
void sessions_drop(struct core *c); /* forgets the first one */
uint64_t sessions_wake(const struct core *c);
/* Ends all sessions of the group (its cluster is gone). */
void sessions_close_group(struct core *c, const struct group *g, const char *why);

/* ---- watch.c: the region's health ---- */

#define TELEMETRY_MS       1000
#define TELEMETRY_LARGE_MS 10000 /* of more than so many nodes: */
#define TELEMETRY_NODES    64

uint32_t watch_telemetry_ms(const struct core *c);
void watch_objects(struct core *c); /* clusters, nodes or settings changed */
void watch_node_gone(struct core *c, const char *node);
void watch_telemetry(struct core *c, const struct device *d, const struct telemetry *t);
void watch_state(struct core *c, const struct device *d, const char *cause);
void watch_blind(struct core *c, uint32_t lost, uint32_t known);
void watch_audit(struct core *c, const struct audit_record *r);
/* What a live trace found wrong at the node; null: nothing is, any more. */
void watch_trace(struct core *c, const char *node, const char *what);
void watch_contradiction(struct core *c, const char *cluster, const char *node,
                         const char *other);
/* Checks an acknowledgement, or that one is spent, against what stands. */
enum rc watch_check_ack(const struct core *c, const struct command *cmd,
                        struct alarm_ack *ret, struct err *err);
enum rc watch_check_forget(const struct core *c, const char *name, struct err *err);
/* Those that were stored before the start. */
void watch_load_acks(struct core *c);
/* It is stored, or deleted. */
void watch_acked(struct core *c, const struct alarm_ack *ack);
void watch_forgot(struct core *c, const char *name);
void watch_tick(struct core *c);
uint64_t watch_wake(const struct core *c);

/* ---- festivals.c ---- */

enum rc festival_evaluate(const struct core *c, const struct command *cmd,
                          struct err *err);
void festivals_tick(struct core *c);
bool festivals_are_open(const struct core *c); /* one has yet to end */

/* ---- consumers.c ---- */

struct consumer_ack {
    char name[REGION_NAME_MAX + 1];
    uint64_t revision;
    uint64_t unix_ms; /* when it was said, the last time */
};
enum rc consumer_evaluate(const struct core *c, const struct consumer *x,
                          struct err *err);
void consumers_ack(struct core *c, const struct command *cmd);
void consumers_gone(struct core *c, const char *name); /* it is deleted */
/* All have acknowledged the operation's steering, or it does not wait for them; else
 * `why` names who has not, if nobody was named in it before. */
bool consumers_follow(const struct core *c, const struct operation *o,
                      char why[OPERATION_TEXT_MAX + 1]);
void consumers_tick(struct core *c); /* alarms of those that are awaited for long */

/* ---- waits.c ---- */

struct wait {
    struct wait *next;
    uint64_t token;
    uint64_t revision;
    uint64_t deadline_ms;
    char cluster[CLUSTER_NAME_MAX + 1];
};
void waits_add(struct core *c, const struct command *cmd);
void waits_note(struct core *c); /* something happened that may end some */
bool waits_work(struct core *c); /* one slice; false: nothing to do */
bool waits_have_work(const struct core *c);
uint64_t waits_wake(const struct core *c);
void waits_fail_all(struct core *c, enum rc rc, const char *why);
void waits_fini(struct core *c);

/* ---- core.c ---- */

struct effect_node {
    struct effect_node *next;
    struct core_effect effect;
};

enum core_phase {
    PHASE_LOADING,
    PHASE_STARTING, /* writing the term */
    PHASE_SERVING,
    PHASE_FAILED,  /* what is stored is damaged */
    PHASE_DEPOSED, /* another leader wrote its term */
};

struct core {
    struct core_config config;
    enum core_phase phase;
    struct err failure;
    uint64_t now_ms;
    uint64_t unix_ms;
    uint32_t units;       /* left in this step */
    uint64_t promised_ms; /* when a TICK was to come at the latest; 0: no matter */
    struct effect_node *effects;
    struct effect_node **effects_tail;

    uint64_t revision;      /* of the last event */
    uint64_t base_revision; /* when it started */
    uint64_t fence;         /* revision of our term's key */
    uint64_t next_tag;
    uint64_t probe_tag;     /* 0: none is out */
    uint64_t next_seq;      /* of the next mutation */
    uint64_t committed_seq; /* of the last committed one */

    struct table_set *tip;
    struct objects tip_objects;
    struct peer_index tip_peers;
    struct map tip_homes; /* hash of a cluster's name → tenants */

    /* (VNI, table) → a: committed rows, b: changes in flight, and above bit 32 the last
     * one of the job that commits, counted from 1 */
    struct map overlay;
    struct table_set *tenants; /* committed tenants that the overlay has */
    struct objects objects;
    struct peer_index peers;
    uint64_t count[TABLE_COUNT];
    uint64_t digest[TABLE_COUNT];
    struct map revisions; /* VNI → mod revision, since the start */

    struct group **groups; /* sorted by name */
    uint32_t group_count;
    struct placement *placement;
    struct profile profiles[GROUP_KINDS];
    struct resource_set bench_set; /* of XGW-H with the profile "bench" */
    struct usage *coming;          /* by place: room_gain.c */
    uint32_t coming_count;
    uint32_t steering_next_vni; /* of the walk that fills load balancers; 0: over */
    struct map growth;          /* VNI → p: struct growth; of those that have any */
    struct job job;
    struct deferred *deferred; /* in the order they came */
    struct deferred **deferred_tail;
    struct {
        uint32_t next_vni; /* 0: nothing to do */
        uint64_t revision;
    } policy_job;
    /* VNI → a: IPv6 VM-NC entries with a MAC, b: revision when that became or ceased to
     * be 0; committed */
    struct map v6_macs;
    struct activity activity;
    struct suggest_job suggest_job;
    struct traffic traffic;
    struct device **devices; /* sorted by name */
    uint32_t device_count;
    bool suspects_itself; /* more than half of the nodes are lost */
    struct health *health;
    uint64_t watch_ms; /* of the next look at it */
    uint32_t festivals_active;
    uint64_t festival_look_ms;
    uint64_t festival_retry_ms;
    uint64_t ack_retry_ms;
    struct consumer_ack consumer_acks[CONSUMERS_MAX]; /* in no order */
    uint32_t consumer_ack_count;
    struct session *sessions;
    struct session *pump_next;
    bool pump_is_idle;
    bool must_configure; /* some session */
    struct wait *waits;
    struct run *runs; /* one for each running operation */
    bool operations_are_idle;
    bool is_forgetting; /* an old operation */
    uint64_t last_ask;
    uint64_t last_look;
    struct audits audits;
    struct live *lives; /* live traces */
    uint32_t live_count;
    bool lives_are_idle;
    uint64_t lives_at_ms; /* looked at again then */
    struct probes probes;
    uint64_t operations_at_ms; /* looked at again then */
    uint32_t wait_count;
    uint32_t waits_left;   /* to be looked at since something happened */
    struct wait **wait_at; /* where the next one hangs; null: the first */

    struct queue queue;
    struct results results;
    struct checkpoint checkpoint;
    struct load load;
    uint32_t turn; /* whose slice is next */
};

struct core_effect *effect_add(struct core *c, enum core_effect_kind kind);
void effect_reply(struct core *c, const struct core_reply *reply);
void effect_log(struct core *c, int level, const char *event, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
void effect_close(struct core *c, uint64_t session, enum rc rc, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
void core_depose(struct core *c, const char *why);
void core_store_event(struct core *c, const struct store_event *ev);
void core_store_done(struct core *c, const struct store_done *done);

uint64_t text_hash(const char *text); /* FNV-1a, never 0 */

/* The packed tenant row's parts. */
struct tenant_row {
    uint8_t flags;
    uint8_t cluster_len;
    const char *cluster; /* not terminated */
    uint8_t name_len;
    const char *name;
    uint8_t h_home_len; /* 0: none */
    const char *h_home;
    uint8_t half;
    struct tenant_reserve reserve;
};
bool tenant_row_of(const struct rows *rows, struct tenant_row *ret);
