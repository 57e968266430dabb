#!/usr/bin/python3
"""Audits of XGW-H: a real controller, real agents over P4Runtime and real switches in
software, which are corrupted behind their agents' backs.  Everything is found, named as
the row that it is, and repaired; nothing sound is written, and nothing sound is named.

    test_audit_h.py XGW_CONTROLLER XGW_AGENT XGW_GATEWAY P4INFO_MAKER

Two nodes of one cluster, one a side.  Each corruption is an entry of CONTROL.md's list,
done by the switch's door for tests (--tamper) in its records or in the structures that
packets are looked up in.  What is expected comes from what was put at the API; where an
entry lies, from P4Runtime and tests/reference/physical.py.
"""
import ipaddress
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest
import zlib

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "reference")]
import controller_rig  # noqa: E402
import gateway_rig as gw  # noqa: E402
import p4rt_rig  # noqa: E402
import physical  # noqa: E402

CONTROLLER, AGENT, GATEWAY, P4INFO_MAKER = sys.argv[1:5]
RECORDS, STRUCTURES = 1, 2
PLACES = {RECORDS: "records", STRUCTURES: "structures"}
NODES = {"ha": "a", "hb": "b"}
TENANTS = 24
IDS = {name: t[0] for name, t in physical.TABLES.items()}
NAMES = {number: name for name, number in IDS.items()}
SETS_NC = {"vm_nc": "set_nc", "vm_nc_spill": "spill_nc", "vm_nc_conflict": "set_nc"}


def route(vni, prefix, scope="local", **more):
    return {"table": "vxlan_route", "vni": vni, "prefix": prefix, "scope": scope, **more}


def vm(vni, address, nc):
    return {"table": "vm_nc", "vni": vni, "vm": address, "nc": nc}


RULE = {"table": "acl", "vni": 108, "priority": 10, "src": "10.8.0.0/16",
        "dst": "10.8.1.0/24", "proto": "tcp", "dport": "443", "action": "deny"}


def entries():
    """Each tenant's NCs are its own; of 10.i.7.5 and ::6 nobody else is behind them."""
    out = [{"table": "tenant", "vni": 100 + i, "cluster": "x1", "h_home": "h1",
            "half": str(i % 2)} for i in range(TENANTS)]
    for i in range(TENANTS):
        vni = 100 + i
        out += [route(vni, f"10.{i}.{j}.0/24") for j in range(10)]
        out += [route(vni, f"2001:db8:{i:x}::/48")]
        out += [vm(vni, f"10.{i}.{j}.5", f"172.16.{i}.{j + 1}") for j in range(10)]
        out += [vm(vni, f"2001:db8:{i:x}::5", f"172.16.{i}.1"),
                vm(vni, f"2001:db8:{i:x}::6", f"172.16.{i}.99")]
    for i in range(4):
        out += [route(100 + i, "192.0.2.0/24", "idc", endpoint="172.31.0.1",
                      endpoint_vni=7000),
                route(100 + i, "198.51.100.0/24", "region", endpoint="172.31.0.2",
                      endpoint_vni=7001),
                route(100 + i, "203.0.113.0/24", "peer", peer_vni=110 + i)]
    return out + [RULE, {**RULE, "priority": 9, "dport": "80-81", "action": "permit"}]


def number_of(value):
    return int.from_bytes(value, "big")


class Entry:
    """An entry of a switch, by the names of physical.py."""

    def __init__(self, half, entity):
        self.half, self.entity = half, entity
        t = entity.table_entry
        self.table = NAMES[t.table_id]
        names = {f[0]: f[1] for f in physical.TABLES[self.table][1]}
        self.key, self.mask = {}, {}
        for m in t.match:
            kind = m.exact if m.HasField("exact") else m.ternary
            self.key[names[m.field_id]] = number_of(kind.value)
            if m.HasField("ternary"):
                self.mask[names[m.field_id]] = number_of(m.ternary.mask)
        self.action = next(n for n, a in physical.ACTIONS.items()
                           if a[0] == t.action.action.action_id)
        params = {p[0]: p[1] for p in physical.ACTIONS[self.action][1]}
        self.data = {params[p.param_id]: number_of(p.value)
                     for p in t.action.action.params}

    def copy(self):
        other = type(self.entity)()
        other.CopyFrom(self.entity)
        return Entry(self.half, other)

    def with_data(self, **data):
        """The same with other parameters."""
        e = self.copy()
        numbers = {p[1]: p[0] for p in physical.ACTIONS[e.action][1]}
        for p in e.entity.table_entry.action.action.params:
            for name, value in data.items():
                if p.param_id == numbers[name]:
                    p.value = physical.shortest(value)
        return e

    def with_action(self, action, **data):
        e = self.copy()
        a = e.entity.table_entry.action.action
        number, params = physical.ACTIONS[action]
        a.action_id = number
        del a.params[:]
        for param, name, _ in params:
            a.params.add(param_id=param, value=physical.shortest(data[name]))
        return e

    def with_key(self, **key):
        e = self.copy()
        numbers = {f[1]: f[0] for f in physical.TABLES[e.table][1]}
        for m in e.entity.table_entry.match:
            for name, value in key.items():
                if m.field_id == numbers[name]:
                    m.exact.value = physical.shortest(value)
        return e

    def in_table(self, table, action):
        e = self.with_action(action, **self.data)
        e.entity.table_entry.table_id = IDS[table]
        return e


class Switch:
    """The tables of one XGW-H, read by P4Runtime and spoiled by its door for tests."""

    def __init__(self, api, modules, address):
        self.api, self.p4 = api, modules[0]
        self.reader = {half: p4rt_rig.Controller(modules, address, device=half + 1)
                       for half in (0, 1)}
        self.door = gw.Client(api, address)

    def close(self):
        for r in self.reader.values():
            r.close()
        self.door.close()

    def entries(self, table):
        query = self.p4.Entity()
        query.table_entry.table_id = IDS[table]
        return [Entry(half, e) for half, r in self.reader.items() for e in r.read(query)]

    def one(self, found, what):
        assert len(found) == 1, (what, len(found))
        return found[0]

    def vm(self, row):
        """The entry that says where a VM is."""
        address = ipaddress.ip_address(row["vm"])
        is_v6 = address.version == 6
        key = zlib.crc32(address.packed) if is_v6 else int(address)
        return self.one([e for t in ("vm_nc", "vm_nc_spill") for e in self.entries(t)
                         if (e.key["vni"], e.key["tag"], e.key["key"]) ==
                         (row["vni"], int(is_v6), key)], row)

    def route(self, row):
        net = ipaddress.ip_network(row["prefix"])
        length = net.prefixlen + (96 if net.version == 4 else 0)
        mask = (1 << 128) - (1 << 128 - length)
        return self.one([e for e in self.entries("route_part")
                         if e.key.get("vni") == row["vni"] and
                         e.key.get("dst", 0) == physical.pooled(net.network_address) & mask
                         and e.mask.get("dst", 0) == mask], row)

    def nc(self, half, address):
        value = int(ipaddress.ip_address(address))
        return self.one([e for e in self.entries("nc")
                         if e.half == half and e.data["addr"] == value], address)

    def vni(self, vni):
        """In both halves."""
        return [e for e in self.entries("vni") if e.key["vni"] == vni]

    def tcam(self, part, half):
        return self.one([e for e in self.entries("route_tcam")
                         if e.half == half and e.data["part"] == part], part)

    def call(self, half, updates, place=RECORDS, keeps=False):
        request = self.p4.WriteRequest(device_id=half + 1)
        for op, e in updates:
            u = request.updates.add(type=getattr(self.p4.Update, op))
            u.entity.CopyFrom(e.entity)
        return self.door.unary("Tamper", self.api.TamperRequest(
            place=place, keeps=keeps, write=request.SerializeToString()),
            self.api.TamperReply)

    def tamper(self, place, op, *spoiled, keeps=False):
        for e in spoiled:
            self.call(e.half, [(op, e)], place, keeps)

    def updates(self):
        """Entries that writers changed so far."""
        return self.call(0, []).updates


class Region:
    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.controller = controller_rig.Controller(CONTROLLER, folder,
                                                    extra=("--audit-interval", "0s")).start()
        self.put("/v1/region", {"name": "r", "underlay_sources": ["172.16.0.0/12"]})
        self.put("/v1/clusters/x1", {"kind": "x86", "active_side": "a",
                                     "vip_v4": "172.31.255.1"})
        self.put("/v1/clusters/h1", {"kind": "xgw-h", "active_side": "a", "backing": "x1",
                                     "vip_v4": "172.31.255.3"})
        self.put("/v1/policy", {"services": {"idc": "xgw-h", "region": "xgw-h"}})
        self.api = gw.load_api(self.folder)
        self.modules = p4rt_rig.load_p4(self.folder)
        self.p4info = self.folder / "xgw_h.p4info.bin"
        subprocess.run([P4INFO_MAKER, "p4info", str(self.p4info)], check=True)
        self.gateways, self.agents, self.switches = {}, {}, {}
        for n, (node, side) in enumerate(NODES.items()):
            self.put(f"/v1/nodes/{node}", {
                "cluster": "h1", "kind": "soft-h", "side": side,
                "vtep_v4": f"172.30.0.{n + 1}",
                "uplinks": [{"port": "0", "addr_v4": f"172.29.{n}.2", "mtu": 1500,
                             "next_hop_v4": f"172.29.{n}.1", "mac": "02:00:00:00:01:01"}]})
            self.start(node)
        for node, gateway in self.gateways.items():
            gw.wait_until(lambda: self.state(node).get("state") == "online",
                          f"{node} online", 60)
            self.switches[node] = Switch(self.api, self.modules, gateway.address)

    def fill(self):
        self.post("/v1/entries", controller_rig.ndjson(entries()))
        self.settle()

    def state(self, node):
        return self.get(f"/v1/nodes/{node}").get("status", {})

    def start(self, node):
        folder = self.folder / node
        folder.mkdir()
        gateway = gw.Gateway(GATEWAY, "0=vdev:net_null0,no-rx=1", "--pipeline", "h",
                             "--memory", "128", "--tamper", folder=folder).start()
        log = open(folder / "agent.log", "a")
        self.gateways[node] = gateway
        self.agents[node] = subprocess.Popen(
            [AGENT, "--device-id", node, "--plain-text", "--controllers",
             f"127.0.0.1:{self.controller.grpc}", "--device-kind", "soft-h",
             "--p4runtime", gateway.address, "--p4info", str(self.p4info)],
            stdout=log, stderr=log)
        log.close()

    def stop(self):
        for agent in self.agents.values():
            agent.terminate()
            agent.wait(timeout=30)
        for switch in self.switches.values():
            switch.close()
        for gateway in self.gateways.values():
            gateway.stop()
        self.controller.stop()

    def check(self, answer, *codes):
        assert answer.status in codes, answer
        return answer.json

    def put(self, path, body):
        return self.check(self.controller.request("PUT", path, body), 200, 201)

    def post(self, path, body):
        return self.check(self.controller.request("POST", path, body), 200, 202)

    def get(self, path):
        return self.check(self.controller.request("GET", path), 200)

    def settle(self):
        for node in NODES:
            gw.wait_until(lambda: self.state(node).get("in_sync"), f"{node} in sync", 60)

    def audit(self, **scope):
        """The finished audits by node."""
        begun = self.post("/v1/audits", scope)["items"]
        for a in begun:
            gw.wait_until(lambda: self.get(f"/v1/audits/{a['id']}")["state"] == "done",
                          f"audit {a['id']}", 60)
        return {a["node"]: self.get(f"/v1/audits/{a['id']}") for a in begun}


def text(entry):
    """Without what an entry has beside its fields."""
    return json.dumps({k: v for k, v in entry.items() if k != "op"} if entry else None,
                      sort_keys=True)


class Audits(unittest.TestCase):
    """A line of the table is an injected kind, and what became of it."""

    lines = []  # (kind, place, injected, found, repaired, false alarms, writes)
    clean_audits = 0

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="xgw")
        cls.addClassCleanup(cls.folder.cleanup)
        cls.region = Region(cls.folder.name)
        cls.addClassCleanup(cls.region.stop)
        cls.region.fill()

    @classmethod
    def tearDownClass(cls):
        print(f"\n{'kind':44} {'place':10} {'rows':>5} {'found':>6} {'repaired':>9} "
              f"{'false':>6} {'writes':>7}")
        for kind, place, *counts in cls.lines:
            print("%-44s %-10s %5d %6d %9d %6d %7d" % (kind, place, *counts))
        print(f"audits of untouched switches that were clean: {cls.clean_audits}", flush=True)

    def switch(self, node="ha"):
        return self.region.switches[node]

    def assert_clean(self, found):
        for node, a in found.items():
            self.assertEqual((a["result"], a["missing"], a["extra"], a["different"]),
                             ("clean", 0, 0, 0), (node, a))
            type(self).clean_audits += 1

    def check(self, kind, place, differences, node="ha", scope=None, writes=None):
        """The audit names just these [(kind, expected, found)], repairs them, and leaves
        the other node alone; `writes`: entries that it may change at most."""
        other = next(n for n in NODES if n != node)
        before = {n: self.switch(n).updates() for n in NODES}
        found = self.region.audit(**(scope or {}))
        a = found[node]
        wrote = self.switch(node).updates() - before[node]
        want = sorted([k, text(e), text(f)] for k, e, f in differences)
        named = sorted([d["kind"], text(d["expected"]), text(d["found"])]
                       for d in a.get("differences", []))
        hits = sum(n in want for n in named)
        self.lines.append((kind, PLACES[place], len(want), hits,
                           hits if a["result"] == "repaired" else 0, len(named) - hits,
                           wrote))
        self.assertEqual(named, want, a)
        self.assertEqual(a["result"], "repaired", a)
        self.assertEqual(self.switch(other).updates(), before[other], "nothing sound is written")
        self.assertLessEqual(wrote, len(want) if writes is None else writes)
        if other in found:
            self.assert_clean({other: found[other]})
        before[node] += wrote
        self.assert_clean(self.region.audit())
        self.assertEqual({n: self.switch(n).updates() for n in NODES}, before)
        self.assertEqual(self.region.get(f"/v1/nodes/{node}")["status"]["exception_count"], 0)

    GOOD_VM = vm(105, "10.5.3.5", "172.16.5.4")
    GOOD_VM6 = vm(105, "2001:db8:5::5", "172.16.5.1")
    GOOD_ROUTE = route(105, "10.5.3.0/24")
    STRAY_VM = vm(105, "10.5.3.77", "172.16.5.4")

    def stray(self, node="ha"):
        """The entry of STRAY_VM."""
        return self.switch(node).vm(self.GOOD_VM).with_key(
            key=int(ipaddress.ip_address(self.STRAY_VM["vm"])))

    def test_equal_tables_are_clean_and_write_nothing(self):
        before = {n: self.switch(n).updates() for n in NODES}
        found = self.region.audit()
        self.assertEqual(set(found), set(NODES))
        self.assert_clean(found)
        self.assertEqual({n: self.switch(n).updates() for n in NODES}, before)

    # --- lost writes --------------------------------------------------------------------

    def test_a_lost_write(self):
        for place in PLACES:
            for row in (self.GOOD_VM, self.GOOD_VM6):
                with self.subTest(place=place, row=row):
                    self.switch().tamper(place, "DELETE", self.switch().vm(row))
                    self.check("lost write: VM " + row["vm"], place,
                               [("missing", row, None)])

    def test_a_lost_route(self):
        self.switch("hb").tamper(STRUCTURES, "DELETE",
                                 self.switch("hb").route(self.GOOD_ROUTE))
        self.check("lost write: route", STRUCTURES, [("missing", self.GOOD_ROUTE, None)],
                   node="hb")

    def test_a_lost_vni(self):
        row = {"table": "vni", "vni": 107}
        for place in PLACES:
            for half in (0, 1):
                with self.subTest(place=place, half=half):
                    e = next(e for e in self.switch().vni(107) if e.half == half)
                    self.switch().tamper(place, "DELETE", e)
                    self.check(f"lost write: VNI, in half {half}", place,
                               [("missing", self.vni_row(107), None)])
        self.assertEqual(row["vni"], 107)

    def vni_row(self, vni):
        return {"table": "vni", "vni": vni, "half": str((vni - 100) % 2)}

    def test_a_lost_address_of_an_nc(self):
        """All that points to it is missing."""
        half = self.switch().vm(self.GOOD_VM6).half
        lost = [vm(105, "10.5.0.5", "172.16.5.1"), self.GOOD_VM6]
        for place in PLACES:
            with self.subTest(place=place):
                self.switch().tamper(place, "DELETE", self.switch().nc(half, "172.16.5.1"))
                self.check("lost write: an NC's address, 2 VMs", place,
                           [("missing", e, None) for e in lost])

    def test_a_lost_root_of_routes(self):
        """A row of route_tcam: all routes of its partition are gone with it."""
        part = self.switch().route(self.GOOD_ROUTE)
        self.spoil_root("lost write: root of a partition", "DELETE",
                        lambda e: e, part)

    def spoil_root(self, kind, op, change, part):
        root = self.switch().tcam(part.key["part"], part.half)
        before = self.switch().updates()
        self.switch().tamper(STRUCTURES, op, change(root))
        a = self.region.audit(node="ha")["ha"]
        wrote = self.switch().updates() - before
        self.assertEqual(a["result"], "repaired", a)
        self.assertGreater(a["missing"] + a["different"], 0, a)
        stated = {text(e) for e in entries()}
        for d in a["differences"]:
            self.assertIn(text(d["expected"]), stated, a)
            self.assertEqual(d["expected"]["table"], "vxlan_route")
        n = a["missing"] + a["different"] + a["extra"]
        self.lines.append((kind, "structures", n, n, n, 0, wrote))
        self.assertLess(wrote, 120)
        self.assert_clean(self.region.audit())

    # --- wrong values -------------------------------------------------------------------

    def test_a_wrong_value_where_packets_look(self):
        other = self.switch().vm(vm(105, "10.5.5.5", "172.16.5.6"))
        for row in (self.GOOD_VM, self.GOOD_VM6):
            with self.subTest(row=row):
                self.switch().tamper(STRUCTURES, "MODIFY",
                                     self.switch().vm(row).with_data(nc=other.data["nc"]))
                self.check("wrong value: VM " + row["vm"], STRUCTURES,
                           [("different", row, {**row, "nc": "172.16.5.6"})])

    def test_a_wrong_value_in_the_records_alone(self):
        """Packets still get what they should; it shows as not soundly there."""
        other = self.switch().vm(vm(105, "10.5.5.5", "172.16.5.6"))
        for row in (self.GOOD_VM, self.GOOD_VM6):
            with self.subTest(row=row):
                self.switch().tamper(RECORDS, "MODIFY",
                                     self.switch().vm(row).with_data(nc=other.data["nc"]))
                self.check("wrong value: VM " + row["vm"], RECORDS,
                           [("missing", row, None)])

    def test_a_wrong_route(self):
        wrong = self.switch().route(self.GOOD_ROUTE).with_action("to_x86", cls=1)
        self.switch().tamper(STRUCTURES, "MODIFY", wrong)
        self.check("wrong value: route, local to x86", STRUCTURES,
                   [("different", self.GOOD_ROUTE, {**self.GOOD_ROUTE, "scope": "internet"})])

    def test_a_wrong_tunnel(self):
        good = route(102, "192.0.2.0/24", "idc", endpoint="172.31.0.1", endpoint_vni=7000)
        e = self.switch().route(good)
        wrong = self.switch().nc(e.half, "172.31.0.2").key["idx"]
        self.switch().tamper(STRUCTURES, "MODIFY", e.with_data(nc=wrong))
        self.check("wrong value: route, end of its tunnel", STRUCTURES,
                   [("different", good, {**good, "endpoint": "172.31.0.2"})])
        self.switch().tamper(STRUCTURES, "MODIFY", e.with_data(vni=7009))
        self.check("wrong value: route, VNI of its tunnel", STRUCTURES,
                   [("different", good, {**good, "endpoint_vni": 7009})])

    def test_a_bit_of_an_nc(self):
        """One address of many, in the half that asks for it.  Where the other half still
        has what was written, that is what is believed."""
        for i in (4, 5):
            row = vm(100 + i, f"2001:db8:{i:x}::6", f"172.16.{i}.99")
            for place in PLACES:
                with self.subTest(i=i, place=place):
                    e = self.switch().nc(i % 2, row["nc"])
                    self.switch().tamper(place, "MODIFY",
                                         e.with_data(addr=e.data["addr"] ^ 2))
                    self.check(f"silent corruption: a bit of an NC, half {i % 2}", place,
                               [("missing", row, None)])

    def test_a_bit_of_an_nc_in_both_halves(self):
        row = vm(105, "2001:db8:5::6", "172.16.5.99")
        for half in (0, 1):
            e = self.switch().nc(half, "172.16.5.99")
            self.switch().tamper(STRUCTURES, "MODIFY",
                                 e.with_data(addr=e.data["addr"] ^ 2))
        self.check("silent corruption: an NC, both halves", STRUCTURES,
                   [("different", row, {**row, "nc": "172.16.5.97"})], writes=8)

    def test_a_bit_of_a_key(self):
        e = self.switch().vm(self.GOOD_VM)
        self.switch().tamper(STRUCTURES, "DELETE", e)
        self.switch().tamper(STRUCTURES, "INSERT", e.with_key(key=e.key["key"] ^ 0x40))
        self.check("silent corruption: a bit of a VM's key", STRUCTURES,
                   [("missing", self.GOOD_VM, None),
                    ("extra", None, {**self.GOOD_VM, "vm": "10.5.3.69"})])

    def test_a_bit_of_a_key_of_ipv6(self):
        """A key is a CRC32: it is named by an address that packets could ask for there."""
        e = self.switch().vm(self.GOOD_VM6)
        key = e.key["key"] ^ 0x40
        self.switch().tamper(STRUCTURES, "DELETE", e)
        self.switch().tamper(STRUCTURES, "INSERT", e.with_key(key=key))
        suffix = self.suffix_of(key)
        self.check("silent corruption: a bit of a VM's key, IPv6", STRUCTURES,
                   [("missing", self.GOOD_VM6, None),
                    ("extra", None, {**self.GOOD_VM6, "vm": str(suffix)})])

    @staticmethod
    def suffix_of(key):
        """The address of 2001:db8::/96 with that CRC32: CRCs are affine, so bits of the
        address are solved for, by elimination."""
        base = bytes.fromhex("20010db8") + bytes(12)
        rows = []
        for bit in range(32):
            flipped = (int.from_bytes(base, "big") | 1 << bit).to_bytes(16, "big")
            effect, mask = zlib.crc32(flipped) ^ zlib.crc32(base), 1 << bit
            for e, m in rows:
                if effect ^ e < effect:
                    effect, mask = effect ^ e, mask ^ m
            rows.append((effect, mask))
            rows.sort(reverse=True)
        left, solution = zlib.crc32(base) ^ key, 0
        for e, m in rows:
            if left ^ e < left:
                left, solution = left ^ e, solution ^ m
        address = ipaddress.ip_address(int.from_bytes(base, "big") | solution)
        assert left == 0 and zlib.crc32(address.packed) == key
        return address

    def test_a_bit_of_a_vni(self):
        """In both halves: a packet comes in by either."""
        for place in PLACES:
            for half in (0, 1):
                with self.subTest(place=place, half=half):
                    e = next(e for e in self.switch().vni(107) if e.half == half)
                    self.switch().tamper(place, "MODIFY",
                                         e.with_data(flags=e.data["flags"] ^ 0x40))
                    self.check(f"silent corruption: a bit of a VNI, half {half}", place,
                               [("missing", self.vni_row(107), None)])

    def test_a_root_that_points_elsewhere(self):
        part = self.switch().route(self.GOOD_ROUTE)
        self.spoil_root("wrong value: root of a partition", "MODIFY",
                        lambda e: e.with_data(part=e.data["part"] ^ 0x200), part)

    def test_a_root_that_answers_wrongly(self):
        part = self.switch().route(self.GOOD_ROUTE)
        self.spoil_root("wrong value: what a root answers", "MODIFY",
                        lambda e: e.with_data(scope=1, vni=105), part)

    def test_a_rule(self):
        """Rules are looked up in a snapshot of the records; both halves have them."""
        for half in (0, 1):
            for place in PLACES:
                for kind, op in (("lost write", "DELETE"), ("wrong value", "MODIFY")):
                    with self.subTest(half=half, place=place, kind=kind):
                        self.switch().tamper(place, op,
                                             self.rule(half).with_action("permit"))
                        self.check(f"{kind}: a rule in half {half}", place,
                                   [("missing", RULE, None)])
        self.switch().tamper(STRUCTURES, "MODIFY",
                             *(self.rule(half).with_action("permit") for half in (0, 1)))
        self.check("wrong value: a rule in both halves", STRUCTURES,
                   [("missing", RULE, None)], writes=2)
        self.assertEqual([self.rule(half).action for half in (0, 1)], ["deny"] * 2)

    def rule(self, half):
        return self.switch().one([e for e in self.switch().entries("acl")
                                  if e.half == half and e.action == "deny"], "the rule")

    # --- duplicates, entries that should be gone ------------------------------------------

    def test_a_duplicate_under_another_key(self):
        for places in ((STRUCTURES,), (STRUCTURES, RECORDS)):
            with self.subTest(places=places):
                for place in places:
                    self.switch("hb").tamper(place, "INSERT", self.stray("hb"))
                self.check("duplicate: under another key", places[-1],
                           [("extra", None, self.STRAY_VM)], node="hb")

    def test_a_duplicate_in_the_table_beside(self):
        e = self.switch().vm(self.GOOD_VM)
        self.switch().tamper(STRUCTURES, "INSERT", e.in_table("vm_nc_spill", "spill_nc"))
        self.check("duplicate: in vm_nc and vm_nc_spill", STRUCTURES,
                   [("missing", self.GOOD_VM, None)])

    def test_an_entry_that_should_be_gone(self):
        gone = vm(106, "10.6.9.9", "172.16.6.9")
        for place in PLACES:
            with self.subTest(place=place):
                self.region.post("/v1/entries", controller_rig.ndjson([gone]))
                self.region.settle()
                self.switch().tamper(place, "DELETE", self.switch().vm(gone), keeps=True)
                self.region.post("/v1/entries",
                                 controller_rig.ndjson([{**gone, "op": "delete"}]))
                self.region.settle()
                if place == STRUCTURES:
                    self.check("should be gone: a VM", place, [("extra", None, gone)])
                else:  # no packet gets it: there is nothing to be found
                    self.assert_clean(self.region.audit())

    def test_a_route_that_should_be_gone(self):
        gone = route(106, "10.6.77.0/24")
        self.region.post("/v1/entries", controller_rig.ndjson([gone]))
        self.region.settle()
        self.switch().tamper(STRUCTURES, "DELETE", self.switch().route(gone), keeps=True)
        self.region.post("/v1/entries", controller_rig.ndjson([{**gone, "op": "delete"}]))
        self.region.settle()
        self.check("should be gone: a route", STRUCTURES, [("extra", None, gone)])

    def test_a_tenant_of_nobody(self):
        e = self.switch().vm(self.GOOD_VM)  # of a VNI in half 1
        self.switch().tamper(STRUCTURES, "INSERT", e.with_key(vni=9001),
                             *(v.with_key(vni=9001).with_data(meter=0)
                               for v in self.switch().vni(105)))
        self.check("should be gone: a tenant of nobody", STRUCTURES,
                   [("extra", None, {**self.GOOD_VM, "vni": 9001}),
                    ("extra", None, {"table": "vni", "vni": 9001, "half": "1"})],
                   writes=3)

    # --- batches, scopes, sides -----------------------------------------------------------

    def test_a_half_applied_batch(self):
        lost = [vm(110, f"10.10.{j}.5", f"172.16.10.{j + 1}") for j in range(0, 10, 2)]
        routes = [route(110, f"10.10.{j}.0/24") for j in range(0, 10, 2)]
        for place in PLACES:
            with self.subTest(place=place):
                half = lost + (routes if place == STRUCTURES else [])
                self.switch("hb").tamper(place, "DELETE", *[
                    self.switch("hb").vm(e) if e["table"] == "vm_nc"
                    else self.switch("hb").route(e) for e in half])
                self.check("half-applied batch", place,
                           [("missing", e, None) for e in half], node="hb")

    def test_one_vni_alone(self):
        self.switch().tamper(STRUCTURES, "DELETE", self.switch().vm(self.GOOD_VM))
        self.assert_clean(self.region.audit(vni=104))
        self.check("lost write, audit of one VNI", STRUCTURES,
                   [("missing", self.GOOD_VM, None)], scope={"vni": 105})

    def test_report_repairs_nothing_and_raises_an_alarm(self):
        e = self.switch().vm(self.GOOD_VM)
        self.switch().tamper(STRUCTURES, "DELETE", e)
        self.switch().tamper(STRUCTURES, "INSERT", self.stray_of_an_address())
        before = self.switch().updates()
        a = self.region.audit(node="ha", repair=False)["ha"]
        self.assertEqual((a["result"], a["missing"], a["extra"]), ("differs", 1, 0), a)
        self.assertEqual(self.switch().updates(), before)
        alarms = self.region.get("/v1/alarms")["items"]
        self.assertIn(("audit_differs", "node/ha", "critical"),
                      [(x["kind"], x["subject"], x["severity"]) for x in alarms])
        self.check("lost write, after a report", STRUCTURES,
                   [("missing", self.GOOD_VM, None)], writes=6)

    def stray_of_an_address(self):
        """An NC that nothing points to: no row says it, a repair takes it."""
        e = self.switch().nc(0, "172.16.4.1")
        return e.with_key(idx=0x7fff).with_data(addr=e.data["addr"] ^ 0x80)

    def test_sides_are_held_against_each_other(self):
        """What the controller says plays no part: they were read at one revision."""
        self.switch("hb").tamper(STRUCTURES, "INSERT", self.stray("hb"))
        self.region.audit(repair=False)
        alarms = self.region.get("/v1/alarms")["items"]
        self.assertIn(("nodes_differ", "cluster/h1"),
                      [(x["kind"], x["subject"]) for x in alarms])
        self.check("two nodes, two sides that differ", STRUCTURES,
                   [("extra", None, self.STRAY_VM)], node="hb")

    def test_changes_meanwhile_are_no_differences(self):
        for i in range(12):
            begun = self.region.post("/v1/audits", {})["items"]
            for j in range(6):
                e = vm(107, f"10.7.200.{j}", f"172.16.{i}.{j + 1}")
                if i % 3 == 2:
                    e["op"] = "delete"
                self.region.post("/v1/entries", controller_rig.ndjson(
                    [e, {**route(107, f"10.7.{200 + j}.0/24"),
                         **({"op": "delete"} if i % 3 == 2 else {})}]))
            for a in begun:
                path = f"/v1/audits/{a['id']}"
                gw.wait_until(lambda: self.region.get(path)["state"] == "done", path, 60)
                self.assert_clean({a["node"]: self.region.get(path)})


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[5:], verbosity=2)
