#include "proto/model/entry.h"

#include <string.h>

/* Inlined: a digest is taken of every row that moves, and the rows are short. */
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "proto/model/table_type.h"

static const struct table_type *const table_types[TABLE_COUNT] = {
    [TABLE_TENANT] = &table_tenant,
    [TABLE_VNI] = &table_vni,
    [TABLE_VXLAN_ROUTE] = &table_route,
    [TABLE_VM_NC] = &table_vm_nc,
    [TABLE_ACL] = &table_acl,
    [TABLE_METER] = &table_meter,
    [TABLE_VNI_CLUSTER] = &table_vni_cluster,
};

const struct table_type *table_type_of(unsigned table)
{
    return table < TABLE_COUNT ? table_types[table] : NULL;
}

const char *table_name(enum table_id table)
{
    const struct table_type *type = table_type_of(table);

    return type ? type->name : "unknown";
}

int table_parse(const char *name, size_t len)
{
    for (int i = 0; i < TABLE_COUNT; i++) {
        if (strlen(table_types[i]->name) == len &&
            memcmp(table_types[i]->name, name, len) == 0) {
            return i;
        }
    }
    return -1;
}

enum rc entry_check_key(const struct entry *e, struct err *err)
{
    const struct table_type *type = table_type_of(e->table);
    enum rc rc;

    if (!type) {
        return err_field(err, RC_INVALID, "table", "table_known", "table %u: no such",
                         e->table);
    }
    rc = check_vni(e->vni, "vni", err);
    return rc ? rc : type->check_key(e, err);
}

enum rc entry_check(const struct entry *e, struct err *err)
{
    enum rc rc = entry_check_key(e, err);

    return rc ? rc : table_types[e->table]->check_value(e, err);
}

void entry_pack_key(const struct entry *e, struct buf *to)
{
    table_types[e->table]->pack_key(e, to);
}

void entry_pack_value(const struct entry *e, struct buf *to)
{
    table_types[e->table]->pack_value(e, to);
}

enum rc entry_unpack(enum table_id table, uint32_t vni, const struct row *row,
                     struct entry *ret, struct err *err)
{
    const struct table_type *type = table_type_of(table);
    struct entry e = { .table = (uint8_t)table, .vni = vni };
    struct reader in;
    enum rc rc;

    if (!type) {
        return err_field(err, RC_INVALID, "table", "table_known", "table %u: no such",
                         (unsigned)table);
    }
    in = reader_of(row->key, row->key_len);
    if (!type->unpack_key(&in, &e) || in.failed || reader_left(&in) > 0) {
        return err_field(err, RC_INVALID, "key", "packed_form",
                         "table %s: malformed key", type->name);
    }
    if (row->value) {
        in = reader_of(row->value, row->value_len);
        if (!type->unpack_value(&in, &e) || in.failed || reader_left(&in) > 0) {
            return err_field(err, RC_INVALID, "value", "packed_form",
                             "table %s: malformed value", type->name);
        }
    }
    rc = row->value ? entry_check(&e, err) : entry_check_key(&e, err);
    if (rc == RC_OK) {
        *ret = e;
    }
    return rc;
}

size_t row_scan(enum table_id table, const uint8_t *p, size_t avail, bool has_value,
                struct row *ret)
{
    const struct table_type *type = table_type_of(table);
    size_t key_len;
    size_t value_len = 0;

    if (!type) {
        return 0;
    }
    key_len = type->key_size(p, avail);
    if (key_len > avail) {
        return 0;
    }
    if (has_value) {
        value_len = type->value_size(p + key_len, avail - key_len);
        if (value_len > avail - key_len) {
            return 0;
        }
    }
    ret->key = p;
    ret->value = has_value ? p + key_len : NULL;
    ret->key_len = (uint8_t)key_len;
    ret->value_len = (uint8_t)value_len;
    return key_len + value_len;
}

int row_compare(const struct row *a, const struct row *b)
{
    unsigned shorter = a->key_len < b->key_len ? a->key_len : b->key_len;
    int order = shorter ? memcmp(a->key, b->key, shorter) : 0;

    return order ? order : (int)a->key_len - (int)b->key_len;
}

uint64_t row_digest(enum table_id table, uint32_t vni, const struct row *row)
{
    uint8_t bytes[4 + 2 * UINT8_MAX];
    size_t len = 4;

    bytes[0] = (uint8_t)table;
    bytes[1] = (uint8_t)(vni >> 16);
    bytes[2] = (uint8_t)(vni >> 8);
    bytes[3] = (uint8_t)vni;
    if (row->key_len > 0) {
        memcpy(bytes + len, row->key, row->key_len);
        len += row->key_len;
    }
    if (row->value_len > 0) {
        memcpy(bytes + len, row->value, row->value_len);
        len += row->value_len;
    }
    return XXH3_64bits(bytes, len);
}

uint64_t row_key_hash(const struct row *row)
{
    return XXH3_64bits(row->key, row->key_len);
}
