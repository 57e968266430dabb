#!/usr/bin/python3
"""`xgwctl policy suggest` of a region in which traffic flows: a controller, an agent and
`xgw-gateway --pipeline h`, into which the packets of three tenants are played over and
over.  What they carry is known by their bytes, so it is known which service is heavy.

    test_policy_traffic.py XGW_CONTROLLER XGW_AGENT XGW_GATEWAY XGWCTL P4INFO_MAKER
"""
import json
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest
from urllib.parse import quote

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "reference")]
import cases  # noqa: E402
import controller_rig  # noqa: E402
import gateway_rig as gw  # noqa: E402

CONTROLLER = AGENT = GATEWAY = XGWCTL = P4INFO_MAKER = None
VTEP, NC = "172.16.0.1", "172.16.9.9"


def frame(vni, dst, size):
    return cases.tunnel(cases.plain(payload=b"x" * size, dst=dst), vni=vni,
                        ip={"src": NC, "dst": VTEP})


# Tenant 100 uses `idc` alone, 200 `local` alone, 300 `local` and `region`.
PLAYED = ([frame(100, "192.168.0.1", 900)] * 6 + [frame(200, "10.0.0.5", 900)] * 3
          + [frame(300, "11.0.0.1", 200)])


def share(*vnis):
    """Of the bytes that are played."""
    bytes_of = {}
    for f in PLAYED:
        vni = int.from_bytes(f[46:49], "big")
        bytes_of[vni] = bytes_of.get(vni, 0) + len(f)
    return sum(bytes_of[v] for v in vnis) / sum(bytes_of.values())


class PolicyTraffic(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="xgw"))
        self.addCleanup(subprocess.run, ["rm", "-r", str(self.folder)], check=True)
        self.controller = controller_rig.Controller(
            CONTROLLER, self.folder,
            extra=("--suggest-watch", "1s", "--suggest-mature", "0ms")).start()
        self.addCleanup(self.controller.stop)

    def put(self, path, body):
        answer = self.controller.request("PUT", "/v1" + path, body,
                                         {"Content-Type": "application/json"})
        self.assertEqual(answer.status, 200, answer)

    def describe_region(self):
        self.put("/region", {"name": "r", "underlay_sources": ["172.16.0.0/16"]})
        self.put("/clusters/x1", {"kind": "x86", "active_side": "a",
                                  "vip_v4": "172.16.255.1"})
        self.put("/clusters/h1", {"kind": "xgw-h", "active_side": "a", "backing": "x1",
                                  "vip_v4": "172.16.255.2"})
        self.put("/nodes/h1a", {"cluster": "h1", "kind": "soft-h", "side": "a",
                                "vtep_v4": VTEP, "uplinks": [
                                    {"port": "0", "addr_v4": "172.16.1.2",
                                     "next_hop_v4": "172.16.1.1",
                                     "mac": "02:00:00:00:01:01", "mtu": 9000}]})
        self.put("/nodes/h1b", {"cluster": "h1", "kind": "soft-h", "side": "b",
                                "vtep_v4": "172.16.0.2"})  # nobody runs it
        for vni, routes in (
                (100, {"192.168.0.0/16": {"scope": "idc", "endpoint": "172.16.7.7",
                                          "endpoint_vni": 7}}),
                (200, {"10.0.0.0/8": {"scope": "local"}}),
                (300, {"10.0.0.0/8": {"scope": "local"},
                       "11.0.0.0/8": {"scope": "region", "endpoint": "172.16.7.8",
                                      "endpoint_vni": 8}})):
            self.put(f"/tenants/{vni}", {"cluster": "x1", "h_home": "h1"})
            for prefix, route in routes.items():
                self.put(f"/tenants/{vni}/routes/{quote(prefix, safe='')}", route)
        self.put("/policy", {"services": {"idc": "xgw-x86"}})

    def start_switch(self):
        cases.write_pcap(self.folder / "in.pcap", PLAYED)
        port = f"0=vdev:net_pcap0,rx_pcap={self.folder}/in.pcap,infinite_rx=1"
        gateway = gw.Gateway(GATEWAY, port, "--pipeline", "h", "--memory", "128",
                             folder=self.folder)
        gateway.start()
        self.addCleanup(gateway.stop)
        p4info = self.folder / "xgw_h.p4info.bin"
        subprocess.run([P4INFO_MAKER, "p4info", str(p4info)], check=True)
        log = (self.folder / "agent.log").open("a")
        agent = subprocess.Popen(
            [AGENT, "--device-id", "h1a", "--plain-text", "--controllers",
             f"127.0.0.1:{self.controller.grpc}", "--device-kind", "soft-h",
             "--p4runtime", gateway.address, "--p4info", str(p4info)],
            stdout=log, stderr=log)
        self.addCleanup(agent.wait)
        self.addCleanup(agent.kill)
        self.addCleanup(log.close)

    def node_is_in_sync(self):
        answer = self.controller.request("GET", "/v1/nodes/h1a").json
        status = answer.get("status", {})
        return status.get("state") == "online" and status.get("in_sync")

    def ctl(self, *args):
        done = subprocess.run(
            [XGWCTL, "--server", f"http://127.0.0.1:{self.controller.rest}", *args],
            capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_known_bytes_lead_to_the_advice(self):
        self.describe_region()
        self.controller.stop()  # what was put until now is no change of late
        began = time.monotonic()
        self.controller.start()
        self.start_switch()
        gw.wait_until(self.node_is_in_sync, "the switch holds what it should", 60)
        gw.wait_until(lambda: time.monotonic() - began > 3, "changes looked at for 1 s")
        got = json.loads(self.ctl("policy", "suggest", "--seconds", "2", "-o", "json"))
        by_name = {s["service"]: s for s in got["services"]}
        traffic = got["traffic"]
        self.assertEqual((traffic["seconds"], traffic["nodes"], traffic["uncounted_bps"]),
                         (2, 1, 0))
        self.assertEqual([u["node"] for u in traffic["unmeasured"]], ["h1b"])
        self.assertGreater(traffic["total_bps"], 0)
        for service, least, most in (("idc", share(100), share(100)),
                                     ("local", share(200), share(200, 300)),
                                     ("region", 0, share(300))):
            carried = by_name[service]["traffic"]
            self.assertAlmostEqual(carried["least_share"], least, delta=0.01)
            self.assertAlmostEqual(carried["most_share"], most, delta=0.01)
        self.assertEqual({s: (by_name[s]["weight"], by_name[s]["place"],
                              by_name[s]["suggested"]) for s in ("idc", "local", "region")},
                         {"idc": ("heavy", "xgw-x86", "xgw-h"),
                          "local": ("heavy", "xgw-h", "xgw-h"),
                          "region": ("light", "xgw-h", "xgw-x86")})
        text = self.ctl("policy", "suggest", "--seconds", "1")
        self.assertRegex(text, r"(?m)^idc +xgw-x86 +[0-9.]+-[0-9.]+ % heavy .* xgw-h ")
        self.assertIn("not measured: h1b, it has no session", text)
        self.assertIn("to follow: xgwctl policy set idc=xgw-h region=xgw-x86", text)


if __name__ == "__main__":
    CONTROLLER, AGENT, GATEWAY, XGWCTL, P4INFO_MAKER = sys.argv[1:6]
    unittest.main(argv=sys.argv[:1] + sys.argv[6:])
