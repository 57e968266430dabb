#!/usr/bin/python3
"""What the controller expects of a probe is what the reference forwarder says.

    test_probes.py PROBE_PRINT
"""

import ipaddress
import json
import os
import subprocess
import sys
import tempfile
import unittest

import world
from forwarder import Forwarder, Tables
from forwarder_h import ForwarderH

MEMBERS = [["172.16.7.1", "fd00:16:7::1"], ["172.16.7.2"], ["fd00:16:7::3"]]
OUT_OF = {4: ["0.0.0.1", "127.0.0.1", "224.0.0.5", "198.51.100.1", "10.0.0.200"],
          6: ["::", "::1", "fe80::1", "ff02::1", "2001:db8:ffff::1", "::ffff:10.0.0.4",
              "2001:db8:100::ffff"]}


def rows():
    return [json.loads(e) if isinstance(e, str) else e for e in world.entries()]


def questions(entries):
    """Every VM, an address of every route, and what nobody has, over both families."""
    out = []
    for vni in sorted({e["vni"] for e in entries}) + [4242]:
        addresses = list(OUT_OF[4] + OUT_OF[6])
        for e in entries:
            if e["vni"] != vni:
                continue
            if e["table"] == "vm_nc":
                addresses.append(e["vm"])
            elif e["table"] == "vxlan_route":
                net = ipaddress.ip_network(e["prefix"])
                addresses += [str(net[0]), str(net[-1])]
        out += ["%d %s %d" % (vni, a, f) for a in addresses for f in (4, 6)]
    return out


def ask(kind, device, entries, lines):
    with tempfile.TemporaryDirectory() as tmp:
        paths = [os.path.join(tmp, n) for n in ("device.json", "entries.ndjson")]
        with open(paths[0], "w") as f:
            json.dump(device, f)
        with open(paths[1], "w") as f:
            f.writelines(json.dumps(e) + "\n" for e in entries)
        done = subprocess.run([PROGRAM, kind] + paths, input="\n".join(lines) + "\n",
                              stdout=subprocess.PIPE, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def behind_ethernet(frames):
    return sorted({f[14:].hex() for f in frames})


def reference(forwarder, frame):
    """(reason, frames behind their Ethernet headers)"""
    first = forwarder.forward(frame, 0)[0]
    if first[0] == "drop":
        return first[1], []
    assert first[0] == "forward", first
    frames = []
    for f in first[1].values():
        frames += f if isinstance(f, list) else [f]
    return "", behind_ethernet(frames)


class Probes(unittest.TestCase):
    def hold(self, kind, device, entries, forwarder):
        lines = questions(entries)
        answers = ask(kind, device, entries, lines)
        self.assertEqual(len(answers), len(lines))
        seen = set()
        for line, answer in zip(lines, answers):
            sent = bytes.fromhex(answer["sent"])
            with self.subTest(kind=kind, question=line):
                reason, frames = reference(forwarder, sent)
                self.assertEqual(answer["reason"], reason)
                self.assertEqual(
                    behind_ethernet(bytes.fromhex(f) for f in answer["frames"]), frames)
            seen.add(reason or ("fallback" if len(frames) > 1 else "forward"))
        return seen

    def test_x86_in_every_world(self):
        seen = set()
        for name, device in world.devices().items():
            if name != "unresolved":  # next hops are taken for resolved
                with self.subTest(world=name):
                    seen |= self.hold("x86", device, rows(),
                                      Forwarder(device, Tables(rows())))
        self.assertLessEqual({"forward", "unknown_vni", "route_miss", "vm_nc_miss", "no_snat",
                              "service_unbound", "peer_limit", "no_vip", "no_uplink",
                              "inner_not_unicast"}, seen)

    def test_xgw_h(self):
        entries = [{k: v for k, v in e.items() if k != "mac"} for e in rows()]
        seen = set()
        for name in ("base", "vip4only", "link4only"):
            device = world.devices()[name]
            device["members"] = MEMBERS
            members = [m for member in MEMBERS for m in member]
            with self.subTest(world=name):
                seen |= self.hold("soft-h", device, entries,
                                  ForwarderH(device, entries, members))
        device = dict(world.devices()["base"], members=[])
        seen |= self.hold("soft-h", device, entries, ForwarderH(device, entries, []))
        self.assertLessEqual({"forward", "fallback", "fallback_no_member", "no_vip",
                              "peer_limit", "unknown_vni"}, seen)


if __name__ == "__main__":
    PROGRAM = sys.argv.pop(1)
    unittest.main()
