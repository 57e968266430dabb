#include "tests/integration/fwd_device.h"

#include <jansson.h>
#include <string.h>

#include "proto/model/mac.h"

#define LIST_MAX 1024

struct device {
    struct ip vteps[LIST_MAX];
    struct ip vips[LIST_MAX];
    struct ip icmp[LIST_MAX];
    struct prefix sources[LIST_MAX];
    struct fwd_uplink_spec uplinks[FWD_UPLINK_MAX];
};

static enum rc read_ip(json_t *value, const char *field, struct ip *ret,
                       struct err *err)
{
    if (!json_is_string(value)) {
        return err_set(err, RC_INVALID, "%s: a string is expected", field);
    }
    if (ip_parse(json_string_value(value), json_string_length(value), ret, err) !=
        RC_OK) {
        return err_wrap(err, RC_INVALID, "%s", field);
    }
    return RC_OK;
}

static enum rc read_ips(json_t *root, const char *field, struct ip *to, uint32_t *count,
                        struct err *err)
{
    json_t *list = json_object_get(root, field);

    if (!json_is_array(list) || json_array_size(list) > LIST_MAX) {
        return err_set(err, RC_INVALID, "%s: a list of at most %d is expected", field,
                       LIST_MAX);
    }
    *count = (uint32_t)json_array_size(list);
    for (uint32_t i = 0; i < *count; i++) {
        if (read_ip(json_array_get(list, i), field, &to[i], err) != RC_OK) {
            return RC_INVALID;
        }
    }
    return RC_OK;
}

static enum rc read_prefixes(json_t *root, const char *field, struct prefix *to,
                             uint32_t *count, struct err *err)
{
    json_t *list = json_object_get(root, field);

    if (!json_is_array(list) || json_array_size(list) > LIST_MAX) {
        return err_set(err, RC_INVALID, "%s: a list of at most %d is expected", field,
                       LIST_MAX);
    }
    *count = (uint32_t)json_array_size(list);
    for (uint32_t i = 0; i < *count; i++) {
        const char *text = json_string_value(json_array_get(list, i));

        if (text == NULL || prefix_parse(text, strlen(text), &to[i], err) != RC_OK) {
            return err_wrap(err, RC_INVALID, "%s", field);
        }
    }
    return RC_OK;
}

static enum rc read_mac(json_t *value, const char *field, uint8_t ret[6],
                        struct err *err)
{
    if (!json_is_string(value) ||
        mac_parse(json_string_value(value), json_string_length(value), field, ret,
                  err) != RC_OK) {
        return err_set(err, RC_INVALID, "%s: a MAC address is expected", field);
    }
    return RC_OK;
}

static enum rc read_uplink(json_t *from, struct fwd_uplink_spec *to, struct err *err)
{
    json_t *port = json_object_get(from, "port");
    json_t *mtu = json_object_get(from, "mtu");
    json_t *mac = json_object_get(from, "next_hop_mac");

    if (!json_is_integer(port) || !json_is_integer(mtu)) {
        return err_set(err, RC_INVALID, "uplinks: port and mtu are numbers");
    }
    to->port = (uint16_t)json_integer_value(port);
    to->mtu = (uint32_t)json_integer_value(mtu);
    to->has_next_hop_mac = !json_is_null(mac);
    if (read_mac(json_object_get(from, "mac"), "mac", to->mac, err) != RC_OK ||
        read_ip(json_object_get(from, "address"), "address", &to->address, err) !=
            RC_OK ||
        read_ip(json_object_get(from, "next_hop"), "next_hop", &to->next_hop, err) !=
            RC_OK) {
        return RC_INVALID;
    }
    return to->has_next_hop_mac ? read_mac(mac, "next_hop_mac", to->next_hop_mac, err)
                                : RC_OK;
}

static enum rc read_uplinks(json_t *root, struct fwd_uplink_spec *to, uint32_t *count,
                            struct err *err)
{
    json_t *list = json_object_get(root, "uplinks");

    if (!json_is_array(list) || json_array_size(list) > FWD_UPLINK_MAX) {
        return err_set(err, RC_INVALID, "uplinks: a list of at most %d is expected",
                       FWD_UPLINK_MAX);
    }
    *count = (uint32_t)json_array_size(list);
    for (uint32_t i = 0; i < *count; i++) {
        if (read_uplink(json_array_get(list, i), &to[i], err) != RC_OK) {
            return err_wrap(err, RC_INVALID, "uplink %u", i);
        }
    }
    return RC_OK;
}

static enum rc read_device(json_t *root, struct device *d, struct fwd_config **ret,
                           struct err *err)
{
    struct fwd_node node = {
        .vteps = d->vteps,
        .vips = d->vips,
        .underlay_sources = d->sources,
        .uplinks = d->uplinks,
        .udp6_zero_csum = json_is_true(json_object_get(root, "udp6_zero_csum")),
    };
    uint32_t icmp_count = 0;

    if (read_ips(root, "vteps", d->vteps, &node.vtep_count, err) != RC_OK ||
        read_ips(root, "vips", d->vips, &node.vip_count, err) != RC_OK ||
        read_ips(root, "icmp_source", d->icmp, &icmp_count, err) != RC_OK ||
        read_prefixes(root, "underlay_source", d->sources, &node.underlay_source_count,
                      err) != RC_OK ||
        read_uplinks(root, d->uplinks, &node.uplink_count, err) != RC_OK) {
        return RC_INVALID;
    }
    for (uint32_t i = 0; i < icmp_count; i++) {
        if (d->icmp[i].family == IP_V4) {
            node.icmp_source4 = d->icmp[i];
        } else {
            node.icmp_source6 = d->icmp[i];
        }
    }
    return fwd_config_new(&node, ret, err);
}

enum rc fwd_device_load(const char *path, struct fwd_config **ret, struct err *err)
{
    json_error_t where;
    json_t *root = json_load_file(path, JSON_REJECT_DUPLICATES, &where);
    struct device *d = calloc(1, sizeof(*d));
    enum rc rc;

    if (root == NULL) {
        rc = err_set(err, RC_INVALID, "%s:%d: %s", path, where.line, where.text);
    } else if (d == NULL) {
        rc = err_set(err, RC_NO_MEMORY, "no memory");
    } else {
        rc = read_device(root, d, ret, err);
    }
    free(d);
    json_decref(root);
    return rc;
}

static enum rc read_name(json_t *value, const char *field, char *to, size_t size,
                         struct err *err)
{
    if (!json_is_string(value) || json_string_length(value) >= size) {
        return err_set(err, RC_INVALID, "%s: a name is expected", field);
    }
    memcpy(to, json_string_value(value), json_string_length(value) + 1);
    return RC_OK;
}

static enum rc read_member(json_t *from, struct cluster_member *to, struct err *err)
{
    json_t *v4 = json_object_get(from, "v4");
    json_t *v6 = json_object_get(from, "v6");
    enum rc rc;

    memset(to, 0, sizeof(*to));
    rc = read_name(json_object_get(from, "cluster"), "cluster", to->cluster,
                   sizeof(to->cluster), err);
    rc = rc ? rc
            : read_name(json_object_get(from, "node"), "node", to->node,
                        sizeof(to->node), err);
    rc = rc || json_is_null(v4) ? rc : read_ip(v4, "v4", &to->v4, err);
    return rc || json_is_null(v6) ? rc : read_ip(v6, "v6", &to->v6, err);
}

enum rc fwd_device_members(const char *path,
                           struct cluster_member ret[CLUSTER_MEMBERS_MAX],
                           uint32_t *ret_count, struct err *err)
{
    json_error_t where;
    json_t *root = json_load_file(path, JSON_REJECT_DUPLICATES, &where);
    json_t *list = json_object_get(root, "members");
    enum rc rc = RC_OK;

    *ret_count = (uint32_t)json_array_size(list);
    if (!json_is_array(list) || *ret_count > CLUSTER_MEMBERS_MAX) {
        rc = err_set(err, RC_INVALID, "%s: members: a list is expected", path);
    }
    for (uint32_t i = 0; rc == RC_OK && i < *ret_count; i++) {
        rc = read_member(json_array_get(list, i), &ret[i], err);
    }
    json_decref(root);
    return rc;
}
