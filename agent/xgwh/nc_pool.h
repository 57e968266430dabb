/*
 * nc_pool - the indexes of `nc`: few long underlay addresses, named by 17 bits.
 *
 * An index is taken at an address' first use and freed at its last: both as of
 * nc_pool_settle(), which gives the writes, so an address that goes and comes back
 * within one call costs nothing and its index is not taken by another meanwhile.
 *
 * One owner, one thread.
 */
#pragma once

#include "agent/xgwh/plan.h"
#include "agent/xgwh/u64map.h"
#include "proto/base/ip.h"

struct nc {
    uint8_t addr[16]; /* IPv4 in [0..3] */
    uint8_t family;   /* IP_NONE: a free index */
    bool is_written;  /* stands on the switch */
    bool is_twin;     /* a lower index has the same address: nothing new points here */
    bool is_touched;  /* in `touched` */
    uint32_t refs;
    uint32_t next; /* with the same hash, or the next free one; 0 = none */
};

struct nc_pool {
    struct nc *at; /* by index; PHYS_NC_BITS of them */
    struct u64map by_address;
    uint32_t used[2]; /* v4, v6 */
    uint32_t max[2];
    uint32_t free[2];   /* list; 0 = none */
    uint32_t unused[2]; /* indexes from here on were never taken */
    uint32_t *touched;  /* to be looked at by settle */
    uint32_t touched_count;
    uint32_t touched_cap;
};

/* `size` is that of the table. */
enum rc nc_pool_init(struct nc_pool *p, uint32_t size);
void nc_pool_fini(struct nc_pool *p);

/* One more user of the address.  RC_FULL, RC_NO_MEMORY. */
enum rc nc_pool_acquire(struct nc_pool *p, const struct ip *addr, uint32_t *ret_index);
/* One more user of an index in use. */
void nc_pool_ref(struct nc_pool *p, uint32_t index);
/* False when memory is out: the index then stays until the switch is read back. */
bool nc_pool_release(struct nc_pool *p, uint32_t index);

/* The index that an acquire would give without taking a new one; false: none has it. */
bool nc_pool_find(const struct nc_pool *p, const struct ip *addr, uint32_t *ret_index);
/* The address behind an index; false when it is free or no NC's. */
bool nc_pool_address(const struct nc_pool *p, uint32_t index, struct ip *ret);

/* The writes that make the switch hold what is used; then unused indexes are free. */
void nc_pool_settle(struct nc_pool *p, struct plan *plan);

/* An entry that was read back, not used so far.  False: it can be none of ours. */
bool nc_pool_adopt(struct nc_pool *p, uint32_t index, const struct ip *addr);
/* All was read: finds twins and makes the lists.  Then refs can be counted, and settle
 * deletes what got none.  False when memory is out. */
bool nc_pool_adopted(struct nc_pool *p, uint64_t *ret_twins);

size_t nc_pool_memory(const struct nc_pool *p);
