/*
 * address - addresses that probes are sent to and from, out of a group's rows.
 *
 * Values only; any thread.
 */
#pragma once

#include "proto/model/object.h"
#include "proto/model/table_set.h"

/* Where the table's rows of the family begin; false: there is none. */
bool address_rows(const struct table_set *s, uint32_t vni, enum table_id table,
                  uint8_t family, struct rows_iter *ret);

/* One inside the prefix, not the first one where there are others; and the last one. */
struct ip address_inside(const struct prefix *p);
struct ip address_last(const struct prefix *p);

#define ADDRESS_NOWHERE_COUNT 3
/* Those that nobody has (RFC 5737; RFC 3849, 9637, 5180), by index. */
struct ip address_nowhere(uint8_t family, unsigned index);

/* One of the VNI's family, of a VM or a route, that packets can have; else nowhere. */
struct ip address_some(const struct table_set *s, uint32_t vni, uint8_t family);
/* Another VM, or the neighbour of the destination. */
struct ip address_beside(const struct table_set *s, uint32_t vni, const struct ip *dst);

/* An address that a node takes packets from; nowhere, if it does from none. */
struct ip address_source(const struct device_config *c, uint8_t family);
/* One that it accepts packets at. */
bool address_is_own(const struct device_config *c, const struct ip *dst);
