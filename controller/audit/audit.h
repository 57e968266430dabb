/*
 * audit - one check of what a node really holds, from its begin to its record.
 *
 *   WAITING ──AUDIT──▶ READING ──read──▶ COMPARING ──nothing──▶ DONE: clean, or
 * repaired ▲                                     └─ differs ─▶ REPAIRING ─▶ WAITING
 * (again) └── session lost, busy, late                          └─ report ─▶ DONE:
 * differs
 *
 * The agent reads its device's tables back (AUDIT); what was read is what it answers
 * from then on.  The digest tree of that is compared with the desired set
 * (audit_walk.h), each row that differs is named, and where policy allows the session
 * is told to compare and send what is lacking, as after a reconnect.  Then it is read
 * and compared once more.
 *
 * Pure: told the time and facts.  One owner, one thread.
 */
#pragma once

#include "controller/audit/audit_walk.h"

#define AUDIT_TEXT_MAX  199
#define AUDIT_WHO_MAX   63
#define AUDIT_READ_MS   150000 /* for a read-back of all; the agent gives up before */
#define AUDIT_ANSWER_MS 30000  /* for a question */
#define AUDIT_AGAIN_MS  1000   /* after an answer that says nothing */
#define AUDIT_TRIES     10 /* … that often; a session that is away is not counted */

enum audit_state {
    AUDIT_WAITING = 1,
    AUDIT_READING,
    AUDIT_COMPARING,
    AUDIT_REPAIRING,
    AUDIT_DONE
};
const char *audit_state_name(unsigned state); /* "waiting", … */

enum audit_result {
    AUDIT_OPEN, /* not done */
    AUDIT_CLEAN,
    AUDIT_REPAIRED, /* it differed, and does not any more */
    AUDIT_DIFFERS,
    AUDIT_FAILED /* nothing can be said; `text` */
};
const char *audit_result_name(unsigned result); /* "open", "clean", … */

/* What is kept of an audit. */
struct audit_record {
    uint64_t number; /* 1, 2, … in the order of asking */
    char node[NODE_NAME_MAX + 1];
    char cluster[CLUSTER_NAME_MAX + 1];
    uint8_t side;
    uint32_t vni;                /* 0: all */
    char who[AUDIT_WHO_MAX + 1]; /* "schedule", or whose request it was */
    bool repairs;
    uint8_t state;  /* enum audit_state */
    uint8_t result; /* enum audit_result */
    uint64_t asked_ms;
    uint64_t ended_ms; /* unix; 0: not yet */
    uint64_t read_ms;  /* how long the read-back took */
    uint64_t revision; /* of the group when it was read; 0: it changed meanwhile */
    struct digest observed[TABLE_COUNT]; /* what was read, of all or of the VNI */
    char text[AUDIT_TEXT_MAX + 1];       /* why it failed; "" else */
    struct audit_findings *found;        /* owned; null: it was not compared */
};
void audit_record_fini(struct audit_record *r);
/* Append the canonical bytes of a record that is done. */
void audit_record_pack(const struct audit_record *r, struct buf *to);
/* RC_INVALID for bytes that packing could not have written; `*ret` is untouched. */
enum rc audit_record_unpack(const void *bytes, size_t len, struct audit_record *ret,
                            struct err *err);

/* What the core sees of the node. */
struct audit_facts {
    uint64_t session;                /* 0: none that was assigned */
    bool is_level;                   /* it was sent all that it is to hold */
    bool is_settled;                 /* … and has done it: nothing is under way */
    uint64_t revision;               /* of its group */
    const struct table_set *desired; /* the group's; null without a session */
    audit_known_fn *is_known;        /* rows that it said it could not take */
    void *ctx;
};

enum audit_action {
    AUDIT_STAYS,  /* until something happens, or audit_wake() */
    AUDIT_SENDS,  /* `*ret_msg` to the facts' session */
    AUDIT_REPAIR, /* the session is to compare all again */
    AUDIT_ENDS    /* the record is done */
};

struct audit;

/* Takes nothing; null: no memory.  `record` says number, node, cluster, side, vni, who,
 * repairs and asked_ms. */
struct audit *audit_new(const struct audit_record *record);
void audit_free(struct audit *a);

enum audit_action audit_next(struct audit *a, const struct audit_facts *f,
                             uint64_t now_ms, struct ctl_msg *ret_msg);
uint64_t audit_wake(const struct audit *a); /* UINT64_MAX: no matter */

/* Answers of the node; those that are not this audit's are ignored. */
void audit_answer(struct audit *a, const struct audit_facts *f, uint64_t now_ms,
                  const struct agent_audit *m);
void audit_take_digests(struct audit *a, uint64_t now_ms,
                        const struct agent_digests *m);
void audit_take_rows(struct audit *a, uint64_t now_ms, const struct agent_rows *m);
/* The node began a new conversation, or its session is gone. */
void audit_lost(struct audit *a);
/* Ends it with that sentence. */
void audit_fail(struct audit *a, const char *why);

const struct audit_record *audit_record_of(const struct audit *a);
