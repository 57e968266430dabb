/* hcontrol_internal - shared by the files of hcontrol: hcontrol.c (life, ports,
 * frames), hcontrol_calls.c (writes, reads, pipeline), hcontrol_stream.c (arbitration,
 * packets), hcontrol_report.c (what a chip does not tell),
 * hcontrol_tamper.c (for tests). */
#pragma once

#include "agent/gateway/frames.h"
#include "agent/gateway/hcontrol.h"
#include "agent/gateway/neigh.h"
#include "agent/gateway/top.h"
#include "proto/rpc/program.h"
#include "proto/rpc/rpc_pb.h"

#include <event2/event.h>

#define HCONTROL_STREAMS_MAX 32

/* An open StreamChannel. */
struct hstream {
    struct arbiter_stream arbiter; /* first: the arbiter's streams are these */
    struct hcontrol *control;
    struct rpc_call *call;
    int half; /* -1: has not said which device it means */
};

struct hcontrol {
    struct hcontrol_config config;
    struct hserver server;
    struct rpc_server *rpc;
    struct rpc_arena arena;
    struct frames frames;
    struct neigh neigh;
    struct top top;
    unsigned stream_count;
};

enum rc hcontrol_calls_register(struct hcontrol *c, struct err *err);
enum rc hcontrol_stream_register(struct hcontrol *c, struct err *err);
enum rc hcontrol_report_register(struct hcontrol *c, struct err *err);
enum rc hcontrol_tamper_register(struct hcontrol *c, struct err *err); /* for tests */

/* After a write: neighbours follow vtep and source, and what nobody holds is freed. */
void hcontrol_follow(struct hcontrol *c);

/* What came of a probe goes to the primary of the half that sent it. */
void hcontrol_probed(void *arg, const struct probe_frame *f);

/* A frame for us goes to the primary of its port's half. */
void hcontrol_packet_in(struct hcontrol *c, unsigned port, const uint8_t *frame,
                        size_t len);
