#include "proto/model/agent_msg.h"

#include <stdlib.h>

void agent_msg_fini(struct agent_msg *m)
{
    switch (m->kind) {
    case AGENT_DIGESTS:
        free(m->digests.items);
        m->digests.items = NULL;
        m->digests.item_count = 0;
        break;
    case AGENT_ACK:
        free(m->ack.exceptions);
        m->ack.exceptions = NULL;
        m->ack.exception_listed = 0;
        break;
    case AGENT_TELEMETRY:
        free(m->telemetry);
        m->telemetry = NULL;
        break;
    case AGENT_COUNTERS:
        free(m->counters.items);
        m->counters.items = NULL;
        m->counters.item_count = 0;
        break;
    case AGENT_PROBE:
        blob_unref(m->probe.result.frame);
        m->probe.result.frame = NULL;
        break;
    case AGENT_ROWS:
        blob_unref(m->rows.rows);
        m->rows.rows = NULL;
        break;
    case AGENT_HELLO:
    case AGENT_BEAT:
    case AGENT_AUDIT:
        break;
    }
}

void ctl_msg_fini(struct ctl_msg *m)
{
    switch (m->kind) {
    case CTL_ASSIGN:
        blob_unref(m->assign.config);
        m->assign.config = NULL;
        break;
    case CTL_BATCH:
        blob_unref(m->batch.ops);
        m->batch.ops = NULL;
        break;
    case CTL_PROBE:
        blob_unref(m->probe.frame);
        m->probe.frame = NULL;
        break;
    case CTL_PROBES:
        for (uint32_t i = 0; i < m->probes.count; i++) {
            blob_unref(m->probes.at[i].frame);
        }
        m->probes.count = 0;
        break;
    case CTL_QUERY:
    case CTL_REDIRECT:
    case CTL_AUDIT:
    case CTL_COUNTERS:
    case CTL_ROWS:
        break;
    }
}

uint32_t query_item_child_max(const struct query_item *of)
{
    return of->node.depth < TREE_DEPTH ? 64 : 16;
}

bool query_item_is_valid(const struct query_item *of)
{
    if (of->table >= TABLE_COUNT || of->node.depth > TREE_DEPTH ||
        of->node.vni > VNI_MAX) {
        return false;
    }
    if (of->node.depth < TREE_DEPTH) {
        uint32_t below = (UINT32_C(1) << (24 - 6 * of->node.depth)) - 1;

        return (of->node.vni & below) == 0 && of->bucket.depth == 0 &&
               of->bucket.path == 0;
    }
    if (of->bucket.depth >= BUCKET_DEPTH_MAX) {
        return false;
    }
    return (of->bucket.path & (UINT32_MAX >> (4 * of->bucket.depth))) == 0;
}

bool query_item_equal(const struct query_item *a, const struct query_item *b)
{
    return a->table == b->table && a->node.depth == b->node.depth &&
           a->node.vni == b->node.vni && a->bucket.depth == b->bucket.depth &&
           a->bucket.path == b->bucket.path;
}
