#!/usr/bin/python3
"""An agent between a controller and `xgw-gateway --pipeline h`, over P4Runtime: it dies at
any moment, the switch dies, another controller takes the switch; in the end the switch
holds what the controller wants, as an independent P4Runtime client sees it.

    test_agent_p4.py XGW_GATEWAY XGW_AGENT TEST_DRIVER_P4_PROCESS [--kills N] [--seed N]

The controller is played by test_agent_kill.py's.
"""
import argparse
import importlib
import ipaddress
import pathlib
import random
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import grpc

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import gateway_rig as gw  # noqa: E402
import test_agent_kill as played  # noqa: E402

ARGS, FOLDER, P4 = None, None, None
VNIS = (100, 101, 102, 103)
CONFIG = {"vteps": ["172.16.0.1"], "vips": ["172.16.255.1"], "icmp_source": ["10.254.0.1"],
          "underlay_source": ["172.16.0.0/12"], "uplinks": []}
VM_NC, VM_NC_SPILL, VTEP = 0x02000014, 0x0200001c, 0x02000010


def entries_of(revision):
    """Some 200 rows that differ from one revision to the next."""
    rng = random.Random(revision)
    out = []
    for vni in VNIS:
        if rng.random() < 0.1:
            continue
        out.append({"table": "vni", "vni": vni})
        out.append({"table": "vxlan_route", "vni": vni, "prefix": "10.0.0.0/16",
                    "scope": "local"})
        for i in range(60):
            if rng.random() < 0.6:
                out.append({"table": "vm_nc", "vni": vni, "vm": f"10.0.{vni % 7}.{i}",
                            "nc": f"172.16.{rng.randrange(4)}.{rng.randrange(1, 50)}"})
            if rng.random() < 0.2:
                out.append({"table": "vxlan_route", "vni": vni, "scope": "region",
                            "prefix": f"10.{i + 1}.0.0/{rng.choice((16, 20))}",
                            "endpoint": "172.17.0.9", "endpoint_vni": 9000})
    return out


class Switch:
    """What an independent client sees, and does."""

    def __init__(self, address):
        self.channel = grpc.insecure_channel(address)
        def method(name, kind, answer):
            return getattr(self.channel, kind)(
                f"/p4.v1.P4Runtime/{name}",
                request_serializer=lambda m: m.SerializeToString(),
                response_deserializer=getattr(P4, answer).FromString)
        self.read = method("Read", "unary_stream", "ReadResponse")
        self.stream = method("StreamChannel", "stream_stream", "StreamMessageResponse")
        self.write = method("Write", "unary_unary", "WriteResponse")

    def entries(self, table):
        out = []
        for device in (1, 2):
            request = P4.ReadRequest(device_id=device)
            request.entities.add().table_entry.table_id = table
            for response in self.read(request, timeout=20):
                out += [e.table_entry for e in response.entities]
        return out

    def v4_vms(self):
        """{(vni, address)} of the entries for IPv4 VMs."""
        out = set()
        for table in (VM_NC, VM_NC_SPILL):
            for e in self.entries(table):
                fields = {m.field_id: int.from_bytes(m.exact.value, "big")
                          for m in e.match}
                out.add((fields[1], str(ipaddress.ip_address(fields[3]))))
        return out

    def take_over(self, term):
        """Is primary of both devices until the returned function is called."""
        done = threading.Event()
        primary = []

        def requests(device):
            m = P4.StreamMessageRequest()
            m.arbitration.device_id = device
            m.arbitration.election_id.high = term
            yield m
            done.wait()

        for device in (1, 2):
            answers = self.stream(requests(device))
            primary.append(next(answers).arbitration.status.code == 0)
        assert primary == [True, True], primary
        return done.set

    def close(self):
        self.channel.close()


class Controller(played.Controller):
    """Wants entries_of() and raises its term above what an agent has seen."""

    term = 3

    def welcome(self, hello, out):
        self.term = max(self.term, hello.term_seen + (hello.term_seen > self.term))
        super().welcome(hello, out)


class P4Agent(unittest.TestCase):
    def setUp(self):
        folder = pathlib.Path(tempfile.mkdtemp(dir=FOLDER))
        # The played controller packs its own content.
        played.content.entries_of, played.content.CONFIG = entries_of, CONFIG
        played.VNIS = VNIS
        self.controller = Controller()
        self.gateway = gw.Gateway(ARGS.gateway, "0=vdev:net_ring0", "--pipeline", "h",
                                  folder=folder)
        self.gateway.start()
        self.agent = played.Agent(self.controller, self.gateway)
        self.agent.args += ["--device-kind", "soft-h", "--p4runtime", self.gateway.address,
                            "--p4info", str(FOLDER / "xgw_h.p4info.bin")]
        self.rng = random.Random(ARGS.seed)

    def tearDown(self):
        if self.agent.process.poll() is None:
            self.agent.kill()
        self.controller.stop()
        self.gateway.stop()

    def settle(self, revision):
        c = self.controller
        try:
            c.wait_for(f"revision {revision} is acknowledged", lambda: c.acked >= revision)
        except AssertionError as e:
            raise AssertionError(f"{e}\n{self.agent.log.read_text()[-3000:]}") from None
        switch = Switch(self.gateway.address)
        want = {(e["vni"], e["vm"]) for e in entries_of(revision) if e["table"] == "vm_nc"}
        self.assertEqual(switch.v4_vms(), want)
        self.assertGreater(len(switch.entries(VTEP)), 0)  # ready: it may forward
        self.assertEqual(c.exceptions, 0)
        switch.close()

    def run_up(self, revision, most):
        for _ in range(self.rng.randrange(1, most)):
            revision += 1
            self.controller.want(revision)
            time.sleep(self.rng.random() * 0.004)
        return revision

    def test_an_agent_that_is_killed_while_it_writes_converges_again(self):
        self.agent.start()
        revision = 0
        for _ in range(ARGS.kills):
            revision = self.run_up(revision, 20)
            time.sleep(self.rng.random() * 0.1)  # a random point is the test
            self.agent.kill()
            self.agent.start()
            self.settle(revision)

    def test_a_switch_that_restarts_empty_is_filled_by_the_agent_that_stayed(self):
        self.agent.start()
        revision = 0
        for _ in range(max(1, ARGS.kills // 4)):
            revision = self.run_up(revision, 10)
            self.settle(revision)
            boot = self.controller.last_hello.boot_id
            self.gateway.kill()
            self.gateway.log.close()
            with self.controller.lock:
                self.controller.acked = 0
            self.gateway.start()
            self.controller.wait_for("hello of the new switch", lambda: (
                self.controller.last_hello.boot_id not in (0, boot)))
            self.settle(revision)

    def test_a_switch_that_another_controller_took_is_ours_again_with_a_higher_term(self):
        self.controller.want(1)
        self.agent.start()
        self.settle(1)
        switch = Switch(self.gateway.address)
        release = switch.take_over(50)
        self.controller.wait_for("the agent says that term 50 was seen", lambda: (
            self.controller.last_hello.term_seen == 50))
        self.assertIn("another controller is primary", self.agent.log.read_text())
        release()
        switch.close()


def main():
    global ARGS, FOLDER, P4
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("gateway")
    parser.add_argument("agent")
    parser.add_argument("p4info_maker")
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    ARGS = parser.parse_args()
    played.ARGS = ARGS
    with tempfile.TemporaryDirectory() as name:
        FOLDER = pathlib.Path(name)
        subprocess.run([ARGS.p4info_maker, "p4info", str(FOLDER / "xgw_h.p4info.bin")],
                       check=True)
        subprocess.run([sys.executable, "-m", "grpc_tools.protoc",
                        f"-I{gw.ROOT}/proto/api", "-I/usr/include", f"--python_out={name}",
                        "p4runtime.proto", "p4info.proto", "google_rpc.proto"], check=True)
        played.AGENT_API = gw.load_api(FOLDER, "agent")
        P4 = importlib.import_module("p4runtime_pb2")
        result = unittest.main(argv=[sys.argv[0]], exit=False).result
    return 0 if result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
