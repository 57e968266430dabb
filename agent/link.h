/*
 * link - the agent's stream to one controller at a time: session messages in and out of
 * gRPC.
 *
 * It decides nothing: the session says when to dial, send and hang up.  Each dial ends
 * in exactly one `down`, with an `up` before it where the controller accepted.  The
 * loop's thread; no callback comes from inside a call.
 */
#pragma once

#include "proto/model/agent_msg.h"
#include "proto/rpc/rpc_client.h"

struct link;

/* What the link tells; `ctx` is link_new()'s. */
struct link_events {
    void (*up)(void *ctx);
    void (*message)(void *ctx, const struct ctl_msg *msg); /* borrowed */
    void (*down)(void *ctx, const struct err *cause);
};

struct link_config {
    struct rpc_loop *loop;
    const char *const *controllers; /* "host:port" each; borrowed */
    uint32_t controller_count;
    const struct rpc_tls *tls; /* null: plain text, for tests; borrowed */
    const char *tls_name;      /* name that controllers' certificates carry, or null */
};

/* What `config` and `events` point to is kept until link_free().  Dials nobody yet.
 * Gives
 * `*ret`; fails with RC_NO_MEMORY only. */
enum rc link_new(const struct link_config *config, const struct link_events *events,
                 void *ctx, struct link **ret, struct err *err);
void link_free(struct link *l); /* no event comes any more; null is fine */

/* Dials controller `index`, or `redirect` where that is not "". */
void link_dial(struct link *l, uint32_t index, const char *redirect);

/* A message that cannot be sent ends the stream. */
void link_send(struct link *l, const struct agent_msg *msg);

/* Ends the stream, if there is one; its `down` follows from the loop. */
void link_hangup(struct link *l);
