/* Checks and packed forms that several tables share. */
#include <string.h>

#include "proto/model/table_type.h"

static const uint8_t v4_mapped[12] = { [10] = 0xff, [11] = 0xff };

enum rc check_vni(uint32_t vni, const char *field, struct err *err)
{
    if (vni < VNI_MIN || vni > VNI_MAX) {
        return err_field(err, RC_RANGE, field, "vni_range",
                         "%s %u: not in %u-%u (24 bits, RFC 7348; 0 means none)", field,
                         vni, VNI_MIN, VNI_MAX);
    }
    return RC_OK;
}

enum rc check_flags(uint8_t flags, uint8_t allowed, struct err *err)
{
    if (flags & ~VNI_FLAGS) {
        return err_field(err, RC_INVALID, "flags", "flag_known",
                         "flags 0x%02x: only 0x%02x are known", flags, VNI_FLAGS);
    }
    if (flags & ~allowed) {
        return err_field(err, RC_INVALID, "flags", "flag_derived",
                         "flags: acl is not set by hand: it follows from acl entries");
    }
    return RC_OK;
}

enum rc check_prefix(const struct prefix *p, const char *field, struct err *err)
{
    if (p->addr.family != IP_V4 && p->addr.family != IP_V6) {
        return err_field(err, RC_INVALID, field, "family", "%s: no address", field);
    }
    if (p->len > ip_size(&p->addr) * 8) {
        return err_field(err, RC_RANGE, field, "prefix_length",
                         "%s: prefix length %u: not in 0-%u", field, p->len,
                         ip_size(&p->addr) * 8);
    }
    if (prefix_has_host_bits(p)) {
        struct prefix masked = *p;
        char text[PREFIX_TEXT_MAX];

        prefix_mask(&masked);
        prefix_print(&masked, text);
        return err_field(err, RC_INVALID, field, "host_bits",
                         "%s: has host bits set; it is %s", field, text);
    }
    if (prefix_is_v4_mapped(p)) {
        return err_field(err, RC_INVALID, field, "family_mismatch",
                         "%s: lies under ::ffff:0:0/96; write it as IPv4", field);
    }
    return RC_OK;
}

bool prefix_is_v4_mapped(const struct prefix *p)
{
    return p->addr.family == IP_V6 && p->len >= 96 &&
           memcmp(p->addr.b, v4_mapped, sizeof(v4_mapped)) == 0;
}

/* Unspecified, loopback, multicast or limited broadcast. */
static const char *no_machine(const struct ip *ip)
{
    static const uint8_t zero[16];
    static const uint8_t loopback6[16] = { [15] = 1 };
    static const uint8_t broadcast4[4] = { 255, 255, 255, 255 };
    bool is_v4 = ip->family == IP_V4;

    if (memcmp(ip->b, zero, ip_size(ip)) == 0) {
        return "the unspecified";
    }
    if (is_v4 ? ip->b[0] == 127 : memcmp(ip->b, loopback6, 16) == 0) {
        return "a loopback";
    }
    if (is_v4 ? ip->b[0] >> 4 == 14 : ip->b[0] == 0xff) {
        return "a multicast";
    }
    if (is_v4 && memcmp(ip->b, broadcast4, 4) == 0) {
        return "the broadcast";
    }
    return NULL;
}

enum rc check_machine_address(const struct ip *ip, const char *field, struct err *err)
{
    const struct prefix host = { *ip, 128 };
    char text[IP_TEXT_MAX];
    const char *what;

    if (ip->family != IP_V4 && ip->family != IP_V6) {
        return err_field(err, RC_INVALID, field, "family", "%s: no address", field);
    }
    if (prefix_is_v4_mapped(&host)) {
        ip_print(ip, text);
        return err_field(err, RC_INVALID, field, "family_mismatch",
                         "%s %s: an IPv4 address in IPv6 form; write it as IPv4", field,
                         text);
    }
    what = no_machine(ip);
    if (what) {
        ip_print(ip, text);
        return err_field(err, RC_INVALID, field, "unicast_address", "%s %s: %s address",
                         field, text, what);
    }
    return RC_OK;
}

void pack_ip(const struct ip *ip, struct buf *to)
{
    buf_u8(to, ip->family);
    buf_add(to, ip->b, ip_size(ip));
}

bool unpack_ip(struct reader *from, struct ip *ret)
{
    struct ip ip = { .family = read_u8(from) };
    const uint8_t *bytes;

    if (ip.family != IP_V4 && ip.family != IP_V6) {
        return false;
    }
    bytes = read_bytes(from, ip_size(&ip));
    if (!bytes) {
        return false;
    }
    memcpy(ip.b, bytes, ip_size(&ip));
    *ret = ip;
    return true;
}

size_t tagged_ip_size(const uint8_t *p, size_t avail)
{
    if (avail == 0) {
        return SIZE_MALFORMED;
    }
    return p[0] == IP_V4 ? 5 : p[0] == IP_V6 ? 17 : SIZE_MALFORMED;
}

void pack_name(const char *name, struct buf *to)
{
    size_t len = strlen(name);

    buf_u8(to, (uint8_t)len);
    buf_add(to, name, len);
}

bool unpack_name(struct reader *from, char *to, size_t max)
{
    size_t len = read_u8(from);
    const uint8_t *bytes = read_bytes(from, len);

    if (!bytes || len > max || memchr(bytes, 0, len)) {
        return false;
    }
    memcpy(to, bytes, len);
    return true;
}
