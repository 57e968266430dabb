/*
 * store - where a region's state lives: ordered keys, one revision a transaction,
 * compare-and-swap, prefix ranges, and events in revision order (etcd's model).
 *
 * Everything is asynchronous and answered through `struct store_events`, on the loop
 * thread that owns the store, never from inside the call that asked.  A transaction is
 * durable when its answer says RC_OK.  Order: transactions take effect in the order
 * they were submitted; the event of one comes before its answer; events come in
 * revision order with nothing left out.
 *
 * Back ends: store_memory (tests, simulator), store_sqlite (embedded), etcd later.  One
 * conformance suite (tests/unit/controller/store) runs against each.
 */
#pragma once

#include "proto/base/blob.h"
#include "proto/base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define STORE_KEY_MAX   240
#define STORE_VALUE_MAX (1u << 20)
#define STORE_TXN_OPS   128 /* etcd's --max-txn-ops */

struct store_key {
    uint8_t len; /* 1 to STORE_KEY_MAX */
    uint8_t bytes[STORE_KEY_MAX];
};

struct store_key store_key_of(const void *bytes, size_t len);
/* The first key behind every key that starts with `prefix` (etcd's range_end). */
struct store_key store_key_after_prefix(const void *prefix, size_t len);
/* The first key behind `key`: where a range that was read in part goes on. */
struct store_key store_key_after(const struct store_key *key);
int store_key_compare(const struct store_key *a, const struct store_key *b);

struct store_kv {
    struct store_key key;
    struct blob *value; /* null in a delete event */
    uint64_t create_revision;
    uint64_t mod_revision;
};

enum store_target { STORE_CREATE_REVISION, STORE_MOD_REVISION };

/* Holds when the key's revision equals `revision`; 0 means "no such key". */
struct store_compare {
    enum store_target target;
    uint64_t revision;
    struct store_key key;
};

enum store_op_kind { STORE_PUT, STORE_DELETE, STORE_DELETE_RANGE };

struct store_op {
    enum store_op_kind kind;
    struct store_key key;
    struct store_key end; /* DELETE_RANGE: [key, end) */
    struct blob *value;   /* PUT */
};

/* Made by the caller, given to store_submit() whole. */
struct store_txn {
    uint64_t tag; /* the caller's; comes back with event and answer */
    struct store_compare *compares;
    uint32_t compare_count;
    struct store_op *ops;
    uint32_t op_count;
    uint32_t op_cap;
};

struct store_txn *store_txn_new(uint64_t tag); /* null when memory is out */
void store_txn_free(struct store_txn *txn);    /* drops its blobs; null is fine */
/* Each appends one step; RC_NO_MEMORY appends nothing.  Steps take effect in order.
 * store_txn_put keeps a reference of its own to `value`. */
enum rc store_txn_put(struct store_txn *txn, struct store_key key, struct blob *value);
enum rc store_txn_delete(struct store_txn *txn, struct store_key key);
enum rc store_txn_delete_range(struct store_txn *txn, struct store_key from,
                               struct store_key end);
enum rc store_txn_compare(struct store_txn *txn, enum store_target target,
                          struct store_key key, uint64_t revision);

/* What one committed transaction changed.  Borrowed during the call. */
struct store_event {
    uint64_t revision;
    uint64_t tag;               /* of our own transaction, else 0 */
    const struct store_kv *kvs; /* a range delete is reported key by key */
    uint32_t kv_count;
};

/* RC_OK with the revision; RC_STALE when a compare did not hold (nothing changed);
 * RC_FULL (disk, quota); RC_UNREACHABLE (certainly not done); RC_TIMEOUT (unknown). */
struct store_done {
    uint64_t tag;
    enum rc rc;
    uint64_t revision;
    struct err err;
};

struct store_range_reply {
    uint64_t tag;
    enum rc rc;
    struct err err;
    uint64_t revision; /* of the store when it was read */
    const struct store_kv *kvs;
    uint32_t kv_count;
    bool more; /* go on from behind the last key */
};

struct store_events {
    void (*event)(void *ctx, const struct store_event *event);
    void (*done)(void *ctx, const struct store_done *done);
    void (*range)(void *ctx, const struct store_range_reply *reply);
};

struct store;

struct store_class {
    const char *name;
    void (*submit)(struct store *s, struct store_txn *txn);
    void (*range)(struct store *s, uint64_t tag, struct store_key from,
                  struct store_key end, uint32_t limit);
    void (*close)(struct store *s);
};

/* A back end embeds this first. */
struct store {
    const struct store_class *cls;
    const struct store_events *events;
    void *ctx;
    uint64_t
        term; /* fencing term: a counter raised at each open (SQLite), etcd's later */
};

/* Takes `txn`.  Answered by events->done. */
static inline void store_submit(struct store *s, struct store_txn *txn)
{
    s->cls->submit(s, txn);
}

/* Reads [from, end) in key order, at most `limit` keys or some 4 MiB a reply. */
static inline void store_range(struct store *s, uint64_t tag, struct store_key from,
                               struct store_key end, uint32_t limit)
{
    s->cls->range(s, tag, from, end, limit);
}

/* Finishes what was submitted, answers nothing more, frees. */
static inline void store_close(struct store *s)
{
    s->cls->close(s);
}
