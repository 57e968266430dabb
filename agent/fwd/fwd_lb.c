#include "agent/fwd/fwd_lb.h"

#include "agent/fwd/fast.h"
#include "agent/fwd/fwd_impl.h"
#include "agent/fwd/mix.h"
#include "agent/fwd/rewrite.h"
#include "agent/fwd/wire.h"

/* A packet that goes on, between parse and send. */
struct passing {
    uint32_t index;
    struct layers layers; /* the outer ones */
    uint64_t hash;
    const struct steer_choice *choice;
};

/* Up to FWD_BURST packets.  Three loads lie between parse and send (the VNI's bucket,
 * the cluster's entry, its table's slot); each is asked for one pass ahead. */
struct burst {
    struct call call;
    const struct lb_view *view;
    unsigned count;
    struct passing at[FWD_BURST];
};

/* Of the outer 5-tuple: VXLAN's source port carries the inner flow's entropy (RFC 7348,
 * section 5). */
static uint64_t outer_hash(const struct fwd_packet *p, const struct layers *l)
{
    const uint8_t *ip = p->data + l->outer_l3;
    uint64_t rest = (uint64_t)PROTO_UDP << 32 | load_be32(p->data + l->udp);

    return mix(mix_addresses(ip, l->outer_family == IP_V4) ^ MIX_SALT_0,
               rest ^ MIX_SALT_1);
}

/* Checks 1 to 21; false: settled. */
static bool parse(struct burst *b, uint32_t index, uint64_t *known, struct layers *l)
{
    struct call *c = &b->call;
    struct fwd_packet *p = &c->packets[index];
    unsigned result;

    if (__builtin_expect(fast_outer(c->config, p, known) != 0, 1)) {
        *l = (struct layers){ .outer_size = load_be16(p->data + FAST_IP + 2),
                              .vni = load_be24(p->data + FAST_VXLAN + 4),
                              .outer_l3 = FAST_IP,
                              .udp = FAST_UDP,
                              .outer_family = IP_V4 };
        return true;
    }
    result = parse_outer(c->config, p, l);
    if (result >= PARSE_LOCAL) {
        settle(p, FWD_LOCAL, DROP_NONE, result - PARSE_LOCAL, 0);
        c->local++;
        return false;
    }
    if (result != 0) {
        fwd_drop(c, index, result);
        return false;
    }
    return true;
}

static void parse_all(struct burst *b, uint32_t from, uint32_t to)
{
    uint64_t known = 0;

    b->count = 0;
    for (uint32_t index = from; index < to; index++) {
        struct passing *x = &b->at[b->count];

        if (parse(b, index, &known, &x->layers)) {
            fib_cluster_ask(b->view->fib, x->layers.vni);
            x->index = index;
            b->count++;
        }
    }
}

/* Check 22; asks for the slot of the cluster's table. */
static void find_all(struct burst *b)
{
    for (unsigned i = 0; i < b->count; i++) {
        struct passing *x = &b->at[i];
        const struct layers *l = &x->layers;
        uint32_t cluster = fib_cluster_of(b->view->fib, l->vni);
        const struct steer_cluster *k;

        x->choice = NULL;
        if (cluster == FIB_CLUSTER_NONE) {
            fwd_drop(&b->call, x->index, DROP_UNKNOWN_VNI);
            x->index = UINT32_MAX;
            continue;
        }
        k = steer_find(b->view->steer, cluster);
        if (!k) {
            continue;
        }
        x->choice = l->outer_family == IP_V4 ? &k->v4 : &k->v6;
        x->hash = outer_hash(&b->call.packets[x->index], l);
        if (x->choice->table) {
            __builtin_prefetch(
                &x->choice->table->slot[x->hash >> (64 - MEMBER_TABLE_BITS)]);
        }
    }
}

/* Checks 41 to 43, and out. */
static void send(struct burst *b, const struct passing *x)
{
    struct call *c = &b->call;
    const struct layers *l = &x->layers;
    const struct uplink_set *set =
        l->outer_family == IP_V4 ? &c->uplinks4 : &c->uplinks6;
    const struct fwd_uplink *uplink;
    unsigned place;
    unsigned member;

    if (set->count == 0) {
        fwd_drop(c, x->index,
                 set->configured == 0 ? DROP_NO_UPLINK : DROP_NEXT_HOP_UNRESOLVED);
        return;
    }
    if (!x->choice || !x->choice->table) {
        fwd_drop(c, x->index, DROP_NO_MEMBER);
        return;
    }
    place = set->count == 1 ? 0 : uplink_pick_by(set, c->config, x->hash);
    uplink = &c->config->uplink[set->index[place]];
    if (l->outer_size > uplink->mtu) {
        fwd_drop(c, x->index, DROP_MTU);
        return;
    }
    member = member_table_pick(x->choice->table, x->hash);
    rewrite_hand_on(&c->packets[x->index], l, NULL, x->choice->address[member],
                    set->mac[place], uplink->mac);
    settle(&c->packets[x->index], FWD_FORWARD, DROP_NONE, 0, set->index[place]);
    c->forwarded++;
}

void lb_burst(const struct lb_view *view, struct fwd_worker *w,
              struct fwd_packet packets[], uint32_t n)
{
    struct burst b;
    struct call *c = &b.call;

    c->config = view->config;
    c->worker = w;
    c->packets = packets;
    c->forwarded = c->local = 0;
    b.view = view;
    if (n == 0) {
        return;
    }
    count_add(&w->count.received, n);
    if (!view->is_ready) {
        for (uint32_t i = 0; i < n; i++) {
            fwd_drop(c, i, DROP_NOT_READY);
        }
        return;
    }
    uplink_set_read(&c->uplinks4, c->config, IP_V4);
    uplink_set_read(&c->uplinks6, c->config, IP_V6);
    for (uint32_t from = 0; from < n; from += FWD_BURST) {
        parse_all(&b, from, n - from < FWD_BURST ? n : from + FWD_BURST);
        find_all(&b);
        for (unsigned i = 0; i < b.count; i++) {
            if (b.at[i].index != UINT32_MAX) {
                send(&b, &b.at[i]);
            }
        }
    }
    count_add(&w->count.forwarded, c->forwarded);
    count_add(&w->count.local, c->local);
}
