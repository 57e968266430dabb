#include "agent/xgwh/xgwh_impl.h"

#include <stdlib.h>
#include <string.h>

#define NEXT_HOP_BUCKETS 256  /* the width of the key's `bucket` */
#define FALLBACK_BUCKETS 1024 /* likewise */

/* ---- what should stand ---- */

static struct phys_entry own_entry(enum phys_table table, const struct ip *addr,
                                   unsigned len)
{
    struct phys_entry e = phys_make(table, PHYS_BOTH, ROOT_PRIORITY);
    bool is_v4 = addr->family == IP_V4;

    phys_set_key(&e, 0, is_v4);
    phys_set_prefix(&e, is_v4 ? 1 : 2, addr->b, len);
    phys_set_action(&e, table == PHYS_VTEP ? PHYS_IS_VTEP : PHYS_IS_SOURCE);
    return e;
}

static bool add_own(struct entry_list *to, const struct xgwh_config *c, bool is_ready)
{
    bool is_ok = true;

    for (unsigned i = 0; is_ok && is_ready && i < c->own_count; i++) {
        struct phys_entry e = own_entry(PHYS_VTEP, &c->own[i], ip_size(&c->own[i]) * 8);

        is_ok = entry_list_add(to, &e);
    }
    for (unsigned i = 0; is_ok && i < c->source_count; i++) {
        struct phys_entry e =
            own_entry(PHYS_SOURCE, &c->sources[i].addr, c->sources[i].len);

        is_ok = entry_list_add(to, &e);
    }
    return is_ok;
}

/* A packet of ours leaves from the VIP of its family; a fallback keeps its source. */
static bool add_port(struct entry_list *to, const struct xgwh_uplink *u, bool is_v4,
                     const struct ip *source)
{
    const uint8_t *dmac = is_v4 ? u->dmac4 : u->dmac6;
    struct phys_entry e = phys_make(PHYS_PORT_OUT, PHYS_BOTH, 0);
    bool is_ok = true;

    phys_set_key(&e, 0, u->port);
    phys_set_key(&e, 2, is_v4);
    if (source->family != IP_NONE) {
        phys_set_action(&e, is_v4 ? PHYS_SRC4 : PHYS_SRC6);
        phys_set_param_bytes(&e, 0, source->b);
        phys_set_param_bytes(&e, 1, u->smac);
        phys_set_param_bytes(&e, 2, dmac);
        is_ok = entry_list_add(to, &e);
    }
    phys_set_key(&e, 1, 1);
    phys_set_action(&e, PHYS_KEEP_SRC);
    phys_set_param_bytes(&e, 0, u->smac);
    phys_set_param_bytes(&e, 1, dmac);
    return is_ok && entry_list_add(to, &e);
}

/* ---- buckets ---- */

/* Who may have the buckets of one table and family. */
struct shares {
    uint32_t value[XGWH_MEMBERS_MAX]; /* port or NC index */
    uint32_t weight[XGWH_MEMBERS_MAX];
    uint32_t has[XGWH_MEMBERS_MAX];
    unsigned count;
    uint64_t total;
};

static void shares_add(struct shares *s, uint32_t value, uint32_t weight)
{
    if (weight > 0) {
        s->value[s->count] = value;
        s->weight[s->count] = weight;
        s->has[s->count++] = 0;
        s->total += weight;
    }
}

/* What the member still lacks of its share of `buckets`; in units of 1 / total. */
static int64_t lacks(const struct shares *s, unsigned i, uint32_t buckets)
{
    return (int64_t)s->weight[i] * buckets - (int64_t)(s->has[i] * s->total);
}

static struct phys_entry bucket_entry(enum phys_table table, bool is_v4,
                                      uint32_t bucket, uint32_t value)
{
    struct phys_entry e = phys_make(table, PHYS_BOTH, 0);

    phys_set_key(&e, 0, is_v4);
    phys_set_key(&e, 1, bucket);
    phys_set_action(&e, table == PHYS_FALLBACK ? PHYS_MEMBER : PHYS_OUT_PORT);
    phys_set_param(&e, 0, value);
    return e;
}

/* A bucket stays with its member until that has more than its share; the others go to
 * whoever lacks most. */
static bool add_buckets(struct entry_list *to, const struct entry_list *present,
                        enum phys_table table, bool is_v4, uint32_t buckets,
                        struct shares *s)
{
    uint8_t owner[FALLBACK_BUCKETS]; /* place in `s`, plus 1 */
    bool is_ok = true;

    memset(owner, 0, sizeof(owner));
    for (uint32_t i = 0; i < present->count; i++) {
        const struct phys_entry *e = &present->at[i];

        if (e->table != table || phys_key(e, 0) != is_v4) {
            continue;
        }
        for (unsigned k = 0; k < s->count; k++) {
            if (s->value[k] == phys_param(e, 0) && lacks(s, k, buckets) > 0) {
                owner[phys_key(e, 1)] = (uint8_t)(k + 1);
                s->has[k]++;
                break;
            }
        }
    }
    for (uint32_t b = 0; is_ok && s->count > 0 && b < buckets; b++) {
        unsigned best = 0;
        struct phys_entry e;

        for (unsigned k = 1; k < s->count; k++) {
            best = lacks(s, k, buckets) > lacks(s, best, buckets) ? k : best;
        }
        if (owner[b] == 0) {
            owner[b] = (uint8_t)(best + 1);
            s->has[best]++;
        }
        e = bucket_entry(table, is_v4, b, s->value[owner[b] - 1]);
        is_ok = entry_list_add(to, &e);
    }
    return is_ok;
}

static bool add_uplinks(struct entry_list *to, const struct entry_list *present,
                        const struct xgwh_config *c)
{
    bool is_ok = true;

    for (unsigned v4 = 0; is_ok && v4 < 2; v4++) {
        struct shares s = { 0 };

        for (unsigned i = 0; is_ok && i < c->uplink_count; i++) {
            const struct xgwh_uplink *u = &c->uplinks[i];

            if (v4 ? u->has_v4 : u->has_v6) {
                is_ok = add_port(to, u, v4, v4 ? &c->source_v4 : &c->source_v6);
                shares_add(&s, u->port, u->weight);
            }
        }
        is_ok =
            is_ok && add_buckets(to, present, PHYS_NEXT_HOP, v4, NEXT_HOP_BUCKETS, &s);
    }
    return is_ok;
}

/* NC indexes of the members, by family and place; held while the change is made. */
struct member_ncs {
    uint32_t index[2][XGWH_MEMBERS_MAX];
    bool is_held[2][XGWH_MEMBERS_MAX];
};

static bool add_members(struct entry_list *to, const struct entry_list *present,
                        const struct xgwh_config *c, const struct member_ncs *ncs)
{
    bool is_ok = true;

    for (unsigned v4 = 0; is_ok && v4 < 2; v4++) {
        struct shares s = { 0 };

        for (unsigned i = 0; i < c->member_count; i++) {
            if (ncs->is_held[v4][i]) {
                shares_add(&s, ncs->index[v4][i], c->members[i].weight);
            }
        }
        is_ok = add_buckets(to, present, PHYS_FALLBACK, v4, FALLBACK_BUCKETS, &s);
    }
    return is_ok;
}

static enum rc hold_members(struct xgwh *x, const struct xgwh_config *c,
                            struct member_ncs *ncs)
{
    enum rc rc = RC_OK;

    for (unsigned v4 = 0; rc == RC_OK && v4 < 2; v4++) {
        for (unsigned i = 0; rc == RC_OK && i < c->member_count; i++) {
            const struct ip *addr = v4 ? &c->members[i].v4 : &c->members[i].v6;

            if (addr->family != IP_NONE && c->members[i].weight > 0) {
                rc = nc_pool_acquire(&x->holds.ncs, addr, &ncs->index[v4][i]);
                ncs->is_held[v4][i] = rc == RC_OK;
            }
        }
    }
    return rc;
}

static enum rc drop_members(struct xgwh *x, const struct member_ncs *ncs)
{
    bool is_ok = true;

    for (unsigned v4 = 0; v4 < 2; v4++) {
        for (unsigned i = 0; i < XGWH_MEMBERS_MAX; i++) {
            is_ok &= !ncs->is_held[v4][i] ||
                     nc_pool_release(&x->holds.ncs, ncs->index[v4][i]);
        }
    }
    return is_ok ? RC_OK : RC_NO_MEMORY;
}

/* ---- from what stands to what should ---- */

static enum stage add_stage(uint8_t table)
{
    return table == PHYS_PORT_OUT || table == PHYS_SOURCE ? STAGE_ADD : STAGE_ADMIT;
}

static enum stage delete_stage(uint8_t table)
{
    return table == PHYS_PORT_OUT ? STAGE_LATE : STAGE_DEL;
}

/* Both sorted.  NCs of buckets that come are referenced, of those that go released. */
static enum rc write_differences(struct xgwh *x, const struct entry_list *present,
                                 const struct entry_list *want)
{
    uint32_t i = 0;
    uint32_t k = 0;

    for (k = 0; k < want->count; k++) {
        if (want->at[k].table == PHYS_FALLBACK) {
            nc_pool_ref(&x->holds.ncs, (uint32_t)phys_param(&want->at[k], 0));
        }
    }
    for (k = 0; i < present->count || k < want->count;) {
        const struct phys_entry *has = &present->at[i];
        const struct phys_entry *new = &want->at[k];
        int order = i == present->count ? 1
                    : k == want->count  ? -1
                                        : phys_compare(has, new);

        if (order < 0) {
            plan_add(&x->plan, delete_stage(has->table), PHYS_DELETE, has);
        } else if (order > 0) {
            plan_add(&x->plan, add_stage(new->table), PHYS_INSERT, new);
        } else if (!phys_same_action(has, new)) {
            plan_add(&x->plan, add_stage(new->table), PHYS_MODIFY, new);
        }
        if (order <= 0) {
            if (has->table == PHYS_FALLBACK &&
                !nc_pool_release(&x->holds.ncs, (uint32_t)phys_param(has, 0))) {
                return RC_NO_MEMORY;
            }
            i++;
        }
        k += order >= 0;
    }
    return RC_OK;
}

static enum rc check_sizes(const struct xgwh *x, const struct entry_list *want,
                           struct err *err)
{
    uint32_t count[PHYS_TABLES] = { 0 };

    for (uint32_t i = 0; i < want->count; i++) {
        uint8_t t = want->at[i].table;

        if (++count[t] > xgwh_limit(x, (enum phys_table)t)) {
            return err_set(err, RC_FULL, "table %s: more than its %u entries",
                           phys_table_desc((enum phys_table)t)->name,
                           xgwh_limit(x, (enum phys_table)t));
        }
    }
    return RC_OK;
}

/* ---- meters ---- */

/* Each half meters on its own, so that of the whole node is shared out: what x86 gets
 * from the node stays below it, however the traffic lies. */
static struct phys_meter_config share_of_half(const struct xgwh *x,
                                              const struct phys_meter_config *whole)
{
    struct phys_meter_config ret = *whole;

    ret.cir = (whole->cir + x->halves - 1) / x->halves;
    ret.pir = (whole->pir + x->halves - 1) / x->halves;
    return ret;
}

/* Is it known to be so: by what was written, or by what was read? */
static bool class_stands(const struct xgwh *x, unsigned class,
                         const struct phys_meter_config *want)
{
    const struct fallback_cells *f = &x->fallback;
    struct phys_meter_config is = share_of_half(x, &x->config.fallback_class[class]);

    return x->has_meters
               ? meter_is_same(&is, want)
               : f->class_count[class] == x->halves && !f->class_differs[class] &&
                     meter_is_same(&f->class[class], want);
}

static bool tenants_stand(const struct xgwh *x, unsigned class,
                          const struct phys_meter_config *want)
{
    const struct fallback_cells *f = &x->fallback;
    uint64_t cells = (uint64_t)x->halves * x->sizes.fallback_buckets;

    return x->has_meters
               ? meter_is_same(&x->config.fallback_tenant[class], want)
               : f->tenant_count[class] == cells && !f->tenant_differs[class] &&
                     meter_is_same(&f->tenant[class], want);
}

static void write_meters(struct xgwh *x, const struct xgwh_config *c)
{
    static const enum phys_meter tenant[2] = {
        [PHYS_CLASS_MISS] = PHYS_METER_FB_MISS,
        [PHYS_CLASS_SERVICE] = PHYS_METER_FB_SERVICE,
    };

    for (unsigned class = 0; class < 2; class ++) {
        struct phys_meter_write w = { .meter = PHYS_METER_FB_CLASS,
                                      .half = PHYS_BOTH,
                                      .index = class,
                                      .config =
                                          share_of_half(x, &c->fallback_class[class]) };

        if (!class_stands(x, class, &w.config)) {
            plan_add_meter(&x->plan, &w);
        }
        w.meter = (uint8_t)tenant[class];
        w.config = c->fallback_tenant[class];
        for (w.index = 0;
             !tenants_stand(x, class, &w.config) && w.index < x->sizes.fallback_buckets;
             w.index++) {
            plan_add_meter(&x->plan, &w);
        }
    }
    x->has_meters = true;
}

/* ---- all of it ---- */

bool xgwh_is_ready(const struct xgwh *x)
{
    return x->holds.config.count > 0 && x->holds.config.at[0].table == PHYS_VTEP;
}

unsigned xgwh_ports(const struct xgwh *x, uint16_t ret[XGWH_UPLINKS_MAX])
{
    const struct entry_list *config = &x->holds.config;
    unsigned count = 0;

    /* Sorted by table and key: rows of one port stand together. */
    for (uint32_t i = 0; i < config->count && count < XGWH_UPLINKS_MAX; i++) {
        const struct phys_entry *e = &config->at[i];
        uint16_t port = (uint16_t)phys_key(e, 0);

        if (e->table == PHYS_PORT_OUT && (count == 0 || ret[count - 1] != port)) {
            ret[count++] = port;
        }
    }
    return count;
}

static enum rc check_config(const struct xgwh_config *c, struct err *err)
{
    if (c->own_count > XGWH_OWN_MAX || c->uplink_count > XGWH_UPLINKS_MAX ||
        c->member_count > XGWH_MEMBERS_MAX || c->source_count > UNDERLAY_SOURCES_MAX) {
        return err_set(err, RC_RANGE, "configuration: a list is too long");
    }
    for (unsigned i = 0; i < c->uplink_count; i++) {
        if (c->uplinks[i].port >= 512) {
            return err_set(err, RC_RANGE, "uplink port %u: not in 0-511",
                           c->uplinks[i].port);
        }
    }
    return RC_OK;
}

/* Gives what should stand in `want`, sorted. */
static enum rc build(struct xgwh *x, const struct xgwh_config *c, bool is_ready,
                     const struct member_ncs *ncs, struct entry_list *want,
                     struct err *err)
{
    const struct entry_list *present = &x->holds.config;

    if (!add_own(want, c, is_ready) || !add_uplinks(want, present, c) ||
        !add_members(want, present, c, ncs)) {
        return RC_NO_MEMORY;
    }
    entry_list_sort(want);
    entry_list_drop_repeats(want);
    return check_sizes(x, want, err);
}

static enum rc configure(struct xgwh *x, const struct xgwh_config *c, bool is_ready,
                         const struct xgwh_sink *sink, struct xgwh_cost *cost,
                         struct err *err)
{
    struct entry_list want = { 0 };
    struct member_ncs ncs = { 0 };
    enum rc rc = hold_members(x, c, &ncs);

    if (rc == RC_FULL) {
        err_set(err, RC_FULL, "table nc: no index left for a fallback member");
    } else if (rc == RC_OK) {
        rc = build(x, c, is_ready, &ncs, &want, err);
    }
    if (rc == RC_OK) {
        rc = write_differences(x, &x->holds.config, &want);
    }
    if (drop_members(x, &ncs) != RC_OK || rc == RC_NO_MEMORY) {
        free(want.at);
        return xgwh_out_of_memory(x, err);
    }
    if (rc != RC_OK) {
        nc_pool_settle(&x->holds.ncs, &x->plan); /* indexes of members; no writes */
        free(want.at);
        return rc;
    }
    free(x->holds.config.at);
    x->holds.config = want;
    write_meters(x, c);
    if (c != &x->config) {
        x->config = *c;
        if (c->source_count > 0) {
            memcpy(x->sources, c->sources, c->source_count * sizeof(*c->sources));
        }
        x->config.sources = x->sources;
    }
    x->has_config = true;
    return xgwh_flush(x, sink, cost, err);
}

enum rc xgwh_configure(struct xgwh *x, const struct xgwh_config *c,
                       const struct xgwh_sink *sink, struct xgwh_cost *cost,
                       struct err *err)
{
    enum rc rc = xgwh_check(x, err);

    if (rc == RC_OK) {
        rc = check_config(c, err);
    }
    return rc == RC_OK ? configure(x, c, xgwh_is_ready(x), sink, cost, err) : rc;
}

enum rc xgwh_set_ready(struct xgwh *x, const struct xgwh_sink *sink,
                       struct xgwh_cost *cost, struct err *err)
{
    enum rc rc = xgwh_check(x, err);

    if (rc == RC_OK && !x->has_config) {
        rc = err_set(err, RC_CONFLICT, "ready before the first configuration");
    }
    return rc == RC_OK ? configure(x, &x->config, true, sink, cost, err) : rc;
}
