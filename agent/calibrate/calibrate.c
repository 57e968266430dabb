#include "agent/calibrate/calibrate.h"

#include <stdlib.h>
#include <string.h>
#include <x86intrin.h>

#include "agent/fwd/checksum.h"
#include "agent/fwd/fwd.h"
#include "agent/fwd/wire.h"

#define PREFIXES 4u /* routes of a VNI, and VMs of the last of a chain */
#define TARGETS  (1u << 18)
#define BUFFERS  512u
/* Bytes from one packet to the next: an odd number of lines. */
#define STRIDE ((size_t)5 * 64)
#define ROOM   64 /* of headroom */
#define INNER  64
#define OUTER  (ETH_SIZE + IP4_SIZE + UDP_SIZE + VXLAN_SIZE)
#define FRAME  (OUTER + INNER)
#define VIP    0xc0000264u
#define NC     0xc6336401u

/* A packet to be. */
struct target {
    uint32_t vni;
    uint32_t dst;
};

struct calibrate_rig {
    uint32_t hops;
    uint32_t groups; /* chains of VNIs */
    struct table_set *records;
    struct fib *fib;
    struct fwd_config *config;
    struct fib_reader *reader;
    struct fwd_worker *worker;
    struct target *targets;
    uint8_t *buffers;
    uint8_t frame[FRAME]; /* what all packets have in common */
    uint32_t next_target;
    uint32_t next_buffer;
    uint64_t random;
};

/* ---- tables ---- */

/* Numbers of VNIs are spread over their space: an odd factor is a permutation. */
static uint32_t vni_of(const struct calibrate_rig *r, uint32_t group, uint32_t hop)
{
    uint32_t place = group * (r->hops + 1) + hop + 1;

    return place * 0x9e3779b1u & 0xffffff;
}

static uint32_t vm_of(uint32_t group, uint32_t i)
{
    return 0x0a000000u | (group * 7919u % 0x3fff) << 10 | i << 8 | (1 + group % 250);
}

static void add_group(const struct calibrate_rig *r, uint32_t group,
                      struct batch_writer *w)
{
    for (uint32_t hop = 0; hop <= r->hops; hop++) {
        uint32_t vni = vni_of(r, group, hop);
        struct entry e = { .table = TABLE_VNI, .vni = vni };

        batch_add_entry(w, ENTRY_PUT, &e);
        for (uint32_t i = 0; i < PREFIXES; i++) {
            e = (struct entry){ .table = TABLE_VXLAN_ROUTE, .vni = vni };
            e.route.dst = (struct prefix){ ip_v4(vm_of(group, i) & ~0xffu), 24 };
            e.route.action.scope = hop < r->hops ? SCOPE_PEER : SCOPE_LOCAL;
            e.route.action.vni = hop < r->hops ? vni_of(r, group, hop + 1) : 0;
            batch_add_entry(w, ENTRY_PUT, &e);
        }
    }
    for (uint32_t i = 0; i < PREFIXES; i++) {
        struct entry e = { .table = TABLE_VM_NC, .vni = vni_of(r, group, r->hops) };

        e.vm_nc.vm = ip_v4(vm_of(group, i));
        e.vm_nc.nc = ip_v4(NC + group % 4000);
        batch_add_entry(w, ENTRY_PUT, &e);
    }
}

static enum rc apply(struct calibrate_rig *r, struct batch_writer *w, struct err *err)
{
    struct blob *batch = batch_writer_finish(w);
    struct change_list changes = { 0 };
    struct fib_exceptions refused = { 0 };
    struct rows_change total;
    enum rc rc;

    if (!batch) {
        return err_set(err, RC_NO_MEMORY, "no memory for a batch of entries");
    }
    rc = table_set_apply(r->records, batch->data, batch->len, &changes, &total, err);
    if (rc == RC_OK) {
        rc = fib_apply(r->fib, r->records, &changes, &refused);
        if (rc != RC_OK) {
            err_set(err, rc, "%u entries were refused", refused.count);
        }
    }
    fib_exceptions_fini(&refused);
    change_list_fini(&changes);
    blob_unref(batch);
    fib_reader_quiescent(r->fib, r->reader);
    fib_reclaim(r->fib, fib_readers_oldest(r->reader, 1));
    return rc;
}

static enum rc load(struct calibrate_rig *r, struct err *err)
{
    struct batch_writer w;
    enum rc rc = RC_OK;

    batch_writer_init(&w);
    for (uint32_t group = 0; rc == RC_OK && group < r->groups; group++) {
        add_group(r, group, &w);
        if (w.entry_count + 64 >= BATCH_MAX_ENTRIES || group + 1 == r->groups) {
            rc = apply(r, &w, err);
        }
    }
    batch_writer_fini(&w);
    return rc;
}

/* ---- a node ---- */

static enum rc configure(struct calibrate_rig *r, struct err *err)
{
    struct ip vtep = ip_v4(0xc0000201);
    struct ip vips[2] = { ip_v4(VIP), { .family = IP_V6, .b = { 0x20, 1 } } };
    struct prefix source = { ip_v4(NC & ~0xffffu), 16 };
    struct fwd_uplink_spec uplink = { .mtu = 1500, .has_next_hop_mac = true };
    struct fwd_node node = { .vteps = &vtep,
                             .vips = vips,
                             .underlay_sources = &source,
                             .uplinks = &uplink,
                             .vtep_count = 1,
                             .vip_count = 2,
                             .underlay_source_count = 1,
                             .uplink_count = 1 };

    uplink.address.family = uplink.next_hop.family = IP_V4;
    return fwd_config_new(&node, &r->config, err);
}

static void make_frame(uint8_t *f)
{
    uint8_t *ip = f + ETH_SIZE;
    uint8_t *udp = ip + IP4_SIZE;
    uint8_t *inner = f + OUTER;
    uint8_t *inner_ip = inner + ETH_SIZE;

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
    store_be16(inner + 12, ETHERTYPE_IP4);
    inner_ip[0] = 0x45;
    store_be16(inner_ip + 2, INNER - ETH_SIZE);
    inner_ip[8] = 64;
    inner_ip[9] = PROTO_TCP;
    store_be32(inner_ip + 12, 0x0a000001);
}

/* ---- life ---- */

static void *allocate(size_t bytes)
{
    void *p = aligned_alloc(64, (bytes + 63) / 64 * 64);

    if (p) {
        memset(p, 0, (bytes + 63) / 64 * 64);
    }
    return p;
}

static uint32_t draw(struct calibrate_rig *r, uint32_t below)
{
    uint64_t z = (r->random += UINT64_C(0x9e3779b97f4a7c15)); /* splitmix64 */

    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return (uint32_t)((z ^ (z >> 31)) % below);
}

enum rc calibrate_rig_new(uint32_t entries, uint32_t hops, struct calibrate_rig **ret,
                          struct err *err)
{
    struct calibrate_rig *r = NULL;
    enum rc rc = RC_NO_MEMORY;

    if (hops > CALIBRATE_HOPS_MAX) {
        return err_field(err, RC_RANGE, "hops", "hops_range", "%u hops: more than %d",
                         hops, CALIBRATE_HOPS_MAX);
    }
    if (entries < CALIBRATE_ENTRIES_MIN || entries > CALIBRATE_ENTRIES_MAX) {
        return err_field(err, RC_RANGE, "entries", "entries_range",
                         "%u entries: not %d to %d", entries, CALIBRATE_ENTRIES_MIN,
                         CALIBRATE_ENTRIES_MAX);
    }
    r = allocate(sizeof(*r));
    if (!r) {
        return err_set(err, RC_NO_MEMORY, "no memory");
    }
    r->hops = hops;
    r->groups = entries / (PREFIXES * (hops + 2));
    r->random = 1;
    r->records = table_set_new();
    r->fib = fib_new(NULL);
    r->reader = allocate(sizeof(*r->reader));
    r->worker = allocate(sizeof(*r->worker));
    r->targets = allocate(TARGETS * sizeof(*r->targets));
    r->buffers = allocate(BUFFERS * STRIDE);
    if (!r->records || !r->fib || !r->reader || !r->worker || !r->targets ||
        !r->buffers) {
        err_set(err, rc, "no memory for tables of %u entries", entries);
        goto fail;
    }
    fwd_worker_init(r->worker, 0, 0);
    fib_reader_online(r->fib, r->reader);
    make_frame(r->frame);
    rc = configure(r, err);
    rc = rc == RC_OK ? load(r, err) : rc;
    if (rc != RC_OK) {
        goto fail;
    }
    for (uint32_t i = 0; i < TARGETS; i++) {
        uint32_t group = draw(r, r->groups);

        r->targets[i].vni = vni_of(r, group, 0);
        r->targets[i].dst = vm_of(group, draw(r, PREFIXES));
    }
    *ret = r;
    return RC_OK;

fail:
    calibrate_rig_free(r);
    return rc;
}

void calibrate_rig_free(struct calibrate_rig *r)
{
    if (!r) {
        return;
    }
    fwd_config_free(r->config);
    fib_free(r->fib);
    table_set_free(r->records);
    free(r->reader);
    free(r->worker);
    free(r->targets);
    free(r->buffers);
    free(r);
}

uint64_t calibrate_rig_bytes(const struct calibrate_rig *r)
{
    return fib_stats(r->fib).memory_bytes;
}

/* ---- measuring ---- */

static void make_packet(struct calibrate_rig *r, struct fwd_packet *p)
{
    const struct target *t = &r->targets[r->next_target++ % TARGETS];
    uint8_t *f = r->buffers + r->next_buffer++ % BUFFERS * STRIDE + ROOM;
    uint8_t *inner_ip = f + OUTER + ETH_SIZE;

    memcpy(f, r->frame, FRAME);
    store_be16(f + ETH_SIZE + IP4_SIZE, (uint16_t)(0xc000 | (t->dst & 0x3fff)));
    store_be32(f + ETH_SIZE + IP4_SIZE + UDP_SIZE + 4, t->vni << 8);
    store_be32(inner_ip + 16, t->dst);
    csum_store(inner_ip + 10, (uint16_t)~csum_fold(csum_add(0, inner_ip, IP4_SIZE)));
    *p = (struct fwd_packet){ .data = f, .length = FRAME, .headroom = ROOM };
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;

    return (x > y) - (x < y);
}

enum rc calibrate_rig_run(struct calibrate_rig *r, uint32_t burst, uint32_t packets,
                          double *ret_cycles, struct err *err)
{
    struct fwd_view view = { r->config, r->fib, true };
    struct fwd_packet p[CALIBRATE_BURST_MAX];
    uint32_t calls = packets / burst + 1;
    uint32_t warm = calls / 10;
    double *samples = malloc(calls * sizeof(*samples));
    uint32_t sent = 0;

    if (!samples) {
        return err_set(err, RC_NO_MEMORY, "no memory for %u samples", calls);
    }
    for (uint32_t i = 0; i < warm + calls; i++) {
        uint64_t start;

        for (uint32_t k = 0; k < burst; k++) {
            make_packet(r, &p[k]);
        }
        start = __rdtsc();
        fwd_burst(&view, r->worker, 0, p, burst, NULL);
        fib_reader_quiescent(r->fib, r->reader);
        samples[i < warm ? 0 : i - warm] = (double)(__rdtsc() - start) / burst;
        for (uint32_t k = 0; k < burst; k++) {
            sent += p[k].verdict == FWD_FORWARD;
        }
    }
    qsort(samples, calls, sizeof(*samples), compare);
    *ret_cycles = samples[calls / 2];
    free(samples);
    return sent == (warm + calls) * burst
               ? RC_OK
               : err_set(err, RC_BUG, "%u of %u packets were not forwarded",
                         (warm + calls) * burst - sent, (warm + calls) * burst);
}

void calibrate_gaps(uint64_t cycles, uint64_t least, struct calibrate_gaps *ret)
{
    uint64_t start = __rdtsc();
    uint64_t last = start;
    struct calibrate_gaps g = { 0 };

    while (last - start < cycles) {
        uint64_t now = __rdtsc();
        uint64_t gap = now - last;

        if (gap > least) {
            g.count++;
            g.cycles += gap;
            g.longest = gap > g.longest ? gap : g.longest;
        }
        last = now;
    }
    g.watched = last - start;
    *ret = g;
}
