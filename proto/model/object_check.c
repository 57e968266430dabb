/* The rules that one configuration object can break alone. */
#include <stdio.h>
#include <string.h>

#include "proto/model/mac.h"
#include "proto/model/name.h"
#include "proto/model/object.h"
#include "proto/model/table_type.h"

enum { FIELD_NAME_MAX = 64 };

/* "uplinks[1].mtu", or the plain name where `list` is null. */
static const char *field_at(const char *list, unsigned index, const char *name,
                            char to[FIELD_NAME_MAX])
{
    if (list) {
        snprintf(to, FIELD_NAME_MAX, "%s[%u]%s%s", list, index, *name ? "." : "", name);
    } else {
        snprintf(to, FIELD_NAME_MAX, "%s", name);
    }
    return to;
}

/* A machine's address of that family, or none. */
static enum rc check_optional_ip(const struct ip *ip, uint8_t family, const char *field,
                                 struct err *err)
{
    if (ip->family == IP_NONE) {
        return RC_OK;
    }
    if (ip->family != family) {
        return err_field(err, RC_INVALID, field, "family_mismatch",
                         "%s: not an IPv%u address", field, family);
    }
    return check_machine_address(ip, field, err);
}

/* The pair NAME_v4, NAME_v6, at least one of them where `is_needed`. */
static enum rc check_pair(const struct ip *v4, const struct ip *v6, const char *list,
                          unsigned index, const char *name, bool is_needed,
                          struct err *err)
{
    char member[32];
    char field[FIELD_NAME_MAX];
    enum rc rc;

    snprintf(member, sizeof(member), "%s_v4", name);
    field_at(list, index, member, field);
    if (is_needed && v4->family == IP_NONE && v6->family == IP_NONE) {
        return err_field(err, RC_INVALID, field, "address_needed",
                         "%s: neither an IPv4 nor an IPv6 address", field);
    }
    rc = check_optional_ip(v4, IP_V4, field, err);
    if (rc != RC_OK) {
        return rc;
    }
    snprintf(member, sizeof(member), "%s_v6", name);
    return check_optional_ip(v6, IP_V6, field_at(list, index, member, field), err);
}

static enum rc check_side(char side, const char *field, struct err *err)
{
    if (side != 'a' && side != 'b') {
        return err_field(err, RC_INVALID, field, "side", "%s: not a or b", field);
    }
    return RC_OK;
}

static enum rc check_kind(const char *name, unsigned kind, struct err *err)
{
    if (strcmp(name, "unknown") == 0) {
        return err_field(err, RC_INVALID, "kind", "kind_known", "kind %u: no such",
                         kind);
    }
    return RC_OK;
}

static enum rc check_policer(const struct policer *p, const char *list,
                             const char *name, struct err *err)
{
    char field[FIELD_NAME_MAX];

    if (p->rate_bps < 1 || p->rate_bps > METER_BPS_MAX) {
        snprintf(field, sizeof(field), "%s.%s.rate_bps", list, name);
        return err_field(
            err, RC_RANGE, field, "meter_rate", "%s %llu: not in 1-%llu bit/s", field,
            (unsigned long long)p->rate_bps, (unsigned long long)METER_BPS_MAX);
    }
    if (p->burst_bytes < METER_BURST_MIN || p->burst_bytes > METER_BURST_MAX) {
        snprintf(field, sizeof(field), "%s.%s.burst_bytes", list, name);
        return err_field(err, RC_RANGE, field, "meter_burst",
                         "%s %u: not in %u-%u bytes", field, p->burst_bytes,
                         METER_BURST_MIN, METER_BURST_MAX);
    }
    return RC_OK;
}

static enum rc check_fallback_meter(const struct fallback_meter *m, struct err *err)
{
    enum rc rc = RC_OK;

    for (unsigned i = 0; rc == RC_OK && i < FALLBACK_CLASSES; i++) {
        const char *name = fallback_class_name(i);

        rc = check_policer(&m->node[i], "fallback_meter.node", name, err);
        rc = rc ? rc : check_policer(&m->tenant[i], "fallback_meter.tenant", name, err);
    }
    return rc;
}

static bool policer_is_set(const struct policer *p)
{
    return p->rate_bps || p->burst_bytes;
}

static bool fallback_meter_is_set(const struct fallback_meter *m)
{
    bool is_set = false;

    for (unsigned i = 0; i < FALLBACK_CLASSES; i++) {
        is_set = is_set || policer_is_set(&m->node[i]) || policer_is_set(&m->tenant[i]);
    }
    return is_set;
}

/* What only XGW-H clusters say, and they must. */
static enum rc check_of_xgw_h(const struct cluster *c, struct err *err)
{
    enum rc rc;

    if (c->kind != CLUSTER_XGW_H) {
        const char *field = c->backing[0] ? "backing"
                            : c->profile  ? "profile"
                                          : "fallback_meter";

        if (c->backing[0] || c->profile || fallback_meter_is_set(&c->fallback_meter)) {
            return err_field(err, RC_INVALID, field, "xgw_h_only",
                             "%s: only a cluster of kind xgw-h has one", field);
        }
        return RC_OK;
    }
    if (c->profile > TABLES_BENCH) {
        return err_field(err, RC_RANGE, "profile", "profile_known",
                         "profile %u: not a size of tables", c->profile);
    }
    rc = name_check(c->backing, CLUSTER_NAME_MAX, "backing", err);
    if (rc == RC_OK && strcmp(c->backing, c->name) == 0) {
        return err_field(err, RC_INVALID, "backing", "backing_self",
                         "backing: a cluster does not back itself");
    }
    return rc ? rc : check_fallback_meter(&c->fallback_meter, err);
}

/* An x86 node's fallback addresses, each apart from the VTEP of its family: it is by
 * the address that the node knows what has passed ACL and meter. */
static enum rc check_fallback(uint8_t kind, const struct ip *v4, const struct ip *v6,
                              const struct ip *vtep_v4, const struct ip *vtep_v6,
                              struct err *err)
{
    enum rc rc = check_pair(v4, v6, NULL, 0, "fallback", false, err);

    if (rc != RC_OK) {
        return rc;
    }
    for (int i = 0; i < 2; i++) {
        const struct ip *ip = i ? v6 : v4;
        const char *field = i ? "fallback_v6" : "fallback_v4";

        if (ip->family != IP_NONE && kind != DEVICE_X86) {
            return err_field(err, RC_INVALID, field, "x86_only",
                             "%s: only x86 nodes take fallback packets", field);
        }
        if (ip->family != IP_NONE && ip_compare(ip, i ? vtep_v6 : vtep_v4) == 0) {
            return err_field(err, RC_INVALID, field, "address_in_use",
                             "%s: is the VTEP already", field);
        }
    }
    return RC_OK;
}

static enum rc check_members(const struct device_config *d, struct err *err)
{
    char field[FIELD_NAME_MAX];
    enum rc rc = RC_OK;

    if (device_kind_cluster(d->kind) != CLUSTER_XGW_H) {
        if (d->fallback_member_count || fallback_meter_is_set(&d->fallback_meter)) {
            return err_field(err, RC_INVALID, "fallback_members", "xgw_h_only",
                             "fallback_members: only XGW-H falls back");
        }
        return RC_OK;
    }
    if (d->fallback_member_count > FALLBACK_MEMBERS_MAX) {
        return err_field(err, RC_RANGE, "fallback_members", "list_length",
                         "fallback_members: more than %d", FALLBACK_MEMBERS_MAX);
    }
    for (unsigned i = 0; rc == RC_OK && i < d->fallback_member_count; i++) {
        const struct fallback_member *m = &d->fallback_members[i];

        if (!m->v4.family && !m->v6.family) {
            field_at("fallback_members", i, "v4", field);
            return err_field(err, RC_INVALID, field, "address_needed",
                             "%s: neither an IPv4 nor an IPv6 address", field);
        }
        rc = check_optional_ip(&m->v4, IP_V4,
                               field_at("fallback_members", i, "v4", field), err);
        rc = rc ? rc
                : check_optional_ip(&m->v6, IP_V6,
                                    field_at("fallback_members", i, "v6", field), err);
    }
    return rc ? rc : check_fallback_meter(&d->fallback_meter, err);
}

static int compare_cluster_members(const struct cluster_member *a,
                                   const struct cluster_member *b)
{
    int order = strcmp(a->cluster, b->cluster);

    return order ? order : strcmp(a->node, b->node);
}

static enum rc check_cluster_member(const struct device_config *d, unsigned i,
                                    struct err *err)
{
    const struct cluster_member *m = &d->cluster_members[i];
    char field[FIELD_NAME_MAX];
    enum rc rc;

    rc = name_check(m->cluster, CLUSTER_NAME_MAX,
                    field_at("cluster_members", i, "cluster", field), err);
    rc = rc ? rc
            : name_check(m->node, NODE_NAME_MAX,
                         field_at("cluster_members", i, "node", field), err);
    rc = rc ? rc : check_pair(&m->v4, &m->v6, "cluster_members", i, "vtep", true, err);
    field_at("cluster_members", i, "", field);
    if (rc == RC_OK && i > 0 && compare_cluster_members(m - 1, m) >= 0) {
        return err_field(err, RC_INVALID, field, "ascending",
                         "%s: not above the one before it", field);
    }
    if (rc == RC_OK && i >= CLUSTER_SIDE_MAX &&
        strcmp(m->cluster, (m - CLUSTER_SIDE_MAX)->cluster) == 0) {
        return err_field(err, RC_RANGE, field, "list_length",
                         "cluster %s: more than %d members", m->cluster,
                         CLUSTER_SIDE_MAX);
    }
    return rc;
}

static enum rc check_cluster_members(const struct device_config *d, struct err *err)
{
    enum rc rc = RC_OK;

    if (d->kind != DEVICE_LB && d->cluster_member_count > 0) {
        return err_field(err, RC_INVALID, "cluster_members", "lb_only",
                         "cluster_members: only load balancers choose among them");
    }
    if (d->cluster_member_count > CLUSTER_MEMBERS_MAX) {
        return err_field(err, RC_RANGE, "cluster_members", "list_length",
                         "cluster_members: more than %d", CLUSTER_MEMBERS_MAX);
    }
    for (unsigned i = 0; rc == RC_OK && i < d->cluster_member_count; i++) {
        rc = check_cluster_member(d, i, err);
    }
    return rc;
}

static enum rc check_sources(const struct prefix *p, unsigned count, struct err *err)
{
    char field[FIELD_NAME_MAX];

    if (count > UNDERLAY_SOURCES_MAX) {
        return err_field(err, RC_RANGE, "underlay_sources", "list_length",
                         "underlay_sources: more than %d", UNDERLAY_SOURCES_MAX);
    }
    for (unsigned i = 0; i < count; i++) {
        enum rc rc =
            check_prefix(&p[i], field_at("underlay_sources", i, "", field), err);

        if (rc != RC_OK) {
            return rc;
        }
        if (i > 0 && prefix_compare(&p[i - 1], &p[i]) >= 0) {
            return err_field(err, RC_INVALID, field, "ascending",
                             "%s: not above the one before it", field);
        }
    }
    return RC_OK;
}

static enum rc check_port(const struct uplink *all, unsigned index, struct err *err)
{
    static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                                  "0123456789-._:";
    const char *port = all[index].port;
    size_t len = strnlen(port, PORT_NAME_MAX + 1);
    char field[FIELD_NAME_MAX];

    field_at("uplinks", index, "port", field);
    if (len == 0 || len > PORT_NAME_MAX) {
        return err_field(err, RC_RANGE, field, "name_length",
                         "%s: a port name has 1 to %d characters", field,
                         PORT_NAME_MAX);
    }
    if (strspn(port, allowed) != len) {
        return err_field(err, RC_INVALID, field, "name_syntax",
                         "%s: a port name is letters, digits, '-', '.', '_' and ':'",
                         field);
    }
    for (unsigned i = 0; i < index; i++) {
        if (strcmp(all[i].port, port) == 0) {
            return err_field(err, RC_INVALID, field, "port_once",
                             "%s: uplinks[%u] has this port", field, i);
        }
    }
    return RC_OK;
}

static enum rc check_uplink(const struct uplink *all, unsigned index, struct err *err)
{
    const struct uplink *u = &all[index];
    char field[FIELD_NAME_MAX];
    enum rc rc = check_port(all, index, err);

    if (rc == RC_OK) {
        rc = check_pair(&u->addr_v4, &u->addr_v6, "uplinks", index, "addr", true, err);
    }
    if (rc == RC_OK) {
        rc = check_pair(&u->next_hop_v4, &u->next_hop_v6, "uplinks", index, "next_hop",
                        true, err);
    }
    if (rc != RC_OK) {
        return rc;
    }
    for (int v6 = 0; v6 < 2; v6++) {
        const struct ip *addr = v6 ? &u->addr_v6 : &u->addr_v4;
        const struct ip *hop = v6 ? &u->next_hop_v6 : &u->next_hop_v4;

        field_at("uplinks", index, v6 ? "next_hop_v6" : "next_hop_v4", field);
        if (addr->family != hop->family) {
            return err_field(err, RC_INVALID, field, "next_hop_pair",
                             "%s: address and next hop of a family come together",
                             field);
        }
        if (addr->family != IP_NONE && ip_compare(addr, hop) == 0) {
            return err_field(err, RC_INVALID, field, "next_hop_self",
                             "%s: is the uplink's own address", field);
        }
    }
    if (u->has_mac) {
        rc = mac_check(u->mac, field_at("uplinks", index, "mac", field), err);
    }
    if (rc == RC_OK && (u->mtu < UPLINK_MTU_MIN || u->mtu > UPLINK_MTU_MAX)) {
        field_at("uplinks", index, "mtu", field);
        rc = err_field(err, RC_RANGE, field, "mtu_range", "%s %u: not in %d-%d", field,
                       u->mtu, UPLINK_MTU_MIN, UPLINK_MTU_MAX);
    }
    return rc;
}

static enum rc check_uplinks(const struct uplink *all, unsigned count, struct err *err)
{
    enum rc rc = RC_OK;

    if (count > UPLINKS_MAX) {
        return err_field(err, RC_RANGE, "uplinks", "list_length",
                         "uplinks: more than %d", UPLINKS_MAX);
    }
    for (unsigned i = 0; rc == RC_OK && i < count; i++) {
        rc = check_uplink(all, i, err);
    }
    return rc;
}

enum rc region_check(const struct region *r, struct err *err)
{
    enum rc rc = name_check(r->name, REGION_NAME_MAX, "name", err);

    if (rc == RC_OK && r->steering > STEERING_LB) {
        return err_field(err, RC_INVALID, "steering", "steering_known",
                         "steering %u: no such", r->steering);
    }
    if (rc == RC_OK) {
        rc = check_pair(&r->icmp_source_v4, &r->icmp_source_v6, NULL, 0, "icmp_source",
                        false, err);
    }
    if (rc == RC_OK && r->ecmp_limit > ECMP_LIMIT_MAX) {
        return err_field(err, RC_RANGE, "ecmp_limit", "ecmp_limit",
                         "ecmp_limit: more than %d", ECMP_LIMIT_MAX);
    }
    if (rc == RC_OK && r->admission_hold_ms > ADMISSION_HOLD_MS_MAX) {
        return err_field(err, RC_RANGE, "admission_hold_ms", "range",
                         "admission_hold_ms: more than %d", ADMISSION_HOLD_MS_MAX);
    }
    return rc ? rc : check_sources(r->underlay_sources, r->underlay_source_count, err);
}

enum rc cluster_check(const struct cluster *c, struct err *err)
{
    enum rc rc = name_check(c->name, CLUSTER_NAME_MAX, "name", err);

    rc = rc ? rc : check_kind(cluster_kind_name(c->kind), c->kind, err);
    if (rc == RC_OK && c->state >= CLUSTER_STATES) {
        return err_field(err, RC_RANGE, "state", "cluster_state",
                         "state %u: not a state of a cluster", c->state);
    }
    rc = rc ? rc : check_side(c->active_side, "active_side", err);
    rc = rc ? rc : check_pair(&c->vip_v4, &c->vip_v6, NULL, 0, "vip", true, err);
    return rc ? rc : check_of_xgw_h(c, err);
}

enum rc node_check(const struct node *n, struct err *err)
{
    enum rc rc = name_check(n->name, NODE_NAME_MAX, "name", err);

    rc = rc ? rc : name_check(n->cluster, CLUSTER_NAME_MAX, "cluster", err);
    rc = rc ? rc : check_kind(device_kind_name(n->kind), n->kind, err);
    rc = rc ? rc : check_side(n->side, "side", err);
    rc = rc ? rc : check_pair(&n->vtep_v4, &n->vtep_v6, NULL, 0, "vtep", true, err);
    rc = rc ? rc
            : check_fallback(n->kind, &n->fallback_v4, &n->fallback_v6, &n->vtep_v4,
                             &n->vtep_v6, err);
    return rc ? rc : check_uplinks(n->uplinks, n->uplink_count, err);
}

enum rc device_config_check(const struct device_config *d, struct err *err)
{
    enum rc rc = name_check(d->node, NODE_NAME_MAX, "node", err);

    rc = rc ? rc : name_check(d->cluster, CLUSTER_NAME_MAX, "cluster", err);
    rc = rc ? rc : check_kind(device_kind_name(d->kind), d->kind, err);
    rc = rc ? rc : check_pair(&d->vtep_v4, &d->vtep_v6, NULL, 0, "vtep", true, err);
    rc = rc ? rc : check_pair(&d->vip_v4, &d->vip_v6, NULL, 0, "vip", true, err);
    if (rc == RC_OK) {
        rc = check_pair(&d->icmp_source_v4, &d->icmp_source_v6, NULL, 0, "icmp_source",
                        false, err);
    }
    rc = rc ? rc : check_sources(d->underlay_sources, d->underlay_source_count, err);
    rc = rc ? rc : check_uplinks(d->uplinks, d->uplink_count, err);
    rc = rc ? rc
            : check_fallback(d->kind, &d->fallback_v4, &d->fallback_v6, &d->vtep_v4,
                             &d->vtep_v6, err);
    rc = rc ? rc : check_members(d, err);
    return rc ? rc : check_cluster_members(d, err);
}
