#!/usr/bin/python3
"""Captured packets through a gateway, compared with the reference forwarder.

As a module: `prepare` makes the packets and the tenants they need.  As a program, in
the underlay's namespace: puts the frames of IN on INTERFACE, as the router would, and
writes what the gateway answers to OUT.

    replay.py INTERFACE IN.jsonl OUT.jsonl
"""

import collections
import json
import os
import socket
import sys
import time

REFERENCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../tests/reference")
RATE = 2000        # packets a second: the lab is for function
SILENCE = 3        # seconds without a frame that end the wait
ETH_P_ALL = 3
SO_RCVBUFFORCE = 33  # <asm-generic/socket.h>; Python has no name for it


UNTAGGED, TAGGED = 30300, 30301  # tenants that carry frames captured without VXLAN
GENERATED = 40000                # added to the VNIs of generated cases


def prepare(gateway, nc, endpoint, data):
    """(frames, rows): VXLAN captures readdressed to the gateway, other captures inside
    VXLAN, bound for `endpoint`; the `vni`, route and VM-NC rows of the tenants found in
    them.  Without captures, the reference's generated cases."""
    sys.path.insert(0, REFERENCE)
    import world
    world.VIP4, world.VIP6, world.NC4, world.NC6 = gateway.vip4, gateway.vip6, nc.ip4, nc.ip6
    world.VTEP4, world.VTEP6 = gateway.vtep4, gateway.vtep6
    world.PORT_MAC = (gateway.mac,) * 2
    import cases
    rows = []
    if data and os.path.isdir(os.path.join(data, "pcap")):
        for vni, flags in ((UNTAGGED, []), (TAGGED, ["inner_vlan"])):
            rows.append({"table": "vni", "vni": vni, "flags": flags})
            rows += [{"table": "vxlan_route", "vni": vni, "prefix": net, "scope": "idc",
                      "endpoint": endpoint, "endpoint_vni": vni}
                     for net in ("0.0.0.0/0", "::/0")]
        frames = [frame for _, frame in cases.captures(data, rows, UNTAGGED, TAGGED)]
    else:
        cases.VNI_OFFSET = GENERATED
        frames = [frame for _, frame in cases.table_cases()]
        rows = [cases.shifted(r) for r in world.entries() if is_acceptable(r)]
    # What a veth carries; and the kernel takes the outermost tag off before an af_packet
    # port sees the frame, so a third tag would not be counted as one.
    tags = (b"\x81\0", b"\x88\xa8")
    return [f for f in frames if 14 <= len(f) <= 1514 and not (
        f[12:14] in tags and f[16:18] in tags and f[20:22] in tags)], rows


def is_acceptable(row):
    """Not what a controller refuses: peers that are no tenants, chains of more than
    three, `derived` made by hand."""
    kept = {100, 200, 300, 301}
    return (row["vni"] in kept and row.get("scope") != "derived"
            and row.get("peer_vni", 100) in kept)


def expected(device, rows, frames):
    """What must come out: (Counter of frames, Counter of ICMP errors, drops, local)."""
    sys.path.insert(0, REFERENCE)
    from forwarder import Forwarder, Tables
    judge = Forwarder(device, Tables(rows))
    out, icmp, drops, local = (collections.Counter() for _ in range(4))
    for frame in frames:
        for what, *more in judge.forward(frame, 0):
            if what == "forward":
                out[more[0][0].hex()] += 1
            elif what == "icmp":
                icmp[more[0][0].hex()] += 1
            elif what == "drop":
                drops[more[0]] += 1
            else:
                local["local"] += 1
    return out, icmp, drops, local["local"]


def differences(got, out, icmp):
    """Frames that are due and did not come, and frames that nobody expects.  ICMP errors
    are rate limited, so they may be missing, but no other may come instead."""
    missing = out - got
    extra = got - out - icmp
    return missing, extra


def play(interface, source, target):
    s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
    s.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 64 << 20)
    s.bind((interface, 0))
    s.setblocking(False)
    with open(source) as f:
        frames = [bytes.fromhex(json.loads(line)) for line in f]
    got = []

    def drain():
        heard = False
        while True:
            try:
                frame, where = s.recvfrom(65536)
            except BlockingIOError:
                return heard
            if where[2] != socket.PACKET_OUTGOING:
                got.append(frame.hex())
                heard = True

    start = time.monotonic()
    for n, frame in enumerate(frames):
        while True:
            drain()
            if time.monotonic() - start >= n / RATE:
                break
            time.sleep(0.0005)
        s.send(frame)
    last = time.monotonic()
    while time.monotonic() - last < SILENCE:
        if drain():
            last = time.monotonic()
        time.sleep(0.01)
    with open(target, "w") as f:
        f.writelines(json.dumps(frame) + "\n" for frame in got)


if __name__ == "__main__":
    play(*sys.argv[1:])
