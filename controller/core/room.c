/*
 * room: whether clusters that are named have room for a tenant.
 *
 * What placement does where the controller chooses is asked of a cluster here that
 * somebody named: by a new tenant, or as the target of a move.  What is announced
 * counts.
 */
#include "controller/core/core_internal.h"

#include <stdio.h>

#define PERCENT(bp) ((double)(bp) / 100)

/* What a tenant needs of one cluster. */
struct need {
    const char *field; /* of the request, that names the cluster */
    uint32_t vni;
    uint32_t place;
    enum half half;
    const struct demand *amounts;
};

/* "route needs 5000 and has 1450 rows left"; the half that has less of it. */
static void print_lack(const struct resource_set *set, const struct usage *use,
                       const struct need *n, const struct demand *room, unsigned which,
                       char *ret, size_t size)
{
    const struct resource *r = &set->at[which];
    bool both = r->per_half && n->half == HALF_BOTH;
    uint64_t used = use->amount[r->per_half && n->half == HALF_1][which];
    uint64_t amount = n->amounts->amount[which];
    uint64_t left;

    if (both) {
        amount = r->on_both == RESOURCE_COPIED ? amount : (amount + 1) / 2;
        used = used > use->amount[1][which] ? used : use->amount[1][which];
    }
    left = room->amount[which] > used ? room->amount[which] - used : 0;
    snprintf(ret, size, "%s needs %llu and has %llu %s left", r->name,
             (unsigned long long)((amount + r->scale - 1) / r->scale),
             (unsigned long long)(left / r->scale), r->unit);
}

static enum rc check_place(const struct core *c, const struct need *n, struct err *err)
{
    const struct placement_cluster *x = placement_cluster_at(c->placement, n->place);
    const struct level *l = health_cluster_at(c->health, x->name, WATER_SALE, false);
    struct demand room;
    struct usage use;
    unsigned which;
    char text[96];

    if (l) {
        return err_field(err, RC_CONFLICT, n->field, "sale_closed",
                         "vni %u: cluster %s takes no new tenants: %s is at %.2f %%, "
                         "%llu of %llu (sale level %.0f %%): leave its home open, and "
                         "one is chosen",
                         n->vni, x->name, l->resource, PERCENT(l->bp),
                         (unsigned long long)l->used, (unsigned long long)l->capacity,
                         PERCENT(x->sale_bp));
    }
    placement_usage(c->placement, n->place, &use);
    resource_room(&x->set, x->sale_bp, &room);
    if (usage_fits(&x->set, &use, n->amounts, n->half, &room, &which)) {
        return RC_OK;
    }
    print_lack(&x->set, &use, n, &room, which, text, sizeof(text));
    return err_field(err, RC_CONFLICT, n->field, "no_room",
                     "vni %u: cluster %s: %s below its sale level (%.0f %%): leave its "
                     "home open, and one is chosen, or build a cluster",
                     n->vni, x->name, text, PERCENT(x->sale_bp));
}

/* Checks it, and holds it until the command is committed or taken back. */
static enum rc take(struct core *c, struct pending *p, const struct need *n)
{
    enum rc rc = check_place(c, n, &p->reply.err);

    if (!rc) {
        place_hold(c, p, n->place, n->half, n->amounts);
    }
    return rc;
}

/* Its place; PLACEMENT_NONE where there is no such cluster of the kind: what is unknown
 * or in flight is judged later, by the tip. */
static uint32_t find_place(const struct core *c, const char *cluster, unsigned kind)
{
    uint32_t place = core_place_of(c, cluster);

    return place != PLACEMENT_NONE &&
                   placement_cluster_at(c->placement, place)->pool == kind
               ? place
               : PLACEMENT_NONE;
}

static enum half choose_half(const struct core *c, const struct placement_ask *ask,
                             uint32_t place)
{
    enum half half;

    return placement_fits(c->placement, ask, place, &half)
               ? half
               : placement_half(c->placement, ask, place);
}

enum rc room_take_named(struct core *c, struct pending *p,
                        const struct placement_ask *ask, struct entry *e)
{
    bool has_h = e->tenant.h_home[0];
    struct need h = { "h_home", e->vni, find_place(c, e->tenant.h_home, GROUP_H),
                      HALF_0, &ask->need };
    struct need x86 = { "cluster", e->vni, find_place(c, e->tenant.cluster, GROUP_X86),
                        HALF_0, has_h ? &ask->backing_need : &ask->need };
    enum rc rc = RC_OK;

    if (e->tenant.half) {
        h.half = (enum half)(e->tenant.half - 1);
    } else if (h.place != PLACEMENT_NONE) {
        h.half = choose_half(c, ask, h.place);
    }
    if (has_h) {
        e->tenant.half = (uint8_t)(h.half + 1);
    }
    rc = h.place != PLACEMENT_NONE ? take(c, p, &h) : RC_OK;
    return !rc && x86.place != PLACEMENT_NONE ? take(c, p, &x86) : rc;
}

enum rc room_take_move(struct core *c, struct pending *p, struct move *m)
{
    struct placement_ask ask = { .pool = GROUP_H, .except = PLACEMENT_NONE };
    bool h_stays = strcmp(m->to.h, m->from.h) == 0;
    bool x86_stays = strcmp(m->to.x86, m->from.x86) == 0;
    struct need n = { "cluster", m->vni, PLACEMENT_NONE, HALF_0, &ask.need };
    enum rc rc = RC_OK;

    m->to.half = h_stays ? m->from.half : 0;
    if (m->to.h[0] && !h_stays) {
        demand_of_tenant(c, GROUP_H, m->vni, true, &ask.need);
        n.place = find_place(c, m->to.h, GROUP_H);
        n.half = n.place != PLACEMENT_NONE ? choose_half(c, &ask, n.place) : HALF_0;
        m->to.half = (uint8_t)(n.half + 1);
        rc = n.place != PLACEMENT_NONE ? take(c, p, &n) : RC_OK;
    }
    if (!rc && !x86_stays) {
        demand_of_tenant(c, GROUP_X86, m->vni, !m->to.h[0], &ask.need);
        n.place = find_place(c, m->to.x86, GROUP_X86);
        n.half = HALF_0;
        rc = n.place != PLACEMENT_NONE ? take(c, p, &n) : RC_OK;
    }
    return rc;
}
