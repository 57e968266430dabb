#!/usr/bin/python3
"""xgw-gateway, a real process with pcap ports, sends out what the reference forwarder
says, frame by frame, and counts every drop under the reason it names.

    test_gateway_packets.py XGW_GATEWAY [WORLD…]
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
REFERENCE = HERE.parent / "reference"
sys.path[:0] = [str(HERE), str(REFERENCE)]
import cases  # noqa: E402
import compare  # noqa: E402
import gateway_ctl  # noqa: E402
import world  # noqa: E402

PORTS = ("up0", "up1")
# `unresolved` waits for next hops that the gateway would ask for: test_fwd_reference
# has it.
WORLDS = ("base", "zero6", "vip4only", "link4only", "silent", "tight")
PATIENCE = 60
PCAP_HEADER = 24


def write_cases(folder, name, data):
    world.PORT_MAC = tuple("02:70:63:61:70:%02x" % n for n in range(2))  # DPDK's pcap ports
    args = ["cases.py", "--out", str(folder), "--world", name, "--data", data]
    sys.argv = args
    cases.main()


def settled(gateway, count):
    """Counters once every packet is accounted for, or what they were at the deadline."""
    deadline = time.monotonic() + PATIENCE
    while True:
        c = gateway.counters()
        done = c["forwarded"] + c["local"] + sum(c["drops"].values())
        if done >= count or time.monotonic() > deadline:
            return c
        time.sleep(0.05)


def run(program, folder):
    """Problems with one world."""
    expected = compare.read_lines(folder / "expected.jsonl")
    device = json.loads((folder / "device.json").read_text())
    cases.write_pcap(folder / "none.pcap", [])
    control, pipe = folder / "gw.sock", folder / "in.fifo"
    os.mkfifo(pipe)
    ports = ["up0=pcap:%s,%s" % (pipe, folder / "out0.pcap"),
             "up1=pcap:%s,%s" % (folder / "none.pcap", folder / "out1.pcap")]
    with (folder / "gateway.log").open("w") as log:
        process = subprocess.Popen(
            [program, "--control", "unix:%s" % control, "--ports", " ".join(ports),
             "--buffer-bytes", "9728", "--memory", "256", "--hugepages", "off",
             "--max-routes", "65536", "--max-vm-nc", "65536", "--max-vnis", "4096"],
            stdout=log, stderr=log, cwd=folder)
    try:
        # A port starts reading at once, when the gateway is not ready and drops all it
        # gets: so the packets come through a pipe, behind the tables.
        packets = (folder / "in.pcap").read_bytes()
        feed = pipe.open("wb")
        feed.write(packets[:PCAP_HEADER])
        feed.flush()
        gateway = gateway_ctl.Gateway(control, folder)
        gateway.configure(device, PORTS)
        gateway.write(gateway_ctl.read_entries(folder / "entries.ndjson"))
        feed.write(packets[PCAP_HEADER:])
        feed.close()
        counters = settled(gateway, len(expected))
        gateway.close()
        process.terminate()
        if process.wait(timeout=20):
            raise RuntimeError("xgw-gateway ended with %d" % process.returncode)
    except Exception:
        print((folder / "gateway.log").read_text()[-3000:])
        raise
    finally:
        process.kill()
        process.wait()
    frames = {n: compare.read_pcap(folder / ("out%d.pcap" % n)) for n in range(2)}
    counters["icmp_may_be_limited"] = True
    return compare.compare_ports(expected, frames, counters)


def main():
    program, names = sys.argv[1], sys.argv[2:] or WORLDS
    data = os.environ.get("XGW_DATA", str(HERE.parents[2] / "shared/data"))
    failed = 0
    with tempfile.TemporaryDirectory() as name:
        for each in names:
            folder = pathlib.Path(name, each)
            write_cases(name, each, data)
            problems = run(program, folder)
            print("\n".join(problems[:20]))
            print("%s: %d differences" % (each, len(problems)))
            failed |= bool(problems)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
