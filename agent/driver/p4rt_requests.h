/*
 * p4rt_requests - physical writes packed into WriteRequests, in order, with barriers
 * and marks between them; not sent yet.
 *
 * Whoever works writes out packs them (a mapping's thread); the writer (p4rt_writer.h)
 * takes them over and sends.  Values only: one owner, any thread.
 */
#pragma once

#include <sys/queue.h>

#include "agent/driver/p4rt_switch.h"
#include "agent/xgwh/phys.h"
#include "proto/base/buf.h"

/* One WriteRequest, or one mark. */
struct p4rt_item {
    TAILQ_ENTRY(p4rt_item) next;
    void *owner;      /* of who sends it */
    uint64_t segment; /* barriers before it */
    uint64_t mark;    /* not 0: a mark */
    uint8_t device;
    bool is_sent;
    uint32_t updates;
    struct buf body; /* WriteRequest.updates */
};
void p4rt_item_free(struct p4rt_item *it);

TAILQ_HEAD(p4rt_items, p4rt_item);

struct p4rt_requests_options {
    uint32_t request_bytes;   /* a request is closed at about this size */
    uint32_t request_updates; /* … or so many */
    uint8_t devices;          /* with one, everything goes to it */
    uint32_t meter_id[PHYS_METERS];
};

struct p4rt_requests {
    struct p4rt_items items;
    struct p4rt_item
        *open[P4RT_DEVICES_MAX]; /* the last of each device, while it may grow */
    uint64_t segment;
    size_t bytes;
    struct p4rt_requests_options options;
    bool failed; /* memory ran out: what is here is not all */
};

void p4rt_requests_init(struct p4rt_requests *r,
                        const struct p4rt_requests_options *options);
/* Frees the items; it may be used again. */
void p4rt_requests_clear(struct p4rt_requests *r);

void p4rt_requests_entry(struct p4rt_requests *r, const struct phys_write *write);
void p4rt_requests_meter(struct p4rt_requests *r, const struct phys_meter_write *write);
/* What is added from here on comes after all that is there. */
void p4rt_requests_barrier(struct p4rt_requests *r);
/* Behind all that is there; not 0. */
void p4rt_requests_mark(struct p4rt_requests *r, uint64_t mark);

/* Moves all of `from` behind what `to` has, a barrier between; `from` is empty then. */
void p4rt_requests_append(struct p4rt_requests *to, struct p4rt_requests *from);
