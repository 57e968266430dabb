#include "controller/probe/address.h"

#include <string.h>

#include "controller/probe/lookup.h"

bool address_rows(const struct table_set *s, uint32_t vni, enum table_id table,
                  uint8_t family, struct rows_iter *ret)
{
    struct rows_iter it =
        rows_seek(table_set_rows(s, vni, table), table, &family, sizeof(family));
    struct rows_iter look = it;
    struct row row;

    *ret = it;
    return rows_next(&look, &row) && row.key[0] == family;
}

/* The first `ret` addresses of VMs of the family. */
static unsigned some_vms(const struct table_set *s, uint32_t vni, uint8_t family,
                         struct ip ret[static 2])
{
    struct rows_iter it;
    unsigned count = 0;
    struct entry e;
    struct row row;

    if (!address_rows(s, vni, TABLE_VM_NC, family, &it)) {
        return 0;
    }
    while (count < 2 && rows_next(&it, &row) && row.key[0] == family) {
        if (!entry_unpack(TABLE_VM_NC, vni, &row, &e, NULL)) {
            ret[count++] = e.vm_nc.vm;
        }
    }
    return count;
}

struct ip address_inside(const struct prefix *p)
{
    struct ip ip = p->addr;

    if (p->len < ip_size(&ip) * 8) {
        ip.b[ip_size(&ip) - 1] |= 1;
    }
    return ip;
}

struct ip address_last(const struct prefix *p)
{
    struct ip ip = p->addr;

    for (unsigned bit = p->len; bit < ip_size(&ip) * 8; bit++) {
        ip.b[bit / 8] |= (uint8_t)(0x80 >> bit % 8);
    }
    return ip;
}

struct ip address_nowhere(uint8_t family, unsigned index)
{
    static const uint32_t v4[ADDRESS_NOWHERE_COUNT] = { 0xc0000201, 0xc6336401,
                                                        0xcb007101 };
    static const uint8_t v6[ADDRESS_NOWHERE_COUNT][16] = {
        { 0x20, 0x01, 0x0d, 0xb8, [15] = 1 },
        { 0x3f, 0xff, [15] = 1 },
        { 0x20, 0x01, 0x00, 0x02, [15] = 1 },
    };

    index %= ADDRESS_NOWHERE_COUNT;
    return family == IP_V4 ? ip_v4(v4[index]) : ip_v6(v6[index]);
}

struct ip address_some(const struct table_set *s, uint32_t vni, uint8_t family)
{
    struct rows_iter it;
    struct ip vms[2];
    struct entry e;
    struct row row;

    if (some_vms(s, vni, family, vms) > 0) {
        return vms[0];
    }
    if (address_rows(s, vni, TABLE_VXLAN_ROUTE, family, &it)) {
        while (rows_next(&it, &row) && row.key[0] == family) {
            if (!entry_unpack(TABLE_VXLAN_ROUTE, vni, &row, &e, NULL)) {
                struct ip ip = address_inside(&e.route.dst);

                if (lookup_is_routable(&ip)) {
                    return ip;
                }
            }
        }
    }
    return address_nowhere(family, 0);
}

struct ip address_beside(const struct table_set *s, uint32_t vni, const struct ip *dst)
{
    struct ip vms[2];
    unsigned count = some_vms(s, vni, dst->family, vms);
    struct ip src = *dst;

    for (unsigned i = 0; i < count; i++) {
        if (ip_compare(&vms[i], dst) != 0) {
            return vms[i];
        }
    }
    src.b[ip_size(&src) - 1] ^= 2;
    return src;
}

struct ip address_source(const struct device_config *c, uint8_t family)
{
    for (unsigned i = 0; i < c->underlay_source_count; i++) {
        if (c->underlay_sources[i].addr.family == family) {
            return address_inside(&c->underlay_sources[i]);
        }
    }
    return address_nowhere(family, 0);
}

bool address_is_own(const struct device_config *c, const struct ip *dst)
{
    const struct ip *const own[] = { &c->vtep_v4, &c->vtep_v6,     &c->vip_v4,
                                     &c->vip_v6,  &c->fallback_v4, &c->fallback_v6 };

    for (unsigned i = 0; i < sizeof(own) / sizeof(own[0]); i++) {
        if (ip_compare(own[i], dst) == 0) {
            return true;
        }
    }
    return false;
}
