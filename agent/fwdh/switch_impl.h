/* switch_impl - shared by the files of switch: switch.c (life, publishing, workers),
 * switch_write.c (updates), switch_read.c (read-back). */
#pragma once

#include "agent/fwdh/switch.h"

/* How many lines one update may retire. */
#define HSWITCH_RETIRES 8

static inline uint32_t hswitch_line(const struct hswitch *s, const void *at)
{
    return (uint32_t)((size_t)((const uint8_t *)at - s->lines.base) / LINE_BYTES);
}

/* hswitch_reclaim() but for configurations, which the owner of neighbours may hold
 * until he is told of the next one. */
void hswitch_reclaim_lines(struct hswitch *s);

/* A prefix of vtep or source: its family, address and length; false when the row is
 * none. */
bool hswitch_prefix(const struct phys_entry *e, struct prefix *ret);

/* Key or mask of a route_tcam or route_part row. */
static inline struct hkey hswitch_route_key(const struct phys_entry *e,
                                            const uint8_t *bytes)
{
    return hkey_load(bytes + (e->table == PHYS_ROUTE_PART ? 2 : 0));
}

/* The length of its prefix; -1: it is none. */
static inline int hswitch_route_length(const struct phys_entry *e)
{
    struct hkey mask = hswitch_route_key(e, e->mask);

    return hkey_prefix_length(&mask);
}

/* May the entry be written?  Of a delete, only what names it is looked at. */
enum rc hswitch_check(const struct hswitch *s, enum phys_op op,
                      const struct phys_entry *e, struct err *err);
