"""Entries packed, batched and digested as proto/model/entry.h and batch.h say, written
anew from their words: the digests that a controller shows are held against these."""
import ipaddress
import struct

import xxhash

TENANT, VNI, VXLAN_ROUTE, VM_NC, ACL, METER = range(6)
TABLES = {"tenant": TENANT, "vxlan_route": VXLAN_ROUTE, "vm_nc": VM_NC, "acl": ACL,
          "meter": METER}
SCOPES = {"local": 1, "peer": 2, "internet": 3, "idc": 4, "region": 5, "service": 6}
FLAGS = {"internet": 1, "acl": 2, "inner_vlan": 4}
PROTOCOLS = {"icmp": 1, "tcp": 6, "udp": 17, "icmpv6": 58}
PUT, DELETE = 1, 2


def text(value):
    data = value.encode()
    return bytes([len(data)]) + data


def address(value):
    ip = ipaddress.ip_address(value)
    return bytes([ip.version]) + ip.packed


def ports(value):
    first, _, last = (value or "0-65535").partition("-")
    return struct.pack(">HH", int(first), int(last or first))


def rule_key(e):
    src = ipaddress.ip_network(e["src"])
    dst = ipaddress.ip_network(e["dst"])
    proto = e.get("proto")
    number = 0 if proto is None else PROTOCOLS.get(proto) or int(proto)
    return (struct.pack(">HB", e["priority"], src.version) +
            src.network_address.packed + bytes([src.prefixlen]) +
            dst.network_address.packed + bytes([dst.prefixlen]) +
            bytes([proto is not None, number]) +
            ports(e.get("sport")) + ports(e.get("dport")))


def key(e):
    if e["table"] in ("tenant", "meter"):
        return b""
    if e["table"] == "vm_nc":
        return address(e["vm"])
    if e["table"] == "acl":
        return rule_key(e)
    prefix = ipaddress.ip_network(e["prefix"])
    return address(prefix.network_address) + bytes([prefix.prefixlen])


def value(e):
    if e["table"] == "tenant":
        flags = sum(FLAGS[f] for f in e.get("flags", []))
        half = 1 + ("0", "1", "by_dst").index(e["half"]) if "half" in e else 0
        reserve = struct.pack(">IIQQ", *(e.get("reserved_" + what, 0)
                                         for what in ("routes", "vms", "bps", "pps")))
        return (bytes([flags]) + text(e["cluster"]) + text(e.get("name", "")) +
                text(e.get("h_home", "")) + bytes([half, any(reserve)]) +
                (reserve if any(reserve) else b""))
    if e["table"] == "acl":
        return bytes([1 if e["action"] == "permit" else 2])
    if e["table"] == "meter":
        return struct.pack(">QQII", e["committed_bps"], e["peak_bps"],
                           e["committed_burst"], e["peak_burst"])
    if e["table"] == "vm_nc":
        mac = bytes.fromhex(e["mac"].replace(":", "")) if "mac" in e else b""
        return address(e["nc"]) + bytes([bool(mac)]) + mac
    scope = bytes([SCOPES[e["scope"]]])
    if e["scope"] == "peer":
        return scope + e["peer_vni"].to_bytes(3, "big")
    if e["scope"] in ("idc", "region"):
        return scope + address(e["endpoint"]) + e["endpoint_vni"].to_bytes(3, "big")
    if e["scope"] == "service":
        return scope + text(e["service"])
    return scope


def digest(entries):
    """Of a set: the sum modulo 2^64, as /v1/status prints it."""
    total = 0
    for e in entries:
        row = bytes([TABLES[e["table"]]]) + e["vni"].to_bytes(3, "big") + key(e) + value(e)
        total += xxhash.xxh3_64_intdigest(row)
    return f"{total % 2**64:016x}"


def batch(entries):
    """One run for each entry: legal, if not short."""
    out = b""
    for e in entries:
        op = DELETE if e.get("op") == "delete" else PUT
        row = key(e) + (value(e) if op == PUT else b"")
        out += struct.pack(">BB", op, TABLES[e["table"]]) + e["vni"].to_bytes(3, "big")
        out += struct.pack(">II", 1, len(row)) + row
    return out
