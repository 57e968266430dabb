/* The driver of xgw-gateway against a real one: every driver's suite, and what is its
 * own.  argv[1] is the program; ports are rings that nobody feeds. */
#include "agent/driver/driver_gateway.h"

#include <event2/event.h>
#include <event2/thread.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/unit/agent/driver/driver_suite.h"

#define DEADLINE_S 30

static const char *program;

struct gateway_rig {
    struct driver_rig base;
    struct event_base *events;
    struct rpc_loop *loop;
    char dir[32];
    char address[64];
    pid_t pid;
};

static struct gateway_rig *rig_of(struct driver_rig *rig)
{
    return (struct gateway_rig *)rig;
}

static void start(struct gateway_rig *rig)
{
    rig->pid = fork();
    ck_assert_int_ge(rig->pid, 0);
    if (rig->pid == 0) {
        execl(program, program, "--control", rig->address, "--ports",
              "up0=vdev:net_ring0", "--hugepages", "off", "--max-routes", "10000",
              "--max-vm-nc", "10000", "--max-vnis", "1000", "--log-level", "error",
              (char *)NULL);
        _exit(127);
    }
}

static void kill_gateway(struct gateway_rig *rig)
{
    int status;

    ck_assert_int_eq(kill(rig->pid, SIGKILL), 0);
    ck_assert_int_eq(waitpid(rig->pid, &status, 0), rig->pid);
    ck_assert(WIFSIGNALED(status)); /* not one that had crashed before */
}

static struct driver *rig_make(struct driver_rig *base,
                               const struct driver_events *events, void *ctx)
{
    struct gateway_rig *rig = rig_of(base);
    struct driver *d = NULL;
    struct err err = { 0 };

    ck_assert_msg(driver_gateway_new(rig->loop, rig->address, events, ctx, &d, &err) ==
                      RC_OK,
                  "%s", err.msg);
    return d;
}

static double now_s(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static bool rig_pump(struct driver_rig *base, bool (*is_done)(void *arg), void *arg)
{
    static const struct timeval slice = { 0, 20000 };
    struct gateway_rig *rig = rig_of(base);
    double end = now_s() + DEADLINE_S;

    while (!is_done(arg)) {
        if (now_s() > end) {
            return false;
        }
        event_base_loopexit(rig->events, &slice);
        event_base_loop(rig->events, EVLOOP_ONCE);
    }
    return true;
}

static void rig_restart(struct driver_rig *base)
{
    kill_gateway(rig_of(base));
    start(rig_of(base));
}

static bool is_never(void *arg)
{
    double *end = arg;

    return now_s() > *end;
}

static void rig_free(struct driver_rig *base)
{
    struct gateway_rig *rig = rig_of(base);
    char path[64];
    double end = now_s() + 0.05;

    kill_gateway(rig);
    rig_pump(base, is_never, &end); /* closed drivers go with the loop's turns */
    rpc_loop_free(rig->loop);
    event_base_free(rig->events);
    snprintf(path, sizeof(path), "%s/gateway.sock", rig->dir);
    unlink(path);
    rmdir(rig->dir);
    free(rig);
}

static struct driver_rig *rig_new(void)
{
    struct gateway_rig *rig = calloc(1, sizeof(*rig));
    struct err err = { 0 };

    rig->base = (struct driver_rig){ .make = rig_make,
                                     .pump = rig_pump,
                                     .restart_device = rig_restart,
                                     .free = rig_free,
                                     .takes_probes = true };
    strcpy(rig->dir, "/tmp/xgw-driver-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(rig->dir));
    snprintf(rig->address, sizeof(rig->address), "unix:%s/gateway.sock", rig->dir);
    evthread_use_pthreads();
    rig->events = event_base_new();
    ck_assert_int_eq(rpc_loop_new(rig->events, &rig->loop, &err), RC_OK);
    start(rig);
    return &rig->base;
}

int main(int argc, char **argv)
{
    TCase *tc = tcase_create("driver_gateway");

    if (argc < 2) {
        fprintf(stderr, "test_driver_gateway XGW_GATEWAY\n");
        return 2;
    }
    program = argv[1];
    signal(SIGPIPE, SIG_IGN);
    tcase_set_timeout(tc, 120);
    driver_suite(tc, rig_new);
    return unit_run("driver_gateway", tc);
}
