"""A real xgw-controller for tests: its own folder, store, ports, certificates."""
import http.client
import importlib
import json
import pathlib
import re
import signal
import socket
import ssl
import subprocess
import sys
import time

import grpc

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


class Answer:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    @property
    def json(self):
        return json.loads(self.body)

    def __repr__(self):
        return f"<{self.status} {self.body[:300]!r}>"


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def make_certificates(folder, devices=()):
    """ca.crt; server.crt for 127.0.0.1; one NAME.crt for each device."""
    def run(*args):
        subprocess.run(["openssl", *args], cwd=folder, check=True, capture_output=True)

    run("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
        "-days", "2", "-subj", "/CN=test-ca", "-keyout", "ca.key", "-out", "ca.crt")
    for name in ("server", *devices):
        san = "IP:127.0.0.1" if name == "server" else f"DNS:{name}"
        run("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
            "-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.csr")
        (folder / "ext").write_text(f"subjectAltName={san}")
        run("x509", "-req", "-in", f"{name}.csr", "-CA", "ca.crt", "-CAkey", "ca.key",
            "-CAcreateserial", "-days", "2", "-extfile", "ext", "-out", f"{name}.crt")


def load_proto(folder):
    """The module of controller.proto's messages, made by protoc."""
    subprocess.run([sys.executable, "-m", "grpc_tools.protoc", f"-I{ROOT}/proto/api",
                    f"--python_out={folder}", f"--grpc_python_out={folder}",
                    "controller.proto", "google_rpc.proto"], check=True)
    sys.path.insert(0, str(folder))
    return (importlib.import_module("controller_pb2"),
            importlib.import_module("controller_pb2_grpc"),
            importlib.import_module("google_rpc_pb2"))


class Controller:
    """start() and stop() or kill() any number of times on one store."""

    def __init__(self, program, folder, tls=False, tokens=None, extra=()):
        self.program, self.folder, self.tls = program, pathlib.Path(folder), tls
        self.rest, self.grpc = free_port(), free_port()
        self.token = None
        self.process = None
        self.args = [program, "--store", f"{folder}/region.db",
                     "--rest-listen", f"127.0.0.1:{self.rest}",
                     "--grpc-listen", f"127.0.0.1:{self.grpc}", *extra]
        if tls:
            make_certificates(self.folder)
            for key, file in (("ca", "ca.crt"), ("cert", "server.crt"),
                              ("key", "server.key")):
                self.args += [f"--tls-{key}", f"{folder}/{file}"]
            self.context = ssl.create_default_context(cafile=f"{folder}/ca.crt")
        else:
            self.args += ["--plain-text"]
        if tokens:
            path = self.folder / "tokens"
            path.write_text(tokens)
            path.chmod(0o600)
            self.args += ["--tokens", str(path)]

    def start(self, wait=True):
        log = open(self.folder / "log", "a")
        self.process = subprocess.Popen(self.args, stderr=log, stdout=log)
        log.close()
        if wait:
            self.wait_ready()
        return self

    def wait_ready(self, seconds=60):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if self.process.poll() is not None:
                raise AssertionError(f"ended with {self.process.returncode}: {self.log()}")
            try:
                if self.request("GET", "/readyz").status == 200:
                    return
            except OSError:
                pass
            time.sleep(0.01)  # between two looks; the event is /readyz
        raise AssertionError(f"not ready: {self.log()}")

    def log(self):
        return (self.folder / "log").read_text()[-6000:]

    def kill(self):
        self.process.kill()
        self.process.wait()

    def stop(self):
        """Ends it; it must still have been there, and end well."""
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(timeout=60)
        assert code == 0, f"ended with {code}: {self.log()}"

    def connect(self, timeout=30):
        if self.tls:
            return http.client.HTTPSConnection("127.0.0.1", self.rest, timeout=timeout,
                                               context=self.context)
        return http.client.HTTPConnection("127.0.0.1", self.rest, timeout=timeout)

    def request(self, method, path, body=None, headers=None, connection=None):
        headers = dict(headers or {})
        if self.token and "Authorization" not in headers:
            headers["Authorization"] = f"Bearer {self.token}"
        if isinstance(body, (dict, list)):
            body = json.dumps(body)
        if isinstance(body, str):
            body = body.encode()
        c = connection or self.connect()
        try:
            c.request(method, path, body=body, headers=headers)
            r = c.getresponse()
            return Answer(r.status, r.headers, r.read())
        finally:
            if not connection:
                c.close()

    def channel(self):
        address = f"127.0.0.1:{self.grpc}"
        options = [("grpc.use_local_subchannel_pool", 1)]
        if self.tls:
            creds = grpc.ssl_channel_credentials((self.folder / "ca.crt").read_bytes())
            return grpc.secure_channel(address, creds, options)
        return grpc.insecure_channel(address, options)

    def digests(self):
        return {name: table["digest"] for name, table in
                self.request("GET", "/v1/status").json["tables"].items()}


def ndjson(entries):
    return "\n".join(json.dumps(e) for e in entries)


METRIC = re.compile(r'^[a-zA-Z_:][a-zA-Z0-9_:]*(\{[a-zA-Z_]\w*="(?:[^"\\\n]|\\["\\n])*"'
                    r'(,[a-zA-Z_]\w*="(?:[^"\\\n]|\\["\\n])*")*\})? '
                    r'(-?[0-9.]+(e[+-]?[0-9]+)?|NaN|[+-]Inf)$')


def check_metrics(text):
    """Prometheus' text format 0.0.4: each family once, HELP and TYPE before samples,
    no sample twice."""
    assert text.endswith("\n")
    family, seen, samples = None, set(), {}
    for line in text.splitlines():
        words = line.split(" ", 3)
        if line.startswith("# HELP "):
            family = words[2]
            assert family not in seen, f"{family} twice"
            seen.add(family)
        elif line.startswith("# TYPE "):
            assert words[2] == family and words[3] in ("counter", "gauge"), line
            assert words[3] != "counter" or family.endswith("_total"), line
        else:
            assert METRIC.match(line), line
            name, number = line.rsplit(" ", 1)
            assert name.split("{")[0] == family, line
            assert name not in samples, f"{name} twice"
            samples[name] = float(number)
    return samples
