"""Builds and removes the namespaces with ip(8), bridge(8) and ethtool(8).

The underlay is one routing namespace; everything else hangs on it by a veth with a
subnet of its own, so a node needs no route per NC.  NCs are the kernel's VXLAN devices
below one bridge per tenant.  A gateway's namespace holds a bare interface: no address,
no ARP, no v6, or the kernel would answer port-unreachable for the data plane.
"""

import os
import subprocess

import plan as p

OFFLOADS = "tx off rx off tso off gso off gro off"


class NetError(Exception):
    pass


def run(*words, stdin=None, check=True):
    done = subprocess.run(words, input=stdin, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT)
    if check and done.returncode:
        raise NetError("%s: %s" % (" ".join(words), done.stdout.strip()))
    return done.stdout


def batch(namespace, lines, tool="ip"):
    """One call for many commands; `namespace` None is the host's."""
    where = ["-n", namespace] if namespace else []
    run(tool, *where, "-batch", "-", stdin="\n".join(lines) + "\n")


def shell(namespace, lines):
    run("ip", "netns", "exec", namespace, "sh", "-ec", "\n".join(lines))


def sysctls(**values):
    return ["echo %s > /proc/sys/net/%s" % (v, k.replace("__", "/"))
            for k, v in values.items()]


# Quiet, immediate addresses; no router discovery of the kernel's own.
COMMON = ["ip link set lo up"] + sysctls(
    ipv6__conf__default__accept_dad=0, ipv6__conf__default__accept_ra=0,
    ipv6__conf__all__accept_ra=0, ipv4__conf__all__rp_filter=0,
    ipv4__conf__default__rp_filter=0)


def existing():
    """Namespaces of this lab that are there now."""
    names = [line.split()[0] for line in run("ip", "netns", "list").splitlines() if line]
    return [n for n in names if n.startswith(p.PREFIX + "-")]


def up(lab):
    for name in lab.namespaces:
        run("ip", "netns", "add", name)
        shell(name, COMMON)
    underlay(lab)
    for node in lab.nodes:
        if node.kind == "gateway":
            bare_port(node)
        else:
            addresses(node)
    for nc in lab.ncs:
        vxlan_bridges(lab, nc)
    for vm in lab.vms:
        vm_link(lab, vm)
    for remote in lab.remotes:
        remote_router(lab, remote)


def down():
    """Removes every namespace of ours and what still runs inside; safe to repeat."""
    for name in existing():
        for pid in run("ip", "netns", "pids", name, check=False).split():
            try:
                os.kill(int(pid), 9)
            except (ProcessLookupError, ValueError):
                pass
        run("ip", "netns", "del", name, check=False)


def underlay(lab):
    router = p.ns("underlay")
    shell(router, sysctls(ipv4__ip_forward=1, ipv6__conf__all__forwarding=1))
    for node in lab.nodes:
        batch(None, ["link add %s netns %s address %s mtu %d type veth peer name up0 "
                     "netns %s address %s mtu %d" % (
                         node.router_if, router, node.hop_mac, p.UNDERLAY_MTU, node.ns,
                         node.mac, p.UNDERLAY_MTU)])
        lines = ["link set %s up" % node.router_if]
        if node.ip4:
            lines.append("addr add %s/24 dev %s" % (node.hop4, node.router_if))
        if node.ip6:
            lines.append("addr add %s/64 dev %s nodad" % (node.hop6, node.router_if))
        batch(router, lines)
        no_offloads(router, node.router_if)
        no_offloads(node.ns, "up0")
    # Where clusters are found.  In a real region BGP says so.
    lines = []
    for g in lab.members:
        for address, hop in ((g.vtep4, g.ip4), (g.vip4, g.ip4), (g.vtep6, g.ip6),
                             (g.vip6, g.ip6), (g.fallback4, g.ip4), (g.fallback6, g.ip6)):
            if address:
                lines.append("route add %s via %s" % (address, hop))
    batch(router, lines)


def no_offloads(namespace, device):
    """Or checksums stay unfinished in packets that no NIC will ever finish."""
    run("ip", "netns", "exec", namespace, "ethtool", "-K", device, *OFFLOADS.split())


def addresses(node):
    lines = ["link set up0 up"]
    if node.ip4:
        lines += ["addr add %s/24 dev up0" % node.ip4, "route add default via " + node.hop4]
    if node.ip6:
        lines += ["addr add %s/64 dev up0 nodad" % node.ip6,
                  "route add default via " + node.hop6]
    batch(node.ns, lines)


def bare_port(node):
    shell(node.ns, sysctls(ipv6__conf__up0__disable_ipv6=1))
    batch(node.ns, ["link set up0 arp off", "link set up0 promisc on", "link set up0 up"])


def vxlan_device(name, vni, node, remote, mac=None):
    """The kernel drops frames whose inner source is the device's own MAC as loops, so on
    an NC it must not be the gateway's: ICMP errors come from there."""
    mac = mac or "02:00:00:00:03:%02x" % node.index
    return ("link add %s address %s mtu %d type vxlan id %d local %s remote %s dstport %d "
            "nolearning" % (name, mac, p.UNDERLAY_MTU - (50 if node.family == 4 else 70),
                            vni, node.ip(node.family), remote, p.VXLAN_PORT))


def vxlan_bridges(lab, nc):
    """A bridge for each tenant of this NC; whatever is not a local VM goes to the VIP."""
    tenants = {vm.tenant.vni: vm.tenant for vm in lab.vms if vm.nc is nc}
    for vni, tenant in tenants.items():
        batch(nc.ns, [
            "link add br%d type bridge stp_state 0 forward_delay 0 mcast_snooping 0" % vni,
            vxlan_device("vx%d" % vni, vni, nc, lab.entrance_of(tenant).vip(nc.family)),
            "link set vx%d master br%d" % (vni, vni), "link set vx%d up" % vni,
            "link set br%d up" % vni])
        batch(nc.ns, ["link set dev vx%d learning off" % vni,
                      "fdb replace %s dev vx%d master static" % (p.GW_MAC, vni)],
              tool="bridge")


def vm_link(lab, vm):
    batch(None, ["link add %s netns %s mtu %d type veth peer name eth0 netns %s address %s "
                 "mtu %d" % (vm.nc_if, vm.nc.ns, vm.mtu, vm.ns, vm.mac, vm.mtu)])
    batch(vm.nc.ns, ["link set %s master br%d" % (vm.nc_if, vm.tenant.vni),
                     "link set %s up" % vm.nc_if])
    batch(vm.nc.ns, ["link set dev %s learning off" % vm.nc_if,
                     "fdb replace %s dev %s master static" % (vm.mac, vm.nc_if)],
          tool="bridge")
    no_offloads(vm.nc.ns, vm.nc_if)
    no_offloads(vm.ns, "eth0")
    lines = ["link set eth0 up"]
    if vm.ip4:
        lines += ["addr add %s/32 dev eth0" % vm.ip4,
                  "neigh add %s lladdr %s dev eth0 nud permanent" % (p.GW_HOP4, p.GW_MAC),
                  "route add %s dev eth0 scope link" % p.GW_HOP4,
                  "route add default via %s dev eth0" % p.GW_HOP4]
    if vm.ip6:
        lines += ["addr add %s/128 dev eth0 nodad" % vm.ip6,
                  "neigh add %s lladdr %s dev eth0 nud permanent" % (p.GW_HOP6, p.GW_MAC),
                  "route add default via %s dev eth0" % p.GW_HOP6]
    # As an ARP and ND proxy in an NC's switch would have it: no entry names these MACs.
    for other in lab.vm_neighbours(vm):
        for family in (4, 6):
            if vm.ip(family) and other.ip(family):
                lines += ["neigh add %s lladdr %s dev eth0 nud permanent" % (
                    other.ip(family), other.mac),
                          "route add %s dev eth0 scope link" % other.ip(family)]
    batch(vm.ns, lines)


def remote_router(lab, remote):
    """Receives on its own VNI, answers on the tenant's; its hosts are addresses on lo."""
    node, tenant = remote.node, remote.tenant
    vip = lab.entrance_of(tenant).vip(node.family)
    batch(node.ns, [
        vxlan_device("vxin", remote.vni, node, vip, p.GW_MAC), "link set vxin up",
        vxlan_device("vxout", tenant.vni, node, vip), "link set vxout up",
        "addr add %s/32 dev lo" % remote.host4, "addr add %s/128 dev lo nodad" % remote.host6,
        "neigh add %s lladdr %s dev vxout nud permanent" % (p.GW_HOP4, p.GW_MAC),
        "route add %s dev vxout scope link" % p.GW_HOP4,
        "route add %s via %s dev vxout src %s" % (tenant.net4, p.GW_HOP4, remote.host4),
        "neigh add %s lladdr %s dev vxout nud permanent" % (p.GW_HOP6, p.GW_MAC),
        "route add %s via %s dev vxout src %s" % (tenant.net6, p.GW_HOP6, remote.host6)])
