/* vm_nc: which NC hosts a VM. */
#include <string.h>

#include "proto/model/mac.h"
#include "proto/model/table_type.h"

static enum rc vm_check(const struct entry *e, struct err *err)
{
    return check_machine_address(&e->vm_nc.vm, "vm", err);
}

static enum rc nc_check(const struct entry *e, struct err *err)
{
    enum rc rc = check_machine_address(&e->vm_nc.nc, "nc", err);

    if (rc == RC_OK && e->vm_nc.has_mac) {
        rc = mac_check(e->vm_nc.mac, "mac", err);
    }
    return rc;
}

static void vm_pack(const struct entry *e, struct buf *to)
{
    pack_ip(&e->vm_nc.vm, to);
}

static void nc_pack(const struct entry *e, struct buf *to)
{
    pack_ip(&e->vm_nc.nc, to);
    buf_u8(to, e->vm_nc.has_mac);
    if (e->vm_nc.has_mac) {
        buf_add(to, e->vm_nc.mac, 6);
    }
}

static bool vm_unpack(struct reader *from, struct entry *ret)
{
    return unpack_ip(from, &ret->vm_nc.vm);
}

static bool nc_unpack(struct reader *from, struct entry *ret)
{
    const uint8_t *mac;
    uint8_t has_mac;

    if (!unpack_ip(from, &ret->vm_nc.nc)) {
        return false;
    }
    has_mac = read_u8(from);
    if (has_mac > 1) {
        return false;
    }
    ret->vm_nc.has_mac = has_mac;
    mac = read_bytes(from, has_mac ? 6 : 0);
    if (mac && has_mac) {
        memcpy(ret->vm_nc.mac, mac, 6);
    }
    return mac != NULL;
}

static size_t nc_size(const uint8_t *p, size_t avail)
{
    size_t ip = tagged_ip_size(p, avail);

    if (ip >= avail || p[ip] > 1) {
        return SIZE_MALFORMED;
    }
    return ip + 1 + (p[ip] ? 6 : 0);
}

static enum rc vm_read(const struct fields *f, struct entry *ret, struct err *err)
{
    return field_read_ip(f, FIELD_VM, &ret->vm_nc.vm, err);
}

static enum rc nc_read(const struct fields *f, struct entry *ret, struct err *err)
{
    enum rc rc = field_read_ip(f, FIELD_NC, &ret->vm_nc.nc, err);

    if (rc == RC_OK && field_has(f, FIELD_MAC)) {
        const struct field_text *text = &f->text[FIELD_MAC];

        rc = mac_parse(text->p, text->len, "mac", ret->vm_nc.mac, err);
        ret->vm_nc.has_mac = true;
    }
    return rc;
}

static void vm_print(const struct entry *e, struct buf *to)
{
    field_print_ip(FIELD_VM, &e->vm_nc.vm, to);
}

static void nc_print(const struct entry *e, struct buf *to)
{
    char text[MAC_TEXT_MAX];

    field_print_ip(FIELD_NC, &e->vm_nc.nc, to);
    if (e->vm_nc.has_mac) {
        mac_print(e->vm_nc.mac, text);
        field_print_text(FIELD_MAC, text, to);
    }
}

const struct table_type table_vm_nc = {
    .name = "vm_nc",
    .check_key = vm_check,
    .check_value = nc_check,
    .pack_key = vm_pack,
    .pack_value = nc_pack,
    .unpack_key = vm_unpack,
    .unpack_value = nc_unpack,
    .key_size = tagged_ip_size,
    .value_size = nc_size,
    .key_fields = 1u << FIELD_VM,
    .value_fields = 1u << FIELD_NC | 1u << FIELD_MAC,
    .read_key = vm_read,
    .read_value = nc_read,
    .print_key = vm_print,
    .print_value = nc_print,
};
