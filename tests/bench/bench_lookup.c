/*
 * bench_lookup - what a packet costs in the gateway's pipeline alone.
 *
 *   bench_lookup [--data DIR] [--runs N] [--only SIZE]
 *
 * One ring port, one worker (agent/gateway/worker.c as it runs in the gateway), one
 * thread.  In turn the generator puts a burst on the port's ring, the worker receives,
 * resolves, rewrites and sends it, and the generator takes it back: all of it is inside
 * the measured time.  `bare` is the same generator and port with a receive and a send
 * that do not read the packets.  The sizes run interleaved with it, and the median of
 * the runs counts.
 *
 * Packets: VXLAN over IPv4 with 64 bytes of inner frame, 4 M distinct ones, to
 * destinations drawn uniformly over the VM-NC entries that a `local` route leads to.
 * These are marked as such (agent/fwd/fib_mark.c), so that one lookup answers; the
 * *routed* ones beside them are drawn over the entries that a tunnel leads past, so
 * that VM-NC, VNI and route are all looked at, and the packet leaves the VPC: inner TTL
 * and checksum change.  They lie in BUFFERS buffers in turn, as a NIC's ring has.
 *
 * Cycles: CPU time of the thread x TSC Hz / packets.  Prints cycles_bare, and for each
 * size cycles_SIZE and delta_SIZE = cycles_SIZE - cycles_bare (1k: 1,000 routes and as
 * many VM-NC entries; 2m: a million each; 2m_routed: those by tunnels), and turn_SIZE,
 * the difference of the median turns by the TSC in the best run of each (a guest's CPU
 * time holds what its host took away and how fast it clocked; this holds the least of
 * it: to compare programs); and gateway_bytes_per_entry: what the process grew by while
 * 2 M entries went through device_write(), / 2 M; and what one read-back of them takes
 * (readback_*), in turns as the control thread takes them.
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>

#include "agent/fwd/checksum.h"
#include "agent/fwd/wire.h"
#include "agent/gateway/worker.h"
#include "tests/bench/gen.h"

#include <rte_eth_ring.h>

#define PACKETS  (4u << 20)
#define BUFFERS  1024u
#define RING     2048u
#define RUNS_MAX 25
#define AHEAD    8 /* buffers that are asked for while one is filled */
#define OUTER    (ETH_SIZE + IP4_SIZE + UDP_SIZE + VXLAN_SIZE)
#define INNER    64
#define FRAME    (OUTER + INNER)
#define VIP      0xc0000264u
#define NC       0xc6336401u

/* One packet to be: what is not the same in all of its family. */
struct target {
    uint8_t dst[16];
    uint32_t vni;
    uint16_t csum; /* of the inner IPv4 header */
    uint8_t is_v6;
    uint8_t zero;
};

/* Packets to one kind of destination. */
struct load {
    struct target *targets; /* null: not measured */
    double cycles[RUNS_MAX];
    double turn[RUNS_MAX];
};

struct size {
    const char *name;
    uint32_t routes;
    struct device device;
    struct load local;
    struct load routed;
    struct worker *worker;
    struct fib_reader *reader;
    struct flow_sample sample;
};

struct bench {
    const char *data;
    unsigned runs;
    struct ports ports;
    struct rte_ring *in;
    struct rte_ring *out;
    struct rte_ring *local;
    struct rte_mbuf *free[BUFFERS]; /* a ring of its own */
    unsigned next;
    uint8_t template4[FRAME];
    uint8_t template6[FRAME];
    double bare[RUNS_MAX];
    float *turns; /* cycles a packet of each turn of a run, by the TSC */
    double bare_turn[RUNS_MAX];
};

static void fail(const char *what, const struct err *err)
{
    fprintf(stderr, "bench_lookup: %s: %s\n", what, err ? err->msg : "failed");
    exit(1);
}

static void *allocate(size_t size)
{
    void *p = aligned_alloc(64, (size + 63) / 64 * 64);

    if (!p) {
        fail("no memory", NULL);
    }
    memset(p, 0, (size + 63) / 64 * 64);
    return p;
}

/* ---- the device ---- */

static enum rc bind_port(void *arg, const struct device_config *config,
                         struct fwd_port ports[UPLINKS_MAX], struct err *err)
{
    (void)arg;
    (void)config;
    (void)err;
    ports[0].number = 0;
    memcpy(ports[0].mac, "\x02\0\0\0\0\1", 6);
    return RC_OK;
}

static void configure(struct device *d)
{
    struct device_config *c = allocate(sizeof(*c));
    struct uplink *u = &c->uplinks[0];
    struct device_old old;
    struct buf packed = BUF_INIT;
    struct err err = { 0 };

    strcpy(c->node, "gw");
    strcpy(c->cluster, "x86");
    c->kind = DEVICE_X86;
    c->vtep_v4 = ip_v4(0xc0000201);
    c->vip_v4 = ip_v4(VIP);
    c->vip_v6 = (struct ip){ .family = IP_V6, .b = { 0x20, 1, [15] = 1 } };
    c->underlay_source_count = 1;
    c->underlay_sources[0] = (struct prefix){ ip_v4(NC & ~0xffu), 24 };
    c->uplink_count = 1;
    strcpy(u->port, "up0");
    u->addr_v4 = ip_v4(0xc0000301);
    u->next_hop_v4 = ip_v4(0xc0000302);
    u->addr_v6 = (struct ip){ .family = IP_V6, .b = { 0x20, 1, [15] = 3 } };
    u->next_hop_v6 = (struct ip){ .family = IP_V6, .b = { 0x20, 1, [15] = 4 } };
    u->has_mac = true;
    memcpy(u->mac, "\x02\0\0\0\1\1", 6);
    u->mtu = 1500;
    device_config_pack(c, &packed);
    if (device_configure(d, 1, packed.data, packed.len, bind_port, NULL, &old, &err) !=
        RC_OK) {
        fail("configuration", &err);
    }
    buf_fini(&packed);
    free(c);
}

static void write_batch(struct device *d, struct batch_writer *w)
{
    struct blob *b = batch_writer_finish(w);
    struct refusals refused = { 0 };
    struct err err = { 0 };
    struct device_write write = { .term = 1, .revision = 1 };

    if (!b) {
        fail("batch", NULL);
    }
    write.ops = b->data;
    write.len = b->len;
    if (device_write(d, &write, &refused, &err) != RC_OK || refused.count > 0) {
        fail("device_write", &err);
    }
    fib_reclaim(d->fib, UINT64_MAX); /* no worker runs yet */
    blob_unref(b);
}

/* Every VM, in a list from which targets are drawn. */
struct vm {
    struct ip address;
    uint32_t vni;
};

static uint32_t load(struct device *d, struct gen *g, struct vm *vms)
{
    struct batch_writer w;
    struct entry e;
    uint32_t count = 0;

    batch_writer_init(&w);
    for (uint32_t i = 0; i < gen_vni_count(g); i++) {
        e = (struct entry){ .table = TABLE_VNI, .vni = gen_vni(g, i) };
        batch_add_entry(&w, ENTRY_PUT, &e);
        if (batch_writer_bytes(&w) >= BATCH_SEND_BYTES) {
            write_batch(d, &w);
        }
    }
    while (gen_next(g, &e)) {
        batch_add_entry(&w, ENTRY_PUT, &e);
        if (e.table == TABLE_VM_NC) {
            vms[count++] = (struct vm){ e.vm_nc.vm, e.vni };
        }
        if (batch_writer_bytes(&w) >= BATCH_SEND_BYTES) {
            write_batch(d, &w);
        }
    }
    write_batch(d, &w);
    batch_writer_fini(&w);
    return count;
}

/* VmRSS and HugetlbPages, in bytes. */
static double resident(void)
{
    FILE *f = fopen("/proc/self/status", "r");
    char line[256];
    double kib = 0;
    double value;

    while (f && fgets(line, sizeof(line), f)) {
        if (sscanf(line, "VmRSS: %lf", &value) == 1 ||
            sscanf(line, "HugetlbPages: %lf", &value) == 1) {
            kib += value;
        }
    }
    if (f) {
        fclose(f);
    }
    return kib * 1024;
}

static double cpu_seconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Everything once through device_read(), in turns as the control thread takes them. */
static void read_back(const struct device *d)
{
    struct device_reading r;
    struct batch_writer w;
    bool has_more = true;
    double start = cpu_seconds();
    double longest = 0;
    uint64_t rows = 0;

    device_reading_init(&r, 0, 0);
    batch_writer_init(&w);
    while (has_more) {
        double turn = cpu_seconds();
        double end;

        has_more = device_read(d, &r, 4096, 128u << 10, &w);
        end = cpu_seconds();
        longest = end - turn > longest ? end - turn : longest;
        if (!has_more || batch_writer_bytes(&w) >= 128u << 10) {
            rows += w.entry_count;
            blob_unref(batch_writer_finish(&w));
        }
    }
    printf("readback_seconds %.2f s\n", cpu_seconds() - start);
    printf("readback_rows %lu rows\n", (unsigned long)rows);
    printf("readback_turn_max %.1f ms\n", longest * 1e3);
    batch_writer_fini(&w);
    device_reading_fini(&r);
}

/* ---- packets ---- */

static void make_template(uint8_t *f, bool is_v6)
{
    uint8_t *ip = f + ETH_SIZE;
    uint8_t *udp = ip + IP4_SIZE;
    uint8_t *inner = f + OUTER;
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
    store_be16(udp + 2, VXLAN_PORT);
    store_be16(udp + 4, FRAME - ETH_SIZE - IP4_SIZE);
    udp[8] = VXLAN_FLAG_I;
    store_be16(inner + 12, is_v6 ? ETHERTYPE_IP6 : ETHERTYPE_IP4);
    if (is_v6) {
        inner_ip[0] = 0x60;
        store_be16(inner_ip + 4, INNER - ETH_SIZE - IP6_SIZE);
        inner_ip[6] = PROTO_UDP;
        inner_ip[7] = 64;
        inner_ip[8] = 0x20;
    } else {
        inner_ip[0] = 0x45;
        store_be16(inner_ip + 2, INNER - ETH_SIZE);
        inner_ip[8] = 64;
        inner_ip[9] = PROTO_UDP;
        store_be32(inner_ip + 12, 0x0a000001);
    }
}

static void set_target(struct bench *b, struct target *t, const struct vm *vm)
{
    uint8_t header[IP4_SIZE];

    memset(t, 0, sizeof(*t));
    t->vni = vm->vni;
    t->is_v6 = vm->address.family == IP_V6;
    memcpy(t->dst, vm->address.b, ip_size(&vm->address));
    if (!t->is_v6) {
        memcpy(header, b->template4 + OUTER + ETH_SIZE, IP4_SIZE);
        memcpy(header + 16, t->dst, 4);
        csum_store((uint8_t *)&t->csum,
                   (uint16_t)~csum_fold(csum_add(0, header, IP4_SIZE)));
    }
}

/* Those of the VMs that their own VNI's route leads to (FIB_LOCAL), or that a tunnel
 * over IPv4 leads past (FIB_TUNNEL); to be freed. */
static struct vm *those_of_kind(const struct fib *f, const struct vm *vms,
                                uint32_t count, enum fib_kind kind, uint32_t *ret_count)
{
    struct vm *of_kind = allocate((size_t)count * sizeof(*of_kind));
    struct fib_query q;
    uint32_t kept = 0;

    for (uint32_t i = 0; i < count; i++) {
        memset(&q, 0, sizeof(q));
        q.vni = vms[i].vni;
        q.family = vms[i].address.family;
        memcpy(q.dst, vms[i].address.b, ip_size(&vms[i].address));
        fib_resolve_burst(f, &q, 1);
        if (q.kind == kind && q.addr_family == IP_V4 &&
            (kind != FIB_LOCAL || !q.vni_changed)) {
            of_kind[kept++] = vms[i];
        }
    }
    *ret_count = kept;
    return of_kind;
}

static void draw_targets(struct bench *b, struct load *load, const struct fib *f,
                         const struct vm *vms, uint32_t count, enum fib_kind kind)
{
    struct vm *from = those_of_kind(f, vms, count, kind, &count);
    uint64_t random = 7;

    if (count == 0) {
        fail("no destinations of a kind", NULL);
    }
    load->targets = allocate((size_t)PACKETS * sizeof(*load->targets));
    for (uint32_t i = 0; i < PACKETS; i++) {
        set_target(b, &load->targets[i], &from[gen_random(&random) % count]);
    }
    free(from);
}

static inline void make_packet(const struct bench *b, struct rte_mbuf *m,
                               const struct target *t, uint32_t i)
{
    uint8_t *f = (uint8_t *)m->buf_addr + RTE_PKTMBUF_HEADROOM;
    uint8_t *inner_ip = f + OUTER + ETH_SIZE;

    m->data_off = RTE_PKTMBUF_HEADROOM;
    m->data_len = FRAME;
    m->pkt_len = FRAME;
    m->ol_flags = 0;
    memcpy(f, t->is_v6 ? b->template6 : b->template4, FRAME);
    store_be16(f + ETH_SIZE + IP4_SIZE, (uint16_t)(0xc000 | (i & 0x3fff)));
    store_be32(f + ETH_SIZE + IP4_SIZE + UDP_SIZE + 4, t->vni << 8);
    if (t->is_v6) {
        memcpy(inner_ip + 24, t->dst, 16);
        store_be16(inner_ip + IP6_SIZE, (uint16_t)(i >> 14)); /* inner source port */
    } else {
        memcpy(inner_ip + 16, t->dst, 4);
        memcpy(inner_ip + 10, &t->csum, 2);
        store_be16(inner_ip + IP4_SIZE, (uint16_t)(i >> 14));
    }
}

/* ---- measuring ---- */

static inline void prefetch_buffer(const struct rte_mbuf *m)
{
    const uint8_t *f = (const uint8_t *)(m + 1) + RTE_PKTMBUF_HEADROOM;

    __builtin_prefetch(m, 1);
    __builtin_prefetch(f, 1);
    __builtin_prefetch(f + 64, 1);
}

static void generate(struct bench *b, const struct target *targets, uint32_t from)
{
    struct rte_mbuf *burst[WORKER_BURST];

    for (uint32_t i = 0; i < WORKER_BURST; i++) {
        burst[i] = b->free[(b->next + i) % BUFFERS];
        /* What the worker pushed out of the nearest cache is not charged to it twice.
         */
        prefetch_buffer(b->free[(b->next + i + AHEAD) % BUFFERS]);
        make_packet(b, burst[i], &targets[from + i], from + i);
    }
    rte_ring_enqueue_burst(b->in, (void **)burst, WORKER_BURST, NULL);
}

/* What came out goes back to the end of the line. */
static unsigned collect(struct bench *b)
{
    struct rte_mbuf *burst[WORKER_BURST];
    unsigned n = rte_ring_dequeue_burst(b->out, (void **)burst, WORKER_BURST, NULL);

    for (unsigned i = 0; i < n; i++) {
        b->free[(b->next + i) % BUFFERS] = burst[i];
    }
    b->next += n;
    return n;
}

static void bare_turn(struct bench *b)
{
    struct rte_mbuf *m[WORKER_BURST];
    uint16_t n = rte_eth_rx_burst(b->ports.at[0].id, 0, m, WORKER_BURST);

    rte_eth_tx_burst(b->ports.at[0].id, 0, m, n);
}

static int compare(const void *x, const void *y)
{
    double a = *(const double *)x;
    double b = *(const double *)y;

    return (a > b) - (a < b);
}

static double lowest(double *at, unsigned count)
{
    qsort(at, count, sizeof(*at), compare);
    return at[0];
}

static double median(double *at, unsigned count)
{
    qsort(at, count, sizeof(*at), compare);
    return at[count / 2];
}

static int compare_float(const void *x, const void *y)
{
    float a = *(const float *)x;
    float b = *(const float *)y;

    return (a > b) - (a < b);
}

/* Cycles a packet, and those of the median turn; `worker` null: bare. */
static double run(struct bench *b, struct worker *worker, const struct target *targets,
                  double *ret_turn)
{
    double cpu = cpu_seconds();
    uint64_t out = 0;
    unsigned turn = 0;

    for (uint32_t i = 0; i < PACKETS; i += WORKER_BURST) {
        uint64_t start = rte_rdtsc();

        generate(b, targets, i);
        if (worker) {
            worker_turn(worker);
        } else {
            bare_turn(b);
        }
        out += collect(b);
        b->turns[turn++] = (float)(rte_rdtsc() - start) / WORKER_BURST;
    }
    cpu = cpu_seconds() - cpu;
    if (out != PACKETS) {
        fail("packets were dropped", NULL);
    }
    qsort(b->turns, turn, sizeof(*b->turns), compare_float);
    *ret_turn = (double)b->turns[turn / 2];
    return cpu * (double)rte_get_tsc_hz() / PACKETS;
}

/* ---- setting up ---- */

static void start_ports(struct bench *b)
{
    static const char *const args[] = {
        "bench_lookup", "--no-huge",   "--no-pci",       "-m",
        "64",           "--no-shconf", "--no-telemetry", "--log-level=4"
    };
    char *argv[RTE_DIM(args)];
    struct rte_ring *out[2];
    struct err err = { 0 };
    int id;

    for (unsigned i = 0; i < RTE_DIM(args); i++) {
        argv[i] = strdup(args[i]);
    }
    if (rte_eal_init(RTE_DIM(args), argv) < 0) {
        fail("DPDK does not start", NULL);
    }
    b->ports.pool = ports_pool_new(BUFFERS + 256, 2176 + RTE_PKTMBUF_HEADROOM);
    b->in = rte_ring_create("in", RING, SOCKET_ID_ANY, RING_F_SP_ENQ | RING_F_SC_DEQ);
    b->out = rte_ring_create("out", RING, SOCKET_ID_ANY, RING_F_SP_ENQ | RING_F_SC_DEQ);
    b->local = rte_ring_create("local", 64, SOCKET_ID_ANY, RING_F_SC_DEQ);
    /* The control thread has a queue of its own. */
    out[0] = b->out;
    out[1] = rte_ring_create("idle", 64, SOCKET_ID_ANY, 0);
    if (!b->ports.pool || !b->in || !b->out || !b->local || !out[1]) {
        fail("no memory for buffers", NULL);
    }
    id = rte_eth_from_rings("up0", &b->in, 1, out, 2, SOCKET_ID_ANY);
    if (id < 0 || ports_adopt(&b->ports, "up0", (uint16_t)id, 1, &err) != RC_OK) {
        fail("ring port", &err);
    }
    if (rte_pktmbuf_alloc_bulk(b->ports.pool, b->free, BUFFERS) != 0) {
        fail("buffers", NULL);
    }
}

static void start_worker(struct bench *b, struct size *s)
{
    struct worker_config config = {
        .pipeline = &worker_pipeline_x86,
        .device = &s->device,
        .ports = &b->ports,
        .to_control = b->local,
        .wake_fd = eventfd(0, EFD_NONBLOCK),
        .workers = 1,
        .busy_poll = true,
        .icmp_rate = FWD_ICMP_RATE_PPS,
    };

    s->reader = allocate(sizeof(*s->reader));
    config.reader = s->reader;
    if (flow_sample_init(&s->sample, 1) != RC_OK) {
        fail("no memory for samples", NULL);
    }
    config.sample = &s->sample;
    s->worker = allocate(sizeof(*s->worker));
    worker_init(s->worker, &config);
    fib_reader_online(s->device.fib, s->reader);
}

static void start_size(struct bench *b, struct size *s)
{
    struct gen_config config;
    struct gen *g;
    struct vm *vms = allocate((size_t)s->routes * sizeof(*vms));
    struct device_write ready = { .term = 1, .revision = 2, .ready = true };
    struct refusals none = { 0 };
    struct err err = { 0 };
    uint32_t count;
    double before;

    gen_config_init(&config);
    config.routes = s->routes;
    config.data_dir = b->data;
    if (gen_new(&config, &g, &err) != RC_OK ||
        device_init(&s->device, DEVICE_X86, NULL, 1, &err) != RC_OK) {
        fail(s->name, &err);
    }
    configure(&s->device);
    before = resident();
    count = load(&s->device, g, vms);
    if (s->routes >= 1000000) {
        printf("gateway_bytes_per_entry %.1f bytes\n",
               (resident() - before) / (2.0 * s->routes));
        read_back(&s->device);
    }
    draw_targets(b, &s->local, s->device.fib, vms, count, FIB_LOCAL);
    if (s->routes >= 1000000) {
        draw_targets(b, &s->routed, s->device.fib, vms, count, FIB_TUNNEL);
    }
    if (device_write(&s->device, &ready, &none, &err) != RC_OK) {
        fail("ready", &err);
    }
    free(vms);
    gen_free(g);
    start_worker(b, s);
}

static void run_load(struct bench *b, struct worker *w, struct load *load, unsigned r)
{
    if (load->targets) {
        load->cycles[r] = run(b, w, load->targets, &load->turn[r]);
    }
}

static void print_load(struct bench *b, const char *size, const char *kind,
                       struct load *load)
{
    double bare = median(b->bare, b->runs);
    double cycles;

    if (!load->targets) {
        return;
    }
    cycles = median(load->cycles, b->runs);
    printf("cycles_%s%s %.1f cycles\n", size, kind, cycles);
    printf("delta_%s%s %.1f cycles\n", size, kind, cycles - bare);
    printf("turn_%s%s %.1f cycles\n", size, kind,
           lowest(load->turn, b->runs) - lowest(b->bare_turn, b->runs));
}

int main(int argc, char **argv)
{
    static const struct option options[] = { { "data", required_argument, NULL, 'd' },
                                             { "runs", required_argument, NULL, 'r' },
                                             { "only", required_argument, NULL, 'o' },
                                             { NULL, 0, NULL, 0 } };
    static struct size sizes[] = { { .name = "1k", .routes = 1000 },
                                   { .name = "100k", .routes = 100000 },
                                   { .name = "2m", .routes = 1000000 } };
    static struct bench b = { .runs = 5 };
    struct size *last = sizes;
    const char *only = NULL;
    int option;

    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        switch (option) {
        case 'd':
            b.data = optarg;
            break;
        case 'r':
            b.runs = (unsigned)strtoul(optarg, NULL, 10);
            break;
        case 'o':
            only = optarg;
            break;
        default:
            return 2;
        }
    }
    if (b.runs < 1 || b.runs > RUNS_MAX) {
        fprintf(stderr, "bench_lookup: --runs is 1 to %d\n", RUNS_MAX);
        return 2;
    }
    b.turns = allocate(PACKETS / WORKER_BURST * sizeof(*b.turns));
    start_ports(&b);
    make_template(b.template4, false);
    make_template(b.template6, true);
    for (unsigned i = 0; i < RTE_DIM(sizes); i++) {
        if (!only || strcmp(only, sizes[i].name) == 0) {
            start_size(&b, &sizes[i]);
            last = &sizes[i];
        }
    }
    for (unsigned r = 0; r < b.runs; r++) {
        b.bare[r] = run(&b, NULL, last->local.targets, &b.bare_turn[r]);
        for (unsigned i = 0; i < RTE_DIM(sizes); i++) {
            run_load(&b, sizes[i].worker, &sizes[i].local, r);
            run_load(&b, sizes[i].worker, &sizes[i].routed, r);
        }
    }
    printf("cycles_bare %.1f cycles\n", median(b.bare, b.runs));
    for (unsigned i = 0; i < RTE_DIM(sizes); i++) {
        print_load(&b, sizes[i].name, "", &sizes[i].local);
        print_load(&b, sizes[i].name, "_routed", &sizes[i].routed);
    }
    return 0;
}
