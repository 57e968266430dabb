/*
 * agent_wire - numbers of agent.proto that agent_encode.c and agent_decode.c share.
 */
#pragma once

/* Field numbers of agent.proto's Batch, which is written and read by hand so that its
 * `ops` need not be copied by the packer. */
enum { BATCH_SEQ = 1, BATCH_REVISION = 2, BATCH_READY = 3, BATCH_OPS = 15 };
