/* control_internal - shared by the files of control: control.c (life, ARP/ND, taps),
 * control_write.c (the one writer), control_read.c (status, counters, read-back),
 * control_probe.c, control_tamper.c (for tests). */
#pragma once

#include "agent/gateway/control.h"
#include "agent/gateway/frames.h"
#include "agent/gateway/tap.h"
#include "agent/gateway/top.h"
#include "proto/api/gateway.pb-c.h"
#include "proto/rpc/program.h"
#include "proto/rpc/rpc_pb.h"

#include <event2/event.h>

/* What a new configuration replaced, and workers may still read. */
struct retired {
    struct retired *next;
    struct device_old old;
    uint64_t tickets[WORKERS_MAX];
};

struct control {
    struct control_config config;
    struct rpc_server *server;
    struct rpc_call *writer; /* null: nobody writes */
    struct rpc_arena arena;
    struct frames frames;
    struct neigh neigh;
    struct tap *taps[PORTS_MAX];
    struct retired *retired;
    struct top top;
    struct probing *probings;
    uint64_t started_ms;
};

/* protobuf-c's strings are not const; it does not write to those it packs. */
static inline char *control_text(const char *text)
{
    union {
        const char *in;
        char *out;
    } u = { text };

    return u.out;
}

/* Keeps what is in `r` until every worker has passed, then frees both. */
void control_retire(struct control *c, struct retired *r);

/* Frees what every worker has passed. */
void control_reclaim(struct control *c);

/* Registers the methods. */
enum rc control_write_register(struct control *c, struct err *err);
enum rc control_read_register(struct control *c, struct err *err);
enum rc control_probe_register(struct control *c, struct err *err);
/* Forgets probes under way. */
void control_probe_fini(struct control *c);
enum rc control_tamper_register(struct control *c, struct err *err);

void control_fill_status(const struct control *c, Xgw__Gateway__V1__Status *status,
                         uint64_t entries[TABLE_COUNT], uint64_t capacity[TABLE_COUNT]);
