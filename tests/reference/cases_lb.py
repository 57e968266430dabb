"""Packet cases for the load balancer, and what the reference says to each.

    worlds(seed, mutations) -> yields (name, device, rows, [(case, frame)…])
    write(out, seed, mutations): DIR/WORLD/{in.pcap, expected.jsonl, device.json,
                                 entries.ndjson}, as cases.py does

The frames are those of cases.py, which are all that can be wrong outside, and flows of
random 5-tuples over clusters of several sizes.
"""

import json
import os
import pathlib
import random

import cases
import world as w
from forwarder_lb import LoadBalancer

# cluster → (members, with IPv4, with IPv6)
CLUSTERS = {"x86-1": (8, True, True), "x86-2": (3, True, True), "h-1": (1, True, True),
            "four": (5, True, False), "six": (4, False, True)}
# VNIs of w.entries(), so that the frames of cases.py find them.
HOMES = {100: "x86-1", 200: "x86-2", 110: "h-1", 120: "four", 300: "six", 301: "mixed",
         111: "empty", 0xFFFFFF: "x86-1"}


def members():
    out = []
    for number, (cluster, (count, v4, v6)) in enumerate(sorted(CLUSTERS.items())):
        for i in range(count):
            out.append({"cluster": cluster, "node": "%s-n%02d" % (cluster, i),
                        "v4": "172.18.%d.%d" % (number, i + 1) if v4 else None,
                        "v6": "fd00:16:18:%d::%d" % (number, i + 1) if v6 else None})
    for i in range(6):  # some of one family, some of both
        out.append({"cluster": "mixed", "node": "mixed-n%02d" % i,
                    "v4": "172.18.90.%d" % (i + 1) if i != 2 else None,
                    "v6": "fd00:16:18:90::%d" % (i + 1) if i % 2 == 0 else None})
    return sorted(out, key=lambda m: (m["cluster"], m["node"]))


def entries():
    return [{"table": "vni_cluster", "vni": v, "cluster": c} for v, c in sorted(HOMES.items())]


def flows(seed, count):
    """Random 5-tuples; the destination is one of ours, or nothing would be forwarded."""
    rng = random.Random(seed)
    for n in range(count):
        family, vni = rng.choice((4, 6)), rng.choice(sorted(HOMES))
        src = ("172.16.%d.%d" % (rng.randrange(256), rng.randrange(256)) if family == 4
               else "fd00:16:%x::%x" % (rng.randrange(65536), rng.randrange(65536)))
        dst = rng.choice((w.VIP4, w.VTEP4) if family == 4 else (w.VIP6, w.VTEP6))
        yield "flow %d" % n, cases.tunnel(
            cases.plain(sport=rng.randrange(65536)), family, vni,
            ip={"src": src, "dst": dst},
            udp={"sport": rng.randrange(65536), **rng.choice(({}, {"chksum": 0},
                                                              {"chksum": 0xBEEF}))})


def inside():
    """Nobody looks at the inner packet: whatever it is goes on."""
    for family in (4, 6):
        for size in (0, 1, 13, 14, 60, 1400, 1436, 1437, 1438, 1416, 1417, 1418, 1600):
            yield "%d bytes inside over v%d" % (size, family), cases.tunnel(
                bytes(n % 251 for n in range(size)), family)


def devices():
    for name, device in w.devices().items():
        device["members"] = members()
        yield name, device


def worlds(seed, mutations):
    random.seed(0)  # scapy draws defaults from it
    table = [(n, f) for n, f in cases.table_cases() if f] + list(inside())
    for name, device in devices():
        packets = list(table)
        if name == "base":
            packets += flows(seed, 3000)
            packets += cases.mutations([f for _, f in packets], seed, mutations)
        yield name, device, entries(), packets


def flow_key(forwarder, frame):
    outer = forwarder.parse_outer(frame)
    return "%s %s %d" % (outer.src, outer.dst, outer.sport)


def write(out, seed, mutations):
    for name, device, rows, packets in worlds(seed, mutations):
        folder = pathlib.Path(out, name)
        os.makedirs(folder)
        forwarder = LoadBalancer(device, rows)
        with open(folder / "expected.jsonl", "w") as f:
            for i, (case, frame) in enumerate(packets):
                line = cases.expectation(i, case, forwarder.forward(frame, 0),
                                         lambda frame=frame: flow_key(forwarder, frame))
                f.write(json.dumps(line) + "\n")
        cases.write_pcap(folder / "in.pcap", [frame for _, frame in packets])
        (folder / "device.json").write_text(json.dumps(device, indent=1) + "\n")
        (folder / "entries.ndjson").write_text("".join(json.dumps(r) + "\n" for r in rows))
        yield folder
