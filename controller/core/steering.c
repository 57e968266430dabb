/*
 * steering: what the load balancers in front know: of each VNI its cluster, and of each
 * cluster the nodes that may be sent to.
 *
 *   rows      a group of load balancers holds of every tenant one `vni_cluster` row:
 *             where steering leads (homes_steering).  It follows the tenant's row, so
 *             in a move the step that steers flips it, and no other.
 *   members   nodes of an announced cluster's active side that are up.  They come with
 * the load balancers' configuration.
 *
 * A node comes to be a member when it forwards and holds what its group had when it
 * said HELLO.  It ceases to be one when its data plane says that it does not forward;
 * that it is silent changes nothing, for it forwards with the tables it has.  After our
 * own start all nodes count as what they most likely are, members, until they say
 * otherwise.  The last member of a side stays: to take it out would help nobody.
 *
 * A new group is filled in slices; until then it misses what it should hold.
 */
#include "controller/core/core_internal.h"

#include "proto/base/log.h"

#define SLICE_TENANTS 2000u /* of a group that is filled: some 2 ms */

/* ---- rows ---- */

/* The row that says `to`; null: none. */
static struct rows *home_rows(uint32_t vni, const struct group *to)
{
    struct rows_step step = { 0 };
    struct rows_change counts;
    struct rows *made = NULL;
    uint8_t value[1 + CLUSTER_NAME_MAX];

    if (!to) {
        return NULL;
    }
    value[0] = (uint8_t)strlen(to->name);
    memcpy(value + 1, to->name, value[0]);
    step.row = (struct row){ .key = value,
                             .value = value,
                             .value_len = (uint8_t)(1 + value[0]) };
    core_must(!rows_edit(NULL, TABLE_VNI_CLUSTER, vni, &step, 1, &made, &counts));
    return made;
}

static void emit(struct group *g, uint32_t vni, enum batch_op op,
                 const struct rows *rows)
{
    struct rows_iter it = rows_begin(rows, TABLE_VNI_CLUSTER);
    struct row row;

    core_must(rows_next(&it, &row));
    batch_add_row(&g->writer, op, TABLE_VNI_CLUSTER, vni, &row);
}

static void set_home(struct group *g, uint32_t vni, const struct group *to)
{
    struct rows *have = table_set_rows(g->desired, vni, TABLE_VNI_CLUSTER);
    struct rows *want = home_rows(vni, to);

    if (rows_digest(have) == rows_digest(want)) {
        rows_unref(want);
        return;
    }
    g->is_touched = true;
    if (g->session_count > 0) {
        emit(g, vni, want ? BATCH_PUT : BATCH_DELETE, want ? want : have);
    }
    core_must(!table_set_put(g->desired, vni, TABLE_VNI_CLUSTER, want));
}

void steering_note_tenant(struct core *c, uint32_t vni)
{
    struct homes homes = homes_of_vni(c, vni);

    for (uint32_t i = 0; i < c->group_count; i++) {
        if (c->groups[i]->kind == GROUP_LB) {
            set_home(c->groups[i], vni, homes_steering(&homes));
        }
    }
}

void steering_fill(struct core *c)
{
    c->steering_next_vni = VNI_MIN;
}

bool steering_is_behind(const struct core *c, const struct group *g)
{
    return g->kind == GROUP_LB && c->steering_next_vni != 0;
}

bool steering_has_work(const struct core *c)
{
    return c->phase == PHASE_SERVING && c->steering_next_vni != 0 && !jobs_must_wait(c);
}

bool steering_work(struct core *c)
{
    uint32_t vni = c->steering_next_vni;
    uint32_t count = 0;

    if (!steering_has_work(c)) {
        return false;
    }
    for (vni = core_tenant_next(c, vni); vni && count < SLICE_TENANTS; count++) {
        steering_note_tenant(c, vni);
        vni = vni < VNI_MAX ? core_tenant_next(c, vni + 1) : 0;
    }
    c->steering_next_vni = vni;
    jobs_tell(c);
    return true;
}

/* ---- members ---- */

/* Whether it may be sent to, but for the rule of the last one. */
static bool is_up(const struct device *d)
{
    switch (d->state) {
    case NODE_ONLINE:
        return d->is_member ||
               (d->session && device_has_applied(d, d->session->hello_revision));
    case NODE_SUSPECT:
        return d->is_member;
    case NODE_JOINING: /* not heard of since our start */
        return d->is_member && !d->session;
    default:
        return false;
    }
}

/* Another node beside it that is up. */
static bool has_other(const struct core *c, const struct node *node)
{
    for (uint32_t i = 0; i < c->device_count; i++) {
        const struct node *n = objects_node(&c->objects, c->devices[i]->name);

        if (n && n != node && n->side == node->side &&
            strcmp(n->cluster, node->cluster) == 0 && is_up(c->devices[i])) {
            return true;
        }
    }
    return false;
}

static bool set_member(struct core *c, struct device *d)
{
    const struct node *node = objects_node(&c->objects, d->name);
    bool is_member = node && is_up(d);
    bool stays = node && d->is_member && !is_member && !has_other(c, node);

    if (stays && !d->is_last_member) {
        effect_log(c, LOG_ERROR, "last member stays",
                   "node=%s cluster=%s next=\"it goes when another one is up\"",
                   d->name, node->cluster);
    }
    d->is_last_member = stays;
    if (stays || d->is_member == is_member) {
        return false;
    }
    d->is_member = is_member;
    effect_log(c, LOG_INFO, is_member ? "member comes" : "member goes",
               "node=%s cluster=%s", d->name, node ? node->cluster : "");
    return true;
}

void steering_note_devices(struct core *c)
{
    bool has_changed = false;

    /* Those that come first: then others may go. */
    for (unsigned turn = 0; turn < 2; turn++) {
        for (uint32_t i = 0; i < c->device_count; i++) {
            if (is_up(c->devices[i]) == (turn == 0)) {
                has_changed = set_member(c, c->devices[i]) || has_changed;
            }
        }
    }
    if (has_changed) {
        sessions_members_changed(c);
    }
}

void steering_presume_members(struct core *c)
{
    for (uint32_t i = 0; i < c->device_count; i++) {
        c->devices[i]->is_member = true;
    }
}

void steering_add_members(const struct core *c, struct device_config *config)
{
    for (uint32_t k = 0; k < c->objects.cluster_count; k++) {
        const struct cluster *cluster = &c->objects.clusters[k];

        for (uint32_t i = 0; i < c->objects.node_count; i++) {
            const struct node *n = &c->objects.nodes[i];
            const struct device *d = device_find(c, n->name);

            if (cluster->kind != CLUSTER_LB && cluster_is_announced(cluster->state) &&
                n->side == cluster->active_side && d && d->is_member &&
                strcmp(n->cluster, cluster->name) == 0) {
                device_config_add_cluster_member(config, n);
            }
        }
    }
}
