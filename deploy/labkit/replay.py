#!/usr/bin/python3
"""Captured packets through a gateway, compared with the reference forwarder.

As a module: `Packets` holds them and the tenants they need.  As a program it does what
takes a process of its own:

    replay.py play INTERFACE IN OUT DUE      in the underlay's namespace: puts the frames
                                             of IN on INTERFACE, as the router would, and
                                             writes what the gateway answers to OUT
    replay.py make PLACE OUT                 writes the reference's generated cases
"""

import collections
import json
import os
import socket
import subprocess
import sys
import time

REFERENCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../tests/reference")
RATE = 1500        # packets a second: the lab is for function
SILENCE = 3        # seconds without a frame that end the wait for missing ones
QUIET = 0.5        # and the wait for more than is due
ETH_P_ALL = 3
SO_RCVBUFFORCE = 33  # <asm-generic/socket.h>; Python has no name for it

UNTAGGED, TAGGED = 30300, 30301  # tenants that carry frames captured without VXLAN
GENERATED = 40000                # added to the VNIs of generated cases


def reference(name):
    if REFERENCE not in sys.path:
        sys.path.insert(0, REFERENCE)
    return __import__(name)


class Packets:
    """Frames to send to `gateway` as if from `nc`, and the `vni`, route and VM-NC rows of
    the tenants found in them.  VXLAN captures are readdressed to the gateway, other
    captures go inside VXLAN, bound for `endpoint`.  Without captures, the reference's
    generated cases: they are made by scapy, which takes seconds, so beside the lab."""

    def __init__(self, gateway, nc, far, endpoint, data, folder):
        captures = reference("captures")
        self.maker, self.made = None, os.path.join(folder, "replay-made.jsonl")
        self.captured = bool(data) and os.path.isdir(os.path.join(data, "pcap"))
        place = captures.Place(nc.ip4, nc.ip6, gateway.vip4, gateway.vip6, far.ip4, far.ip6)
        macs = gateway.mac, gateway.hop_mac
        if not self.captured:
            world = reference("world")
            self.rows = [world.shifted(r, GENERATED) for r in world.entries()
                         if is_acceptable(r)]
            words = json.dumps({"nc": place[:2], "vip": place[2:4], "macs": macs,
                                "vtep": (gateway.vtep4, gateway.vtep6)})
            self.maker = subprocess.Popen(
                ["/usr/bin/python3", os.path.abspath(__file__), "make", words, self.made],
                stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
            return
        self.rows = []
        for vni, flags in ((UNTAGGED, []), (TAGGED, ["inner_vlan"])):
            self.rows.append({"table": "vni", "vni": vni, "flags": flags})
            self.rows += [{"table": "vxlan_route", "vni": vni, "prefix": net, "scope": "idc",
                           "endpoint": endpoint, "endpoint_vni": vni}
                          for net in ("0.0.0.0/0", "::/0")]

        def wrap(frame, family, vni, checksum_0):
            return captures.tunnel(frame, place, macs, family, vni, checksum_0)

        self.ready = acceptable(frame for _, frame in captures.captured_cases(
            data, self.rows, place, wrap, UNTAGGED, TAGGED))

    def frames(self):
        if self.maker:
            _, said = self.maker.communicate(timeout=120)
            if self.maker.returncode:
                raise ValueError("cases were not made: " + said.strip().splitlines()[-1])
            with open(self.made) as f:
                self.ready = [bytes.fromhex(json.loads(line)) for line in f]
            self.maker = None
        return self.ready

    def end(self):
        if self.maker:
            self.maker.kill()
            self.maker.communicate()


def acceptable(frames):
    """What a veth carries and the kernel hands to an af_packet port as it is.  It takes
    the outermost tag off, so a third would not be counted as one, and drops a tagged
    frame below 20 bytes; DPDK has it reassemble IPv4 fragments (PACKET_FANOUT_FLAG_DEFRAG).
    tests/integration/test_gateway_packets.py sends those through pcap ports."""
    return [f for f in frames if 14 <= len(f) <= 1514 and not is_changed(f)]


def is_changed(frame):
    tags, at = (b"\x81\0", b"\x88\xa8"), 12
    while frame[at:at + 2] in tags:
        at += 4
    fragment = frame[at:at + 2] == b"\x08\0" and (
        int.from_bytes(frame[at + 8:at + 10], "big") & 0x3FFF)
    return at > 20 or (at > 12 and len(frame) < 20) or bool(fragment)


def is_acceptable(row):
    """Not what a controller refuses: peers that are no tenants, chains of more than
    three, `derived` made by hand."""
    kept = {100, 200, 300, 301}
    return (row["vni"] in kept and row.get("scope") != "derived"
            and row.get("peer_vni", 100) in kept)


def make(place, target):
    place, world = json.loads(place), reference("world")
    world.NC4, world.NC6 = place["nc"]
    world.VIP4, world.VIP6 = place["vip"]
    world.VTEP4, world.VTEP6 = place["vtep"]
    world.PORT_MAC = (place["macs"][0],) * 2
    cases = reference("cases")
    cases.VNI_OFFSET = GENERATED
    with open(target, "w") as f:
        f.writelines(json.dumps(frame.hex()) + "\n" for frame in acceptable(
            frame for _, frame in cases.table_cases()))


Verdicts = collections.namedtuple("Verdicts", "out icmp drops local")


def expected(device, rows, frames):
    """What must come out, and be counted: Verdicts of Counters, and a number of local."""
    forwarder = reference("forwarder")
    judge = forwarder.Forwarder(device, forwarder.Tables(rows))
    out, icmp, drops = (collections.Counter() for _ in range(3))
    local = 0
    for frame in frames:
        for what, *more in judge.forward(frame, 0):
            if what == "forward":
                out[more[0][0].hex()] += 1
            elif what == "icmp":
                icmp[more[0][0].hex()] += 1
            elif what == "drop":
                drops[more[0]] += 1
            else:
                local += 1
    return Verdicts(out, icmp, drops, local)


def differences(got, want):
    """Frames that are due and did not come, and frames that nobody expects.  ICMP errors
    are rate limited, so they may be missing, but no other may come instead."""
    missing = want.out - got
    extra = got - want.out - want.icmp
    return missing, extra


def miscounted(before, after, want, icmp_seen):
    """Lines about what a gateway counted otherwise than the reference; [] = all agrees.
    ARP and ND go on meanwhile, so `local` may be more."""
    lines = []
    for reason in sorted(set(want.drops) | set(after["drops"])):
        counted = after["drops"].get(reason, 0) - before["drops"].get(reason, 0)
        if counted != want.drops[reason]:
            lines.append("drop %s: %d, not %d" % (reason, counted, want.drops[reason]))
    for name, due in (("forwarded", sum(want.out.values())), ("icmp_sent", icmp_seen)):
        if after[name] - before[name] != due:
            lines.append("%s: %d, not %d" % (name, after[name] - before[name], due))
    if after["local"] - before["local"] < want.local:
        lines.append("local: %d, not %d" % (after["local"] - before["local"], want.local))
    return lines


def play(interface, source, target, due):
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

    due_at = time.monotonic()
    for frame in frames:
        drain()
        while time.monotonic() < due_at:
            time.sleep(0.0005)
            drain()
        s.send(frame)
        # What was missed in a pause is not caught up with: a burst would overflow.
        due_at = max(due_at, time.monotonic() - 0.01) + 1 / RATE
    last = time.monotonic()
    while time.monotonic() - last < (QUIET if len(got) >= int(due) else SILENCE):
        if drain():
            last = time.monotonic()
        time.sleep(0.01)
    with open(target, "w") as f:
        f.writelines(json.dumps(frame) + "\n" for frame in got)


if __name__ == "__main__":
    {"play": play, "make": make}[sys.argv[1]](*sys.argv[2:])
