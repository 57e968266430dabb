#include "tests/unit/agent/fwd/fixture.h"

#include <arpa/inet.h>
#include <string.h>

#include "tests/unit/agent/fwd/naive_fib.h"
#include "tests/unit/unit.h"

const uint8_t fixture_nc4_mac[6] = { 2, 0xbb, 0, 0, 0, 4 };
const uint8_t fixture_nc6_mac[6] = { 2, 0xbb, 0, 0, 0, 6 };

static struct ip ip_of(const char *text)
{
    struct ip ip;

    ck_assert_int_eq(ip_parse(text, strlen(text), &ip, NULL), RC_OK);
    return ip;
}

static struct prefix prefix_of(const char *text)
{
    struct prefix p;

    ck_assert_int_eq(prefix_parse(text, strlen(text), &p, NULL), RC_OK);
    return p;
}

struct route_row {
    uint32_t vni;
    const char *prefix;
    enum route_scope scope;
    uint32_t to_vni;
    const char *endpoint;
};

static const struct route_row routes[] = {
    { 10, "10.0.0.0/24", SCOPE_LOCAL, 0, NULL },
    { 10, "2001:db8:10::/64", SCOPE_LOCAL, 0, NULL },
    { 10, "10.0.1.0/24", SCOPE_PEER, 20, NULL },
    { 10, "2001:db8:10:1::/64", SCOPE_PEER, 20, NULL },
    { 20, "10.0.1.0/24", SCOPE_LOCAL, 0, NULL },
    { 20, "2001:db8:10:1::/64", SCOPE_LOCAL, 0, NULL },
    { 10, "10.0.2.0/24", SCOPE_IDC, 5000, "198.51.100.77" },
    { 10, "2001:db8:10:2::/64", SCOPE_IDC, 5000, "198.51.100.77" },
    { 10, "10.0.3.0/24", SCOPE_REGION, 6000, "2001:db8:a::88" },
    { 10, "2001:db8:10:3::/64", SCOPE_REGION, 6000, "2001:db8:a::88" },
    { 10, "10.0.4.0/24", SCOPE_INTERNET, 0, NULL },
    { 10, "10.0.5.0/24", SCOPE_SERVICE, 0, NULL },
    { 10, "10.0.6.0/24", SCOPE_PEER, 41, NULL },
    { 41, "10.0.6.0/24", SCOPE_PEER, 42, NULL },
    { 42, "10.0.6.0/24", SCOPE_PEER, 43, NULL },
    { 43, "10.0.6.0/24", SCOPE_PEER, 44, NULL },
    { 44, "10.0.6.0/24", SCOPE_LOCAL, 0, NULL },
    { 10, "10.0.7.0/24", SCOPE_DERIVED, 700, "198.51.100.99" },
    { 10, "10.0.8.0/24", SCOPE_IDC, 10, "198.51.100.77" },
    { 30, "10.0.0.0/24", SCOPE_LOCAL, 0, NULL },
    { 30, "2001:db8:10::/64", SCOPE_LOCAL, 0, NULL },
};

struct vm_row {
    uint32_t vni;
    const char *vm;
    const char *nc;
    const uint8_t *mac;
};

static const struct vm_row vms[] = {
    { 10, "10.0.0.4", "198.51.100.4", fixture_nc4_mac },
    { 10, "10.0.0.5", "198.51.100.5", NULL },
    { 10, "10.0.0.6", "2001:db8:a::6", fixture_nc6_mac },
    { 10, "2001:db8:10::4", "198.51.100.4", fixture_nc4_mac },
    { 10, "2001:db8:10::5", "198.51.100.5", NULL },
    { 10, "2001:db8:10::6", "2001:db8:a::6", fixture_nc6_mac },
    { 20, "10.0.1.4", "198.51.100.4", fixture_nc4_mac },
    { 20, "10.0.1.6", "2001:db8:a::6", fixture_nc6_mac },
    { 20, "2001:db8:10:1::4", "198.51.100.4", fixture_nc4_mac },
    { 20, "2001:db8:10:1::6", "2001:db8:a::6", fixture_nc6_mac },
    { 30, "10.0.0.4", "198.51.100.4", fixture_nc4_mac },
    { 30, "2001:db8:10::6", "2001:db8:a::6", fixture_nc6_mac },
};

static const struct {
    uint32_t vni;
    uint8_t flags;
} vnis[] = { { 10, 0 }, { 20, 0 }, { 30, VNI_INNER_VLAN } };

#define ENTRY_COUNT (ARRAY_LEN(routes) + ARRAY_LEN(vms) + ARRAY_LEN(vnis))

static struct entry *make_entries(void)
{
    struct entry *entries = calloc(ENTRY_COUNT, sizeof(*entries));
    unsigned n = 0;

    ck_assert_ptr_nonnull(entries);
    for (unsigned i = 0; i < ARRAY_LEN(vnis); i++, n++) {
        entries[n].table = TABLE_VNI;
        entries[n].vni = vnis[i].vni;
        entries[n].vni_row.flags = vnis[i].flags;
    }
    for (unsigned i = 0; i < ARRAY_LEN(routes); i++, n++) {
        struct route_action *a = &entries[n].route.action;

        entries[n].table = TABLE_VXLAN_ROUTE;
        entries[n].vni = routes[i].vni;
        entries[n].route.dst = prefix_of(routes[i].prefix);
        a->scope = (uint8_t)routes[i].scope;
        a->vni = routes[i].to_vni;
        if (routes[i].endpoint != NULL) {
            a->endpoint = ip_of(routes[i].endpoint);
        }
    }
    for (unsigned i = 0; i < ARRAY_LEN(vms); i++, n++) {
        entries[n].table = TABLE_VM_NC;
        entries[n].vni = vms[i].vni;
        entries[n].vm_nc.vm = ip_of(vms[i].vm);
        entries[n].vm_nc.nc = ip_of(vms[i].nc);
        entries[n].vm_nc.has_mac = vms[i].mac != NULL;
        if (vms[i].mac != NULL) {
            memcpy(entries[n].vm_nc.mac, vms[i].mac, 6);
        }
    }
    return entries;
}

static void make_uplinks(struct fwd_uplink_spec uplinks[4])
{
    static const char *const address[4][2] = {
        { "192.0.2.10", "192.0.2.11" },
        { "192.0.2.20", "192.0.2.21" },
        { "2001:db8:f:1::10", "2001:db8:f:1::11" },
        { "2001:db8:f:2::20", "2001:db8:f:2::21" },
    };

    memset(uplinks, 0, 4 * sizeof(*uplinks));
    for (uint8_t i = 0; i < 4; i++) {
        uplinks[i].port = i % 2;
        memcpy(uplinks[i].mac, "\x02\x00\x00\x00\x00\x10", 6);
        uplinks[i].mac[5] = (uint8_t)(0x10 + i % 2);
        uplinks[i].mtu = 1500;
        uplinks[i].address = ip_of(address[i][0]);
        uplinks[i].next_hop = ip_of(address[i][1]);
        uplinks[i].has_next_hop_mac = true;
        memcpy(uplinks[i].next_hop_mac, "\x02\x00\x00\x00\x01\x00", 6);
        uplinks[i].next_hop_mac[5] = i;
    }
}

static struct entry *fixture_entries; /* lives as long as the test's process */

void fixture_init(struct fixture *x, fixture_change_fn *change)
{
    struct ip vteps[] = { ip_of("192.0.2.1"), ip_of("2001:db8:f::1") };
    struct ip vips[] = { ip_of("192.0.2.100"), ip_of("2001:db8:f::100") };
    struct prefix sources[] = { prefix_of("198.51.100.0/24"),
                                prefix_of("203.0.113.7/32"),
                                prefix_of("2001:db8:a::/48") };
    struct fwd_uplink_spec uplinks[4];
    struct fwd_node node = {
        .vteps = vteps,
        .vips = vips,
        .underlay_sources = sources,
        .uplinks = uplinks,
        .vtep_count = 2,
        .vip_count = 2,
        .underlay_source_count = 3,
        .uplink_count = 4,
        .icmp_source4 = ip_of("100.64.0.1"),
        .icmp_source6 = ip_of("2001:db8:64::1"),
    };
    struct err err = { 0 };

    make_uplinks(uplinks);
    if (change != NULL) {
        change(&node, uplinks);
    }
    if (fixture_entries == NULL) {
        fixture_entries = make_entries();
    }
    ck_assert_msg(fwd_config_new(&node, &x->config, &err) == RC_OK, "%s", err.msg);
    x->fib = naive_fib_new(fixture_entries, ENTRY_COUNT);
    x->worker = aligned_alloc(_Alignof(struct fwd_worker), sizeof(*x->worker));
    ck_assert(x->fib != NULL && x->worker != NULL);
    fwd_worker_init(x->worker, 0, 0);
    x->view = (struct fwd_view){ x->config, x->fib, true };
}

void fixture_fini(struct fixture *x)
{
    fwd_config_free(x->config);
    naive_fib_free(x->fib);
    free(x->worker);
    free(fixture_entries);
    fixture_entries = NULL;
}

struct fwd_totals fixture_totals(const struct fixture *x)
{
    struct fwd_totals t = { 0 };

    fwd_worker_sum(x->worker, &t);
    return t;
}

void fixture_check_counters(const struct fixture *x)
{
    struct fwd_totals t = fixture_totals(x);
    uint64_t sum = t.forwarded + t.local;

    ck_assert_uint_eq(t.drops[DROP_NONE], 0);
    for (unsigned i = 0; i < DROP_COUNT; i++) {
        sum += t.drops[i];
    }
    ck_assert_uint_eq(t.received, sum);
}

void fixture_run(struct fixture *x, const uint8_t *bytes, unsigned n, uint16_t headroom,
                 uint8_t rx_flags, struct outcome *ret)
{
    uint8_t *buffer = malloc(headroom + n + (headroom + n == 0));
    struct fwd_answers answers = { .at = &ret->answer, .room = 1 };

    memset(ret, 0, sizeof(*ret));
    ret->answer.data = malloc(FWD_ANSWER_SIZE);
    ck_assert(buffer != NULL && ret->answer.data != NULL);
    memset(buffer, 0x5a, headroom);
    memcpy(buffer + headroom, bytes, n);
    ret->packet = (struct fwd_packet){ .data = buffer + headroom,
                                       .length = n,
                                       .headroom = headroom,
                                       .port = 3,
                                       .rx_flags = rx_flags };
    fwd_burst(&x->view, x->worker, 0, &ret->packet, 1, &answers);
    ret->has_answer = answers.count == 1;
    if (ret->packet.verdict != FWD_FORWARD) {
        ck_assert_ptr_eq(ret->packet.data, buffer + headroom);
        ck_assert_uint_eq(ret->packet.length, n);
        ck_assert_mem_eq(ret->packet.data, bytes, n);
        ck_assert_uint_eq(ret->packet.uplink, 0);
    }
    ck_assert_uint_eq(ret->packet.port, 3);
    ck_assert_ptr_eq(ret->packet.data - ret->packet.headroom, buffer);
    fixture_check_counters(x);
}

void outcome_fini(struct outcome *o)
{
    free(o->packet.data - o->packet.headroom);
    free(o->answer.data);
}
