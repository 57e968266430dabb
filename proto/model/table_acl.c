/* acl: which of a tenant's packets pass. */
#include <stdio.h>
#include <string.h>

#include "proto/model/table_type.h"

static const struct {
    const char *name;
    uint8_t number;
} protocols[] = {
    { "icmp", IP_PROTO_ICMP },
    { "tcp", IP_PROTO_TCP },
    { "udp", IP_PROTO_UDP },
    { "icmpv6", IP_PROTO_ICMPV6 },
};

enum { PROTOCOL_COUNT = sizeof(protocols) / sizeof(protocols[0]) };

static const struct port_range any_port = { 0, UINT16_MAX };

static bool is_any_port(const struct port_range *r)
{
    return r->first == 0 && r->last == UINT16_MAX;
}

/* ---- checks ---- */

static enum rc check_ports(const struct acl_match *m, const struct port_range *r,
                           const char *field, struct err *err)
{
    if (r->first > r->last) {
        return err_field(err, RC_RANGE, field, "port_range",
                         "%s %u-%u: starts after it ends", field, r->first, r->last);
    }
    if (is_any_port(r) ||
        (m->has_proto && (m->proto == IP_PROTO_TCP || m->proto == IP_PROTO_UDP))) {
        return RC_OK;
    }
    return err_field(err, RC_INVALID, field, "port_protocol",
                     "%s: only tcp and udp have ports", field);
}

static enum rc rule_check(const struct entry *e, struct err *err)
{
    const struct acl_match *m = &e->acl.match;
    enum rc rc;

    if (e->acl.priority == 0) {
        return err_field(err, RC_RANGE, "priority", "priority_range",
                         "priority 0: not in 1-%u", ACL_PRIORITY_MAX);
    }
    rc = check_prefix(&m->src, "src", err);
    rc = rc ? rc : check_prefix(&m->dst, "dst", err);
    if (rc != RC_OK) {
        return rc;
    }
    if (m->src.addr.family != m->dst.addr.family) {
        return err_field(err, RC_INVALID, "dst", "family_mismatch",
                         "dst: a rule is for IPv4 or for IPv6, and src is IPv%u",
                         m->src.addr.family);
    }
    if (!m->has_proto && m->proto != 0) {
        return err_field(err, RC_INVALID, "proto", "proto_any",
                         "proto %u: in a rule for any protocol", m->proto);
    }
    rc = check_ports(m, &m->sport, "sport", err);
    return rc ? rc : check_ports(m, &m->dport, "dport", err);
}

static enum rc verdict_check(const struct entry *e, struct err *err)
{
    if (e->acl.action != ACL_PERMIT && e->acl.action != ACL_DENY) {
        return err_field(err, RC_INVALID, "action", "action_known",
                         "action %u: neither permit nor deny", e->acl.action);
    }
    return RC_OK;
}

/* ---- packed ---- */

static void pack_prefix_body(const struct prefix *p, struct buf *to)
{
    buf_add(to, p->addr.b, ip_size(&p->addr));
    buf_u8(to, p->len);
}

static void rule_pack(const struct entry *e, struct buf *to)
{
    const struct acl_match *m = &e->acl.match;

    buf_u16(to, e->acl.priority);
    buf_u8(to, m->src.addr.family);
    pack_prefix_body(&m->src, to);
    pack_prefix_body(&m->dst, to);
    buf_u8(to, m->has_proto);
    buf_u8(to, m->proto);
    buf_u16(to, m->sport.first);
    buf_u16(to, m->sport.last);
    buf_u16(to, m->dport.first);
    buf_u16(to, m->dport.last);
}

static bool unpack_prefix_body(struct reader *from, uint8_t family, struct prefix *ret)
{
    const uint8_t *bytes;

    ret->addr.family = family;
    bytes = read_bytes(from, ip_size(&ret->addr));
    if (!bytes) {
        return false;
    }
    memcpy(ret->addr.b, bytes, ip_size(&ret->addr));
    ret->len = read_u8(from);
    return true;
}

static struct port_range unpack_ports(struct reader *from)
{
    struct port_range r;

    r.first = read_u16(from);
    r.last = read_u16(from);
    return r;
}

static bool rule_unpack(struct reader *from, struct entry *ret)
{
    struct acl_match *m = &ret->acl.match;
    uint8_t family;
    uint8_t has_proto;

    ret->acl.priority = read_u16(from);
    family = read_u8(from);
    if ((family != IP_V4 && family != IP_V6) ||
        !unpack_prefix_body(from, family, &m->src) ||
        !unpack_prefix_body(from, family, &m->dst)) {
        return false;
    }
    has_proto = read_u8(from);
    m->has_proto = has_proto;
    m->proto = read_u8(from);
    m->sport = unpack_ports(from);
    m->dport = unpack_ports(from);
    return has_proto <= 1;
}

static size_t rule_size(const uint8_t *p, size_t avail)
{
    if (avail < 3 || (p[2] != IP_V4 && p[2] != IP_V6)) {
        return SIZE_MALFORMED;
    }
    return 3u + 2u * (p[2] == IP_V4 ? 5 : 17) + 10u;
}

static void verdict_pack(const struct entry *e, struct buf *to)
{
    buf_u8(to, e->acl.action);
}

static bool verdict_unpack(struct reader *from, struct entry *ret)
{
    ret->acl.action = read_u8(from);
    return true;
}

static size_t verdict_size(const uint8_t *p, size_t avail)
{
    (void)p;
    (void)avail;
    return 1;
}

/* ---- text ---- */

/* Decimal digits without leading zeros, at most `max`; returns where they end, null
 * when there are none or it is more. */
static const char *read_decimal(const char *p, const char *end, unsigned max,
                                unsigned *ret)
{
    const char *start = p;
    unsigned v = 0;

    for (; p < end && *p >= '0' && *p <= '9'; p++) {
        v = v * 10 + (unsigned)(*p - '0');
        if (v > max) {
            return NULL;
        }
    }
    if (p == start || (*start == '0' && p > start + 1)) {
        return NULL;
    }
    *ret = v;
    return p;
}

static enum rc read_proto(const struct field_text *text, struct acl_match *m,
                          struct err *err)
{
    const char *end = text->p + text->len;
    unsigned number = 0;

    m->has_proto = true;
    for (unsigned i = 0; i < PROTOCOL_COUNT; i++) {
        if (strlen(protocols[i].name) == text->len &&
            memcmp(protocols[i].name, text->p, text->len) == 0) {
            m->proto = protocols[i].number;
            return RC_OK;
        }
    }
    if (read_decimal(text->p, end, UINT8_MAX, &number) != end) {
        return err_field(err, RC_INVALID, "proto", "proto_known",
                         "proto: not icmp, tcp, udp, icmpv6 or a number of 0-255");
    }
    m->proto = (uint8_t)number;
    return RC_OK;
}

static enum rc read_ports(const struct fields *f, enum field_id id,
                          struct port_range *ret, struct err *err)
{
    const char *name = field_types[id].name;
    const char *p;
    const char *end;
    unsigned first = 0;
    unsigned last;

    if (!field_has(f, id)) {
        *ret = any_port; /* its text is not set */
        return RC_OK;
    }
    p = f->text[id].p;
    end = p + f->text[id].len;
    p = read_decimal(p, end, UINT16_MAX, &first);
    last = first;
    if (p && p < end && *p == '-') {
        p = read_decimal(p + 1, end, UINT16_MAX, &last);
    }
    if (p != end) {
        return err_field(err, RC_INVALID, name, "port_syntax",
                         "%s: not a port or FIRST-LAST of 0-65535", name);
    }
    ret->first = (uint16_t)first;
    ret->last = (uint16_t)last;
    return RC_OK;
}

/* The prefixes; an absent one is any address of the other's family. */
static enum rc read_prefixes(const struct fields *f, struct acl_match *m,
                             struct err *err)
{
    enum rc rc = RC_OK;

    if (!field_has(f, FIELD_SRC) && !field_has(f, FIELD_DST)) {
        return err_field(err, RC_INVALID, "src", "required",
                         "src: missing, and so is dst: 0.0.0.0/0 or ::/0 says which "
                         "family the rule is for");
    }
    if (field_has(f, FIELD_SRC)) {
        rc = field_read_prefix(f, FIELD_SRC, &m->src, err);
    }
    if (rc == RC_OK && field_has(f, FIELD_DST)) {
        rc = field_read_prefix(f, FIELD_DST, &m->dst, err);
    }
    if (!field_has(f, FIELD_SRC)) {
        m->src.addr.family = m->dst.addr.family;
    }
    if (!field_has(f, FIELD_DST)) {
        m->dst.addr.family = m->src.addr.family;
    }
    return rc;
}

static enum rc rule_read(const struct fields *f, struct entry *ret, struct err *err)
{
    struct acl_match *m = &ret->acl.match;
    uint32_t priority = 0;
    enum rc rc = field_read_u32(f, FIELD_PRIORITY, &priority, err);

    if (rc != RC_OK) {
        return rc;
    }
    if (priority > ACL_PRIORITY_MAX) {
        return err_field(err, RC_RANGE, "priority", "priority_range",
                         "priority %u: not in 1-%u", priority, ACL_PRIORITY_MAX);
    }
    ret->acl.priority = (uint16_t)priority;
    rc = read_prefixes(f, m, err);
    if (rc == RC_OK && field_has(f, FIELD_PROTO)) {
        rc = read_proto(&f->text[FIELD_PROTO], m, err);
    }
    rc = rc ? rc : read_ports(f, FIELD_SPORT, &m->sport, err);
    return rc ? rc : read_ports(f, FIELD_DPORT, &m->dport, err);
}

const char *acl_action_name(unsigned action)
{
    return action == ACL_PERMIT ? "permit" : action == ACL_DENY ? "deny" : "unknown";
}

static enum rc verdict_read(const struct fields *f, struct entry *ret, struct err *err)
{
    const struct field_text *text = &f->text[FIELD_ACTION];
    enum rc rc = field_require(f, FIELD_ACTION, err);

    if (rc != RC_OK) {
        return rc;
    }
    for (uint8_t a = ACL_PERMIT; a <= ACL_DENY; a++) {
        if (strlen(acl_action_name(a)) == text->len &&
            memcmp(acl_action_name(a), text->p, text->len) == 0) {
            ret->acl.action = a;
            return RC_OK;
        }
    }
    return err_field(err, RC_INVALID, "action", "action_known",
                     "action: neither permit nor deny");
}

static void print_ports(enum field_id id, const struct port_range *r, struct buf *to)
{
    char text[12];

    if (is_any_port(r)) {
        return;
    }
    if (r->first == r->last) {
        snprintf(text, sizeof(text), "%u", r->first);
    } else {
        snprintf(text, sizeof(text), "%u-%u", r->first, r->last);
    }
    field_print_text(id, text, to);
}

static void print_proto(const struct acl_match *m, struct buf *to)
{
    char text[4];

    if (!m->has_proto) {
        return;
    }
    for (unsigned i = 0; i < PROTOCOL_COUNT; i++) {
        if (protocols[i].number == m->proto) {
            field_print_text(FIELD_PROTO, protocols[i].name, to);
            return;
        }
    }
    snprintf(text, sizeof(text), "%u", m->proto);
    field_print_text(FIELD_PROTO, text, to);
}

static void rule_print(const struct entry *e, struct buf *to)
{
    const struct acl_match *m = &e->acl.match;

    field_print_number(FIELD_PRIORITY, e->acl.priority, to);
    field_print_prefix(FIELD_SRC, &m->src, to);
    field_print_prefix(FIELD_DST, &m->dst, to);
    print_proto(m, to);
    print_ports(FIELD_SPORT, &m->sport, to);
    print_ports(FIELD_DPORT, &m->dport, to);
}

static void verdict_print(const struct entry *e, struct buf *to)
{
    field_print_text(FIELD_ACTION, acl_action_name(e->acl.action), to);
}

const struct table_type table_acl = {
    .name = "acl",
    .check_key = rule_check,
    .check_value = verdict_check,
    .pack_key = rule_pack,
    .pack_value = verdict_pack,
    .unpack_key = rule_unpack,
    .unpack_value = verdict_unpack,
    .key_size = rule_size,
    .value_size = verdict_size,
    .key_fields = 1u << FIELD_PRIORITY | 1u << FIELD_SRC | 1u << FIELD_DST |
                  1u << FIELD_PROTO | 1u << FIELD_SPORT | 1u << FIELD_DPORT,
    .value_fields = 1u << FIELD_ACTION,
    .read_key = rule_read,
    .read_value = verdict_read,
    .print_key = rule_print,
    .print_value = verdict_print,
};
