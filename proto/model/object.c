#include "proto/model/object.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

/* A name for each number; null where there is none. */
struct names {
    const char *const *at;
    int count;
};

#define NAMES(table)                                                                   \
    (struct names)                                                                     \
    {                                                                                  \
        (table), sizeof(table) / sizeof((table)[0])                                    \
    }

static const char *name_of(struct names names, unsigned number)
{
    return number < (unsigned)names.count && names.at[number] ? names.at[number]
                                                              : "unknown";
}

static int number_of(struct names names, const char *name, size_t len)
{
    for (int i = 0; i < names.count; i++) {
        if (names.at[i] && strlen(names.at[i]) == len &&
            memcmp(names.at[i], name, len) == 0) {
            return i;
        }
    }
    return -1;
}

static const char *const steerings[] = {
    [STEERING_VIP] = "vip",
    [STEERING_LB] = "lb",
};

const char *steering_name(unsigned steering)
{
    return name_of(NAMES(steerings), steering);
}

int steering_parse(const char *name, size_t len)
{
    return number_of(NAMES(steerings), name, len);
}

static const char *const cluster_kinds[] = {
    [CLUSTER_X86] = "x86",
    [CLUSTER_XGW_H] = "xgw-h",
    [CLUSTER_LB] = "lb",
};

const char *cluster_kind_name(unsigned kind)
{
    return name_of(NAMES(cluster_kinds), kind);
}

int cluster_kind_parse(const char *name, size_t len)
{
    return number_of(NAMES(cluster_kinds), name, len);
}

static const char *const table_profiles[] = {
    [TABLES_TOFINO] = "tofino",
    [TABLES_BENCH] = "bench",
};

const char *table_profile_name(unsigned profile)
{
    return name_of(NAMES(table_profiles), profile);
}

int table_profile_parse(const char *name, size_t len)
{
    return number_of(NAMES(table_profiles), name, len);
}

static const char *const cluster_states[CLUSTER_STATES] = {
    [CLUSTER_SERVING] = "serving",   [CLUSTER_PLANNED] = "planned",
    [CLUSTER_LOADING] = "loading",   [CLUSTER_CHECKING] = "checking",
    [CLUSTER_PROBING] = "probing",   [CLUSTER_ADMITTING] = "admitting",
    [CLUSTER_DRAINING] = "draining", [CLUSTER_RETIRED] = "retired",
    [CLUSTER_FAILED] = "failed",
};

bool cluster_is_announced(unsigned state)
{
    return state == CLUSTER_SERVING || state == CLUSTER_ADMITTING ||
           state == CLUSTER_DRAINING;
}

const char *cluster_state_name(unsigned state)
{
    return name_of(NAMES(cluster_states), state);
}

int cluster_state_parse(const char *name, size_t len)
{
    return number_of(NAMES(cluster_states), name, len);
}

static const char *const device_kinds[] = {
    [DEVICE_X86] = "x86",   [DEVICE_SOFT_H] = "soft-h", [DEVICE_TOFINO] = "tofino",
    [DEVICE_BMV2] = "bmv2", [DEVICE_LB] = "lb",
};

const char *device_kind_name(unsigned kind)
{
    return name_of(NAMES(device_kinds), kind);
}

int device_kind_parse(const char *name, size_t len)
{
    return number_of(NAMES(device_kinds), name, len);
}

unsigned device_kind_cluster(unsigned kind)
{
    static const uint8_t clusters[] = {
        [DEVICE_X86] = CLUSTER_X86,      [DEVICE_SOFT_H] = CLUSTER_XGW_H,
        [DEVICE_TOFINO] = CLUSTER_XGW_H, [DEVICE_BMV2] = CLUSTER_XGW_H,
        [DEVICE_LB] = CLUSTER_LB,
    };

    return kind < sizeof(clusters) ? clusters[kind] : 0;
}

static const char *const fallback_classes[FALLBACK_CLASSES] = {
    [FALLBACK_MISS] = "miss",
    [FALLBACK_SERVICE] = "service",
};

const char *fallback_class_name(unsigned fallback_class)
{
    return name_of(NAMES(fallback_classes), fallback_class);
}

static struct policer policer_of(uint64_t bps)
{
    return (struct policer){ bps, (uint32_t)(bps / 8 / 100) }; /* 10 ms of it */
}

void fallback_meter_default(struct fallback_meter *m)
{
    m->node[FALLBACK_MISS] = policer_of(UINT64_C(4000000000));
    m->node[FALLBACK_SERVICE] = policer_of(UINT64_C(40000000000));
    m->tenant[FALLBACK_MISS] = policer_of(UINT64_C(100000000));
    m->tenant[FALLBACK_SERVICE] = policer_of(UINT64_C(4000000000));
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
    ret->kind = node->kind;
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
    ret->fallback_v4 = node->fallback_v4;
    ret->fallback_v6 = node->fallback_v6;
    ret->fallback_meter = cluster->fallback_meter;
}

void device_config_add_member(struct device_config *d, const struct node *x86)
{
    if (d->fallback_member_count < FALLBACK_MEMBERS_MAX &&
        (x86->fallback_v4.family || x86->fallback_v6.family)) {
        d->fallback_members[d->fallback_member_count++] =
            (struct fallback_member){ x86->fallback_v4, x86->fallback_v6 };
    }
}

void device_config_add_cluster_member(struct device_config *d, const struct node *n)
{
    struct cluster_member *m = &d->cluster_members[d->cluster_member_count];

    if (d->cluster_member_count == CLUSTER_MEMBERS_MAX) {
        return;
    }
    memset(m, 0, sizeof(*m));
    memcpy(m->cluster, n->cluster, sizeof(m->cluster));
    memcpy(m->node, n->name, sizeof(m->node));
    m->v4 = n->vtep_v4;
    m->v6 = n->vtep_v6;
    d->cluster_member_count++;
}

static bool lies_in(const struct prefix *sources, unsigned count, const struct ip *ip)
{
    for (unsigned i = 0; i < count; i++) {
        if (prefix_contains(&sources[i], ip)) {
            return true;
        }
    }
    return false;
}

bool device_config_takes_from(const struct device_config *d, const struct ip *src)
{
    return lies_in(d->underlay_sources, d->underlay_source_count, src);
}

bool region_takes_from(const struct region *r, const struct ip *src)
{
    return lies_in(r->underlay_sources, r->underlay_source_count, src);
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
