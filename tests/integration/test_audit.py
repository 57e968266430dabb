#!/usr/bin/python3
"""Audits through a real controller, real agents and real gateways, which are corrupted
behind their agents' backs: everything is found, named and repaired, and nothing else is
written.

    test_audit.py XGW_CONTROLLER XGW_AGENT XGW_GATEWAY XGWCTL

Two nodes of one cluster, one a side.  Each corruption is an entry of CONTROL.md's list,
done by the gateway's door for tests (--tamper) in the records or in the structures that
packets are looked up in; what is expected comes from what was put at the API.
"""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import controller_rig  # noqa: E402
import gateway_rig as gw  # noqa: E402

CONTROLLER, AGENT, GATEWAY, XGWCTL = sys.argv[1:5]
RECORDS, STRUCTURES, MARKS = 1, 2, 3
NODES = {"gw-a": "a", "gw-b": "b"}
TENANTS = 40


def route(vni, prefix, **more):
    return {"table": "vxlan_route", "vni": vni, "prefix": prefix, "scope": "local", **more}


def vm(vni, address, nc):
    return {"table": "vm_nc", "vni": vni, "vm": address, "nc": nc}


def entries():
    out = [{"table": "tenant", "vni": 100 + i, "cluster": "x86-1"} for i in range(TENANTS)]
    for i in range(TENANTS):
        vni = 100 + i
        out += [route(vni, f"10.{i}.{j}.0/24") for j in range(20)]
        out += [route(vni, f"2001:db8:{i:x}::/48")]
        out += [vm(vni, f"10.{i}.{j}.5", f"172.16.{i}.{j + 1}") for j in range(20)]
        out += [vm(vni, f"2001:db8:{i:x}::5", f"172.16.{i}.99")]
    out += [route(100, "192.0.2.0/24", scope="idc", endpoint="172.31.0.1",
                  endpoint_vni=7000)]
    return out


class Region:
    """A controller, and for each node a gateway and its agent."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.controller = controller_rig.Controller(CONTROLLER, folder,
                                                    extra=("--audit-interval", "0s")).start()
        self.put("/v1/region", {"name": "r", "underlay_sources": ["10.0.0.0/8"]})
        self.put("/v1/clusters/x86-1", {"vip_v4": "10.255.0.1"})
        self.api = gw.load_api(self.folder)
        self.gateways, self.agents, self.doors = {}, {}, {}
        for n, (node, side) in enumerate(NODES.items()):
            self.put(f"/v1/nodes/{node}", {
                "cluster": "x86-1", "side": side, "vtep_v4": f"10.255.1.{n + 1}",
                "uplinks": [{"port": "up0", "addr_v4": f"10.0.0.{n + 2}",
                             "next_hop_v4": "10.0.0.1"}]})
            self.start(node)
        self.post("/v1/entries", controller_rig.ndjson(entries()))
        self.settle()

    def start(self, node):
        folder = self.folder / node
        folder.mkdir()
        gateway = gw.Gateway(GATEWAY, "up0=vdev:net_null0,no-rx=1", "--tamper",
                             folder=folder).start()
        log = open(folder / "agent.log", "a")
        self.gateways[node] = gateway
        self.agents[node] = subprocess.Popen(
            [AGENT, "--device-id", node, "--plain-text", "--controllers",
             f"127.0.0.1:{self.controller.grpc}", "--gateway", gateway.address],
            stdout=log, stderr=log)
        log.close()
        self.doors[node] = gw.Client(self.api, gateway.address)

    def stop(self):
        for agent in self.agents.values():
            agent.terminate()
            agent.wait(timeout=30)
        for door in self.doors.values():
            door.close()
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
            gw.wait_until(lambda: self.get(f"/v1/nodes/{node}")["status"]["in_sync"],
                          f"{node} in sync")

    def tamper(self, node, place, op, rows, keeps=False):
        self.doors[node].unary("Tamper", self.api.TamperRequest(
            place=place, keeps=keeps, ops=gw.batch(op, rows)), self.api.TamperReply)

    def writes(self, node):
        return self.doors[node].status().writes

    def audit(self, **scope):
        """The finished audits by node."""
        begun = self.post("/v1/audits", scope)["items"]
        for a in begun:
            gw.wait_until(lambda: self.get(f"/v1/audits/{a['id']}")["state"] == "done",
                          f"audit {a['id']}")
        return {a["node"]: self.get(f"/v1/audits/{a['id']}") for a in begun}


def plain(entry):
    """Without what an entry has beside its fields."""
    return {k: v for k, v in entry.items() if k != "op"} if entry else entry


class Audits(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="xgw")
        cls.region = Region(cls.folder.name)

    @classmethod
    def tearDownClass(cls):
        cls.region.stop()
        cls.folder.cleanup()

    def assert_clean(self, found):
        for node, a in found.items():
            self.assertEqual((a["result"], a["missing"], a["extra"], a["different"]),
                             ("clean", 0, 0, 0), (node, a))

    def check(self, node, differences, scope=None):
        """The audit names just these [(kind, expected, found)], repairs them with as few
        rows, and leaves the other node alone."""
        other = next(n for n in NODES if n != node)
        before = {n: self.region.writes(n) for n in NODES}
        found = self.region.audit(**(scope or {}))
        a = found[node]
        self.assertEqual((a["result"], a["side"]), ("repaired", NODES[node]), a)
        named = sorted([d["kind"], json.dumps(plain(d["expected"]), sort_keys=True),
                        json.dumps(plain(d["found"]), sort_keys=True)]
                       for d in a["differences"])
        self.assertEqual(named, sorted([kind, json.dumps(e, sort_keys=True),
                                        json.dumps(f, sort_keys=True)]
                                       for kind, e, f in differences))
        self.assertEqual(self.region.writes(other), before[other], "nothing sound is written")
        self.assertLessEqual(self.region.writes(node) - before[node], 2)
        if other in found:
            self.assert_clean({other: found[other]})
        self.assert_clean(self.region.audit())
        self.assertEqual(self.region.get(f"/v1/nodes/{node}")["status"]["exception_count"], 0)

    # Kinds of CONTROL.md: where, what is done, and what is then to be named.
    GOOD_VM = vm(105, "10.5.3.5", "172.16.5.4")
    GOOD_ROUTE = route(105, "10.5.3.0/24")
    STRAY_VM = vm(105, "10.5.3.77", "172.16.5.4")

    def test_equal_tables_are_clean_and_write_nothing(self):
        before = {n: self.region.writes(n) for n in NODES}
        found = self.region.audit()
        self.assertEqual(set(found), set(NODES))
        self.assert_clean(found)
        self.assertEqual({n: self.region.writes(n) for n in NODES}, before)
        for node in NODES:
            status = self.region.get(f"/v1/nodes/{node}")["status"]
            self.assertIsNotNone(status["observed"])
            self.assertIsNotNone(status["observed_at"])

    def test_a_lost_write(self):
        for place in (RECORDS, STRUCTURES):
            with self.subTest(place=place):
                self.region.tamper("gw-a", place, gw.DELETE, [self.GOOD_VM])
                self.check("gw-a", [("missing", self.GOOD_VM, None)])

    def test_a_lost_route(self):
        for place in (RECORDS, STRUCTURES):
            with self.subTest(place=place):
                self.region.tamper("gw-b", place, gw.DELETE, [self.GOOD_ROUTE])
                self.check("gw-b", [("missing", self.GOOD_ROUTE, None)])

    def test_a_wrong_value_where_packets_look(self):
        wrong = vm(105, "10.5.3.5", "172.16.5.6")
        self.region.tamper("gw-a", STRUCTURES, gw.PUT, [wrong])
        self.check("gw-a", [("different", self.GOOD_VM, wrong)])

    def test_a_wrong_route_where_packets_look(self):
        wrong = {**self.GOOD_ROUTE, "scope": "internet"}
        self.region.tamper("gw-a", STRUCTURES, gw.PUT, [wrong])
        self.check("gw-a", [("different", self.GOOD_ROUTE, wrong)])

    def test_a_wrong_value_in_the_records_alone(self):
        """Packets still get what they should; it shows as not soundly there."""
        self.region.tamper("gw-a", RECORDS, gw.PUT, [vm(105, "10.5.3.5", "172.16.5.6")])
        self.check("gw-a", [("missing", self.GOOD_VM, None)])

    def test_a_wrong_mark(self):
        """A mark says that a VM's route is local, so that no other is looked at."""
        other = vm(105, "10.5.4.5", "172.16.5.5")
        self.region.tamper("gw-a", MARKS, gw.PUT, [self.GOOD_VM, other])
        self.check("gw-a", [("missing", e, None) for e in (self.GOOD_VM, other)])

    def test_a_wrong_mark_where_a_tunnel_leads_away(self):
        """Packets that a tunnel should take go to the VM."""
        row = vm(100, "192.0.2.7", "172.16.9.7")
        self.region.post("/v1/entries", controller_rig.ndjson([row]))
        self.region.settle()
        self.region.tamper("gw-a", MARKS, gw.PUT, [row])
        self.check("gw-a", [("missing", row, None)])
        self.region.post("/v1/entries", controller_rig.ndjson([{**row, "op": "delete"}]))
        self.region.settle()

    def test_a_duplicate_under_another_key(self):
        self.region.tamper("gw-b", STRUCTURES, gw.PUT, [self.STRAY_VM])
        self.check("gw-b", [("extra", None, self.STRAY_VM)])

    def test_a_duplicate_in_both_places(self):
        self.region.tamper("gw-b", RECORDS, gw.PUT, [self.STRAY_VM])
        self.region.tamper("gw-b", STRUCTURES, gw.PUT, [self.STRAY_VM])
        # The second call found the row in the records already: put it where packets look.
        self.region.tamper("gw-b", RECORDS, gw.DELETE, [self.STRAY_VM])
        self.region.tamper("gw-b", STRUCTURES, gw.PUT, [self.STRAY_VM])
        self.region.tamper("gw-b", RECORDS, gw.PUT, [self.STRAY_VM])
        self.check("gw-b", [("extra", None, self.STRAY_VM)])

    def test_an_entry_that_should_be_gone(self):
        gone = vm(106, "10.6.9.9", "172.16.6.9")
        for place in (RECORDS, STRUCTURES):
            with self.subTest(place=place):
                self.region.post("/v1/entries", controller_rig.ndjson([gone]))
                self.region.settle()
                self.region.tamper("gw-a", place, gw.PUT, [gone], keeps=True)
                self.region.post("/v1/entries",
                                 controller_rig.ndjson([{**gone, "op": "delete"}]))
                self.region.settle()
                if place == STRUCTURES:
                    self.check("gw-a", [("extra", None, gone)])
                else:  # no packet gets it: there is nothing to be found
                    self.assert_clean(self.region.audit())

    def test_a_tenant_of_nobody(self):
        stray = [{"table": "vni", "vni": 9000}, route(9000, "10.0.0.0/8"),
                 vm(9000, "10.1.1.1", "172.16.1.1")]
        self.region.tamper("gw-a", STRUCTURES, gw.PUT, stray)
        before = self.region.writes("gw-b")
        a = self.region.audit(node="gw-a")["gw-a"]
        self.assertEqual((a["result"], a["extra"], a["missing"]), ("repaired", 3, 0), a)
        self.assertEqual(self.region.writes("gw-b"), before)
        self.assert_clean(self.region.audit())

    def test_a_half_applied_batch(self):
        lost = [vm(110, f"10.10.{j}.5", f"172.16.10.{j + 1}") for j in range(0, 20, 2)]
        lost += [route(110, f"10.10.{j}.0/24") for j in range(0, 20, 2)]
        for place in (RECORDS, STRUCTURES):
            with self.subTest(place=place):
                self.region.tamper("gw-b", place, gw.DELETE, lost)
                self.check("gw-b", [("missing", e, None) for e in lost])

    def test_one_vni_alone(self):
        self.region.tamper("gw-a", STRUCTURES, gw.DELETE, [self.GOOD_VM])
        self.assert_clean(self.region.audit(vni=104))
        self.check("gw-a", [("missing", self.GOOD_VM, None)], scope={"vni": 105})

    def test_report_repairs_nothing_and_raises_an_alarm(self):
        self.region.tamper("gw-a", STRUCTURES, gw.DELETE, [self.GOOD_VM])
        before = self.region.writes("gw-a")
        a = self.region.audit(node="gw-a", repair=False)["gw-a"]
        self.assertEqual((a["result"], a["missing"]), ("differs", 1))
        self.assertEqual(self.region.writes("gw-a"), before)
        alarms = self.region.get("/v1/alarms")["items"]
        self.assertIn(("audit_differs", "node/gw-a", "critical"),
                      [(x["kind"], x["subject"], x["severity"]) for x in alarms])
        self.check("gw-a", [("missing", self.GOOD_VM, None)])

    def test_nodes_are_held_against_each_other(self):
        """What the controller says plays no part: they were read at one revision."""
        self.region.tamper("gw-b", STRUCTURES, gw.PUT, [self.STRAY_VM])
        self.region.audit(repair=False)
        alarms = self.region.get("/v1/alarms")["items"]
        self.assertIn(("nodes_differ", "cluster/x86-1"),
                      [(x["kind"], x["subject"]) for x in alarms])
        self.check("gw-b", [("extra", None, self.STRAY_VM)])

    def test_changes_meanwhile_are_no_differences(self):
        for i in range(12):
            begun = self.region.post("/v1/audits", {})["items"]
            for j in range(6):
                e = vm(107, f"10.7.200.{j}", f"172.16.{i}.{j + 1}")
                if i % 3 == 2:
                    e["op"] = "delete"
                self.region.post("/v1/entries", controller_rig.ndjson([e]))
            for a in begun:
                path = f"/v1/audits/{a['id']}"
                gw.wait_until(lambda: self.region.get(path)["state"] == "done", path)
                self.assert_clean({a["node"]: self.region.get(path)})

    def test_xgwctl_names_what_differs(self):
        self.region.tamper("gw-a", STRUCTURES, gw.DELETE, [self.GOOD_VM])
        done = subprocess.run([XGWCTL, "--server",
                               f"http://127.0.0.1:{self.region.controller.rest}", "audit",
                               "--cluster", "x86-1"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done)
        self.assertIn("gw-a: repaired (1 missing, 0 extra, 0 different", done.stdout)
        self.assertIn("missing vm_nc vni 105", done.stdout)
        self.assertIn("10.5.3.5", done.stdout)
        self.assertIn("gw-b: clean", done.stdout)

    def test_what_does_not_exist_is_refused(self):
        for scope, code in (({"node": "gw-x"}, 404), ({"cluster": "x86-9"}, 404),
                            ({"vni": 9}, 404), ({"vni": 0}, 400), ({"nodes": "x"}, 400),
                            ({"repair": 1}, 400)):
            answer = self.region.controller.request("POST", "/v1/audits", scope)
            self.assertEqual(answer.status, code, (scope, answer))
        self.assertEqual(self.region.controller.request("GET", "/v1/audits/99999").status, 404)

    def test_zz_history_survives_the_controller(self):
        self.region.audit()
        before = self.region.get("/v1/audits?pageSize=1000")["items"]
        self.region.controller.kill()
        self.region.controller.start()
        self.region.settle()
        after = self.region.get("/v1/audits?pageSize=1000")["items"]
        # The last one's transaction may have been on its way.
        self.assertEqual(after[:len(before) - 1], before[:-1])
        self.assert_clean(self.region.audit())


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[5:], verbosity=2)
