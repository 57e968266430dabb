#!/usr/bin/python3
"""Clusters are built, drained and retired with real nodes: a controller, agents and
gateways, driven by xgwctl as an operator would.

A build waits for a node that is not there yet, goes on after kill -9 of the controller
in the middle of admission, and is followed by a repeat of the same command.  A wrong
entry in the new node's packet path stops it and is named; once that is repaired the same
command goes through.  A node that dies while a stage is watched sends everybody home.

    test_cluster.py XGW_CONTROLLER XGW_AGENT XGW_GATEWAY P4INFO_MAKER XGWCTL
"""
import json
import subprocess
import sys
import unittest

import gateway_rig as gw
import test_moves

XGWCTL = None
TENANTS = list(range(100, 112))
STEPS = ["join", "load", "audit", "probe", "announce", "admit", "serve"]


class Clusters(test_moves.Moves):
    def setUp(self):
        super().setUp()
        self.start("n1", "x1", "x86", 1)
        for vni in TENANTS:
            self.tenant(vni, "172.16.9.9")

    def file(self, hold_ms=300):
        path = self.folder / "cluster.yaml"
        path.write_text(json.dumps({
            "clusters": [{"name": "x3", "vip_v4": "172.31.255.9"}],
            "nodes": [{"name": "n3", "cluster": "x3", "kind": "x86", "side": "a",
                       "vtep_v4": "172.16.0.3", "fallback_v4": "172.16.1.3",
                       "uplinks": [{"port": "0", "addr_v4": "172.17.3.2", "mtu": 1500,
                                    "next_hop_v4": "172.17.3.1",
                                    "mac": test_moves.MAC}]}],
            "build": {"cluster": "x3", "tenants": TENANTS, "hold_ms": hold_ms,
                      "drain_ms": 100}}))  # JSON is YAML
        return path

    def command(self, *words):
        return [XGWCTL, "--server", f"http://127.0.0.1:{self.controller.rest}", *map(str, words)]

    def ctl(self, *words):
        return subprocess.run(self.command(*words), text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, timeout=120)

    def begin(self, path):
        """The command, in the background."""
        run = subprocess.Popen(self.command("cluster", "build", "-f", path), text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(run.wait)
        self.addCleanup(run.kill)
        return run

    def work(self):
        """The newest operation on a cluster."""
        items = self.controller.request("GET", "/v1/operations?pageSize=1000").json["items"]
        return [o for o in items if o["kind"] != "move"][-1:]

    def until(self, condition, what):
        gw.wait_until(lambda: any(map(condition, self.work())), what, 60)

    def state(self, cluster):
        return self.controller.request("GET", f"/v1/clusters/{cluster}").json["state"]

    def homes(self):
        return {self.home(vni)[0] for vni in TENANTS}

    def test_a_build_waits_for_its_node_outlives_the_controller_and_admits_everybody(self):
        path = self.file(hold_ms=1000)
        run = self.begin(path)
        self.until(lambda o: "n3 has not dialled" in o.get("waits_for", ""),
                   "it waits for its node")
        self.assertEqual(self.state("x3"), "planned")
        self.start("n3", "x3", "x86", 3)
        self.until(lambda o: o.get("admitted", {}).get("percent") == 25,
                   "a quarter is let in")
        self.assertEqual(self.state("x3"), "admitting")
        self.controller.kill()
        out, said = run.communicate(timeout=60)
        self.assertNotEqual(run.returncode, 0)
        seen = [line.split(",")[1].split(":")[0].strip() for line in said.splitlines()
                if ": step " in line]  # those that took long enough to be seen
        self.assertEqual(seen, sorted(seen, key=STEPS.index), said)
        self.assertEqual({"join", "load", "admit"} - set(seen), set(), said)
        self.controller.start()
        again = self.ctl("cluster", "build", "-f", path)
        self.assertEqual(again.returncode, 0, again)
        self.assertIn("is at work on cluster x3 already", again.stderr)
        self.assertIn("build of cluster x3: done", again.stdout)
        self.assertEqual(self.homes(), {"x3"})
        self.assertEqual(self.state("x3"), "serving")
        gw.wait_until(lambda: (self.vms("n1"), self.vms("n3")) == (0, len(TENANTS)),
                      "the devices follow")

    def test_a_wrong_entry_stops_the_build_and_is_named_and_a_repeat_goes_through(self):
        run = self.begin(self.file())
        self.until(lambda o: o["step"] == "join", "it is begun")
        self.start("n3", "x3", "x86", 3, resolved=False)
        gw.wait_until(lambda: self.of(TENANTS[0]), "its first tenant moves", 60)
        self.until_it_waits_for_its_probe(self.of(TENANTS[0])["id"])
        self.spoil_x86("n3", TENANTS[0])
        self.node("n3", "x3", "x86", 3)  # now it knows its next hop
        out, said = run.communicate(timeout=120)
        self.assertEqual(run.returncode, 1, (out, said))
        self.assertIn(f"a tenant cannot be loaded: vni {TENANTS[0]}: ", out)
        self.assertIn("outer destination is 172.16.9.10, not 172.16.9.9", out)
        self.assertEqual(self.state("x3"), "failed")
        self.assertEqual(self.homes(), {"x1"})
        gw.wait_until(lambda: self.vms("n3") == 0, "the new node is left")
        again = self.ctl("cluster", "build", "-f", self.file())
        self.assertEqual(again.returncode, 0, again)
        self.assertEqual(self.homes(), {"x3"})

    def of(self, vni):
        items = self.controller.request("GET", "/v1/operations?pageSize=1000").json["items"]
        found = [o for o in items if o["kind"] == "move" and o["vni"] == vni]
        return found[-1] if found else None

    def test_a_node_that_dies_while_a_stage_is_watched_sends_everybody_home(self):
        run = self.begin(self.file(hold_ms=600000))
        self.until(lambda o: o["step"] == "join", "it is begun")
        self.start("n3", "x3", "x86", 3)
        self.until(lambda o: "watched for" in o.get("waits_for", ""), "it is watched")
        self.assertEqual(self.homes(), {"x1", "x3"})
        self.nodes["n3"].kill()
        out, said = run.communicate(timeout=120)
        self.assertEqual(run.returncode, 1, (out, said))
        self.assertIn("breach at 1 %: node n3", out)
        self.assertEqual(self.homes(), {"x1"})
        self.assertEqual(self.state("x3"), "failed")

    def test_a_cluster_is_drained_retired_and_deleted(self):
        self.start("n2", "x2", "x86", 2)
        refused = self.ctl("cluster", "retire", "x1")
        self.assertNotEqual(refused.returncode, 0)
        self.assertIn("is the home of 12 tenants: drain it first", refused.stderr)
        refused = self.ctl("cluster", "drain", "x2")
        self.assertIn("backs cluster h1", refused.stderr)
        done = self.ctl("cluster", "drain", "x1", "--drain-ms", 100)
        self.assertEqual(done.returncode, 0, done)
        self.assertEqual((self.homes(), self.state("x1")), ({"x2"}, "draining"))
        gw.wait_until(lambda: (self.vms("n1"), self.vms("n2")) == (0, len(TENANTS)),
                      "the devices follow")
        done = self.ctl("cluster", "retire", "x1")
        self.assertEqual(done.returncode, 0, done)
        self.assertEqual(self.state("x1"), "retired")
        for words in (("delete", "node", "n1"), ("delete", "cluster", "x1")):
            self.assertEqual(self.ctl(*words).returncode, 0)

    def test_what_a_build_file_lacks_is_said_with_its_line(self):
        path = self.folder / "bad.yaml"
        for text, words in (("clusters: []\n", "`build` is needed"),
                            ("build: {tenants: [100]}\n", "bad.yaml:1: cluster"),
                            ("build: {cluster: x9, tenants: [100]}\n", "no cluster 'x9'"),
                            ("build: {cluster: x1, tenants: [100]}\n",
                             "only one that carries no packets can be built"),
                            ("build: {cluster: x1, tenants: []}\n", "1 to 2048 VNIs"),
                            ("build: {cluster: x1, tenants: [100], hold: 1}\n",
                             "hold: no such field")):
            with self.subTest(text):
                path.write_text(text)
                done = self.ctl("cluster", "build", "-f", path)
                self.assertNotEqual(done.returncode, 0)
                self.assertIn(words, done.stderr)
        self.assertEqual(self.work(), [])


if __name__ == "__main__":
    (test_moves.CONTROLLER, test_moves.AGENT, test_moves.GATEWAY,
     test_moves.P4INFO_MAKER, XGWCTL) = sys.argv[1:6]
    unittest.main(argv=sys.argv[:1] + sys.argv[6:], verbosity=2)
