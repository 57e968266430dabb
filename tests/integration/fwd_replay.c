/*
 * fwd_replay - the packet functions alone, for comparison with the reference forwarder.
 *
 *   fwd_replay --device device.json --entries entries.ndjson --pcap in.pcap >out.jsonl
 *
 * What comes out is replay.h's.  Rate limits are off.  `--burst N` packets a call
 * (default 32).
 */
#include "tests/integration/fwd_device.h"
#include "tests/integration/fwd_tables.h"
#include "tests/integration/replay.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct gateway {
    struct fwd_view view;
    struct fwd_worker worker;
};

static void burst_of(void *arg, struct fwd_packet packets[], uint32_t n,
                     struct fwd_answers *answers)
{
    struct gateway *g = arg;

    fwd_burst(&g->view, &g->worker, 0, packets, n, answers);
}

static unsigned port_of(void *arg, unsigned uplink)
{
    const struct gateway *g = arg;

    return g->view.config->uplink[uplink].port;
}

static enum rc replay(const char *device, const char *entries, const char *pcap,
                      uint32_t burst, struct err *err)
{
    struct gateway *g = aligned_alloc(_Alignof(struct gateway), sizeof(*g));
    struct replay r = { burst_of, port_of, g, burst, 0 };
    struct fwd_config *config = NULL;
    struct fwd_tables *tables = NULL;
    enum rc rc = RC_NO_MEMORY;

    if (g != NULL && (rc = fwd_device_load(device, &config, err)) == RC_OK &&
        (rc = fwd_tables_load(entries, &tables, err)) == RC_OK) {
        memset(g, 0, sizeof(*g));
        fwd_worker_init(&g->worker, 0, 0);
        g->view = (struct fwd_view){ config, fwd_tables_fib(tables), true };
        rc = replay_file(&r, pcap, err);
    }
    fwd_tables_free(tables);
    fwd_config_free(config);
    free(g);
    return rc;
}

int main(int argc, char **argv)
{
    static const struct option options[] = { { "device", required_argument, NULL, 'd' },
                                             { "entries", required_argument, NULL,
                                               'e' },
                                             { "pcap", required_argument, NULL, 'p' },
                                             { "burst", required_argument, NULL, 'b' },
                                             { NULL, 0, NULL, 0 } };
    const char *file[3] = { NULL, NULL, NULL };
    unsigned long burst = 32;
    struct err err = { 0 };
    int option;

    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        switch (option) {
        case 'd':
            file[0] = optarg;
            break;
        case 'e':
            file[1] = optarg;
            break;
        case 'p':
            file[2] = optarg;
            break;
        case 'b':
            burst = strtoul(optarg, NULL, 10);
            break;
        default:
            return 2;
        }
    }
    if (file[0] == NULL || file[1] == NULL || file[2] == NULL || burst < 1 ||
        burst > REPLAY_BURST_MAX) {
        fprintf(stderr,
                "fwd_replay: --device, --entries and --pcap are needed, "
                "--burst is 1 to %d\n",
                REPLAY_BURST_MAX);
        return 2;
    }
    if (replay(file[0], file[1], file[2], (uint32_t)burst, &err) != RC_OK) {
        fprintf(stderr, "fwd_replay: %s\n", err.msg);
        return 1;
    }
    return 0;
}
