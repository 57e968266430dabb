/*
 * moves: what a move waits for, seen in nodes and groups.
 *
 * A node counts while it may forward: online, or suspect, for a suspect node forwards
 * with the tables it has.  One that is offline is filled before it is ready again.
 */
#include "controller/core/core_internal.h"

#include <stdio.h>

/* ---- groups ---- */

struct stand {
    bool has_node; /* one that is online */
    bool follows;  /* all that may forward have what the group had by the revision */
    bool refuses;  /* one lacks an entry of the tenant, and says so */
    char why[128];
};

static bool lacks_entry(const struct device *d, uint32_t vni, char why[128])
{
    for (uint32_t i = 0; i < d->exception_listed; i++) {
        if (d->exceptions[i].vni == vni) {
            snprintf(why, 128, "node %s: %s entries of vni %u are not in place",
                     d->name, table_name(d->exceptions[i].table), vni);
            return true;
        }
    }
    return false;
}

static struct stand stand_of(const struct core *c, const struct group *g, uint32_t vni,
                             uint64_t revision)
{
    uint64_t need = g->revision < revision ? g->revision : revision;
    struct stand s = { .follows = !jobs_are_behind(c, g, revision) };

    for (uint32_t i = 0; i < c->device_count; i++) {
        const struct device *d = c->devices[i];

        if (d->group != g || !device_may_forward(d)) {
            continue;
        }
        s.has_node = s.has_node || d->state == NODE_ONLINE;
        s.refuses = s.refuses || lacks_entry(d, vni, s.why);
        if (!device_has_applied(d, need)) {
            s.follows = false;
            if (!s.refuses) {
                snprintf(s.why, sizeof(s.why), "node %s", d->name);
            }
        }
    }
    if (!s.has_node && !s.why[0]) {
        snprintf(s.why, sizeof(s.why), "cluster %s", g->name);
    }
    return s;
}

/* The groups of a home, whoever is there now. */
static struct holders groups_of_home(const struct core *c, const struct home *h)
{
    return holders_beside(c, NULL, h);
}

static void explain(char why[OPERATION_TEXT_MAX + 1], const char *text)
{
    if (!why[0]) {
        snprintf(why, OPERATION_TEXT_MAX + 1, "%s", text);
    }
}

static void target_facts(const struct core *c, const struct operation *o,
                         const struct run *r, struct move_facts *f,
                         char why[OPERATION_TEXT_MAX + 1])
{
    struct holders g = groups_of_home(c, &o->move.to);

    f->target_has_node = true;
    f->target_is_applied = true;
    for (unsigned i = 0; i < g.count; i++) {
        struct stand s = stand_of(c, g.at[i], o->move.vni, r->since_revision);

        f->target_has_node = f->target_has_node && s.has_node;
        f->target_is_applied = f->target_is_applied && s.follows;
        f->target_refused = f->target_refused || s.refuses;
        if (s.refuses || !s.has_node || !s.follows) {
            explain(why, s.why);
        }
    }
}

static bool groups_follow(const struct core *c, const struct holders *g,
                          const struct operation *o, const struct run *r,
                          char why[OPERATION_TEXT_MAX + 1])
{
    bool done = true;

    for (unsigned i = 0; i < g->count; i++) {
        struct stand s = stand_of(c, g->at[i], o->move.vni, r->since_revision);

        if (!s.follows) {
            explain(why, s.why);
            done = false;
        }
    }
    return done;
}

/* Load balancers, who steer all traffic of a region.  One that could not place the row
 * has the old one still. */
static bool balancers_follow(const struct core *c, const struct operation *o,
                             const struct run *r, char why[OPERATION_TEXT_MAX + 1])
{
    bool done = true;

    for (uint32_t i = 0; i < c->group_count; i++) {
        struct stand s = { .follows = true };

        if (c->groups[i]->kind == GROUP_LB) {
            s = stand_of(c, c->groups[i], o->move.vni, r->since_revision);
        }
        if (!s.follows || s.refuses) {
            explain(why, s.why);
            done = false;
        }
    }
    return done;
}

static bool source_follows(const struct core *c, const struct operation *o,
                           const struct run *r, char why[OPERATION_TEXT_MAX + 1])
{
    struct holders g = groups_of_home(c, &o->move.from);

    return groups_follow(c, &g, o, r, why);
}

/* One slice of whether every group whose routes lead to the tenant follows.  Who peers
 * to it from now on is derived with its new home. */
static bool sources_follow(struct core *c, const struct operation *o, struct run *r,
                           char why[OPERATION_TEXT_MAX + 1])
{
    const struct sources *s = peer_index_sources(&c->peers, o->move.vni);
    const uint64_t look = ++c->last_look;
    uint32_t vni;

    while ((vni = sources_next(s, r->steered_at)) && c->units > 0) {
        struct holders h = holders_of_vni(c, vni);

        for (unsigned i = 0; i < h.count; i++) {
            const struct holders one = { .at = { h.at[i] }, .count = 1 };

            if (h.at[i]->look != look && !groups_follow(c, &one, o, r, why)) {
                return false;
            }
            h.at[i]->look = look; /* sources often share their homes */
        }
        r->steered_at = vni + 1;
        units_spend(&c->units, 8);
    }
    if (vni) {
        operations_note(c); /* to be continued */
    }
    return vni == 0;
}

/* Every group whose routes lead to the tenant, and who steers. */
static bool is_steered(struct core *c, const struct operation *o, struct run *r,
                       char why[OPERATION_TEXT_MAX + 1])
{
    struct holders target = groups_of_home(c, &o->move.to);
    bool done = groups_follow(c, &target, o, r, why);

    done = source_follows(c, o, r, why) && done;
    done = balancers_follow(c, o, r, why) && done;
    return done && sources_follow(c, o, r, why);
}

/* ---- all together ---- */

void move_facts_of(struct core *c, const struct operation *o, struct run *r,
                   struct move_facts *ret, char why[OPERATION_TEXT_MAX + 1])
{
    *ret = (struct move_facts){
        .tenant_is_gone = !committed_rows(c, o->move.vni, TABLE_TENANT),
        .step_ms = c->now_ms - r->began_ms,
    };
    switch (o->step) {
    case MOVE_INSTALL:
        target_facts(c, o, r, ret, why);
        break;
    case MOVE_AUDIT:
    case MOVE_PROBE:
        ret->gate = move_gate(c, o, r, why);
        break;
    case MOVE_STEER:
        ret->is_steered = o->move.ignores_steering || is_steered(c, o, r, why);
        ret->is_steered = consumers_follow(c, o, why) && ret->is_steered;
        break;
    case MOVE_REMOVE:
        ret->source_is_applied = source_follows(c, o, r, why);
        break;
    default:
        break;
    }
    ret->why = why[0] ? why : NULL;
}
