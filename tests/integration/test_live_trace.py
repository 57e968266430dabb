#!/usr/bin/python3
"""Live traces of real nodes: a controller, agents and gateways, x86 and XGW-H in software.

A packet from a tenant on x86 to a peer on XGW-H, which hands on to the x86 nodes behind
it what it cannot answer: each node on the way is asked by a real probe, and agrees.  Then
an entry is spoiled in one device behind its agent's back: the trace names that node at
that hop, ends with its own exit code, and raises an alarm, which goes when the node was
repaired and the same trace agrees.

    test_live_trace.py XGW_CONTROLLER XGW_AGENT XGW_GATEWAY XGWCTL P4INFO_MAKER
"""
import json
import pathlib
import subprocess
import sys
import unittest
from urllib.parse import quote

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "reference")]
import controller_rig  # noqa: E402
import gateway_rig as gw  # noqa: E402
import test_moves as moves  # noqa: E402

XGWCTL = None
AGREES, DIFFERS = 0, 8  # of xgwctl
ENTRIES = [
    {"table": "tenant", "vni": 100, "cluster": "x2", "h_home": "h1"},
    {"table": "tenant", "vni": 200, "cluster": "x1"},
    {"table": "vxlan_route", "vni": 100, "prefix": "10.0.0.0/16", "scope": "local"},
    {"table": "vxlan_route", "vni": 100, "prefix": "8.8.0.0/16", "scope": "internet"},
    {"table": "vxlan_route", "vni": 100, "prefix": "2001:db8::/64", "scope": "local"},
    {"table": "vxlan_route", "vni": 100, "prefix": "192.168.0.0/16", "scope": "idc",
     "endpoint": "172.16.9.7", "endpoint_vni": 5000},
    {"table": "vm_nc", "vni": 100, "vm": "10.0.0.5", "nc": "172.16.9.9"},
    {"table": "vm_nc", "vni": 100, "vm": "10.0.0.6", "nc": "fd00:16:9::6"},
    {"table": "vm_nc", "vni": 100, "vm": "2001:db8::5", "nc": "fd00:16:9::5"},
    {"table": "vxlan_route", "vni": 200, "prefix": "10.0.0.0/16", "scope": "peer",
     "peer_vni": 100},
]


class LiveTrace(moves.Moves):
    """Moves' region, with IPv6 beside IPv4 everywhere."""

    def setUp(self):
        super().setUp()
        self.put("/region", {"name": "r", "underlay_sources": ["172.16.0.0/12", "fd00::/16"]})
        for i, (name, more) in enumerate({"x1": {}, "x2": {}, "h1": {"backing": "x2"}}.items()):
            self.put(f"/clusters/{name}", {
                "kind": "xgw-h" if more else "x86", "active_side": "a", **more,
                "vip_v4": f"172.31.255.{i + 1}", "vip_v6": f"fd00:31::{i + 1}"})
        self.start("n1", "x1", "x86", 1)
        self.start("n2", "x2", "x86", 2)
        self.start("n4", "x2", "x86", 4)
        self.start("n3", "h1", "soft-h", 3)
        answer = self.controller.request("POST", "/v1/entries?wait=applied&waitMs=30000",
                                         controller_rig.ndjson(ENTRIES))
        self.assertEqual(answer.status, 200, answer)

    def node(self, name, cluster, kind, last, resolved=True):
        uplink = {"port": "0", "mtu": 1500, "mac": moves.MAC,
                  "addr_v4": f"172.17.{last}.2", "next_hop_v4": f"172.17.{last}.1",
                  "addr_v6": f"fd00:17:{last}::2", "next_hop_v6": f"fd00:17:{last}::1"}
        fallback = {"fallback_v4": f"172.16.1.{last}", "fallback_v6": f"fd00:16:1::{last}"}
        self.put(f"/nodes/{name}", {"cluster": cluster, "kind": kind, "side": "a",
                                    "vtep_v4": f"172.16.0.{last}",
                                    "vtep_v6": f"fd00:16::{last}", "uplinks": [uplink],
                                    **(fallback if kind == "x86" else {})})

    def trace(self, code, vni, dst, underlay="v4"):
        """{node: (its hop's kind and cluster, verdict, found)} of `xgwctl trace --live`."""
        done = subprocess.run(
            [XGWCTL, "--server", f"http://127.0.0.1:{self.controller.rest}", "trace", "--vni",
             str(vni), "--dst", dst, "--underlay", underlay, "--live", "-o", "json"],
            capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, code, done)
        return {node["node"]: ((hop["kind"], hop["cluster"]), node["verdict"], node["found"])
                for hop in json.loads(done.stdout)["hops"] for node in hop.get("nodes", ())}

    def check(self, got, want):
        """Of a fallback any member is right."""
        named = {node: (hop, verdict, found.split(" to ")[0] if "fallback" in found else found)
                 for node, (hop, verdict, found) in got.items()}
        self.assertEqual(named, want)

    def alarms(self):
        return {a["subject"]: a for a in self.controller.request("GET", "/v1/alarms").json["items"]
                if a["kind"] == "trace_differs"}

    def repair(self, node):
        begun = self.controller.request("POST", "/v1/audits", {"node": node}).json["items"]
        path = f"/v1/audits/{begun[0]['id']}"
        gw.wait_until(lambda: self.controller.request("GET", path).json["state"] == "done", path)
        self.assertEqual(self.controller.request("GET", path).json["result"], "repaired")

    # --- what is expected follows from ENTRIES alone

    def sound_nodes_agree(self):
        n1 = {"n1": (("route", "x1"), "agrees", "a packet to 172.31.255.3")}
        to_nc = ("forward", "h1"), "agrees", "a packet to 172.16.9.9"
        by_x86 = ("forward", "x2"), "agrees"
        handed_on = ("fallback", "h1"), "agrees", "fallback"
        drop = ("drop", "x2"), "agrees"
        for vni, dst, underlay, want in (
                (200, "10.0.0.5", "v4", {**n1, "n3": to_nc}),
                (100, "10.0.0.5", "v4", {"n3": to_nc}),
                (100, "192.168.3.4", "v4", {"n3": (("forward", "h1"), "agrees",
                                                   "a packet to 172.16.9.7")}),
                (100, "2001:db8::5", "v6", {"n3": (("forward", "h1"), "agrees",
                                                   "a packet to fd00:16:9::5")}),
                (200, "10.0.0.6", "v4", {
                    **n1, "n3": handed_on, "n2": (*by_x86, "a packet to fd00:16:9::6"),
                    "n4": (*by_x86, "a packet to fd00:16:9::6")}),
                (100, "10.0.0.5", "v6", {
                    "n3": handed_on, "n2": (*by_x86, "a packet to 172.16.9.9"),
                    "n4": (*by_x86, "a packet to 172.16.9.9")}),
                (100, "8.8.4.4", "v6", {"n3": handed_on, "n2": (*drop, "drop no_snat"),
                                        "n4": (*drop, "drop no_snat")}),
                (100, "10.0.7.7", "v4", {"n3": handed_on, "n2": (*drop, "drop vm_nc_miss"),
                                         "n4": (*drop, "drop vm_nc_miss")}),
                (200, "11.0.0.1", "v6", {"n1": (("drop", "x1"), "agrees",
                                                "drop route_miss")}),
                (200, "224.0.0.1", "v4", {"n1": (("drop", "x1"), "agrees",
                                                 "drop inner_not_unicast")}),
                (300, "10.0.0.5", "v4", {})):
            with self.subTest(vni=vni, dst=dst, underlay=underlay):
                self.check(self.trace(AGREES, vni, dst, underlay), want)
        self.assertEqual(self.alarms(), {})

    def the_spoiled_are_named_until_they_are_repaired(self):
        self.spoil_x86("n4", 100)
        got = self.trace(DIFFERS, 100, "10.0.0.5", "v6")
        wrong = "outer destination is 172.16.9.10, not 172.16.9.9"
        self.check(got, {"n3": (("fallback", "h1"), "agrees", "fallback"),
                         "n2": (("forward", "x2"), "agrees", "a packet to 172.16.9.9"),
                         "n4": (("forward", "x2"), "differs", wrong)})
        self.assertEqual(set(self.alarms()), {"node/n4"})
        self.assertEqual(self.alarms()["node/n4"]["severity"], "critical")
        self.assertIn(wrong, self.alarms()["node/n4"]["text"])

        self.spoil_h("n3")
        got = self.trace(DIFFERS, 200, "10.0.0.5")
        self.check(got, {"n1": (("route", "x1"), "agrees", "a packet to 172.31.255.3"),
                         "n3": (("forward", "h1"), "differs", wrong)})
        self.assertEqual(set(self.alarms()), {"node/n3", "node/n4"})

        for node in ("n3", "n4"):
            self.repair(node)
        self.trace(AGREES, 200, "10.0.0.5")
        self.trace(AGREES, 100, "10.0.0.5", "v6")
        # A condition that is gone for a minute is an alarm no more.
        gw.wait_until(lambda: not self.alarms(), "the alarms are cleared", 120)

    def one_without_a_session_says_so(self):
        self.agents["n4"].kill()
        self.agents["n4"].wait()
        gw.wait_until(lambda: not self.is_in_sync("n4"), "the controller knows")
        got = self.trace(AGREES, 100, "10.0.0.5", "v6")
        self.assertEqual(got["n4"], (("forward", "x2"), "says_nothing", "it has no session"))
        self.assertEqual([got[n][1] for n in ("n3", "n2")], ["agrees", "agrees"])
        self.assertEqual(self.alarms(), {})

    def grpc_says_the_same(self):
        pb, pb_grpc, _ = controller_rig.load_proto(self.folder)
        with self.controller.channel() as channel:
            stub = pb_grpc.ControllerStub(channel)
            ask = pb.GetTraceRequest(vni=200, dst=bytes([10, 0, 0, 6]), underlay=4)
            plain = stub.GetTrace(ask, timeout=20)
            self.assertEqual([pb.TraceKind.Name(h.kind)[11:] for h in plain.hops],
                             ["TENANT", "ROUTE", "ROUTE", "VM_NC", "FALLBACK", "ROUTE",
                              "VM_NC", "FORWARD"])
            self.assertFalse(any(h.nodes for h in plain.hops))
            ask.live = True
            live = stub.GetTrace(ask, timeout=20)
        self.assertEqual(live.verdict, pb.TRACE_VERDICT_AGREES)
        self.assertEqual([(h.cluster, [n.node for n in h.nodes]) for h in live.hops if h.nodes],
                         [("x1", ["n1"]), ("h1", ["n3"]), ("x2", ["n2", "n4"])])
        self.assertEqual(bytes(live.hops[-1].outer_dst).hex(), "fd000016000900000000000000000006")
        # The entry that decides, as one put.
        route = next(e for e in ENTRIES if e["vni"] == 100 and e.get("prefix") == "10.0.0.0/16")
        self.assertEqual(bytes(live.hops[2].ops), gw.batch(gw.PUT, [route]))

    def test_a_live_trace(self):
        """One region for all: it takes a while to make."""
        for part in (self.sound_nodes_agree, self.grpc_says_the_same,
                     self.the_spoiled_are_named_until_they_are_repaired,
                     self.one_without_a_session_says_so):
            with self.subTest(part.__name__):
                part()


if __name__ == "__main__":
    moves.CONTROLLER, moves.AGENT, moves.GATEWAY, XGWCTL, moves.P4INFO_MAKER = sys.argv[1:6]
    unittest.main(argv=sys.argv[:1] + sys.argv[6:])
