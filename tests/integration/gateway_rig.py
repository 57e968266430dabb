"""A real xgw-gateway and a client of its control socket, for tests.

The packed batches and configurations are written here from the descriptions in
proto/model/{entry,batch}.h and object_pack.c, with nothing of the C code: what the
gateway understands of them is what those pages say.
"""

import importlib
import ipaddress
import pathlib
import queue
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time

import grpc

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PUT, DELETE = 1, 2
TABLES = {"tenant": 0, "vni": 1, "vxlan_route": 2, "vm_nc": 3, "vni_cluster": 6}
DEVICE_X86, DEVICE_LB = 1, 5
SCOPES = {"local": 1, "peer": 2, "internet": 3, "idc": 4, "region": 5, "service": 6,
          "derived": 7}
VNI_FLAGS = {"internet": 1, "acl": 2, "inner_vlan": 4}


def load_api(folder, name="gateway"):
    """protoc's Python for proto/api/NAME.proto, made in `folder`."""
    subprocess.run([sys.executable, "-m", "grpc_tools.protoc", "-I",
                    str(ROOT / "proto/api"), f"--python_out={folder}",
                    f"{name}.proto"], check=True)
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    return importlib.import_module(name + "_pb2")


# --- packing ----------------------------------------------------------------------------


def packed_ip(text):
    a = ipaddress.ip_address(text)
    return bytes([a.version]) + a.packed


def packed_prefix(text):
    n = ipaddress.ip_network(text)
    return bytes([n.version]) + n.network_address.packed + bytes([n.prefixlen])


def mac_bytes(text):
    return bytes(int(x, 16) for x in text.split(":"))


def packed_name(text):
    return bytes([len(text)]) + text.encode()


def key_of(e):
    if e["table"] == "vxlan_route":
        return packed_prefix(e["prefix"])
    return packed_ip(e["vm"]) if e["table"] == "vm_nc" else b""


def value_of(e):
    if e["table"] == "vni":
        return bytes([sum(VNI_FLAGS[f] for f in e.get("flags", [])), 0])
    if e["table"] == "vm_nc":
        mac = mac_bytes(e["mac"]) if "mac" in e else b""
        return packed_ip(e["nc"]) + bytes([len(mac) > 0]) + mac
    if e["table"] == "vni_cluster":
        return packed_name(e["cluster"])
    scope = e["scope"]
    out = bytes([SCOPES[scope]])
    if scope == "peer":
        out += e["peer_vni"].to_bytes(3, "big")
    elif scope in ("idc", "region", "derived"):
        out += packed_ip(e["endpoint"]) + e["endpoint_vni"].to_bytes(3, "big")
    elif scope == "service":
        out += packed_name(e["service"])
    return out


def batch(op, entries):
    """Runs of neighbours with one table and VNI; a DELETE of a `vni` row stands alone."""
    runs = []
    for e in entries:
        head = (TABLES[e["table"]], e["vni"])
        row = key_of(e) + (value_of(e) if op == PUT else b"")
        if runs and runs[-1][0] == head and row:
            runs[-1][1].append(row)
        else:
            runs.append((head, [row]))
    out = b""
    for (table, vni), rows in runs:
        body = b"".join(rows)
        out += struct.pack("!BB", op, table) + vni.to_bytes(3, "big")
        out += struct.pack("!II", len(rows), len(body)) + body
    return out


def packed_optional(text):
    return packed_ip(text) if text else b"\0"


def packed_config(c):
    """`c` as tests/reference's device.json, its ports by name; with `members` that of a
    load balancer."""
    def of(addresses, version):
        return next((a for a in addresses if ipaddress.ip_address(a).version == version),
                    None)

    out = b"D\x01" + packed_name("gw-1") + packed_name("x86-1")
    out += bytes([DEVICE_LB if "members" in c else DEVICE_X86,
                  1 if c.get("udp6_zero_csum") else 0])
    for addresses in (c["vteps"], c["vips"], c["icmp_source"]):
        out += packed_optional(of(addresses, 4)) + packed_optional(of(addresses, 6))
    sources = sorted(packed_prefix(p) for p in c["underlay_source"])
    out += struct.pack("!H", len(sources)) + b"".join(sources)
    ports = {}
    for u in c["uplinks"]:
        ports.setdefault(u["port"], {})[ipaddress.ip_address(u["address"]).version] = u
    out += bytes([len(ports)])
    for port, links in sorted(ports.items()):
        some = next(iter(links.values()))
        out += packed_name(port if isinstance(port, str) else f"up{port}")
        for field in ("address", "next_hop"):
            for version in (4, 6):
                out += packed_optional(links.get(version, {}).get(field))
        mac = some["next_hop_mac"]
        assert all(u["next_hop_mac"] == mac for u in links.values()), "one MAC an uplink"
        out += b"\x01" + mac_bytes(mac) if mac else b"\0"
        out += struct.pack("!H", some["mtu"])
    out += b"\0\0"          # no fallback address
    out += bytes(1 + 48)    # nor what an XGW-H falls back to
    if "members" in c:
        out += struct.pack("!H", len(c["members"]))
        for m in c["members"]:
            out += packed_name(m["cluster"]) + packed_name(m["node"])
            out += packed_optional(m["v4"]) + packed_optional(m["v6"])
    return out


def unpack(rows):
    """[(table, vni, key, value)] of packed PUT runs, as Read gives them."""
    at, out = 0, []
    while at < len(rows):
        op, table = rows[at], rows[at + 1]
        vni = int.from_bytes(rows[at + 2:at + 5], "big")
        count, size = struct.unpack_from("!II", rows, at + 5)
        at += 13
        end = at + size
        assert op == PUT and count > 0 and end <= len(rows), "a damaged run"
        for _ in range(count):
            key = at
            if table in (2, 3):
                at += 1 + (4 if rows[at] == 4 else 16) + (table == 2)
            value = at
            if table == 1:
                at += 2
            elif table == 6:
                at += 1 + rows[at]
            elif table == 3:
                at += 1 + (4 if rows[at] == 4 else 16)
                at += 7 if rows[at] else 1
            else:
                scope = rows[at]
                at += 1
                if scope == 2:
                    at += 3
                elif scope in (4, 5, 7):
                    at += 1 + (4 if rows[at] == 4 else 16) + 3
                elif scope == 6:
                    at += 1 + rows[at]
            out.append((table, vni, rows[key:value], rows[value:at]))
        assert at == end, "rows that do not fill their run"
    return out


# --- the process ------------------------------------------------------------------------


class Gateway:
    """xgw-gateway for the length of a `with`."""

    def __init__(self, program, ports, *options, folder=None, namespace=None):
        self.folder = pathlib.Path(folder or tempfile.mkdtemp(prefix="xgw"))
        self.address = f"unix:{self.folder}/gateway.sock"
        self.args = [str(program), "--control", self.address, "--ports", ports,
                     "--hugepages", "off", *options]
        if namespace:
            self.args = ["ip", "netns", "exec", namespace, *self.args]
        self.process = None

    def start(self):
        self.log = open(self.folder / "gateway.log", "a")
        self.process = subprocess.Popen(self.args, stdout=self.log, stderr=self.log)
        return self

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self):
        """The log is shown when it does not end well."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(timeout=30)
        self.log.close()
        if code not in (0, -signal.SIGKILL, -signal.SIGTERM):  # TERM: while it started
            print((self.folder / "gateway.log").read_text())
            raise AssertionError("xgw-gateway ended with %d" % code)

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        self.stop()


class Failed(Exception):
    """A Done that is not OK."""

    def __init__(self, done):
        super().__init__("%d: %s" % (done.code, done.error))
        self.done = done


class Client:
    """One channel to a gateway.  `open` makes it the writer."""

    PATH = "/xgw.gateway.v1.Gateway/"

    def __init__(self, api, address, deadline=20):
        self.api, self.address = api, address
        # A pool of its own: a channel to a dead process must not be taken up again.
        self.channel = grpc.insecure_channel(address, options=[
            ("grpc.use_local_subchannel_pool", 1),
            ("grpc.initial_reconnect_backoff_ms", 20),
            ("grpc.min_reconnect_backoff_ms", 20),
            ("grpc.max_reconnect_backoff_ms", 50),
            ("grpc.max_receive_message_length", 64 << 20)])
        grpc.channel_ready_future(self.channel).result(timeout=deadline)
        self.requests = None
        self.next_id = 0

    def close(self):
        if self.requests:
            self.requests.put(None)
        self.channel.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def unary(self, method, request, reply):
        call = self.channel.unary_unary(self.PATH + method,
                                        request_serializer=request.SerializeToString,
                                        response_deserializer=reply.FromString)
        return call(request, timeout=20)

    def status(self):
        call = self.channel.unary_unary(
            self.PATH + "GetStatus", request_serializer=bytes,
            response_deserializer=self.api.Status.FromString)
        return call(b"", timeout=20)

    def counters(self):
        call = self.channel.unary_unary(
            self.PATH + "GetCounters", request_serializer=bytes,
            response_deserializer=self.api.Counters.FromString)
        return call(b"", timeout=20)

    def read(self, table=0, vni=0, timeout=60):
        """[(applied, rows)] of each message."""
        call = self.channel.unary_stream(
            self.PATH + "Read",
            request_serializer=lambda r: r.SerializeToString(),
            response_deserializer=self.api.ReadReply.FromString)
        return [(m.applied, m.rows) for m in
                call(self.api.ReadRequest(table=table, vni=vni), timeout=timeout)]

    def open(self, term=0):
        self.requests = queue.Queue()
        call = self.channel.stream_stream(
            self.PATH + "Control",
            request_serializer=lambda r: r if isinstance(r, bytes) else r.SerializeToString(),
            response_deserializer=self.api.ControlReply.FromString)
        self.replies = call(iter(self.requests.get, None))
        request = self.api.ControlRequest()
        request.open.term = term
        self.requests.put(request)
        return next(self.replies).status

    def send_write(self, ops=b"", term=1, revision=0, ready=False):
        self.next_id += 1
        request = self.api.ControlRequest()
        request.write.id, request.write.term = self.next_id, term
        request.write.revision, request.write.ready = revision, ready
        request.write.ops = ops
        self.requests.put(request)

    def done(self):
        done = next(self.replies).done
        if done.code != 0:
            raise Failed(done)
        return done

    def write(self, *args, **more):
        self.send_write(*args, **more)
        return self.done()

    def configure(self, config, term=1):
        self.next_id += 1
        request = self.api.ControlRequest()
        request.configure.id, request.configure.term = self.next_id, term
        request.configure.config = config
        self.requests.put(request)
        return self.done()


def wait_until(condition, what, deadline=30):
    """Polls `condition` (there is no event to wait for across a counter's page)."""
    end = time.monotonic() + deadline
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError("not within %d s: %s" % (deadline, what))
        threading.Event().wait(0.02)
