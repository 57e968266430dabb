/*
 * xgwh_impl - what the files of the mapping share; nobody else includes it.
 *
 *   xgwh.c         life, status, what is remembered for the driver
 *   xgwh_apply.c   a batch: steps, rounds, what is refused
 *   xgwh_vm.c      VM-NC rows: keys, conflicts, spill
 *   xgwh_route.c   routes in the terms of alpm
 *   xgwh_turn.c    the routes of a batch, in turns
 *   xgwh_guard.c   what keeps IPv6 defaults from IPv4
 *   xgwh_vni.c     VNIs
 *   xgwh_acl.c     access rules
 *   xgwh_meter.c   meters of VNIs
 *   xgwh_place.c   in which half a VNI lies
 *   xgwh_config.c  tables that follow the configuration
 *   xgwh_read.c    entries in, belief out
 *   xgwh_mirror.c  what both halves should hold alike
 *   xgwh_rows.c    the rows as they are told
 *   xgwh_doubt.c   rows that stand on entries that are not sound
 *   xgwh_name.c    the logical rows of what was read; xgwh_name_route.c its routes
 */
#pragma once

#include "agent/fwd/delta.h"
#include "agent/xgwh/alpm.h"
#include "agent/xgwh/nc_pool.h"
#include "agent/xgwh/phys_make.h"
#include "agent/xgwh/plan.h"
#include "agent/xgwh/u64map.h"
#include "agent/xgwh/xgwh.h"
#include "proto/model/object.h"

#define ROOT_PRIORITY 1 /* of entries that do not overlap or all say the same */

/* ---- VM-NC ---- */

/* A place of vm_nc or vm_nc_spill: VNI(24) half(1) tag(1) key(32), from bit 57 down.
 * Its value: */
#define SLOT_NC    ((UINT32_C(1) << PHYS_NC_BITS) - 1)
#define SLOT_SPILL (UINT32_C(1) << PHYS_NC_BITS)       /* in vm_nc_spill */
#define SLOT_NAMED (UINT32_C(1) << (PHYS_NC_BITS + 1)) /* it is known whose it is */

/* An entry of vm_nc_conflict. */
struct conflict {
    uint64_t slot; /* where it would be */
    uint8_t addr[16];
    uint32_t nc;
    uint32_t next; /* of the same slot, or free; 0 = none */
};

/* Slots that were put into the spill, newest last; some may have left it since. */
struct spilled {
    uint64_t *at;
    uint32_t count;
    uint32_t cap;
};

struct vm_side {
    struct u64map slots;
    struct u64map heads;        /* slot -> its first conflict */
    struct conflict *conflicts; /* from 1 */
    uint32_t conflict_end;      /* indexes from here on were never taken */
    uint32_t conflict_cap;
    uint32_t conflict_free;
    struct spilled spilled[2]; /* by half */
    uint32_t used[3][2];       /* vm_nc, spill, conflict; by half */
};

/* ---- entries that are looked at one by one ---- */

/* Sorted by phys_compare(). */
struct entry_list {
    struct phys_entry *at;
    uint32_t count;
    uint32_t cap;
};

/* ---- all ---- */

/* What the switch holds, apart from its routes (alpm has them). */
struct holds {
    struct nc_pool ncs;
    struct vm_side vm;
    struct u64map vnis; /* VNI -> flags(8) half(2) meter(16), as in set_vni */
    struct entry_list acl;
    struct entry_list config; /* vtep, source, next_hop, port_out, fallback_group */
    struct xgwh_state state;
    bool has_boot, has_applied; /* the rows of it */
};

/* VNIs whose index was taken back in this call, for meters that found none. */
struct taken_back {
    uint32_t *vnis;
    uint32_t count;
    uint32_t cap;
};

/* Cells of vni_meter as they were read, by index: what a VNI is metered to. */
struct meter_cells {
    struct u64map places; /* index -> place in `at` */
    struct meter_cell {
        struct phys_meter_config config;
        uint8_t halves; /* a bit for each that said so */
        bool differs;   /* between them */
    } * at;
    uint32_t count;
    uint32_t cap;
};

/* The fallback's meters as they were read: buckets are known where all are the same. */
struct fallback_cells {
    struct phys_meter_config class[2];
    struct phys_meter_config tenant[2];
    uint32_t class_count[2];  /* so many halves said it */
    uint32_t tenant_count[2]; /* so many cells of all halves */
    bool class_differs[2], tenant_differs[2];
};

/* What was read so far.  Of tables that are equal in both halves, `second` has what the
 * second device says. */
struct reading {
    struct holds holds;
    struct {
        struct nc_pool ncs;
        struct u64map vnis;
        struct entry_list config;
        struct xgwh_state state;
        bool has_boot, has_applied;
    } second;
    struct meter_cells meters;
    struct fallback_cells fallback;
    struct entry_list wrong;   /* to be deleted from the half that is named */
    struct entry_list mended;  /* of `acl`: with the action that their priority says */
    struct entry_list twice;   /* that came twice in a row: see xgwh_read_entry() */
    struct phys_entry last[2]; /* the one before, of each device */
    bool has_last[2];
    bool names_all; /* xgwh_read_name_all() */
    struct xgwh_findings found;
};

struct xgwh {
    struct phys_sizes sizes;
    uint32_t limit[PHYS_TABLES][2]; /* most entries, by half; see xgwh_note_full() */
    uint8_t halves;
    uint32_t repack;
    bool is_void;

    struct table_set *rows;    /* logical */
    struct table_set *unnamed; /* routes: keys are theirs, values stand for none */
    struct table_set *unsound; /* of `rows`, as the last read-back found; null: none */
    /* NCs that nothing points to stay until a batch comes: it may bring back what did.
     */
    bool keeps_orphans;
    bool knows_all;          /* rows named all that stood when it was last looked at */
    struct u64map guards;    /* VNIs that have one */
    struct table_set *rules; /* of acl, that stand */
    struct u64map meters;    /* VNI -> index in vni_meter, METER_NAMED */
    struct u64map counted;   /* VNI -> index, of those without a meter */
    uint8_t *meter_use;      /* by index: enum meter_use, METER_SET */
    uint32_t meters_free;    /* indexes */
    bool has_leaving_meters;
    struct meter_cells cells; /* of vni_meter, that stand as they were read */
    struct taken_back taken_back;
    uint32_t meter_next;   /* where to look for a free one */
    uint32_t counted_next; /* in `counted`: where to look for one to take back */
    uint32_t count_next;   /* in `holds.vnis`: where to look for one to count */
    struct u64map places;  /* VNI -> half, where it is not the parity */
    uint64_t peers;        /* routes to another VNI that stand, by half */
    struct holds holds;
    struct alpm *alpm[2];
    struct plan plan;

    bool has_config;
    bool has_meters; /* the configuration's meters were written since the read-back */
    struct fallback_cells fallback; /* before that: what it said of them */
    struct xgwh_config config;      /* without its sources */
    struct prefix sources[UNDERLAY_SOURCES_MAX];

    struct reading *reading;
};

/* One row of a batch whose value changes. */
enum step_state { STEP_WAITS, STEP_DONE, STEP_FULL, STEP_REFUSED };
struct step {
    struct row before; /* key null: it was not there */
    struct row after;  /* key null: it goes */
    uint32_t vni;
    uint8_t table;
    uint8_t state;  /* enum step_state */
    uint8_t stage;  /* of routes: when this VNI's turn is */
    uint8_t parked; /* vm: another pass */
};
struct steps {
    struct step *at;
    uint32_t count;
    uint32_t cap;
};

/* ---- xgwh.c ---- */

enum rc holds_init(struct holds *h, const struct phys_sizes *sizes);
void holds_fini(struct holds *h);

/* Marks the belief void; returns RC_NO_MEMORY. */
enum rc xgwh_out_of_memory(struct xgwh *x, struct err *err);
/* RC_STALE while the belief is void. */
enum rc xgwh_check(const struct xgwh *x, struct err *err);
/* Settles NCs and gives the plan out; RC_NO_MEMORY when it is not whole. */
enum rc xgwh_flush(struct xgwh *x, const struct xgwh_sink *sink, struct xgwh_cost *cost,
                   struct err *err);

/* Entries that may stand in a table of a half: what its size and hashing allow, and the
 * switch. */
static inline uint32_t limit_in(const struct xgwh *x, enum phys_table table,
                                unsigned half)
{
    return x->limit[table][half];
}
/* The same for alpm; lifted while a read-back puts right what it found. */
void xgwh_limit_routes(struct xgwh *x, bool is_lifted);
/* PHYS_HALF_0, _1 or _BY_DST. */
uint8_t xgwh_half_of(const struct xgwh *x, uint32_t vni);
/* Counts what a route that went or came means to others. */
static inline void count_peers(struct xgwh *x, const struct alpm_result *gone,
                               const struct alpm_result *came)
{
    x->peers -= gone && gone->scope == PHYS_SCOPE_PEER;
    x->peers += came && came->scope == PHYS_SCOPE_PEER;
}
/* Whether the half holds routes of a VNI of that place. */
static inline bool half_is_in(uint8_t place, unsigned half)
{
    return place == half || place == PHYS_HALF_BY_DST;
}

/* A row of `nc` that is none: see PHYS_NC_STATE_*. */
void state_entry(uint32_t index, uint64_t hi, uint64_t lo, struct phys_entry *ret);

bool entry_list_add(struct entry_list *l, const struct phys_entry *e);
void entry_list_sort(struct entry_list *l);
/* Of a sorted list: the second of two that are the same entry. */
void entry_list_drop_repeats(struct entry_list *l);
int entry_compare(const void *a, const void *b); /* phys_compare() for qsort() */

/* ---- xgwh_place.c ---- */

bool xgwh_set_place(struct xgwh *x, uint32_t vni, uint8_t place); /* false: memory */
/* Moves the VNIs whose `vni` row names another half.  Between the calls of its plan all
 * of a VNI stands in both. */
enum rc places_apply(struct xgwh *x, struct steps *steps,
                     const struct change_list *changes, const struct xgwh_sink *sink,
                     struct xgwh_cost *cost, struct err *err);

/* ---- xgwh_vm.c ---- */

void vm_side_fini(struct vm_side *v);
uint64_t vm_slot(const struct xgwh *x, uint32_t vni, const struct ip *vm);
uint64_t vm_slot_in(uint32_t vni, uint8_t place, const struct ip *vm);
/* Asks for the memory where vm_put() and vm_delete() will look. */
void vm_prefetch(const struct xgwh *x, uint32_t vni, const struct ip *vm);
uint32_t vm_find_conflict(const struct vm_side *v, uint64_t slot,
                          const uint8_t addr[16]); /* 0 = none */
bool vm_add_conflict(struct vm_side *v, uint64_t slot, const uint8_t addr[16],
                     uint32_t nc);
void vm_remove_conflict(struct vm_side *v, uint32_t index);

/* `is_known`: its row stood before.  RC_FULL, RC_NO_MEMORY. */
enum rc vm_put(struct xgwh *x, uint32_t vni, const struct ip *vm, const struct ip *nc,
               bool is_known);
/* Conflicts go before the entries whose key they share, so that what moves back is what
 * stays: false when `only_conflicts` and it is none. */
enum rc vm_delete(struct xgwh *x, uint32_t vni, const struct ip *vm,
                  bool only_conflicts, bool *ret_done);
enum rc vm_delete_at(struct xgwh *x, uint64_t slot, const struct ip *vm,
                     bool only_conflicts, bool *ret_done);
/* Moves from spill to vm_nc what has room there. */
enum rc vm_repack(struct xgwh *x, uint32_t budget, uint64_t *moved);
enum rc vm_sweep(struct xgwh *x);
void vm_slot_entry(const struct xgwh *x, uint64_t slot, uint32_t value, bool is_spill,
                   struct phys_entry *ret);
void vm_conflict_entry(const struct xgwh *x, const struct conflict *c,
                       struct phys_entry *ret);
bool vm_note_spilled(struct vm_side *v, uint64_t slot);

static inline uint64_t slot_of(uint32_t vni, unsigned half, bool is_v6, uint32_t key)
{
    return (uint64_t)vni << 34 | (uint64_t)half << 33 | (uint64_t)is_v6 << 32 | key;
}
static inline uint32_t slot_vni(uint64_t slot)
{
    return (uint32_t)(slot >> 34);
}
static inline unsigned slot_half(uint64_t slot)
{
    return slot >> 33 & 1;
}
static inline bool slot_is_v6(uint64_t slot)
{
    return slot >> 32 & 1;
}

/* ---- xgwh_turn.c ---- */

/* All route steps that wait; marks those that found no place. */
enum rc routes_apply(struct xgwh *x, struct steps *steps, struct xgwh_cost *cost);

/* ---- xgwh_guard.c ---- */

bool prefix_is_over_v4(const struct prefix *p); /* a v6 one, over the pool */
bool prefix_is_v4_default(const struct prefix *p);
/* Does the VNI need a guard, with the routes that `rows` and, if not null, `unnamed`
 * hold? */
bool guard_is_wanted(const struct table_set *rows, const struct table_set *unnamed,
                     uint32_t vni);
extern const struct alpm_result guard_result;
struct alpm_change guard_change(uint32_t vni); /* puts it */
bool guard_hides(const struct alpm_route *r);  /* from IPv4 */
/* Remembers what the change made of the VNI's guard, if it is about the whole IPv4. */
enum rc guard_note(struct xgwh *x, const struct alpm_change *c);
/* Out of whichever half has it. */
enum rc guard_drop(struct xgwh *x, uint32_t vni, struct xgwh_cost *cost);
/* Guards that no route needs any more go. */
enum rc guards_trim(struct xgwh *x, const struct change_list *changes,
                    struct xgwh_cost *cost);

/* ---- xgwh_route.c ---- */

void pooled_of(const struct prefix *p, uint8_t addr[16], uint8_t *len);
bool prefix_of_pooled(const uint8_t addr[16], uint8_t len, struct prefix *ret);
/* RC_FULL (no NC index): nothing taken. */
enum rc route_result(struct xgwh *x, const struct route_action *a,
                     struct alpm_result *ret);
enum rc route_release(struct xgwh *x, const struct alpm_result *r);
extern const uint8_t v4_pool[16]; /* ::ffff:0:0 */
#define V4_POOL_LEN 96
enum rc routes_sweep(struct xgwh *x, struct xgwh_cost *cost);
void route_sink(void *plan, const struct phys_write *w);
/* One alpm_apply() with its writes in the plan. */
enum rc route_changes(struct xgwh *x, unsigned half, const struct alpm_change *changes,
                      size_t count, struct xgwh_cost *cost);

/* ---- xgwh_vni.c ---- */

/* RC_FULL, RC_NO_MEMORY, RC_INVALID (flags that the chip cannot serve). */
enum rc vni_put(struct xgwh *x, uint32_t vni, uint8_t flags);
void vni_delete(struct xgwh *x, uint32_t vni);
void vni_entry(uint32_t vni, uint32_t value, struct phys_entry *ret);
uint32_t vni_value(const struct xgwh *x, uint32_t vni, uint8_t flags);
#define VNI_FLAGS_ON_CHIP (VNI_INTERNET | VNI_ACL)

/* Writes the VNI's entry if it is not what vni_value() says now. */
void vni_refresh(struct xgwh *x, uint32_t vni);

/* ---- xgwh_doubt.c ---- */

/* While the plan holds what a read-back puts right: rows on that, and on what came
 * twice, are not sound.  RC_NO_MEMORY. */
enum rc doubts_note(struct xgwh *x);
/* A batch was taken over and given out: what it names of them is sound again, once the
 * plan is given out, too. */
enum rc doubts_settle(struct xgwh *x, const uint8_t *ops, size_t len);

/* ---- xgwh_acl.c ---- */

/* Priorities say what an entry of ours does; puts right one that does otherwise, and
 * says true. */
bool acl_put_right(struct phys_entry *e);
/* Is `e` an entry of that rule? */
bool acl_is_of(uint32_t vni, const struct entry *rule, const struct phys_entry *e);

enum rc acl_apply(struct xgwh *x, struct steps *steps);
enum rc acl_name(struct xgwh *x, const struct table_set *old, struct table_set *rows);
uint32_t acl_unnamed(const struct xgwh *x);
enum rc acl_sweep(struct xgwh *x);

/* ---- xgwh_meter.c ---- */

#define METER_INDEX UINT32_C(0xffff)
#define METER_NAMED UINT32_C(0x10000) /* its configuration is known */

bool meters_init(struct xgwh *x);
void meters_fini(struct xgwh *x);
/* RC_FULL: if `taken_back` got longer, there is an index once the plan is flushed. */
enum rc meter_put(struct xgwh *x, uint32_t vni, const struct meter *m);
void meter_delete(struct xgwh *x, uint32_t vni);
bool meter_is_set(const struct xgwh *x, uint32_t vni);
uint32_t meter_of(const struct xgwh *x, uint32_t vni); /* its index, or 0 */
/* Gives a VNI without an index a free one, if there is one, so that it is counted; its
 * entry is the caller's.  RC_NO_MEMORY. */
enum rc meter_count(struct xgwh *x, uint32_t vni);
void meter_count_no_more(struct xgwh *x, uint32_t vni); /* its entry goes */
/* VNIs that no index was left for when they came; so many writes at most. */
enum rc meters_count_more(struct xgwh *x, uint32_t budget, uint64_t *io_writes);
void meters_settle(struct xgwh *x); /* indexes that nothing points to are free */
/* Forgets all, takes over what `vni` entries say, and writes the configurations that
 * `old` names, which become rows. */
enum rc meters_adopt(struct xgwh *x, const struct table_set *old,
                     struct table_set *rows);
static inline bool meter_is_same(const struct phys_meter_config *a,
                                 const struct phys_meter_config *b)
{
    return a->cir == b->cir && a->cburst == b->cburst && a->pir == b->pir &&
           a->pburst == b->pburst;
}
void meter_cells_fini(struct meter_cells *c);
uint32_t meters_unnamed(const struct xgwh *x);
void meters_sweep(struct xgwh *x);

/* ---- xgwh_read.c, xgwh_mirror.c, xgwh_name.c ---- */

void reading_free(struct reading *r);
/* What one half lacks it gets; of what differs, the first half's counts. */
enum rc mirror_all(struct xgwh *x);
/* Rows of one (VNI, table) on their way, in key order. */
struct row_writer {
    struct table_set *to;
    enum table_id table;
    uint32_t vni;
    struct buf rows;
};

enum rc row_writer_close(struct row_writer *w);
enum rc row_writer_turn(struct row_writer *w, uint32_t vni); /* from here on of `vni` */

/* Whether the NC index is that of the address. */
bool is_nc_of(const struct xgwh *x, uint32_t index, const struct ip *addr);
enum rc name_routes(struct xgwh *x, const struct table_set *old, struct table_set *rows,
                    struct table_set *unnamed, struct xgwh_findings *f);
/* Fills `rows` and `unnamed` from what was read, with the names of `old`. */
enum rc name_all(struct xgwh *x, const struct table_set *old, struct table_set *rows,
                 struct table_set *unnamed, struct xgwh_findings *f);
