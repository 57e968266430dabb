/* The logical rows of what was read back. */
#include "agent/xgwh/xgwh_impl.h"

#include <stdlib.h>
#include <string.h>

enum rc row_writer_close(struct row_writer *w)
{
    struct rows *set;
    enum rc rc;

    if (buf_failed(&w->rows)) {
        return RC_NO_MEMORY;
    }
    if (w->rows.len == 0) {
        return RC_OK;
    }
    rc = rows_load(w->table, w->vni, w->rows.data, (uint32_t)w->rows.len, NULL, &set);
    if (rc != RC_OK) {
        return rc;
    }
    rc = table_set_put(w->to, w->vni, w->table, set);
    if (rc != RC_OK) {
        rows_unref(set);
    }
    buf_reset(&w->rows);
    return rc;
}

/* From here on rows of `vni`. */
enum rc row_writer_turn(struct row_writer *w, uint32_t vni)
{
    enum rc rc = w->vni == vni ? RC_OK : row_writer_close(w);

    w->vni = vni;
    return rc;
}

/* ---- VNIs ---- */

/* Without halves the switch does not say which one the row names. */
static uint8_t name_half(const struct xgwh *x, const struct table_set *old,
                         uint32_t vni)
{
    struct row row;

    if (x->halves == 1 &&
        rows_find(table_set_rows(old, vni, TABLE_VNI), TABLE_VNI, NULL, 0, &row)) {
        return row.value[1];
    }
    return xgwh_half_of(x, vni);
}

static enum rc name_vnis(struct xgwh *x, const struct table_set *old,
                         struct table_set *rows)
{
    const struct u64map *vnis = &x->holds.vnis;
    struct row_writer w = { .to = rows, .table = TABLE_VNI };
    enum rc rc = RC_OK;

    for (uint32_t i = 0; rc == RC_OK && i < u64map_places(vnis); i++) {
        if (vnis->keys[i] != U64MAP_NONE) {
            rc = row_writer_turn(&w, (uint32_t)vnis->keys[i]);
            buf_u8(&w.rows, vnis->values[i] >> 18 & VNI_FLAGS_ON_CHIP);
            buf_u8(&w.rows, name_half(x, old, w.vni));
        }
    }
    rc = rc == RC_OK ? row_writer_close(&w) : rc;
    buf_fini(&w.rows);
    return rc;
}

/* ---- VM-NC ---- */

/* `key` is what sorts: VNI, then the address. */
struct vm4_item {
    uint64_t key; /* VNI(24) address(32) */
    uint32_t nc;
};
struct vm6_item {
    uint8_t key[20]; /* VNI(4) address(16) */
    uint32_t nc;
};
struct vm_items {
    struct vm4_item *v4;
    struct vm6_item *v6;
    uint32_t v4_count;
    uint32_t v6_count;
};

static int compare_vm4(const void *a, const void *b)
{
    const struct vm4_item *x = a;
    const struct vm4_item *y = b;

    return (x->key > y->key) - (x->key < y->key);
}

static int compare_vm6(const void *a, const void *b)
{
    return memcmp(a, b, 20);
}

static void add_vm6(struct vm_items *items, uint32_t vni, const uint8_t addr[16],
                    uint32_t nc)
{
    struct vm6_item *v = &items->v6[items->v6_count++];
    uint32_t be = __builtin_bswap32(vni);

    memcpy(v->key, &be, 4);
    memcpy(v->key + 4, addr, 16);
    v->nc = nc;
}

bool is_nc_of(const struct xgwh *x, uint32_t index, const struct ip *addr)
{
    struct ip has;

    return nc_pool_address(&x->holds.ncs, index, &has) && ip_compare(&has, addr) == 0;
}

/* A row held before names the key that it has, if it has the NC that it says; or
 * whatever NC it has, where all is to be named. */
static void name_slot(struct xgwh *x, uint32_t vni, const struct row *row,
                      bool is_verified, struct vm_items *items)
{
    struct vm_side *v = &x->holds.vm;
    struct entry e;
    uint64_t slot;
    uint32_t *value;

    if (entry_unpack(TABLE_VM_NC, vni, row, &e, NULL) != RC_OK || e.vm_nc.has_mac) {
        return;
    }
    slot = vm_slot(x, vni, &e.vm_nc.vm);
    value = u64map_find(&v->slots, slot);
    if (!value || *value & SLOT_NAMED || vm_find_conflict(v, slot, e.vm_nc.vm.b) != 0 ||
        (is_verified && !is_nc_of(x, *value & SLOT_NC, &e.vm_nc.nc))) {
        return;
    }
    *value |= SLOT_NAMED;
    add_vm6(items, vni, e.vm_nc.vm.b, *value & SLOT_NC);
}

static void name_slots(struct xgwh *x, const struct table_set *old, bool is_verified,
                       struct vm_items *items)
{
    static const uint8_t v6_first[17] = { IP_V6 };
    const unsigned mask = 1u << TABLE_VM_NC;

    for (uint32_t vni = table_set_next(old, VNI_MIN, mask); vni != 0;
         vni = vni == VNI_MAX ? 0 : table_set_next(old, vni + 1, mask)) {
        struct rows_iter it = rows_seek(table_set_rows(old, vni, TABLE_VM_NC),
                                        TABLE_VM_NC, v6_first, sizeof(v6_first));
        struct row row;

        while (rows_next(&it, &row)) {
            name_slot(x, vni, &row, is_verified, items);
        }
    }
}

/* An address with that CRC32: the register is wound back through the last 4 bytes. */
static struct ip address_of_key(uint32_t key)
{
    struct ip addr = ip_v6((const uint8_t[16]){ 0x20, 0x01, 0x0d, 0xb8 });
    uint32_t before = ~phys_crc32(addr.b, 12);
    uint32_t crc = ~key;

    for (unsigned bit = 0; bit < 32; bit++) {
        crc = crc >> 31 ? (crc ^ UINT32_C(0xedb88320)) << 1 | 1 : crc << 1;
    }
    crc ^= before;
    for (unsigned i = 0; i < 4; i++) {
        addr.b[12 + i] = (uint8_t)(crc >> 8 * i);
    }
    return addr;
}

/* Keys that nobody held: by an address (RFC 3849) that packets could ask for there. */
static void name_strays(struct xgwh *x, struct vm_items *items)
{
    struct vm_side *v = &x->holds.vm;

    for (uint32_t i = 0; i < u64map_places(&v->slots); i++) {
        uint64_t slot = v->slots.keys[i];
        uint32_t *value = &v->slots.values[i];

        if (slot != U64MAP_NONE && slot_is_v6(slot) && !(*value & SLOT_NAMED)) {
            struct ip addr = address_of_key((uint32_t)slot);

            if (vm_find_conflict(v, slot, addr.b) == 0) {
                *value |= SLOT_NAMED;
                add_vm6(items, slot_vni(slot), addr.b, *value & SLOT_NC);
            }
        }
    }
}

static enum rc collect_vms(struct xgwh *x, const struct table_set *old,
                           struct vm_items *items)
{
    struct vm_side *v = &x->holds.vm;
    size_t conflicts = v->used[2][0] + v->used[2][1];
    size_t v6 = 0;

    for (uint32_t i = 0; i < u64map_places(&v->slots); i++) {
        v6 += v->slots.keys[i] != U64MAP_NONE && slot_is_v6(v->slots.keys[i]);
    }
    items->v4 = malloc((v->slots.count - v6 + 1) * sizeof(*items->v4));
    items->v6 = malloc((v6 + conflicts + 1) * sizeof(*items->v6));
    if (!items->v4 || !items->v6) {
        return RC_NO_MEMORY;
    }
    for (uint32_t i = 0; i < u64map_places(&v->slots); i++) {
        uint64_t slot = v->slots.keys[i];

        if (slot != U64MAP_NONE && !slot_is_v6(slot)) {
            items->v4[items->v4_count++] =
                (struct vm4_item){ (uint64_t)slot_vni(slot) << 32 | (uint32_t)slot,
                                   v->slots.values[i] & SLOT_NC };
        }
    }
    for (uint32_t i = 1; i <= v->conflict_end; i++) {
        const struct conflict *c = &v->conflicts[i];

        if (vm_find_conflict(v, c->slot, c->addr) == i) {
            add_vm6(items, slot_vni(c->slot), c->addr, c->nc);
        }
    }
    name_slots(x, old, true, items);
    if (x->reading->names_all) {
        name_slots(x, old, false, items);
        name_strays(x, items);
    }
    qsort(items->v4, items->v4_count, sizeof(*items->v4), compare_vm4);
    qsort(items->v6, items->v6_count, sizeof(*items->v6), compare_vm6);
    return RC_OK;
}

static void pack_vm(const struct xgwh *x, uint8_t family, const uint8_t *addr,
                    uint32_t nc, struct buf *to)
{
    struct ip at = { 0 };

    nc_pool_address(&x->holds.ncs, nc, &at);
    buf_u8(to, family);
    buf_add(to, addr, family == IP_V4 ? 4 : 16);
    buf_u8(to, at.family);
    buf_add(to, at.b, ip_size(&at));
    buf_u8(to, 0); /* no MAC */
}

static uint32_t vm6_vni(const struct vm6_item *v)
{
    uint32_t be;

    memcpy(&be, v->key, 4);
    return __builtin_bswap32(be);
}

static enum rc name_vms(struct xgwh *x, const struct table_set *old,
                        struct table_set *rows)
{
    struct vm_items items = { 0 };
    struct row_writer w = { .to = rows, .table = TABLE_VM_NC };
    enum rc rc = collect_vms(x, old, &items);
    uint32_t i = 0;
    uint32_t k = 0;

    while (rc == RC_OK && (i < items.v4_count || k < items.v6_count)) {
        uint32_t vni4 =
            i < items.v4_count ? (uint32_t)(items.v4[i].key >> 32) : UINT32_MAX;
        uint32_t vni6 = k < items.v6_count ? vm6_vni(&items.v6[k]) : UINT32_MAX;

        rc = row_writer_turn(&w, vni4 <= vni6 ? vni4 : vni6);
        if (vni4 <= vni6) {
            uint32_t be = __builtin_bswap32((uint32_t)items.v4[i].key);
            uint8_t addr[4];

            memcpy(addr, &be, 4);
            pack_vm(x, IP_V4, addr, items.v4[i].nc, &w.rows);
            i++;
        } else {
            pack_vm(x, IP_V6, items.v6[k].key + 4, items.v6[k].nc, &w.rows);
            k++;
        }
    }
    rc = rc == RC_OK ? row_writer_close(&w) : rc;
    buf_fini(&w.rows);
    free(items.v4);
    free(items.v6);
    return rc;
}

/* ---- all ---- */

enum rc name_all(struct xgwh *x, const struct table_set *old, struct table_set *rows,
                 struct table_set *unnamed, struct xgwh_findings *f)
{
    enum rc rc = meters_adopt(x, old, rows);

    if (rc == RC_OK) {
        rc = name_vnis(x, old, rows);
    }
    if (rc == RC_OK) {
        rc = acl_name(x, old, rows);
    }
    u64map_fini(&x->guards);
    x->peers = 0;
    if (rc == RC_OK) {
        rc = name_vms(x, old, rows);
    }
    return rc == RC_OK ? name_routes(x, old, rows, unnamed, f) : rc;
}
