/* tenant: a VPC and its homes; and `vni`, the row of a device derived from it. */
#include <string.h>

#include "proto/model/name.h"
#include "proto/model/table_type.h"

enum rc no_key_check(const struct entry *e, struct err *err)
{
    (void)e;
    (void)err;
    return RC_OK;
}

void no_key_pack(const struct entry *e, struct buf *to)
{
    (void)e;
    (void)to;
}

bool no_key_unpack(struct reader *from, struct entry *ret)
{
    (void)from;
    (void)ret;
    return true;
}

size_t no_key_size(const uint8_t *p, size_t avail)
{
    (void)p;
    (void)avail;
    return 0;
}

enum rc no_key_read(const struct fields *f, struct entry *ret, struct err *err)
{
    (void)f;
    (void)ret;
    (void)err;
    return RC_OK;
}

static const char *const halves[VNI_HALF_COUNT] = { "0", "1", "by_dst" };

/* VNI_HALF_COUNT when it is none. */
static unsigned half_parse(const struct field_text *text)
{
    unsigned half = 0;

    while (half < VNI_HALF_COUNT && (strlen(halves[half]) != text->len ||
                                     memcmp(halves[half], text->p, text->len) != 0)) {
        half++;
    }
    return half;
}

static enum rc half_unknown(struct err *err)
{
    return err_field(err, RC_INVALID, "half", "half_known",
                     "half: not one of 0, 1, by_dst");
}

static bool has_reserve(const struct tenant_reserve *r)
{
    return r->routes || r->vms || r->bps || r->pps;
}

static enum rc homes_check(const struct entry *e, struct err *err)
{
    enum rc rc;

    if (!e->tenant.cluster[0] && !e->tenant.h_home[0]) {
        return RC_OK; /* to be placed */
    }
    rc = name_check(e->tenant.cluster, CLUSTER_NAME_MAX, "cluster", err);
    if (rc == RC_OK && e->tenant.h_home[0]) {
        rc = name_check(e->tenant.h_home, CLUSTER_NAME_MAX, "h_home", err);
    }
    return rc;
}

static enum rc tenant_check(const struct entry *e, struct err *err)
{
    const struct tenant_reserve *r = &e->tenant.reserve;
    enum rc rc = check_flags(e->tenant.flags, TENANT_FLAGS, err);

    if (rc == RC_OK) {
        rc = homes_check(e, err);
    }
    if (rc == RC_OK) {
        rc = display_name_check(e->tenant.name, TENANT_NAME_MAX, "name", err);
    }
    if (rc == RC_OK && e->tenant.half > VNI_HALF_COUNT) {
        return err_field(err, RC_RANGE, "half", "half_known",
                         "half: not one of 0, 1, by_dst");
    }
    if (rc == RC_OK && e->tenant.half && !e->tenant.h_home[0]) {
        return err_field(err, RC_INVALID, "half", "half_needs_h_home",
                         "half: only a tenant with an h_home has one");
    }
    if (rc == RC_OK && (r->bps > RESERVE_MAX || r->pps > RESERVE_MAX)) {
        return err_field(err, RC_RANGE,
                         r->bps > RESERVE_MAX ? "reserved_bps" : "reserved_pps",
                         "number_range", "a reservation of more than %llu",
                         (unsigned long long)RESERVE_MAX);
    }
    return rc;
}

static void tenant_pack(const struct entry *e, struct buf *to)
{
    const struct tenant_reserve *r = &e->tenant.reserve;

    buf_u8(to, e->tenant.flags);
    pack_name(e->tenant.cluster, to);
    pack_name(e->tenant.name, to);
    pack_name(e->tenant.h_home, to);
    buf_u8(to, e->tenant.half);
    buf_u8(to, has_reserve(r));
    if (has_reserve(r)) {
        buf_u32(to, r->routes);
        buf_u32(to, r->vms);
        buf_u64(to, r->bps);
        buf_u64(to, r->pps);
    }
}

static bool tenant_unpack(struct reader *from, struct entry *ret)
{
    struct tenant_reserve *r = &ret->tenant.reserve;
    uint8_t has;

    ret->tenant.flags = read_u8(from);
    if (!unpack_name(from, ret->tenant.cluster, CLUSTER_NAME_MAX) ||
        !unpack_name(from, ret->tenant.name, TENANT_NAME_MAX) ||
        !unpack_name(from, ret->tenant.h_home, CLUSTER_NAME_MAX)) {
        return false;
    }
    ret->tenant.half = read_u8(from);
    has = read_u8(from);
    if (has == 1) {
        r->routes = read_u32(from);
        r->vms = read_u32(from);
        r->bps = read_u64(from);
        r->pps = read_u64(from);
    }
    return has <= 1 && has == has_reserve(r);
}

static size_t tenant_size(const uint8_t *p, size_t avail)
{
    static const uint8_t longest[] = { CLUSTER_NAME_MAX, TENANT_NAME_MAX,
                                       CLUSTER_NAME_MAX };
    size_t at = 1;

    for (unsigned i = 0; i < sizeof(longest); i++) {
        if (avail <= at || p[at] > longest[i]) {
            return SIZE_MALFORMED;
        }
        at += 1 + (size_t)p[at];
    }
    if (avail <= at + 1 || p[at + 1] > 1) {
        return SIZE_MALFORMED;
    }
    return at + 2 + (p[at + 1] ? TENANT_RESERVE_SIZE : 0);
}

static enum rc reserve_read(const struct fields *f, struct tenant_reserve *r,
                            struct err *err)
{
    enum rc rc = RC_OK;

    if (field_has(f, FIELD_RESERVED_ROUTES)) {
        rc = field_read_u32(f, FIELD_RESERVED_ROUTES, &r->routes, err);
    }
    if (rc == RC_OK && field_has(f, FIELD_RESERVED_VMS)) {
        rc = field_read_u32(f, FIELD_RESERVED_VMS, &r->vms, err);
    }
    if (rc == RC_OK && field_has(f, FIELD_RESERVED_BPS)) {
        rc = field_read_wide(f, FIELD_RESERVED_BPS, &r->bps, err);
    }
    if (rc == RC_OK && field_has(f, FIELD_RESERVED_PPS)) {
        rc = field_read_wide(f, FIELD_RESERVED_PPS, &r->pps, err);
    }
    return rc;
}

static enum rc tenant_read(const struct fields *f, struct entry *ret, struct err *err)
{
    enum rc rc = RC_OK;

    if (field_has(f, FIELD_CLUSTER)) {
        rc = field_read_name(f, FIELD_CLUSTER, ret->tenant.cluster, CLUSTER_NAME_MAX,
                             err);
        if (rc == RC_OK) { /* absent and empty are not the same */
            rc = name_check(ret->tenant.cluster, CLUSTER_NAME_MAX, "cluster", err);
        }
    }
    if (rc == RC_OK && field_has(f, FIELD_NAME)) {
        rc = field_read_name(f, FIELD_NAME, ret->tenant.name, TENANT_NAME_MAX, err);
    }
    if (rc == RC_OK && field_has(f, FIELD_H_HOME)) {
        rc =
            field_read_name(f, FIELD_H_HOME, ret->tenant.h_home, CLUSTER_NAME_MAX, err);
    }
    if (rc == RC_OK && field_has(f, FIELD_HALF)) {
        ret->tenant.half = (uint8_t)(half_parse(&f->text[FIELD_HALF]) + 1);
        rc = ret->tenant.half > VNI_HALF_COUNT ? half_unknown(err) : RC_OK;
    }
    ret->tenant.flags = f->flags;
    return rc ? rc : reserve_read(f, &ret->tenant.reserve, err);
}

static void reserve_print(enum field_id id, uint64_t number, struct buf *to)
{
    if (number) {
        field_print_number(id, number, to);
    }
}

static void tenant_print(const struct entry *e, struct buf *to)
{
    if (e->tenant.cluster[0]) {
        field_print_text(FIELD_CLUSTER, e->tenant.cluster, to);
    }
    if (e->tenant.h_home[0]) {
        field_print_text(FIELD_H_HOME, e->tenant.h_home, to);
    }
    if (e->tenant.half) {
        field_print_text(FIELD_HALF, halves[e->tenant.half - 1], to);
    }
    if (e->tenant.name[0]) {
        field_print_text(FIELD_NAME, e->tenant.name, to);
    }
    field_print_flags(e->tenant.flags, to);
    reserve_print(FIELD_RESERVED_ROUTES, e->tenant.reserve.routes, to);
    reserve_print(FIELD_RESERVED_VMS, e->tenant.reserve.vms, to);
    reserve_print(FIELD_RESERVED_BPS, e->tenant.reserve.bps, to);
    reserve_print(FIELD_RESERVED_PPS, e->tenant.reserve.pps, to);
}

const struct table_type table_tenant = {
    .name = "tenant",
    .check_key = no_key_check,
    .check_value = tenant_check,
    .pack_key = no_key_pack,
    .pack_value = tenant_pack,
    .unpack_key = no_key_unpack,
    .unpack_value = tenant_unpack,
    .key_size = no_key_size,
    .value_size = tenant_size,
    .value_fields = 1u << FIELD_CLUSTER | 1u << FIELD_H_HOME | 1u << FIELD_HALF |
                    1u << FIELD_NAME | 1u << FIELD_FLAGS | 1u << FIELD_RESERVED_ROUTES |
                    1u << FIELD_RESERVED_VMS | 1u << FIELD_RESERVED_BPS |
                    1u << FIELD_RESERVED_PPS,
    .read_key = no_key_read,
    .read_value = tenant_read,
    .print_key = no_key_pack,
    .print_value = tenant_print,
};

static enum rc vni_check(const struct entry *e, struct err *err)
{
    if (e->vni_row.half >= VNI_HALF_COUNT) {
        return err_field(err, RC_RANGE, "half", "half_known",
                         "half %u: not one of 0, 1, by_dst", e->vni_row.half);
    }
    return check_flags(e->vni_row.flags, VNI_FLAGS, err);
}

static void vni_pack(const struct entry *e, struct buf *to)
{
    buf_u8(to, e->vni_row.flags);
    buf_u8(to, e->vni_row.half);
}

static bool vni_unpack(struct reader *from, struct entry *ret)
{
    ret->vni_row.flags = read_u8(from);
    ret->vni_row.half = read_u8(from);
    return true;
}

static size_t vni_size(const uint8_t *p, size_t avail)
{
    (void)p;
    (void)avail;
    return 2;
}

static enum rc vni_read(const struct fields *f, struct entry *ret, struct err *err)
{
    ret->vni_row.flags = f->flags;
    if (!field_has(f, FIELD_HALF)) {
        return RC_OK;
    }
    ret->vni_row.half = (uint8_t)half_parse(&f->text[FIELD_HALF]);
    return ret->vni_row.half == VNI_HALF_COUNT ? half_unknown(err) : RC_OK;
}

static void vni_print(const struct entry *e, struct buf *to)
{
    field_print_flags(e->vni_row.flags, to);
    if (e->vni_row.half) {
        field_print_text(FIELD_HALF, halves[e->vni_row.half], to);
    }
}

const struct table_type table_vni = {
    .name = "vni",
    .check_key = no_key_check,
    .check_value = vni_check,
    .pack_key = no_key_pack,
    .pack_value = vni_pack,
    .unpack_key = no_key_unpack,
    .unpack_value = vni_unpack,
    .key_size = no_key_size,
    .value_size = vni_size,
    .value_fields = 1u << FIELD_FLAGS | 1u << FIELD_HALF,
    .read_key = no_key_read,
    .read_value = vni_read,
    .print_key = no_key_pack,
    .print_value = vni_print,
};
