/* switch_rig - a test_switch at a Unix socket, the loop that it shares with a client,
 * and a p4info; for tests of what talks to it. */
#pragma once

#include <event2/event.h>
#include <event2/thread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "agent/driver/p4rt_switch.h"
#include "tests/unit/agent/driver/test_switch.h"
#include "tests/unit/agent/p4rt/p4info_make.h"
#include "tests/unit/unit.h"

struct switch_rig {
    struct event_base *base;
    struct rpc_loop *loop;
    struct test_switch *sw;
    char dir[32];
    char address[64];
    struct blob *p4info;
};

static inline double rig_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Runs the loop until `cond`; fails the test after 60 s, for the thread sanitizer is
 * slow. */
#define RIG_UNTIL(rig, cond)                                                           \
    do {                                                                               \
        const double end_ = rig_now() + 60;                                            \
        const struct timeval slice_ = { 0, 20000 };                                    \
        while (!(cond)) {                                                              \
            ck_assert_msg(rig_now() < end_, "timed out waiting for %s", #cond);        \
            event_base_loopexit((rig)->base, &slice_);                                 \
            event_base_loop((rig)->base, EVLOOP_ONCE);                                 \
        }                                                                              \
    } while (0)

/* Runs it for a while, to show that something does not happen. */
static inline void rig_run_ms(struct switch_rig *rig, int ms)
{
    const struct timeval slice = { ms / 1000, ms % 1000 * 1000L };

    event_base_loopexit(rig->base, &slice);
    event_base_loop(rig->base, 0);
}

static inline struct blob *rig_program(p4info_change *change, int arg)
{
    struct buf b = BUF_INIT;
    struct blob *blob;

    p4info_make(&b, change, arg);
    blob = blob_copy(b.data, b.len);
    buf_fini(&b);
    return blob;
}

static inline void rig_init(struct switch_rig *rig)
{
    struct err err = { 0 };

    memset(rig, 0, sizeof(*rig));
    strcpy(rig->dir, "/tmp/xgw-p4rt-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(rig->dir));
    snprintf(rig->address, sizeof(rig->address), "unix:%s/p4rt.sock", rig->dir);
    evthread_use_pthreads();
    rig->base = event_base_new();
    ck_assert_int_eq(rpc_loop_new(rig->base, &rig->loop, &err), RC_OK);
    rig->sw = test_switch_new(rig->base, rig->address);
    rig->p4info = rig_program(NULL, 0);
}

/* After the clients were freed. */
static inline void rig_fini(struct switch_rig *rig)
{
    char path[64];

    rig_run_ms(rig, 50); /* closed clients go with the loop's turns */
    rpc_loop_free(rig->loop);
    rig_run_ms(rig, 10);
    test_switch_free(rig->sw);
    event_base_free(rig->base);
    blob_unref(rig->p4info);
    snprintf(path, sizeof(path), "%s/p4rt.sock", rig->dir);
    unlink(path);
    rmdir(rig->dir);
}

static inline struct p4rt_switch_options rig_options(const struct switch_rig *rig,
                                                     uint8_t devices)
{
    return (struct p4rt_switch_options){ .address = rig->address,
                                         .device_id = { 1, 2 },
                                         .device_count = devices,
                                         .p4info = rig->p4info,
                                         .keepalive_ms = 10000,
                                         .redial_ms = 20 };
}
