/*
 * rpc_fixture - a server and a client in one process, each with its own rpc loop on one
 * event_base, and a recorder for what a client's call is told.
 */
#pragma once

#include "tests/unit/unit.h"

#include <event2/event.h>
#include <event2/thread.h>
#include <string.h>
#include <time.h>

#include "proto/rpc/rpc_client.h"
#include "proto/rpc/rpc_health.h"
#include "proto/rpc/rpc_server.h"
#include "tests/unit/proto/rpc/echo_service.h"

struct fixture {
    struct event_base *base;
    struct rpc_loop *server_loop;
    struct rpc_loop *client_loop;
    struct rpc_server *server;
    struct rpc_health *health;
    struct rpc_channel *channel;
    struct echo echo;
    char address[64];
};

/* What the client's call saw. */
struct seen {
    struct rpc_call *call; /* null once closed */
    unsigned opened;
    unsigned messages;
    unsigned closed;
    unsigned writable;
    size_t bytes;
    char last[64]; /* beginning of the last message */
    enum rpc_code code;
    char message[256];
    struct err err;
};

static inline double fixture_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Runs the loop until `cond`; fails the test after 20 s. */
#define RUN_UNTIL(fixture, cond)                                                       \
    do {                                                                               \
        const double end_ = fixture_now() + 20;                                        \
        const struct timeval slice_ = { 0, 20000 };                                    \
        while (!(cond)) {                                                              \
            ck_assert_msg(fixture_now() < end_, "timed out waiting for %s", #cond);    \
            event_base_loopexit((fixture)->base, &slice_);                             \
            event_base_loop((fixture)->base, EVLOOP_ONCE);                             \
        }                                                                              \
    } while (0)

/* Runs the loop for a while, to show that something does not happen. */
static inline void fixture_run_ms(struct fixture *f, int ms)
{
    const struct timeval slice = { ms / 1000, (ms % 1000) * 1000L };

    event_base_loopexit(f->base, &slice);
    event_base_loop(f->base, 0);
}

static inline void fixture_serve(struct fixture *f, const struct rpc_server_options *so,
                                 const struct rpc_tls *tls, const char *address)
{
    struct err err = { 0 };
    uint16_t port = 0;

    ck_assert_int_eq(rpc_loop_new(f->base, &f->server_loop, &err), RC_OK);
    ck_assert_int_eq(rpc_server_new(f->server_loop, so, &f->server, &err), RC_OK);
    ck_assert_int_eq(echo_add(f->server, &f->echo, &err), RC_OK);
    ck_assert_int_eq(rpc_health_new(f->server, &f->health, &err), RC_OK);
    ck_assert_msg(rpc_server_listen(f->server, address, tls, &port, &err) == RC_OK,
                  "%s", err.msg);
    ck_assert_int_eq(rpc_server_start(f->server, &err), RC_OK);
    if (strncmp(address, "unix:", 5) == 0) {
        snprintf(f->address, sizeof(f->address), "%s", address);
    } else {
        snprintf(f->address, sizeof(f->address), "127.0.0.1:%u", port);
    }
}

static inline void fixture_dial(struct fixture *f, const struct rpc_channel_options *co)
{
    struct rpc_channel_options options = co ? *co : (struct rpc_channel_options){ 0 };
    struct err err = { 0 };

    options.address = f->address;
    ck_assert_msg(rpc_channel_new(f->client_loop, &options, &f->channel, &err) == RC_OK,
                  "%s", err.msg);
}

static inline void fixture_init(struct fixture *f)
{
    struct err err = { 0 };

    memset(f, 0, sizeof(*f));
    evthread_use_pthreads();
    f->base = event_base_new();
    ck_assert_int_eq(rpc_loop_new(f->base, &f->client_loop, &err), RC_OK);
}

static inline void fixture_up(struct fixture *f, const struct rpc_server_options *so,
                              const struct rpc_channel_options *co)
{
    fixture_init(f);
    fixture_serve(f, so, NULL, "127.0.0.1:0");
    fixture_dial(f, co);
}

static inline void fixture_kill_server(struct fixture *f)
{
    rpc_loop_free(f->server_loop);
    rpc_health_free(f->health);
    f->server_loop = NULL;
    f->health = NULL;
}

/* Every call that was opened must have been closed, once. */
static inline void fixture_down(struct fixture *f)
{
    rpc_loop_free(f->client_loop);
    fixture_kill_server(f);
    event_base_free(f->base);
    ck_assert_uint_eq(f->echo.opened, f->echo.closed);
}

static inline void seen_status(struct seen *s, const struct rpc_status *status)
{
    s->closed++;
    s->code = status->code;
    snprintf(s->message, sizeof(s->message), "%s", status->message);
    rpc_status_to_err(status, &s->err);
    s->call = NULL;
}

static inline void seen_bytes(struct seen *s, const struct rpc_msg *msg)
{
    size_t n = msg->len < sizeof(s->last) - 1 ? msg->len : sizeof(s->last) - 1;

    s->messages++;
    s->bytes += msg->len;
    memcpy(s->last, msg->data, n);
    s->last[n] = '\0';
}

static inline void seen_on_open(struct rpc_call *call)
{
    struct seen *s = rpc_call_arg(call);

    s->opened++;
}

static inline void seen_on_message(struct rpc_call *call, const struct rpc_msg *msg)
{
    seen_bytes(rpc_call_arg(call), msg);
}

static inline void seen_on_writable(struct rpc_call *call)
{
    struct seen *s = rpc_call_arg(call);

    s->writable++;
}

static inline void seen_on_closed(struct rpc_call *call,
                                  const struct rpc_status *status)
{
    seen_status(rpc_call_arg(call), status);
}

static inline void seen_done(const struct rpc_status *status,
                             const struct rpc_msg *reply, void *arg)
{
    seen_status(arg, status);
    if (reply) {
        seen_bytes(arg, reply);
    }
}

/* A unary call to /test.Echo/Unary, run to its end. */
static inline struct seen ask(struct fixture *f, const char *text,
                              const struct rpc_call_options *options)
{
    const struct rpc_part part = { .data = text, .len = strlen(text) };
    struct seen s = { 0 };

    ck_assert_int_eq(rpc_unary(f->channel, "/test.Echo/Unary", &part, 1, options,
                               seen_done, &s, NULL),
                     RC_OK);
    RUN_UNTIL(f, s.closed);
    return s;
}

static inline void open_stream(struct fixture *f, const char *path,
                               const struct rpc_call_options *options, struct seen *s)
{
    const struct rpc_call_ops ops = { .on_open = seen_on_open,
                                      .on_message = seen_on_message,
                                      .on_writable = seen_on_writable,
                                      .on_closed = seen_on_closed };

    memset(s, 0, sizeof(*s));
    ck_assert_int_eq(rpc_stream(f->channel, path, options, &ops, s, &s->call), RC_OK);
}
