"""What XGW-H does: the same rules, but for what a chip cannot do, which goes to XGW-x86.

    f = ForwarderH(device, resident_entries, members)
    f.forward(frame, port) -> as Forwarder.forward

`resident_entries` are the logical entries that lie on XGW-H, plus rows of `acl`; a route
of scope `internet` or `service`, or of scope `fallback` (an explicit mark), sends to
XGW-x86.  `members` are the fallback addresses of the x86 cluster: which of them a flow
takes is the execution's choice.  Meters are not modelled: they pass everything.
"""

import ipaddress
import json
import struct

from forwarder import MAX_LOOKUPS, V6_EXTENSIONS, Forwarder, Tables, need, on_link
from wire import UDP, ipv4_header, ipv6_header, ones_sum, pseudo_header

ip = ipaddress.ip_address
WITH_PORTS = (6, 17, 132)


class Fallback(Exception):
    pass


def pooled(address):
    """IPv4 is the range ::ffff:0:0/96 of one space, also for rules."""
    return int(address) | (0xFFFF << 32 if address.version == 4 else 0)


def pooled_covers(prefix, address):
    n = ipaddress.ip_network(prefix)
    shift = 128 - n.prefixlen - (96 if n.version == 4 else 0)
    return pooled(n.network_address) >> shift == pooled(address) >> shift


def split_acl(entries):
    rows = [json.loads(e) if isinstance(e, str) else e for e in entries]
    return ([r for r in rows if r["table"] != "acl"], [r for r in rows if r["table"] == "acl"])


class ForwarderH(Forwarder):
    def __init__(self, config, entries, members):
        tables, self.acl = split_acl(entries)
        super().__init__(config, Tables(tables))
        self.members = [ip(m) for m in members]
        for vm in self.tables.vms.values():
            if "mac" in vm:
                raise ValueError("the chip sets no inner MAC: %r is not for it" % vm)

    # --- what only XGW-H asks --------------------------------------------------------

    @staticmethod
    def hides_ports(inner):
        """Behind options and extension headers the chip's parser does not look."""
        if inner.family == 4:
            return inner.packet[0] & 15 > 5
        return inner.packet[6] in V6_EXTENSIONS

    @staticmethod
    def is_mapped(inner):
        """A v6 destination that the pooled space would take for IPv4."""
        return inner.family == 6 and int(inner.dst) >> 32 == 0xFFFF

    def acl_permits(self, vni, inner):
        """The rule of the highest priority that matches; none: permit.  Where the ports
        are hidden, rules that may be there cannot be applied: x86 does not look again."""
        if "acl" in self.tables.flags[vni] and self.hides_ports(inner):
            return False
        ports = None
        if inner.upper in WITH_PORTS and not inner.later_fragment and len(inner.l4) >= 4:
            ports = struct.unpack("!HH", inner.l4[:4])
        best = None
        for r in self.acl:
            if r["vni"] != vni:
                continue
            if any(k in r and not pooled_covers(r[k], a)
                   for k, a in (("src", inner.src), ("dst", inner.dst))):
                continue
            if "proto" in r and r["proto"] != inner.upper:
                continue
            if ("sport" in r or "dport" in r) and ports is None:
                continue
            if any(k in r and r[k] != ports[n] for n, k in enumerate(("sport", "dport"))):
                continue
            if best is None or r["priority"] > best["priority"]:
                best = r
        return best is None or best["action"] == "permit"

    # --- the way ---------------------------------------------------------------------

    def decide(self, vni, inner):
        for _ in range(MAX_LOOKUPS):
            route = self.tables.route(vni, inner.dst)
            if route is None:
                raise Fallback
            scope = route["scope"]
            if scope != "peer":
                break
            vni = route["peer_vni"]
        need(scope != "peer", "peer_limit")
        if scope in ("internet", "service", "fallback"):
            raise Fallback
        if scope == "local":
            vm = self.tables.vms.get((vni, inner.dst))
            if vm is None:
                raise Fallback
            return vni, ip(vm["nc"]), None, False
        return route["endpoint_vni"], ip(route["endpoint"]), None, True

    def route_and_rewrite(self, outer, inner):
        need(self.acl_permits(outer.vni, inner), "acl_deny")
        try:
            if inner.tags > 0 or self.hides_ports(inner) or self.is_mapped(inner):
                raise Fallback
            vni, to, _, leaves = self.decide(outer.vni, inner)
            if to.version != outer.family:
                raise Fallback
            if (vni != outer.vni or leaves) and inner.ttl <= 1:
                raise Fallback
            links = self.usable_uplinks(outer.family)  # before the VIP: a table earlier
            need(self.vip(outer.family) is not None, "no_vip")
            if len(outer.payload) + (20 if outer.family == 4 else 40) > links[0]["mtu"]:
                raise Fallback
            return super().route_and_rewrite(outer, inner)
        except Fallback:
            return self.fall_back(outer)

    def fall_back(self, outer):
        """Every frame that may leave: a list for each port."""
        members = [m for m in self.members if m.version == outer.family]
        need(members, "fallback_no_member")
        links = self.usable_uplinks(outer.family)
        return {u["port"]: [on_link(u, outer.family, self.towards(outer, m))
                            for m in members] for u in links}

    @staticmethod
    def towards(outer, member):
        """As a load balancer: destination, TTL, checksums."""
        old = pseudo_header(outer.src.packed, outer.dst.packed, len(outer.payload), UDP)
        new = pseudo_header(outer.src.packed, member.packed, len(outer.payload), UDP)
        payload, csum = outer.payload, 0
        if outer.csum != 0:
            bare = payload[:6] + b"\0\0" + payload[8:]
            csum = (ones_sum(old + payload) - ones_sum(new + bare)) % 0xFFFF or 0xFFFF
        payload = payload[:6] + struct.pack("!H", csum) + payload[8:]
        if outer.family == 4:
            return ipv4_header(outer.src.packed, member.packed, len(payload), UDP,
                               outer.ttl - 1, outer.tos, outer.ident, outer.flags) + payload
        return ipv6_header(outer.src.packed, member.packed, len(payload), UDP,
                           outer.ttl - 1, outer.tos, outer.label) + payload


