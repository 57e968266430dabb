/*
 * fwdh_replay - XGW-H's packet path in software, for comparison with the reference
 * forwarder.
 *
 *   fwdh_replay --tables tables.txt --pcap in.pcap [--burst N] [--port N] >out.jsonl
 *
 * The file of tables is fwdh_tables.h's; what comes out is replay.h's.
 */
#include "agent/fwdh/fwdh.h"
#include "tests/integration/fwdh_tables.h"
#include "tests/integration/replay.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>

static void burst_of(void *arg, struct fwd_packet packets[], uint32_t n,
                     struct fwd_answers *answers)
{
    struct hswitch *s = arg;

    (void)answers; /* a chip sends none */
    fwdh_burst(s, &s->workers[0], 1, packets, n);
}

static unsigned port_of(void *arg, unsigned uplink)
{
    (void)arg;
    return uplink;
}

int main(int argc, char **argv)
{
    static const struct option options[] = { { "tables", required_argument, NULL, 't' },
                                             { "pcap", required_argument, NULL, 'p' },
                                             { "burst", required_argument, NULL, 'b' },
                                             { "port", required_argument, NULL, 'i' },
                                             { NULL, 0, NULL, 0 } };
    struct replay r = { burst_of, port_of, NULL, 32, 0 };
    const char *tables = NULL;
    const char *pcap = NULL;
    struct hswitch *s = NULL;
    struct err err = { 0 };
    enum rc rc;
    int option;

    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        switch (option) {
        case 't':
            tables = optarg;
            break;
        case 'p':
            pcap = optarg;
            break;
        case 'b':
            r.burst_size = (uint32_t)strtoul(optarg, NULL, 10);
            break;
        case 'i':
            r.in_port = (uint16_t)strtoul(optarg, NULL, 10);
            break;
        default:
            return 2;
        }
    }
    if (!tables || !pcap || r.burst_size < 1 || r.burst_size > REPLAY_BURST_MAX) {
        fprintf(stderr, "fwdh_replay: --tables and --pcap are needed\n");
        return 2;
    }
    rc = fwdh_tables_load(tables, &s, &err);
    if (rc == RC_OK) {
        r.arg = s;
        rc = replay_file(&r, pcap, &err);
    }
    hswitch_free(s);
    if (rc != RC_OK) {
        fprintf(stderr, "fwdh_replay: %s\n", err.msg);
        return 1;
    }
    return 0;
}
