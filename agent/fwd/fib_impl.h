/*
 * fib_impl - what the files of fib share: fib.c (life, apply), fib_vm.c, fib_route.c
 * and fib_cluster.c (the writer's passes over one table), fib_mark.c (which VM-NC
 * entries answer alone), fib_value.c (values to codes and back), fib_read.c
 * (read-back), fib_audit.c and fib_walk.c (audit), fib_repair.c, fib_batch.c,
 * fib_lanes.c and fib_resolve.c (the workers).  Nobody else includes it.
 */
#pragma once

#include "agent/fwd/delta.h"
#include "agent/fwd/exact.h"
#include "agent/fwd/fib.h"
#include "agent/fwd/lines.h"
#include "agent/fwd/lpm.h"
#include "agent/fwd/pool.h"
#include "agent/fwd/retire.h"

/* A VM-NC entry's 32-bit code: an IPv4 NC without MAC in host order, or a place in the
 * pool.  entry_check() refuses multicast as an NC, so 224.0.0.0/4 is free to mark it.
 */
#define NC_POOLED      UINT32_C(0xe0000000)
#define NC_POOLED_MASK UINT32_C(0xf0000000)
#define NC_INDEX_MASK  UINT32_C(0x0fffffff)

/* Pooled values; compared as bytes, so unused ones are zero. */
struct nc_value {
    uint8_t addr[16];
    uint8_t family;
    uint8_t has_mac;
    uint8_t mac[6];
};
struct tunnel_value {
    uint8_t addr[16];
    uint32_t vni;
    uint8_t family;
    uint8_t scope;
    uint8_t zero[2];
};
struct service_value {
    char name[SERVICE_NAME_MAX + 1];
};
struct cluster_value {
    char name[CLUSTER_NAME_MAX + 1];
};
_Static_assert(sizeof(struct nc_value) == 24, "no padding");
_Static_assert(sizeof(struct tunnel_value) == 24, "no padding");
_Static_assert(sizeof(struct service_value) == 32, "no padding");

struct fib {
    /* What workers read; the writer stores into these only through atomics. */
    struct exact vni;
    struct exact v4;
    struct exact v6;
    struct exact clusters; /* of load balancers */
    struct pool tunnels;
    struct pool ncs;
    struct pool services;
    struct pool cluster_names;
    /* Goes up after each change of a VNI's slot and before VM-NC deletes that follow:
     * a worker whose answer is a drop looks again if it moved (fib_batch.c). */
    _Alignas(LINE_BYTES) atomic_uint_least64_t changes;
    /* The writer's. */
    _Alignas(LINE_BYTES) struct retire retire;
    struct lines lines;
    struct fib_limits limits;
    uint64_t routes;
    uint64_t vnis_known;
    uint64_t vnis_held;              /* with any slot: what max_vnis limits */
    const struct table_set *records; /* during fib_apply() */
    bool must_recount;               /* a repair met pooled VM-NC values */
    struct lpm_route *scratch;
    uint32_t scratch_cap;
};

/* ---- fib_value.c ---- */

/* RC_INVALID for bytes that entry_pack could not have written. */
enum rc nc_parse(const struct row *row, struct nc_value *ret);
/* A code for a value, with a reference where it is pooled. */
enum rc nc_acquire(struct fib *f, const struct nc_value *v, uint32_t *ret_code);
/* Room in f->retire must have been reserved. */
void nc_release(struct fib *f, uint32_t code);
struct nc_value nc_decode(const struct fib *f, uint32_t code);
void nc_pack(const struct nc_value *v, struct buf *to); /* entry.h's value */

/* Finds the action code of a route's packed value; takes no reference.  RC_NOT_FOUND:
 * its tunnel or service is not pooled yet. */
enum rc action_find(const struct fib *f, const struct row *row, uint32_t *ret);
enum rc action_acquire(struct fib *f, const struct row *row, uint32_t *ret);
void action_release(struct fib *f, uint32_t action); /* retires where it was the last */
void action_undo(struct fib *f, uint32_t action);    /* of one never published */
void action_pack(const struct fib *f, uint32_t action, struct buf *to);

/* ---- fib_read.c: codes that may be corrupted ---- */

bool nc_is_sound(const struct fib *f, uint32_t code);
/* RC_NOT_FOUND: no action of ours. */
enum rc action_pack_sound(const struct fib *f, uint32_t action, struct buf *to);
enum rc cluster_pack_sound(const struct fib *f, uint32_t cluster, struct buf *to);

/* The key of a route or VM-NC entry. */
struct fib_key {
    struct lpm_addr addr; /* IPv4 in the upper 32 bits of hi */
    bool is_v6;
    uint8_t len; /* routes */
};
enum rc route_key_parse(const uint8_t *key, uint8_t key_len, struct fib_key *ret);
enum rc vm_key_parse(const uint8_t *key, uint8_t key_len, struct fib_key *ret);

static inline struct exact_entry vm_entry(uint32_t vni, const struct fib_key *k,
                                          uint32_t code)
{
    if (k->is_v6) {
        return (struct exact_entry){ k->addr.hi, k->addr.lo, vni, code };
    }
    return (struct exact_entry){ .w0 = (k->addr.hi >> 32 << 32) | vni, .val = code };
}

/* ---- fib_resolve.c: the workers' side, one query ---- */

struct lpm_addr fib_query_address(const struct fib_query *q);
/* An action that ends the way without VM-NC. */
void fib_answer_final(const struct fib *f, struct fib_query *q, uint32_t action);
/* A VM that is there. */
void fib_answer_local(const struct fib *f, struct fib_query *q, uint32_t code);
/* All of the answer. */
void fib_resolve_complete(const struct fib *f, struct fib_query *q);

/* ---- the writer's passes ---- */

struct refusal {
    struct fib_exceptions *list;
    enum rc first; /* RC_OK while nothing was refused */
};
void refuse(struct refusal *to, const struct table_change *c, const struct row *key,
            enum batch_op op, enum rc reason);

void vm_put_pass(struct fib *f, const struct table_change *c, struct refusal *refused);
void vm_delete_pass(struct fib *f, const struct table_change *c,
                    struct refusal *refused);
/* Those to be deleted lose their mark, since the records know them no more. */
void vm_unmark_pass(struct fib *f, const struct table_change *c,
                    struct refusal *refused);

/* ---- fib_mark.c ---- */

/* Is the VM's entry to be marked, by the slot of its VNI and family? */
bool mark_is_due(const struct fib *f, uint64_t slot, const struct fib_key *vm);
/* A change of routes of one family, which brings the VNI to `slot`: takes the marks
 * that are then wrong, before it is published; sets those that are then due, after. */
void marks_take(struct fib *f, const struct table_change *c, bool is_v6, uint64_t slot);
void marks_set(struct fib *f, const struct table_change *c, bool is_v6, uint64_t slot);
/* The same of all VMs of a VNI and family, whose row comes or goes. */
void marks_of_vni(struct fib *f, uint32_t vni, bool is_v6, uint64_t slot, bool is_set);

uint32_t cluster_in(uint64_t slot); /* of the table of clusters */
void cluster_pass(struct fib *f, const struct table_change *c, struct refusal *refused);

/* The slot of (vni, family), 0 if there is none. */
uint64_t slot_find(const struct fib *f, uint32_t vni, bool is_v6);
void vni_put_pass(struct fib *f, const struct table_change *c, struct refusal *refused);
void vni_delete_pass(struct fib *f, const struct table_change *c,
                     struct refusal *refused);
/* Builds the VNI's routes anew from c->after, of which nothing is new. */
enum rc route_rebuild(struct fib *f, const struct table_change *c);
/* `families`: 1 << is_v6 of those that changed. */
void route_pass(struct fib *f, const struct table_change *c, unsigned families,
                struct refusal *refused);
