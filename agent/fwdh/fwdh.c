#include "agent/fwdh/fwdh_impl.h"

#include "agent/fwd/fast.h"
#include "agent/fwd/rewrite.h"

#define PREFETCH_AHEAD 8

/* ---- counting ---- */

static inline void add(_Atomic(uint64_t) *counter, uint64_t n)
{
    atomic_store_explicit(counter,
                          atomic_load_explicit(counter, memory_order_relaxed) + n,
                          memory_order_relaxed);
}

static inline void count_cell(struct hcell *cell, uint32_t bytes)
{
    add(&cell->packets, 1);
    add(&cell->bytes, bytes);
}

static void drop_at(struct call *c, struct fwd_packet *p, unsigned half,
                    unsigned reason)
{
    p->verdict = FWD_DROP;
    p->reason = (uint8_t)reason;
    count_cell(&c->w->drop[half][reason], p->length);
}

static void drop(struct call *c, const struct flow *f, unsigned half, unsigned reason)
{
    drop_at(c, &c->packets[f->index], half, reason);
}

void fwdh_worker_sum(const struct hworker *w, struct fwd_totals *sum)
{
    sum->received += atomic_load_explicit(&w->received, memory_order_relaxed);
    sum->forwarded += atomic_load_explicit(&w->forwarded, memory_order_relaxed) +
                      atomic_load_explicit(&w->fallback, memory_order_relaxed);
    sum->local += atomic_load_explicit(&w->local, memory_order_relaxed);
    for (unsigned h = 0; h < HSWITCH_HALVES; h++) {
        for (unsigned i = 0; i < DROP_COUNT; i++) {
            sum->drops[i] +=
                atomic_load_explicit(&w->drop[h][i].packets, memory_order_relaxed);
        }
    }
}

/* ---- the flow hash ---- */

static inline uint64_t mix(uint64_t a, uint64_t b)
{
    unsigned __int128 product = (unsigned __int128)a * b;

    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static bool has_ports(const struct fwd_packet *p, const struct layers *l)
{
    return (l->inner_proto == PROTO_TCP || l->inner_proto == PROTO_UDP ||
            l->inner_proto == PROTO_SCTP) &&
           l->inner_l4 + 4u <= l->inner_l3 + l->inner_size &&
           l->inner_l4 + 4u <= p->length;
}

uint32_t fwdh_flow_hash(const struct fwd_packet *p, const struct layers *l)
{
    const uint8_t *ip = p->data + l->inner_l3;
    const uint8_t *l4 = p->data + l->inner_l4;
    uint64_t rest = l->inner_proto;
    uint64_t hash;

    /* Sums do not mind which end is which. */
    if (!l->is_fragment && has_ports(p, l)) {
        rest |= ((uint64_t)load_be16(l4) + load_be16(l4 + 2)) << 8;
    }
    if (l->inner_family == IP_V4) {
        hash = (uint64_t)load_be32(ip + 12) + load_be32(ip + 16);
    } else {
        hash = mix(load_be64(ip + 8) ^ UINT64_C(0x9e3779b97f4a7c15),
                   load_be64(ip + 16) ^ UINT64_C(0xbf58476d1ce4e5b9)) +
               mix(load_be64(ip + 24) ^ UINT64_C(0x9e3779b97f4a7c15),
                   load_be64(ip + 32) ^ UINT64_C(0xbf58476d1ce4e5b9));
    }
    hash = mix(hash ^ UINT64_C(0x94d049bb133111eb),
               (rest ^ UINT64_C(0xd6e8feb86659fd93)) | 1);
    return (uint32_t)(hash ^ hash >> 32);
}

static unsigned next_hop_bucket(uint32_t hash)
{
    return hash & 0xff;
}

static unsigned member_bucket(uint32_t hash)
{
    return hash >> 8 & 0x3ff;
}

/* ---- out ---- */

static bool is_zero_mac(const uint8_t mac[6])
{
    return (mac[0] | mac[1] | mac[2] | mac[3] | mac[4] | mac[5]) == 0;
}

/* The way out of a packet: its row of port_out and the MACs. */
struct way {
    const struct hport_out *row;
    const uint8_t *smac;
    uint8_t dmac[6];
    unsigned port;
};

/* The neighbour of a port, where the row names none. */
static unsigned resolve(const struct call *c, const struct flow *f, struct way *way)
{
    const struct fwd_config *config = c->config[f->ingress];

    for (unsigned i = 0; i < config->uplink_count; i++) {
        uint64_t word;

        if (config->uplink[i].port != way->port ||
            config->uplink[i].family != f->layers.outer_family) {
            continue;
        }
        word = atomic_load_explicit(&config->next_hop_mac[i], memory_order_relaxed);
        if (!(word & FWD_MAC_KNOWN)) {
            return DROP_NEXT_HOP_UNRESOLVED;
        }
        word = __builtin_bswap64(word << 16);
        memcpy(way->dmac, &word, 6);
        return DROP_NONE;
    }
    return DROP_NO_UPLINK;
}

/* Picks next hop and row; a drop reason, or 0. */
static unsigned find_way(const struct call *c, const struct flow *f, bool is_fallback,
                         struct way *way)
{
    const struct hswitch *s = c->s;
    const struct hhalf *h = &s->half[f->half];
    unsigned v4 = f->layers.outer_family == IP_V4;
    uint32_t hop = atomic_load_explicit(
        &h->next_hop[v4 << 8 | next_hop_bucket(f->hash)], memory_order_acquire);

    way->port = hop & 0x1ff;
    if (!(hop & HROW_SET) || way->port >= s->options.port_count) {
        return DROP_NO_UPLINK;
    }
    way->row = atomic_load_explicit(
        &h->port_out[way->port << 2 | (unsigned)is_fallback << 1 | v4],
        memory_order_acquire);
    if (!way->row) {
        return DROP_NO_VIP;
    }
    way->smac =
        is_zero_mac(way->row->smac) ? s->options.ports[way->port].mac : way->row->smac;
    if (is_zero_mac(way->row->dmac)) {
        return resolve(c, f, way);
    }
    memcpy(way->dmac, way->row->dmac, 6);
    return DROP_NONE;
}

/* ---- fallback ---- */

/* The tenant's bucket first: what it refuses does not spend the class. */
static bool fallback_is_red(const struct call *c, const struct flow *f, uint8_t cls)
{
    const struct hhalf *h = &c->s->half[f->half];
    uint32_t bytes = c->packets[f->index].length;
    struct hmeter *tenants = h->meter[cls == PHYS_CLASS_SERVICE ? PHYS_METER_FB_SERVICE
                                                                : PHYS_METER_FB_MISS];
    uint32_t bucket = hswitch_bucket(f->layers.vni, c->s->sizes.fallback_buckets);

    return hmeter_run(&tenants[bucket], c->now_ns, bytes) == HMETER_RED ||
           hmeter_run(&h->meter[PHYS_METER_FB_CLASS][cls], c->now_ns, bytes) ==
               HMETER_RED;
}

/* The member's address; a drop reason, or 0.  Looks again when the row changed
 * meanwhile: the index may have been given to somebody else. */
static unsigned find_member(const struct call *c, const struct flow *f, uint64_t to[2])
{
    const struct hhalf *h = &c->s->half[f->half];
    unsigned v4 = f->layers.outer_family == IP_V4;
    const _Atomic(uint32_t) *row = &h->fallback[v4 << 10 | member_bucket(f->hash)];

    for (;;) {
        uint32_t member = atomic_load_explicit(row, memory_order_acquire);
        bool found =
            (member & HROW_SET) && hnc_read(&h->nc[member & (HNC_COUNT - 1)], to);

        if (atomic_load_explicit(row, memory_order_acquire) == member) {
            return found               ? DROP_NONE
                   : member & HROW_SET ? DROP_NO_NC
                                       : DROP_FALLBACK_NO_MEMBER;
        }
    }
}

/* To XGW-x86, which starts over. */
static void fall_back(struct call *c, const struct flow *f, uint8_t cls)
{
    struct fwd_packet *p = &c->packets[f->index];
    uint64_t to[2];
    struct way way;
    unsigned reason = find_member(c, f, to);

    if (reason == DROP_NONE && fallback_is_red(c, f, cls)) {
        reason = cls == PHYS_CLASS_SERVICE ? DROP_FALLBACK_SERVICE_RED
                                           : DROP_FALLBACK_MISS_RED;
    }
    if (reason == DROP_NONE) {
        reason = find_way(c, f, true, &way);
    }
    if (reason != DROP_NONE) {
        drop(c, f, f->half, reason);
        return;
    }
    rewrite_hand_on(p, &f->layers,
                    way.row->action == PHYS_KEEP_SRC ? NULL : way.row->source,
                    (const uint8_t *)to, way.dmac, way.smac);
    p->verdict = FWD_FORWARD;
    p->uplink = (uint8_t)way.port;
    c->fallback++;
}

/* ---- rewrite ---- */

static bool inner_ends(const struct fwd_packet *p, const struct layers *l)
{
    return p->data[l->inner_l3 + (l->inner_family == IP_V4 ? 8 : 7)] < 2;
}

/* Of the common shape: false, and nothing was done, when something is in the way. */
static bool send_fast(struct fwd_packet *p, const struct flow *f, const struct way *way)
{
    struct fast_exit exit;
    uint32_t to;

    if (!f->is_fast || way->row->action != PHYS_SRC4 || f->is_tunnel ||
        f->vni != f->layers.vni || !fast_has_no_udp_checksum(p->data)) {
        return false;
    }
    memcpy(&to, f->to, sizeof(to));
    fast_exit_init(&exit, way->dmac, way->smac, way->row->source);
    fast_rewrite(p, &exit, to, NULL);
    return true;
}

static void send_out(struct call *c, const struct flow *f)
{
    const struct layers *l = &f->layers;
    struct fwd_packet *p = &c->packets[f->index];
    struct way way;
    struct egress e = { .vni = f->vni,
                        .family = l->outer_family,
                        .decrements_inner = f->is_tunnel || f->vni != l->vni };
    unsigned reason;

    if ((f->nc >= PHYS_NC6_FIRST) != (l->outer_family == IP_V6) ||
        (e.decrements_inner && inner_ends(p, l))) {
        fall_back(c, f, PHYS_CLASS_MISS);
        return;
    }
    reason = find_way(c, f, false, &way);
    if (reason != DROP_NONE) {
        drop(c, f, f->half, reason);
        return;
    }
    if (l->outer_size > c->s->options.ports[way.port].mtu) {
        fall_back(c, f, PHYS_CLASS_MISS);
        return;
    }
    if (!send_fast(p, f, &way)) {
        e.source = way.row->action == PHYS_KEEP_SRC
                       ? p->data + l->outer_l3 + (l->outer_family == IP_V4 ? 12 : 8)
                       : way.row->source;
        e.destination = (const uint8_t *)f->to;
        e.port_mac = way.smac;
        e.next_hop_mac = way.dmac;
        rewrite_packet(p, l, &e);
    }
    p->verdict = FWD_FORWARD;
    p->uplink = (uint8_t)way.port;
    c->forwarded++;
}

/* ---- parse ---- */

/* Options and extension headers hide the ports from the chip. */
static bool hides_ports(const struct layers *l)
{
    return l->inner_l4 !=
           l->inner_l3 + (l->inner_family == IP_V4 ? IP4_SIZE : IP6_SIZE);
}

/* ::ffff:0:0/96, where IPv4 is pooled. */
static bool is_mapped(const struct flow *f)
{
    return f->is_v6 && f->route.key.hi == 0 && f->route.key.lo >> 32 == 0xffff;
}

/* What the chip does not look up, although the packet is good. */
static bool is_for_x86(const struct flow *f)
{
    return !f->is_fast && (f->layers.inner_tags > 0 || hides_ports(&f->layers));
}

/* Takes a packet that is VXLAN to us. */
static struct flow *take(const struct call *c, struct chunk *ch, uint32_t index)
{
    struct flow *f = &ch->flow[ch->count++];
    const struct exact *vni;
    uint64_t hash;

    f->index = index;
    f->ingress = c->packets[index].port % HSWITCH_HALVES;
    vni = &c->s->half[f->ingress].vni;
    hash = exact_hash1(vni, hvni_key(f->layers.vni) & EXACT_VNI_KEY);
    __builtin_prefetch(exact_home_in(
        vni, atomic_load_explicit(&vni->dir, memory_order_acquire), hash));
    return f;
}

/* Anything: what the outer headers settle is settled. */
static void parse_slow(struct call *c, struct chunk *ch, uint32_t index)
{
    struct fwd_packet *p = &c->packets[index];
    unsigned half = p->port % HSWITCH_HALVES;
    struct layers *l = &ch->flow[ch->count].layers;
    unsigned result = parse_outer(c->config[half], p, l);
    struct flow *f;

    if (result >= PARSE_LOCAL) {
        p->verdict = FWD_LOCAL;
        p->local = (uint8_t)(result - PARSE_LOCAL);
        c->local++;
        return;
    }
    if (result != 0) {
        drop_at(c, p, half, result);
        return;
    }
    f = take(c, ch, index);
    f->inner = (uint8_t)parse_inner(p, &f->layers);
    f->is_fast = false;
}

static void parse_packet(struct call *c, struct chunk *ch, uint32_t index)
{
    struct fwd_packet *p = &c->packets[index];
    const struct fwd_config *config = c->config[p->port % HSWITCH_HALVES];
    uint64_t known = 0;
    uint8_t family;
    struct flow *f;

    p->verdict = 0;
    p->reason = DROP_NONE;
    p->local = 0;
    p->uplink = 0;
    if (!config) {
        drop_at(c, p, p->port % HSWITCH_HALVES, DROP_NOT_READY);
        return;
    }
    family = fast_outer(config, p, &known);
    if (family == 0 || !(family == IP_V4 ? fast_inner4(p) : fast_inner6(p))) {
        parse_slow(c, ch, index);
        return;
    }
    fast_layers(p, family, &ch->flow[ch->count].layers);
    f = take(c, ch, index);
    f->inner = 0;
    f->is_fast = true;
}

/* ---- vni, acl, meter ---- */

static bool acl_permits(const struct call *c, const struct flow *f)
{
    const struct hacl *a =
        atomic_load_explicit(&c->s->half[f->ingress].acl, memory_order_acquire);
    const struct hacl_slot *rules = a ? hacl_find(a, f->layers.vni) : NULL;
    const struct fwd_packet *p = &c->packets[f->index];
    const struct layers *l = &f->layers;
    const uint8_t *ip = p->data + l->inner_l3;
    bool ports;
    struct hacl_key k;
    struct hkey src;

    if (!rules) {
        return true;
    }
    ports = !l->is_later_fragment && has_ports(p, l);
    src = f->is_v6 ? (struct hkey){ .hi = load_be64(ip + 8), .lo = load_be64(ip + 16) }
                   : hkey_v4(0, load_be32(ip + 12));
    k = (struct hacl_key){
        .src = { src.hi, src.lo },
        .dst = { f->route.key.hi, f->route.key.lo },
        .rest = hacl_rest(l->inner_proto, ports ? load_be16(p->data + l->inner_l4) : 0,
                          ports ? load_be16(p->data + l->inner_l4 + 2) : 0, ports),
    };
    return hacl_permits(a, rules, &k);
}

/* The VNI's row: half, flags, and which counter and meter, which are asked for. */
static void find_vni(const struct call *c, struct flow *f)
{
    const struct hhalf *h = &c->s->half[f->ingress];
    struct exact_entry key = { .w0 = hvni_key(f->layers.vni) };
    uint64_t slot;

    f->is_known = exact_find(&h->vni, &key, &slot);
    if (f->is_known) {
        f->flags = (uint8_t)(slot >> 32);
        f->vni_half = (uint8_t)(slot >> 40);
        f->meter = (uint16_t)(slot >> 48);
        __builtin_prefetch(&c->w->vni[f->ingress][f->meter], 1);
        __builtin_prefetch(&h->meter[PHYS_METER_VNI][f->meter]);
    }
}

/* Checks 22 to 33; a drop reason or 0.  Fills the route's key. */
static unsigned classify(const struct call *c, struct flow *f)
{
    const struct hhalf *h = &c->s->half[f->ingress];
    const struct fwd_packet *p = &c->packets[f->index];
    const struct layers *l = &f->layers;
    const uint8_t *ip = p->data + l->inner_l3;

    if (!f->is_known) {
        return DROP_UNKNOWN_VNI;
    }
    if (l->inner_tags > 0 && !(f->flags & VNI_INNER_VLAN)) {
        return DROP_INNER_VLAN;
    }
    if (f->inner != 0) {
        return f->inner;
    }
    f->is_v6 = l->inner_family == IP_V6;
    f->route.key = f->is_v6 ? (struct hkey){ .vni = l->vni,
                                             .hi = load_be64(ip + 24),
                                             .lo = load_be64(ip + 32) }
                            : hkey_v4(l->vni, load_be32(ip + 16));
    /* Where the ports are hidden nobody can apply rules: x86 does not look again. */
    if ((!f->is_fast && (f->flags & VNI_ACL) && hides_ports(l)) || !acl_permits(c, f)) {
        return DROP_ACL_DENY;
    }
    count_cell(&c->w->vni[f->ingress][f->meter], p->length);
    if (f->meter != 0 && hmeter_run(&h->meter[PHYS_METER_VNI][f->meter], c->now_ns,
                                    p->length) == HMETER_RED) {
        return DROP_METER_RED;
    }
    return DROP_NONE;
}

static void classify_chunk(struct call *c, struct chunk *ch)
{
    for (unsigned i = 0; i < ch->count; i++) {
        find_vni(c, &ch->flow[i]);
    }
    for (unsigned i = 0; i < ch->count; i++) {
        struct flow *f = &ch->flow[i];
        unsigned reason = classify(c, f);

        if (reason != DROP_NONE) {
            drop(c, f, f->ingress, reason);
            continue;
        }
        f->hash = fwdh_flow_hash(&c->packets[f->index], &f->layers);
        if (is_for_x86(f) || is_mapped(f)) {
            choose_half(f, f->vni_half);
            fall_back(c, f, PHYS_CLASS_MISS);
            continue;
        }
        ch->routed[ch->routed_count++] = f;
    }
}

/* ---- a burst ---- */

static void prefetch(const struct fwd_packet *p)
{
    __builtin_prefetch(p->data, 1);
    __builtin_prefetch(p->data + 64, 1);
}

static void run_chunk(struct call *c, struct chunk *ch, uint32_t from, uint32_t to)
{
    ch->count = ch->routed_count = 0;
    for (uint32_t i = from; i < to && i < from + PREFETCH_AHEAD; i++) {
        prefetch(&c->packets[i]);
    }
    for (uint32_t i = from; i < to; i++) {
        if (i + PREFETCH_AHEAD < to) {
            prefetch(&c->packets[i + PREFETCH_AHEAD]);
        }
        parse_packet(c, ch, i);
    }
    classify_chunk(c, ch);
    fwdh_look_up(c, ch);
    for (unsigned i = 0; i < ch->routed_count; i++) {
        const struct flow *f = ch->routed[i];

        if (f->outcome == TO_NC) {
            send_out(c, f);
        } else if (f->outcome == TO_X86) {
            fall_back(c, f, f->cls);
        } else {
            drop(c, f, f->half, f->reason);
        }
    }
}

void fwdh_burst(const struct hswitch *s, struct hworker *w, uint64_t now_ns,
                struct fwd_packet packets[], uint32_t n)
{
    struct call c = { .s = s, .w = w, .packets = packets, .now_ns = now_ns };
    struct chunk ch;

    for (unsigned h = 0; h < HSWITCH_HALVES; h++) {
        c.config[h] = atomic_load_explicit(&s->half[h].config, memory_order_acquire);
    }
    for (uint32_t from = 0; from < n; from += FWD_BURST) {
        run_chunk(&c, &ch, from, n - from < FWD_BURST ? n : from + FWD_BURST);
    }
    add(&w->received, n);
    add(&w->forwarded, c.forwarded);
    add(&w->fallback, c.fallback);
    add(&w->local, c.local);
}
