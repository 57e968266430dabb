#!/usr/bin/python3
"""Our gRPC ends talk to Python's: its client with our server, our client with its server.

    test_rpc_interop.py RPC_ECHO_SERVER RPC_ECHO_CLIENT

The echo service is that of tests/unit/proto/rpc/echo_service.h, in plain bytes.  Error
details and health messages are decoded with code that protoc makes from the .proto files.
"""
import concurrent.futures
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import grpc

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
SERVER, CLIENT = None, None
SCRATCH = pathlib.Path()


def make_certificates(folder):
    def run(*args):
        subprocess.run(["openssl", *args], cwd=folder, check=True, capture_output=True)

    run("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj",
        "/CN=test-ca", "-keyout", "ca.key", "-out", "ca.crt")
    for name, san in (("server", "IP:127.0.0.1"), ("gw-7a", "DNS:gw-7a")):
        run("req", "-newkey", "rsa:2048", "-nodes", "-subj", f"/CN={name}", "-keyout",
            f"{name}.key", "-out", f"{name}.csr")
        (folder / "ext").write_text(f"subjectAltName={san}")
        run("x509", "-req", "-in", f"{name}.csr", "-CA", "ca.crt", "-CAkey", "ca.key",
            "-CAcreateserial", "-days", "2", "-extfile", "ext", "-out", f"{name}.crt")


def files(name):
    return [str(SCRATCH / f) for f in ("ca.crt", f"{name}.crt", f"{name}.key")]


def contents(name):
    return [pathlib.Path(f).read_bytes() for f in files(name)]


class OurServer:
    """rpc_echo_server for the length of a `with`; `.said` is its closing line."""

    def __init__(self, address="127.0.0.1:0", tls=False):
        self.args = [SERVER, address] + (files("server") if tls else [])

    def __enter__(self):
        self.process = subprocess.Popen(self.args, stdout=subprocess.PIPE, text=True)
        self.port = int(self.process.stdout.readline().split()[1])
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGTERM)
        out, _ = self.process.communicate(timeout=30)
        words = out.split()
        self.said = dict(zip(words[::2], map(int, words[1::2])))
        assert self.process.returncode == 0, self.process.returncode
        assert self.said["opened"] == self.said["closed"], self.said


def unary(channel, request, path="/test.Echo/Unary", **options):
    return channel.unary_unary(path)(request, **{"timeout": 20, **options})


class PythonClient(unittest.TestCase):
    def test_unary_and_headers(self):
        with OurServer() as s, grpc.insecure_channel(f"127.0.0.1:{s.port}") as channel:
            for size in (0, 1, 1000, 3_000_000):
                self.assertEqual(unary(channel, b"x" * size), b"x" * size)
            self.assertEqual(unary(channel, b"auth", metadata=[
                ("authorization", "Bearer t0ken")]), b"Bearer t0ken")
            self.assertEqual(unary(channel, b"auth"), b"(none)")
            self.assertAlmostEqual(int(unary(channel, b"left", timeout=50)), 50000,
                                   delta=5000)

    def test_unix_socket(self):
        path = SCRATCH / "echo.sock"
        with OurServer(f"unix:{path}"), grpc.insecure_channel(f"unix:{path}") as channel:
            self.assertEqual(path.stat().st_mode & 0o777, 0o600)
            self.assertEqual(unary(channel, b"hello"), b"hello")

    def test_error_details_are_standard(self):
        import google_rpc_pb2 as rpc

        with OurServer() as s, grpc.insecure_channel(f"127.0.0.1:{s.port}") as channel:
            with self.assertRaises(grpc.RpcError) as caught:
                unary(channel, b"fail")
            error = caught.exception
            self.assertEqual(error.code(), grpc.StatusCode.OUT_OF_RANGE)
            self.assertEqual(error.details(), "vni 0: below 1")
            status = rpc.Status.FromString(
                dict(error.trailing_metadata())["grpc-status-details-bin"])
            self.assertEqual((status.code, status.message), (11, "vni 0: below 1"))
            bad, info = rpc.BadRequest(), rpc.ErrorInfo()
            self.assertTrue(any(d.Unpack(bad) for d in status.details))
            self.assertTrue(any(d.Unpack(info) for d in status.details))
            violation = bad.field_violations[0]
            self.assertEqual((violation.field, violation.reason),
                             ("routes[3].vni", "vni_range"))
            self.assertEqual((info.domain, info.reason), ("xgw", "range"))

    def code_of(self, *args, **options):
        with self.assertRaises(grpc.RpcError) as caught:
            unary(*args, **options)
        return caught.exception.code()

    def test_refusals(self):
        with OurServer() as s, grpc.insecure_channel(f"127.0.0.1:{s.port}") as channel:
            code = grpc.StatusCode
            self.assertEqual(self.code_of(channel, b"", "/test.Echo/No"),
                             code.UNIMPLEMENTED)
            self.assertEqual(self.code_of(channel, b"hang", timeout=0.3),
                             code.DEADLINE_EXCEEDED)
            self.assertEqual(self.code_of(channel, b"x" * (4 << 20) + b"y"),
                             code.RESOURCE_EXHAUSTED)
            self.assertEqual(self.code_of(channel, b"x" * 1000,
                                          compression=grpc.Compression.Gzip),
                             code.UNIMPLEMENTED)
            self.assertEqual(self.code_of(channel, b"\xff\xff",
                                          "/grpc.health.v1.Health/Check"),
                             code.INVALID_ARGUMENT)
            self.assertEqual(unary(channel, b"alive"), b"alive")
        self.assertEqual(s.said["cancelled"], 3)  # hang, too big, compressed

    def test_streams(self):
        with OurServer() as s, grpc.insecure_channel(f"127.0.0.1:{s.port}") as channel:
            got = list(channel.unary_stream("/test.Echo/Stream")(b"500 65536"))
            self.assertEqual([int.from_bytes(m[:4], "little") for m in got],
                             list(range(500)))
            self.assertEqual({len(m) for m in got}, {65536})
            collect = channel.stream_unary("/test.Echo/Collect")
            self.assertEqual(collect(iter([b"abc"] * 1000)), b"1000 3000")
            self.assertEqual(collect(iter([])), b"0 0")
            bidi = channel.stream_stream("/test.Echo/Bidi")
            sent = [b"%d" % i * 100 for i in range(5000)]
            self.assertEqual(list(bidi(iter(sent))), sent)

    def test_cancel_and_a_slow_reader(self):
        with OurServer() as s, grpc.insecure_channel(f"127.0.0.1:{s.port}") as channel:
            call = channel.unary_stream("/test.Echo/Stream")(b"100000 65536")
            next(call)
            before = rss_kib(s.process.pid)
            time.sleep(1)  # not for an event: this reader is slow, that is the point
            self.assertLess(rss_kib(s.process.pid) - before, 64 << 10)
            call.cancel()
        self.assertEqual(s.said["cancelled"], 1)
        self.assertLess(s.said["produced"], 1000)

    def test_health(self):
        import health_pb2 as health

        with OurServer() as s, grpc.insecure_channel(f"127.0.0.1:{s.port}") as channel:
            def check(service):
                return health.HealthCheckResponse.FromString(unary(
                    channel, health.HealthCheckRequest(service=service)
                    .SerializeToString(), "/grpc.health.v1.Health/Check")).status

            self.assertEqual(check(""), health.HealthCheckResponse.SERVING)
            with self.assertRaises(grpc.RpcError) as caught:
                check("nobody")
            self.assertEqual(caught.exception.code(), grpc.StatusCode.NOT_FOUND)
            watch = channel.unary_stream("/grpc.health.v1.Health/Watch")(b"")
            self.assertEqual(next(watch), b"\x08\x01")
            watch.cancel()

    def test_mutual_tls(self):
        ca, cert, key = contents("gw-7a")
        with OurServer(tls=True) as s:
            target = f"127.0.0.1:{s.port}"
            with grpc.secure_channel(target, grpc.ssl_channel_credentials(
                    ca, key, cert)) as channel:
                self.assertEqual(unary(channel, b"who"), b"gw-7a")
            with grpc.secure_channel(target, grpc.ssl_channel_credentials(
                    ca)) as channel:
                self.assertEqual(self.code_of(channel, b"who"),
                                 grpc.StatusCode.UNAVAILABLE)

    def test_frequent_keepalive_is_tolerated(self):
        options = [("grpc.keepalive_time_ms", 500), ("grpc.keepalive_timeout_ms", 1000),
                   ("grpc.keepalive_permit_without_calls", 1),
                   ("grpc.http2.max_pings_without_data", 0)]
        with OurServer() as s, grpc.insecure_channel(f"127.0.0.1:{s.port}",
                                                     options) as channel:
            self.assertEqual(self.code_of(channel, b"hang", timeout=6),
                             grpc.StatusCode.DEADLINE_EXCEEDED)

    def test_a_stopped_client_is_noticed(self):
        with OurServer() as s:
            client = subprocess.Popen([CLIENT, f"127.0.0.1:{s.port}", "-", "-", "-",
                                       "unary", "hang", "0"])
            with grpc.insecure_channel(f"127.0.0.1:{s.port}") as channel:
                wait_for_connection(s.process.pid)
                client.send_signal(signal.SIGSTOP)
                # Keepalive is 1 s + 1 s; what is waited for is the connection's end.
                deadline = time.monotonic() + 10
                while established(s.process.pid) and time.monotonic() < deadline:
                    time.sleep(0.05)
                self.assertEqual(established(s.process.pid), 0)
                self.assertEqual(unary(channel, b"alive"), b"alive")
            client.kill()
            client.wait()
        self.assertEqual(s.said["cancelled"], 1)

    def test_a_stopped_server_is_noticed(self):
        with OurServer() as s:
            client = subprocess.Popen([CLIENT, f"127.0.0.1:{s.port}", "-", "-", "-",
                                       "unary", "hang", "0"], stdout=subprocess.PIPE,
                                      text=True)
            wait_for_connection(s.process.pid)
            s.process.send_signal(signal.SIGSTOP)
            out, _ = client.communicate(timeout=10)  # keepalive is 1 s + 1 s
            s.process.send_signal(signal.SIGCONT)
            self.assertIn("code UNAVAILABLE", out)


def rss_kib(pid):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    return 0


def established(pid):
    """TCP connections (IPv4 and mapped) of a process that are up."""
    inodes = set()
    for fd in pathlib.Path(f"/proc/{pid}/fd").iterdir():
        try:
            inodes.add(str(fd.readlink()))
        except FileNotFoundError:
            pass
    count = 0
    for table in ("tcp", "tcp6"):
        for line in pathlib.Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            words = line.split()
            count += words[3] == "01" and f"socket:[{words[9]}]" in inodes
    return count


def wait_for_connection(pid):
    deadline = time.monotonic() + 10
    while not established(pid):
        assert time.monotonic() < deadline
        time.sleep(0.02)


class Echo(grpc.GenericRpcHandler):
    """The same service in Python."""

    def service(self, details):
        return {
            "/test.Echo/Unary": grpc.unary_unary_rpc_method_handler(self.unary),
            "/test.Echo/Stream": grpc.unary_stream_rpc_method_handler(self.stream),
            "/test.Echo/Collect": grpc.stream_unary_rpc_method_handler(self.collect),
            "/test.Echo/Bidi": grpc.stream_stream_rpc_method_handler(lambda it, _: it),
        }.get(details.method)

    def __init__(self):
        self.ended = []

    def unary(self, request, context):
        if request == b"hang":
            context.add_callback(lambda: self.ended.append("hang"))
            while context.is_active():
                time.sleep(0.02)
        if request == b"who":
            return context.auth_context().get("x509_common_name", [b""])[0]
        if request == b"fail":
            import google_rpc_pb2 as rpc
            status = rpc.Status(code=9, message="peer is no tenant")
            bad = rpc.BadRequest()
            bad.field_violations.add(field="peer", description="peer is no tenant",
                                     reason="peer_exists")
            status.details.add().Pack(bad)
            context.set_trailing_metadata(
                [("grpc-status-details-bin", status.SerializeToString())])
            context.abort(grpc.StatusCode.FAILED_PRECONDITION, "peer is no tenant")
        return request

    def stream(self, request, context):
        context.add_callback(lambda: self.ended.append("stream"))
        count, size = map(int, request.split())
        for number in range(count):
            yield number.to_bytes(4, "little") + b"x" * (size - 4)

    def collect(self, requests, _):
        got = list(requests)
        return b"%d %d" % (len(got), sum(map(len, got)))


class OurClient(unittest.TestCase):
    def setUp(self):
        ca, cert, key = contents("server")
        self.echo = Echo()
        self.server = grpc.server(concurrent.futures.ThreadPoolExecutor(4), [self.echo])
        self.port = self.server.add_insecure_port("127.0.0.1:0")
        self.tls_port = self.server.add_secure_port(
            "127.0.0.1:0", grpc.ssl_server_credentials([(key, cert)], ca, True))
        self.server.start()

    def tearDown(self):
        self.server.stop(0).wait()

    def call(self, *command, port=None, tls=("-", "-", "-")):
        out = subprocess.run([CLIENT, f"127.0.0.1:{port or self.port}", *tls,
                              *map(str, command)],
                             stdout=subprocess.PIPE, text=True, timeout=60, check=True)
        return dict((line + " ").split(" ", 1) for line in out.stdout.splitlines())

    def expect(self, got, **want):
        self.assertEqual({k: got[k].strip() for k in want},
                         {k: str(v) for k, v in want.items()})

    def wait_ended(self, what):
        deadline = time.monotonic() + 10
        while what not in self.echo.ended:
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.02)

    def test_unary(self):
        self.expect(self.call("unary", "hello", 0), code="OK", messages=1, last="hello")

    def test_deadline(self):
        self.expect(self.call("unary", "hang", 300), code="DEADLINE_EXCEEDED",
                    rc="timeout", messages=0)
        self.wait_ended("hang")

    def test_streams(self):
        self.expect(self.call("stream", "300 65536", 0), code="OK", messages=300,
                    bytes=300 * 65536)
        self.expect(self.call("collect", 1000, "abc"), code="OK", last="1000 3000")
        self.expect(self.call("bidi", 3000, "x" * 300), code="OK", messages=3000,
                    bytes=900000)

    def test_cancel(self):
        self.expect(self.call("stream", "100000 65536", 5), code="CANCELLED",
                    messages=5)
        self.wait_ended("stream")

    def test_status_details(self):
        self.expect(self.call("unary", "fail", 0), code="FAILED_PRECONDITION",
                    message="peer is no tenant", rc="conflict", field="peer",
                    rule="peer_exists")

    def test_nobody_there(self):
        self.server.stop(0).wait()
        self.expect(self.call("unary", "x", 5000), code="UNAVAILABLE", rc="unreachable")

    def test_mutual_tls(self):
        self.expect(self.call("unary", "who", 5000, port=self.tls_port,
                              tls=files("gw-7a")), code="OK", last="gw-7a")
        self.expect(self.call("unary", "who", 5000, port=self.tls_port,
                              tls=(files("gw-7a")[0], "-", "-")), code="UNAVAILABLE")


def main():
    global SERVER, CLIENT, SCRATCH
    SERVER, CLIENT = sys.argv[1:3]
    with tempfile.TemporaryDirectory() as folder:
        SCRATCH = pathlib.Path(folder)
        make_certificates(SCRATCH)
        subprocess.run(["protoc", f"-I{ROOT / 'proto/api'}", "-I/usr/include",
                        f"--python_out={folder}", "google_rpc.proto", "health.proto"],
                       check=True)
        sys.path.insert(0, folder)
        return not unittest.main(argv=sys.argv[:1] + sys.argv[3:], exit=False,
                                 verbosity=2).result.wasSuccessful()


if __name__ == "__main__":
    sys.exit(main())
