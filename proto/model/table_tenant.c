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

static enum rc tenant_check(const struct entry *e, struct err *err)
{
    enum rc rc = check_flags(e->tenant.flags, TENANT_FLAGS, err);

    if (rc == RC_OK) {
        rc = name_check(e->tenant.cluster, CLUSTER_NAME_MAX, "cluster", err);
    }
    if (rc == RC_OK) {
        rc = display_name_check(e->tenant.name, TENANT_NAME_MAX, "name", err);
    }
    if (rc == RC_OK && e->tenant.h_home[0]) {
        rc = name_check(e->tenant.h_home, CLUSTER_NAME_MAX, "h_home", err);
    }
    return rc;
}

static void tenant_pack(const struct entry *e, struct buf *to)
{
    buf_u8(to, e->tenant.flags);
    pack_name(e->tenant.cluster, to);
    pack_name(e->tenant.name, to);
    pack_name(e->tenant.h_home, to);
}

static bool tenant_unpack(struct reader *from, struct entry *ret)
{
    ret->tenant.flags = read_u8(from);
    return unpack_name(from, ret->tenant.cluster, CLUSTER_NAME_MAX) &&
           unpack_name(from, ret->tenant.name, TENANT_NAME_MAX) &&
           unpack_name(from, ret->tenant.h_home, CLUSTER_NAME_MAX);
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
    return at;
}

static enum rc tenant_read(const struct fields *f, struct entry *ret, struct err *err)
{
    enum rc rc =
        field_read_name(f, FIELD_CLUSTER, ret->tenant.cluster, CLUSTER_NAME_MAX, err);

    if (rc == RC_OK && field_has(f, FIELD_NAME)) {
        rc = field_read_name(f, FIELD_NAME, ret->tenant.name, TENANT_NAME_MAX, err);
    }
    if (rc == RC_OK && field_has(f, FIELD_H_HOME)) {
        rc =
            field_read_name(f, FIELD_H_HOME, ret->tenant.h_home, CLUSTER_NAME_MAX, err);
    }
    ret->tenant.flags = f->flags;
    return rc;
}

static void tenant_print(const struct entry *e, struct buf *to)
{
    field_print_text(FIELD_CLUSTER, e->tenant.cluster, to);
    if (e->tenant.h_home[0]) {
        field_print_text(FIELD_H_HOME, e->tenant.h_home, to);
    }
    if (e->tenant.name[0]) {
        field_print_text(FIELD_NAME, e->tenant.name, to);
    }
    field_print_flags(e->tenant.flags, to);
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
    .value_fields =
        1u << FIELD_CLUSTER | 1u << FIELD_H_HOME | 1u << FIELD_NAME | 1u << FIELD_FLAGS,
    .read_key = no_key_read,
    .read_value = tenant_read,
    .print_key = no_key_pack,
    .print_value = tenant_print,
};

static const char *const halves[VNI_HALF_COUNT] = { "0", "1", "by_dst" };

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
    const struct field_text *text = &f->text[FIELD_HALF];
    uint8_t half = 0;

    ret->vni_row.flags = f->flags;
    if (!field_has(f, FIELD_HALF)) {
        return RC_OK;
    }
    while (half < VNI_HALF_COUNT && (strlen(halves[half]) != text->len ||
                                     memcmp(halves[half], text->p, text->len) != 0)) {
        half++;
    }
    if (half == VNI_HALF_COUNT) {
        return err_field(err, RC_INVALID, "half", "half_known",
                         "half: not one of 0, 1, by_dst");
    }
    ret->vni_row.half = half;
    return RC_OK;
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
