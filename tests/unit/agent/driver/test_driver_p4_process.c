/* The driver of a switch over P4Runtime against a real server in a process of its own:
 * every driver's suite, and how long much takes.
 *
 *   test_driver_p4_process soft-h XGW_GATEWAY
 *   test_driver_p4_process bmv2 SIMPLE_SWITCH_GRPC P4INFO JSON
 *   test_driver_p4_process p4info FILE      writes the p4info of the first, for others
 *
 * ENTRIES=N sets how many VM-NC entries the last test moves (default 200000). */
#include "agent/driver/driver_p4runtime.h"

#include <event2/event.h>
#include <event2/thread.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "proto/model/batch.h"
#include "proto/model/table_set.h"
#include "tests/unit/agent/driver/driver_suite.h"
#include "tests/unit/agent/p4rt/p4info_make.h"

#define DEADLINE_S 60

static const char *program;
static bool is_bmv2;
static struct blob *p4info;
static struct blob *image;

struct process_rig {
    struct driver_rig base;
    struct event_base *events;
    struct rpc_loop *loop;
    char dir[32];
    char address[64];
    pid_t pid;
};

static struct process_rig *rig_of(struct driver_rig *rig)
{
    return (struct process_rig *)rig;
}

static void start(struct process_rig *rig)
{
    rig->pid = fork();
    ck_assert_int_ge(rig->pid, 0);
    if (rig->pid != 0) {
        return;
    }
    if (is_bmv2) {
        execl(program, program, "--no-p4", "--device-id", "1", "--log-level", "off",
              "--", "--grpc-server-addr", rig->address, (char *)NULL);
    } else {
        execl(program, program, "--pipeline", "h", "--control", rig->address, "--ports",
              "up0=vdev:net_ring0", "--hugepages", "off", "--log-level", "error",
              (char *)NULL);
    }
    _exit(127);
}

static void kill_switch(struct process_rig *rig)
{
    int status;

    ck_assert_int_eq(kill(rig->pid, SIGKILL), 0);
    ck_assert_int_eq(waitpid(rig->pid, &status, 0), rig->pid);
    ck_assert(WIFSIGNALED(status)); /* not one that had crashed before */
}

static struct driver *rig_make(struct driver_rig *base,
                               const struct driver_events *events, void *ctx)
{
    struct process_rig *rig = rig_of(base);
    struct driver_p4runtime_options o = {
        .sw = { .address = rig->address,
                .device_id = { 1, 2 },
                .device_count = is_bmv2 ? 1 : 2,
                .p4info = p4info,
                .device_config = image,
                .keepalive_ms = 600000,
                .cannot_reconcile = is_bmv2,
                .redial_ms = 100 },
    };
    struct driver *d = NULL;
    struct err err = { 0 };

    ck_assert_msg(driver_p4runtime_new(rig->loop, &o, events, ctx, &d, &err) == RC_OK,
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
    struct process_rig *rig = rig_of(base);
    double end = now_s() + DEADLINE_S;

    while (!is_done(arg)) {
        /* A switch that ends by itself will not answer any more. */
        if (now_s() > end || waitpid(rig->pid, NULL, WNOHANG) == rig->pid) {
            return false;
        }
        event_base_loopexit(rig->events, &slice);
        event_base_loop(rig->events, EVLOOP_ONCE);
    }
    return true;
}

static void rig_restart(struct driver_rig *base)
{
    kill_switch(rig_of(base));
    start(rig_of(base));
}

static bool is_never(void *arg)
{
    double *end = arg;

    return now_s() > *end;
}

static void rig_free(struct driver_rig *base)
{
    struct process_rig *rig = rig_of(base);
    char path[64];
    double end = now_s() + 0.05;

    rig_pump(base, is_never, &end); /* closed drivers go with the loop's turns */
    kill_switch(rig);
    rpc_loop_free(rig->loop);
    event_base_free(rig->events);
    snprintf(path, sizeof(path), "%s/p4rt.sock", rig->dir);
    unlink(path);
    rmdir(rig->dir);
    free(rig);
}

static struct driver_rig *rig_new(void)
{
    struct process_rig *rig = calloc(1, sizeof(*rig));
    struct err err = { 0 };

    rig->base = (struct driver_rig){ .make = rig_make,
                                     .pump = rig_pump,
                                     .restart_device = rig_restart,
                                     .free = rig_free };
    strcpy(rig->dir, "/tmp/xgw-p4proc-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(rig->dir));
    snprintf(rig->address, sizeof(rig->address), "unix:%s/p4rt.sock", rig->dir);
    evthread_use_pthreads();
    rig->events = event_base_new();
    ck_assert_int_eq(rpc_loop_new(rig->events, &rig->loop, &err), RC_OK);
    start(rig);
    return &rig->base;
}

/* ---- much ---- */

struct seen {
    bool is_up;
    unsigned dones, want_dones, ends;
    uint32_t exceptions;
    enum rc rc;
    struct table_set *rows;
};

static void on_up(void *ctx, const struct device_state *state)
{
    (void)state;
    ((struct seen *)ctx)->is_up = true;
}

static void on_down(void *ctx, const struct err *cause)
{
    (void)ctx;
    ck_abort_msg("down: %s", cause->msg);
}

static void on_done(void *ctx, const struct driver_done *done)
{
    struct seen *s = ctx;

    ck_assert_msg(done->rc == RC_OK, "%s", done->err.msg);
    s->exceptions += done->exception_count;
    s->dones++;
}

static void on_rows(void *ctx, uint64_t read_id, const uint8_t *batch, size_t len)
{
    (void)read_id;
    struct seen *s = ctx;

    ck_assert_int_eq(table_set_apply(s->rows, batch, len, NULL, NULL, NULL), RC_OK);
}

static void on_read_end(void *ctx, uint64_t read_id, enum rc rc, const struct err *err)
{
    (void)read_id;
    struct seen *s = ctx;

    ck_assert_msg(rc == RC_OK, "%s", err->msg);
    s->ends++;
}

static void on_totals(void *ctx, const struct device_totals *totals)
{
    (void)ctx;
    (void)totals;
}

static bool is_up(void *arg)
{
    return ((struct seen *)arg)->is_up;
}

static bool is_done(void *arg)
{
    const struct seen *s = arg;

    return s->dones == s->want_dones;
}

static bool is_read(void *arg)
{
    return ((struct seen *)arg)->ends == 1;
}

static struct blob *batch_of(uint32_t first, uint32_t count)
{
    struct batch_writer w;
    struct blob *b;

    batch_writer_init(&w);
    for (uint32_t i = first; i < first + count; i++) {
        struct entry e = { .table = TABLE_VM_NC, .vni = 100 + i % 50 };

        e.vm_nc.vm = ip_v4(0x0a000000 + i);
        e.vm_nc.nc = ip_v4(0x64400000 + i % 1000);
        batch_add_entry(&w, ENTRY_PUT, &e);
    }
    b = batch_writer_finish(&w);
    batch_writer_fini(&w);
    return b;
}

START_TEST(many_entries_go_there_and_come_back)
{
    static const struct driver_events events = { .up = on_up,
                                                 .down = on_down,
                                                 .done = on_done,
                                                 .rows = on_rows,
                                                 .read_end = on_read_end,
                                                 .totals = on_totals };
    uint32_t count = getenv("ENTRIES") ? (uint32_t)atol(getenv("ENTRIES")) : 200000;
    struct driver_rig *rig = rig_new();
    struct seen s = { .rows = table_set_new() };
    struct driver *d = rig->make(rig, &events, &s);
    double at;

    d->cls->open(d);
    ck_assert(rig->pump(rig, is_up, &s));
    at = now_s();
    for (uint32_t i = 0; i < count; i += 5000) {
        struct driver_write w = { .id = i + 1,
                                  .term = 1,
                                  .revision = i + 1,
                                  .ops = batch_of(i, count - i < 5000 ? count - i
                                                                      : 5000) };

        d->cls->write(d, &w);
        blob_unref(w.ops);
        s.want_dones++;
    }
    ck_assert(rig->pump(rig, is_done, &s));
    printf("p4runtime_install_entries_per_s %.0f entries/s\n", count / (now_s() - at));
    ck_assert_uint_eq(s.exceptions, 0);
    at = now_s();
    d->cls->read(d, 1, 0);
    ck_assert(rig->pump(rig, is_read, &s));
    printf("p4runtime_readback_entries_per_s %.0f entries/s\n", count / (now_s() - at));
    ck_assert_uint_eq(table_set_count(s.rows, TABLE_VM_NC), count);
    d->cls->close(d);
    rig->free(rig);
    table_set_free(s.rows);
}
END_TEST

static int write_file(const char *path, const struct buf *b)
{
    FILE *f = fopen(path, "wb");
    bool is_written = f && fwrite(b->data, 1, b->len, f) == b->len;

    return f && fclose(f) == 0 && is_written ? 0 : 1;
}

static struct blob *read_file(const char *path)
{
    FILE *f = fopen(path, "rb");
    struct blob *b = NULL;
    long size;

    if (f && fseek(f, 0, SEEK_END) == 0 && (size = ftell(f)) > 0) {
        rewind(f);
        b = blob_new((size_t)size);
        if (fread(b->data, 1, (size_t)size, f) != (size_t)size) {
            b = NULL;
        }
    }
    if (!b) {
        fprintf(stderr, "%s: cannot be read\n", path);
        exit(2);
    }
    fclose(f);
    return b;
}

int main(int argc, char **argv)
{
    TCase *tc = tcase_create("driver_p4_process");
    struct buf own = BUF_INIT;

    if (argc < 3 || (strcmp(argv[1], "bmv2") == 0 && argc < 5)) {
        fprintf(stderr, "test_driver_p4_process soft-h XGW_GATEWAY\n"
                        "test_driver_p4_process bmv2 SIMPLE_SWITCH_GRPC P4INFO JSON\n");
        return 2;
    }
    p4info_make(&own, NULL, 0);
    if (strcmp(argv[1], "p4info") == 0) {
        return write_file(argv[2], &own);
    }
    program = argv[2];
    is_bmv2 = strcmp(argv[1], "bmv2") == 0;
    if (is_bmv2) {
        p4info = read_file(argv[3]);
        image = read_file(argv[4]);
    } else {
        p4info = blob_copy(own.data, own.len);
    }
    buf_fini(&own);
    signal(SIGPIPE, SIG_IGN);
    tcase_set_timeout(tc, 240);
    driver_suite(tc, rig_new);
    tcase_add_test(tc, many_entries_go_there_and_come_back);
    return unit_run("driver_p4_process", tc);
}
