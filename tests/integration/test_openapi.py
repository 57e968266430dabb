#!/usr/bin/python3
"""The API's description against its behaviour.

    test_openapi.py XGW_CONTROLLER [unittest arguments]

The running controller is the witness: every method of every documented path is there
(no 404 for the path, no 405), every other method is 405 with the documented ones in
Allow, and each answer is one of the documented ones by status, type and schema.
The table in controller/api/rest_routes.c names the same paths and methods.
"""
import json
import os
import re
import shutil
import sys
import tempfile
import unittest
from urllib.parse import quote, urlencode

import jsonschema
import yaml

from controller_rig import ROOT, Controller, ndjson

PROGRAM = None
PAGE = yaml.safe_load((ROOT / "proto/api/openapi.yaml").read_text())
METHODS = ("get", "put", "patch", "post", "delete")
# No alarm stands here, so {alarm} names none.
VALUES = {"audit": "17", "probes": "17", "vni": "700", "name": "api-1", "prefix": "10.0.0.0/24", "vm": "10.0.0.5",
          "rule": "1000,10.0.0.0/8,0.0.0.0/0,tcp,,443", "id": "op-0", "alarm": "1"}
BODIES = {
    ("post", "/v1/audits"): {"cluster": "k", "repair": False},
    ("post", "/v1/probes"): {"cluster": "k"},
    ("put", "/v1/region"): {"name": "r", "icmp_source_v4": "192.0.2.1"},
    ("patch", "/v1/region"): {"underlay_sources": ["10.0.0.0/8"]},
    ("put", "/v1/clusters/{name}"): {"vip_v4": "172.31.9.1"},
    ("patch", "/v1/clusters/{name}"): {"active_side": "a"},
    ("post", "/v1/clusters/{name}/build"): {"tenants": [700]},
    ("post", "/v1/clusters/{name}/drain"): {},
    ("post", "/v1/clusters/{name}/retire"): {},
    ("put", "/v1/nodes/{name}"): {"cluster": "k", "vtep_v4": "172.31.9.2"},
    ("patch", "/v1/nodes/{name}"): {"side": "a"},
    ("put", "/v1/tenants/{vni}"): {"cluster": "k", "h_home": "h", "name": "n",
                                   "flags": ["inner_vlan"]},
    ("patch", "/v1/tenants/{vni}"): {"name": "m"},
    ("put", "/v1/tenants/{vni}/routes/{prefix}"): {"scope": "local"},
    ("put", "/v1/tenants/{vni}/vms/{vm}"): {"nc": "172.16.1.1"},
    ("put", "/v1/tenants/{vni}/acl/{rule}"): {"action": "permit"},
    ("put", "/v1/tenants/{vni}/meter"): {"committed_bps": 1, "peak_bps": 2,
                                         "committed_burst": 9600, "peak_burst": 9600},
    ("put", "/v1/policy"): {"services": {"idc": "xgw-x86"}},
    ("patch", "/v1/policy"): {"services": {"idc": None, "service:dns": "xgw-x86"}},
    ("post", "/v1/tenants/{vni}/move"): {"cluster": "h2", "drain_ms": 0},
    ("put", "/v1/festivals/{name}"): {"starts": 4000000000, "ends": 4000086400},
    ("patch", "/v1/festivals/{name}"): {"growth_percent": 150, "tenants": [700]},
    ("put", "/v1/consumers/{name}"): {},
    ("post", "/v1/consumers/{name}/ack"): {"acknowledged_revision": 1},
    ("post", "/v1/operations/{id}/proceed"): {"without_consumers": True,
                                              "reason": "a test"},
    ("put", "/v1/levels"): {"x86": {"sale": 60, "drop_rate": 1e-6}},
    ("patch", "/v1/levels"): {"x86": {"sale": 65.5}, "xgw-h": None},
    ("post", "/v1/entries"): ndjson([{"table": "vm_nc", "vni": 700, "vm": "10.0.0.6",
                                      "nc": "172.16.1.1"}]),
}
# Clusters that a build, a drain and a retirement find as they need them.
WORKS = {"/v1/clusters/{name}/build": "new", "/v1/clusters/{name}/drain": "old",
         "/v1/clusters/{name}/retire": "empty"}
QUERIES = {"/v1/trace": {"vni": 700, "dst": "10.0.0.5"},
           "/v1/usage": {"subject": "node/api-1"},
           "/v1/history": {"subject": "node/api-1", "resource": "memory"}}


def resolve(node):
    while isinstance(node, dict) and "$ref" in node:
        at = PAGE
        for word in node["$ref"][2:].split("/"):
            at = at[word]
        node = at
    return node


def operations():
    for path, item in PAGE["paths"].items():
        for method in METHODS:
            if method in item:
                yield method, path, item[method]


def parameters(path, operation):
    item = PAGE["paths"][path]
    return [resolve(p) for p in item.get("parameters", []) + operation.get("parameters", [])]


def validate(schema, value):
    jsonschema.Draft202012Validator({**schema, "components": PAGE["components"]}).validate(
        value)


class Openapi(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="xgw-openapi-")
        cls.c = Controller(PROGRAM, cls.folder).start()
        assert cls.c.request("PUT", "/v1/clusters/k", {"vip_v4": "172.31.0.1"}).status == 200
        assert cls.c.request("PUT", "/v1/clusters/h", {
            "kind": "xgw-h", "vip_v4": "172.31.0.2", "backing": "k"}).status == 200
        for last, name in enumerate(WORKS.values(), 10):
            assert cls.c.request("PUT", "/v1/clusters/" + name, {
                "vip_v4": f"172.31.0.{last}",
                "state": "planned" if name == "new" else "serving"}).status == 200
        assert cls.c.request("PUT", "/v1/clusters/h2", {
            "kind": "xgw-h", "vip_v4": "172.31.0.3", "backing": "k"}).status == 200

    @classmethod
    def tearDownClass(cls):
        cls.c.stop()
        shutil.rmtree(cls.folder)

    def call(self, method, path, body=None, query=None, headers=None):
        url = re.sub(r"\{(\w+)\}",
                     lambda m: quote(WORKS.get(path, VALUES[m.group(1)]), safe=""), path)
        query = {**QUERIES.get(path, {}), **(query or {})}
        if query:
            url += "?" + urlencode(query)
        return self.c.request(method.upper(), url, body, headers)

    def check(self, method, path, answer):
        """`answer` is one that the operation documents."""
        responses = PAGE["paths"][path][method]["responses"]
        response = resolve(responses.get(str(answer.status), responses.get("default")))
        kind = answer.headers["Content-Type"].split(";")[0]
        self.assertIn(kind, response["content"], (method, path, answer))
        if str(answer.status) not in responses:
            self.assertGreaterEqual(answer.status, 400, (method, path, answer))
        schema = response["content"][kind]["schema"]
        validate(schema, answer.body.decode() if kind == "text/plain" else answer.json)
        for header in response.get("headers", {}):
            if header in answer.headers:
                validate(resolve(response["headers"][header])["schema"],
                         answer.headers[header])

    def test_served_page_is_this_one(self):
        self.assertEqual(self.c.request("GET", "/openapi.json").json, PAGE)

    def test_table_and_page_name_the_same(self):
        text = (ROOT / "controller/api/rest_routes.c").read_text()
        table = set(re.findall(r'\{ EVHTTP_REQ_(\w+),\s*"([^"]+)"', text))
        self.assertEqual(table, {(m.upper(), p) for m, p, _ in operations()})

    def test_path_parameters_are_described(self):
        for method, path, operation in operations():
            found = {p["name"] for p in parameters(path, operation) if p["in"] == "path"}
            self.assertEqual(found, set(re.findall(r"\{(\w+)\}", path)), path)
        ids = [o["operationId"] for _, _, o in operations()]
        self.assertEqual(len(ids), len(set(ids)))

    def test_examples_keep_to_their_schemas(self):
        for schema_name, schema in PAGE["components"]["schemas"].items():
            for example in schema.get("examples", []):
                with self.subTest(schema=schema_name):
                    validate(schema, example)

    def test_every_operation_answers_as_documented(self):
        # In an order in which each finds what it needs.
        order = {"put": 0, "post": 1, "patch": 2, "get": 3}
        deep = {"delete": -1}
        todo = sorted(operations(), key=lambda o: (
            order.get(o[0], 4), deep.get(o[0], 1) * o[1].count("/")))
        for method, path, operation in todo:
            with self.subTest(method=method, path=path):
                a = self.call(method, path, BODIES.get((method, path)),
                              {"confirm": "true"} if method == "delete" else None)
                wanted = 200
                if method == "post" and operation["tags"] in (["operations"], ["audits"], ["probes"]):
                    wanted = 202
                if "{alarm}" in path or "{audit}" in path or "{probes}" in path:
                    wanted = 404
                self.assertEqual(a.status, wanted,
                                 (method, path, a))
                self.check(method, path, a)
                if path.endswith("/move"):
                    VALUES["id"] = a.json["id"]
        # Now nothing is left but the region and the cluster k: what fails, too.
        for method, path, operation in operations():
            with self.subTest(method=method, path=path, empty=True):
                self.check(method, path, self.call(method, path, "{"))
                self.check(method, path, self.call(method, path))
                if method != "get":
                    self.check(method, path, self.call(
                        method, path, BODIES.get((method, path)),
                        headers={"If-Match": '"1"'}))

    def test_documented_parameters_are_taken_and_others_are_not(self):
        good = {"requestId": "r-1", "dryRun": "true", "confirm": "false", "wait": "none",
                "waitMs": "5", "pageSize": "5", "pageToken": "000000", "createOnly": "false",
                "vni": "700", "dst": "10.0.0.1", "src": "10.0.0.2"}
        for method, path, operation in operations():
            names = [p["name"] for p in parameters(path, operation) if p["in"] == "query"]
            for parameter in good:
                query = {parameter: good[parameter]}
                if method != "get" and parameter != "dryRun" and "dryRun" in names:
                    query["dryRun"] = "true"
                a = self.call(method, path, BODIES.get((method, path)), query=query)
                with self.subTest(method=method, path=path, parameter=parameter):
                    rule = a.json.get("rule") if a.status == 400 else None
                    if parameter in names:
                        self.assertNotEqual(rule, "unknown_parameter")
                    else:
                        self.assertEqual((rule, a.json["field"]),
                                         ("unknown_parameter", parameter))
                    self.check(method, path, a)

    def test_undocumented_methods_are_405_and_paths_404(self):
        for path, item in PAGE["paths"].items():
            documented = {m.upper() for m in METHODS if m in item}
            if "GET" in documented:
                documented.add("HEAD")
            for method in ("GET", "HEAD", "PUT", "PATCH", "POST", "DELETE", "OPTIONS"):
                if method in documented:
                    continue
                with self.subTest(method=method, path=path):
                    a = self.call(method, path,
                                  "{}" if method in ("PUT", "PATCH", "POST") else None)
                    self.assertEqual(a.status, 405)
                    self.assertEqual(set(a.headers["Allow"].split(", ")), documented)
                    if method != "HEAD":
                        validate(PAGE["components"]["schemas"]["Problem"], a.json)
            self.assertEqual(self.call("get", path + "/a/b").status, 404, path)

    def test_every_number_says_what_it_counts(self):
        """By a description, or by its name as `info` says; a word in the plural counts."""
        units = re.compile(r"(^|_)(bps|pps|bp|bytes|ms|seconds|percent|share|vni|revision|count"
                           r"|number|port|term|status)$|s$")
        counts = {"added", "changed", "deleted", "unchanged", "online", "in_sync",
                  "vxlan_route", "vm_nc", "fullest_percent_after", "sport", "dport", "mtu"}
        bare = []

        def look(node, path):
            if isinstance(node, list):
                for x in node:
                    look(x, path)
            elif isinstance(node, dict):
                properties = node.get("properties")
                for name, x in (properties if isinstance(properties, dict) else {}).items():
                    kind = x.get("type")
                    kinds = kind if isinstance(kind, list) else [kind]
                    if {"integer", "number"} & set(kinds) and "description" not in x \
                            and not units.search(name) and name not in counts:
                        bare.append(f"{path}.{name}")
                for name, x in node.items():
                    look(x, f"{path}/{name}")
        look(PAGE["components"]["schemas"], "")
        self.assertEqual(bare, [])

    def test_every_rule_of_the_code_is_listed(self):
        listed = set(PAGE["components"]["schemas"]["Problem"]["properties"]["rule"]["enum"])
        call = re.compile(r'(?:err_field\(\s*[^,]+,\s*(?:RC_\w+|rc),\s*'
                          r'(?:"[^"]*"|[^,"]+),\s*)"(\w+)"')
        other = re.compile(r'fail\((?:&?m), (?:"[^"]*"|\w+), "(\w+)"')
        refuse = re.compile(r'refuse(?:_and_close)?\(\s*r,\s*\d+,\s*"\w+",\s*"(\w+)"')
        used = set()
        for folder in ("controller/api", "controller/core", "proto/model", "proto/base"):
            for file in (ROOT / folder).glob("*.c"):
                if file.name.startswith(("config", "auth", "agent_")):
                    continue
                for pattern in (call, other, refuse):
                    used |= set(pattern.findall(file.read_text()))
        self.assertGreater(len(used), 40)
        elsewhere = {"column_count", "csv_syntax",  # CSV files
                     "compacted", "protobuf", "line_order",  # gRPC
                     "certificate", "address"}  # settings
        self.assertEqual(used - listed - elsewhere, set())


if __name__ == "__main__":
    PROGRAM = os.path.abspath(sys.argv.pop(1))
    unittest.main(verbosity=1)
