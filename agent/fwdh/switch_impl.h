/* switch_impl - shared by the files of switch: switch.c (life, publishing, workers),
 * switch_write.c (updates), switch_read.c (read-back), switch_seen.c (what packets
 * get), switch_tamper.c (for tests). */
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

/* ---- switch_seen.c ---- */

/* The exact table behind one of them; null: it is no such. */
struct exact *hswitch_exact(struct hhalf *h, enum phys_table table);
/* The entry's key there. */
struct exact_entry hswitch_exact_key(const struct phys_entry *e);

/* What packets get by the entry's key, mask and priority; false: nothing.  Not of
 * route_part.  `ret` may not be `e`. */
bool hswitch_seen(const struct hhalf *h, const struct phys_entry *e,
                  struct phys_entry *ret);
/* Do the records say the same? */
bool hswitch_is_recorded(const struct hhalf *h, const struct phys_entry *seen);
/* The next entry that packets get and no record leads to, or that stands twice; as
 * hswitch_next(). */
bool hswitch_next_stray(const struct hswitch *s, unsigned half, enum phys_table table,
                        struct hcursor *c, uint32_t *budget, struct phys_entry *ret);

static inline unsigned hswitch_bucket_of(const struct phys_entry *e)
{
    return e->table == PHYS_NEXT_HOP
               ? (e->key[0] & 1u) << 8 | e->key[1]
               : (e->key[0] & 1u) << 10 | (load_be16(e->key + 1) & 0x3ff);
}

static inline unsigned hswitch_port_out_of(const struct phys_entry *e)
{
    return (load_be16(e->key) & 0x1ffu) << 2 | (e->key[2] & 1u) << 1 | (e->key[3] & 1u);
}

/* ---- switch_write.c ---- */

/* An insert or a modify: makes packets see `e`.  Not of route_part. */
enum rc hswitch_put_seen(struct hswitch *s, struct hhalf *h,
                         const struct phys_entry *e);
/* A delete of what packets see. */
enum rc hswitch_del_seen(struct hswitch *s, struct hhalf *h,
                         const struct phys_entry *e);

/* ---- switch_tamper.c ---- */

/* Is the delete of this entry to get lost in that place?  Once. */
bool hswitch_keeps(struct hhalf *h, enum htamper_place place,
                   const struct phys_entry *e);
void hswitch_kept_fini(struct hhalf *h);

/* ---- switch.c ---- */

enum rc hswitch_publish_acl(struct hswitch *s, struct hhalf *h, struct err *err);

/* ---- switch_check.c ---- */

/* May the entry be written?  Of a delete, only what names it is looked at. */
enum rc hswitch_check(const struct hswitch *s, enum phys_op op,
                      const struct phys_entry *e, struct err *err);
