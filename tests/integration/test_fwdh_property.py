#!/usr/bin/python3
"""XGW-H with fallback answers as XGW-x86 alone, over random closed resident sets.

    test_fwdh_property.py FWDH_REPLAY FWD_REPLAY [--regions N] [--packets N] [--seed N]

Each region is random: nested routes of all scopes, peers, VMs of both families, NCs of
both.  XGW-x86 holds all of it, XGW-H a closed subset by the rules of FORWARDING ("What
is resident on XGW-H").  Every packet goes through the x86 packet functions alone, and
through XGW-H's, whose fallback packets go through the x86's then.  "The same answer" is
FORWARDING's: verdict and reason, or final NC or endpoint, VNI and inner packet.
"""
import argparse
import collections
import ipaddress
import json
import pathlib
import random
import struct
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "reference")]
import cases  # noqa: E402
import physical  # noqa: E402
import world  # noqa: E402
from wire import (UDP, checksum, ipv4_header, ipv6_header, mac_bytes,  # noqa: E402
                  pseudo_header)

MEMBERS = ["172.16.5.1", "172.16.5.2", "fd00:16:5::1", "fd00:16:5::2"]
SCOPES = ("local", "local", "local", "peer", "idc", "region", "derived", "internet", "service")


# --- a region -------------------------------------------------------------------------


class Region:
    def __init__(self, rng):
        self.rng = rng
        self.vnis = rng.sample(range(1, 1 << 24), rng.randint(3, 8))
        self.half = {v: rng.choice((0, 1, 2)) for v in self.vnis}
        self.targets = []  # addresses that are worth a packet
        self.rows = []
        for v in self.vnis:
            self.rows.append({"table": "vni", "vni": v,
                              "flags": rng.choice(([], ["internet"]))})
            self.vni(v)

    def address(self, version):
        """In a small space, so that prefixes nest."""
        rng = self.rng
        if version == 4:
            return ipaddress.ip_address(10 << 24 | rng.getrandbits(3) << 18
                                        | rng.getrandbits(3) << 8 | rng.getrandbits(4))
        return ipaddress.ip_address(0x20010DB8 << 96 | rng.getrandbits(3) << 77
                                    | rng.getrandbits(3) << 64 | rng.getrandbits(4))

    def nc(self):
        n = self.rng.randint(1, 9)
        return self.rng.choice(("172.16.2.%d",) * 5 + ("fd00:16:2::%d",)) % n

    def vni(self, v):
        rng, seen = self.rng, set()
        for _ in range(rng.choice((0, 3, 10, 40, 90))):
            version = rng.choice((4, 4, 6))
            top = 32 if version == 4 else 128
            length = rng.choice((0, 8, 13, 14, 16, 22, 24, 28, 31, top) if version == 4 else
                                (0, 32, 48, 50, 51, 62, 64, 65, 125, 127, top))
            prefix = ipaddress.ip_network((self.address(version), length), strict=False)
            if prefix in seen:
                continue
            seen.add(prefix)
            scope = rng.choice(SCOPES)
            row = {"table": "vxlan_route", "vni": v, "prefix": str(prefix), "scope": scope}
            if scope == "peer":
                row["peer_vni"] = rng.choice([w for w in self.vnis if w != v])
            elif scope in ("idc", "region", "derived"):
                # A derived peer leads to another VNI by its nature.
                row["endpoint"] = self.nc()
                row["endpoint_vni"] = rng.choice((v, 9)) if scope != "derived" else v ^ 1
            elif scope == "service":
                row["service"] = "dns"
            self.rows.append(row)
            self.targets.append((v, self.inside(prefix)))
        for _ in range(rng.choice((0, 20, 90))):
            a = self.address(rng.choice((4, 6)))
            if a not in seen:
                seen.add(a)
                self.rows.append({"table": "vm_nc", "vni": v, "vm": str(a), "nc": self.nc()})
                self.targets += [(v, a)] * 5 + [(w, a) for w in self.vnis]
                prefix = ipaddress.ip_network(a)
                if rng.random() < 0.7 and prefix not in seen:
                    seen.add(prefix)
                    self.rows.append({"table": "vxlan_route", "vni": v,
                                      "prefix": str(prefix), "scope": "local"})

    def inside(self, prefix):
        return prefix.network_address + self.rng.randrange(min(prefix.num_addresses, 1 << 20))

    def resident(self):
        """A closed subset: what the rules let XGW-H leave off."""
        rng, rows, kept = self.rng, [], collections.defaultdict(list)
        share = rng.choice((0.5, 0.9, 1))
        has_v6 = {v: rng.random() < share for v in self.vnis}
        routes = sorted((r for r in self.rows if r["table"] == "vxlan_route"),
                        key=lambda r: ipaddress.ip_network(r["prefix"]).prefixlen)
        for r in routes:
            prefix = ipaddress.ip_network(r["prefix"])
            is_covered = any(p.version == prefix.version and prefix.subnet_of(p)
                             for p in kept[r["vni"]])
            if rng.random() < share:
                kept[r["vni"]].append(prefix)
                rows.append(r)
            elif is_covered or rng.random() < 0.2:
                kept[r["vni"]].append(prefix)
                rows.append({**r, "scope": "fallback"})
        for r in self.rows:
            if r["table"] == "vni":
                rows.append(r)
            elif r["table"] == "vm_nc" and (has_v6[r["vni"]] if ":" in r["vm"]
                                            else rng.random() < share):
                rows.append(r)
        return rows


# --- packets ----------------------------------------------------------------------------


def packet(rng, vni, dst):
    if dst.version == 4:
        flags = rng.choice((0, 0x4000, 0x4000, 0x2000, 0x0010))
        ttl = rng.choice((0, 1, 2, 64, 64, 64))
        l4 = struct.pack("!HHHH", rng.getrandbits(16), rng.getrandbits(16), 18, 0) + bytes(10)
        inner = ipv4_header(ipaddress.ip_address("10.9.9.9").packed, dst.packed, len(l4), UDP,
                            ttl, flags=flags) + l4
        if rng.random() < 0.05:  # options, which a chip does not look behind
            head = bytes([0x46]) + inner[1:2] + struct.pack("!H", 24 + len(l4))
            head += inner[4:10] + b"\0\0" + inner[12:20] + b"\x01\x01\x01\0"
            inner = head[:10] + struct.pack("!H", checksum(head)) + head[12:] + l4
        kind = b"\x08\0"
    else:
        l4 = struct.pack("!HHHH", rng.getrandbits(16), rng.getrandbits(16), 18, 1) + bytes(10)
        inner = ipv6_header(ipaddress.ip_address("2001:db8:9::9").packed, dst.packed, len(l4),
                            UDP, rng.choice((0, 1, 2, 64, 64, 64))) + l4
        kind = b"\x86\xdd"
    if rng.random() < 0.02:
        inner = inner + bytes(rng.choice((1400, 1500)))  # padding that does not fit
    frame = mac_bytes(cases.GW_MAC) + mac_bytes(cases.VM_MAC) + kind + inner
    vxlan = b"\x08\0\0\0" + vni.to_bytes(3, "big") + b"\0"
    length = 16 + len(frame)
    udp = struct.pack("!HHHH", 0xC000 | rng.getrandbits(8), 4789, length, 0) + vxlan + frame
    src, to = (ipaddress.ip_address(a).packed for a in rng.choice(
        ((world.NC4, world.VIP4),) * 5 + ((world.NC6, world.VIP6),)))
    if len(src) == 16 or rng.random() < 0.5:
        csum = checksum(pseudo_header(src, to, length, UDP) + udp) or 0xFFFF
        udp = udp[:6] + struct.pack("!H", csum) + udp[8:]
    head, kind = ((ipv4_header(src, to, length, UDP, 64), b"\x08\0") if len(src) == 4 else
                  (ipv6_header(src, to, length, UDP, 64), b"\x86\xdd"))
    return (mac_bytes(world.PORT_MAC[0]) + mac_bytes(cases.PEER_MAC) + kind + head + udp)


def answer(line):
    """What has to be the same: (reason,), or (outer destination, VNI, inner frame)."""
    if line["verdict"] != "forward":
        return (line["verdict"], line.get("reason"))
    f = bytes.fromhex(line["frame"])
    at = 34 if f[12:14] == b"\x08\0" else 54
    return (f[30:34] if at == 34 else f[38:54], f[at + 12:at + 15], f[at + 16:])


# --- both ways --------------------------------------------------------------------------


def run(program, *args):
    out = subprocess.run([program, *map(str, args)], stdout=subprocess.PIPE, check=True)
    return [json.loads(line) for line in out.stdout.splitlines()]


def x86(program, folder, name, device, rows, frames):
    (folder / f"{name}.json").write_text(json.dumps(device))
    (folder / f"{name}.ndjson").write_text("".join(
        json.dumps(r) + "\n" for r in rows))
    cases.write_pcap(folder / f"{name}.pcap", frames)
    return run(program, "--device", folder / f"{name}.json", "--entries",
               folder / f"{name}.ndjson", "--pcap", folder / f"{name}.pcap")


def check(args, folder, seed, counts):
    rng = random.Random(seed)
    region = Region(rng)
    device = world.device()
    targets = region.targets or [(region.vnis[0], ipaddress.ip_address("10.0.0.1"))]
    frames = []
    for _ in range(args.packets):
        vni, dst = rng.choice(targets)
        if rng.random() < 0.1:
            dst = region.address(dst.version)
        elif rng.random() < 0.03:  # where the physical tables pool IPv4
            dst = ipaddress.ip_address(physical.pooled(region.address(4)))
        frames.append(packet(rng, vni, dst))
    want = x86(args.fwd_replay, folder, "alone", device, region.rows, frames)

    resident = region.resident()
    placed = physical.place(device, resident, MEMBERS, region.half.get)
    (folder / "h.tables").write_text(physical.port_lines(device)
                                     + "".join(r.line() for r in placed))
    cases.write_pcap(folder / "h.pcap", frames)
    got = run(args.fwdh_replay, "--tables", folder / "h.tables", "--pcap", folder / "h.pcap",
              "--port", seed % 2, "--burst", rng.choice((1, 32, 256)))
    members = {ipaddress.ip_address(m).packed for m in MEMBERS}
    fallen = [i for i, line in enumerate(got)
              if line["verdict"] == "forward" and answer(line)[0] in members]
    # The member: the same region, and its fallback addresses are its own.
    node = {**device, "vteps": device["vteps"] + MEMBERS}
    second = x86(args.fwd_replay, folder, "member", node, region.rows,
                 [bytes.fromhex(got[i]["frame"]) for i in fallen])
    for i, line in zip(fallen, second):
        got[i] = line
    counts["fallback"] += len(fallen)
    counts["packets"] += len(frames)
    problems = 0
    for i, (a, b) in enumerate(zip(want, got)):
        counts[a.get("reason", "forward")] += 1
        if answer(a) != answer(b):
            problems += 1
            if problems <= 5:
                print("seed %d, packet %d (%s): x86 alone %r, with XGW-H %r\n  %s" % (
                    seed, i, "fallback" if i in fallen else "direct", answer(a), answer(b),
                    frames[i].hex()))
    return problems + (len(want) != len(got))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("fwdh_replay")
    parser.add_argument("fwd_replay")
    parser.add_argument("--regions", type=int, default=30)
    parser.add_argument("--packets", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    counts, failed = collections.Counter(), 0
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(args.seed, args.seed + args.regions):
            failed += check(args, pathlib.Path(folder), seed, counts)
    print("%d regions, %s, %d differences" % (args.regions, dict(counts), failed))
    # A test that never fell back, or never did not, would have shown nothing.
    assert counts["packets"] * 0.1 < counts["fallback"] < counts["packets"] * 0.95
    assert counts["forward"] > counts["packets"] * 0.1
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
