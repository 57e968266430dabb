/*
 * rpc_echo_client ADDRESS CA|- CERT|- KEY|- COMMAND … - one call against an echo
 * service that is not ours; prints what it saw as "key value" lines.
 *
 *   unary TEXT DEADLINE_MS         collect COUNT TEXT
 *   stream TEXT CANCEL_AFTER       bidi COUNT TEXT      (0: no deadline, no cancel)
 */
#include <event2/event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/rpc/rpc_client.h"

struct seen {
    struct event_base *base;
    struct rpc_call *call;
    const char *text;
    unsigned to_send;
    unsigned cancel_after; /* messages */
    unsigned messages;
    size_t bytes;
    char last[100];
};

static void count(struct seen *s, const struct rpc_msg *msg)
{
    s->messages++;
    s->bytes += msg->len;
    snprintf(s->last, sizeof(s->last), "%.*s", (int)msg->len, (const char *)msg->data);
}

static void on_done(const struct rpc_status *status, const struct rpc_msg *reply,
                    void *arg)
{
    struct seen *s = arg;
    struct err err = { 0 };

    if (reply) {
        count(s, reply);
    }
    rpc_status_to_err(status, &err);
    printf("code %s\nmessage %s\nrc %s\nfield %s\nrule %s\nmessages %u\nbytes %zu\n"
           "last %s\n",
           rpc_code_name(status->code), status->message, rc_name(err.code), err.field,
           err.rule, s->messages, s->bytes, s->last);
    event_base_loopbreak(s->base);
}

static void on_closed(struct rpc_call *call, const struct rpc_status *status)
{
    on_done(status, NULL, rpc_call_arg(call));
}

static void on_message(struct rpc_call *call, const struct rpc_msg *msg)
{
    struct seen *s = rpc_call_arg(call);

    count(s, msg);
    if (s->messages == s->cancel_after) {
        rpc_call_cancel(call, RPC_CANCELLED, "enough");
    }
}

static void send_more(struct rpc_call *call)
{
    struct seen *s = rpc_call_arg(call);

    while (s->to_send > 0) {
        if (rpc_call_send_bytes(call, s->text, strlen(s->text)) != RC_OK) {
            return;
        }
        s->to_send--;
    }
    rpc_call_close_send(call);
}

static enum rc run(struct rpc_channel *channel, char **argv, struct seen *s)
{
    static const struct rpc_call_ops ops = { .on_message = on_message,
                                             .on_writable = send_more,
                                             .on_closed = on_closed };
    const char *command = argv[0];
    struct rpc_call_options options = { .wait_for_ready = false };
    enum rc rc;

    if (strcmp(command, "unary") == 0) {
        const struct rpc_part part = { .data = argv[1], .len = strlen(argv[1]) };

        options.deadline_ms = (uint32_t)strtoul(argv[2], NULL, 10);
        return rpc_unary(channel, "/test.Echo/Unary", &part, 1, &options, on_done, s,
                         NULL);
    }
    if (strcmp(command, "stream") == 0) {
        s->text = argv[1];
        s->to_send = 1;
        s->cancel_after = (unsigned)strtoul(argv[2], NULL, 10);
        rc = rpc_stream(channel, "/test.Echo/Stream", NULL, &ops, s, &s->call);
    } else {
        s->to_send = (unsigned)strtoul(argv[1], NULL, 10);
        s->text = argv[2];
        rc = rpc_stream(channel,
                        strcmp(command, "bidi") == 0 ? "/test.Echo/Bidi"
                                                     : "/test.Echo/Collect",
                        NULL, &ops, s, &s->call);
    }
    if (rc == RC_OK) {
        send_more(s->call);
    }
    return rc;
}

static const char *unless_dash(const char *arg)
{
    return strcmp(arg, "-") == 0 ? NULL : arg;
}

int main(int argc, char **argv)
{
    struct rpc_channel_options options = { 0 };
    struct rpc_channel *channel = NULL;
    struct rpc_loop *loop = NULL;
    struct rpc_tls tls = { 0 };
    struct seen s = { 0 };
    struct err err = { 0 };

    if (argc != 8) {
        fprintf(stderr, "usage: rpc_echo_client ADDRESS CA CERT KEY COMMAND A B\n");
        return EXIT_FAILURE;
    }
    tls = (struct rpc_tls){ .ca_file = unless_dash(argv[2]),
                            .cert_file = unless_dash(argv[3]),
                            .key_file = unless_dash(argv[4]) };
    options.address = argv[1];
    options.tls = tls.ca_file ? &tls : NULL;
    s.base = event_base_new();
    if (rpc_loop_new(s.base, &loop, &err) != RC_OK ||
        rpc_channel_new(loop, &options, &channel, &err) != RC_OK ||
        run(channel, argv + 5, &s) != RC_OK) {
        fprintf(stderr, "rpc_echo_client: %s\n", err.msg);
        return EXIT_FAILURE;
    }
    event_base_dispatch(s.base);
    rpc_loop_free(loop);
    event_base_free(s.base);
    return EXIT_SUCCESS;
}
