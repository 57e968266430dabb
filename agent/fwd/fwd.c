#include "agent/fwd/fwd.h"

#include "agent/fwd/fast.h"
#include "agent/fwd/fwd_impl.h"
#include "agent/fwd/wire.h"

/* Packets that are parsed before what they need of the tables is asked for: shorter
 * rounds spread the loads, so that less of them wait for a miss buffer (a core has some
 * 24); longer ones have fewer loops whose end is a wrong guess. */
#define ROUND 16

/* A packet of a chunk that goes the general way. */
struct general {
    struct layers layers;
    uint8_t inner; /* what parse_inner() said */
};

/* Up to FWD_BURST packets between "parsed, lookups started" and "answered".  Packets
 * that the outer headers already settled have no place here.  A tag is a packet's place
 * in the chunk. */
struct chunk {
    uint32_t from;          /* index of its first packet */
    unsigned sent;          /* plain answers of the batch that were followed */
    struct fib_batch batch; /* those of the shape that fast.h knows */
    unsigned general_count;
    uint8_t general_tag[FWD_BURST];
    struct general general[FWD_BURST];
    struct fib_query query[FWD_BURST]; /* of the general ones */
};

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

/* Tags of a chunk's packets of the common shape, by inner family.  Filled without a
 * branch: the family is random to the branch predictor, and a wrong guess costs more
 * than the work. */
struct families {
    unsigned v4_count;
    unsigned v6_count;
    uint8_t v4[FWD_BURST + 1];
    uint8_t v6[FWD_BURST + 1];
};

/* Parses the inner frame behind the layers of general packet `k` and makes the query.
 */
static void ask(const struct fwd_packet *p, struct general *g, struct fib_query *q)
{
    struct layers *l = &g->layers;
    unsigned result = parse_inner(p, l);
    const uint8_t *ip = p->data + l->inner_l3;

    q->vni = l->vni;
    if (result != 0) {
        /* Only to learn of the VNI: an unknown one, or one without tags, is the earlier
         * reason. */
        q->family = IP_V4;
        memset(q->dst, 0, 16);
    } else if (l->inner_family == IP_V4) {
        q->family = IP_V4;
        memcpy(q->dst, ip + 16, 4);
    } else {
        q->family = IP_V6;
        memcpy(q->dst, ip + 24, 16);
    }
    g->inner = (uint8_t)result;
}

/* What the outer headers settle is settled; all others are among the chunk's general
 * packets. */
static void parse_packet(struct call *c, struct chunk *ch, unsigned tag)
{
    uint32_t index = ch->from + tag;
    struct fwd_packet *p = &c->packets[index];
    struct general *g = &ch->general[ch->general_count];
    unsigned result = parse_outer(c->config, p, &g->layers);

    if (result >= PARSE_LOCAL) {
        settle(p, FWD_LOCAL, DROP_NONE, result - PARSE_LOCAL, 0);
        c->local++;
        return;
    }
    if (result != 0) {
        fwd_drop(c, index, result);
        return;
    }
    ask(p, g, &ch->query[ch->general_count]);
    ch->general_tag[ch->general_count++] = (uint8_t)tag;
}

/* The outer halves.  Fills the tags of those of the common shape by inner family. */
static void parse_outers(struct call *c, struct chunk *ch, unsigned from, unsigned to,
                         uint64_t *known, struct families *ret)
{
    const struct fwd_config *config = c->config;
    struct fwd_packet *packets = &c->packets[ch->from];
    unsigned v4 = 0;
    unsigned v6 = 0;

    for (unsigned tag = from; tag < to; tag++) {
        unsigned family = fast_outer(config, &packets[tag], known);
        unsigned is_v6;

        ret->v4[v4] = ret->v6[v6] = (uint8_t)tag;
        if (__builtin_expect(family == 0, 0)) {
            parse_packet(c, ch, tag);
            continue;
        }
        is_v6 = family == IP_V6;
        __asm__("" : "+r"(is_v6)); /* no branch */
        v6 += is_v6;
        v4 += is_v6 ^ 1;
    }
    ret->v4_count = v4;
    ret->v6_count = v6;
}

/* The inner halves, by family: straight-line code each. */
static void parse_inners(struct call *c, struct chunk *ch, const struct families *f)
{
    const struct fwd_packet *packets = c->packets + ch->from;

    for (unsigned n = 0; n < f->v4_count; n++) {
        const struct fwd_packet *p = &packets[f->v4[n]];
        const uint8_t *d = p->data;

        if (__builtin_expect(!fast_inner4(p), 0)) {
            parse_packet(c, ch, f->v4[n]);
            continue;
        }
        fib_batch_add4(&ch->batch, f->v4[n], load_be32(d + FAST_VXLAN + 4) >> 8,
                       load_be32(d + FAST_INNER_IP + 16), true);
    }
    for (unsigned n = 0; n < f->v6_count; n++) {
        const struct fwd_packet *p = &packets[f->v6[n]];
        const uint8_t *d = p->data;

        if (__builtin_expect(!fast_inner6(p), 0)) { /* not all of it may be there */
            parse_packet(c, ch, f->v6[n]);
            continue;
        }
        fib_batch_add6(&ch->batch, f->v6[n], load_be32(d + FAST_VXLAN + 4) >> 8,
                       load_be64(d + FAST_INNER_IP + 24),
                       load_be64(d + FAST_INNER_IP + 32), true);
    }
}

static void chunk_start(struct call *c, struct chunk *ch, uint32_t from)
{
    unsigned count = c->n - from < FWD_BURST ? c->n - from : FWD_BURST;
    struct families families;
    uint64_t known = 0;

    ch->from = from;
    ch->sent = 0;
    ch->general_count = 0;
    fib_batch_init(&ch->batch);
    for (unsigned at = 0; at < count; at += ROUND) {
        parse_outers(c, ch, at, at + ROUND < count ? at + ROUND : count, &known,
                     &families);
        parse_inners(c, ch, &families);
        fib_batch_begin(c->fib, &ch->batch);
    }
}

/* The common end: to an IPv4 NC, in the VNI that the packet came in, and nothing in the
 * way.  False, and nothing was done: the general way. */
static inline bool send_fast(struct call *c, struct fwd_packet *p, uint32_t nc,
                             const uint8_t *inner_mac)
{
    const struct fast_exit *e = c->exit;
    struct layers l;

    if (__builtin_expect(c->exit_count != 1, 0)) {
        if (c->exit_count == 0) {
            return false;
        }
        fast_layers(p, fast_family(p->data), &l);
        e += uplink_pick(&c->uplinks4, c->config, p, &l);
    }
    if (__builtin_expect(p->length > e->length || !fast_has_no_udp_checksum(p->data),
                         0)) {
        return false;
    }
    fast_rewrite(p, e, nc, inner_mac);
    p->outcome = e->outcome;
    c->forwarded++;
    return true;
}

/* Packets of a chunk that are not sent yet: a mask of tags, and each one's query. */
struct rest {
    uint64_t tags;
    uint8_t place[FWD_BURST]; /* in batch.query, or GENERAL and in chunk.general */
};
enum { GENERAL = 0x80 };
_Static_assert(FWD_BURST <= 64, "a mask has room");

static inline void rest_add(struct rest *r, unsigned tag, unsigned place)
{
    r->tags |= UINT64_C(1) << tag;
    r->place[tag] = (uint8_t)place;
}

/* Sends what is plain so far; what cannot go the short way gets a query among the
 * others. */
static void send_plain(struct call *c, struct chunk *ch)
{
    struct fib_batch *b = &ch->batch;
    struct fwd_packet *packets = c->packets + ch->from;

    for (unsigned n = ch->sent, count = b->plain_count; n < count; n++) {
        struct fwd_packet *p = &packets[b->plain[n]];

        if (__builtin_expect(!send_fast(c, p, b->plain_nc[n], NULL), 0)) {
            uint32_t vni = load_be24(p->data + FAST_VXLAN + 4);
            struct fib_query *q = &b->query[b->other_count];

            *q = (struct fib_query){ .vni = vni,
                                     .family = fast_family(p->data),
                                     .kind = FIB_LOCAL,
                                     .lookups = 1,
                                     .out_vni = vni,
                                     .scope = SCOPE_LOCAL,
                                     .addr_family = IP_V4 };
            memcpy(q->addr, &b->plain_nc[n], sizeof(b->plain_nc[n]));
            b->other[b->other_count++] = b->plain[n];
        }
    }
    ch->sent = b->plain_count;
}

/* In order, as answers are. */
static void send_rest(struct call *c, struct chunk *ch, const struct rest *rest)
{
    for (uint64_t tags = rest->tags; tags != 0; tags &= tags - 1) {
        unsigned tag = (unsigned)__builtin_ctzll(tags);
        unsigned place = rest->place[tag];
        uint32_t index = ch->from + tag;
        struct fwd_packet *p = &c->packets[index];
        const struct fib_query *q;
        uint32_t nc;
        struct layers l;

        if (place & GENERAL) {
            place &= ~(unsigned)GENERAL;
            fwd_finish(c, index, &ch->general[place].layers, &ch->query[place],
                       ch->general[place].inner);
            continue;
        }
        q = &ch->batch.query[place];
        memcpy(&nc, q->addr, sizeof(nc));
        if (q->kind == FIB_LOCAL && q->addr_family == IP_V4 && !q->vni_changed &&
            send_fast(c, p, nc, q->has_mac ? q->mac : NULL)) {
            continue;
        }
        fast_layers(p, q->family, &l);
        fwd_finish(c, index, &l, q, 0);
    }
}

static void chunk_probe(struct call *c, struct chunk *ch)
{
    fib_batch_probe(c->fib, &ch->batch);
    send_plain(c, ch);
}

static void chunk_finish(struct call *c, struct chunk *ch)
{
    struct rest rest = { .tags = 0 };

    fib_batch_end(c->fib, &ch->batch);
    send_plain(c, ch);
    for (unsigned n = 0; n < ch->batch.other_count; n++) {
        rest_add(&rest, ch->batch.other[n], n);
    }
    if (__builtin_expect(ch->general_count > 0, 0)) {
        fib_resolve_burst(c->fib, ch->query, ch->general_count);
        for (unsigned n = 0; n < ch->general_count; n++) {
            rest_add(&rest, ch->general_tag[n], n | GENERAL);
        }
    }
    send_rest(c, ch, &rest);
}

static void drop_all(struct call *c, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        fwd_drop(c, i, DROP_NOT_READY);
    }
}

/* Four chunks are under way: while one is parsed, the table lines that those before it
 * asked for arrive. */
static void run_chunks(struct call *c)
{
    struct chunk chunk[4];
    uint32_t count = (c->n + FWD_BURST - 1) / FWD_BURST;

    for (uint32_t i = 0; i < count + 3; i++) {
        if (i < count) {
            chunk_start(c, &chunk[i % 4], i * FWD_BURST);
        }
        if (i - 1 < count) {
            chunk_probe(c, &chunk[(i - 1) % 4]);
        }
        if (i - 2 < count) {
            fib_batch_step(c->fib, &chunk[(i - 2) % 4].batch);
        }
        if (i - 3 < count) {
            chunk_finish(c, &chunk[(i - 3) % 4]);
        }
    }
}

/* The ways out over IPv4, as the common packet needs them. */
static void read_exits(struct call *c)
{
    const struct uplink_set *set = &c->uplinks4;

    c->exit_count = c->config->has_vip4 ? set->count : 0;
    for (unsigned i = 0; i < c->exit_count; i++) {
        const struct fwd_uplink *uplink = &c->config->uplink[set->index[i]];
        struct fast_exit *e = &c->exit[i];

        fast_exit_init(e, set->mac[i], uplink->mac, c->config->vip4);
        e->length = ETH_SIZE + uplink->mtu;
        e->outcome = outcome_of(FWD_FORWARD, DROP_NONE, 0, set->index[i]);
    }
}

void fwd_burst(const struct fwd_view *view, struct fwd_worker *w, uint64_t now_ns,
               struct fwd_packet packets[], uint32_t n, struct fwd_answers *answers)
{
    struct call c;

    c.config = view->config;
    c.fib = view->fib;
    c.worker = w;
    c.packets = packets;
    c.answers = answers;
    c.now_ns = now_ns;
    c.n = n;
    c.forwarded = c.local = 0;

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
    read_exits(&c);
    run_chunks(&c);
    count_add(&w->count.forwarded, c.forwarded);
    count_add(&w->count.local, c.local);
}
