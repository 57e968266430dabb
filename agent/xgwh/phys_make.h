/*
 * phys_make - entries of the physical tables from their fields, and fields from
 * entries.  Values only; any thread.
 */
#pragma once

#include "agent/xgwh/phys.h"

/* An entry of `table` without key, mask (ones in exact fields, else zero) and action.
 */
struct phys_entry phys_make(enum phys_table table, uint8_t half, uint32_t priority);

/* Fields go by their place in the description; `bytes` are as long as the field. */
void phys_set_key(struct phys_entry *e, unsigned index, uint64_t value);
void phys_set_ternary(struct phys_entry *e, unsigned index, const uint8_t *bytes,
                      const uint8_t *mask);
/* The first `len` bits of a ternary field count. */
void phys_set_prefix(struct phys_entry *e, unsigned index, const uint8_t *bytes,
                     unsigned len);
void phys_set_key_bytes(struct phys_entry *e, unsigned index, const uint8_t *bytes);
uint64_t phys_key(const struct phys_entry *e, unsigned index);
const uint8_t *phys_key_bytes(const struct phys_entry *e, unsigned index);

/* Sets the action and clears its data; then its parameters. */
void phys_set_action(struct phys_entry *e, enum phys_action action);
void phys_set_param(struct phys_entry *e, unsigned index, uint64_t value);
void phys_set_param_bytes(struct phys_entry *e, unsigned index, const uint8_t *bytes);
uint64_t phys_param(const struct phys_entry *e, unsigned index);
const uint8_t *phys_param_bytes(const struct phys_entry *e, unsigned index);

/* Is it of the form that phys.h promises: known table and action, fields no wider than
 * described, exact masks whole, nothing outside of masks and fields, and a priority
 * where there must be one?  What a switch may answer is checked with it once; masks of
 * exact fields are set, for P4Runtime has none. */
bool phys_normalize(struct phys_entry *e);

/* Order and identity of entries: table, key, mask, priority; not action and half. */
int phys_compare(const struct phys_entry *a, const struct phys_entry *b);
bool phys_same_action(const struct phys_entry *a, const struct phys_entry *b);

/* zlib's CRC-32 (polynomial 0xedb88320, reflected), as the chip computes it. */
uint32_t phys_crc32(const uint8_t *bytes, unsigned len);
