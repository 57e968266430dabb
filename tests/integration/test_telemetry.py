#!/usr/bin/python3
"""All that nodes tell, from the wire to the API: a controller, an XGW-x86 and an XGW-H
(`xgw-gateway --pipeline x86` and `h`, each with its agent), and packets whose number and
bytes the sender and the kernel's own counters of the wires know.

    test_telemetry.py XGW_CONTROLLER XGW_AGENT XGW_GATEWAY XGWCTL P4INFO_MAKER

Needs root, for veth pairs: ends with 77 without.
"""
import ipaddress
import json
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from urllib.parse import quote

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "reference")]
import cases  # noqa: E402
import controller_rig  # noqa: E402
import gateway_rig as gw  # noqa: E402
import p4rt_rig  # noqa: E402

CONTROLLER = AGENT = GATEWAY = XGWCTL = P4INFO_MAKER = None
NC = "172.16.9.9"
# VNI, inner destination, bytes of payload, times in a round.
FLOWS = [(100, "10.0.0.1", 900, 6), (100, "10.0.0.2", 900, 2), (200, "10.0.0.5", 900, 3),
         (300, "10.0.0.6", 200, 1)]  # 300 is no tenant: dropped, and counted
FORWARDED = sum(f[3] for f in FLOWS if f[0] != 300)
UNKNOWN = sum(f[3] for f in FLOWS if f[0] == 300)
BURST, PAUSE = 3, 0.0025  # packets at once, and seconds to the next: 1,200 a second
# Of a burst a node looks at one packet at most: some 4,000 in an interval, where a share
# has a standard error of at most 0.8 percent.  Counters are exact but for their span.
BY_SAMPLES, BY_COUNTERS = 0.05, 0.02
WATCHED = 16  # seconds of traffic that rates are compared over


def ip(*words):
    subprocess.run(["ip", *words], check=True)


def frame(vtep, vni, dst, size):
    return cases.tunnel(cases.plain(payload=b"x" * size, dst=dst), vni=vni,
                        ip={"src": NC, "dst": vtep})


def round_of(vtep):
    frames = [frame(vtep, *flow[:3]) for flow in FLOWS for _ in range(flow[3])]
    return frames[::2] + frames[1::2]  # bursts are not of one flow


class Wire(threading.Thread):
    """A veth pair: the node has one end, in a namespace of its own, and rounds of packets
    go into the other."""

    def __init__(self, name, frames):
        super().__init__(daemon=True)
        self.ours, self.namespace, self.port, self.frames = name, name, "wire", frames
        self.sent = [(time.time(), 0)]  # (when, packets until then)
        self.over = threading.Event()
        self.socket = None

    def make(self):
        ip("netns", "add", self.namespace)
        ip("link", "add", self.ours, "type", "veth", "peer", "name", self.port, "netns",
           self.namespace)
        for where, end in (((), self.ours), (("-n", self.namespace), self.port)):
            # And nothing of the kernel's own on it.
            ip(*where, "link", "set", end, "addrgenmode", "none", "mtu", "9000")
            ip(*where, "link", "set", end, "up")
        self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
        self.socket.bind((self.ours, 0))

    def run(self):
        due = time.time()
        while not self.over.is_set():
            for at in range(0, len(self.frames), BURST):  # a round is never cut
                for f in self.frames[at:at + BURST]:
                    self.socket.send(f)
                due += PAUSE
                time.sleep(max(0, due - time.time()))
            self.sent.append((time.time(), self.sent[-1][1] + len(self.frames)))

    def counted(self, what):
        """By the kernel, at our end."""
        path = pathlib.Path("/sys/class/net", self.ours, "statistics", what)
        return int(path.read_text())

    def pps(self, begin, end):
        """What was sent a second, between two times."""
        def until(t):
            return max(n for when, n in self.sent if when <= t)
        return (until(end) - until(begin)) / (end - begin)

    def remove(self):
        self.over.set()
        if self.is_alive():
            self.join()
        if self.socket:
            self.socket.close()
        ip("netns", "del", self.namespace)  # and both ends with it


class Node:
    """A gateway with its agent, at the end of a wire."""

    def __init__(self, test, name, vtep, port, *options):
        self.test, self.name, self.vtep, self.port = test, name, vtep, port
        self.folder = test.folder / name
        self.folder.mkdir()
        self.wire = Wire(f"xt{os.getpid() % 1000000}{name[0]}", round_of(vtep))
        test.addCleanup(self.wire.remove)
        self.wire.make()
        self.gateway = gw.Gateway(GATEWAY, f"{port}=af_packet:{self.wire.port}", *options,
                                  folder=self.folder, namespace=self.wire.namespace)

    def start(self, *options):
        self.gateway.start()
        self.test.addCleanup(self.gateway.stop)
        log = (self.folder / "agent.log").open("a")
        agent = subprocess.Popen(
            [AGENT, "--device-id", self.name, "--plain-text", "--controllers",
             f"127.0.0.1:{self.test.controller.grpc}", *options], stdout=log, stderr=log)
        for done in (agent.wait, agent.kill, log.close):
            self.test.addCleanup(done)

    def status(self):
        return self.test.get(f"/nodes/{self.name}").get("status", {})

    def is_in_sync(self):
        s = self.status()
        return s.get("state") == "online" and s.get("in_sync") and s.get("ready")

    def usage(self):
        """{(part, resource): what is told of it}"""
        subject = f"node/{self.name}"
        return {(u["subject"][len(subject):].lstrip("/"), u["resource"]): u
                for u in self.test.get(f"/usage?subject={subject}")["items"]}

    def history(self, part, resource, resolution="seconds"):
        subject = "/".join(x for x in ("node", self.name, part) if x)
        return self.test.get(f"/history?subject={quote(subject, safe='')}&resource={resource}"
                             f"&resolution={resolution}&from={int(time.time()) - 3000}")["points"]


class Telemetry(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="xgw"))
        self.addCleanup(subprocess.run, ["rm", "-r", str(self.folder)], check=True)
        self.controller = controller_rig.Controller(CONTROLLER, self.folder).start()
        self.addCleanup(self.controller.stop)
        self.pb, stubs, _ = controller_rig.load_proto(self.folder)
        channel = self.controller.channel()
        self.addCleanup(channel.close)
        self.stub = stubs.ControllerStub(channel)
        self.x86 = Node(self, "x1a", "172.16.0.1", "up0")
        self.h = Node(self, "h1a", "172.16.0.3", "0", "--pipeline", "h", "--memory", "128")

    def get(self, path):
        answer = self.controller.request("GET", "/v1" + path)
        self.assertEqual(answer.status, 200, answer)
        return answer.json

    def put(self, path, body):
        answer = self.controller.request("PUT", "/v1" + path, body)
        self.assertEqual(answer.status, 200, answer)

    def ctl(self, *args):
        done = subprocess.run(
            [XGWCTL, "--server", f"http://127.0.0.1:{self.controller.rest}", *args],
            capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def describe_region(self):
        self.put("/region", {"name": "r", "underlay_sources": ["172.16.0.0/16"]})
        self.put("/clusters/x1", {"vip_v4": "172.16.255.1"})
        self.put("/clusters/h1", {"kind": "xgw-h", "backing": "x1", "vip_v4": "172.16.255.2"})
        for n, node in enumerate((self.x86, self.h)):
            self.put(f"/nodes/{node.name}", {
                "cluster": node.name[:2], "vtep_v4": node.vtep, "uplinks": [
                    {"port": node.port, "addr_v4": f"172.16.{n + 1}.2",
                     "next_hop_v4": f"172.16.{n + 1}.1", "mac": "02:00:00:00:01:01",
                     "mtu": 8900}], **({"kind": "soft-h"} if node is self.h else {})})
        self.put("/nodes/x1b", {"cluster": "x1", "vtep_v4": "172.16.0.2"})  # nobody runs it
        for vni in (100, 200):
            self.put(f"/tenants/{vni}", {"cluster": "x1", "h_home": "h1"})
            self.put(f"/tenants/{vni}/routes/{quote('10.0.0.0/8', safe='')}",
                     {"scope": "local"})
        for vni, dst, *_ in FLOWS:
            if vni != 300:
                self.put(f"/tenants/{vni}/vms/{dst}", {"nc": "172.16.8.8"})

    def start_nodes(self):
        p4info = self.folder / "xgw_h.p4info.bin"
        subprocess.run([P4INFO_MAKER, "p4info", str(p4info)], check=True)
        self.x86.start("--gateway", self.x86.gateway.address)
        self.h.start("--device-kind", "soft-h", "--p4runtime", self.h.gateway.address,
                     "--p4info", str(p4info))
        for node in (self.x86, self.h):
            gw.wait_until(node.is_in_sync, f"{node.name} holds what it should", 60)

    # ---- what is looked at ----

    def check_parts(self, node):
        """Of the cores the gateway's own, that carry packets; a busy host is no matter."""
        usage = node.usage()
        self.assertEqual({part for part, _ in usage},
                         {"", f"port/{node.port}", "core/worker0"})
        speed = pathlib.Path("/sys/class/net", node.wire.ours, "speed").read_text()
        for way in ("rx_bps", "tx_bps"):
            self.assertEqual(usage[f"port/{node.port}", way]["capacity"],
                             int(speed) * 10**6)

    def check_rates(self, node, begin, end):
        """Told rates, over many seconds, are those of the sender."""
        sent = node.wire.pps(begin, end)
        round_bytes = sum(len(f) for f in node.wire.frames)
        bits = 8 * round_bytes / len(node.wire.frames)  # of a packet, on average
        out = 8 * sum(len(frame(node.vtep, *f[:3])) * f[3] for f in FLOWS if f[0] != 300)
        rounds = sent / len(node.wire.frames)
        port = f"port/{node.port}"
        for part, resource, want in (
                (port, "rx_pps", sent), (port, "rx_bps", sent * bits),
                (port, "tx_pps", rounds * FORWARDED), (port, "tx_bps", rounds * out),
                ("", "drop.unknown_vni", rounds * UNKNOWN)):
            points = [p for p in node.history(part, resource) if begin < p[0] <= end]
            self.assertGreaterEqual(len(points), WATCHED // 2, (part, resource))
            told = sum(p[2] for p in points) / len(points)
            with self.subTest(node=node.name, resource=resource):
                # A drop's rate is rounded up: at most one a second more.
                self.assertAlmostEqual(told, want, delta=0.1 * want + 1)
        others = {r for part, r in node.usage() if r.startswith("drop.")}
        self.assertLessEqual(others, {"drop.unknown_vni", "drop.not_ready"})

    def check_host(self, node):
        """Memory and disk are those of this machine."""
        usage = node.usage()
        info = dict(line.split(":") for line in
                    pathlib.Path("/proc/meminfo").read_text().splitlines())
        total, free = (int(info[k].split()[0]) * 1024 for k in ("MemTotal", "MemAvailable"))
        self.assertEqual(usage["", "memory"]["capacity"], total)
        self.assertAlmostEqual(usage["", "memory"]["used"], total - free, delta=total / 5)
        fs = os.statvfs("/")
        used = (fs.f_blocks - fs.f_bfree) * fs.f_frsize
        room = used + fs.f_bavail * fs.f_frsize
        self.assertAlmostEqual(usage["", "disk"]["capacity"], room, delta=room / 20)
        self.assertAlmostEqual(usage["", "disk"]["used"], used, delta=room / 20)

    def check_core(self, node):
        core = node.usage()["core/worker0", "busy"]
        self.assertEqual(core["capacity"], 10**9)
        self.assertGreater(core["used"], 0)
        self.assertLess(core["used"], 10**9)
        text = self.ctl("top", "cores", "-o", "json")
        self.assertIn((node.name, "worker0"),
                      {(r["node"], r["core"]) for r in json.loads(text)})
        ports = {r["node"]: r for r in json.loads(self.ctl("top", "ports", "-o", "json"))}
        self.assertEqual(ports[node.name]["port"], node.port)
        self.assertGreater(ports[node.name]["rx_bps"], 0)

    def check_tables(self):
        """As the devices themselves say, asked by others than the agents."""
        with gw.Client(gw.load_api(self.folder), self.x86.gateway.address) as client:
            own = {t.name: (t.used, t.capacity) for t in client.counters().tables}
        told = {r[len("table."):]: (u["used"], u["capacity"])
                for (part, r), u in self.x86.usage().items() if r.startswith("table.")}
        self.assertEqual(told, own)
        self.assertEqual([own[t][0] for t in ("vni", "vxlan_route", "vm_nc")], [2, 2, 3])
        told = {r[len("table."):]: u["used"]
                for (part, r), u in self.h.usage().items() if r.startswith("table.")}
        modules = p4rt_rig.load_p4(self.folder)
        halves = [p4rt_rig.Controller(modules, self.h.gateway.address, device=d)
                  for d in (1, 2)]
        for c in halves:
            self.addCleanup(c.close)
        rows = {name: [len(c.read_table(name)) for c in halves]
                for name in ("vni", "vm_nc", "vm_nc_spill", "route_tcam", "nc", "vtep",
                             "source", "acl")}
        for name in ("vni", "nc", "vtep", "source", "acl"):
            self.assertEqual([told[name]] * 2, rows[name], name)
        for half in (0, 1):
            self.assertEqual(told[f"vm_nc.{half}"],
                             rows["vm_nc"][half] + rows["vm_nc_spill"][half])
            self.assertEqual(told[f"route_tcam.{half}"], rows["route_tcam"][half])
        self.assertEqual(told["vni"], 2)
        self.assertEqual(told["vm_nc.0"] + told["vm_nc.1"], 3)

    def top(self, what, *options):
        return json.loads(self.ctl("top", what, *options, "-o", "json"))

    def check_shares(self, answer, key, carried, total, delta):
        """Each has its share of the bytes that were sent."""
        self.assertEqual([key(row) for row in answer["items"]],
                         sorted(carried, key=carried.get, reverse=True))
        for row in answer["items"]:
            self.assertAlmostEqual(row["bps"] / answer["bps"], carried[key(row)] / total,
                                   delta=delta)
            self.assertLessEqual(row["error_bps"], 20)  # bounds are rounded outwards
            self.assertEqual(row["nodes"], 1)
        self.assertEqual((answer["nodes"], answer["without"], answer["unable"]), (1, 0, 0))
        self.assertLessEqual(answer["rest_bps"], 20)

    def check_top(self, node):
        flows, tenants = {}, {}
        for vni, dst, size, times in FLOWS:
            carried = len(frame(node.vtep, vni, dst, size)) * times
            flows[vni, dst] = carried
            tenants[vni] = tenants.get(vni, 0) + carried
        total = sum(flows.values())
        told = self.top("flows", "--node", node.name)
        self.check_shares(told, lambda row: (row["vni"], row["dst"]), flows, total,
                          BY_SAMPLES)
        now = time.time()
        sent = 8 * total * node.wire.pps(now - 20, now) / len(node.wire.frames)
        self.assertAlmostEqual(told["bps"], sent, delta=0.15 * sent)
        if node is self.h:
            del tenants[300]  # it counts by VNI, and that is none of ours
        told = self.top("tenants", "--node", node.name)
        self.check_shares(told, lambda row: row["vni"], tenants, total, BY_SAMPLES)
        if node is self.h:
            first, second = (row["bps"] for row in told["items"])
            self.assertAlmostEqual(second / first, tenants[200] / tenants[100],
                                   delta=BY_COUNTERS)
        self.assertEqual(
            len(self.top("tenants", "--node", node.name, "-n", "1")["items"]), 1)
        self.assertRegex(self.ctl("top", "flows", "--node", node.name),
                         r"(?m)^[0-9.]+ [kM] .* 100 +10\.0\.0\.5:4321 +10\.0\.0\.1:80 +tcp")

    def grpc_top(self, kind, node):
        top = self.stub.GetTop(self.pb.GetTopRequest(kind=kind, node=node.name))
        return (top.nodes, top.unable, top.bps, [
            (r.vni, r.bps, r.error_bps, str(ipaddress.ip_address(r.dst)) if r.dst else None)
            for r in top.rows])

    def rest_top(self, what, node):
        top = self.get(f"/top/{what}?node={node.name}")
        return (top["nodes"], top["unable"], top["bps"], [
            (r["vni"], r["bps"], r["error_bps"], r.get("dst")) for r in top["items"]])

    def check_minutes(self, node):
        """A minute is what its seconds were."""
        port = f"port/{node.port}"
        minute = node.history(port, "rx_bps", "minutes")[-1]
        self.assertEqual(minute[0] % 60, 0)
        seconds = [p for p in node.history(port, "rx_bps")
                   if minute[0] <= p[0] < minute[0] + 60]
        self.assertEqual(minute[1], min(p[1] for p in seconds))
        self.assertEqual(minute[2], sum(p[2] for p in seconds) // len(seconds))
        self.assertEqual(minute[3], max(p[3] for p in seconds))
        for hour in node.history(port, "rx_bps", "hours"):  # if one was over meanwhile
            self.assertEqual(hour[0] % 3600, 0)

    def test_all_that_is_told_is_what_was_sent(self):
        nodes = (self.x86, self.h)
        self.describe_region()
        self.start_nodes()
        begin = time.time()
        for node in nodes:
            node.wire.start()
        # Whole rounds of ten seconds of traffic, and the one before them on XGW-H.
        gw.wait_until(lambda: time.time() > begin + WATCHED + 2, "traffic for a while", 60)
        end = time.time() - 1
        for node in nodes:
            with self.subTest(node=node.name):
                gw.wait_until(lambda node=node: self.get(
                    f"/top/flows?node={node.name}")["nodes"], "a node tells its flows", 120)
                self.check_parts(node)
                self.check_rates(node, begin + 2, end)
                self.check_host(node)
                self.check_core(node)
        self.check_tables()
        # An interval that was all traffic, and not told half.
        told = {node: self.get(f"/top/flows?node={node.name}")["bps"] for node in nodes}
        for node in nodes:
            gw.wait_until(lambda node=node: self.get(
                f"/top/flows?node={node.name}")["bps"] != told[node], "another interval", 60)
            with self.subTest(node=node.name):
                self.check_top(node)
                for kind, what in ((self.pb.TOP_KIND_FLOWS, "flows"),
                                   (self.pb.TOP_KIND_TENANTS, "tenants")):
                    gw.wait_until(lambda node=node, kind=kind, what=what: self.grpc_top(
                        kind, node) == self.rest_top(what, node), "one answer", 20)
        for node in nodes:
            gw.wait_until(lambda node=node: node.history(
                f"port/{node.port}", "rx_bps", "minutes"), "a minute is over", 150)
            self.check_minutes(node)
        # Once all is quiet, to the packet, by the kernel's counters of the wires.
        for node in nodes:
            node.wire.over.set()
            node.wire.join()
        for node in nodes:
            packets = node.wire.sent[-1][1]
            self.assertEqual(node.wire.counted("tx_packets"), packets)
            rounds = packets // len(node.wire.frames)
            want = (packets, rounds * FORWARDED, rounds * UNKNOWN)
            gw.wait_until(lambda node=node, want=want: tuple(
                node.status()[k] for k in ("rx_packets", "tx_packets", "drops")) == want,
                f"{node.name} counts {want}, not {node.status()}", 30)
            self.assertEqual(node.wire.counted("rx_packets"), rounds * FORWARDED)


if __name__ == "__main__":
    CONTROLLER, AGENT, GATEWAY, XGWCTL, P4INFO_MAKER = sys.argv[1:6]
    if os.getuid() != 0:
        print("skipped: makes veth pairs, which needs root")
        sys.exit(77)
    unittest.main(argv=sys.argv[:1] + sys.argv[6:])
