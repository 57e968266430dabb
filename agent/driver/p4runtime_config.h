/* p4runtime_config - what xgwh is told of a device's configuration.  Pure. */
#pragma once

#include "agent/xgwh/xgwh.h"
#include "proto/model/object.h"

/* `*ret` borrows `d`'s sources.  Uplinks are ports of the switch by number ("132").
 * RC_INVALID with field and rule. */
enum rc p4runtime_config_of(const struct device_config *d, uint64_t digest,
                            struct xgwh_config *ret, struct err *err);
