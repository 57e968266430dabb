/*
 * bench_fwd - what one packet costs in fwd_burst(): parse, both lookups, rewrite.
 *
 *   bench_fwd [--entries N] [--data DIR]      N routes and N VM-NC entries; default
 * 1000
 *
 * Packets are VXLAN over IPv4 with 64 bytes of inner IPv4 frame, to VMs drawn
 * uniformly; they lie in buffers of an odd number of lines, and are put back between
 * rounds outside the measured time.  Each call is timed by the TSC (microseconds: too
 * short for the thread's CPU clock) and the median of all calls is taken, so those that
 * the host interrupted do not count.  Prints
 *
 *   fwd_cycles_N NUMBER cycles     parse + lookups + rewrite, calls of 32 packets
 *   fwd_cycles_64_N …              calls of 64
 *   fib_cycles_N …                 the lookups alone, on the same keys
 *   fwd_forwarded_N NUMBER bp      share of packets that were forwarded, 1/100 %
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <x86intrin.h>

#include "agent/fwd/checksum.h"
#include "agent/fwd/fwd.h"
#include "agent/fwd/wire.h"
#include "tests/bench/gen.h"

#define PACKETS 4096u
/* Bytes from one packet to the next: an odd number of lines. */
#define STRIDE ((size_t)5 * 64)
#define ROOM   64 /* of headroom */
#define FRAME  (14 + 20 + 8 + 8 + 64)
#define ROUNDS 200
#define CALL   32u /* packets of the shortest calls */

struct bench {
    struct table_set *records;
    struct fib *fib;
    struct fib_reader *reader;
    struct fwd_config *config;
    struct fwd_worker *worker;
    uint8_t *buffers; /* PACKETS times STRIDE */
    uint8_t *frames;  /* PACKETS times FRAME, as they arrive */
    struct fib_query *queries;
    unsigned long entries;
};

static void *allocate(size_t count, size_t size)
{
    size_t bytes = (count * size + 63) / 64 * 64;
    void *p = aligned_alloc(64, bytes);

    if (p == NULL) {
        fprintf(stderr, "bench_fwd: no memory\n");
        exit(1);
    }
    memset(p, 0, bytes);
    return p;
}

static void fail(const struct err *err)
{
    fprintf(stderr, "bench_fwd: %s\n", err->msg);
    exit(1);
}

static struct ip v4(uint32_t address)
{
    return ip_v4(address);
}

static void make_config(struct bench *b)
{
    struct ip vtep = v4(0xc0000201);
    struct ip vips[2] = { v4(0xc0000264), { .family = IP_V6, .b = { 0x20, 1 } } };
    struct prefix source = { v4(0xc6336400), 24 };
    struct fwd_uplink_spec uplinks[2] = { 0 };
    struct fwd_node node = { .vteps = &vtep,
                             .vips = vips,
                             .underlay_sources = &source,
                             .uplinks = uplinks,
                             .vtep_count = 1,
                             .vip_count = 2,
                             .underlay_source_count = 1,
                             .uplink_count = 2 };
    struct err err = { 0 };

    for (unsigned i = 0; i < 2; i++) {
        uplinks[i].mtu = 1500;
        uplinks[i].has_next_hop_mac = true;
        uplinks[i].address.family = i == 0 ? IP_V4 : IP_V6;
        uplinks[i].next_hop.family = uplinks[i].address.family;
    }
    if (fwd_config_new(&node, &b->config, &err) != RC_OK) {
        fail(&err);
    }
}

/* 1 % of the routes are internet defaults and such; VMs under them are reached all the
 * same by the route the generator made for each. */
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
    store_be32(ip + 12, 0xc6336401);
    store_be32(ip + 16, 0xc0000264);
    csum_store(ip + 10, (uint16_t)~csum_fold(csum_add(0, ip, IP4_SIZE)));
    store_be16(udp, (uint16_t)(0xc000 | i));
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

/* One packet for each of PACKETS v4 VMs, drawn from all by reservoir sampling. */
static void draw(struct bench *b, const struct entry *e, uint32_t seen,
                 uint64_t *random)
{
    uint64_t place = seen < PACKETS ? seen : gen_random(random) % (seen + 1);
    struct fib_query *q;

    if (place >= PACKETS) {
        return;
    }
    q = &b->queries[place];
    q->vni = e->vni;
    q->family = IP_V4;
    memcpy(q->dst, e->vm_nc.vm.b, 4);
    make_frame(b->frames + place * FRAME, e->vni, &e->vm_nc.vm, (unsigned)place);
}

static void apply(struct bench *b, struct batch_writer *w)
{
    struct blob *batch = batch_writer_finish(w);
    struct change_list changes = { 0 };
    struct fib_exceptions refused = { 0 };
    struct rows_change total;
    struct err err = { 0 };

    if (batch == NULL || table_set_apply(b->records, batch->data, batch->len, &changes,
                                         &total, &err) != RC_OK) {
        fail(&err);
    }
    if (fib_apply(b->fib, b->records, &changes, &refused) != RC_OK) {
        fprintf(stderr, "bench_fwd: %u entries refused\n", refused.count);
        exit(1);
    }
    fib_exceptions_fini(&refused);
    change_list_fini(&changes);
    blob_unref(batch);
    fib_reader_quiescent(b->fib, b->reader);
    fib_reclaim(b->fib, fib_readers_oldest(b->reader, 1));
}

static uint32_t load(struct bench *b, struct gen *g)
{
    struct batch_writer w;
    struct entry e;
    uint32_t vms = 0;
    uint64_t random = 7;

    batch_writer_init(&w);
    for (uint32_t i = 0; i < gen_vni_count(g); i++) {
        e = (struct entry){ .table = TABLE_VNI, .vni = gen_vni(g, i) };
        batch_add_entry(&w, ENTRY_PUT, &e);
        if (w.entry_count >= BATCH_MAX_ENTRIES) {
            apply(b, &w);
        }
    }
    while (gen_next(g, &e)) {
        batch_add_entry(&w, ENTRY_PUT, &e);
        if (e.table == TABLE_VM_NC && e.vm_nc.vm.family == IP_V4) {
            draw(b, &e, vms++, &random);
        }
        if (w.entry_count >= BATCH_MAX_ENTRIES) {
            apply(b, &w);
        }
    }
    apply(b, &w);
    batch_writer_fini(&w);
    return vms < PACKETS ? vms : PACKETS;
}

static void restore(struct bench *b, struct fwd_packet *p, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        uint8_t *data = b->buffers + (size_t)i * STRIDE + ROOM;

        memcpy(data, b->frames + (size_t)i * FRAME, FRAME);
        p[i] = (struct fwd_packet){ .data = data, .length = FRAME, .headroom = ROOM };
    }
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Cycles a packet of one call each, and how many there are. */
struct samples {
    double at[ROUNDS * (PACKETS / CALL)];
    unsigned count;
};

static void add_sample(struct samples *s, uint64_t start, uint32_t packets)
{
    s->at[s->count++] = (double)(__rdtsc() - start) / packets;
}

static double median(struct samples *s)
{
    qsort(s->at, s->count, sizeof(*s->at), compare);
    return s->count == 0 ? 0 : s->at[s->count / 2];
}

/* Only whole calls are measured. */
static double run_fwd(struct bench *b, struct fwd_packet *p, uint32_t n, uint32_t burst)
{
    struct fwd_view view = { b->config, b->fib, true };
    struct samples *s = allocate(1, sizeof(*s));
    double result;

    for (unsigned round = 0; round < ROUNDS; round++) {
        restore(b, p, n);
        for (uint32_t i = 0; i + burst <= n; i += burst) {
            uint64_t start = __rdtsc();

            fwd_burst(&view, b->worker, 0, p + i, burst, NULL);
            fib_reader_quiescent(b->fib, b->reader);
            add_sample(s, start, burst);
        }
    }
    result = median(s);
    free(s);
    return result;
}

static double run_fib(struct bench *b, uint32_t n)
{
    struct samples *s = allocate(1, sizeof(*s));
    double result;

    for (unsigned round = 0; round < ROUNDS; round++) {
        for (uint32_t i = 0; i + CALL <= n; i += CALL) {
            uint64_t start = __rdtsc();

            fib_resolve_burst(b->fib, b->queries + i, CALL);
            add_sample(s, start, CALL);
        }
    }
    result = median(s);
    free(s);
    return result;
}

static void run(struct bench *b, uint32_t n)
{
    struct fwd_packet *p = allocate(PACKETS, sizeof(*p));
    struct fwd_totals t = { 0 };
    double of_32 = run_fwd(b, p, n, CALL);
    double of_64 = run_fwd(b, p, n, 64);

    fwd_worker_sum(b->worker, &t);
    printf("fwd_cycles_%lu %.1f cycles\n", b->entries, of_32);
    printf("fwd_cycles_64_%lu %.1f cycles\n", b->entries, of_64);
    printf("fib_cycles_%lu %.1f cycles\n", b->entries, run_fib(b, n));
    printf("fwd_forwarded_%lu %.0f bp\n", b->entries,
           1e4 * (double)t.forwarded / (double)t.received);
    free(p);
}

int main(int argc, char **argv)
{
    static const struct option options[] = { { "entries", required_argument, NULL,
                                               'e' },
                                             { "data", required_argument, NULL, 'd' },
                                             { NULL, 0, NULL, 0 } };
    struct bench b = { .entries = 1000 };
    struct gen_config config;
    struct gen *g;
    struct err err = { 0 };
    int option;

    gen_config_init(&config);
    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (option == 'e') {
            b.entries = strtoul(optarg, NULL, 10);
        } else if (option == 'd') {
            config.data_dir = optarg;
        } else {
            return 2;
        }
    }
    config.routes = (uint32_t)b.entries;
    if (gen_new(&config, &g, &err) != RC_OK) {
        fail(&err);
    }
    b.records = table_set_new();
    b.fib = fib_new(NULL);
    b.reader = allocate(1, sizeof(*b.reader));
    b.worker = allocate(1, sizeof(*b.worker));
    b.buffers = allocate(PACKETS, STRIDE);
    b.frames = allocate(PACKETS, FRAME);
    b.queries = allocate(PACKETS, sizeof(*b.queries));
    if (b.records == NULL || b.fib == NULL) {
        fprintf(stderr, "bench_fwd: no memory\n");
        return 1;
    }
    fwd_worker_init(b.worker, 0, 0);
    fib_reader_online(b.fib, b.reader);
    make_config(&b);
    run(&b, load(&b, g));
    gen_free(g);
    fwd_config_free(b.config);
    fib_free(b.fib);
    table_set_free(b.records);
    free(b.reader);
    free(b.worker);
    free(b.buffers);
    free(b.frames);
    free(b.queries);
    return 0;
}
