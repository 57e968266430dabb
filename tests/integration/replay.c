#include "tests/integration/replay.h"

#include "tests/integration/pcap_read.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct run {
    const struct replay *r;
    struct fwd_packet packets[REPLAY_BURST_MAX];
    struct fwd_answer answers[REPLAY_BURST_MAX];
    uint8_t *buffers[REPLAY_BURST_MAX]; /* of the packets, headroom first */
    uint64_t printed;
};

static void print_frame(const uint8_t *data, uint32_t length)
{
    for (uint32_t i = 0; i < length; i++) {
        printf("%02x", data[i]);
    }
}

static void print_packet(const struct run *run, const struct fwd_packet *p,
                         const struct fwd_answer *answer)
{
    const struct replay *r = run->r;

    printf("{\"i\":%lu,\"verdict\":", (unsigned long)run->printed);
    if (p->verdict == FWD_LOCAL) {
        printf("\"local\"}\n");
        return;
    }
    if (p->verdict == FWD_FORWARD) {
        printf("\"forward\",\"port\":%u,\"frame\":\"", r->port(r->arg, p->uplink));
        print_frame(p->data, p->length);
        printf("\"}\n");
        return;
    }
    printf("\"drop\",\"reason\":\"%s\"", drop_reason_name(p->reason));
    if (answer != NULL) {
        printf(",\"icmp\":{\"port\":%u,\"frame\":\"", r->port(r->arg, answer->uplink));
        print_frame(answer->data, answer->length);
        printf("\"}");
    }
    printf("}\n");
}

static void run_burst(struct run *run, uint32_t n)
{
    struct fwd_answers answers = { .at = run->answers, .room = REPLAY_BURST_MAX };
    uint32_t next = 0;

    run->r->burst(run->r->arg, run->packets, n, &answers);
    for (uint32_t i = 0; i < n; i++) {
        const struct fwd_answer *answer = NULL;

        if (next < answers.count && answers.at[next].about == i) {
            answer = &answers.at[next++];
        }
        print_packet(run, &run->packets[i], answer);
        free(run->buffers[i]);
        run->printed++;
    }
}

/* Puts a copy of the packet at place `i`. */
static enum rc add_packet(struct run *run, uint32_t i, const uint8_t *bytes,
                          uint32_t size, struct err *err)
{
    run->buffers[i] = malloc(FWD_HEADROOM + (size_t)size);
    if (run->buffers[i] == NULL) {
        return err_set(err, RC_NO_MEMORY, "no memory for a packet");
    }
    memcpy(run->buffers[i] + FWD_HEADROOM, bytes, size);
    run->packets[i] = (struct fwd_packet){
        .data = run->buffers[i] + FWD_HEADROOM,
        .length = size,
        .headroom = FWD_HEADROOM,
        .port = run->r->in_port,
    };
    return RC_OK;
}

static enum rc run_file(struct run *run, const char *path, struct err *err)
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
        rc = add_packet(run, n, bytes, size, err);
        if (rc != RC_OK) {
            break;
        }
        if (++n == run->r->burst_size) {
            run_burst(run, n);
            n = 0;
        }
    }
    run_burst(run, n);
    pcap_close(&pcap);
    return rc == RC_NOT_FOUND ? RC_OK : err_wrap(err, rc, "%s", path);
}

enum rc replay_file(const struct replay *r, const char *pcap, struct err *err)
{
    struct run *run = calloc(1, sizeof(*run));
    enum rc rc = RC_NO_MEMORY;
    bool ok = run != NULL;

    for (unsigned i = 0; ok && i < REPLAY_BURST_MAX; i++) {
        run->answers[i].data = malloc(FWD_ANSWER_SIZE);
        ok = run->answers[i].data != NULL;
    }
    if (ok) {
        run->r = r;
        rc = run_file(run, pcap, err);
    }
    for (unsigned i = 0; run && i < REPLAY_BURST_MAX; i++) {
        free(run->answers[i].data);
    }
    free(run);
    return ok ? rc : err_set(err, RC_NO_MEMORY, "no memory to replay");
}
