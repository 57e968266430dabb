/*
 * shell - the controller's one loop around the core: inputs in, effects carried out.
 *
 * It owns the core and the store.  The API hands it commands and is answered by a
 * callback; the session service hands it messages and is told what to send.  No
 * decision is made here.  The loop's thread.
 */
#pragma once

#include "controller/core/core.h"
#include "proto/base/err.h"

struct event_base;
struct shell;

struct shell_config {
    struct event_base *base;
    const char *store_path; /* of the SQLite file */
    uint32_t vni_quarantine_ms;
    uint32_t suggest_watch_ms;
    uint32_t suggest_mature_ms;
    uint32_t audit_interval_ms; /* 0: audits only when asked for */
    bool audit_repairs;
    uint32_t session_timeout_ms;
};

/* How sessions are reached: the session service (controller/api/sessions.h). */
struct shell_sessions {
    void (*send)(void *ctx, uint64_t session, const struct ctl_msg *msg);
    void (*close)(void *ctx, uint64_t session, const struct err *why);
};

/* Opens the store and starts to load.  `on_ready` is called once, when the region is
 * loaded and served; `on_failed` once when the core cannot go on (damaged store,
 * another leader): the process is to end.  Both from the loop. */
enum rc shell_new(const struct shell_config *config, void (*on_ready)(void *arg),
                  void (*on_failed)(void *arg, const struct err *why), void *arg,
                  struct shell **ret, struct err *err);
/* Waits for what was submitted to the store, and answers who still waits for a reply
 * with RC_UNREACHABLE.  No shell_command() from within. */
void shell_free(struct shell *s);

struct event_base *shell_base(const struct shell *s);

/* For reads (core.h, "reads"). */
const struct core *shell_core(const struct shell *s);

uint64_t shell_now_ms(void); /* monotonic, the core's clock */

uint64_t shell_unix_ms(void); /* what records and histories carry */

uint64_t shell_term(const struct shell *s); /* the store's fencing term */

/* Gives a command to the core; its token is set here.  `on_reply` comes exactly once,
 * perhaps before this returns. */
typedef void shell_reply_fn(void *arg, const struct core_reply *reply);
enum rc shell_command(struct shell *s, struct command *command,
                      shell_reply_fn *on_reply, void *arg);
/* The caller is gone: its `on_reply` with `arg` is not called any more. */
void shell_forget(struct shell *s, void *arg);

/* Sessions.  `device_id` is the authenticated one. */
void shell_set_sessions(struct shell *s, const struct shell_sessions *sessions,
                        void *ctx);
void shell_session_open(struct shell *s, uint64_t session, const char *device_id);
void shell_session_message(struct shell *s, uint64_t session, const char *device_id,
                           const struct agent_msg *msg);
void shell_session_closed(struct shell *s, uint64_t session, const char *device_id);
void shell_liveness(struct shell *s, const char *device_id, bool is_silent);

/* Committed journal events, for the watch service: every store event after the core
 * took it.  One watcher. */
void shell_set_watch(struct shell *s,
                     void (*on_event)(void *ctx, const struct store_event *event),
                     void *ctx);

/* Told after each alarm that was to be told: what stands is in core_health().  One
 * listener; null: nobody. */
void shell_set_alarms(struct shell *s, void (*on_alarm)(void *ctx), void *ctx);

/* Takes the history that was read from files. */
void shell_set_history(struct shell *s, struct history *history);
