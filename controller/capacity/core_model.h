/*
 * core_model - cycles that a packet costs a core of XGW-x86, and what follows from it.
 *
 *   cycles = io + base + tables × (table + where) + [VNI changes] × rewrite
 *          + (call + tables × wait × beyond_l2) ÷ burst
 *   where  = l3 × beyond_l2 + dram × beyond_l3
 *
 * `beyond_l2` and `beyond_l3` are the shares of the lookup structures that do not fit
 * into the caches, for uniformly random packets: 1 - cache ÷ size.  Loads are asked for
 * ahead over a burst, so a line costs what is left of its latency; in short bursts,
 * `wait` more.
 *
 * The published figures (84 cycles of bare I/O, 146 with minimal parse and deparse, 57
 * a table) are core_published; those of a machine are fitted to points measured on it
 * (`xgwctl capacity calibrate`), by least squares of the relative error, none below 0.
 * I/O needs a NIC and stays as given.
 *
 * Values only; any thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/base/err.h"

/* What a worker does. */
struct core_config {
    double entries;   /* routes and VM-NC entries */
    double tables;    /* applied a packet: route lookups and the VM-NC lookup */
    bool changes_vni; /* a peer was followed */
    double burst;     /* packets a call, at least 1 */
};

struct core_params {
    double io; /* cycles a packet; all below likewise */
    double base;
    double table;
    double rewrite;
    double call; /* a call */
    double l3;   /* a table whose line is beyond L2 */
    double dram; /* and beyond L3 */
    double wait; /* more in a burst of one */
    double l2_bytes;
    double l3_bytes; /* that the core really gets; a shared cache is smaller */
    double entry_bytes;
    double hz; /* cycles a second */
};

/* Of a paper's machine (p4-performance-models: Xeon E5-2640 v2 at 2 GHz). */
extern const struct core_params core_published;

double core_cycles(const struct core_params *p, const struct core_config *c);
double core_pps(const struct core_params *p, const struct core_config *c);

struct core_point {
    struct core_config config;
    double cycles; /* measured, without I/O */
};

#define CORE_POINTS_MIN 10

struct core_fit {
    struct core_params params;
    double rms_error; /* relative, over the points of the fit */
    double worst_error;
};

/* Fits everything but io, entry_bytes and hz, which are taken from `given`; its cache
 * sizes are what the machine says, and the most that the fit gives the core.
 * RC_INVALID with too few points or points that do not tell the parameters apart. */
enum rc core_fit(const struct core_point *points, size_t count,
                 const struct core_params *given, struct core_fit *ret,
                 struct err *err);
