#include "proto/model/entry_fields.h"

#include <string.h>

#include "proto/model/table_type.h"

#define FIELD(text, kind_)                                                             \
    {                                                                                  \
        .name = (text), .name_len = sizeof(text) - 1, .kind = (kind_)                  \
    }

const struct field_type field_types[FIELD_COUNT] = {
    [FIELD_OP] = FIELD("op", KIND_TEXT),
    [FIELD_TABLE] = FIELD("table", KIND_TEXT),
    [FIELD_VNI] = FIELD("vni", KIND_NUMBER),
    [FIELD_CLUSTER] = FIELD("cluster", KIND_TEXT),
    [FIELD_NAME] = FIELD("name", KIND_TEXT),
    [FIELD_FLAGS] = FIELD("flags", KIND_FLAGS),
    [FIELD_PREFIX] = FIELD("prefix", KIND_TEXT),
    [FIELD_SCOPE] = FIELD("scope", KIND_TEXT),
    [FIELD_PEER_VNI] = FIELD("peer_vni", KIND_NUMBER),
    [FIELD_ENDPOINT] = FIELD("endpoint", KIND_TEXT),
    [FIELD_ENDPOINT_VNI] = FIELD("endpoint_vni", KIND_NUMBER),
    [FIELD_SERVICE] = FIELD("service", KIND_TEXT),
    [FIELD_VM] = FIELD("vm", KIND_TEXT),
    [FIELD_NC] = FIELD("nc", KIND_TEXT),
    [FIELD_MAC] = FIELD("mac", KIND_TEXT),
    [FIELD_H_HOME] = FIELD("h_home", KIND_TEXT),
    [FIELD_HALF] = FIELD("half", KIND_TEXT),
    [FIELD_PRIORITY] = FIELD("priority", KIND_NUMBER),
    [FIELD_SRC] = FIELD("src", KIND_TEXT),
    [FIELD_DST] = FIELD("dst", KIND_TEXT),
    [FIELD_PROTO] = FIELD("proto", KIND_TEXT),
    [FIELD_SPORT] = FIELD("sport", KIND_TEXT),
    [FIELD_DPORT] = FIELD("dport", KIND_TEXT),
    [FIELD_ACTION] = FIELD("action", KIND_TEXT),
    [FIELD_COMMITTED_BPS] = FIELD("committed_bps", KIND_WIDE),
    [FIELD_PEAK_BPS] = FIELD("peak_bps", KIND_WIDE),
    [FIELD_COMMITTED_BURST] = FIELD("committed_burst", KIND_NUMBER),
    [FIELD_PEAK_BURST] = FIELD("peak_burst", KIND_NUMBER),
    [FIELD_RESERVED_ROUTES] = FIELD("reserved_routes", KIND_NUMBER),
    [FIELD_RESERVED_VMS] = FIELD("reserved_vms", KIND_NUMBER),
    [FIELD_RESERVED_BPS] = FIELD("reserved_bps", KIND_WIDE),
    [FIELD_RESERVED_PPS] = FIELD("reserved_pps", KIND_WIDE),
};

static const struct {
    const char *name;
    uint8_t bit;
} flag_types[] = {
    { "internet", VNI_INTERNET },
    { "acl", VNI_ACL },
    { "inner_vlan", VNI_INNER_VLAN },
};

enum { FLAG_COUNT = sizeof(flag_types) / sizeof(flag_types[0]) };

/* FIELD_COUNT when there is none of that name. */
static unsigned field_find(const char *name, size_t len)
{
    for (unsigned i = 0; i < FIELD_COUNT; i++) {
        if (field_types[i].name_len == len && field_types[i].name[0] == name[0] &&
            memcmp(field_types[i].name, name, len) == 0) {
            return i;
        }
    }
    return FIELD_COUNT;
}

/* What a person wrote as a field's name, fit for a message. */
static enum rc unknown_field(const char *name, size_t len, struct err *err)
{
    char shown[32];
    size_t n = len < sizeof(shown) - 1 ? len : sizeof(shown) - 1;

    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)name[i];

        shown[i] = c < 0x20 || c >= 0x7f ? '?' : (char)c;
    }
    shown[n] = '\0';
    return err_field(err, RC_INVALID, shown, "unknown_field", "'%s': no such field",
                     shown);
}

enum rc field_begin(struct fields *f, const char *name, size_t len, unsigned *ret_id,
                    struct err *err)
{
    unsigned id = field_find(name, len);

    if (id == FIELD_COUNT) {
        return unknown_field(name, len, err);
    }
    if (f->present >> id & 1) {
        return err_field(err, RC_INVALID, field_types[id].name, "repeated_field",
                         "%s: is there twice", field_types[id].name);
    }
    f->present |= 1u << id;
    *ret_id = id;
    return RC_OK;
}

enum rc field_read_number(enum field_id id, const char *p, size_t len, uint64_t *ret,
                          struct err *err)
{
    const uint64_t max =
        field_types[id].kind == KIND_WIDE ? FIELD_WIDE_MAX : UINT32_MAX;
    const char *name = field_types[id].name;
    uint64_t v = 0;

    for (size_t i = 0; i < len; i++) {
        if (p[i] < '0' || p[i] > '9') {
            len = 0; /* no number */
        } else if (v <= max) {
            v = v * 10 + (uint64_t)(p[i] - '0');
        }
    }
    if (len == 0 || (p[0] == '0' && len > 1)) {
        return err_field(err, RC_INVALID, name, "number",
                         "%s: not a decimal number without sign, fraction or leading "
                         "zeros",
                         name);
    }
    if (v > max) {
        return err_field(err, RC_RANGE, name, "number_range", "%s: more than %llu",
                         name, (unsigned long long)max);
    }
    *ret = v;
    return RC_OK;
}

enum rc field_read_flag(const char *p, size_t len, uint8_t *flags, struct err *err)
{
    for (unsigned i = 0; i < FLAG_COUNT; i++) {
        if (strlen(flag_types[i].name) != len ||
            memcmp(flag_types[i].name, p, len) != 0) {
            continue;
        }
        if (*flags & flag_types[i].bit) {
            return err_field(err, RC_INVALID, "flags", "flag_repeated",
                             "flags: %s is there twice", flag_types[i].name);
        }
        *flags |= flag_types[i].bit;
        return RC_OK;
    }
    return err_field(err, RC_INVALID, "flags", "flag_known",
                     "flags: not one of internet, acl, inner_vlan");
}

enum rc field_require(const struct fields *f, enum field_id id, struct err *err)
{
    if (!field_has(f, id)) {
        return err_field(err, RC_INVALID, field_types[id].name, "required",
                         "%s: missing", field_types[id].name);
    }
    return RC_OK;
}

enum rc field_blame(enum field_id id, enum rc code, struct err *err)
{
    if (err) {
        memcpy(err->field, field_types[id].name, field_types[id].name_len + 1u);
    }
    return err_wrap(err, code, "%s", field_types[id].name);
}

enum rc field_refuse(uint32_t mask, const char *where, struct err *err)
{
    const char *name = field_types[__builtin_ctz(mask)].name;

    return err_field(err, RC_INVALID, name, "unexpected_field", "%s: no field %s", name,
                     where);
}

enum rc field_read_ip(const struct fields *f, enum field_id id, struct ip *ret,
                      struct err *err)
{
    enum rc rc = field_require(f, id, err);

    if (rc != RC_OK) {
        return rc;
    }
    rc = ip_parse(f->text[id].p, f->text[id].len, ret, err);
    return rc ? field_blame(id, rc, err) : RC_OK;
}

enum rc field_read_prefix(const struct fields *f, enum field_id id, struct prefix *ret,
                          struct err *err)
{
    enum rc rc = field_require(f, id, err);

    if (rc != RC_OK) {
        return rc;
    }
    rc = prefix_parse(f->text[id].p, f->text[id].len, ret, err);
    return rc ? field_blame(id, rc, err) : RC_OK;
}

enum rc field_read_wide(const struct fields *f, enum field_id id, uint64_t *ret,
                        struct err *err)
{
    enum rc rc = field_require(f, id, err);

    if (rc == RC_OK) {
        *ret = f->number[id];
    }
    return rc;
}

enum rc field_read_u32(const struct fields *f, enum field_id id, uint32_t *ret,
                       struct err *err)
{
    uint64_t wide = 0;
    enum rc rc = field_read_wide(f, id, &wide, err);

    if (rc == RC_OK) {
        *ret = (uint32_t)wide;
    }
    return rc;
}

enum rc field_read_name(const struct fields *f, enum field_id id, char *to, size_t max,
                        struct err *err)
{
    const struct field_text *text = &f->text[id];
    enum rc rc = field_require(f, id, err);

    if (rc != RC_OK) {
        return rc;
    }
    if (text->len > max) {
        return err_field(err, RC_RANGE, field_types[id].name, "name_length",
                         "%s: longer than %zu bytes", field_types[id].name, max);
    }
    if (memchr(text->p, 0, text->len)) {
        return err_field(err, RC_INVALID, field_types[id].name, "name_text",
                         "%s: has a zero byte", field_types[id].name);
    }
    memcpy(to, text->p, text->len);
    to[text->len] = '\0';
    return RC_OK;
}

static enum rc read_op(const struct fields *f, enum entry_op *ret, struct err *err)
{
    const struct field_text *text = &f->text[FIELD_OP];

    if (!field_has(f, FIELD_OP) || (text->len == 3 && memcmp(text->p, "put", 3) == 0)) {
        *ret = ENTRY_PUT;
        return RC_OK;
    }
    if (text->len == 6 && memcmp(text->p, "delete", 6) == 0) {
        *ret = ENTRY_DELETE;
        return RC_OK;
    }
    return err_field(err, RC_INVALID, "op", "op_known", "op: not put or delete");
}

enum rc fields_to_entry(const struct fields *f, enum entry_op *ret_op,
                        struct entry *ret, struct err *err)
{
    const uint32_t common = 1u << FIELD_OP | 1u << FIELD_TABLE | 1u << FIELD_VNI;
    const struct table_type *type;
    struct entry e = { 0 };
    enum entry_op op = ENTRY_PUT;
    int table;
    uint32_t extra;
    enum rc rc;

    rc = field_require(f, FIELD_TABLE, err);
    if (rc == RC_OK) {
        rc = read_op(f, &op, err);
    }
    if (rc == RC_OK) {
        rc = field_read_u32(f, FIELD_VNI, &e.vni, err);
    }
    if (rc != RC_OK) {
        return rc;
    }
    table = table_parse(f->text[FIELD_TABLE].p, f->text[FIELD_TABLE].len);
    if (table < 0) {
        return err_field(
            err, RC_INVALID, "table", "table_known",
            "table: not one of tenant, vni, vxlan_route, vm_nc, acl, meter");
    }
    type = table_type_of((unsigned)table);
    e.table = (uint8_t)table;
    extra = f->present & ~(common | type->key_fields | type->value_fields);
    if (extra) {
        return field_refuse(extra, "of this table", err);
    }
    rc = type->read_key(f, &e, err);
    /* A delete may carry the value, as a record of what is deleted; it must be right.
     */
    if (rc == RC_OK && (op == ENTRY_PUT || f->present & type->value_fields)) {
        rc = type->read_value(f, &e, err);
        rc = rc ? rc : entry_check(&e, err);
    } else if (rc == RC_OK) {
        rc = entry_check_key(&e, err);
    }
    if (rc == RC_OK) {
        *ret_op = op;
        *ret = e;
    }
    return rc;
}

static void print_name(enum field_id id, struct buf *to)
{
    buf_add(to, ",\"", 2);
    buf_add(to, field_types[id].name, field_types[id].name_len);
    buf_add(to, "\":", 2);
}

void field_print_text(enum field_id id, const char *text, struct buf *to)
{
    print_name(id, to);
    buf_u8(to, '"');
    for (size_t plain; *text; text += plain) {
        plain = strcspn(text, "\"\\");
        buf_add(to, text, plain);
        if (text[plain]) { /* checked names have no control characters */
            buf_u8(to, '\\');
            buf_u8(to, (uint8_t)text[plain++]);
        }
    }
    buf_u8(to, '"');
}

void field_print_number(enum field_id id, uint64_t number, struct buf *to)
{
    char digits[20];
    unsigned at = sizeof(digits);

    do {
        digits[--at] = (char)('0' + number % 10);
        number /= 10;
    } while (number);
    print_name(id, to);
    buf_add(to, digits + at, sizeof(digits) - at);
}

void field_print_ip(enum field_id id, const struct ip *ip, struct buf *to)
{
    char text[IP_TEXT_MAX];

    ip_print(ip, text);
    field_print_text(id, text, to);
}

void field_print_prefix(enum field_id id, const struct prefix *p, struct buf *to)
{
    char text[PREFIX_TEXT_MAX];

    prefix_print(p, text);
    field_print_text(id, text, to);
}

void field_print_flags(uint8_t flags, struct buf *to)
{
    bool first = true;

    if (flags == 0) {
        return;
    }
    print_name(FIELD_FLAGS, to);
    for (unsigned i = 0; i < FLAG_COUNT; i++) {
        if (flags & flag_types[i].bit) {
            buf_text(to, first ? "[\"" : ",\"");
            buf_text(to, flag_types[i].name);
            buf_u8(to, '"');
            first = false;
        }
    }
    buf_u8(to, ']');
}

void entry_print_json(const struct entry *e, enum entry_op op, struct buf *to)
{
    const struct table_type *type = table_type_of(e->table);

    buf_text(to,
             op == ENTRY_DELETE ? "{\"op\":\"delete\",\"table\":\"" : "{\"table\":\"");
    buf_text(to, type->name);
    buf_u8(to, '"');
    field_print_number(FIELD_VNI, e->vni, to);
    type->print_key(e, to);
    if (op == ENTRY_PUT) {
        type->print_value(e, to);
    }
    buf_u8(to, '}');
}
