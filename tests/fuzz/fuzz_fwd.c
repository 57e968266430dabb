/* Any bytes through fwd_burst(): one verdict each, counted once; what is not forwarded
 * is unchanged; what leaves is a packet that a peer takes apart without complaint.
 *
 * The first byte of the input steers: what the NIC says, the headroom, and whether the
 * checksums of both IPv4 headers are made right first, or a fuzzer would spend its time
 * on them.  The region is the one of tests/reference/world.py in small. */
#include "agent/fwd/checksum.h"
#include "agent/fwd/fwd.h"
#include "agent/fwd/parse.h"
#include "tests/fuzz/fuzz.h"
#include "tests/unit/agent/fwd/naive_fib.h"

enum {
    /* Not FWD_RX_IP_CSUM_GOOD: a NIC that lies gets its wrong checksum passed on. */
    STEER_RX_FLAGS = FWD_RX_IP_CSUM_BAD | FWD_RX_L4_CSUM_BAD,
    STEER_HEADROOM = 0x08, /* enough for v4 to v6 */
    STEER_REPAIR = 0x10,
};

static const char *const ncs[] = { "172.16.2.2", "fd00:16:2::2", "172.16.9.9",
                                   "fd00:16:9::9" };

static struct ip ip_of(const char *text)
{
    struct ip ip;

    FUZZ_CLAIM(ip_parse(text, strlen(text), &ip, NULL) == RC_OK);
    return ip;
}

static struct prefix prefix_of(const char *text)
{
    struct prefix p;

    FUZZ_CLAIM(prefix_parse(text, strlen(text), &p, NULL) == RC_OK);
    return p;
}

static struct fwd_config *compile(const struct fwd_node *node)
{
    struct fwd_config *c;

    FUZZ_CLAIM(fwd_config_new(node, &c, NULL) == RC_OK);
    return c;
}

/* The gateway under test. */
static struct fwd_config *make_gateway(void)
{
    struct ip vteps[] = { ip_of("172.16.0.1"), ip_of("fd00:16::1") };
    struct ip vips[] = { ip_of("172.31.0.1"), ip_of("fd00:31::1") };
    struct prefix sources[] = { prefix_of("172.16.0.0/12"), prefix_of("fd00:16::/32") };
    struct fwd_uplink_spec uplinks[] = {
        { .mtu = 1500,
          .address = ip_of("172.20.0.1"),
          .next_hop = ip_of("172.20.0.2") },
        { .mtu = 1400,
          .address = ip_of("172.20.1.1"),
          .next_hop = ip_of("172.20.1.2") },
        { .mtu = 1280,
          .address = ip_of("fd00:20::1"),
          .next_hop = ip_of("fd00:20::2") },
    };
    struct fwd_node node = {
        .vteps = vteps,
        .vips = vips,
        .underlay_sources = sources,
        .uplinks = uplinks,
        .vtep_count = 2,
        .vip_count = 2,
        .underlay_source_count = 2,
        .uplink_count = 3,
        .icmp_source4 = ip_of("100.64.0.1"),
        .icmp_source6 = ip_of("fd64::1"),
    };

    for (unsigned i = 0; i < 3; i++) {
        uplinks[i].has_next_hop_mac = true;
        uplinks[i].next_hop_mac[0] = 2;
    }
    return compile(&node);
}

/* Whoever gets what leaves: owns all NC addresses, and knows the VIPs as senders. */
static struct fwd_config *make_peer(void)
{
    struct ip vteps[4];
    struct prefix sources[] = { prefix_of("172.31.0.1/32"),
                                prefix_of("fd00:31::1/128") };
    struct fwd_node node = { .vteps = vteps,
                             .underlay_sources = sources,
                             .vtep_count = 4,
                             .underlay_source_count = 2 };

    for (unsigned i = 0; i < 4; i++) {
        vteps[i] = ip_of(ncs[i]);
    }
    return compile(&node);
}

static void add_route(struct entry *e, uint32_t vni, const char *prefix, uint8_t scope,
                      uint32_t to_vni, const char *endpoint)
{
    e->table = TABLE_VXLAN_ROUTE;
    e->vni = vni;
    e->route.dst = prefix_of(prefix);
    e->route.action.scope = scope;
    e->route.action.vni = to_vni;
    if (endpoint != NULL) {
        e->route.action.endpoint = ip_of(endpoint);
    }
}

static void add_vm(struct entry *e, uint32_t vni, const char *vm, const char *nc)
{
    e->table = TABLE_VM_NC;
    e->vni = vni;
    e->vm_nc.vm = ip_of(vm);
    e->vm_nc.nc = ip_of(nc);
    e->vm_nc.has_mac = true;
    e->vm_nc.mac[0] = 2;
}

static struct fib *make_fib(void)
{
    static struct entry e[20];
    unsigned n = 0;

    for (uint32_t vni = 100; vni <= 300; vni += 100, n++) {
        e[n].table = TABLE_VNI;
        e[n].vni = vni;
        e[n].vni_row.flags = vni == 300 ? VNI_INNER_VLAN : 0;
    }
    add_route(&e[n++], 100, "10.0.0.0/16", SCOPE_LOCAL, 0, NULL);
    add_route(&e[n++], 100, "2001:db8:100::/48", SCOPE_LOCAL, 0, NULL);
    add_route(&e[n++], 100, "10.4.0.0/16", SCOPE_IDC, 5000, "172.16.9.9");
    add_route(&e[n++], 100, "2001:db8:4::/48", SCOPE_IDC, 5000, "fd00:16:9::9");
    add_route(&e[n++], 100, "10.9.0.0/16", SCOPE_PEER, 200, NULL);
    add_route(&e[n++], 200, "10.9.0.0/16", SCOPE_REGION, 6000, "fd00:16:9::9");
    add_route(&e[n++], 300, "0.0.0.0/0", SCOPE_IDC, 300, "172.16.9.9");
    add_route(&e[n++], 300, "::/0", SCOPE_LOCAL, 0, NULL);
    add_vm(&e[n++], 100, "10.0.0.4", "172.16.2.2");
    add_vm(&e[n++], 100, "10.0.0.6", "fd00:16:2::2");
    add_vm(&e[n++], 100, "2001:db8:100::4", "172.16.2.2");
    add_vm(&e[n++], 100, "2001:db8:100::6", "fd00:16:2::2");
    return naive_fib_new(e, n);
}

static void repair(uint8_t *ip, size_t room)
{
    size_t header = room >= 20 ? (ip[0] & 15u) * 4u : 0;

    if (header >= 20 && header <= room && ip[0] >> 4 == 4) {
        csum_store(ip + 10, 0);
        csum_store(ip + 10, (uint16_t)~csum_fold(csum_add(0, ip, header)));
    }
}

/* Makes the header checksums right where parsing gets that far. */
static void repair_packet(const struct fwd_config *c, struct fwd_packet *p)
{
    struct layers l;

    if (p->length > 14) {
        repair(p->data + 14, p->length - 14);
    }
    if (parse_outer(c, p, &l) == 0) {
        (void)parse_inner(p, &l);
        if (l.inner_family == IP_V4) {
            repair(p->data + l.inner_l3, l.outer_l3 + l.outer_size - l.inner_l3);
        }
    }
}

/* A frame that leaves, as the peer sees it: nothing wrong, but perhaps at the end of
 * its life. */
static void check_frame(const struct fwd_config *peer, uint8_t *data, uint32_t length)
{
    struct fwd_packet p = { .data = data, .length = length };
    struct layers l;
    unsigned result = parse_outer(peer, &p, &l);

    FUZZ_CLAIM(result == 0 || result == DROP_OUTER_TTL);
    FUZZ_CLAIM(l.outer_l3 + l.outer_size == length);
    if (result == 0) {
        FUZZ_CLAIM(parse_inner(&p, &l) == 0);
    }
}

/* An answer goes to whoever sent: make that somebody the peer knows, and its sum. */
static void check_answer(const struct fwd_config *peer, struct fwd_answer *a)
{
    bool is_v6 = a->data[12] == 0x86;
    struct ip nc = ip_of(ncs[is_v6 ? 1 : 0]);

    FUZZ_CLAIM(a->length <= FWD_ANSWER_SIZE);
    memcpy(a->data + 14 + (is_v6 ? 24 : 16), nc.b, is_v6 ? 16 : 4);
    repair(a->data + 14, a->length - 14);
    check_frame(peer, a->data, a->length);
}

static void check_counters(const struct fwd_worker *w, unsigned answers)
{
    struct fwd_totals t = { 0 };
    uint64_t sum;

    fwd_worker_sum(w, &t);
    sum = t.forwarded + t.local;
    for (unsigned i = 0; i < DROP_COUNT; i++) {
        sum += t.drops[i];
    }
    FUZZ_CLAIM(t.received == 1 && sum == 1 && t.drops[DROP_NONE] == 0);
    FUZZ_CLAIM(t.icmp_sent == answers && answers <= 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct fwd_config *gateway;
    static struct fwd_config *peer;
    static struct fib *fib;
    uint8_t answer_data[FWD_ANSWER_SIZE];
    struct fwd_answer answer = { .data = answer_data };
    struct fwd_answers answers = { .at = &answer, .room = 1 };
    struct fwd_worker worker;
    struct fwd_packet p = { 0 };
    struct fwd_view view;
    uint8_t *buffer;
    uint8_t *before;

    if (size == 0 || size > 10000) {
        return 0;
    }
    if (gateway == NULL) {
        gateway = make_gateway();
        peer = make_peer();
        fib = make_fib();
    }
    view = (struct fwd_view){ gateway, fib, true };
    fwd_worker_init(&worker, 0, 0);
    p.rx_flags = data[0] & STEER_RX_FLAGS;
    p.headroom = data[0] & STEER_HEADROOM ? FWD_HEADROOM : 0;
    p.length = (uint32_t)size - 1;
    buffer = malloc(p.headroom + p.length); /* exactly, so that ASan sees more */
    before = malloc(size);
    FUZZ_CLAIM((buffer != NULL || p.headroom + p.length == 0) && before != NULL);
    p.data = buffer + p.headroom;
    memcpy(p.data, data + 1, p.length);
    if (data[0] & STEER_REPAIR) {
        repair_packet(gateway, &p);
    }
    memcpy(before, p.data, p.length);
    fwd_burst(&view, &worker, 0, &p, 1, &answers);
    check_counters(&worker, answers.count);
    if (p.verdict == FWD_FORWARD) {
        FUZZ_CLAIM(p.reason == DROP_NONE && p.length <= 14 + 1500);
        FUZZ_CLAIM(p.data >= buffer && p.data - p.headroom == buffer);
        check_frame(peer, p.data, p.length);
    } else {
        FUZZ_CLAIM(p.length == size - 1 && memcmp(p.data, before, p.length) == 0);
        FUZZ_CLAIM((p.verdict == FWD_DROP) == (p.reason != DROP_NONE));
    }
    if (answers.count == 1) {
        FUZZ_CLAIM(p.reason == DROP_MTU || p.reason == DROP_INNER_TTL);
        check_answer(peer, &answer);
    }
    free(before);
    free(buffer);
    return 0;
}
