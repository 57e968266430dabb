#include "proto/rpc/rpc_loop.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <grpc/support/log.h>

#include "proto/base/log.h"
#include "proto/rpc/rpc_core.h"

/* gRPC is not built with ThreadSanitizer, so the order that its queue gives between
 * posting and completion is told by hand. */
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define RPC_TSAN 1
#endif
#endif
#if defined(__SANITIZE_THREAD__)
#define RPC_TSAN 1
#endif
#ifdef RPC_TSAN
void __tsan_acquire(void *addr);
void __tsan_release(void *addr);
#else
static void __tsan_acquire(void *addr)
{
    (void)addr;
}
static void __tsan_release(void *addr)
{
    (void)addr;
}
#endif

/* gRPC's own complaints, as one line of ours.  Any thread. */
static void log_grpc(gpr_log_func_args *args)
{
    char text[200];
    size_t len = 0;

    for (const char *p = args->message; *p && len + 1 < sizeof(text); p++) {
        unsigned char c = (unsigned char)*p;

        text[len++] = (char)(c < ' ' || c == '"' ? ' ' : c);
    }
    text[len] = '\0';
    log_warn("grpc reports", "text=\"%s\"", text);
}

void *rpc_op_post(struct rpc_op *op)
{
    op->is_pending = true;
    __tsan_release(op);
    return op;
}

bool rpc_op_batch(grpc_call *call, const grpc_op *ops, size_t count, struct rpc_op *op)
{
    grpc_call_error e = grpc_call_start_batch(call, ops, count, rpc_op_post(op), NULL);

    if (e != GRPC_CALL_OK) {
        op->is_pending = false;
        log_error("rpc batch refused", "error=%s", grpc_call_error_to_string(e));
        return false;
    }
    return true;
}

/* The thread: takes finished operations from gRPC and hands them over. */
static void *queue_main(void *arg)
{
    struct rpc_loop *loop = arg;

    for (;;) {
        grpc_event e = grpc_completion_queue_next(
            loop->cq, gpr_inf_future(GPR_CLOCK_REALTIME), NULL);
        struct rpc_op *op = e.tag;
        bool was_empty;

        if (e.type == GRPC_QUEUE_SHUTDOWN) {
            return NULL;
        }
        __tsan_acquire(op);
        op->ok = e.success != 0;
        op->next = NULL;
        if (op->ok && op->arrived) {
            op->arrived(op);
        }
        pthread_mutex_lock(&loop->lock);
        was_empty = !loop->head;
        *loop->tail = op;
        loop->tail = &op->next;
        pthread_mutex_unlock(&loop->lock);
        if (was_empty) {
            const uint64_t one = 1;

            /* Cannot fail short of a closed descriptor: the counter is far from full.
             */
            while (write(loop->efd, &one, sizeof(one)) < 0 && errno == EINTR) {
            }
        }
    }
}

static struct rpc_op *take_finished(struct rpc_loop *loop)
{
    struct rpc_op *op;

    pthread_mutex_lock(&loop->lock);
    op = loop->head;
    loop->head = NULL;
    loop->tail = &loop->head;
    pthread_mutex_unlock(&loop->lock);
    return op;
}

/* One pass: calls that become ready meanwhile get their turn in the next, so that one
 * busy call cannot hold the loop. */
static void run_ready(struct rpc_loop *loop)
{
    struct rpc_call_list pass = TAILQ_HEAD_INITIALIZER(pass);
    struct rpc_call *call;

    TAILQ_CONCAT(&pass, &loop->ready, in_ready);
    while ((call = TAILQ_FIRST(&pass)) != NULL) {
        TAILQ_REMOVE(&pass, call, in_ready);
        call->is_ready = false;
        rpc_call_step(call);
    }
}

static void drain(struct rpc_loop *loop)
{
    struct rpc_op *op = take_finished(loop);

    while (op) {
        struct rpc_op *next = op->next;

        op->is_pending = false;
        op->done(op, op->ok);
        op = next;
    }
    run_ready(loop);
}

static void on_wake(evutil_socket_t fd, short what, void *arg)
{
    uint64_t count;

    (void)what;
    if (read((int)fd, &count, sizeof(count)) < 0 && errno != EAGAIN) {
        log_error("rpc wake-up failed", "error=\"%s\"", strerror(errno));
    }
    drain(arg);
}

static void on_kick(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    run_ready(arg);
}

void rpc_call_mark(struct rpc_call *call)
{
    struct rpc_loop *loop = call->loop;

    if (call->is_ready) {
        return;
    }
    call->is_ready = true;
    TAILQ_INSERT_TAIL(&loop->ready, call, in_ready);
    event_active(loop->kick, EV_TIMEOUT, 0);
}

/* The thread must not take the program's signals. */
static int start_thread(struct rpc_loop *loop)
{
    sigset_t all;
    sigset_t before;
    int rc;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    rc = pthread_create(&loop->thread, NULL, queue_main, loop);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return rc;
}

static void free_parts(struct rpc_loop *loop)
{
    if (loop->wake) {
        event_free(loop->wake);
    }
    if (loop->kick) {
        event_free(loop->kick);
    }
    if (loop->efd >= 0) {
        close(loop->efd);
    }
    grpc_completion_queue_destroy(loop->cq);
    grpc_shutdown_blocking();
    pthread_mutex_destroy(&loop->lock);
    free(loop);
}

enum rc rpc_loop_new(struct event_base *base, struct rpc_loop **ret_loop,
                     struct err *err)
{
    struct rpc_loop *loop = calloc(1, sizeof(*loop));
    int rc;

    if (!loop) {
        return err_set(err, RC_NO_MEMORY, "rpc loop: out of memory");
    }
    gpr_set_log_function(log_grpc);
    grpc_init();
    loop->base = base;
    loop->cq = grpc_completion_queue_create_for_next(NULL);
    TAILQ_INIT(&loop->ready);
    LIST_INIT(&loop->servers);
    LIST_INIT(&loop->channels);
    pthread_mutex_init(&loop->lock, NULL);
    loop->tail = &loop->head;
    loop->efd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    loop->kick = event_new(base, -1, 0, on_kick, loop);
    if (loop->efd >= 0) {
        loop->wake = event_new(base, loop->efd, EV_READ | EV_PERSIST, on_wake, loop);
    }
    if (!loop->wake || !loop->kick || event_add(loop->wake, NULL) < 0) {
        rc = errno;
    } else {
        rc = start_thread(loop);
        if (rc == 0) {
            *ret_loop = loop;
            return RC_OK;
        }
    }
    grpc_completion_queue_shutdown(loop->cq);
    free_parts(loop);
    return err_set(err, RC_NO_MEMORY, "rpc loop: %s", strerror(rc));
}

struct event_base *rpc_loop_base(const struct rpc_loop *loop)
{
    return loop->base;
}

void rpc_loop_free(struct rpc_loop *loop)
{
    struct rpc_server *server;
    struct rpc_channel *channel;

    if (!loop) {
        return;
    }
    while (!LIST_EMPTY(&loop->servers) || !LIST_EMPTY(&loop->channels)) {
        struct pollfd p = { .fd = loop->efd, .events = POLLIN };
        uint64_t count;

        /* Again in each round: a last callback may have made new ones. */
        for (server = LIST_FIRST(&loop->servers); server;
             server = rpc_server_next(server)) {
            rpc_server_kill(server);
        }
        while ((channel = rpc_channel_first_open(loop)) != NULL) {
            rpc_channel_free(channel);
        }
        if (!TAILQ_EMPTY(&loop->ready)) {
            run_ready(loop);
            continue;
        }
        if (LIST_EMPTY(&loop->servers) && LIST_EMPTY(&loop->channels)) {
            break;
        }
        poll(&p, 1, -1);
        if (read(loop->efd, &count, sizeof(count)) > 0) {
            drain(loop);
        }
    }
    grpc_completion_queue_shutdown(loop->cq);
    pthread_join(loop->thread, NULL);
    free_parts(loop);
}
