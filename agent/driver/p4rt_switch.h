/*
 * p4rt_switch - one switch over P4Runtime: the connection, its devices, who is primary,
 * which program runs.
 *
 * A switch has one or two devices (halves, agent/xgwh/phys.h) behind one address.  It
 * dials by itself; each connection ends in `found` (program known on every device) or
 * in `lost`.  Reading needs no more; writing needs p4rt_switch_claim() with an election
 * id, of which the term is the high half, and a program.
 *
 * The loop's thread.  Events come from the loop; only `lost` may come from inside
 * p4rt_switch_redial(), _claim() and _push().
 */
#pragma once

#include "agent/p4rt/p4rt_info.h"
#include "proto/base/blob.h"
#include "proto/rpc/rpc_client.h"

#define P4RT_DEVICES_MAX 2

struct p4rt_switch_options {
    const char *address;       /* "host:port", "unix:/path"; copied */
    const struct rpc_tls *tls; /* null: plain text */
    const char *tls_name;      /* null: the address's */
    uint32_t keepalive_ms;     /* most servers hang up on pings oftener than 5 min */
    uint64_t device_id[P4RT_DEVICES_MAX];
    uint8_t device_count;        /* 1 or 2 */
    struct blob *p4info;         /* of our program; a reference is taken */
    struct blob *device_config;  /* what the target loads; null: none */
    bool replaces_other_program; /* else another one is left alone, and an error */
    /* The target falls over at RECONCILE_AND_COMMIT instead of refusing it (BMv2's
     * simple_switch_grpc, seen 2026-11-30): an empty switch gets VERIFY_AND_COMMIT. */
    bool cannot_reconcile;
    uint32_t redial_ms;
};

/* The program on a device. */
enum p4rt_program { P4RT_PROGRAM_NONE, P4RT_PROGRAM_OURS, P4RT_PROGRAM_OTHER };

#define P4RT_REASON_KEPT 255 /* p4/include/headers.p4: it is for the control thread */

/* To or from the network, past the switch's program; or a probe, through it. */
struct p4rt_packet {
    uint16_t port; /* out by, or in by; of a probe in by, then the one it would leave by
                    */
    bool is_probe;
    uint8_t reason; /* of a probe that came back: enum drop_reason of agent/fwd, 0: it
                       was forwarded, or P4RT_REASON_KEPT */
    const uint8_t *bytes;
    size_t len;
};

struct p4rt_switch_events {
    /* Connected: nothing on any device is of another program, or it may be replaced. */
    void (*found)(void *ctx);
    /* What `found` said is void.  Also told when there was no `found`: why not. */
    void (*lost)(void *ctx, const struct err *cause);
    /* The answer to a claim, and whenever it changes: whether we are primary of every
     * device.  `highest` is the term of whoever is, else. */
    void (*role)(void *ctx, bool is_primary, uint64_t highest);
    /* The answer to p4rt_switch_push(). */
    void (*pushed)(void *ctx, enum rc rc, const struct err *err);
    void (*packet_in)(void *ctx, uint8_t device, const struct p4rt_packet *p);
};

struct p4rt_switch;

/* Checks `p4info` against phys.h.  Gives `*ret`. */
enum rc p4rt_switch_new(struct rpc_loop *loop,
                        const struct p4rt_switch_options *options,
                        const struct p4rt_switch_events *events, void *ctx,
                        struct p4rt_switch **ret, struct err *err);
void p4rt_switch_open(struct p4rt_switch *s);

/* Ends the connection, with `lost`, and dials anew. */
void p4rt_switch_redial(struct p4rt_switch *s, const struct err *cause);

/* Asks to be primary of every device with election id (term, 0). */
void p4rt_switch_claim(struct p4rt_switch *s, uint64_t term);

/* Puts our program where there is none, or another that may be replaced.  As primary.
 */
void p4rt_switch_push(struct p4rt_switch *s);

/* To the network by a port of the switch, or through its program as a probe.
 * RC_UNREACHABLE: not primary; RC_NOT_FOUND: the program has no packet_out, or none for
 * probes; RC_FULL: too many wait to be sent. */
enum rc p4rt_switch_packet_out(struct p4rt_switch *s, uint8_t device,
                               const struct p4rt_packet *p);

/* ---- for those who write and read ---- */

struct rpc_channel *p4rt_switch_channel(const struct p4rt_switch *s);
uint8_t p4rt_switch_devices(const struct p4rt_switch *s);
uint64_t p4rt_switch_device_id(const struct p4rt_switch *s, uint8_t device);
uint64_t p4rt_switch_term(const struct p4rt_switch *s); /* claimed */
bool p4rt_switch_is_primary(const struct p4rt_switch *s);
enum p4rt_program p4rt_switch_program(const struct p4rt_switch *s, uint8_t device);
/* Of the program on the switch; before there is one, of ours. */
const struct p4rt_info *p4rt_switch_info(const struct p4rt_switch *s);

/* Ends the connection without an event, and itself when the last call has ended. */
void p4rt_switch_free(struct p4rt_switch *s);
