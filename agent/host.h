/*
 * host - what this machine has and uses: memory, disk, and its cores' load.
 *
 * Read from /proc and the file system; some 50 µs.  The shell's thread.
 */
#pragma once

#include "agent/driver/driver.h"

#define HOST_CORES_MAX    64
#define HOST_READINGS_MAX (HOST_CORES_MAX + 2)

struct host {
    char cores[HOST_CORES_MAX][16]; /* "core/cpu0": what readings point to */
    struct device_reading readings[HOST_READINGS_MAX];
    uint32_t count;
};

/* Reads anew; what cannot be read is left out.  `with_cores`: also each core's busy
 * time, of a device that says nothing of its own cores: its packets go by none of them,
 * so they are figures and no level is made of them. */
void host_read(struct host *h, bool with_cores);
