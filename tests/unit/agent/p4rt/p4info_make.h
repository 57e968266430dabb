/* p4info_make - the p4info that a program with all of phys.h would have, packed by
 * protobuf-c; `change` (may be null) makes another program of it first. */
#pragma once

#include "proto/api/p4info.pb-c.h"
#include "proto/base/buf.h"

typedef void p4info_change(P4__Config__V1__P4Info *info, int arg);

/* Appends it.  Tables have the rows of phys_sizes_bench(). */
void p4info_make(struct buf *to, p4info_change *change, int arg);

/* A change: `drop_reason` is there `parts` times (2 to 8), as each gress of a TNA
 * program has its own; the ids of the further ones. */
#define P4INFO_DROP_PART(part) (0x12000100u + (part))
p4info_change p4info_split_drops;
