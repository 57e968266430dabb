#include "agent/fwd/fib.h"

#include <stdlib.h>
#include <sys/random.h>

#include "agent/fwd/fib_impl.h"

enum {
    DEFAULT_MAX_ENTRIES = 1 << 22,
    DEFAULT_MAX_VNIS = 1 << 20,
    BYTES_AN_ENTRY = 128,      /* of memory_bytes' default; twice what is needed */
    BYTES_AT_LEAST = 16 << 20, /* a small fib's slabs and pages */
    SCRATCH_KEEP = 1 << 15,    /* routes: larger scratch is given back */
    SERVICES_MAX = 1 << 16,
};

static struct fib_limits limits_with_defaults(const struct fib_limits *in)
{
    struct fib_limits l = in ? *in : (struct fib_limits){ 0 };

    l.max_routes = l.max_routes ? l.max_routes : DEFAULT_MAX_ENTRIES;
    l.max_vm_nc = l.max_vm_nc ? l.max_vm_nc : DEFAULT_MAX_ENTRIES;
    l.max_vnis = l.max_vnis ? l.max_vnis : DEFAULT_MAX_VNIS;
    if (!l.memory_bytes) {
        l.memory_bytes = (l.max_routes + l.max_vm_nc) * BYTES_AN_ENTRY + BYTES_AT_LEAST;
    }
    if (!l.seed && getrandom(&l.seed, sizeof l.seed, GRND_NONBLOCK) != sizeof l.seed) {
        l.seed = (uint64_t)(uintptr_t)&l; /* early boot: the stack's place at least */
    }
    return l;
}

static uint32_t at_most(uint64_t n, uint32_t max)
{
    return n < max ? (uint32_t)n : max;
}

struct fib *fib_new(const struct fib_limits *limits)
{
    struct fib *f = aligned_alloc(LINE_BYTES, sizeof *f);
    struct fib_limits l = limits_with_defaults(limits);

    if (!f) {
        return NULL;
    }
    memset(f, 0, sizeof *f);
    f->limits = l;
    atomic_init(&f->changes, 0);
    atomic_init(&f->retire.epoch, 1);
    /* Half as many slots again: a freed one waits for the workers. */
    if (lines_init(&f->lines, l.memory_bytes) ||
        pool_init(&f->tunnels, sizeof(struct tunnel_value),
                  at_most(l.max_routes + l.max_routes / 2 + 64, ACTION_PAYLOAD),
                  l.seed) ||
        pool_init(&f->ncs, sizeof(struct nc_value),
                  at_most(l.max_vm_nc + l.max_vm_nc / 2 + 64, NC_INDEX_MASK), l.seed) ||
        pool_init(&f->services, sizeof(struct service_value), SERVICES_MAX, l.seed) ||
        pool_init(&f->cluster_names, sizeof(struct cluster_value), FIB_CLUSTERS_MAX,
                  l.seed) ||
        exact_init(&f->clusters, EXACT_VNI, &f->lines, &f->retire, l.seed ^ 4) ||
        exact_init(&f->vni, EXACT_VNI, &f->lines, &f->retire, l.seed ^ 1) ||
        exact_init(&f->v4, EXACT_V4, &f->lines, &f->retire, l.seed ^ 2) ||
        exact_init(&f->v6, EXACT_V6, &f->lines, &f->retire, l.seed ^ 3)) {
        fib_free(f);
        return NULL;
    }
    exact_use_marks(&f->v4);
    exact_use_marks(&f->v6);
    return f;
}

void fib_free(struct fib *f)
{
    if (!f) {
        return;
    }
    retire_fini(&f->retire);
    pool_fini(&f->cluster_names);
    pool_fini(&f->services);
    pool_fini(&f->ncs);
    pool_fini(&f->tunnels);
    lines_fini(&f->lines);
    free(f->scratch);
    free(f);
}

/* ---- exceptions ---- */

void fib_exceptions_fini(struct fib_exceptions *x)
{
    free(x->at);
    *x = (struct fib_exceptions){ 0 };
}

void refuse(struct refusal *to, const struct table_change *c, const struct row *key,
            enum batch_op op, enum rc reason)
{
    struct fib_exceptions *x = to->list;
    struct fib_exception e = { .vni = c->vni,
                               .table = c->table,
                               .op = (uint8_t)op,
                               .key_len = key->key_len,
                               .reason = reason };

    if (to->first == RC_OK) {
        to->first = reason;
    }
    if (!x) {
        return;
    }
    if (x->count == x->cap) {
        uint32_t cap = x->cap ? x->cap * 2 : 16;
        struct fib_exception *at = realloc(x->at, cap * sizeof *at);

        if (!at) {
            x->unlisted++;
            return;
        }
        x->at = at;
        x->cap = cap;
    }
    if (key->key_len > 0 && key->key_len <= ENTRY_KEY_MAX) {
        memcpy(e.key, key->key, key->key_len);
    }
    x->at[x->count++] = e;
}

void fib_exceptions_revert(const struct fib_exceptions *x,
                           const struct change_list *changes, struct batch_writer *to)
{
    uint32_t at = 0; /* exceptions come in the order of changes, pass by pass */

    for (uint32_t i = 0; i < x->count; i++) {
        const struct fib_exception *e = &x->at[i];
        struct row row = { .key = e->key, .key_len = e->key_len };
        struct row old;
        uint32_t tries = 0;

        while (tries < changes->count &&
               (changes->at[at].vni != e->vni || changes->at[at].table != e->table)) {
            at = at + 1 < changes->count ? at + 1 : 0;
            tries++;
        }
        if (tries == changes->count) {
            continue; /* not of this list */
        }
        if (rows_find(changes->at[at].before, e->table, e->key, e->key_len, &old)) {
            row.value = old.value;
            row.value_len = old.value_len;
        }
        batch_add_row(to, row.value ? BATCH_PUT : BATCH_DELETE, e->table, e->vni, &row);
    }
}

/* ---- apply ---- */

typedef void pass_fn(struct fib *f, const struct table_change *c,
                     struct refusal *refused);

static void each(struct fib *f, const struct change_list *l, enum table_id table,
                 pass_fn *pass, struct refusal *refused)
{
    for (uint32_t i = 0; i < l->count; i++) {
        if (l->at[i].table == table) {
            pass(f, &l->at[i], refused);
        }
    }
}

/* The order in which VNIs get their new routes.  A VNI is made ready before another one
 * peers to it, and emptied after the other one has turned away. */
enum route_stage { STAGE_READY, STAGE_PEER, STAGE_TURN_AWAY, STAGE_EMPTY, STAGES };

static bool is_peer(const struct row *row)
{
    return row->key && row->value_len > 0 && row->value[0] == SCOPE_PEER;
}

/* What one walk over a change's routes tells: its stage, and which families changed. */
struct route_class {
    uint8_t stage;    /* STAGES: no change of routes */
    uint8_t families; /* 1 << is_v6 */
};

static struct route_class route_class_of(const struct table_change *c)
{
    struct delta d = delta_of(c->before, c->after, TABLE_VXLAN_ROUTE);
    struct route_class class = { .stage = STAGES };
    struct delta_step s;
    bool gains_peer = false;
    bool loses_peer = false;

    if (c->table != TABLE_VXLAN_ROUTE) {
        return class;
    }
    while (delta_next(&d, &s)) {
        const struct row *row = s.after.key ? &s.after : &s.before;

        class.families |= (uint8_t)(row->key_len > 0 && row->key[0] == IP_V6 ? 2 : 1);
        gains_peer |= is_peer(&s.after);
        loses_peer |= is_peer(&s.before);
    }
    if (gains_peer) {
        class.stage = STAGE_PEER;
    } else if (rows_count(c->after) >= rows_count(c->before)) {
        class.stage = STAGE_READY;
    } else {
        class.stage = loses_peer ? STAGE_TURN_AWAY : STAGE_EMPTY;
    }
    return class;
}

/* With `is_tight`, VNIs that lose routes come first: a limit leaves no other way. */
static void route_passes(struct fib *f, const struct change_list *l, bool is_tight,
                         struct refusal *refused)
{
    struct route_class *known = malloc((l->count + 1) * sizeof *known);

    for (uint32_t i = 0; known && i < l->count; i++) {
        known[i] = route_class_of(&l->at[i]);
    }
    for (unsigned now = 0; now < STAGES; now++) {
        for (uint32_t i = 0; i < l->count; i++) {
            const struct table_change *c = &l->at[i];
            struct route_class class = known ? known[i] : route_class_of(c);

            if (is_tight && class.stage < STAGES) {
                class.stage = rows_count(c->after) >= rows_count(c->before);
            }
            if (class.stage == now) {
                route_pass(f, c, class.families, refused);
            }
        }
    }
    free(known);
}

/* Entries that the list would add at most. */
static uint64_t adds_of(const struct change_list *l, enum table_id table)
{
    uint64_t added = 0;

    for (uint32_t i = 0; i < l->count; i++) {
        added += l->at[i].table == table ? l->at[i].counts.added : 0;
    }
    return added;
}

enum rc fib_apply(struct fib *f, const struct table_set *records,
                  const struct change_list *changes, struct fib_exceptions *exceptions)
{
    struct refusal refused = { .list = exceptions };
    bool is_tight =
        f->v4.count + f->v6.count + adds_of(changes, TABLE_VM_NC) > f->limits.max_vm_nc;

    f->records = records;
    each(f, changes, TABLE_VM_NC, is_tight ? vm_delete_pass : vm_unmark_pass, &refused);
    each(f, changes, TABLE_VM_NC, vm_put_pass, &refused);
    each(f, changes, TABLE_VNI, vni_put_pass, &refused);
    route_passes(f, changes,
                 f->routes + adds_of(changes, TABLE_VXLAN_ROUTE) > f->limits.max_routes,
                 &refused);
    each(f, changes, TABLE_VNI, vni_delete_pass, &refused);
    if (!is_tight) {
        each(f, changes, TABLE_VM_NC, vm_delete_pass, &refused);
    }
    each(f, changes, TABLE_VNI_CLUSTER, cluster_pass, &refused);
    if (f->scratch_cap > SCRATCH_KEEP) {
        free(f->scratch);
        f->scratch = NULL;
        f->scratch_cap = 0;
    }
    f->records = NULL;
    atomic_fetch_add(&f->retire.epoch, 1); /* what was retired is now unreachable */
    return refused.first;
}

/* ---- reclamation ---- */

void fib_reclaim(struct fib *f, uint64_t oldest_epoch)
{
    struct retired r;

    while (retire_next(&f->retire, oldest_epoch, &r)) {
        switch (r.kind) {
        case RETIRED_LINES:
            lines_free(&f->lines, r.index, r.count);
            break;
        case RETIRED_TUNNEL:
            pool_reuse(&f->tunnels, r.index);
            break;
        case RETIRED_NC:
            pool_reuse(&f->ncs, r.index);
            break;
        case RETIRED_CLUSTER:
            pool_reuse(&f->cluster_names, r.index);
            break;
        default:
            pool_reuse(&f->services, r.index);
        }
    }
}

void fib_reader_online(const struct fib *f, struct fib_reader *r)
{
    uint64_t epoch = atomic_load(&f->retire.epoch);
    uint64_t now;

    /* Ends with an epoch read after it was announced: either the writer sees the
     * announcement, or this reader sees all that the writer took out before. */
    for (;;) {
        atomic_exchange(&r->epoch, epoch);
        now = atomic_load(&f->retire.epoch);
        if (now == epoch) {
            return;
        }
        epoch = now;
    }
}

void fib_reader_quiescent(const struct fib *f, struct fib_reader *r)
{
    atomic_store_explicit(&r->epoch,
                          atomic_load_explicit(&f->retire.epoch, memory_order_acquire),
                          memory_order_release);
}

void fib_reader_offline(struct fib_reader *r)
{
    atomic_store_explicit(&r->epoch, UINT64_MAX, memory_order_release);
}

uint64_t fib_readers_oldest(const struct fib_reader *readers, unsigned n)
{
    uint64_t oldest = UINT64_MAX;

    for (unsigned i = 0; i < n; i++) {
        uint64_t epoch = atomic_load(&readers[i].epoch);

        oldest = epoch < oldest ? epoch : oldest;
    }
    return oldest;
}

/* ---- inspection ---- */

struct fib_stats fib_stats(const struct fib *f)
{
    return (struct fib_stats){
        .vnis = f->vnis_known,
        .routes = f->routes,
        .vm_nc4 = f->v4.count,
        .vm_nc6 = f->v6.count,
        .tunnels = f->tunnels.live,
        .ncs = f->ncs.live,
        .services = f->services.live,
        .clusters = f->cluster_names.live,
        .memory_bytes = lines_memory(&f->lines) + pool_memory(&f->tunnels) +
                        pool_memory(&f->ncs) + pool_memory(&f->services) +
                        pool_memory(&f->cluster_names) + sizeof *f +
                        f->retire.cap * sizeof *f->retire.ring +
                        f->scratch_cap * sizeof *f->scratch,
        .retired_bytes = f->retire.line_count * LINE_BYTES +
                         f->retire.count * sizeof *f->retire.ring,
    };
}

const char *fib_service_name(const struct fib *f, uint32_t service)
{
    const struct service_value *v;

    if (service >= f->services.max) {
        return "";
    }
    v = pool_value(&f->services, service);
    return v->name;
}

uint32_t fib_service_find(const struct fib *f, const char *name)
{
    struct service_value v = { 0 };

    if (strlen(name) > SERVICE_NAME_MAX) {
        return UINT32_MAX;
    }
    memcpy(v.name, name, strlen(name));
    return pool_find(&f->services, &v);
}
