#!/usr/bin/python3
"""Makes packet cases and what the reference says to each.

    cases.py --out DIR [--data ../shared/data] [--seed N] [--mutations N] [--world NAME]

Writes DIR/WORLD/{in.pcap, expected.jsonl, device.json, entries.ndjson}.  The same
arguments give the same bytes.  Frames are built by scapy, so that the headers do not
come from the code that judges them.
"""

import argparse
import json
import os
import pathlib
import random
import struct
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import world as w  # noqa: E402
from captures import Place, captured_cases  # noqa: E402
from forwarder import Forwarder, Tables  # noqa: E402
from wire import checksum, u16  # noqa: E402

from scapy.all import (  # noqa: E402
    ARP, AH, Dot1AD, Dot1Q, Ether, ICMP, IP, IPOption, IPv6, IPv6ExtHdrDestOpt,
    IPv6ExtHdrFragment, IPv6ExtHdrHopByHop, IPv6ExtHdrRouting, ICMPv6EchoRequest,
    ICMPv6DestUnreach, ICMPv6ND_NA, ICMPv6ND_NS, ICMPv6ND_RA,
    LLC, Raw, TCP, UDP)
from scapy.layers.vxlan import VXLAN  # noqa: E402

VNI_OFFSET = 0  # for a place where the cases' tenants have other numbers
VM_MAC, GW_MAC = "02:00:00:00:00:05", "02:00:00:00:00:fe"
PEER_MAC = "02:00:00:00:01:10"
PLAIN4 = dict(src=w.NC4, dst=w.VIP4)
PLAIN6 = dict(src=w.NC6, dst=w.VIP6)


def ether(dst=w.PORT_MAC[0], **more):
    """Both addresses given: scapy would look for missing ones on this machine."""
    return Ether(src=PEER_MAC, dst=dst, **more)


def shifted(row):
    """An entry of the cases' world under the number that VNI_OFFSET gives it."""
    return w.shifted(row, VNI_OFFSET)


def plain(payload=b"x" * 18, src="10.0.0.5", dst="10.0.0.4", eth=None, ip=None,
          sport=4321, dport=80, l4=None):
    """An inner frame: v4 or v6 by its destination."""
    layer = IPv6 if ":" in dst else IP
    if layer is IPv6 and ":" not in src:
        src = "2001:db8:100::5"
    body = l4 if l4 is not None else TCP(sport=sport, dport=dport) / Raw(payload)
    return bytes(Ether(src=VM_MAC, dst=GW_MAC, **(eth or {}))
                 / layer(src=src, dst=dst, **(ip or {})) / body)


def tunnel(inner, family=4, vni=100, ip=None, udp=None, vxlan=None, tags=(), pad=b""):
    """The whole frame: scapy computes whatever `ip`, `udp` and `vxlan` leave out."""
    vni += VNI_OFFSET if 0 < vni < 0xFFFFFF else 0
    head = ether()
    for tag in tags:
        head = head / tag
    if family == 4:
        head = head / IP(**{**PLAIN4, "ttl": 64, "id": 0x1234, **(ip or {})})
    else:
        head = head / IPv6(**{**PLAIN6, "hlim": 64, "fl": 0x54321, **(ip or {})})
    return bytes(head / UDP(**{"sport": 50505, "dport": 4789, **(udp or {})})
                 / VXLAN(**{"flags": 8, "vni": vni, **(vxlan or {})}) / Raw(inner)) + pad


def scopes():
    """Scope x inner family x outer families x hit, miss, chain."""
    for family in (4, 6):
        for name, v4, v6 in (
                ("local to a v4 NC", "10.0.0.4", "2001:db8:100::4"),
                ("local to a v6 NC", "10.0.0.6", "2001:db8:100::6"),
                ("local without a MAC", "10.0.0.44", "2001:db8:100::66"),
                ("local without an entry", "10.0.0.77", "2001:db8:100::77"),
                ("no route", "99.0.0.1", "2001:db8:ffff::1"),
                ("idc", "10.4.1.2", "2001:db8:4::2"),
                ("region", "10.5.1.2", "2001:db8:5::2"),
                ("idc with our VNI", "10.6.1.2", "2001:db8:6::2"),
                ("region with our VNI", "10.14.1.2", "2001:db8:14::2"),
                ("internet", "10.7.1.2", "2001:db8:7::2"),
                ("service", "10.8.1.2", "2001:db8:8::2"),
                ("peer to a v4 NC", "10.9.0.4", "2001:db8:9::4"),
                ("peer to a v6 NC", "10.9.0.6", "2001:db8:9::6"),
                ("peer without an entry", "10.9.0.77", "2001:db8:9::77"),
                ("chain of 4 lookups", "10.10.0.4", "2001:db8:10::4"),
                ("chain of 4 without an entry", "10.10.0.5", "2001:db8:10::5"),
                ("chain of 5 lookups", "10.11.0.4", "2001:db8:11::4"),
                ("derived peer", "10.12.0.4", "2001:db8:12::4"),
                ("peer that nobody knows", "10.13.0.4", "2001:db8:13::4")):
            for dst in (v4, v6):
                for zero in (True, False):
                    udp = {"chksum": 0} if zero else None
                    yield ("%s, %s over v%d, checksum %s" % (name, dst, family,
                           "0" if zero else "right"), tunnel(plain(dst=dst), family, udp=udp))
        for vni, dst in ((200, "10.0.0.4"), (0xFFFFFF, "10.0.0.4"), (0xFFFFFF, "9.9.9.9"),
                         (101, "10.0.0.4"), (0, "10.0.0.4"), (112, "10.10.0.4")):
            yield "vni %d to %s over v%d" % (vni, dst, family), tunnel(
                plain(dst=dst), family, vni)
    for dst in ("20.1.2.3", "20.1.2.4", "20.1.2.255", "20.1.3.0", "20.1.1.255", "20.2.0.0",
                "20.255.255.255", "21.0.0.0", "19.255.255.255", "2001:db8:2000::9",
                "2001:db8:2000::8", "2001:db8:2000:0:8000::", "2001:db8:2000:1::",
                "2001:db8:2001::", "2001:db8:2fff:ffff::1", "2001:db8:3000::"):
        yield "nested prefixes, %s" % dst, tunnel(plain(dst=dst))


def outer_headers():
    good = plain()
    for family in (4, 6):
        ttl = "ttl" if family == 4 else "hlim"
        for value in (0, 1, 2, 3, 255):
            yield "outer %s %d" % (ttl, value), tunnel(good, family, ip={ttl: value})
        for tos in (0, 1, 2, 3, 0x3E, 0xB8, 0xFF):
            field = {"tos": tos} if family == 4 else {"tc": tos}
            for dst in ("10.0.0.4", "10.0.0.6"):
                yield "DSCP and ECN 0x%02x from v%d to %s" % (tos, family, dst), tunnel(
                    plain(dst=dst), family, ip=field)
        for dst in (w.VTEP4, w.VIP4, "172.20.0.1", "172.16.0.2", "255.255.255.255",
                    "224.0.0.1") if family == 4 else (
                        w.VTEP6, w.VIP6, "fd00:20:0::1", "fd00:16::2", "ff02::1"):
            yield "outer destination " + dst, tunnel(good, family, ip={"dst": dst})
            yield "ping to " + dst, bytes(
                ether() / (IP(src=w.NC4, dst=dst) / ICMP()
                if family == 4 else IPv6(src=w.NC6, dst=dst) / ICMPv6EchoRequest()))
        for src in ("172.15.255.255", "172.16.0.0", "172.31.255.255", "172.32.0.0",
                    "8.8.8.8", "0.0.0.0") if family == 4 else (
                        "fd00:15:ffff::1", "fd00:16::", "fd00:16:ffff::1", "fd00:17::",
                        "2001:db8::1", "::"):
            yield "outer source " + src, tunnel(good, family, ip={"src": src})
        for dport in (0, 53, 179, 3784, 3785, 4784, 4788, 4789, 4790, 8472, 65535):
            yield "UDP port %d over v%d" % (dport, family), tunnel(
                good, family, udp={"dport": dport})
        for port in (0, 1, 0xC000, 0xFFFF):
            yield "UDP source port %d over v%d" % (port, family), tunnel(
                good, family, udp={"sport": port})
        for value in (1, 0xDEAD, 0xFFFF):
            for dst in ("10.0.0.4", "10.0.0.6", "10.4.0.9", "10.5.0.9", "10.9.0.4"):
                yield "wrong UDP checksum 0x%04x, v%d to %s" % (value, family, dst), tunnel(
                    plain(dst=dst), family, udp={"chksum": value})
        for length in (0, 7, 8, 15, 16, 17, 30, 60, 65535):
            yield "UDP length %d over v%d" % (length, family), tunnel(
                good, family, udp={"len": length})
        for tags, name in (((Dot1Q(vlan=5),), "one"), ((Dot1AD(vlan=5), Dot1Q(vlan=6)), "two"),
                           ((Dot1Q(vlan=1), Dot1Q(vlan=2), Dot1Q(vlan=3)), "three"),
                           ((Dot1Q(vlan=0, prio=7),), "a priority")):
            yield "%s outer tag over v%d" % (name, family), tunnel(good, family, tags=tags)
        yield "Ethernet padding over v%d" % family, tunnel(good, family, pad=b"\x55" * 9)
        yield "Ethernet padding, odd payload, over v%d" % family, tunnel(
            plain(payload=b"odd"), family, pad=b"\xff")
        for version in (0, 4, 5, 6, 15):
            yield "outer version %d as v%d" % (version, family), tunnel(
                good, family, ip={"version": version})
    yield from outer_v4(good)
    yield from outer_v6(good)
    arp = ARP(op=1, hwsrc=PEER_MAC, psrc="172.20.0.2", pdst="172.20.0.1")
    yield "ARP for us", bytes(ether("ff:ff:ff:ff:ff:ff") / arp)
    yield "ARP in a tag", bytes(ether("ff:ff:ff:ff:ff:ff") / Dot1Q(vlan=3) / arp)
    for ethertype in (0x0000, 0x0026, 0x05FF, 0x0600, 0x0806, 0x8847, 0x88CC, 0x9100, 0xFFFF):
        yield "outer ethertype 0x%04x" % ethertype, (
            tunnel(good)[:12] + struct.pack("!H", ethertype) + tunnel(good)[14:])
    yield "TCP to our port 179", bytes(ether() / IP(src=w.NC4, dst=w.VTEP4, ttl=1)
                                       / TCP(dport=179))
    yield "GRE to us", bytes(ether() / IP(src=w.NC4, dst=w.VTEP4, proto=47) / Raw(b"1234"))


def sums_to_zero():
    """UDP checksums that come out as 0, before or behind us: 0xffff must be sent."""
    judge = Forwarder(w.device(), [shifted(r) for r in w.entries()])
    for family in (4, 6):
        for dst in ("10.0.0.4", "10.0.0.44", "10.9.0.4", "10.4.0.1", "10.0.0.6",
                    "10.9.0.6", "2001:db8:100::4", "2001:db8:100::6", "2001:db8:4::1"):
            def frame(word):
                return tunnel(plain(dst=dst, l4=Raw(struct.pack("!H", word) + b"\0" * 20),
                                    ip={"nh" if ":" in dst else "proto": 253}), family)

            at = 14 + (20 if family == 4 else 40) + 6
            yield "sum 0 from v%d to %s" % (family, dst), frame(u16(frame(1), at))
            out = judge.forward(frame(1), 0)[0][1][0]
            at = 14 + (20 if u16(out, 12) == 0x0800 else 40) + 6
            for more in (0, 1, 2):
                yield "sum near 0 to v%d to %s" % (family, dst), frame(
                    (u16(out, at) + more) % 0xFFFF)


def outer_v4(good):
    whole = len(tunnel(good)) - 14
    for ihl in (0, 1, 4, 6, 15):
        yield "outer IHL %d" % ihl, tunnel(good, ip={"ihl": ihl})
    for length in (0, 19, 20, 27, 28, 35, 36, whole - 1, whole, whole + 1, 65535):
        yield "outer total length %d" % length, tunnel(good, ip={"len": length})
        yield "outer total length %d, padded" % length, tunnel(
            good, ip={"len": length}, pad=b"\0" * 12)
    for name, option in (("router alert", IPOption(b"\x94\x04\0\0")),
                         ("no-op", IPOption(b"\x01\x01\x01\x00"))):
        yield "outer option, %s" % name, tunnel(good, ip={"options": [option]})
    for name, more in (("first fragment", {"flags": "MF"}),
                       ("middle fragment", {"flags": "MF", "frag": 100}),
                       ("last fragment", {"frag": 185}), ("DF", {"flags": "DF"}),
                       ("evil bit", {"flags": "evil"}), ("DF and MF", {"flags": "DF+MF"})):
        yield "outer v4, %s" % name, tunnel(good, ip=more)
        yield "outer v4 to v6, %s" % name, tunnel(plain(dst="10.0.0.6"), ip=more)
    for value in (0, 1, 0xFFFF):
        yield "outer header checksum 0x%04x" % value, tunnel(good, ip={"chksum": value})
    # A header whose right checksum is 0: 0 and 0xffff both verify (RFC 1071).
    frame = tunnel(good, ip={"id": 0})
    ident = u16(frame, 24)
    for written in (0, 0xFFFF):
        yield "outer header checksum 0x%04x that is right" % written, tunnel(
            good, ip={"id": ident, "chksum": written})


def outer_v6(good):
    whole = len(tunnel(good, 6)) - 54
    for length in (0, 7, 8, 16, whole - 1, whole, whole + 1, 65535):
        yield "outer payload length %d" % length, tunnel(good, 6, ip={"plen": length})
        yield "outer payload length %d, padded" % length, tunnel(
            good, 6, ip={"plen": length}, pad=b"\0" * 12)
    for header in (0, 43, 44, 51, 60, 135, 139, 140, 50, 59, 58, 6, 4, 41, 255):
        yield "outer next header %d" % header, tunnel(good, 6, ip={"nh": header})
    base = ether() / IPv6(src=w.NC6, dst=w.VIP6)
    udp = UDP(sport=50505, dport=4789) / VXLAN(flags=8, vni=100) / Raw(good)
    for name, ext in (("hop by hop", IPv6ExtHdrHopByHop()), ("routing", IPv6ExtHdrRouting()),
                      ("destination options", IPv6ExtHdrDestOpt()),
                      ("fragment", IPv6ExtHdrFragment(m=1)),
                      ("later fragment", IPv6ExtHdrFragment(offset=100)),
                      ("atomic fragment", IPv6ExtHdrFragment())):
        yield "outer v6 %s" % name, bytes(base / ext / udp)
    for name, nd in (("NS", ICMPv6ND_NS(tgt=w.VTEP6)), ("NA", ICMPv6ND_NA()),
                     ("RA", ICMPv6ND_RA())):
        yield "outer ND %s" % name, bytes(
            ether() / IPv6(src="fe80::1", dst="ff02::1:ff00:1", hlim=255) / nd)


def vxlan_headers():
    good = plain()
    for family in (4, 6):
        for flags in range(256):
            yield "VXLAN flags 0x%02x over v%d" % (flags, family), tunnel(
                good, family, vxlan={"flags": flags})
        for dst in ("10.0.0.4", "10.0.0.6", "10.4.0.1"):
            frame = bytearray(tunnel(plain(dst=dst), family, vxlan={"flags": 0x88}))
            at = 14 + (20 if family == 4 else 40) + 8
            frame[at + 1:at + 4] = b"\xff\x01\x03"
            frame[at + 7] = 0xA5
            yield "reserved bits set, v%d to %s" % (family, dst), bytes(frame)


def inner_headers():
    for vni in (300, 301):
        yield from inner_l2(vni)
    for family in (4, 6):
        for dst in ("10.0.0.4", "10.9.0.4", "10.4.0.1", "10.5.0.1", "10.12.0.1", "10.6.0.1",
                    "2001:db8:100::6", "2001:db8:9::4", "2001:db8:4::1", "2001:db8:5::1"):
            for ttl in (0, 1, 2, 255):
                field = {"hlim": ttl} if ":" in dst else {"ttl": ttl}
                yield "inner TTL %d to %s over v%d" % (ttl, dst, family), tunnel(
                    plain(dst=dst, ip=field), family)
    for dst in ("0.0.0.0", "0.1.2.3", "1.0.0.1", "126.255.255.255", "127.0.0.1",
                "128.0.0.1", "169.254.169.254", "223.255.255.255", "224.0.0.1",
                "239.1.1.1", "240.0.0.1", "255.255.255.255", "::", "::1", "::2",
                "fe7f::1", "fe80::1", "febf::1", "fec0::1", "ff02::1", "feff::1"):
        yield "inner destination " + dst, tunnel(plain(dst=dst), vni=300)
    yield from inner_v4()
    yield from inner_v6()
    yield from who_gets_icmp()


def inner_l2(vni):
    for name, tags in (("one", Dot1Q(vlan=7)), ("two", Dot1AD(vlan=7) / Dot1Q(vlan=8)),
                       ("three", Dot1Q() / Dot1Q() / Dot1Q()), ("S-tag", Dot1AD(vlan=9))):
        for ip in (IP(src="10.0.0.5", dst="10.0.0.4"), IP(src="10.0.0.5", dst="9.9.9.9"),
                   IPv6(src="2001:db8::5", dst="2001:db8::6")):
            yield "inner tags: %s, vni %d, %s" % (name, vni, ip.dst), tunnel(
                bytes(Ether(src=VM_MAC, dst=GW_MAC) / tags / ip / TCP()), vni=vni)
        inner = bytes(Ether(src=VM_MAC, dst=GW_MAC) / tags)
        for cut in range(12, len(inner)):
            yield "inner tags: %s, cut to %d, vni %d" % (name, cut, vni), tunnel(
                inner[:cut], vni=vni)
    for ethertype in (0x0000, 0x05DC, 0x0806, 0x8847, 0x894F, 0x9100, 0x86DD, 0xFFFF):
        yield "inner ethertype 0x%04x, vni %d" % (ethertype, vni), tunnel(
            bytes(Ether(src=VM_MAC, dst=GW_MAC, type=ethertype)) + b"\x45" * 60, vni=vni)
    yield "inner ARP, vni %d" % vni, tunnel(bytes(ether() / ARP(hwsrc=PEER_MAC, psrc="10.0.0.5")), vni=vni)
    yield "inner LLC, vni %d" % vni, tunnel(
        bytes(ether(type=38) / LLC() / Raw(b"\0" * 40)), vni=vni)


def inner_v4():
    def case(name, family=4, vni=100, pad=b"", dst="10.0.0.4", l4=None, **ip):
        return name, tunnel(plain(dst=dst, ip=ip, l4=l4) + pad, family, vni)

    whole = len(plain()) - 14
    for family in (4, 6):
        for length in (0, 1, 19, 20, 28, whole - 1, whole, whole + 1, 1400, 65535):
            yield case("inner total length %d over v%d" % (length, family), family,
                       len=length)
        for ihl in (0, 4, 6, 15):
            yield case("inner IHL %d over v%d" % (ihl, family), family, ihl=ihl)
        for value in (0, 1, 0xFFFF):
            yield case("inner header checksum 0x%04x over v%d" % (value, family), family,
                       chksum=value)
    for version in (0, 5, 6):
        yield case("inner version %d" % version, version=version)
    for dst in ("10.0.0.4", "10.4.0.4", "10.9.0.6"):
        yield case("inner padding to " + dst, dst=dst, pad=b"\0" * 11)
        for option in (b"\x94\x04\0\0", b"\x01\x01\x01\x00", b"\x83\x07\x04\x0a\0\0\x01\0",
                       b"\x44\x24\x05\0" + b"\0" * 32):
            yield case("inner options %d to %s" % (len(option), dst), dst=dst,
                       options=[IPOption(option)])
        yield case("inner options with a wrong checksum to " + dst, dst=dst, chksum=77,
                   options=[IPOption(b"\x01\x01\x01\0")])
        for flags, frag in (("MF", 0), ("MF", 185), ("", 370), ("DF+MF", 0), ("evil", 0)):
            yield case("inner fragment %s+%d to %s" % (flags, frag, dst), dst=dst,
                       flags=flags, frag=frag)
        # Headers whose right checksum is 0 or nearly so, where carries go wrong.
        frame = plain(dst=dst, ip={"id": 0})
        for delta in (0, 1, 0xFEFF, 0xFF00, 0x0100, 0xFFFE):
            ident = (u16(frame, 24) + delta) % 0xFFFF
            yield case("inner checksum near 0, %d, to %s" % (delta, dst), dst=dst, id=ident)
        for l4 in (Raw(b""), Raw(b"\0"), UDP(sport=1, dport=2, chksum=0), ICMP(),
                   TCP(chksum=0xBAD)):
            yield case("inner payload %s to %s" % (l4.summary()[:20], dst), dst=dst, l4=l4)
        for proto in (0, 2, 4, 47, 50, 132, 255):
            yield case("inner protocol %d to %s" % (proto, dst), dst=dst, proto=proto,
                       l4=Raw(b"\0" * 20))


def inner_v6():
    src, host = "2001:db8:100::5", "2001:db8:100::6"
    eth = Ether(src=VM_MAC, dst=GW_MAC)

    def case(name, packet, pad=b""):
        return name, tunnel(bytes(eth / packet) + pad)

    for family in (4, 6):
        whole = len(plain(dst=host)) - 54
        for length in (0, 1, 19, whole - 1, whole, whole + 1, 65535):
            yield ("inner payload length %d over v%d" % (length, family),
                   tunnel(plain(dst=host, ip={"plen": length}), family))
        for version in (0, 4, 7):
            yield "inner version %d in v6 over v%d" % (version, family), tunnel(
                plain(dst=host, ip={"version": version}), family)
    for dst in (host, "2001:db8:4::1", "2001:db8:9::4"):
        ip = IPv6(src=src, dst=dst)
        hop, routing = IPv6ExtHdrHopByHop(), IPv6ExtHdrRouting()
        opts = IPv6ExtHdrDestOpt()
        for name, chain in (("hop by hop", hop), ("routing", routing), ("options", opts),
                            ("three", hop / routing / opts), ("AH", AH(icv=b"\0" * 12)),
                            ("first fragment", IPv6ExtHdrFragment(m=1)),
                            ("later fragment", IPv6ExtHdrFragment(offset=8)),
                            ("later fragment behind options",
                             opts / IPv6ExtHdrFragment(offset=8))):
            yield case("inner extension: %s to %s" % (name, dst), ip / chain / TCP())
            yield case("inner extension: %s, padded" % name, ip / chain / TCP(), b"\0" * 7)
        for count in (7, 8, 9, 20):
            chain = opts
            for _ in range(count - 1):
                chain = chain / IPv6ExtHdrDestOpt()
            yield case("inner: %d extension headers to %s" % (count, dst), ip / chain / UDP())
        # Extension headers that reach past the payload, or are not there at all.
        for header in (0, 43, 44, 51, 60, 135, 139, 140):
            for body in (b"", b"\x06", b"\x06\0" + b"\0" * 5, b"\x06\0" + b"\0" * 6,
                         b"\x06\x01" + b"\0" * 6, b"\x06\xff" + b"\0" * 6,
                         b"\x06\x01" + b"\0" * 14):
                yield case("inner header %d with %d bytes %s" % (header, len(body), dst),
                           IPv6(src=src, dst=dst, nh=header, plen=len(body)) / Raw(body),
                           b"\0" * 16)
        for name, nd in (("NS", ICMPv6ND_NS(tgt=dst)), ("RA", ICMPv6ND_RA()),
                         ("NS behind options", opts / ICMPv6ND_NS(tgt=dst)),
                         ("echo", ICMPv6EchoRequest()),
                         ("NS in a later fragment",
                          IPv6ExtHdrFragment(offset=8, nh=58) / ICMPv6ND_NS())):
            yield case("inner ICMPv6 %s to %s" % (name, dst), ip / nd)
        yield case("inner ICMPv6 without a byte to " + dst, IPv6(src=src, dst=dst, nh=58))
        yield case("inner NS beyond the payload, to " + dst,
                   IPv6(src=src, dst=dst, nh=58, plen=0) / ICMPv6ND_NS(tgt=dst))


def who_gets_icmp():
    """TTL 1 towards a peer: an error, unless the offender may not get one."""
    for family in (4, 6):
        for kind in range(20):
            yield "TTL 1, ICMP type %d over v%d" % (kind, family), tunnel(
                plain(dst="10.9.0.4", ip={"ttl": 1}, l4=ICMP(type=kind, ts_ori=0, ts_rx=0, ts_tx=0) / Raw(b"\0" * 30)),
                family)
        for kind in (0, 1, 2, 3, 4, 100, 127, 128, 129, 132, 138, 160):
            yield "hop limit 1, ICMPv6 type %d over v%d" % (kind, family), tunnel(
                plain(dst="2001:db8:9::4", ip={"hlim": 1, "nh": 58},
                      l4=Raw(bytes([kind]) + b"\0" * 20)), family)
    ip6 = IPv6(src="2001:db8:100::5", dst="2001:db8:9::4", hlim=1)
    eth = Ether(src=VM_MAC, dst=GW_MAC)
    for name, rest in (("error behind options", IPv6ExtHdrDestOpt() / ICMPv6DestUnreach()),
                       ("echo behind options", IPv6ExtHdrDestOpt() / ICMPv6EchoRequest()),
                       ("first fragment", IPv6ExtHdrFragment(m=1) / UDP()),
                       ("later fragment", IPv6ExtHdrFragment(offset=2) / UDP())):
        yield "hop limit 1, %s" % name, tunnel(bytes(eth / ip6 / rest))
    for flags, frag in (("MF", 0), ("MF", 7), ("", 7)):
        yield "TTL 1, fragment %s+%d" % (flags, frag), tunnel(
            plain(dst="10.9.0.4", ip={"ttl": 1, "flags": flags, "frag": frag}))
    for src in ("0.0.0.0", "0.0.0.9", "127.0.0.1", "224.0.0.5", "255.255.255.255",
                "240.0.0.1", "169.254.1.1", "10.0.0.5"):
        yield "TTL 1 from " + src, tunnel(plain(src=src, dst="10.9.0.4", ip={"ttl": 1}))
    for src in ("::", "::1", "ff02::1", "fe80::1", "fc00::1"):
        yield "hop limit 1 from " + src, tunnel(
            plain(src=src, dst="2001:db8:9::4", ip={"hlim": 1}))
    for mac in ("ff:ff:ff:ff:ff:ff", "01:00:5e:00:00:01", "33:33:00:00:00:01"):
        yield "TTL 1 in a frame to " + mac, tunnel(bytes(
            Ether(src=VM_MAC, dst=mac) / IP(src="10.0.0.5", dst="10.9.0.4", ttl=1) / UDP()))
    for tags in (Dot1Q(vlan=7), Dot1AD(vlan=7) / Dot1Q(vlan=8)):
        yield "TTL 1 in tags", tunnel(bytes(
            eth / tags / IP(src="10.0.0.5", dst="9.9.9.9", ttl=1) / UDP()), vni=301)
    for size in (0, 1, 520, 521, 540, 541, 1200, 1212, 1213, 1300):
        yield "TTL 1, quote of %d" % size, tunnel(
            plain(b"q" * size, dst="10.9.0.4", ip={"ttl": 1}) + b"\0\0\0")
        yield "hop limit 1, quote of %d" % size, tunnel(
            plain(b"q" * size, dst="2001:db8:9::4", ip={"hlim": 1}))


def mtu_edges():
    """Inner sizes around what fits each way out, with and without DF."""
    for family in (4, 6):
        for dst in ("10.0.0.4", "10.0.0.6", "10.9.0.4", "10.9.0.6", "10.4.0.1",
                    "2001:db8:100::4", "2001:db8:100::6", "2001:db8:4::1",
                    "2001:db8:5::1"):
            head = 60 if ":" in dst else 40
            for size in (1280, 1429, 1430, 1431, 1449, 1450, 1451, 1500, 4000):
                for df in ((True, False) if head == 40 else (True,)):
                    ip = {"flags": "DF" if df else 0} if head == 40 else None
                    yield ("inner size %d%s to %s over v%d" % (size, " DF" if df else "", dst,
                           family), tunnel(plain(b"m" * (size - head), dst=dst, ip=ip), family))
    for tags, count in ((Dot1Q(vlan=7), 1), (Dot1AD(vlan=7) / Dot1Q(vlan=8), 2)):
        for size in (1450 - 4 * count, 1451 - 4 * count):
            packet = IP(src="10.0.0.5", dst="10.0.0.4", flags="DF") / Raw(b"m" * (size - 20))
            yield "inner size %d in %d tags" % (size, count), tunnel(
                bytes(Ether(src=VM_MAC, dst=GW_MAC) / tags / packet), vni=301)
    yield "padding that does not fit", tunnel(
        plain(b"m" * 1410, ip={"flags": "DF"}) + b"\0")
    for l4 in (ICMP(type=3), ICMP(type=8)):
        yield "too big, an ICMP message of type %d" % l4.type, tunnel(
            plain(l4=l4 / Raw(b"e" * 1500), ip={"flags": "DF"}))


def cuts():
    """Truncations at every byte: of the frame, and of the inside with right lengths."""
    frames = [("v4 in v4", tunnel(plain())), ("v6 in v6", tunnel(plain(dst="2001:db8:9::4"), 6)),
              ("tags outside", tunnel(plain(), tags=(Dot1AD(vlan=1), Dot1Q(vlan=2))))]
    for name, frame in frames:
        for length in range(len(frame)):
            yield "%s cut to %d" % (name, length), frame[:length]
    ext = bytes(Ether(src=VM_MAC, dst=GW_MAC) / IPv6(src="2001:db8::1", dst="2001:db8::2")
                / IPv6ExtHdrDestOpt() / IPv6ExtHdrFragment(m=1) / UDP() / Raw(b"12345"))
    tagged = bytes(Ether(src=VM_MAC, dst=GW_MAC) / Dot1Q(vlan=3)
                   / IP(src="10.0.0.5", dst="10.0.0.4") / UDP())
    for family in (4, 6):
        for name, inner in (("v4", plain(b"")), ("extensions", ext), ("tag", tagged)):
            for length in range(len(inner)):
                yield "inside %s cut to %d over v%d" % (name, length, family), tunnel(
                    inner[:length], family, vni=301)
        whole = tunnel(plain(), family)
        head = 14 + (20 if family == 4 else 40)
        for length in range(18):
            cut = bytearray(whole[:head + length])
            if family == 4:
                cut[16:18] = struct.pack("!H", 20 + length)
            else:
                cut[18:20] = struct.pack("!H", length)
            if length >= 6:
                cut[head + 4:head + 6] = struct.pack("!H", length)
            yield "UDP of %d over v%d" % (length, family), fix_header(bytes(cut))


def fix_lengths(frame):
    """The frame with an outer IP and UDP length that its size implies."""
    if len(frame) > 42 and u16(frame, 12) == 0x0800 and frame[14] == 0x45:
        at = 34
        frame = frame[:16] + struct.pack("!H", len(frame) - 14) + frame[18:]
    elif len(frame) > 62 and u16(frame, 12) == 0x86DD:
        at = 54
        frame = frame[:18] + struct.pack("!H", len(frame) - 54) + frame[20:]
    else:
        return frame
    return frame[:at + 4] + struct.pack("!H", len(frame) - at) + frame[at + 6:]


def fix_header(frame):
    """The frame with a right outer IPv4 header checksum, if that is what it holds."""
    if len(frame) < 34 or u16(frame, 12) != 0x0800:
        return frame
    length = (frame[14] & 15) * 4
    if length < 20 or len(frame) < 14 + length:
        return frame
    head = frame[14:24] + b"\0\0" + frame[26:14 + length]
    return frame[:24] + struct.pack("!H", checksum(head)) + frame[26:]


# --- captures ------------------------------------------------------------------------


def captures(data, rows):
    """Captured frames as captures.py makes them, in tunnels of scapy's."""
    place = Place(nc4=w.NC4, nc6=w.NC6, vip4=w.VIP4, vip6=w.VIP6, far4=w.FAR4, far6=w.FAR6)

    def wrap(frame, family, vni, checksum_0):
        return tunnel(frame, family, vni, udp={"chksum": 0} if checksum_0 else None)

    return captured_cases(data, rows, place, wrap)


# --- mutations ------------------------------------------------------------------------


def mutations(frames, seed, count):
    """`count` damaged copies; most of them with right outer lengths and header checksum
    again, or nothing would ever be looked at behind these."""
    rng = random.Random(seed)
    frames = [f for f in frames if 60 <= len(f) <= 400]
    for n in range(count):
        frame = bytearray(rng.choice(frames))
        for _ in range(rng.randint(1, 4)):
            at = rng.randrange(rng.choice((0, 34)), min(len(frame), 130))
            kind = rng.randrange(6)
            if kind == 0:
                frame[at] ^= 1 << rng.randrange(8)
            elif kind == 1:
                frame[at] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
            elif kind == 2 and at + 2 <= len(frame):
                frame[at:at + 2] = struct.pack("!H", rng.choice(
                    (0, 1, 0xFFFF, 0x8100, 0x86DD, 0x0800, len(frame), rng.randrange(65536))))
            elif kind == 3 and len(frame) > 15:
                del frame[rng.randrange(14, len(frame)):]
            elif kind == 4:
                frame[at:at] = bytes(rng.randrange(256) for _ in range(rng.choice((1, 4, 8))))
            else:
                del frame[at:at + rng.choice((1, 2, 4, 8))]
            if len(frame) < 60:
                frame.extend(bytes(60 - len(frame)))
        frame = bytes(frame)
        if rng.random() < 0.8:
            frame = fix_lengths(frame)
        if rng.random() < 0.8:
            frame = fix_header(frame)
        yield "mutation %d of seed %d" % (n, seed), frame


# --- output ----------------------------------------------------------------------------


def write_pcap(path, frames):
    with open(path, "wb") as f:
        f.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 262144, 1))
        for n, frame in enumerate(frames):
            f.write(struct.pack("<IIII", n // 1000000, n % 1000000, len(frame), len(frame)))
            f.write(frame)


def flow_key(forwarder, frame):
    """What every packet of one flow shares; ports only where no fragment is involved.
    All of them must leave by one uplink."""
    outer = forwarder.parse_outer(frame)
    inner = forwarder.parse_inner(outer)
    at = inner.at
    if inner.family == 4:
        fragment = u16(inner.frame, at + 6) & 0x3FFF != 0
    else:
        fragment = b"\x2c" in (inner.packet[6:7], inner.packet[40:41]) or inner.later_fragment
    ports = inner.l4[:4].hex() if inner.upper in (6, 17) and not fragment else ""
    return "%s %s %d %d %s %s %d %s" % (outer.src, outer.dst, outer.sport, outer.vni,
                                        inner.src, inner.dst, inner.upper, ports)


def expectation(index, name, result, flow):
    def frames(by_port):
        return [{"port": p, "frame": f.hex()} for p, f in sorted(by_port.items())]

    line = {"i": index, "name": name, "port": 0, "verdict": result[0][0]}
    if line["verdict"] == "forward":
        line["out"] = frames(result[0][1])
        line["flow"] = flow()
    elif line["verdict"] == "drop":
        line["reason"] = result[0][1]
        if len(result) > 1:
            line["icmp"] = frames(result[1][1])
    return line


def table_cases():
    yield from scopes()
    yield from outer_headers()
    yield from sums_to_zero()
    yield from vxlan_headers()
    yield from inner_headers()
    yield from mtu_edges()
    yield from cuts()


def write_world(out, name, device, rows, cases):
    folder = pathlib.Path(out, name)
    os.makedirs(folder, exist_ok=True)
    # An empty frame cannot be received, and pcap ports would not deliver it.
    cases = [(n, f) for n, f in cases if f]
    forwarder = Forwarder(device, Tables(rows))
    with open(folder / "expected.jsonl", "w") as f:
        for i, (case, frame) in enumerate(cases):
            line = expectation(i, case, forwarder.forward(frame, 0),
                               lambda: flow_key(forwarder, frame))
            f.write(json.dumps(line) + "\n")
    write_pcap(folder / "in.pcap", [frame for _, frame in cases])
    (folder / "device.json").write_text(json.dumps(device, indent=1) + "\n")
    (folder / "entries.ndjson").write_text("".join(json.dumps(r) + "\n" for r in rows))
    print("%s: %d packets" % (folder, len(cases)))


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--out", required=True)
    root = pathlib.Path(__file__).resolve().parents[2]
    p.add_argument("--data", default=os.environ.get("XGW_DATA",
                                                    str(root.parent / "shared/data")))
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--mutations", type=int, default=4000)
    p.add_argument("--world", help="only this one")
    args = p.parse_args()
    random.seed(0)  # scapy draws defaults from it
    tables = list(table_cases())
    for name, device in w.devices().items():
        if args.world not in (None, name):
            continue
        rows, cases = w.entries(), list(tables)
        if name == "base":
            if os.path.isdir(os.path.join(args.data, "pcap")):
                cases += list(captures(args.data, rows))
            else:
                print("no captures in %s: generated packets only" % args.data)
            cases += list(mutations([f for _, f in cases], args.seed, args.mutations))
        write_world(args.out, name, device, rows, cases)


if __name__ == "__main__":
    main()
