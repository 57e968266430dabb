"""What the lab consists of: namespaces, links, addresses, tenants, VMs.  Plain data,
worked out from a few lists below; nothing here touches the system."""

import os
import zlib

PREFIX = os.environ.get("XGW_LAB_PREFIX") or "xgw"  # of every namespace we make
GW_MAC = "02:00:00:00:00:fe"       # what VMs take for their gateway's MAC
GW_HOP4, GW_HOP6 = "169.254.1.1", "fe80::fe"
UNDERLAY_MTU = 1500
VXLAN_PORT = 4789
REGION = "lab"


def rest_port():
    """The controller's on 127.0.0.1; its gRPC has the next.  Another prefix means other
    ports, so that regions stand side by side; below 32768 Linux gives none away."""
    given = os.environ.get("XGW_LAB_PORT")
    if given:
        return int(given)
    return 17443 if PREFIX == "xgw" else 18000 + zlib.crc32(PREFIX.encode()) % 7000 * 2


def ns(name):
    return "%s-%s" % (PREFIX, name)


class Node:
    """Something on the underlay: its own veth to the router namespace, its own subnet."""

    def __init__(self, name, index, kind, families=(4, 6)):
        self.name, self.index, self.kind, self.families = name, index, kind, families
        self.ns = ns(name)
        net4, net6 = ("172.20", "fd00:20") if kind == "gateway" else ("172.16", "fd00:16")
        self.ip4 = "%s.%d.2" % (net4, index) if 4 in families else None
        self.hop4 = "%s.%d.1" % (net4, index) if 4 in families else None
        self.ip6 = "%s:%x::2" % (net6, index) if 6 in families else None
        self.hop6 = "%s:%x::1" % (net6, index) if 6 in families else None
        self.mac = "02:00:01:00:00:%02x" % index
        self.hop_mac = "02:00:02:00:00:%02x" % index
        self.router_if = "u-%s" % name

    def ip(self, family):
        return self.ip4 if family == 4 else self.ip6

    @property
    def family(self):
        """The one its VXLAN devices speak."""
        return 4 if 4 in self.families else 6


class Gateway(Node):
    """A node of the region, of the kind of its cluster: x86; xgw-h, whose `backing` takes
    what it does not answer itself; lb, in front of all of them."""

    def __init__(self, name, index, cluster, role="x86", side="a", backing=None):
        super().__init__(name, index, "gateway")
        self.cluster, self.role, self.side, self.backing = cluster, role, side, backing
        self.vtep4, self.vtep6 = "172.30.0.%d" % index, "fd00:30::%x" % index
        self.vip4, self.vip6 = "172.31.0.%d" % index, "fd00:31::%x" % index
        self.fallback4 = "172.30.1.%d" % index if role == "x86" else None
        self.fallback6 = "fd00:30:1::%x" % index if role == "x86" else None

    def vip(self, family):
        return self.vip4 if family == 4 else self.vip6


class Tenant:
    """`h_home`: the XGW-H cluster in front of its x86 one, or None.  `others`: routes
    beside its own networks, (prefix, scope, more fields)."""

    def __init__(self, vni, name, cluster, net4=None, net6=None, h_home=None, flags=(),
                 others=()):
        self.vni, self.name, self.cluster, self.h_home = vni, name, cluster, h_home
        self.net4, self.net6, self.flags, self.others = net4, net6, list(flags), others

    @property
    def steered_to(self):
        """The cluster that takes its packets: by a load balancer where the region has
        one, else its NCs send to the VIP, as gateways of other clusters do."""
        return self.h_home or self.cluster


class Vm:
    """`mac_in_entry`: its VM-NC entries name its MAC.  Without, they fit XGW-H's tables,
    and those who talk to it know the MAC."""

    def __init__(self, name, index, tenant, nc, ip4=None, ip6=None, mac=None,
                 mac_in_entry=True):
        self.name, self.index, self.tenant, self.nc = name, index, tenant, nc
        self.ip4, self.ip6, self.mac_in_entry = ip4, ip6, mac_in_entry
        self.mac = mac or "02:00:00:00:01:%02x" % index
        self.ns = ns("vm-" + name)
        self.nc_if = "v-" + name
        # The tunnel costs 50 bytes over v4 and 70 over v6.
        self.mtu = UNDERLAY_MTU - (50 if nc.family == 4 else 70)

    def ip(self, family):
        return self.ip4 if family == 4 else self.ip6


class Remote:
    """A kernel VXLAN router outside the region's NCs: an IDC's, another region's.  What
    we send arrives with `vni`; what it sends carries the tenant's VNI."""

    def __init__(self, node, vni, tenant, net4, net6):
        self.node, self.vni, self.tenant = node, vni, tenant
        self.net4, self.net6 = net4, net6
        self.host4 = net4.split("/")[0].rsplit(".", 1)[0] + ".10"
        self.host6 = net6.split("/")[0] + "10"

    def host(self, family):
        return self.host4 if family == 4 else self.host6


FALLBACK_BPS, FALLBACK_BURST = 4_000_000, 50_000  # of a tenant's misses
FALLBACK_NODE_BPS = 40_000_000
NOWHERE4 = "10.5.77.0/24"   # of gaia, without a VM: what the flood is sent to
SERVICE4 = "10.4.200.0/24"  # of faro


class Lab:
    """`whole`: with XGW-H and a load balancer in front; without them the same tenants
    live on x86 alone, and NCs send to its VIPs."""

    def __init__(self, whole=True):
        self.ncs = [Node("nc1", 1, "nc"), Node("nc2", 2, "nc"), Node("nc3", 3, "nc"),
                    Node("nc4", 4, "nc", families=(6,))]
        nc1, nc2, nc3, nc4 = self.ncs
        self.gateways = [Gateway("gw1", 11, "x86-1"), Gateway("gw2", 12, "x86-2")]
        self.switches = [Gateway("h1", 13, "h-1", "xgw-h", backing="x86-1")] if whole else []
        self.balancers = [Gateway("lb1", 14, "lb", "lb")] if whole else []
        h_home = "h-1" if whole else None
        idc, region2 = Node("idc", 21, "remote"), Node("region2", 22, "remote")
        a = Tenant(100, "acme", "x86-1", "10.1.0.0/16", "2001:db8:a::/48")
        b = Tenant(101, "bolt", "x86-1", "10.2.0.0/16", "2001:db8:b::/48")
        c = Tenant(200, "cora", "x86-2", "10.3.0.0/16", "2001:db8:c::/48")
        d = Tenant(300, "dune", "x86-2", None, "2001:db8:d::/48")
        f = Tenant(400, "faro", "x86-1", "10.4.0.0/16", "2001:db8:f::/48", h_home,
                   ["internet"], [(SERVICE4, "service", {"service": "dns"}),
                                  ("0.0.0.0/0", "internet", {})])
        # Of even VNIs, both: they share a half of the switch, and its class meters.
        g = Tenant(402, "gaia", "x86-1", "10.5.0.0/16", "2001:db8:6::/48", h_home)
        self.tenants = [a, b, c, d, f, g]
        self.remotes = [Remote(idc, 5000, a, "192.168.10.0/24", "2001:db8:1dc::"),
                        Remote(region2, 6000, a, "10.128.0.0/16", "2001:db8:4e9::")]
        for r in self.remotes:
            r.net6 += "/48"
        self.peerings = [(a, b), (a, c), (f, g), (f, b), (f, c)]
        self.vms = [
            Vm("a1", 1, a, nc1, "10.1.0.11", "2001:db8:a::11"),
            Vm("a2", 2, a, nc2, "10.1.0.12", "2001:db8:a::12"),
            Vm("a3", 3, a, nc4, "10.1.0.13", "2001:db8:a::13"),
            Vm("b1", 4, b, nc2, "10.2.0.11", "2001:db8:b::11"),
            Vm("c1", 5, c, nc3, "10.3.0.11", "2001:db8:c::11"),
            Vm("d1", 6, d, nc3, None, "2001:db8:d::11"),
            Vm("d2", 7, d, nc4, None, "2001:db8:d::12"),
            Vm("f1", 8, f, nc1, "10.4.0.11", "2001:db8:f::11", mac_in_entry=False),
            Vm("f2", 9, f, nc2, "10.4.0.12", "2001:db8:f::12", mac_in_entry=False),
            Vm("f3", 10, f, nc3, "10.4.0.13"),
            Vm("g1", 11, g, nc1, "10.5.0.11", "2001:db8:6::11", mac_in_entry=False),
            Vm("g2", 12, g, nc3, "10.5.0.12", "2001:db8:6::12", mac_in_entry=False),
            Vm("g3", 13, g, nc4, "10.5.0.13", "2001:db8:6::13", mac_in_entry=False),
        ]

    def add_tenant(self, *args, **more):
        self.tenants.append(Tenant(*args, **more))
        return self.tenants[-1]

    def add_vm(self, name, tenant, nc_index, **more):
        self.vms.append(Vm(name, len(self.vms) + 1, tenant, self.ncs[nc_index], **more))
        return self.vms[-1]

    @property
    def nodes(self):
        return self.ncs + [r.node for r in self.remotes] + self.members

    def vm(self, name):
        return next(v for v in self.vms if v.name == name)

    @property
    def members(self):
        """Every gateway of the region: x86 nodes, switches, load balancers."""
        return self.gateways + self.switches + self.balancers

    def entrance_of(self, tenant):
        """Where its packets enter the region."""
        return next(iter(self.balancers), None) or next(
            g for g in self.members if g.cluster == tenant.steered_to)

    def vm_neighbours(self, vm):
        """VMs whose MAC `vm` has to know: of its VPC or a peered one, and no entry says
        it."""
        known = {vm.tenant.vni}
        for one, other in self.peerings:
            if vm.tenant in (one, other):
                known |= {one.vni, other.vni}
        return [v for v in self.vms
                if v is not vm and v.tenant.vni in known and not v.mac_in_entry]

    @property
    def namespaces(self):
        return [ns("underlay")] + [n.ns for n in self.nodes] + [v.ns for v in self.vms]


UNDERLAY_SOURCE = ["172.16.0.0/16", "172.30.0.0/24", "172.31.0.0/24",
                   "fd00:16::/32", "fd00:30::/64", "fd00:31::/64"]
ICMP_SOURCE = ["100.64.0.1", "fd64::1"]
