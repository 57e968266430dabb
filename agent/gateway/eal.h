/* eal - starts DPDK's environment: memory, cores, devices.  Once a process, first. */
#pragma once

#include "agent/gateway/options.h"

/* Initialises DPDK for `workers` cores and the devices of `specs`, without PCI scan
 * where none is a NIC, and without files that two gateways would share. */
enum rc eal_start(const struct options *o, const struct port_spec *specs,
                  unsigned count, struct err *err);
void eal_stop(void);
