/* suggest_share: the traffic of VNIs, shared out among the services that they use. */
#include "controller/core/core_internal.h"

#include <stdio.h>

#define REACHED_MAX                                                                    \
    64 /* VNIs; a packet passes 4 at most, but each peer may lead on                   \
        */

static void set_add(struct service_set *s, unsigned bit)
{
    s->bits[bit / 64] |= UINT64_C(1) << bit % 64;
}

static bool set_has(const struct service_set *s, unsigned bit)
{
    return s->bits[bit / 64] >> bit % 64 & 1;
}

static unsigned set_count(const struct service_set *s)
{
    unsigned n = 0;

    for (unsigned i = 0; i < SERVICE_BITS / 64; i++) {
        n += (unsigned)__builtin_popcountll(s->bits[i]);
    }
    return n;
}

/* ---- what a VNI uses ---- */

/* The place of the first one in the suggestion's list that has this name. */
static unsigned bit_of(const struct suggestion *s, const char *service)
{
    uint32_t i = 0;

    while (i < s->count && strcmp(s->services[i].figures.service, service) != 0) {
        i++;
    }
    return i < s->count ? i : SERVICE_OTHER;
}

static void add_row(const struct suggestion *s, const struct row *row,
                    struct service_set *io)
{
    struct route_action action = { .scope = row->value[0] };
    char name[POLICY_SERVICE_MAX + 1];
    unsigned bit;

    if (action.scope != SCOPE_SERVICE) {
        set_add(io, action.scope - 1u); /* scopes stand first, in order */
        return;
    }
    memcpy(action.service, row->value + 2, row->value[1]);
    policy_service_name(&action, name);
    bit = bit_of(s, name);
    if (bit == SERVICE_OTHER) { /* counted together with the rest, if there is one */
        bit = bit_of(s, scope_name(SCOPE_SERVICE));
    }
    set_add(io, bit);
}

static void note_uses(struct core *c, uint32_t vni)
{
    struct suggest_job *job = &c->suggest_job;
    struct rows *routes = committed_rows(c, vni, TABLE_VXLAN_ROUTE);
    struct rows_iter it = rows_begin(routes, TABLE_VXLAN_ROUTE);
    struct service_set set = { 0 };
    struct map_slot *slot;
    struct row row;

    while (routes && rows_next(&it, &row)) {
        add_row(job->making, &row, &set);
    }
    if (job->set_count == job->set_cap) {
        job->set_cap = job->set_cap ? 2 * job->set_cap : 256;
        job->sets = core_need(realloc(job->sets, job->set_cap * sizeof(*job->sets)));
    }
    job->sets[job->set_count++] = set;
    slot = core_need(map_add(&job->uses, vni));
    slot->a = job->set_count;
}

bool suggest_uses_work(struct core *c, uint32_t rows)
{
    struct suggest_job *job = &c->suggest_job;
    uint64_t walked = 0;
    uint32_t vni;

    for (vni = core_tenant_next(c, job->next_vni); vni && walked < rows;
         vni = vni < VNI_MAX ? core_tenant_next(c, vni + 1) : 0) {
        walked += 8;
        if (homes_of_vni(c, vni).of[GROUP_H]) {
            walked += rows_count(committed_rows(c, vni, TABLE_VXLAN_ROUTE));
            note_uses(c, vni);
        }
    }
    job->next_vni = vni;
    return vni == 0;
}

/* ---- by its peers, too ---- */

struct reached {
    uint32_t vni[REACHED_MAX];
    unsigned count;
    bool is_too_many;
};

static void reach(struct reached *r, uint32_t vni)
{
    for (unsigned i = 0; i < r->count; i++) {
        if (r->vni[i] == vni) {
            return;
        }
    }
    if (r->count == REACHED_MAX) {
        r->is_too_many = true;
    } else {
        r->vni[r->count++] = vni;
    }
}

static void reach_peers(const struct core *c, struct reached *r, uint32_t vni)
{
    struct rows *out = table_set_rows(c->peers.out, vni, TABLE_VXLAN_ROUTE);
    struct rows_iter it = rows_begin(out, TABLE_VXLAN_ROUTE);
    struct row row;

    while (out && !r->is_too_many && rows_next(&it, &row)) {
        reach(r, row_peer(&row));
    }
}

/* A packet of the VNI may be for any of these. */
static struct service_set uses_of(const struct core *c, uint32_t vni)
{
    const struct suggest_job *job = &c->suggest_job;
    struct service_set all = { 0 };
    struct reached r = { 0 };

    reach(&r, vni);
    for (unsigned i = 0; i < r.count && !r.is_too_many; i++) {
        const struct map_slot *slot = map_find(&job->uses, r.vni[i]);

        /* One that is not on XGW-H is reached by a tunnel: it is `peer`, no more. */
        for (unsigned k = 0; slot && k < SERVICE_BITS / 64; k++) {
            all.bits[k] |= job->sets[slot->a - 1].bits[k];
        }
        if (slot) {
            reach_peers(c, &r, r.vni[i]);
        }
    }
    if (r.is_too_many) {
        memset(&all, 0xff, sizeof(all));
    }
    return all;
}

static void share(struct suggestion *s, const struct service_set *uses, uint64_t bps)
{
    unsigned count = set_count(uses);

    s->traffic.total_bps += count > 0 ? bps : 0;
    for (uint32_t i = 0; i < s->count; i++) {
        if (set_has(uses, i)) {
            s->services[i].figures.most_bps += bps;
            s->services[i].figures.least_bps += count == 1 ? bps : 0;
        }
    }
}

/* Whose that is nobody knows. */
static void share_rest(struct suggestion *s, uint64_t bps)
{
    s->traffic.uncounted_bps += bps;
    s->traffic.total_bps += bps;
    for (uint32_t i = 0; i < s->count; i++) {
        s->services[i].figures.most_bps += s->services[i].figures.entries > 0 ? bps : 0;
    }
}

static void end(struct core *c)
{
    const struct traffic *t = &c->traffic;
    struct suggestion *s = c->suggest_job.making;

    s->traffic.seconds = t->seconds;
    s->traffic.unmeasured =
        core_need(calloc(t->node_count + 1, sizeof(*s->traffic.unmeasured)));
    for (uint32_t i = 0; i < t->node_count; i++) {
        struct unmeasured_node *u = &s->traffic.unmeasured[s->traffic.unmeasured_count];

        if (!t->nodes[i].is_lost) {
            s->traffic.measured++;
            share_rest(s, t->nodes[i].rest_bps);
            continue;
        }
        s->traffic.unmeasured_count++;
        snprintf(u->name, sizeof(u->name), "%s", t->nodes[i].name);
        snprintf(u->why, sizeof(u->why), "%s", t->nodes[i].why);
    }
    suggest_weigh(s->services, s->count, s->traffic.total_bps);
    suggest_share_fini(&c->suggest_job);
}

bool suggest_share_work(struct core *c, uint32_t slots)
{
    struct suggest_job *job = &c->suggest_job;
    const struct map_slot *slot = NULL;

    for (uint32_t n = 0; n < slots; n++) {
        slot = map_each(&c->traffic.bps, &job->at_slot);
        if (!slot) {
            end(c);
            return true;
        }
        if (c->traffic.nodes[traffic_node_of(slot->key)].is_lost) {
            continue;
        }
        demand_measured(c, traffic_vni_of(slot->key), slot->a, c->traffic.last_ask);
        if (slot->a > 0) {
            struct service_set uses = uses_of(c, traffic_vni_of(slot->key));

            share(job->making, &uses, slot->a);
        }
    }
    return false;
}

void suggest_share_fini(struct suggest_job *job)
{
    map_fini(&job->uses);
    free(job->sets);
    job->sets = NULL;
    job->set_count = 0;
    job->set_cap = 0;
    job->at_slot = 0;
}
