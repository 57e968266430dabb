/*
 * bench_fwdh - XGW-H in software beside XGW-x86: what a packet costs, and how fast its
 * tables fill by P4Runtime.
 *
 *   bench_fwdh [--routes N] [--data DIR]        N routes and N VM-NC entries; 100,000
 *
 * The generator's region goes through agent/xgwh's mapping into WriteRequests of 1,000
 * updates, and these through the server's handlers (decoding included, no socket) into
 * a switch of the bench profile; and into a fib.  Then the same packets go through both
 * pipelines, a call of 64 at a time in turn, each timed by the TSC; the median of the
 * calls counts.  VXLAN over IPv4 with 64 bytes of inner IPv4 frame, 131,072 distinct
 * ones, to VMs drawn uniformly.  Prints
 *
 *   cycles_x86, cycles_h          parse + lookups + rewrite
 *   forwarded_x86, forwarded_h    share of packets, 1/100 %; h: without fallback
 *   writes_per_s                  physical entries, CPU time of the handlers
 *   entries                       logical ones
 *   refused                       updates that the switch did not take
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <x86intrin.h>

#include "agent/fwd/checksum.h"
#include "agent/fwd/wire.h"
#include "agent/fwdh/fwdh.h"
#include "agent/gateway/hserver.h"
#include "agent/xgwh/xgwh.h"
#include "proto/rpc/wire.h"
#include "tests/bench/gen.h"
#include "tests/unit/agent/p4rt/p4info_make.h"

#define PACKETS (128u << 10)
#define CALL    64u
#define ROUNDS  4u
#define FRAME   (14 + 20 + 8 + 8 + 64)
#define STRIDE  ((size_t)5 * 64)
#define ROOM    64
#define UPDATES 1000u
#define NC      0xc6336401u
#define VTEP    0xc0000201u
#define VIP     0xc0000264u

struct bench {
    struct table_set *records;
    struct fib *fib;
    struct fib_reader *reader;
    struct fwd_config *config;
    struct fwd_worker *worker;
    struct hswitch *tables;
    struct hserver server;
    struct arbiter_stream stream[2];
    struct xgwh *xgwh;
    struct buf request[2]; /* by half */
    unsigned updates[2];
    double seconds; /* of the handlers */
    uint64_t writes;
    uint64_t refused;
    uint8_t *frames; /* PACKETS times FRAME */
    uint32_t drawn;
    uint64_t random;
};

static void die(const char *what)
{
    fprintf(stderr, "bench_fwdh: %s\n", what);
    exit(1);
}

static void *allocate(size_t bytes)
{
    void *p = aligned_alloc(64, (bytes + 63) / 64 * 64);

    if (!p) {
        die("no memory");
    }
    memset(p, 0, (bytes + 63) / 64 * 64);
    return p;
}

static double cpu_seconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* ---- by P4Runtime ---- */

static void send(struct bench *b, unsigned half)
{
    struct hanswer a;
    double start = cpu_seconds();

    hserver_write(&b->server, b->request[half].data, b->request[half].len, &a);
    b->seconds += cpu_seconds() - start;
    if (a.details.len > 0) {
        uint8_t codes[UPDATES];
        struct p4rt_failure first;

        if (p4rt_errors_decode(a.details.data, a.details.len, codes, b->updates[half],
                               &first) != RC_OK) {
            die("errors that make no sense");
        }
        if (b->refused == 0) {
            fprintf(stderr, "bench_fwdh: first refusal: %s\n", first.message);
        }
        for (unsigned i = 0; i < b->updates[half]; i++) {
            b->refused += codes[i] != RPC_OK;
        }
    } else if (a.code != RPC_OK) {
        die(a.message);
    }
    hanswer_fini(&a);
    (void)hswitch_reclaim(b->tables);
    buf_reset(&b->request[half]);
    b->updates[half] = 0;
}

static void flush(struct bench *b)
{
    for (unsigned half = 0; half < 2; half++) {
        if (b->updates[half] > 0) {
            send(b, half);
        }
    }
}

static void on_write(void *ctx, const struct phys_write *w)
{
    struct bench *b = ctx;

    if (w->barrier) {
        flush(b);
    }
    for (unsigned half = 0; half < 2; half++) {
        if (w->entry.half != half && w->entry.half != PHYS_BOTH) {
            continue;
        }
        if (b->updates[half]++ == 0) {
            struct p4rt_write_head head = { .device_id = half + 1, .election_low = 1 };

            p4rt_write_begin(&b->request[half], &head);
        }
        p4rt_write_entry(&b->request[half], (enum phys_op)w->op, &w->entry);
        b->writes++;
        if (b->updates[half] == UPDATES) {
            send(b, half);
        }
    }
}

static void on_meter(void *ctx, const struct phys_meter_write *w)
{
    (void)ctx; /* all are open */
    (void)w;
}

static void add_field(struct buf *to, uint32_t number, const struct buf *content)
{
    uint8_t head[2 * WIRE_VARINT_MAX];

    buf_add(to, head, wire_head(head, number, content->len));
    buf_add(to, content->data, content->len);
}

static void push(struct bench *b, uint8_t device)
{
    struct buf info = BUF_INIT;
    struct buf config = BUF_INIT;
    struct buf request = BUF_INIT;
    /* device_id, election_id { low: 1 }, VERIFY_AND_COMMIT */
    const uint8_t head[] = { 1 << 3, device, 3 << 3 | 2, 2, 2 << 3, 1, 4 << 3, 3 };
    struct hanswer a;

    p4info_make(&info, NULL, 0);
    add_field(&config, 1, &info);
    buf_add(&request, head, sizeof(head));
    add_field(&request, 5, &config);
    hserver_set_pipeline(&b->server, request.data, request.len, &a);
    if (a.code != RPC_OK) {
        die(a.message);
    }
    hanswer_fini(&a);
    buf_fini(&info);
    buf_fini(&config);
    buf_fini(&request);
}

static void start_switch(struct bench *b)
{
    struct hswitch_options o = {
        .sizes = phys_sizes_bench(), .workers = 1, .port_count = 1, .seed = 1
    };
    struct xgwh_options x = { .sizes = phys_sizes_bench(), .halves = 2 };
    bool changed;

    o.ports[0].mtu = 1500;
    if (hswitch_new(&o, &b->tables, NULL) != RC_OK || !(b->xgwh = xgwh_new(&x))) {
        die("no memory for the switch");
    }
    hworker_online(b->tables, &b->tables->workers[0]);
    hworker_offline(&b->tables->workers[0]); /* while it fills */
    hserver_init(&b->server, b->tables);
    for (uint8_t half = 0; half < 2; half++) {
        (void)arbiter_join(&b->server.device[half].arbiter, &b->stream[half],
                           (struct election){ true, 0, 1 }, &changed);
        push(b, half + 1);
    }
}

static const struct xgwh_sink *sink_of(struct bench *b, struct xgwh_sink *to)
{
    *to = (struct xgwh_sink){ on_write, on_meter, b };
    return to;
}

static void configure_switch(struct bench *b)
{
    static const struct prefix source = {
        { .family = IP_V4, .b = { 0xc6, 0x33, 0x64 } }, 24
    };
    struct xgwh_config c = { .digest = 1,
                             .own_count = 2,
                             .own = { ip_v4(VTEP), ip_v4(VIP) },
                             .source_v4 = ip_v4(VIP),
                             .source_count = 1,
                             .sources = &source,
                             .uplink_count = 1,
                             .member_count = 1 };
    struct xgwh_cost cost = { 0 };
    struct xgwh_sink sink;
    struct err err = { 0 };

    c.uplinks[0] = (struct xgwh_uplink){
        .weight = 1, .has_v4 = true, .smac = { 2 }, .dmac4 = { 2, 1 }
    };
    c.members[0] = (struct xgwh_member){ .v4 = ip_v4(NC + 1), .weight = 1 };
    if (xgwh_configure(b->xgwh, &c, sink_of(b, &sink), &cost, &err) != RC_OK ||
        xgwh_set_ready(b->xgwh, &sink, &cost, &err) != RC_OK) {
        die(err.msg);
    }
    flush(b);
}

/* ---- XGW-x86 ---- */

static void start_x86(struct bench *b)
{
    struct ip vtep = ip_v4(VTEP);
    struct ip vip = ip_v4(VIP);
    struct prefix source = { ip_v4(0xc6336400), 24 };
    struct fwd_uplink_spec uplink = { .mtu = 1500,
                                      .address = ip_v4(0xc0000301),
                                      .next_hop = ip_v4(0xc0000302),
                                      .has_next_hop_mac = true };
    struct fwd_node node = { .vteps = &vtep,
                             .vips = &vip,
                             .underlay_sources = &source,
                             .uplinks = &uplink,
                             .vtep_count = 1,
                             .vip_count = 1,
                             .underlay_source_count = 1,
                             .uplink_count = 1 };

    b->records = table_set_new();
    b->fib = fib_new(NULL);
    if (!b->records || !b->fib || fwd_config_new(&node, &b->config, NULL) != RC_OK) {
        die("no memory for x86");
    }
    b->reader = allocate(sizeof(*b->reader));
    b->worker = allocate(sizeof(*b->worker));
    fwd_worker_init(b->worker, 0, 0);
    fib_reader_online(b->fib, b->reader);
}

/* ---- the region ---- */

static void apply(struct bench *b, struct batch_writer *w)
{
    struct blob *batch = batch_writer_finish(w);
    struct change_list changes = { 0 };
    struct fib_exceptions none = { 0 };
    struct xgwh_exceptions refused = { 0 };
    struct xgwh_cost cost = { 0 };
    struct xgwh_sink sink;
    struct rows_change total;
    struct err err = { 0 };

    if (!batch ||
        table_set_apply(b->records, batch->data, batch->len, &changes, &total, &err) !=
            RC_OK ||
        fib_apply(b->fib, b->records, &changes, &none) != RC_OK ||
        xgwh_apply(b->xgwh, batch->data, batch->len, sink_of(b, &sink), &refused, &cost,
                   &err) != RC_OK) {
        die(err.msg[0] ? err.msg : "a batch was refused");
    }
    flush(b);
    if (refused.count > 0) {
        fprintf(stderr,
                "bench_fwdh: the mapping refused %u rows, the first of table %u\n",
                refused.count, refused.at[0].table);
        exit(1);
    }
    xgwh_exceptions_fini(&refused);
    fib_exceptions_fini(&none);
    change_list_fini(&changes);
    blob_unref(batch);
    fib_reader_quiescent(b->fib, b->reader);
    fib_reclaim(b->fib, fib_readers_oldest(b->reader, 1));
}

static void make_frame(uint8_t *f, uint32_t vni, const struct ip *vm, unsigned i)
{
    uint8_t *ip = f + ETH_SIZE;
    uint8_t *udp = ip + IP4_SIZE;
    uint8_t *inner = udp + UDP_SIZE + VXLAN_SIZE;
    uint8_t *inner_ip = inner + ETH_SIZE;

    memset(f, 0, FRAME);
    store_be16(f + 12, ETHERTYPE_IP4);
    ip[0] = 0x45;
    store_be16(ip + 2, FRAME - ETH_SIZE);
    ip[8] = 64;
    ip[9] = PROTO_UDP;
    store_be32(ip + 12, NC);
    store_be32(ip + 16, VIP);
    csum_store(ip + 10, (uint16_t)~csum_fold(csum_add(0, ip, IP4_SIZE)));
    store_be16(udp, (uint16_t)(0xc000 | (i & 0x3fff)));
    store_be16(udp + 2, VXLAN_PORT);
    store_be16(udp + 4, FRAME - ETH_SIZE - IP4_SIZE);
    udp[8] = VXLAN_FLAG_I;
    store_be32(udp + 12, vni << 8);
    store_be16(inner + 12, ETHERTYPE_IP4);
    inner_ip[0] = 0x45;
    store_be16(inner_ip + 2, 50);
    inner_ip[8] = 64;
    inner_ip[9] = PROTO_TCP;
    store_be32(inner_ip + 12, 0x0a000001);
    memcpy(inner_ip + 16, vm->b, 4);
    csum_store(inner_ip + 10, (uint16_t)~csum_fold(csum_add(0, inner_ip, IP4_SIZE)));
}

/* Reservoir sampling over the v4 VMs. */
static void draw(struct bench *b, const struct entry *e)
{
    uint64_t place = b->drawn < PACKETS ? b->drawn : gen_random(&b->random) % b->drawn;

    b->drawn++;
    if (place < PACKETS) {
        make_frame(b->frames + place * FRAME, e->vni, &e->vm_nc.vm, (unsigned)place);
    }
}

static void load(struct bench *b, struct gen *g)
{
    struct batch_writer w;
    struct entry e;

    batch_writer_init(&w);
    for (uint32_t i = 0; i < gen_vni_count(g); i++) {
        e = (struct entry){ .table = TABLE_VNI, .vni = gen_vni(g, i) };
        batch_add_entry(&w, ENTRY_PUT, &e);
        if (batch_writer_bytes(&w) >= BATCH_SEND_BYTES) {
            apply(b, &w);
        }
    }
    while (gen_next(g, &e)) {
        batch_add_entry(&w, ENTRY_PUT, &e);
        if (e.table == TABLE_VM_NC && e.vm_nc.vm.family == IP_V4) {
            draw(b, &e);
        }
        if (batch_writer_bytes(&w) >= BATCH_SEND_BYTES) {
            apply(b, &w);
        }
    }
    apply(b, &w);
    batch_writer_fini(&w);
}

/* ---- packets ---- */

static void restore(const struct bench *b, uint8_t *buffers, uint32_t from,
                    struct fwd_packet p[])
{
    for (uint32_t i = 0; i < CALL; i++) {
        uint8_t *data = buffers + i * STRIDE + ROOM;

        memcpy(data, b->frames + (size_t)(from + i) * FRAME, FRAME);
        p[i] = (struct fwd_packet){ .data = data, .length = FRAME, .headroom = ROOM };
    }
}

static int compare(const void *x, const void *y)
{
    double a = *(const double *)x;
    double b = *(const double *)y;

    return (a > b) - (a < b);
}

static void run(struct bench *b)
{
    uint32_t n = (b->drawn < PACKETS ? b->drawn : PACKETS) / CALL;
    double *x86 = allocate(ROUNDS * n * sizeof(*x86));
    double *h = allocate(ROUNDS * n * sizeof(*h));
    uint8_t *buffers = allocate(CALL * STRIDE);
    struct fwd_view view = { b->config, b->fib, true };
    struct fwd_packet p[CALL];
    struct fwd_totals t = { 0 };
    struct hworker *w = &b->tables->workers[0];
    unsigned count = 0;

    hworker_online(b->tables, w);
    for (unsigned round = 0; round < ROUNDS; round++) {
        for (uint32_t i = 0; i < n; i++, count++) {
            uint64_t start;

            restore(b, buffers, i * CALL, p);
            start = __rdtsc();
            fwd_burst(&view, b->worker, 1, p, CALL, NULL);
            fib_reader_quiescent(b->fib, b->reader);
            x86[count] = (double)(__rdtsc() - start) / CALL;
            /* Not the same packets: their lines would be warm. */
            restore(b, buffers, (i + n / 2) % n * CALL, p);
            start = __rdtsc();
            fwdh_burst(b->tables, w, 1, p, CALL);
            hworker_quiescent(b->tables, w);
            h[count] = (double)(__rdtsc() - start) / CALL;
        }
    }
    qsort(x86, count, sizeof(*x86), compare);
    qsort(h, count, sizeof(*h), compare);
    fwd_worker_sum(b->worker, &t);
    printf("cycles_x86 %.1f cycles\n", x86[count / 2]);
    printf("cycles_h %.1f cycles\n", h[count / 2]);
    printf("forwarded_x86 %.0f bp\n", 1e4 * (double)t.forwarded / (double)t.received);
    printf("forwarded_h %.0f bp\n", 1e4 * (double)atomic_load(&w->forwarded) /
                                        (double)atomic_load(&w->received));
    free(x86);
    free(h);
    free(buffers);
}

int main(int argc, char **argv)
{
    static const struct option options[] = { { "routes", required_argument, NULL, 'r' },
                                             { "data", required_argument, NULL, 'd' },
                                             { NULL, 0, NULL, 0 } };
    static struct bench b = { .random = 7 };
    struct gen_config config;
    struct gen *g;
    struct err err = { 0 };
    int option;

    gen_config_init(&config);
    config.routes = 100000;
    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (option == 'r') {
            config.routes = (uint32_t)strtoul(optarg, NULL, 10);
        } else if (option == 'd') {
            config.data_dir = optarg;
        } else {
            return 2;
        }
    }
    if (gen_new(&config, &g, &err) != RC_OK) {
        die(err.msg);
    }
    b.frames = allocate((size_t)PACKETS * FRAME);
    start_x86(&b);
    start_switch(&b);
    configure_switch(&b);
    b.seconds = 0;
    b.writes = 0;
    load(&b, g);
    gen_free(g);
    printf("entries %lu entries\n", 2ul * config.routes);
    printf("writes_per_s %.0f entries/s\n", (double)b.writes / b.seconds);
    printf("refused %lu entries\n", (unsigned long)b.refused);
    run(&b);
    xgwh_free(b.xgwh);
    hserver_fini(&b.server);
    hswitch_free(b.tables);
    fwd_config_free(b.config);
    fib_free(b.fib);
    table_set_free(b.records);
    free(b.reader);
    free(b.worker);
    free(b.frames);
    buf_fini(&b.request[0]);
    buf_fini(&b.request[1]);
    return 0;
}
