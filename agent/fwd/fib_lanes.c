#include "agent/fwd/fib_lanes.h"

STAGE uint64_t vm_hash(const struct fib *f, const struct fib_lanes *l, unsigned k,
                       const bool is_v6)
{
    return is_v6 ? exact_hash_v6(&f->v6, l->hi[k], l->lo[k], l->vni[k])
                 : exact_hash1(&f->v4, l->hi[k]);
}

STAGE uint64_t vni_hash(const struct fib *f, const struct fib_lanes *l, unsigned k,
                        const bool is_v6)
{
    return exact_hash1(&f->vni, slot_key(lane_vni(l, k, is_v6), is_v6));
}

bool lane_find_vm(const struct fib *f, const struct fib_lanes *l, unsigned k,
                  bool is_v6, uint32_t *ret_code)
{
    struct exact_entry key =
        is_v6 ? (struct exact_entry){ l->hi[k], l->lo[k], l->vni[k], 0 }
              : (struct exact_entry){ .w0 = l->hi[k] };
    uint64_t code;

    if (!exact_find(vm_table(f, is_v6), &key, &code)) {
        return false;
    }
    *ret_code = (uint32_t)code;
    return true;
}

/* ---- begin ---- */

/* The directory of one moment: a bucket found by an older one is as good a start. */
STAGE void begin(const struct fib *f, struct fib_lanes *l, const bool is_v6)
{
    const struct exact *vm = vm_table(f, is_v6);
    const struct exact_dir *dir = atomic_load_explicit(&vm->dir, memory_order_acquire);

    for (unsigned k = l->begun, n = l->count; k < n; k++) {
        const void *bucket = exact_home_in(vm, dir, vm_hash(f, l, k, is_v6));

        prefetch(bucket);
        l->bucket[k] = bucket;
    }
    l->begun = l->count;
}

void lanes_begin(const struct fib *f, struct fib_lanes *l, bool is_v6)
{
    if (is_v6) {
        begin(f, l, true);
    } else {
        begin(f, l, false);
    }
}

/* ---- the slow ones ---- */

void lane_is_slow(const struct fib *f, struct fib_lanes *l, unsigned k, uint32_t hdr,
                  bool is_v6)
{
    const struct exact_dir *dir =
        atomic_load_explicit(&f->vni.dir, memory_order_acquire);
    const void *vni = exact_home_in(&f->vni, dir, vni_hash(f, l, k, is_v6));

    prefetch(vni);
    l->vni_bucket[k] = vni;
    l->bucket[k] = NULL;
    if (hdr & EXACT_OVERFLOW) {
        l->bucket[k] = exact_away(vm_table(f, is_v6), vm_hash(f, l, k, is_v6));
        prefetch(l->bucket[k]);
    }
    l->slow[l->slow_count++] = (uint8_t)k;
}

/* Takes a lane's slot: what it points to is asked for. */
STAGE void slot_take(const struct fib *f, struct fib_lanes *l, unsigned k,
                     uint64_t slot)
{
    const uint8_t *at = slot_at(f, slot);

    l->slot[k] = slot;
    prefetch(at);
    prefetch(at + slot_is_tree(slot) * LINE_BYTES); /* the root behind the head */
}

/* Nothing here waits for what another lane's lines say: a list's end that depends on
 * each of them would. */
STAGE void step(const struct fib *f, struct fib_lanes *l, const bool is_v6)
{
    l->vni_second_count = 0;
    for (unsigned i = 0, n = l->slow_count; i < n; i++) {
        unsigned k = l->slow[i];
        uint64_t slot;

        if (__builtin_expect(exact_scan_slot(l->vni_bucket[k],
                                             slot_key(lane_vni(l, k, is_v6), is_v6),
                                             &slot),
                             1)) {
            slot_take(f, l, k, slot);
        } else {
            l->vni_bucket[k] = exact_away(&f->vni, vni_hash(f, l, k, is_v6));
            prefetch(l->vni_bucket[k]);
            l->vni_second[l->vni_second_count++] = (uint8_t)k;
        }
    }
}

void lanes_step(const struct fib *f, struct fib_lanes *l, bool is_v6)
{
    if (is_v6) {
        step(f, l, true);
    } else {
        step(f, l, false);
    }
}

static void vni_seconds(const struct fib *f, struct fib_lanes *l, bool is_v6)
{
    for (unsigned i = 0, n = l->vni_second_count; i < n; i++) {
        unsigned k = l->vni_second[i];
        uint32_t vni = lane_vni(l, k, is_v6);
        uint64_t slot;

        if (!exact_scan_slot(l->vni_bucket[k], slot_key(vni, is_v6), &slot)) {
            slot = slot_find(f, vni, is_v6); /* not there, or it moves */
        }
        slot_take(f, l, k, slot);
    }
}

void lanes_sort(const struct fib *f, struct fib_lanes *l, bool is_v6, bool is_first)
{
    /* In registers: a store of a byte may be one to anything, as far as the compiler
     * knows. */
    unsigned line = 0;
    unsigned tree = 0;
    unsigned odd = 0;

    vni_seconds(f, l, is_v6);
    for (unsigned i = 0, n = l->slow_count; i < n; i++) {
        unsigned k = l->slow[i];
        uint64_t slot = l->slot[k];
        unsigned is_tree = slot_is_tree(slot);

        l->line[line] = (uint8_t)k;
        l->tree[tree] = (uint8_t)k;
        if (__builtin_expect(
                slot_kind(slot) == LPM_NONE || (is_first && !(slot & SLOT_KNOWN)), 0)) {
            l->odd[odd++] = (uint8_t)k;
            continue;
        }
        line += is_tree ^ 1;
        tree += is_tree;
    }
    l->line_count = line;
    l->tree_count = tree;
    l->odd_count = odd;
}
