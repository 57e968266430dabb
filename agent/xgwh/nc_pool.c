#include "agent/xgwh/nc_pool.h"

#include <stdlib.h>
#include <string.h>

#include "agent/xgwh/phys_make.h"

#define INDEXES (UINT32_C(1) << PHYS_NC_BITS)
#define FAMILY  (INDEXES / 2) /* indexes of one family */

static unsigned side_of(uint32_t index)
{
    return index >= PHYS_NC6_FIRST;
}

static uint32_t first_of(unsigned side)
{
    return (side ? PHYS_NC6_FIRST : 0) + PHYS_NC_RESERVED;
}

enum rc nc_pool_init(struct nc_pool *p, uint32_t size)
{
    uint32_t most = FAMILY - PHYS_NC_RESERVED;

    memset(p, 0, sizeof(*p));
    p->at = calloc(INDEXES, sizeof(*p->at));
    if (!p->at) {
        return RC_NO_MEMORY;
    }
    for (unsigned side = 0; side < 2; side++) {
        /* A table that is not whole is shared evenly; the chip's is whole. */
        p->max[side] = size / 2 < FAMILY ? size / 2 : most;
        p->unused[side] = first_of(side);
    }
    return RC_OK;
}

void nc_pool_fini(struct nc_pool *p)
{
    free(p->at);
    free(p->touched);
    u64map_fini(&p->by_address);
    memset(p, 0, sizeof(*p));
}

static uint64_t hash_of(const struct ip *addr)
{
    uint64_t hi;
    uint64_t lo;

    memcpy(&hi, addr->b, sizeof(hi));
    memcpy(&lo, addr->b + 8, sizeof(lo));
    if (addr->family == IP_V4) {
        return hi;
    }
    /* Equal hashes are chained; the top bit is clear, so none is U64MAP_NONE. */
    hi = (hi ^ lo * UINT64_C(0x9e3779b97f4a7c15)) * UINT64_C(0xbf58476d1ce4e5b9);
    return (hi ^ hi >> 29) & ~(UINT64_C(1) << 63);
}

static bool is_at(const struct nc *nc, const struct ip *addr)
{
    return nc->family == addr->family && memcmp(nc->addr, addr->b, 16) == 0;
}

bool nc_pool_find(const struct nc_pool *p, const struct ip *addr, uint32_t *ret_index)
{
    const uint32_t *head = u64map_find(&p->by_address, hash_of(addr));

    for (uint32_t i = head ? *head : 0; i != 0; i = p->at[i].next) {
        if (is_at(&p->at[i], addr)) {
            *ret_index = i;
            return true;
        }
    }
    return false;
}

bool nc_pool_address(const struct nc_pool *p, uint32_t index, struct ip *ret)
{
    if (index >= INDEXES || p->at[index].family == IP_NONE) {
        return false;
    }
    ret->family = p->at[index].family;
    memcpy(ret->b, p->at[index].addr, sizeof(ret->b));
    return true;
}

static bool link_address(struct nc_pool *p, uint32_t index, const struct ip *addr)
{
    uint32_t *head = u64map_find(&p->by_address, hash_of(addr));

    if (head) {
        p->at[index].next = *head;
        *head = index;
        return true;
    }
    p->at[index].next = 0;
    return u64map_put(&p->by_address, hash_of(addr), index);
}

static void unlink_address(struct nc_pool *p, uint32_t index)
{
    struct nc *nc = &p->at[index];
    struct ip addr = { .family = nc->family };
    uint32_t *at;

    memcpy(addr.b, nc->addr, sizeof(addr.b));
    at = u64map_find(&p->by_address, hash_of(&addr));
    if (at && *at == index && nc->next == 0) {
        u64map_delete(&p->by_address, hash_of(&addr));
        return;
    }
    while (at && *at != 0 && *at != index) {
        at = &p->at[*at].next;
    }
    if (at && *at == index) {
        *at = nc->next;
    }
}

static bool touch(struct nc_pool *p, uint32_t index)
{
    if (p->at[index].is_touched) {
        return true;
    }
    if (p->touched_count == p->touched_cap) {
        uint32_t cap = p->touched_cap ? 2 * p->touched_cap : 64;
        uint32_t *at = realloc(p->touched, cap * sizeof(*at));

        if (!at) {
            return false;
        }
        p->touched = at;
        p->touched_cap = cap;
    }
    p->at[index].is_touched = true;
    p->touched[p->touched_count++] = index;
    return true;
}

/* A free index; 0 when there is none. */
static uint32_t take(struct nc_pool *p, unsigned side)
{
    uint32_t index = p->free[side];

    if (p->used[side] >= p->max[side]) {
        return 0;
    }
    if (index != 0) {
        p->free[side] = p->at[index].next;
    } else {
        index = p->unused[side]++;
    }
    p->used[side]++;
    return index;
}

static void give_back(struct nc_pool *p, uint32_t index)
{
    unsigned side = side_of(index);

    p->at[index] = (struct nc){ .next = p->free[side] };
    p->free[side] = index;
    p->used[side]--;
}

enum rc nc_pool_acquire(struct nc_pool *p, const struct ip *addr, uint32_t *ret_index)
{
    uint32_t index;

    if (nc_pool_find(p, addr, &index)) {
        p->at[index].refs++;
        *ret_index = index;
        return RC_OK;
    }
    index = take(p, addr->family == IP_V6);
    if (index == 0) {
        return RC_FULL;
    }
    p->at[index].family = addr->family;
    memcpy(p->at[index].addr, addr->b, sizeof(p->at[index].addr));
    if (!touch(p, index)) {
        give_back(p, index);
        return RC_NO_MEMORY;
    }
    if (!link_address(p, index, addr)) {
        p->at[index].family = IP_NONE; /* settle gives it back */
        return RC_NO_MEMORY;
    }
    p->at[index].refs = 1;
    *ret_index = index;
    return RC_OK;
}

void nc_pool_ref(struct nc_pool *p, uint32_t index)
{
    p->at[index].refs++;
}

bool nc_pool_release(struct nc_pool *p, uint32_t index)
{
    return --p->at[index].refs > 0 || touch(p, index);
}

static struct phys_entry entry_of(const struct nc *nc, uint32_t index)
{
    struct phys_entry e = phys_make(PHYS_NC, PHYS_BOTH, 0);

    phys_set_key(&e, 0, index);
    phys_set_action(&e, nc->family == IP_V4 ? PHYS_NC4 : PHYS_NC6);
    phys_set_param_bytes(&e, 0, nc->addr);
    return e;
}

void nc_pool_settle(struct nc_pool *p, struct plan *plan)
{
    for (uint32_t i = 0; i < p->touched_count; i++) {
        uint32_t index = p->touched[i];
        struct nc *nc = &p->at[index];
        struct phys_entry e = entry_of(nc, index);

        nc->is_touched = false;
        if (nc->refs > 0) {
            if (!nc->is_written) {
                plan_add(plan, STAGE_NC_ADD, PHYS_INSERT, &e);
                nc->is_written = true;
            }
            continue;
        }
        if (nc->is_written) {
            plan_add(plan, STAGE_LATE, PHYS_DELETE, &e);
        }
        if (!nc->is_twin && nc->family != IP_NONE) {
            unlink_address(p, index);
        }
        give_back(p, index);
    }
    p->touched_count = 0;
}

bool nc_pool_adopt(struct nc_pool *p, uint32_t index, const struct ip *addr)
{
    struct nc *nc = &p->at[index];

    if (index >= INDEXES || index < first_of(side_of(index)) ||
        (addr->family == IP_V6) != side_of(index) || nc->family != IP_NONE) {
        return false;
    }
    nc->family = addr->family;
    memcpy(nc->addr, addr->b, sizeof(nc->addr));
    nc->is_written = true;
    return true;
}

bool nc_pool_adopted(struct nc_pool *p, uint64_t *ret_twins)
{
    for (uint32_t index = INDEXES; index-- > 1;) {
        unsigned side = side_of(index);

        if (index < first_of(side)) {
            continue;
        }
        if (p->at[index].family == IP_NONE) {
            if (p->unused[side] > index) {
                p->at[index].next = p->free[side];
                p->free[side] = index;
            }
            continue;
        }
        if (p->unused[side] <= index) {
            p->unused[side] = index + 1;
        }
        p->used[side]++;
        if (!touch(p, index)) {
            return false;
        }
    }
    for (uint32_t index = 1; index < INDEXES; index++) {
        struct ip addr;
        uint32_t other;

        if (!nc_pool_address(p, index, &addr)) {
            continue;
        }
        if (nc_pool_find(p, &addr, &other)) {
            p->at[index].is_twin = true;
            ++*ret_twins;
        } else if (!link_address(p, index, &addr)) {
            return false;
        }
    }
    return true;
}

size_t nc_pool_memory(const struct nc_pool *p)
{
    return INDEXES * sizeof(*p->at) + p->touched_cap * sizeof(*p->touched) +
           u64map_memory(&p->by_address);
}
