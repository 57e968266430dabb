/* device - the driver that the settings ask for. */
#pragma once

#include "agent/driver/driver.h"
#include "agent/options.h"
#include "proto/rpc/rpc_loop.h"

/* Reads the files that `o` names.  Gives `*ret`, to be ended with cls->close(). */
enum rc device_driver_new(struct rpc_loop *loop, const struct options *o,
                          const struct driver_events *events, void *ctx,
                          struct driver **ret, struct err *err);
