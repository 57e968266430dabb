"""The region that the cases play in: devices and entries.  Plain data."""

VTEP4, VTEP6 = "172.16.0.1", "fd00:16::1"
VIP4, VIP6 = "172.31.0.1", "fd00:31::1"
NC4, NC6 = "172.16.1.1", "fd00:16:1::1"          # where packets come from
FAR4, FAR6 = "172.16.2.2", "fd00:16:2::2"        # NCs that packets go to
IDC4, IDC6 = "172.16.9.9", "fd00:16:9::9"
REGION4, REGION6 = "172.16.8.8", "fd00:16:8::8"
ICMP4, ICMP6 = "100.64.0.1", "fd64::1"
PORT_MAC = ("02:00:00:00:00:10", "02:00:00:00:00:11")
HOP_MAC = ("02:00:00:00:01:10", "02:00:00:00:01:11")
MTU = 1500


def device():
    """Two equal ports, both families on each."""
    links = []
    for port in (0, 1):
        for own, hop in (("172.20.%d.1" % port, "172.20.%d.2" % port),
                         ("fd00:20:%d::1" % port, "fd00:20:%d::2" % port)):
            links.append({"port": port, "mac": PORT_MAC[port], "address": own,
                          "next_hop": hop, "next_hop_mac": HOP_MAC[port], "mtu": MTU})
    return {"vteps": [VTEP4, VTEP6], "vips": [VIP4, VIP6],
            "underlay_source": ["172.16.0.0/12", "fd00:16::/32"],
            "icmp_source": [ICMP4, ICMP6], "udp6_zero_csum": False, "uplinks": links}


def is_v6(link):
    return ":" in link["address"]


def devices():
    """Every variant by name; `base` is the one that gets all the cases."""
    worlds = {"base": device()}
    d = worlds["zero6"] = device()
    d["udp6_zero_csum"] = True
    d = worlds["vip4only"] = device()
    d["vips"] = [VIP4]
    d = worlds["link4only"] = device()
    d["uplinks"] = [u for u in d["uplinks"] if not is_v6(u)]
    d = worlds["unresolved"] = device()  # v6: nobody answers; v4: only port 1 does
    for u in d["uplinks"]:
        if is_v6(u) or u["port"] == 0:
            u["next_hop_mac"] = None
    d = worlds["silent"] = device()      # no address to send ICMP errors from
    d["icmp_source"] = []
    d = worlds["tight"] = device()       # the smallest links: errors are cut further
    for u in d["uplinks"]:
        u["mtu"] = 1280
    return worlds


def shifted(row, offset):
    """An entry under a number that is `offset` higher; the highest VNI stays."""
    return {k: v + offset if k in ("vni", "peer_vni") and v < 0xFFFFFF else v
            for k, v in row.items()}


def entries():
    """Tenants 100 (main), 110-113 and 120-124 (peer chains), 300/301 (captures)."""
    rows = []

    def vni(v, *flags):
        rows.append({"table": "vni", "vni": v, "flags": list(flags)})

    def route(v, prefix, scope, **more):
        rows.append({"table": "vxlan_route", "vni": v, "prefix": prefix, "scope": scope,
                     **more})

    def vm(v, address, nc, mac=None):
        row = {"table": "vm_nc", "vni": v, "vm": address, "nc": nc}
        rows.append({**row, "mac": mac} if mac else row)

    vni(100)
    route(100, "10.0.0.0/16", "local")
    route(100, "2001:db8:100::/48", "local")
    vm(100, "10.0.0.4", FAR4, "02:00:00:00:aa:04")
    vm(100, "10.0.0.6", FAR6, "02:00:00:00:aa:06")
    vm(100, "10.0.0.44", FAR4)
    vm(100, "2001:db8:100::4", FAR4, "02:00:00:00:bb:04")
    vm(100, "2001:db8:100::6", FAR6, "02:00:00:00:bb:06")
    vm(100, "2001:db8:100::66", FAR6)

    for v4, v6, scope, more4, more6 in (
            ("10.4.0.0/16", "2001:db8:4::/48", "idc",
             {"endpoint": IDC4, "endpoint_vni": 5000},
             {"endpoint": IDC6, "endpoint_vni": 5000}),
            ("10.5.0.0/16", "2001:db8:5::/48", "region",
             {"endpoint": REGION6, "endpoint_vni": 6000},
             {"endpoint": REGION4, "endpoint_vni": 6000}),
            ("10.6.0.0/16", "2001:db8:6::/48", "idc",   # the same number over there
             {"endpoint": IDC6, "endpoint_vni": 100},
             {"endpoint": IDC4, "endpoint_vni": 100}),
            ("10.14.0.0/16", "2001:db8:14::/48", "region",
             {"endpoint": REGION4, "endpoint_vni": 100},
             {"endpoint": REGION6, "endpoint_vni": 100}),
            ("10.7.0.0/16", "2001:db8:7::/48", "internet", {}, {}),
            ("10.8.0.0/16", "2001:db8:8::/48", "service", {"service": "dns"},
             {"service": "dns"}),
            ("10.9.0.0/16", "2001:db8:9::/48", "peer", {"peer_vni": 200},
             {"peer_vni": 200}),
            ("10.10.0.0/16", "2001:db8:10::/48", "peer", {"peer_vni": 110},
             {"peer_vni": 110}),
            ("10.11.0.0/16", "2001:db8:11::/48", "peer", {"peer_vni": 120},
             {"peer_vni": 120}),
            ("10.12.0.0/16", "2001:db8:12::/48", "derived",
             {"endpoint": FAR4, "endpoint_vni": 700},
             {"endpoint": FAR6, "endpoint_vni": 700}),
            ("10.13.0.0/16", "2001:db8:13::/48", "peer", {"peer_vni": 999},
             {"peer_vni": 999})):
        route(100, v4, scope, **more4)
        route(100, v6, scope, **more6)

    # One below the other: the longest wins, and a hole shows through.
    route(100, "20.0.0.0/8", "idc", endpoint=IDC4, endpoint_vni=5008)
    route(100, "20.1.0.0/16", "idc", endpoint=IDC4, endpoint_vni=5016)
    route(100, "20.1.2.0/24", "idc", endpoint=IDC4, endpoint_vni=5024)
    route(100, "20.1.2.3/32", "idc", endpoint=IDC4, endpoint_vni=5032)
    route(100, "2001:db8:2000::/36", "idc", endpoint=IDC6, endpoint_vni=5036)
    route(100, "2001:db8:2000::/48", "idc", endpoint=IDC6, endpoint_vni=5048)
    route(100, "2001:db8:2000::/64", "idc", endpoint=IDC6, endpoint_vni=5064)
    route(100, "2001:db8:2000::/65", "idc", endpoint=IDC6, endpoint_vni=5065)
    route(100, "2001:db8:2000::9/128", "idc", endpoint=IDC6, endpoint_vni=5128)

    # The same addresses for another tenant, elsewhere.
    vni(200)
    route(200, "10.0.0.0/16", "local")
    vm(200, "10.0.0.4", FAR6)
    for net, host in (("10.9.0.0/16", "10.9.0."), ("2001:db8:9::/48", "2001:db8:9::")):
        route(200, net, "local")
        vm(200, host + "4", FAR4, "02:00:00:00:cc:04")
        vm(200, host + "6", FAR6, "02:00:00:00:cc:06")

    # 100 -> 110 -> 111 -> 112: four lookups, the most there may be; 112 is no tenant
    # of this device, and its routes are found all the same.
    # 100 -> 120 -> 121 -> 122 -> 123: one too many.
    for first, last, net4, net6 in ((110, 112, "10.10.0.0/16", "2001:db8:10::/48"),
                                    (120, 123, "10.11.0.0/16", "2001:db8:11::/48")):
        for v in range(first, last + 1):
            if v != 112:
                vni(v)
            for net in (net4, net6):
                if v < last:
                    route(v, net, "peer", peer_vni=v + 1)
                else:
                    route(v, net, "local")
        for net in (net4, net6):
            vm(last, net.split("0.0/")[0] + "0.4" if "." in net
               else net.split("/")[0] + "4", FAR4)

    for v, flags in ((300, ()), (301, ("inner_vlan",))):
        vni(v, *flags)
        route(v, "0.0.0.0/0", "idc", endpoint=IDC4, endpoint_vni=5300)
        route(v, "::/0", "idc", endpoint=IDC6, endpoint_vni=5300)
        route(v, "10.0.0.0/16", "local")
        vm(v, "10.0.0.4", FAR4, "02:00:00:00:dd:04")
        vm(v, "10.0.0.6", FAR6)
    vni(0xFFFFFF)
    route(0xFFFFFF, "0.0.0.0/0", "local")
    vm(0xFFFFFF, "10.0.0.4", FAR4)
    return rows
