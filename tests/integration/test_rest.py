#!/usr/bin/python3
"""The controller's REST API from outside: a real process, real sockets.

    test_rest.py XGW_CONTROLLER [unittest arguments]
"""
import concurrent.futures
import json
import os
import pathlib
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import jsonschema
import yaml
from urllib.parse import quote

import packed
from controller_rig import ROOT, Controller, check_metrics, make_certificates, ndjson

PROGRAM = None
PROBLEM = yaml.safe_load((ROOT / "proto/api/openapi.yaml").read_text())[
    "components"]["schemas"]["Problem"]
VIEWER, OPERATOR, ADMIN = "viewer-token-0000", "operator-token-00", "admin-token-000000"
TOKENS = (f"# who\n{VIEWER} viewer vera\n{OPERATOR}\toperator  otto\n"
          f"{ADMIN} admin ada # the boss\n")


def route(vni, prefix):
    return f"/v1/tenants/{vni}/routes/{quote(prefix, safe='')}"


def vm(vni, address):
    return f"/v1/tenants/{vni}/vms/{quote(address, safe='')}"


class Case(unittest.TestCase):
    """One controller for each class; each test has VNIs of its own."""
    options = {}

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="xgw-rest-")
        cls.c = Controller(PROGRAM, cls.folder, **cls.options).start()
        cls.c.token = ADMIN if "tokens" in cls.options else None
        cls.prepare()

    @classmethod
    def prepare(cls):
        for i, vip in ((1, "172.31.0.1"), (2, "172.31.0.2")):
            cls.expect("PUT", f"/v1/clusters/x86-{i}", {"vip_v4": vip,
                                                        "vip_v6": f"fd00::{i}"})

    @classmethod
    def tearDownClass(cls):
        cls.c.stop()  # shows the log when it did not end well
        shutil.rmtree(cls.folder)

    @classmethod
    def expect(cls, method, path, body=None, status=200, **kwargs):
        a = cls.c.request(method, path, body, **kwargs)
        assert a.status == status, (method, path, a)
        return a

    def refused(self, method, path, body=None, status=400, code=None, rule=None,
                field=None, line=None, **kwargs):
        """Fails in exactly this way, and changes nothing."""
        before = self.state()
        a = self.expect(method, path, body, status, **kwargs)
        self.assertEqual(a.headers["Content-Type"], "application/problem+json")
        problem = a.json
        self.assertEqual(problem["status"], status)
        self.assertTrue(problem["detail"])
        for name, want in (("code", code), ("rule", rule), ("field", field),
                           ("line", line)):
            if want is not None:
                self.assertEqual(problem.get(name), want, problem)
        self.assertEqual(self.state(), before)
        return problem

    def state(self):
        s = self.expect("GET", "/v1/status").json
        return s["revision"], json.dumps(s["tables"]), json.dumps(s["counts"])

    def tenant(self, vni, cluster="x86-1", **fields):
        self.expect("PUT", f"/v1/tenants/{vni}", {"cluster": cluster, **fields})


class Placement(Case):
    def test_tenants_are_placed_explained_and_refused_with_numbers(self):
        for name, number in (("p-x", 60), ("p-y", 61)):
            self.expect("PUT", f"/v1/clusters/{name}", {"vip_v4": f"172.31.8.{number}"})
        for name, backing, number in (("p-h1", "p-x", 62), ("p-h2", "p-y", 63)):
            self.expect("PUT", f"/v1/clusters/{name}", {
                "kind": "xgw-h", "backing": backing, "vip_v4": f"172.31.8.{number}"})
        others = [c["name"] for c in self.expect("GET", "/v1/clusters").json["items"]
                  if c["kind"] == "xgw-h" and not c["name"].startswith("p-")]
        for name in others:  # of other tests
            self.expect("PATCH", f"/v1/clusters/{name}", {"state": "draining"})
        try:
            self.place()
        finally:
            for name in others:
                self.expect("PATCH", f"/v1/clusters/{name}", {"state": "serving"})
            for vni in (170, 171, 172):
                self.expect("DELETE", f"/v1/tenants/{vni}?confirm=true")
            for name in ("p-h1", "p-h2", "p-x", "p-y"):
                self.expect("DELETE", f"/v1/clusters/{name}")

    def place(self):
        # 65,000 routes are 5,000 TCAM rows, and a half has 9,215, of which 70 % are sold.
        said = self.expect("GET", "/v1/placement?routes=65000&vms_v4=10").json
        self.assertEqual(said["chosen"], {"h_home": "p-h1", "cluster": "p-x", "half": "0"})
        first = next(c for c in said["candidates"] if c["cluster"] == "p-h1")
        self.assertEqual(first["verdict"], "chosen")
        route = next(d for d in first["dimensions"] if d["resource"] == "route")
        self.assertEqual((route["needed"], route["used"], route["capacity"], route["fits"]),
                         (5000, [0, 0], 9215, [True, True]))
        self.assertEqual(first["backing"]["cluster"], "p-x")
        for vni, h_home, half in ((170, "p-h1", "0"), (171, "p-h1", "1"), (172, "p-h2", "0")):
            self.expect("PUT", f"/v1/tenants/{vni}", {"reserved_routes": 65000})
            got = self.expect("GET", f"/v1/tenants/{vni}").json
            self.assertEqual((got["h_home"], got["half"], got["reserved_routes"]),
                             (h_home, half, 65000))
            again = {k: v for k, v in got.items() if k != "revision"}
            self.expect("PUT", f"/v1/tenants/{vni}", again)
        use = self.expect("GET", "/v1/clusters/p-h1").json["status"]["placement"]
        self.assertEqual((use["tenants"], use["use"]["route"]["used"]), (2, [5000, 5000]))
        self.assertEqual((use["used_percent"]["route"], use["takes_tenants"]), (54.26, True))
        self.expect("PATCH", "/v1/clusters/p-h2", {"state": "draining"})
        problem = self.refused("PUT", "/v1/tenants/173", {"reserved_routes": 65000}, 409,
                               field="cluster", rule="no_cluster_fits")
        self.assertIn("build a cluster", problem["detail"])
        self.assertIn("p-h1: route needs 5000 and has 1450 rows left", problem["detail"])
        said = self.expect("GET", "/v1/placement?routes=65000").json
        self.assertEqual((said["chosen"], said["proposal"]), (None, "build a cluster"))
        self.refused("PUT", "/v1/tenants/173", {"cluster": "p-y", "h_home": "p-h2"}, 409,
                     field="h_home", rule="cluster_not_serving")
        self.expect("PATCH", "/v1/clusters/p-h2", {"state": "serving"})
        self.expect("DELETE", "/v1/tenants/172?confirm=true")
        # One of two that fill p-h1 would fill p-h2 as much: nothing is gained.
        said = self.expect("GET", "/v1/placement/rebalance?thresholdBp=2000").json
        self.assertEqual((said["kind"], said["moves"]), ("xgw-h", []))
        self.expect("PATCH", "/v1/tenants/171", {"half": "0", "reserved_routes": 13000})
        move, = self.expect("GET", "/v1/placement/rebalance?thresholdBp=1000").json["moves"]
        self.assertEqual((move["vni"], move["from"]["cluster"], move["to"]["cluster"]),
                         (171, "p-h1", "p-h2"))
        self.assertEqual((move["from"]["fullest_percent"],
                          move["from"]["fullest_percent_after"]), (65.11, 54.26))
        problem = self.refused("PUT", "/v1/tenants/174", {
            "cluster": "p-x", "h_home": "p-h1", "half": "0", "reserved_routes": 65000}, 409,
            code="conflict", field="h_home", rule="no_room")
        self.assertIn("cluster p-h1: route needs 5000 and has 450 rows left below its sale "
                      "level (70 %)", problem["detail"])
        problem = self.refused("PATCH", "/v1/tenants/170", {"h_home": None}, 409,
                               field="h_home", rule="home_needs_move")
        self.assertIn("xgwctl tenant move", problem["detail"])
        for query, field in (("kind=lb2", "kind"), ("routes=-1", "routes"),
                             ("bps=x", "bps"), ("peers=0", "peers"), ("peers=1;2", "peers")):
            self.refused("GET", "/v1/placement?" + query, field=field)

    def test_load_balancers_are_clusters_of_their_own_kind(self):
        self.expect("PUT", "/v1/clusters/lb", {"kind": "lb", "vip_v4": "172.31.8.90"})
        self.expect("PUT", "/v1/nodes/lb-1", {"cluster": "lb", "kind": "lb",
                                              "vtep_v4": "172.31.8.91"})
        status = self.expect("GET", "/v1/nodes/lb-1").json["status"]
        self.assertEqual((status["state"], status["member"]), ("joining", False))
        tenants = len(self.expect("GET", "/v1/tenants").json["items"])
        self.assertEqual(self.expect("GET", "/v1/clusters/lb").json["status"]["vni_cluster"],
                         tenants)
        self.refused("PUT", "/v1/nodes/lb-2", {"cluster": "lb", "vtep_v4": "172.31.8.92"},
                     field="kind", rule="kind_fits_cluster")
        self.refused("PUT", "/v1/nodes/lb-2", {"cluster": "x86-1", "kind": "lb",
                                               "vtep_v4": "172.31.8.92"},
                     field="kind", rule="kind_fits_cluster")
        self.refused("PUT", "/v1/clusters/lb2", {"kind": "l", "vip_v4": "172.31.8.93"},
                     field="kind", rule="cluster_kind")
        self.refused("PUT", "/v1/clusters/lb2", {"kind": "lb", "vip_v4": "172.31.8.93",
                                                 "backing": "x86-1"}, field="backing")
        # Nobody is at home there, moves there or is placed there.
        self.refused("PUT", "/v1/tenants/9001", {"cluster": "lb"}, field="cluster",
                     rule="home_kind")
        self.expect("PUT", "/v1/tenants/9002", {"cluster": "x86-1"})
        self.assertEqual(self.expect("GET", "/v1/clusters/lb").json["status"]["vni_cluster"],
                         tenants + 1)
        self.refused("POST", "/v1/tenants/9002/move", {"cluster": "lb"}, field="cluster",
                     rule="cluster_kind")
        self.expect("DELETE", "/v1/tenants/9002")
        for path in ("placement", "placement/rebalance"):
            self.refused("GET", f"/v1/{path}?kind=lb", field="kind", rule="cluster_kind")
        for path in ("nodes/lb-1", "clusters/lb"):
            self.expect("DELETE", "/v1/" + path)

    def test_a_region_steers_by_vips_or_by_load_balancers(self):
        before = self.c.request("GET", "/v1/region")
        self.expect("PUT", "/v1/region", {"name": "r"})
        self.assertEqual(self.expect("GET", "/v1/region").json["steering"], "vip")
        self.expect("PATCH", "/v1/region", {"steering": "lb"})
        self.assertEqual(self.expect("GET", "/v1/region").json["steering"], "lb")
        for bad, rule in (("bgp", "steering_known"), ("", "steering_known"), (1, "type")):
            self.refused("PATCH", "/v1/region", {"steering": bad}, field="steering",
                         rule=rule)
        self.assertEqual(self.expect("GET", "/v1/region").json["steering"], "lb")
        region = before.json if before.status == 200 else {"name": "r"}
        self.expect("PUT", "/v1/region", {k: v for k, v in region.items() if k != "revision"})

    def test_a_side_has_no_more_nodes_than_the_region_says(self):
        before = self.c.request("GET", "/v1/region")
        self.expect("PUT", "/v1/region", {"name": "r", "ecmp_limit": 1})
        self.expect("PUT", "/v1/clusters/p-e", {"vip_v4": "172.31.8.70"})
        self.expect("PUT", "/v1/nodes/p-e1", {"cluster": "p-e", "vtep_v4": "172.31.8.71"})
        problem = self.refused("PUT", "/v1/nodes/p-e2", {
            "cluster": "p-e", "vtep_v4": "172.31.8.72"}, 409, field="side", rule="ecmp_limit")
        self.assertIn("has 1 nodes, and routers take 1", problem["detail"])
        self.expect("PUT", "/v1/nodes/p-e2", {"cluster": "p-e", "side": "b",
                                              "vtep_v4": "172.31.8.72"})
        for path in ("nodes/p-e1", "nodes/p-e2", "clusters/p-e"):
            self.expect("DELETE", "/v1/" + path)
        region = before.json if before.status == 200 else {"name": "r"}
        self.expect("PUT", "/v1/region", {k: v for k, v in region.items() if k != "revision"})


class Entries(Case):
    def test_a_tenant_is_put_read_listed_patched_deleted(self):
        a = self.expect("PUT", "/v1/tenants/100",
                        {"cluster": "x86-1", "name": "Ácme Ⅻ", "flags": ["internet"]})
        self.assertEqual(a.json["added"], 1)
        self.assertEqual(a.json["state"], "pending")
        got = self.expect("GET", "/v1/tenants/100")
        self.assertEqual(got.json, {"table": "tenant", "vni": 100, "cluster": "x86-1",
                                    "name": "Ácme Ⅻ", "flags": ["internet"],
                                    "routes": 0, "vms": 0, "rules": 0,
                                    "revision": a.json["revision"]})
        self.assertEqual(got.headers["ETag"], f'"{a.json["revision"]}"')
        # What GET gave can be PUT back and changes nothing.
        again = self.expect("PUT", "/v1/tenants/100", got.json).json
        self.assertEqual((again["unchanged"], again["changed"]), (1, 0))
        for method, body in (("PATCH", {}), ("PUT", {"name": "other"})):
            self.refused(method, "/v1/tenants/100", {**body, "cluster": "x86-2"}, 409,
                         code="conflict", field="cluster", rule="home_needs_move")
        self.expect("PATCH", "/v1/tenants/100", {"name": None})
        got = self.expect("GET", "/v1/tenants/100").json
        self.assertEqual((got["cluster"], got.get("name", ""), got["flags"]),
                         ("x86-1", "", ["internet"]))
        self.assertIn(100, [t["vni"] for t in
                            self.expect("GET", "/v1/tenants?pageSize=1000").json["items"]])
        self.assertEqual(self.expect("DELETE", "/v1/tenants/100").json["deleted"], 1)
        self.assertEqual(self.expect("DELETE", "/v1/tenants/100").json["deleted"], 0)
        self.expect("GET", "/v1/tenants/100", status=404)
        self.expect("PATCH", "/v1/tenants/100", {"name": "x"}, status=404)

    def test_routes_of_every_scope_and_family(self):
        self.tenant(110)
        self.tenant(111)
        routes = [
            ("10.0.0.0/24", {"scope": "local"}),
            ("10.1.0.0/16", {"scope": "peer", "peer_vni": 111}),
            ("0.0.0.0/0", {"scope": "internet"}),
            ("192.168.0.0/16", {"scope": "idc", "endpoint": "172.16.0.9",
                                "endpoint_vni": 5000}),
            ("192.169.0.0/16", {"scope": "region", "endpoint": "fd00::9",
                                "endpoint_vni": 1}),
            ("100.64.0.0/10", {"scope": "service", "service": "dns"}),
            ("10.0.0.7/32", {"scope": "local"}),
            ("2001:db8::/32", {"scope": "local"}),
            ("2001:db8:1::/48", {"scope": "peer", "peer_vni": 111}),
            ("::/0", {"scope": "internet"}),
            ("2001:db8::1/128", {"scope": "idc", "endpoint": "172.16.0.9",
                                 "endpoint_vni": 16777215}),
        ]
        for prefix, body in routes:
            a = self.expect("PUT", route(110, prefix), body)
            self.assertEqual(a.json["added"], 1)
            want = {"table": "vxlan_route", "vni": 110, "prefix": prefix, **body}
            self.assertEqual(self.expect("GET", route(110, prefix)).json, want)
            self.assertEqual(
                self.expect("PUT", route(110, prefix), want).json["unchanged"], 1)
        # Paging in any size gives each once, IPv4 first.
        for size in (1, 3, 11, 1000):
            seen, token = [], ""
            while token is not None:
                page = self.expect("GET", f"/v1/tenants/110/routes?pageSize={size}" + (
                    f"&pageToken={token}" if token else "")).json
                self.assertLessEqual(len(page["items"]), size)
                seen += [r["prefix"] for r in page["items"]]
                token = page.get("next_page_token")
            self.assertEqual(sorted(seen), sorted(p for p, _ in routes))
            self.assertEqual([":" in p for p in seen], sorted(":" in p for p in seen))
        for prefix, _ in routes:
            self.assertEqual(self.expect("DELETE", route(110, prefix)).json["deleted"], 1)
            self.expect("GET", route(110, prefix), status=404)
        self.assertEqual(self.expect("GET", "/v1/tenants/110/routes").json, {"items": []})

    def test_vms_of_both_families(self):
        self.tenant(120)
        vms = [("10.0.0.5", {"nc": "172.16.1.1"}),
               ("10.0.0.6", {"nc": "fd00::a", "mac": "02:00:00:00:00:05"}),
               ("2001:db8::5", {"nc": "172.16.1.1"}), ("fe80::1", {"nc": "fd00::b"})]
        for address, body in vms:
            self.expect("PUT", vm(120, address), body)
            self.assertEqual(self.expect("GET", vm(120, address)).json,
                             {"table": "vm_nc", "vni": 120, "vm": address, **body})
        self.assertEqual(self.expect("PUT", vm(120, "10.0.0.5"),
                                     {"nc": "172.16.1.2"}).json["changed"], 1)
        page = self.expect("GET", "/v1/tenants/120/vms?pageSize=3").json
        rest = self.expect("GET", "/v1/tenants/120/vms?pageToken="
                           + page["next_page_token"]).json
        self.assertEqual([v["vm"] for v in page["items"] + rest["items"]],
                         [a for a, _ in vms])
        for address, _ in vms:
            self.expect("DELETE", vm(120, address))
        self.assertEqual(self.expect("GET", "/v1/tenants/120").json["vms"], 0)

    def h_tenant(self, vni):
        self.expect("PUT", "/v1/clusters/h-1", {"kind": "xgw-h", "backing": "x86-1",
                                                "vip_v4": "172.31.0.9"})
        self.tenant(vni, h_home="h-1")

    def test_rules_are_put_read_listed_deleted_by_their_key(self):
        self.h_tenant(160)
        path = "/v1/tenants/160/acl"
        before = self.expect("GET", "/v1/clusters/h-1").json["status"]["acl"]

        def one(key):
            return f"{path}/{quote(key, safe='')}"
        self.expect("PUT", one("1000,10.0.0.0/8,0.0.0.0/0,tcp,,443"), {"action": "permit"})
        self.expect("PUT", one("9,::/0,2001:db8::/32"), {"action": "deny"})
        got = self.expect("GET", one("1000,10.0.0.0/8,0.0.0.0/0,6,,443")).json
        self.assertEqual(got, {"table": "acl", "vni": 160, "priority": 1000,
                               "src": "10.0.0.0/8", "dst": "0.0.0.0/0", "proto": "tcp",
                               "dport": "443", "action": "permit"})
        page = self.expect("GET", path + "?pageSize=1").json
        rest = self.expect("GET", path + "?pageToken=" + page["next_page_token"]).json
        self.assertEqual([r["priority"] for r in page["items"] + rest["items"]], [9, 1000])
        self.assertEqual(self.expect("GET", "/v1/tenants/160").json["rules"], 2)
        # What the XGW-H cluster is to hold counts them; the x86 one has none.
        self.assertEqual(self.expect("GET", "/v1/clusters/h-1").json["status"]["acl"],
                         before + 2)
        self.assertEqual(self.expect("GET", "/v1/clusters/x86-1").json["status"]["acl"], 0)
        for key, field, rule in (
                ("0,10.0.0.0/8,0.0.0.0/0", "priority", "priority_range"),
                ("x,10.0.0.0/8,0.0.0.0/0", "priority", "type"),
                ("5", "src", "required"),
                ("5,10.0.0.1/8", "src", "host_bits"),
                ("5,10.0.0.0/8,::/0", "dst", "family_mismatch"),
                ("5,10.0.0.0/8,,udp,9-8", "sport", "port_range"),
                ("5,10.0.0.0/8,,gre,,80", "proto", "proto_known"),
                ("5,10.0.0.0/8,,47,,80", "dport", "port_protocol")):
            with self.subTest(key=key):
                self.refused("PUT", one(key), {"action": "deny"}, field=field, rule=rule)
        self.refused("PUT", one("5,10.0.0.0/8"), {"action": "drop"}, field="action")
        self.refused("PATCH", "/v1/tenants/160", {"h_home": None}, 409, field="h_home",
                     rule="home_needs_move")
        for _ in range(2):
            self.expect("DELETE", one("9,::/0,2001:db8::/32"))
        self.expect("DELETE", one("1000,10.0.0.0/8,0.0.0.0/0,tcp,,443"))
        self.assertEqual(self.expect("GET", path).json["items"], [])
        self.tenant(166)
        self.refused("PUT", "/v1/tenants/166/acl/" + quote("5,10.0.0.0/8", safe=""),
                     {"action": "deny"}, 409, field="h_home", rule="xgw_h_needed")

    def test_a_meter_is_put_read_deleted(self):
        self.h_tenant(161)
        path = "/v1/tenants/161/meter"
        meter = {"committed_bps": 10**9, "peak_bps": 2 * 10**9,
                 "committed_burst": 1250000, "peak_burst": 2500000}
        self.expect("GET", path, status=404)
        self.expect("PUT", path, meter)
        self.assertEqual(self.expect("GET", path).json,
                         {"table": "meter", "vni": 161, **meter})
        for change, field, rule in (
                ({"peak_bps": 1}, "peak_bps", "meter_order"),
                ({"peak_bps": 10**13 + 1}, "peak_bps", "meter_rate"),
                ({"committed_burst": 1500}, "committed_burst", "meter_burst"),
                ({"committed_bps": "1G"}, "committed_bps", "type")):
            with self.subTest(change=change):
                self.refused("PUT", path, {**meter, **change}, field=field, rule=rule)
        self.expect("DELETE", path)
        self.expect("GET", path, status=404)

    def test_the_policy_is_read_replaced_and_patched(self):
        default = {"local": "xgw-h", "peer": "xgw-h", "idc": "xgw-h", "region": "xgw-h",
                   "internet": "xgw-x86", "service": "xgw-h"}
        self.assertEqual(self.expect("GET", "/v1/policy").json["services"], default)
        self.expect("PATCH", "/v1/policy", {"services": {"idc": "xgw-x86",
                                                         "service:dns": "xgw-x86"}})
        got = self.expect("GET", "/v1/policy")
        self.assertEqual(got.json["services"],
                         {**default, "idc": "xgw-x86", "service:dns": "xgw-x86"})
        again = self.expect("PUT", "/v1/policy", got.json).json
        self.assertEqual((again["unchanged"], again["changed"]), (1, 0))
        for services, field, rule in (
                ({"idc": "xgw-z"}, "services.idc", "place_known"),
                ({"derived": "xgw-h"}, "services.derived", "service_known"),
                ({"service:a b": "xgw-x86"}, "services.service:a b", "name_syntax")):
            with self.subTest(services=services):
                self.refused("PATCH", "/v1/policy", {"services": services}, field=field,
                             rule=rule)
        self.refused("PUT", "/v1/policy", {}, field="services", rule="required")
        self.refused("PUT", "/v1/policy", {"services": {}, "x": 1}, field="x",
                     rule="unknown_field")
        self.expect("PATCH", "/v1/policy", {"services": {"idc": None,
                                                         "service:dns": None}})
        self.assertEqual(self.expect("GET", "/v1/policy").json["services"], default)

    def test_the_advice_on_the_policy_names_every_service_and_moves_nothing(self):
        self.h_tenant(163)
        for prefix, route in (
                ("10.0.0.0/8", {"scope": "local"}),
                ("10.1.0.0/16", {"scope": "service", "service": "advised"})):
            self.expect("PUT", "/v1/tenants/163/routes/" + quote(prefix, safe=""), route)
        self.expect("PUT", "/v1/tenants/163/vms/10.0.0.5", {"nc": "172.16.1.1"})
        self.expect("PATCH", "/v1/policy", {"services": {"internet": "xgw-h"}})
        policy = self.expect("GET", "/v1/policy").json
        got = self.expect("GET", "/v1/policy/suggestion").json
        by_name = {s["service"]: s for s in got["services"]}
        self.assertLessEqual({"local", "peer", "idc", "region", "internet",
                              "service:advised"}, set(by_name))
        one = by_name["service:advised"]
        self.assertEqual((one["place"], one["suggested"], one["entries"]),
                         ("xgw-h", "xgw-h", 1))
        self.assertIn("needs 60 min", one["reason"])
        self.assertEqual((one["weight"], one["traffic"]), ("unknown", None))
        self.assertEqual((got["traffic"]["seconds"], got["traffic"]["total_bps"]), (5, 0))
        self.assertIsNone(self.expect("GET", "/v1/policy/suggestion?seconds=0").json["traffic"])
        self.refused("GET", "/v1/policy/suggestion?seconds=31", field="seconds",
                     rule="number_range")
        self.assertEqual((one["changes"], one["changes_per_hour"]), (1, None))
        self.assertFalse(one["age_is_least"])
        self.assertGreaterEqual(by_name["local"]["entries"], 2)
        self.assertEqual((by_name["internet"]["place"], by_name["internet"]["suggested"]),
                         ("xgw-h", "xgw-x86"))
        status = [c["status"] for c in self.expect("GET", "/v1/clusters").json["items"]
                  if c.get("kind") == "xgw-h"]
        self.assertEqual(got["resident"]["now"],
                         {"vxlan_route": sum(s["vxlan_route"] for s in status),
                          "vm_nc": sum(s["vm_nc"] for s in status)})
        self.assertEqual(self.expect("GET", "/v1/policy").json, policy)
        self.expect("PATCH", "/v1/policy", {"services": {"internet": None}})
        self.refused("GET", "/v1/policy/suggestion?vni=1", field="vni",
                     rule="unknown_parameter")

    def test_h_clusters_and_their_nodes_say_what_stands_behind_them(self):
        self.h_tenant(162)
        c = self.expect("GET", "/v1/clusters/h-1").json
        self.assertEqual((c["kind"], c["backing"]), ("xgw-h", "x86-1"))
        self.assertEqual(c["fallback_meter"]["tenant"]["miss"],
                         {"rate_bps": 10**8, "burst_bytes": 125000})
        self.expect("PATCH", "/v1/clusters/h-1",
                    {"fallback_meter": {"node": {"service": {"rate_bps": 8 * 10**8,
                                                             "burst_bytes": None}}}})
        c = self.expect("GET", "/v1/clusters/h-1").json
        self.assertEqual(c["fallback_meter"]["node"]["service"],
                         {"rate_bps": 8 * 10**8, "burst_bytes": 10**6})
        node = {"cluster": "h-1", "kind": "soft-h", "vtep_v4": "172.31.9.50"}
        self.expect("PUT", "/v1/nodes/h-1a", node)
        self.assertEqual(self.expect("GET", "/v1/nodes/h-1a").json["kind"], "soft-h")
        self.refused("PUT", "/v1/nodes/h-1b", {**node, "kind": "x86"}, field="kind",
                     rule="kind_fits_cluster")
        self.refused("PUT", "/v1/nodes/h-1b", {**node, "kind": "asic"}, field="kind",
                     rule="node_kind")
        self.refused("PUT", "/v1/nodes/h-1b", {**node, "fallback_v4": "172.31.9.51"},
                     field="fallback_v4", rule="x86_only")
        self.assertEqual(c["profile"], "tofino")
        self.refused("PATCH", "/v1/clusters/h-1", {"profile": "bench"}, status=409,
                     field="profile", rule="cluster_in_use")
        self.refused("PUT", "/v1/clusters/h-2", {"kind": "xgw-h", "backing": "x86-1",
                                                 "vip_v4": "172.31.0.10", "profile": "huge"},
                     field="profile", rule="profile_known")
        self.refused("PATCH", "/v1/clusters/x86-1", {"profile": "bench"}, field="profile",
                     rule="xgw_h_only")
        self.expect("PUT", "/v1/clusters/h-wide", {"kind": "xgw-h", "backing": "x86-1",
                                                   "vip_v4": "172.31.0.11",
                                                   "profile": "bench"})
        small, wide = (self.expect("GET", f"/v1/clusters/{name}").json["status"]["placement"]
                       ["use"] for name in ("h-1", "h-wide"))
        self.assertEqual(wide["vm_nc"]["capacity"], 8 * small["vm_nc"]["capacity"])
        self.assertEqual(wide["nc_v4"]["capacity"], small["nc_v4"]["capacity"])
        self.expect("DELETE", "/v1/clusters/h-wide")
        self.refused("PUT", "/v1/clusters/h-2", {"kind": "xgw-h", "backing": "mars",
                                                 "vip_v4": "172.31.0.10"},
                     field="backing", rule="unknown_cluster")
        self.refused("PATCH", "/v1/clusters/h-1",
                     {"fallback_meter": {"tenant": {"miss": {"rate": 5}}}},
                     field="fallback_meter.tenant.miss.rate", rule="unknown_field")
        self.refused("PATCH", "/v1/tenants/162", {"cluster": "x86-2"}, field="cluster",
                     rule="home_backing")
        self.expect("PUT", route(162, "10.0.0.0/8"), {"scope": "local"})
        self.expect("PUT", route(162, "10.1.0.0/16"), {"scope": "internet"})
        hops = self.expect("GET", "/v1/trace?vni=162&dst=10.1.0.1").json["hops"]
        self.assertEqual([(h["kind"], h["cluster"]) for h in hops],
                         [("tenant", "h-1"), ("route", "h-1"), ("fallback", "h-1"),
                          ("route", "x86-1"), ("drop", "x86-1")])
        self.assertEqual(hops[1]["entry"]["scope"], "fallback")
        self.expect("PUT", vm(162, "10.0.0.7"), {"nc": "172.16.5.5"})
        for underlay, path in (("v4", ["forward"]),
                               ("v6", ["fallback", "route", "vm_nc", "forward"])):
            hops = self.expect("GET", "/v1/trace?vni=162&dst=10.0.0.7&underlay=%s"
                               % underlay).json["hops"]
            self.assertEqual([h["kind"] for h in hops[3:]], path)
        self.assertIn("came over IPv6, the NC needs IPv4", hops[3]["note"])
        self.expect("DELETE", "/v1/nodes/h-1a")

    def test_digests_are_the_documented_sums(self):
        entries = [
            {"table": "tenant", "vni": 130, "cluster": "x86-1", "name": "d",
             "flags": ["internet", "inner_vlan"]},
            {"table": "vxlan_route", "vni": 130, "prefix": "10.9.0.0/16", "scope": "idc",
             "endpoint": "172.16.0.9", "endpoint_vni": 70000},
            {"table": "vxlan_route", "vni": 130, "prefix": "2001:db8:9::/48",
             "scope": "service", "service": "ntp"},
            {"table": "vm_nc", "vni": 130, "vm": "10.9.0.1", "nc": "fd00::1",
             "mac": "02:00:00:00:00:05"},
            {"table": "tenant", "vni": 131, "cluster": "x86-1", "h_home": "h-1",
             "half": "1", "reserved_vms": 7, "reserved_bps": 10**9},
            {"table": "acl", "vni": 131, "priority": 7, "src": "10.0.0.0/8",
             "dst": "10.1.0.0/16", "proto": "udp", "sport": "1-5", "action": "deny"},
            {"table": "acl", "vni": 131, "priority": 7, "src": "::/0",
             "dst": "fd00::/16", "action": "permit"},
            {"table": "meter", "vni": 131, "committed_bps": 5, "peak_bps": 10**13,
             "committed_burst": 9600, "peak_burst": 9601}]
        self.h_tenant(132)
        # What is announced of traffic needs nodes that carry it.
        node = {"cluster": "h-1", "kind": "soft-h", "vtep_v4": "172.31.9.60"}
        self.expect("PUT", "/v1/nodes/h-1d", node)
        before = self.c.digests()
        self.expect("POST", "/v1/entries", ndjson(entries))
        after = self.c.digests()
        for table in packed.TABLES:
            want = packed.digest([e for e in entries if e["table"] == table])
            self.assertEqual((int(after[table], 16) - int(before[table], 16)) % 2**64,
                             int(want, 16), table)
        self.expect("DELETE", "/v1/nodes/h-1d")

    def test_each_rule_is_named_with_its_field(self):
        self.tenant(140)
        self.tenant(141)
        for path, rule in (("0", "vni_range"), ("16777216", "vni_range"),
                           ("-1", "vni_range"), ("99999999999999999999", "vni_range"),
                           ("1x", "vni_range")):
            self.refused("PUT", f"/v1/tenants/{path}", {"cluster": "x86-1"}, code="range",
                         field="vni", rule=rule)
        local = {"scope": "local"}
        peer = {"scope": "peer"}
        for path, body, field, rule in (
                (route(140, "10.0.0.1/24"), local, "prefix", "host_bits"),
                (route(140, "2001:db8::1/64"), local, "prefix", "host_bits"),
                (route(140, "10.0.0.0/33"), local, "prefix", "prefix_length"),
                (route(140, "10.0.0/24"), local, "prefix", None),
                (route(140, "10.0.0.0"), local, "prefix", None),
                (route(140, "10.0.0.0/8"), {"scope": "moon"}, "scope", "scope_known"),
                (route(140, "10.0.0.0/8"), {"scope": "derived", "endpoint": "1.2.3.4",
                                            "endpoint_vni": 5}, "scope", "scope"),
                (route(140, "10.0.0.0/8"), {}, "scope", "required"),
                (route(140, "10.0.0.0/8"), peer, "peer_vni", "required"),
                (route(140, "10.0.0.0/8"), {**peer, "peer_vni": 140}, "peer_vni",
                 "peer_self"),
                (route(140, "10.0.0.0/8"), {**peer, "peer_vni": 149}, "peer_vni",
                 "peer_unknown"),
                (route(140, "10.0.0.0/8"), {**peer, "peer_vni": 0}, "peer_vni",
                 "vni_range"),
                (route(140, "10.0.0.0/8"), {**peer, "peer_vni": 1e3}, "peer_vni", None),
                (route(140, "10.0.0.0/8"), {**peer, "peer_vni": 2**40}, "peer_vni", None),
                (route(140, "10.0.0.0/8"), {"scope": "idc", "endpoint": "224.0.0.1",
                                            "endpoint_vni": 1}, "endpoint",
                 "unicast_address"),
                (route(140, "10.0.0.0/8"), {**local, "colour": "red"}, "colour",
                 "unknown_field"),
                (route(140, "10.0.0.0/8"), {**local, "peer_vni": 141}, "peer_vni",
                 "unexpected_field"),
                (route(140, "10.0.0.0/8"), {**local, "prefix": "10.0.0.0/9"}, "prefix",
                 "path_differs"),
                (route(140, "10.0.0.0/8"), {**local, "vni": 141}, "vni", "path_differs"),
                (route(140, "10.0.0.0/8"), {"op": "delete"}, "op", "unexpected_field"),
                (route(149, "10.0.0.0/8"), local, "vni", "unknown_tenant"),
                (vm(140, "10.0.0.300"), {"nc": "1.2.3.4"}, "vm", None),
                (vm(140, "127.0.0.1"), {"nc": "1.2.3.4"}, "vm", "unicast_address"),
                (vm(140, "10.0.0.3"), {"nc": "0.0.0.0"}, "nc", "unicast_address"),
                (vm(140, "10.0.0.3"), {"nc": "1.2.3.4", "mac": "01:00:5e:00:00:01"}, "mac",
                 "mac_unicast"),
                (vm(140, "10.0.0.3"), {"nc": 7}, "nc", None),
                ("/v1/tenants/140", {"cluster": "mars"}, "cluster", "unknown_cluster"),
                ("/v1/tenants/140", {"cluster": "x86-1", "flags": ["fast"]}, "flags",
                 "flag_known"),
                ("/v1/tenants/140", {"cluster": "x86-1", "name": "a\u0001b"}, "name",
                 "name_text"),
                ("/v1/tenants/140", {"cluster": "x86-1", "name": "x" * 64}, "name",
                 "name_length"),
                ("/v1/tenants/140", {"cluster": ""}, "cluster", "name_length"),
                ("/v1/tenants/140", {"h_home": "h-1"}, "cluster", "name_length"),
                ("/v1/tenants/140", {"cluster": "x86-1", "half": "0"}, "half",
                 "half_needs_h_home")):
            with self.subTest(path=path, body=body):
                self.refused("PUT", path, body, field=field, rule=rule)
        # a prefix of one family with a length of the other, a batch's duplicates
        self.refused("PUT", route(140, "10.0.0.0/64"), local, field="prefix")
        two = ndjson([{"table": "vm_nc", "vni": 140, "vm": "10.0.0.1", "nc": "1.2.3.4"},
                      {"table": "vm_nc", "vni": 140, "vm": "10.0.0.2", "nc": "1.2.3.4"},
                      {"table": "vm_nc", "vni": 140, "vm": "10.0.0.1", "nc": "1.2.3.5"}])
        self.refused("POST", "/v1/entries", two, field="vm", rule="duplicate_key", line=3)
        self.refused("POST", "/v1/entries", two.split("\n")[0] + "\n{\"table\":\"x\",\"vni\":1}",
                     rule="table_known", line=2)

    def test_peer_loops_and_chains_are_refused_and_named(self):
        for v in range(150, 157):
            self.tenant(v)

        def peer(a, b):
            return self.c.request("PUT", route(a, "10.0.0.0/8"),
                                  {"scope": "peer", "peer_vni": b})
        # Two VPCs that peer with other prefixes are no loop; with the same they are.
        self.assertEqual(peer(150, 151).status, 200)
        self.refused("PUT", route(151, "10.0.0.0/8"), {"scope": "peer", "peer_vni": 150},
                     status=400, rule="peer_loop")
        self.expect("PUT", route(151, "11.0.0.0/8"), {"scope": "peer", "peer_vni": 150})
        self.assertEqual(peer(151, 152).status, 200)
        self.assertEqual(peer(152, 153).status, 200)
        problem = self.refused("PUT", route(153, "10.0.0.0/8"),
                               {"scope": "peer", "peer_vni": 154}, rule="peer_chain")
        for v in (150, 151, 152, 153, 154):
            self.assertIn(str(v), problem["detail"])
        # In the middle of a chain the same, and a batch is judged as a whole.
        chain = [{"table": "vxlan_route", "vni": a, "prefix": "12.0.0.0/8",
                  "scope": "peer", "peer_vni": a + 1} for a in (150, 151, 152, 153)]
        self.refused("POST", "/v1/entries", ndjson(chain), rule="peer_chain")
        self.expect("POST", "/v1/entries", ndjson(chain[:3]))

    def test_a_tenant_that_others_lead_to_stays(self):
        self.tenant(155)
        self.tenant(156)
        self.expect("PUT", route(155, "10.0.0.0/8"), {"scope": "peer", "peer_vni": 156})
        self.refused("DELETE", "/v1/tenants/156", status=409, code="conflict",
                     rule="inbound_peers", field="vni")
        self.expect("DELETE", route(155, "10.0.0.0/8"))
        self.expect("DELETE", "/v1/tenants/156")

    def test_a_mass_delete_needs_confirmation(self):
        self.tenant(170)
        entries = [{"table": "vm_nc", "vni": 170, "vm": f"10.0.0.{i}", "nc": "1.2.3.4"}
                   for i in range(1, 101)]
        self.expect("POST", "/v1/entries", ndjson(entries))
        gone = ndjson([{"op": "delete", **e} for e in
                       ({k: e[k] for k in ("table", "vni", "vm")} for e in entries[:60])])
        self.refused("POST", "/v1/entries", gone, status=403, code="denied",
                     rule="mass_delete", field="confirm")
        self.assertEqual(self.expect("POST", "/v1/entries?confirm=true", gone)
                         .json["deleted"], 60)
        self.refused("DELETE", "/v1/tenants/170", status=403, rule="mass_delete")
        self.assertEqual(self.expect("DELETE", "/v1/tenants/170?confirm=1")
                         .json["deleted"], 41)

    def test_a_repeated_request_id_changes_nothing_and_gives_the_first_result(self):
        self.tenant(180)
        path = vm(180, "10.0.0.1")
        first = self.expect("PUT", path + "?requestId=abc-180", {"nc": "1.2.3.4"}).json
        self.assertNotIn("repeated", first)
        self.expect("PUT", path, {"nc": "1.2.3.5"})
        again = self.expect("PUT", path + "?requestId=abc-180", {"nc": "1.2.3.4"}).json
        self.assertTrue(again.pop("repeated"))
        self.assertEqual(again, first)
        self.assertEqual(self.expect("GET", path).json["nc"], "1.2.3.5")
        self.refused("PUT", path + "?requestId=" + "x" * 64, {"nc": "1.2.3.4"},
                     field="requestId")
        self.refused("PUT", path + "?requestId=", {"nc": "1.2.3.4"}, field="requestId")
        self.refused("PUT", path + "?requestId=a%00b", {"nc": "1.2.3.4"})

    def test_a_dry_run_checks_all_and_changes_nothing(self):
        self.tenant(190)
        before = self.state()
        a = self.expect("PUT", vm(190, "10.0.0.1") + "?dryRun=true", {"nc": "1.2.3.4"})
        self.assertEqual((a.json["state"], a.json["added"]), ("dry_run", 1))
        self.expect("DELETE", "/v1/tenants/190?dryRun=1&wait=applied")
        self.expect("PUT", "/v1/clusters/x86-9?dryRun=true", {"vip_v4": "172.31.0.9"})
        self.expect("PATCH", "/v1/tenants/190?dryRun=true", {"name": "no"})
        self.assertEqual(self.state(), before)
        self.refused("PUT", "/v1/tenants/190?dryRun=true", {"cluster": "mars"},
                     rule="unknown_cluster")
        self.refused("PUT", vm(190, "10.0.0.1") + "?dryRun=yes", {"nc": "1.2.3.4"},
                     field="dryRun", rule="boolean")

    def test_if_match_lets_only_the_present_revision_through(self):
        self.tenant(200)
        tag = self.expect("GET", "/v1/tenants/200").headers["ETag"]
        new = self.expect("PUT", vm(200, "10.0.0.1"), {"nc": "1.2.3.4"},
                          headers={"If-Match": tag}).headers["ETag"]
        self.assertNotEqual(new, tag)
        self.refused("PUT", vm(200, "10.0.0.1"), {"nc": "1.2.3.5"}, status=412,
                     code="stale", rule="if_revision", headers={"If-Match": tag})
        self.refused("PATCH", "/v1/tenants/200", {"name": "n"}, status=412,
                     headers={"If-Match": tag})
        self.refused("DELETE", "/v1/tenants/200", status=412, headers={"If-Match": tag})
        self.expect("PATCH", "/v1/tenants/200", {"name": "n"}, headers={"If-Match": new})
        self.assertEqual(self.expect("GET", vm(200, "10.0.0.1")).headers["ETag"],
                         self.expect("GET", "/v1/tenants/200").headers["ETag"])
        for bad in ("x", '"1', '""', "*", '"1","2"', "-1", "+1", " ", 'W/"1"', "0",
                    "99999999999999999999999"):
            self.refused("PUT", vm(200, "10.0.0.1"), {"nc": "1.2.3.4"}, rule="revision",
                         headers={"If-Match": bad})
        self.refused("PUT", vm(200, "10.0.0.1"), {"nc": "1.2.3.4"}, rule="precondition",
                     headers={"If-None-Match": "*"})

    def test_patches_at_once_lose_nothing(self):
        self.tenant(210)
        fields = [{"name": "p"}, {"flags": ["internet"]}, {"reserved_vms": 7}] * 4
        with concurrent.futures.ThreadPoolExecutor(12) as pool:
            codes = list(pool.map(lambda body: self.c.request(
                "PATCH", "/v1/tenants/210", body).status, fields))
        self.assertEqual(set(codes), {200})
        got = self.expect("GET", "/v1/tenants/210").json
        self.assertEqual((got["name"], got["flags"], got["reserved_vms"]),
                         ("p", ["internet"], 7))

    def test_create_only_refuses_what_differs(self):
        self.tenant(220)
        line = ndjson([{"table": "vm_nc", "vni": 220, "vm": "10.0.0.1", "nc": "1.2.3.4"}])
        self.expect("POST", "/v1/entries?createOnly=true", line)
        self.expect("POST", "/v1/entries?createOnly=true", line)
        self.refused("POST", "/v1/entries?createOnly=true", line.replace("3.4", "3.5"),
                     status=409, code="exists", rule="create_only")

    def test_lists_and_parameters_are_strict(self):
        self.tenant(230)
        for query, rule in (("pageSize=0", "number_range"), ("pageSize=1001", "number_range"),
                            ("pageSize=", "number_range"), ("pageSize=1e1", "number_range"),
                            ("pageToken=zz", "page_token"), ("pageToken=abc", "page_token"),
                            ("pageToken=" + "00" * 19, "page_token"),
                            ("pageToken=AA", "page_token"),
                            ("pagesize=5&pageSize=4", "unknown_parameter"),
                            ("pageSize=5&pageSize=5", "repeated_parameter"),
                            ("limit=5", "unknown_parameter")):
            with self.subTest(query=query):
                self.refused("GET", f"/v1/tenants/230/vms?{query}", rule=rule)
        self.refused("GET", "/v1/tenants?pageToken=00", rule="page_token")
        self.refused("GET", "/v1/tenants/231/vms", status=404)
        self.refused("PUT", vm(230, "10.0.0.1") + "?dryrun=true", {"nc": "1.2.3.4"},
                     rule="unknown_parameter", field="dryrun")
        self.refused("PUT", vm(230, "10.0.0.1") + "?wait=forever", {"nc": "1.2.3.4"},
                     field="wait")
        self.refused("GET", "/v1/status?x", rule="query_syntax")

    def test_trace_names_what_decides(self):
        self.tenant(240)
        self.tenant(241)
        self.expect("PUT", route(240, "10.0.0.0/8"), {"scope": "peer", "peer_vni": 241})
        self.expect("PUT", route(241, "10.0.0.0/16"), {"scope": "local"})
        self.expect("PUT", vm(241, "10.0.0.5"), {"nc": "172.16.5.5"})
        hops = self.expect("GET", "/v1/trace?vni=240&dst=10.0.0.5").json["hops"]
        self.assertEqual(hops[-1]["kind"], "forward")
        self.assertEqual((hops[-1]["outer_dst"], hops[-1]["vni"]), ("172.16.5.5", 241))
        hops = self.expect("GET", "/v1/trace?vni=240&dst=11.0.0.5").json["hops"]
        self.assertEqual(hops[-1]["kind"], "drop")
        self.refused("GET", "/v1/trace?vni=240", field="dst", rule="required")
        self.refused("GET", "/v1/trace?vni=240&dst=10.0.0.5&src=::1", field="src",
                     rule="family_mismatch")
        self.refused("GET", "/v1/trace?vni=240&dst=10.0.0.5&underlay=6",
                     field="underlay", rule="family")
        self.refused("GET", "/v1/trace?dst=10.0.0.5", field="vni", rule="required")
        self.refused("GET", "/v1/trace?vni=240&dst=nowhere", field="dst")


class Objects(Case):
    def test_region(self):
        self.refused("GET", "/v1/region", status=404)
        self.refused("PATCH", "/v1/region", {"name": "r"}, status=404)
        region = {"name": "r1", "icmp_source_v4": "192.0.2.1", "icmp_source_v6": "2001:db8::1",
                  "underlay_sources": ["172.16.0.0/12", "10.0.0.0/8", "172.16.0.0/12"]}
        self.expect("PUT", "/v1/region", region)
        got = self.expect("GET", "/v1/region").json
        self.assertEqual(got["underlay_sources"], ["10.0.0.0/8", "172.16.0.0/12"])
        self.assertEqual(self.expect("PUT", "/v1/region", got).json["unchanged"], 1)
        self.expect("PATCH", "/v1/region", {"underlay_sources": ["fd00::/8"],
                                            "icmp_source_v6": None})
        got = self.expect("GET", "/v1/region").json
        self.assertEqual(got["underlay_sources"], ["fd00::/8"])
        self.assertEqual((got.get("icmp_source_v6"), got["icmp_source_v4"]),
                         (None, "192.0.2.1"))
        for change, field in (({"icmp_source_v4": "2001:db8::1"}, "icmp_source_v4"),
                              ({"underlay_sources": ["10.0.0.1/8"]}, "underlay_sources[0]"),
                              ({"underlay_sources": [7]}, "underlay_sources[0]"),
                              ({"underlay_sources": "all"}, "underlay_sources"),
                              ({"underlay_sources": ["10.0.0.0/8"] * 1025},
                               "underlay_sources"),
                              ({"name": "9x"}, "name"), ({"name": "x" * 32}, "name"),
                              ({"nam": "x"}, "nam")):
            with self.subTest(change=str(change)[:60]):
                self.refused("PATCH", "/v1/region", change, field=field)

    def test_clusters_and_nodes(self):
        self.expect("PUT", "/v1/clusters/c1", {"vip_v4": "172.31.1.1"})
        got = self.expect("GET", "/v1/clusters/c1").json
        self.assertEqual((got["kind"], got["active_side"], got["vip_v4"]),
                         ("x86", "a", "172.31.1.1"))
        self.assertEqual(self.expect("PUT", "/v1/clusters/c1", got).json["unchanged"], 1)
        self.expect("PATCH", "/v1/clusters/c1", {"active_side": "b"})
        self.assertEqual(self.expect("GET", "/v1/clusters/c1").json["active_side"], "b")
        node = {"cluster": "c1", "side": "b", "vtep_v4": "172.31.2.1", "uplinks": [
            {"port": "eth0", "addr_v4": "172.16.9.1", "next_hop_v4": "172.16.9.254",
             "mac": "02:00:00:00:00:01", "mtu": 9000}]}
        self.expect("PUT", "/v1/nodes/n1", node)
        got = self.expect("GET", "/v1/nodes/n1").json
        self.assertEqual(got["uplinks"], node["uplinks"])
        self.assertEqual(got["status"]["state"], "offline"
                         if got["status"]["state"] == "offline" else "joining")
        self.assertEqual(self.expect("PUT", "/v1/nodes/n1", got).json["unchanged"], 1)
        self.expect("PATCH", "/v1/nodes/n1", {"vtep_v6": "fd00:2::1"})
        self.assertEqual(self.expect("GET", "/v1/nodes/n1").json["uplinks"],
                         node["uplinks"])
        self.refused("PUT", "/v1/nodes/n2", {**node, "cluster": "mars"}, field="cluster",
                     rule="unknown_cluster")
        self.refused("PUT", "/v1/nodes/n2", node, status=409, field="vtep_v4",
                     rule="address_in_use")
        for change, field in (({"mtu": 1279}, "mtu"), ({"mtu": 2**70}, None),
                              ({"mtu": 1500.5}, "mtu"), ({"mac": "x"}, "mac"),
                              ({"next_hop_v4": None}, "next_hop_v4"),
                              ({"port": 3}, "port"), ({"speed": 1}, "speed")):
            bad = {**node, "uplinks": [{**node["uplinks"][0], **change}]}
            with self.subTest(change=change):
                p = self.refused("PUT", "/v1/nodes/n1", bad)
                if field:
                    self.assertIn(field, p["field"])
        self.refused("DELETE", "/v1/clusters/c1", status=409, rule="cluster_in_use")
        self.refused("DELETE", "/v1/nodes/" + "n" * 64, field="name")
        self.refused("PUT", "/v1/clusters/" + "n" * 32, {"vip_v4": "172.31.1.9"},
                     field="name")
        self.refused("PUT", "/v1/clusters/c1", {"name": "c2", "vip_v4": "172.31.1.1"},
                     field="name", rule="name_differs")
        self.refused("PUT", "/v1/clusters/c9", {}, rule="address_needed")
        self.expect("DELETE", "/v1/nodes/n1")
        self.expect("DELETE", "/v1/nodes/n1")
        self.expect("DELETE", "/v1/clusters/c1")
        self.expect("GET", "/v1/clusters/c1", status=404)

    def test_lists_of_objects_have_pages(self):
        for i in range(5):
            self.expect("PUT", f"/v1/clusters/page-{i}", {"vip_v4": f"172.31.3.{i + 1}"})
        names, token = [], ""
        while token is not None:
            page = self.expect("GET", "/v1/clusters?pageSize=2" + (
                f"&pageToken={token}" if token else "")).json
            names += [c["name"] for c in page["items"]]
            token = page.get("next_page_token")
        self.assertEqual(names, sorted(names))
        self.assertEqual(len(names), len(set(names)))
        self.assertTrue({f"page-{i}" for i in range(5)} <= set(names))

    def test_a_wait_for_a_node_that_is_away_ends_with_its_name(self):
        self.expect("PUT", "/v1/clusters/w1", {"vip_v4": "172.31.4.1"})
        self.expect("PUT", "/v1/nodes/away", {"cluster": "w1", "vtep_v4": "172.31.4.2"})
        self.tenant(300, cluster="w1")
        a = self.expect("PUT", vm(300, "10.0.0.1") + "?wait=applied&waitMs=50",
                        {"nc": "1.2.3.4"}, status=202)
        self.assertEqual((a.json["state"], a.json["missing"]), ("pending", "away"))
        self.expect("GET", vm(300, "10.0.0.1"))
        # Somebody who hangs up while waiting harms nobody.
        for _ in range(20):
            s = socket.create_connection(("127.0.0.1", self.c.rest))
            body = b'{"nc":"1.2.3.9"}'
            s.sendall(b"PUT " + vm(300, "10.0.0.2").encode() +
                      b"?wait=applied&waitMs=400 HTTP/1.1\r\nHost: x\r\nContent-Length: %d"
                      b"\r\n\r\n%s" % (len(body), body))
            s.close()
        for _ in range(20):
            s = socket.create_connection(("127.0.0.1", self.c.rest))
            s.sendall(b"DELETE " + vm(300, "10.0.0.9").encode() +
                      b"?wait=applied&waitMs=400 HTTP/1.1\r\nHost: x\r\n\r\n")
            s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            s.close()
        self.expect("PUT", vm(300, "10.0.0.3") + "?wait=applied&waitMs=1000",
                    {"nc": "1.2.3.4"}, status=202)
        self.expect("GET", "/healthz")
        self.expect("DELETE", "/v1/nodes/away")


class Steering(Case):
    """Who steers from outside, and what it follows."""

    def test_table_of_steering_is_paged_and_says_its_revision(self):
        self.expect("PUT", "/v1/clusters/st-h", {
            "kind": "xgw-h", "backing": "x86-1", "vip_v4": "172.31.0.77"})
        for vni in (8101, 8102, 8103):
            self.tenant(vni, cluster="x86-2")
        self.tenant(8104, h_home="st-h")
        revision = self.expect("GET", "/v1/status").json["revision"]
        found, token = {}, None
        while True:
            page = self.expect("GET", "/v1/steering?pageSize=2" + (
                f"&pageToken={token}" if token else "")).json
            self.assertEqual(page["revision"], revision)
            self.assertLessEqual(len(page["items"]), 2)
            found.update({i.pop("vni"): i for i in page["items"]})
            token = page.get("next_page_token")
            if not token:
                break
        self.assertEqual(found[8101], {
            "cluster": "x86-2", "vip_v4": "172.31.0.2", "vip_v6": "fd00::2"})
        self.assertEqual(found[8103], found[8101])
        # The XGW-H home comes before the x86 one behind it.
        self.assertEqual(found[8104], {
            "cluster": "st-h", "vip_v4": "172.31.0.77", "vip_v6": None})
        self.assertEqual(self.expect("GET", "/v1/steering/8104").json,
                         {"vni": 8104, "revision": revision, **found[8104]})
        self.refused("GET", "/v1/steering/8199", status=404, rule="unknown_tenant")
        self.refused("GET", "/v1/steering/0", rule="vni_range")

    def test_a_consumer_is_registered_acknowledges_and_goes(self):
        self.expect("PUT", "/v1/consumers/vsc-1", {})
        c = self.expect("GET", "/v1/consumers/vsc-1").json
        self.assertEqual(c["status"], {"acknowledged_revision": 0, "last_seen": None,
                                       "awaited_seconds": 0, "awaited_by": []})
        revision = self.expect("GET", "/v1/steering").json["revision"]
        path = "/v1/consumers/vsc-1/ack"
        self.refused("POST", path, {"acknowledged_revision": revision + 1},
                     code="range", rule="revision_ahead", field="acknowledged_revision")
        a = self.expect("POST", path, {"acknowledged_revision": revision}).json
        self.assertEqual(a["status"]["acknowledged_revision"], revision)
        self.assertIsNotNone(a["status"]["last_seen"])
        # It is no change: who watches would be told of its own word for ever.
        self.assertEqual(self.expect("GET", "/v1/status").json["revision"], revision)
        self.refused("POST", path, {"acknowledged_revision": revision - 1},
                     code="range", rule="revision_backwards",
                     field="acknowledged_revision")
        self.refused("POST", path, {}, rule="required", field="acknowledged_revision")
        self.refused("POST", path, {"acknowledged_revision": "1"}, rule="number",
                     field="acknowledged_revision")
        self.refused("POST", path, {"revision": 1}, rule="unknown_field",
                     field="revision")
        self.refused("POST", "/v1/consumers/nobody/ack", {"acknowledged_revision": 1},
                     status=404, rule="unknown_consumer")
        self.refused("PUT", "/v1/consumers/vsc-1", {"name": "vsc-2"},
                     rule="name_differs", field="name")
        self.refused("PUT", "/v1/consumers/vsc-1", {"url": "x"}, rule="unknown_field",
                     field="url")
        names = [c["name"] for c in self.expect("GET", "/v1/consumers").json["items"]]
        self.assertEqual(names, ["vsc-1"])
        self.expect("DELETE", "/v1/consumers/vsc-1")
        self.assertEqual(self.expect("GET", "/v1/consumers").json["items"], [])
        self.expect("GET", "/v1/consumers/vsc-1", status=404)

    def test_a_move_is_told_to_go_on_without_consumers_with_who_and_why(self):
        self.tenant(8110)
        self.expect("PUT", "/v1/consumers/vsc-9", {})
        o = self.expect("POST", "/v1/tenants/8110/move", {"cluster": "x86-2"},
                        status=202).json
        self.assertEqual(o["awaits_consumers"], [])  # it has not steered yet
        path = f"/v1/operations/{o['id']}/proceed"
        self.refused("POST", path, {"without_consumers": True}, rule="required",
                     field="reason")
        self.refused("POST", path, {"reason": "r"}, rule="required",
                     field="without_consumers")
        self.refused("POST", path, {"without_consumers": True, "reason": "r" * 200},
                     rule="length", field="reason")
        o = self.expect("POST", path, {"without_consumers": True, "reason": "gone"},
                        status=202).json
        self.assertEqual(o["without_consumers"]["reason"], "gone")
        self.assertTrue(o["without_consumers"]["who"])
        self.refused("POST", path, {"without_consumers": True, "reason": "again"},
                     status=409, rule="waits_for_no_consumer", field="id")
        self.expect("POST", f"/v1/operations/{o['id']}/cancel", status=202)
        self.expect("DELETE", "/v1/consumers/vsc-9")


class Http(Case):
    def raw(self, data):
        """All that comes back until the server closes."""
        with socket.create_connection(("127.0.0.1", self.c.rest), timeout=30) as s:
            s.sendall(data)
            out = b""
            while got := s.recv(65536):
                out += got
            return out

    def test_malformed_bodies_change_nothing(self):
        self.tenant(400)
        bodies = [b"", b"{", b"[]", b"null", b"7", b'"x"', b"{}x", b"{'cluster':1}",
                  b'{"cluster":"x86-1","cluster":"x86-2"}', b'\xff\xfe{"cluster":"x86-1"}',
                  b'{"cluster":"x86\xc3\x28"}', b'{"cluster":"x86-1\\u0000"}',
                  b'{"cluster":"\\ud800"}', b"{" * 100000, b'{"a":' * 5000 + b"1" + b"}" * 5000,
                  b'{"vni":1' + b"0" * 400 + b"}", b'{"cluster":"x86-1","vni":400.0}',
                  b'{"cluster":"x86-1"' + b" " * 5000 + b',"name":"' + b"n" * 2000 + b'"}',
                  b'{"cluster":{"a":1}}', b'{"cluster":["x86-1"]}', b'{"cluster":false}',
                  b'{"table":"vm_nc","cluster":"x86-1"}', bytes(range(256))]
        for body in bodies:
            for method in ("PUT", "PATCH"):
                if method == "PATCH" and body == b"{}":
                    continue
                with self.subTest(method=method, body=body[:50]):
                    self.refused(method, "/v1/tenants/400", body)
            for path in ("/v1/region", "/v1/clusters/c", "/v1/nodes/n", vm(400, "10.0.0.1"),
                         route(400, "10.0.0.0/8"), "/v1/entries"):
                with self.subTest(path=path, body=body[:50]):
                    self.refused("POST" if path == "/v1/entries" else "PUT", path, body)
        lines = ndjson([{"table": "vm_nc", "vni": 400, "vm": f"10.0.{i >> 8}.{i & 255}",
                         "nc": "1.2.3.4"} for i in range(1, 10002)])
        self.refused("POST", "/v1/entries", lines, rule="batch_size", line=10001)
        good = lines.split("\n")[0]
        for bad, line in ((good + "\n\n" + good, 2), (good + "\n" + good[:-1], 2),
                          (good + "\n" + good.replace("}", "} x"), 2),
                          (good[:-1] + ',"op":"burn"}', 1)):
            self.refused("POST", "/v1/entries", bad, line=line)

    def refusal(self, data, status, rule):
        """`data` is answered once, with problem details, and the connection closed."""
        head, _, body = self.raw(data).partition(b"\r\n\r\n")
        lines = head.split(b"\r\n")
        headers = dict(line.split(b": ", 1) for line in lines[1:])
        self.assertRegex(lines[0], rb"^HTTP/1\.1 %d [A-Z][A-Za-z ]+$" % status)
        self.assertEqual(headers[b"Content-Type"], b"application/problem+json")
        self.assertEqual(headers[b"Connection"], b"close")
        self.assertEqual(int(headers[b"Content-Length"]), len(body), body)
        problem = json.loads(body)
        jsonschema.validate(problem, PROBLEM)
        self.assertEqual((problem["status"], problem.get("rule")), (status, rule))

    def test_a_body_over_the_limit_is_413(self):
        before = self.state()
        post = b"POST /v1/entries HTTP/1.1\r\nHost: x\r\n"
        self.refusal(post + b"Content-Length: 4194305\r\n\r\n", 413, "body_size")
        self.refusal(post + b"Content-Length: 4194305\r\nExpect: 100-continue\r\n\r\n", 413,
                     "body_size")
        # One that sends all of it before it looks is not cut off.
        self.refusal(post + b"Content-Length: 16777216\r\n\r\n" + b" " * 16777216, 413,
                     "body_size")
        chunk = b"100000\r\n" + b" " * 0x100000 + b"\r\n"
        self.refusal(post + b"Transfer-Encoding: chunked\r\n\r\n" + chunk * 8, 413,
                     "body_size")
        self.refusal(post + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n", 413, "body_size")
        # Behind a good one, on the same connection.
        out = self.raw(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n" + post
                       + b"Content-Length: 4194305\r\n\r\n")
        self.assertEqual([out.count(b) for b in (b"HTTP/1.1 200 OK", b"HTTP/1.1 413 ", b"HTML")],
                         [1, 1, 0], out)
        self.assertEqual(self.state(), before)

    def test_go_on_is_said_before_the_body_and_the_answer_after(self):
        with socket.create_connection(("127.0.0.1", self.c.rest), timeout=20) as s:
            s.sendall(b"PUT /v1/tenants/401 HTTP/1.1\r\nHost: x\r\nContent-Length: 19\r\n"
                      b"Expect: 100-continue\r\n\r\n")
            self.assertEqual(s.recv(1000), b"HTTP/1.1 100 Continue\r\n\r\n")
            s.sendall(b'{"cluster":"x86-1"}')
            self.assertTrue(s.recv(1000).startswith(b"HTTP/1.1 200 OK\r\n"))

    def test_what_is_no_http_is_told_so(self):
        put = b"PUT /v1/tenants/1 HTTP/1.1\r\n"
        for data in (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"\0", b"\0" * 100,
                     b"\xff" * 1000000, b"\r\n\r\n", b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n",
                     b"GET /" + b"a" * 40000 + b" HTTP/1.1\r\n\r\n", b"GET /" + b"a" * 40000,
                     b"GET / HTTP/1.1\r\n" + b"X: " + b"y" * 40000 + b"\r\n\r\n",
                     b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 10000,
                     b"GET / HTTP/1.1\r\nnocolon\r\n\r\n",
                     put + b"Content-Length: -5\r\n\r\n", put + b"Content-Length: x\r\n\r\n",
                     b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"):
            with self.subTest(data=data[:60]):
                self.refusal(data, 400, "http_syntax")
        self.refusal(b"FOO /v1/status HTTP/1.1\r\n\r\n", 501, None)
        self.refusal(b"get /v1/status HTTP/1.1\r\n\r\n", 501, None)
        self.refusal(put + b"Content-Length: 2\r\nExpect: 200-maybe\r\n\r\n{}", 417,
                     "expectation")
        self.expect("GET", "/healthz")

    def test_refusals_leave_nothing_behind(self):
        def resident():
            text = pathlib.Path(f"/proc/{self.c.process.pid}/status").read_text()
            return int(text.split("VmRSS:")[1].split()[0])

        def refuse(n):
            for _ in range(n):
                self.refusal(b"POST / HTTP/1.1\r\nContent-Length: 4194305\r\n\r\n"
                             + b" " * 500000, 413, "body_size")
        refuse(20)
        before = resident()
        refuse(100)  # 50 MB were sent
        self.assertLess(resident() - before, 20 * 1024)
        # Nor does one that never ends hold a connection for ever.
        with socket.create_connection(("127.0.0.1", self.c.rest), timeout=60) as s:
            s.sendall(b"POST / HTTP/1.1\r\nContent-Length: 4194305\r\n\r\n")
            with self.assertRaises(OSError):
                while True:
                    s.sendall(b" " * 65536)

    def test_half_of_http_ends_the_connection_only(self):
        for data in (b"G", b"GET / HTTP/1.1\r\n", b"GET /%zz%00 HTTP/1.1\r\n\r\n", b"\0",
                     b"GET http:// HTTP/1.1\r\n\r\n",
                     b"OPTIONS * HTTP/1.1\r\n\r\n", b"FOO /v1/status HTTP/1.1\r\n\r\n"):
            with self.subTest(data=data[:60]):
                with socket.create_connection(("127.0.0.1", self.c.rest), timeout=10) as s:
                    s.sendall(data)
                    s.shutdown(socket.SHUT_WR)
                    try:
                        while s.recv(65536):
                            pass
                    except ConnectionResetError:
                        pass
                self.expect("GET", "/healthz")

    def test_a_path_takes_its_methods_and_says_which(self):
        a = self.expect("DELETE", "/v1/status", status=405)
        self.assertEqual(a.headers["Allow"], "GET, HEAD")
        self.assertEqual(a.json["code"], "method")
        a = self.expect("POST", "/v1/clusters/c", b"{}", status=405)
        self.assertEqual(a.headers["Allow"], "GET, HEAD, PUT, PATCH, DELETE")
        for path in ("/", "/v1", "/v1/", "/v1/tenants/", "/v1/tenants/1/", "/v1/tenant",
                     "/v1/tenants/1/routes/", "//v1/status", "/v1/status/", "/v1/../v1/status",
                     "/v1/tenants/%00", "/v1/clusters/%ff", "/v1/clusters/a%0ab",
                     "/v1/clusters/%zz", "/v1/clusters/" + "a" * 200):
            with self.subTest(path=path):
                self.refused("GET", path, status=404)

    def test_head_is_get_without_the_body(self):
        c = self.c.connect()
        for path in ("/v1/status", "/healthz", "/v1/nowhere", "/v1/clusters/x86-1"):
            head = self.c.request("HEAD", path, connection=c)
            get = self.c.request("GET", path, connection=c)  # the same connection is sound
            self.assertEqual(head.status, get.status)
            self.assertEqual(head.body, b"")
            self.assertEqual(head.headers["Content-Length"], str(len(get.body)))
            self.assertEqual(head.headers["ETag"], get.headers["ETag"])
        c.close()

    def test_requests_on_one_connection_are_answered_in_order(self):
        self.tenant(410)
        put = b'{"nc":"1.2.3.%d"}'
        data = b""
        for i in range(1, 51):
            body = put % i
            data += (b"PUT " + vm(410, "10.0.0.1").encode() + b" HTTP/1.1\r\nHost: x\r\n"
                     b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
            data += b"GET " + vm(410, "10.0.0.1").encode() + b" HTTP/1.1\r\nHost: x\r\n\r\n"
        data += b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
        out = self.raw(data)
        seen = [part.split(b'"')[0] for part in out.split(b'"nc":"')[1:]]
        self.assertEqual(seen, [b"1.2.3.%d" % i for i in range(1, 51)])
        self.assertTrue(out.endswith(b"ok\n"))

    def test_a_body_where_none_belongs_is_no_second_request(self):
        before = self.state()
        hidden = b"DELETE /v1/clusters/x86-2 HTTP/1.1\r\nHost: x\r\n\r\n"
        for method in (b"GET", b"DELETE"):
            out = self.raw(method + b" /v1/tenants/9 HTTP/1.1\r\nHost: x\r\nContent-Length: "
                           + str(len(hidden)).encode() + b"\r\n\r\n" + hidden)
            self.assertEqual(out.count(b"HTTP/1.1 "), 1, out)
            self.assertIn(b" 400 ", out.split(b"\r\n")[0])
        self.assertEqual(self.state(), before)

    def test_pages_of_other_sites_are_refused(self):
        host = f"127.0.0.1:{self.c.rest}"
        self.refused("PUT", "/v1/clusters/x86-1", {"vip_v4": "1.2.3.4"}, status=403,
                     rule="origin", headers={"Origin": "https://evil.example"})
        self.refused("GET", "/v1/status", status=403, rule="origin",
                     headers={"Origin": "http://evil.example", "Host": "evil.example"})
        self.expect("GET", "/v1/status", headers={"Origin": f"http://{host}", "Host": host})

    def test_metrics_are_in_prometheus_format(self):
        self.tenant(420)
        a = self.expect("GET", "/metrics")
        self.assertTrue(a.headers["Content-Type"].startswith("text/plain; version=0.0.4"))
        samples = check_metrics(a.body.decode())
        self.assertEqual(samples["xgw_ready"], 1)
        self.assertGreaterEqual(samples['xgw_entries{table="tenant"}'], 1)
        if shutil.which("promtool"):
            done = subprocess.run(["promtool", "check", "metrics"], input=a.body,
                                  capture_output=True)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_health_answers_under_load(self):
        self.tenant(430)
        stop = threading.Event()
        written = [0] * 4

        def load(n):
            c = self.c.connect()
            i = 0
            while not stop.is_set():
                i += 1
                self.c.request("POST", "/v1/entries", ndjson(
                    [{"table": "vm_nc", "vni": 430, "vm": f"10.{n}.{i % 250}.{k}",
                      "nc": f"1.2.3.{i % 200 + 1}"} for k in range(1, 200)]), connection=c)
                written[n] = i
            c.close()
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            jobs = [pool.submit(load, n) for n in range(4)]
            try:
                rounds = 0
                while rounds < 100 or min(written) < 3:  # beside all writers
                    self.expect("GET", "/healthz")
                    self.expect("GET", "/readyz")
                    rounds += 1
            finally:
                stop.set()
            for job in jobs:
                job.result()

    def test_too_many_connections_are_closed_and_the_rest_serve_on(self):
        many = []
        try:
            for _ in range(600):
                many.append(socket.create_connection(("127.0.0.1", self.c.rest)))
            ended = 0
            end = time.monotonic() + 20
            for s in many:
                s.settimeout(0.001)
            while ended < 80 and time.monotonic() < end:
                for s in many[:]:
                    try:
                        if s.recv(1) == b"":
                            ended += 1
                            many.remove(s)
                            s.close()
                    except (TimeoutError, BlockingIOError):
                        pass
                    except ConnectionResetError:
                        ended += 1
                        many.remove(s)
            self.assertGreaterEqual(ended, 80)
        finally:
            for s in many:
                s.close()
        end = time.monotonic() + 20
        while time.monotonic() < end:
            try:
                if self.c.request("GET", "/healthz").status == 200:
                    return
            except OSError:
                pass
        self.fail("no connection is taken any more")


class Tokens(Case):
    options = {"tls": True, "tokens": TOKENS}

    def test_roles(self):
        def status(token, method, path, body=None):
            headers = {"Authorization": f"Bearer {token}"} if token else {
                "Authorization": ""}
            return self.c.request(method, path, body, headers=headers).status
        tenant, cluster = "/v1/tenants/500", "/v1/clusters/x86-3"
        home, vip = {"cluster": "x86-1"}, {"vip_v4": "172.31.0.3"}
        for token in (None, "", "wrong-token-00000", ADMIN + "x", ADMIN[:-1], "x" * 5000):
            self.assertEqual(status(token, "GET", "/v1/status"), 401)
            self.assertEqual(status(token, "PUT", tenant, home), 401)
            self.assertEqual(status(token, "GET", "/healthz"), 200)
        self.assertEqual(status(VIEWER, "GET", "/v1/status"), 200)
        self.assertEqual(status(VIEWER, "PUT", tenant, home), 403)
        self.assertEqual(status(VIEWER, "POST", "/v1/entries", b""), 403)
        self.assertEqual(status(OPERATOR, "PUT", tenant, home), 200)
        self.assertEqual(status(OPERATOR, "PUT", cluster, vip), 403)
        self.assertEqual(status(OPERATOR, "PATCH", "/v1/region", {}), 403)
        self.assertEqual(status(ADMIN, "PUT", cluster, vip), 200)
        self.assertEqual(status(ADMIN, "DELETE", cluster), 200)
        a = self.c.request("GET", "/v1/status", headers={"Authorization": "Basic eDp5"})
        self.assertEqual((a.status, a.headers["WWW-Authenticate"]), (401, "Bearer"))

    def test_plain_http_and_old_tls_get_nothing(self):
        with socket.create_connection(("127.0.0.1", self.c.rest), timeout=10) as s:
            s.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
            try:
                self.assertNotIn(b"200 OK", s.recv(1000))
            except ConnectionResetError:
                pass
        old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        old.check_hostname, old.verify_mode = False, ssl.CERT_NONE
        old.set_ciphers("ALL:@SECLEVEL=0")
        old.minimum_version = ssl.TLSVersion.TLSv1
        old.maximum_version = ssl.TLSVersion.TLSv1_1
        with self.assertRaises(OSError):
            with socket.create_connection(("127.0.0.1", self.c.rest), timeout=10) as s:
                old.wrap_socket(s)
        self.expect("GET", "/healthz")

    def test_what_is_no_request_is_told_so_over_tls_as_well(self):
        post = b"POST /v1/entries HTTP/1.1\r\nHost: x\r\nContent-Length: "
        for data, status in ((b"\x05\x01\x00", 400), (post + b"4194305\r\n\r\n", 413),
                             (post + b"8388608\r\n\r\n" + b" " * 8388608, 413)):
            with self.subTest(data=data[:60]):
                with socket.create_connection(("127.0.0.1", self.c.rest), timeout=30) as s:
                    with self.c.context.wrap_socket(s, server_hostname="127.0.0.1",
                                                    suppress_ragged_eofs=True) as t:
                        t.sendall(data)
                        out = b""
                        while got := t.recv(65536):
                            out += got
                head, _, body = out.partition(b"\r\n\r\n")
                self.assertEqual(head.split()[1], b"%d" % status)
                self.assertEqual(json.loads(body)["status"], status)

    def test_a_replaced_certificate_serves_new_connections(self):
        def serial():
            with socket.create_connection(("127.0.0.1", self.c.rest), timeout=10) as s:
                context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
                context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
                with context.wrap_socket(s) as t:
                    return t.getpeercert(True)
        old = serial()
        (pathlib.Path(self.folder) / "server.key").write_text("broken")
        self.assertEqual(serial(), old)  # a broken pair is not taken
        make_certificates(pathlib.Path(self.folder))
        self.c.context = ssl.create_default_context(cafile=f"{self.folder}/ca.crt")
        self.assertNotEqual(serial(), old)
        self.expect("GET", "/healthz")


class Restart(unittest.TestCase):
    def test_a_restart_keeps_everything(self):
        with tempfile.TemporaryDirectory() as folder:
            c = Controller(PROGRAM, folder).start()
            reads = ("/v1/region", "/v1/clusters", "/v1/nodes", "/v1/tenants",
                     "/v1/tenants/600/routes?pageSize=1000", "/v1/tenants/600/vms")

            def put(path, body):
                a = c.request("PUT", path, body)
                self.assertEqual(a.status, 200, a)
            put("/v1/region", {"name": "r", "underlay_sources": ["10.0.0.0/8"]})
            put("/v1/clusters/k", {"vip_v4": "172.31.0.1"})
            put("/v1/nodes/n", {"cluster": "k", "vtep_v4": "172.31.0.2"})
            put("/v1/tenants/600?requestId=once", {"cluster": "k", "name": "n"})
            put(route(600, "2001:db8::/32"), {"scope": "internet"})
            put(vm(600, "10.0.0.1"), {"nc": "1.2.3.4"})
            before = [c.request("GET", path).json for path in reads]
            status = c.request("GET", "/v1/status").json
            for how in (c.stop, c.kill):
                how()
                c.start()
                after = [c.request("GET", path).json for path in reads]
                for a in before + after:
                    for item in a.get("items", []):
                        item.pop("revision", None)  # may be that of the start
                        item.pop("status", None)
                self.assertEqual(after, before)
                now = c.request("GET", "/v1/status").json
                self.assertEqual(now["tables"], status["tables"])
                self.assertGreater(now["term"], status["term"])
                again = c.request("PUT", "/v1/tenants/600?requestId=once",
                                  {"cluster": "k", "name": "other"}).json
                self.assertTrue(again["repeated"])
                status = now
            c.stop()

    def test_settings_that_make_no_sense_are_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            bad = pathlib.Path(folder) / "tokens"
            cases = [["--plain-text", "--rest-listen", "0.0.0.0:1"],
                     ["--plain-text", "--grpc-listen", "127.evil.example:1"],
                     ["--plain-text", "--rest-listen", "127.0.0.1"], [],
                     ["--plain-text", "--rest-listen", "127.0.0.1:99999"],
                     ["--plain-text", "--tokens", folder + "/none"],
                     ["--plain-text", "--tokens", str(bad)],
                     ["--plain-text", "--nonsense"]]
            bad.write_text("short viewer x\n")
            bad.chmod(0o600)
            for args in cases:
                with self.subTest(args=args):
                    done = subprocess.run([PROGRAM, "--store", folder + "/x.db", *args],
                                          capture_output=True, timeout=30)
                    self.assertIn(done.returncode, (1, 2))
                    self.assertTrue(done.stderr)


if __name__ == "__main__":
    PROGRAM = os.path.abspath(sys.argv.pop(1))
    # What the sanitizer keeps back is no growth.
    os.environ["ASAN_OPTIONS"] = os.environ.get("ASAN_OPTIONS", "") + ":quarantine_size_mb=8"
    unittest.main(verbosity=2)
