/* xgw-gateway: wiring only. */
#include "agent/gateway/control.h"
#include "agent/gateway/dpdk.h"
#include "agent/gateway/eal.h"
#include "agent/gateway/hcontrol.h"
#include "agent/gateway/options.h"
#include "proto/base/log.h"
#include "proto/rpc/program.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <unistd.h>

#define LOCAL_RING 1024 /* frames on their way to the control thread */

struct gateway {
    struct options options;
    struct device device;   /* --pipeline x86, lb */
    struct hswitch *tables; /* --pipeline h */
    struct ports ports;
    struct worker *workers;
    struct fib_reader *readers;
    struct flow_sample *samples; /* one a worker */
    struct rte_ring *local;
    struct probe_port probes;
    int wake_fd;
    struct program program;
    struct control *control;
    struct hcontrol *hcontrol;
};

static bool is_h(const struct gateway *g)
{
    return g->options.pipeline == PIPELINE_H;
}

static enum rc start_loop(struct gateway *g, struct err *err)
{
    g->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (g->wake_fd < 0) {
        return err_set(err, RC_NO_MEMORY, "no eventfd");
    }
    return program_init(&g->program, NULL, NULL, err);
}

/* Never 0. */
static enum rc draw(uint64_t *ret, struct err *err)
{
    *ret = 0;
    while (*ret == 0) {
        if (getrandom(ret, sizeof(*ret), 0) != sizeof(*ret)) {
            return err_set(err, RC_UNREACHABLE, "no random numbers");
        }
    }
    return RC_OK;
}

static enum rc start_device(struct gateway *g, struct err *err)
{
    struct fib_limits limits = { .max_routes = g->options.max_routes,
                                 .max_vm_nc = g->options.max_vm_nc,
                                 .max_vnis = g->options.max_vnis };
    uint64_t boot_id;
    enum rc rc = draw(&boot_id, err);

    return rc == RC_OK ? device_init(&g->device,
                                     g->options.pipeline == PIPELINE_LB ? DEVICE_LB
                                                                        : DEVICE_X86,
                                     &limits, boot_id, err)
                       : rc;
}

static enum rc start_switch(struct gateway *g, struct err *err)
{
    struct hswitch_options options = { .workers = 0 };
    enum rc rc = draw(&options.seed, err);

    rc = rc == RC_OK ? options_switch(&g->options, &g->ports, &options, err) : rc;
    options.port_counts = hcontrol_port_counts;
    options.port_counts_arg = &g->ports;
    return rc == RC_OK ? hswitch_new(&options, &g->tables, err) : rc;
}

static enum rc start_samples(struct gateway *g, struct err *err)
{
    uint64_t seed;
    enum rc rc = draw(&seed, err);

    if (rc != RC_OK) {
        return rc;
    }
    g->samples = calloc(g->options.workers, sizeof(*g->samples));
    rc = g->samples ? RC_OK : RC_NO_MEMORY;
    for (unsigned i = 0; rc == RC_OK && i < g->options.workers; i++) {
        rc = flow_sample_init(&g->samples[i], seed + i);
    }
    return rc ? err_set(err, rc, "no memory for %u workers' samples",
                        g->options.workers)
              : RC_OK;
}

static void stop_samples(struct gateway *g)
{
    for (unsigned i = 0; g->samples && i < g->options.workers; i++) {
        flow_sample_fini(&g->samples[i]);
    }
    free(g->samples);
}

static const struct worker_pipeline *const pipeline_of[] = {
    [PIPELINE_X86] = &worker_pipeline_x86,
    [PIPELINE_H] = &worker_pipeline_h,
    [PIPELINE_LB] = &worker_pipeline_lb,
};

static enum rc start_workers(struct gateway *g, struct err *err)
{
    unsigned lcore = UINT32_MAX;

    g->workers = aligned_alloc(64, g->options.workers * sizeof(*g->workers));
    g->readers = aligned_alloc(64, g->options.workers * sizeof(*g->readers));
    g->local = rte_ring_create("local", LOCAL_RING, SOCKET_ID_ANY, RING_F_SC_DEQ);
    if (!g->workers || !g->readers || !g->local) {
        return err_set(err, RC_NO_MEMORY, "no memory for %u workers",
                       g->options.workers);
    }
    if (probe_port_init(&g->probes, &g->ports, err) != RC_OK) {
        return err->code;
    }
    for (unsigned i = 0; i < g->options.workers; i++) {
        struct worker_config config = {
            .pipeline = pipeline_of[g->options.pipeline],
            .device = &g->device,
            .tables = g->tables,
            .h_worker = is_h(g) ? &g->tables->workers[i] : NULL,
            .ports = &g->ports,
            .probes = i == 0 ? &g->probes : NULL,
            .to_control = g->local,
            .wake_fd = g->wake_fd,
            .reader = &g->readers[i],
            .sample = g->samples ? &g->samples[i] : NULL,
            .index = i,
            .workers = g->options.workers,
            .busy_poll = g->options.busy_poll,
            .wait_ready = g->options.wait_ready,
            .icmp_rate = g->options.icmp_rate,
        };

        worker_init(&g->workers[i], &config);
    }
    for (unsigned i = 0; i < g->options.workers; i++) {
        lcore = rte_get_next_lcore(lcore, 1, 0);
        if (lcore == RTE_MAX_LCORE ||
            rte_eal_remote_launch(worker_main, &g->workers[i], lcore) != 0) {
            return err_set(err, RC_BUG, "worker %u has no core", i);
        }
    }
    return RC_OK;
}

static enum rc start_control(struct gateway *g, struct err *err)
{
    struct control_config config = {
        .base = g->program.base,
        .loop = g->program.rpc,
        .address = g->options.control,
        .device = &g->device,
        .ports = &g->ports,
        .workers = g->workers,
        .readers = g->readers,
        .worker_count = g->options.workers,
        .from_workers = g->local,
        .wake_fd = g->wake_fd,
        .probes = &g->probes,
        .use_taps = g->options.taps,
        .is_tamperable = g->options.tamper,
    };

    return control_new(&config, &g->control, err);
}

static enum rc start_hcontrol(struct gateway *g, struct err *err)
{
    const struct options *o = &g->options;
    struct rpc_tls tls = { .ca_file = o->tls_ca,
                           .cert_file = o->tls_cert,
                           .key_file = o->tls_key };
    struct hcontrol_config config = {
        .base = g->program.base,
        .loop = g->program.rpc,
        .address = o->control,
        .tls = o->tls_cert[0] != '\0' ? &tls : NULL,
        .tables = g->tables,
        .ports = &g->ports,
        .workers = g->workers,
        .worker_count = o->workers,
        .probes = &g->probes,
        .from_workers = g->local,
        .wake_fd = g->wake_fd,
        .is_tamperable = o->tamper,
    };

    return hcontrol_new(&config, &g->hcontrol, err);
}

static enum rc start(struct gateway *g, struct err *err)
{
    struct port_spec specs[PORTS_MAX];
    unsigned count = 0;
    enum rc rc = options_ports(&g->options, specs, &count, err);

    rc = rc == RC_OK ? eal_start(&g->options, specs, count, err) : rc;
    rc = rc == RC_OK && !is_h(g) ? start_device(g, err) : rc;
    rc = rc == RC_OK ? start_samples(g, err) : rc;
    rc = rc == RC_OK ? start_loop(g, err) : rc;
    rc = rc == RC_OK ? ports_start(&g->ports, specs, count, g->options.workers,
                                   g->options.mbufs, g->options.mbuf_bytes, err)
                     : rc;
    rc = rc == RC_OK && is_h(g) ? start_switch(g, err) : rc;
    rc = rc == RC_OK ? start_workers(g, err) : rc;
    if (rc != RC_OK) {
        return rc;
    }
    return is_h(g) ? start_hcontrol(g, err) : start_control(g, err);
}

static void stop(struct gateway *g)
{
    for (unsigned i = 0; g->workers && i < g->options.workers; i++) {
        atomic_store(&g->workers[i].stop, true);
    }
    rte_eal_mp_wait_lcore();
    for (unsigned i = 0; g->workers && i < g->options.workers; i++) {
        worker_fini(&g->workers[i]);
    }
    rpc_loop_free(g->program.rpc);
    control_free(g->control);
    hcontrol_free(g->hcontrol);
    probe_port_fini(&g->probes);
    ports_stop(&g->ports);
    rte_ring_free(g->local);
    if (!is_h(g)) {
        device_fini(&g->device);
    }
    hswitch_free(g->tables);
    program_fini(&g->program);
    close(g->wake_fd);
    free(g->workers);
    free(g->readers);
    stop_samples(g);
    eal_stop();
}

int main(int argc, char **argv)
{
    struct gateway g = { .wake_fd = -1 };
    struct err err = { 0 };
    int code = config_start(&options_table, argc, argv, &g.options);

    if (code >= 0) {
        return code;
    }
    log_set_level((enum log_level)g.options.log_level);
    if (start(&g, &err) != RC_OK) {
        log_error("gateway does not start", "cause=\"%s\"", err.msg);
        return 1;
    }
    log_info("gateway serves",
             "pipeline=%s control=%s ports=%u workers=%u boot=%016" PRIx64,
             options_pipelines[g.options.pipeline], g.options.control, g.ports.count,
             g.options.workers, g.device.boot_id);
    program_run(&g.program);
    stop(&g);
    return 0;
}
