/*
 * sync_impl - what the files of controller/sync share; nobody else includes it.
 *
 *   sync.c         starting, sending, acknowledgements, status
 *   sync_walk.c    questions, answers, and what follows from a difference
 *   sync_change.c  changes that wait to be sent
 *
 * A **position** is rank of the table(8) VNI(24) key-hash(32) in one number: every node
 * of the digest tree and every bucket is a range of positions.  A **work** is such a
 * range about which nothing is known yet but that it differs (or that the device is
 * empty there).  Works are disjoint and sorted, the smallest last, so the walk takes
 * from the end.  The rule that makes sync safe is about them alone:
 *
 *   A change within a work is left to the walk, which will look at `desired` when it
 *   gets there.  Every other change is forwarded, in order, before anything that the
 *   walk sends later.
 *
 * So whatever is sent is the newest value there is, and each answer can be compared
 * with the desired digests as they were when its QUERY was sent.
 */
#pragma once

#include "controller/sync/sync.h"

#define QUERIES_MAX     4            /* in flight */
#define WORKS_WIDE      4096         /* above this, few nodes a QUERY: depth first */
#define REPLACE_BYTES   4096         /* a VNI of so little is sent, not searched */
#define REPLACE_ENTRIES 64           /* likewise a bucket */
#define REPLACE_MAX     (256u << 10) /* one REPLACE run's bytes */
/* … of routes: what a message takes beside rows that are in it already.  Some 40,000.
 */
#define REPLACE_ROUTES_MAX (BATCH_MAX_BYTES - BATCH_SEND_BYTES - (4u << 10))
#define SLICE_ROWS         60000 /* rows looked at in one call; a few milliseconds */
#define SLICE_DIGESTS      20000 /* rows digested in one call; about one */

enum work_kind {
    WORK_QUERY,   /* ask for its children */
    WORK_REPLACE, /* a VNI's table or a bucket of it, small enough to be sent */
    WORK_PUT,     /* the device has nothing here: send all of it */
};

struct work {
    uint64_t lo, hi; /* positions, both inside */
    uint8_t kind;
    uint8_t table;
    uint8_t depth;        /* of the VNI tree, 0-4 */
    uint8_t bucket_depth; /* below a VNI */
};

/* A QUERY on its way, with the digests as they were when it was sent. */
struct query {
    struct query *next;
    uint64_t id;
    uint32_t item_count;
    struct query_item items[QUERY_MAX];
    uint32_t first[QUERY_MAX + 1]; /* item i has children[first[i]] to first[i + 1] */
    struct tree_child *children;
    bool is_void; /* the walk began again: its answer says nothing */
};

struct change {
    struct change *next;
    uint64_t revision; /* of `desired` with this; 0 = more of it follows */
    struct blob *ops;
};

/* A change of which it is not known yet what is left to the walk.  Nothing is asked or
 * sent that the walk does before it is. */
struct raw_change {
    struct raw_change *next;
    uint64_t revision;
    struct blob *ops;
    struct batch_reader reader;
    struct batch_run run; /* in use if `in_run` */
    struct run_reader rows;
    bool in_run;
};

struct sync {
    const struct table_set *desired;
    uint64_t revision;    /* of `desired` */
    uint64_t last_change; /* the last revision that changed anything here */
    bool is_partial;      /* `desired` is on its way to the next revision */

    bool has_device; /* a HELLO with a data plane came */
    uint64_t applied;
    bool is_ready;
    uint32_t exception_count;
    uint64_t sent_seq;
    uint64_t acked_seq;
    bool must_end; /* the batch that ends a complete state is to be sent */

    struct work *works;
    uint32_t work_count;
    uint32_t work_cap;
    struct query *queries; /* oldest first */
    struct query **queries_end;
    uint32_t query_count;
    uint64_t last_query_id;
    /* A QUERY that is being made, because a large VNI takes several calls.  What it
     * asks about is no work any more, so changes there are forwarded, before the QUERY;
     * its digests may then be older than what the device has, and lead to one more
     * question. */
    struct query *asking;
    struct rows *asked; /* of its last item; null: that is complete */
    struct rows_iter asked_at;
    struct digest asked_buckets[16];

    /* A large table of an empty VNI, sent in pieces: on from `put_key`.  No work: what
     * changes there is forwarded. */
    bool is_putting;
    uint8_t put_table;
    uint32_t put_vni;
    uint8_t put_key_len;
    uint8_t put_key[ENTRY_KEY_MAX];

    struct change *changes; /* oldest first */
    struct change **changes_end;
    uint64_t change_bytes;
    struct raw_change *raw; /* oldest first; all behind `changes` */
    struct raw_change **raw_end;

    uint64_t sent_entries;
    uint64_t sent_bytes;
    uint64_t query_bytes;
};

/* Tables are walked in an order that opens no hole: rules before the VNI that they are
 * of, VM-NC before the routes that lead there. */
static inline uint64_t table_rank(uint8_t table)
{
    static const uint8_t rank[TABLE_COUNT] = { [TABLE_ACL] = 1,
                                               [TABLE_METER] = 2,
                                               [TABLE_VNI] = 3,
                                               [TABLE_VM_NC] = 4,
                                               [TABLE_VXLAN_ROUTE] = 5 };

    return rank[table];
}

static inline uint64_t position(uint8_t table, uint32_t vni, uint32_t path)
{
    return table_rank(table) << 56 | (uint64_t)vni << 32 | path;
}

static inline uint32_t position_vni(uint64_t p)
{
    return (uint32_t)(p >> 32) & VNI_MAX;
}

/* ---- sync_walk.c ---- */

struct work work_of_node(enum work_kind kind, uint8_t table, struct tree_node node);
/* Takes over the works in `add`, ascending. */
enum rc walk_add(struct sync *s, const struct work *add, uint32_t count);
/* The work that holds any position in [lo, hi]; null: none. */
const struct work *walk_find(const struct sync *s, uint64_t lo, uint64_t hi);
/* Everything is to be compared again; what was asked says nothing any more. */
void walk_restart(struct sync *s);
bool walk_is_over(const struct sync *s);
bool walk_can_ask(const struct sync *s);
bool walk_can_send(const struct sync *s); /* without regard to credit */
bool walk_ask(struct sync *s, struct ctl_query *ret);
/* The next rows to send; null when there turned out to be none, or memory is out. */
struct blob *walk_pack(struct sync *s);
void walk_fini(struct sync *s);

/* ---- sync_change.c ---- */

enum rc changes_add(struct sync *s, uint64_t revision, struct blob *ops);
/* One slice of the raw changes: keeps what of them has to be forwarded. */
enum rc changes_sort(struct sync *s);
void changes_fini(struct sync *s);
