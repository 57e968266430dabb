#include "agent/fwdh/switch_impl.h"

#include <stdlib.h>
#include <string.h>

#define CRC32_POLYNOMIAL UINT32_C(0xedb88320) /* IEEE 802.3, reflected */

/* ---- life ---- */

static void crc_init(uint32_t table[16][256])
{
    uint32_t zeros = UINT32_MAX; /* the sum of 16 zero bytes */

    for (unsigned b = 0; b < 256; b++) {
        uint32_t crc = b;

        for (unsigned bit = 0; bit < 8; bit++) {
            crc = crc & 1 ? crc >> 1 ^ CRC32_POLYNOMIAL : crc >> 1;
        }
        table[15][b] = crc;
    }
    for (int i = 14; i >= 0; i--) { /* one more zero byte behind */
        for (unsigned b = 0; b < 256; b++) {
            uint32_t crc = table[i + 1][b];

            table[i][b] = crc >> 8 ^ table[15][crc & 0xff];
        }
    }
    for (unsigned i = 0; i < 16; i++) {
        zeros = zeros >> 8 ^ table[15][zeros & 0xff];
    }
    for (unsigned b = 0; b < 256; b++) {
        table[0][b] ^= ~zeros;
    }
}

/* Address space for the structures: generous, for only what is used costs memory. */
static uint64_t lines_bytes(const struct phys_sizes *z)
{
    uint64_t half = (uint64_t)z->table[PHYS_VM_NC] * 40 +
                    (uint64_t)z->table[PHYS_VM_NC_SPILL] * 40 +
                    (uint64_t)z->table[PHYS_VNI] * 40 +
                    (uint64_t)z->table[PHYS_VM_NC_CONFLICT] * 80 +
                    (uint64_t)z->table[PHYS_ROUTE_TCAM] * 4 * LINE_BYTES +
                    (uint64_t)z->table[PHYS_ROUTE_PART] * 2 * sizeof(struct hpart_row);

    return HSWITCH_HALVES * half + (UINT64_C(256) << 20);
}

static bool is_hashed(enum phys_table table)
{
    return table == PHYS_VNI || table == PHYS_VM_NC || table == PHYS_VM_NC_SPILL ||
           table == PHYS_VM_NC_CONFLICT;
}

uint32_t hswitch_limit(const struct hswitch *s, enum phys_table table)
{
    uint64_t size = s->sizes.table[table];

    return (uint32_t)(is_hashed(table) ? size * s->sizes.hash_load / 1000 : size);
}

uint32_t hswitch_meter_count(const struct hswitch *s, enum phys_meter meter)
{
    return meter == PHYS_METER_VNI        ? s->sizes.meters
           : meter == PHYS_METER_FB_CLASS ? 2
                                          : s->sizes.fallback_buckets;
}

uint32_t hswitch_counter_count(const struct hswitch *s, enum phys_counter counter)
{
    return counter == PHYS_COUNTER_DROP  ? DROP_COUNT
           : counter == PHYS_COUNTER_VNI ? s->sizes.meters
                                         : PHYS_PORTS;
}

static bool half_init(struct hswitch *s, struct hhalf *h, uint64_t seed)
{
    bool ok =
        exact_init(&h->vni, EXACT_VNI, &s->lines, &s->retire, seed) == 0 &&
        exact_init(&h->vm_nc, EXACT_V4, &s->lines, &s->retire, seed + 1) == 0 &&
        exact_init(&h->spill, EXACT_V4, &s->lines, &s->retire, seed + 2) == 0 &&
        exact_init(&h->conflict, EXACT_V6, &s->lines, &s->retire, seed + 3) == 0 &&
        htrie_init(&h->trie, &s->masks, &s->lines, &s->retire) == 0 &&
        hparts_init(&h->parts, s->sizes.partitions, s->sizes.partition_slots, &s->masks,
                    &s->lines, &s->retire) == 0;

    for (unsigned t = 0; ok && t < PHYS_TABLES; t++) {
        ok = t == PHYS_ROUTE_PART ||
             hrecords_init(&h->records[t], (enum phys_table)t,
                           hswitch_limit(s, (enum phys_table)t)) == 0;
    }
    for (unsigned m = 0; ok && m < PHYS_METERS; m++) {
        h->meter[m] =
            calloc(hswitch_meter_count(s, (enum phys_meter)m), sizeof(*h->meter[m]));
        ok = h->meter[m] != NULL;
    }
    h->nc = lines_reserve(HNC_COUNT * sizeof(*h->nc));
    for (unsigned k = 0; ok && k < PHYS_COUNTERS; k++) {
        h->base[k] =
            calloc(hswitch_counter_count(s, (enum phys_counter)k), sizeof(*h->base[k]));
        ok = h->base[k] != NULL;
    }
    return ok && h->nc;
}

static void half_fini(struct hhalf *h)
{
    fwd_config_free(atomic_load(&h->config));
    htrie_fini(&h->trie);
    hparts_fini(&h->parts);
    for (unsigned t = 0; t < PHYS_TABLES; t++) {
        if (h->records[t].desc) {
            hrecords_fini(&h->records[t]);
        }
    }
    for (unsigned m = 0; m < PHYS_METERS; m++) {
        free(h->meter[m]);
    }
    lines_unreserve(h->nc, HNC_COUNT * sizeof(*h->nc));
    hswitch_kept_fini(h);
    for (unsigned k = 0; k < PHYS_COUNTERS; k++) {
        free(h->base[k]);
    }
}

static bool workers_init(struct hswitch *s)
{
    size_t size = s->options.workers * sizeof(*s->workers);

    s->workers = aligned_alloc(64, size);
    if (!s->workers) {
        return false;
    }
    memset(s->workers, 0, size);
    for (unsigned i = 0; i < s->options.workers; i++) {
        atomic_init(&s->workers[i].epoch, UINT64_MAX);
        for (unsigned h = 0; h < HSWITCH_HALVES; h++) {
            s->workers[i].vni[h] = calloc(s->sizes.meters, sizeof(struct hcell));
            if (!s->workers[i].vni[h]) {
                return false;
            }
        }
    }
    return true;
}

enum rc hswitch_new(const struct hswitch_options *options, struct hswitch **ret,
                    struct err *err)
{
    struct hswitch *s;

    if (options->workers < 1 || options->workers > HSWITCH_WORKERS_MAX ||
        options->port_count > HSWITCH_PORTS_MAX ||
        options->sizes->partition_slots >= HPARTS_SLOTS_MAX) {
        return err_set(err, RC_RANGE, "switch: workers, ports or slots out of range");
    }
    s = calloc(1, sizeof(*s));
    if (!s) {
        return err_set(err, RC_NO_MEMORY, "switch: no memory");
    }
    s->sizes = *options->sizes;
    s->options = *options;
    s->options.sizes = &s->sizes;
    hmasks_init(&s->masks);
    crc_init(s->crc);
    atomic_init(&s->retire.epoch, 1);
    if (lines_init(&s->lines, lines_bytes(&s->sizes)) != 0 || !workers_init(s) ||
        !half_init(s, &s->half[0], options->seed) ||
        !half_init(s, &s->half[1], options->seed + 16)) {
        hswitch_free(s);
        return err_set(err, RC_NO_MEMORY, "switch: no memory for its tables");
    }
    *ret = s;
    return RC_OK;
}

void hswitch_free(struct hswitch *s)
{
    if (!s) {
        return;
    }
    for (unsigned i = 0; i < HSWITCH_HALVES; i++) {
        half_fini(&s->half[i]);
    }
    for (unsigned i = 0; s->workers && i < s->options.workers; i++) {
        free(s->workers[i].vni[0]);
        free(s->workers[i].vni[1]);
    }
    while (s->old_configs) {
        struct hretired_config *next = s->old_configs->next;

        fwd_config_free(s->old_configs->config);
        free(s->old_configs);
        s->old_configs = next;
    }
    free(s->workers);
    retire_fini(&s->retire);
    if (s->lines.base) {
        lines_fini(&s->lines);
    }
    free(s);
}

/* ---- vtep and source, compiled ---- */

bool hswitch_prefix(const struct phys_entry *e, struct prefix *ret)
{
    /* Key: v4(1) ip4(4) ip6(16).  What is not of the family has to be "any". */
    static const uint8_t any[16];
    bool is_v4 = e->key[0] != 0;
    unsigned size = is_v4 ? 4 : 16;
    const uint8_t *mask = e->mask + (is_v4 ? 1 : 5);
    unsigned length = 0;

    if (memcmp(is_v4 ? e->mask + 5 : e->mask + 1, any, is_v4 ? 16 : 4) != 0) {
        return false;
    }
    while (length < 8 * size && mask[length / 8] & 0x80 >> length % 8) {
        length++;
    }
    for (unsigned i = length; i < 8 * size; i++) {
        if (mask[i / 8] & 0x80 >> i % 8) {
            return false;
        }
    }
    *ret = (struct prefix){ 0 };
    ret->addr.family = is_v4 ? IP_V4 : IP_V6;
    memcpy(ret->addr.b, e->key + (is_v4 ? 1 : 5), size);
    ret->len = (uint8_t)length;
    return true;
}

/* The own addresses and neighbours of the ports, as fwd_config takes them. */
static unsigned fill_uplinks(const struct hswitch *s,
                             struct fwd_uplink_spec to[FWD_UPLINK_MAX])
{
    unsigned count = 0;

    for (unsigned i = 0; i < s->options.port_count; i++) {
        const struct hswitch_port *p = &s->options.ports[i];

        for (unsigned f = 0; f < 2 && count < FWD_UPLINK_MAX; f++) {
            if (p->address[f].family != IP_NONE && p->next_hop[f].family != IP_NONE) {
                to[count] = (struct fwd_uplink_spec){ .port = (uint16_t)i,
                                                      .mtu = p->mtu,
                                                      .address = p->address[f],
                                                      .next_hop = p->next_hop[f] };
                memcpy(to[count++].mac, p->mac, 6);
            }
        }
    }
    return count;
}

static enum rc compile(const struct hswitch *s, const struct hhalf *h,
                       struct fwd_config **ret, struct err *err)
{
    const struct hrecords *vtep = &h->records[PHYS_VTEP];
    const struct hrecords *source = &h->records[PHYS_SOURCE];
    struct ip *own = calloc(vtep->count, sizeof(*own));
    struct prefix *from = calloc(source->count + 1, sizeof(*from));
    struct fwd_uplink_spec uplinks[FWD_UPLINK_MAX];
    struct fwd_node node = { .vteps = own,
                             .underlay_sources = from,
                             .uplinks = uplinks,
                             .uplink_count = fill_uplinks(s, uplinks),
                             .udp6_zero_csum = s->options.udp6_zero_csum };
    struct phys_entry e;
    struct prefix p;
    enum rc rc = RC_NO_MEMORY;

    for (uint32_t row = 0; own && row < vtep->top; row++) {
        if (hrecords_get(vtep, row, &e) && hswitch_prefix(&e, &p)) {
            own[node.vtep_count++] = p.addr;
        }
    }
    for (uint32_t row = 0; from && row < source->top; row++) {
        if (hrecords_get(source, row, &e)) {
            hswitch_prefix(&e, &from[node.underlay_source_count++]);
        }
    }
    if (own && from) {
        rc = fwd_config_new(&node, ret, err);
    }
    free(own);
    free(from);
    return rc == RC_NO_MEMORY ? err_set(err, rc, "vtep, source: no memory") : rc;
}

/* ---- publishing ---- */

static enum rc publish_config(struct hswitch *s, struct hhalf *h, struct err *err)
{
    struct hretired_config *retired = malloc(sizeof(*retired));
    struct fwd_config *fresh = NULL;
    enum rc rc = RC_OK;

    if (!retired) {
        return err_set(err, RC_NO_MEMORY, "vtep, source: no memory");
    }
    retired->config = atomic_load_explicit(&h->config, memory_order_relaxed);
    retired->epoch = atomic_load_explicit(&s->retire.epoch, memory_order_relaxed);
    if (h->records[PHYS_VTEP].count > 0) {
        rc = compile(s, h, &fresh, err);
    }
    if (rc != RC_OK) {
        free(retired);
        return rc;
    }
    if (fresh && retired->config) {
        fwd_config_inherit_macs(fresh, retired->config);
    }
    atomic_store_explicit(&h->config, fresh, memory_order_release);
    retired->next = s->old_configs;
    s->old_configs = retired;
    h->config_is_stale = false;
    return RC_OK;
}

enum rc hswitch_publish_acl(struct hswitch *s, struct hhalf *h, struct err *err)
{
    uint32_t line = 0;

    if (!retire_reserve(&s->retire, 1) ||
        hacl_build(&h->records[PHYS_ACL], &s->lines, &line) != RC_OK) {
        return err_set(err, RC_NO_MEMORY, "acl: no memory");
    }
    atomic_store_explicit(&h->acl, line ? lines_at(&s->lines, line) : NULL,
                          memory_order_release);
    if (h->acl_line) {
        const struct hacl *old = lines_at(&s->lines, h->acl_line);

        retire_add(&s->retire, RETIRED_LINES, h->acl_line, old->lines);
    }
    h->acl_line = line;
    h->acl_is_stale = false;
    return RC_OK;
}

enum rc hswitch_publish(struct hswitch *s, bool *ret_config, struct err *err)
{
    enum rc rc = RC_OK;

    *ret_config = false;
    for (unsigned i = 0; i < HSWITCH_HALVES; i++) {
        struct hhalf *h = &s->half[i];

        if (h->config_is_stale && rc == RC_OK) {
            rc = publish_config(s, h, err);
            *ret_config |= rc == RC_OK;
        }
        if (h->acl_is_stale && rc == RC_OK) {
            rc = hswitch_publish_acl(s, h, err);
        }
    }
    atomic_fetch_add(&s->retire.epoch, 1);
    return rc;
}

/* ---- reclamation ---- */

static uint64_t oldest_epoch(const struct hswitch *s)
{
    uint64_t oldest = UINT64_MAX;

    for (unsigned i = 0; i < s->options.workers; i++) {
        uint64_t epoch = atomic_load(&s->workers[i].epoch);

        oldest = epoch < oldest ? epoch : oldest;
    }
    return oldest;
}

void hswitch_reclaim_lines(struct hswitch *s)
{
    uint64_t oldest = oldest_epoch(s);
    struct retired r;

    while (retire_next(&s->retire, oldest, &r)) {
        lines_free(&s->lines, r.index, r.count);
    }
}

bool hswitch_reclaim(struct hswitch *s)
{
    uint64_t oldest = oldest_epoch(s);
    struct hretired_config **at = &s->old_configs;

    hswitch_reclaim_lines(s);
    while (*at) {
        struct hretired_config *c = *at;

        if (c->epoch < oldest) {
            *at = c->next;
            fwd_config_free(c->config);
            free(c);
        } else {
            at = &c->next;
        }
    }
    return s->retire.count > 0 || s->old_configs;
}

/* ---- workers ---- */

void hworker_online(const struct hswitch *s, struct hworker *w)
{
    uint64_t epoch = atomic_load(&s->retire.epoch);
    uint64_t now;

    /* As fib_reader_online(): ends with an epoch read after it was announced. */
    for (;;) {
        atomic_exchange(&w->epoch, epoch);
        now = atomic_load(&s->retire.epoch);
        if (now == epoch) {
            return;
        }
        epoch = now;
    }
}

void hworker_quiescent(const struct hswitch *s, struct hworker *w)
{
    atomic_store_explicit(&w->epoch,
                          atomic_load_explicit(&s->retire.epoch, memory_order_acquire),
                          memory_order_release);
}

void hworker_offline(struct hworker *w)
{
    atomic_store_explicit(&w->epoch, UINT64_MAX, memory_order_release);
}
