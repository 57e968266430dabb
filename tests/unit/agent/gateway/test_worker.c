/* A worker on ring ports: what goes in is sent, answered, handed over or dropped, and
 * no buffer is lost.  One process is one DPDK, so libcheck does not fork here. */
#include "agent/gateway/top.h"
#include "agent/gateway/worker.h"

#include <event2/event.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "proto/model/entry_text.h"
#include "tests/unit/agent/fwd/frame.h"
#include "tests/unit/unit.h"

#include <rte_eth_ring.h>

#define BUFFERS 511u

/* DPDK's part lives as long as the process; the rest is made for each test. */
static struct ports ports;
static struct rte_ring *wire_in;
static struct rte_ring *wire_out;
static struct rte_ring *to_control;
static struct probe_port probes;

struct rig {
    struct device device;
    struct worker *worker;
    struct fib_reader *reader;
    struct flow_sample sample;
    int wake_fd;
};

/* Before any test runs, so without libcheck. */
static void must(bool is_so, const char *what)
{
    if (!is_so) {
        fprintf(stderr, "test_worker: not so: %s\n", what);
        exit(1);
    }
}

static void start_dpdk(void)
{
    char *args[] = { "test_worker",
                     "--no-huge",
                     "--no-pci",
                     "-m",
                     "32",
                     "--no-shconf",
                     "--no-telemetry",
                     "--log-level=4",
                     "--file-prefix=xgwtest" };
    struct rte_ring *out[2];
    struct err err = { 0 };
    int id;

    must(rte_eal_init(ARRAY_LEN(args), args) >= 0, "DPDK starts");
    ports.pool = rte_pktmbuf_pool_create("packets", BUFFERS, 0, 0,
                                         2176 + RTE_PKTMBUF_HEADROOM, SOCKET_ID_ANY);
    wire_in = rte_ring_create("in", 256, SOCKET_ID_ANY, 0);
    wire_out = rte_ring_create("out", 256, SOCKET_ID_ANY, 0);
    to_control = rte_ring_create("control", 32, SOCKET_ID_ANY, RING_F_SC_DEQ);
    out[0] = wire_out;
    out[1] = rte_ring_create("idle", 32, SOCKET_ID_ANY, 0);
    must(ports.pool && wire_in && wire_out && to_control && out[1], "rings");
    id = rte_eth_from_rings("up0", &wire_in, 1, out, 2, SOCKET_ID_ANY);
    must(id >= 0, "a port of rings");
    must(probe_port_init(&probes, &ports, &err) == RC_OK, err.msg);
    must(ports_adopt(&ports, "up0", (uint16_t)id, 1, &err) == RC_OK, err.msg);
}

static enum rc bind_port(void *arg, const struct device_config *config,
                         struct fwd_port to[UPLINKS_MAX], struct err *err)
{
    (void)arg;
    (void)config;
    (void)err;
    to[0].number = 0;
    memcpy(to[0].mac, "\x02\0\0\0\0\1", 6);
    return RC_OK;
}

/* The addresses are those of frame_spec(). */
static void configure(struct device *d)
{
    static struct device_config c;
    struct uplink *u = &c.uplinks[0];
    struct buf packed = BUF_INIT;
    struct device_old old;

    memset(&c, 0, sizeof(c));
    strcpy(c.node, "gw");
    strcpy(c.cluster, "x86");
    c.kind = DEVICE_X86;
    c.vtep_v4 = ip_v4(0xc0000201);
    c.vip_v4 = ip_v4(0xc0000264);
    c.icmp_source_v4 = ip_v4(0x64400001);
    c.underlay_source_count = 1;
    c.underlay_sources[0] = (struct prefix){ ip_v4(0xc6336400), 24 };
    c.uplink_count = 1;
    strcpy(u->port, "up0");
    u->addr_v4 = ip_v4(0xc0000301);
    u->next_hop_v4 = ip_v4(0xc0000302);
    u->has_mac = true;
    memcpy(u->mac, "\x02\0\0\0\1\1", 6);
    u->mtu = 1500;
    ck_assert_int_eq(device_config_check(&c, NULL), RC_OK);
    device_config_pack(&c, &packed);
    ck_assert_int_eq(
        device_configure(d, 1, packed.data, packed.len, bind_port, NULL, &old, NULL),
        RC_OK);
    buf_fini(&packed);
}

static void write_tables(struct device *d)
{
    static const char *const lines[] = {
        "{\"table\":\"vni\",\"vni\":10}",
        "{\"table\":\"vxlan_route\",\"vni\":10,\"prefix\":\"10.0.0.0/24\",\"scope\":"
        "\"local\"}",
        "{\"table\":\"vxlan_route\",\"vni\":10,\"prefix\":\"10.0.2.0/24\",\"scope\":"
        "\"idc\",\"endpoint\":\"198.51.100.9\",\"endpoint_vni\":5000}",
        "{\"table\":\"vm_nc\",\"vni\":10,\"vm\":\"10.0.0.4\",\"nc\":\"198.51.100.2\"}",
    };
    struct batch_writer w;
    struct refusals none = { 0 };
    struct device_write write = { .term = 1, .revision = 1, .ready = true };
    struct blob *b;

    batch_writer_init(&w);
    for (unsigned i = 0; i < ARRAY_LEN(lines); i++) {
        struct entry e;
        enum entry_op op;

        ck_assert_int_eq(entry_parse_json(lines[i], strlen(lines[i]), &op, &e, NULL),
                         RC_OK);
        batch_add_entry(&w, op, &e);
    }
    b = batch_writer_finish(&w);
    write.ops = b->data;
    write.len = b->len;
    ck_assert_int_eq(device_write(d, &write, &none, NULL), RC_OK);
    blob_unref(b);
    batch_writer_fini(&w);
}

static struct rig rig_new(void)
{
    struct rig r = { .wake_fd = eventfd(0, EFD_NONBLOCK) };
    struct worker_config config = { .pipeline = &worker_pipeline_x86,
                                    .ports = &ports,
                                    .probes = &probes,
                                    .to_control = to_control,
                                    .wake_fd = r.wake_fd,
                                    .workers = 1 };

    r.reader = aligned_alloc(64, sizeof(*r.reader));
    r.worker = aligned_alloc(64, sizeof(*r.worker));
    ck_assert_int_eq(device_init(&r.device, DEVICE_X86, NULL, 1, NULL), RC_OK);
    ck_assert_int_eq(flow_sample_init(&r.sample, 1), RC_OK);
    config.reader = r.reader;
    worker_init(r.worker, &config);
    return r;
}

/* `device` and `sample` must not move any more. */
static void rig_start(struct rig *r)
{
    r->worker->config.device = &r->device;
    r->worker->config.sample = &r->sample;
    fib_reader_online(r->device.fib, r->reader);
}

/* Every buffer is back where it came from. */
static void rig_free(struct rig *r)
{
    worker_fini(r->worker);
    ck_assert_uint_eq(rte_mempool_avail_count(ports.pool), BUFFERS);
    device_fini(&r->device);
    flow_sample_fini(&r->sample);
    close(r->wake_fd);
    free(r->reader);
    free(r->worker);
}

static void feed(const uint8_t *bytes, unsigned n)
{
    struct rte_mbuf *m = rte_pktmbuf_alloc(ports.pool);

    ck_assert_ptr_nonnull(m);
    memcpy(rte_pktmbuf_append(m, (uint16_t)n), bytes, n);
    ck_assert_int_eq(rte_ring_enqueue(wire_in, m), 0);
}

static void feed_spec(const struct frame_spec *s)
{
    static struct frame f;

    frame_make(s, &f);
    feed(f.b, f.n);
}

/* Takes one frame off a ring into `f`; its length, 0 if there is none. */
static unsigned take_off(struct rte_ring *ring, uint8_t to[2048])
{
    struct rte_mbuf *m;
    unsigned n;

    if (rte_ring_dequeue(ring, (void **)&m) != 0) {
        return 0;
    }
    n = m->data_len;
    memcpy(to, rte_pktmbuf_mtod(m, void *), n);
    rte_pktmbuf_free(m);
    return n;
}

static struct fwd_totals totals(const struct rig *r)
{
    struct fwd_totals t = { 0 };

    fwd_worker_sum(&r->worker->fwd, &t);
    return t;
}

START_TEST(nothing_leaves_before_ready_and_every_frame_is_counted)
{
    struct rig r = rig_new();
    struct frame_spec s = frame_spec(4, 4);
    uint8_t frame[2048];

    rig_start(&r);
    for (unsigned i = 0; i < WORKER_BURST + 36; i++) {
        feed_spec(&s);
    }
    ck_assert_uint_eq(worker_turn(r.worker), WORKER_BURST);
    ck_assert_uint_eq(worker_turn(r.worker), 36);
    ck_assert_uint_eq(worker_turn(r.worker), 0);
    ck_assert_uint_eq(totals(&r).drops[DROP_NOT_READY], WORKER_BURST + 36);
    ck_assert_uint_eq(take_off(wire_out, frame), 0);
    rig_free(&r);
}
END_TEST

START_TEST(a_frame_is_sent_rewritten_from_the_port_to_the_next_hop)
{
    struct rig r = rig_new();
    struct frame_spec s = frame_spec(4, 4);
    struct frame f;
    uint8_t out[2048];
    unsigned n;

    configure(&r.device);
    write_tables(&r.device);
    rig_start(&r);
    feed_spec(&s);
    ck_assert_uint_eq(worker_turn(r.worker), 1);
    n = take_off(wire_out, out);
    frame_make(&s, &f);
    ck_assert_uint_eq(n, f.n); /* the same family: the same length */
    ck_assert_mem_eq(out, "\x02\0\0\0\1\1\x02\0\0\0\0\1", 12);
    frame_read(out, n, &f, true, false, "the frame that was sent");
    ck_assert_mem_eq(out + f.l3 + 16, "\xc6\x33\x64\x02", 4); /* its NC */
    ck_assert_uint_eq(totals(&r).forwarded, 1);
    rig_free(&r);
}
END_TEST

START_TEST(arp_goes_to_the_control_thread_and_wakes_it)
{
    struct rig r = rig_new();
    uint8_t arp[60] = { 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, [12] = 0x08, [13] = 0x06 };
    uint8_t got[2048];
    eventfd_t woken;

    configure(&r.device);
    write_tables(&r.device);
    rig_start(&r);
    feed(arp, sizeof(arp));
    worker_turn(r.worker);
    ck_assert_int_eq(eventfd_read(r.wake_fd, &woken), 0);
    ck_assert_uint_eq(take_off(to_control, got), sizeof(arp));
    ck_assert_mem_eq(got, arp, sizeof(arp));
    for (unsigned i = 0; i < 40; i++) { /* more than the ring holds */
        feed(arp, sizeof(arp));
    }
    worker_turn(r.worker);
    ck_assert_uint_eq(atomic_load(&r.worker->local_lost), 40 - 31);
    while (take_off(to_control, got) > 0) {
    }
    rig_free(&r);
}
END_TEST

START_TEST(every_packet_of_a_burst_can_be_answered)
{
    struct rig r = rig_new();
    struct frame_spec s = frame_spec(4, 4);
    uint8_t out[2048];

    configure(&r.device);
    write_tables(&r.device);
    rig_start(&r);
    s.inner_dst = "10.0.2.1";
    for (unsigned round = 1; round <= 20; round++) {
        unsigned answers = 0;

        for (unsigned i = 0; i < WORKER_BURST; i++) { /* expiring and not, mixed */
            s.inner_ttl = i % 3 < round % 4 ? 1 : 64;
            s.seed = i;
            feed_spec(&s);
            answers += s.inner_ttl == 1;
        }
        worker_turn(r.worker);
        for (unsigned i = 0; i < WORKER_BURST; i++) {
            unsigned n = take_off(wire_out, out);
            struct frame f;

            ck_assert_uint_gt(n, 0);
            frame_read(out, n, &f, true, false, "sent");
            answers -= out[f.l3 + 19] == 1; /* back to NC 198.51.100.1 */
        }
        ck_assert_uint_eq(answers, 0);
        ck_assert_uint_eq(take_off(wire_out, out), 0);
    }
    ck_assert_uint_eq(totals(&r).icmp_no_buffer, 0);
    rig_free(&r);
}
END_TEST

/* What came of the last probe; its frame is copied. */
struct probed {
    unsigned count;
    struct probe_frame last;
    uint8_t frame[2048];
    unsigned len;
};

static void on_probed(void *arg, const struct probe_frame *f)
{
    struct probed *p = arg;

    p->count++;
    p->last = *f;
    p->len = f->frame ? f->frame->data_len : 0;
    if (f->frame) {
        memcpy(p->frame, rte_pktmbuf_mtod(f->frame, void *), p->len);
    }
}

static void probe_and_wait(struct rig *r, struct event_base *base,
                           const struct frame_spec *s)
{
    struct frame f;

    frame_make(s, &f);
    ck_assert_int_eq(probe_port_send(&probes, 0, f.b, f.n, r), RC_OK);
    ck_assert_uint_eq(worker_turn(r->worker), 0); /* no port received anything */
    event_base_loop(base, EVLOOP_ONCE);
}

START_TEST(a_probe_meets_what_packets_meet_and_leaves_by_no_port)
{
    struct rig r = rig_new();
    struct frame_spec s = frame_spec(4, 4);
    struct event_base *base = event_base_new();
    struct probed got = { 0 };
    struct frame f;
    uint8_t sent[2048];
    unsigned n;

    configure(&r.device);
    write_tables(&r.device);
    rig_start(&r);
    ck_assert_int_eq(probe_port_start(&probes, base, on_probed, &got, NULL), RC_OK);
    probe_and_wait(&r, base, &s);
    ck_assert_uint_eq(got.count, 1);
    ck_assert_ptr_eq(got.last.tag, &r);
    ck_assert_int_eq(got.last.verdict, FWD_FORWARD);
    ck_assert_uint_eq(got.last.port, 0);
    ck_assert_uint_eq(take_off(wire_out, sent), 0);
    ck_assert_uint_eq(totals(&r).received, 0);
    feed_spec(&s); /* the same from the wire is the same, and is sent */
    worker_turn(r.worker);
    n = take_off(wire_out, sent);
    frame_read(sent, n, &f, true, false, "sent");
    ck_assert_uint_eq(got.len, n);
    ck_assert_mem_eq(got.frame, sent, n);

    s.inner_dst = "10.0.2.1";
    s.inner_ttl = 1; /* a packet's sender would hear of it */
    probe_and_wait(&r, base, &s);
    ck_assert_int_eq(got.last.verdict, FWD_DROP);
    ck_assert_int_eq(got.last.reason, DROP_INNER_TTL);
    ck_assert_uint_eq(take_off(wire_out, sent), 0);
    ck_assert_uint_eq(totals(&r).received, 1);
    ck_assert_uint_eq(totals(&r).icmp_sent, 0);
    probe_port_stop(&probes);
    event_base_free(base);
    rig_free(&r);
}
END_TEST

START_TEST(more_probes_than_may_be_under_way_are_refused_and_none_is_lost)
{
    struct rig r = rig_new();
    struct frame_spec s = frame_spec(4, 4);
    struct event_base *base = event_base_new();
    struct probed got = { 0 };
    struct frame f;

    rig_start(&r);
    frame_make(&s, &f);
    ck_assert_int_eq(probe_port_start(&probes, base, on_probed, &got, NULL), RC_OK);
    for (unsigned i = 0; i < PROBE_PORT_MAX; i++) {
        ck_assert_int_eq(probe_port_send(&probes, 0, f.b, f.n, NULL), RC_OK);
    }
    ck_assert_int_eq(probe_port_send(&probes, 0, f.b, f.n, NULL), RC_FULL);
    for (unsigned i = 0; i < PROBE_PORT_MAX; i++) {
        worker_turn(r.worker);
    }
    event_base_loop(base, EVLOOP_ONCE);
    ck_assert_uint_eq(got.count, PROBE_PORT_MAX);
    ck_assert_int_eq(got.last.reason, DROP_NOT_READY);
    ck_assert_int_eq(probe_port_send(&probes, 0, f.b, 4000, NULL), RC_FULL);
    probe_port_stop(&probes);
    event_base_free(base);
    rig_free(&r);
}
END_TEST

/* A frame in two buffers; the second part cannot lie behind the first in a full one. */
static void feed_in_two(const struct frame *f, unsigned first)
{
    struct rte_mbuf *a = rte_pktmbuf_alloc(ports.pool);
    struct rte_mbuf *b = rte_pktmbuf_alloc(ports.pool);

    memcpy(rte_pktmbuf_append(a, (uint16_t)first), f->b, first);
    memcpy(rte_pktmbuf_append(b, (uint16_t)(f->n - first)), f->b + first, f->n - first);
    ck_assert_int_eq(rte_pktmbuf_chain(a, b), 0);
    ck_assert_int_eq(rte_ring_enqueue(wire_in, a), 0);
}

START_TEST(a_frame_in_two_buffers_becomes_one_or_is_counted)
{
    struct rig r = rig_new();
    struct frame_spec s = frame_spec(4, 4);
    static struct frame f;
    uint8_t out[2048];

    configure(&r.device);
    write_tables(&r.device);
    rig_start(&r);
    frame_make(&s, &f);
    feed_in_two(&f, 30);
    worker_turn(r.worker);
    ck_assert_uint_eq(take_off(wire_out, out), f.n);
    s.payload = 3000; /* longer than a buffer */
    frame_make(&s, &f);
    feed_in_two(&f, 2000);
    worker_turn(r.worker);
    ck_assert_uint_eq(atomic_load(&r.worker->no_buffer), 1);
    ck_assert_uint_eq(take_off(wire_out, out), 0);
    rig_free(&r);
}
END_TEST

START_TEST(a_ticket_is_passed_by_a_turn_and_by_sleep_alone)
{
    struct rig r = rig_new();
    uint64_t ticket;

    rig_start(&r);
    ck_assert(worker_has_passed(r.worker, worker_ticket(r.worker))); /* not awake */
    atomic_fetch_add(&r.worker->turns, 1);                           /* awake */
    ticket = worker_ticket(r.worker);
    ck_assert(!worker_has_passed(r.worker, ticket));
    worker_turn(r.worker);
    ck_assert(worker_has_passed(r.worker, ticket));
    ticket = worker_ticket(r.worker);
    ck_assert(!worker_has_passed(r.worker, ticket));
    atomic_fetch_add(&r.worker->turns, 1); /* asleep */
    ck_assert(worker_has_passed(r.worker, ticket));
    rig_free(&r);
}
END_TEST

/* `n` frames of a flow, one a turn: then all of them are looked at. */
static void send_flow(struct rig *r, uint32_t vni, const char *src, unsigned n)
{
    struct frame_spec s = frame_spec(4, 4);
    uint8_t out[2048];

    s.vni = vni;
    s.inner_src = src;
    for (unsigned i = 0; i < n; i++) {
        feed_spec(&s);
        ck_assert_uint_eq(worker_turn(r->worker), 1);
        while (take_off(wire_out, out) > 0) {
        }
    }
}

START_TEST(the_heaviest_of_an_interval_are_told_when_it_is_over)
{
    enum { SIZE = 50 + 20 + 40 }; /* of frame_spec()'s frame, with its outer Ethernet */
    struct rig r = rig_new();
    struct top top;

    configure(&r.device);
    write_tables(&r.device);
    rig_start(&r);
    atomic_fetch_add(&r.worker->turns, 1); /* awake: it holds what it reads */
    ck_assert_int_eq(top_init(&top, r.worker, 1, 1000, NULL), RC_OK);
    send_flow(&r, 10, "10.0.0.1", 7);
    send_flow(&r, 10, "10.0.0.2", 3);
    send_flow(&r, 11, "10.0.0.1", 5); /* dropped, and heavy all the same */
    top_tick(&top, 1000 + TOP_INTERVAL_MS - 1);
    top_tick(&top, 1000 + TOP_INTERVAL_MS); /* over: swapped */
    top_tick(&top, 1001 + TOP_INTERVAL_MS); /* but the worker may still fill it */
    ck_assert_uint_eq(top.interval_ms, 0);
    send_flow(&r, 12, "10.0.0.9", 1); /* of the next interval */
    top_tick(&top, 1002 + TOP_INTERVAL_MS);
    ck_assert_uint_eq(top.interval_ms, TOP_INTERVAL_MS);
    ck_assert_uint_eq(top.ended_ms, 1000 + TOP_INTERVAL_MS);
    ck_assert_uint_eq(top.bytes, 15 * (SIZE + 14));
    ck_assert_uint_eq(top.flow_count, 3);
    ck_assert_uint_eq(top.flows[0].bytes, 7 * (SIZE + 14));
    ck_assert_uint_eq(top.flows[0].error, 0);
    ck_assert_uint_eq(top.flows[1].key.vni, 11);
    ck_assert_uint_eq(top.flows[2].key.src[3], 2);
    ck_assert_uint_eq(top.tenant_count, 2);
    ck_assert_uint_eq(top.tenants[0].key.vni, 10);
    ck_assert_uint_eq(top.tenants[0].bytes, 10 * (SIZE + 14));
    ck_assert_uint_eq(top.tenants[1].key.vni, 11);
    top_tick(&top, 1000 + 2 * TOP_INTERVAL_MS);
    worker_turn(r.worker);
    top_tick(&top, 1001 + 2 * TOP_INTERVAL_MS);
    ck_assert_uint_eq(top.tenant_count, 1); /* nothing of the first is left */
    ck_assert_uint_eq(top.tenants[0].key.vni, 12);
    top_fini(&top);
    rig_free(&r);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("worker");
    TCase *tc = tcase_create("worker");
    SRunner *runner = srunner_create(suite);
    int failed;

    start_dpdk();
    suite_add_tcase(suite, tc);
    tcase_add_test(tc, nothing_leaves_before_ready_and_every_frame_is_counted);
    tcase_add_test(tc, a_frame_is_sent_rewritten_from_the_port_to_the_next_hop);
    tcase_add_test(tc, arp_goes_to_the_control_thread_and_wakes_it);
    tcase_add_test(tc, every_packet_of_a_burst_can_be_answered);
    tcase_add_test(tc, a_probe_meets_what_packets_meet_and_leaves_by_no_port);
    tcase_add_test(tc, more_probes_than_may_be_under_way_are_refused_and_none_is_lost);
    tcase_add_test(tc, a_frame_in_two_buffers_becomes_one_or_is_counted);
    tcase_add_test(tc, a_ticket_is_passed_by_a_turn_and_by_sleep_alone);
    tcase_add_test(tc, the_heaviest_of_an_interval_are_told_when_it_is_over);
    srunner_set_fork_status(runner, CK_NOFORK);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
