#include "agent/xgwh/xgwh_impl.h"

#include <stdlib.h>
#include <string.h>

/* ---- life ---- */

enum rc holds_init(struct holds *h, const struct phys_sizes *sizes)
{
    memset(h, 0, sizeof(*h));
    return nc_pool_init(&h->ncs, sizes->table[PHYS_NC]);
}

void holds_fini(struct holds *h)
{
    nc_pool_fini(&h->ncs);
    vm_side_fini(&h->vm);
    u64map_fini(&h->vnis);
    free(h->config.at);
    free(h->acl.at);
    memset(h, 0, sizeof(*h));
}

struct xgwh *xgwh_new(const struct xgwh_options *options)
{
    struct xgwh *x = calloc(1, sizeof(*x));
    bool is_ok = x != NULL;

    if (!x) {
        return NULL;
    }
    x->sizes = *options->sizes;
    x->halves = options->halves == 2 ? 2 : 1;
    x->repack = options->repack;
    x->knows_all = true;
    x->rows = table_set_new();
    x->unnamed = table_set_new();
    x->rules = table_set_new();
    is_ok = x->rows && x->unnamed && x->rules && meters_init(x) &&
            holds_init(&x->holds, &x->sizes) == RC_OK;
    for (unsigned half = 0; is_ok && half < x->halves; half++) {
        is_ok = alpm_new(&x->sizes, (uint8_t)half, &x->alpm[half]) == RC_OK;
    }
    if (is_ok) {
        xgwh_forget_full(x);
    }
    if (!is_ok) {
        xgwh_free(x);
        return NULL;
    }
    return x;
}

void xgwh_free(struct xgwh *x)
{
    if (!x) {
        return;
    }
    reading_free(x->reading);
    alpm_free(x->alpm[0]);
    alpm_free(x->alpm[1]);
    holds_fini(&x->holds);
    u64map_fini(&x->guards);
    u64map_fini(&x->places);
    plan_fini(&x->plan);
    table_set_free(x->rows);
    table_set_free(x->unnamed);
    table_set_free(x->unsound);
    table_set_free(x->rules);
    meters_fini(x);
    free(x);
}

void xgwh_exceptions_fini(struct xgwh_exceptions *e)
{
    free(e->at);
    memset(e, 0, sizeof(*e));
}

/* ---- shared ---- */

enum rc xgwh_out_of_memory(struct xgwh *x, struct err *err)
{
    x->is_void = true;
    plan_reset(&x->plan);
    return err_set(err, RC_NO_MEMORY, "xgw-h mapping: no memory; read the switch back");
}

enum rc xgwh_check(const struct xgwh *x, struct err *err)
{
    return x->is_void
               ? err_set(err, RC_STALE, "xgw-h mapping: the switch must be read back")
               : RC_OK;
}

enum rc xgwh_flush(struct xgwh *x, const struct xgwh_sink *sink, struct xgwh_cost *cost,
                   struct err *err)
{
    struct xgwh_cost ignored = { 0 };

    if (!x->keeps_orphans) {
        nc_pool_settle(&x->holds.ncs, &x->plan);
    }
    if (x->plan.failed) {
        return xgwh_out_of_memory(x, err);
    }
    meters_settle(x);
    return plan_flush(&x->plan, sink, cost ? cost : &ignored)
               ? RC_OK
               : xgwh_out_of_memory(x, err);
}

static uint32_t limit_of(const struct phys_sizes *sizes, enum phys_table table)
{
    uint32_t size = sizes->table[table];

    switch (table) {
    case PHYS_VNI:
    case PHYS_VM_NC:
    case PHYS_VM_NC_SPILL:
    case PHYS_VM_NC_CONFLICT:
        return (uint32_t)((uint64_t)size * sizes->hash_load / 1000);
    default:
        return size;
    }
}

bool entry_list_add(struct entry_list *l, const struct phys_entry *e)
{
    if (l->count == l->cap) {
        uint32_t cap = l->cap ? 2 * l->cap : 64;
        struct phys_entry *at = realloc(l->at, cap * sizeof(*at));

        if (!at) {
            return false;
        }
        l->at = at;
        l->cap = cap;
    }
    l->at[l->count++] = *e;
    return true;
}

int entry_compare(const void *a, const void *b)
{
    return phys_compare(a, b);
}

void entry_list_sort(struct entry_list *l)
{
    if (l->count > 1) {
        qsort(l->at, l->count, sizeof(*l->at), entry_compare);
    }
}

void entry_list_drop_repeats(struct entry_list *l)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < l->count; i++) {
        if (kept == 0 || phys_compare(&l->at[kept - 1], &l->at[i]) != 0) {
            l->at[kept++] = l->at[i];
        }
    }
    l->count = kept;
}

/* ---- what the switch remembers for the driver ---- */

void state_entry(uint32_t index, uint64_t hi, uint64_t lo, struct phys_entry *ret)
{
    uint8_t bytes[16];

    *ret = phys_make(PHYS_NC, PHYS_BOTH, 0);

    for (unsigned i = 0; i < 8; i++) {
        bytes[i] = (uint8_t)(hi >> (56 - 8 * i));
        bytes[8 + i] = (uint8_t)(lo >> (56 - 8 * i));
    }
    phys_set_key(ret, 0, index);
    phys_set_action(ret, PHYS_NC6);
    phys_set_param_bytes(ret, 0, bytes);
}

static uint64_t be64(const uint8_t *p)
{
    uint64_t v = 0;

    for (unsigned i = 0; i < 8; i++) {
        v = v << 8 | p[i];
    }
    return v;
}

bool xgwh_state_of_entry(const struct phys_entry *e, struct xgwh_state *ret)
{
    const uint8_t *p;
    uint64_t index;

    if (e->table != PHYS_NC || e->action != PHYS_NC6) {
        return false;
    }
    index = phys_key(e, 0);
    p = phys_param_bytes(e, 0);
    if (index == PHYS_NC_STATE_BOOT) {
        ret->boot_id = be64(p);
        ret->term = be64(p + 8);
    } else if (index == PHYS_NC_STATE_APPLIED) {
        ret->applied = be64(p);
        ret->config_digest = be64(p + 8);
    }
    return index == PHYS_NC_STATE_BOOT || index == PHYS_NC_STATE_APPLIED;
}

enum rc xgwh_put_state(struct xgwh *x, const struct xgwh_state *s,
                       const struct xgwh_sink *sink, struct err *err)
{
    struct holds *h = &x->holds;
    enum rc rc = xgwh_check(x, err);
    struct phys_entry e;

    if (rc != RC_OK) {
        return rc;
    }
    if (!h->has_boot || h->state.boot_id != s->boot_id || h->state.term != s->term) {
        state_entry(PHYS_NC_STATE_BOOT, s->boot_id, s->term, &e);
        plan_add(&x->plan, STAGE_LATE, h->has_boot ? PHYS_MODIFY : PHYS_INSERT, &e);
    }
    if (!h->has_applied || h->state.applied != s->applied ||
        h->state.config_digest != s->config_digest) {
        state_entry(PHYS_NC_STATE_APPLIED, s->applied, s->config_digest, &e);
        plan_add(&x->plan, STAGE_LATE, h->has_applied ? PHYS_MODIFY : PHYS_INSERT, &e);
    }
    h->state = *s;
    h->has_boot = h->has_applied = true;
    return xgwh_flush(x, sink, NULL, err);
}

struct xgwh_state xgwh_state(const struct xgwh *x)
{
    return x->holds.state;
}

/* ---- inspection ---- */

const struct table_set *xgwh_tables(const struct xgwh *x)
{
    return x->rows;
}

static uint64_t unnamed_count(const struct xgwh *x)
{
    const struct u64map *slots = &x->holds.vm.slots;
    uint64_t n = table_set_count(x->unnamed, TABLE_VXLAN_ROUTE);

    for (uint32_t i = 0; i < u64map_places(slots); i++) {
        n += slots->keys[i] != U64MAP_NONE && !(slots->values[i] & SLOT_NAMED);
    }
    n += acl_unnamed(x) + meters_unnamed(x);
    return n;
}

static void count_used(const struct xgwh *x, struct xgwh_usage *u)
{
    const struct holds *h = &x->holds;
    uint32_t nc = h->ncs.used[0] + h->ncs.used[1] + h->has_boot + h->has_applied;

    u->meters = x->meters.count;
    for (unsigned half = 0; half < 2; half++) {
        u->used[PHYS_VNI][half] = h->vnis.count;
        u->used[PHYS_NC][half] = nc;
        u->used[PHYS_ACL][half] = h->acl.count;
        u->used[PHYS_VM_NC][half] = h->vm.used[0][half];
        u->used[PHYS_VM_NC_SPILL][half] = h->vm.used[1][half];
        u->used[PHYS_VM_NC_CONFLICT][half] = h->vm.used[2][half];
        if (x->alpm[half]) {
            struct alpm_stats s = alpm_stats(x->alpm[half]);

            u->used[PHYS_ROUTE_TCAM][half] = s.rows;
            u->used[PHYS_ROUTE_PART][half] = (uint32_t)s.routes;
            u->partitions[half] = s.rows;
            u->routes[half] = s.routes;
        }
        for (uint32_t i = 0; i < h->config.count; i++) {
            u->used[h->config.at[i].table][half]++;
        }
    }
}

struct xgwh_status xgwh_status(const struct xgwh *x)
{
    struct xgwh_status s = { .is_void = x->is_void,
                             .unnamed = unnamed_count(x),
                             .guards = x->guards.count };
    const struct vm_side *vm = &x->holds.vm;

    count_used(x, &s.usage);
    s.memory_bytes = sizeof(*x) + table_set_memory(x->rows) +
                     table_set_memory(x->unnamed) + nc_pool_memory(&x->holds.ncs) +
                     u64map_memory(&vm->slots) + u64map_memory(&vm->heads) +
                     vm->conflict_cap * sizeof(*vm->conflicts) +
                     u64map_memory(&x->holds.vnis) + u64map_memory(&x->guards) +
                     u64map_memory(&x->places) + u64map_memory(&x->counted) +
                     x->holds.config.cap * sizeof(*x->holds.config.at);
    for (unsigned half = 0; half < x->halves; half++) {
        s.memory_bytes += alpm_stats(x->alpm[half]).memory_bytes +
                          vm->spilled[half].cap * sizeof(*vm->spilled[half].at);
    }
    return s;
}

/* ---- what the switch had no room for ---- */

void xgwh_limit_routes(struct xgwh *x, bool is_lifted)
{
    for (unsigned half = 0; half < x->halves; half++) {
        alpm_limit(x->alpm[half],
                   is_lifted ? UINT32_MAX : x->limit[PHYS_ROUTE_TCAM][half]);
    }
}

uint32_t xgwh_limit(const struct xgwh *x, enum phys_table table)
{
    const uint32_t *of = x->limit[table];

    return of[0] < of[1] ? of[0] : of[1];
}

void xgwh_note_full(struct xgwh *x, enum phys_table table, unsigned half)
{
    struct xgwh_usage u = { 0 };
    uint32_t *limit = &x->limit[table][half];

    if (table != PHYS_NC && table != PHYS_ROUTE_PART) {
        count_used(x, &u);
        *limit = u.used[table][half] < *limit ? u.used[table][half] : *limit;
        xgwh_limit_routes(x, false);
    }
}

void xgwh_forget_full(struct xgwh *x)
{
    for (unsigned t = 0; t < PHYS_TABLES; t++) {
        x->limit[t][0] = x->limit[t][1] = limit_of(&x->sizes, (enum phys_table)t);
    }
    xgwh_limit_routes(x, false);
}
