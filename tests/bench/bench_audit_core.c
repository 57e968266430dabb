/*
 * bench_audit_core - what one round of audits of 64 nodes costs the controller's core.
 *
 *   controller_core_seconds_64_nodes   all nodes, each read back; four of them differ
 * in one row, which is found, named and repaired audited_nodes, repaired_nodes      how
 * many; as a check
 *
 * The real core with a memory store, and devices that answer what they are asked from
 * tables of their own; only the core's steps are timed, by CPU time of the thread.
 */
#include "tests/unit/controller/core/fake_device.h"

#include <time.h>

#define CLUSTERS 8
#define PER_SIDE 8
#define NODES    (CLUSTERS * PER_SIDE)
#define VNIS     50  /* of each cluster … */
#define VMS      400 /* … each with so many VM-NC entries */
#define DIFFER   4
#define ROUND_MS 600000 /* a node of a side at a time */

struct clocked {
    double start_s;
    double sum_s;
};

static double cpu_s(void)
{
    struct timespec now;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void before(void *ctx)
{
    struct clocked *c = ctx;

    c->start_s = cpu_s();
}

static void after(void *ctx)
{
    struct clocked *c = ctx;

    c->sum_s += cpu_s() - c->start_s;
}

static uint32_t vni_of(unsigned cluster, unsigned tenant)
{
    return 1 + cluster * VNIS + tenant;
}

static void put_tenant(struct rig *r, unsigned cluster, unsigned tenant)
{
    uint32_t vni = vni_of(cluster, tenant);
    size_t size = 128 * (VMS + 2);
    char *lines = malloc(size);
    size_t len = 0;

    ck_assert_ptr_nonnull(lines);
    len += (size_t)snprintf(lines, size,
                            "{\"table\":\"tenant\",\"vni\":%u,\"cluster\":\"c%u\"}\n"
                            "{\"table\":\"vxlan_route\",\"vni\":%u,\"prefix\":"
                            "\"10.0.0.0/8\",\"scope\":\"local\"}\n",
                            vni, cluster, vni);
    for (unsigned i = 0; i < VMS; i++) {
        len += (size_t)snprintf(lines + len, size - len,
                                "{\"table\":\"vm_nc\",\"vni\":%u,\"vm\":\"10.0.%u.%u\","
                                "\"nc\":\"172.16.1.1\"}\n",
                                vni, i / 250, 1 + i % 250);
    }
    rig_must(r, lines);
    free(lines);
}

static void make_region(struct rig *r)
{
    char name[32];
    char address[32];

    for (unsigned c = 0; c < CLUSTERS; c++) {
        snprintf(name, sizeof(name), "c%u", c);
        snprintf(address, sizeof(address), "172.16.255.%u", 1 + c);
        rig_cluster(r, name, address);
        for (unsigned t = 0; t < VNIS; t++) {
            put_tenant(r, c, t);
        }
    }
}

static void start_devices(struct rig *r, struct device *at)
{
    for (unsigned i = 0; i < NODES; i++) {
        char name[32];
        char cluster[32];
        char address[32];

        snprintf(name, sizeof(name), "g%u", i);
        snprintf(cluster, sizeof(cluster), "c%u", i % CLUSTERS);
        snprintf(address, sizeof(address), "172.16.0.%u", 1 + i);
        rig_node(r, name, cluster, address);
        device_init(&at[i], r, name);
        device_dial(&at[i]);
        device_hello(&at[i]);
        devices_settle(at, i + 1);
    }
}

static void count_audits(const struct rig *r, unsigned *ret_done,
                         unsigned *ret_repaired)
{
    *ret_done = *ret_repaired = 0;
    for (uint64_t n = core_audit_next(r->core, 1); n;
         n = core_audit_next(r->core, n + 1)) {
        struct audit_record record;

        ck_assert(!core_audit(r->core, n, &record));
        *ret_done += record.result == AUDIT_CLEAN || record.result == AUDIT_REPAIRED;
        *ret_repaired += record.result == AUDIT_REPAIRED;
        audit_record_fini(&record);
    }
}

/* What is built for tests runs as one. */
START_TEST(one_round)
{
    static struct device at[NODES];
    struct clocked clocked = { 0 };
    const struct rig_watch watch = { .before = before,
                                     .after = after,
                                     .ctx = &clocked };
    struct command cmd = { .kind = COMMAND_AUDIT, .who = "bench" };
    struct rig *r = rig_new();
    unsigned done = 0;
    unsigned repaired;

    make_region(r);
    start_devices(r, at);
    for (unsigned i = 0; i < DIFFER; i++) {
        ck_assert(!table_set_put(at[i * 9].tables, vni_of(i * 9 % CLUSTERS, i),
                                 TABLE_VM_NC, NULL));
    }
    r->watch = watch;
    cmd.audit.repairs = true;
    ck_assert_uint_eq(rig_command(r, &cmd)->audit_count, NODES);
    for (unsigned ms = 0; ms < ROUND_MS && done < NODES; ms += 100) {
        devices_settle(at, NODES);
        rig_wait(r, 100);
        count_audits(r, &done, &repaired);
    }
    printf("controller_core_seconds_64_nodes %.4f s\n", clocked.sum_s);
    printf("audited_nodes %u nodes\n", done);
    printf("repaired_nodes %u nodes\n", repaired);
    ck_assert_uint_eq(done, NODES);
    ck_assert_uint_eq(repaired, DIFFER);
    r->watch = (struct rig_watch){ 0 };
    for (unsigned i = 0; i < NODES; i++) {
        device_fini(&at[i]);
    }
    rig_free(r);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("audit");
    Suite *suite = suite_create("core");
    SRunner *runner = srunner_create(suite);
    int failed;

    tcase_add_test(tc, one_round);
    tcase_set_timeout(tc, 600);
    suite_add_tcase(suite, tc);
    srunner_set_fork_status(runner, CK_NOFORK);
    srunner_run_all(runner, CK_SILENT);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
