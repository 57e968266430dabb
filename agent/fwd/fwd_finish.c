/* Where a packet goes once the tables have answered: dropped, perhaps with an answer to
 * its sender, or rewritten and out. */
#include "agent/fwd/fwd_impl.h"

#include "agent/fwd/icmp_error.h"
#include "agent/fwd/rewrite.h"
#include "agent/fwd/wire.h"

/* The inner overhead of a v4 and a v6 underlay: what the MTU told to a VM is short of
 * the uplink's (RFC 7348, section 4.3: outer IP, UDP, VXLAN, inner Ethernet). */
enum { OVERHEAD4 = 50, OVERHEAD6 = 70 };

/* Takes a token if there is one. */
static bool limiter_allows(struct fwd_limiter *l, uint64_t now_ns)
{
    uint64_t full = l->full_ns > now_ns ? l->full_ns : now_ns;

    if (l->token_ns == 0) {
        return true;
    }
    if (full + l->token_ns - now_ns > l->depth_ns) {
        return false;
    }
    l->full_ns = full + l->token_ns;
    return true;
}

void fwd_drop(struct call *c, uint32_t index, unsigned reason)
{
    settle(&c->packets[index], FWD_DROP, reason, 0, 0);
    count_add(&c->worker->count.drops[reason], 1);
}

/* Answers the sender of a packet that is dropped, if that is due, allowed and there is
 * a way: the VIP and an uplink of the family that the packet arrived in. */
static void answer(struct call *c, uint32_t index, const struct layers *l,
                   enum icmp_error_kind kind, uint32_t mtu)
{
    const struct fwd_config *config = c->config;
    const struct fwd_packet *p = &c->packets[index];
    struct fwd_counters *count = &c->worker->count;
    bool is_v4 = l->outer_family == IP_V4;
    const struct uplink_set *set = is_v4 ? &c->uplinks4 : &c->uplinks6;
    struct icmp_error e = {
        .kind = kind,
        .mtu = mtu,
        .source = l->inner_family == IP_V4 ? config->icmp4 : config->icmp6,
        .vip = is_v4 ? config->vip4 : config->vip6,
        .udp6_zero_csum = config->udp6_zero_csum,
    };
    struct fwd_answer *to;
    unsigned place;

    if (!(is_v4 ? config->has_vip4 : config->has_vip6) || set->count == 0 ||
        !icmp_error_is_due(config, p, l)) {
        return;
    }
    if (c->answers == NULL || c->answers->count == c->answers->room) {
        count_add(&count->icmp_no_buffer, 1);
        return;
    }
    if (!limiter_allows(&c->worker->icmp, c->now_ns)) {
        count_add(&count->icmp_limited, 1);
        return;
    }
    place = uplink_pick(set, config, p, l);
    to = &c->answers->at[c->answers->count++];
    to->uplink = set->index[place];
    to->about = index;
    e.port_mac = config->uplink[to->uplink].mac;
    e.next_hop_mac = set->mac[place];
    e.uplink_mtu = config->uplink[to->uplink].mtu;
    to->length = icmp_error_write(&e, p, l, to->data);
    count_add(&count->icmp_sent, 1);
}

static unsigned drop_of_kind(uint8_t kind)
{
    switch ((enum fib_kind)kind) {
    case FIB_DROP_ROUTE_MISS:
        return DROP_ROUTE_MISS;
    case FIB_DROP_VM_NC_MISS:
        return DROP_VM_NC_MISS;
    case FIB_DROP_TOO_MANY_LOOKUPS:
        return DROP_PEER_LIMIT;
    case FIB_INTERNET:
        return DROP_NO_SNAT; /* no pool can be bound yet */
    case FIB_SERVICE:
        return DROP_SERVICE_UNBOUND; /* nor a function */
    case FIB_LOCAL:
    case FIB_TUNNEL:
        return DROP_NONE;
    case FIB_DROP_VNI_UNKNOWN:
    case FIB_KIND_COUNT:
        break;
    }
    return DROP_UNKNOWN_VNI;
}

/* Checks 22 to 38: those that the VNI's row and the lookups decide, with what parsing
 * the inner frame said in its place between them. */
static unsigned check_tables(const struct fib_query *q, const struct layers *l,
                             uint8_t inner)
{
    if (q->kind == FIB_DROP_VNI_UNKNOWN) {
        return DROP_UNKNOWN_VNI;
    }
    if (l->inner_tags > 0 && !(q->vni_flags & VNI_INNER_VLAN)) {
        return DROP_INNER_VLAN;
    }
    return inner != 0 ? inner : drop_of_kind(q->kind);
}

static bool leaves_vpc(const struct fib_query *q)
{
    return q->vni_changed || (q->kind == FIB_TUNNEL &&
                              (q->scope == SCOPE_IDC || q->scope == SCOPE_REGION));
}

/* Checks 39 to 43, and out. */
static void send_out(struct call *c, uint32_t index, const struct layers *l,
                     const struct fib_query *q)
{
    const struct fwd_config *config = c->config;
    struct fwd_packet *p = &c->packets[index];
    const uint8_t *inner = p->data + l->inner_l3;
    bool is_v4 = q->addr_family == IP_V4;
    const struct uplink_set *set = is_v4 ? &c->uplinks4 : &c->uplinks6;
    struct egress e = {
        .source = is_v4 ? config->vip4 : config->vip6,
        .destination = q->addr,
        .inner_mac = q->kind == FIB_LOCAL && q->has_mac ? q->mac : NULL,
        .vni = q->out_vni,
        .family = q->addr_family,
        .decrements_inner = leaves_vpc(q),
        .udp6_zero_csum = config->udp6_zero_csum,
    };
    const struct fwd_uplink *uplink;
    unsigned place;

    if (e.decrements_inner && inner[l->inner_family == IP_V4 ? 8 : 7] < 2) {
        answer(c, index, l, ICMP_ERROR_TIME_EXCEEDED, 0);
        fwd_drop(c, index, DROP_INNER_TTL);
        return;
    }
    if (!(is_v4 ? config->has_vip4 : config->has_vip6)) {
        fwd_drop(c, index, DROP_NO_VIP);
        return;
    }
    if (set->count == 0) {
        fwd_drop(c, index,
                 set->configured == 0 ? DROP_NO_UPLINK : DROP_NEXT_HOP_UNRESOLVED);
        return;
    }
    place = uplink_pick(set, config, p, l);
    uplink = &config->uplink[set->index[place]];
    if (rewrite_size(l, e.family) > uplink->mtu) {
        if (l->inner_family == IP_V6 || (load_be16(inner + 6) & IP4_DF)) {
            answer(c, index, l, ICMP_ERROR_TOO_BIG,
                   uplink->mtu - (is_v4 ? OVERHEAD4 : OVERHEAD6) -
                       VLAN_SIZE * (uint32_t)l->inner_tags);
        }
        fwd_drop(c, index, DROP_MTU);
        return;
    }
    if (rewrite_growth(l, e.family) > (int32_t)p->headroom) {
        fwd_drop(c, index, DROP_NO_BUFFER);
        return;
    }
    e.port_mac = uplink->mac;
    e.next_hop_mac = set->mac[place];
    rewrite_packet(p, l, &e);
    settle(p, FWD_FORWARD, DROP_NONE, 0, set->index[place]);
    c->forwarded++;
}

void fwd_finish(struct call *c, uint32_t index, const struct layers *l,
                const struct fib_query *q, uint8_t inner)
{
    unsigned reason = check_tables(q, l, inner);

    if (reason != DROP_NONE) {
        fwd_drop(c, index, reason);
    } else {
        send_out(c, index, l, q);
    }
}
