/*
 * agent_wire - what agent_encode.c, agent_decode.c and agent_telemetry.c share.
 */
#pragma once

#include "proto/api/agent.pb-c.h"
#include "proto/base/buf.h"
#include "proto/base/err.h"
#include "proto/model/agent_msg.h"
#include "proto/model/telemetry.h"

/* Field numbers of agent.proto's Batch, which is written and read by hand so that its
 * `ops` need not be copied by the packer. */
enum { BATCH_SEQ = 1, BATCH_REVISION = 2, BATCH_READY = 3, BATCH_OPS = 15 };

/* agent_encode.c: appends the packed message; RC_NO_MEMORY. */
enum rc agent_wire_pack(const ProtobufCMessage *m, struct buf *to);

/* agent_telemetry.c: a whole AgentMessage; RC_RANGE, RC_NO_MEMORY.  And back: gives
 * `*ret`, for free(); RC_INVALID with the field. */
enum rc agent_telemetry_encode(const struct telemetry *t, struct buf *to);
enum rc agent_telemetry_take(const Xgw__Agent__V1__Telemetry *w, struct telemetry **ret,
                             struct err *err);

/* agent_probe.c: what came of a probe; gives its frame.  RC_INVALID with the field. */
enum rc agent_probe_take(const Xgw__Agent__V1__Probe *w, struct agent_probe *ret,
                         struct err *err);

/* agent_decode.c: RC_INVALID for a field outside its bounds, and a text of printable
 * characters into `size` bytes; false: it is none, or too long. */
enum rc agent_wire_bad(struct err *err, const char *field);
bool agent_wire_text(char *to, size_t size, const char *from);
