/*
 * rig - a core on a store in memory, driven one step at a time: the tests' shell.
 *
 * Time stands still unless a test moves it.  Everything the core says is kept for the
 * test to look at.
 */
#pragma once

#include "controller/core/core.h"
#include "controller/store/store_memory.h"
#include "proto/model/entry_text.h"
#include "tests/unit/unit.h"

#include <string.h>

#define RIG_REPLIES 4096

/* Fills a character array. */
#define rig_copy(to, text) snprintf((to), sizeof(to), "%s", (text))

/* Who looks on; each may be null. */
struct rig_watch {
    void (*before)(void *ctx); /* a step of the core */
    void (*after)(void *ctx);
    /* Instead of `sent`; borrows the message. */
    void (*sent)(void *ctx, uint64_t session, const struct ctl_msg *msg);
    void *ctx;
};

struct rig {
    struct rig_watch watch;
    struct memory_db *db;
    struct store *store;
    struct core *core;
    struct core_config config;
    uint64_t now_ms;
    uint64_t next_token;
    bool loaded;
    bool load_failed;
    struct core_reply replies[RIG_REPLIES]; /* in the order they came */
    uint32_t reply_count;
    struct live_trace *live; /* of the last reply that had one */
    struct ctl_msg sent[256];
    uint64_t sent_to[256];
    uint32_t sent_count;
    uint64_t closed[64];
    struct err closed_why[64];
    uint32_t closed_count;
    struct alarm alarms[64]; /* told, the last ones */
    enum alarm_news alarm_news[64];
    uint32_t alarm_count;
    char logs[16384];
};

/* A new rig on a new database, serving. */
struct rig *rig_new(void);
struct rig *rig_new_with(const struct core_config *config);
/* Starts on `db`; does not wait. */
void rig_open(struct rig *r);
void rig_free(struct rig *r);
/* The process dies: `applied` of the queued transactions still took effect. */
void rig_crash(struct rig *r, uint32_t applied);
/* Dies when all is quiet, and starts again. */
void rig_restart(struct rig *r);

void rig_input(struct rig *r, const struct core_in *in);
/* Runs until nothing is left to do at this moment. */
void rig_run(struct rig *r);
/* One step of the store or one slice of the core; false: nothing left. */
bool rig_step(struct rig *r);
/* Moves time in one go, with the tick. */
void rig_pass(struct rig *r, uint64_t ms);
/* Moves time as a punctual shell does: with a tick at each wake-up. */
void rig_wait(struct rig *r, uint64_t ms);

/* A batch from lines of NDJSON; checked only by the core. */
struct blob *rig_batch(const char *lines);
/* Queues a batch and returns its token; takes `ops`. */
uint64_t rig_queue(struct rig *r, struct blob *ops);
const struct core_reply *rig_reply(const struct rig *r, uint64_t token); /* or null */

/* Puts one command through and returns its reply. */
const struct core_reply *rig_command(struct rig *r, struct command *cmd);
const struct core_reply *rig_entries(struct rig *r, const char *lines);
const struct core_reply *rig_entries_confirmed(struct rig *r, const char *lines);
void rig_must(struct rig *r, const char *lines);
void rig_cluster(struct rig *r, const char *name, const char *vip);
void rig_h_cluster(struct rig *r, const char *name, const char *vip,
                   const char *backing);
void rig_lb_cluster(struct rig *r, const char *name, const char *vip);
void rig_policy(struct rig *r, const char *service, enum policy_place place);
/* Of the kind that fits its cluster. */
void rig_node(struct rig *r, const char *name, const char *cluster, const char *vtep);

/* Expects a refusal with this code and rule. */
#define RIG_REFUSES(r, lines, rc_, rule_)                                              \
    do {                                                                               \
        const struct core_reply *p_ = rig_entries((r), (lines));                       \
        ck_assert_msg(p_->err.code == (rc_), "%s: %s, not %s (%s)", (lines),           \
                      rc_name(p_->err.code), rc_name(rc_), p_->err.msg);               \
        ck_assert_str_eq(p_->err.rule, (rule_));                                       \
    } while (0)

/* Incremental equals recomputed: tells what differs with a failed check. */
void rig_check_desired(const struct rig *r);
