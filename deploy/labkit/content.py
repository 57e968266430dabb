"""What the region's tables hold: tenants, routes and VM-NC as NDJSON lines.

The lab's own tenants, and an inventory beside them: with --data DIR the networks of a
real OpenStack and OpenShift installation (inventory/ovn: one VPC a network, all peered
as their one router does it) and tenants with prefixes from a real full table
(prefixes/bart…); without, a generated set of the same shape.
"""

import csv
import gzip
import ipaddress
import itertools
import json
import os
import random
import re

PEERED = 66           # networks on the one router of the inventory
PORTS = 415           # its VMs and pods
TABLE_TENANTS = 20    # tenants whose prefixes come from the full table
PREFIXES4, PREFIXES6 = 2000, 400


class Inventory:
    def __init__(self, source):
        self.source = source
        self.networks = []  # (vni, name, prefix)
        self.ports = []     # (vni, address, mac)
        self.prefixes = []  # announced prefixes, v4 then v6


def load(data):
    if data and os.path.isdir(os.path.join(data, "inventory/ovn")):
        return from_data(data)
    return generated()


def from_data(data):
    inv = Inventory(data)
    folder = os.path.join(data, "inventory/ovn")
    with open(os.path.join(folder, "derived_networks.csv")) as f:
        names = {row["vni(assigned)"]: row["neutron_network"] for row in csv.DictReader(f)}
    with open(os.path.join(folder, "derived_vxlan_routes.csv")) as f:
        for row in csv.DictReader(f):
            net = ipaddress.ip_interface(row["router_port_cidr"]).network
            name = names.get(row["vni(assigned)"]) or row["network"]
            inv.networks.append((int(row["vni(assigned)"]), short_name(name), str(net)))
    with open(os.path.join(folder, "derived_vm_nc.csv")) as f:
        for row in csv.DictReader(f):
            inv.ports.append((int(row["vni(assigned)"]), row["vm_ip"], row["mac"]))
    inv.prefixes = announced(os.path.join(
        data, "prefixes/bart-tier1-fulltable.prefixes.txt.gz"))
    return inv


def short_name(name):
    """ns/openshift-dns-net says no more than openshift-dns."""
    return re.sub(r"^ns/|-net$", "", name)


def announced(path):
    """Evenly spread over the table, so that every length and region is there; what is no
    place for a VM (a host route, a reserved range) is passed over."""
    with gzip.open(path) as f:
        lines = f.read().split()[::331]
    nets = [ipaddress.ip_network(line.decode()) for line in lines]
    chosen = []
    for version, count in ((4, PREFIXES4), (6, PREFIXES6)):
        usable = [n for n in nets if n.version == version and n.is_global
                  and n.num_addresses >= 4]
        step = max(1, len(usable) // count)
        chosen += [str(n) for n in usable[::step][:count]]
    return chosen


def generated():
    """The same shape from a seed: /23s on one router, /24-heavy announced prefixes."""
    rng = random.Random(20)
    inv = Inventory("generated")
    for n in range(PEERED):
        inv.networks.append((10000 + n, "network-%d" % n, "10.128.%d.0/23" % (2 * n)))
    hosts = rng.sample([(n, h) for n in range(PEERED) for h in range(10, 200)], PORTS)
    for i, (n, host) in enumerate(sorted(hosts)):
        inv.ports.append((10000 + n, "10.128.%d.%d" % (2 * n, host),
                          "fa:16:3e:%02x:%02x:%02x" % (i >> 16, i >> 8 & 255, i & 255)))
    for _ in range(PREFIXES4):
        length = rng.choice([24] * 6 + [22, 20, 19, 16])
        first = rng.choice([x for x in range(24, 100)])
        base = first << 24 | rng.getrandbits(24)
        inv.prefixes.append(str(ipaddress.ip_network((base, length), strict=False)))
    for _ in range(PREFIXES6):
        base = 0x2A00 << 112 | rng.getrandbits(32) << 80
        inv.prefixes.append(str(ipaddress.ip_network((base, 48), strict=False)))
    inv.prefixes = list(dict.fromkeys(inv.prefixes))
    return inv


def extend(lab, inv):
    """Gives the lab the inventory's tenants, and VMs that stand in two of each kind."""
    clusters = [g.cluster for g in lab.gateways]
    for n, (vni, name, net) in enumerate(inv.networks):
        lab.add_tenant(vni, name[:63], clusters[0], net)
    live = {}
    for vni, address, mac in inv.ports:
        live.setdefault(vni, (vni, address, mac))
    for name, nc, (vni, address, mac) in zip(("o1", "o2"), (0, 2), live.values()):
        tenant = next(t for t in lab.tenants if t.vni == vni)
        lab.add_vm(name, tenant, nc, ip4=address, mac=mac)
    nets = [ipaddress.ip_network(x) for x in inv.prefixes]
    for k in range(TABLE_TENANTS):
        tenant = lab.add_tenant(20000 + k, "announced-%d" % k, clusters[k % len(clusters)])
        tenant.prefixes = nets[k::TABLE_TENANTS]
    first = lab.tenants[-TABLE_TENANTS]
    v4 = [n for n in first.prefixes if n.version == 4]
    v6 = [n for n in first.prefixes if n.version == 6]
    for name, nc, i in (("e1", 0, 0), ("e2", 1, 1)):
        lab.add_vm(name, first, nc, ip4=str(v4[i][1]), ip6=str(v6[i][1]))


def tenants(lab):
    for t in lab.tenants:
        row = {"table": "tenant", "vni": t.vni, "cluster": t.cluster, "name": t.name}
        row.update({"h_home": t.h_home} if t.h_home else {})
        yield {**row, "flags": t.flags} if t.flags else row


def routes(lab, inv):
    def route(vni, prefix, scope, **more):
        return {"table": "vxlan_route", "vni": vni, "prefix": str(prefix), "scope": scope,
                **more}

    for t in lab.tenants:
        for net in [t.net4, t.net6] + list(getattr(t, "prefixes", ())):
            if net:
                yield route(t.vni, net, "local")
        for prefix, scope, more in t.others:
            yield route(t.vni, prefix, scope, **more)
    for one, other in lab.peerings:
        for here, there in ((one, other), (other, one)):
            for net in (there.net4, there.net6):
                if net:
                    yield route(here.vni, net, "peer", peer_vni=there.vni)
    for r in lab.remotes:
        scope = "idc" if r.node.name == "idc" else "region"
        for net in (r.net4, r.net6):
            yield route(r.tenant.vni, net, scope, endpoint=r.node.ip(r.node.family),
                        endpoint_vni=r.vni)
    for (vni, _, _), (peer, _, net) in itertools.permutations(inv.networks, 2):
        yield route(vni, net, "peer", peer_vni=peer)


def vm_ncs(lab, inv):
    live = {(vm.tenant.vni, vm.ip(f)): vm for vm in lab.vms for f in (4, 6) if vm.ip(f)}
    for (vni, address), vm in live.items():
        row = {"table": "vm_nc", "vni": vni, "vm": address, "nc": vm.nc.ip(vm.nc.family)}
        yield {**row, "mac": vm.mac} if vm.mac_in_entry else row
    # The others live on NCs that the lab does not have: the inventory puts nearly all on
    # one host, so they are spread here.
    known = {vni for vni, _, _ in inv.networks}
    for n, (vni, address, mac) in enumerate(inv.ports):
        if vni in known and (vni, address) not in live:
            yield {"table": "vm_nc", "vni": vni, "vm": address,
                   "nc": "172.16.%d.%d" % (100 + n % 100, 1 + n // 100), "mac": mac}


def lines(lab, inv):
    """Tenants first: a peer route to what is no tenant yet is refused."""
    for e in itertools.chain(tenants(lab), routes(lab, inv), vm_ncs(lab, inv)):
        yield json.dumps(e, separators=(",", ":"))


def captured_lines(lab, rows):
    """Tenants of the captures, on the first cluster; a VNI of ours stays ours."""
    ours = {t.vni for t in lab.tenants}
    for r in rows:
        if r["vni"] in ours:
            continue
        if r["table"] == "vni":
            r = {"table": "tenant", "vni": r["vni"], "cluster": lab.gateways[0].cluster,
                 "name": "captured-%d" % r["vni"], "flags": r["flags"]}
        yield json.dumps(r, separators=(",", ":"))


def device(lab, gateway, region):
    """device.json of one gateway, as tests/reference/README.md has it: what the
    controller derives from the region; used by the reference gateway."""
    links = [{"port": 0, "mac": gateway.mac, "address": gateway.ip(f),
              "next_hop": hop, "next_hop_mac": gateway.hop_mac, "mtu": 1500}
             for f, hop in ((4, gateway.hop4), (6, gateway.hop6))]
    return {"vteps": [gateway.vtep4, gateway.vtep6], "vips": [gateway.vip4, gateway.vip6],
            "underlay_source": region.UNDERLAY_SOURCE, "icmp_source": region.ICMP_SOURCE,
            "udp6_zero_csum": False, "uplinks": links}


def derive(lab, entries, cluster):
    """The entries of one x86 cluster as the controller would send them: `tenant` becomes
    `vni`, a peer whose home is another cluster becomes `derived` to the VIP where its
    packets enter."""
    rows = [json.loads(e) for e in entries]
    home = {r["vni"]: r["cluster"] for r in rows if r["table"] == "tenant"}
    entrance = {r["vni"]: r.get("h_home") or r["cluster"] for r in rows
                if r["table"] == "tenant"}
    vip = {g.cluster: g.vip4 for g in lab.members}
    for r in rows:
        if home[r["vni"]] != cluster:
            continue
        if r["table"] == "tenant":
            yield {"table": "vni", "vni": r["vni"], "flags": r.get("flags", [])}
        elif r.get("scope") == "peer" and home[r["peer_vni"]] != cluster:
            yield {"table": "vxlan_route", "vni": r["vni"], "prefix": r["prefix"],
                   "scope": "derived", "endpoint": vip[entrance[r["peer_vni"]]],
                   "endpoint_vni": r["peer_vni"]}
        else:
            yield r
