#include "agent/driver/memory_frame.h"

#include <string.h>

#define TYPE_IPV4 0x0800
#define TYPE_ARP  0x0806
#define TYPE_IPV6 0x86dd
#define EXT_FRAG  44
#define EXT_AH    51

/* Bytes that are left, taken from the front. */
struct bytes {
    const uint8_t *p;
    size_t len;
};

static const uint8_t *take(struct bytes *b, size_t n)
{
    const uint8_t *p = b->p;

    if (b->len < n) {
        return NULL;
    }
    b->p += n;
    b->len -= n;
    return p;
}

static unsigned get16(const uint8_t *p)
{
    return (unsigned)p[0] << 8 | p[1];
}

static uint32_t sum16(uint32_t sum, const uint8_t *p, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        sum += i % 2 ? p[i] : (uint32_t)p[i] << 8;
        sum = (sum & 0xffff) + (sum >> 16);
    }
    return sum;
}

static bool is_tag(unsigned type)
{
    return type == 0x8100 || type == 0x88a8;
}

static bool is_extension(uint8_t header)
{
    static const uint8_t all[] = { 0, 43, 44, 51, 60, 135, 139, 140 };

    return memchr(all, header, sizeof(all));
}

static bool is_discovery(const struct bytes *l4)
{
    return l4->len > 0 && l4->p[0] >= 133 && l4->p[0] <= 137;
}

/* ---- outside ---- */

/* Checks 1 and 2; the ethertype in `*type`. */
static const char *read_link(struct bytes *b, unsigned *type)
{
    const uint8_t *h = take(b, 14);

    if (!h) {
        return "l2_truncated";
    }
    *type = get16(h + 12);
    for (unsigned tags = 0; is_tag(*type); tags++) {
        const uint8_t *tag = tags < 2 ? take(b, 4) : NULL;

        if (!tag) {
            return tags < 2 ? "l2_truncated" : "l2_vlan_depth";
        }
        *type = get16(tag + 2);
    }
    return NULL;
}

/* Checks 4 to 8 of IPv4; `b` becomes the payload. */
static const char *read_outer_v4(struct bytes *b, struct vxlan_packet *p,
                                 uint8_t *proto)
{
    const uint8_t *h = b->p;
    size_t head;
    size_t total;

    if (b->len < 20) {
        return "outer_length";
    }
    if (h[0] >> 4 != 4) {
        return "outer_version";
    }
    head = (size_t)(h[0] & 15) * 4;
    total = get16(h + 2);
    if (head < 20 || head > total || total > b->len) {
        return "outer_length";
    }
    if (sum16(0, h, head) != 0xffff) {
        return "outer_checksum";
    }
    if (head > 20) {
        return "outer_options";
    }
    if (get16(h + 6) & 0x3fff) {
        return "outer_frag";
    }
    p->outer_src.family = p->outer_dst.family = IP_V4;
    memcpy(p->outer_src.b, h + 12, 4);
    memcpy(p->outer_dst.b, h + 16, 4);
    p->outer_ttl = h[8];
    *proto = h[9];
    *b = (struct bytes){ h + 20, total - 20 };
    return NULL;
}

static const char *read_outer_v6(struct bytes *b, struct vxlan_packet *p,
                                 uint8_t *proto)
{
    const uint8_t *h = b->p;

    if (b->len < 40) {
        return "outer_length";
    }
    if (h[0] >> 4 != 6) {
        return "outer_version";
    }
    if (get16(h + 4) + 40u > b->len) {
        return "outer_length";
    }
    if (is_extension(h[6])) {
        return h[6] == EXT_FRAG ? "outer_frag" : "outer_options";
    }
    p->outer_src.family = p->outer_dst.family = IP_V6;
    memcpy(p->outer_src.b, h + 8, 16);
    memcpy(p->outer_dst.b, h + 24, 16);
    p->outer_ttl = h[7];
    *proto = h[6];
    *b = (struct bytes){ h + 40, get16(h + 4) };
    return NULL;
}

static bool is_ours(const struct device_config *c, const struct ip *dst)
{
    return ip_compare(dst, &c->vtep_v4) == 0 || ip_compare(dst, &c->vtep_v6) == 0 ||
           ip_compare(dst, &c->vip_v4) == 0 || ip_compare(dst, &c->vip_v6) == 0 ||
           ip_compare(dst, &c->fallback_v4) == 0 ||
           ip_compare(dst, &c->fallback_v6) == 0;
}

/* Checks 10 to 13; `b` becomes UDP's payload. */
static const char *read_udp(const struct device_config *c, struct bytes *b,
                            uint8_t proto, struct memory_frame *f)
{
    const uint8_t *h = b->p;
    size_t all = b->len;

    if (!is_ours(c, &f->packet.outer_dst)) {
        return "not_our_address";
    }
    if (proto != IP_PROTO_UDP) {
        f->is_kept = true;
        return NULL;
    }
    if (!take(b, 8) || get16(h + 4) != all) {
        return "outer_length";
    }
    f->packet.outer_sport = (uint16_t)get16(h);
    f->packet.has_outer_csum = get16(h + 6) != 0;
    switch (get16(h + 2)) {
    case 3784:
    case 3785:
    case 4784:
        f->is_kept = true;
        return NULL;
    case 4789:
        return NULL;
    default:
        return "not_vxlan";
    }
}

/* Checks 15 to 22. */
static const char *read_vxlan(const struct memory_node *n, struct bytes *b,
                              struct memory_frame *f)
{
    const struct vxlan_packet *p = &f->packet;
    const uint8_t *h;

    if (p->outer_ttl < 2) {
        return "outer_ttl";
    }
    if (p->outer_dst.family == IP_V6 && !p->has_outer_csum &&
        !n->config->udp6_zero_csum) {
        return "outer_udp6_zero_csum";
    }
    if (!device_config_takes_from(n->config, &p->outer_src)) {
        return "source_check";
    }
    h = take(b, 8);
    if (!h) {
        return "vxlan_truncated";
    }
    if (!(h[0] & 0x08) || (h[0] & 0x04)) {
        return h[0] & 0x08 ? "vxlan_gpe" : "vxlan_i_flag";
    }
    f->vxlan = h;
    f->packet.vni = (uint32_t)h[4] << 16 | get16(h + 5);
    return table_set_rows(n->tables, p->vni, TABLE_VNI) ? NULL : "unknown_vni";
}

/* ---- inside ---- */

static bool allows_tags(const struct memory_node *n, uint32_t vni)
{
    struct rows_iter it =
        rows_begin(table_set_rows(n->tables, vni, TABLE_VNI), TABLE_VNI);
    struct entry e;
    struct row row;

    return rows_next(&it, &row) && !entry_unpack(TABLE_VNI, vni, &row, &e, NULL) &&
           (e.vni_row.flags & VNI_INNER_VLAN);
}

/* Checks 23 to 25. */
static const char *read_inner_link(const struct memory_node *n, struct bytes *b,
                                   struct memory_frame *f, unsigned *type)
{
    const uint8_t *h = take(b, 14);

    if (!h) {
        return "inner_truncated";
    }
    memcpy(f->packet.inner_dst_mac, h, 6);
    memcpy(f->packet.inner_src_mac, h + 6, 6);
    *type = get16(h + 12);
    for (unsigned tags = 0; is_tag(*type); tags++) {
        const uint8_t *tag;

        if (tags == 2 || !allows_tags(n, f->packet.vni)) {
            return "inner_vlan";
        }
        tag = take(b, 4);
        if (!tag) {
            return "inner_truncated";
        }
        f->has_tags = true;
        *type = get16(tag + 2);
    }
    return *type == TYPE_IPV4 || *type == TYPE_IPV6 ? NULL : "inner_not_ip";
}

static void read_ports(struct memory_frame *f, uint8_t proto, bool is_first,
                       const struct bytes *l4)
{
    f->proto = proto;
    f->has_ports =
        is_first && l4->len >= 4 && (proto == IP_PROTO_UDP || proto == IP_PROTO_TCP);
    if (f->has_ports) {
        f->packet.sport = (uint16_t)get16(l4->p);
        f->packet.dport = (uint16_t)get16(l4->p + 2);
    }
}

/* Checks 26 to 29. */
static const char *read_inner_v4(struct bytes *b, struct memory_frame *f)
{
    const uint8_t *h = b->p;
    struct bytes l4;
    size_t head;
    size_t total;

    if (b->len < 20) {
        return "inner_truncated";
    }
    if (h[0] >> 4 != 4) {
        return "inner_version";
    }
    head = (size_t)(h[0] & 15) * 4;
    total = get16(h + 2);
    if (head < 20 || head > total || total > b->len) {
        return "inner_length";
    }
    if (sum16(0, h, head) != 0xffff) {
        return "inner_checksum";
    }
    f->packet.src.family = f->packet.dst.family = IP_V4;
    memcpy(f->packet.src.b, h + 12, 4);
    memcpy(f->packet.dst.b, h + 16, 4);
    f->packet.ttl = h[8];
    f->hides_ports = head > 20;
    l4 = (struct bytes){ h + head, total - head };
    read_ports(f, h[9], (get16(h + 6) & 0x1fff) == 0, &l4);
    return NULL;
}

/* Checks 30 and 31: `b` is what follows the IPv6 header. */
static const char *read_extensions(struct bytes *b, uint8_t header,
                                   struct memory_frame *f)
{
    bool is_first = true;

    f->hides_ports = is_extension(header);
    for (unsigned count = 0; is_extension(header) && is_first; count++) {
        const uint8_t *h = b->p;
        size_t size;

        if (count == 8 || b->len < 8) {
            return "inner_ext";
        }
        size = header == EXT_FRAG ? 8
               : header == EXT_AH ? (h[1] + 2u) * 4
                                  : (h[1] + 1u) * 8;
        is_first = header != EXT_FRAG || (get16(h + 2) & 0xfff8) == 0;
        header = h[0];
        if (!take(b, size)) {
            return "inner_ext";
        }
    }
    if (header == IP_PROTO_ICMPV6 && is_first && is_discovery(b)) {
        return "inner_nd";
    }
    read_ports(f, header, is_first, b);
    return NULL;
}

static const char *read_inner_v6(struct bytes *b, struct memory_frame *f)
{
    const uint8_t *h = b->p;
    struct bytes rest;

    if (b->len < 40) {
        return "inner_truncated";
    }
    if (h[0] >> 4 != 6) {
        return "inner_version";
    }
    if (get16(h + 4) + 40u > b->len) {
        return "inner_length";
    }
    f->packet.src.family = f->packet.dst.family = IP_V6;
    memcpy(f->packet.src.b, h + 8, 16);
    memcpy(f->packet.dst.b, h + 24, 16);
    f->packet.ttl = h[7];
    rest = (struct bytes){ h + 40, get16(h + 4) };
    return read_extensions(&rest, h[6], f);
}

/* Check 32. */
static bool is_routable(const struct ip *ip)
{
    static const uint8_t zero[15];

    if (ip->family == IP_V4) {
        return ip->b[0] != 0 && ip->b[0] != 127 && ip->b[0] < 224;
    }
    return ip->b[0] != 0xff && !(ip->b[0] == 0xfe && (ip->b[1] & 0xc0) == 0x80) &&
           (memcmp(ip->b, zero, 15) != 0 || ip->b[15] > 1);
}

static const char *read_inner(const struct memory_node *n, struct bytes *b,
                              struct memory_frame *f)
{
    const char *reason;
    unsigned type;

    f->inner = b->p;
    f->inner_len = b->len;
    reason = read_inner_link(n, b, f, &type);
    f->inner_ip = (size_t)(b->p - f->inner);
    if (!reason) {
        reason = type == TYPE_IPV4 ? read_inner_v4(b, f) : read_inner_v6(b, f);
    }
    return reason || is_routable(&f->packet.dst) ? reason : "inner_not_unicast";
}

const char *memory_frame_read(const struct memory_node *node, const uint8_t *frame,
                              size_t len, struct memory_frame *ret)
{
    struct bytes b = { frame, len };
    struct memory_frame *f = ret;
    uint8_t proto = 0;
    unsigned type = 0;
    const char *reason;

    memset(f, 0, sizeof(*f));
    reason = read_link(&b, &type);
    if (!reason && type == TYPE_ARP) {
        f->is_kept = true;
        return NULL;
    }
    if (!reason && type != TYPE_IPV4 && type != TYPE_IPV6) {
        reason = "l2_not_ip";
    }
    if (!reason) {
        reason = type == TYPE_IPV4 ? read_outer_v4(&b, &f->packet, &proto)
                                   : read_outer_v6(&b, &f->packet, &proto);
    }
    if (!reason && type == TYPE_IPV6 && proto == IP_PROTO_ICMPV6 && is_discovery(&b)) {
        f->is_kept = true;
        return NULL;
    }
    reason = reason ? reason : read_udp(node->config, &b, proto, f);
    if (reason || f->is_kept) {
        return reason;
    }
    reason = read_vxlan(node, &b, f);
    return reason ? reason : read_inner(node, &b, f);
}

/* ---- writing ---- */

static void set_inner(const struct memory_frame *f, const struct vxlan_packet *out,
                      uint8_t *inner)
{
    uint8_t *ip = inner + f->inner_ip;
    size_t head = (size_t)(ip[0] & 15) * 4;
    uint32_t sum;

    memcpy(inner, out->inner_dst_mac, 6);
    if (out->dst.family == IP_V6) {
        ip[7] = out->ttl;
    } else if (ip[8] != out->ttl) {
        ip[8] = out->ttl;
        ip[10] = ip[11] = 0;
        sum = ~sum16(0, ip, head) & 0xffff;
        ip[10] = (uint8_t)(sum >> 8);
        ip[11] = (uint8_t)sum;
    }
}

/* The VXLAN header as it came; the UDP checksum covers its reserved bits too. */
static void keep_vxlan(const struct memory_frame *f, const struct vxlan_packet *out,
                       uint8_t *vxlan, size_t len)
{
    uint8_t *udp = vxlan - 8;
    uint32_t sum = IP_PROTO_UDP + (uint32_t)len;

    memcpy(vxlan, f->vxlan, 8);
    if (out->has_outer_csum) {
        udp[6] = udp[7] = 0;
        sum = sum16(sum, out->outer_src.b, ip_size(&out->outer_src));
        sum = sum16(sum, out->outer_dst.b, ip_size(&out->outer_dst));
        sum = ~sum16(sum, udp, len) & 0xffff;
        sum = sum ? sum : 0xffff;
        udp[6] = (uint8_t)(sum >> 8);
        udp[7] = (uint8_t)sum;
    }
}

size_t memory_frame_write(const struct memory_frame *f, const struct vxlan_packet *out,
                          bool as_it_is, uint8_t to[PROBE_FRAME_MAX])
{
    size_t at = vxlan_packet_inner_at(out);
    size_t len;

    if (at + f->inner_len > PROBE_FRAME_MAX) {
        return 0;
    }
    memcpy(to + at, f->inner, f->inner_len);
    if (!as_it_is) {
        set_inner(f, out, to + at);
    }
    len = vxlan_packet_wrap(out, f->inner_len, to);
    if (as_it_is) {
        keep_vxlan(f, out, to + at - 8, f->inner_len + 16);
    }
    return len;
}
