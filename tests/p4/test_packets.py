#!/usr/bin/python3
"""XGW-H on BMv2: every packet of tests/reference against what the reference says of it.

    test_packets.py SIMPLE_SWITCH_GRPC XGW_H_V1MODEL.json

Ends with 77 where the switch or the compiled image is missing.  Tables are those that
tests/reference/physical.py makes of the entries, both halves in one device.
"""

import ipaddress
import itertools
import pathlib
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT / "tests/reference"), str(ROOT / "tests/integration")]
import cases  # noqa: E402
import physical  # noqa: E402
import world  # noqa: E402
from forwarder import V6_EXTENSIONS, Drop  # noqa: E402
from forwarder_h import ForwarderH  # noqa: E402
from test_fwdh_reference import collision  # noqa: E402
from wire import u16  # noqa: E402

from scapy.all import (  # noqa: E402
    IP, TCP, UDP, Dot1AD, Dot1Q, Ether, IPOption, IPv6, Raw)

import bmv2  # noqa: E402

PROGRAM, CONFIG = None, None
INFO = ROOT / "p4/xgw_h_v1model.p4info.bin"
MEMBERS = ["172.16.5.5", "fd00:16:5::5"]
TAGS_PASS = 301  # a VNI with the flag inner_vlan
BY_DST = 100  # a VPC that lies in both halves
TIMEOUT = 20  # seconds a packet may take on a busy machine
MOST = 10 ** 9  # bytes, and bytes a second: what BMv2 takes in 32 bits
REASONS = {}
KEPT = 255  # a packet-in's reason: it is the control thread's own
MIN_FRAME = 60  # bytes, without FCS: nothing shorter comes in by a port


def read_reasons():
    """Numbers of the drop reasons, as the image's constants have them."""
    for line in (ROOT / "p4/include/drop_reasons.p4").read_text().splitlines():
        if line.startswith("const bit<8> DROP_"):
            name, value = line[len("const bit<8> DROP_"):].rstrip(";").split(" = ")
            REASONS[int(value)] = name.lower()


def half_of(vni):
    return 2 if vni == BY_DST else vni % 2


def entries(extra=()):
    """The cases' world, without the MACs that XGW-H cannot set."""
    return [{k: v for k, v in e.items() if k != "mac"} for e in world.entries()] + list(extra)


def device():
    """Ports of any MTU: the chip does not know it, for the underlay brought the packet.
    A zero checksum over v6 is x86's to allow."""
    d = world.device()
    d["udp6_zero_csum"] = True
    for link in d["uplinks"]:
        link["mtu"] = 65535
    return d


def frames():
    """(name, frame), each frame once.  The checksum of an outer header with options is
    none of the chip's: it has another reason to drop that."""
    seen = set()
    for name, frame in cases.table_cases():
        if frame and len(frame) >= MIN_FRAME and frame not in seen and name not in (
                "outer IHL 6", "outer IHL 15"):
            seen.add(frame)
            yield name, frame


def announced(frame):
    """(bytes that the outer IP header announces beyond the frame, bytes behind it).  In
    ingress the chip does not know a packet's length: it believes the headers, and padding
    stays."""
    at = 12
    while frame[at:at + 2] in (b"\x81\0", b"\x88\xa8"):
        at += 4
    kind, at = frame[at:at + 2], at + 2
    if kind == b"\x08\0" and len(frame) >= at + 20:
        end = at + u16(frame, at + 2)
    elif kind == b"\x86\xdd" and len(frame) >= at + 40:
        end = at + 40 + u16(frame, at + 4)
    else:
        return 0, b""
    return max(0, end - len(frame)), frame[end:]


class Chip(ForwarderH):
    """Where the chip sees less than the software switch and hands over to x86."""

    def __init__(self, config, rows, members):
        super().__init__(config, rows, members)
        self.own = self.tunnel_addrs  # a link's own address is no row of vtep

    def parse_inner(self, outer):
        try:
            return super().parse_inner(outer)
        except Drop as d:
            if d.reason in self.hidden(outer.payload[16:]):
                return None
            raise

    @staticmethod
    def hidden(frame):
        """Reasons that the chip cannot see, for they lie behind options or extension
        headers."""
        at = 12
        while frame[at:at + 2] in (b"\x81\0", b"\x88\xa8"):
            at += 4
        head = frame[at + 2:]
        if len(head) >= 20 and head[0] >> 4 == 4 and head[0] & 15 > 5:
            agree = 20 <= u16(head, 2) <= len(head)
            return ("inner_checksum", "inner_length") if agree else ()
        if len(head) >= 40 and head[0] >> 4 == 6 and head[6] in V6_EXTENSIONS:
            return ("inner_ext", "inner_nd")
        return ()

    def route_and_rewrite(self, outer, inner):
        if inner is None or outer.family == 6 and outer.csum == 0:
            return self.fall_back(outer)
        return super().route_and_rewrite(outer, inner)


class WithSwitch(unittest.TestCase):
    EXTRA, METERS = (), ()

    @classmethod
    def setUpClass(cls):
        cls.switch = bmv2.Switch(PROGRAM, CONFIG, INFO)
        cls.addClassCleanup(cls.switch.close)
        rows = entries(cls.EXTRA)
        cls.chip = Chip(device(), rows, MEMBERS)
        cls.rows = physical.place(device(), rows, MEMBERS, half_of)
        cls.switch.write(cls.rows)

    def of(self, table, **match):
        return [r for r in self.rows if r.table == table
                and all(r.match.get(k) == v for k, v in match.items())]

    def drops(self):
        return {REASONS[k]: n for k, n in self.switch.counter("drop_reason").items()}

    def out(self, frame, port=0):
        """The frame that comes out for one that must: (port, frame)."""
        sent = self.switch.send(port, frame)
        got = self.switch.received(TIMEOUT)
        self.assertIsNotNone(got, "nothing came out; drops: %s" % self.drops())
        self.assertEqual(got[0], sent)
        return got[1:]

    def refused(self, frames, reason):
        """All of these are dropped for that reason, and nothing else is."""
        before = self.drops().get(reason, 0)
        others = sum(self.drops().values()) - before
        for frame in frames:
            self.switch.send(0, frame)
        bmv2.wait_until(lambda: sum(self.drops().values()) >= before + others + len(frames),
                        TIMEOUT, "%d drops (%s), got %s" % (len(frames), reason, self.drops()))
        self.assertEqual(self.drops().get(reason, 0) - before, len(frames), self.drops())

    def tearDown(self):
        self.assertIsNone(self.switch.received(0.2), "something came out that is not due")


class OneKey(WithSwitch):
    """Two addresses of a VNI with one CRC32: the second is in vm_nc_conflict."""

    PAIR = [str(ipaddress.ip_address(a)) for a in collision()]
    EXTRA = [{"table": "vm_nc", "vni": 100, "vm": a, "nc": nc}
             for a, nc in zip(PAIR, (world.FAR4, world.IDC4))]

    def test_each_of_them_goes_to_its_own_nc(self):
        self.assertEqual(len(self.of("vm_nc_conflict")), 1)
        for address, nc in zip(self.PAIR, (world.FAR4, world.IDC4)):
            frame = cases.tunnel(cases.plain(dst=address))
            _, got = self.out(frame)
            self.assertEqual(got[30:34], ipaddress.ip_address(nc).packed)

    def test_without_the_conflict_s_row_the_other_s_key_is_hit(self):
        """As documented: an address that is not there can hit another's key, and the NC
        drops it."""
        rows = self.of("vm_nc_conflict")
        self.switch.write(rows, bmv2.DELETE)
        self.addCleanup(self.switch.write, rows)
        _, got = self.out(cases.tunnel(cases.plain(dst=self.PAIR[1])))
        self.assertEqual(got[30:34], ipaddress.ip_address(world.FAR4).packed)


class Cases(WithSwitch):
    def expected(self, kind):
        """name, frame, and what is said of it: of all that are not cut short."""
        for name, frame in frames():
            short, padding = announced(frame)
            verdict = self.chip.forward(frame, 0)[0]
            if short or verdict[0] != kind:
                continue
            if kind == "forward":
                out = {port: [f + padding for f in (fs if isinstance(fs, list) else [fs])]
                       for port, fs in verdict[1].items()}
                yield name, frame, out
            else:
                yield name, frame, verdict[-1]

    def test_what_leaves_is_what_the_reference_says(self):
        to_x86 = 0
        for count, (name, frame, want) in enumerate(self.expected("forward"), 1):
            with self.subTest(case=name):
                port, got = self.out(frame)
                self.assertIn(got.hex(), [f.hex() for f in want[port]])
                to_x86 += any(physical.ipaddress.ip_address(m).packed in got[26:62]
                              for m in MEMBERS)
        self.assertGreater(to_x86, 300)
        self.assertGreater(count - to_x86, 250)

    def test_every_reason_to_drop_is_the_reference_s_and_counted_once(self):
        seen = set()
        for name, frame, reason in self.expected("drop"):
            with self.subTest(reason=reason, case=name):
                self.refused([frame], reason)
            seen.add(reason)
        self.assertGreater(len(seen), 22)

    def test_a_vxlan_header_that_udp_has_no_room_for_is_a_drop(self):
        for family in (4, 6):
            for length in range(8, 16):
                frame = self.shortened(length, family)
                self.assertEqual(self.chip.forward(frame, 0), [("drop", "vxlan_truncated")])
                self.refused([frame], "vxlan_truncated")

    def test_an_inner_packet_that_udp_has_no_room_for_is_a_drop(self):
        for family in (4, 6):
            for dst in ("10.0.0.4", "2001:db8:100::6"):
                for length in range(16, 30 + (20 if "." in dst else 40)):
                    frame = self.shortened(length, family, dst)
                    self.assertEqual(self.chip.forward(frame, 0),
                                     [("drop", "inner_truncated")])
                    self.refused([frame], "inner_truncated")

    def test_an_inner_packet_in_tags_that_udp_has_no_room_for_is_a_drop(self):
        for tags in (Dot1Q(vlan=7), Dot1AD(vlan=7) / Dot1Q(vlan=8)):
            for ip in (IP(src="10.0.0.5", dst="10.0.0.4"),
                       IPv6(src="2001:db8::5", dst="2001:db8::6")):
                inner = bytes(Ether(src=cases.VM_MAC, dst=cases.GW_MAC) / tags / ip / TCP())
                for length in range(16, 16 + len(inner) - len(TCP())):
                    frame = cases.tunnel(inner, vni=TAGS_PASS, ip={"len": 20 + length},
                                         udp={"len": length, "chksum": 1})
                    self.assertEqual(self.chip.forward(frame, 0),
                                     [("drop", "inner_truncated")])
                    self.refused([frame], "inner_truncated")

    @staticmethod
    def shortened(length, family, dst="10.0.0.4"):
        """IP and UDP agree on `length`, and the rest is Ethernet padding."""
        head = {"len": 20 + length} if family == 4 else {"plen": length}
        return cases.tunnel(cases.plain(dst=dst), family, ip=head,
                            udp={"len": length, "chksum": 1})

    def test_what_is_cut_inside_a_header_is_dropped(self):
        whole = cases.tunnel(cases.plain(), 6)
        before = sum(self.drops().values())
        cuts = range(1, len(whole) - 40)
        for cut in cuts:
            self.switch.send(0, whole[:cut])
        bmv2.wait_until(lambda: sum(self.drops().values()) >= before + len(cuts), TIMEOUT,
                        "%d drops" % len(cuts))

    def test_control_traffic_goes_to_the_control_thread_as_it_came(self):
        count = 0
        for name, frame, _ in self.expected("local"):
            count += 1
            with self.subTest(case=name):
                self.switch.send(1, frame)
                self.assertEqual(self.switch.packet_in(TIMEOUT), (1, frame))
                self.assertEqual(self.switch.probed, (0, KEPT))
        self.assertGreater(count, 5)

    def test_the_control_thread_sends_out_of_the_port_it_names(self):
        frame = cases.tunnel(cases.plain())
        self.switch.packet_out(1, frame)
        got = self.switch.received(TIMEOUT)
        self.assertIsNotNone(got)
        self.assertEqual(got[1:], (1, frame))

    def probe(self, frame):
        """((is it one, reason), port, frame) of what comes back."""
        self.switch.packet_out(0, frame, probe=1)
        got = self.switch.packet_in(TIMEOUT)
        self.assertIsNotNone(got, "the probe did not come back")
        return self.switch.probed, *got

    def test_a_probe_comes_back_as_the_reference_says_and_leaves_by_no_port(self):
        count = 0
        for name, frame, want in itertools.islice(self.expected("forward"), 0, None, 9):
            with self.subTest(case=name):
                probed, port, got = self.probe(frame)
                self.assertEqual(probed, (1, 0))
                self.assertIn(got.hex(), [f.hex() for f in want[port]])
            count += 1
        self.assertGreater(count, 50)
        seen = set()
        for name, frame, reason in self.expected("drop"):
            if reason in seen:
                continue
            seen.add(reason)
            with self.subTest(reason=reason, case=name):
                (is_probe, number), _, got = self.probe(frame)
                self.assertEqual((is_probe, REASONS[number]), (1, reason))
                self.assertEqual(got[-8:], frame[-8:])
        self.assertGreater(len(seen), 22)
        for name, frame, _ in itertools.islice(self.expected("local"), 3):
            with self.subTest(case=name):
                self.assertEqual(self.probe(frame)[0], (1, KEPT))

    def port_counts(self):
        """{(counter, packets or bytes): {port: so many}}"""
        return {(name, what): self.switch.counter(name, what)
                for name in ("port_rx", "port_tx") for what in ("packet_count", "byte_count")}

    def test_a_port_counts_what_came_in_once_and_what_went_out(self):
        peers = [f for n, f, _ in self.expected("forward") if n.startswith("peer")]
        self.assertGreater(len(peers), 0)  # they go round: twice through the ingress
        unknown = cases.tunnel(cases.plain(), vni=4000)
        self.assertEqual(self.chip.forward(unknown, 0), [("drop", "unknown_vni")])
        want = self.port_counts()

        def count(name, port, frame):
            for what, n in (("packet_count", 1), ("byte_count", len(frame))):
                of = want[name, what]
                of[port] = of.get(port, 0) + n

        for frame in peers[:3] + [cases.tunnel(cases.plain(dst="10.0.0.4"))]:
            count("port_rx", 1, frame)
            count("port_tx", self.out(frame, 1)[0], frame)
        self.refused([unknown], "unknown_vni")
        count("port_rx", 0, unknown)
        self.assertEqual(self.port_counts(), want)
        self.probe(cases.tunnel(cases.plain(), 6))  # came by no port, and leaves by none
        got = self.port_counts()
        for name, ports in got.items():
            self.assertEqual({p: n for p, n in ports.items() if p != bmv2.CPU_PORT},
                             {p: n for p, n in want[name].items() if p != bmv2.CPU_PORT}, name)

    def test_packets_of_a_flow_and_of_its_answers_take_one_port(self):
        ports = {}
        for sport in range(40):
            there = cases.tunnel(cases.plain(src="10.0.0.44", dst="10.0.0.4", sport=sport))
            back = cases.tunnel(cases.plain(src="10.0.0.4", dst="10.0.0.44", sport=80,
                                            dport=sport))
            self.assertEqual(self.out(there)[0], self.out(back)[0])
            ports[sport] = self.out(there)[0]
        self.assertEqual(set(ports.values()), {0, 1})

    def test_fragments_of_a_datagram_take_one_port(self):
        for host in range(1, 20):
            ports = set()
            for flags, frag, l4 in (("MF", 0, UDP(sport=host, dport=host)),
                                    ("MF", 100, Raw(b"\1\2\3\4" * 5)),
                                    ("", 200, Raw(b"\5\6\7\x08" * 5))):
                ports.add(self.out(cases.tunnel(cases.plain(
                    dst="10.0.0.4", src="10.0.0.%d" % host, l4=l4,
                    ip={"flags": flags, "frag": frag, "proto": 17})))[0])
            self.assertEqual(len(ports), 1)


class AclAndMeters(WithSwitch):
    """VNI 400: ACL.  VNI 401: a meter.  402: unused addresses.  403: SNAT traffic."""

    EXTRA = [{"table": "vni", "vni": 400, "flags": ["acl"]},
             {"table": "vni", "vni": 401, "meter": 7}, {"table": "vni", "vni": 402},
             {"table": "vni", "vni": 403, "flags": ["internet"]}] + [
        {"table": "vxlan_route", "vni": v, "prefix": "10.0.0.0/16", "scope": "local"}
        for v in (400, 401, 402, 403)] + [
        {"table": "vm_nc", "vni": v, "vm": "10.0.0.4", "nc": world.FAR4}
        for v in (400, 401)]

    def frame(self, vni, **more):
        return cases.tunnel(cases.plain(**more), vni=vni)

    def rule(self, vni, priority, action, **more):
        """A row of the ACL for the length of the test."""
        row = physical.acl_row({"vni": vni, "priority": priority, "action": action, **more})
        self.switch.write([row])
        self.addCleanup(self.switch.write, [row], bmv2.DELETE)

    def without(self, rows):
        """Not there for the length of a `with`."""
        switch = self.switch

        class Gone:
            def __enter__(self):
                switch.write(rows, bmv2.DELETE)

            def __exit__(self, *_):
                switch.write(rows)

        return Gone()

    def test_a_rule_denies_what_it_matches_and_nothing_else(self):
        self.rule(400, 10, "deny", src="10.0.0.5/32", proto=6, dport=80)
        self.refused([self.frame(400)], "acl_deny")
        for other in (dict(dport=81), dict(src="10.0.0.6"),
                      dict(l4=UDP(sport=1, dport=80))):
            self.out(self.frame(400, **other))
        self.out(self.frame(401))

    def test_a_rule_with_ports_never_matches_a_later_fragment(self):
        self.rule(400, 10, "deny", proto=6, dport=80)
        self.out(self.frame(400, ip={"frag": 5}, l4=TCP(dport=80)))
        self.refused([self.frame(400, ip={"flags": "MF"})], "acl_deny")

    def test_the_highest_priority_decides(self):
        self.rule(400, 10, "deny", proto=6)
        self.rule(400, 11, "permit", dport=80)
        self.out(self.frame(400))
        self.refused([self.frame(400, dport=81)], "acl_deny")

    def test_ports_that_the_chip_does_not_see_are_denied_where_there_are_rules(self):
        option = dict(ip={"options": [IPOption(b"\x01\x01\x01\x00")]})
        self.refused([self.frame(400, **option)], "acl_deny")
        self.out(self.frame(401, **option))

    def test_a_meter_that_is_red_drops_and_others_are_not_touched(self):
        self.out(self.frame(401))
        self.switch.set_meter("vni_meter", 7, 1, 1)
        self.refused([self.frame(401)] * 2, "meter_red")
        self.out(self.frame(400, dport=9))
        self.switch.set_meter("vni_meter", 7, MOST, MOST)
        self.out(self.frame(401))

    def test_the_meter_comes_behind_the_acl(self):
        counted = self.switch.counter("vni_counter").get(7, 0)
        self.rule(401, 10, "deny")
        self.refused([self.frame(401)], "acl_deny")
        self.assertEqual(self.switch.counter("vni_counter").get(7, 0), counted)

    @staticmethod
    def bucket(vni):
        """CRC16/ARC of the 24-bit VNI, 12 bits of it."""
        crc = 0
        for octet in vni.to_bytes(3, "big"):
            crc ^= octet
            for _ in range(8):
                crc = crc >> 1 ^ (0xA001 if crc & 1 else 0)
        return crc & 0xFFF

    def test_one_tenant_s_misses_do_not_spend_another_s(self):
        self.out(self.frame(402))
        self.switch.set_meter("fb_miss", self.bucket(402), 1, 1)
        self.refused([self.frame(402)], "fallback_miss_red")
        self.out(self.frame(400, dst="10.0.9.9"))
        self.out(self.frame(403, dst="99.0.0.1"))  # SNAT traffic is another class
        self.switch.set_meter("fb_service", self.bucket(403), 1, 1)
        self.refused([self.frame(403, dst="99.0.0.1")], "fallback_service_red")
        for name, vni in (("fb_miss", 402), ("fb_service", 403)):
            self.switch.set_meter(name, self.bucket(vni), MOST, MOST)

    def test_a_class_that_is_spent_holds_back_every_tenant(self):
        self.switch.set_meter("fb_class", 0, 1, 1)
        self.refused([self.frame(402), self.frame(400, dst="10.0.9.9")],
                     "fallback_miss_red")
        self.out(self.frame(403, dst="99.0.0.1"))
        self.switch.set_meter("fb_class", 0, MOST, MOST)
        self.out(self.frame(402))

    def test_a_row_that_is_missing_has_a_reason_of_its_own(self):
        local = self.frame(400, dport=9)
        with self.without(self.of("fallback_group", v4=1)):
            self.refused([self.frame(402)], "fallback_no_member")
        with self.without(self.of("next_hop")):
            self.refused([local], "no_uplink")
        with self.without(self.of("port_out", fb=0)):
            self.refused([local], "no_vip")
            self.out(self.frame(402))
        with self.without(self.of("port_out", fb=1)):
            self.refused([self.frame(402)], "no_vip")
        far = int(ipaddress.ip_address(world.FAR4))
        with self.without([r for r in self.of("nc") if r.params["addr"] == far]):
            self.refused([local], "no_nc")
        self.out(local)


def main():
    global PROGRAM, CONFIG
    PROGRAM, CONFIG = sys.argv.pop(1), sys.argv.pop(1)
    for path, what in ((PROGRAM, "simple_switch_grpc"), (CONFIG, "image for BMv2")):
        if not pathlib.Path(path).is_file():
            print("skipped: no %s (p4/README.md says how to get one)" % what)
            return 77
    read_reasons()
    unittest.main()
    return 0


if __name__ == "__main__":
    sys.exit(main())
