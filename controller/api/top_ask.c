#include "controller/api/top_ask.h"

static enum rc check_names(const struct core *c, const char *cluster, const char *node,
                           struct err *err)
{
    if (cluster && !core_cluster_find(c, cluster)) {
        return err_field(err, RC_NOT_FOUND, "cluster", "unknown_cluster",
                         "there is no such cluster");
    }
    if (node && !core_node_find(c, node)) {
        return err_field(err, RC_NOT_FOUND, "node", "unknown_node",
                         "there is no such node");
    }
    return RC_OK;
}

enum rc top_ask(const struct core *c, uint64_t now_s, const char *cluster,
                const char *node, enum top_kind kind, uint32_t room,
                struct top_sum *ret, struct err *err)
{
    enum rc rc = check_names(c, cluster, node, err);

    if (rc == RC_OK) {
        rc = health_top(core_health(c), now_s, cluster, node, kind, room, ret);
        err->code = rc;
    }
    if (rc == RC_OK && ret->unable > 0 && ret->nodes == 0 && ret->without == 0) {
        return err_field(
            err, RC_CONFLICT, node ? "node" : "cluster", "not_on_this_kind",
            "heaviest flows are not available on this kind of node: a chip "
            "counts tenants, not flows");
    }
    return rc;
}
