/*
 * region - records and a fib that follow the same batches, for tests; and the plainest
 * possible answer to a query: a linear scan over all entries.
 */
#pragma once

#include <string.h>

#include "agent/fwd/fib.h"
#include "tests/unit/proto/model/naive.h"
#include "tests/unit/unit.h"

struct region {
    struct table_set *set;
    struct fib *fib;
    struct batch_writer batch;
    struct fib_exceptions refused; /* of the last commit */
    enum rc rc;                    /* of the last commit's fib_apply() */
    struct entry *at;              /* what should stand, in no order */
    uint32_t count;
    uint32_t cap;
};

static inline void region_init(struct region *r, const struct fib_limits *limits)
{
    memset(r, 0, sizeof *r);
    r->set = table_set_new();
    r->fib = fib_new(limits);
    ck_assert_ptr_nonnull(r->set);
    ck_assert_ptr_nonnull(r->fib);
    batch_writer_init(&r->batch);
}

static inline void region_fini(struct region *r)
{
    fib_exceptions_fini(&r->refused);
    batch_writer_fini(&r->batch);
    fib_free(r->fib);
    table_set_free(r->set);
    free(r->at);
}

static inline bool entry_same_key(const struct entry *a, const struct entry *b)
{
    if (a->table != b->table || a->vni != b->vni) {
        return false;
    }
    switch (a->table) {
    case TABLE_VXLAN_ROUTE:
        return prefix_compare(&a->route.dst, &b->route.dst) == 0;
    case TABLE_VM_NC:
        return ip_compare(&a->vm_nc.vm, &b->vm_nc.vm) == 0;
    default:
        return true;
    }
}

static inline struct entry *region_find(struct region *r, const struct entry *e)
{
    for (uint32_t i = 0; i < r->count; i++) {
        if (entry_same_key(&r->at[i], e)) {
            return &r->at[i];
        }
    }
    return NULL;
}

/* To the batch alone. */
static inline void region_queue(struct region *r, enum entry_op op,
                                const struct entry *e)
{
    batch_add_entry(&r->batch, op, e);
}

static inline void region_note(struct region *r, enum entry_op op,
                               const struct entry *e)
{
    struct entry *old = region_find(r, e);

    if (op == ENTRY_DELETE) {
        if (old) {
            *old = r->at[--r->count];
        }
        return;
    }
    if (old) {
        *old = *e;
        return;
    }
    if (r->count == r->cap) {
        r->cap = r->cap ? r->cap * 2 : 64;
        r->at = realloc(r->at, r->cap * sizeof *r->at);
        ck_assert_ptr_nonnull(r->at);
    }
    r->at[r->count++] = *e;
}

/* To the batch and to what should stand. */
static inline void region_do(struct region *r, enum entry_op op, const struct entry *e)
{
    region_queue(r, op, e);
    region_note(r, op, e);
}

/* Records and fib follow the queued batch; refused rows are put back in the records. */
static inline void region_commit(struct region *r, uint64_t oldest)
{
    struct blob *blob = batch_writer_finish(&r->batch);
    struct change_list changes = { 0 };
    struct rows_change total;
    struct err err = { 0 };

    fib_exceptions_fini(&r->refused);
    if (!blob) {
        return; /* nothing queued */
    }
    ck_assert_int_eq(
        table_set_apply(r->set, blob->data, blob->len, &changes, &total, &err), RC_OK);
    r->rc = fib_apply(r->fib, r->set, &changes, &r->refused);
    fib_reclaim(r->fib, oldest);
    if (r->refused.count) {
        fib_exceptions_revert(&r->refused, &changes, &r->batch);
        blob_unref(blob);
        blob = batch_writer_finish(&r->batch);
        ck_assert_int_eq(
            table_set_apply(r->set, blob->data, blob->len, NULL, &total, &err), RC_OK);
    }
    blob_unref(blob);
    change_list_fini(&changes);
}

/* ---- entries ---- */

static inline struct ip ip_of(const char *text)
{
    struct ip ip;

    ck_assert_int_eq(ip_parse(text, strlen(text), &ip, NULL), RC_OK);
    return ip;
}

static inline struct prefix prefix_of(const char *text)
{
    struct prefix p;

    ck_assert_int_eq(prefix_parse(text, strlen(text), &p, NULL), RC_OK);
    return p;
}

static inline struct entry vni_entry(uint32_t vni, uint8_t flags)
{
    struct entry e = { .table = TABLE_VNI, .vni = vni };

    e.vni_row.flags = flags;
    return e;
}

static inline struct entry route_entry(uint32_t vni, const char *prefix,
                                       enum route_scope scope, uint32_t to,
                                       const char *endpoint)
{
    struct entry e = { .table = TABLE_VXLAN_ROUTE, .vni = vni };

    e.route.dst = prefix_of(prefix);
    e.route.action.scope = (uint8_t)scope;
    if (scope == SCOPE_SERVICE) {
        snprintf(e.route.action.service, sizeof e.route.action.service, "%s", endpoint);
    } else {
        e.route.action.vni = to;
        if (endpoint) {
            e.route.action.endpoint = ip_of(endpoint);
        }
    }
    return e;
}

static inline struct entry vm_nc_entry(uint32_t vni, const char *vm, const char *nc,
                                       const char *mac)
{
    struct entry e = { .table = TABLE_VM_NC, .vni = vni };

    e.vm_nc.vm = ip_of(vm);
    e.vm_nc.nc = ip_of(nc);
    if (mac) {
        e.vm_nc.has_mac = true;
        ck_assert_int_eq(sscanf(mac, "%hhx:%hhx:%hhx:%hhx:%hhx:%hhx", &e.vm_nc.mac[0],
                                &e.vm_nc.mac[1], &e.vm_nc.mac[2], &e.vm_nc.mac[3],
                                &e.vm_nc.mac[4], &e.vm_nc.mac[5]),
                         6);
    }
    return e;
}

/* ---- queries ---- */

static inline struct fib_query query_of(uint32_t vni, const struct ip *dst)
{
    struct fib_query q;

    memset(&q, 0xa5, sizeof q); /* what the answer leaves is not zero by chance */
    memcpy(q.dst, dst->b, sizeof q.dst);
    q.vni = vni;
    q.family = dst->family;
    return q;
}

/* fib_resolve_burst() by the steps of a batch.  `*ret_probed`: answers that were plain
 * after both probes; may be null. */
static inline void resolve_by_batch(const struct fib *f, struct fib_query q[],
                                    unsigned n, unsigned *ret_probed)
{
    struct fib_batch b;

    fib_batch_init(&b);
    for (unsigned i = 0; i < n; i++) {
        uint64_t half[2];

        memcpy(half, q[i].dst, sizeof half);
        half[0] = __builtin_bswap64(half[0]);
        fib_batch_add4(&b, (uint8_t)i, q[i].vni, (uint32_t)(half[0] >> 32),
                       q[i].family == IP_V4);
        fib_batch_add6(&b, (uint8_t)i, q[i].vni, half[0], __builtin_bswap64(half[1]),
                       q[i].family == IP_V6);
    }
    fib_batch_begin(f, &b);
    fib_batch_probe(f, &b);
    fib_batch_step(f, &b); /* those in their second bucket */
    if (ret_probed) {
        *ret_probed = b.plain_count;
    }
    fib_batch_end(f, &b);
    ck_assert_uint_eq(b.plain_count + b.other_count, n);
    for (unsigned i = 0; i < b.plain_count; i++) {
        struct fib_query *to = &q[b.plain[i]];

        to->kind = FIB_LOCAL;
        to->vni_flags = 0;
        to->lookups = 1;
        to->scope = SCOPE_LOCAL;
        to->out_vni = to->vni;
        to->vni_changed = 0;
        to->addr_family = IP_V4;
        to->has_mac = 0;
        memset(to->addr, 0, sizeof to->addr);
        memcpy(to->addr, &b.plain_nc[i], 4);
    }
    for (unsigned i = 0; i < b.other_count; i++) {
        q[b.other[i]] = b.query[i];
    }
}

static inline struct fib_query region_ask(struct region *r, uint32_t vni,
                                          const char *dst)
{
    struct ip ip = ip_of(dst);
    struct fib_query q = query_of(vni, &ip);

    fib_resolve_burst(r->fib, &q, 1);
    return q;
}

struct naive_answer {
    enum fib_kind kind;
    uint8_t vni_flags;
    unsigned lookups;
    uint32_t out_vni;
    uint8_t scope;
    struct ip addr;
    bool has_mac;
    uint8_t mac[6];
    const char *service;
};

static inline const struct entry *naive_route(const struct region *r, uint32_t vni,
                                              const struct ip *dst)
{
    const struct entry *best = NULL;

    for (uint32_t i = 0; i < r->count; i++) {
        const struct entry *e = &r->at[i];

        if (e->table == TABLE_VXLAN_ROUTE && e->vni == vni &&
            prefix_contains(&e->route.dst, dst) &&
            (!best || e->route.dst.len > best->route.dst.len)) {
            best = e;
        }
    }
    return best;
}

/* Looks at every entry: the VNI, its longest prefix, peers, the VM. */
static inline struct naive_answer naive_resolve(const struct region *r, uint32_t vni,
                                                const struct ip *dst)
{
    struct naive_answer a = { .kind = FIB_DROP_VNI_UNKNOWN, .out_vni = vni };

    for (uint32_t i = 0; i < r->count; i++) {
        if (r->at[i].table == TABLE_VNI && r->at[i].vni == vni) {
            a.kind = FIB_DROP_ROUTE_MISS;
            a.vni_flags = r->at[i].vni_row.flags;
        }
    }
    if (a.kind == FIB_DROP_VNI_UNKNOWN) {
        return a;
    }
    while (a.lookups < 4) {
        const struct entry *route = naive_route(r, a.out_vni, dst);

        a.lookups++;
        a.scope = route ? route->route.action.scope : 0;
        switch (a.scope) {
        case 0:
            a.kind = FIB_DROP_ROUTE_MISS;
            return a;
        case SCOPE_LOCAL:
            a.kind = FIB_DROP_VM_NC_MISS;
            for (uint32_t i = 0; i < r->count; i++) {
                const struct entry *e = &r->at[i];

                if (e->table == TABLE_VM_NC && e->vni == a.out_vni &&
                    ip_compare(&e->vm_nc.vm, dst) == 0) {
                    a.kind = FIB_LOCAL;
                    a.addr = e->vm_nc.nc;
                    a.has_mac = e->vm_nc.has_mac;
                    memcpy(a.mac, e->vm_nc.mac, sizeof a.mac);
                }
            }
            return a;
        case SCOPE_INTERNET:
            a.kind = FIB_INTERNET;
            return a;
        case SCOPE_SERVICE:
            a.kind = FIB_SERVICE;
            a.service = route->route.action.service;
            return a;
        case SCOPE_PEER:
            if (a.lookups < 4) {
                a.out_vni = route->route.action.vni;
            }
            break;
        default:
            a.kind = FIB_TUNNEL;
            a.addr = route->route.action.endpoint;
            a.out_vni = route->route.action.vni;
            return a;
        }
    }
    a.kind = FIB_DROP_TOO_MANY_LOOKUPS;
    return a;
}

static inline void assert_answer(struct region *r, const struct fib_query *q,
                                 const struct naive_answer *a)
{
    ck_assert_uint_eq(q->kind, a->kind);
    ck_assert_uint_eq(q->vni_flags, a->vni_flags);
    ck_assert_uint_eq(q->lookups, a->lookups);
    ck_assert_uint_eq(q->out_vni, a->out_vni);
    ck_assert_uint_eq(q->scope, a->scope);
    ck_assert_uint_eq(q->vni_changed, a->out_vni != q->vni);
    if (a->kind == FIB_LOCAL || a->kind == FIB_TUNNEL) {
        ck_assert_uint_eq(q->addr_family, a->addr.family);
        ck_assert_mem_eq(q->addr, a->addr.b, 16);
        ck_assert_uint_eq(q->has_mac, a->has_mac);
        if (a->has_mac) {
            ck_assert_mem_eq(q->mac, a->mac, 6);
        }
    }
    if (a->kind == FIB_SERVICE) {
        ck_assert_str_eq(fib_service_name(r->fib, q->service), a->service);
    }
}

/* Asks a burst of destinations, both ways, and holds every answer against the linear
 * scan. */
static inline void region_check(struct region *r, const uint32_t *vni,
                                const struct ip *dst, unsigned n)
{
    struct fib_query q[FIB_BURST_MAX];
    struct fib_query by_batch[FIB_BURST_MAX];

    for (unsigned i = 0; i < n; i++) {
        q[i] = by_batch[i] = query_of(vni[i], &dst[i]);
    }
    fib_resolve_burst(r->fib, q, n);
    resolve_by_batch(r->fib, by_batch, n, NULL);
    for (unsigned i = 0; i < n; i++) {
        struct naive_answer a = naive_resolve(r, vni[i], &dst[i]);

        assert_answer(r, &q[i], &a);
        if (a.kind == FIB_LOCAL && a.out_vni == vni[i]) {
            a.vni_flags = 0;
        }
        assert_answer(r, &by_batch[i], &a);
    }
}

/* The audit in parts sees what the audit in one piece sees.  Small parts, but no more
 * than some 256 of a large table: each part walks the whole structure. */
static inline void region_audit_parts(struct region *r, uint32_t vni)
{
    const struct rows *rows = table_set_rows(r->set, vni, TABLE_VXLAN_ROUTE);
    uint32_t part = 1 + vni % 7 + rows_count(rows) / 256;
    struct fib_audit_at at = { 0 };

    while (fib_audit_routes(r->fib, vni, rows, &at, part, NULL, NULL, NULL)) {
    }
    ck_assert_uint_eq(at.mismatches, 0);
}

/* Records against structures, both ways round. */
static inline void region_audit(struct region *r)
{
    static const uint32_t mask =
        1u << TABLE_VNI | 1u << TABLE_VXLAN_ROUTE | 1u << TABLE_VM_NC;
    struct fib_stats stats = fib_stats(r->fib);

    for (uint32_t vni = 1; (vni = table_set_next(r->set, vni, mask)) != 0; vni++) {
        for (unsigned t = TABLE_VNI; t <= TABLE_VM_NC; t++) {
            ck_assert_uint_eq(
                fib_audit(r->fib, t, vni, table_set_rows(r->set, vni, t), NULL, NULL),
                0);
        }
        region_audit_parts(r, vni);
    }
    ck_assert_uint_eq(stats.vnis, table_set_count(r->set, TABLE_VNI));
    ck_assert_uint_eq(stats.routes, table_set_count(r->set, TABLE_VXLAN_ROUTE));
    ck_assert_uint_eq(stats.vm_nc4 + stats.vm_nc6,
                      table_set_count(r->set, TABLE_VM_NC));
}
