/* p4info_make - the p4info that a program with all of phys.h would have, packed by
 * protobuf-c; `change` (may be null) makes another program of it first. */
#pragma once

#include "proto/api/p4info.pb-c.h"
#include "proto/base/buf.h"

typedef void p4info_change(P4__Config__V1__P4Info *info, int arg);

/* Appends it.  Tables have the rows of phys_sizes_bench(). */
void p4info_make(struct buf *to, p4info_change *change, int arg);
