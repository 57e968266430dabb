"""Talks to xgw-gateway's control socket as an agent would, with a gRPC and a packing
that are not ours: proto/api/gateway.proto, and the packed forms that proto/model/entry.h,
batch.h and object_pack.c describe."""

import ipaddress
import itertools
import json
import pathlib
import queue
import struct
import sys

import grpc
from grpc_tools import protoc

ROOT = pathlib.Path(__file__).resolve().parents[2]
TABLES = {"vni": 1, "vxlan_route": 2, "vm_nc": 3}
SCOPES = {"local": 1, "peer": 2, "internet": 3, "idc": 4, "region": 5, "service": 6,
          "derived": 7}
FLAGS = {"internet": 1, "acl": 2, "inner_vlan": 4}
BATCH_PUT, CLUSTER_X86 = 1, 1


def generate(folder):
    """The message and service modules, made into `folder`."""
    if protoc.main(["protoc", "-I%s" % (ROOT / "proto/api"), "--python_out=%s" % folder,
                    "--grpc_python_out=%s" % folder, "gateway.proto"]):
        raise RuntimeError("protoc refused gateway.proto")
    sys.path.insert(0, str(folder))
    import gateway_pb2
    import gateway_pb2_grpc
    return gateway_pb2, gateway_pb2_grpc


def pack_ip(text):
    if text is None:
        return b"\0"
    a = ipaddress.ip_address(text)
    return bytes([a.version]) + a.packed


def pack_name(text):
    return bytes([len(text)]) + text.encode()


def pack_prefix(text):
    net = ipaddress.ip_network(text)
    return pack_ip(net.network_address) + bytes([net.prefixlen])


def pack_mac(text):
    return bytes.fromhex(text.replace(":", ""))


def pack_row(e):
    if e["table"] == "vni":
        return bytes([sum(FLAGS[f] for f in e.get("flags", []))])
    if e["table"] == "vm_nc":
        mac = b"\1" + pack_mac(e["mac"]) if "mac" in e else b"\0"
        return pack_ip(e["vm"]) + pack_ip(e["nc"]) + mac
    scope = SCOPES[e["scope"]]
    row = pack_prefix(e["prefix"]) + bytes([scope])
    if e["scope"] == "peer":
        row += e["peer_vni"].to_bytes(3, "big")
    elif e["scope"] in ("idc", "region", "derived"):
        row += pack_ip(e["endpoint"]) + e["endpoint_vni"].to_bytes(3, "big")
    elif e["scope"] == "service":
        row += pack_name(e["service"])
    return row


def pack_batch(entries):
    """PUT runs in (table, VNI) order."""
    entries = sorted(entries, key=lambda e: (TABLES[e["table"]], e["vni"]))
    out = b""
    for (table, vni), group in itertools.groupby(
            entries, key=lambda e: (TABLES[e["table"]], e["vni"])):
        rows = [pack_row(e) for e in group]
        data = b"".join(rows)
        out += bytes([BATCH_PUT, table]) + vni.to_bytes(3, "big") + struct.pack(
            "!II", len(rows), len(data)) + data
    return out


def pack_device(device, ports):
    """device.json of tests/reference as a packed device_config.  `ports` are the names of
    port 0, 1, …; the two families of one port are one uplink."""
    def of(addresses, version):
        return next((a for a in addresses
                     if ipaddress.ip_address(a).version == version), None)

    out = b"D\1" + pack_name("gw") + pack_name("x86-1") + bytes(
        [CLUSTER_X86, 1 if device["udp6_zero_csum"] else 0])
    for addresses in (device["vteps"], device["vips"], device["icmp_source"]):
        out += pack_ip(of(addresses, 4)) + pack_ip(of(addresses, 6))
    sources = sorted(device["underlay_source"], key=lambda p: (
        ipaddress.ip_network(p).version, ipaddress.ip_network(p)))
    out += struct.pack("!H", len(sources)) + b"".join(map(pack_prefix, sources))
    out += bytes([len(ports)])
    for number, name in enumerate(ports):
        links = [u for u in device["uplinks"] if u["port"] == number]
        hops = [u["next_hop"] for u in links]
        own = [u["address"] for u in links]
        out += pack_name(name)
        out += b"".join(pack_ip(of(a, v)) for a in (own, hops) for v in (4, 6))
        mac = links[0]["next_hop_mac"]
        out += (b"\1" + pack_mac(mac) if mac else b"\0") + struct.pack("!H", links[0]["mtu"])
    return out


class Gateway:
    """One writer.  Every call raises what the gateway refuses."""

    def __init__(self, socket_path, folder, patience=20):
        self.pb, rpc = generate(folder)
        self.channel = grpc.insecure_channel("unix:%s" % socket_path)
        grpc.channel_ready_future(self.channel).result(timeout=patience)
        self.stub = rpc.GatewayStub(self.channel)
        self.requests, self.ids = queue.Queue(), itertools.count(1)
        self.replies = self.stub.Control(iter(self.requests.get, None))
        self.requests.put(self.pb.ControlRequest(open=self.pb.Open(term=1)))
        self.status = next(self.replies).status

    def done(self, **request):
        self.requests.put(self.pb.ControlRequest(**request))
        answer = next(self.replies).done
        if answer.code or answer.refusals:
            raise RuntimeError("refused: %s" % answer)

    def configure(self, device, ports):
        self.done(configure=self.pb.Configure(id=next(self.ids), term=1,
                                              config=pack_device(device, ports)))

    def write(self, entries, revision=1, ready=True):
        self.done(write=self.pb.Write(id=next(self.ids), term=1, revision=revision,
                                      ready=ready, ops=pack_batch(entries)))

    def counters(self):
        c = self.stub.GetCounters(self.pb.GetCountersRequest())
        return {"rx": sum(p.rx_packets for p in c.ports), "local": c.local,
                "forwarded": c.forwarded, "icmp_sent": c.icmp_sent,
                "drops": {d.reason: d.packets for d in c.drops if d.packets}}

    def close(self):
        self.requests.put(None)
        self.channel.close()


def read_entries(path):
    return [json.loads(line) for line in pathlib.Path(path).read_text().splitlines()]
