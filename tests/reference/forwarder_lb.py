"""The load balancer in front of the clusters, as README.md beside it has it.

    f = LoadBalancer(device, entries)
    f.forward(frame, port) -> as Forwarder's; nobody is answered

`device` has `members` beside what every device has: [{"cluster": …, "node": …,
"v4": ip or null, "v6": ip or null}…].  Entries are of the table `vni_cluster`.
"""

import functools
import ipaddress
import json
import struct

from forwarder import Drop, Forwarder, Local, need, on_link
from wire import UDP, ipv4_header, ipv6_header, ones_sum, pseudo_header

WORD = 2 ** 64 - 1
SALTS = (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB, 0xD6E8FEB86659FD93)
SLOT_BITS = 18


def mix(a, b):
    product = a * b
    return product & WORD ^ product >> 64


def member_seed(name):
    value = 0xCBF29CE484222325  # FNV-1a, 64 bits
    for byte in name.encode():
        value = (value ^ byte) * 0x100000001B3 & WORD
    return mix(value ^ SALTS[2], SALTS[3])


@functools.lru_cache(maxsize=None)
def winner(slot, names):
    """The member with the highest score; of equal ones the greater seed's."""
    place = mix(slot ^ SALTS[0], SALTS[1])
    seeds = {name: member_seed(name) for name in names}
    return max(names, key=lambda name: (mix(place ^ seeds[name], SALTS[0]), seeds[name]))


def flow_hash(outer):
    """Of the outer 5-tuple."""
    data = outer.src.packed + outer.dst.packed
    words = [int.from_bytes(data[at:at + 8], "big") for at in range(0, len(data), 8)]
    if outer.family == 4:
        addresses = words[0]
    else:
        addresses = (mix(words[0] ^ SALTS[0], words[1] ^ SALTS[1])
                     ^ mix(words[2] ^ SALTS[2], words[3] ^ SALTS[3]))
    rest = UDP << 32 | outer.sport << 16 | outer.dport
    return mix(addresses ^ SALTS[0], rest ^ SALTS[1])


class ClusterTable:
    """VNI → cluster; under the name that check 22 looks at."""

    def __init__(self, entries):
        self.flags = {}
        for e in entries:
            e = json.loads(e) if isinstance(e, str) else e
            if e["table"] != "vni_cluster":
                raise ValueError("table %r is none of a load balancer's" % e["table"])
            self.flags[e["vni"]] = e["cluster"]


class LoadBalancer(Forwarder):
    def __init__(self, config, entries):
        super().__init__(config, [])
        self.tables = ClusterTable(entries)
        self.members = config["members"]

    def forward(self, frame, in_port):
        try:
            return [("forward", self.hand_on(self.parse_outer(frame)))]
        except Local:
            return [("local",)]
        except Drop as d:
            return [("drop", d.reason)]

    def member(self, outer):
        """The address that the flow's member has in the packet's family."""
        family = "v%d" % outer.family
        cluster = self.tables.flags[outer.vni]
        there = {m["node"]: m[family] for m in self.members
                 if m["cluster"] == cluster and m[family]}
        need(there, "no_member")
        slot = flow_hash(outer) >> 64 - SLOT_BITS
        return ipaddress.ip_address(there[winner(slot, tuple(sorted(there)))])

    def hand_on(self, outer):
        links = self.usable_uplinks(outer.family)
        packet = self.redirected(outer, self.member(outer))
        fits = [u for u in links if len(packet) <= u["mtu"]]
        need(fits, "mtu")
        if len(fits) != len(links):
            raise ValueError("uplinks of one family with different MTUs: which one a "
                             "flow takes is not for the reference to say")
        return {u["port"]: on_link(u, outer.family, packet) for u in links}

    @staticmethod
    def redirected(outer, to):
        length, udp = len(outer.payload), outer.payload
        if outer.csum:
            # As far from right as it was (forwarder.py, encapsulate).
            before = ones_sum(pseudo_header(outer.src.packed, outer.dst.packed, length,
                                            UDP) + udp)
            blank = udp[:6] + b"\0\0" + udp[8:]
            now = ones_sum(pseudo_header(outer.src.packed, to.packed, length, UDP) + blank)
            udp = udp[:6] + struct.pack("!H", (before - now) % 0xFFFF or 0xFFFF) + udp[8:]
        if outer.family == 4:
            return ipv4_header(outer.src.packed, to.packed, length, UDP, outer.ttl - 1,
                               outer.tos, outer.ident, outer.flags) + udp
        return ipv6_header(outer.src.packed, to.packed, length, UDP, outer.ttl - 1,
                           outer.tos, outer.label) + udp
