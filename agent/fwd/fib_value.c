#include "agent/fwd/fib_impl.h"

static uint32_t be32(const uint8_t *p)
{
    uint32_t v;

    memcpy(&v, p, sizeof v);
    return __builtin_bswap32(v);
}

static uint64_t be64(const uint8_t *p)
{
    uint64_t v;

    memcpy(&v, p, sizeof v);
    return __builtin_bswap64(v);
}

/* ---- keys ---- */

static enum rc addr_parse(struct reader *in, struct fib_key *ret)
{
    unsigned family = read_u8(in);
    const uint8_t *p = read_bytes(in, family == IP_V4 ? 4 : 16);

    if (!p || (family != IP_V4 && family != IP_V6)) {
        return RC_INVALID;
    }
    *ret = (struct fib_key){ .is_v6 = family == IP_V6 };
    if (family == IP_V4) {
        ret->addr.hi = (uint64_t)be32(p) << 32;
    } else {
        ret->addr = (struct lpm_addr){ be64(p), be64(p + 8) };
    }
    return RC_OK;
}

enum rc route_key_parse(const uint8_t *key, uint8_t key_len, struct fib_key *ret)
{
    struct reader in = reader_of(key, key_len);
    struct fib_key k;

    if (addr_parse(&in, &k)) {
        return RC_INVALID;
    }
    k.len = read_u8(&in);
    if (in.failed || reader_left(&in) > 0 || k.len > (k.is_v6 ? 128 : 32)) {
        return RC_INVALID;
    }
    *ret = k;
    return RC_OK;
}

enum rc vm_key_parse(const uint8_t *key, uint8_t key_len, struct fib_key *ret)
{
    struct reader in = reader_of(key, key_len);
    struct fib_key k;

    if (addr_parse(&in, &k) || reader_left(&in) > 0) {
        return RC_INVALID;
    }
    *ret = k;
    return RC_OK;
}

/* ---- VM-NC values ---- */

enum rc nc_parse(const struct row *row, struct nc_value *ret)
{
    struct reader in = reader_of(row->value, row->value_len);
    struct nc_value v = { .family = read_u8(&in) };
    unsigned size = v.family == IP_V4 ? 4 : 16;
    const uint8_t *addr = read_bytes(&in, size);
    const uint8_t *mac;

    v.has_mac = read_u8(&in);
    mac = v.has_mac ? read_bytes(&in, sizeof v.mac) : NULL;
    if (in.failed || reader_left(&in) > 0 || v.has_mac > 1 ||
        (v.family != IP_V4 && v.family != IP_V6) ||
        (v.family == IP_V4 && (addr[0] & 0xf0) == 0xe0)) {
        return RC_INVALID;
    }
    memcpy(v.addr, addr, size);
    if (mac) {
        memcpy(v.mac, mac, sizeof v.mac);
    }
    *ret = v;
    return RC_OK;
}

enum rc nc_acquire(struct fib *f, const struct nc_value *v, uint32_t *ret_code)
{
    uint32_t index;

    if (v->family == IP_V4 && !v->has_mac) {
        *ret_code = be32(v->addr);
        return RC_OK;
    }
    index = pool_acquire(&f->ncs, v);
    if (index == POOL_NONE) {
        return RC_NO_MEMORY;
    }
    *ret_code = NC_POOLED | index;
    return RC_OK;
}

void nc_release(struct fib *f, uint32_t code)
{
    if ((code & NC_POOLED_MASK) == NC_POOLED && nc_is_sound(f, code) &&
        pool_release(&f->ncs, code & NC_INDEX_MASK)) {
        retire_add(&f->retire, RETIRED_NC, code & NC_INDEX_MASK, 0);
    }
}

struct nc_value nc_decode(const struct fib *f, uint32_t code)
{
    struct nc_value v = { .family = IP_V4 };
    uint32_t be = __builtin_bswap32(code);

    if ((code & NC_POOLED_MASK) == NC_POOLED) {
        return *(const struct nc_value *)pool_value(&f->ncs, code & NC_INDEX_MASK);
    }
    memcpy(v.addr, &be, sizeof be);
    return v;
}

void nc_pack(const struct nc_value *v, struct buf *to)
{
    buf_u8(to, v->family);
    buf_add(to, v->addr, v->family == IP_V4 ? 4 : 16);
    buf_u8(to, v->has_mac);
    if (v->has_mac) {
        buf_add(to, v->mac, sizeof v->mac);
    }
}

/* ---- route actions ---- */

/* A packed route value, taken apart. */
struct action_value {
    uint8_t scope;
    uint32_t peer;
    struct tunnel_value tunnel;
    struct service_value service;
};

static enum rc action_parse(const struct row *row, struct action_value *ret)
{
    struct reader in = reader_of(row->value, row->value_len);
    struct action_value v = { .scope = read_u8(&in) };
    const uint8_t *p;
    unsigned size;

    switch (v.scope) {
    case SCOPE_LOCAL:
    case SCOPE_INTERNET:
        break;
    case SCOPE_PEER:
        v.peer = read_u24(&in);
        break;
    case SCOPE_IDC:
    case SCOPE_REGION:
    case SCOPE_DERIVED:
        v.tunnel.scope = v.scope;
        v.tunnel.family = read_u8(&in);
        if (v.tunnel.family != IP_V4 && v.tunnel.family != IP_V6) {
            return RC_INVALID;
        }
        size = v.tunnel.family == IP_V4 ? 4 : 16;
        p = read_bytes(&in, size);
        if (!p) {
            return RC_INVALID;
        }
        memcpy(v.tunnel.addr, p, size);
        v.tunnel.vni = read_u24(&in);
        break;
    case SCOPE_SERVICE:
        size = read_u8(&in);
        p = read_bytes(&in, size);
        if (!p || size == 0 || size > SERVICE_NAME_MAX) {
            return RC_INVALID;
        }
        memcpy(v.service.name, p, size);
        break;
    default:
        return RC_INVALID;
    }
    if (in.failed || reader_left(&in) > 0) {
        return RC_INVALID;
    }
    *ret = v;
    return RC_OK;
}

/* The code of an action that needs no pool; false for the others. */
static bool action_plain(const struct action_value *v, uint32_t *ret)
{
    switch (v->scope) {
    case SCOPE_LOCAL:
        *ret = action_of(ACTION_PLAIN, ACTION_LOCAL);
        return true;
    case SCOPE_INTERNET:
        *ret = action_of(ACTION_PLAIN, ACTION_INTERNET);
        return true;
    case SCOPE_PEER:
        *ret = action_of(ACTION_PEER, v->peer);
        return true;
    default:
        return false;
    }
}

enum rc action_find(const struct fib *f, const struct row *row, uint32_t *ret)
{
    struct action_value v;
    uint32_t index;

    if (action_parse(row, &v)) {
        return RC_INVALID;
    }
    if (action_plain(&v, ret)) {
        return RC_OK;
    }
    index = v.scope == SCOPE_SERVICE ? pool_find(&f->services, &v.service)
                                     : pool_find(&f->tunnels, &v.tunnel);
    if (index == POOL_NONE) {
        return RC_NOT_FOUND;
    }
    *ret = action_of(v.scope == SCOPE_SERVICE ? ACTION_SERVICE : ACTION_TUNNEL, index);
    return RC_OK;
}

enum rc action_acquire(struct fib *f, const struct row *row, uint32_t *ret)
{
    struct action_value v;
    uint32_t index;

    if (action_parse(row, &v)) {
        return RC_INVALID;
    }
    if (action_plain(&v, ret)) {
        return RC_OK;
    }
    index = v.scope == SCOPE_SERVICE ? pool_acquire(&f->services, &v.service)
                                     : pool_acquire(&f->tunnels, &v.tunnel);
    if (index == POOL_NONE) {
        return RC_NO_MEMORY;
    }
    *ret = action_of(v.scope == SCOPE_SERVICE ? ACTION_SERVICE : ACTION_TUNNEL, index);
    return RC_OK;
}

static struct pool *pool_of(struct fib *f, uint32_t action)
{
    switch (action >> 24) {
    case ACTION_TUNNEL:
        return &f->tunnels;
    case ACTION_SERVICE:
        return &f->services;
    default:
        return NULL;
    }
}

void action_release(struct fib *f, uint32_t action)
{
    struct pool *pool = pool_of(f, action);
    uint32_t index = action & ACTION_PAYLOAD;

    if (pool && pool_release(pool, index)) {
        retire_add(&f->retire, pool == &f->tunnels ? RETIRED_TUNNEL : RETIRED_SERVICE,
                   index, 0);
    }
}

void action_undo(struct fib *f, uint32_t action)
{
    struct pool *pool = pool_of(f, action);

    if (pool && pool_release(pool, action & ACTION_PAYLOAD)) {
        pool_reuse(pool, action & ACTION_PAYLOAD);
    }
}

void action_pack(const struct fib *f, uint32_t action, struct buf *to)
{
    uint32_t payload = action & ACTION_PAYLOAD;
    const struct tunnel_value *tunnel;
    const struct service_value *service;

    switch (action >> 24) {
    case ACTION_PEER:
        buf_u8(to, SCOPE_PEER);
        buf_u24(to, payload);
        break;
    case ACTION_TUNNEL:
        tunnel = pool_value(&f->tunnels, payload);
        buf_u8(to, tunnel->scope);
        buf_u8(to, tunnel->family);
        buf_add(to, tunnel->addr, tunnel->family == IP_V4 ? 4 : 16);
        buf_u24(to, tunnel->vni);
        break;
    case ACTION_SERVICE:
        service = pool_value(&f->services, payload);
        buf_u8(to, SCOPE_SERVICE);
        buf_u8(to, (uint8_t)strlen(service->name));
        buf_text(to, service->name);
        break;
    default:
        buf_u8(to, payload == ACTION_LOCAL ? SCOPE_LOCAL : SCOPE_INTERNET);
    }
}
