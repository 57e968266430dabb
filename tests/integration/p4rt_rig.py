"""A P4Runtime client on Debian's grpcio, and the p4info of XGW-H built from physical.py:
what an independent controller would bring."""

import importlib
import pathlib
import queue
import subprocess
import sys

import grpc

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(HERE.parent / "reference"))
import physical  # noqa: E402

PACKET_IN_ID, PACKET_OUT_ID = 1, 1
METER_IDS = {name: 0x14000001 + n for n, name in enumerate(physical.METERS)}
COUNTER_IDS = {name: 0x12000001 + n for n, name in enumerate(physical.COUNTERS)}


def load_p4(folder):
    """protoc's Python of p4runtime.proto and what it imports; (p4runtime, p4info)."""
    includes = ["-I", str(ROOT / "proto/api")]
    for name in ("google_rpc", "p4info", "p4runtime"):
        subprocess.run([sys.executable, "-m", "grpc_tools.protoc", *includes,
                        f"--python_out={folder}", f"{name}.proto"], check=True)
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    return (importlib.import_module("p4runtime_pb2"), importlib.import_module("p4info_pb2"),
            importlib.import_module("google_rpc_pb2"))


def make_p4info(p4info):
    """XGW-H as a compiler would describe it."""
    info = p4info.P4Info()
    info.pkg_info.name = "xgw_h"
    info.pkg_info.arch = "tna"
    used = {}
    for name, (number, fields, actions, _) in physical.TABLES.items():
        t = info.tables.add()
        t.preamble.id, t.preamble.name, t.preamble.alias = number, "pipe." + name, name
        t.size = physical.SIZES[name]
        for field, field_name, bits, kind in fields:
            m = t.match_fields.add(id=field, name=field_name, bitwidth=bits)
            m.match_type = (p4info.MatchField.EXACT if kind == physical.EXACT
                            else p4info.MatchField.TERNARY)
        for action in actions:
            t.action_refs.add(id=physical.ACTIONS[action][0])
            used[action] = physical.ACTIONS[action]
        ref = t.action_refs.add(id=physical.NO_ACTION)
        ref.scope = p4info.ActionRef.DEFAULT_ONLY
        t.const_default_action_id = physical.NO_ACTION
    for name, (number, params) in {**used, "NoAction": (physical.NO_ACTION, [])}.items():
        a = info.actions.add()
        a.preamble.id, a.preamble.name, a.preamble.alias = number, "pipe." + name, name
        for param, param_name, bits in params:
            a.params.add(id=param, name=param_name, bitwidth=bits)
    for name, size in physical.METERS.items():
        m = info.meters.add(size=size)
        m.preamble.id, m.preamble.name, m.preamble.alias = METER_IDS[name], "pipe." + name, name
        m.spec.unit = p4info.MeterSpec.BYTES
    for name, size in physical.COUNTERS.items():
        c = info.counters.add(size=size)
        c.preamble.id = COUNTER_IDS[name]
        c.preamble.name, c.preamble.alias = "pipe." + name, name
        c.spec.unit = p4info.CounterSpec.BOTH
    for name, number, field in (("packet_in", PACKET_IN_ID, "ingress_port"),
                                ("packet_out", PACKET_OUT_ID, "egress_port")):
        h = info.controller_packet_metadata.add()
        h.preamble.id, h.preamble.name = 0x8000001 + number, name
        h.metadata.add(id=number, name=field, bitwidth=9)
    return info


class Refused(Exception):
    """A failed RPC: `code`, and one code for each update where the switch sent them."""

    def __init__(self, error, codes=None, messages=()):
        super().__init__("%s: %s %s" % (error.code(), error.details(), list(messages)[:3]))
        self.code, self.text = error.code(), error.details()
        self.codes, self.messages = codes, messages


class Controller:
    """One controller's stream to one device, and its unary calls."""

    SERVICE = "/p4.v1.P4Runtime/"

    def __init__(self, modules, address, device=1, election=1):
        self.p4, self.p4info, self.rpc = modules
        self.device, self.election = device, election
        self.channel = grpc.insecure_channel(address, options=[
            ("grpc.use_local_subchannel_pool", 1), ("grpc.max_metadata_size", 4 << 20),
            ("grpc.max_receive_message_length", 64 << 20)])
        grpc.channel_ready_future(self.channel).result(timeout=30)
        self.requests, self.stream = None, None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        if self.requests:
            self.requests.put(None)
        self.channel.close()

    def call(self, method, request, reply):
        stub = self.channel.unary_unary(
            self.SERVICE + method, request_serializer=lambda r: r.SerializeToString(),
            response_deserializer=reply.FromString)
        try:
            return stub(request, timeout=60)
        except grpc.RpcError as e:
            raise self.refused(e) from None

    def refused(self, error):
        details = dict(error.trailing_metadata() or ()).get("grpc-status-details-bin")
        if not details:
            return Refused(error)
        status = self.rpc.Status.FromString(details)
        codes, messages = [], []
        for d in status.details:
            e = self.p4.Error()
            if d.Unpack(e):
                codes.append(e.canonical_code)
                messages.append(e.message)
        return Refused(error, codes, messages)

    # --- arbitration, packets ---------------------------------------------------------

    def open_stream(self):
        self.requests = queue.Queue()
        call = self.channel.stream_stream(
            self.SERVICE + "StreamChannel",
            request_serializer=lambda r: r.SerializeToString(),
            response_deserializer=self.p4.StreamMessageResponse.FromString)
        self.stream = call(iter(self.requests.get, None))

    def say(self, election=None, device=None, role=None):
        """Sends an arbitration update without waiting."""
        if self.stream is None:
            self.open_stream()
        m = self.p4.StreamMessageRequest()
        m.arbitration.device_id = self.device if device is None else device
        election = self.election if election is None else election
        if election >= 0:
            m.arbitration.election_id.high = election >> 64
            m.arbitration.election_id.low = election & (1 << 64) - 1
        if role:
            m.arbitration.role.name = role
        self.requests.put(m)

    def heard(self):
        """The next message of the stream."""
        try:
            return next(self.stream)
        except grpc.RpcError as e:
            raise Refused(e) from None

    def arbitrate(self, **more):
        """(status code, highest election id) of the answer."""
        self.say(**more)
        a = self.heard().arbitration
        return a.status.code, a.election_id.high << 64 | a.election_id.low

    def packet_out(self, port, payload):
        m = self.p4.StreamMessageRequest()
        m.packet.payload = payload
        m.packet.metadata.add(metadata_id=PACKET_OUT_ID, value=physical.shortest(port))
        self.requests.put(m)

    # --- pipeline ---------------------------------------------------------------------

    def push(self, info=None, action="VERIFY_AND_COMMIT", cookie=7):
        r = self.p4.SetForwardingPipelineConfigRequest(device_id=self.device)
        r.election_id.low = self.election
        r.action = getattr(self.p4.SetForwardingPipelineConfigRequest, action)
        if action != "COMMIT":
            r.config.p4info.CopyFrom(info or make_p4info(self.p4info))
            r.config.p4_device_config = b"the chip's image"
            r.config.cookie.cookie = cookie
        return self.call("SetForwardingPipelineConfig", r,
                         self.p4.SetForwardingPipelineConfigResponse)

    def pipeline(self, kind="ALL"):
        r = self.p4.GetForwardingPipelineConfigRequest(device_id=self.device)
        r.response_type = getattr(self.p4.GetForwardingPipelineConfigRequest, kind)
        return self.call("GetForwardingPipelineConfig", r,
                         self.p4.GetForwardingPipelineConfigResponse).config

    # --- writes and reads -------------------------------------------------------------

    def write_request(self, updates=()):
        r = self.p4.WriteRequest(device_id=self.device)
        r.election_id.low = self.election
        for op, row in updates:
            self.add(r, op, row)
        return r

    def add(self, request, op, row):
        u = request.updates.add()
        u.type = getattr(self.p4.Update, op)
        u.entity.table_entry.CopyFrom(row.table_entry(self.p4, op != "DELETE"))

    def send(self, request):
        return self.call("Write", request, self.p4.WriteResponse)

    def write(self, rows, op="INSERT", batch=1000):
        """Rows of this device's half, in order."""
        rows = [r for r in rows if self.device - 1 in r.halves]
        for at in range(0, len(rows), batch):
            self.send(self.write_request((op, r) for r in rows[at:at + batch]))

    def set_meter(self, name, index, cir, cburst, pir, pburst):
        r = self.write_request()
        u = r.updates.add(type=self.p4.Update.MODIFY)
        m = u.entity.meter_entry
        m.meter_id, m.index.index = METER_IDS[name], index
        m.config.cir, m.config.cburst, m.config.pir, m.config.pburst = cir, cburst, pir, pburst
        self.send(r)

    def read(self, *entities):
        r = self.p4.ReadRequest(device_id=self.device)
        for e in entities:
            r.entities.add().CopyFrom(e)
        call = self.channel.unary_stream(
            self.SERVICE + "Read", request_serializer=lambda m: m.SerializeToString(),
            response_deserializer=self.p4.ReadResponse.FromString)
        try:
            return [e for m in call(r, timeout=60) for e in m.entities]
        except grpc.RpcError as e:
            raise self.refused(e) from None

    def read_table(self, name=None, row=None):
        e = self.p4.Entity()
        if row is not None:
            e.table_entry.CopyFrom(row.table_entry(self.p4, False))
        else:
            e.table_entry.table_id = physical.TABLES[name][0] if name else 0
        return [x.table_entry for x in self.read(e)]

    def read_counter(self, name, index=None):
        e = self.p4.Entity()
        e.counter_entry.counter_id = COUNTER_IDS[name]
        if index is not None:
            e.counter_entry.index.index = index
        return [x.counter_entry for x in self.read(e)]
