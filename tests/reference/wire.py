"""Bytes on the wire: checksums, headers, addresses.  Slow and obvious; no state."""

import ipaddress
import struct

ETH_IPV4 = 0x0800
ETH_ARP = 0x0806
ETH_IPV6 = 0x86DD
VLAN_TPIDS = (0x8100, 0x88A8)
UDP, ICMP, ICMPV6 = 17, 1, 58
VXLAN_PORT = 4789


def ones_sum(data):
    """The one's complement sum of 16-bit words (RFC 1071), odd length padded by 0."""
    if len(data) % 2:
        data = data + b"\0"
    total = sum(struct.unpack("!%dH" % (len(data) // 2), data))
    while total > 0xFFFF:
        total = (total & 0xFFFF) + (total >> 16)
    return total


def checksum(data):
    return ~ones_sum(data) & 0xFFFF


def mac_bytes(text):
    return bytes(int(part, 16) for part in text.split(":"))


def u16(data, at):
    return struct.unpack_from("!H", data, at)[0]


def pseudo_header(src, dst, length, protocol):
    """RFC 768 (v4) and RFC 8200, section 8.1 (v6); addresses are packed bytes."""
    if len(src) == 4:
        return src + dst + struct.pack("!BBH", 0, protocol, length)
    return src + dst + struct.pack("!IHBB", length, 0, 0, protocol)


def ipv4_header(src, dst, payload_len, protocol, ttl, tos=0, ident=0, flags=0x4000):
    head = struct.pack("!BBHHHBBH4s4s", 0x45, tos, 20 + payload_len, ident, flags, ttl,
                       protocol, 0, src, dst)
    return head[:10] + struct.pack("!H", checksum(head)) + head[12:]


def ipv6_header(src, dst, payload_len, next_header, hops, tclass=0, label=0):
    first = 6 << 28 | tclass << 20 | label
    return struct.pack("!IHBB16s16s", first, payload_len, next_header, hops, src, dst)


def is_routable_unicast(addr):
    """What the gateway routes: not 0/8, 127/8, 224/3; not ::, ::1, ff00::/8, fe80::/10."""
    if addr.version == 4:
        first = addr.packed[0]
        return first not in (0, 127) and first < 224
    if addr in (ipaddress.ip_address("::"), ipaddress.ip_address("::1")):
        return False
    first = u16(addr.packed, 0)
    return first >> 8 != 0xFF and first & 0xFFC0 != 0xFE80
