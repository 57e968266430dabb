/*
 * place_batch: the homes of the tenants of a batch that leaves them to us.
 *
 * A batch is resolved when it is checked: what goes into the journal names every home
 * and half, so that nobody who reads it chooses again.  What is placed and in flight is
 * held on its cluster until the batch is committed (and counted by demand.c) or taken
 * back.
 */
#include "controller/core/core_internal.h"

#include <stdio.h>

/* ---- what is in flight ---- */

struct placed {
    uint32_t place;
    enum half half;
    struct demand need;
};

static void hold(struct core *c, struct pending *p, uint32_t place, enum half half,
                 const struct demand *need)
{
    if (p->placed_count == p->placed_cap) {
        p->placed_cap = p->placed_cap ? 2 * p->placed_cap : 4;
        p->placed = core_need(realloc(p->placed, p->placed_cap * sizeof(*p->placed)));
    }
    p->placed[p->placed_count++] = (struct placed){ place, half, *need };
    placement_add(c->placement, place, half, need);
}

void place_release(struct core *c, struct pending *p)
{
    for (uint32_t i = 0; i < p->placed_count; i++) {
        const struct placed *at = &p->placed[i];

        if (placement_cluster_at(c->placement, at->place)) {
            placement_sub(c->placement, at->place, at->half, &at->need);
        }
    }
    free(p->placed);
    p->placed = NULL;
    p->placed_count = p->placed_cap = 0;
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
    hold(c, p, answer.cluster, answer.half, &ask.need);
    if (kind == GROUP_X86) {
        strcpy(e->tenant.cluster, place_name(c, answer.cluster));
        return RC_OK;
    }
    backing = placement_cluster_at(c->placement, answer.cluster)->backing;
    hold(c, p, backing, HALF_0, &ask.backing_need);
    strcpy(e->tenant.h_home, place_name(c, answer.cluster));
    strcpy(e->tenant.cluster, place_name(c, backing));
    e->tenant.half = (uint8_t)(answer.half + 1);
    return RC_OK;
}

/* The home was named and the half was not. */
static void choose_half(struct core *c, struct pending *p,
                        const struct batch_reader *behind, struct entry *e)
{
    uint32_t place = core_place_of(c, e->tenant.h_home);
    struct placement_ask ask;
    struct coming coming;
    enum half half = HALF_0;

    if (place != PLACEMENT_NONE) { /* else it is refused later, or in flight */
        count_coming(c, behind, e->vni, &coming);
        place_ask(c, GROUP_H, &coming.counts, &e->tenant.reserve, NULL, 0, &ask);
        half = placement_half(c->placement, &ask, place);
        hold(c, p, place, half, &ask.need);
    }
    e->tenant.half = (uint8_t)(half + 1);
}

static bool is_open_question(const struct entry *e)
{
    return !e->tenant.cluster[0] || (e->tenant.h_home[0] && !e->tenant.half);
}

static enum rc resolve(struct core *c, struct pending *p,
                       const struct batch_reader *behind, struct entry *e)
{
    struct tenant_row old;
    bool has_old = tenant_row_of(table_set_rows(c->tip, e->vni, TABLE_TENANT), &old);

    if (!e->tenant.cluster[0] && !has_old) {
        return place_new(c, p, behind, e);
    }
    if (!e->tenant.cluster[0]) {
        memcpy(e->tenant.cluster, old.cluster, old.cluster_len);
        memcpy(e->tenant.h_home, old.h_home, old.h_home_len);
        e->tenant.half = old.half;
    } else if (has_old && old.h_home_len == strlen(e->tenant.h_home) &&
               memcmp(old.h_home, e->tenant.h_home, old.h_home_len) == 0) {
        e->tenant.half = old.half;
    } else {
        choose_half(c, p, behind, e);
    }
    return RC_OK;
}

/* Whether a tenant of the batch leaves something to us. */
static bool has_open_question(const struct blob *ops)
{
    struct batch_reader reader = batch_reader_of(ops->data, ops->len);
    struct batch_run run;
    struct entry e;
    struct row row;

    while (batch_next(&reader, &run)) {
        struct run_reader rows = run_reader_of(&run);

        if (run.table == TABLE_TENANT && run.op == BATCH_PUT && run_next(&rows, &row) &&
            !entry_unpack(TABLE_TENANT, run.vni, &row, &e, NULL) &&
            is_open_question(&e)) {
            return true;
        }
    }
    return false;
}

enum rc place_batch(struct core *c, struct pending *p)
{
    const struct blob *ops = p->asked ? p->asked : p->ops;
    struct batch_reader reader = batch_reader_of(ops->data, ops->len);
    struct batch_writer w;
    struct batch_run run;
    struct blob *made;
    uint32_t index = 0;
    enum rc rc = RC_OK;

    if (!has_open_question(ops)) {
        return RC_OK;
    }
    batch_writer_init(&w);
    while (!rc && batch_next(&reader, &run)) {
        struct run_reader rows = run_reader_of(&run);
        struct entry e;
        struct row row;

        if (run.table == TABLE_TENANT && run.op == BATCH_PUT && run_next(&rows, &row) &&
            !entry_unpack(TABLE_TENANT, run.vni, &row, &e, NULL)) {
            rc = is_open_question(&e) ? resolve(c, p, &reader, &e) : RC_OK;
            batch_add_entry(&w, ENTRY_PUT, &e);
        } else {
            batch_add_rows(&w, (enum batch_op)run.op, (enum table_id)run.table, run.vni,
                           NULL, run.rows, run.bytes, run.count);
        }
        index += rc ? 0 : run.count;
    }
    made = rc ? NULL : batch_writer_finish(&w);
    batch_writer_fini(&w);
    if (rc || !made) {
        place_release(c, p);
        p->reply.bad_index = rc ? index : UINT32_MAX;
        return rc ? rc : err_set(&p->reply.err, RC_NO_MEMORY, "batch: out of memory");
    }
    if (!p->asked) {
        p->asked = p->ops;
    } else {
        blob_unref(p->ops);
    }
    p->ops = made;
    return RC_OK;
}
