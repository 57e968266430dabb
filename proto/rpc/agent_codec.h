/*
 * agent_codec - agent_msg and ctl_msg to and from their wire form,
 * proto/api/agent.proto.
 *
 * Reading is strict: every count, length and code is held against its bound before it
 * is used, and memory follows from the bounds, not from what the sender claims.  A
 * BATCH's `ops` are not looked into (batch_check() does that).  Any thread.
 */
#pragma once

#include "proto/base/blob.h"
#include "proto/base/buf.h"
#include "proto/base/err.h"
#include "proto/model/agent_msg.h"

#define AGENT_MSG_WIRE_MAX (128u << 10) /* bytes; a full DIGESTS or ACK fits */
#define CTL_CONFIG_MAX     (1u << 20)   /* bytes of a device configuration */
#define CTL_MSG_WIRE_MAX   (BATCH_MAX_BYTES + 64)

/* Appends the message to `to`.  RC_RANGE: more items than the bounds allow;
 * RC_NO_MEMORY. */
enum rc agent_msg_encode(const struct agent_msg *m, struct buf *to);

/* Appends all of the message but a BATCH's `ops`, which are to follow the appended
 * bytes on the wire, uncopied: `*ret_tail` is then the blob, borrowed from `m`; null
 * for every other message. */
enum rc ctl_msg_encode(const struct ctl_msg *m, struct buf *to, struct blob **ret_tail);

/* RC_INVALID with field and rule; RC_NO_MEMORY.  `*ret` is to be ended with
 * agent_msg_fini() or ctl_msg_fini(). */
enum rc agent_msg_decode(const void *bytes, size_t len, struct agent_msg *ret,
                         struct err *err);
enum rc ctl_msg_decode(const void *bytes, size_t len, struct ctl_msg *ret,
                       struct err *err);
