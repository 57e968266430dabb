#include "tests/unit/agent/xgwh/soft.h"

#include <stdlib.h>
#include <string.h>

struct soft *soft_new(const struct phys_sizes *sizes, unsigned halves)
{
    struct soft *s = calloc(1, sizeof(*s));

    if (s) {
        s->sizes = sizes;
        s->halves = halves;
    }
    return s;
}

void soft_free(struct soft *s)
{
    for (unsigned half = 0; s && half < 2; half++) {
        for (unsigned t = 0; t < PHYS_TABLES; t++) {
            free(s->tables[half][t].at);
        }
    }
    free(s);
}

/* ---- writing ---- */

static uint64_t field(const uint8_t *bytes, const struct phys_field *f)
{
    uint64_t v = 0;

    for (unsigned i = 0; i < (f->bits + 7u) / 8u; i++) {
        v = v << 8 | bytes[f->offset + i];
    }
    return v;
}

uint64_t soft_key(const struct phys_entry *e, unsigned i)
{
    return field(e->key, &phys_table_desc((enum phys_table)e->table)->fields[i]);
}

uint64_t soft_param(const struct phys_entry *e, unsigned i)
{
    return field(e->data, &phys_action_desc((enum phys_action)e->action)->params[i]);
}

static bool is_same_entry(const struct phys_entry *a, const struct phys_entry *b)
{
    return memcmp(a->key, b->key, sizeof(a->key)) == 0 &&
           memcmp(a->mask, b->mask, sizeof(a->mask)) == 0 && a->priority == b->priority;
}

static bool is_zero(const uint8_t *p, size_t len)
{
    while (len > 0 && p[len - 1] == 0) {
        len--;
    }
    return len == 0;
}

static const char *check_entry(const struct phys_write *w)
{
    const struct phys_entry *e = &w->entry;
    const struct phys_table_desc *d = phys_table_desc((enum phys_table)e->table);
    bool is_known = w->op == PHYS_DELETE;

    if (d->has_priority != (e->priority > 0)) {
        return "priority where none belongs, or none";
    }
    for (unsigned i = 0; i < sizeof(e->key); i++) {
        if (e->key[i] & ~e->mask[i]) {
            return "key outside its mask";
        }
    }
    for (unsigned i = 0; i < d->field_count; i++) {
        uint64_t ones = d->fields[i].bits >= 64
                            ? ~UINT64_C(0)
                            : (UINT64_C(1) << d->fields[i].bits) - 1;

        if (d->fields[i].match == PHYS_EXACT && field(e->mask, &d->fields[i]) != ones) {
            return "an exact field whose mask is not whole";
        }
        if (field(e->key, &d->fields[i]) > ones) {
            return "a key wider than its field";
        }
    }
    if (!is_zero(e->key + d->key_len, sizeof(e->key) - d->key_len)) {
        return "bytes behind the key";
    }
    for (unsigned i = 0; i < d->action_count; i++) {
        is_known |= d->actions[i] == e->action;
    }
    if (!is_known) {
        return "an action that the table does not have";
    }
    if (w->op == PHYS_DELETE &&
        (e->action != 0 || !is_zero(e->data, sizeof(e->data)))) {
        return "a delete with an action";
    }
    return NULL;
}

/* What the table takes; hash tables not to the brim. */
static unsigned limit_of(const struct soft *s, enum phys_table t)
{
    switch (t) {
    case PHYS_VNI:
    case PHYS_VM_NC:
    case PHYS_VM_NC_SPILL:
    case PHYS_VM_NC_CONFLICT:
        return (unsigned)((uint64_t)s->sizes->table[t] * s->sizes->hash_load / 1000);
    default:
        return s->sizes->table[t];
    }
}

static const char *check_partition(const struct soft *s, const struct soft_table *t,
                                   const struct phys_entry *e)
{
    unsigned n = 0;

    for (unsigned i = 0; i < t->count; i++) {
        n += soft_key(&t->at[i], 0) == soft_key(e, 0);
    }
    if (soft_key(e, 0) == PHYS_PART_NONE || soft_key(e, 0) >= s->sizes->partitions) {
        return "a partition that is none";
    }
    return n >= s->sizes->partition_slots ? "a full partition" : NULL;
}

const char *soft_write(struct soft *s, unsigned half, const struct phys_write *w)
{
    struct soft_table *t = &s->tables[half][w->entry.table];
    const char *wrong = check_entry(w);
    unsigned i = 0;

    if (wrong) {
        return wrong;
    }
    while (i < t->count && !is_same_entry(&t->at[i], &w->entry)) {
        i++;
    }
    if (w->op == PHYS_INSERT) {
        if (i < t->count) {
            return "ALREADY_EXISTS";
        }
        if (t->count >= limit_of(s, (enum phys_table)w->entry.table)) {
            return "RESOURCE_EXHAUSTED";
        }
        wrong =
            w->entry.table == PHYS_ROUTE_PART ? check_partition(s, t, &w->entry) : NULL;
        if (wrong) {
            return wrong;
        }
        if (t->count == t->cap) {
            t->cap = t->cap ? 2 * t->cap : 64;
            t->at = realloc(t->at, t->cap * sizeof(*t->at));
        }
        t->at[t->count++] = w->entry;
    } else if (i == t->count) {
        return "NOT_FOUND";
    } else if (w->op == PHYS_MODIFY) {
        t->at[i] = w->entry;
    } else {
        t->at[i] = t->at[--t->count];
    }
    return NULL;
}

/* ---- looking up ---- */

static const struct phys_entry *match(const struct soft *s, unsigned half,
                                      enum phys_table table, const uint8_t *key)
{
    const struct soft_table *t = &s->tables[half][table];
    const unsigned len = phys_table_desc(table)->key_len;
    const struct phys_entry *best = NULL;

    for (unsigned i = 0; i < t->count; i++) {
        const struct phys_entry *e = &t->at[i];
        unsigned k = 0;

        while (k < len && (key[k] & e->mask[k]) == e->key[k]) {
            k++;
        }
        if (k == len && (!best || e->priority > best->priority)) {
            best = e;
        }
    }
    return best;
}

static void put(uint8_t *to, unsigned bytes, uint64_t v)
{
    while (bytes-- > 0) {
        to[bytes] = (uint8_t)v;
        v >>= 8;
    }
}

static void pool(uint8_t to[16], const struct ip *ip)
{
    memset(to, 0, 16);
    if (ip->family == IP_V6) {
        memcpy(to, ip->b, 16);
    } else {
        to[10] = to[11] = 0xff;
        memcpy(to + 12, ip->b, 4);
    }
}

static struct ip nc_of(const struct soft *s, unsigned half, uint64_t index,
                       bool *ret_dangling)
{
    uint8_t key[3];
    const struct phys_entry *e;
    struct ip ip = { 0 };

    put(key, 3, index);
    e = match(s, half, PHYS_NC, key);
    if (!e || index % PHYS_NC6_FIRST < PHYS_NC_RESERVED) {
        *ret_dangling = true;
        return ip;
    }
    ip.family = e->action == PHYS_NC4 ? IP_V4 : IP_V6;
    memcpy(ip.b, e->data, ip_size(&ip));
    if ((ip.family == IP_V6) != (index >= PHYS_NC6_FIRST)) {
        *ret_dangling = true;
    }
    return ip;
}

struct soft_route soft_route(const struct soft *s, unsigned half, uint32_t vni,
                             const struct ip *dst)
{
    uint8_t key[21];
    const struct phys_entry *row;
    const struct phys_entry *slot;
    struct soft_route r = { .kind = SOFT_MISS };
    bool is_dangling = false;
    unsigned scope = PHYS_SCOPE_MISS;
    uint64_t idx = 0;

    put(key, 3, vni);
    pool(key + 3, dst);
    row = match(s, half, PHYS_ROUTE_TCAM, key);
    if (!row) {
        return r;
    }
    memmove(key + 2, key, 19);
    put(key, 2, soft_param(row, 0));
    slot = match(s, half, PHYS_ROUTE_PART, key);
    if (!slot) {
        scope = (unsigned)soft_param(row, 1);
        r.vni = (uint32_t)soft_param(row, 2);
        idx = soft_param(row, 3);
    } else if (slot->action == PHYS_LOCAL) {
        scope = PHYS_SCOPE_LOCAL;
        r.vni = vni;
    } else if (slot->action == PHYS_TO_X86) {
        scope = PHYS_SCOPE_FALLBACK;
        idx = soft_param(slot, 0);
    } else {
        scope = slot->action == PHYS_PEER ? PHYS_SCOPE_PEER : PHYS_SCOPE_TUNNEL;
        r.vni = (uint32_t)soft_param(slot, 0);
        idx = soft_param(slot, 1);
    }
    switch (scope) {
    case PHYS_SCOPE_LOCAL:
        r.kind = r.vni == vni ? SOFT_LOCAL : SOFT_DANGLING;
        r.vni = 0;
        break;
    case PHYS_SCOPE_PEER:
        r.kind = SOFT_PEER;
        r.half = (uint32_t)idx;
        break;
    case PHYS_SCOPE_TUNNEL:
        r.kind = SOFT_TUNNEL;
        r.nc = nc_of(s, half, idx, &is_dangling);
        break;
    case PHYS_SCOPE_FALLBACK:
        r.kind = idx == PHYS_CLASS_SERVICE ? SOFT_X86 : SOFT_MISS;
        r.vni = 0;
        break;
    default:
        r = (struct soft_route){ .kind = SOFT_MISS };
    }
    if (is_dangling) {
        r.kind = SOFT_DANGLING;
    }
    return r;
}

struct ip soft_vm(const struct soft *s, unsigned half, uint32_t vni,
                  const struct ip *vm, bool *ret_dangling)
{
    uint8_t wide[19];
    uint8_t key[8];
    bool is_v6 = vm->family == IP_V6;
    const struct phys_entry *e;

    put(wide, 3, vni);
    pool(wide + 3, vm);
    put(key, 3, vni);
    key[3] = is_v6;
    if (is_v6) {
        put(key + 4, 4, soft_crc32(vm->b, 16));
    } else {
        memcpy(key + 4, vm->b, 4);
    }
    e = match(s, half, PHYS_VM_NC_CONFLICT, wide);
    e = e ? e : match(s, half, PHYS_VM_NC, key);
    e = e ? e : match(s, half, PHYS_VM_NC_SPILL, key);
    if (!e) {
        return (struct ip){ 0 };
    }
    return nc_of(s, half, soft_param(e, 0), ret_dangling);
}

bool soft_vni(const struct soft *s, unsigned half, uint32_t vni, unsigned *ret_flags,
              unsigned *ret_half, unsigned *ret_meter)
{
    uint8_t key[3];
    const struct phys_entry *e;

    put(key, 3, vni);
    e = match(s, half, PHYS_VNI, key);
    if (e) {
        *ret_flags = (unsigned)soft_param(e, 0);
        *ret_half = (unsigned)soft_param(e, 1);
        *ret_meter = (unsigned)soft_param(e, 2);
    }
    return e != NULL;
}

bool soft_permits(const struct soft *s, unsigned half, uint32_t vni,
                  const struct soft_packet *p)
{
    uint8_t key[41];
    const struct phys_entry *e;

    put(key, 3, vni);
    pool(key + 3, &p->src);
    pool(key + 19, &p->dst);
    key[35] = p->proto;
    put(key + 36, 2, p->has_ports ? p->sport : 0);
    put(key + 38, 2, p->has_ports ? p->dport : 0);
    key[40] = p->has_ports;
    e = match(s, half, PHYS_ACL, key);
    return !e || e->action == PHYS_PERMIT;
}

uint32_t soft_crc32(const uint8_t *bytes, unsigned len)
{
    uint32_t crc = 0xffffffff;

    for (unsigned i = 0; i < len; i++) {
        crc ^= bytes[i];
        for (unsigned k = 0; k < 8; k++) {
            crc = crc & 1 ? crc >> 1 ^ 0xedb88320 : crc >> 1;
        }
    }
    return ~crc;
}
