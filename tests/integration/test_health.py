#!/usr/bin/python3
"""Health from outside: a real controller, agents played here over agent.proto, and the
Alertmanager that Debian ships.

    test_health.py XGW_CONTROLLER XGWCTL [unittest arguments]

What an agent says becomes levels, alarms, history and metrics; alarms reach Alertmanager,
are there again after it was away, and end there when they are over.
"""
import importlib
import ipaddress
import json
import os
import pathlib
import queue
import shutil
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import urllib.request

import grpc
import jsonschema
import xxhash
import yaml

from controller_rig import ROOT, Controller, check_metrics, free_port, load_proto

PROGRAM = XGWCTL = None
PAGE = yaml.safe_load((ROOT / "proto/api/openapi.yaml").read_text())
LOAD, TABLE, FIGURE = 2, 1, 3
TABLES = 7  # of proto/model/entry.h, tenant included


def load_agent_proto(folder):
    subprocess.run([sys.executable, "-m", "grpc_tools.protoc", f"-I{ROOT}/proto/api",
                    f"--python_out={folder}", f"--grpc_python_out={folder}",
                    "agent.proto"], check=True)
    sys.path.insert(0, str(folder))
    return importlib.import_module("agent_pb2"), importlib.import_module("agent_pb2_grpc")


def until(claim, seconds=60, what="it did not come to pass"):
    """Looks again until it holds; the claim is the event that is waited for."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        value = claim()
        if value:
            return value
        time.sleep(0.05)
    raise AssertionError(what)


def varint(v):
    out = b""
    while v >= 0x80:
        out += bytes([v & 0x7f | 0x80])
        v >>= 7
    return out + bytes([v])


def history_chunk(tier, subject, resource, points):
    """A chunk of a history file, from the words of history_store.c and history_block.h;
    points: (time, least, mean, greatest), packed in their longest form."""
    block, last_t, last_mean = b"", 0, 0
    for t, low, mean, high in points:
        delta = mean - last_mean
        block += (b"\x03" + varint(t - last_t) + varint(mean - low) + varint(high - mean) +
                  varint(delta * 2 if delta >= 0 else -delta * 2 - 1))
        last_t, last_mean = t, mean
    name = b"".join(bytes([len(x)]) + x.encode() for x in (subject, resource))
    payload = bytes([tier]) + name + struct.pack(
        ">QQII", points[0][0], points[-1][0], len(points), len(block)) + block
    return struct.pack(">IQ", len(payload), xxhash.xxh3_64_intdigest(payload)) + payload


class Agent:
    """A node that says HELLO, holds nothing, and reports what it is told to report."""

    def __init__(self, controller, node):
        self.channel = controller.channel()
        self.out = queue.Queue()
        self.assigned = threading.Event()
        self.telemetry_ms = None
        self.node, self.boot = node, 7
        stub = agent_pb2_grpc.AgentSessionStub(self.channel)
        self.out.put(agent_pb2.AgentMessage(hello=agent_pb2.Hello(
            device_id=node, device_kind=1, boot_id=self.boot, ready=True, hello_id=1,
            version="test", root=[agent_pb2.Digest() for _ in range(TABLES)])))
        self.stream = stub.Session(iter(self.out.get, None))
        threading.Thread(target=self.listen, daemon=True).start()
        assert self.assigned.wait(30), "no ASSIGN"

    def listen(self):
        try:
            for m in self.stream:
                kind = m.WhichOneof("m")
                if kind == "assign":
                    self.telemetry_ms = m.assign.telemetry_ms
                    self.assigned.set()
                elif kind == "query":  # it holds nothing
                    self.out.put(agent_pb2.AgentMessage(digests=agent_pb2.Digests(
                        query_id=m.query.query_id,
                        items=[agent_pb2.DigestsItem(of=i) for i in m.query.items])))
                elif kind == "batch":
                    self.out.put(agent_pb2.AgentMessage(ack=agent_pb2.Ack(
                        seq=m.batch.seq, applied=m.batch.revision, ready=True)))
        except grpc.RpcError:
            pass

    def report(self, readings, drops=None, received=1000, top=None):
        """readings: (part, resource, kind, mean, capacity)"""
        t = agent_pb2.Telemetry(boot_id=self.boot, span_ms=1000, received=received, top=top)
        for part, resource, kind, mean, capacity in readings:
            t.readings.add(part=part, resource=resource, kind=kind, mean=mean,
                           capacity=capacity)
        for reason, packets in (drops or {}).items():
            t.drops.add(reason=reason, packets=packets)
        self.out.put(agent_pb2.AgentMessage(telemetry=t))
        self.out.put(agent_pb2.AgentMessage(beat=agent_pb2.Beat(
            boot_id=self.boot, ready=True)))

    def leave(self):
        self.out.put(None)
        self.channel.close()


class Alertmanager:
    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.port = free_port()
        (self.folder / "am.yml").write_text("route: {receiver: none}\nreceivers: [{name: none}]\n")
        self.process = None

    def start(self):
        log = open(self.folder / "am.log", "a")
        self.process = subprocess.Popen(
            ["prometheus-alertmanager", f"--config.file={self.folder}/am.yml",
             f"--storage.path={self.folder}/am", "--cluster.listen-address=",
             f"--web.listen-address=127.0.0.1:{self.port}"], stdout=log, stderr=log)
        log.close()
        until(lambda: self.get("/-/ready") is not None, what="Alertmanager is not ready")

    def get(self, path):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=5) as r:
                return r.read()
        except OSError:
            return None

    def alerts(self):
        """name -> alert, of those that are firing."""
        body = self.get("/api/v2/alerts?active=true")
        return {(a["labels"]["alertname"], a["labels"]["subject"]): a
                for a in json.loads(body or b"[]")}

    def stop(self):
        self.process.kill()
        self.process.wait()


class Health(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="xgw-health-")
        cls.am = Alertmanager(cls.folder)
        cls.write_history()
        cls.c = Controller(PROGRAM, cls.folder, extra=(
            "--alertmanager", f"http://127.0.0.1:{cls.am.port}", "--alert-resend", "1s")).start()
        cls.ok("PUT", "/v1/clusters/k", {"vip_v4": "172.31.0.1"})
        for i in (1, 2, 3):
            cls.ok("PUT", f"/v1/nodes/gw-{i}", {"cluster": "k", "vtep_v4": f"172.31.0.1{i}"})

    @classmethod
    def write_history(cls):
        """Twenty days of hours, one more each hour, and files that are broken."""
        folder = pathlib.Path(cls.folder) / "region.db.history"
        folder.mkdir()
        cls.first = int(time.time()) // 86400 * 86400 - 20 * 86400
        chunks = [history_chunk(2, "cluster/k", "table.vxlan_route", [
            (cls.first + (24 * day + hour) * 3600, *([24 * day + hour] * 3))
            for hour in range(24)]) for day in range(20)]
        whole = b"xgwhist1" + b"".join(chunks)
        (folder / f"hours-{cls.first}.xgwh").write_bytes(whole)
        (folder / f"minutes-{int(time.time())}.xgwh").write_bytes(whole[:-5])
        (folder / f"seconds-{int(time.time())}.xgwh").write_bytes(b"what is this")

    @classmethod
    def tearDownClass(cls):
        cls.c.stop()
        shutil.rmtree(cls.folder)

    @classmethod
    def ok(cls, method, path, body=None):
        a = cls.c.request(method, path, body)
        assert a.status == 200, (method, path, a)
        return a.json

    def alarms(self, query=""):
        found = self.ok("GET", "/v1/alarms" + query)["items"]
        for a in found:
            jsonschema.Draft202012Validator(
                {"$ref": "#/components/schemas/Alarm", "components": PAGE["components"]}
            ).validate(a)
        return {(a["kind"], a["subject"]): a for a in found}

    def ctl(self, *words):
        done = subprocess.run([XGWCTL, "--server", f"http://127.0.0.1:{self.c.rest}",
                               "--grpc", f"127.0.0.1:{self.c.grpc}", *words], text=True,
                              capture_output=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def report(self, agent, load, key):
        """Says so until an alarm (or its absence) shows."""
        def said():
            agent.report([("port/up0", "rx_bps", LOAD, load * 10**6, 10**8),
                          ("", "table.vxlan_route", TABLE, 100, 1000),
                          ("core/worker0", "busy", LOAD, 4 * 10**8, 10**9),
                          ("", "memory", LOAD, 10**9, 4 * 10**9)])
            return key in self.alarms()
        return said

    def test_0_history_is_read_at_the_start_and_a_damaged_file_is_told(self):
        query = (f"/v1/history?subject=cluster/k&resource=table.vxlan_route&from={self.first}"
                 "&resolution=hours")
        points = until(lambda: self.ok("GET", query)["points"], what="no history")
        self.assertEqual(points, [[self.first + i * 3600, i, i, i] for i in range(480)])
        log = self.c.log()
        self.assertIn("it ends within the chunk at byte", log)
        self.assertIn("it does not begin with xgwhist1", log)
        # 480 of 1,000 are used after 480 hours: 800 are after 800.
        agent = Agent(self.c, "gw-1")

        def forecast():
            agent.report([("", "table.vxlan_route", TABLE, 480, 1000)])
            return self.ok("GET", "/v1/clusters/k/forecast")["items"]
        f = until(forecast, what="no forecast")[0]
        agent.leave()
        date = time.strftime("%Y-%m-%d", time.gmtime(self.first + 800 * 3600))
        self.assertEqual((f["when"], f["date"], f["mark"]), ("later", date, 80))
        self.assertAlmostEqual(f["per_day_percent"], 2.4)
        self.assertEqual((f["earliest"], f["latest"]), (date, date))

    def test_1_levels_alarms_metrics_and_the_command_line(self):
        agent = Agent(self.c, "gw-1")
        self.assertEqual(agent.telemetry_ms, 1000)
        key = ("water_level", "node/gw-1/port/up0/rx_bps")
        until(self.report(agent, 85, key), what="no alarm at 85 %")
        a = self.alarms()[key]
        self.assertEqual((a["severity"], a["state"], a["value"], a["threshold"]),
                         ("warning", "standing", 85.0, 80.0))
        status = self.ok("GET", "/v1/nodes/gw-1")["status"]
        self.assertEqual(status["level"], "safe")
        self.assertEqual(status["fullest"], "port/up0/rx_bps 85.0 %")
        # The cluster's load is its active side's: one node of three reports.
        until(lambda: not self.ok("GET", "/v1/clusters/k")["status"]["on_sale"],
              what="still on sale")
        usage = self.ok("GET", "/v1/usage?subject=cluster/k")["items"]
        table = [u for u in usage if u["resource"] == "table.vxlan_route"]
        self.assertEqual([(u["used"], u["capacity"], u["level"]) for u in table],
                         [(100, 1000, "clear")])
        # Metrics.
        body = self.c.request("GET", "/metrics").body
        samples = check_metrics(body.decode())
        at = '{subject="node/gw-1/port/up0",resource="rx_bps"}'
        self.assertEqual(samples["xgw_usage_ratio" + at], 0.85)
        self.assertEqual(samples["xgw_water_level" + at], 2)
        self.assertEqual(samples['xgw_alarm{kind="water_level",subject="%s",severity="warning"}'
                                 % key[1]], 1)
        if shutil.which("promtool"):
            done = subprocess.run(["promtool", "check", "metrics"], input=body,
                                  capture_output=True)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        # The command line.
        self.assertIn("rx_bps of node/gw-1/port/up0 is safe", self.ctl("get", "alarms"))
        self.assertRegex(self.ctl("get", "nodes"), r"gw-1 .* safe")
        self.assertRegex(self.ctl("get", "clusters"), r"k .* (sale|safe) ")
        self.assertRegex(self.ctl("top"), r"gw-1 +k +online +85\.0 M .* 40\.0 % +25\.0 %")
        self.assertRegex(self.ctl("top", "ports"), r"gw-1 +up0 +85\.0 M .*85\.0 % +safe")
        self.assertRegex(self.ctl("top", "cores"), r"gw-1 +worker0 +40\.0 % +clear")
        self.assertIn("acknowledged", self.ctl("alarm", "ack", a["id"]))
        self.assertEqual(self.alarms()[key]["state"], "acknowledged")
        # History.
        points = self.ok("GET", "/v1/history?subject=node/gw-1/port/up0&resource=rx_bps")
        self.assertEqual(points["resolution"], "seconds")
        self.assertEqual(points["points"][-1][1:], [85 * 10**6] * 3)
        agent.leave()

    def test_2_alertmanager_knows_what_stands_also_after_it_was_away(self):
        agent = Agent(self.c, "gw-2")
        key = ("water_level", "node/gw-2/port/up0/rx_bps")
        until(self.report(agent, 95, key), what="no alarm at 95 %")
        # It is not there yet: nothing is lost by that.
        until(lambda: "alarms not told" in self.c.log(), what="no failure told")
        self.am.start()
        try:
            alert = until(lambda: self.am.alerts().get(key), what="Alertmanager not told")
            self.assertEqual(alert["labels"]["severity"], "critical")
            self.assertIn("is critical: 95.00 %", alert["annotations"]["summary"])
            # It forgets all and is told again.
            self.am.stop()
            shutil.rmtree(f"{self.folder}/am", ignore_errors=True)
            self.am.start()
            until(lambda: key in self.am.alerts(), what="not told again")
            # The end: a deleted node's alarms are over at once.
            agent.leave()
            self.ok("DELETE", "/v1/nodes/gw-2")
            until(lambda: key not in self.alarms())
            until(lambda: key not in self.am.alerts(), what="not resolved")
            self.assertEqual(self.alarms("?all=true")[key]["state"], "cleared")
            samples = check_metrics(self.c.request("GET", "/metrics").body.decode())
            self.assertGreater(samples["xgw_alert_posts_total"], 0)
            self.assertGreater(samples["xgw_alert_post_failures_total"], 0)
        finally:
            self.am.stop()

    def test_3_a_lost_node_silences_its_port(self):
        agent = Agent(self.c, "gw-3")
        key = ("water_level", "node/gw-3/port/up0/rx_bps")
        until(self.report(agent, 85, key))
        agent.leave()
        parent = until(lambda: self.alarms().get(("node_silent", "node/gw-3")),
                       what="no alarm of a lost session")
        port = self.alarms()[key]
        self.assertTrue(port["folded"])
        self.assertEqual(port["parent"], parent["id"])
        back = Agent(self.c, "gw-3")
        until(lambda: self.ok("GET", "/v1/nodes/gw-3")["status"]["state"] == "online")
        back.leave()

    def test_5_a_festival_raises_the_levels_and_takes_its_tenants_along(self):
        agent = Agent(self.c, "gw-1")
        until(lambda: self.ok("GET", "/v1/nodes/gw-1")["status"]["state"] == "online")
        self.ok("PUT", "/v1/levels", {})
        # What gw-3 said last, 85 %, still counts.
        until(lambda: (self.report(agent, 30, ("none", ""))(),
                       self.ok("GET", "/v1/clusters/k")["status"]["on_sale"])[1],
              what="not on sale at 57.5 %")
        self.ok("PUT", "/v1/tenants/900", {"cluster": "k", "name": "sale"})
        now = int(time.time())
        window = {"starts": now, "ends": now + 5, "growth_percent": 300, "tenants": [900]}
        a = until(lambda: (self.report(agent, 50, ("none", ""))(), self.c.request(
            "PUT", "/v1/festivals/f1", window))[1].status == 409 and self.c.request(
                "PUT", "/v1/festivals/f1", window), what="150 % fits")
        self.assertEqual((a.json["rule"], a.json["field"]),
                         ("festival_does_not_fit", "growth_percent"))
        self.ok("PUT", "/v1/festivals/f1?confirm=true", window)
        self.assertEqual(self.ok("GET", "/v1/festivals/f1")["status"]["state"], "active")
        self.assertRegex(self.ctl("get", "festivals"), r"f1 +active .*no +900")
        self.c.kill()
        self.c.start()
        until(lambda: self.ok("GET", "/v1/festivals/f1")["status"]["state"] == "over")
        self.assertEqual(self.c.request("GET", "/v1/tenants/900").status, 404)
        self.ctl("delete", "festival", "f1")
        self.assertEqual(self.ok("GET", "/v1/festivals")["items"], [])
        agent.leave()

    def test_6_a_critical_table_takes_no_more_entries(self):
        agent = Agent(self.c, "gw-1")
        until(lambda: self.ok("GET", "/v1/nodes/gw-1")["status"]["state"] == "online")
        until(lambda: (self.report(agent, 10, ("none", ""))(), self.c.request(
            "PUT", "/v1/tenants/901", {"cluster": "k"}))[1].status == 200,
            what="the sale stays closed")
        self.ok("PUT", "/v1/tenants/901/vms/10.0.0.1", {"nc": "172.16.1.1"})

        def refused():
            agent.report([("", "table.vm_nc", TABLE, 930, 1000)])
            a = self.c.request("PUT", "/v1/tenants/901/vms/10.0.0.2", {"nc": "172.16.1.1"})
            self.c.request("DELETE", "/v1/tenants/901/vms/10.0.0.2")
            return a.status != 200 and a
        a = until(refused, what="93 % are not critical")
        self.assertEqual((a.status, a.json["code"], a.json["rule"]),
                         (507, "full", "critical_level"))
        self.assertIn("table.vm_nc is at 93.00 %, 930 of 1000", a.json["detail"])
        self.assertIn("xgwctl rebalance", a.json["detail"])
        self.ok("PUT", "/v1/tenants/901/vms/10.0.0.1", {"nc": "172.16.1.2"})
        self.ok("DELETE", "/v1/tenants/901/vms/10.0.0.1")
        use = self.ok("GET", "/v1/clusters/k")["status"]
        self.assertEqual(use["placement"]["takes_tenants"], False)
        self.ok("DELETE", "/v1/tenants/901")
        agent.leave()

    def test_7_the_heaviest_flows_and_tenants_of_nodes_add_up(self):
        def item(vni, last, mbit, error=0):
            """Of 10 s: 1 Mbit/s are 1,250,000 bytes."""
            return {"vni": vni, "src": bytes([10, 0, 0, last]), "dst": bytes([10, 0, 9, 9]),
                    "proto": 6, "sport": 40000, "dport": 443, "bytes": mbit * 1250000,
                    "error": error * 1250000}

        def tenant(vni, mbit):
            return {"vni": vni, "bytes": mbit * 1250000}
        self.ok("PUT", "/v1/clusters/k7", {"vip_v4": "172.31.0.7"})
        for i in (7, 8, 9):
            self.ok("PUT", f"/v1/nodes/gw-{i}", {"cluster": "k7", "vtep_v4": f"172.31.0.1{i}"})
        agents = [Agent(self.c, "gw-7"), Agent(self.c, "gw-8")]
        v6 = dict(item(101, 0, 5), src=bytes(15) + b"\1", dst=bytes(15) + b"\2")
        tops = [dict(interval_ms=10000, bytes=100 * 1250000, flows_rest=1250000,
                     flows=[item(100, 1, 60, error=2), item(100, 2, 20), v6],
                     tenants=[tenant(100, 90), tenant(101, 10)]),
                dict(interval_ms=10000, bytes=50 * 1250000, flows_rest=2 * 1250000,
                     flows=[item(100, 2, 30)], tenants=[tenant(100, 40)])]

        def told():
            for agent, top in zip(agents, tops):
                agent.report([], top=agent_pb2.Top(**top))
            return self.ok("GET", "/v1/top/flows?cluster=k7")["nodes"] == 2
        until(told, what="no node is counted")
        flows = self.ok("GET", "/v1/top/flows?cluster=k7&count=2")
        million = 10**6
        rows = [(r["src"], r["bps"], r["error_bps"], r["nodes"]) for r in flows["items"]]
        # gw-8 may have had up to 2 Mbit/s of what it does not list.
        self.assertEqual(rows, [("10.0.0.1", 62 * million, 4 * million, 1),
                                ("10.0.0.2", 50 * million, 0, 2)])
        self.assertEqual((flows["bps"], flows["rest_bps"], flows["without"]),
                         (150 * million, 7 * million, 1))
        tenants = self.ok("GET", "/v1/top/tenants?node=gw-7")
        self.assertEqual([(r["vni"], r["bps"]) for r in tenants["items"]],
                         [(100, 90 * million), (101, 10 * million)])
        out = self.ctl("top", "flows", "--cluster", "k7", "-n", "5")
        self.assertRegex(out, r"62\.0 M +58\.0 M +100 +10\.0\.0\.1:40000 +10\.0\.9\.9:443 +tcp +1")
        self.assertRegex(out, r"7\.0 M +5\.0 M +101 +\[::1\]:40000 +\[::2\]:443 +tcp +1")
        self.assertIn("1 nodes told nothing in 30 s", out)
        self.assertRegex(self.ctl("top", "tenants", "--node", "gw-8"), r"40\.0 M +40\.0 M +100")
        self.assertEqual(json.loads(self.ctl("top", "tenants", "--node", "gw-7", "-o", "json")),
                         tenants)
        for path, status in (("/v1/top/flows?cluster=nowhere", 404),
                             ("/v1/top/flows?node=nobody", 404),
                             ("/v1/top/flows?count=101", 400), ("/v1/top/tenants?count=0", 400)):
            self.assertEqual(self.c.request("GET", path).status, status, path)
        # The same over gRPC.
        channel = self.c.channel()
        self.addCleanup(channel.close)
        pb, stubs, _ = controller_proto
        ask = stubs.ControllerStub(channel).GetTop

        def as_rest(top, is_flows):
            rows = [{"vni": r.vni, "bps": r.bps, "error_bps": r.error_bps, "nodes": r.nodes,
                     **({"src": str(ipaddress.ip_address(r.src)), "proto": r.proto,
                         "dst": str(ipaddress.ip_address(r.dst)), "sport": r.sport,
                         "dport": r.dport} if is_flows else {})} for r in top.rows]
            return {"nodes": top.nodes, "without": top.without, "unable": top.unable,
                    "bps": top.bps, "rest_bps": top.rest_bps, "items": rows}
        self.assertEqual(as_rest(ask(pb.GetTopRequest(cluster="k7", count=2)), True), flows)
        self.assertEqual(as_rest(ask(pb.GetTopRequest(kind=pb.TOP_KIND_TENANTS,
                                                      node="gw-7")), False), tenants)
        for request, code in ((dict(cluster="nowhere"), grpc.StatusCode.NOT_FOUND),
                              (dict(node="nobody"), grpc.StatusCode.NOT_FOUND),
                              (dict(count=101), grpc.StatusCode.OUT_OF_RANGE),
                              (dict(kind=7), grpc.StatusCode.INVALID_ARGUMENT)):
            with self.assertRaises(grpc.RpcError) as caught:
                ask(pb.GetTopRequest(**request))
            self.assertEqual(caught.exception.code(), code, request)
        # A node that counts tenants and no flows says so, and so does the API.
        agents.append(Agent(self.c, "gw-9"))
        tops.append(dict(interval_ms=10000, bytes=1250000, no_flows=True,
                         tenants=[tenant(102, 1)]))
        until(lambda: told() and self.ok("GET", "/v1/top/flows?cluster=k7")["unable"] == 1,
              what="gw-9 is not known to tell no flows")
        self.assertEqual(self.ok("GET", "/v1/top/flows?cluster=k7&count=2"),
                         {**flows, "without": 0, "unable": 1})
        self.assertIn("of 1 nodes it is not available",
                      self.ctl("top", "flows", "--cluster", "k7"))
        self.assertEqual(self.ok("GET", "/v1/top/tenants?node=gw-9")["items"],
                         [{"vni": 102, "bps": million, "error_bps": 0, "nodes": 1}])
        refused = self.c.request("GET", "/v1/top/flows?node=gw-9")
        self.assertEqual((refused.status, refused.json["rule"], refused.json["field"]),
                         (409, "not_on_this_kind", "node"))
        with self.assertRaises(grpc.RpcError) as caught:
            ask(pb.GetTopRequest(node="gw-9"))
        self.assertEqual(caught.exception.code(), grpc.StatusCode.FAILED_PRECONDITION)
        flows = self.ok("GET", "/v1/top/flows?cluster=k7&count=2")
        # A list out of bounds ends the session and changes nothing.
        agents[1].report([], top=agent_pb2.Top(interval_ms=10000, flows=[item(1 << 24, 1, 1)]))
        until(lambda: ("node_silent", "node/gw-8") in self.alarms(), what="it may go on")
        self.assertEqual(self.ok("GET", "/v1/top/flows?cluster=k7&count=2"), flows)
        agents[0].leave()
        agents[2].leave()

    def test_8_a_core_that_carries_no_packets_closes_no_sale(self):
        """The CPU beside a chip is a figure; a worker's core is a load."""
        self.ok("PUT", "/v1/clusters/k8", {"vip_v4": "172.31.0.8"})
        self.ok("PUT", "/v1/nodes/gw-88", {"cluster": "k8", "vtep_v4": "172.31.0.88"})
        agent = Agent(self.c, "gw-88")
        cores = [("core/cpu0", "busy", FIGURE, 10**9, 10**9)]

        def usage(subject):
            agent.report([*cores, ("", "table.vxlan_route", TABLE, 1, 1000)])
            return {(u["subject"], u["resource"]): u
                    for u in self.ok("GET", f"/v1/usage?subject={subject}")["items"]}
        until(lambda: ("cluster/k8", "table.vxlan_route") in usage("cluster/k8"),
              what="no level of the cluster is made of its node's")
        core = usage("node/gw-88")["node/gw-88/core/cpu0", "busy"]
        self.assertEqual((core["level"], core["percent"]), ("clear", 100.0))
        self.assertNotIn(("cluster/k8", "busy"), usage("cluster/k8"))
        self.assertTrue(self.ok("GET", "/v1/clusters/k8")["status"]["on_sale"])
        self.assertRegex(self.ctl("top", "cores"), r"gw-88 +cpu0 +100")
        cores.append(("core/worker0", "busy", LOAD, 10**9, 10**9))
        until(lambda: usage("node/gw-88") and not self.ok(
            "GET", "/v1/clusters/k8")["status"]["on_sale"], what="still on sale")
        agent.leave()

    def test_4_settings_of_levels(self):
        self.ok("PATCH", "/v1/levels", {"x86": {"sale": 20, "safe": 30}})
        levels = self.ok("GET", "/v1/levels")
        self.assertEqual(levels["x86"], {"sale": 20, "safe": 30, "critical": 90, "clear": 10,
                                         "drop_rate": 1e-5})
        self.assertEqual(levels["xgw-h"]["drop_rate"], 1e-9)
        a = self.c.request("PATCH", "/v1/levels", {"x86": {"safe": 5}})
        self.assertEqual((a.status, a.json["field"], a.json["rule"]),
                         (400, "x86.safe", "level_order"))

    def test_6_an_acknowledgement_outlives_the_controller(self):
        self.ok("PUT", "/v1/clusters/k4", {"vip_v4": "172.31.0.4"})
        self.ok("PUT", "/v1/nodes/gw-4", {"cluster": "k4", "vtep_v4": "172.31.0.14"})
        self.ok("PUT", "/v1/levels", {})
        key = ("water_level", "node/gw-4/port/up0/rx_bps")
        agent = Agent(self.c, "gw-4")
        until(self.report(agent, 85, key), what="no alarm at 85 %")
        before = self.ok("POST", f"/v1/alarms/{self.alarms()[key]['id']}/ack")
        self.assertEqual(before["state"], "acknowledged")
        self.c.kill()
        agent.leave()
        self.c.start()
        agent = Agent(self.c, "gw-4")
        until(self.report(agent, 85, key), what="the alarm does not come again")
        after = self.alarms()[key]
        for name in ("state", "acknowledged_at", "acknowledged_by"):
            self.assertEqual(after[name], before[name])
        # Graver than what was acknowledged: it is said again.
        until(lambda: (self.report(agent, 95, key)(), self.alarms()[key]["severity"])[1]
              == "critical", what="not critical at 95 %")
        self.assertEqual(self.alarms()[key]["state"], "standing")
        agent.leave()


if __name__ == "__main__":
    PROGRAM, XGWCTL = (os.path.abspath(p) for p in sys.argv[1:3])
    proto_folder = tempfile.mkdtemp(prefix="xgw-health-proto-")
    agent_pb2, agent_pb2_grpc = load_agent_proto(proto_folder)
    controller_proto = load_proto(proto_folder)
    unittest.main(argv=[sys.argv[0]] + sys.argv[3:])
