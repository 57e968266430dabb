"""simple_switch_grpc with a P4 program: rows, meters, counters, packets one by one."""

import pathlib
import queue
import socket
import subprocess
import sys
import tempfile
import threading
import time

import grpc

import p4info
from physical import shortest

DATAPLANE = """syntax = "proto3";
package p4.bm;
service DataplaneInterface {
  rpc PacketStream(stream PacketStreamRequest) returns (stream PacketStreamResponse);
}
message PacketStreamRequest { uint64 id = 1; uint64 device_id = 2; uint32 port = 3; bytes packet = 4; }
message PacketStreamResponse { uint64 id = 1; uint64 device_id = 2; uint32 port = 3; bytes packet = 4; }
"""
CPU_PORT, DEVICE = 510, 1
BATCH = 500  # updates of a WriteRequest
INSERT, MODIFY, DELETE = 1, 2, 3


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Stream:
    """A bidirectional gRPC stream: what comes in is taken from a queue."""

    def __init__(self, call):
        self.out, self.into = queue.Queue(), queue.Queue()
        self.call = call(iter(self.out.get, None))
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        try:
            for message in self.call:
                self.into.put(message)
        except grpc.RpcError:
            pass
        self.into.put(None)

    def close(self):
        self.out.put(None)
        self.call.cancel()


class Switch:
    def __init__(self, program, config, info):
        """`config`: the compiler's JSON, `info`: the binary p4info file."""
        self.folder = tempfile.TemporaryDirectory()
        pathlib.Path(self.folder.name, "dataplane.proto").write_text(DATAPLANE)
        p4info.generate(self.folder.name, "google_rpc", "p4info", "p4runtime", grpc=True)
        p4info.generate(self.folder.name, "dataplane", grpc=True, where=self.folder.name)
        import dataplane_pb2
        import dataplane_pb2_grpc
        import p4runtime_pb2
        import p4runtime_pb2_grpc
        self.p4rt, self.packets = p4runtime_pb2, dataplane_pb2
        self.info = p4info.load(info)
        ports = free_port(), free_port()
        self.log = open(pathlib.Path(self.folder.name, "log"), "w+")
        self.process = subprocess.Popen(
            [program, "--no-p4", "--device-id", str(DEVICE), "--", "--grpc-server-addr",
             "127.0.0.1:%d" % ports[0], "--dp-grpc-server-addr", "127.0.0.1:%d" % ports[1],
             "--cpu-port", str(CPU_PORT)], stdout=self.log, stderr=subprocess.STDOUT)
        channels = [grpc.insecure_channel("127.0.0.1:%d" % p) for p in ports]
        for channel in channels:
            grpc.channel_ready_future(channel).result(timeout=30)
        self.stub = p4runtime_pb2_grpc.P4RuntimeStub(channels[0])
        self.control = Stream(self.stub.StreamChannel)
        self.become_primary()
        self.push(config)
        # Only a switch that has a program takes packets.
        self.wire = Stream(
            dataplane_pb2_grpc.DataplaneInterfaceStub(channels[1]).PacketStream)
        self.sent = 0

    def close(self):
        self.control.close()
        self.wire.close()
        self.process.terminate()
        self.process.wait(timeout=30)
        self.log.close()
        self.folder.cleanup()

    def become_primary(self):
        request = self.p4rt.StreamMessageRequest()
        request.arbitration.device_id = DEVICE
        request.arbitration.election_id.low = 1
        self.control.out.put(request)
        answer = self.control.into.get(timeout=30)
        if answer is None or answer.arbitration.status.code:
            raise RuntimeError("not the primary controller: %s" % answer)

    def push(self, config):
        request = self.p4rt.SetForwardingPipelineConfigRequest(
            device_id=DEVICE, action=3)  # VERIFY_AND_COMMIT
        request.election_id.low = 1
        request.config.p4info.CopyFrom(self.info)
        request.config.p4_device_config = pathlib.Path(config).read_bytes()
        self.stub.SetForwardingPipelineConfig(request, timeout=60)

    # --- tables -------------------------------------------------------------------

    def write(self, rows, kind=INSERT):
        """`rows` of tests/reference/physical.py."""
        self.update([self.p4rt.Entity(table_entry=r.table_entry(self.p4rt)) for r in rows],
                    kind)

    def update(self, entities, kind):
        for at in range(0, len(entities), BATCH):
            request = self.p4rt.WriteRequest(device_id=DEVICE)
            request.election_id.low = 1
            for entity in entities[at:at + BATCH]:
                request.updates.add(type=kind).entity.CopyFrom(entity)
            self.stub.Write(request, timeout=60)

    def set_meter(self, name, index, rate, burst):
        """Bytes a second and bytes; the committed ones are 1."""
        meter, = [m for m in self.info.meters if p4info.last(m.preamble.name) == name]
        entity = self.p4rt.Entity()
        entry = entity.meter_entry
        entry.meter_id = meter.preamble.id
        entry.index.index = index
        entry.config.cir, entry.config.cburst = 1, 1
        entry.config.pir, entry.config.pburst = rate, burst
        self.update([entity], MODIFY)

    def counter(self, name, what="packet_count"):
        """{index: packets} of all counters of that name, without zeros; or bytes, with
        "byte_count"."""
        found = {}
        for c in self.info.counters:
            if p4info.last(c.preamble.name) != name:
                continue
            request = self.p4rt.ReadRequest(device_id=DEVICE)
            request.entities.add().counter_entry.counter_id = c.preamble.id
            for answer in self.stub.Read(request, timeout=60):
                for e in answer.entities:
                    n = getattr(e.counter_entry.data, what)
                    if n:
                        at = e.counter_entry.index.index
                        found[at] = found.get(at, 0) + n
        return found

    # --- packets ------------------------------------------------------------------

    def send(self, port, frame):
        """Returns the id that an answer carries."""
        self.sent += 1
        self.wire.out.put(self.packets.PacketStreamRequest(
            id=self.sent, device_id=DEVICE, port=port, packet=frame))
        return self.sent

    def received(self, timeout):
        """(id, port, frame), or None when nothing comes for so many seconds."""
        try:
            message = self.wire.into.get(timeout=timeout)
        except queue.Empty:
            return None
        if message is None:
            raise RuntimeError("the switch closed the stream: " + self.tail())
        return message.id, message.port, message.packet

    def packet_in(self, timeout):
        """(ingress port, frame), or None; `probed` is then whether it is a probe that
        came back, and its reason."""
        try:
            message = self.control.into.get(timeout=timeout)
        except queue.Empty:
            return None
        meta = {m.metadata_id: int.from_bytes(m.value, "big")
                for m in message.packet.metadata}
        self.probed = meta[3], meta[4]
        return meta[1], message.packet.payload

    def packet_out(self, port, frame, probe=0):
        request = self.p4rt.StreamMessageRequest()
        request.packet.payload = frame
        request.packet.metadata.add(metadata_id=1, value=shortest(port))
        request.packet.metadata.add(metadata_id=3, value=shortest(probe))
        self.control.out.put(request)

    def tail(self):
        self.log.seek(0)
        return self.log.read()[-2000:]


def wait_until(condition, seconds, what):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError(what)
        time.sleep(0.01)


if __name__ == "__main__":
    sys.exit("a module of test_packets.py")
