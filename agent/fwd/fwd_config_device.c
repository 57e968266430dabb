/* From what a device was told (proto/model/object.h) to what fwd_config_new() compiles.
 */
#include <string.h>

#include "agent/fwd/fwd_config.h"
#include "proto/model/object.h"

_Static_assert(FWD_UPLINK_MAX >= 2 * UPLINKS_MAX, "each may be of both families");

static uint32_t add_ip(struct ip *list, uint32_t count, const struct ip *ip)
{
    if (ip->family != IP_NONE) {
        list[count++] = *ip;
    }
    return count;
}

static uint32_t add_uplink(struct fwd_uplink_spec *list, uint32_t count,
                           const struct uplink *from, const struct fwd_port *port,
                           const struct ip *address, const struct ip *next_hop)
{
    struct fwd_uplink_spec *to = &list[count];

    if (address->family == IP_NONE) {
        return count;
    }
    to->port = port->number;
    memcpy(to->mac, port->mac, 6);
    to->mtu = from->mtu;
    to->address = *address;
    to->next_hop = *next_hop;
    to->has_next_hop_mac = from->has_mac;
    memcpy(to->next_hop_mac, from->mac, 6);
    return count + 1;
}

enum rc fwd_config_of_device(const struct device_config *device,
                             const struct fwd_port ports[], struct fwd_config **ret,
                             struct err *err)
{
    struct fwd_uplink_spec uplinks[2 * UPLINKS_MAX] = { 0 };
    struct ip vteps[4];
    struct ip vips[2];
    struct fwd_node node = {
        .vteps = vteps,
        .vips = vips,
        .underlay_sources = device->underlay_sources,
        .underlay_source_count = device->underlay_source_count,
        .uplinks = uplinks,
        .icmp_source4 = device->icmp_source_v4,
        .icmp_source6 = device->icmp_source_v6,
        .udp6_zero_csum = device->udp6_zero_csum,
    };

    node.vtep_count = add_ip(vteps, node.vtep_count, &device->vtep_v4);
    node.vtep_count = add_ip(vteps, node.vtep_count, &device->vtep_v6);
    /* What XGW-H could not answer arrives there, and starts over as any packet does. */
    node.vtep_count = add_ip(vteps, node.vtep_count, &device->fallback_v4);
    node.vtep_count = add_ip(vteps, node.vtep_count, &device->fallback_v6);
    node.vip_count = add_ip(vips, node.vip_count, &device->vip_v4);
    node.vip_count = add_ip(vips, node.vip_count, &device->vip_v6);
    for (unsigned i = 0; i < device->uplink_count; i++) {
        const struct uplink *u = &device->uplinks[i];

        node.uplink_count = add_uplink(uplinks, node.uplink_count, u, &ports[i],
                                       &u->addr_v4, &u->next_hop_v4);
        node.uplink_count = add_uplink(uplinks, node.uplink_count, u, &ports[i],
                                       &u->addr_v6, &u->next_hop_v6);
    }
    return fwd_config_new(&node, ret, err);
}
