#include "agent/xgwh/xgwh_impl.h"

#include <stdlib.h>
#include <string.h>

enum { MAIN, SPILL, CONFLICT };

static const enum phys_table tables[] = { PHYS_VM_NC, PHYS_VM_NC_SPILL,
                                          PHYS_VM_NC_CONFLICT };

void vm_side_fini(struct vm_side *v)
{
    u64map_fini(&v->slots);
    u64map_fini(&v->heads);
    free(v->conflicts);
    free(v->spilled[0].at);
    free(v->spilled[1].at);
    memset(v, 0, sizeof(*v));
}

/* ---- keys ---- */

uint64_t vm_slot_in(uint32_t vni, uint8_t place, const struct ip *vm)
{
    bool is_v6 = vm->family == IP_V6;
    uint32_t key = is_v6 ? phys_crc32(vm->b, 16)
                         : (uint32_t)vm->b[0] << 24 | (uint32_t)vm->b[1] << 16 |
                               (uint32_t)vm->b[2] << 8 | vm->b[3];
    unsigned half = place == PHYS_HALF_BY_DST ? vm->b[is_v6 ? 15 : 3] & 1 : place;

    return slot_of(vni, half, is_v6, key);
}

uint64_t vm_slot(const struct xgwh *x, uint32_t vni, const struct ip *vm)
{
    return vm_slot_in(vni, xgwh_half_of(x, vni), vm);
}

void vm_prefetch(const struct xgwh *x, uint32_t vni, const struct ip *vm)
{
    u64map_prefetch(&x->holds.vm.slots, vm_slot(x, vni, vm));
}

void vm_slot_entry(const struct xgwh *x, uint64_t slot, uint32_t value, bool is_spill,
                   struct phys_entry *ret)
{
    (void)x;
    *ret = phys_make(tables[is_spill ? SPILL : MAIN], (uint8_t)slot_half(slot), 0);
    phys_set_key(ret, 0, slot_vni(slot));
    phys_set_key(ret, 1, slot_is_v6(slot));
    phys_set_key(ret, 2, (uint32_t)slot);
    phys_set_action(ret, is_spill ? PHYS_SPILL_NC : PHYS_SET_NC);
    phys_set_param(ret, 0, value & SLOT_NC);
}

void vm_conflict_entry(const struct xgwh *x, const struct conflict *c,
                       struct phys_entry *ret)
{
    (void)x;
    *ret = phys_make(PHYS_VM_NC_CONFLICT, (uint8_t)slot_half(c->slot), 0);
    phys_set_key(ret, 0, slot_vni(c->slot));
    phys_set_key_bytes(ret, 1, c->addr);
    phys_set_action(ret, PHYS_SET_NC);
    phys_set_param(ret, 0, c->nc);
}

static void write_slot(struct xgwh *x, enum stage stage, enum phys_op op, uint64_t slot,
                       uint32_t value)
{
    struct phys_entry e;

    vm_slot_entry(x, slot, value, value & SLOT_SPILL, &e);
    plan_add(&x->plan, stage, op, &e);
}

static void write_conflict(struct xgwh *x, enum stage stage, enum phys_op op,
                           const struct conflict *c)
{
    struct phys_entry e;

    vm_conflict_entry(x, c, &e);
    plan_add(&x->plan, stage, op, &e);
}

/* ---- conflicts ---- */

uint32_t vm_find_conflict(const struct vm_side *v, uint64_t slot,
                          const uint8_t addr[16])
{
    const uint32_t *head = u64map_find(&v->heads, slot);

    for (uint32_t i = head ? *head : 0; i != 0; i = v->conflicts[i].next) {
        if (memcmp(v->conflicts[i].addr, addr, 16) == 0) {
            return i;
        }
    }
    return 0;
}

static uint32_t take_conflict(struct vm_side *v)
{
    uint32_t index = v->conflict_free;

    if (index != 0) {
        v->conflict_free = v->conflicts[index].next;
        return index;
    }
    if (v->conflict_end + 1 >= v->conflict_cap) {
        uint32_t cap = v->conflict_cap ? 2 * v->conflict_cap : 64;
        struct conflict *at = realloc(v->conflicts, cap * sizeof(*at));

        if (!at) {
            return 0;
        }
        v->conflicts = at;
        v->conflict_cap = cap;
    }
    return ++v->conflict_end;
}

bool vm_add_conflict(struct vm_side *v, uint64_t slot, const uint8_t addr[16],
                     uint32_t nc)
{
    uint32_t index = take_conflict(v);
    uint32_t *head = u64map_find(&v->heads, slot);
    struct conflict *c;

    if (index == 0) {
        return false;
    }
    c = &v->conflicts[index];
    *c = (struct conflict){ .slot = slot, .nc = nc, .next = head ? *head : 0 };
    memcpy(c->addr, addr, sizeof(c->addr));
    if (!u64map_put(&v->heads, slot, index)) {
        c->next = v->conflict_free;
        v->conflict_free = index;
        return false;
    }
    v->used[CONFLICT][slot_half(slot)]++;
    return true;
}

void vm_remove_conflict(struct vm_side *v, uint32_t index)
{
    struct conflict *c = &v->conflicts[index];
    uint32_t *at = u64map_find(&v->heads, c->slot);

    if (*at == index && c->next == 0) {
        u64map_delete(&v->heads, c->slot);
    } else {
        while (*at != index) {
            at = &v->conflicts[*at].next;
        }
        *at = c->next;
    }
    v->used[CONFLICT][slot_half(c->slot)]--;
    c->next = v->conflict_free;
    v->conflict_free = index;
}

/* ---- spill ---- */

/* Drops what is in the spill no more or stands twice. */
static bool sift_spilled(struct vm_side *v, unsigned half)
{
    struct spilled *s = &v->spilled[half];
    struct u64map seen = { 0 };
    uint32_t kept = 0;
    bool is_ok = true;

    for (uint32_t i = 0; is_ok && i < s->count; i++) {
        const uint32_t *value = u64map_find(&v->slots, s->at[i]);

        if (value && *value & SLOT_SPILL && !u64map_find(&seen, s->at[i])) {
            is_ok = u64map_put(&seen, s->at[i], 0);
            s->at[kept++] = s->at[i];
        }
    }
    if (is_ok) {
        s->count = kept;
    }
    u64map_fini(&seen);
    return is_ok;
}

bool vm_note_spilled(struct vm_side *v, uint64_t slot)
{
    unsigned half = slot_half(slot);
    struct spilled *s = &v->spilled[half];

    if (s->count > 64 && s->count >= 2 * v->used[SPILL][half] &&
        !sift_spilled(v, half)) {
        return false;
    }
    if (s->count == s->cap) {
        uint32_t cap = s->cap ? 2 * s->cap : 64;
        uint64_t *at = realloc(s->at, cap * sizeof(*at));

        if (!at) {
            return false;
        }
        s->at = at;
        s->cap = cap;
    }
    s->at[s->count++] = slot;
    return true;
}

enum rc vm_repack(struct xgwh *x, uint32_t budget, uint64_t *moved)
{
    struct vm_side *v = &x->holds.vm;

    for (unsigned half = 0; half < x->halves; half++) {
        struct spilled *s = &v->spilled[half];

        while (budget > 0 && s->count > 0 &&
               v->used[MAIN][half] < limit_in(x, PHYS_VM_NC, half)) {
            uint64_t slot = s->at[--s->count];
            uint32_t *value = u64map_find(&v->slots, slot);

            if (!value || !(*value & SLOT_SPILL)) {
                continue;
            }
            write_slot(x, STAGE_ADD, PHYS_INSERT, slot, *value & ~SLOT_SPILL);
            write_slot(x, STAGE_DEL, PHYS_DELETE, slot, *value);
            *value &= ~SLOT_SPILL;
            v->used[SPILL][half]--;
            v->used[MAIN][half]++;
            *moved += 2;
            budget--;
        }
    }
    return RC_OK;
}

/* ---- putting ---- */

static enum rc release(struct xgwh *x, uint32_t nc)
{
    return nc_pool_release(&x->holds.ncs, nc) ? RC_OK : RC_NO_MEMORY;
}

/* A key that nobody has: into vm_nc, or into the spill when that is full. */
static enum rc insert_slot(struct xgwh *x, uint64_t slot, uint32_t nc)
{
    struct vm_side *v = &x->holds.vm;
    unsigned half = slot_half(slot);
    uint32_t value = nc | SLOT_NAMED;

    if (v->used[MAIN][half] >= limit_in(x, PHYS_VM_NC, half)) {
        if (v->used[SPILL][half] >= limit_in(x, PHYS_VM_NC_SPILL, half)) {
            return RC_FULL;
        }
        value |= SLOT_SPILL;
    }
    if (!u64map_put(&v->slots, slot, value)) {
        return RC_NO_MEMORY;
    }
    v->used[value & SLOT_SPILL ? SPILL : MAIN][half]++;
    if (value & SLOT_SPILL && !vm_note_spilled(v, slot)) {
        return RC_NO_MEMORY;
    }
    write_slot(x, STAGE_ADD, PHYS_INSERT, slot, value);
    return RC_OK;
}

static enum rc insert_conflict(struct xgwh *x, uint64_t slot, const uint8_t addr[16],
                               uint32_t nc)
{
    struct vm_side *v = &x->holds.vm;
    unsigned half = slot_half(slot);

    if (v->used[CONFLICT][half] >= limit_in(x, PHYS_VM_NC_CONFLICT, half)) {
        return RC_FULL;
    }
    if (!vm_add_conflict(v, slot, addr, nc)) {
        return RC_NO_MEMORY;
    }
    write_conflict(x, STAGE_ADD, PHYS_INSERT,
                   &v->conflicts[vm_find_conflict(v, slot, addr)]);
    return RC_OK;
}

/* Takes the caller's reference of `nc` when it succeeds. */
static enum rc put_slot(struct xgwh *x, uint64_t slot, const struct ip *vm, uint32_t nc,
                        bool is_known)
{
    struct vm_side *v = &x->holds.vm;
    uint32_t index = slot_is_v6(slot) ? vm_find_conflict(v, slot, vm->b) : 0;
    uint32_t *value = u64map_find(&v->slots, slot);
    uint32_t old;

    if (index != 0) {
        old = v->conflicts[index].nc;
        v->conflicts[index].nc = nc;
        if (old != nc) {
            write_conflict(x, STAGE_ADD, PHYS_MODIFY, &v->conflicts[index]);
        }
        return release(x, old);
    }
    if (!value) {
        return insert_slot(x, slot, nc);
    }
    old = *value & SLOT_NC;
    if (slot_is_v6(slot) && !is_known && (*value & SLOT_NAMED || old != nc)) {
        /* Another address has the key, or one that is not known yet. */
        return insert_conflict(x, slot, vm->b, nc);
    }
    *value = (*value & SLOT_SPILL) | SLOT_NAMED | nc;
    if (old != nc) {
        write_slot(x, STAGE_ADD, PHYS_MODIFY, slot, *value);
    }
    return release(x, old);
}

enum rc vm_put(struct xgwh *x, uint32_t vni, const struct ip *vm, const struct ip *nc,
               bool is_known)
{
    uint32_t index;
    enum rc rc = nc_pool_acquire(&x->holds.ncs, nc, &index);

    if (rc != RC_OK) {
        return rc;
    }
    rc = put_slot(x, vm_slot(x, vni, vm), vm, index, is_known);
    if (rc != RC_OK && release(x, index) != RC_OK) {
        return RC_NO_MEMORY;
    }
    return rc;
}

/* ---- deleting ---- */

static enum rc drop_conflict(struct xgwh *x, uint32_t index)
{
    struct vm_side *v = &x->holds.vm;
    uint32_t nc = v->conflicts[index].nc;

    write_conflict(x, STAGE_DEL, PHYS_DELETE, &v->conflicts[index]);
    vm_remove_conflict(v, index);
    return release(x, nc);
}

/* The entry of a key goes; if others wait for the key, one of them moves in.  It is
 * found in vm_nc_conflict until its new place is written. */
static enum rc drop_slot(struct xgwh *x, uint64_t slot)
{
    struct vm_side *v = &x->holds.vm;
    const uint32_t *head = u64map_find(&v->heads, slot);
    uint32_t *value = u64map_find(&v->slots, slot);
    uint32_t old = *value & SLOT_NC;

    if (head) {
        uint32_t index = *head;

        *value = (*value & SLOT_SPILL) | SLOT_NAMED | v->conflicts[index].nc;
        write_slot(x, STAGE_DEL, PHYS_MODIFY, slot, *value);
        write_conflict(x, STAGE_LATE, PHYS_DELETE, &v->conflicts[index]);
        vm_remove_conflict(v, index);
        return release(x, old);
    }
    write_slot(x, STAGE_DEL, PHYS_DELETE, slot, *value);
    v->used[*value & SLOT_SPILL ? SPILL : MAIN][slot_half(slot)]--;
    u64map_delete(&v->slots, slot);
    return release(x, old);
}

enum rc vm_delete(struct xgwh *x, uint32_t vni, const struct ip *vm,
                  bool only_conflicts, bool *ret_done)
{
    return vm_delete_at(x, vm_slot(x, vni, vm), vm, only_conflicts, ret_done);
}

enum rc vm_delete_at(struct xgwh *x, uint64_t slot, const struct ip *vm,
                     bool only_conflicts, bool *ret_done)
{
    struct vm_side *v = &x->holds.vm;
    uint32_t index = slot_is_v6(slot) ? vm_find_conflict(v, slot, vm->b) : 0;

    *ret_done = true;
    if (index != 0) {
        return drop_conflict(x, index);
    }
    if (only_conflicts) {
        *ret_done = false;
        return RC_OK;
    }
    return u64map_find(&v->slots, slot) ? drop_slot(x, slot) : RC_OK;
}

enum rc vm_sweep(struct xgwh *x)
{
    struct u64map *slots = &x->holds.vm.slots;
    enum rc rc = RC_OK;

    for (uint32_t i = 0; rc == RC_OK && i < u64map_places(slots);) {
        if (slots->keys[i] != U64MAP_NONE && !(slots->values[i] & SLOT_NAMED)) {
            rc = drop_slot(x, slots->keys[i]); /* another may move to this place */
        } else {
            i++;
        }
    }
    return rc;
}
