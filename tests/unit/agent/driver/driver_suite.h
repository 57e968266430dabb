/*
 * driver_suite - what every driver must do, run against each (agent/driver/driver.h).
 *
 * A driver's test program makes a rig of it and calls driver_suite(); what it can do
 * beyond is its own affair.
 */
#pragma once

#include "agent/driver/driver.h"
#include "tests/unit/unit.h"

struct driver_rig {
    void *ctx;
    /* A driver to the rig's one device; the suite opens and closes it. */
    struct driver *(*make)(struct driver_rig *rig, const struct driver_events *events,
                           void *ctx);
    /* Lets time pass until `is_done` says so; false at the deadline. */
    bool (*pump)(struct driver_rig *rig, bool (*is_done)(void *arg), void *arg);
    void (*restart_device)(struct driver_rig *rig); /* its tables are lost */
    void (*free)(struct driver_rig *rig);
    bool takes_probes; /* what stands behind the driver forwards packets */
};

/* Gives a rig with an empty device that nobody wrote to. */
typedef struct driver_rig *(*driver_rig_new)(void);

/* Adds the suite's tests; `rig_new` is kept. */
void driver_suite(TCase *tc, driver_rig_new rig_new);
