#include "proto/rpc/program.h"

#include <event2/event.h>
#include <event2/thread.h>
#include <signal.h>
#include <time.h>

#include "proto/base/log.h"

static void on_signal(evutil_socket_t signal_number, short what, void *arg)
{
    struct program *p = arg;

    (void)what;
    if (signal_number == SIGHUP) {
        p->on_hangup(p->arg);
        return;
    }
    log_info("program stops", "signal=%d", (int)signal_number);
    program_stop(p);
}

enum rc program_init(struct program *p, void (*on_hangup)(void *arg), void *arg,
                     struct err *err)
{
    static const int signals[PROGRAM_SIGNALS] = { SIGTERM, SIGINT, SIGHUP };
    const int count = on_hangup ? PROGRAM_SIGNALS : PROGRAM_SIGNALS - 1;

    *p = (struct program){ .on_hangup = on_hangup, .arg = arg };
    signal(SIGPIPE, SIG_IGN);
    evthread_use_pthreads();
    p->base = event_base_new();
    if (!p->base) {
        return err_set(err, RC_NO_MEMORY, "no event loop");
    }
    for (int i = 0; i < count; i++) {
        p->signals[i] = evsignal_new(p->base, signals[i], on_signal, p);
        if (!p->signals[i] || event_add(p->signals[i], NULL) != 0) {
            return err_set(err, RC_NO_MEMORY, "no signal handler");
        }
    }
    return rpc_loop_new(p->base, &p->rpc, err);
}

void program_run(struct program *p)
{
    event_base_dispatch(p->base);
}

void program_stop(struct program *p)
{
    event_base_loopexit(p->base, NULL);
}

void program_fini(struct program *p)
{
    for (int i = 0; i < PROGRAM_SIGNALS; i++) {
        if (p->signals[i]) {
            event_free(p->signals[i]);
        }
    }
    if (p->base) {
        event_base_free(p->base);
    }
    *p = (struct program){ 0 };
}

uint64_t program_now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}
