/*
 * naive - the plainest possible set of rows, to hold `rows` and `table_set` against,
 * and random rows for it.  A sorted array of copies; everything is recomputed.
 */
#pragma once

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "proto/model/rows.h"

struct naive_row {
    uint8_t key[ENTRY_KEY_MAX];
    uint8_t value[ENTRY_VALUE_MAX];
    uint8_t key_len;
    uint8_t value_len;
};

struct naive {
    struct naive_row *at;
    uint32_t count;
    uint32_t cap;
};

/* splitmix64 (Vigna, public domain). */
static inline uint64_t random_next(uint64_t *state)
{
    uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));

    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static inline uint32_t random_below(uint64_t *state, uint32_t n)
{
    return (uint32_t)(random_next(state) % n);
}

static inline struct row naive_as_row(const struct naive_row *r)
{
    return (struct row){ .key = r->key,
                         .value = r->value,
                         .key_len = r->key_len,
                         .value_len = r->value_len };
}

/* Packs an entry through the contract of entry.h. */
static inline struct naive_row naive_row_of(const struct entry *e)
{
    struct naive_row r = { 0 };
    struct buf b = BUF_INIT;

    entry_pack_key(e, &b);
    r.key_len = (uint8_t)b.len;
    if (b.len) {
        memcpy(r.key, b.data, b.len);
    }
    buf_reset(&b);
    entry_pack_value(e, &b);
    r.value_len = (uint8_t)b.len;
    memcpy(r.value, b.data, b.len);
    buf_fini(&b);
    return r;
}

/* Key number `n` of a table, every fourth one IPv6; `seed` chooses the value. */
static inline struct naive_row naive_row_make(enum table_id table, uint32_t n,
                                              uint64_t seed)
{
    struct entry e = { .table = (uint8_t)table, .vni = 1 };
    uint64_t s = seed;
    uint8_t v6[16] = { 0xfd, 0, 0x12 };
    struct ip ip;

    v6[13] = (uint8_t)(n >> 16);
    v6[14] = (uint8_t)(n >> 8);
    v6[15] = (uint8_t)n;
    ip = n % 4 == 3 ? ip_v6(v6) : ip_v4(0x0a000000u + n);
    switch (table) {
    case TABLE_VXLAN_ROUTE:
        e.route.dst = (struct prefix){ ip, n % 4 == 3 ? 128 : 32 };
        e.route.action.scope = SCOPE_LOCAL;
        if (random_below(&s, 8) == 0) {
            e.route.action.scope = SCOPE_IDC;
            e.route.action.endpoint = ip_v4(0xac100001u + random_below(&s, 100));
            e.route.action.vni = 1 + random_below(&s, 1000);
        } else if (random_below(&s, 8) == 0) {
            e.route.action.scope = SCOPE_SERVICE;
            memset(e.route.action.service, 'a', 1 + random_below(&s, SERVICE_NAME_MAX));
        }
        break;
    case TABLE_VM_NC:
        e.vm_nc.vm = ip;
        e.vm_nc.nc = ip_v4(0xac100001u + random_below(&s, 100000));
        e.vm_nc.has_mac = random_below(&s, 2);
        e.vm_nc.mac[0] = e.vm_nc.has_mac ? 2 : 0;
        break;
    case TABLE_ACL:
        e.acl.priority = (uint16_t)(1 + n % ACL_PRIORITY_MAX);
        e.acl.action = (uint8_t)(ACL_PERMIT + random_below(&s, 2));
        e.acl.match.src = (struct prefix){ ip, n % 4 == 3 ? 128 : 32 };
        e.acl.match.dst.addr.family = ip.family;
        e.acl.match.sport.last = e.acl.match.dport.last = UINT16_MAX;
        break;
    case TABLE_METER:
        e.meter.peak_bps = 1 + random_below(&s, 1000000);
        e.meter.committed_burst = e.meter.peak_burst = METER_BURST_MIN;
        break;
    case TABLE_VNI_CLUSTER:
        memset(e.vni_cluster.cluster, 'c', 1 + random_below(&s, CLUSTER_NAME_MAX));
        break;
    case TABLE_TENANT:
        memset(e.tenant.cluster, 'c', 1 + random_below(&s, CLUSTER_NAME_MAX));
        memset(e.tenant.name, 'n', random_below(&s, TENANT_NAME_MAX + 1));
        break;
    default:
        e.vni_row.flags = (uint8_t)random_below(&s, 8);
    }
    return naive_row_of(&e);
}

static inline int naive_compare(const struct naive_row *a, const struct naive_row *b)
{
    struct row x = naive_as_row(a);
    struct row y = naive_as_row(b);

    return row_compare(&x, &y);
}

/* Where the key is, or belongs. */
static inline uint32_t naive_place(const struct naive *n, const struct naive_row *r)
{
    uint32_t low = 0;
    uint32_t high = n->count;

    while (low < high) {
        uint32_t mid = (low + high) / 2;

        if (naive_compare(&n->at[mid], r) < 0) {
            low = mid + 1;
        } else {
            high = mid;
        }
    }
    return low;
}

static inline bool naive_has(const struct naive *n, const struct naive_row *r)
{
    uint32_t i = naive_place(n, r);

    return i < n->count && naive_compare(&n->at[i], r) == 0;
}

static inline void naive_put(struct naive *n, const struct naive_row *r)
{
    uint32_t i = naive_place(n, r);

    if (naive_has(n, r)) {
        n->at[i] = *r;
        return;
    }
    if (n->count == n->cap) {
        n->cap = n->cap ? 2 * n->cap : 16;
        n->at = realloc(n->at, n->cap * sizeof(*n->at));
        assert(n->at);
    }
    memmove(n->at + i + 1, n->at + i, (n->count - i) * sizeof(*n->at));
    n->at[i] = *r;
    n->count++;
}

static inline void naive_delete(struct naive *n, const struct naive_row *r)
{
    uint32_t i = naive_place(n, r);

    if (naive_has(n, r)) {
        n->count--;
        memmove(n->at + i, n->at + i + 1, (n->count - i) * sizeof(*n->at));
    }
}

static inline void naive_fini(struct naive *n)
{
    free(n->at);
    *n = (struct naive){ 0 };
}

static inline struct naive naive_copy(const struct naive *n)
{
    struct naive copy = { .count = n->count, .cap = n->count };

    copy.at = malloc((n->count + 1) * sizeof(*n->at));
    assert(copy.at);
    if (n->count) {
        memcpy(copy.at, n->at, n->count * sizeof(*n->at));
    }
    return copy;
}

static inline uint64_t naive_digest(const struct naive *n, enum table_id table,
                                    uint32_t vni)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < n->count; i++) {
        struct row row = naive_as_row(&n->at[i]);

        sum += row_digest(table, vni, &row);
    }
    return sum;
}

static inline bool row_is(const struct row *row, const struct naive_row *want)
{
    return row->key_len == want->key_len && row->value_len == want->value_len &&
           memcmp(row->key, want->key, want->key_len) == 0 &&
           memcmp(row->value, want->value, want->value_len) == 0;
}
