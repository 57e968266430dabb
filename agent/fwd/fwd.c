#include "agent/fwd/fwd.h"

#include "agent/fwd/fast.h"
#include "agent/fwd/icmp_error.h"
#include "agent/fwd/parse.h"
#include "agent/fwd/rewrite.h"
#include "agent/fwd/uplink.h"
#include "agent/fwd/wire.h"

/* Packets ahead whose first two lines are asked for while one is parsed. */
#define PREFETCH_AHEAD 8

/* The inner overhead of a v4 and a v6 underlay: what the MTU told to a VM is short of
 * the uplink's (RFC 7348, section 4.3: outer IP, UDP, VXLAN, inner Ethernet). */
enum { OVERHEAD4 = 50, OVERHEAD6 = 70 };

/* What one call of fwd_burst() carries through its stages. */
struct call {
    const struct fwd_config *config;
    const struct fib *fib;
    struct fwd_worker *worker;
    struct fwd_packet *packets;
    struct fwd_answers *answers;
    uint64_t now_ns;
    uint32_t forwarded;
    uint32_t local;
    struct uplink_set uplinks4;
    struct uplink_set uplinks6;
    bool is_fast4; /* there is a way out over IPv4 */
};

/* Up to FWD_BURST packets between "parsed, lookups started" and "answered".  Packets
 * that the outer headers already settled have no place here. */
struct chunk {
    struct fib_query query[FWD_BURST];
    struct layers layers[FWD_BURST]; /* of those that are not fast */
    uint32_t packet[FWD_BURST];      /* index into call->packets */
    uint8_t inner[FWD_BURST];        /* what parse_inner() said */
    bool is_fast[FWD_BURST];         /* of the shape that fast.h knows */
    unsigned count;
    struct fib_split split; /* of the places, by the query's family */
};

/* Only the worker writes, so load and store need not be one step; the reader sees whole
 * words. */
static inline void count_add(_Atomic uint64_t *counter, uint64_t n)
{
    uint64_t v = atomic_load_explicit(counter, memory_order_relaxed);

    atomic_store_explicit(counter, v + n, memory_order_relaxed);
}

static inline uint64_t count_read(const _Atomic uint64_t *counter)
{
    return atomic_load_explicit(counter, memory_order_relaxed);
}

void fwd_worker_init(struct fwd_worker *w, uint32_t rate_pps, uint32_t burst)
{
    *w = (struct fwd_worker){ 0 };
    if (rate_pps != 0) {
        w->icmp.token_ns = UINT64_C(1000000000) / rate_pps;
        w->icmp.depth_ns = w->icmp.token_ns * burst;
    }
}

void fwd_worker_sum(const struct fwd_worker *w, struct fwd_totals *sum)
{
    sum->received += count_read(&w->count.received);
    sum->forwarded += count_read(&w->count.forwarded);
    sum->local += count_read(&w->count.local);
    sum->icmp_sent += count_read(&w->count.icmp_sent);
    sum->icmp_limited += count_read(&w->count.icmp_limited);
    sum->icmp_no_buffer += count_read(&w->count.icmp_no_buffer);
    for (unsigned i = 0; i < DROP_COUNT; i++) {
        sum->drops[i] += count_read(&w->count.drops[i]);
    }
}

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

static void drop(struct call *c, uint32_t index, unsigned reason)
{
    struct fwd_packet *p = &c->packets[index];

    p->verdict = FWD_DROP;
    p->reason = (uint8_t)reason;
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
        drop(c, index, DROP_INNER_TTL);
        return;
    }
    if (!(is_v4 ? config->has_vip4 : config->has_vip6)) {
        drop(c, index, DROP_NO_VIP);
        return;
    }
    if (set->count == 0) {
        drop(c, index,
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
        drop(c, index, DROP_MTU);
        return;
    }
    if (rewrite_growth(l, e.family) > (int32_t)p->headroom) {
        drop(c, index, DROP_NO_BUFFER);
        return;
    }
    e.port_mac = uplink->mac;
    e.next_hop_mac = set->mac[place];
    rewrite_packet(p, l, &e);
    p->verdict = FWD_FORWARD;
    p->uplink = set->index[place];
    c->forwarded++;
}

/* Parses the inner frame behind the layers of place `k` and makes the query; of
 * `family` if it does not come to addresses. */
static void ask(struct call *c, struct chunk *ch, unsigned k, uint8_t family)
{
    const struct fwd_packet *p = &c->packets[ch->packet[k]];
    struct layers *l = &ch->layers[k];
    struct fib_query *q = &ch->query[k];
    unsigned result = parse_inner(p, l);
    const uint8_t *ip = p->data + l->inner_l3;

    q->vni = l->vni;
    if (result != 0) {
        /* Only to learn of the VNI: an unknown one, or one without tags, is the earlier
         * reason. */
        q->family = family;
        memset(q->dst, 0, 16);
    } else if (l->inner_family == IP_V4) {
        q->family = IP_V4;
        memcpy(q->dst, ip + 16, 4);
    } else {
        q->family = IP_V6;
        memcpy(q->dst, ip + 24, 16);
    }
    ch->inner[k] = (uint8_t)result;
    ch->is_fast[k] = false;
}

/* What the outer headers settle is settled; all others get a query in `ch`. */
static void parse_packet(struct call *c, uint32_t index, struct chunk *ch)
{
    struct fwd_packet *p = &c->packets[index];
    unsigned result = parse_outer(c->config, p, &ch->layers[ch->count]);

    if (result >= PARSE_LOCAL) {
        p->verdict = FWD_LOCAL;
        p->local = (uint8_t)(result - PARSE_LOCAL);
        c->local++;
        return;
    }
    if (result != 0) {
        drop(c, index, result);
        return;
    }
    ch->packet[ch->count] = index;
    ask(c, ch, ch->count, IP_V4);
    fib_split_add(&ch->split, ch->count, ch->query[ch->count].family == IP_V6);
    ch->count++;
}

/* The outer headers were good, and the inner packet, whose ethertype says `family`, is
 * not of the common shape. */
static void parse_again(struct call *c, struct chunk *ch, unsigned k, uint8_t family)
{
    (void)parse_outer(c->config, &c->packets[ch->packet[k]], &ch->layers[k]);
    ask(c, ch, k, family);
}

/* The inner halves, by family: straight-line code each. */
static void parse_families(struct call *c, struct chunk *ch)
{
    for (unsigned n = 0; n < ch->split.v4_count; n++) {
        unsigned k = ch->split.v4[n];
        const uint8_t *d = c->packets[ch->packet[k]].data;
        struct fib_query *q = &ch->query[k];

        if (__builtin_expect(ch->is_fast[k], 1)) {
            q->family = IP_V4;
            memcpy(q->dst, d + FAST_INNER_IP + 16, 4);
            if (__builtin_expect(!fast_inner4(d), 0)) {
                parse_again(c, ch, k, IP_V4);
            }
        }
    }
    for (unsigned n = 0; n < ch->split.v6_count; n++) {
        unsigned k = ch->split.v6[n];
        const uint8_t *d = c->packets[ch->packet[k]].data;
        struct fib_query *q = &ch->query[k];

        if (__builtin_expect(!ch->is_fast[k], 0)) {
            continue;
        }
        if (__builtin_expect(!fast_inner6(d), 0)) {
            parse_again(c, ch, k, IP_V6);
            continue;
        }
        q->family = IP_V6;
        memcpy(q->dst, d + FAST_INNER_IP + 24, 16);
    }
}

static void prefetch(const struct fwd_packet *p)
{
    __builtin_prefetch(p->data, 1);
    __builtin_prefetch(p->data + 64, 1);
}

static void chunk_start(struct call *c, struct chunk *ch, uint32_t from, uint32_t to)
{
    ch->count = ch->split.v4_count = ch->split.v6_count = 0;
    for (uint32_t i = from; i < to && i < from + PREFETCH_AHEAD; i++) {
        prefetch(&c->packets[i]);
    }
    for (uint32_t i = from; i < to; i++) {
        struct fwd_packet *p = &c->packets[i];
        unsigned k = ch->count;
        uint8_t family;

        if (i + PREFETCH_AHEAD < to) {
            prefetch(&c->packets[i + PREFETCH_AHEAD]);
        }
        p->verdict = 0;
        p->reason = DROP_NONE;
        p->local = 0;
        p->uplink = 0;
        family = fast_outer(c->config, p);
        if (__builtin_expect(family == 0, 0)) {
            parse_packet(c, i, ch);
            continue;
        }
        ch->packet[k] = i;
        ch->inner[k] = 0;
        ch->is_fast[k] = true;
        ch->query[k].vni = load_be32(p->data + FAST_VXLAN + 4) >> 8;
        fib_split_add(&ch->split, k, family == IP_V6);
        ch->count++;
    }
    parse_families(c, ch);
    fib_resolve_begin(c->fib, ch->query, &ch->split);
}

/* The common end: a VM behind an IPv4 NC in the VNI that the packet came in, and
 * nothing in the way.  False, and nothing was done: the general way. */
static inline bool send_fast(struct call *c, struct fwd_packet *p,
                             const struct fib_query *q)
{
    const struct uplink_set *set = &c->uplinks4;
    const struct fwd_uplink *uplink;
    struct layers l;
    unsigned place = 0;

    if (q->kind != FIB_LOCAL || q->addr_family != IP_V4 || q->vni_changed ||
        !c->is_fast4 || !fast_has_no_udp_checksum(p->data)) {
        return false;
    }
    if (set->count > 1) {
        fast_layers(p, q->family, &l);
        place = uplink_pick(set, c->config, p, &l);
    }
    uplink = &c->config->uplink[set->index[place]];
    if (load_be16(p->data + FAST_IP + 2) > uplink->mtu) {
        return false;
    }
    fast_rewrite(p, q, c->config->vip4, set->mac[place], uplink->mac);
    p->verdict = FWD_FORWARD;
    p->uplink = set->index[place];
    c->forwarded++;
    return true;
}

static void finish_packet(struct call *c, struct chunk *ch, unsigned k)
{
    struct fib_query *q = &ch->query[k];
    struct layers *l = &ch->layers[k];
    unsigned reason;

    if (ch->is_fast[k]) {
        fast_layers(&c->packets[ch->packet[k]], q->family, l);
    }
    reason = check_tables(q, l, ch->inner[k]);
    if (reason != DROP_NONE) {
        drop(c, ch->packet[k], reason);
    } else {
        send_out(c, ch->packet[k], l, q);
    }
}

static void chunk_finish(struct call *c, struct chunk *ch)
{
    fib_resolve_end(c->fib, ch->query, &ch->split);
    for (unsigned k = 0; k < ch->count; k++) {
        /* The lookups pushed it out of the nearest cache. */
        if (k + PREFETCH_AHEAD < ch->count) {
            prefetch(&c->packets[ch->packet[k + PREFETCH_AHEAD]]);
        }
        if (!ch->is_fast[k] ||
            !send_fast(c, &c->packets[ch->packet[k]], &ch->query[k])) {
            finish_packet(c, ch, k);
        }
    }
}

static void drop_all(struct call *c, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        c->packets[i].local = 0;
        c->packets[i].uplink = 0;
        drop(c, i, DROP_NOT_READY);
    }
}

/* One chunk is held back while the next is parsed, so that its table lines arrive
 * meanwhile. */
static void run_chunks(struct call *c, uint32_t n)
{
    struct chunk chunk[2];
    unsigned current = 0;

    chunk_start(c, &chunk[0], 0, n < FWD_BURST ? n : FWD_BURST);
    for (uint32_t from = FWD_BURST; from < n; from += FWD_BURST) {
        uint32_t to = n - from < FWD_BURST ? n : from + FWD_BURST;

        chunk_start(c, &chunk[!current], from, to);
        chunk_finish(c, &chunk[current]);
        current = !current;
    }
    chunk_finish(c, &chunk[current]);
}

void fwd_burst(const struct fwd_view *view, struct fwd_worker *w, uint64_t now_ns,
               struct fwd_packet packets[], uint32_t n, struct fwd_answers *answers)
{
    struct call c = {
        .config = view->config,
        .fib = view->fib,
        .worker = w,
        .packets = packets,
        .answers = answers,
        .now_ns = now_ns,
    };

    if (answers != NULL) {
        answers->count = 0;
    }
    if (n == 0) {
        return;
    }
    count_add(&w->count.received, n);
    if (!view->is_ready) {
        drop_all(&c, n);
        return;
    }
    uplink_set_read(&c.uplinks4, c.config, IP_V4);
    uplink_set_read(&c.uplinks6, c.config, IP_V6);
    c.is_fast4 = c.config->has_vip4 && c.uplinks4.count > 0;
    run_chunks(&c, n);
    count_add(&w->count.forwarded, c.forwarded);
    count_add(&w->count.local, c.local);
}
