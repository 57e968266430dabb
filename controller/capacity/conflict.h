/*
 * conflict - how many IPv6 addresses of a VNI share the CRC32 that stands for them in
 * `vm_nc`, and so need `vm_nc_conflict`.
 *
 * The first of a key stays in `vm_nc`, each later one is a conflict (FORWARDING), so a
 * VNI of n addresses has n less the number of distinct keys.  For addresses drawn at
 * random this is a birthday problem over 2^32 keys.  Addresses that differ in no more
 * than 32 neighbouring bits never conflict (a CRC tells all such bursts apart), so the
 * estimate is high for the usual numbering of hosts.  Whoever chooses the addresses can
 * make all but one conflict: `conflict_worst()`.
 *
 * Values only; any thread.
 */
#pragma once

#include <stdint.h>

/* Expected conflicts among n random addresses of one VNI. */
double conflict_expected(double n);

/* All but one. */
uint64_t conflict_worst(uint64_t n);

/* The fewest entries that hold the conflicts with a chance of `1 - risk`, where
 * `expected` are (of all VNIs of a half together; their number is Poisson). */
uint64_t conflict_bound(double expected, double risk);

/* The most random addresses of one VNI whose conflicts fit into so many entries with
 * that chance. */
double conflict_addresses(uint64_t entries, double risk);
