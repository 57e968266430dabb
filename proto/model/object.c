#include "proto/model/object.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

static const char *const cluster_kinds[] = {
    [CLUSTER_X86] = "x86",
};

enum { CLUSTER_KIND_COUNT = sizeof(cluster_kinds) / sizeof(cluster_kinds[0]) };

const char *cluster_kind_name(unsigned kind)
{
    return kind < CLUSTER_KIND_COUNT && cluster_kinds[kind] ? cluster_kinds[kind]
                                                            : "unknown";
}

int cluster_kind_parse(const char *name, size_t len)
{
    for (int i = 0; i < CLUSTER_KIND_COUNT; i++) {
        if (cluster_kinds[i] && strlen(cluster_kinds[i]) == len &&
            memcmp(cluster_kinds[i], name, len) == 0) {
            return i;
        }
    }
    return -1;
}

static int compare_prefixes(const void *a, const void *b)
{
    return prefix_compare(a, b);
}

void region_sort(struct region *r)
{
    struct prefix *p = r->underlay_sources;
    uint16_t kept = 0;

    qsort(p, r->underlay_source_count, sizeof(*p), compare_prefixes);
    for (uint16_t i = 0; i < r->underlay_source_count; i++) {
        if (kept == 0 || prefix_compare(&p[kept - 1], &p[i]) != 0) {
            p[kept++] = p[i];
        }
    }
    r->underlay_source_count = kept;
}

void device_config_of(const struct region *region, const struct cluster *cluster,
                      const struct node *node, struct device_config *ret)
{
    assert(strcmp(node->cluster, cluster->name) == 0);
    memset(ret, 0, sizeof(*ret));
    memcpy(ret->node, node->name, sizeof(ret->node));
    memcpy(ret->cluster, cluster->name, sizeof(ret->cluster));
    ret->kind = cluster->kind;
    ret->udp6_zero_csum = cluster->udp6_zero_csum;
    ret->vtep_v4 = node->vtep_v4;
    ret->vtep_v6 = node->vtep_v6;
    ret->vip_v4 = cluster->vip_v4;
    ret->vip_v6 = cluster->vip_v6;
    ret->icmp_source_v4 = region->icmp_source_v4;
    ret->icmp_source_v6 = region->icmp_source_v6;
    ret->underlay_source_count = region->underlay_source_count;
    memcpy(ret->underlay_sources, region->underlay_sources,
           region->underlay_source_count * sizeof(ret->underlay_sources[0]));
    ret->uplink_count = node->uplink_count;
    memcpy(ret->uplinks, node->uplinks, node->uplink_count * sizeof(ret->uplinks[0]));
}

uint64_t device_config_bytes_digest(const void *bytes, size_t len)
{
    return XXH3_64bits(bytes, len);
}

uint64_t device_config_digest(const struct device_config *d)
{
    struct buf packed = BUF_INIT;
    uint64_t digest = 0;

    device_config_pack(d, &packed);
    if (!buf_failed(&packed)) {
        digest = device_config_bytes_digest(packed.data, packed.len);
    }
    buf_fini(&packed);
    return digest;
}
