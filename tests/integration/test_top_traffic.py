#!/usr/bin/python3
"""`xgwctl top flows|tenants` of a region in which traffic flows: a controller, an agent
and `xgw-gateway --pipeline x86`, into which packets are played over and over.  What each
flow and tenant carries is known by their bytes.

    test_top_traffic.py XGW_CONTROLLER XGW_AGENT XGW_GATEWAY XGWCTL
"""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "reference")]
import cases  # noqa: E402
import controller_rig  # noqa: E402
import gateway_rig as gw  # noqa: E402

CONTROLLER = AGENT = GATEWAY = XGWCTL = None
VTEP, NC = "172.16.0.1", "172.16.9.9"
# VNI, inner destination, bytes of payload, times in a round.
FLOWS = [(100, "10.0.0.1", 900, 6), (100, "10.0.0.2", 900, 2), (200, "10.0.0.5", 900, 3),
         (300, "10.0.0.6", 200, 1)]


def frame(vni, dst, size):
    return cases.tunnel(cases.plain(payload=b"x" * size, dst=dst), vni=vni,
                        ip={"src": NC, "dst": VTEP})


class TopTraffic(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="xgw"))
        self.addCleanup(subprocess.run, ["rm", "-r", str(self.folder)], check=True)
        self.controller = controller_rig.Controller(CONTROLLER, self.folder).start()
        self.addCleanup(self.controller.stop)

    def put(self, path, body):
        answer = self.controller.request("PUT", "/v1" + path, body)
        self.assertEqual(answer.status, 200, answer)

    def describe_region(self):
        self.put("/region", {"name": "r", "underlay_sources": ["172.16.0.0/16"]})
        self.put("/clusters/x1", {"vip_v4": "172.16.255.1"})
        self.put("/nodes/x1a", {"cluster": "x1", "vtep_v4": VTEP, "uplinks": [
            {"port": "up0", "addr_v4": "172.16.1.2", "next_hop_v4": "172.16.1.1",
             "mac": "02:00:00:00:01:01", "mtu": 9000}]})
        self.put("/nodes/x1b", {"cluster": "x1", "vtep_v4": "172.16.0.2"})  # nobody runs it
        for vni in (100, 200):  # 300 is no tenant: its packets are dropped, and counted
            self.put(f"/tenants/{vni}", {"cluster": "x1"})

    def start_node(self):
        cases.write_pcap(self.folder / "in.pcap",
                         [frame(*flow[:3]) for flow in FLOWS for _ in range(flow[3])])
        port = f"up0=vdev:net_pcap0,rx_pcap={self.folder}/in.pcap,infinite_rx=1"
        gateway = gw.Gateway(GATEWAY, port, folder=self.folder)
        gateway.start()
        self.addCleanup(gateway.stop)
        log = (self.folder / "agent.log").open("a")
        agent = subprocess.Popen(
            [AGENT, "--device-id", "x1a", "--plain-text", "--controllers",
             f"127.0.0.1:{self.controller.grpc}", "--gateway", gateway.address],
            stdout=log, stderr=log)
        self.addCleanup(agent.wait)
        self.addCleanup(agent.kill)
        self.addCleanup(log.close)

    def top(self, what, *options):
        done = subprocess.run([XGWCTL, "--server", f"http://127.0.0.1:{self.controller.rest}",
                               "top", what, *options, "-o", "json"], capture_output=True,
                              text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def check_shares(self, answer, key, carried):
        """Each has the share of the bytes that were played, to two percent of all."""
        total = sum(carried.values())
        self.assertEqual([key(row) for row in answer["items"]],
                         sorted(carried, key=carried.get, reverse=True))
        for row in answer["items"]:
            self.assertAlmostEqual(row["bps"] / answer["bps"], carried[key(row)] / total,
                                   delta=0.02)
            self.assertLessEqual(row["error_bps"], 1)  # bounds are rounded outwards
            self.assertEqual(row["nodes"], 1)
        self.assertEqual((answer["nodes"], answer["without"], answer["rest_bps"]), (1, 1, 0))

    def test_known_bytes_are_told_by_flow_and_by_tenant(self):
        self.describe_region()
        self.start_node()
        # A whole interval of ten seconds of traffic.
        gw.wait_until(lambda: self.top("flows")["bps"] > 0, "a node tells its flows", 120)
        flows, tenants = {}, {}
        for vni, dst, size, times in FLOWS:
            carried = len(frame(vni, dst, size)) * times
            flows[vni, dst] = carried
            tenants[vni] = tenants.get(vni, 0) + carried
        self.check_shares(self.top("flows"), lambda row: (row["vni"], row["dst"]), flows)
        self.check_shares(self.top("tenants", "--cluster", "x1"), lambda row: row["vni"],
                          tenants)
        self.assertEqual(len(self.top("tenants", "-n", "2")["items"]), 2)


if __name__ == "__main__":
    CONTROLLER, AGENT, GATEWAY, XGWCTL = sys.argv[1:5]
    unittest.main(argv=sys.argv[:1] + sys.argv[5:])
