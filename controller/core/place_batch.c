/*
 * place_batch: the homes of a batch's tenants: chosen where they are left to us, and
 * held against the room there is where they are named.
 *
 * A batch is resolved when it is checked: what goes into the journal names every home
 * and half, so that nobody who reads it chooses again.  What is placed and in flight is
 * held on its cluster until the batch is committed (and counted by demand.c) or taken
 * back.
 */
#include "controller/core/core_internal.h"

#include <stdio.h>

#define PLACE_UNITS 24u /* of one tenant, among some fifty clusters */

/* ---- what is in flight ---- */

struct placed {
    uint32_t place;
    enum half half;
    bool is_gain; /* of tenants that are there: held in room_gain.c's sum */
    struct demand need;
};

static const struct resource_set *set_of(const struct core *c, uint32_t place)
{
    return &placement_cluster_at(c->placement, place)->set;
}

static void keep(struct pending *p, const struct placed *held)
{
    struct placed_list *l = &p->placed;

    if (l->count == l->cap) {
        l->cap = l->cap ? 2 * l->cap : 4;
        l->at = core_need(realloc(l->at, l->cap * sizeof(*l->at)));
    }
    l->at[l->count++] = *held;
}

void place_hold(struct core *c, struct pending *p, uint32_t place, enum half half,
                const struct demand *need)
{
    keep(p, &(struct placed){ place, half, false, *need });
    placement_add(c->placement, place, half, need);
}

void place_hold_gain(struct core *c, struct pending *p, uint32_t place, enum half half,
                     const struct demand *need)
{
    keep(p, &(struct placed){ place, half, true, *need });
    usage_add(set_of(c, place), room_coming(c, place), need, half);
}

void place_release(struct core *c, struct placed_list *l)
{
    for (uint32_t i = 0; i < l->count; i++) {
        const struct placed *at = &l->at[i];

        if (!placement_cluster_at(c->placement, at->place)) {
            continue; /* it is gone */
        }
        if (at->is_gain) {
            usage_sub(set_of(c, at->place), room_coming(c, at->place), &at->need,
                      at->half);
        } else {
            placement_sub(c->placement, at->place, at->half, &at->need);
        }
    }
    free(l->at);
    *l = (struct placed_list){ 0 };
}

/* ---- what comes with a tenant ---- */

/* Of a batch's tenant: the entries that come with it. */
struct coming {
    struct tenant_counts counts;
    uint32_t near[PLACE_NEAR_MAX];
    uint32_t near_count;
};

static void count_run(const struct core *c, const struct batch_run *run,
                      struct coming *io)
{
    struct run_reader rows = run_reader_of(run);
    struct row row;

    if (run->table == TABLE_VM_NC) {
        while (run_next(&rows, &row)) {
            *(row.key[0] == IP_V6 ? &io->counts.vms_v6 : &io->counts.vms_v4) += 1;
        }
    } else if (run->table == TABLE_VXLAN_ROUTE) {
        io->counts.routes += run->count;
        while (run_next(&rows, &row) && io->near_count < PLACE_NEAR_MAX) {
            uint32_t peer = row_peer(&row);

            if (peer) {
                io->near[io->near_count++] = place_near(c, peer);
            }
        }
    } else if (run->table == TABLE_ACL) {
        io->counts.acl_rules += run->count;
    } else if (run->table == TABLE_METER) {
        io->counts.is_metered = true;
    }
}

/* Everything that the batch puts for `vni`: its runs follow the tenant's, as a rule, so
 * the walk ends with the next tenant; what comes later is counted when committed. */
static void count_coming(const struct core *c, const struct batch_reader *behind,
                         uint32_t vni, struct coming *ret)
{
    struct batch_reader reader = *behind;
    struct batch_run run;

    memset(ret, 0, sizeof(*ret));
    while (batch_next(&reader, &run) && run.vni == vni) {
        if (run.op == BATCH_PUT) {
            count_run(c, &run, ret);
        }
    }
}

/* "h-1: route needs 300 and has 20 left" for as many clusters as the message takes. */
static enum rc refuse_place(const struct core *c, uint32_t vni,
                            const struct placement_ask *ask, struct err *err)
{
    struct placement_candidate *all;
    uint32_t count = placement_explain(c->placement, ask, NULL, 0);
    char text[160] = "";
    size_t len = 0;

    all = core_need(calloc(count + 1, sizeof(*all)));
    placement_explain(c->placement, ask, all, count);
    for (uint32_t i = 0; i < count && len < sizeof(text) - 1; i++) {
        len += (size_t)snprintf(text + len, sizeof(text) - len, "; ");
        if (len < sizeof(text) - 1) {
            len += place_print_candidate(c, &all[i], text + len, sizeof(text) - len);
        }
    }
    free(all);
    return err_field(err, RC_CONFLICT, "cluster", "no_cluster_fits",
                     "vni %u: build a cluster, for none takes it%s", vni, text);
}

static const char *place_name(const struct core *c, uint32_t place)
{
    return placement_cluster_at(c->placement, place)->name;
}

static enum rc place_new(struct core *c, struct pending *p,
                         const struct batch_reader *behind, struct entry *e)
{
    unsigned kind = place_kind(c);
    struct placement_answer answer;
    struct placement_ask ask;
    struct coming coming;
    uint32_t backing;

    count_coming(c, behind, e->vni, &coming);
    place_ask(c, kind, &coming.counts, &e->tenant.reserve, coming.near,
              coming.near_count, &ask);
    answer = placement_choose(c->placement, &ask);
    if (answer.cluster == PLACEMENT_NONE) {
        return refuse_place(c, e->vni, &ask, &p->reply.err);
    }
    place_hold(c, p, answer.cluster, answer.half, &ask.need);
    if (kind == GROUP_X86) {
        strcpy(e->tenant.cluster, place_name(c, answer.cluster));
        return RC_OK;
    }
    backing = placement_cluster_at(c->placement, answer.cluster)->backing;
    place_hold(c, p, backing, HALF_0, &ask.backing_need);
    strcpy(e->tenant.h_home, place_name(c, answer.cluster));
    strcpy(e->tenant.cluster, place_name(c, backing));
    e->tenant.half = (uint8_t)(answer.half + 1);
    return RC_OK;
}

static bool is_open_question(const struct entry *e)
{
    return !e->tenant.cluster[0] || (e->tenant.h_home[0] && !e->tenant.half);
}

/* A new one whose home was named: there must be room for it. */
static enum rc place_named(struct core *c, struct pending *p,
                           const struct batch_reader *behind, struct entry *e)
{
    unsigned kind = e->tenant.h_home[0] ? GROUP_H : GROUP_X86;
    struct placement_ask ask;
    struct coming coming;

    count_coming(c, behind, e->vni, &coming);
    place_ask(c, kind, &coming.counts, &e->tenant.reserve, NULL, 0, &ask);
    return room_take_named(c, p, &ask, e);
}

static enum rc resolve(struct core *c, struct pending *p,
                       const struct batch_reader *behind, struct entry *e)
{
    struct tenant_row old;
    bool has_old = tenant_row_of(table_set_rows(c->tip, e->vni, TABLE_TENANT), &old);

    if (!has_old) {
        return e->tenant.cluster[0] ? place_named(c, p, behind, e)
                                    : place_new(c, p, behind, e);
    }
    if (!e->tenant.cluster[0]) {
        memcpy(e->tenant.cluster, old.cluster, old.cluster_len);
        memcpy(e->tenant.h_home, old.h_home, old.h_home_len);
        e->tenant.half = old.half;
    } else if (is_open_question(e)) { /* without a home there, it is refused later */
        e->tenant.half = old.half ? old.half : 1 + VNI_HALF_0;
    }
    return RC_OK;
}

static bool read_tenant(const struct batch_run *run, struct entry *ret)
{
    struct run_reader rows = run_reader_of(run);
    struct row row;

    return run->table == TABLE_TENANT && run->op == BATCH_PUT &&
           run_next(&rows, &row) &&
           !entry_unpack(TABLE_TENANT, run->vni, &row, ret, NULL);
}

/* Whether a tenant of the batch leaves something to us. */
static bool has_open_question(const struct blob *ops)
{
    struct batch_reader reader = batch_reader_of(ops->data, ops->len);
    struct batch_run run;
    struct entry e;

    while (batch_next(&reader, &run)) {
        if (read_tenant(&run, &e) && is_open_question(&e)) {
            return true;
        }
    }
    return false;
}

/* The run as it is to be: of a tenant with its homes. */
static enum rc place_run(struct core *c, struct pending *p, const struct batch_run *run,
                         struct entry *tenant)
{
    struct batch_writer *made = p->at.place.is_making ? &p->at.place.made : NULL;
    enum rc rc = RC_OK;

    units_spend(&c->units, 1 + run->count / 8);
    if (tenant) {
        units_spend(&c->units, PLACE_UNITS);
        rc = resolve(c, p, &p->at.place.reader, tenant);
    }
    if (made && tenant) {
        batch_add_entry(made, ENTRY_PUT, tenant);
    } else if (made) {
        batch_add_rows(made, (enum batch_op)run->op, (enum table_id)run->table,
                       run->vni, NULL, run->rows, run->bytes, run->count);
    }
    return rc;
}

/* The batch that is stored is the one that was made. */
static void take_made(struct pending *p)
{
    struct blob *made = batch_writer_finish(&p->at.place.made);

    if (!made) {
        err_set(&p->reply.err, RC_NO_MEMORY, "batch: out of memory");
        return;
    }
    if (!p->asked) {
        p->asked = p->ops;
    } else {
        blob_unref(p->ops);
    }
    p->ops = made;
}

static void begin(struct core *c, struct pending *p)
{
    const struct blob *ops = p->asked ? p->asked : p->ops;
    struct place_at *at = &p->at.place;

    at->is_begun = true;
    at->reader = batch_reader_of(ops ? ops->data : NULL, ops ? ops->len : 0);
    at->is_making = ops && has_open_question(ops);
    if (at->is_making) {
        batch_writer_init(&at->made);
    }
    units_spend(&c->units, ops ? ops->len / 32 : 0);
}

bool place_batch(struct core *c, struct pending *p)
{
    struct place_at *at = &p->at.place;

    if (!at->is_begun) {
        begin(c, p);
    }
    while (c->units > 0) {
        struct batch_reader behind = at->reader;
        struct batch_run run;
        struct entry e;
        bool is_tenant;

        if (!batch_next(&behind, &run)) {
            if (at->is_making) {
                take_made(p);
            }
            return true;
        }
        is_tenant = read_tenant(&run, &e);
        if (is_tenant && c->job.placed.count > 0) {
            return false; /* what it made is counted in part, and still held as well */
        }
        at->reader = behind;
        if (place_run(c, p, &run, is_tenant ? &e : NULL)) {
            p->reply.bad_index = at->index;
            return true;
        }
        at->index += run.count;
    }
    return false;
}
