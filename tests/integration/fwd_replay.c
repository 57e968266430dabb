/*
 * fwd_replay - the packet functions alone, for comparison with the reference forwarder.
 *
 *   fwd_replay --device device.json --entries entries.ndjson --pcap in.pcap >out.jsonl
 *
 * What comes out is replay.h's.  Rate limits are off.  `--burst N` packets a call
 * (default 32); `--pipeline lb` for those of a load balancer.
 */
#include "agent/fwd/fwd_lb.h"
#include "tests/integration/fwd_device.h"
#include "tests/integration/fwd_tables.h"
#include "tests/integration/replay.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct files {
    const char *device;
    const char *entries;
    const char *pcap;
};

struct gateway {
    struct fwd_config *config;
    struct fwd_tables *tables;
    struct steer *steer; /* null: no load balancer */
    struct fwd_worker worker;
};

static void burst_of(void *arg, struct fwd_packet packets[], uint32_t n,
                     struct fwd_answers *answers)
{
    struct gateway *g = arg;
    struct fib *fib = fwd_tables_fib(g->tables);

    if (g->steer) {
        struct lb_view view = { g->config, fib, g->steer, true };

        answers->count = 0;
        lb_burst(&view, &g->worker, packets, n);
    } else {
        struct fwd_view view = { g->config, fib, true };

        fwd_burst(&view, &g->worker, 0, packets, n, answers);
    }
}

static unsigned port_of(void *arg, unsigned uplink)
{
    const struct gateway *g = arg;

    return g->config->uplink[uplink].port;
}

static enum rc load_members(struct gateway *g, const char *device, struct err *err)
{
    static struct cluster_member members[CLUSTER_MEMBERS_MAX];
    struct steer_cluster *none = NULL;
    uint32_t count;
    enum rc rc = fwd_device_members(device, members, &count, err);

    g->steer = rc == RC_OK ? steer_new() : NULL;
    if (rc == RC_OK && g->steer == NULL) {
        rc = err_set(err, RC_NO_MEMORY, "no memory for members");
    }
    return rc ? rc
              : steer_configure(g->steer, fwd_tables_fib(g->tables), members, count,
                                &none, err);
}

static enum rc load(struct gateway *g, const struct files *files, bool is_lb,
                    struct err *err)
{
    enum rc rc = fwd_device_load(files->device, &g->config, err);

    rc = rc ? rc : fwd_tables_load(files->entries, &g->tables, err);
    return rc || !is_lb ? rc : load_members(g, files->device, err);
}

static enum rc replay(const struct files *files, bool is_lb, uint32_t burst,
                      struct err *err)
{
    struct gateway *g = aligned_alloc(_Alignof(struct gateway), sizeof(*g));
    struct replay r = { burst_of, port_of, g, burst, 0 };
    enum rc rc;

    if (g == NULL) {
        return err_set(err, RC_NO_MEMORY, "no memory");
    }
    memset(g, 0, sizeof(*g));
    fwd_worker_init(&g->worker, 0, 0);
    rc = load(g, files, is_lb, err);
    rc = rc ? rc : replay_file(&r, files->pcap, err);
    steer_free(g->steer);
    fwd_tables_free(g->tables);
    fwd_config_free(g->config);
    free(g);
    return rc;
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        { "device", required_argument, NULL, 'd' },
        { "entries", required_argument, NULL, 'e' },
        { "pcap", required_argument, NULL, 'p' },
        { "burst", required_argument, NULL, 'b' },
        { "pipeline", required_argument, NULL, 'l' },
        { NULL, 0, NULL, 0 }
    };
    struct files files = { NULL, NULL, NULL };
    const char *pipeline = "x86";
    unsigned long burst = 32;
    struct err err = { 0 };
    int option;

    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        switch (option) {
        case 'd':
            files.device = optarg;
            break;
        case 'e':
            files.entries = optarg;
            break;
        case 'p':
            files.pcap = optarg;
            break;
        case 'b':
            burst = strtoul(optarg, NULL, 10);
            break;
        case 'l':
            pipeline = optarg;
            break;
        default:
            return 2;
        }
    }
    if (files.device == NULL || files.entries == NULL || files.pcap == NULL ||
        (strcmp(pipeline, "x86") != 0 && strcmp(pipeline, "lb") != 0) || burst < 1 ||
        burst > REPLAY_BURST_MAX) {
        fprintf(stderr,
                "fwd_replay: --device, --entries and --pcap are needed, "
                "--burst is 1 to %d, --pipeline x86 or lb\n",
                REPLAY_BURST_MAX);
        return 2;
    }
    if (replay(&files, strcmp(pipeline, "lb") == 0, (uint32_t)burst, &err) != RC_OK) {
        fprintf(stderr, "fwd_replay: %s\n", err.msg);
        return 1;
    }
    return 0;
}
