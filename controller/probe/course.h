/*
 * course - one node's probes, from the first to the verdict.
 *
 *   WAITING ─(it holds what it should)─▶ PICKING ──▶ SENDING ─(all cells)─▶ DONE
 *      ▲                                    matrix      │ batches; each answer judged
 *      └──────── its session is gone ───────────────────┘
 *
 * A probe that differs is sent COURSE_TRIES times before it counts, for the node may be
 * about to follow its last configuration; what it says while its entries change counts
 * for nothing but agreement.  "Not now" (a meter is red, a next hop unresolved, nobody
 * answers) is asked again, and is never called wrong: in the end it is "cannot say".
 *
 * Pure: told the time and facts.  One owner, one thread.
 */
#pragma once

#include "controller/probe/matrix.h"
#include "controller/probe/probes_record.h"

#define COURSE_TRIES     3      /* that a probe differs */
#define COURSE_NOT_NOW   30     /* answers that say nothing, of one probe */
#define COURSE_AGAIN_MS  1000   /* before it is sent again */
#define COURSE_ANSWER_MS 30000  /* for an answer; the agent gives up before */
#define COURSE_ABSENT_MS 60000  /* that a node may have no session … */
#define COURSE_BEHIND_MS 600000 /* … or hold less than it should */
#define COURSE_IN_FLIGHT PROBES_BATCH_MAX

/* What the core sees of the node. */
struct course_facts {
    uint64_t session;                /* 0: none that was assigned */
    bool is_level;                   /* it holds what its group has … */
    uint64_t revision;               /* … by then */
    bool is_touched;                 /* the group's set is on its way to the next one */
    const struct table_set *desired; /* the group's; null without a session */
    struct blob *config;             /* packed, as it was told; the same */
};

enum course_action {
    COURSE_STAYS, /* until something happens, or course_wake() */
    COURSE_WORKS, /* there is more to do than the units allowed */
    COURSE_SENDS, /* `*ret_msg` to the facts' session */
    COURSE_ENDS   /* the record is done */
};

struct course;

/* `record` says number, node, cluster, vni, who and asked_ms.  References `m`.  Null:
 * no memory. */
struct course *course_new(const struct probes_record *record, struct matrix *m);
void course_free(struct course *c); /* null is fine */

/* Goes on; `*io_id` counts up for the ids of probes, `*units` down. */
enum course_action course_next(struct course *c, const struct course_facts *f,
                               uint64_t now_ms, uint64_t *io_id, uint32_t *units,
                               struct ctl_msg *ret_msg);
uint64_t course_wake(const struct course *c); /* UINT64_MAX: no matter */

/* An answer of the node; true: it is to one of these probes. */
bool course_answer(struct course *c, const struct course_facts *f, uint64_t now_ms,
                   const struct agent_probe *m);
/* The node began a new conversation, or its session is gone: what was asked on it is
 * asked again. */
void course_lost(struct course *c);
/* Ends it: what has no verdict yet cannot be said, for this reason. */
void course_stop(struct course *c, const char *why);

/* What the last answer said that said nothing; "" when there was none yet. */
const char *course_waits(const struct course *c);
/* It is over, because the device takes no probes and never will. */
bool course_is_refused(const struct course *c);

const struct probes_record *course_record_of(const struct course *c);
