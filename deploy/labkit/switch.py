#!/usr/bin/python3
"""What an XGW-H switch says of itself over P4Runtime, as JSON: rows and counters.  It
only reads, so it is no controller and takes part in no election.

    switch.py API SOCKET NAME CA CERT KEY   API: the folder of p4runtime_pb2.py
"""

import collections
import json
import sys

import grpc

HALVES = (1, 2)  # its device ids


class Switch:
    def __init__(self, pb, channel):
        self.pb, self.channel = pb, channel

    def call(self, kind, method, request, reply):
        stub = getattr(self.channel, kind)(
            "/p4.v1.P4Runtime/" + method, request_serializer=type(request).SerializeToString,
            response_deserializer=reply.FromString)
        return stub(request, timeout=20)

    def program(self, half):
        request = self.pb.GetForwardingPipelineConfigRequest(device_id=half)
        return self.call("unary_unary", "GetForwardingPipelineConfig", request,
                         self.pb.GetForwardingPipelineConfigResponse).config.p4info

    def read(self, half, **entity):
        request = self.pb.ReadRequest(device_id=half)
        request.entities.add(**entity)
        for reply in self.call("unary_stream", "Read", request, self.pb.ReadResponse):
            yield from reply.entities

    def rows(self, half):
        everything = self.pb.TableEntry(table_id=0)
        return [e.table_entry for e in self.read(half, table_entry=everything)]

    def cells(self, half, counter):
        """{index: packets} of those above 0."""
        wanted = self.pb.CounterEntry(counter_id=counter)
        return {e.counter_entry.index.index: e.counter_entry.data.packet_count
                for e in self.read(half, counter_entry=wanted)
                if e.counter_entry.data.packet_count}


def state(switch):
    """Sums over both halves: rows by table, drops by index, packets of known VNIs."""
    drops, rows, packets = collections.Counter(), collections.Counter(), 0
    for half in HALVES:
        info = switch.program(half)
        tables = {t.preamble.id: t.preamble.alias for t in info.tables}
        counters = {c.preamble.alias: c.preamble.id for c in info.counters}
        rows.update(tables[r.table_id] for r in switch.rows(half))
        drops.update(switch.cells(half, counters["drop_reason"]))
        packets += sum(switch.cells(half, counters["vni_counter"]).values())
    return {"rows": rows, "drops": drops, "packets": packets}


def main(api, socket, name, ca, crt, key):
    sys.path.insert(0, api)
    import p4runtime_pb2 as pb

    pem = []
    for path in (ca, key, crt):
        with open(path, "rb") as f:
            pem.append(f.read())
    options = [("grpc.ssl_target_name_override", name),
               ("grpc.max_receive_message_length", 64 << 20)]
    with grpc.secure_channel(socket, grpc.ssl_channel_credentials(*pem), options) as channel:
        print(json.dumps(state(Switch(pb, channel))))


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except grpc.RpcError as e:
        sys.exit("switch: %s" % e.details())
