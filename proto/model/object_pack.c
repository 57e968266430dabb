/*
 * The packed forms (numbers big-endian; name: length(1) bytes; ip?: 0, or tag(4|6) and
 * address; list: count and items):
 *
 *   region   'R' 1  name ecmp_limit(1) hold(4) icmp_v4:ip? icmp_v6:ip? sources
 *                   steering(1)
 *   cluster  'C' 1  name kind(1) state(1) side(1) flags(1) vip_v4:ip? vip_v6:ip?
 *                   backing:name fallback profile(1)
 *   node     'N' 1  name cluster kind(1) side(1) vtep_v4:ip? vtep_v6:ip?
 *                   fallback_v4:ip? fallback_v6:ip? uplinks
 *   policy   'P' 1  count(2) { service:name place(1) }*
 *   device   'D' 1  node cluster kind(1) flags(1) vtep_v4:ip? vtep_v6:ip? vip_v4:ip?
 *                   vip_v6:ip? icmp_v4:ip? icmp_v6:ip? sources uplinks
 *                   fallback_v4:ip? fallback_v6:ip? members fallback
 *                   of kind lb: count(2) { cluster:name node:name v4:ip? v6:ip? }*
 *   fallback { rate(8) burst(4) } for node.miss, node.service, tenant.miss,
 *            tenant.service; kinds without have zeros
 *   members  count(1) { v4:ip? v6:ip? }*
 *   sources  count(2) { tag(4|6) address length(1) }*
 *   uplinks  count(1) { port:name addr_v4:ip? addr_v6:ip? next_hop_v4:ip?
 *                       next_hop_v6:ip? has_mac(0|1) mac(0|6) mtu(2) }*
 *   flags    1 = udp6_zero_csum
 */
#include <stdlib.h>
#include <string.h>

#include "proto/model/object.h"
#include "proto/model/table_type.h"

enum { VERSION = 1, FLAG_UDP6_ZERO_CSUM = 1 };

static void pack_head(char kind, struct buf *to)
{
    buf_u8(to, (uint8_t)kind);
    buf_u8(to, VERSION);
}

static void pack_sources(const struct prefix *p, uint16_t count, struct buf *to)
{
    buf_u16(to, count);
    for (unsigned i = 0; i < count; i++) {
        pack_ip(&p[i].addr, to);
        buf_u8(to, p[i].len);
    }
}

static void pack_uplinks(const struct uplink *u, uint8_t count, struct buf *to)
{
    buf_u8(to, count);
    for (const struct uplink *end = u + count; u < end; u++) {
        pack_name(u->port, to);
        pack_ip(&u->addr_v4, to);
        pack_ip(&u->addr_v6, to);
        pack_ip(&u->next_hop_v4, to);
        pack_ip(&u->next_hop_v6, to);
        buf_u8(to, u->has_mac);
        if (u->has_mac) {
            buf_add(to, u->mac, sizeof(u->mac));
        }
        buf_u16(to, u->mtu);
    }
}

static void pack_policers(const struct policer *p, struct buf *to)
{
    for (unsigned i = 0; i < FALLBACK_CLASSES; i++) {
        buf_u64(to, p[i].rate_bps);
        buf_u32(to, p[i].burst_bytes);
    }
}

static void pack_fallback_meter(const struct fallback_meter *m, struct buf *to)
{
    pack_policers(m->node, to);
    pack_policers(m->tenant, to);
}

void region_pack(const struct region *r, struct buf *to)
{
    pack_head('R', to);
    pack_name(r->name, to);
    buf_u8(to, r->ecmp_limit);
    buf_u32(to, r->admission_hold_ms);
    pack_ip(&r->icmp_source_v4, to);
    pack_ip(&r->icmp_source_v6, to);
    pack_sources(r->underlay_sources, r->underlay_source_count, to);
    buf_u8(to, r->steering);
}

void cluster_pack(const struct cluster *c, struct buf *to)
{
    pack_head('C', to);
    pack_name(c->name, to);
    buf_u8(to, c->kind);
    buf_u8(to, c->state);
    buf_u8(to, (uint8_t)c->active_side);
    buf_u8(to, c->udp6_zero_csum ? FLAG_UDP6_ZERO_CSUM : 0);
    pack_ip(&c->vip_v4, to);
    pack_ip(&c->vip_v6, to);
    pack_name(c->backing, to);
    pack_fallback_meter(&c->fallback_meter, to);
    buf_u8(to, c->profile);
}

void node_pack(const struct node *n, struct buf *to)
{
    pack_head('N', to);
    pack_name(n->name, to);
    pack_name(n->cluster, to);
    buf_u8(to, n->kind);
    buf_u8(to, (uint8_t)n->side);
    pack_ip(&n->vtep_v4, to);
    pack_ip(&n->vtep_v6, to);
    pack_ip(&n->fallback_v4, to);
    pack_ip(&n->fallback_v6, to);
    pack_uplinks(n->uplinks, n->uplink_count, to);
}

void policy_pack(const struct policy *p, struct buf *to)
{
    pack_head('P', to);
    buf_u16(to, p->rule_count);
    for (unsigned i = 0; i < p->rule_count; i++) {
        pack_name(p->rules[i].service, to);
        buf_u8(to, p->rules[i].place);
    }
}

static void pack_cluster_members(const struct device_config *d, struct buf *to)
{
    buf_u16(to, d->cluster_member_count);
    for (unsigned i = 0; i < d->cluster_member_count; i++) {
        const struct cluster_member *m = &d->cluster_members[i];

        pack_name(m->cluster, to);
        pack_name(m->node, to);
        pack_ip(&m->v4, to);
        pack_ip(&m->v6, to);
    }
}

void device_config_pack(const struct device_config *d, struct buf *to)
{
    pack_head('D', to);
    pack_name(d->node, to);
    pack_name(d->cluster, to);
    buf_u8(to, d->kind);
    buf_u8(to, d->udp6_zero_csum ? FLAG_UDP6_ZERO_CSUM : 0);
    pack_ip(&d->vtep_v4, to);
    pack_ip(&d->vtep_v6, to);
    pack_ip(&d->vip_v4, to);
    pack_ip(&d->vip_v6, to);
    pack_ip(&d->icmp_source_v4, to);
    pack_ip(&d->icmp_source_v6, to);
    pack_sources(d->underlay_sources, d->underlay_source_count, to);
    pack_uplinks(d->uplinks, d->uplink_count, to);
    pack_ip(&d->fallback_v4, to);
    pack_ip(&d->fallback_v6, to);
    buf_u8(to, d->fallback_member_count);
    for (unsigned i = 0; i < d->fallback_member_count; i++) {
        pack_ip(&d->fallback_members[i].v4, to);
        pack_ip(&d->fallback_members[i].v6, to);
    }
    pack_fallback_meter(&d->fallback_meter, to);
    if (d->kind == DEVICE_LB) {
        pack_cluster_members(d, to);
    }
}

/* The readers below note any damage in `in->failed` and go on harmlessly. */

static void read_head(struct reader *in, char kind)
{
    if (read_u8(in) != (uint8_t)kind || read_u8(in) != VERSION) {
        in->failed = true;
    }
}

static void read_name(struct reader *in, char *to, size_t max)
{
    if (!unpack_name(in, to, max)) {
        in->failed = true;
    }
}

static void read_optional_ip(struct reader *in, struct ip *ret)
{
    if (reader_left(in) > 0 && *in->p == IP_NONE) {
        read_u8(in);
        *ret = (struct ip){ 0 };
    } else if (!unpack_ip(in, ret)) {
        in->failed = true;
    }
}

static bool read_flag(struct reader *in, uint8_t bit)
{
    uint8_t v = read_u8(in);

    if (v & ~bit) {
        in->failed = true;
    }
    return v & bit;
}

static void read_sources(struct reader *in, struct prefix *to, uint16_t *ret_count)
{
    uint16_t count = read_u16(in);

    if (count > UNDERLAY_SOURCES_MAX) {
        in->failed = true;
        return;
    }
    for (unsigned i = 0; i < count && !in->failed; i++) {
        if (!unpack_ip(in, &to[i].addr)) {
            in->failed = true;
        }
        to[i].len = read_u8(in);
    }
    *ret_count = count;
}

static void read_uplink(struct reader *in, struct uplink *u)
{
    read_name(in, u->port, PORT_NAME_MAX);
    read_optional_ip(in, &u->addr_v4);
    read_optional_ip(in, &u->addr_v6);
    read_optional_ip(in, &u->next_hop_v4);
    read_optional_ip(in, &u->next_hop_v6);
    u->has_mac = read_flag(in, 1);
    if (u->has_mac) {
        const uint8_t *mac = read_bytes(in, sizeof(u->mac));

        if (mac) {
            memcpy(u->mac, mac, sizeof(u->mac));
        }
    }
    u->mtu = read_u16(in);
}

static void read_uplinks(struct reader *in, struct uplink *to, uint8_t *ret_count)
{
    uint8_t count = read_u8(in);

    if (count > UPLINKS_MAX) {
        in->failed = true;
        return;
    }
    for (unsigned i = 0; i < count && !in->failed; i++) {
        read_uplink(in, &to[i]);
    }
    *ret_count = count;
}

static void read_policers(struct reader *in, struct policer *to)
{
    for (unsigned i = 0; i < FALLBACK_CLASSES; i++) {
        to[i].rate_bps = read_u64(in);
        to[i].burst_bytes = read_u32(in);
    }
}

static void read_fallback_meter(struct reader *in, struct fallback_meter *to)
{
    read_policers(in, to->node);
    read_policers(in, to->tenant);
}

static void read_members(struct reader *in, struct fallback_member *to,
                         uint8_t *ret_count)
{
    uint8_t count = read_u8(in);

    if (count > FALLBACK_MEMBERS_MAX) {
        in->failed = true;
        return;
    }
    for (unsigned i = 0; i < count && !in->failed; i++) {
        read_optional_ip(in, &to[i].v4);
        read_optional_ip(in, &to[i].v6);
    }
    *ret_count = count;
}

static enum rc check_form(const struct reader *in, const char *what, struct err *err)
{
    if (in->failed || reader_left(in) > 0) {
        return err_field(err, RC_INVALID, what, "packed_form", "%s: malformed bytes",
                         what);
    }
    return RC_OK;
}

/* A region, a policy and a device configuration are 10 to 30 KiB: too much for a stack
 * that a caller may have made small, so these are built on the heap. */

enum rc region_unpack(const void *bytes, size_t len, struct region *ret,
                      struct err *err)
{
    struct reader in = reader_of(bytes, len);
    struct region *r = calloc(1, sizeof(*r));
    enum rc rc;

    if (!r) {
        return err_set(err, RC_NO_MEMORY, "region: no memory");
    }
    read_head(&in, 'R');
    read_name(&in, r->name, REGION_NAME_MAX);
    r->ecmp_limit = read_u8(&in);
    r->admission_hold_ms = read_u32(&in);
    read_optional_ip(&in, &r->icmp_source_v4);
    read_optional_ip(&in, &r->icmp_source_v6);
    read_sources(&in, r->underlay_sources, &r->underlay_source_count);
    r->steering = read_u8(&in);
    rc = check_form(&in, "region", err);
    rc = rc ? rc : region_check(r, err);
    if (rc == RC_OK) {
        memcpy(ret, r, sizeof(*ret));
    }
    free(r);
    return rc;
}

enum rc cluster_unpack(const void *bytes, size_t len, struct cluster *ret,
                       struct err *err)
{
    struct reader in = reader_of(bytes, len);
    struct cluster c;
    enum rc rc;

    memset(&c, 0, sizeof(c));
    read_head(&in, 'C');
    read_name(&in, c.name, CLUSTER_NAME_MAX);
    c.kind = read_u8(&in);
    c.state = read_u8(&in);
    c.active_side = (char)read_u8(&in);
    c.udp6_zero_csum = read_flag(&in, FLAG_UDP6_ZERO_CSUM);
    read_optional_ip(&in, &c.vip_v4);
    read_optional_ip(&in, &c.vip_v6);
    read_name(&in, c.backing, CLUSTER_NAME_MAX);
    read_fallback_meter(&in, &c.fallback_meter);
    c.profile = read_u8(&in);
    rc = check_form(&in, "cluster", err);
    rc = rc ? rc : cluster_check(&c, err);
    if (rc == RC_OK) {
        memcpy(ret, &c, sizeof(*ret));
    }
    return rc;
}

enum rc node_unpack(const void *bytes, size_t len, struct node *ret, struct err *err)
{
    struct reader in = reader_of(bytes, len);
    struct node n;
    enum rc rc;

    memset(&n, 0, sizeof(n));
    read_head(&in, 'N');
    read_name(&in, n.name, NODE_NAME_MAX);
    read_name(&in, n.cluster, CLUSTER_NAME_MAX);
    n.kind = read_u8(&in);
    n.side = (char)read_u8(&in);
    read_optional_ip(&in, &n.vtep_v4);
    read_optional_ip(&in, &n.vtep_v6);
    read_optional_ip(&in, &n.fallback_v4);
    read_optional_ip(&in, &n.fallback_v6);
    read_uplinks(&in, n.uplinks, &n.uplink_count);
    rc = check_form(&in, "node", err);
    rc = rc ? rc : node_check(&n, err);
    if (rc == RC_OK) {
        memcpy(ret, &n, sizeof(*ret));
    }
    return rc;
}

static void read_rules(struct reader *in, struct policy *p)
{
    uint16_t count = read_u16(in);

    if (count > POLICY_RULES_MAX) {
        in->failed = true;
        return;
    }
    for (unsigned i = 0; i < count && !in->failed; i++) {
        read_name(in, p->rules[i].service, POLICY_SERVICE_MAX);
        p->rules[i].place = read_u8(in);
    }
    p->rule_count = count;
}

enum rc policy_unpack(const void *bytes, size_t len, struct policy *ret,
                      struct err *err)
{
    struct reader in = reader_of(bytes, len);
    struct policy *p = calloc(1, sizeof(*p));
    enum rc rc;

    if (!p) {
        return err_set(err, RC_NO_MEMORY, "policy: no memory");
    }
    read_head(&in, 'P');
    read_rules(&in, p);
    rc = check_form(&in, "policy", err);
    rc = rc ? rc : policy_check(p, err);
    if (rc == RC_OK) {
        memcpy(ret, p, sizeof(*ret));
    }
    free(p);
    return rc;
}

static void read_cluster_members(struct reader *in, struct device_config *d)
{
    uint16_t count = read_u16(in);

    if (count > CLUSTER_MEMBERS_MAX) {
        in->failed = true;
        return;
    }
    for (unsigned i = 0; i < count && !in->failed; i++) {
        struct cluster_member *m = &d->cluster_members[i];

        read_name(in, m->cluster, CLUSTER_NAME_MAX);
        read_name(in, m->node, NODE_NAME_MAX);
        read_optional_ip(in, &m->v4);
        read_optional_ip(in, &m->v6);
    }
    d->cluster_member_count = count;
}

static void read_device_config(struct reader *in, struct device_config *d)
{
    read_head(in, 'D');
    read_name(in, d->node, NODE_NAME_MAX);
    read_name(in, d->cluster, CLUSTER_NAME_MAX);
    d->kind = read_u8(in);
    d->udp6_zero_csum = read_flag(in, FLAG_UDP6_ZERO_CSUM);
    read_optional_ip(in, &d->vtep_v4);
    read_optional_ip(in, &d->vtep_v6);
    read_optional_ip(in, &d->vip_v4);
    read_optional_ip(in, &d->vip_v6);
    read_optional_ip(in, &d->icmp_source_v4);
    read_optional_ip(in, &d->icmp_source_v6);
    read_sources(in, d->underlay_sources, &d->underlay_source_count);
    read_uplinks(in, d->uplinks, &d->uplink_count);
    read_optional_ip(in, &d->fallback_v4);
    read_optional_ip(in, &d->fallback_v6);
    read_members(in, d->fallback_members, &d->fallback_member_count);
    read_fallback_meter(in, &d->fallback_meter);
    if (d->kind == DEVICE_LB) {
        read_cluster_members(in, d);
    }
}

enum rc device_config_unpack(const void *bytes, size_t len, struct device_config *ret,
                             struct err *err)
{
    struct reader in = reader_of(bytes, len);
    struct device_config *d = calloc(1, sizeof(*d));
    enum rc rc;

    if (!d) {
        return err_set(err, RC_NO_MEMORY, "device configuration: no memory");
    }
    read_device_config(&in, d);
    rc = check_form(&in, "device_config", err);
    rc = rc ? rc : device_config_check(d, err);
    if (rc == RC_OK) {
        memcpy(ret, d, sizeof(*ret));
    }
    free(d);
    return rc;
}
