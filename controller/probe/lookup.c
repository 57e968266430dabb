#include "controller/probe/lookup.h"

#include <string.h>

bool lookup_is_routable(const struct ip *ip)
{
    static const uint8_t zero[15];

    if (ip->family == IP_V4) {
        return ip->b[0] != 0 && ip->b[0] != 127 && ip->b[0] < 224;
    }
    if (ip->b[0] == 0xff || (ip->b[0] == 0xfe && (ip->b[1] & 0xc0) == 0x80)) {
        return false;
    }
    return memcmp(ip->b, zero, 15) != 0 || ip->b[15] > 1;
}

/* The row of this key; false when there is none. */
static bool find(const struct table_set *s, const struct entry *key, struct entry *ret)
{
    const struct rows *rows = table_set_rows(s, key->vni, key->table);
    struct buf packed = BUF_INIT;
    struct row row;
    bool found;

    entry_pack_key(key, &packed);
    found = rows && !buf_failed(&packed) &&
            rows_find(rows, key->table, packed.data, (uint8_t)packed.len, &row) &&
            !entry_unpack(key->table, key->vni, &row, ret, NULL);
    buf_fini(&packed);
    return found;
}

bool lookup_route(const struct table_set *s, uint32_t vni, const struct ip *dst,
                  struct entry *ret)
{
    for (int len = dst->family == IP_V4 ? 32 : 128; len >= 0; len--) {
        struct entry e = { .table = TABLE_VXLAN_ROUTE,
                           .vni = vni,
                           .route.dst = { *dst, (uint8_t)len } };

        prefix_mask(&e.route.dst);
        if (find(s, &e, ret)) {
            return true;
        }
    }
    return false;
}

bool lookup_vm(const struct table_set *s, uint32_t vni, const struct ip *vm,
               struct entry *ret)
{
    struct entry e = { .table = TABLE_VM_NC, .vni = vni, .vm_nc.vm = *vm };

    return find(s, &e, ret);
}

static bool matches(const struct acl_match *m, const struct lookup_flow *f)
{
    bool names_ports = m->sport.first != 0 || m->sport.last != UINT16_MAX ||
                       m->dport.first != 0 || m->dport.last != UINT16_MAX;

    return prefix_contains(&m->src, &f->src) && prefix_contains(&m->dst, &f->dst) &&
           (!m->has_proto || m->proto == f->proto) &&
           (!names_ports ||
            (f->has_ports && f->sport >= m->sport.first && f->sport <= m->sport.last &&
             f->dport >= m->dport.first && f->dport <= m->dport.last));
}

bool lookup_acl(const struct table_set *s, uint32_t vni, const struct lookup_flow *flow,
                struct entry *ret)
{
    struct rows_iter it = rows_begin(table_set_rows(s, vni, TABLE_ACL), TABLE_ACL);
    struct entry best = { .acl = { 0 } }; /* priorities begin at 1 */
    struct entry e;
    struct row row;

    while (rows_next(&it, &row)) {
        if (!entry_unpack(TABLE_ACL, vni, &row, &e, NULL) &&
            matches(&e.acl.match, flow) &&
            (e.acl.priority > best.acl.priority ||
             (e.acl.priority == best.acl.priority && e.acl.action == ACL_DENY))) {
            best = e;
        }
    }
    if (best.acl.priority > 0) {
        *ret = best;
    }
    return best.acl.priority > 0;
}
