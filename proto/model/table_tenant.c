/* tenant: a VPC and its x86 home; and `vni`, the row of a device derived from it. */
#include <string.h>

#include "proto/model/name.h"
#include "proto/model/table_type.h"

static enum rc no_key_check(const struct entry *e, struct err *err)
{
    (void)e;
    (void)err;
    return RC_OK;
}

static void no_key_pack(const struct entry *e, struct buf *to)
{
    (void)e;
    (void)to;
}

static bool no_key_unpack(struct reader *from, struct entry *ret)
{
    (void)from;
    (void)ret;
    return true;
}

static size_t no_key_size(const uint8_t *p, size_t avail)
{
    (void)p;
    (void)avail;
    return 0;
}

static enum rc no_key_read(const struct fields *f, struct entry *ret, struct err *err)
{
    (void)f;
    (void)ret;
    (void)err;
    return RC_OK;
}

static enum rc tenant_check(const struct entry *e, struct err *err)
{
    enum rc rc = check_flags(e->tenant.flags, err);

    if (rc == RC_OK) {
        rc = name_check(e->tenant.cluster, CLUSTER_NAME_MAX, "cluster", err);
    }
    if (rc == RC_OK) {
        rc = display_name_check(e->tenant.name, TENANT_NAME_MAX, "name", err);
    }
    return rc;
}

static void tenant_pack(const struct entry *e, struct buf *to)
{
    buf_u8(to, e->tenant.flags);
    pack_name(e->tenant.cluster, to);
    pack_name(e->tenant.name, to);
}

static bool tenant_unpack(struct reader *from, struct entry *ret)
{
    ret->tenant.flags = read_u8(from);
    return unpack_name(from, ret->tenant.cluster, CLUSTER_NAME_MAX) &&
           unpack_name(from, ret->tenant.name, TENANT_NAME_MAX);
}

static size_t tenant_size(const uint8_t *p, size_t avail)
{
    size_t name_at;

    if (avail < 2 || p[1] > CLUSTER_NAME_MAX) {
        return SIZE_MALFORMED;
    }
    name_at = 2 + (size_t)p[1];
    if (avail <= name_at || p[name_at] > TENANT_NAME_MAX) {
        return SIZE_MALFORMED;
    }
    return name_at + 1 + p[name_at];
}

static enum rc tenant_read(const struct fields *f, struct entry *ret, struct err *err)
{
    enum rc rc =
        field_read_name(f, FIELD_CLUSTER, ret->tenant.cluster, CLUSTER_NAME_MAX, err);

    if (rc == RC_OK && field_has(f, FIELD_NAME)) {
        rc = field_read_name(f, FIELD_NAME, ret->tenant.name, TENANT_NAME_MAX, err);
    }
    ret->tenant.flags = f->flags;
    return rc;
}

static void tenant_print(const struct entry *e, struct buf *to)
{
    field_print_text(FIELD_CLUSTER, e->tenant.cluster, to);
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
    .value_fields = 1u << FIELD_CLUSTER | 1u << FIELD_NAME | 1u << FIELD_FLAGS,
    .read_key = no_key_read,
    .read_value = tenant_read,
    .print_key = no_key_pack,
    .print_value = tenant_print,
};

static enum rc vni_check(const struct entry *e, struct err *err)
{
    return check_flags(e->vni_row.flags, err);
}

static void vni_pack(const struct entry *e, struct buf *to)
{
    buf_u8(to, e->vni_row.flags);
}

static bool vni_unpack(struct reader *from, struct entry *ret)
{
    ret->vni_row.flags = read_u8(from);
    return true;
}

static size_t vni_size(const uint8_t *p, size_t avail)
{
    (void)p;
    (void)avail;
    return 1;
}

static enum rc vni_read(const struct fields *f, struct entry *ret, struct err *err)
{
    (void)err;
    ret->vni_row.flags = f->flags;
    return RC_OK;
}

static void vni_print(const struct entry *e, struct buf *to)
{
    field_print_flags(e->vni_row.flags, to);
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
    .value_fields = 1u << FIELD_FLAGS,
    .read_key = no_key_read,
    .read_value = vni_read,
    .print_key = no_key_pack,
    .print_value = vni_print,
};
