#!/usr/bin/python3
"""The matrix of probes, over random regions: what is expected of each probe is what the
reference forwarder says, each probe is of the cell that it stands for, and no way that
a packet can take through the entries is left out.

    test_probe_matrix.py PROBE_PRINT [--regions N] [--seed N]
"""

import argparse
import collections
import ipaddress
import json
import os
import random
import subprocess
import sys
import tempfile

from forwarder import MAX_LOOKUPS, Forwarder, Tables
from forwarder_h import ForwarderH
from test_probes import reference

SCOPES = ("local", "local", "local", "peer", "peer", "idc", "region", "derived", "internet",
          "service")
ENDS = {"idc": "idc", "region": "region", "derived": "derived peer", "internet": "internet",
        "service": "service", "fallback": "fallback route"}
HOPS = ("", ", 1 peer", ", 2 peers", ", 3 peers", "")
FAMILY = {4: "IPv4", 6: "IPv6"}
PROTOS = {4: (6, 17, 1), 6: (6, 17, 58)}


def as_text(entry):
    """The entry as operators write it: protocols and ports are texts there, and whether a
    tenant has rules is not said."""
    return {k: [f for f in v if f != "acl"] if k == "flags" and entry["table"] != "vni"
            else str(v) if k in ("proto", "dport") else v for k, v in entry.items()}


class Region:
    """Entries of a few tenants in a small space, so that prefixes nest, and a device."""

    def __init__(self, rng, is_h):
        self.rng, self.is_h = rng, is_h
        self.vnis = rng.sample(range(1, 1 << 24), rng.randint(1, 6))
        self.entries = []
        for v in self.vnis:
            self.tenant(v)
        self.device = self.make_device()

    def address(self, version):
        rng = self.rng
        if version == 4:
            return ipaddress.ip_address(10 << 24 | rng.getrandbits(2) << 16
                                        | rng.getrandbits(2) << 8 | rng.getrandbits(3))
        return ipaddress.ip_address(0x20010DB8 << 96 | rng.getrandbits(2) << 80
                                    | rng.getrandbits(2) << 64 | rng.getrandbits(3))

    def nc(self):
        return self.rng.choice(("172.16.2.%d", "fd00:16:2::%d")) % self.rng.randint(1, 9)

    def add(self, table, vni, **more):
        self.entries.append({"table": table, "vni": vni, **more})

    def tenant(self, v):
        rng = self.rng
        flags = [f for f in ("internet", "inner_vlan") if rng.random() < 0.3]
        rules = {}
        if self.is_h and rng.random() < 0.5:
            for _ in range(rng.randint(1, 6)):
                rules[rng.randint(1, 9)] = self.rule()
            flags.append("acl")
        if rng.random() < 0.9:
            self.add("vni", v, flags=flags)
        for priority, rule in rules.items():
            self.add("acl", v, priority=priority, **rule)
        for version in (4, 6):
            routes = {}
            for _ in range(rng.choice((0, 1, 3, 8))):
                length = rng.choice((0, 8, 14, 16, 22, 24, 30, 32) if version == 4 else
                                    (0, 32, 46, 48, 62, 64, 126, 128))
                net = ipaddress.ip_network((self.address(version), length), strict=False)
                routes[str(net)] = self.action(v)
            for prefix, action in routes.items():
                self.add("vxlan_route", v, prefix=prefix, **action)
            for vm in {str(self.address(version)) for _ in range(rng.choice((0, 1, 4)))}:
                mac = {} if self.is_h or rng.random() < 0.5 else {
                    "mac": "02:00:00:00:00:%02x" % rng.randint(0, 255)}
                self.add("vm_nc", v, vm=vm, nc=self.nc(), **mac)

    def action(self, v):
        rng = self.rng
        scope = rng.choice(SCOPES + (("fallback",) if self.is_h else ()))
        others = [o for o in self.vnis if o != v]
        if scope == "peer":
            return {"scope": "peer", "peer_vni": rng.choice(others)} if others else {
                "scope": "local"}
        if scope in ("idc", "region", "derived"):
            return {"scope": scope, "endpoint": self.nc(),
                    "endpoint_vni": rng.choice((v, rng.randint(1, 9999)))}
        return {"scope": scope, **({"service": "dns"} if scope == "service" else {})}

    def rule(self):
        rng = self.rng
        version = rng.choice((4, 6))

        def prefix():
            length = rng.choice((0, 0, 14, 24, 32) if version == 4 else (0, 0, 46, 64, 128))
            return str(ipaddress.ip_network((self.address(version), length), strict=False))

        rule = {"action": rng.choice(("permit", "deny")), "src": prefix(), "dst": prefix()}
        if rng.random() < 0.6:
            rule["proto"] = rng.choice(PROTOS[version])
            if rule["proto"] in (6, 17) and rng.random() < 0.5:
                rule["dport"] = rng.choice((9, 80))
        return rule

    def make_device(self):
        rng = self.rng

        def some(v4, v6, least):
            both = [v4, v6]
            return both if rng.random() < 0.7 else rng.sample(both, rng.randint(least, 1))

        mtus = {4: rng.choice((1280, 1500, 1600)), 6: rng.choice((1280, 1500, 9000))}
        links = some("172.20.0.1", "fd00:20::1", 1)
        device = {
            "vteps": some("172.16.0.1", "fd00:16::1", 1),
            "vips": some("172.31.0.1", "fd00:31::1", 0),
            "underlay_source": ["172.16.0.0/12", "fd00:16::/32"],
            "icmp_source": [], "udp6_zero_csum": rng.random() < 0.3,
            "fallbacks": [] if self.is_h else some("172.16.7.1", "fd00:16:7::1", 0),
            "uplinks": [{"port": 0, "mac": "02:00:00:00:00:10", "address": a,
                         "next_hop": a, "next_hop_mac": "02:00:00:00:01:10",
                         "mtu": mtus[6 if ":" in a else 4]} for a in links]}
        chance = rng.random()
        if chance < 0.1:
            device["underlay_source"] = device["underlay_source"][:1]
        elif chance < 0.2:
            device["underlay_source"] = ["0.0.0.0/0", "::/0"]
        if self.is_h:
            device["members"] = rng.choice(([], [["172.16.5.1", "fd00:16:5::1"],
                                                 ["172.16.5.2"]]))
        return device

    def forwarder(self):
        config = dict(self.device, vteps=self.device["vteps"] + self.device["fallbacks"])
        if not self.is_h:
            return Forwarder(config, Tables(self.entries))
        members = [m for member in config["members"] for m in member]
        return LogicalH(config, self.entries, members)

    def cells(self):
        with tempfile.TemporaryDirectory() as tmp:
            paths = [os.path.join(tmp, n) for n in ("device.json", "entries.ndjson")]
            with open(paths[0], "w") as f:
                json.dump(self.device, f)
            with open(paths[1], "w") as f:
                f.writelines(json.dumps(as_text(e)) + "\n" for e in self.entries)
            done = subprocess.run([ARGS.program, "soft-h" if self.is_h else "x86"] + paths
                                  + ["--matrix"], stdout=subprocess.PIPE, text=True, check=True)
        return [json.loads(line) for line in done.stdout.splitlines()]


class LogicalH(ForwarderH):
    """With rules as entries: of one family each (proto/model/entry.h).  The reference's
    are rows of the chip, whose space has IPv4 inside IPv6."""

    def acl_permits(self, vni, inner):
        rules, self.acl = self.acl, [r for r in self.acl if ipaddress.ip_network(
            r["src"]).version == inner.family]
        try:
            return super().acl_permits(vni, inner)
        finally:
            self.acl = rules


# --- ways, by the reference's tables ----------------------------------------------------


def way(tables, vni, dst):
    """(end, peers, family of the NC or None) of a plain packet."""
    for hops in range(MAX_LOOKUPS):
        route = tables.route(vni, dst)
        if route is None:
            return "route miss", hops, None
        scope = route["scope"]
        if scope == "peer":
            vni = route["peer_vni"]
            continue
        if scope == "local":
            vm = tables.vms.get((vni, dst))
            if vm is None:
                return "vm miss", hops, None
            return ("local with a MAC" if "mac" in vm else "local", hops,
                    ipaddress.ip_address(vm["nc"]).version)
        if scope in ("idc", "region", "derived"):
            return ENDS[scope], hops, ipaddress.ip_address(route["endpoint"]).version
        return ENDS[scope], hops, None
    return "one peer too many", MAX_LOOKUPS, None


def cell_name(end, hops, inner, under, out):
    return "%s%s, %s inside, over %s%s" % (
        end, HOPS[hops], FAMILY[inner], FAMILY[under], ", to " + FAMILY[out] if out else "")


def interesting(region):
    """Addresses by family, of which one takes every way that there is."""
    points = collections.defaultdict(set)
    for e in region.entries:
        if e["table"] == "vm_nc":
            near = [int(ipaddress.ip_address(e["vm"]))]
            version = ipaddress.ip_address(e["vm"]).version
        elif e["table"] == "vxlan_route":
            net = ipaddress.ip_network(e["prefix"])
            near, version = [int(net[0]), int(net[-1])], net.version
        else:
            continue
        for n in near:
            for m in (n - 1, n, n + 1):
                if 0 <= m < 1 << (32 if version == 4 else 128):
                    points[version].add(ipaddress.ip_address(
                        m if version == 4 else m.to_bytes(16, "big")))
    points[4].add(ipaddress.ip_address("192.0.2.1"))
    points[6].add(ipaddress.ip_address("2001:db8::1"))
    return points


def check_region(region, seen):
    forwarder = region.forwarder()
    unders = sorted({ipaddress.ip_address(a).version for a in region.device["vteps"]})
    unders = [u for u in unders if any(ipaddress.ip_network(p).version == u
                                       for p in region.device["underlay_source"])]
    covered = {}
    for cell in region.cells():
        if "sent" not in cell:
            if "changed" in cell["reach"]:  # nothing did: it is not what it was made for
                raise AssertionError("'%s' is no probe of its cell" % cell["cell"])
            seen["not covered: " + cell["reach"]] += 1
            continue
        sent = bytes.fromhex(cell["sent"])
        what = forwarder.forward(sent, 0)[0]
        if what[0] == "local":
            want = ("kept", [])
        else:
            want = reference(forwarder, sent)
        found = (cell["reason"], sorted({bytes.fromhex(f)[14:].hex() for f in cell["frames"]}))
        if found != want:
            raise AssertionError("%s: expects %s, the reference says %s\n%s" % (
                cell["cell"], found, want, cell["sent"]))
        seen[cell["cell"]] += 1
        seen["reason " + (want[0] or ("forward" if len(want[1]) == 1 else "fallback"))] += 1
        covered[cell["cell"]] = sent
    check_ways(region, forwarder, unders, covered, seen)


def check_ways(region, forwarder, unders, covered, seen):
    tables = forwarder.tables
    for name, sent in covered.items():  # each is what it says
        if name.split(",")[0] in set(ENDS.values()) | {
                "local", "local with a MAC", "vm miss", "route miss", "one peer too many"}:
            outer = forwarder.parse_outer(sent)
            inner = forwarder.parse_inner(outer)
            end, hops, out = way(tables, outer.vni, inner.dst)
            own = cell_name(end, hops, inner.dst.version, outer.family, out)
            if own != name:
                raise AssertionError("a probe of '%s' is one of '%s'" % (name, own))
    points = interesting(region)
    for vni in tables.flags:
        for version, addresses in points.items():
            for dst in addresses:
                if not dst.is_multicast and not dst.is_loopback and not dst.is_unspecified \
                        and not dst.is_link_local and int(dst) >> 24 != 0:
                    end, hops, out = way(tables, vni, dst)
                    for under in unders:
                        seen["ways"] += 1
                        name = cell_name(end, hops, version, under, out)
                        if name not in covered and not region_denies(region, vni):
                            raise AssertionError("nothing covers '%s': vni %d to %s" % (
                                name, vni, dst))


def region_denies(region, vni):
    """Where there are rules, a way may be closed to every packet."""
    return any(e["table"] == "acl" and e["vni"] == vni and e["action"] == "deny"
               for e in region.entries)


def main():
    seen = collections.Counter()
    for n in range(ARGS.regions):
        seed = ARGS.seed * 1000003 + n
        region = Region(random.Random(seed), is_h=n % 2 == 1)
        try:
            check_region(region, seen)
        except AssertionError as e:
            print("region of seed %d (n %d): %s" % (seed, n, e))
            return 1
    for name, count in sorted(seen.items()):
        if name.startswith(("reason ", "not covered", "ways")):
            print("%8d %s" % (count, name))
    print("%d regions agree" % ARGS.regions)
    return 0


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("program")
    p.add_argument("--regions", type=int, default=400)
    p.add_argument("--seed", type=int, default=1)
    ARGS = p.parse_args()
    sys.exit(main())
