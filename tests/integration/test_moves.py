#!/usr/bin/python3
"""Moves of tenants between real nodes: a controller, agents and gateways, x86 and XGW-H
in software over P4Runtime.

A tenant moves only to nodes whose packets are what its entries say.  An entry is spoiled
in a device behind its agent's back, after the read-back: the probe finds it, the move
names it and goes back.  Then the same move of sound tables goes through.

And it leaves its source only when those who follow steering have said that they do.

    test_moves.py XGW_CONTROLLER XGW_AGENT XGW_GATEWAY P4INFO_MAKER
"""
import pathlib
import subprocess
import sys
import tempfile
import threading
import unittest
from urllib.parse import quote

import grpc

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "reference")]
import controller_rig  # noqa: E402
import gateway_rig as gw  # noqa: E402
import p4rt_rig  # noqa: E402
import physical  # noqa: E402

CONTROLLER = AGENT = GATEWAY = P4INFO_MAKER = None
MAC = "02:00:00:00:01:01"
VM_NC = 3  # its table id
NC_TABLE = physical.TABLES["nc"][0]


class Moves(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="xgw"))
        self.addCleanup(subprocess.run, ["rm", "-r", str(self.folder)], check=True)
        self.controller = controller_rig.Controller(CONTROLLER, self.folder).start()
        self.addCleanup(self.controller.stop)
        self.put("/region", {"name": "r", "underlay_sources": ["172.16.0.0/12"]})
        self.put("/clusters/x1", {"kind": "x86", "active_side": "a",
                                  "vip_v4": "172.31.255.1"})
        self.put("/clusters/x2", {"kind": "x86", "active_side": "a",
                                  "vip_v4": "172.31.255.2"})
        self.put("/clusters/h1", {"kind": "xgw-h", "active_side": "a", "backing": "x2",
                                  "vip_v4": "172.31.255.3"})
        self.nodes, self.agents = {}, {}

    def put(self, path, body):
        answer = self.controller.request("PUT", "/v1" + path, body,
                                         {"Content-Type": "application/json"})
        self.assertEqual(answer.status, 200, answer)

    # --- nodes ------------------------------------------------------------------------

    def node(self, name, cluster, kind, last, resolved=True):
        """The node as the controller knows it; without `resolved` nobody will ever
        answer for its next hop."""
        uplink = {"port": "0", "addr_v4": f"172.17.{last}.2",
                  "next_hop_v4": f"172.17.{last}.1", "mtu": 1500}
        if resolved:
            uplink["mac"] = MAC
        self.put(f"/nodes/{name}", {"cluster": cluster, "kind": kind, "side": "a",
                                    "vtep_v4": f"172.16.0.{last}", "uplinks": [uplink],
                                    **({"fallback_v4": f"172.16.1.{last}"}
                                       if kind == "x86" else {})})

    def start(self, name, cluster, kind, last, **more):
        self.node(name, cluster, kind, last, **more)
        folder = self.folder / name
        folder.mkdir()
        pipeline = "h" if kind == "soft-h" else "x86"
        gateway = gw.Gateway(GATEWAY, "0=vdev:net_ring0", "--pipeline", pipeline, "--memory", "128",
                             "--tamper", folder=folder)
        gateway.start()
        self.addCleanup(gateway.stop)
        if kind == "soft-h":
            p4info = folder / "xgw_h.p4info.bin"
            subprocess.run([P4INFO_MAKER, "p4info", str(p4info)], check=True)
            driver = ["--p4runtime", gateway.address, "--p4info", str(p4info)]
        else:
            driver = ["--gateway", gateway.address]
        log = (folder / "agent.log").open("a")
        agent = subprocess.Popen(
            [AGENT, "--device-id", name, "--plain-text", "--controllers",
             f"127.0.0.1:{self.controller.grpc}", "--device-kind", kind, *driver],
            stdout=log, stderr=log)
        self.addCleanup(agent.wait)
        self.addCleanup(agent.kill)
        self.addCleanup(log.close)
        self.nodes[name], self.agents[name] = gateway, agent
        gw.wait_until(lambda: self.is_in_sync(name), f"{name} is in sync", 60)

    def is_in_sync(self, name):
        status = self.controller.request("GET", f"/v1/nodes/{name}").json.get("status", {})
        return status.get("state") == "online" and status.get("in_sync")

    # --- tenants ----------------------------------------------------------------------

    def tenant(self, vni, nc):
        self.put(f"/tenants/{vni}", {"cluster": "x1"})
        self.put(f"/tenants/{vni}/routes/{quote('10.0.0.0/16', safe='')}",
                 {"scope": "local"})
        self.put(f"/tenants/{vni}/vms/10.0.0.5", {"nc": nc})

    def move(self, vni, cluster):
        answer = self.controller.request(
            "POST", f"/v1/tenants/{vni}/move", {"cluster": cluster, "drain_ms": 100},
            {"Content-Type": "application/json"})
        self.assertEqual(answer.status, 202, answer)
        return answer.json["id"]

    def operation(self, number):
        return self.controller.request("GET", f"/v1/operations/{number}").json

    def until_it_waits_for_its_probe(self, number):
        """The read-back agreed; probes find no way out, which says nothing yet."""
        def it_does():
            o = self.operation(number)
            return o["step"] == "probe" and any(
                f"found drop {reason}" in o.get("waits_for", "")
                for reason in ("next_hop_unresolved", "no_uplink"))
        gw.wait_until(it_does, "the move waits for its probe", 60)

    def end_of(self, number):
        gw.wait_until(lambda: self.operation(number)["state"] != "running",
                      "the move is over", 60)
        return self.operation(number)

    def home(self, vni):
        t = self.controller.request("GET", f"/v1/tenants/{vni}").json
        return t["cluster"], t.get("h_home", "")

    def vms(self, node, vni=0):
        """How many VM-NC entries the device itself holds of it, or of all."""
        with gw.Client(gw.load_api(self.folder), self.nodes[node].address) as c:
            return sum(table == VM_NC for _, rows in c.read(vni=vni)
                       for table, *_ in gw.unpack(rows))

    # --- behind the agent's back ------------------------------------------------------

    def spoil_x86(self, name, vni):
        """The structures of the packet path name another NC; the records do not."""
        api = gw.load_api(self.folder)
        with grpc.insecure_channel(self.nodes[name].address) as channel:
            tamper = channel.unary_unary(
                "/xgw.gateway.v1.Gateway/Tamper",
                request_serializer=lambda m: m.SerializeToString(),
                response_deserializer=api.TamperReply.FromString)
            tamper(api.TamperRequest(place=2, ops=gw.batch(gw.PUT, [
                {"table": "vm_nc", "vni": vni, "vm": "10.0.0.5", "nc": "172.16.9.10"}])),
                timeout=20)

    def spoil_h(self, name):
        """The NC's address in the switch's own table, in each half that holds it: a write
        in the primary's name, which is all that a switch asks for."""
        modules = p4rt_rig.load_p4(self.folder)
        p4 = modules[0]
        spoilt = 0
        with p4rt_rig.Controller(modules, self.nodes[name].address) as c:
            stub = c.channel.unary_stream(
                c.SERVICE + "Read", request_serializer=lambda m: m.SerializeToString(),
                response_deserializer=p4.ReadResponse.FromString)
            for half in (1, 2):
                request = p4.ReadRequest(device_id=half)
                request.entities.add().table_entry.table_id = NC_TABLE
                for r in stub(request, timeout=20):
                    for e in r.entities:
                        spoilt += self.spoil_nc(c, p4, half, e)
        self.assertGreater(spoilt, 0)

    def spoil_nc(self, c, p4, half, entity):
        address = entity.table_entry.action.action.params[0]
        if address.value != bytes([172, 16, 9, 9]):
            return 0
        write = p4.WriteRequest(device_id=half)
        write.election_id.high = self.term(c, p4, half)
        address.value = bytes([172, 16, 9, 10])
        write.updates.add(type=p4.Update.MODIFY).entity.CopyFrom(entity)
        c.call("Write", write, p4.WriteResponse)
        return 1

    @staticmethod
    def term(c, p4, half):
        """Of the primary: what arbitration tells a backup."""
        def requests():
            m = p4.StreamMessageRequest()
            m.arbitration.device_id = half
            m.arbitration.election_id.low = 1
            yield m
        stream = c.channel.stream_stream(
            c.SERVICE + "StreamChannel", request_serializer=lambda m: m.SerializeToString(),
            response_deserializer=p4.StreamMessageResponse.FromString)
        return next(iter(stream(requests(), timeout=20))).arbitration.election_id.high


class MoveProbes(Moves):
    def one_goes_and_one_is_refused(self, node, spoil, home):
        """Two tenants move to a node of `node`; an entry of the first is spoiled."""
        name, target = node[:2]
        self.tenant(100, "172.16.9.9")
        self.tenant(200, "172.16.9.8")
        moves = [self.move(vni, target) for vni in (100, 200)]
        self.start(*node, resolved=False)
        for number in moves:
            self.until_it_waits_for_its_probe(number)
        spoil()
        self.node(*node)  # now it knows its next hop
        wrong, sound = map(self.end_of, moves)
        self.assertEqual((wrong["state"], wrong["step"]), ("undone", "probe"), wrong)
        self.assertIn(f"node {name}: vni 100 to 10.0.0.5: ", wrong["reason"])
        self.assertIn("outer destination is 172.16.9.10, not 172.16.9.9",
                      wrong["reason"])
        self.assertEqual(self.home(100), ("x1", ""))
        self.assertEqual(sound["state"], "done", sound)
        self.assertEqual(self.home(200), home)

    def test_a_wrong_entry_in_an_x86_gateway_holds_the_move_and_is_named(self):
        self.start("n1", "x1", "x86", 1)
        self.one_goes_and_one_is_refused(
            ("n2", "x2", "x86", 2), lambda: self.spoil_x86("n2", 100), ("x2", ""))

    def test_a_wrong_entry_in_xgw_h_holds_the_move_and_is_named(self):
        self.start("n1", "x1", "x86", 1)
        self.start("n2", "x2", "x86", 2)
        self.one_goes_and_one_is_refused(
            ("n3", "h1", "soft-h", 3), lambda: self.spoil_h("n3"), ("x2", "h1"))


class Follower:
    """Who sends traffic by steering, a vSwitches' controller: it watches over gRPC, and
    with each change it hears of it asks where its VNI goes, follows, and says up to where
    it does."""

    def __init__(self, test, name, vni):
        self.test, self.name, self.vni = test, name, vni
        self.vip = None  # where it sends
        self.error = None
        pb, *_ = controller_rig.load_proto(test.folder)
        self.channel = test.controller.channel()
        self.call = self.channel.unary_stream(
            "/xgw.controller.v1.Controller/Watch",
            request_serializer=lambda m: m.SerializeToString(),
            response_deserializer=pb.WatchReply.FromString)(pb.WatchRequest())
        self.follow()
        self.thread = threading.Thread(target=self.watch, daemon=True)
        self.thread.start()

    def follow(self):
        s = self.test.controller.request("GET", f"/v1/steering/{self.vni}").json
        self.vip = s["vip_v4"]
        self.test.controller.request(
            "POST", f"/v1/consumers/{self.name}/ack",
            {"acknowledged_revision": s["revision"]}, {"Content-Type": "application/json"})

    def watch(self):
        try:
            for _ in self.call:
                self.follow()
        except grpc.RpcError as e:
            self.error = e

    def stop(self):
        self.call.cancel()
        self.thread.join(20)
        self.channel.close()


class MoveConsumers(Moves):
    VIP = {"x1": "172.31.255.1", "x2": "172.31.255.2"}

    def setUp(self):
        super().setUp()
        self.start("n1", "x1", "x86", 1)
        self.start("n2", "x2", "x86", 2)
        self.tenant(100, "172.16.9.9")
        gw.wait_until(lambda: self.vms("n1") == 1, "the tenant is on its node")
        for name in ("good", "mute"):
            self.put(f"/consumers/{name}", {})
        self.good = Follower(self, "good", 100)
        self.addCleanup(self.good.stop)

    def until_only_mute_is_awaited(self, number):
        gw.wait_until(lambda: self.operation(number).get("awaits_consumers") == ["mute"],
                      "the move waits for one that says nothing", 60)
        o = self.operation(number)
        self.assertEqual((o["state"], o["step"]), ("running", "steer"), o)
        self.assertIn("mute", o["waits_for"])

    def post(self, path, body):
        return self.controller.request("POST", "/v1" + path, body,
                                       {"Content-Type": "application/json"})

    def test_the_source_is_left_when_all_have_acknowledged_or_an_operator_says_so(self):
        number = self.move(100, "x2")
        self.until_only_mute_is_awaited(number)
        self.assertEqual(self.good.vip, self.VIP["x2"])  # who listens has followed
        self.assertEqual((self.vms("n1"), self.vms("n2")), (1, 1))  # and both carry it
        answer = self.post(f"/operations/{number}/proceed",
                           {"without_consumers": True, "reason": "mute is switched off"})
        self.assertEqual(answer.status, 202, answer)
        o = self.end_of(number)
        self.assertEqual(o["state"], "done", o)
        self.assertEqual(o["without_consumers"]["reason"], "mute is switched off")
        gw.wait_until(lambda: (self.vms("n1"), self.vms("n2")) == (0, 1),
                      "the source is left")
        self.assertIsNone(self.good.error)

    def test_one_that_comes_late_and_one_that_is_deleted_hold_it_no_longer(self):
        number = self.move(100, "x2")
        self.until_only_mute_is_awaited(number)
        late = Follower(self, "mute", 100)
        self.assertEqual(late.vip, self.VIP["x2"])
        self.assertEqual(self.end_of(number)["state"], "done")
        late.stop()
        number = self.move(100, "x1")
        self.until_only_mute_is_awaited(number)
        self.assertEqual((self.vms("n1"), self.vms("n2")), (1, 1))
        answer = self.controller.request("DELETE", "/v1/consumers/mute")
        self.assertIn(answer.status, (200, 204), answer)
        self.assertEqual(self.end_of(number)["state"], "done")
        self.assertEqual(self.good.vip, self.VIP["x1"])
        gw.wait_until(lambda: (self.vms("n1"), self.vms("n2")) == (1, 0),
                      "the source is left")


if __name__ == "__main__":
    CONTROLLER, AGENT, GATEWAY, P4INFO_MAKER = sys.argv[1:5]
    unittest.main(argv=sys.argv[:1] + sys.argv[5:])
