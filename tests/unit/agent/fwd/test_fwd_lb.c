/* The load balancer's packets by the million; each one's bytes are held against the
 * reference by integration.fwd_lb_reference. */
#include "tests/unit/unit.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "agent/fwd/fwd_lb.h"
#include "tests/unit/agent/fwd/frame.h"

enum { MEMBERS = 8, FLOWS = 1000000, BURST = 128 };

struct rig {
    struct fwd_config *config;
    struct fib *fib;
    struct steer *steer;
    struct fwd_worker *worker;
    struct table_set *records;
    struct fib_reader reader;
};

/* n0 … n7 at 198.51.100.200 and 2001:db8:a::c8 up. */
static void configure(struct rig *r, unsigned without)
{
    struct cluster_member m[MEMBERS] = { 0 };
    struct steer_cluster *old = NULL;
    uint32_t count = 0;

    for (unsigned i = 0; i < MEMBERS; i++) {
        if (i != without) {
            snprintf(m[count].cluster, sizeof(m->cluster), "x86-1");
            snprintf(m[count].node, sizeof(m->node), "n%u", i);
            m[count].v4 = ip_v4(0xc63364c8 + i);
            m[count].v6 = (struct ip){ .family = IP_V6, .b = { 0x20, 1, 0xd, 0xb8 } };
            m[count].v6.b[15] = (uint8_t)(0xc8 + i);
            count++;
        }
    }
    ck_assert_int_eq(steer_configure(r->steer, r->fib, m, count, &old, NULL), RC_OK);
    steer_free_old(old);
}

static void apply(struct rig *r, enum entry_op op, uint32_t vni, const char *cluster)
{
    struct entry e = { .table = TABLE_VNI_CLUSTER, .vni = vni };
    struct change_list changes = { 0 };
    struct batch_writer w;
    struct blob *ops;

    snprintf(e.vni_cluster.cluster, sizeof(e.vni_cluster.cluster), "%s", cluster);
    batch_writer_init(&w);
    batch_add_entry(&w, op, &e);
    ops = batch_writer_finish(&w);
    ck_assert_int_eq(
        table_set_apply(r->records, ops->data, ops->len, &changes, NULL, NULL), RC_OK);
    ck_assert_int_eq(fib_apply(r->fib, r->records, &changes, NULL), RC_OK);
    change_list_fini(&changes);
    blob_unref(ops);
    batch_writer_fini(&w);
}

static struct ip ip_of(const char *text)
{
    struct ip ip;

    ck_assert_int_eq(ip_parse(text, strlen(text), &ip, NULL), RC_OK);
    return ip;
}

/* Ours are the addresses that frame_spec() sends to; one way out a family. */
static struct fwd_config *make_config(void)
{
    struct ip vips[] = { ip_of("192.0.2.100"), ip_of("2001:db8:f::100") };
    struct prefix sources[2] = { { ip_of("198.51.100.0"), 24 },
                                 { ip_of("2001:db8:a::"), 48 } };
    struct fwd_uplink_spec uplinks[2] = {
        { .mtu = 1500, .address = ip_of("192.0.2.9"), .next_hop = ip_of("192.0.2.8") },
        { .mtu = 1500,
          .address = ip_of("2001:db8:f::9"),
          .next_hop = ip_of("2001:db8:f::8") },
    };
    struct fwd_node node = { .vips = vips,
                             .vip_count = 2,
                             .underlay_sources = sources,
                             .underlay_source_count = 2,
                             .uplinks = uplinks,
                             .uplink_count = 2 };
    struct fwd_config *config;

    uplinks[0].has_next_hop_mac = uplinks[1].has_next_hop_mac = true;
    ck_assert_int_eq(fwd_config_new(&node, &config, NULL), RC_OK);
    return config;
}

static void rig_init(struct rig *r)
{
    memset(r, 0, sizeof(*r));
    r->config = make_config();
    r->fib = fib_new(NULL);
    r->steer = steer_new();
    r->records = table_set_new();
    r->worker = aligned_alloc(_Alignof(struct fwd_worker), sizeof(*r->worker));
    ck_assert(r->fib && r->steer && r->records && r->worker);
    fwd_worker_init(r->worker, 0, 0);
    fib_reader_online(r->fib, &r->reader);
    apply(r, ENTRY_PUT, 10, "x86-1");
    configure(r, MEMBERS);
}

static void rig_fini(struct rig *r)
{
    struct fwd_totals t = { 0 };
    uint64_t settled;

    fwd_worker_sum(r->worker, &t);
    settled = t.forwarded + t.local;
    for (unsigned i = 0; i < DROP_COUNT; i++) {
        settled += t.drops[i];
    }
    ck_assert_uint_eq(t.received, settled);
    steer_free(r->steer);
    table_set_free(r->records);
    fib_free(r->fib);
    fwd_config_free(r->config);
    free(r->worker);
}

struct packet {
    uint8_t b[256];
};

/* Flow `n` of a family: sources of one /24 and ports, as NCs send. */
static void packet_make(const struct frame *f, uint32_t n, struct packet *p)
{
    uint32_t rest = n / 250;

    memcpy(p->b, f->b, f->n);
    p->b[f->l3 + (f->is_v6 ? 23 : 15)] = (uint8_t)(n % 250 + 1);
    p->b[f->udp] = (uint8_t)(rest >> 8);
    p->b[f->udp + 1] = (uint8_t)rest;
    if (f->is_v6) {
        p->b[f->l3 + 21] = (uint8_t)(n >> 16); /* of 2001:db8:a::/48 */
    } else {
        static struct frame one;

        memcpy(one.b, p->b, f->n);
        one.l3 = f->l3;
        frame_fix_outer(&one);
        memcpy(p->b, one.b, f->n);
    }
}

/* Where each flow goes: the number of its member, or 255 when it is dropped. */
static void run_flows(struct rig *r, int family, uint8_t *to, uint32_t count)
{
    static struct packet packets[BURST];
    struct lb_view view = { r->config, r->fib, r->steer, true };
    struct frame_spec spec = frame_spec(family, 4);
    struct fwd_packet burst[BURST];
    struct frame f;

    spec.csum = CSUM_ZERO;
    if (family == 6) {
        spec.csum = CSUM_RIGHT; /* it is wrong for all but one: nobody looks */
    }
    frame_make(&spec, &f);
    for (uint32_t at = 0; at < count; at += BURST) {
        unsigned n = count - at < BURST ? count - at : BURST;

        for (unsigned i = 0; i < n; i++) {
            packet_make(&f, at + i, &packets[i]);
            burst[i] = (struct fwd_packet){ .data = packets[i].b, .length = f.n };
        }
        lb_burst(&view, r->worker, burst, n);
        for (unsigned i = 0; i < n; i++) {
            to[at + i] =
                burst[i].verdict == FWD_FORWARD
                    ? (uint8_t)(burst[i].data[14 + (family == 4 ? 19 : 39)] - 0xc8)
                    : 255;
        }
        fib_reader_quiescent(r->fib, &r->reader);
    }
}

static const int families[] = { 4, 6 };

START_TEST(a_million_flows_are_spread_within_5_percent)
{
    uint8_t *to = calloc(FLOWS, 1);
    uint32_t share[256] = { 0 };
    double worst = 0;
    struct rig r;

    rig_init(&r);
    run_flows(&r, families[_i], to, FLOWS);
    for (uint32_t i = 0; i < FLOWS; i++) {
        share[to[i]]++;
    }
    for (unsigned i = 0; i < MEMBERS; i++) {
        worst = fmax(worst, fabs(share[i] * (double)MEMBERS / FLOWS - 1) * 100);
    }
    printf("v%d: %d flows over %d members: worst share %.2f %% off\n", families[_i],
           FLOWS, MEMBERS, worst);
    ck_assert_uint_eq(share[255], 0);
    ck_assert_double_le(worst, 5);
    free(to);
    rig_fini(&r);
}
END_TEST

START_TEST(a_member_that_leaves_moves_its_own_flows_only_and_takes_them_back)
{
    enum { GONE = 3 };
    uint8_t *before = calloc(FLOWS, 1);
    uint8_t *after = calloc(FLOWS, 1);
    uint32_t own = 0;
    uint32_t others = 0;
    uint32_t to_it = 0;
    struct rig r;

    rig_init(&r);
    run_flows(&r, families[_i], before, FLOWS);
    configure(&r, GONE);
    run_flows(&r, families[_i], after, FLOWS);
    for (uint32_t i = 0; i < FLOWS; i++) {
        own += before[i] == GONE;
        others += before[i] != GONE && after[i] != before[i];
        to_it += after[i] == GONE || after[i] == 255;
    }
    printf("v%d: 1 of %d leaves: %u of %d flows are its own, %u of others moved\n",
           families[_i], MEMBERS, own, FLOWS, others);
    ck_assert_uint_gt(own, 0);
    ck_assert_uint_eq(others, 0);
    ck_assert_uint_eq(to_it, 0);
    configure(&r, MEMBERS);
    run_flows(&r, families[_i], after, FLOWS);
    ck_assert_mem_eq(before, after, FLOWS);
    free(before);
    free(after);
    rig_fini(&r);
}
END_TEST

static uint64_t dropped(const struct rig *r, enum drop_reason reason)
{
    struct fwd_totals t = { 0 };

    fwd_worker_sum(r->worker, &t);
    return t.drops[reason];
}

START_TEST(what_has_no_cluster_or_member_is_dropped_with_its_reason)
{
    struct rig r;
    uint8_t to[3];

    rig_init(&r);
    apply(&r, ENTRY_DELETE, 10, "x86-1");
    run_flows(&r, 4, to, 3);
    ck_assert_mem_eq(to, "\xff\xff\xff", 3);
    ck_assert_uint_eq(dropped(&r, DROP_UNKNOWN_VNI), 3);
    apply(&r, ENTRY_PUT, 10, "elsewhere");
    run_flows(&r, 4, to, 3);
    ck_assert_mem_eq(to, "\xff\xff\xff", 3);
    ck_assert_uint_eq(dropped(&r, DROP_NO_MEMBER), 3);
    apply(&r, ENTRY_PUT, 10, "x86-1");
    run_flows(&r, 4, to, 3);
    ck_assert_uint_lt(to[0], MEMBERS);
    rig_fini(&r);
}
END_TEST

START_TEST(before_it_is_ready_everything_is_dropped)
{
    struct lb_view view = { .is_ready = false };
    struct fwd_packet p[2] = { { .length = 0 }, { .length = 0 } };
    struct rig r;

    rig_init(&r);
    lb_burst(&view, r.worker, p, 2);
    ck_assert_uint_eq(p[1].verdict, FWD_DROP);
    ck_assert_uint_eq(p[1].reason, DROP_NOT_READY);
    ck_assert_uint_eq(dropped(&r, DROP_NOT_READY), 2);
    rig_fini(&r);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("fwd_lb");

    tcase_set_timeout(tc, 240);
    tcase_add_loop_test(tc, a_million_flows_are_spread_within_5_percent, 0,
                        ARRAY_LEN(families));
    tcase_add_loop_test(
        tc, a_member_that_leaves_moves_its_own_flows_only_and_takes_them_back, 0,
        ARRAY_LEN(families));
    tcase_add_test(tc, what_has_no_cluster_or_member_is_dropped_with_its_reason);
    tcase_add_test(tc, before_it_is_ready_everything_is_dropped);
    return unit_run("fwd_lb", tc);
}
