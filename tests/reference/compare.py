#!/usr/bin/python3
"""Holds what an execution did against expected.jsonl of cases.py.

    compare.py EXPECTED --replay OUT.jsonl
    compare.py EXPECTED --pcap PORT=OUT.pcap [--pcap …] --counters COUNTERS.json

With --replay each packet is compared by itself.  With --pcap there is only what came
out of which port, in whatever order, and the counters: every frame that is due must be
there, nothing else may be, and the drops must add up reason by reason.
Ends with 0 when everything agrees, 1 when not, 2 when the files make no sense.
"""

import argparse
import collections
import json
import struct
import sys

SHOWN = 20


def read_lines(path):
    with open(path) as f:
        return [json.loads(line) for line in f if line.strip()]


def read_pcap(path):
    """Classic pcap, either byte order, micro- or nanoseconds."""
    with open(path, "rb") as f:
        data = f.read()
    order = {b"\xd4\xc3\xb2\xa1": "<", b"\x4d\x3c\xb2\xa1": "<",
             b"\xa1\xb2\xc3\xd4": ">", b"\xa1\xb2\x3c\x4d": ">"}.get(data[:4])
    if order is None:
        raise ValueError("%s: not a pcap file" % path)
    at, frames = 24, []
    while at < len(data):
        caplen, length = struct.unpack_from(order + "II", data, at + 8)
        if caplen != length or at + 16 + caplen > len(data):
            raise ValueError("%s: frame %d was cut" % (path, len(frames)))
        frames.append(data[at + 16:at + 16 + caplen])
        at += 16 + caplen
    return frames


def first_difference(want, got):
    """Where two frames part, in words that lead to the byte."""
    a, b = bytes.fromhex(want), bytes.fromhex(got)
    for i, (x, y) in enumerate(zip(a, b)):
        if x != y:
            return "byte %d is 0x%02x, not 0x%02x\n      want %s\n      got  %s" % (
                i, y, x, want, got)
    return "%d bytes, not %d\n      want %s\n      got  %s" % (len(b), len(a), want, got)


def frame_problem(allowed, got, what):
    """`got` {port, frame} must be one of `allowed`; says what is wrong, or None."""
    if got is None:
        return "no %s" % what
    same_port = [a for a in allowed if a["port"] == got["port"]]
    if not same_port:
        return "%s on port %s, which has no such uplink" % (what, got["port"])
    if any(a["frame"] == got["frame"] for a in same_port):
        return None
    return what + ": " + first_difference(same_port[0]["frame"], got["frame"])


def packet_problem(want, got):
    if got is None:
        return "no line about it"
    if (want["verdict"], want.get("reason")) != (got["verdict"], got.get("reason")):
        return "%s %s, not %s %s" % (got["verdict"], got.get("reason", ""),
                                     want["verdict"], want.get("reason", ""))
    if want["verdict"] == "forward":
        return frame_problem(want["out"], got, "frame")
    if "icmp" in want:
        return frame_problem(want["icmp"], got.get("icmp"), "ICMP error")
    if "icmp" in got:
        return "an ICMP error that is not due: " + got["icmp"]["frame"]
    return None


def compare_replay(expected, out):
    by_index = {}
    problems = []
    for line in out:
        if line["i"] in by_index:
            problems.append("packet %d is reported twice" % line["i"])
        by_index[line["i"]] = line
    uplink_of = {}
    for want in expected:
        got = by_index.pop(want["i"], None)
        problem = packet_problem(want, got)
        if problem is None and want["verdict"] == "forward":
            port = uplink_of.setdefault(want["flow"], got["port"])
            if port != got["port"]:
                problem = "port %d, but its flow left by %d before" % (got["port"], port)
        if problem:
            problems.append("packet %d (%s): %s" % (want["i"], want["name"], problem))
    problems += ["packet %d was never sent in" % i for i in by_index]
    return problems


def is_vxlan(frame):
    """What the packet functions send; a port also carries the control thread's ARP, ND,
    pings and so on, which are nobody's business here."""
    if frame[12:14] == b"\x08\x00":
        return frame[23] == 17 and frame[36:38] == b"\x12\xb5"
    return frame[12:14] == b"\x86\xdd" and frame[20] == 17 and frame[56:58] == b"\x12\xb5"


def compare_ports(expected, frames_by_port, counters):
    due, key_of, name_of, errors = collections.Counter(), {}, {}, set()
    drops, local, icmp = collections.Counter(), 0, 0
    for want in expected:
        local += want["verdict"] == "local"
        if want["verdict"] == "drop":
            drops[want["reason"]] += 1
        icmp += "icmp" in want
        allowed = want.get("out") or want.get("icmp")
        if allowed:
            key = (allowed[0]["port"], allowed[0]["frame"])
            due[key] += 1
            if "icmp" in want:
                errors.add(key)
            name_of.setdefault(key, "packet %d (%s)" % (want["i"], want["name"]))
            for a in allowed:
                key_of[a["port"], a["frame"]] = key
    problems, sent = [], 0
    for port, frames in sorted(frames_by_port.items()):
        for n, frame in enumerate(f for f in frames if is_vxlan(f)):
            sent += 1
            key = key_of.get((port, frame.hex()))
            if key is None or due[key] == 0:
                problems.append("port %d, frame %d is not due: %s" % (port, n, frame.hex()))
            else:
                due[key] -= 1
    # Errors may be held back, but then they are not counted as sent either.
    limited = 0
    if counters.get("icmp_may_be_limited"):
        limited = sum(due[key] for key in errors)
        for key in errors:
            due[key] = 0
    for key, count in due.items():
        if count:
            problems.append("%s: %d of it never came: %s" % (name_of[key], count, key[1]))
    got_drops = counters.get("drops", {})
    for reason in sorted(set(drops) | set(got_drops)):
        if drops[reason] != got_drops.get(reason, 0):
            problems.append("drops{%s} is %d, not %d" % (
                reason, got_drops.get(reason, 0), drops[reason]))
    for name, want in (("rx", len(expected)), ("tx", sent), ("local", local),
                       ("icmp_sent", icmp - limited)):
        if name in counters and counters[name] != want:
            problems.append("counter %s is %d, not %d" % (name, counters[name], want))
    return problems


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("expected")
    p.add_argument("--replay")
    p.add_argument("--pcap", action="append", default=[], metavar="PORT=FILE")
    p.add_argument("--counters")
    args = p.parse_args()
    if bool(args.replay) == bool(args.pcap) or bool(args.pcap) != bool(args.counters):
        p.error("either --replay, or --pcap with --counters")
    try:
        expected = read_lines(args.expected)
        if args.replay:
            problems = compare_replay(expected, read_lines(args.replay))
        else:
            frames = {int(s.split("=", 1)[0]): read_pcap(s.split("=", 1)[1])
                      for s in args.pcap}
            with open(args.counters) as f:
                problems = compare_ports(expected, frames, json.load(f))
    except (OSError, ValueError, KeyError) as e:
        print("compare: %s" % e, file=sys.stderr)
        return 2
    for line in problems[:SHOWN]:
        print(line)
    if len(problems) > SHOWN:
        print("… and %d more" % (len(problems) - SHOWN))
    print("%d packets, %d differences" % (len(expected), len(problems)))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
