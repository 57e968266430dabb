"""Logical entries on XGW-H's physical tables, the obvious way, and these tables as bytes
or P4Runtime messages.  Written from the description of the tables in FORWARDING and
agent/xgwh/phys.h; shares no code with the mapping that the agent uses.

    rows = place(device, entries, members)      a list of Row
    row.line()                                  for fwdh_replay
    row.table_entry(p4)                         a p4.v1.TableEntry
"""

import ipaddress
import zlib

EXACT, TERNARY = "exact", "ternary"
SLOTS = 16                  # of a partition
NC6 = 0x10000               # NC indexes from here on are IPv6
HALVES = (0, 1)

# name: (id, [(field id, name, bits, kind)], [actions], halved)
TABLES = {
    "vtep": (0x02000010, [(1, "v4", 1, EXACT), (2, "ip4", 32, TERNARY),
                          (3, "ip6", 128, TERNARY)], ["is_vtep"], False),
    "source": (0x0200001B, [(1, "v4", 1, EXACT), (2, "ip4", 32, TERNARY),
                            (3, "ip6", 128, TERNARY)], ["is_source"], False),
    "vni": (0x02000015, [(1, "vni", 24, EXACT)], ["set_vni"], False),
    "acl": (0x02000016, [(1, "vni", 24, EXACT), (2, "src", 128, TERNARY),
                         (3, "dst", 128, TERNARY), (4, "proto", 8, TERNARY),
                         (5, "sport", 16, TERNARY), (6, "dport", 16, TERNARY),
                         (7, "has_ports", 1, TERNARY)], ["permit", "deny"], False),
    "route_tcam": (0x02000011, [(1, "vni", 24, TERNARY), (2, "dst", 128, TERNARY)],
                   ["set_part"], True),
    "route_part": (0x02000012, [(1, "part", 14, EXACT), (2, "vni", 24, TERNARY),
                                (3, "dst", 128, TERNARY)],
                   ["local", "peer", "tunnel", "to_x86"], True),
    "vm_nc_conflict": (0x02000013, [(1, "vni", 24, EXACT), (2, "dst", 128, EXACT)],
                       ["set_nc"], True),
    "vm_nc": (0x02000014, [(1, "vni", 24, EXACT), (2, "tag", 1, EXACT),
                           (3, "key", 32, EXACT)], ["set_nc"], True),
    "vm_nc_spill": (0x0200001C, [(1, "vni", 24, EXACT), (2, "tag", 1, EXACT),
                                 (3, "key", 32, EXACT)], ["spill_nc"], True),
    "nc": (0x02000019, [(1, "idx", 17, EXACT)], ["nc4", "nc6"], False),
    "next_hop": (0x02000018, [(1, "v4", 1, EXACT), (2, "bucket", 8, EXACT)], ["out_port"],
                 False),
    "port_out": (0x0200001A, [(1, "port", 9, EXACT), (2, "fb", 1, EXACT),
                              (3, "v4", 1, EXACT)], ["src4", "src6", "keep_src"], False),
    "fallback_group": (0x02000017, [(1, "v4", 1, EXACT), (2, "bucket", 10, EXACT)],
                       ["member"], False),
}
ACTIONS = {
    "is_vtep": (0x01000022, []), "is_source": (0x01000023, []),
    "set_vni": (0x01000021, [(1, "flags", 8), (2, "half", 2), (3, "meter", 16)]),
    "permit": (0x01000024, []), "deny": (0x01000025, []),
    "set_part": (0x01000011, [(1, "part", 16), (2, "scope", 8), (3, "vni", 24),
                              (4, "idx", 24)]),
    "local": (0x01000012, []), "peer": (0x01000013, [(1, "vni", 24), (2, "half", 2)]),
    "tunnel": (0x01000014, [(1, "vni", 24), (2, "nc", 17)]),
    "to_x86": (0x01000015, [(1, "cls", 1)]),
    "set_nc": (0x01000016, [(1, "nc", 17)]), "spill_nc": (0x0100001C, [(1, "nc", 17)]),
    "nc4": (0x01000019, [(1, "addr", 32)]), "nc6": (0x0100001A, [(1, "addr", 128)]),
    "out_port": (0x01000018, [(1, "port", 9)]),
    "src4": (0x0100001B, [(1, "addr", 32), (2, "smac", 48), (3, "dmac", 48)]),
    "src6": (0x0100001E, [(1, "addr", 128), (2, "smac", 48), (3, "dmac", 48)]),
    "keep_src": (0x0100001D, [(1, "smac", 48), (2, "dmac", 48)]),
    "member": (0x01000017, [(1, "nc", 17)]),
}
NO_ACTION = 21257015
METERS = {"vni_meter": 24576, "fb_service": 4096, "fb_miss": 4096, "fb_class": 2}
COUNTERS = {"drop_reason": 256, "vni_counter": 24576, "port_rx": 512, "port_tx": 512}
SIZES = {"vtep": 64, "source": 512, "vni": 262144, "acl": 1024, "route_tcam": 9216,
         "route_part": 147456, "vm_nc_conflict": 8192, "vm_nc": 524288,
         "vm_nc_spill": 393216, "nc": 131072, "next_hop": 512, "port_out": 1024,
         "fallback_group": 2048}
TABLE_ORDER = list(TABLES)
SCOPES = {"miss": 0, "local": 1, "peer": 2, "tunnel": 3, "to_x86": 4}
VNI_FLAGS = {"internet": 1, "acl": 2, "inner_vlan": 4}


def width(bits):
    return (bits + 7) // 8


class Row:
    """`match`: name -> value, or (value, mask).  `halves`: where it lies."""

    def __init__(self, table, match, action, params=(), priority=0, halves=HALVES):
        self.table, self.action, self.priority, self.halves = table, action, priority, halves
        self.match, self.params = match, dict(params)

    def fields(self):
        """(id, bits, kind, value, mask) of each field; a ternary one left out is any."""
        for number, name, bits, kind in TABLES[self.table][1]:
            value = self.match.get(name, (0, 0))
            if not isinstance(value, tuple):
                value = (value, (1 << bits) - 1)
            yield number, bits, kind, value[0], value[1]

    def line(self):
        """HALF TABLE ACTION PRIORITY KEY MASK DATA, a line for each half."""
        key = b"".join(v.to_bytes(width(b), "big") for _, b, _, v, _ in self.fields())
        mask = b"".join(m.to_bytes(width(b), "big") for _, b, _, _, m in self.fields())
        data = b"".join(self.params[name].to_bytes(width(bits), "big")
                        for _, name, bits in ACTIONS[self.action][1])
        return "".join("row %d %s %s %d %s %s %s\n" % (
            h, self.table, self.action, self.priority, key.hex(), mask.hex(),
            data.hex() or "-") for h in self.halves)

    def table_entry(self, p4, with_action=True):
        e = p4.TableEntry(table_id=TABLES[self.table][0], priority=self.priority)
        for number, bits, kind, value, mask in self.fields():
            if kind == EXACT:
                e.match.add(field_id=number).exact.value = shortest(value)
            elif mask:
                m = e.match.add(field_id=number)
                m.ternary.value, m.ternary.mask = shortest(value), shortest(mask)
        if with_action:
            number, params = ACTIONS[self.action]
            e.action.action.action_id = number
            for param, name, _ in params:
                e.action.action.params.add(param_id=param, value=shortest(self.params[name]))
        return e


def shortest(value):
    """P4Runtime's canonical bytes; zero is one byte."""
    return value.to_bytes(max(1, (value.bit_length() + 7) // 8), "big")


def mac_int(text):
    return int(text.replace(":", ""), 16)


# --- the 152-bit string -------------------------------------------------------------------


def pooled(address):
    """IPv4 is ::ffff:0:0/96."""
    a = ipaddress.ip_address(address)
    return int(a) | (0xFFFF << 32 if a.version == 4 else 0)


def route_prefix(vni, prefix):
    """(value of 152 bits, length)."""
    n = ipaddress.ip_network(prefix)
    return vni << 128 | pooled(n.network_address), 24 + n.prefixlen + (96 if n.version == 4 else 0)


def mask_of(length, bits=152):
    return (1 << bits) - (1 << (bits - length))


def route_match(value, length):
    mask = mask_of(length)
    low = (1 << 128) - 1
    return {"vni": (value >> 128, mask >> 128), "dst": (value & low, mask & low)}


def covers(a, b):
    return a[1] <= b[1] and a[0] == b[0] & mask_of(a[1])


class Carver:
    """Partitions of at most SLOTS routes, each row with the route that covers its root."""

    def __init__(self, first_part=1):
        self.rows, self.next_part = [], first_part

    def carve(self, root, routes, halves):
        """`routes`: {(value, length): (action, params)}; those that cover `root` or lie
        under it."""
        inside = {r: a for r, a in routes.items() if covers(root, r) and r != root}
        above = [r for r in routes if covers(r, root)]
        if len(inside) > SLOTS:
            half = (root[0] | 1 << (151 - root[1]), root[1] + 1)
            for child in ((root[0], root[1] + 1), half):
                self.carve(child, routes, halves)
            return
        part = self.next_part
        self.next_part += 1
        action, params = routes[max(above, key=lambda r: r[1])] if above else ("miss", {})
        self.rows.append(Row("route_tcam", route_match(*root), "set_part", {
            "part": part, "scope": SCOPES[action], "vni": params.get("vni", 0),
            "idx": params.get("half", params.get("nc", params.get("cls", 0)))},
            priority=root[1] + 1, halves=halves))
        for route, (action, params) in inside.items():
            self.rows.append(Row("route_part", {"part": part, **route_match(*route)}, action,
                                 params, priority=route[1] + 1, halves=halves))


# --- placing ------------------------------------------------------------------------------


class Placer:
    def __init__(self, half_of):
        self.rows, self.ncs, self.half_of = [], {}, half_of
        self.taken, self.vm_count = {}, 0

    def nc(self, address):
        """The index of an underlay address; the first 16 of each family are reserved."""
        a = ipaddress.ip_address(address)
        if a not in self.ncs:
            same = sum(1 for other in self.ncs if other.version == a.version)
            index = 16 + same + (NC6 if a.version == 6 else 0)
            self.ncs[a] = index
            self.rows.append(Row("nc", {"idx": index}, "nc%d" % a.version, {"addr": int(a)}))
        return self.ncs[a]

    def halves(self, vni, address=None):
        half = self.half_of(vni)
        if half < 2:
            return (half,)
        return HALVES if address is None else (int(ipaddress.ip_address(address)) & 1,)

    def action(self, e):
        scope = e["scope"]
        if scope == "local":
            return "local", {"vni": e["vni"]}
        if scope == "peer":
            return "peer", {"vni": e["peer_vni"], "half": self.half_of(e["peer_vni"])}
        if scope in ("internet", "service", "fallback"):
            return "to_x86", {"cls": 0 if scope == "fallback" else 1}
        return "tunnel", {"vni": e["endpoint_vni"], "nc": self.nc(e["endpoint"])}

    def vm(self, e):
        """Every third one in the spill; a v6 key that is taken: the conflict table."""
        a = ipaddress.ip_address(e["vm"])
        halves = self.halves(e["vni"], a)
        tag = int(a.version == 6)
        key = zlib.crc32(a.packed) if tag else int(a)
        nc = {"nc": self.nc(e["nc"])}
        if self.taken.setdefault((e["vni"], tag, key), a) != a:
            self.rows.append(Row("vm_nc_conflict", {"vni": e["vni"], "dst": int(a)}, "set_nc",
                                 nc, halves=halves))
            return
        self.vm_count += 1
        table, action = ("vm_nc_spill", "spill_nc") if self.vm_count % 3 == 0 else (
            "vm_nc", "set_nc")
        self.rows.append(Row(table, {"vni": e["vni"], "tag": tag, "key": key}, action, nc,
                             halves=halves))


def acl_row(e):
    match = {"vni": e["vni"]}
    for name in ("src", "dst"):
        if name in e:
            n = ipaddress.ip_network(e[name])
            length = n.prefixlen + (96 if n.version == 4 else 0)
            match[name] = (pooled(n.network_address), mask_of(length, 128))
    for name in ("proto", "sport", "dport"):
        if name in e:
            match[name] = e[name]
    if "sport" in e or "dport" in e:
        match["has_ports"] = 1
    return Row("acl", match, e["action"], priority=e["priority"])


def prefix_match(text):
    n = ipaddress.ip_network(text)
    bits = 32 if n.version == 4 else 128
    return {"v4": int(n.version == 4),
            "ip%d" % n.version: (int(n.network_address), mask_of(n.prefixlen, bits))}


def device_rows(device, members, placer):
    rows = [Row("vtep", prefix_match(a), "is_vtep", priority=1)
            for a in device["vteps"] + device["vips"]]
    rows += [Row("source", prefix_match(p), "is_source", priority=1)
             for p in device["underlay_source"]]
    for version in (4, 6):
        v4 = int(version == 4)
        links = [u for u in device["uplinks"]
                 if ipaddress.ip_address(u["address"]).version == version]
        usable = [u for u in links if u["next_hop_mac"]] or links
        vip = next((a for a in device["vips"]
                    if ipaddress.ip_address(a).version == version), None)
        for bucket in range(256 if usable else 0):
            rows.append(Row("next_hop", {"v4": v4, "bucket": bucket}, "out_port",
                            {"port": usable[bucket % len(usable)]["port"]}))
        for u in links:
            macs = {"smac": mac_int(u["mac"]), "dmac": mac_int(u["next_hop_mac"] or "0")}
            rows.append(Row("port_out", {"port": u["port"], "fb": 1, "v4": v4}, "keep_src",
                            macs))
            if vip:
                rows.append(Row("port_out", {"port": u["port"], "fb": 0, "v4": v4},
                                "src%d" % version,
                                {"addr": int(ipaddress.ip_address(vip)), **macs}))
        able = [m for m in members if ipaddress.ip_address(m).version == version]
        for bucket in range(1024 if able else 0):
            rows.append(Row("fallback_group", {"v4": v4, "bucket": bucket}, "member",
                            {"nc": placer.nc(able[bucket % len(able)])}))
    return rows


def parity(vni):
    return vni % 2


def guard_v4(vni, routes):
    """A v6 route that covers ::ffff:0:0/96 is none for IPv4: where no v4 route covers all
    of it, a mark says so."""
    v4 = route_prefix(vni, "0.0.0.0/0")
    if v4 not in routes and any(covers(r, v4) for r in routes):
        routes[v4] = ("to_x86", {"cls": 0})


def place(device, entries, members, half_of=parity, first_part=1):
    """Rows in an order that opens no hole: what is pointed to comes first."""
    p = Placer(half_of)
    own = device_rows(device, members, p)
    carver, routes = Carver(first_part), {}
    for e in entries:
        if e["table"] == "vm_nc":
            p.vm(e)
        elif e["table"] == "vxlan_route":
            routes.setdefault(e["vni"], {})[route_prefix(e["vni"], e["prefix"])] = p.action(e)
    for vni, of_vni in routes.items():
        guard_v4(vni, of_vni)
        carver.carve((vni << 128, 24), of_vni, p.halves(vni))
    rows = p.rows + [r for r in carver.rows if r.table == "route_part"]
    rows += [r for r in carver.rows if r.table == "route_tcam"]
    for e in entries:
        if e["table"] == "vni":
            flags = sum(VNI_FLAGS[f] for f in e.get("flags", []))
            rows.append(Row("vni", {"vni": e["vni"]}, "set_vni",
                            {"flags": flags, "half": half_of(e["vni"]),
                             "meter": e.get("meter", 0)}))
        elif e["table"] == "acl":
            rows.append(acl_row(e))
    return rows + [r for r in own if r.table != "vtep"] + [r for r in own if r.table == "vtep"]


def port_lines(device):
    """The ports as fwdh_replay takes them: what a switch knows beside its tables."""
    ports = {}
    for u in device["uplinks"]:
        version = ipaddress.ip_address(u["address"]).version
        ports.setdefault(u["port"], {})[version] = u
    out = "udp6_zero_csum %d\n" % bool(device.get("udp6_zero_csum"))
    for port, of in sorted(ports.items()):
        some = next(iter(of.values()))
        words = [of[v][k] if v in of else "-" for v in (4, 6) for k in ("address", "next_hop")]
        out += "port %d %s %d %s\n" % (port, some["mac"], some["mtu"], " ".join(words))
    return out
