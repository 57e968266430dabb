/*
 * phys - the physical tables of XGW-H: the contract between the P4 image, the software
 * switch, the P4Runtime driver and the mapping from logical tables (agent/xgwh).
 *
 * One table of descriptions (phys_tables()) says every id, name, width and match kind.
 * The P4 sources pin the same with @id and @name and a test holds both against each
 * other; the P4Runtime codec and the p4info check are driven by it, so no code outside
 * of agent/xgwh and the packet path knows a field by heart.
 *
 * A table entry is plain bytes: key, mask and action data are the fields one after the
 * other, each big-endian in the whole bytes that hold it, in the order described.
 *
 * **Halves.**  Pipes 0 and 1 hold half 0, pipes 2 and 3 half 1 (FORWARDING, Folding):
 * what is looked up behind the choice of the half (route_tcam, route_part, vm_nc,
 * vm_nc_conflict, vm_nc_spill) differs between them, everything else is the same in
 * both.  P4Runtime has no pipe in an entry, so each half is a P4Runtime device (its
 * `device_id`); an entry with PHYS_BOTH is written to both.  A target without halves
 * (BMv2) is one device, and all entries go there.
 *
 * Values only; any thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum phys_table {
    PHYS_VTEP,           /* our own addresses; empty: nothing is forwarded */
    PHYS_SOURCE,         /* who may send to us */
    PHYS_VNI,            /* known VNIs: flags, half, meter */
    PHYS_ACL,            /* after `vni`, by the arriving VNI */
    PHYS_ROUTE_TCAM,     /* ALPM's first level: partition and covering result */
    PHYS_ROUTE_PART,     /* ALPM's second level */
    PHYS_VM_NC_CONFLICT, /* v6 addresses whose 32-bit key is taken; looked up first */
    PHYS_VM_NC,          /* (VNI, family tag, 32-bit key) */
    PHYS_VM_NC_SPILL,    /* the same, looked up after a miss of it */
    PHYS_NC,             /* index -> underlay address */
    PHYS_NEXT_HOP,       /* flow hash bucket -> port */
    PHYS_PORT_OUT,       /* port -> outer source address and MACs */
    PHYS_FALLBACK,       /* (outer family, flow hash bucket) -> x86 member */
    PHYS_TABLES
};

enum phys_action {
    PHYS_NO_ACTION, /* a default only */
    PHYS_IS_VTEP,
    PHYS_IS_SOURCE,
    PHYS_SET_VNI, /* flags(8) half(2) meter(16) */
    PHYS_PERMIT,
    PHYS_DENY,
    PHYS_SET_PART, /* part(16) scope(8) vni(24) idx(24) */
    PHYS_LOCAL,    /* on the VNI that was looked up */
    PHYS_PEER,     /* vni(24) half(2) */
    PHYS_TUNNEL,   /* vni(24) nc(17) */
    PHYS_TO_X86,   /* cls(1): a route that XGW-x86 answers */
    PHYS_SET_NC,   /* nc(17) */
    PHYS_SPILL_NC, /* nc(17) */
    PHYS_NC4,      /* addr(32) */
    PHYS_NC6,      /* addr(128) */
    PHYS_OUT_PORT, /* port(9) */
    PHYS_SRC4,     /* addr(32) smac(48) dmac(48) */
    PHYS_SRC6,     /* addr(128) smac(48) dmac(48) */
    PHYS_KEEP_SRC, /* smac(48) dmac(48): a fallback keeps the NC as source */
    PHYS_MEMBER,   /* nc(17): the x86 member's fallback address */
    PHYS_ACTIONS
};

/* `scope` of PHYS_SET_PART: the result of the longest route that covers the partition's
 * root.  `vni` and `idx` say what the action of that name in route_part would. */
enum phys_scope {
    PHYS_SCOPE_MISS = 0,
    PHYS_SCOPE_LOCAL = 1,    /* vni: that of the route */
    PHYS_SCOPE_PEER = 2,     /* vni; idx: half */
    PHYS_SCOPE_TUNNEL = 3,   /* vni; idx: NC index */
    PHYS_SCOPE_FALLBACK = 4, /* idx: class */
};

/* Fallback classes, each with its own meters. */
enum phys_class { PHYS_CLASS_MISS = 0, PHYS_CLASS_SERVICE = 1 };

/* Of a packet's VNI: where its routes and VM-NC entries are.  BY_DST: a VPC too big for
 * one half; routes stand in both, VM-NC entries lie by the lowest bit of the address.
 */
enum phys_half {
    PHYS_HALF_0 = 0,
    PHYS_HALF_1 = 1,
    PHYS_HALF_BY_DST = 2,
    PHYS_BOTH = 3
};

/* In `flags` of set_vni, beside VNI_* of the logical row: `meter` is set to something.
 * No packet asks for it; it tells, in a read-back, a VNI that is metered from one that
 * has an index only to be counted. */
#define PHYS_VNI_METERED 0x80

/* NC indexes have 17 bits, the highest says the family of the address behind it, so
 * that the chip knows before it looks there: a packet whose underlay family would
 * change goes to XGW-x86, for the chip cannot compute the checksum that the change
 * needs. */
#define PHYS_NC_BITS     17
#define PHYS_NC6_FIRST   UINT32_C(0x10000)
#define PHYS_NC_RESERVED 16 /* the first indexes of each family are no NCs */

/* What the driver keeps on the switch, so that it outlives the agent: two reserved rows
 * of `nc`, 128 bits each.  Gone with the tables, so a switch that restarted empty is
 * known by their absence. */
#define PHYS_NC_STATE_BOOT    (PHYS_NC6_FIRST + 1) /* boot id(64) term(64) */
#define PHYS_NC_STATE_APPLIED (PHYS_NC6_FIRST + 2) /* applied(64) config digest(64) */

/* Partition 0 stays empty: a missed route_tcam points there. */
#define PHYS_PART_NONE 0

/* A port's number has 9 bits: the pipe and 7 of its own. */
#define PHYS_PORTS 512

#define PHYS_KEY_MAX  42 /* bytes; acl's */
#define PHYS_DATA_MAX 28 /* bytes; src6's */

enum phys_match { PHYS_EXACT, PHYS_TERNARY };

struct phys_field {
    uint32_t id; /* of the match field or parameter */
    const char *name;
    uint8_t bits;
    uint8_t match;  /* enum phys_match; of keys */
    uint8_t offset; /* into the key or the data; (bits + 7) / 8 bytes long */
    /* An image may have as few: a number may need no more there.  Else as `bits`. */
    uint8_t least_bits;
};

struct phys_action_desc {
    uint32_t id;
    const char *name; /* the last part of the P4 name: "set_part" */
    uint8_t param_count;
    uint8_t data_len; /* bytes */
    struct phys_field params[4];
};

struct phys_table_desc {
    uint32_t id;
    const char *name; /* the last part of the P4 name: "route_tcam" */
    uint8_t field_count;
    uint8_t key_len;   /* bytes */
    bool has_priority; /* any field is ternary */
    bool halved;       /* differs between the halves */
    uint8_t action_count;
    uint8_t actions[4]; /* enum phys_action: what an entry of it may carry */
    struct phys_field fields[8];
};

/* An entry.  Bytes behind key_len and data_len are zero; `mask` has ones in the bits of
 * exact fields (not in those that fill up a first byte), and key & ~mask is zero. */
struct phys_entry {
    uint8_t table;     /* enum phys_table */
    uint8_t half;      /* PHYS_HALF_0, PHYS_HALF_1, PHYS_BOTH */
    uint8_t action;    /* enum phys_action */
    uint32_t priority; /* above 0 where the table has one, the highest wins; else 0 */
    uint8_t key[PHYS_KEY_MAX];
    uint8_t mask[PHYS_KEY_MAX];
    uint8_t data[PHYS_DATA_MAX];
};

enum phys_op { PHYS_INSERT = 1, PHYS_MODIFY = 2, PHYS_DELETE = 3 }; /* as P4Runtime */

/* P4Runtime promises no order within a WriteRequest: `barrier` says that every write
 * before this one has to be done before it, so a request ends there. */
struct phys_write {
    uint8_t op; /* enum phys_op; PHYS_DELETE leaves action and data zero */
    bool barrier;
    struct phys_entry entry;
};

/* Meters and counters: by name, for the TNA compiler gives them no pinned ids. */
enum phys_meter {
    PHYS_METER_VNI,        /* by `meter` of set_vni; 0 = neither metered nor counted */
    PHYS_METER_FB_SERVICE, /* by tenant bucket: CRC16 of the arriving VNI */
    PHYS_METER_FB_MISS,
    PHYS_METER_FB_CLASS, /* by enum phys_class */
    PHYS_METERS
};

enum phys_counter {
    PHYS_COUNTER_DROP,    /* by enum drop_reason of agent/fwd */
    PHYS_COUNTER_VNI,     /* by `meter` of set_vni */
    PHYS_COUNTER_PORT_RX, /* by port: what came in, whatever became of it */
    PHYS_COUNTER_PORT_TX, /* by port: what went out */
    PHYS_COUNTERS
};

struct phys_meter_config { /* RFC 2698 trTCM, bytes; all zero: lets everything pass */
    uint64_t cir, cburst;  /* bytes a second, bytes */
    uint64_t pir, pburst;
};

/* A meter's configuration, to be written as P4Runtime's MeterEntry. */
struct phys_meter_write {
    uint8_t meter; /* enum phys_meter */
    uint8_t half;  /* PHYS_HALF_0, PHYS_HALF_1, PHYS_BOTH */
    bool barrier;  /* as phys_write's */
    uint32_t index;
    struct phys_meter_config config;
};

/* How many entries each table of a target holds, per half; the P4 image's are in
 * p4/include/sizes.p4 and equal phys_sizes_tofino(). */
struct phys_sizes {
    uint32_t table[PHYS_TABLES];
    uint32_t partitions;      /* of route_part; number 0 is not used */
    uint32_t partition_slots; /* B */
    uint32_t meters;          /* of PHYS_METER_VNI */
    uint32_t fallback_buckets;
    /* Hash tables are usable up to this share of `table` (thousandths). */
    uint16_t hash_load;
};

const struct phys_table_desc *phys_table_desc(enum phys_table table);
const struct phys_action_desc *phys_action_desc(enum phys_action action);
const char *phys_meter_name(enum phys_meter meter);       /* "vni_meter", … */
const char *phys_counter_name(enum phys_counter counter); /* "drop_reason", … */

/* Sets the mask of the table's exact fields; leaves the others alone. */
void phys_mask_exact(enum phys_table table, uint8_t mask[PHYS_KEY_MAX]);

/* -1 if unknown. */
int phys_table_of_id(uint32_t id);
int phys_action_of_id(uint32_t id);

/* The Tofino image; and eight times its rows, for benches of 2 million entries. */
const struct phys_sizes *phys_sizes_tofino(void);
const struct phys_sizes *phys_sizes_bench(void);
