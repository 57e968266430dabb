/*
 * rpc_loop - binds gRPC C core to a libevent loop.
 *
 * One loop owns one completion queue and the thread that waits on it.  The thread does
 * nothing but hand finished operations over by an eventfd, so **every callback of
 * proto/rpc runs on the thread of the event_base**, and every function of proto/rpc is
 * called on that thread.  No callback ever runs inside a call into proto/rpc: what a
 * call causes is told later, from the loop (rpc_loop_free is the one exception).
 *
 * Nouns: a loop has servers (rpc_server.h) and channels (rpc_client.h); both have calls
 * (rpc_call.h).  A process may have several loops, each with its own event_base.
 */
#pragma once

#include "proto/base/err.h"

struct event_base;
struct rpc_loop;

/* Starts the completion-queue thread and registers with `base`, which is kept and must
 * outlive the loop.  Gives `*ret_loop`, to be freed with rpc_loop_free(). */
enum rc rpc_loop_new(struct event_base *base, struct rpc_loop **ret_loop,
                     struct err *err);

struct event_base *rpc_loop_base(const struct rpc_loop *loop);

/* Ends everything that is left: stops servers without grace, cancels calls, frees
 * channels, and **runs their last callbacks (on_closed, on_stopped) before it
 * returns**.  Blocks until gRPC let go of all memory.  Not from a callback; handles of
 * servers, channels and calls of this loop are void afterwards.  Null is fine. */
void rpc_loop_free(struct rpc_loop *loop);
