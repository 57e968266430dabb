/*
 * switch - XGW-H's physical tables in software: two halves, filled as P4Runtime fills a
 * chip, with the chip's limits.
 *
 * Each half is what P4Runtime calls a device and stands for a pair of pipes: half 0 for
 * pipes 0 and 1, half 1 for pipes 2 and 3 (agent/xgwh/phys.h).  A packet goes through
 * vtep, source, vni, acl and meters in the half of the port it came in by (even ports
 * half 0, odd ones half 1), and through all others in the half that `vni` names.
 *
 * What was written of an entry are records; what packets see are structures made for
 * lookups (trie, parts, exact tables, arrays).  Both change together, an entry at a
 * time: readers never wait and find an entry's old or new state.  Only vtep, source and
 * acl are published at hswitch_publish(), at the end of a request.
 *
 * **An entry is there when packets get it**: a read-back tells what the structures
 * answer, and of a write, whether an entry is there or not is what they say.  Records
 * that say otherwise are a fault.  It is told (`is_sound` false), and any write of the
 * entry puts both right.
 *
 * One writer, the control thread; workers only read, and report quiescent states.
 */
#pragma once

#include "agent/fwd/drop_reason.h"
#include "agent/fwd/exact.h"
#include "agent/fwd/fwd_config.h"
#include "agent/fwdh/acl.h"
#include "agent/fwdh/meter.h"
#include "agent/fwdh/parts.h"
#include "agent/fwdh/records.h"
#include "agent/fwdh/trie.h"

#define HSWITCH_HALVES      2
#define HSWITCH_WORKERS_MAX 64
#define HSWITCH_PORTS_MAX   16 /* of the 512 that a next hop can name */

/* What the switch's own operating system knows of a port, beside P4Runtime: its MAC,
 * and for each family an own address, which answers ARP and ND, and a neighbour, which
 * is resolved for rows of port_out whose destination MAC is zero. */
struct hswitch_port {
    uint8_t mac[6];
    uint32_t mtu;         /* bytes of outer IP packet */
    struct ip address[2]; /* v4, v6; IP_NONE: none */
    struct ip next_hop[2];
};

struct hcount {
    uint64_t packets;
    uint64_t bytes;
};

struct hswitch_options {
    const struct phys_sizes *sizes; /* of a half; copied */
    unsigned workers;               /* 1 to HSWITCH_WORKERS_MAX */
    unsigned port_count;
    struct hswitch_port ports[HSWITCH_PORTS_MAX];
    bool udp6_zero_csum; /* RFC 6935, as fwd_config has it */
    uint64_t seed;       /* of the hashes */
    /* What came in and went out by a port so far, as its driver counts it; null: all
     * stays 0.  The control thread. */
    void (*port_counts)(void *arg, unsigned port, struct hcount *ret_rx,
                        struct hcount *ret_tx);
    void *port_counts_arg;
};

/* An NC's address.  Two copies, and a version that says which one counts, so a reader
 * repeats only when the writer changed this very row twice meanwhile. */
struct hnc {
    _Alignas(
        64) _Atomic(uint64_t) word[2][2]; /* as in memory; v4 in the first 4 bytes */
    _Atomic(uint32_t) version;            /* bit 0: which copy; bit 1: there is one */
};

/* A row of port_out; immutable. */
struct hport_out {
    uint8_t action; /* PHYS_SRC4, PHYS_SRC6, PHYS_KEEP_SRC */
    uint8_t source[16];
    uint8_t smac[6]; /* zero: the port's own */
    uint8_t dmac[6]; /* zero: the port's neighbour */
};

struct hcell { /* packets and bytes; one writer, any number of readers */
    _Atomic(uint64_t) packets;
    _Atomic(uint64_t) bytes;
};

/* What one worker counts and announces; on lines of its own. */
struct hworker {
    _Alignas(64) _Atomic(uint64_t) epoch; /* UINT64_MAX: offline */
    _Alignas(64) _Atomic(uint64_t) received;
    _Atomic(uint64_t) forwarded; /* out of the switch to NCs and tunnel endpoints */
    _Atomic(uint64_t) fallback;  /* to XGW-x86 */
    _Atomic(uint64_t) local;
    struct hcell drop[HSWITCH_HALVES][DROP_COUNT];
    struct hcell *vni[HSWITCH_HALVES]; /* by meter index */
};

#define HNC_COUNT       (1u << PHYS_NC_BITS)
#define HNEXT_HOP_COUNT 512u                 /* v4(1) bucket(8) */
#define HFALLBACK_COUNT 2048u                /* v4(1) bucket(10) */
#define HPORT_OUT_COUNT 2048u                /* port(9) fb(1) v4(1) */
#define HROW_SET        UINT32_C(0x80000000) /* in next_hop and fallback: a row is there */

struct hhalf {
    /* read for packets */
    _Atomic(struct fwd_config *) config; /* of vtep and source; null: vtep is empty */
    _Atomic(const struct hacl *) acl;    /* null: no rule */
    struct exact vni;                    /* slot: hvni_slot() */
    struct exact vm_nc;                  /* hvm_key() -> NC index */
    struct exact spill;
    struct exact conflict; /* VNI + 2^31, address -> NC index */
    struct htrie trie;
    struct hparts parts;
    struct hnc *nc; /* HNC_COUNT */
    _Atomic(uint32_t) next_hop[HNEXT_HOP_COUNT];
    _Atomic(uint32_t) fallback[HFALLBACK_COUNT];
    _Atomic(const struct hport_out *) port_out[HPORT_OUT_COUNT];
    struct hmeter *meter[PHYS_METERS];

    /* the control thread's */
    struct hrecords records[PHYS_TABLES]; /* but of route_part, which is its own */
    uint32_t part_rows;
    uint32_t acl_line;
    bool config_is_stale;
    bool acl_is_stale;
    struct hcount *base[PHYS_COUNTERS]; /* what writes to a counter took off */
    struct { /* for tests: entries whose delete gets lost in one place; owned */
        struct phys_entry *at;
        uint32_t count, cap;
    } kept[2];
};

/* For tests: one of the two places in which a fault can happen. */
enum htamper_place { HTAMPER_RECORDS = 1, HTAMPER_STRUCTURES = 2 };

struct hretired_config {
    struct hretired_config *next;
    struct fwd_config *config;
    uint64_t epoch;
};

struct hswitch {
    struct hhalf half[HSWITCH_HALVES];
    struct hmasks masks;
    /* CRC32 of an address is the sum of what each byte adds; the constant that is left
     * is in the first table. */
    uint32_t crc[16][256];
    struct lines lines;
    struct retire retire;
    struct hretired_config *old_configs;
    struct phys_sizes sizes;
    struct hswitch_options options;
    struct hworker *workers;
};

/* ---- life ---- */

enum rc hswitch_new(const struct hswitch_options *options, struct hswitch **ret,
                    struct err *err);
void hswitch_free(struct hswitch *s); /* no worker may run; null is fine */

/* ---- writing: the control thread ---- */

/* One update of half 0 or 1.  RC_EXISTS, RC_NOT_FOUND, RC_FULL (a limit of the chip),
 * RC_NO_MEMORY; RC_INVALID: an entry of no use, or that only a real TCAM could hold
 * (rule "prefix"): masks of route_tcam, route_part, vtep and source are prefixes. */
enum rc hswitch_write(struct hswitch *s, unsigned half, enum phys_op op,
                      const struct phys_entry *e, struct err *err);

/* Asks for the memory that hswitch_write() of a decoded entry will look at. */
void hswitch_prefetch(const struct hswitch *s, unsigned half,
                      const struct phys_entry *e);

/* RC_INVALID: no such index. */
enum rc hswitch_set_meter(struct hswitch *s, unsigned half, enum phys_meter meter,
                          uint64_t index, const struct phys_meter_config *config,
                          struct err *err);
enum rc hswitch_set_counter(struct hswitch *s, unsigned half, enum phys_counter counter,
                            uint64_t index, const struct hcount *value,
                            struct err *err);

/* At the end of each request.  Gives true when a half's fwd_config changed: who holds
 * the one before has until the next hswitch_reclaim() to let go of it.  RC_NO_MEMORY:
 * what was published before stays, and the next call tries again. */
enum rc hswitch_publish(struct hswitch *s, bool *ret_config, struct err *err);

/* Frees what no worker can still hold; returns true while something waits. */
bool hswitch_reclaim(struct hswitch *s);

/* Empties the tables, meters and counters of a half. */
enum rc hswitch_clear(struct hswitch *s, unsigned half, struct err *err);

/* ---- reading: the control thread ---- */

/* Where a read-back is; starts zero. */
struct hcursor {
    uint32_t at;
    uint32_t row;
    bool is_behind_records; /* on its way along the structures, for what they hide */
    struct exact_cursor slots;
    struct htrie_cursor nodes;
};

/* The next entry that packets get of a table, at or behind the cursor, after looking at
 * no more than `*budget` places (counted down).  False: the end, or the budget is used
 * up.  `*ret_is_sound` (may be null) is false where the records say otherwise, or where
 * the entry stands twice: then it may be told once more.  An entry that stood
 * throughout, in a switch without a fault, is told once. */
bool hswitch_next(const struct hswitch *s, unsigned half, enum phys_table table,
                  struct hcursor *c, uint32_t *budget, struct phys_entry *ret,
                  bool *ret_is_sound);

/* One entry by key, mask and priority. */
bool hswitch_find(const struct hswitch *s, unsigned half, const struct phys_entry *key,
                  struct phys_entry *ret, bool *ret_is_sound);

/* By the records. */
uint32_t hswitch_count(const struct hswitch *s, unsigned half, enum phys_table table);
/* Most entries; what RC_FULL is about. */
uint32_t hswitch_limit(const struct hswitch *s, enum phys_table table);

uint32_t hswitch_meter_count(const struct hswitch *s, enum phys_meter meter);
uint32_t hswitch_counter_count(const struct hswitch *s, enum phys_counter counter);
void hswitch_get_meter(const struct hswitch *s, unsigned half, enum phys_meter meter,
                       uint32_t index, struct phys_meter_config *ret);
void hswitch_get_counter(const struct hswitch *s, unsigned half,
                         enum phys_counter counter, uint32_t index, struct hcount *ret);

/* ---- for tests ---- */

/* Does to one of the two places what a fault does: puts the entry there, over what
 * stands there, or takes it out, unseen by who writes.  RC_NOT_FOUND; RC_INVALID: vtep
 * and source have no structure of their own, and route_part's rows are their own
 * records. */
enum rc hswitch_tamper(struct hswitch *s, unsigned half, enum htamper_place place,
                       enum phys_op op, const struct phys_entry *e, struct err *err);
/* The next delete of the entry does not reach that place. */
enum rc hswitch_tamper_keep(struct hswitch *s, unsigned half, enum htamper_place place,
                            const struct phys_entry *e, struct err *err);

/* ---- workers ---- */

void hworker_online(const struct hswitch *s, struct hworker *w);
void hworker_quiescent(const struct hswitch *s, struct hworker *w);
void hworker_offline(struct hworker *w);

static inline bool hswitch_is_ready(const struct hswitch *s, unsigned half)
{
    return atomic_load_explicit(&s->half[half].config, memory_order_acquire) != NULL;
}

/* ---- keys, as both sides make them ---- */

/* A slot of the VNI table: key in the low 25 bits, never 0. */
static inline uint64_t hvni_key(uint32_t vni)
{
    return (uint64_t)vni << 1 | 1;
}

static inline uint64_t hvni_slot(uint32_t vni, uint8_t flags, uint8_t half,
                                 uint16_t meter)
{
    return hvni_key(vni) | (uint64_t)flags << 32 | (uint64_t)half << 40 |
           (uint64_t)meter << 48;
}

static inline uint64_t hvm_key(uint32_t vni, bool is_v6, uint32_t key)
{
    return UINT64_C(1) << 63 | (uint64_t)vni << 33 | (uint64_t)is_v6 << 32 | key;
}

#define HCONFLICT_VNI UINT32_C(0x80000000) /* makes a key of 0 a key */

/* CRC32 (IEEE 802.3, as zlib's) of the 16 address bytes. */
static inline uint32_t hswitch_crc(const struct hswitch *s, uint64_t hi, uint64_t lo)
{
    uint32_t crc = 0;

    for (unsigned i = 0; i < 8; i++) {
        crc ^= s->crc[i][hi >> (56 - 8 * i) & 0xff];
        crc ^= s->crc[8 + i][lo >> (56 - 8 * i) & 0xff];
    }
    return crc;
}

/* The tenant's bucket of the fallback meters: the low bits of CRC16 (ARC) over the 3
 * bytes of a VNI.  `buckets` is a power of two. */
static inline uint32_t hswitch_bucket(uint32_t vni, uint32_t buckets)
{
    uint32_t crc = 0;

    for (int shift = 16; shift >= 0; shift -= 8) {
        crc ^= vni >> shift & 0xff;
        for (unsigned bit = 0; bit < 8; bit++) {
            crc = crc & 1 ? crc >> 1 ^ 0xa001 : crc >> 1;
        }
    }
    return crc & (buckets - 1);
}

/* The address behind an NC index, as in memory; false: no row. */
static inline bool hnc_read(const struct hnc *nc, uint64_t ret[2])
{
    for (;;) {
        uint32_t version = atomic_load_explicit(&nc->version, memory_order_acquire);
        unsigned copy = version & 1;

        if (!(version & 2)) {
            return false;
        }
        ret[0] = atomic_load_explicit(&nc->word[copy][0], memory_order_acquire);
        ret[1] = atomic_load_explicit(&nc->word[copy][1], memory_order_acquire);
        if (atomic_load_explicit(&nc->version, memory_order_acquire) == version) {
            return true;
        }
    }
}
