/* random_entry - valid entries of every table from a seed, for property tests. */
#pragma once

#include <stdio.h>
#include <string.h>

#include "proto/model/entry.h"

/* splitmix64 (Steele, Lea, Flood 2014). */
static inline uint64_t random_next(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

static inline uint32_t random_below(uint64_t *state, uint32_t bound)
{
    return (uint32_t)(random_next(state) >> 32) % bound;
}

/* Some address of a machine: 10/8, or 2001:db8::/32 with runs of zeros. */
static inline struct ip random_ip(uint64_t *state)
{
    struct ip ip = ip_v4(UINT32_C(0x0a000000) | random_below(state, 1u << 24));

    if (random_below(state, 2)) {
        uint8_t b[16] = { 0x20, 0x01, 0x0d, 0xb8 };

        for (int i = 4; i < 16; i++) {
            b[i] = random_below(state, 3) ? 0 : (uint8_t)random_next(state);
        }
        ip = ip_v6(b);
    }
    return ip;
}

static inline void random_name(uint64_t *state, char *to, unsigned max)
{
    static const char chars[] = "abcxyzABCXYZ0189-._";
    unsigned len = 1 + random_below(state, max);

    for (unsigned i = 0; i < len; i++) {
        to[i] = chars[random_below(state, i ? sizeof(chars) - 1 : 12)];
    }
    to[len] = '\0';
}

/* Printable text with quotes, backslashes and characters of 2 to 4 bytes. */
static inline void random_display_name(uint64_t *state, char *to, unsigned max)
{
    static const char *const parts[] = { "a", " ",  "\"",     "\\",         "/",
                                         "ü", "云", "\u2028", "\U0001f6f0", "|,{}" };
    unsigned len = 0;

    to[0] = '\0';
    for (unsigned n = random_below(state, 12); n > 0; n--) {
        const char *part = parts[random_below(state, 10)];

        if (len + strlen(part) <= max) {
            len += (unsigned)sprintf(to + len, "%s", part);
        }
    }
}

static inline void random_action(uint64_t *state, uint32_t vni, struct route_action *a)
{
    a->scope = (uint8_t)(SCOPE_LOCAL + random_below(state, SCOPE_COUNT - SCOPE_LOCAL));
    switch (a->scope) {
    case SCOPE_PEER:
        a->vni = vni % VNI_MAX + 1;
        break;
    case SCOPE_IDC:
    case SCOPE_REGION:
    case SCOPE_DERIVED:
        a->endpoint = random_ip(state);
        a->vni = VNI_MIN + random_below(state, VNI_MAX);
        break;
    case SCOPE_SERVICE:
        random_name(state, a->service, SERVICE_NAME_MAX);
        break;
    default:
        break;
    }
}

static inline struct prefix random_prefix(uint64_t *state, uint8_t family)
{
    struct prefix p = { .addr = { 0 } };

    do {
        p.addr = random_ip(state);
    } while (p.addr.family != family);
    p.len = (uint8_t)random_below(state, ip_size(&p.addr) * 8 + 1);
    prefix_mask(&p);
    return p;
}

static inline struct port_range random_ports(uint64_t *state)
{
    uint16_t a = (uint16_t)random_next(state);
    uint16_t b = (uint16_t)random_next(state);

    switch (random_below(state, 3)) {
    case 0:
        return (struct port_range){ 0, UINT16_MAX };
    case 1:
        return (struct port_range){ a, a };
    default:
        return (struct port_range){ a < b ? a : b, a < b ? b : a };
    }
}

static inline void random_rule(uint64_t *state, struct entry *e)
{
    struct acl_match *m = &e->acl.match;
    uint8_t family = random_below(state, 2) ? IP_V4 : IP_V6;

    e->acl.priority = (uint16_t)(1 + random_below(state, ACL_PRIORITY_MAX));
    e->acl.action = (uint8_t)(ACL_PERMIT + random_below(state, 2));
    m->src = random_prefix(state, family);
    m->dst = random_prefix(state, family);
    m->has_proto = random_below(state, 4);
    m->proto = m->has_proto ? (uint8_t)random_next(state) : 0;
    m->sport = m->dport = (struct port_range){ 0, UINT16_MAX };
    if (m->has_proto && random_below(state, 2)) {
        m->proto = random_below(state, 2) ? IP_PROTO_TCP : IP_PROTO_UDP;
        m->sport = random_ports(state);
        m->dport = random_ports(state);
    }
}

static inline struct entry random_entry(uint64_t *state)
{
    struct entry e;

    memset(&e, 0, sizeof(e)); /* padding too: tests compare bytes */
    e.table = (uint8_t)random_below(state, TABLE_COUNT);
    e.vni = VNI_MIN + random_below(state, VNI_MAX);
    switch (e.table) {
    case TABLE_TENANT:
        e.tenant.flags = (uint8_t)random_below(state, 8) & TENANT_FLAGS;
        random_name(state, e.tenant.cluster, CLUSTER_NAME_MAX);
        if (random_below(state, 2)) {
            random_name(state, e.tenant.h_home, CLUSTER_NAME_MAX);
        }
        random_display_name(state, e.tenant.name, TENANT_NAME_MAX);
        break;
    case TABLE_VNI:
        e.vni_row.flags = (uint8_t)random_below(state, 8);
        e.vni_row.half = (uint8_t)random_below(state, VNI_HALF_COUNT);
        break;
    case TABLE_ACL:
        random_rule(state, &e);
        break;
    case TABLE_METER:
        e.meter.peak_bps = 1 + random_next(state) % METER_BPS_MAX;
        e.meter.committed_bps = random_next(state) % (e.meter.peak_bps + 1);
        e.meter.committed_burst = METER_BURST_MIN + random_below(state, 1u << 20);
        e.meter.peak_burst = e.meter.committed_burst + random_below(state, 1u << 20);
        break;
    case TABLE_VNI_CLUSTER:
        random_name(state, e.vni_cluster.cluster, CLUSTER_NAME_MAX);
        break;
    case TABLE_VXLAN_ROUTE:
        e.route.dst.addr = random_ip(state);
        e.route.dst.len =
            (uint8_t)random_below(state, ip_size(&e.route.dst.addr) * 8 + 1);
        prefix_mask(&e.route.dst);
        random_action(state, e.vni, &e.route.action);
        break;
    default:
        e.vm_nc.vm = random_ip(state);
        e.vm_nc.nc = random_ip(state);
        e.vm_nc.has_mac = random_below(state, 2);
        for (int i = 0; e.vm_nc.has_mac && i < 6; i++) {
            e.vm_nc.mac[i] = i ? (uint8_t)random_next(state) : 0x02;
        }
        break;
    }
    return e;
}

/* Equal in every field that the table has. */
static inline bool entry_same(const struct entry *a, const struct entry *b)
{
    struct buf x = BUF_INIT;
    struct buf y = BUF_INIT;
    bool same = a->table == b->table && a->vni == b->vni;

    if (same) {
        entry_pack_key(a, &x);
        entry_pack_value(a, &x);
        entry_pack_key(b, &y);
        entry_pack_value(b, &y);
        same = x.len == y.len && memcmp(x.data, y.data, x.len) == 0;
    }
    buf_fini(&x);
    buf_fini(&y);
    return same;
}
