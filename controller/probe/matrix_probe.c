/* matrix_probe: the probe of a cell, made of the picks and a node's configuration. */
#include "controller/probe/matrix_impl.h"

#include <string.h>

#include "controller/probe/address.h"

#define ETH 14
/* What a frame must have room for beside its filler (twist.c). */
#define FRAME_MARGIN 64
#define VNI_TRIES    1000

struct making {
    const struct matrix *m;
    const struct picks *picks;
    const struct probe_node *node;
    const struct matrix_cell *cell;
    uint64_t number;
    struct probe *probe;
};

static bool has_vtep(const struct device_config *c, uint8_t family)
{
    return (family == IP_V4 ? &c->vtep_v4 : &c->vtep_v6)->family != IP_NONE;
}

/* The cell's, or one that the node is reached over. */
static uint8_t underlay_of(const struct making *k)
{
    if (k->cell->underlay != IP_NONE) {
        return k->cell->underlay;
    }
    return has_vtep(k->node->config, IP_V4) ? IP_V4 : IP_V6;
}

/* The packet to a pick, not yet what must come of it. */
static void begin(const struct making *k, const struct pick *pick)
{
    struct vxlan_packet *p = &k->probe->sent;

    probe_begin(k->node, pick->vni, &pick->dst, underlay_of(k), k->number, k->probe);
    if (pick->src.family != IP_NONE) {
        p->src = pick->src;
        p->sport = pick->sport;
        p->dport = pick->dport;
    }
}

static bool is_reason(const struct making *k, const char *reason)
{
    return k->probe->want.outcome == PROBE_DROPPED &&
           strcmp(k->probe->want.reason, reason) == 0;
}

/* What must come of it, which is to be as `is_so` says the cell means it. */
static enum matrix_reach finish(const struct making *k,
                                bool (*is_so)(const struct making *k))
{
    probe_expect(k->node, k->probe);
    if (is_so(k)) {
        return MATRIX_COVERED;
    }
    return is_reason(k, "source_check") ? MATRIX_NO_SOURCE : MATRIX_CHANGED;
}

/* ---- entries ---- */

static bool is_the_way(const struct making *k)
{
    const struct probe_way *way = &k->probe->way;
    const struct matrix_cell *c = k->cell;

    return way->end == c->what && way->hops == c->hops &&
           (c->out == IP_NONE || way->to.family == c->out);
}

static bool follows_entries(const struct making *k)
{
    return k->probe->way.end != WAY_ENDS;
}

static bool is_ruled_so(const struct making *k)
{
    return is_reason(k, "acl_deny") == (k->cell->what == CELL_RULE_DENY) &&
           !is_reason(k, "source_check");
}

static const struct pick *pick_of(const struct making *k)
{
    const struct matrix_cell *c = k->cell;
    unsigned in = matrix_index(c->inner);

    switch (c->kind) {
    case MATRIX_WAY:
        return &k->picks->ways[c->what][c->hops][in][matrix_index(c->out)];
    case MATRIX_ROUTE:
        return &k->picks->routes[c->what][in];
    case MATRIX_HALF:
        return &k->picks->halves[c->what][in];
    case MATRIX_RULE:
        return &k->picks->rules[c->what][c->proto][in];
    default:
        return &k->picks->meters[in];
    }
}

static enum matrix_reach from_entries(const struct making *k)
{
    const struct pick *pick = pick_of(k);

    if (pick->vni == 0) {
        return matrix_was_cut(k->m) ? MATRIX_NOT_FOUND : MATRIX_NO_ENTRY;
    }
    begin(k, pick);
    if (k->cell->kind == MATRIX_RULE) {
        k->probe->twist = (uint8_t)matrix_twist_of(k->cell->proto);
        return finish(k, is_ruled_so);
    }
    return finish(k, k->cell->kind == MATRIX_WAY ? is_the_way : follows_entries);
}

/* ---- packets that are to get as far as the entries, or anywhere ---- */

static const struct pick *forwarded(const struct making *k, unsigned first,
                                    unsigned last, unsigned hops_min, unsigned hops_max,
                                    unsigned in)
{
    unsigned same = matrix_index(underlay_of(k));

    for (unsigned out = 0; out < 2; out++) { /* rather to the same family */
        for (unsigned end = first; end <= last; end++) {
            for (unsigned hops = hops_min; hops <= hops_max; hops++) {
                const struct pick *p =
                    &k->picks->ways[end][hops][in][out == 0 ? same : 1 - same];

                if (p->vni != 0) {
                    return p;
                }
            }
        }
    }
    return NULL;
}

static const struct pick *any_way(const struct making *k, unsigned in)
{
    for (unsigned end = WAY_FORWARDS; end < WAY_ENDS; end++) {
        for (unsigned hops = 0; hops < MATRIX_HOPS; hops++) {
            if (k->picks->ways[end][hops][in][0].vni != 0) {
                return &k->picks->ways[end][hops][in][0];
            }
        }
    }
    return NULL;
}

/* One that gets through, where there is such; of the cell's inner family, or of either.
 */
static const struct pick *base(const struct making *k)
{
    const struct pick *p = NULL;

    for (unsigned in = 0; in < 2 && !p; in++) {
        if (k->cell->inner == IP_NONE || matrix_index(k->cell->inner) == in) {
            p = forwarded(k, WAY_LOCAL, WAY_DERIVED, 0, WAY_HOPS_MAX, in);
        }
    }
    for (unsigned in = 0; in < 2 && !p; in++) {
        if (k->cell->inner == IP_NONE || matrix_index(k->cell->inner) == in) {
            p = any_way(k, in);
        }
    }
    return p;
}

static const struct pick *or_none(const struct pick *p)
{
    return p->vni != 0 ? p : NULL;
}

/* ---- fields ---- */

/* An uplink's MTU of the family: the smallest, or the largest; 0: there is none. */
static unsigned mtu_of(const struct device_config *c, uint8_t family, bool largest)
{
    unsigned mtu = 0;

    for (unsigned i = 0; i < c->uplink_count; i++) {
        const struct uplink *u = &c->uplinks[i];
        bool has = (family == IP_V4 ? &u->addr_v4 : &u->addr_v6)->family != IP_NONE;

        if (has && (mtu == 0 || (largest ? u->mtu > mtu : u->mtu < mtu))) {
            mtu = u->mtu;
        }
    }
    return mtu;
}

static bool is_of_size(const struct making *k)
{
    bool is_sent = k->probe->want.outcome == PROBE_FORWARDED;

    return k->cell->what == FIELD_FITS
               ? is_sent && !k->probe->want.is_fallback
               : is_reason(k, "mtu") || k->probe->want.is_fallback ||
                     is_reason(k, "fallback_no_member");
}

static enum matrix_reach with_size(const struct making *k, const struct pick *pick)
{
    bool is_over = k->cell->what == FIELD_TOO_BIG;
    uint8_t frame[PROBE_FRAME_MAX];
    unsigned mtu;
    size_t sent;
    size_t out;

    begin(k, pick);
    probe_expect(k->node, k->probe);
    if (k->probe->want.outcome != PROBE_FORWARDED) {
        return is_reason(k, "source_check") ? MATRIX_NO_SOURCE : MATRIX_NO_SUCH_LINK;
    }
    if (k->probe->want.is_fallback) {
        return MATRIX_NO_ENTRY;
    }
    mtu = mtu_of(k->node->config, k->probe->want.packet.outer_dst.family, is_over) +
          is_over;
    sent = probe_frame(k->probe, frame);
    out = probe_frame_out(k->probe, &k->probe->want.packet.outer_dst, frame) - ETH;
    if (mtu <= out || sent + mtu - out > PROBE_FRAME_MAX - FRAME_MARGIN) {
        return MATRIX_NO_SUCH_LINK;
    }
    k->probe->filler = (uint16_t)(mtu - out);
    return finish(k, is_of_size);
}

static uint32_t unused_vni(const struct table_set *s)
{
    for (uint32_t vni = VNI_MAX - 1; vni > VNI_MAX - VNI_TRIES; vni--) {
        if (!table_set_rows(s, vni, TABLE_VNI)) {
            return vni;
        }
    }
    return 0;
}

/* An address that is no source; false: all are. */
static bool no_source(const struct device_config *c, uint8_t family, struct ip *ret)
{
    for (unsigned i = 0; i < ADDRESS_NOWHERE_COUNT; i++) {
        *ret = address_nowhere(family, i);
        if (!device_config_takes_from(c, ret)) {
            return true;
        }
    }
    return false;
}

static struct ip multicast(uint8_t family)
{
    static const uint8_t all_nodes[16] = { 0xff, 0x02, [15] = 1 };

    return family == IP_V4 ? ip_v4(0xe0000001) : ip_v6(all_nodes);
}

static struct ip mapped(void)
{
    static const uint8_t bytes[16] = { [10] = 0xff, [11] = 0xff, 192, 0, 2, 1 };

    return ip_v6(bytes);
}

/* It fails the check that the cell is about, or gets past all that are no entry's. */
static bool is_field_so(const struct making *k)
{
    switch (k->cell->what) {
    case FIELD_NOT_OURS:
        return is_reason(k, "not_our_address");
    case FIELD_OUTER_TTL:
        return is_reason(k, "outer_ttl");
    case FIELD_SOURCE:
        return is_reason(k, "source_check");
    case FIELD_UNKNOWN_VNI:
        return is_reason(k, "unknown_vni");
    case FIELD_MULTICAST:
        return is_reason(k, "inner_not_unicast");
    case FIELD_NO_CHECKSUM:
        return is_reason(k, "outer_udp6_zero_csum") || follows_entries(k);
    case FIELD_HIDDEN_PORTS:
        return is_reason(k, "acl_deny");
    case FIELD_MAPPED:
    case FIELD_TAG_ALLOWED:
        return !is_reason(k, "acl_deny") && !is_reason(k, "inner_vlan") &&
               !is_reason(k, "source_check");
    default:
        return follows_entries(k);
    }
}

static void to_own(const struct making *k, const struct ip *v4, const struct ip *v6)
{
    k->probe->sent.outer_dst = underlay_of(k) == IP_V4 ? *v4 : *v6;
}

/* Changes the packet; MATRIX_COVERED, or why it cannot. */
static enum matrix_reach set_field(const struct making *k)
{
    const struct device_config *c = k->node->config;
    struct vxlan_packet *p = &k->probe->sent;

    switch (k->cell->what) {
    case FIELD_TO_VIP:
        to_own(k, &c->vip_v4, &c->vip_v6);
        return p->outer_dst.family ? MATRIX_COVERED : MATRIX_NO_ADDRESS;
    case FIELD_TO_FALLBACK:
        to_own(k, &c->fallback_v4, &c->fallback_v6);
        return p->outer_dst.family ? MATRIX_COVERED : MATRIX_NO_ADDRESS;
    case FIELD_NOT_OURS:
        p->outer_dst = address_nowhere(underlay_of(k), 0);
        break;
    case FIELD_OUTER_TTL:
        p->outer_ttl = 1;
        break;
    case FIELD_NO_CHECKSUM:
    case FIELD_CHECKSUM:
        p->has_outer_csum = k->cell->what == FIELD_CHECKSUM;
        break;
    case FIELD_SOURCE:
        return no_source(c, underlay_of(k), &p->outer_src) ? MATRIX_COVERED
                                                           : MATRIX_ANY_SOURCE;
    case FIELD_UNKNOWN_VNI:
        p->vni = unused_vni(k->node->tables);
        return p->vni ? MATRIX_COVERED : MATRIX_NOT_FOUND;
    case FIELD_MULTICAST:
        p->dst = multicast(k->cell->inner);
        break;
    case FIELD_MAPPED:
        p->dst = mapped();
        p->src = address_nowhere(IP_V6, 0); /* not pooled itself */
        break;
    case FIELD_TTL_LOCAL:
    case FIELD_TTL_PEER:
    case FIELD_TTL_LEAVES:
        p->ttl = 1;
        break;
    case FIELD_TAG_ALLOWED:
        k->probe->twist = TWIST_IN_TAG;
        break;
    case FIELD_HIDDEN_PORTS:
        k->probe->twist = TWIST_IN_OPTIONS;
        break;
    default:
        break;
    }
    return MATRIX_COVERED;
}

static const struct pick *pick_for_field(const struct making *k)
{
    unsigned in = matrix_index(k->cell->inner);

    switch (k->cell->what) {
    case FIELD_TTL_LOCAL:
        return forwarded(k, WAY_LOCAL, WAY_LOCAL_MAC, 0, 0, in);
    case FIELD_TTL_PEER:
        return forwarded(k, WAY_LOCAL, WAY_LOCAL_MAC, 1, WAY_HOPS_MAX, in);
    case FIELD_TTL_LEAVES:
        return forwarded(k, WAY_IDC, WAY_DERIVED, 0, WAY_HOPS_MAX, in);
    case FIELD_FITS:
    case FIELD_TOO_BIG:
        return forwarded(k, WAY_LOCAL, WAY_DERIVED, 0, WAY_HOPS_MAX, in);
    case FIELD_TAG_ALLOWED:
        return or_none(&k->picks->tags[in]);
    case FIELD_HIDDEN_PORTS:
        return or_none(&k->picks->ports[in]);
    case FIELD_MAPPED: /* past its tenant's rules */
        return matrix_is_h(k->m) ? or_none(&k->picks->unruled[in]) : base(k);
    default:
        return base(k);
    }
}

static enum matrix_reach from_field(const struct making *k)
{
    const struct pick *pick = pick_for_field(k);
    enum matrix_reach reach;

    if (!pick) {
        return matrix_was_cut(k->m) ? MATRIX_NOT_FOUND : MATRIX_NO_ENTRY;
    }
    if (k->cell->what == FIELD_FITS || k->cell->what == FIELD_TOO_BIG) {
        return with_size(k, pick);
    }
    begin(k, pick);
    reach = set_field(k);
    return reach == MATRIX_COVERED ? finish(k, is_field_so) : reach;
}

/* ---- frames ---- */

static bool is_twisted_so(const struct making *k)
{
    const struct twist_rule *rule = twist_rule_of(k->cell->what);

    if (rule->check == 0) { /* it passes, as far as its entries take it */
        return !is_reason(k, "acl_deny") && !is_reason(k, "source_check");
    }
    return rule->reason ? is_reason(k, rule->reason)
                        : k->probe->want.outcome == PROBE_KEPT;
}

static const struct pick *pick_for_twist(const struct making *k)
{
    unsigned in = matrix_index(k->cell->inner);

    switch (k->cell->what) {
    case TWIST_IN_TAG:
        return or_none(&k->picks->untagged[in]);
    case TWIST_IN_OPTIONS:
    case TWIST_IN_FRAGMENT:
    case TWIST_IN_TCP:
    case TWIST_IN_PING:
        return matrix_is_h(k->m) ? or_none(&k->picks->unruled[in]) : base(k);
    default:
        return base(k);
    }
}

static enum matrix_reach from_twist(const struct making *k)
{
    const struct pick *pick = pick_for_twist(k);

    if (!pick) {
        return MATRIX_NO_ENTRY;
    }
    begin(k, pick);
    k->probe->twist = k->cell->what;
    return finish(k, is_twisted_so);
}

/* ---- all ---- */

/* What nodes of one kind have and others have not. */
static bool is_its_kind(const struct making *k)
{
    const struct matrix_cell *c = k->cell;
    bool is_h = matrix_is_h(k->m);

    switch (c->kind) {
    case MATRIX_WAY:
        return c->what == WAY_LOCAL_MAC ? !is_h : c->what == WAY_FALLBACK ? is_h : true;
    case MATRIX_HALF:
    case MATRIX_RULE:
    case MATRIX_METER:
        return is_h;
    case MATRIX_FIELD:
        return c->what == FIELD_TO_FALLBACK    ? !is_h
               : c->what == FIELD_HIDDEN_PORTS ? is_h
                                               : true;
    default:
        return true;
    }
}

/* Of one VNI only what its rows say is asked. */
static bool is_asked(const struct making *k)
{
    return !matrix_is_of_one(k->m) ||
           (k->cell->kind != MATRIX_FIELD && k->cell->kind != MATRIX_TWIST);
}

enum matrix_reach matrix_probe(const struct matrix *m, const struct matrix_cell *cell,
                               const struct probe_node *node, uint64_t number,
                               struct probe *ret)
{
    const struct making k = { m, matrix_picks(m), node, cell, number, ret };

    if (!is_asked(&k)) {
        return MATRIX_UNSEEN;
    }
    if (!is_its_kind(&k)) {
        return MATRIX_NOT_ITS_KIND;
    }
    if (!has_vtep(node->config, underlay_of(&k))) {
        return MATRIX_NO_ADDRESS;
    }
    switch (cell->kind) {
    case MATRIX_FIELD:
        return from_field(&k);
    case MATRIX_TWIST:
        return from_twist(&k);
    default:
        return from_entries(&k);
    }
}
