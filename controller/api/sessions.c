#include "controller/api/sessions.h"

#include "controller/api/beats.h"
#include "proto/base/log.h"
#include "proto/rpc/agent_codec.h"

#include <stdlib.h>
#include <string.h>

#define PATH_SESSION "/xgw.agent.v1.AgentSession/Session"

struct session_call {
    struct session_call *next;
    struct sessions *owner;
    struct rpc_call *call; /* null once it is closed */
    struct beats_line *line;
    uint64_t id;
    char device_id[DEVICE_ID_MAX + 1]; /* "" until known */
    bool is_open;                      /* the core was told */
    bool is_ended;                     /* what still comes is not listened to */
};

struct sessions {
    struct shell *shell;
    bool is_plain;
    struct session_call *list;
    uint32_t count;
    uint64_t last_id;
    struct beats *beats;
    struct buf buf;
};

static struct session_call *find(struct sessions *s, uint64_t id)
{
    struct session_call *c = s->list;

    while (c && c->id != id) {
        c = c->next;
    }
    return c;
}

/* ---- what the core wants ---- */

static void on_send(void *ctx, uint64_t session, const struct ctl_msg *msg)
{
    struct sessions *s = ctx;
    struct session_call *c = find(s, session);
    struct blob *tail = NULL;
    struct rpc_part parts[2] = { 0 };
    enum rc rc;

    if (!c) {
        return;
    }
    buf_reset(&s->buf);
    rc = ctl_msg_encode(msg, &s->buf, &tail);
    if (rc == RC_OK) {
        parts[0].data = s->buf.data;
        parts[0].len = s->buf.len;
        parts[1].blob = tail;
        parts[1].len = tail ? tail->len : 0;
        rc = rpc_call_send(c->call, parts, tail ? 2 : 1);
    }
    if (rc != RC_OK) {
        log_warn("session cannot be sent to", "device=%s cause=%s", c->device_id,
                 rc_name(rc));
        rpc_call_cancel(c->call, RPC_RESOURCE_EXHAUSTED, "cannot send");
    }
}

static void on_close(void *ctx, uint64_t session, const struct err *why)
{
    struct session_call *c = find(ctx, session);

    if (c) {
        c->is_ended = true;
        rpc_call_finish_err(c->call, why);
    }
}

static const struct shell_sessions shell_sessions = { on_send, on_close };

/* ---- what an agent says ---- */

static void on_open(struct rpc_call *call)
{
    struct sessions *s = rpc_call_arg(call);
    struct session_call *c = calloc(1, sizeof(*c));
    const char *name = rpc_call_peer_name(call);

    if (c) {
        c->line = beats_open(s->beats);
    }
    if (c && !c->line) {
        free(c);
        c = NULL;
    }
    rpc_call_set_data(call, c);
    if (!c) {
        rpc_call_finish(call, RPC_RESOURCE_EXHAUSTED, "no memory", NULL, 0);
        return;
    }
    c->owner = s;
    c->call = call;
    c->id = ++s->last_id;
    if (!s->is_plain && strlen(name) > DEVICE_ID_MAX) {
        c->is_ended = true;
        rpc_call_finish(call, RPC_UNAUTHENTICATED, "certificate: common name too long",
                        NULL, 0);
    } else if (!s->is_plain) {
        strcpy(c->device_id, name);
    }
    c->next = s->list;
    s->list = c;
    s->count++;
}

/* Every HELLO names the same device: with TLS the certificate's, else the first one. */
static bool check_hello(struct session_call *c, const struct agent_hello *hello)
{
    if (c->owner->is_plain && !c->is_open) {
        strcpy(c->device_id, hello->device_id);
    }
    if (c->device_id[0] == '\0') {
        rpc_call_finish(c->call, RPC_UNAUTHENTICATED,
                        "a device needs a certificate with its id as common name", NULL,
                        0);
        return false;
    }
    if (strcmp(c->device_id, hello->device_id) != 0) {
        rpc_call_finish(c->call, RPC_UNAUTHENTICATED,
                        "the device id is not the session's", NULL, 0);
        return false;
    }
    return true;
}

/* The first HELLO opens the session. */
static bool admit(struct session_call *c, const struct agent_msg *msg)
{
    if (c->is_ended) {
        return false;
    }
    if (msg->kind == AGENT_HELLO) {
        c->is_ended = !check_hello(c, &msg->hello);
    } else if (!c->is_open) {
        c->is_ended = true;
        rpc_call_finish(c->call, RPC_FAILED_PRECONDITION, "say HELLO first", NULL, 0);
    }
    if (!c->is_ended && !c->is_open) {
        c->is_open = true;
        beats_name(c->line, c->device_id);
        shell_session_open(c->owner->shell, c->id, c->device_id);
    }
    return !c->is_ended;
}

/* gRPC's thread. */
static void on_arrival(struct rpc_call *call)
{
    struct session_call *c = rpc_call_data(call);

    if (c) {
        beats_arrived(c->line);
    }
}

static void on_message(struct rpc_call *call, const struct rpc_msg *msg)
{
    struct session_call *c = rpc_call_data(call);
    struct agent_msg m;
    struct err err = { 0 };

    if (!c) {
        return;
    }
    beats_taken(c->line);
    if (c->is_ended) {
        return;
    }
    if (agent_msg_decode(msg->data, msg->len, &m, &err) != RC_OK) {
        log_warn("session ends", "device=%s cause=\"malformed message: %s\"",
                 c->device_id, err.msg);
        c->is_ended = true;
        rpc_call_finish_err(call, &err);
        return;
    }
    if (admit(c, &m)) {
        shell_session_message(c->owner->shell, c->id, c->device_id, &m);
    }
    agent_msg_fini(&m);
}

static void on_half_close(struct rpc_call *call)
{
    rpc_call_finish(call, RPC_OK, NULL, NULL, 0);
}

static void on_closed(struct rpc_call *call, const struct rpc_status *status)
{
    struct session_call *c = rpc_call_data(call);
    struct sessions *s;

    (void)status;
    if (!c) {
        return;
    }
    s = c->owner;
    for (struct session_call **at = &s->list; *at; at = &(*at)->next) {
        if (*at == c) {
            *at = c->next;
            break;
        }
    }
    s->count--;
    if (c->is_open) {
        shell_session_closed(s->shell, c->id, c->device_id);
    }
    /* What is no node's is not watched on. */
    beats_close(c->line, !core_node_find(shell_core(s->shell), c->device_id));
    free(c);
}

/* ---- liveness ---- */

static void on_transition(void *arg, const char *device_id, bool is_silent)
{
    struct sessions *s = arg;

    shell_liveness(s->shell, device_id, is_silent);
}

enum rc sessions_new(struct rpc_server *server, struct shell *shell, bool is_plain,
                     struct sessions **ret, struct err *err)
{
    struct sessions *s = calloc(1, sizeof(*s));
    struct beats_config beats = { shell_base(shell), shell_now_ms, true };
    struct rpc_method method = { .path = PATH_SESSION,
                                 .kind = RPC_BIDI,
                                 .ops = { .on_open = on_open,
                                          .on_arrival = on_arrival,
                                          .on_message = on_message,
                                          .on_half_close = on_half_close,
                                          .on_closed = on_closed },
                                 .arg = s };
    enum rc rc;

    if (!s) {
        return err_set(err, RC_NO_MEMORY, "sessions: no memory");
    }
    s->shell = shell;
    s->is_plain = is_plain;
    rc = beats_new(&beats, on_transition, s, &s->beats, err);
    rc = rc ? rc : rpc_server_add(server, &method, err);
    if (rc != RC_OK) {
        sessions_free(s);
        return rc;
    }
    shell_set_sessions(shell, &shell_sessions, s);
    *ret = s;
    return RC_OK;
}

void sessions_free(struct sessions *s)
{
    if (!s) {
        return;
    }
    shell_set_sessions(s->shell, NULL, NULL);
    beats_free(s->beats);
    buf_fini(&s->buf);
    free(s);
}

uint32_t sessions_count(const struct sessions *s)
{
    return s->count;
}
