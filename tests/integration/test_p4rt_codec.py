#!/usr/bin/python3
"""P4Runtime on the wire, held against the specification and another encoder.

    test_p4rt_codec.py P4RT_TRANSCODE

Field numbers and method names are literal here, from the P4Runtime specification 1.3 (and
its public .proto); what protoc makes of proto/api/ has to have them.  Then random messages
packed by Python's protobuf go through our codec and come back the same: canonical ones
byte for byte, others as the canonical form of the same values; and broken ones are
refused by rule.  With P4RUNTIME_PROTO=DIR, where DIR holds the public p4/v1/*.proto, those
are compared as well.
"""
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]

# Message -> {field: number}.
SPEC = {
    "p4.v1.WriteRequest": dict(device_id=1, role_id=2, election_id=3, updates=4,
                               atomicity=5, role=6),
    "p4.v1.ReadRequest": dict(device_id=1, entities=2, role=3),
    "p4.v1.ReadResponse": dict(entities=1),
    "p4.v1.Update": dict(type=1, entity=2),
    "p4.v1.Entity": dict(table_entry=2, meter_entry=5, counter_entry=7),
    "p4.v1.TableEntry": dict(table_id=1, match=2, action=3, priority=4,
                             controller_metadata=5, meter_config=6, counter_data=7,
                             is_default_action=8, idle_timeout_ns=9, metadata=11),
    "p4.v1.FieldMatch": dict(field_id=1, exact=2, ternary=3, lpm=4, range=6, optional=7,
                             other=100),
    "p4.v1.FieldMatch.Exact": dict(value=1),
    "p4.v1.FieldMatch.Ternary": dict(value=1, mask=2),
    "p4.v1.FieldMatch.LPM": dict(value=1, prefix_len=2),
    "p4.v1.FieldMatch.Range": dict(low=1, high=2),
    "p4.v1.FieldMatch.Optional": dict(value=1),
    "p4.v1.TableAction": dict(action=1, action_profile_member_id=2,
                              action_profile_group_id=3),
    "p4.v1.Action": dict(action_id=1, params=4),
    "p4.v1.Action.Param": dict(param_id=2, value=3),
    "p4.v1.Index": dict(index=1),
    "p4.v1.MeterConfig": dict(cir=1, cburst=2, pir=3, pburst=4),
    "p4.v1.MeterEntry": dict(meter_id=1, index=2, config=3),
    "p4.v1.CounterData": dict(byte_count=1, packet_count=2),
    "p4.v1.CounterEntry": dict(counter_id=1, index=2, data=3),
    "p4.v1.Error": dict(canonical_code=1, message=2, space=3, code=4, details=5),
    "p4.v1.Uint128": dict(high=1, low=2),
    "p4.v1.Role": dict(id=1, config=2, name=3),
    "p4.v1.MasterArbitrationUpdate": dict(device_id=1, role=2, election_id=3, status=4),
    "p4.v1.StreamMessageRequest": dict(arbitration=1, packet=2, other=4),
    "p4.v1.StreamMessageResponse": dict(arbitration=1, packet=2, other=5, error=6),
    "p4.v1.PacketOut": dict(payload=1, metadata=2),
    "p4.v1.PacketIn": dict(payload=1, metadata=2),
    "p4.v1.PacketMetadata": dict(metadata_id=1, value=2),
    "p4.v1.PacketOutError": dict(packet_out=1),
    "p4.v1.StreamOtherError": dict(other=1),
    "p4.v1.StreamError": dict(canonical_code=1, message=2, space=3, code=4, packet_out=5,
                              other=7),
    "p4.v1.ForwardingPipelineConfig": dict(p4info=1, p4_device_config=2, cookie=3),
    "p4.v1.ForwardingPipelineConfig.Cookie": dict(cookie=1),
    "p4.v1.SetForwardingPipelineConfigRequest": dict(device_id=1, role_id=2,
                                                     election_id=3, action=4, config=5,
                                                     role=6),
    "p4.v1.GetForwardingPipelineConfigRequest": dict(device_id=1, response_type=2),
    "p4.v1.GetForwardingPipelineConfigResponse": dict(config=1),
    "p4.v1.CapabilitiesResponse": dict(p4runtime_api_version=1),
    "p4.config.v1.P4Info": dict(pkg_info=1, tables=2, actions=3, counters=5, meters=7,
                                controller_packet_metadata=9),
    "p4.config.v1.PkgInfo": dict(name=1, version=2, annotations=4, arch=5),
    "p4.config.v1.Preamble": dict(id=1, name=2, alias=3, annotations=4),
    "p4.config.v1.MatchField": dict(id=1, name=2, annotations=3, bitwidth=4, match_type=5,
                                    other_match_type=7),
    "p4.config.v1.ActionRef": dict(id=1, annotations=2, scope=3),
    "p4.config.v1.Table": dict(preamble=1, match_fields=2, action_refs=3,
                               const_default_action_id=4, implementation_id=6,
                               direct_resource_ids=7, size=8, is_const_table=10),
    "p4.config.v1.Action": dict(preamble=1, params=2),
    "p4.config.v1.Action.Param": dict(id=1, name=2, annotations=3, bitwidth=4),
    "p4.config.v1.CounterSpec": dict(unit=1),
    "p4.config.v1.Counter": dict(preamble=1, spec=2, size=3),
    "p4.config.v1.MeterSpec": dict(unit=1),
    "p4.config.v1.Meter": dict(preamble=1, spec=2, size=3),
    "p4.config.v1.ControllerPacketMetadata": dict(preamble=1, metadata=2),
    "p4.config.v1.ControllerPacketMetadata.Metadata": dict(id=1, name=2, annotations=3,
                                                           bitwidth=4),
}
ENUMS = {
    "p4.v1.Update.Type": dict(UNSPECIFIED=0, INSERT=1, MODIFY=2, DELETE=3),
    "p4.v1.WriteRequest.Atomicity": dict(CONTINUE_ON_ERROR=0, ROLLBACK_ON_ERROR=1,
                                         DATAPLANE_ATOMIC=2),
    "p4.v1.SetForwardingPipelineConfigRequest.Action": dict(
        UNSPECIFIED=0, VERIFY=1, VERIFY_AND_SAVE=2, VERIFY_AND_COMMIT=3, COMMIT=4,
        RECONCILE_AND_COMMIT=5),
    "p4.v1.GetForwardingPipelineConfigRequest.ResponseType": dict(
        ALL=0, COOKIE_ONLY=1, P4INFO_AND_COOKIE=2, DEVICE_CONFIG_AND_COOKIE=3),
    "p4.config.v1.MatchField.MatchType": dict(UNSPECIFIED=0, EXACT=2, LPM=3, TERNARY=4,
                                              RANGE=5, OPTIONAL=6),
    "p4.config.v1.ActionRef.Scope": dict(TABLE_AND_DEFAULT=0, TABLE_ONLY=1,
                                         DEFAULT_ONLY=2),
    "p4.config.v1.CounterSpec.Unit": dict(UNSPECIFIED=0, BYTES=1, PACKETS=2, BOTH=3),
    "p4.config.v1.MeterSpec.Unit": dict(UNSPECIFIED=0, BYTES=1, PACKETS=2),
}
METHODS = dict(Write=(False, False), Read=(False, True),
               SetForwardingPipelineConfig=(False, False),
               GetForwardingPipelineConfig=(False, False), StreamChannel=(True, True),
               Capabilities=(False, False))  # name -> client streams, server streams

# (table, [(field, bits, ternary)], [(action, [bits of parameters])]): FORWARDING's tables as
# agent/xgwh/phys.h pins them.
TABLES = [
    (0x02000010, [(1, 1, 0), (2, 32, 1), (3, 128, 1)], [(0x01000022, [])]),
    (0x02000015, [(1, 24, 0)], [(0x01000021, [8, 2, 16])]),
    (0x02000016, [(1, 24, 0), (2, 128, 1), (3, 128, 1), (4, 8, 1), (5, 16, 1), (6, 16, 1),
                  (7, 1, 1)], [(0x01000024, []), (0x01000025, [])]),
    (0x02000011, [(1, 24, 1), (2, 128, 1)], [(0x01000011, [16, 8, 24, 24])]),
    (0x02000012, [(1, 14, 0), (2, 24, 1), (3, 128, 1)],
     [(0x01000012, []), (0x01000013, [24, 2]), (0x01000014, [24, 17]), (0x01000015, [1])]),
    (0x02000013, [(1, 24, 0), (2, 128, 0)], [(0x01000016, [17])]),
    (0x02000014, [(1, 24, 0), (2, 1, 0), (3, 32, 0)], [(0x01000016, [17])]),
    (0x0200001c, [(1, 24, 0), (2, 1, 0), (3, 32, 0)], [(0x0100001c, [17])]),
    (0x02000019, [(1, 17, 0)], [(0x01000019, [32]), (0x0100001a, [128])]),
    (0x02000018, [(1, 1, 0), (2, 8, 0)], [(0x01000018, [9])]),
    (0x0200001a, [(1, 9, 0), (2, 1, 0), (3, 1, 0)],
     [(0x0100001b, [32, 48, 48]), (0x0100001e, [128, 48, 48]), (0x0100001d, [48, 48])]),
    (0x02000017, [(1, 1, 0), (2, 10, 0)], [(0x01000017, [17])]),
]


def protoc(out, include, *files):
    subprocess.run([sys.executable, "-m", "grpc_tools.protoc", *[f"-I{i}" for i in include],
                    f"--descriptor_set_out={out}/set.bin", "--include_imports",
                    *map(str, files)], check=True)
    from google.protobuf import descriptor_pb2, descriptor_pool
    pool = descriptor_pool.DescriptorPool()
    loaded = descriptor_pb2.FileDescriptorSet.FromString(
        (pathlib.Path(out) / "set.bin").read_bytes())
    for f in loaded.file:
        pool.Add(f)
    return pool


def messages(pool):
    from google.protobuf import message_factory
    factory = message_factory.MessageFactory(pool)
    return lambda name: factory.GetPrototype(pool.FindMessageTypeByName(name))


def canonical(number):
    return number.to_bytes(max(1, (number.bit_length() + 7) // 8), "big")


class Codec:
    def __init__(self, program):
        self.p = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def run(self, kind, data):
        """The message as packed by us, or the rule by which it was refused."""
        self.p.stdin.write(b"%s %d\n%s" % (kind.encode(), len(data), data))
        self.p.stdin.flush()
        line = self.p.stdout.readline().decode().strip()
        return line[2:] if line.startswith("!") else self.p.stdout.read(int(line))

    def close(self):
        self.p.stdin.close()
        self.p.stdout.close()
        return self.p.wait()


class Wire(unittest.TestCase):
    program = None

    @classmethod
    def setUpClass(cls):
        cls.dir = tempfile.TemporaryDirectory()
        api = ROOT / "proto/api"
        cls.pool = protoc(cls.dir.name, (api, "/usr/include"), api / "p4runtime.proto")
        cls.msg = staticmethod(messages(cls.pool))
        cls.codec = Codec(cls.program)
        cls.random = random.Random(3)

    @classmethod
    def tearDownClass(cls):
        assert cls.codec.close() == 0
        cls.dir.cleanup()

    def test_names_and_numbers_are_those_of_the_specification(self):
        for name, fields in SPEC.items():
            got = self.pool.FindMessageTypeByName(name)
            self.assertEqual({f.name: f.number for f in got.fields}, fields, name)
        for name, values in ENUMS.items():
            got = self.pool.FindEnumTypeByName(name)
            self.assertEqual({v.name: v.number for v in got.values}, values, name)
        ours = set()
        for f in ("p4runtime.proto", "p4info.proto"):
            stack = list(self.pool.FindFileByName(f).message_types_by_name.values())
            while stack:
                m = stack.pop()
                stack += m.nested_types
                ours.add(m.full_name)
                if m.fields:
                    self.assertIn(m.full_name, SPEC)

    def test_the_service_and_its_methods_have_the_names_on_the_wire(self):
        service = self.pool.FindServiceByName("p4.v1.P4Runtime")
        from google.protobuf import descriptor_pb2
        raw = descriptor_pb2.ServiceDescriptorProto()
        service.CopyToProto(raw)
        self.assertEqual({m.name: (m.client_streaming, m.server_streaming)
                          for m in raw.method}, METHODS)

    @unittest.skipUnless(os.environ.get("P4RUNTIME_PROTO"), "P4RUNTIME_PROTO is not set")
    def test_the_public_files_say_the_same(self):
        base = pathlib.Path(os.environ["P4RUNTIME_PROTO"])
        with tempfile.TemporaryDirectory() as out:
            public = protoc(out, (base, "/usr/include"), base / "p4/v1/p4runtime.proto")
        for name, fields in SPEC.items():
            got = {f.name: f for f in public.FindMessageTypeByName(name).fields}
            for f in self.pool.FindMessageTypeByName(name).fields:
                self.assertEqual((got[f.name].number, got[f.name].type, got[f.name].label),
                                 (f.number, f.type, f.label), f"{name}.{f.name}")
        for name, values in ENUMS.items():
            got = {v.name: v.number for v in public.FindEnumTypeByName(name).values}
            self.assertEqual({k: got[k] for k in values}, values, name)

    # ---- random entries ----

    def number(self, bits):
        return self.random.getrandbits(self.random.randint(1, bits))

    def entry(self, pad):
        """A TableEntry; `pad` zero bytes in front of each value."""
        table, fields, actions = self.random.choice(TABLES)
        e = self.msg("p4.v1.TableEntry")(table_id=table)
        zeros = bytes(pad)
        for fid, bits, ternary in fields:
            if not ternary:
                e.match.add(field_id=fid).exact.value = zeros + canonical(self.number(bits))
                continue
            e.priority = e.priority or self.random.randint(1, 2**31 - 1)
            mask = self.number(bits)
            if mask:
                m = e.match.add(field_id=fid).ternary
                m.mask = zeros + canonical(mask)
                m.value = zeros + canonical(self.number(bits) & mask)
        action, params = self.random.choice(actions)
        e.action.action.action_id = action
        for i, bits in enumerate(params):
            e.action.action.params.add(param_id=i + 1,
                                       value=zeros + canonical(self.number(bits)))
        return e

    def cell(self, entity):
        if self.random.random() < 0.5:
            m = entity.meter_entry
            m.meter_id = self.random.randint(1, 2**32 - 1)
            m.index.index = self.number(20)
            m.config.cir, m.config.pir = self.number(40), self.number(62)
        else:
            c = entity.counter_entry
            c.counter_id = self.random.randint(1, 2**32 - 1)
            c.index.index = self.number(20)
            c.data.byte_count, c.data.packet_count = self.number(62), self.number(33)

    def write(self, pad):
        w = self.msg("p4.v1.WriteRequest")(device_id=self.number(63))
        w.election_id.high, w.election_id.low = self.number(64), self.number(64)
        for _ in range(self.random.randint(0, 20)):
            u = w.updates.add(type=self.random.randint(1, 2))
            if self.random.random() < 0.2:
                u.type = 2
                self.cell(u.entity)
            else:
                u.entity.table_entry.CopyFrom(self.entry(pad))
        return w

    def test_canonical_writes_come_back_byte_for_byte(self):
        for _ in range(500):
            data = self.write(0).SerializeToString(deterministic=True)
            self.assertEqual(self.codec.run("write", data), data)

    def test_leading_zeros_are_taken_and_not_given_back(self):
        for _ in range(300):
            state = self.random.getstate()
            pad = self.write(self.random.choice((1, 3)))
            self.random.setstate(state)
            self.random.choice((1, 3))
            plain = self.write(0)
            self.assertEqual(self.codec.run("write", pad.SerializeToString()),
                             plain.SerializeToString(deterministic=True))

    def test_a_delete_goes_without_what_is_no_key(self):
        for _ in range(200):
            w = self.msg("p4.v1.WriteRequest")(device_id=1)
            w.election_id.high = 1
            u = w.updates.add(type=3)
            u.entity.table_entry.CopyFrom(self.entry(0))
            data = w.SerializeToString()
            u.entity.table_entry.ClearField("action")
            self.assertEqual(self.codec.run("write", data),
                             w.SerializeToString(deterministic=True))

    def test_responses_come_back_byte_for_byte(self):
        for _ in range(300):
            r = self.msg("p4.v1.ReadResponse")()
            for _ in range(self.random.randint(0, 20)):
                e = r.entities.add()
                if self.random.random() < 0.2:
                    self.cell(e)
                else:
                    e.table_entry.CopyFrom(self.entry(0))
            data = r.SerializeToString(deterministic=True)
            self.assertEqual(self.codec.run("response", data), data)

    def test_a_response_may_say_more_than_we_ask(self):
        r = self.msg("p4.v1.ReadResponse")()
        r.entities.add().table_entry.CopyFrom(self.entry(0))
        data = r.SerializeToString(deterministic=True)
        r.entities[0].table_entry.metadata = b"somebody's"
        r.entities[0].table_entry.controller_metadata = 7
        self.assertEqual(self.codec.run("response", r.SerializeToString()), data)

    def test_reads_come_back_byte_for_byte(self):
        for _ in range(300):
            r = self.msg("p4.v1.ReadRequest")(device_id=self.number(60))
            for _ in range(self.random.randint(0, 5)):
                t = r.entities.add().table_entry
                if self.random.random() < 0.5:
                    t.CopyFrom(self.entry(0))
                    t.ClearField("action")
                else:
                    t.table_id = self.random.choice(TABLES)[0]
            c = r.entities.add().counter_entry
            c.counter_id = self.number(32)
            data = r.SerializeToString(deterministic=True)
            self.assertEqual(self.codec.run("read", data), data)

    def test_errors_come_back(self):
        for _ in range(200):
            codes = [self.random.choice((0, 0, 5, 6, 8, 13))
                     for _ in range(self.random.randint(1, 30))]
            s = self.msg("google.rpc.Status")(code=2, message="some failed")
            said = False
            for code in codes:
                e = self.msg("p4.v1.Error")(canonical_code=code)
                if code and not said:
                    e.message, said = "why", True
                s.details.add().Pack(e)
            data = s.SerializeToString(deterministic=True)
            self.assertEqual(self.codec.run("errors", bytes([len(codes)]) + data), data)
            self.assertEqual(self.codec.run("errors", bytes([len(codes) + 1]) + data),
                             "errors")

    def test_random_damage_never_ends_the_program(self):
        for _ in range(2000):
            data = bytearray(self.write(self.random.randint(0, 1)).SerializeToString())
            for _ in range(self.random.randint(1, 4)):
                if data:
                    data[self.random.randrange(len(data))] = self.random.getrandbits(8)
            self.codec.run(self.random.choice(("write", "response", "read")), bytes(data))

    def test_refusals_name_their_rule(self):
        def write(change, op=1):
            w = self.msg("p4.v1.WriteRequest")(device_id=1)
            e = w.updates.add(type=op).entity.table_entry
            e.table_id = 0x02000015
            e.match.add(field_id=1).exact.value = b"\x07"
            e.action.action.action_id = 0x01000021
            for i in (1, 2, 3):
                e.action.action.params.add(param_id=i, value=b"\x01")
            change(e)
            return self.codec.run("write", w.SerializeToString())

        self.assertIsInstance(write(lambda e: None), bytes)
        for rule, change in (
                ("match_type", lambda e: setattr(e.match[0].lpm, "prefix_len", 3)),
                ("bytestring", lambda e: setattr(e.match[0].exact, "value", b"\1\0\0\0")),
                ("bytestring", lambda e: setattr(e.match[0].exact, "value", b"")),
                ("field_unknown", lambda e: setattr(e.match[0], "field_id", 2)),
                ("field_missing", lambda e: e.ClearField("match")),
                ("table_unknown", lambda e: setattr(e, "table_id", 0x02000001)),
                ("action_type", lambda e: setattr(e.action, "action_profile_member_id", 1)),
                ("action_missing", lambda e: e.ClearField("action")),
                ("unsupported", lambda e: setattr(e.meter_config, "cir", 1)),
                ("default_match", lambda e: setattr(e, "is_default_action", True)),
                ("priority", lambda e: setattr(e, "priority", -1))):
            self.assertEqual(write(change), rule)


if __name__ == "__main__":
    Wire.program = sys.argv.pop(1)
    unittest.main(verbosity=1)
