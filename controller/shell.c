#include "controller/shell.h"

#include "controller/store/store_sqlite.h"
#include "proto/base/log.h"
#include "proto/rpc/program.h"

#include <event2/event.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define LOAD_KEYS   8192
#define LOAD_TAG    1
#define WAITING_MAX 65536 /* commands; each holds a reply slot of some 64 bytes */

struct waiting {
    uint64_t token;
    shell_reply_fn *on_reply;
    void *arg;
};

struct shell {
    struct event_base *base;
    struct core *core;
    struct store *store;
    struct event *wake;
    struct event *more; /* one more slice of work, after pending I/O */
    void (*on_failed)(void *arg, const struct err *why);
    void *failed_arg;
    bool is_failed;
    bool is_stepping;

    struct waiting *waiting; /* unordered */
    uint32_t waiting_count;
    uint32_t waiting_cap;
    uint64_t last_token;

    const struct shell_sessions *sessions;
    void *sessions_ctx;
    void (*on_watch)(void *ctx, const struct store_event *event);
    void *watch_ctx;
    void (*on_alarm)(void *ctx);
    void *alarm_ctx;
    void (*on_ready)(void *arg);
    bool was_ready;
    struct store_key load_end;
    uint64_t load_started_ms;
};

uint64_t shell_now_ms(void)
{
    return program_now_ms();
}

static uint64_t unix_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

struct event_base *shell_base(const struct shell *s)
{
    return s->base;
}

const struct core *shell_core(const struct shell *s)
{
    return s->core;
}

uint64_t shell_term(const struct shell *s)
{
    return s->store->term;
}

/* ---- effects ---- */

static void answer(struct shell *s, const struct core_reply *reply)
{
    for (uint32_t i = 0; i < s->waiting_count; i++) {
        struct waiting w = s->waiting[i];

        if (w.token == reply->token) {
            s->waiting[i] = s->waiting[--s->waiting_count];
            w.on_reply(w.arg, reply);
            return;
        }
    }
}

static void tell_alarm(struct shell *s, const struct alarm *a, enum alarm_news news)
{
    static const char *const verbs[] = { [ALARM_RAISED] = "alarm raised",
                                         [ALARM_GRAVER] = "alarm graver",
                                         [ALARM_CLEARED] = "alarm cleared" };
    int level = news == ALARM_CLEARED           ? LOG_INFO
                : a->severity == ALARM_CRITICAL ? LOG_ERROR
                                                : LOG_WARN;

    LOG_AT((enum log_level)level, verbs[news],
           "alarm=%llu kind=%s subject=%s severity=%s count=%u text=\"%s\"",
           (unsigned long long)a->id, alarm_kind_name(a->kind), a->subject,
           alarm_severity_name(a->severity), a->count, a->text);
    if (s->on_alarm) {
        s->on_alarm(s->alarm_ctx);
    }
}

static void carry_out(struct shell *s, struct core_effect *e)
{
    switch (e->kind) {
    case CORE_TXN:
        store_submit(s->store, e->txn);
        e->txn = NULL;
        break;
    case CORE_REPLY:
        answer(s, &e->reply);
        break;
    case CORE_SEND:
        if (s->sessions) {
            s->sessions->send(s->sessions_ctx, e->send.session, &e->send.msg);
        }
        break;
    case CORE_CLOSE:
        if (s->sessions) {
            s->sessions->close(s->sessions_ctx, e->close.session, &e->close.why);
        }
        break;
    case CORE_ALARM:
        tell_alarm(s, &e->alarm.alarm, e->alarm.news);
        break;
    case CORE_LOG:
        LOG_AT((enum log_level)e->log.level, e->log.event, "%s", e->log.text);
        break;
    }
}

/* Wakes when the core wants, at once while it has work left. */
static void schedule(struct shell *s, uint64_t now)
{
    uint64_t wake = core_next_wake(s->core);
    uint64_t pause = wake <= now ? 0 : wake - now;
    struct timeval tv = { (time_t)(pause / 1000), (suseconds_t)(pause % 1000) * 1000 };
    struct timeval at_once = { 0, 0 };

    if (core_has_work(s->core)) {
        event_add(s->more, &at_once);
    }
    if (wake == UINT64_MAX) {
        event_del(s->wake);
    } else {
        event_add(s->wake, &tv);
    }
}

static void fail_once(struct shell *s)
{
    const struct err *why = core_failure(s->core);

    if (why && !s->is_failed) {
        s->is_failed = true;
        s->on_failed(s->failed_arg, why);
    }
}

/* A reply or a send may lead straight to the next input: effects of the inner step are
 * carried out by the outer loop, in order. */
static void step(struct shell *s, const struct core_in *in)
{
    uint64_t now = shell_now_ms();
    bool is_outer = !s->is_stepping;
    struct core_effect effect;

    core_step(s->core, now, unix_ms(), in);
    if (!is_outer) {
        return;
    }
    s->is_stepping = true;
    while (core_next_effect(s->core, &effect)) {
        carry_out(s, &effect);
        core_effect_fini(&effect);
    }
    s->is_stepping = false;
    schedule(s, now);
    if (!s->was_ready && core_is_ready(s->core)) {
        s->was_ready = true;
        s->on_ready(s->failed_arg);
    }
    fail_once(s);
}

static void on_wake(evutil_socket_t fd, short what, void *arg)
{
    struct core_in in = { .kind = CORE_TICK };

    (void)fd;
    (void)what;
    step(arg, &in);
}

static void on_more(evutil_socket_t fd, short what, void *arg)
{
    struct core_in in = { .kind = CORE_CONTINUE };

    (void)fd;
    (void)what;
    step(arg, &in);
}

/* ---- store ---- */

static void on_store_event(void *ctx, const struct store_event *event)
{
    struct shell *s = ctx;
    struct core_in in = { .kind = CORE_STORE_EVENT, .event = event };

    step(s, &in);
    if (s->on_watch) {
        s->on_watch(s->watch_ctx, event);
    }
}

static void on_store_done(void *ctx, const struct store_done *done)
{
    struct core_in in = { .kind = CORE_STORE_DONE, .done = done };

    if (done->rc != RC_OK) {
        log_warn("store refused a transaction", "cause=\"%s\"", done->err.msg);
    }
    step(ctx, &in);
}

static void loaded_all(struct shell *s, uint64_t revision)
{
    struct core_in in = { .kind = CORE_READY, .ready_revision = revision };

    step(s, &in);
    log_info("region loaded", "revision=%llu seconds=%.3f",
             (unsigned long long)revision,
             (double)(shell_now_ms() - s->load_started_ms) / 1000.0);
}

static void on_store_range(void *ctx, const struct store_range_reply *reply)
{
    struct shell *s = ctx;
    struct core_in in = { .kind = CORE_LOADED };

    if (reply->rc != RC_OK) {
        s->is_failed = true;
        s->on_failed(s->failed_arg, &reply->err);
        return;
    }
    if (reply->more) { /* the worker reads on while the core takes these */
        store_range(s->store, LOAD_TAG,
                    store_key_after(&reply->kvs[reply->kv_count - 1].key), s->load_end,
                    LOAD_KEYS);
    }
    in.loaded.kvs = reply->kvs;
    in.loaded.count = reply->kv_count;
    step(s, &in);
    if (!reply->more && !s->is_failed) {
        loaded_all(s, reply->revision);
    }
}

static const struct store_events store_events = {
    .event = on_store_event,
    .done = on_store_done,
    .range = on_store_range,
};

/* ---- commands and sessions ---- */

enum rc shell_command(struct shell *s, struct command *command,
                      shell_reply_fn *on_reply, void *arg)
{
    struct core_in in = { .kind = CORE_COMMAND, .command = command };

    if (s->waiting_count == WAITING_MAX) {
        return RC_FULL;
    }
    if (s->waiting_count == s->waiting_cap) {
        uint32_t cap = s->waiting_cap ? s->waiting_cap * 2 : 64;
        struct waiting *waiting = realloc(s->waiting, cap * sizeof(*waiting));

        if (!waiting) {
            return RC_NO_MEMORY;
        }
        s->waiting = waiting;
        s->waiting_cap = cap;
    }
    command->token = ++s->last_token;
    s->waiting[s->waiting_count++] = (struct waiting){ command->token, on_reply, arg };
    step(s, &in);
    return RC_OK;
}

void shell_forget(struct shell *s, void *arg)
{
    for (uint32_t i = 0; i < s->waiting_count;) {
        if (s->waiting[i].arg == arg) {
            s->waiting[i] = s->waiting[--s->waiting_count];
        } else {
            i++;
        }
    }
}

void shell_set_sessions(struct shell *s, const struct shell_sessions *sessions,
                        void *ctx)
{
    s->sessions = sessions;
    s->sessions_ctx = ctx;
}

static void session_step(struct shell *s, enum core_in_kind kind, uint64_t session,
                         const char *device_id, const struct agent_msg *msg)
{
    struct core_in in = { .kind = kind };

    in.session.id = session;
    in.session.device_id = device_id;
    in.session.msg = msg;
    step(s, &in);
}

void shell_session_open(struct shell *s, uint64_t session, const char *device_id)
{
    session_step(s, CORE_SESSION_OPEN, session, device_id, NULL);
}

void shell_session_message(struct shell *s, uint64_t session, const char *device_id,
                           const struct agent_msg *msg)
{
    session_step(s, CORE_SESSION_MSG, session, device_id, msg);
}

void shell_session_closed(struct shell *s, uint64_t session, const char *device_id)
{
    session_step(s, CORE_SESSION_CLOSED, session, device_id, NULL);
}

void shell_liveness(struct shell *s, const char *device_id, bool is_silent)
{
    struct core_in in = { .kind = CORE_LIVENESS };

    in.liveness.device_id = device_id;
    in.liveness.is_silent = is_silent;
    step(s, &in);
}

void shell_set_watch(struct shell *s,
                     void (*on_event)(void *ctx, const struct store_event *event),
                     void *ctx)
{
    s->on_watch = on_event;
    s->watch_ctx = ctx;
}

void shell_set_alarms(struct shell *s, void (*on_alarm)(void *ctx), void *ctx)
{
    s->on_alarm = on_alarm;
    s->alarm_ctx = ctx;
}

void shell_set_history(struct shell *s, struct history *history)
{
    core_set_history(s->core, history);
}

uint64_t shell_unix_ms(void)
{
    return unix_ms();
}

/* ---- life ---- */

static enum rc start(struct shell *s, const struct shell_config *config,
                     struct err *err)
{
    struct core_config core_config;
    struct store_key from;
    enum rc rc = store_sqlite_open(config->store_path, config->base, &store_events, s,
                                   &s->store, err);

    if (rc != RC_OK) {
        return rc;
    }
    core_config_default(&core_config);
    core_config.term = s->store->term;
    core_config.vni_quarantine_ms = config->vni_quarantine_ms;
    core_config.suggest_watch_ms = config->suggest_watch_ms;
    core_config.suggest_mature_ms = config->suggest_mature_ms;
    core_config.audit_interval_ms = config->audit_interval_ms;
    core_config.audit_repairs = config->audit_repairs;
    core_config.session_timeout_ms = config->session_timeout_ms;
    s->core = core_new(&core_config);
    s->wake = event_new(config->base, -1, 0, on_wake, s);
    s->more = event_new(config->base, -1, 0, on_more, s);
    if (!s->core || !s->wake || !s->more) {
        return err_set(err, RC_NO_MEMORY, "controller: no memory");
    }
    s->load_started_ms = shell_now_ms();
    core_load_range(&from, &s->load_end);
    store_range(s->store, LOAD_TAG, from, s->load_end, LOAD_KEYS);
    return RC_OK;
}

enum rc shell_new(const struct shell_config *config, void (*on_ready)(void *arg),
                  void (*on_failed)(void *arg, const struct err *why), void *arg,
                  struct shell **ret, struct err *err)
{
    struct shell *s = calloc(1, sizeof(*s));
    enum rc rc;

    if (!s) {
        return err_set(err, RC_NO_MEMORY, "controller: no memory");
    }
    s->base = config->base;
    s->on_ready = on_ready;
    s->on_failed = on_failed;
    s->failed_arg = arg;
    rc = start(s, config, err);
    if (rc != RC_OK) {
        shell_free(s);
        return rc;
    }
    *ret = s;
    return RC_OK;
}

/* Whoever still waits is told: what was submitted may have been stored. */
static void answer_all(struct shell *s)
{
    struct core_reply reply = { .bad_index = UINT32_MAX };

    err_set(&reply.err, RC_UNREACHABLE, "the controller stops");
    while (s->waiting_count > 0) {
        struct waiting w = s->waiting[--s->waiting_count];

        reply.token = w.token;
        w.on_reply(w.arg, &reply);
    }
}

void shell_free(struct shell *s)
{
    if (!s) {
        return;
    }
    if (s->store) {
        store_close(s->store);
    }
    answer_all(s);
    if (s->wake) {
        event_free(s->wake);
    }
    if (s->more) {
        event_free(s->more);
    }
    core_free(s->core);
    free(s->waiting);
    free(s);
}
