#!/usr/bin/python3
"""XGW-H's packet path in software says what the reference forwarder says, packet by
packet.

    test_fwdh_reference.py FWDH_REPLAY FWD_REPLAY [--seed N] [--mutations N]

The cases of tests/reference/cases.py in every world, against tables that physical.py
made of the logical entries: halves by parity, one VNI in both halves by destination,
some entries left to XGW-x86, an ACL, two addresses with one CRC32.  Packets come in by
an even and by an odd port.
"""
import argparse
import pathlib
import random
import subprocess
import sys
import tempfile
import zlib

HERE = pathlib.Path(__file__).resolve().parent
REFERENCE = HERE.parent / "reference"
sys.path[:0] = [str(HERE), str(REFERENCE)]
import cases  # noqa: E402
import compare  # noqa: E402
import physical  # noqa: E402
import world  # noqa: E402
from forwarder_h import ForwarderH  # noqa: E402

BURSTS = ((1, 0), (32, 1), (200, 0))  # packets a call, port
MEMBERS = ["172.16.5.1", "172.16.5.2", "fd00:16:5::1"]
BY_DST = 100                          # a VPC that lies in both halves


def half_of(vni):
    return 2 if vni == BY_DST else vni % 2


def collision():
    """Two addresses with one CRC32, found by the birthday paradox."""
    seen = {}
    prefix = bytes.fromhex("20010db8010000000000000000000000")[:8]
    for n in range(1 << 20):
        tail = (n * 0x9E3779B97F4A7C15 & (1 << 64) - 1).to_bytes(8, "big")
        crc = zlib.crc32(prefix + tail)
        if crc in seen:
            return seen[crc], prefix + tail
        seen[crc] = prefix + tail
    raise AssertionError("no collision in a million addresses")


def acl():
    rules = [(100, 50, "deny", {"dst": "10.0.0.44/32"}),
             (100, 60, "permit", {"dst": "10.0.0.44/32", "proto": 6, "dport": 80}),
             (100, 10, "deny", {"proto": 17, "dport": 53}),
             (100, 10, "deny", {"src": "2001:db8:100::/64", "dst": "2001:db8:5::/48"}),
             (300, 5, "deny", {"proto": 1}),
             (300, 7, "deny", {"sport": 4321})]
    return [{"table": "acl", "vni": v, "priority": p, "action": a, **more}
            for v, p, a, more in rules]


def entries():
    """What lies on XGW-H: no VM with a MAC of its own but for those whose MAC is taken
    off, no default routes of 300, and one VNI's peer stays away."""
    rows = []
    for e in world.entries():
        e = {k: v for k, v in e.items() if k != "mac"}
        if e["table"] == "vm_nc" and e["vm"] == "10.9.0.6":
            continue  # a miss
        if e["table"] == "vxlan_route" and (e["vni"], e["prefix"]) == (300, "::/0"):
            e["scope"] = "fallback"
        if e["table"] == "vni" and e["vni"] == 300:
            e["flags"] = ["acl"]
        rows.append(e)
    first, second = collision()
    for address, nc in ((first, world.FAR4), (second, world.IDC4)):
        text = str(physical.ipaddress.ip_address(address))
        rows.append({"table": "vm_nc", "vni": 100, "vm": text, "nc": nc})
    return rows + acl(), (first, second)


def extra_cases(addresses):
    for address in addresses:
        text = str(physical.ipaddress.ip_address(address))
        for family in (4, 6):
            yield "a key that two addresses have, %s" % text, cases.tunnel(
                cases.plain(dst=text), family)
    for dst in ("::ffff:10.0.0.4", "::ffff:10.0.0.44", "::fffe:10.0.0.4", "::1:10.0.0.4"):
        for vni in (100, 300):
            yield "mapped %s in vni %d" % (dst, vni), cases.tunnel(
                cases.plain(dst=dst), 6, vni)
    option = cases.IPOption(b"\x01\x01\x01\0")
    for vni in (100, 300, 301):
        yield "ports behind options in vni %d" % vni, cases.tunnel(
            cases.plain(dst="10.0.0.4", ip={"options": [option]}), vni=vni)
        yield "ports behind extension headers in vni %d" % vni, cases.tunnel(bytes(
            cases.Ether(src=cases.VM_MAC, dst=cases.GW_MAC) / cases.IPv6(
                src="2001:db8::1", dst="2001:db8:100::6") / cases.IPv6ExtHdrDestOpt()
            / cases.TCP()), vni=vni)
    for dport in (52, 53, 80):
        for dst in ("10.0.0.4", "10.0.0.44", "2001:db8:100::6"):
            for more in ({}, {"flags": "MF"}, {"flags": "", "frag": 3}):
                if more and ":" in dst:
                    continue
                yield "ACL: UDP port %d to %s %s" % (dport, dst, more), cases.tunnel(
                    cases.plain(dst=dst, ip=more, l4=cases.UDP(sport=9, dport=dport)))
                yield "ACL: TCP port %d to %s %s" % (dport, dst, more), cases.tunnel(
                    cases.plain(dst=dst, ip=more, l4=cases.TCP(sport=9, dport=dport)))


def expectation(i, name, result, flow):
    """As cases.expectation, with a list of frames a port where a member is chosen."""
    line = {"i": i, "name": name, "verdict": result[0][0]}
    if line["verdict"] == "forward":
        line["out"] = [{"port": p, "frame": f.hex()} for p, fs in sorted(result[0][1].items())
                       for f in (fs if isinstance(fs, list) else [fs])]
        line["flow"] = flow()
    elif line["verdict"] == "drop":
        line["reason"] = result[0][1]
    return line


def check(replay, folder, name, device, packets, rows):
    forwarder = ForwarderH(device, rows, MEMBERS)
    expected = [expectation(i, n, forwarder.forward(f, 0),
                            lambda f=f: cases.flow_key(forwarder, f))
                for i, (n, f) in enumerate(packets)]
    tables = folder / (name + ".tables")
    placed = physical.place(device, rows, MEMBERS, half_of)
    tables.write_text(physical.port_lines(device) + "".join(r.line() for r in placed))
    cases.write_pcap(folder / "in.pcap", [f for _, f in packets])
    failed = 0
    for burst, port in BURSTS:
        out = folder / "out.jsonl"
        with out.open("w") as file:
            subprocess.run([replay, "--tables", tables, "--pcap", folder / "in.pcap",
                            "--burst", str(burst), "--port", str(port)], stdout=file,
                           check=True)
        problems = compare.compare_replay(expected, compare.read_lines(out))
        verdicts = {}
        for e in expected:
            verdicts[e["verdict"]] = verdicts.get(e["verdict"], 0) + 1
        print("%s, %d a call, port %d: %d packets %s, %d differences" % (
            name, burst, port, len(packets), verdicts, len(problems)), flush=True)
        for line in problems[:20]:
            print("  " + line)
        failed += len(problems)
    return failed


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("fwdh_replay")
    parser.add_argument("fwd_replay")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--mutations", type=int, default=2000)
    args = parser.parse_args()
    random.seed(0)  # scapy draws defaults from it
    rows, addresses = entries()
    packets = [(n, f) for n, f in cases.table_cases() if f]
    packets += list(extra_cases(addresses))
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        for name, device in world.devices().items():
            more = list(packets)
            if name == "base":
                more += list(cases.mutations([f for _, f in packets], args.seed,
                                             args.mutations))
            failed += check(args.fwdh_replay, pathlib.Path(folder), name, device, more, rows)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
