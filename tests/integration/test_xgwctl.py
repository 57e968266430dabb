#!/usr/bin/python3
"""xgwctl against a real controller: what it prints, what it leaves behind, how it ends.

    test_xgwctl.py XGWCTL XGW_CONTROLLER

Exit codes are those that `xgwctl --help` promises.
"""
import http.server
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
REGION = ROOT / "deploy/region.yaml"
XGWCTL = CONTROLLER = None
OK, FAILED, USAGE, NOT_FOUND, NOT_APPLIED, UNREACHABLE, DENIED, REFUSED = range(8)
TOKENS = {"admin": "0123456789abcdef-admin", "viewer": "0123456789abcdef-viewer"}


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def wait_for(claim, seconds=30):
    deadline = time.monotonic() + seconds
    while not claim():
        if time.monotonic() > deadline:
            raise AssertionError("not within %d s" % seconds)
        time.sleep(0.02)  # between two looks


class Controller:
    def __init__(self, folder):
        self.folder, self.process = folder, None
        self.rest, self.grpc = free_port(), free_port()

    def start(self):
        log = open(self.folder / "controller.log", "ab")
        self.process = subprocess.Popen(
            [CONTROLLER, "--store", self.folder / "region.db", "--plain-text",
             "--rest-listen", "127.0.0.1:%d" % self.rest,
             "--grpc-listen", "127.0.0.1:%d" % self.grpc] + self.options(),
            stdout=log, stderr=log)
        log.close()
        wait_for(lambda: self.alive() and ctl(self, "health").returncode == OK)
        return self

    def options(self):
        tokens = self.folder / "tokens"
        return ["--tokens", tokens] if tokens.exists() else []

    def alive(self):
        code = self.process.poll()
        assert code is None, "the controller ended: %s" % code
        return True

    def kill(self):
        if self.process and self.process.poll() is None:
            self.process.kill()
        if self.process:
            self.process.wait()


def command(controller, *words):
    return [XGWCTL, "--server", "http://127.0.0.1:%d" % controller.rest,
            "--grpc", "127.0.0.1:%d" % controller.grpc, *map(str, words)]


def environment():
    keep = {k: v for k, v in os.environ.items() if not k.startswith(("XGWCTL_", "XDG_"))}
    return {**keep, "HOME": "/nonexistent"}


def ctl(controller, *words, stdin=None):
    return subprocess.run(command(controller, *words), input=stdin, text=True,
                          capture_output=True, timeout=120, env=environment())


def route(vni, i, **more):
    return json.dumps({"table": "vxlan_route", "vni": vni,
                       "prefix": "10.%d.%d.0/24" % (i >> 8, i & 255), "scope": "local",
                       **more})


def vm(vni, i):
    return json.dumps({"table": "vm_nc", "vni": vni, "nc": "172.16.0.1",
                       "vm": "10.%d.%d.%d" % (i >> 16, i >> 8 & 255, i & 255)})


class Case(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)
        self.controller = Controller(self.folder)
        self.addCleanup(self.controller.kill)

    def start(self):
        self.controller.start()
        return self.controller

    def ctl(self, *words, code=OK, stdin=None):
        done = ctl(self.controller, *words, stdin=stdin)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done

    def json(self, *words):
        return json.loads(self.ctl(*words, "-o", "json").stdout)

    def file(self, name, lines):
        path = self.folder / name
        path.write_text("".join(line + "\n" for line in lines))
        return path

    def entries(self):
        return {k: v["entries"] for k, v in self.json("status")["tables"].items()}

    def digests(self):
        return {k: v["digest"] for k, v in self.json("status")["tables"].items()}


class Steering(Case):
    def test_consumers_are_applied_shown_and_a_move_goes_on_without_them(self):
        self.start()
        region = {"clusters": [{"name": "x1", "vip_v4": "172.31.0.1"},
                               {"name": "x2", "vip_v4": "172.31.0.2"}],
                  "tenants": [{"vni": 100, "cluster": "x1"}],
                  "consumers": [{"name": "vsc-1"}, {"name": "vsc-2"}]}
        self.ctl("apply", "-f", "-", stdin=json.dumps(region))
        self.assertIn("unchanged", self.ctl(
            "apply", "-f", "-", stdin=json.dumps(region)).stdout)
        self.assertEqual([c["name"] for c in self.json("get", "consumers")["consumers"]],
                         ["vsc-1", "vsc-2"])
        self.assertIn("ACKNOWLEDGED", self.ctl("get", "consumers").stdout)
        self.assertRegex(self.ctl("get", "steering").stdout, r"100 +x1 +172\.31\.0\.1")
        self.assertEqual(self.json("get", "steering", "100")["cluster"], "x1")
        self.ctl("tenant", "move", "100", "--to", "x2", "--no-wait")
        (o,) = self.json("get", "operations")["operations"]
        self.ctl("operation", "proceed", o["id"], "--reason", "gone", code=USAGE)
        self.ctl("operation", "proceed", o["id"], "--without-consumers", code=USAGE)
        self.ctl("operation", "proceed", o["id"], "--without-consumers",
                 "--reason", "vsc-1 is gone")
        o = self.json("get", "operation", o["id"])
        self.assertEqual(o["without_consumers"]["reason"], "vsc-1 is gone")
        self.ctl("operation", "cancel", o["id"])
        self.assertIn("deleted", self.ctl("delete", "consumer", "vsc-1").stdout)
        self.assertEqual([c["name"] for c in self.json("get", "consumers")["consumers"]],
                         ["vsc-2"])


class Apply(Case):
    def test_apply_is_idempotent_and_get_gives_it_back(self):
        self.start()
        dry = self.ctl("apply", "-f", REGION, "--dry-run").stdout.splitlines()
        self.assertTrue(all(" created" in line for line in dry))
        self.assertEqual(self.entries(), {"tenant": 0, "vxlan_route": 0, "vm_nc": 0,
                                          "acl": 0, "meter": 0})
        first = self.ctl("apply", "-f", REGION).stdout.splitlines()
        self.assertEqual(len(first), len(dry))
        self.assertTrue(all(line.endswith(" created") for line in first), first)
        revision = self.json("status")["revision"]
        second = self.ctl("apply", "-f", REGION).stdout.splitlines()
        self.assertTrue(all(line.endswith(" unchanged") for line in second), second)
        self.assertEqual(self.json("status")["revision"], revision)
        for kind in ("region", "clusters", "nodes", "tenants"):
            text = self.ctl("get", kind, "-o", "yaml").stdout
            if kind == "region":
                text = "region:\n" + "".join("  " + x for x in text.splitlines(True))
            again = self.ctl("apply", "-f", "-", stdin=text).stdout.splitlines()
            self.assertTrue(again)
            self.assertTrue(all(x.endswith(" unchanged") for x in again), again)

    def test_a_region_with_xgw_h_is_applied_shown_and_followed(self):
        self.start()
        text = REGION.read_text() + """---
clusters:
  - { name: h-1, kind: xgw-h, backing: x86-1, vip_v4: 172.16.255.50 }
nodes:
  - { name: hw-1a, cluster: h-1, kind: tofino, vtep_v4: 172.16.0.50 }
policy: { services: { region: xgw-x86 } }
tenants:
  - vni: 900
    cluster: x86-1
    h_home: h-1
    routes:
      - { prefix: 10.0.0.0/8, scope: local }
      - { prefix: 10.1.0.0/16, scope: region, endpoint: 172.16.0.9, endpoint_vni: 7 }
    acl:
      - { priority: 10, src: 10.0.0.0/8, proto: tcp, dport: '443', action: permit }
    meter: { committed_bps: 1000, peak_bps: 2000, committed_burst: 9600, peak_burst: 9600 }
"""
        out = self.ctl("apply", "-f", "-", stdin=text).stdout
        self.assertIn("acl 900 10,10.0.0.0/8,0.0.0.0/0,tcp,,443 created", out)
        again = self.ctl("apply", "-f", "-", stdin=text).stdout.splitlines()
        self.assertTrue(all(x.endswith(" unchanged") for x in again), again)
        # h-1 sorts before what stands behind it: an empty controller takes it all the same.
        for kind in ("clusters", "nodes", "tenants", "policy"):
            text = self.ctl("get", kind, "-o", "yaml").stdout
            if kind == "policy":
                text = "policy:\n" + "".join("  " + x for x in text.splitlines(True))
            out = self.ctl("apply", "-f", "-", stdin=text).stdout.splitlines()
            self.assertTrue(all(x.endswith(" unchanged") for x in out), out)
        self.assertEqual(self.json("get", "meter", 900)["peak_bps"], 2000)
        self.assertEqual(self.json("get", "acl", 900)["acl"][0]["dport"], "443")
        self.assertIn("443", self.ctl("describe", "tenant", 900).stdout)
        self.assertIn("deleted",
                      self.ctl("delete", "acl", 900, "10,10.0.0.0/8,,tcp,,443").stdout)
        hops = self.json("trace", "--vni", 900, "--dst", "10.1.0.1")["hops"]
        self.assertEqual([(h["kind"], h["cluster"]) for h in hops],
                         [("tenant", "h-1"), ("route", "h-1"), ("fallback", "h-1"),
                          ("route", "x86-1"), ("forward", "x86-1")])
        self.assertIn("policy changed",
                      self.ctl("policy", "set", "region=default", "idc=xgw-x86").stdout)
        self.assertEqual(self.json("policy", "get")["services"]["idc"], "xgw-x86")
        self.assertIn("fallback", self.ctl("describe", "cluster", "h-1").stdout)
        hops = self.json("trace", "--vni", 900, "--dst", "10.1.0.1")["hops"]
        self.assertEqual([h["kind"] for h in hops], ["tenant", "route", "forward"])
        out = self.ctl("policy", "suggest").stdout
        self.assertRegex(out, r"(?m)^local +xgw-h +unknown +8 +- +0 min +xgw-h .*needs 60 min")
        self.assertRegex(out, r"(?m)^on XGW-H now 2 routes, 0 VMs; as suggested 2 routes")
        self.assertIn("nothing to move", out)
        self.ctl("policy", "set", "internet=xgw-h")
        self.assertIn("nothing was moved; to follow: xgwctl policy set internet=xgw-x86\n",
                      self.ctl("policy", "suggest").stdout)
        self.assertEqual(self.json("policy", "get")["services"]["internet"], "xgw-h")
        advice = self.json("policy", "suggest")["services"]
        self.assertEqual([s["service"] for s in advice if s["place"] != s["suggested"]],
                         ["internet"])
        self.ctl("policy", "suggest", "idc", code=USAGE)
        self.ctl("policy", "set", "idc", code=USAGE)
        self.ctl("policy", "set", "idc=chip", code=REFUSED)

    def test_place_explains_and_places_and_rebalance_proposes(self):
        self.start()
        self.ctl("apply", "-f", "-", stdin="""
clusters:
  - { name: x-1, vip_v4: 172.16.255.51 }
  - { name: x-2, vip_v4: 172.16.255.52 }
  - { name: h-1, kind: xgw-h, backing: x-1, vip_v4: 172.16.255.61 }
  - { name: h-2, kind: xgw-h, backing: x-2, vip_v4: 172.16.255.62 }
tenants:
  - { vni: 1, cluster: x-1, h_home: h-1, reserved_routes: 39000 }
  - { vni: 2, cluster: x-1, h_home: h-1, half: '0', reserved_routes: 26000 }
""")
        out = self.ctl("tenant", "place", "--dry-run", "--routes", "39k", "--vms", 100).stdout
        self.assertRegex(out, r"(?m)^h-1 +chosen +1 +vni +1 +160928 +2 ")
        self.assertRegex(out, r"(?m)^h-1 +chosen +1 +route +3000 +1450.5,6450.5 +5000,0 +6450.5 +"
                              r"9215 +no,yes +rows$")
        self.assertRegex(out, r"(?m)^x-1 +behind +- +memory ")
        self.assertIn("it would go to h-1, half 1, with x-1 behind it\n", out)
        said = self.json("tenant", "place", "--dry-run", "--routes", "39k")
        self.assertEqual(said["chosen"], {"h_home": "h-1", "half": "1", "cluster": "x-1"})
        self.assertIn("vni 3 is on h-1, half 1, with x-1 behind it",
                      self.ctl("tenant", "place", 3, "--routes", "39k").stdout)
        out = self.ctl("tenant", "place", "--dry-run", "--routes", "200k", code=FAILED).stdout
        self.assertIn("no cluster takes it: build a cluster", out)
        self.ctl("tenant", "place", 4, "--routes", "200k", code=REFUSED)
        self.ctl("tenant", "place", code=USAGE)
        out = self.ctl("get", "clusters").stdout
        self.assertRegex(out, r"(?m)^h-1 +xgw-h +serving +x-1 .* 3 .* yes .*route 54.26 ")
        out = self.ctl("rebalance", "--dry-run").stdout
        self.assertRegex(out, r"(?m)^\d +h-1 +54.26 +[\d.]+ +h-2 ")
        self.assertIn("no move is worth it",
                      self.ctl("rebalance", "--dry-run", "--threshold", 60).stdout)
        self.ctl("rebalance", code=USAGE)
        text = self.ctl("get", "tenants", "-o", "yaml").stdout
        out = self.ctl("apply", "-f", "-", stdin=text).stdout.splitlines()
        self.assertTrue(all(x.endswith(" unchanged") for x in out), out)

    def test_a_change_is_told_from_a_creation(self):
        self.start()
        self.ctl("apply", "-f", REGION)
        text = REGION.read_text().replace("mtu: 9000", "mtu: 1500", 1).replace(
            "nc: 172.16.10.2", "nc: 172.16.10.9")
        dry = self.ctl("apply", "-f", "-", "--dry-run", stdin=text).stdout
        self.assertIn("node gw-1a changed (dry run)", dry)
        out = self.ctl("apply", "-f", "-", stdin=text).stdout
        changed = [line for line in out.splitlines() if "unchanged" not in line]
        self.assertEqual(changed, ["node gw-1a changed", "vm 100 10.0.0.6 changed"])
        self.assertEqual(self.json("get", "vm", 100, "10.0.0.6")["nc"], "172.16.10.9")

    def test_get_describe_delete(self):
        self.start()
        self.ctl("apply", "-f", REGION)
        self.assertEqual([n["name"] for n in self.json("get", "nodes")["nodes"]],
                         ["gw-1a", "gw-2a"])
        self.assertEqual(self.json("get", "route", 100, "10.0.2.0/24")["peer_vni"], 200)
        self.assertEqual(len(self.json("get", "routes", 100, "--limit", 2)["routes"]), 2)
        out = self.ctl("describe", "cluster", "x86-1").stdout
        self.assertIn("172.16.255.1", out)
        self.assertIn("gw-1a", out)
        self.assertNotIn("gw-2a", out)
        out = self.ctl("describe", "tenant", 300).stdout
        self.assertIn("2001:db8:300::/64", out)
        self.assertIn("172.16.10.3", out)
        self.assertIn("x86-2", self.ctl("describe", "region").stdout)
        self.assertIn("deleted", self.ctl("delete", "vm", 100, "10.0.0.6").stdout)
        self.assertIn("was not there", self.ctl("delete", "vm", 100, "10.0.0.6").stdout)
        self.ctl("get", "vm", 100, "10.0.0.6", code=NOT_FOUND)
        self.ctl("get", "node", "gw-9", code=NOT_FOUND)
        self.ctl("delete", "cluster", "x86-1", code=REFUSED)  # nodes name it

    def test_trace_names_the_entries(self):
        self.start()
        self.ctl("apply", "-f", REGION)
        out = self.ctl("trace", "--vni", 100, "--dst", "10.0.2.7").stdout
        self.assertIn("scope derived", out)
        self.assertIn("2001:db8:16:20::1", out)
        hops = self.json("trace", "--vni", 300, "--dst", "2001:db8:300::5")["hops"]
        self.assertEqual((hops[-1]["kind"], hops[-1]["outer_dst"]),
                         ("forward", "172.16.10.3"))
        self.assertIn("over IPv6 of the underlay", self.ctl(
            "trace", "--vni", 100, "--dst", "10.0.2.7", "--underlay", "v6").stdout)
        self.ctl("trace", "--vni", 100, "--dst", "10.0.2.7", "--underlay", "6", code=REFUSED)
        self.ctl("trace", "--vni", 0, "--dst", "10.0.2.7", code=REFUSED)
        self.ctl("trace", "--vni", 100, code=USAGE)

    def test_many_pages_are_one_list(self):
        self.start()
        self.ctl("apply", "-f", REGION)
        path = self.file("vms.ndjson", [vm(100, i) for i in range(1 << 8, (1 << 8) + 2500)])
        self.ctl("import", path)
        vms = self.json("get", "vms", 100)["vms"]
        self.assertEqual(len({v["vm"] for v in vms}), 2500 + 2)

    def test_faults_of_a_file_send_nothing(self):
        self.start()
        for text, line, word in (
                ("region: {name: r}\nnodes:\n- name: a\n  colour: red\n", 4, "colour"),
                ("tenants:\n- vni: 5\n  cluster: c\n  routes:\n  - prefix: 10.0.0.1/8\n"
                 "    scope: local\n", 5, "host_bits"),
                ("a: &a [1,1,1,1,1,1,1,1]\n", 1, "a"),
                ("a:\n\tb: 1\n", 2, "yaml_syntax")):
            done = self.ctl("apply", "-f", "-", stdin=text, code=REFUSED)
            self.assertIn("(stdin):%d" % line, done.stderr)
            self.assertIn(word, done.stderr)
        self.ctl("get", "region", code=NOT_FOUND)
        done = self.ctl("apply", "-f", "-", code=REFUSED,
                        stdin="region: {name: r}\nclusters:\n- {name: c}\n")
        self.assertIn("(stdin):3: cluster c", done.stderr)  # the controller's word
        self.assertIn("1 objects before it", done.stderr)


class Ends(Case):
    def test_exit_codes(self):
        self.ctl("status", code=UNREACHABLE)
        self.ctl("health", code=UNREACHABLE)
        path = self.file("one.ndjson", [vm(100, 300)])
        self.ctl("import", path, code=UNREACHABLE)
        self.ctl("frobnicate", code=USAGE)
        self.ctl("get", "colours", code=USAGE)
        self.ctl("import", self.folder / "nothing", code=NOT_FOUND)
        self.assertIn("Exit codes", self.ctl("--help").stdout)
        (self.folder / "tokens").write_text(
            "".join("%s %s %s\n" % (token, role, role) for role, token in TOKENS.items()))
        (self.folder / "tokens").chmod(0o600)
        self.start()
        for role, token in TOKENS.items():
            (self.folder / role).write_text(token + "\n")
            (self.folder / role).chmod(0o600)
        admin, viewer = (("--token-file", self.folder / r) for r in ("admin", "viewer"))
        self.ctl("status", code=DENIED)
        self.ctl("import", path, code=DENIED)
        self.ctl("status", *viewer)
        self.ctl("apply", "-f", REGION, *viewer, code=DENIED)
        self.ctl("import", path, *viewer, code=DENIED)
        self.ctl("apply", "-f", REGION, *admin)
        self.ctl("import", path, *admin)

    def test_completion_knows_every_command(self):
        for shell in ("bash", "zsh"):
            out = self.ctl("completion", shell).stdout
            for word in ("apply", "describe", "--create-only", "--wait-ms"):
                self.assertIn(word, out)
        script = self.ctl("completion", "bash").stdout + (
            "\nCOMP_WORDS=(xgwctl get no); COMP_CWORD=2; _xgwctl; echo \"${COMPREPLY[*]}\"\n"
            "COMP_WORDS=(xgwctl import --cre); COMP_CWORD=2; _xgwctl; echo \"${COMPREPLY[*]}\"\n"
            "COMP_WORDS=(xgwctl tr); COMP_CWORD=1; _xgwctl; echo \"${COMPREPLY[*]}\"\n"
            "COMP_WORDS=(xgwctl capacity e); COMP_CWORD=2; _xgwctl; echo \"${COMPREPLY[*]}\"\n"
            "COMP_WORDS=(xgwctl capacity explain --fi); COMP_CWORD=3; _xgwctl; echo \"${COMPREPLY[*]}\"\n")
        done = subprocess.run(["bash", "-c", script], capture_output=True, text=True)
        self.assertEqual(done.stdout.split(), ["nodes", "--create-only", "trace", "explain", "--fill"],
                         done.stderr)


class Waiting(Case):
    """A controller of canned answers: nodes that lag are hard to come by."""

    def serve(self, looks_until_applied):
        class Handler(http.server.BaseHTTPRequestHandler):
            looks = 0

            def answer(self, status, body):
                text = json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def do_GET(self):
                if not self.path.startswith("/v1/nodes"):
                    self.answer(404, {"code": "not_found", "detail": "no"})
                    return
                Handler.looks += 1
                done = Handler.looks >= looks_until_applied
                self.answer(200, {"items": [
                    {"name": "gw-1", "status": {"state": "online", "in_sync": done,
                                                "applied": 5 if done else 4}},
                    {"name": "gw-2", "status": {"state": "offline", "in_sync": False,
                                                "applied": 0}}]})

            def do_PUT(self):
                self.rfile.read(int(self.headers["Content-Length"]))
                self.answer(200, {"revision": 5, "state": "pending", "changed": 1})

            def do_DELETE(self):
                self.answer(202, {"revision": 5, "state": "pending", "deleted": 1,
                                  "missing": "gw-1"})

            def log_message(self, *_):
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        self.controller.rest = server.server_address[1]

    REGION = "region: {name: r}\n"

    def test_a_wait_ends_when_online_nodes_have_it(self):
        self.serve(3)
        self.ctl("apply", "-f", "-", "--wait=applied", stdin=self.REGION)

    def test_a_wait_that_is_too_short_names_the_nodes(self):
        self.serve(1 << 30)
        done = self.ctl("apply", "-f", "-", "--wait=applied", "--wait-ms", 300,
                        stdin=self.REGION, code=NOT_APPLIED)
        self.assertIn("within 300 ms by: gw-1\n", done.stderr)
        self.ctl("apply", "-f", "-", stdin=self.REGION)
        done = self.ctl("delete", "vm", 1, "10.0.0.1", "--wait=applied",
                        code=NOT_APPLIED)
        self.assertIn("gw-1", done.stderr)
        self.ctl("delete", "vm", 1, "10.0.0.1")


class Tls(Case):
    def certificates(self):
        def run(*words):
            subprocess.run(["openssl", *words], cwd=self.folder, check=True,
                           capture_output=True)

        for ca in ("ca", "other"):
            run("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj",
                "/CN=" + ca, "-keyout", ca + ".key", "-out", ca + ".crt")
        run("req", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=controller", "-keyout",
            "c.key", "-out", "c.csr")
        (self.folder / "ext").write_text("subjectAltName=IP:127.0.0.1")
        run("x509", "-req", "-in", "c.csr", "-CA", "ca.crt", "-CAkey", "ca.key",
            "-CAcreateserial", "-days", "2", "-extfile", "ext", "-out", "c.crt")

    def test_both_apis_are_encrypted_and_the_certificate_is_checked(self):
        self.certificates()
        c, path = self.controller, self.folder
        log = open(path / "controller.log", "ab")
        self.addCleanup(log.close)
        c.process = subprocess.Popen(
            [CONTROLLER, "--store", path / "region.db", "--rest-listen",
             "127.0.0.1:%d" % c.rest, "--grpc-listen", "127.0.0.1:%d" % c.grpc,
             "--tls-ca", path / "ca.crt", "--tls-cert", path / "c.crt", "--tls-key",
             path / "c.key"], stdout=log, stderr=log)

        def tls(*words, ca="ca.crt", stdin=None):
            return subprocess.run(
                [XGWCTL, "--server", "https://127.0.0.1:%d" % c.rest, "--grpc",
                 "127.0.0.1:%d" % c.grpc, "--ca", path / ca, *map(str, words)],
                input=stdin, text=True, capture_output=True, timeout=60,
                env=environment())

        wait_for(lambda: c.alive() and tls("health").returncode == OK)
        self.assertEqual(tls("apply", "-f", REGION).returncode, OK)
        vms = self.file("vms.ndjson", [vm(100, i) for i in range(300, 310)])
        done = tls("import", vms)
        self.assertEqual(done.returncode, OK, done.stderr)
        self.assertEqual(tls("status", ca="other.crt").returncode, UNREACHABLE)
        self.assertEqual(tls("import", vms, ca="other.crt").returncode, UNREACHABLE)


class Import(Case):
    def prepare(self):
        self.start()
        self.ctl("apply", "-f", REGION)

    def test_an_endless_line_is_refused_and_not_collected(self):
        self.prepare()
        done = self.ctl("import", "/dev/zero", code=REFUSED)
        self.assertIn("/dev/zero:1: longer than 1024 bytes", done.stderr)

    def test_an_input_is_imported_once(self):
        self.prepare()
        path = self.file("vms.ndjson", [vm(100, i) for i in range(300, 25300)])
        result = self.json("import", path)
        self.assertEqual((result["entries"], result["added"]), (25000, 25000))
        self.assertIn("imported before", self.ctl("import", path).stdout)
        for _ in range(2):  # each is a run of its own
            result = self.json("import", path, "--restart")
            self.assertEqual((result["entries"], result["unchanged"]), (25000, 25000))
        self.ctl("delete", "vm", 100, "10.0.1.44")
        self.assertEqual(self.json("import", path, "--restart")["added"], 1)

    def test_csv_and_stdin(self):
        self.prepare()
        text = "table,vni,vm,nc\r\n\r\nvm_nc,100,10.9.0.1,172.16.0.1\r\nvm_nc,100,10.9.0.2,172.16.0.1"
        result = json.loads(self.ctl("import", "-", "-o", "json", stdin=text).stdout)
        self.assertEqual((result["added"], result["next_line"]), (2, 5))
        done = self.ctl("import", "-", "--format", "csv", code=REFUSED,
                        stdin="table,vni,vm,nc\nvm_nc,100,10.9.0.3,172.16.0.1\nvm_nc,100,x,y\n")
        self.assertIn("(stdin):3", done.stderr)

    def test_a_bad_line_stops_at_its_batch_and_says_where(self):
        self.prepare()
        lines = [vm(100, i) for i in range(300, 25300)]
        lines[14999] = '{"table":"vm_nc","vni":100,"vm":"10.9.0.1","nc":"224.0.0.1"}'
        path = self.file("bad.ndjson", lines)
        before = self.entries()["vm_nc"]
        done = self.ctl("import", path, code=REFUSED)
        self.assertIn("bad.ndjson:15000: ", done.stderr)
        self.assertIn("nc", done.stderr)
        self.assertIn("rule ", done.stderr)
        self.assertIn("lines 1 to 10000 (10000 entries", done.stderr)
        self.assertEqual(self.entries()["vm_nc"], before + 10000)

    def test_what_the_controller_refuses_has_its_line_and_resumes(self):
        self.prepare()
        lines = [vm(100, i) for i in range(300, 12300)] + ["", vm(4000, 1)]
        lines += [vm(100, i) for i in range(12300, 22300)]
        path = self.file("tenant.ndjson", lines)
        for _ in range(2):  # a repeat goes on behind the good batch
            done = self.ctl("import", path, code=REFUSED)
            self.assertIn("tenant.ndjson:12002: ", done.stderr)
            self.assertIn("4000", done.stderr)
        self.assertEqual(self.entries()["vm_nc"], 4 + 10000)
        self.ctl("apply", "-f", "-", stdin="tenants: [{vni: 4000, cluster: x86-1}]\n")
        result = self.json("import", path)
        self.assertEqual((result["from_line"], result["added"]), (10001, 12001))
        self.assertEqual(self.entries()["vm_nc"], 4 + 22001)

    def test_create_only_and_mass_deletes(self):
        self.prepare()
        self.ctl("import", self.file("a.ndjson", [vm(200, 300 + i) for i in range(100)]))
        changed = vm(200, 300).replace("172.16.0.1", "172.16.0.2")
        done = self.ctl("import", self.file("b.ndjson", [vm(200, 301), changed]),
                        "--create-only", code=REFUSED)
        self.assertIn("b.ndjson:2", done.stderr)
        gone = [json.dumps({"op": "delete", "table": "vm_nc", "vni": 200,
                            "vm": json.loads(vm(200, 300 + i))["vm"]}) for i in range(90)]
        path = self.file("c.ndjson", gone)
        done = self.ctl("import", path, code=DENIED)
        self.assertIn("--confirm", done.stderr)
        self.assertEqual(self.json("import", path, "--confirm")["deleted"], 90)

    def big(self):
        return self.file("big.ndjson", [vm(100, i) for i in range(300, 300300)])

    def halt(self, process, share):
        """It runs, a moment at a time, until more than `share` entries are in, and stands
        still then, still at it; false: it came to its end before."""
        process.send_signal(signal.SIGSTOP)
        while process.poll() is None and self.entries()["vm_nc"] <= share:
            process.send_signal(signal.SIGCONT)
            time.sleep(0.005)
            process.send_signal(signal.SIGSTOP)
        return self.entries()["vm_nc"] < 300000

    def expected(self, path):
        """What an undisturbed import leaves, in a region of its own."""
        other = Case()
        other.setUp()
        try:
            other.controller.start()
            other.ctl("apply", "-f", REGION)
            other.ctl("import", path)
            return other.digests()
        finally:
            other.doCleanups()

    def test_killed_xgwctl_resumes(self):
        self.prepare()
        path = self.big()
        kills = 0
        for share in (1, 60000, 140000):
            process = subprocess.Popen(command(self.controller, "import", path),
                                       stdout=subprocess.DEVNULL, env=environment())
            kills += self.halt(process, share)
            process.kill()
            process.wait()
        self.assertGreater(kills, 0)
        self.ctl("import", path)
        self.assertEqual(self.entries()["vm_nc"], 4 + 300000)
        self.assertEqual(self.digests(), self.expected(path))

    def test_killed_controller_is_waited_for(self):
        self.prepare()
        path = self.big()
        process = subprocess.Popen(
            command(self.controller, "import", path, "-o", "json"), text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment())
        kills = 0
        for share in (10000, 100000):
            if self.halt(process, share):
                self.controller.process.send_signal(signal.SIGKILL)
                self.controller.process.wait()
                self.controller.start()
                kills += 1
            process.send_signal(signal.SIGCONT)
        out, error = process.communicate(timeout=60)
        self.assertEqual(process.returncode, OK, error)
        self.assertGreater(kills, 0)
        result = json.loads(out)
        self.assertEqual(result["entries"], 300000)
        self.assertGreater(result["reconnects"], 0)
        self.assertEqual(result["added"] + result["unanswered"], 300000)
        self.assertEqual(self.digests(), self.expected(path))

    def test_gone_for_good_is_unreachable(self):
        self.prepare()
        path = self.big()
        process = subprocess.Popen(
            command(self.controller, "import", path, "--retry", 1), text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment())
        self.assertTrue(self.halt(process, 10000))
        self.controller.kill()
        process.send_signal(signal.SIGCONT)
        out, error = process.communicate(timeout=60)
        self.assertEqual(process.returncode, UNREACHABLE, out + error)
        self.assertIn("goes on with line", error)
        self.controller.start()
        self.ctl("import", path)
        self.assertEqual(self.entries()["vm_nc"], 4 + 300000)


if __name__ == "__main__":
    CONTROLLER, XGWCTL = sys.argv.pop(2), sys.argv.pop(1)
    unittest.main(verbosity=2)
