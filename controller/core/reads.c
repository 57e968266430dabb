/* reads: committed state, for the API and for tests. */
#include "controller/core/core_internal.h"

bool core_is_ready(const struct core *c)
{
    return c->phase == PHASE_SERVING;
}

const struct err *core_failure(const struct core *c)
{
    return c->phase == PHASE_FAILED || c->phase == PHASE_DEPOSED ? &c->failure : NULL;
}

uint64_t core_revision(const struct core *c)
{
    return c->revision;
}

const struct region *core_region(const struct core *c)
{
    return c->objects.has_region ? &c->objects.region : NULL;
}

const struct policy *core_policy(const struct core *c)
{
    return &c->objects.policy;
}

bool core_policy_is_pending(const struct core *c)
{
    return c->policy_job.next_vni != 0;
}

bool core_is_projected(const struct core *c)
{
    return c->job.kind == JOB_NONE && !c->policy_job.next_vni;
}

const struct cluster *core_cluster_at(const struct core *c, uint32_t index)
{
    return index < c->objects.cluster_count ? &c->objects.clusters[index] : NULL;
}

const struct cluster *core_cluster_find(const struct core *c, const char *name)
{
    return objects_cluster(&c->objects, name);
}

const struct node *core_node_at(const struct core *c, uint32_t index)
{
    return index < c->objects.node_count ? &c->objects.nodes[index] : NULL;
}

const struct node *core_node_find(const struct core *c, const char *name)
{
    return objects_node(&c->objects, name);
}

uint64_t core_object_revision(const struct core *c, const char *kind, const char *name)
{
    return objects_revision(&c->objects, kind, name);
}

enum rc core_tenant(const struct core *c, uint32_t vni, struct tenant_status *ret)
{
    struct tenant_status t = { .vni = vni, .mod_revision = c->base_revision };
    struct map_slot *slot = vni ? map_find(&c->revisions, vni) : NULL;
    struct tenant_row row;

    if (vni < VNI_MIN || vni > VNI_MAX ||
        !tenant_row_of(committed_rows(c, vni, TABLE_TENANT), &row)) {
        return RC_NOT_FOUND;
    }
    t.flags = row.flags;
    memcpy(t.cluster, row.cluster, row.cluster_len);
    memcpy(t.name, row.name, row.name_len);
    memcpy(t.h_home, row.h_home, row.h_home_len);
    t.half = row.half;
    t.reserve = row.reserve;
    t.route_count = rows_count(committed_rows(c, vni, TABLE_VXLAN_ROUTE));
    t.vm_nc_count = rows_count(committed_rows(c, vni, TABLE_VM_NC));
    t.rule_count = rows_count(committed_rows(c, vni, TABLE_ACL));
    if (slot) {
        t.mod_revision = slot->a;
    }
    *ret = t;
    return RC_OK;
}

uint32_t core_tenant_next(const struct core *c, uint32_t from)
{
    const uint32_t mask = 1u << TABLE_TENANT;
    uint32_t vni = from <= VNI_MAX ? table_set_next(c->tip, from, mask) : 0;
    uint32_t gone = from <= VNI_MAX ? table_set_next(c->tenants, from, mask) : 0;

    while (gone && !committed_rows(c, gone, TABLE_TENANT)) {
        gone = gone < VNI_MAX ? table_set_next(c->tenants, gone + 1, mask) : 0;
    }
    while (vni && !committed_rows(c, vni, TABLE_TENANT)) {
        vni = vni < VNI_MAX ? table_set_next(c->tip, vni + 1, mask) : 0;
    }
    return gone && (!vni || gone < vni) ? gone : vni;
}

struct rows *core_rows(const struct core *c, uint32_t vni, enum table_id table)
{
    return vni >= VNI_MIN && vni <= VNI_MAX ? committed_rows(c, vni, table) : NULL;
}

uint64_t core_count(const struct core *c, enum table_id table)
{
    return c->count[table];
}

struct digest core_digest(const struct core *c, enum table_id table)
{
    return (struct digest){ c->digest[table], c->count[table] };
}

struct digest core_group_digest(const struct core *c, const char *cluster,
                                enum table_id table)
{
    const struct tree_node root = { 0 };
    const struct group *g = group_find(c, cluster);

    return g ? table_set_digest(g->desired, table, root) : (struct digest){ 0 };
}

const struct table_set *core_group_desired(const struct core *c, const char *cluster)
{
    const struct group *g = group_find(c, cluster);

    return g ? g->desired : NULL;
}

uint64_t core_import_next_line(const struct core *c, const uint8_t digest[16])
{
    return results_import(&c->results, digest);
}

enum rc core_node_status(const struct core *c, const char *name,
                         struct node_status *ret)
{
    const struct device *d = device_find(c, name);
    const struct node *node = objects_node(&c->objects, name);
    const struct group *g = node ? group_find(c, node->cluster) : NULL;
    struct node_status s = { 0 };

    if (!d || !g) {
        return RC_NOT_FOUND;
    }
    s.state = d->state;
    s.has_session = d->session != NULL;
    s.boot_id = d->boot_id;
    s.applied = d->applied;
    s.desired = g->revision;
    s.ready = d->ready;
    s.is_member = d->is_member;
    s.exception_count = d->exception_count;
    s.exceptions = d->exceptions;
    s.exception_listed = d->exception_listed;
    s.last_seen_ms = d->last_seen_ms;
    s.rx_packets = d->beat.totals.rx_packets;
    s.tx_packets = d->beat.totals.tx_packets;
    s.rx_bytes = d->beat.totals.rx_bytes;
    s.tx_bytes = d->beat.totals.tx_bytes;
    s.drops = d->beat.totals.drops;
    if (d->session && d->session->sync) {
        struct sync_status sync = sync_status(d->session->sync);

        s.applied = sync.applied;
        s.is_syncing = sync.is_walking;
        s.in_sync = sync.in_sync && d->ready && !jobs_are_behind(c, g, UINT64_MAX);
    }
    *ret = s;
    return RC_OK;
}
