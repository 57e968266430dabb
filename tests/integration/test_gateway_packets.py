#!/usr/bin/python3
"""A real xgw-gateway on ports that are files does what the reference forwarder says.

    test_gateway_packets.py XGW_GATEWAY [--data DIR] [--seed N] [--mutations N]

Every world of tests/reference/cases.py: tables and configuration go in through the
control socket, in.pcap through port up0; what comes out of each port and every counter
is compared.  With captures in DIR these go through as well.
"""
import argparse
import json
import os
import pathlib
import struct
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
REFERENCE = HERE.parent / "reference"
sys.path[:0] = [str(HERE), str(REFERENCE)]
import cases  # noqa: E402
import compare  # noqa: E402
import gateway_rig as gw  # noqa: E402
import world  # noqa: E402

# The MACs that DPDK gives to its pcap ports, in the order they are made.
PORT_MAC = ("02:70:63:61:70:00", "02:70:63:61:70:01")
# One MAC an uplink cannot say "v4 resolved, v6 not"; fwd_reference covers that world.
LEFT_OUT = ("unresolved",)
OPTIONS = ("--wait-ready", "--icmp-rate", "0", "--buffers", "2047", "--buffer-bytes",
           "65280", "--memory", "256", "--max-routes", "10000", "--max-vm-nc", "10000",
           "--max-vnis", "10000")


def is_own(frame, addresses):
    """ARP, or neighbour discovery from one of our uplinks: not in the reference's view."""
    if frame[12:14] == b"\x08\x06":
        return True
    return (frame[12:14] == b"\x86\xdd" and frame[20] == 58 and frame[54] in (135, 136)
            and frame[22:38] in addresses)


def write_empty_pcap(path):
    path.write_bytes(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 262144, 1))


def run(program, api, folder, workers, pipeline):
    """Counters, and the frames that left each port."""
    device = json.loads((folder / "device.json").read_text())
    entries = [json.loads(line) for line in (folder / "entries.ndjson").open()]
    expected = compare.read_lines(folder / "expected.jsonl")
    write_empty_pcap(folder / "none.pcap")
    ports = " ".join(f"up{n}=pcap:{folder}/{source}.pcap,{folder}/out{n}.pcap"
                     for n, source in ((0, "in"), (1, "none")))
    with gw.Gateway(program, ports, *OPTIONS, "--workers", str(workers), "--pipeline",
                    pipeline, folder=folder) as g, gw.Client(api, g.address) as client:
        client.open(1)
        client.configure(gw.packed_config(device))
        done = client.write(gw.batch(gw.PUT, entries), revision=1)
        assert not done.refusals, "%d rows were refused" % len(done.refusals)
        assert client.counters().ports[0].rx_packets == 0, "packets before ready"
        client.write(revision=2, ready=True)

        def all_done():
            c = client.counters()
            seen = c.forwarded + c.local + sum(d.packets for d in c.drops)
            return c if seen >= len(expected) else None

        c = gw.wait_until(all_done, "every packet has its verdict")
        assert client.status().applied == 2
    return c, device, expected


def check(program, api, folder, workers, pipeline="x86"):
    c, device, expected = run(program, api, folder, workers, pipeline)
    own = {gw.ipaddress.ip_address(u["address"]).packed for u in device["uplinks"]}
    frames = {n: [f for f in compare.read_pcap(folder / f"out{n}.pcap")
                  if not is_own(f, own)] for n in (0, 1)}
    counters = {"rx": sum(p.rx_packets for p in c.ports), "local": c.local,
                "tx": c.forwarded + c.icmp_sent, "icmp_sent": c.icmp_sent,
                "drops": {d.reason: d.packets for d in c.drops}}
    problems = compare.compare_ports(expected, frames, counters)
    print("%s, %d workers: %d packets, %d differences" % (
        folder.name, workers, len(expected), len(problems)), flush=True)
    for line in problems[:20]:
        print("  " + line)
    return len(problems)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("gateway")
    parser.add_argument("--data", default=os.environ.get("XGW_DATA", "../shared/data"))
    parser.add_argument("--seed", default="1")
    parser.add_argument("--mutations", default="4000")
    args = parser.parse_args()
    world.PORT_MAC = PORT_MAC
    failed = 0
    with tempfile.TemporaryDirectory() as name:
        api = gw.load_api(name)
        sys.argv = ["cases.py", "--out", f"{name}/worlds", "--data", args.data, "--seed",
                    args.seed, "--mutations", args.mutations]
        cases.main()
        for folder in sorted(pathlib.Path(name, "worlds").iterdir()):
            if folder.name in LEFT_OUT:
                print(f"{folder.name}: left out, a configuration cannot say it")
                continue
            for workers in (1, 2) if folder.name == "base" else (1,):
                failed += check(args.gateway, api, folder, workers)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
