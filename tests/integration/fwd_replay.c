/*
 * fwd_replay - the packet functions alone, for comparison with the reference forwarder.
 *
 *   fwd_replay --device device.json --entries entries.ndjson --pcap in.pcap >out.jsonl
 *
 * One line a packet, in the form of tests/reference/README.md ("Files").  Every packet
 * lies in a buffer of exactly its size and the headroom it needs, so a sanitizer sees a
 * read past the end.  Rate limits are off.  `--burst N` packets a call (default 32).
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/fwd/fwd.h"
#include "tests/integration/fwd_device.h"
#include "tests/integration/fwd_tables.h"
#include "tests/integration/pcap_read.h"

#define BURST_MAX 256

struct replay {
    struct fwd_view view;
    struct fwd_worker worker;
    struct fwd_packet packets[BURST_MAX];
    struct fwd_answer answers[BURST_MAX];
    uint8_t *buffers[BURST_MAX]; /* of the packets, headroom first */
    uint64_t printed;
};

static void print_frame(const uint8_t *data, uint32_t length)
{
    for (uint32_t i = 0; i < length; i++) {
        printf("%02x", data[i]);
    }
}

static void print_packet(const struct replay *r, const struct fwd_packet *p,
                         const struct fwd_answer *answer)
{
    const struct fwd_uplink *uplink = r->view.config->uplink;

    printf("{\"i\":%lu,\"verdict\":", (unsigned long)r->printed);
    if (p->verdict == FWD_LOCAL) {
        printf("\"local\"}\n");
        return;
    }
    if (p->verdict == FWD_FORWARD) {
        printf("\"forward\",\"port\":%u,\"frame\":\"", uplink[p->uplink].port);
        print_frame(p->data, p->length);
        printf("\"}\n");
        return;
    }
    printf("\"drop\",\"reason\":\"%s\"", drop_reason_name(p->reason));
    if (answer != NULL) {
        printf(",\"icmp\":{\"port\":%u,\"frame\":\"", uplink[answer->uplink].port);
        print_frame(answer->data, answer->length);
        printf("\"}");
    }
    printf("}\n");
}

static void run_burst(struct replay *r, uint32_t n)
{
    struct fwd_answers answers = { .at = r->answers, .room = BURST_MAX };
    uint32_t next = 0;

    fwd_burst(&r->view, &r->worker, 0, r->packets, n, &answers);
    for (uint32_t i = 0; i < n; i++) {
        const struct fwd_answer *answer = NULL;

        if (next < answers.count && answers.at[next].about == i) {
            answer = &answers.at[next++];
        }
        print_packet(r, &r->packets[i], answer);
        free(r->buffers[i]);
        r->printed++;
    }
}

/* Puts a copy of the packet at place `i`. */
static enum rc add_packet(struct replay *r, uint32_t i, const uint8_t *bytes,
                          uint32_t size, struct err *err)
{
    r->buffers[i] = malloc(FWD_HEADROOM + (size_t)size);
    if (r->buffers[i] == NULL) {
        return err_set(err, RC_NO_MEMORY, "no memory for a packet");
    }
    memcpy(r->buffers[i] + FWD_HEADROOM, bytes, size);
    r->packets[i] = (struct fwd_packet){
        .data = r->buffers[i] + FWD_HEADROOM,
        .length = size,
        .headroom = FWD_HEADROOM,
    };
    return RC_OK;
}

static enum rc run_file(struct replay *r, const char *path, uint32_t burst,
                        struct err *err)
{
    struct pcap_reader pcap;
    const uint8_t *bytes;
    uint32_t size;
    uint32_t n = 0;
    enum rc rc = pcap_open(&pcap, path, err);

    if (rc != RC_OK) {
        return rc;
    }
    while ((rc = pcap_next(&pcap, &bytes, &size, err)) == RC_OK) {
        rc = add_packet(r, n, bytes, size, err);
        if (rc != RC_OK) {
            break;
        }
        if (++n == burst) {
            run_burst(r, n);
            n = 0;
        }
    }
    run_burst(r, n);
    pcap_close(&pcap);
    return rc == RC_NOT_FOUND ? RC_OK : err_wrap(err, rc, "%s", path);
}

static struct replay *replay_new(void)
{
    struct replay *r = aligned_alloc(_Alignof(struct replay), sizeof(*r));

    if (r == NULL) {
        return NULL;
    }
    memset(r, 0, sizeof(*r));
    fwd_worker_init(&r->worker, 0, 0);
    for (unsigned i = 0; i < BURST_MAX; i++) {
        r->answers[i].data = malloc(FWD_ANSWER_SIZE);
        if (r->answers[i].data == NULL) {
            abort();
        }
    }
    return r;
}

static void replay_free(struct replay *r)
{
    for (unsigned i = 0; i < BURST_MAX; i++) {
        free(r->answers[i].data);
    }
    free(r);
}

static enum rc replay(const char *device, const char *entries, const char *pcap,
                      uint32_t burst, struct err *err)
{
    struct replay *r = replay_new();
    struct fwd_config *config = NULL;
    struct fwd_tables *tables = NULL;
    enum rc rc = RC_NO_MEMORY;

    if (r != NULL && (rc = fwd_device_load(device, &config, err)) == RC_OK &&
        (rc = fwd_tables_load(entries, &tables, err)) == RC_OK) {
        r->view = (struct fwd_view){ config, fwd_tables_fib(tables), true };
        rc = run_file(r, pcap, burst, err);
    }
    fwd_tables_free(tables);
    fwd_config_free(config);
    if (r != NULL) {
        replay_free(r);
    }
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
    unsigned long burst = FWD_BURST;
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
        burst > BURST_MAX) {
        fprintf(stderr,
                "fwd_replay: --device, --entries and --pcap are needed, "
                "--burst is 1 to %d\n",
                BURST_MAX);
        return 2;
    }
    if (replay(file[0], file[1], file[2], (uint32_t)burst, &err) != RC_OK) {
        fprintf(stderr, "fwd_replay: %s\n", err.msg);
        return 1;
    }
    return 0;
}
