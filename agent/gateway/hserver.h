/*
 * hserver - the P4Runtime server of the software switch, without its sockets: requests
 * as bytes in, answers out.
 *
 * Each half of the switch is a device, numbered from 1 (agent/xgwh/phys.h).  Before a
 * pipeline was committed a device has no tables to write or read; which programs it
 * takes is agent/p4rt/p4rt_info.h's: XGW-H and no other.  The control thread owns it.
 */
#pragma once

#include "agent/fwdh/switch.h"
#include "agent/gateway/arbiter.h"
#include "agent/p4rt/p4rt_codec.h"
#include "agent/p4rt/p4rt_info.h"
#include "proto/base/blob.h"

#define HSERVER_DEVICE_FIRST 1 /* the device id of half 0 */

/* A program as it was pushed. */
struct hprogram {
    struct blob *config; /* an encoded ForwardingPipelineConfig; null: none */
    struct p4rt_info info;
};

struct hdevice {
    struct arbiter arbiter;
    struct hprogram running;
    struct hprogram saved; /* by VERIFY_AND_SAVE, for COMMIT */
};

struct hserver {
    struct hswitch *tables; /* borrowed */
    struct hdevice device[HSWITCH_HALVES];
    bool config_changed; /* vtep or source: its reader clears it */
    uint64_t updates;    /* of entries and cells that were done, since the start */
};

void hserver_init(struct hserver *s, struct hswitch *tables);
void hserver_fini(struct hserver *s);

/* How a request ends.  `details` is a google.rpc.Status or empty. */
struct hanswer {
    enum rpc_code code;
    char message[256];
    struct buf details;
};
void hanswer_fini(struct hanswer *a);

/* The half that a device id means, or -1. */
int hserver_half(uint64_t device_id);

/* WriteRequest.  Each update is done or not by itself; what was done is published when
 * this returns. */
void hserver_write(struct hserver *s, const uint8_t *bytes, size_t len,
                   struct hanswer *ret);

/* For tests: the updates of a WriteRequest, done as faults do them (hswitch_tamper());
 * with `keeps`, the next deletes of its entries get lost in that place.  Ends at the
 * first that is refused. */
enum rc hserver_tamper(struct hserver *s, enum htamper_place place, bool keeps,
                       const uint8_t *bytes, size_t len, struct err *err);

/* SetForwardingPipelineConfigRequest. */
void hserver_set_pipeline(struct hserver *s, const uint8_t *bytes, size_t len,
                          struct hanswer *ret);

/* GetForwardingPipelineConfigRequest; appends the response to `to`. */
void hserver_get_pipeline(const struct hserver *s, const uint8_t *bytes, size_t len,
                          struct buf *to, struct hanswer *ret);

/* CapabilitiesResponse. */
void hserver_capabilities(struct buf *to);

/* ---- reading, in turns ---- */

struct hread {
    struct blob *request; /* held */
    struct p4rt_cursor queries;
    struct p4rt_query query;
    bool has_query;
    uint8_t half;
    uint8_t table;      /* of a query for all tables */
    struct hcursor at;  /* of a table */
    uint32_t cell_kind; /* meter or counter that is being told */
    uint32_t cell;      /* its next index */
};

/* Looks at a ReadRequest (keeps `request`); not RPC_OK: nothing to finish. */
void hread_start(const struct hserver *s, struct blob *request, struct hread *r,
                 struct hanswer *ret);
/* Appends what some thousand places of a table hold; false at the end, or when a query
 * is refused (`ret->code` says which). */
bool hread_turn(const struct hserver *s, struct hread *r, struct buf *to,
                struct hanswer *ret);
void hread_fini(struct hread *r);
