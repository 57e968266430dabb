#include "tests/unit/agent/xgwh/rig.h"

#include <string.h>

#define ROWS_LOOKED_AT 12 /* of a batch, after every write: enough, and not all day */

uint32_t rig_random(struct rig *r, uint32_t below)
{
    r->seed = r->seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)((r->seed >> 33) % below);
}

/* ---- the model ---- */

static bool is_same_key(const struct entry *a, const struct entry *b)
{
    if (a->table != b->table || a->vni != b->vni) {
        return false;
    }
    switch (a->table) {
    case TABLE_VXLAN_ROUTE:
        return prefix_compare(&a->route.dst, &b->route.dst) == 0;
    case TABLE_VM_NC:
        return ip_compare(&a->vm_nc.vm, &b->vm_nc.vm) == 0;
    case TABLE_ACL:
        return a->acl.priority == b->acl.priority &&
               memcmp(&a->acl.match, &b->acl.match, sizeof(a->acl.match)) == 0;
    default:
        return true;
    }
}

const struct entry *model_find(const struct model *m, const struct entry *key)
{
    for (unsigned i = 0; i < m->count; i++) {
        if (is_same_key(&m->at[i], key)) {
            return &m->at[i];
        }
    }
    return NULL;
}

void model_put(struct model *m, const struct entry *e)
{
    struct entry *old = (struct entry *)model_find(m, e);

    if (old) {
        *old = *e;
        return;
    }
    if (m->count == m->cap) {
        m->cap = m->cap ? 2 * m->cap : 64;
        m->at = realloc(m->at, m->cap * sizeof(*m->at));
    }
    m->at[m->count++] = *e;
}

static void model_delete(struct model *m, const struct entry *e)
{
    struct entry *old = (struct entry *)model_find(m, e);

    if (old) {
        *old = m->at[--m->count];
    }
}

static struct soft_route model_route(const struct model *m, uint32_t vni,
                                     const struct ip *dst)
{
    const struct entry *best = NULL;
    struct soft_route a = { .kind = SOFT_MISS };

    for (unsigned i = 0; i < m->count; i++) {
        const struct entry *e = &m->at[i];

        if (e->table == TABLE_VXLAN_ROUTE && e->vni == vni &&
            prefix_contains(&e->route.dst, dst) &&
            (!best || e->route.dst.len > best->route.dst.len)) {
            best = e;
        }
    }
    if (!best) {
        return a;
    }
    switch (best->route.action.scope) {
    case SCOPE_LOCAL:
        a.kind = SOFT_LOCAL;
        break;
    case SCOPE_PEER:
        a.kind = SOFT_PEER;
        a.vni = best->route.action.vni;
        break;
    case SCOPE_IDC:
    case SCOPE_REGION:
    case SCOPE_DERIVED:
        a.kind = SOFT_TUNNEL;
        a.vni = best->route.action.vni;
        a.nc = best->route.action.endpoint;
        break;
    default:
        a.kind = SOFT_X86;
    }
    return a;
}

static struct ip model_vm(const struct model *m, uint32_t vni, const struct ip *vm)
{
    struct entry key = { .table = TABLE_VM_NC, .vni = vni, .vm_nc.vm = *vm };
    const struct entry *e = model_find(m, &key);

    return e ? e->vm_nc.nc : (struct ip){ 0 };
}

/* ---- comparing ---- */

static bool same_route(const struct soft_route *a, const struct soft_route *b)
{
    return a->kind == b->kind && a->vni == b->vni && ip_compare(&a->nc, &b->nc) == 0;
}

/* Where a packet to the address goes now: as the switch says, if it knows the VNI.  Of
 * one that moves, unknown to the switch, nobody can say. */
static bool half_now(const struct rig *r, uint32_t vni, const struct ip *dst,
                     unsigned *ret_half)
{
    unsigned flags;
    unsigned place;
    unsigned meter;

    if (!soft_vni(r->soft, 0, vni, &flags, &place, &meter)) {
        place = r->halves == 1 ? 0 : r->places[vni];
        if (r->places[vni] != r->next_places[vni]) {
            return false;
        }
    }
    *ret_half = place == PHYS_HALF_BY_DST ? dst->b[ip_size(dst) - 1] & 1 : place;
    return true;
}

/* An address that no row has may hit the key of one that has. */
static bool is_strangers(const struct model *m, uint32_t vni, const struct ip *vm,
                         const struct ip *nc)
{
    for (unsigned i = 0; vm->family == IP_V6 && i < m->count; i++) {
        const struct entry *e = &m->at[i];

        if (e->table == TABLE_VM_NC && e->vni == vni && e->vm_nc.vm.family == IP_V6 &&
            soft_crc32(e->vm_nc.vm.b, 16) == soft_crc32(vm->b, 16) &&
            ip_compare(&e->vm_nc.nc, nc) == 0) {
            return true;
        }
    }
    return false;
}

/* The answers for one address of one VNI, against one or two models. */
static void check_address(struct rig *r, uint32_t vni, const struct ip *ip,
                          const struct model *a, const struct model *b)
{
    unsigned half;
    struct soft_route is;
    struct soft_route old = model_route(a, vni, ip);
    struct soft_route new = model_route(b, vni, ip);
    bool is_dangling = false;
    struct ip nc;
    struct ip old_nc = model_vm(a, vni, ip);
    struct ip new_nc = model_vm(b, vni, ip);
    bool is_known = old_nc.family != IP_NONE && new_nc.family != IP_NONE;

    if (!half_now(r, vni, ip, &half)) {
        return;
    }
    is = soft_route(r->soft, half, vni, ip);
    nc = soft_vm(r->soft, half, vni, ip, &is_dangling);
    r->lookups++;
    if (!same_route(&is, &old) && !same_route(&is, &new)) {
        char text[IP_TEXT_MAX];

        ip_print(ip, text);
        ck_abort_msg("vni %u, %s: route of kind %d, not %d or %d", vni, text, is.kind,
                     old.kind, new.kind);
    }
    if (is.kind == SOFT_PEER) {
        ck_assert(r->halves == 1 ? is.half == 0
                                 : is.half == r->places[is.vni] ||
                                       is.half == r->next_places[is.vni]);
    }
    ck_assert(!is_dangling);
    if (ip_compare(&nc, &old_nc) == 0 || ip_compare(&nc, &new_nc) == 0) {
        return;
    }
    ck_assert_msg(!is_known &&
                      (is_strangers(a, vni, ip, &nc) || is_strangers(b, vni, ip, &nc)),
                  "vni %u: another NC than before or after", vni);
    r->strangers++;
}

static bool is_between(unsigned is, unsigned old, unsigned new)
{
    return is == old || is == new;
}

static void check_vni(struct rig *r, uint32_t vni, const struct model *a,
                      const struct model *b)
{
    struct entry key = { .table = TABLE_VNI, .vni = vni };
    const struct entry *old = model_find(a, &key);
    const struct entry *new = model_find(b, &key);

    for (unsigned half = 0; half < r->halves; half++) {
        unsigned flags;
        unsigned place;
        unsigned meter;
        bool is = soft_vni(r->soft, half, vni, &flags, &place, &meter);

        ck_assert(is ? old || new : !old || !new);
        if (is) {
            const struct entry *a_row = old ? old : new;
            const struct entry *b_row = new ? new : old;

            flags &= ~(unsigned)PHYS_VNI_METERED;
            ck_assert(is_between(flags, a_row->vni_row.flags, b_row->vni_row.flags));
            ck_assert(r->halves == 1 ? place == 0
                                     : is_between(place, a_row->vni_row.half,
                                                  b_row->vni_row.half));
        }
    }
}

static bool is_in(const struct port_range *r, uint16_t port)
{
    return port >= r->first && port <= r->last;
}

static bool rule_matches(const struct acl_match *m, const struct soft_packet *p)
{
    bool names_ports = m->sport.first > 0 || m->sport.last < 65535 ||
                       m->dport.first > 0 || m->dport.last < 65535;

    return m->src.addr.family == p->src.family && prefix_contains(&m->src, &p->src) &&
           prefix_contains(&m->dst, &p->dst) &&
           (!m->has_proto || m->proto == p->proto) &&
           (!names_ports ||
            (p->has_ports && is_in(&m->sport, p->sport) && is_in(&m->dport, p->dport)));
}

/* The highest priority decides, of several a deny; none: permit. */
static bool model_permits(const struct model *m, uint32_t vni,
                          const struct soft_packet *p)
{
    uint32_t best = 0;
    bool permits = true;

    for (unsigned i = 0; i < m->count; i++) {
        const struct entry *e = &m->at[i];

        if (e->table != TABLE_ACL || e->vni != vni || !rule_matches(&e->acl.match, p) ||
            e->acl.priority < best) {
            continue;
        }
        permits = e->acl.action == ACL_PERMIT && (permits || e->acl.priority > best);
        best = e->acl.priority;
    }
    return permits;
}

/* A packet that the rule is about, and the same as a later fragment. */
static void check_rule(struct rig *r, const struct entry *rule, const struct model *a,
                       const struct model *b)
{
    const struct acl_match *m = &rule->acl.match;
    struct soft_packet p = { .src = m->src.addr,
                             .dst = m->dst.addr,
                             .proto = m->has_proto ? m->proto : IP_PROTO_TCP,
                             .sport = m->sport.last,
                             .dport = m->dport.first };

    for (unsigned i = 0; i < 2 * r->halves; i++) {
        bool is;

        p.has_ports = i & 1;
        is = soft_permits(r->soft, i / 2, rule->vni, &p);
        r->lookups++;
        ck_assert(is == model_permits(a, rule->vni, &p) ||
                  is == model_permits(b, rule->vni, &p));
    }
}

static void check_row(struct rig *r, const struct entry *e, const struct model *a,
                      const struct model *b)
{
    switch (e->table) {
    case TABLE_VM_NC:
        check_address(r, e->vni, &e->vm_nc.vm, a, b);
        break;
    case TABLE_VXLAN_ROUTE:
        check_address(r, e->vni, &e->route.dst.addr, a, b);
        break;
    case TABLE_ACL:
        check_rule(r, e, a, b);
        break;
    default:
        check_vni(r, e->vni, a, b);
    }
}

/* ---- writes ---- */

static void take_write(void *ctx, const struct phys_write *w)
{
    struct writes *to = ctx;

    if (to->count == to->cap) {
        to->cap = to->cap ? 2 * to->cap : 256;
        to->at = realloc(to->at, to->cap * sizeof(*to->at));
    }
    to->at[to->count++] = *w;
}

static void take_meter(void *ctx, const struct phys_meter_write *w)
{
    struct writes *to = ctx;

    if (to->meter_count == to->meter_cap) {
        to->meter_cap = to->meter_cap ? 2 * to->meter_cap : 256;
        to->meters = realloc(to->meters, to->meter_cap * sizeof(*to->meters));
        to->before = realloc(to->before, to->meter_cap * sizeof(*to->before));
    }
    to->before[to->meter_count] = to->count;
    to->meters[to->meter_count++] = *w;
}

struct xgwh_sink rig_sink(struct rig *r)
{
    r->writes.count = 0;
    r->writes.meter_count = 0;
    return (struct xgwh_sink){ take_write, take_meter, &r->writes };
}

/* What stands between two barriers may be done in any order. */
static void shuffle(struct rig *r)
{
    struct phys_write *w = r->writes.at;

    for (unsigned first = 0; first < r->writes.count;) {
        unsigned end = first + 1;

        while (end < r->writes.count && !w[end].barrier) {
            end++;
        }
        for (unsigned n = end - first; n > 1; n--) {
            struct phys_write *a = &w[first + rig_random(r, n)];
            struct phys_write *b = &w[first + n - 1];
            struct phys_write swap = *a;

            *a = *b;
            *b = swap;
        }
        first = end;
    }
}

/* When a meter's write may be done: before how many entries at the least and at most.
 */
static void meter_span(const struct rig *r, unsigned i, unsigned *ret_first,
                       unsigned *ret_last)
{
    const struct phys_write *w = r->writes.at;
    unsigned first = r->writes.before[i];
    unsigned last = first;
    bool is_first = r->writes.meters[i].barrier;

    for (unsigned k = i; k-- > 0 && !is_first && r->writes.before[k] == first;) {
        is_first = r->writes.meters[k].barrier;
    }
    while (!is_first && first > 0 && !w[--first].barrier) {
    }
    while (last < r->writes.count && !w[last].barrier) {
        last++;
    }
    *ret_first = first;
    *ret_last = last;
}

/* The meters that are written before the `at`-th entry; each at one of both ends of the
 * time that it has. */
static void follow_meters(struct rig *r, unsigned at, const bool *is_late)
{
    for (unsigned i = 0; i < r->writes.meter_count; i++) {
        const struct phys_meter_write *w = &r->writes.meters[i];
        unsigned first;
        unsigned last;

        if (w->meter != PHYS_METER_VNI) {
            continue;
        }
        meter_span(r, i, &first, &last);
        if (at == (is_late[i] ? last : first)) {
            ck_assert(w->index > 0 && w->index < r->sizes.meters);
            r->meters[w->index] = w->config;
        }
    }
}

static bool is_metered(const struct model *m, uint32_t vni)
{
    struct entry key = { .table = TABLE_METER, .vni = vni };

    return m && model_find(m, &key);
}

/* Whoever has no meter, before and after, is held back by none. */
static void check_unmetered(const struct rig *r, const struct model *after)
{
    static const struct phys_meter_config open;

    for (uint32_t vni = 1; !r->is_disturbed && vni < ARRAY_LEN(r->places); vni++) {
        unsigned flags;
        unsigned half;
        unsigned index;

        if (is_metered(&r->model, vni) || is_metered(after, vni) ||
            !soft_vni(r->soft, 0, vni, &flags, &half, &index) || index == 0) {
            continue;
        }
        ck_assert_msg(memcmp(&r->meters[index], &open, sizeof(open)) == 0,
                      "vni %u has no meter, and its index %u lets %llu B/s pass", vni,
                      index, (unsigned long long)r->meters[index].pir);
    }
}

/* `after` is what holds in the end; `rows` are those that change. */
static void follow(struct rig *r, const struct model *after, const struct entry *rows,
                   unsigned count)
{
    bool *is_late = calloc(r->writes.meter_count + 1, sizeof(*is_late));

    ck_assert(r->writes.count == 0 || r->writes.at[0].barrier ||
              (r->writes.meter_count > 0 && r->writes.before[0] == 0 &&
               r->writes.meters[0].barrier));
    for (unsigned i = 0; r->is_unordered && i < r->writes.meter_count; i++) {
        is_late[i] = rig_random(r, 2);
    }
    if (r->is_unordered) {
        shuffle(r);
    }
    for (unsigned i = 0; i < r->writes.count; i++) {
        const struct phys_write *w = &r->writes.at[i];

        follow_meters(r, i, is_late);
        check_unmetered(r, after);
        for (unsigned half = 0; half < r->halves; half++) {
            const char *wrong;

            if (w->entry.half != half && w->entry.half != PHYS_BOTH) {
                continue;
            }
            wrong = soft_write(r->soft, half, w);
            ck_assert_msg(
                !wrong, "write %u of %u: table %s op %d: %s", i, r->writes.count,
                phys_table_desc((enum phys_table)w->entry.table)->name, w->op, wrong);
            for (unsigned k = 0; k < count && k < ROWS_LOOKED_AT; k++) {
                check_row(r, &rows[k], &r->model, after);
            }
            for (unsigned k = 0; k < r->probes.count; k++) {
                check_row(r, &r->probes.at[k], &r->model, after);
            }
        }
        check_unmetered(r, after);
    }
    follow_meters(r, r->writes.count, is_late);
    check_unmetered(r, after);
    free(is_late);
}

void rig_follow(struct rig *r)
{
    follow(r, &r->model, NULL, 0);
}

/* ---- life ---- */

struct xgwh *rig_new(const struct rig *r)
{
    struct xgwh_options o = { .sizes = &r->sizes,
                              .halves = (uint8_t)r->halves,
                              .repack = 64 };

    return xgwh_new(&o);
}

void rig_init(struct rig *r, const struct phys_sizes *sizes, unsigned halves)
{
    memset(r, 0, sizeof(*r));
    r->sizes = *sizes;
    r->halves = halves;
    r->seed = 1;
    for (unsigned vni = 0; vni < ARRAY_LEN(r->places); vni++) {
        r->places[vni] = r->next_places[vni] = vni & 1;
    }
    r->x = rig_new(r);
    r->soft = soft_new(&r->sizes, halves);
    ck_assert(r->x && r->soft);
}

void rig_fini(struct rig *r)
{
    xgwh_free(r->x);
    soft_free(r->soft);
    free(r->model.at);
    free(r->probes.at);
    free(r->writes.at);
    free(r->writes.meters);
    free(r->writes.before);
    xgwh_exceptions_fini(&r->exceptions);
}

/* ---- changes ---- */

static bool is_refused(const struct rig *r, const struct entry *e)
{
    struct buf key = BUF_INIT;
    bool is = false;

    entry_pack_key(e, &key);
    for (unsigned i = 0; i < r->exceptions.count; i++) {
        const struct exception *x = &r->exceptions.at[i];

        is |= x->table == e->table && x->vni == e->vni && x->key_len == key.len &&
              (key.len == 0 || memcmp(x->key, key.data, key.len) == 0);
    }
    buf_fini(&key);
    return is;
}

void rig_batch(struct rig *r, const struct entry *rows, const uint8_t *ops,
               unsigned count)
{
    struct xgwh_sink sink = rig_sink(r);
    struct batch_writer w;
    struct blob *b;
    struct err err = { 0 };

    batch_writer_init(&w);
    for (unsigned i = 0; i < count; i++) {
        batch_add_entry(&w, ops[i] == BATCH_PUT ? ENTRY_PUT : ENTRY_DELETE, &rows[i]);
    }
    b = batch_writer_finish(&w);
    r->exceptions.count = 0;
    memset(&r->cost, 0, sizeof(r->cost));
    ck_assert_msg(xgwh_apply(r->x, b->data, b->len, &sink, &r->exceptions, &r->cost,
                             &err) == RC_OK,
                  "%s", err.msg);
    ck_assert_uint_eq(r->cost.writes, r->writes.count + r->writes.meter_count);
    blob_unref(b);
    batch_writer_fini(&w);
}

void rig_change(struct rig *r, const struct entry *e, uint8_t op)
{
    rig_batch(r, e, &op, 1);
}

void rig_apply(struct rig *r, const struct entry *rows, const uint8_t *ops,
               unsigned count)
{
    struct model after = { 0 };

    rig_batch(r, rows, ops, count);
    for (unsigned i = 0; i < r->model.count; i++) {
        model_put(&after, &r->model.at[i]);
    }
    for (unsigned i = 0; i < count; i++) {
        if (!is_refused(r, &rows[i])) {
            if (ops[i] == BATCH_PUT) {
                model_put(&after, &rows[i]);
            } else {
                model_delete(&after, &rows[i]);
            }
        }
    }
    for (unsigned i = 0; i < after.count; i++) {
        if (after.at[i].table == TABLE_VNI) {
            r->next_places[after.at[i].vni] = after.at[i].vni_row.half;
        }
    }
    follow(r, &after, rows, count);
    free(r->model.at);
    r->model = after;
    memcpy(r->places, r->next_places, sizeof(r->places));
}

void rig_put(struct rig *r, const struct entry *e)
{
    rig_apply(r, e, (const uint8_t[]){ BATCH_PUT }, 1);
}

void rig_delete(struct rig *r, const struct entry *e)
{
    rig_apply(r, e, (const uint8_t[]){ BATCH_DELETE }, 1);
}

static void check_rows(const struct rig *r)
{
    const struct table_set *rows = xgwh_tables(r->x);
    unsigned counts[TABLE_COUNT] = { 0 };

    for (unsigned i = 0; i < r->model.count; i++) {
        const struct entry *e = &r->model.at[i];
        struct buf key = BUF_INIT;
        struct buf value = BUF_INIT;
        struct row row;

        counts[e->table]++;
        entry_pack_key(e, &key);
        entry_pack_value(e, &value);
        ck_assert(rows_find(table_set_rows(rows, e->vni, (enum table_id)e->table),
                            (enum table_id)e->table, key.data, (uint8_t)key.len, &row));
        ck_assert_uint_eq(row.value_len, value.len);
        ck_assert_mem_eq(row.value, value.data, value.len);
        buf_fini(&key);
        buf_fini(&value);
    }
    for (int t = 0; t < TABLE_COUNT; t++) {
        ck_assert_uint_eq(table_set_count(rows, (enum table_id)t), counts[t]);
    }
}

/* A VNI with a meter names one that says what the row says, one without names one that
 * says nothing, or none; and nobody names another's. */
static void check_meters(const struct rig *r)
{
    bool is_taken[64] = { 0 };

    for (unsigned i = 0; i < r->model.count; i++) {
        const struct entry *e = &r->model.at[i];
        struct entry key = { .table = TABLE_METER, .vni = e->vni };
        const struct entry *meter = model_find(&r->model, &key);
        unsigned flags;
        unsigned half;
        unsigned index = 0;

        if (e->table != TABLE_VNI) {
            continue;
        }
        ck_assert(soft_vni(r->soft, 0, e->vni, &flags, &half, &index));
        ck_assert_uint_eq(xgwh_counted_index(r->x, e->vni), index);
        ck_assert_uint_eq(flags & PHYS_VNI_METERED, meter ? PHYS_VNI_METERED : 0);
        ck_assert(!meter || index != 0);
        ck_assert(!is_taken[index] || index == 0);
        is_taken[index] = true;
        if (meter) {
            ck_assert_uint_eq(r->meters[index].pir, (meter->meter.peak_bps + 7) / 8);
            ck_assert_uint_eq(r->meters[index].cburst, meter->meter.committed_burst);
        }
    }
}

void rig_check(struct rig *r)
{
    struct xgwh_status s = xgwh_status(r->x);

    for (unsigned i = 0; i < r->model.count; i++) {
        check_row(r, &r->model.at[i], &r->model, &r->model);
    }
    check_rows(r);
    check_meters(r);
    check_unmetered(r, NULL);
    for (unsigned half = 0; half < r->halves; half++) {
        for (unsigned t = 0; t < PHYS_TABLES; t++) {
            ck_assert_msg(s.usage.used[t][half] == r->soft->tables[half][t].count,
                          "table %s: used %u, not %u",
                          phys_table_desc((enum phys_table)t)->name,
                          s.usage.used[t][half], r->soft->tables[half][t].count);
        }
    }
}

static void read_meters(const struct rig *r, struct xgwh *x)
{
    uint32_t *index;
    uint32_t count;

    ck_assert_int_eq(xgwh_read_wants_meters(x, &index, &count), RC_OK);
    for (uint32_t i = 0; i < count; i++) {
        for (unsigned half = 0; half < r->halves; half++) {
            ck_assert_uint_lt(index[i], 64);
            xgwh_read_meter(x, PHYS_METER_VNI, half, index[i], &r->meters[index[i]]);
        }
    }
    free(index);
}

void rig_read(struct rig *r, struct xgwh *x, struct xgwh_findings *ret)
{
    struct xgwh_sink sink = rig_sink(r);
    struct phys_entry *all;
    unsigned count = 0;

    for (unsigned i = 0; i < 2 * PHYS_TABLES; i++) {
        count += r->soft->tables[i % 2][i / 2].count;
    }
    all = malloc((count + 1) * sizeof(*all));
    count = 0;
    for (unsigned half = 0; half < r->halves; half++) {
        for (unsigned t = 0; t < PHYS_TABLES; t++) {
            for (unsigned i = 0; i < r->soft->tables[half][t].count; i++) {
                unsigned at = rig_random(r, count + 1);

                all[count] = all[at];
                all[at] = r->soft->tables[half][t].at[i];
                all[at].half = (uint8_t)half;
                count++;
            }
        }
    }
    ck_assert_int_eq(xgwh_read_begin(x), RC_OK);
    if (r->names_all) {
        xgwh_read_name_all(x);
    }
    for (unsigned i = 0; i < count; i++) {
        ck_assert_int_eq(xgwh_read_entry(x, &all[i]), RC_OK);
    }
    read_meters(r, x);
    ck_assert_int_eq(xgwh_read_end(x, &sink, ret, NULL), RC_OK);
    ck_assert_uint_eq(ret->entries, count);
    free(all);
}

/* ---- rows as they are told ---- */

struct told {
    uint64_t last; /* VNI and table */
    struct table_set *set;
    unsigned batches;
};

static void take_rows(void *ctx, const uint8_t *batch, size_t len)
{
    struct told *t = ctx;
    struct batch_reader r = batch_reader_of(batch, len);
    struct batch_run run;
    uint32_t count;
    uint32_t index;

    t->batches++;
    ck_assert_int_eq(batch_check(batch, len, false, &count, &index, NULL), RC_OK);
    while (batch_next(&r, &run)) {
        uint64_t at = (uint64_t)run.vni << 8 | run.table;

        ck_assert_uint_eq(run.op, BATCH_PUT);
        ck_assert_uint_ge(at, t->last);
        t->last = at;
    }
    ck_assert_int_eq(table_set_apply(t->set, batch, len, NULL, NULL, NULL), RC_OK);
}

void rig_check_rows_told(struct rig *r)
{
    struct told t = { .set = table_set_new() };
    const struct tree_node root = { 0 };

    ck_assert_int_eq(xgwh_rows(r->x, take_rows, &t), RC_OK);
    ck_assert_uint_gt(t.batches, 0);
    for (int table = 0; table < TABLE_COUNT; table++) {
        struct digest a = table_set_digest(t.set, (enum table_id)table, root);
        struct digest b =
            table_set_digest(xgwh_tables(r->x), (enum table_id)table, root);

        ck_assert_uint_eq(a.sum, b.sum);
        ck_assert_uint_eq(a.count, b.count);
    }
    table_set_free(t.set);
}

static void take_as_session(void *ctx, const uint8_t *batch, size_t len)
{
    ck_assert_int_eq(table_set_apply(ctx, batch, len, NULL, NULL, NULL), RC_OK);
}

bool rig_tells_the_model(struct rig *r)
{
    struct table_set *told = table_set_new();
    struct table_set *model = table_set_new();
    const struct tree_node root = { 0 };
    struct batch_writer w;
    struct blob *rows;
    bool is_same = true;

    batch_writer_init(&w);
    for (unsigned i = 0; i < r->model.count; i++) {
        batch_add_entry(&w, ENTRY_PUT, &r->model.at[i]);
    }
    rows = batch_writer_finish(&w);
    batch_writer_fini(&w);
    ck_assert_ptr_nonnull(rows);
    take_as_session(model, rows->data, rows->len);
    blob_unref(rows);
    ck_assert_int_eq(xgwh_rows(r->x, take_as_session, told), RC_OK);
    for (int table = 0; table < TABLE_COUNT; table++) {
        struct digest a = table_set_digest(told, (enum table_id)table, root);
        struct digest b = table_set_digest(model, (enum table_id)table, root);

        is_same &= a.sum == b.sum && a.count == b.count;
    }
    table_set_free(told);
    table_set_free(model);
    return is_same;
}

void rig_check_answers(struct rig *r)
{
    for (unsigned i = 0; i < r->model.count; i++) {
        check_row(r, &r->model.at[i], &r->model, &r->model);
    }
}

/* ---- rows from text ---- */

static struct ip text_ip(const char *text)
{
    struct ip ip = { 0 };

    ck_assert_int_eq(ip_parse(text, strlen(text), &ip, NULL), RC_OK);
    return ip;
}

struct entry row_vm(uint32_t vni, const char *vm, const char *nc)
{
    return (struct entry){ .table = TABLE_VM_NC,
                           .vni = vni,
                           .vm_nc = { .vm = text_ip(vm), .nc = text_ip(nc) } };
}

struct entry row_scope(uint32_t vni, const char *prefix, enum route_scope scope,
                       uint32_t to, const char *endpoint)
{
    struct entry e = { .table = TABLE_VXLAN_ROUTE, .vni = vni };

    ck_assert_int_eq(prefix_parse(prefix, strlen(prefix), &e.route.dst, NULL), RC_OK);
    e.route.action.scope = (uint8_t)scope;
    e.route.action.vni = to;
    if (scope == SCOPE_SERVICE) {
        strcpy(e.route.action.service, endpoint);
    } else if (endpoint) {
        e.route.action.endpoint = text_ip(endpoint);
    }
    return e;
}

struct entry row_local(uint32_t vni, const char *prefix)
{
    return row_scope(vni, prefix, SCOPE_LOCAL, 0, NULL);
}

struct entry row_vni(uint32_t vni, uint8_t flags, uint8_t half)
{
    return (struct entry){ .table = TABLE_VNI,
                           .vni = vni,
                           .vni_row = { .flags = flags, .half = half } };
}

/* CRC32 is linear: what flips the last 64 bits and leaves it alone is the kernel of a
 * 64 x 32 matrix, found by elimination. */
struct ip collide(const struct ip *base, unsigned n)
{
    uint32_t pivot_crc[32] = { 0 };
    uint64_t pivot_bits[32] = { 0 };
    uint64_t flip = 0;
    unsigned found = 0;
    struct ip ip = *base;

    for (unsigned bit = 0; bit < 64; bit++) {
        uint8_t zero[16] = { 0 };
        uint8_t one[16] = { 0 };
        uint64_t bits = UINT64_C(1) << bit;
        uint32_t crc;

        one[15 - bit / 8] = (uint8_t)(1 << bit % 8);
        crc = soft_crc32(one, 16) ^ soft_crc32(zero, 16);
        for (unsigned p = 0; p < 32 && crc; p++) {
            if (!(crc >> p & 1)) {
                continue;
            }
            if (pivot_bits[p] == 0) {
                pivot_crc[p] = crc;
                pivot_bits[p] = bits;
                crc = 0;
                bits = 0;
            } else {
                crc ^= pivot_crc[p];
                bits ^= pivot_bits[p];
            }
        }
        if (bits != 0 && n >> found++ & 1) {
            flip ^= bits;
        }
        if (found >= 32) {
            break;
        }
    }
    for (unsigned i = 0; i < 8; i++) {
        ip.b[15 - i] ^= (uint8_t)(flip >> 8 * i);
    }
    return ip;
}
