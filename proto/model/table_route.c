/* vxlan_route: where traffic to an inner prefix goes. */
#include <string.h>

#include "proto/model/name.h"
#include "proto/model/table_type.h"

/* What a scope carries beside itself. */
enum { CARRY_NOTHING, CARRY_PEER, CARRY_ENDPOINT, CARRY_SERVICE };

static const struct {
    const char *name;
    uint8_t carries;
} scopes[SCOPE_COUNT] = {
    [SCOPE_LOCAL] = { "local", CARRY_NOTHING },
    [SCOPE_PEER] = { "peer", CARRY_PEER },
    [SCOPE_INTERNET] = { "internet", CARRY_NOTHING },
    [SCOPE_IDC] = { "idc", CARRY_ENDPOINT },
    [SCOPE_REGION] = { "region", CARRY_ENDPOINT },
    [SCOPE_SERVICE] = { "service", CARRY_SERVICE },
    [SCOPE_DERIVED] = { "derived", CARRY_ENDPOINT },
    [SCOPE_FALLBACK] = { "fallback", CARRY_NOTHING },
};

static bool scope_is_known(unsigned scope)
{
    return scope >= SCOPE_LOCAL && scope < SCOPE_COUNT;
}

const char *scope_name(enum route_scope scope)
{
    return scope_is_known(scope) ? scopes[scope].name : "unknown";
}

int scope_parse(const char *name, size_t len)
{
    for (int i = SCOPE_LOCAL; i < SCOPE_COUNT; i++) {
        if (strlen(scopes[i].name) == len && memcmp(scopes[i].name, name, len) == 0) {
            return i;
        }
    }
    return -1;
}

static enum rc prefix_check(const struct entry *e, struct err *err)
{
    return check_prefix(&e->route.dst, "prefix", err);
}

static enum rc peer_check(const struct entry *e, struct err *err)
{
    enum rc rc = check_vni(e->route.action.vni, "peer_vni", err);

    if (rc == RC_OK && e->route.action.vni == e->vni) {
        return err_field(err, RC_INVALID, "peer_vni", "peer_self",
                         "peer_vni %u: a VNI is no peer of itself", e->vni);
    }
    return rc;
}

static enum rc action_check(const struct entry *e, struct err *err)
{
    const struct route_action *a = &e->route.action;
    enum rc rc;

    if (!scope_is_known(a->scope)) {
        return err_field(err, RC_INVALID, "scope", "scope_known", "scope %u: no such",
                         a->scope);
    }
    switch (scopes[a->scope].carries) {
    case CARRY_PEER:
        return peer_check(e, err);
    case CARRY_ENDPOINT:
        rc = check_machine_address(&a->endpoint, "endpoint", err);
        return rc ? rc : check_vni(a->vni, "endpoint_vni", err);
    case CARRY_SERVICE:
        return name_check(a->service, SERVICE_NAME_MAX, "service", err);
    default:
        return RC_OK;
    }
}

static void prefix_pack(const struct entry *e, struct buf *to)
{
    pack_ip(&e->route.dst.addr, to);
    buf_u8(to, e->route.dst.len);
}

static void action_pack(const struct entry *e, struct buf *to)
{
    const struct route_action *a = &e->route.action;

    buf_u8(to, a->scope);
    switch (scopes[a->scope].carries) {
    case CARRY_PEER:
        buf_u24(to, a->vni);
        break;
    case CARRY_ENDPOINT:
        pack_ip(&a->endpoint, to);
        buf_u24(to, a->vni);
        break;
    case CARRY_SERVICE:
        pack_name(a->service, to);
        break;
    default:
        break;
    }
}

static bool prefix_unpack(struct reader *from, struct entry *ret)
{
    if (!unpack_ip(from, &ret->route.dst.addr)) {
        return false;
    }
    ret->route.dst.len = read_u8(from);
    return true;
}

static bool action_unpack(struct reader *from, struct entry *ret)
{
    struct route_action *a = &ret->route.action;

    a->scope = read_u8(from);
    if (!scope_is_known(a->scope)) {
        return false;
    }
    switch (scopes[a->scope].carries) {
    case CARRY_PEER:
        a->vni = read_u24(from);
        return true;
    case CARRY_ENDPOINT:
        if (!unpack_ip(from, &a->endpoint)) {
            return false;
        }
        a->vni = read_u24(from);
        return true;
    case CARRY_SERVICE:
        return unpack_name(from, a->service, SERVICE_NAME_MAX);
    default:
        return true;
    }
}

static size_t prefix_size(const uint8_t *p, size_t avail)
{
    size_t ip = tagged_ip_size(p, avail);

    return ip == SIZE_MALFORMED ? ip : ip + 1;
}

static size_t action_size(const uint8_t *p, size_t avail)
{
    size_t ip;

    if (avail == 0 || !scope_is_known(p[0])) {
        return SIZE_MALFORMED;
    }
    switch (scopes[p[0]].carries) {
    case CARRY_PEER:
        return 4;
    case CARRY_ENDPOINT:
        ip = tagged_ip_size(p + 1, avail - 1);
        return ip == SIZE_MALFORMED ? ip : 1 + ip + 3;
    case CARRY_SERVICE:
        return avail < 2 || p[1] > SERVICE_NAME_MAX ? SIZE_MALFORMED : 2u + p[1];
    default:
        return 1;
    }
}

static enum rc prefix_read(const struct fields *f, struct entry *ret, struct err *err)
{
    return field_read_prefix(f, FIELD_PREFIX, &ret->route.dst, err);
}

static enum rc endpoint_read(const struct fields *f, struct route_action *a,
                             struct err *err)
{
    enum rc rc = field_read_ip(f, FIELD_ENDPOINT, &a->endpoint, err);

    return rc ? rc : field_read_u32(f, FIELD_ENDPOINT_VNI, &a->vni, err);
}

/* The fields that each kind of scope may have beside `scope`. */
static const uint32_t carried_fields[] = {
    [CARRY_NOTHING] = 0,
    [CARRY_PEER] = 1u << FIELD_PEER_VNI,
    [CARRY_ENDPOINT] = 1u << FIELD_ENDPOINT | 1u << FIELD_ENDPOINT_VNI,
    [CARRY_SERVICE] = 1u << FIELD_SERVICE,
};

enum {
    ALL_CARRIED = 1u << FIELD_PEER_VNI | 1u << FIELD_ENDPOINT |
                  1u << FIELD_ENDPOINT_VNI | 1u << FIELD_SERVICE
};

static enum rc action_read(const struct fields *f, struct entry *ret, struct err *err)
{
    struct route_action *a = &ret->route.action;
    const struct field_text *text = &f->text[FIELD_SCOPE];
    enum rc rc = field_require(f, FIELD_SCOPE, err);
    int scope;
    uint32_t extra;

    if (rc != RC_OK) {
        return rc;
    }
    scope = scope_parse(text->p, text->len);
    if (scope < 0) {
        return err_field(err, RC_INVALID, "scope", "scope_known",
                         "scope: not one of local, peer, internet, idc, region, "
                         "service, derived, fallback");
    }
    a->scope = (uint8_t)scope;
    extra = f->present & ALL_CARRIED & ~carried_fields[scopes[scope].carries];
    if (extra) {
        return field_refuse(extra, "of this scope", err);
    }
    switch (scopes[scope].carries) {
    case CARRY_PEER:
        return field_read_u32(f, FIELD_PEER_VNI, &a->vni, err);
    case CARRY_ENDPOINT:
        return endpoint_read(f, a, err);
    case CARRY_SERVICE:
        return field_read_name(f, FIELD_SERVICE, a->service, SERVICE_NAME_MAX, err);
    default:
        return RC_OK;
    }
}

static void prefix_print_field(const struct entry *e, struct buf *to)
{
    field_print_prefix(FIELD_PREFIX, &e->route.dst, to);
}

static void action_print(const struct entry *e, struct buf *to)
{
    const struct route_action *a = &e->route.action;

    field_print_text(FIELD_SCOPE, scope_name(a->scope), to);
    switch (scopes[a->scope].carries) {
    case CARRY_PEER:
        field_print_number(FIELD_PEER_VNI, a->vni, to);
        break;
    case CARRY_ENDPOINT:
        field_print_ip(FIELD_ENDPOINT, &a->endpoint, to);
        field_print_number(FIELD_ENDPOINT_VNI, a->vni, to);
        break;
    case CARRY_SERVICE:
        field_print_text(FIELD_SERVICE, a->service, to);
        break;
    default:
        break;
    }
}

const struct table_type table_route = {
    .name = "vxlan_route",
    .check_key = prefix_check,
    .check_value = action_check,
    .pack_key = prefix_pack,
    .pack_value = action_pack,
    .unpack_key = prefix_unpack,
    .unpack_value = action_unpack,
    .key_size = prefix_size,
    .value_size = action_size,
    .key_fields = 1u << FIELD_PREFIX,
    .value_fields = 1u << FIELD_SCOPE | ALL_CARRIED,
    .read_key = prefix_read,
    .read_value = action_read,
    .print_key = prefix_print_field,
    .print_value = action_print,
};
