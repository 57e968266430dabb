/*
 * rpc_echo_server ADDRESS [CA CERT KEY] - the echo service of the rpc tests as a
 * process, for clients that are not ours.  Prints "port N" when it serves; SIGTERM ends
 * it in good order.
 */
#include <event2/event.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "proto/rpc/rpc_health.h"
#include "proto/rpc/rpc_server.h"
#include "tests/unit/proto/rpc/echo_service.h"

static void on_stopped(void *arg)
{
    event_base_loopbreak(arg);
}

struct ending {
    struct event_base *base;
    struct rpc_server *server;
};

static void on_term(evutil_socket_t fd, short what, void *arg)
{
    const struct ending *e = arg;

    (void)fd;
    (void)what;
    rpc_server_stop(e->server, 200, on_stopped, e->base);
}

static int die(const struct err *err)
{
    fprintf(stderr, "rpc_echo_server: %s\n", err->msg);
    return EXIT_FAILURE;
}

int main(int argc, char **argv)
{
    struct rpc_tls tls = { 0 };
    struct rpc_server_options options = { .max_message_bytes = 4 << 20 };
    struct ending ending = { 0 };
    struct rpc_loop *loop = NULL;
    struct rpc_health *health = NULL;
    struct event *term;
    struct echo echo = { 0 };
    struct err err = { 0 };
    uint16_t port = 0;

    if (argc != 2 && argc != 5) {
        fprintf(stderr, "usage: rpc_echo_server ADDRESS [CA CERT KEY]\n");
        return EXIT_FAILURE;
    }
    if (argc == 5) {
        tls = (struct rpc_tls){ .ca_file = argv[2],
                                .cert_file = argv[3],
                                .key_file = argv[4] };
    }
    ending.base = event_base_new();
    if (rpc_loop_new(ending.base, &loop, &err) != RC_OK ||
        rpc_server_new(loop, &options, &ending.server, &err) != RC_OK ||
        echo_add(ending.server, &echo, &err) != RC_OK ||
        rpc_health_new(ending.server, &health, &err) != RC_OK ||
        rpc_server_listen(ending.server, argv[1], argc == 5 ? &tls : NULL, &port,
                          &err) != RC_OK ||
        rpc_server_start(ending.server, &err) != RC_OK) {
        return die(&err);
    }
    rpc_health_set(health, "", true);
    term = evsignal_new(ending.base, SIGTERM, on_term, &ending);
    evsignal_add(term, NULL);
    printf("port %u\n", port);
    fflush(stdout);
    event_base_dispatch(ending.base);
    printf("opened %u closed %u cancelled %u half_closed %u produced %u\n", echo.opened,
           echo.closed, echo.cancelled, echo.half_closed, echo.produced);
    event_free(term);
    rpc_loop_free(loop);
    rpc_health_free(health);
    event_base_free(ending.base);
    return EXIT_SUCCESS;
}
