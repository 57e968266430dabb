#!/usr/bin/python3
"""The matrix of probes through a real controller, agents and gateways, XGW-x86 and XGW-H
in software over P4Runtime: every cell that the entries can reach is covered, and all
agree.  Then one entry is spoiled in a device behind its agent's back, and the probe of it,
and no other, says so.

    test_probe_matrix.py XGW_CONTROLLER XGW_AGENT XGW_GATEWAY P4INFO_MAKER XGWCTL
"""
import subprocess
import sys
import unittest

import grpc

import controller_rig
import gateway_rig as gw
import test_moves

MAC = "02:00:00:00:01:01"
XGWCTL = None
FAMILIES = ("IPv4", "IPv6")
NCS = {"IPv4": "172.16.9.%d", "IPv6": "fd00:16:9::%x"}


def entries(x86, h=None):
    """Tenants whose entries lead everywhere: 100 to each end, 200 to 203 by peers."""
    home = {"cluster": x86, **({"h_home": h} if h else {})}
    out = []

    def route(vni, v4, v6, scope, **more):
        for prefix, family in ((v4, "IPv4"), (v6, "IPv6")):
            out.append({"table": "vxlan_route", "vni": vni, "prefix": prefix, "scope": scope,
                        **{k: v[family] if isinstance(v, dict) else v
                           for k, v in more.items()}})

    def vms(vni, net4, net6, first):
        """With and without a MAC, at NCs of both families."""
        for n, (nc, mac) in enumerate(((nc, mac) for nc in FAMILIES for mac in (0, 1))):
            for vm in ("%s.%d" % (net4, n + 4), "%s::%x" % (net6, n + 4)):
                if h and ":" in vm and mac:
                    continue  # one of them keeps all of IPv6 off XGW-H
                out.append({"table": "vm_nc", "vni": vni, "vm": vm, "nc": NCS[nc] % (first + n),
                            **({"mac": "02:00:00:00:aa:%02x" % n} if mac else {})})

    for vni in (100, 200, 201, 202, 203, 204, 205):
        out.append({"table": "tenant", "vni": vni, **home,
                    "flags": ["inner_vlan"] if vni == 203 and not h else []})
    route(100, "10.1.0.0/16", "2001:db8:1::/48", "local")
    vms(100, "10.1.0", "2001:db8:1", 10)
    both = {"IPv4": NCS["IPv4"] % 1, "IPv6": NCS["IPv6"] % 1}
    other = {"IPv4": NCS["IPv6"] % 2, "IPv6": NCS["IPv4"] % 2}
    for at, scope in ((2, "idc"), (4, "region")):
        route(100, "10.%d.0.0/16" % at, "2001:db8:%d::/48" % at, scope,
              endpoint={f: NCS[f] % (7 + at // 2) for f in FAMILIES}, endpoint_vni=7000)
        route(100, "10.%d.0.0/16" % (at + 1), "2001:db8:%d::/48" % (at + 1), scope,
              endpoint=other, endpoint_vni=7001)
    route(100, "10.2.2.0/24", "2001:db8:2:2::/64", "idc", endpoint=both,
          endpoint_vni=7002)
    route(100, "10.6.0.0/16", "2001:db8:6::/48", "internet")
    route(100, "10.7.0.0/16", "2001:db8:7::/48", "service", service="dns")
    # 200 -> 201 -> 202 -> 203, and from each of them what 203 has.
    for vni in (200, 201, 202):
        route(vni, "10.20.0.0/16", "2001:db8:20::/48", "peer", peer_vni=vni + 1)
        route(vni, "10.21.0.0/16", "2001:db8:21::/48", "peer", peer_vni=vni + 1)
    route(203, "10.20.0.0/16", "2001:db8:20::/48", "local")
    route(203, "10.21.0.0/16", "2001:db8:21::/48", "idc", endpoint=both,
          endpoint_vni=7003)
    route(203, "10.22.0.0/16", "2001:db8:22::/48", "local")
    vms(203, "10.20.0", "2001:db8:20", 20)
    vms(203, "10.22.0", "2001:db8:22", 30)
    if h:
        for vni in (204, 205):
            route(vni, "10.30.0.0/16", "2001:db8:30::/48", "local")
            vms(vni, "10.30.0", "2001:db8:30", 40)
        out.append({"table": "meter", "vni": 205, "committed_bps": 10 ** 9, "peak_bps": 10 ** 9,
                    "committed_burst": 10 ** 6, "peak_burst": 10 ** 6})
        for n, (src, dst) in enumerate((("0.0.0.0/0", "10.30.0.0/16"),
                                        ("::/0", "2001:db8:30::/48"))):
            for m, (proto, action) in enumerate((("tcp", "deny"), ("udp", "permit"))):
                out.append({"table": "acl", "vni": 204, "priority": 10 + 2 * n + m, "src": src,
                            "dst": dst, "proto": proto, "action": action})
    return out


class Matrix(test_moves.Moves):
    def setUp(self):
        super().setUp()
        self.put("/region", {"name": "r", "underlay_sources": ["172.16.0.0/12", "fd00:16::/32"]})
        for n, name in enumerate(("x1", "x2"), 1):
            self.put("/clusters/" + name, {"kind": "x86", "active_side": "a",
                                           "vip_v4": f"172.31.255.{n}",
                                           "vip_v6": f"fd00:31::{n}"})
        self.put("/clusters/h1", {"kind": "xgw-h", "active_side": "a", "backing": "x2",
                                  "vip_v4": "172.31.255.3", "vip_v6": "fd00:31::3"})

    def node(self, name, cluster, kind, last, resolved=True):
        uplink = {"port": "0", "addr_v4": f"172.17.{last}.2", "next_hop_v4": f"172.17.{last}.1",
                  "addr_v6": f"fd00:17:{last}::2", "next_hop_v6": f"fd00:17:{last}::1",
                  "mtu": 1500, "mac": MAC}
        fallback = {"fallback_v4": f"172.16.1.{last}", "fallback_v6": f"fd00:16:1::{last}"}
        self.put(f"/nodes/{name}", {"cluster": cluster, "kind": kind, "side": "a",
                                    "vtep_v4": f"172.16.0.{last}", "vtep_v6": f"fd00:16::{last}",
                                    "uplinks": [uplink], **(fallback if kind == "x86" else {})})

    def install(self, rows):
        answer = self.controller.request("POST", "/v1/entries", controller_rig.ndjson(rows))
        self.assertIn(answer.status, (200, 202), answer)
        for name in self.nodes:
            gw.wait_until(lambda: self.is_in_sync(name), f"{name} is in sync", 60)

    def probe(self, **scope):
        """What becomes of the probes of one node."""
        begun = self.controller.request("POST", "/v1/probes", scope,
                                        {"Content-Type": "application/json"})
        self.assertEqual(begun.status, 202, begun)
        items = begun.json["items"]
        self.assertEqual(len(items), 1)
        path = "/v1/probes/" + items[0]["id"]
        gw.wait_until(lambda: self.controller.request("GET", path).json["state"] == "done",
                      "the probes are done", 120)
        return self.controller.request("GET", path).json

    def assert_only(self, probes, cells):
        self.assertEqual(probes["result"], "failed", probes)
        self.assertEqual([c["cell"] for c in probes["coverage"]
                          if c.get("verdict") == "differed"], cells)
        self.assertEqual((probes["differed"], probes["unsaid"]), (len(cells), 0))
        self.assertEqual(probes["agreed"], probes["probes"] - len(cells))

    def covered(self, probes):
        self.assertEqual((probes["result"], probes.get("reason", ""), probes["differences"]),
                         ("passed", "", []), probes.get("reason"))
        self.assertEqual(probes["agreed"], probes["probes"])
        cells = {c["cell"]: c for c in probes["coverage"]}
        covered = {name: c["expected"] for name, c in cells.items() if c["covered"]}
        self.assertEqual({c["verdict"] for c in cells.values() if c["covered"]}, {"agreed"})
        self.assertEqual(len(covered), probes["probes"])
        return covered, {n: c["reason"] for n, c in cells.items() if not c["covered"]}

    def all_of(self, end, hops, to=FAMILIES):
        """Names of cells, over both families and inside both."""
        tails = ["%s inside, over %s" % (i, u) for i in FAMILIES for u in FAMILIES]
        names = ["%s%s, %s" % (end, h, t) for h in hops for t in tails]
        return {n + ", to " + o for n in names for o in to} if to else set(names)

    HOPS = ("", ", 1 peer", ", 2 peers", ", 3 peers")

    def xgwctl(self, *args):
        return subprocess.run(
            [XGWCTL, "--server", f"http://127.0.0.1:{self.controller.rest}", *args],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)


class X86(Matrix):
    def test_every_cell_is_covered_agrees_and_a_spoiled_entry_is_the_one_that_does_not(self):
        self.start("n1", "x1", "x86", 1)
        self.install(entries("x1"))
        covered, missing = self.covered(self.probe(node="n1"))
        want = self.all_of("local", self.HOPS) | self.all_of("local with a MAC", self.HOPS)
        want |= self.all_of("idc", ("",)) | self.all_of("region", ("",))
        want |= self.all_of("vm miss", self.HOPS, ()) | self.all_of("route miss", ("",), ())
        want |= self.all_of("internet", ("",), ()) | self.all_of("service", ("",), ())
        self.assertEqual(want - set(covered), set())
        dropped = set(covered.values())
        self.assertLessEqual({
            "l2_truncated", "l2_vlan_depth", "l2_not_ip", "outer_length", "outer_version",
            "outer_checksum", "outer_options", "outer_frag", "not_our_address", "not_vxlan",
            "outer_ttl", "outer_udp6_zero_csum", "source_check", "vxlan_truncated",
            "vxlan_i_flag", "vxlan_gpe", "unknown_vni", "inner_truncated", "inner_vlan",
            "inner_not_ip", "inner_version", "inner_length", "inner_checksum", "inner_ext",
            "inner_nd", "inner_not_unicast", "route_miss", "vm_nc_miss", "no_snat",
            "service_unbound", "inner_ttl", "mtu", "kept", "forwarded"}, dropped)
        self.assertEqual({r for n, r in missing.items() if n.startswith(("a rule", "a meter"))},
                         {"nodes of this kind have no such"})

        spoilt = ["local with a MAC, IPv4 inside, over %s, to IPv6" % u for u in FAMILIES]
        self.spoil("n1", {"table": "vm_nc", "vni": 100, "vm": "10.1.0.7", "mac":
                          "02:00:00:00:aa:03", "nc": NCS["IPv6"] % 99})
        probes = self.probe(node="n1")
        self.assert_only(probes, spoilt)
        self.assertRegex(
            probes["reason"], r"^probe \d+ \(%s\): vni 100 to 10\.1\.0\.7: expected a packet "
            r"to fd00:16:9::d, found outer destination is fd00:16:9::63, not fd00:16:9::d$"
            % spoilt[0])
        done = self.xgwctl("probe", "--node", "n1", "--coverage")
        self.assertEqual(done.returncode, 8, done)
        self.assertIn(": n1: failed: probe", done.stdout)
        self.assertEqual(len([l for l in done.stdout.splitlines()
                              if l.startswith("  differed ")]), 2)

    def spoil(self, name, row):
        """Another value in what packets are looked up in, not in the records."""
        api = gw.load_api(self.folder)
        with gw.Client(api, self.nodes[name].address) as c:
            c.unary("Tamper", api.TamperRequest(place=2, ops=gw.batch(gw.PUT, [row])),
                    api.TamperReply)


class XgwH(Matrix):
    def test_every_cell_is_covered_agrees_and_a_spoiled_entry_is_the_one_that_does_not(self):
        self.start("n2", "x2", "x86", 2)
        self.start("n3", "h1", "soft-h", 3)
        self.install(entries("x2", "h1"))
        covered, missing = self.covered(self.probe(node="n3"))
        want = self.all_of("local", self.HOPS) | self.all_of("idc", ("",))
        want |= self.all_of("region", ("",)) | self.all_of("route miss", ("",), ())
        want |= self.all_of("vm miss", self.HOPS, ()) | self.all_of("service", ("",), ())
        want |= {"a rule denies, TCP, %s inside" % f for f in FAMILIES}
        want |= {"a rule permits, UDP, %s inside" % f for f in FAMILIES}
        want |= {"no rule matches, ICMP, %s inside" % f for f in FAMILIES}
        want |= {"a meter lets it pass, %s inside" % f for f in FAMILIES}
        self.assertEqual(want - set(covered), set())
        self.assertLessEqual({"fallback", "forwarded", "kept", "acl_deny", "peer_limit"}
                             - {"peer_limit"}, set(covered.values()))
        self.assertEqual({r for n, r in missing.items() if n.startswith("local with a MAC")},
                         {"nodes of this kind have no such"})
        self.spoil_h("n3")
        self.assert_only(self.probe(node="n3"),
                         ["region, IPv4 inside, over IPv4, to IPv4"])

    def test_of_a_vni_only_its_own_rows_are_asked_after(self):
        self.start("n2", "x2", "x86", 2)
        self.start("n3", "h1", "soft-h", 3)
        self.install(entries("x2", "h1"))
        covered, _ = self.covered(self.probe(node="n3", vni=204))
        self.assertIn("a rule denies, TCP, IPv4 inside", covered)
        self.assertFalse([n for n in covered if "outer" in n or "peer" in n])
        self.grpc_says_the_same(covered)

    def grpc_says_the_same(self, covered):
        pb, pb_grpc, _ = controller_rig.load_proto(self.folder)
        with self.controller.channel() as channel:
            stub = pb_grpc.ControllerStub(channel)
            begun = stub.BeginProbes(pb.BeginProbesRequest(node="n3", vni=204), timeout=20)
            self.assertEqual(begun.count, 1)
            ask = pb.GetProbesRequest(number=begun.first)
            gw.wait_until(lambda: stub.GetProbes(ask, timeout=20).state == pb.PROBES_STATE_DONE,
                          "the probes are done", 60)
            probes = stub.GetProbes(ask, timeout=20)
            self.assertEqual((probes.node, probes.result), ("n3", pb.PROBES_RESULT_PASSED))
            self.assertEqual({c.cell: c.expected for c in probes.coverage if c.probe}, covered)
            for request, code in ((pb.BeginProbesRequest(node="n9"), "NOT_FOUND"),
                                  (pb.BeginProbesRequest(vni=1 << 24), "OUT_OF_RANGE")):
                with self.assertRaises(grpc.RpcError) as refused:
                    stub.BeginProbes(request, timeout=20)
                self.assertEqual(refused.exception.code().name, code)
            with self.assertRaises(grpc.RpcError) as refused:
                stub.GetProbes(pb.GetProbesRequest(number=99), timeout=20)
            self.assertEqual(refused.exception.code().name, "NOT_FOUND")


if __name__ == "__main__":
    (test_moves.CONTROLLER, test_moves.AGENT, test_moves.GATEWAY, test_moves.P4INFO_MAKER,
     XGWCTL) = sys.argv[1:6]
    del sys.argv[1:6]
    unittest.main()
