#!/usr/bin/python3
"""Benches of real processes: `system.py import|install|install-h|audit|audit-h [--routes N] [--data DIR]`.

What each figure means is in tests/bench/README.md.  Prints `name value unit` lines.
"""
import argparse
import ipaddress
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from datetime import datetime

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BIN = os.environ.get("XGW_BIN", f"{ROOT}/.build/release/bin")
WORK = f"{ROOT}/.build/bench"
REST = "127.0.0.1:17080"
GRPC = "127.0.0.1:17443"
IDLE_S = 10  # memory is read 10 s after the end


class Failed(Exception):
    pass


def rest(method, path, body=None, timeout=30):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"http://{REST}{path}", data=data, method=method)
    with urllib.request.urlopen(request, timeout=timeout) as reply:
        text = reply.read()
    return json.loads(text) if text.startswith(b"{") else text


def wait_for(what, check, seconds, pause=0.01):
    """Polls `check` until it is true; returns the moment."""
    end = time.time() + seconds
    while time.time() < end:
        try:
            if check():
                return time.time()
        except (urllib.error.URLError, ConnectionError, OSError):
            pass
        time.sleep(pause)
    raise Failed(f"{what}: not within {seconds} s")


def memory(pid):
    """VmRSS and huge pages of a process, in bytes."""
    with open(f"/proc/{pid}/status") as f:
        text = f.read()
    kib = sum(int(n) for n in re.findall(r"^(?:VmRSS|HugetlbPages):\s+(\d+) kB", text, re.M))
    return kib * 1024


def cpu_seconds(pid):
    """CPU time of a process, all of its threads."""
    with open(f"/proc/{pid}/stat") as f:
        fields = f.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Processes:
    def __init__(self, directory):
        self.directory = directory
        self.running = {}
        shutil.rmtree(directory, ignore_errors=True)
        os.makedirs(directory)

    def start(self, name, *argv):
        log = open(f"{self.directory}/{name}.log", "a")
        self.running[name] = subprocess.Popen(argv, stdout=log, stderr=log)
        return self.running[name]

    def stop(self, name, sig=signal.SIGTERM):
        process = self.running.pop(name)
        process.send_signal(sig)
        process.wait(60)

    def log(self, name):
        with open(f"{self.directory}/{name}.log") as f:
            return f.read()

    def stop_all(self):
        for name in list(self.running):
            self.stop(name, signal.SIGKILL)


def start_controller(p, *more):
    process = p.start("controller", f"{BIN}/xgw-controller", "--plain-text", "--store",
                      f"{p.directory}/region.db", "--rest-listen", REST, "--grpc-listen", GRPC,
                      *more)
    wait_for("controller", lambda: rest("GET", "/readyz") == b"ready\n", 60)
    return process


def make_switch():
    """An XGW-H cluster of one software switch before x86-1."""
    rest("PUT", "/v1/clusters/h-1", {"kind": "xgw-h", "backing": "x86-1", "profile": "bench",
                                     "vip_v4": "10.255.0.2", "vip_v6": "fd00:ff::2"})
    rest("PUT", "/v1/nodes/sw-1", {
        "cluster": "h-1", "kind": "soft-h", "vtep_v4": "10.255.1.2",
        "uplinks": [{"port": "0", "addr_v4": "10.0.0.3", "next_hop_v4": "10.0.0.1"}]})


def make_region():
    rest("PUT", "/v1/region", {"name": "bench", "underlay_sources": ["10.0.0.0/8", "fd00::/8"]})
    rest("PUT", "/v1/clusters/x86-1", {"vip_v4": "10.255.0.1", "vip_v6": "fd00:ff::1"})
    rest("PUT", "/v1/nodes/gw-1", {
        "cluster": "x86-1", "vtep_v4": "10.255.1.1",
        "uplinks": [{"port": "up0", "addr_v4": "10.0.0.2", "next_hop_v4": "10.0.0.1",
                     "mac": "02:00:00:00:00:01"}]})


def generate(what, routes, data):
    path = f"{WORK}/{what}-{routes}-{'real' if data else 'made'}.ndjson"
    if not os.path.exists(path):
        argv = [f"{BIN}/gen", "--routes", str(routes), "--what", what, "--output", path + ".new"]
        subprocess.run(argv + (["--data", data] if data else []), check=True)
        os.rename(path + ".new", path)
    with open(path, "rb") as f:  # into the page cache
        while f.read(1 << 24):
            pass
    return path


def import_file(path):
    """Seconds from the start of xgwctl to its end."""
    begin = time.time()
    done = subprocess.run([f"{BIN}/xgwctl", "--server", f"http://{REST}", "--grpc", GRPC, "import",
                           path], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    seconds = time.time() - begin
    if done.returncode != 0:
        raise Failed(f"xgwctl import {path}: {done.stdout.decode()}")
    return seconds


def with_h_home(path):
    """The same tenants with a home on the switches' cluster."""
    ret = path.replace(".ndjson", "-h.ndjson")
    with open(path) as f, open(ret, "w") as to:
        for line in f:
            to.write(json.dumps(json.loads(line) | {"h_home": "h-1"}) + "\n")
    return ret


def load(p, routes, data, has_switch=False, more=()):
    """A controller with the region in it; returns (process, empty bytes, import seconds)."""
    tenants = generate("tenants", routes, data)
    entries = generate("entries", routes, data)
    process = start_controller(p, *more)
    empty = memory(process.pid)
    make_region()
    if has_switch:
        make_switch()
        tenants = with_h_home(tenants)
    import_file(tenants)
    return process, empty, import_file(entries)


def bench_import(p, options, emit):
    process, empty, seconds = load(p, options.routes, options.data)
    entries = 2 * options.routes
    emit("entries_per_s", entries / seconds, "1/s")
    emit("import_seconds", seconds, "s")
    time.sleep(IDLE_S)
    emit("controller_bytes_per_entry", (memory(process.pid) - empty) / entries, "B")
    before = rest("GET", "/v1/status")["tables"]
    p.stop("controller", signal.SIGKILL)
    begin = time.time()
    start_controller(p)
    emit("restart_seconds", time.time() - begin, "s")
    if rest("GET", "/v1/status")["tables"] != before:
        raise Failed("after the restart the digests differ")


def stamp(text):
    return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def rest_a_while(p):
    """A ready controller is one that has nothing left to do: five seconds after the last
    write it folds the journal of an import into pages, which takes it a while."""
    controller = p.running["controller"].pid
    time.sleep(6)
    wait_for("an idle controller", lambda: is_idle(controller), 120, 0)


def is_idle(pid):
    before = cpu_seconds(pid)
    time.sleep(1)
    return cpu_seconds(pid) - before < 0.1


def bench_install(p, options, emit):
    load(p, options.routes, options.data)
    rest_a_while(p)
    gateway = p.start("gateway", f"{BIN}/xgw-gateway", "--control", f"unix:{p.directory}/gw.sock",
                      "--ports", "up0=vdev:net_null0,no-rx=1", "--hugepages", "off")
    wait_for("gateway", lambda: "gateway serves" in p.log("gateway"), 30)
    time.sleep(1)
    empty = memory(gateway.pid)
    p.start("agent", f"{BIN}/xgw-agent", "--plain-text", "--device-id", "gw-1", "--controllers",
            GRPC, "--gateway", f"unix:{p.directory}/gw.sock")

    seconds = installed(p, "gw-1")
    emit("seconds", seconds, "s")
    emit("entries_per_s", 2 * options.routes / seconds, "1/s")
    time.sleep(IDLE_S)
    emit("gateway_bytes_per_entry", (memory(gateway.pid) - empty) / (2 * options.routes), "B")


def installed(p, node):
    """Seconds from the agent's hello until the controller knows the node in sync."""
    def is_in_sync():
        status = rest("GET", f"/v1/nodes/{node}")["status"]
        return status["in_sync"] and status["ready"]

    end = wait_for("install", is_in_sync, 300, 0.02)
    hello = re.search(rf"ts=(\S+) .*msg=\"session assigned\" agent={node}", p.log("controller"))
    status = rest("GET", f"/v1/nodes/{node}")["status"]
    if status["exception_count"]:
        raise Failed(f"{status['exception_count']} entries were refused")
    return end - stamp(hello.group(1))


def start_switch(p):
    """A software switch with the tables of a large one, and the arguments of its agent."""
    p4info = f"{p.directory}/bench.p4info.bin"
    subprocess.run([f"{os.path.dirname(BIN)}/tests/test_driver_p4_process", "p4info", p4info],
                   check=True)
    address = f"unix:{p.directory}/sw.sock"
    switch = p.start("switch", f"{BIN}/xgw-gateway", "--control", address, "--pipeline", "h",
                     "--profile", "bench", "--ports", "up0=vdev:net_null0,no-rx=1",
                     "--hugepages", "off")
    wait_for("switch", lambda: "gateway serves" in p.log("switch"), 30)
    time.sleep(1)
    return switch, (f"{BIN}/xgw-agent", "--plain-text", "--device-id", "sw-1", "--controllers",
                    GRPC, "--device-kind", "soft-h", "--p4runtime", address, "--p4info", p4info)


def resident_entries():
    resident = rest("GET", "/v1/policy/suggestion")["resident"]["now"]
    return resident["vxlan_route"] + resident["vm_nc"]


def bench_install_h(p, options, emit):
    """The same into a software switch, over P4Runtime.  What is not resident is not sent."""
    load(p, options.routes, options.data, has_switch=True)
    rest_a_while(p)
    switch, agent = start_switch(p)
    empty = memory(switch.pid)
    used = {name: cpu_seconds(process.pid) for name, process in p.running.items()}
    p.start("agent", *agent)
    seconds = installed(p, "sw-1")
    entries = resident_entries()
    emit("install_entries", entries, "entries")
    emit("install_seconds", seconds, "s")
    emit("install_entries_per_s", entries / seconds, "1/s")
    for name, process in p.running.items():
        emit(f"install_{name}_cpu_seconds", cpu_seconds(process.pid) - used.get(name, 0), "s")
    time.sleep(IDLE_S)
    emit("switch_bytes_per_entry", (memory(switch.pid) - empty) / entries, "B")
    emit("agent_bytes_per_entry", memory(p.running["agent"].pid) / entries, "B")


class Wire:
    """What an agent and a controller say to each other goes through here, counted."""

    def __init__(self):
        self.bytes = 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = "127.0.0.1:%d" % self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        host, port = GRPC.split(":")
        while True:
            near = self.listener.accept()[0]
            far = socket.create_connection((host, int(port)))
            for pair in ((near, far), (far, near)):
                threading.Thread(target=self.carry, args=pair, daemon=True).start()

    def carry(self, source, to):
        try:
            while data := source.recv(1 << 16):
                self.bytes += len(data)
                to.sendall(data)
        except OSError:
            pass  # one of them is gone
        to.close()


def thread_seconds(pid):
    """CPU time of a process' first thread: the gateway's control."""
    with open(f"/proc/{pid}/task/{pid}/schedstat") as f:
        return int(f.read().split()[0]) / 1e9


def audited(node):
    """The finished audit, and the seconds until it was."""
    begin = time.time()
    number = rest("POST", "/v1/audits", {"node": node})["items"][0]["id"]
    end = wait_for("audit", lambda: rest("GET", f"/v1/audits/{number}")["state"] == "done", 300)
    return rest("GET", f"/v1/audits/{number}"), end - begin


def first_vm(path):
    with open(path) as f:
        return next(e for e in map(json.loads, f) if e["table"] == "vm_nc" and ":" not in e["nc"])


TRAFFIC = 1024  # different packets, again and again
WINDOWS = 5     # with an audit, and as many without


def write_traffic(path, entries):
    """Frames to VMs of local routes, each of which the gateway forwards to its NC."""
    from scapy.all import UDP, Ether, IP, PcapWriter
    from scapy.layers.vxlan import VXLAN
    local, vms = set(), []
    with open(entries) as f:
        for e in map(json.loads, f):
            if e["table"] == "vxlan_route" and e["scope"] == "local" and ":" not in e["prefix"]:
                local.add(e["vni"])
            elif e["table"] == "vm_nc" and ":" not in e["vm"] + e["nc"] and e["vni"] in local:
                vms.append(e)
    step = max(1, len(vms) // TRAFFIC)
    with PcapWriter(path) as out:
        for e in vms[::step][:TRAFFIC]:
            out.write(Ether(dst="02:00:00:00:00:02", src="02:00:00:00:00:01")
                      / IP(src="10.9.9.9", dst="10.255.0.1") / UDP(sport=50000, dport=4789)
                      / VXLAN(vni=e["vni"], flags=8) / Ether(dst="02:00:00:00:00:03")
                      / IP(src="10.0.0.1", dst=e["vm"]) / UDP(sport=1, dport=2) / (b"x" * 64))


def worker_seconds(pid):
    """CPU time of the thread that forwards: the busiest."""
    def seconds(task):
        with open(f"/proc/{pid}/task/{task}/schedstat") as f:
            return int(f.read().split()[0]) / 1e9
    return max(seconds(t) for t in os.listdir(f"/proc/{pid}/task") if t != str(pid))


class Rate:
    """Packets that a gateway forwards, by its worker's CPU seconds and by the clock."""

    def __init__(self, gateway_rig, p, gateway):
        self.client = gateway_rig.Client(gateway_rig.load_api(p.directory),
                                         f"unix:{p.directory}/gw.sock")
        self.pid = gateway.pid

    def look(self):
        return self.client.counters().forwarded, worker_seconds(self.pid), time.time()

    def during(self, action):
        """(result, a CPU second, a second)"""
        before = self.look()
        result = action()
        packets, cpu, wall = (b - a for a, b in zip(before, self.look()))
        return result, packets / cpu, packets / wall


def emit_forwarding_loss(gateway_rig, p, gateway, emit):
    """Windows with an audit and without, in turn: what else the machine does meets both."""
    rate = Rate(gateway_rig, p, gateway)
    windows = {"audit": [], "idle": []}
    for _ in range(WINDOWS):
        (record, seconds), *rates = rate.during(lambda: audited("gw-1"))
        if record["result"] != "clean":
            raise Failed(f"equal tables are not clean: {record}")
        windows["audit"].append(rates)
        _, *rates = rate.during(lambda: time.sleep(seconds))
        windows["idle"].append(rates)
    for i, name in ((0, "deep_forwarding_loss_pct"), (1, "deep_forwarding_wall_loss_pct")):
        audit, idle = (sorted(w[i] for w in windows[k])[WINDOWS // 2] for k in ("audit", "idle"))
        emit(name, 100 * (1 - audit / idle), "%")
        emit(name.replace("loss_pct", "packets"), idle, "1/s")


def flip_one(gateway_rig, p, entry):
    """One bit of an NC, where packets look."""
    api = gateway_rig.load_api(p.directory)
    nc = ipaddress.ip_address(int(ipaddress.ip_address(entry["nc"])) ^ 1)
    with gateway_rig.Client(api, f"unix:{p.directory}/gw.sock") as door:
        door.unary("Tamper", api.TamperRequest(place=2, ops=gateway_rig.batch(
            gateway_rig.PUT, [{**entry, "nc": str(nc)}])), api.TamperReply)


def bench_audit(p, options, emit):
    """Of an XGW-x86: equal tables, then one bit that is wrong."""
    sys.path.insert(0, f"{ROOT}/tests/integration")
    import gateway_rig  # needs grpc, which other benches do not
    load(p, options.routes, options.data, more=("--audit-interval", "0s"))
    rest_a_while(p)
    wire = Wire()
    entries = generate("entries", options.routes, options.data)
    traffic = f"{p.directory}/traffic.pcap"
    write_traffic(traffic, entries)
    gateway = p.start("gateway", f"{BIN}/xgw-gateway", "--control", f"unix:{p.directory}/gw.sock",
                      "--ports", "up0=vdev:net_null0,no-rx=1 "
                      f"in0=vdev:net_pcap0,rx_pcap={traffic},infinite_rx=1",
                      "--hugepages", "off", "--tamper")
    wait_for("gateway", lambda: "gateway serves" in p.log("gateway"), 30)
    p.start("agent", f"{BIN}/xgw-agent", "--plain-text", "--device-id", "gw-1", "--controllers",
            wire.address, "--gateway", f"unix:{p.directory}/gw.sock")
    installed(p, "gw-1")
    rest_a_while(p)
    idle, begin = wire.bytes, time.time()  # beats and telemetry go on all the time
    time.sleep(5)
    idle_rate = (wire.bytes - idle) / (time.time() - begin)

    cpu = {name: cpu_seconds(process.pid) for name, process in p.running.items()}
    control, before = thread_seconds(gateway.pid), wire.bytes
    record, seconds = audited("gw-1")
    if record["result"] != "clean":
        raise Failed(f"equal tables are not clean: {record}")
    emit("deep_seconds_2m", thread_seconds(gateway.pid) - control, "s")
    emit("deep_wall_seconds", seconds, "s")
    emit("equal_wire_bytes", max(0, wire.bytes - before - idle_rate * seconds), "B")
    for name, process in p.running.items():
        emit(f"deep_{name}_cpu_seconds", cpu_seconds(process.pid) - cpu[name], "s")

    emit_forwarding_loss(gateway_rig, p, gateway, emit)
    flip_one(gateway_rig, p, first_vm(entries))
    before = wire.bytes
    record, seconds = audited("gw-1")
    if (record["result"], record["different"], record["missing"], record["extra"]) != (
            "repaired", 1, 0, 0):
        raise Failed(f"one bit is not found, or not mended: {record}")
    emit("one_bit_seconds", seconds, "s")
    emit("one_bit_wire_bytes", max(0, wire.bytes - before - idle_rate * seconds), "B")


def bench_audit_h(p, options, emit):
    """Of an XGW-H over P4Runtime: equal tables."""
    load(p, options.routes, options.data, has_switch=True, more=("--audit-interval", "0s"))
    rest_a_while(p)
    _, agent = start_switch(p)
    p.start("agent", *agent)
    installed(p, "sw-1")
    rest_a_while(p)
    cpu = {name: cpu_seconds(process.pid) for name, process in p.running.items()}
    record, seconds = audited("sw-1")
    if record["result"] != "clean":
        raise Failed(f"equal tables are not clean: {record}")
    emit("p4rt_entries", resident_entries(), "entries")
    emit("p4rt_seconds_2m", seconds, "s")
    for name, process in p.running.items():
        emit(f"p4rt_{name}_cpu_seconds", cpu_seconds(process.pid) - cpu[name], "s")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("name", choices=["import", "install", "install-h", "audit", "audit-h"])
    parser.add_argument("--routes", type=int, default=1000000)
    parser.add_argument("--data", default="")
    options = parser.parse_args()
    figures = {}

    def emit(name, value, unit):
        figures[name] = {"value": value, "unit": unit}
        print(f"{name} {value:.6g} {unit}", flush=True)

    os.makedirs(WORK, exist_ok=True)
    p = Processes(f"{WORK}/{options.name}")
    try:
        {"import": bench_import, "install": bench_install,
         "install-h": bench_install_h, "audit": bench_audit,
         "audit-h": bench_audit_h}[options.name](p, options, emit)
    except Failed as failed:
        sys.exit(f"system.py: {failed}\nlogs are in {p.directory}")
    finally:
        p.stop_all()
    with open(f"{WORK}/{options.name}.json", "w") as f:
        json.dump(figures, f, indent=1)


main()
