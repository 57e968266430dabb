"""The reference forwarder: one frame in, one verdict out.  See README.md beside it.

    f = Forwarder(device, entries)
    f.forward(frame, port) -> [("forward", {port: bytes})]
                            | [("drop", reason)]
                            | [("drop", reason), ("icmp", {port: bytes})]
                            | [("local",)]

A dict holds the frame for each uplink that an execution may choose.  The sections
below follow the page's table of checks from top to bottom.
"""

import ipaddress
import json
import struct

from wire import (ETH_ARP, ETH_IPV4, ETH_IPV6, ICMP, ICMPV6, UDP, VLAN_TPIDS,
                  VXLAN_PORT, checksum, ipv4_header, ipv6_header,
                  is_routable_unicast, mac_bytes, ones_sum, pseudo_header, u16)

ip = ipaddress.ip_address
V6_EXTENSIONS = (0, 43, 44, 51, 60, 135, 139, 140)
ND_TYPES = range(133, 138)
BFD_PORTS = (3784, 3785, 4784)
MAX_LOOKUPS = 4


class Drop(Exception):
    def __init__(self, reason, icmp=None):
        super().__init__(reason)
        self.reason = reason
        self.icmp = icmp  # None, ("ttl",) or ("mtu", value)


class Local(Exception):
    pass


def need(condition, reason):
    if not condition:
        raise Drop(reason)


class Outer:
    """What checks 1 to 21 learn of the outside."""


class Inner:
    """What checks 23 to 32 learn of the inside."""


class Tables:
    """Entries by linear scan and plain dictionaries."""

    def __init__(self, entries):
        self.flags, self.routes, self.vms = {}, [], {}
        for e in entries:
            e = json.loads(e) if isinstance(e, str) else e
            if e["table"] in ("vni", "tenant"):
                self.flags[e["vni"]] = e.get("flags", [])
            elif e["table"] == "vxlan_route":
                self.routes.append((e["vni"], ipaddress.ip_network(e["prefix"]), e))
            elif e["table"] == "vm_nc":
                self.vms[e["vni"], ip(e["vm"])] = e
            else:
                raise ValueError("table %r is none of the forwarder's" % e["table"])

    def route(self, vni, address):
        """Longest prefix match: the longest of all that contain the address."""
        best = None
        for v, prefix, e in self.routes:
            if v == vni and prefix.version == address.version and address in prefix:
                if best is None or prefix.prefixlen > best[0]:
                    best = (prefix.prefixlen, e)
        return best[1] if best else None


class Forwarder:
    """XGW-x86; what XGW-H does otherwise is in forwarder_h.py."""

    def __init__(self, config, entries):
        self.tables = entries if isinstance(entries, Tables) else Tables(entries)
        self.vteps = [ip(a) for a in config.get("vteps", [])]
        self.vips = [ip(a) for a in config.get("vips", [])]
        self.sources = [ipaddress.ip_network(p) for p in config["underlay_source"]]
        self.icmp_sources = [ip(a) for a in config.get("icmp_source", [])]
        self.zero_csum6 = config.get("udp6_zero_csum", False)
        self.uplinks = config["uplinks"]
        self.tunnel_addrs = set(self.vteps + self.vips)
        self.own = self.tunnel_addrs | {ip(u["address"]) for u in self.uplinks}

    def forward(self, frame, in_port):
        """`in_port` changes nothing: every port is equal."""
        outer = inner = None
        try:
            outer = self.parse_outer(frame)
            inner = self.parse_inner(outer)
            return [("forward", self.route_and_rewrite(outer, inner))]
        except Local:
            return [("local",)]
        except Drop as d:
            out = [("drop", d.reason)]
            if d.icmp:
                frames = self.icmp_error(outer, inner, d.icmp)
                if frames:
                    out.append(("icmp", frames))
            return out

    # --- checks 1 to 22: outside -------------------------------------------------

    def parse_outer(self, frame):
        at, ethertype = self.parse_ethernet(frame)
        if ethertype == ETH_ARP:
            raise Local
        need(ethertype in (ETH_IPV4, ETH_IPV6), "l2_not_ip")
        data = frame[at:]
        o = self.outer_v4(data) if ethertype == ETH_IPV4 else self.outer_v6(data)

        need(o.dst in self.own, "not_our_address")
        if o.protocol != UDP:
            raise Local
        need(len(o.payload) >= 8, "outer_length")
        o.sport, o.dport, udp_len, o.csum = struct.unpack("!4H", o.payload[:8])
        need(8 <= udp_len == len(o.payload), "outer_length")
        if o.dport in BFD_PORTS:
            raise Local
        need(o.dport == VXLAN_PORT, "not_vxlan")
        need(o.dst in self.tunnel_addrs, "not_our_address")
        need(o.ttl >= 2, "outer_ttl")
        need(o.family == 4 or o.csum != 0 or self.zero_csum6, "outer_udp6_zero_csum")
        need(any(p.version == o.family and o.src in p for p in self.sources),
             "source_check")

        need(udp_len >= 16, "vxlan_truncated")
        vxlan = o.payload[8:16]
        need(vxlan[0] & 0x08, "vxlan_i_flag")
        need(not vxlan[0] & 0x04, "vxlan_gpe")
        o.vni = int.from_bytes(vxlan[4:7], "big")
        need(o.vni in self.tables.flags, "unknown_vni")
        return o

    @staticmethod
    def parse_ethernet(frame):
        at, tags = 12, 0
        need(len(frame) >= 14, "l2_truncated")
        while u16(frame, at) in VLAN_TPIDS:
            tags += 1
            need(tags <= 2, "l2_vlan_depth")
            at += 4
            need(len(frame) >= at + 2, "l2_truncated")
        return at + 2, u16(frame, at)

    @staticmethod
    def outer_v4(data):
        o = Outer()
        need(len(data) >= 20, "outer_length")
        need(data[0] >> 4 == 4, "outer_version")
        head_len, total = (data[0] & 15) * 4, u16(data, 2)
        need(20 <= head_len <= total <= len(data), "outer_length")
        need(checksum(data[:head_len]) == 0, "outer_checksum")
        need(head_len == 20, "outer_options")
        need(u16(data, 6) & 0x3FFF == 0, "outer_frag")
        o.family, o.tos, o.ttl, o.protocol = 4, data[1], data[8], data[9]
        o.ident, o.flags, o.label = u16(data, 4), u16(data, 6), None
        o.src, o.dst = ip(data[12:16]), ip(data[16:20])
        o.payload = data[20:total]
        return o

    @staticmethod
    def outer_v6(data):
        o = Outer()
        need(len(data) >= 40, "outer_length")
        need(data[0] >> 4 == 6, "outer_version")
        first, payload_len = struct.unpack("!IH", data[:6])
        need(40 + payload_len <= len(data), "outer_length")
        o.family, o.protocol, o.ttl = 6, data[6], data[7]
        o.tos, o.label = first >> 20 & 0xFF, first & 0xFFFFF
        need(o.protocol not in V6_EXTENSIONS or o.protocol == 44, "outer_options")
        need(o.protocol != 44, "outer_frag")
        o.src, o.dst = ip(data[8:24]), ip(data[24:40])
        o.payload = data[40:40 + payload_len]
        if o.protocol == ICMPV6 and o.payload and o.payload[0] in ND_TYPES:
            raise Local
        return o

    # --- checks 23 to 32: inside --------------------------------------------------

    def parse_inner(self, outer):
        i = Inner()
        i.frame = outer.payload[16:]
        need(len(i.frame) >= 14, "inner_truncated")
        i.at, i.tags = 12, 0
        while u16(i.frame, i.at) in VLAN_TPIDS:
            i.tags += 1
            need("inner_vlan" in self.tables.flags[outer.vni], "inner_vlan")
            need(i.tags <= 2, "inner_vlan")
            i.at += 4
            need(len(i.frame) >= i.at + 2, "inner_truncated")
        ethertype = u16(i.frame, i.at)
        i.at += 2
        need(ethertype in (ETH_IPV4, ETH_IPV6), "inner_not_ip")
        data = i.frame[i.at:]
        if ethertype == ETH_IPV4:
            self.inner_v4(i, data)
        else:
            self.inner_v6(i, data)
        need(not (i.family == 6 and i.upper == ICMPV6 and not i.later_fragment
                  and i.l4 and i.l4[0] in ND_TYPES), "inner_nd")
        need(is_routable_unicast(i.dst), "inner_not_unicast")
        return i

    @staticmethod
    def inner_v4(i, data):
        need(len(data) >= 20, "inner_truncated")
        need(data[0] >> 4 == 4, "inner_version")
        head_len, total = (data[0] & 15) * 4, u16(data, 2)
        need(20 <= head_len <= total <= len(data), "inner_length")
        need(checksum(data[:head_len]) == 0, "inner_checksum")
        i.family, i.packet, i.ttl, i.upper = 4, data[:total], data[8], data[9]
        i.df = bool(u16(data, 6) & 0x4000)
        i.later_fragment = u16(data, 6) & 0x1FFF != 0
        i.src, i.dst = ip(data[12:16]), ip(data[16:20])
        i.l4 = data[head_len:total]

    @staticmethod
    def inner_v6(i, data):
        need(len(data) >= 40, "inner_truncated")
        need(data[0] >> 4 == 6, "inner_version")
        total = 40 + u16(data, 4)
        need(total <= len(data), "inner_length")
        i.family, i.packet, i.ttl, i.df = 6, data[:total], data[7], True
        i.src, i.dst = ip(data[8:24]), ip(data[24:40])
        i.later_fragment = False
        header, at, count = data[6], 40, 0
        while header in V6_EXTENSIONS and not i.later_fragment:
            count += 1
            need(count <= 8 and at + 8 <= total, "inner_ext")
            if header == 44:
                length = 8
                i.later_fragment = u16(data, at + 2) & 0xFFF8 != 0
            elif header == 51:
                length = (data[at + 1] + 2) * 4  # RFC 4302, section 2.2
            else:
                length = (data[at + 1] + 1) * 8
            need(at + length <= total, "inner_ext")
            header = data[at]
            at += length
        i.upper, i.l4 = header, data[at:total]

    # --- checks 34 to 43, and the packet that goes out ------------------------------

    def decide(self, vni, inner):
        """Returns (VNI, outer destination, MAC or None, leaves the region)."""
        for _ in range(MAX_LOOKUPS):
            route = self.tables.route(vni, inner.dst)
            need(route is not None, "route_miss")
            scope = route["scope"]
            if scope != "peer":
                break
            vni = route["peer_vni"]
        need(scope != "peer", "peer_limit")
        need(scope != "internet", "no_snat")
        need(scope != "service", "service_unbound")
        if scope == "local":
            vm = self.tables.vms.get((vni, inner.dst))
            need(vm is not None, "vm_nc_miss")
            mac = mac_bytes(vm["mac"]) if "mac" in vm else None
            return vni, ip(vm["nc"]), mac, False
        return (route["endpoint_vni"], ip(route["endpoint"]), None,
                scope in ("idc", "region"))

    def vip(self, family):
        return next((a for a in self.vips if a.version == family), None)

    def usable_uplinks(self, family):
        links = [u for u in self.uplinks if ip(u["address"]).version == family]
        need(links, "no_uplink")
        links = [u for u in links if u["next_hop_mac"]]
        need(links, "next_hop_unresolved")
        return links

    def route_and_rewrite(self, outer, inner):
        vni, to, mac, leaves = self.decide(outer.vni, inner)
        frame = inner.frame
        if vni != outer.vni or leaves:
            if inner.ttl <= 1:
                raise Drop("inner_ttl", ("ttl",))
            frame = decrement_ttl(frame, inner)
        if mac:
            frame = mac + frame[6:]
        source = self.vip(to.version)
        need(source is not None, "no_vip")
        links = self.usable_uplinks(to.version)

        packet = self.encapsulate(outer, source, to, vni, frame)
        fits = [u for u in links if len(packet) <= u["mtu"]]
        if not fits:
            overhead = (50 if to.version == 4 else 70) + 4 * inner.tags
            raise Drop("mtu", ("mtu", links[0]["mtu"] - overhead) if inner.df else None)
        if len(fits) != len(links):
            raise ValueError("uplinks of one family with different MTUs: which one a "
                             "flow takes is not for the reference to say")
        return {u["port"]: on_link(u, to.version, packet) for u in links}

    def encapsulate(self, outer, source, to, vni, inner_frame):
        vxlan = b"\x08\0\0\0" + vni.to_bytes(3, "big") + b"\0"
        length = 8 + len(vxlan) + len(inner_frame)
        udp = struct.pack("!4H", outer.sport, outer.dport, length, 0) + vxlan + inner_frame
        pseudo = pseudo_header(source.packed, to.packed, length, UDP)
        if to.version != outer.family:
            csum = self.fresh_udp_checksum(pseudo, udp)
        elif outer.csum == 0:
            csum = 0
        else:
            # The sum of everything, checksum included, is 0xffff when it was right, and
            # otherwise off by some error; the new one must be off by the same error.
            before = ones_sum(pseudo_header(outer.src.packed, outer.dst.packed,
                                            len(outer.payload), UDP) + outer.payload)
            csum = (before - ones_sum(pseudo + udp)) % 0xFFFF or 0xFFFF
        udp = udp[:6] + struct.pack("!H", csum) + udp[8:]
        same = to.version == outer.family
        if to.version == 4:
            head = ipv4_header(source.packed, to.packed, length, UDP, outer.ttl - 1,
                               outer.tos, outer.ident if same else 0,
                               outer.flags if same else 0x4000)
        else:
            head = ipv6_header(source.packed, to.packed, length, UDP, outer.ttl - 1,
                               outer.tos, outer.label if same else outer.sport)
        return head + udp

    def fresh_udp_checksum(self, pseudo, udp):
        if len(pseudo) == 12 or self.zero_csum6:
            return 0
        return checksum(pseudo + udp) or 0xFFFF

    # --- ICMP errors ---------------------------------------------------------------

    def icmp_error(self, outer, inner, what):
        source = next((a for a in self.icmp_sources if a.version == inner.family), None)
        vip = self.vip(outer.family)
        if (source is None or vip is None or inner.later_fragment
                or inner.frame[0] & 1 or not is_routable_unicast(inner.src)
                or is_icmp_error(inner)):
            return None
        try:
            links = self.usable_uplinks(outer.family)
        except Drop:
            return None
        build = icmp4_error if inner.family == 4 else icmp6_error
        overhead = (20 if outer.family == 4 else 40) + 16 + inner.at
        packet = build(source, inner, what, min(u["mtu"] for u in links) - overhead)
        # Destination and source MAC change places; tags and ethertype stay.
        inner_frame = (inner.frame[6:12] + inner.frame[0:6] + inner.frame[12:inner.at]
                       + packet)
        sport = 0xC000 | outer.sport & 0x3FFF
        vxlan = b"\x08\0\0\0" + outer.vni.to_bytes(3, "big") + b"\0"
        length = 16 + len(inner_frame)
        udp = struct.pack("!4H", sport, VXLAN_PORT, length, 0) + vxlan + inner_frame
        pseudo = pseudo_header(vip.packed, outer.src.packed, length, UDP)
        udp = udp[:6] + struct.pack("!H", self.fresh_udp_checksum(pseudo, udp)) + udp[8:]
        if outer.family == 4:
            head = ipv4_header(vip.packed, outer.src.packed, length, UDP, 64, 0xC0)
        else:
            head = ipv6_header(vip.packed, outer.src.packed, length, UDP, 64, 0xC0, sport)
        return {u["port"]: on_link(u, outer.family, head + udp) for u in links}


def on_link(uplink, family, packet):
    ethertype = ETH_IPV4 if family == 4 else ETH_IPV6
    return (mac_bytes(uplink["next_hop_mac"]) + mac_bytes(uplink["mac"])
            + struct.pack("!H", ethertype) + packet)


def decrement_ttl(frame, inner):
    at = inner.at
    if inner.family == 6:
        return frame[:at + 7] + bytes([inner.ttl - 1]) + frame[at + 8:]
    head_len = (frame[at] & 15) * 4
    head = frame[at:at + head_len]
    head = head[:8] + bytes([inner.ttl - 1]) + head[9:10] + b"\0\0" + head[12:]
    head = head[:10] + struct.pack("!H", checksum(head)) + head[12:]
    return frame[:at] + head + frame[at + head_len:]


def is_icmp_error(inner):
    if inner.family == 4 and inner.upper == ICMP:
        return not inner.l4 or inner.l4[0] in (3, 4, 5, 11, 12)
    if inner.family == 6 and inner.upper == ICMPV6:
        return not inner.l4 or inner.l4[0] < 128
    return False


def icmp4_error(source, inner, what, room):
    if what[0] == "ttl":
        head = struct.pack("!BBHI", 11, 0, 0, 0)
    else:
        head = struct.pack("!BBHHH", 3, 4, 0, 0, what[1])
    icmp = head + inner.packet[:min(576, room) - 20 - 8]
    icmp = icmp[:2] + struct.pack("!H", checksum(icmp)) + icmp[4:]
    return ipv4_header(source.packed, inner.src.packed, len(icmp), ICMP, 64, 0xC0) + icmp


def icmp6_error(source, inner, what, room):
    if what[0] == "ttl":
        head = struct.pack("!BBHI", 3, 0, 0, 0)
    else:
        head = struct.pack("!BBHI", 2, 0, 0, what[1])
    icmp = head + inner.packet[:min(1280, room) - 40 - 8]
    pseudo = pseudo_header(source.packed, inner.src.packed, len(icmp), ICMPV6)
    icmp = icmp[:2] + struct.pack("!H", checksum(pseudo + icmp)) + icmp[4:]
    return ipv6_header(source.packed, inner.src.packed, len(icmp), ICMPV6, 64,
                       0xC0) + icmp
