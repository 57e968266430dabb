"""Captured packets, as cases: readdressed to a gateway, or inside a tunnel to it.

Standard library only, and quick: the lab replays thousands of them.
"""

import collections
import ipaddress
import pathlib
import struct

from wire import UDP, VXLAN_PORT, checksum, ipv4_header, ipv6_header, mac_bytes, ones_sum
from wire import pseudo_header, u16

# Where the cases play: the NC that sends, the gateway's VIPs, the NCs that receive.
Place = collections.namedtuple("Place", "nc4 nc6 vip4 vip6 far4 far6")

VXLAN_PORTS = (VXLAN_PORT, 4790, 8472)  # RFC 7348; GPE; Linux before the RFC


def read_pcap(path):
    """The frames of a classic pcap file, each as far as it was captured."""
    data = pathlib.Path(path).read_bytes()
    order = {b"\xd4\xc3\xb2\xa1": "<", b"\x4d\x3c\xb2\xa1": "<",
             b"\xa1\xb2\xc3\xd4": ">", b"\xa1\xb2\x3c\x4d": ">"}.get(data[:4])
    if order is None:
        raise ValueError("%s: not a pcap file" % path)
    at, frames = 24, []
    while at + 16 <= len(data):
        length, = struct.unpack_from(order + "I", data, at + 8)
        if at + 16 + length > len(data):
            raise ValueError("%s: frame %d is cut short" % (path, len(frames)))
        frames.append(data[at + 16:at + 16 + length])
        at += 16 + length
    return frames


def captured(data, folder):
    """(name, frame) of every capture below DATA/pcap/FOLDER."""
    for path in sorted(pathlib.Path(data, "pcap", folder).glob("*.pcap")):
        for n, frame in enumerate(read_pcap(path)):
            yield "%s #%d" % (path.name, n), frame


def packed(text):
    return ipaddress.ip_address(text).packed


def tunnel(inner, place, macs, family=4, vni=100, checksum_0=False):
    """`inner` inside VXLAN from the place's NC to its VIP; `macs` is (to, from)."""
    ends = ((place.nc4, place.vip4), (place.nc6, place.vip6))[family == 6]
    src, dst = packed(ends[0]), packed(ends[1])
    body = struct.pack("!II", 0x08 << 24, vni << 8) + inner
    length = 8 + len(body)
    total = 0
    if not checksum_0:
        head = struct.pack("!HHHH", 50505, VXLAN_PORT, length, 0)
        total = checksum(pseudo_header(src, dst, length, UDP) + head + body) or 0xFFFF
    udp = struct.pack("!HHHH", 50505, VXLAN_PORT, length, total)
    if family == 4:
        ip = b"\x08\0" + ipv4_header(src, dst, length, UDP, 64, ident=0x1234, flags=0)
    else:
        ip = b"\x86\xdd" + ipv6_header(src, dst, length, UDP, 64, label=0x54321)
    return mac_bytes(macs[0]) + mac_bytes(macs[1]) + ip + udp + body


def find_vxlan(frame):
    """(offset of IP, of UDP) of a frame that carries VXLAN on one of its ports."""
    if len(frame) < 42:
        return None
    if u16(frame, 12) == 0x0800 and frame[23] == UDP:
        at = 14, 14 + (frame[14] & 15) * 4
    elif u16(frame, 12) == 0x86DD and frame[20] == UDP:
        at = 14, 54
    else:
        return None
    if len(frame) < at[1] + 8 or u16(frame, at[1] + 2) not in VXLAN_PORTS:
        return None
    return at


def readdress(frame, at, place):
    """A captured VXLAN frame sent by the place's NC to its VIP, checksums as right as
    they were before."""
    ip, udp = at
    v4 = udp - ip < 40
    fresh = (packed(place.nc4) + packed(place.vip4) if v4
             else packed(place.nc6) + packed(place.vip6))
    where = ip + (12 if v4 else 8)
    old = frame[where:where + len(fresh)]
    new = frame[:where] + fresh + frame[where + len(fresh):]
    port = frame[udp + 2:udp + 4]
    new = new[:udp + 2] + struct.pack("!H", VXLAN_PORT) + new[udp + 4:]

    def shift(buf, offset, was, now):
        # The sum of what changed moves into the checksum.
        value = (u16(buf, offset) + ones_sum(was) - ones_sum(now)) % 0xFFFF
        return buf[:offset] + struct.pack("!H", value) + buf[offset + 2:]

    if v4:
        new = shift(new, ip + 10, old, fresh)
    if u16(frame, udp + 6):
        new = shift(new, udp + 6, old + port, fresh + struct.pack("!H", VXLAN_PORT))
        if u16(new, udp + 6) == 0:
            new = new[:udp + 6] + b"\xff\xff" + new[udp + 8:]
    return new


def captured_cases(data, rows, place, wrap, untagged=300, tagged=301):
    """(name, frame) of every captured frame; `rows` gets the tenants that they belong to.
    Frames without VXLAN travel inside two tenants' of the caller, in what
    `wrap(frame, family, vni, checksum_0)` makes of them; `tagged` allows inner tags."""
    known, seen = {r["vni"] for r in rows if r["table"] == "vni"}, set()
    for name, frame in captured(data, "vxlan"):
        at = find_vxlan(frame)
        yield name + " as it is", frame
        yield name + " inside", wrap(frame, 4, tagged, True)
        if not at:
            continue
        new = readdress(frame, at, place)
        yield name, new
        vni = int.from_bytes(new[at[1] + 12:at[1] + 15], "big")
        inner = new[at[1] + 16:]
        if vni and vni not in known:
            known.add(vni)
            rows.append({"table": "vni", "vni": vni, "flags": []})
            for net in ("0.0.0.0/0", "::/0"):
                rows.append({"table": "vxlan_route", "vni": vni, "prefix": net,
                             "scope": "local"})
        if vni and len(inner) >= 34 and u16(inner, 12) == 0x0800 and 0 < inner[30] < 224:
            vm = ".".join(str(b) for b in inner[30:34])
            if (vni, vm) not in seen and not vm.startswith("127."):
                seen.add((vni, vm))
                rows.append({"table": "vm_nc", "vni": vni, "vm": vm,
                             "nc": place.far4 if len(seen) % 2 else place.far6})
    for name, frame in captured(data, "inner"):
        for family, vni in ((4, untagged), (6, tagged)):
            if len(frame) < 60000:
                yield "%s in vni %d" % (name, vni), wrap(frame, family, vni, False)
