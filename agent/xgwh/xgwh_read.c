#include "agent/xgwh/xgwh_impl.h"

#include <stdlib.h>
#include <string.h>

void reading_free(struct reading *r)
{
    if (r) {
        holds_fini(&r->holds);
        nc_pool_fini(&r->second.ncs);
        u64map_fini(&r->second.vnis);
        free(r->second.config.at);
        free(r->wrong.at);
        free(r->twice.at);
        free(r->mended.at);
        meter_cells_fini(&r->meters);
        free(r);
    }
}

enum rc xgwh_read_begin(struct xgwh *x)
{
    struct reading *r = calloc(1, sizeof(*r));
    enum rc rc = RC_NO_MEMORY;

    xgwh_read_abort(x);
    if (r && holds_init(&r->holds, &x->sizes) == RC_OK &&
        nc_pool_init(&r->second.ncs, x->sizes.table[PHYS_NC]) == RC_OK) {
        rc = RC_OK;
    }
    x->reading = r;
    for (unsigned half = 0; rc == RC_OK && half < x->halves; half++) {
        rc = alpm_read_begin(x->alpm[half]);
    }
    if (rc != RC_OK) {
        xgwh_read_abort(x);
    }
    return rc;
}

void xgwh_read_name_all(struct xgwh *x)
{
    if (x->reading) {
        x->reading->names_all = x->knows_all && table_set_vni_count(x->rows) > 0;
    }
}

void xgwh_read_abort(struct xgwh *x)
{
    if (x->reading) {
        reading_free(x->reading);
        x->reading = NULL;
        alpm_read_abort(x->alpm[0]);
        if (x->alpm[1]) {
            alpm_read_abort(x->alpm[1]);
        }
    }
}

/* ---- one entry ---- */

static enum rc add_wrong(struct reading *r, const struct phys_entry *e)
{
    return entry_list_add(&r->wrong, e) ? RC_OK : RC_NO_MEMORY;
}

static enum rc add_foreign(struct reading *r, const struct phys_entry *e)
{
    r->found.foreign++;
    return add_wrong(r, e);
}

/* Can a row have this VM, or this NC? */
static bool is_vm(uint32_t vni, const struct ip *vm)
{
    struct entry e = { .table = TABLE_VM_NC, .vni = vni, .vm_nc.vm = *vm };

    return entry_check_key(&e, NULL) == RC_OK;
}

static bool is_nc(const struct ip *nc)
{
    struct entry e = { .table = TABLE_VM_NC, .vni = VNI_MIN, .vm_nc.nc = *nc };

    e.vm_nc.vm = ip_v4(0x0a000001); /* any that can be a VM */
    return entry_check(&e, NULL) == RC_OK;
}

static enum rc read_nc(struct reading *r, const struct phys_entry *e)
{
    uint32_t index = (uint32_t)phys_key(e, 0);
    bool is_second = e->half == PHYS_HALF_1;
    struct xgwh_state *state = is_second ? &r->second.state : &r->holds.state;
    bool *has_boot = is_second ? &r->second.has_boot : &r->holds.has_boot;
    bool *has_applied = is_second ? &r->second.has_applied : &r->holds.has_applied;
    struct ip addr = { .family = e->action == PHYS_NC4 ? IP_V4 : IP_V6 };

    if (xgwh_state_of_entry(e, state)) {
        *(index == PHYS_NC_STATE_BOOT ? has_boot : has_applied) = true;
        return RC_OK;
    }
    memcpy(addr.b, phys_param_bytes(e, 0), ip_size(&addr));
    if (!is_nc(&addr) ||
        !nc_pool_adopt(is_second ? &r->second.ncs : &r->holds.ncs, index, &addr)) {
        return add_foreign(r, e);
    }
    return RC_OK;
}

static enum rc read_vni(struct reading *r, const struct phys_entry *e)
{
    uint32_t vni = (uint32_t)phys_key(e, 0);
    uint32_t value =
        (uint32_t)(phys_param(e, 0) << 18 | phys_param(e, 1) << 16 | phys_param(e, 2));
    struct u64map *to = e->half == PHYS_HALF_1 ? &r->second.vnis : &r->holds.vnis;

    if (vni < VNI_MIN) {
        return add_foreign(r, e);
    }
    return u64map_put(to, vni, value) ? RC_OK : RC_NO_MEMORY;
}

static enum rc read_conflict(struct reading *r, const struct phys_entry *e)
{
    uint32_t vni = (uint32_t)phys_key(e, 0);
    struct ip vm = ip_v6(phys_key_bytes(e, 1));
    uint64_t slot;

    if (!is_vm(vni, &vm)) {
        return add_foreign(r, e);
    }
    slot = slot_of(vni, e->half, true, phys_crc32(vm.b, 16));
    if (vm_find_conflict(&r->holds.vm, slot, vm.b) != 0) {
        return RC_OK; /* read twice */
    }
    return vm_add_conflict(&r->holds.vm, slot, vm.b, (uint32_t)phys_param(e, 0))
               ? RC_OK
               : RC_NO_MEMORY;
}

/* Of one key in both tables, vm_nc's is the one that is found. */
static enum rc put_read_slot(struct xgwh *x, struct reading *r, uint64_t slot,
                             uint32_t value)
{
    struct vm_side *v = &r->holds.vm;
    uint32_t *old = u64map_find(&v->slots, slot);
    uint32_t loses = old && value & SLOT_SPILL ? value : old ? *old : 0;
    struct phys_entry e;

    if (old && (*old & SLOT_SPILL) == (value & SLOT_SPILL)) {
        return RC_OK; /* read twice */
    }
    if (old) {
        r->found.duplicate++;
        vm_slot_entry(x, slot, loses, true, &e);
        if (!(value & SLOT_SPILL)) {
            *old = value;
            v->used[1][slot_half(slot)]--;
            v->used[0][slot_half(slot)]++;
        }
        return add_wrong(r, &e);
    }
    v->used[value & SLOT_SPILL ? 1 : 0][slot_half(slot)]++;
    if (!u64map_put(&v->slots, slot, value)) {
        return RC_NO_MEMORY;
    }
    return !(value & SLOT_SPILL) || vm_note_spilled(v, slot) ? RC_OK : RC_NO_MEMORY;
}

static enum rc read_slot(struct xgwh *x, struct reading *r, const struct phys_entry *e)
{
    uint32_t vni = (uint32_t)phys_key(e, 0);
    bool is_v6 = phys_key(e, 1);
    uint32_t key = (uint32_t)phys_key(e, 2);
    uint32_t value = (uint32_t)phys_param(e, 0);
    uint64_t slot = slot_of(vni, e->half, is_v6, key);
    struct ip vm = ip_v4(key);

    if (is_v6 ? vni < VNI_MIN : !is_vm(vni, &vm)) {
        return add_foreign(r, e);
    }
    value |= e->table == PHYS_VM_NC_SPILL ? SLOT_SPILL : 0;
    value |= is_v6 ? 0 : SLOT_NAMED; /* the key is the address */
    return put_read_slot(x, r, slot, value);
}

/* Is it the one before once more? */
static bool is_repeat(struct reading *r, const struct phys_entry *e)
{
    struct phys_entry *last = &r->last[e->half];
    bool is_same = r->has_last[e->half] && last->table == e->table &&
                   last->priority == e->priority &&
                   memcmp(last->key, e->key, sizeof(e->key)) == 0 &&
                   memcmp(last->mask, e->mask, sizeof(e->mask)) == 0;

    *last = *e;
    r->has_last[e->half] = true;
    return is_same;
}

static enum rc read_repeat(struct reading *r, struct phys_entry *e)
{
    bool is_ours =
        e->table == PHYS_ROUTE_TCAM || e->table == PHYS_ROUTE_PART || phys_normalize(e);

    return !is_ours || entry_list_add(&r->twice, e) ? RC_OK : RC_NO_MEMORY;
}

enum rc xgwh_read_entry(struct xgwh *x, const struct phys_entry *entry)
{
    struct reading *r = x->reading;
    struct phys_entry e = *entry;
    enum rc rc;

    if (!r || e.half >= x->halves) {
        return RC_INVALID;
    }
    if (is_repeat(r, &e)) {
        return read_repeat(r, &e);
    }
    r->found.entries++;
    if (e.table == PHYS_ROUTE_TCAM || e.table == PHYS_ROUTE_PART) {
        return alpm_read_entry(x->alpm[e.half], &e); /* knows its forms */
    }
    if (!phys_normalize(&e)) {
        return e.table < PHYS_TABLES ? add_foreign(r, &e) : RC_INVALID;
    }
    switch (e.table) {
    case PHYS_VM_NC:
    case PHYS_VM_NC_SPILL:
        return read_slot(x, r, &e);
    case PHYS_VM_NC_CONFLICT:
        return read_conflict(r, &e);
    case PHYS_NC:
        return read_nc(r, &e);
    case PHYS_VNI:
        return read_vni(r, &e);
    case PHYS_ACL:
        if (acl_put_right(&e)) {
            r->found.foreign++;
            if (!entry_list_add(&r->mended, &e)) {
                return RC_NO_MEMORY;
            }
        }
        /* fallthrough */
    default: /* `acl` is sorted out when all was read */
        rc = entry_list_add(
                 e.half == PHYS_HALF_1 ? &r->second.config : &r->holds.config, &e)
                 ? RC_OK
                 : RC_NO_MEMORY;
        return rc;
    }
}

/* ---- what is inconsistent in itself ---- */

/* First of all: another entry may have to come in the place of one. */
static enum rc delete_wrong(struct xgwh *x, const struct xgwh_sink *sink)
{
    const struct entry_list *l = &x->reading->wrong;
    struct xgwh_cost cost = { 0 };

    for (uint32_t i = 0; i < l->count; i++) {
        plan_add(&x->plan, STAGE_ADD, PHYS_DELETE, &l->at[i]);
    }
    return !x->plan.failed && plan_flush(&x->plan, sink, &cost) ? RC_OK : RC_NO_MEMORY;
}

/* What was taken for what it should be becomes that. */
static void write_mended(struct xgwh *x)
{
    const struct entry_list *l = &x->reading->mended;

    for (uint32_t i = 0; i < l->count; i++) {
        plan_add(&x->plan, STAGE_ADD, PHYS_MODIFY, &l->at[i]);
    }
}

static bool is_nc_index(const struct holds *h, uint32_t index)
{
    struct ip addr;

    return nc_pool_address(&h->ncs, index, &addr);
}

/* Is a slot in the half of its VNI?  `last` ends in the address' lowest bit; of a v6
 * key it is not known. */
static bool is_in_place(const struct xgwh *x, uint64_t slot, uint64_t last)
{
    uint8_t place = xgwh_half_of(x, slot_vni(slot));

    return slot_half(slot) == (place == PHYS_HALF_BY_DST ? (last & 1) : place);
}

/* The switch says where VNIs lie; of those that it does not know, what was believed. */
static enum rc place_all(struct xgwh *x)
{
    const struct u64map *vnis = &x->reading->holds.vnis;

    for (uint32_t i = 0; x->halves == 2 && i < u64map_places(vnis); i++) {
        unsigned half = vnis->values[i] >> 16 & 3;

        if (vnis->keys[i] != U64MAP_NONE && half < VNI_HALF_COUNT &&
            !xgwh_set_place(x, (uint32_t)vnis->keys[i], (uint8_t)half)) {
            return RC_NO_MEMORY;
        }
    }
    return RC_OK;
}

/* Entries that point to nothing go; the others count as users of their NC. */
static enum rc check_conflicts(struct xgwh *x)
{
    struct holds *h = &x->reading->holds;

    for (uint32_t i = 1; i <= h->vm.conflict_end; i++) {
        struct conflict *c = &h->vm.conflicts[i];
        struct phys_entry e;
        bool is_placed;

        if (vm_find_conflict(&h->vm, c->slot, c->addr) != i) {
            continue; /* free */
        }
        is_placed = is_in_place(x, c->slot, c->addr[15]);
        if (is_placed && is_nc_index(h, c->nc)) {
            nc_pool_ref(&h->ncs, c->nc);
            continue;
        }
        vm_conflict_entry(x, c, &e);
        plan_add(&x->plan, STAGE_ADD, PHYS_DELETE, &e);
        vm_remove_conflict(&h->vm, i);
        *(is_placed ? &x->reading->found.dangling : &x->reading->found.foreign) += 1;
    }
    return RC_OK;
}

static void check_slots(struct xgwh *x)
{
    struct holds *h = &x->reading->holds;
    struct u64map *slots = &h->vm.slots;

    for (uint32_t i = 0; i < u64map_places(slots);) {
        uint64_t slot = slots->keys[i];
        uint32_t value = slots->values[i];
        struct phys_entry e;
        bool is_placed;

        if (slot == U64MAP_NONE) {
            i++;
            continue;
        }
        is_placed = is_in_place(x, slot, slot_is_v6(slot) ? slot_half(slot) : slot);
        if (is_placed && is_nc_index(h, value & SLOT_NC)) {
            i++;
            continue;
        }
        vm_slot_entry(x, slot, value, value & SLOT_SPILL, &e);
        plan_add(&x->plan, STAGE_ADD, PHYS_DELETE, &e);
        h->vm.used[value & SLOT_SPILL ? 1 : 0][slot_half(slot)]--;
        u64map_delete(slots, slot); /* another may move to this place */
        *(is_placed ? &x->reading->found.dangling : &x->reading->found.foreign) += 1;
    }
    for (uint32_t i = 0; i < u64map_places(slots); i++) {
        if (slots->keys[i] != U64MAP_NONE) {
            nc_pool_ref(&h->ncs, slots->values[i] & SLOT_NC);
        }
    }
}

/* Buckets of a member that is gone; the next configuration fills them. */
static enum rc check_config(struct xgwh *x)
{
    struct holds *h = &x->reading->holds;
    uint32_t kept = 0;

    for (uint32_t i = 0; i < h->config.count; i++) {
        struct phys_entry *e = &h->config.at[i];

        e->half = PHYS_BOTH;
        if (e->table == PHYS_ACL) {
            if (!entry_list_add(&h->acl, e)) {
                return RC_NO_MEMORY;
            }
            continue;
        }
        if (e->table == PHYS_FALLBACK) {
            uint32_t nc = (uint32_t)phys_param(e, 0);

            if (!is_nc_index(h, nc)) {
                plan_add(&x->plan, STAGE_ADD, PHYS_DELETE, e);
                x->reading->found.dangling++;
                continue;
            }
            nc_pool_ref(&h->ncs, nc);
        }
        h->config.at[kept++] = *e;
    }
    h->config.count = kept;
    return RC_OK;
}

static enum rc end_routes(struct xgwh *x)
{
    enum rc rc = RC_OK;

    for (unsigned half = 0; rc == RC_OK && half < x->halves; half++) {
        struct alpm_findings f = { 0 };
        struct alpm_cost cost = { 0 };

        rc = alpm_read_end(x->alpm[half], route_sink, &x->plan, &cost, &f);
        x->reading->found.foreign += f.foreign + f.covers + f.lost;
        x->reading->found.duplicate += f.orphans + f.shared;
    }
    return rc;
}

/* After the meters were taken over: an entry says what its VNI has, and no more. */
static void check_vnis(struct xgwh *x, struct xgwh_findings *f)
{
    struct u64map *vnis = &x->holds.vnis;

    for (uint32_t i = 0; i < u64map_places(vnis); i++) {
        uint32_t old = vnis->values[i];

        if (vnis->keys[i] == U64MAP_NONE) {
            continue;
        }
        if ((old >> 18 & ~(uint32_t)(VNI_FLAGS_ON_CHIP | PHYS_VNI_METERED)) != 0 ||
            (old >> 16 & 3) == 3) {
            /* Flags that we do not write: a value that no VNI has, so it is put right.
             */
            vnis->values[i] = (old >> 18 & VNI_FLAGS_ON_CHIP) << 18 | 3u << 16;
        }
        vni_refresh(x, (uint32_t)vnis->keys[i]);
        f->foreign += vnis->values[i] != old;
    }
}

/* ---- the end ---- */

static void count_differences(const struct table_set *old, const struct table_set *now,
                              struct xgwh_findings *f)
{
    for (uint32_t vni = table_set_next(old, VNI_MIN, ~0u); vni != 0;
         vni = vni == VNI_MAX ? 0 : table_set_next(old, vni + 1, ~0u)) {
        for (int t = 0; t < TABLE_COUNT; t++) {
            struct delta d =
                delta_of(table_set_rows(old, vni, (enum table_id)t),
                         table_set_rows(now, vni, (enum table_id)t), (enum table_id)t);
            struct delta_step s;

            while (delta_next(&d, &s)) {
                f->changed += s.before.key && s.after.key;
                f->lost += s.before.key && !s.after.key;
            }
        }
    }
}

static uint64_t count_orphans(const struct nc_pool *p)
{
    uint64_t n = 0;

    for (uint32_t i = 0; i < UINT32_C(1) << PHYS_NC_BITS; i++) {
        n += p->at[i].family != IP_NONE && p->at[i].refs == 0;
    }
    return n;
}

static enum rc take_over(struct xgwh *x)
{
    struct reading *r = x->reading;
    enum rc rc = mirror_all(x);

    if (rc == RC_OK && !nc_pool_adopted(&r->holds.ncs, &r->found.duplicate)) {
        rc = RC_NO_MEMORY;
    }
    if (rc == RC_OK) {
        rc = place_all(x);
    }
    if (rc == RC_OK) {
        rc = end_routes(x);
    }
    if (rc == RC_OK) {
        rc = check_conflicts(x);
    }
    if (rc == RC_OK) {
        check_slots(x);
        rc = check_config(x);
    }
    if (rc == RC_OK) {
        holds_fini(&x->holds);
        x->holds = r->holds;
        memset(&r->holds, 0, sizeof(r->holds));
    }
    return rc;
}

/* Everything that was believed before is void by now: what fails here leaves no belief
 * at all. */
static enum rc rebuild(struct xgwh *x, struct xgwh_findings *f)
{
    struct table_set *rows = table_set_new();
    struct table_set *unnamed = table_set_new();
    enum rc rc = rows && unnamed ? take_over(x) : RC_NO_MEMORY;

    *f = x->reading->found;
    if (rc == RC_OK) {
        rc = name_all(x, x->rows, rows, unnamed, f);
    }
    if (rc == RC_OK) {
        check_vnis(x, f);
        count_differences(x->rows, rows, f);
        f->orphans = count_orphans(&x->holds.ncs);
        table_set_free(x->rows);
        table_set_free(x->unnamed);
        x->rows = rows;
        x->unnamed = unnamed;
        return RC_OK;
    }
    table_set_free(rows);
    table_set_free(unnamed);
    return rc;
}

enum rc xgwh_read_end(struct xgwh *x, const struct xgwh_sink *sink,
                      struct xgwh_findings *ret, struct err *err)
{
    struct xgwh_findings f = { 0 };
    struct xgwh_cost cost = { 0 };
    enum rc rc;

    if (!x->reading) {
        return err_set(err, RC_CONFLICT, "xgw-h mapping: no read-back has begun");
    }
    plan_reset(&x->plan);
    x->has_meters = false;
    rc = delete_wrong(x, sink);
    if (rc == RC_OK) {
        write_mended(x);
        x->keeps_orphans = x->reading->names_all;
        xgwh_limit_routes(x, true);
        rc = rebuild(x, &f);
        rc = rc == RC_OK ? doubts_note(x) : rc;
        xgwh_limit_routes(x, false);
    }
    reading_free(x->reading);
    x->reading = NULL;
    if (rc != RC_OK) {
        return xgwh_out_of_memory(x, err);
    }
    x->is_void = false;
    f.unnamed = xgwh_status(x).unnamed;
    x->knows_all = f.unnamed == 0;
    rc = xgwh_flush(x, sink, &cost, err);
    if (rc == RC_OK && x->has_config) {
        rc = xgwh_configure(x, &x->config, sink, &cost, err);
    }
    if (rc == RC_OK) {
        *ret = f;
    }
    return rc;
}
