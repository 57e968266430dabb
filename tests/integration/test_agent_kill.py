#!/usr/bin/python3
"""An agent between a controller and a gateway dies at any moment; the gateway is equal
to what the controller wants again, and an agent with nothing to do writes nothing.

    test_agent_kill.py XGW_GATEWAY XGW_AGENT [--kills N] [--seed N]

The controller is played here, from agent.proto and agent_msg.h: it sends everything it
wants as REPLACE runs after each HELLO, which is the most that a real one ever sends,
and the agent must turn that into the writes that are needed.
"""
import argparse
import concurrent.futures
import pathlib
import queue
import random
import struct
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
import test_gateway_kill as content  # noqa: E402

ARGS, API, AGENT_API, FOLDER = None, None, None, None
REPLACE = 3
VNIS = content.VNIS


def replace_runs(entries, vnis):
    """Of each of `vnis` exactly these rows remain, in every table of a device."""
    rows = {(vni, table): [] for vni in vnis for table in (1, 2, 3)}
    for e in entries:
        rows[e["vni"], gw.TABLES[e["table"]]].append((gw.key_of(e), gw.value_of(e)))
    out = b""
    for (vni, table), list_ in sorted(rows.items()):
        body = b"".join(k + v for k, v in sorted(list_))
        out += struct.pack("!BB", REPLACE, table) + vni.to_bytes(3, "big")
        out += struct.pack("!II", len(list_), len(body)) + struct.pack("!BI", 0, 0) + body
    return out


class Controller(grpc.GenericRpcHandler):
    """Wants `revision`; hears what the agents say."""

    def __init__(self):
        self.lock = threading.Condition()
        self.revision, self.acked, self.hellos, self.ready = 0, 0, 0, False
        self.exceptions, self.last_hello, self.streams = 0, None, []
        self.server = grpc.server(concurrent.futures.ThreadPoolExecutor(32))
        self.server.add_generic_rpc_handlers((self,))
        self.port = self.server.add_insecure_port("127.0.0.1:0")
        self.server.start()

    def service(self, details):
        if details.method != "/xgw.agent.v1.AgentSession/Session":
            return None
        return grpc.stream_stream_rpc_method_handler(
            self.session, request_deserializer=AGENT_API.AgentMessage.FromString,
            response_serializer=lambda m: m.SerializeToString())

    def session(self, requests, context):
        out = queue.Queue()
        out.seq = None  # of its last batch; None: no hello yet, or it is over
        context.send_initial_metadata(())  # the agent speaks once it is heard
        with self.lock:
            self.streams.append(out)
        threading.Thread(target=self.listen, args=(requests, out), daemon=True).start()
        yield from iter(out.get, None)

    def listen(self, requests, out):
        try:
            for m in requests:
                kind = m.WhichOneof("m")
                with self.lock:
                    if kind == "hello":
                        self.welcome(m.hello, out)
                    elif kind == "ack":
                        self.acked = max(self.acked, m.ack.applied)
                        self.ready |= m.ack.ready
                        self.exceptions += m.ack.exception_count
                    self.lock.notify_all()
        except grpc.RpcError:
            pass  # the agent was killed
        out.seq = None
        out.put(None)

    def welcome(self, hello, out):
        self.hellos += 1
        self.last_hello = hello
        answer = AGENT_API.ControllerMessage()
        answer.assign.term, answer.assign.group = 3, "x86-1"
        answer.assign.beat_ms, answer.assign.hello_id = 200, hello.hello_id
        answer.assign.config = gw.packed_config(content.CONFIG)
        out.put(answer)
        out.seq = 0
        if hello.boot_id:
            self.send(out)

    def send(self, out):
        if not self.revision:
            return
        out.seq += 1
        m = AGENT_API.ControllerMessage()
        m.batch.seq, m.batch.revision, m.batch.ready = out.seq, self.revision, True
        m.batch.ops = replace_runs(content.entries_of(self.revision), VNIS)
        out.put(m)

    def want(self, revision):
        with self.lock:
            self.revision = revision
            for out in self.streams:
                if out.seq is not None and self.last_hello.boot_id:
                    self.send(out)

    def wait_for(self, what, condition, deadline=30):
        with self.lock:
            if not self.lock.wait_for(condition, deadline):
                raise AssertionError("not within %d s: %s" % (deadline, what))

    def stop(self):
        for out in self.streams:
            out.put(None)
        self.server.stop(0)


class Agent:
    def __init__(self, controller, gateway):
        self.args = [ARGS.agent, "--device-id", "gw-1", "--plain-text",
                     "--controllers", f"127.0.0.1:{controller.port}", "--gateway",
                     gateway.address, "--redial-min", "10ms", "--redial-max", "50ms"]
        self.log = gateway.folder / "agent.log"

    def start(self):
        with self.log.open("a") as log:
            self.process = subprocess.Popen(self.args, stdout=log, stderr=log)

    def kill(self):
        assert self.process.poll() is None, self.log.read_text()
        self.process.kill()
        self.process.wait()


class Kill(unittest.TestCase):
    def setUp(self):
        self.controller = Controller()
        self.gateway = gw.Gateway(ARGS.gateway, "up0=vdev:net_ring0", *content.OPTIONS,
                                  folder=pathlib.Path(tempfile.mkdtemp(dir=FOLDER)))
        self.gateway.start()
        self.client = gw.Client(API, self.gateway.address)
        self.agent = Agent(self.controller, self.gateway)
        self.rng = random.Random(ARGS.seed)

    def tearDown(self):
        self.client.close()
        if self.agent.process.poll() is None:
            self.agent.kill()
        self.controller.stop()
        self.gateway.stop()

    def settle(self, revision):
        """The device is what the controller wants, and says so."""
        c = self.controller
        c.wait_for(f"revision {revision} is acknowledged", lambda: c.acked >= revision)
        status = self.client.status()
        self.assertEqual((status.applied, status.ready, status.term), (revision, True, 3))
        applied, rows = content.read_back(self.client)
        self.assertEqual(applied, revision)
        self.assertEqual(rows, content.rows_of(revision))
        self.assertEqual(c.exceptions, 0)

    def test_an_agent_that_is_killed_while_it_writes_converges_again(self):
        self.agent.start()
        revision = 0
        for _ in range(ARGS.kills):
            for _ in range(self.rng.randrange(1, 20)):
                revision += 1
                self.controller.want(revision)
                time.sleep(self.rng.random() * 0.004)
            time.sleep(self.rng.random() * 0.03)  # a random point is the test
            self.agent.kill()
            self.agent.start()
            self.settle(revision)

    def test_an_agent_that_starts_with_nothing_to_do_writes_nothing(self):
        self.controller.want(5)
        self.agent.start()
        self.settle(5)
        before = self.client.status()
        for _ in range(3):
            self.agent.kill()
            hellos = self.controller.hellos
            with self.controller.lock:
                self.controller.acked = 0
            self.agent.start()
            self.controller.wait_for("the agent's hello",
                                     lambda: self.controller.hellos > hellos)
            self.settle(5)
            self.assertEqual(self.client.status().writes, before.writes)
        self.assertEqual(self.client.status().boot_id, before.boot_id)

    def test_a_gateway_that_is_killed_is_filled_by_the_agent_that_stayed(self):
        self.agent.start()
        revision = 0
        for _ in range(ARGS.kills):
            for _ in range(self.rng.randrange(1, 10)):
                revision += 1
                self.controller.want(revision)
                time.sleep(self.rng.random() * 0.004)
            self.client.close()
            boot = self.controller.last_hello and self.controller.last_hello.boot_id
            self.gateway.kill()
            self.gateway.log.close()
            self.gateway.start()
            with self.controller.lock:
                self.controller.acked = 0
            self.controller.wait_for("hello of the new gateway", lambda: (
                self.controller.last_hello is not None
                and self.controller.last_hello.boot_id not in (0, boot)))
            self.client = gw.Client(API, self.gateway.address)
            self.settle(revision)


def main():
    global ARGS, API, AGENT_API, FOLDER
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("gateway")
    parser.add_argument("agent")
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    ARGS = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        FOLDER = pathlib.Path(name)
        API = gw.load_api(FOLDER)
        AGENT_API = gw.load_api(FOLDER, "agent")
        result = unittest.main(argv=[sys.argv[0]], exit=False).result
    return 0 if result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
