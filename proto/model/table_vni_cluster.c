/* vni_cluster: the cluster that a VNI's packets go to, on a load balancer. */
#include "proto/model/name.h"
#include "proto/model/table_type.h"

static enum rc cluster_check_row(const struct entry *e, struct err *err)
{
    return name_check(e->vni_cluster.cluster, CLUSTER_NAME_MAX, "cluster", err);
}

static void cluster_pack_row(const struct entry *e, struct buf *to)
{
    pack_name(e->vni_cluster.cluster, to);
}

static bool cluster_unpack_row(struct reader *from, struct entry *ret)
{
    return unpack_name(from, ret->vni_cluster.cluster, CLUSTER_NAME_MAX);
}

static size_t cluster_size(const uint8_t *p, size_t avail)
{
    return avail == 0 || p[0] > CLUSTER_NAME_MAX ? SIZE_MALFORMED : 1 + (size_t)p[0];
}

static enum rc cluster_read(const struct fields *f, struct entry *ret, struct err *err)
{
    return field_read_name(f, FIELD_CLUSTER, ret->vni_cluster.cluster, CLUSTER_NAME_MAX,
                           err);
}

static void cluster_print(const struct entry *e, struct buf *to)
{
    field_print_text(FIELD_CLUSTER, e->vni_cluster.cluster, to);
}

const struct table_type table_vni_cluster = {
    .name = "vni_cluster",
    .check_key = no_key_check,
    .check_value = cluster_check_row,
    .pack_key = no_key_pack,
    .pack_value = cluster_pack_row,
    .unpack_key = no_key_unpack,
    .unpack_value = cluster_unpack_row,
    .key_size = no_key_size,
    .value_size = cluster_size,
    .value_fields = 1u << FIELD_CLUSTER,
    .read_key = no_key_read,
    .read_value = cluster_read,
    .print_key = no_key_pack,
    .print_value = cluster_print,
};
