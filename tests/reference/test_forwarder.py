#!/usr/bin/python3
"""The reference itself, held against scapy and against numbers worked out by hand.

Expected packets are built by scapy from the page's rules: scapy computes checksums and
lengths its own way, so an error in `wire.py` cannot hide behind itself.
"""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import cases  # noqa: E402
import world as w  # noqa: E402
from forwarder import Forwarder, Tables  # noqa: E402

from scapy.all import (  # noqa: E402
    Dot1Q, Ether, ICMP, ICMPv6PacketTooBig, ICMPv6TimeExceeded, IP, IPv6, Raw, TCP, UDP)
from scapy.layers.vxlan import VXLAN  # noqa: E402

ROWS = Tables(w.entries())
BASE = Forwarder(w.device(), ROWS)


def run(frame, device="base"):
    f = BASE if device == "base" else Forwarder(w.devices()[device], ROWS)
    return f.forward(frame, 0)


def outside(port=0, family=4):
    return Ether(src=w.PORT_MAC[port], dst=w.HOP_MAC[port])


def ether_udp(length):
    """A frame with a UDP datagram of `length` bytes that starts like VXLAN."""
    body = bytes.fromhex("08000000" "00006400")[:length - 8]
    return bytes(outside() / IP(src=w.NC4, dst=w.VIP4) / UDP(sport=1, dport=4789)
                 / Raw(body))


def rebuilt(frame):
    """The frame with every checksum and length computed afresh by scapy."""
    p = Ether(frame)
    for layer in (IP, UDP):
        if layer in p:
            for name in ("chksum", "len"):
                delattr(p[layer], name)
    return bytes(p)


class Forwarding(unittest.TestCase):
    def one(self, frame, device="base"):
        result = run(frame, device)
        self.assertEqual(result[0][0], "forward", result)
        frames = result[0][1]
        self.assertEqual(frames[0][12:] if 0 in frames else None,
                         frames[1][12:] if 0 in frames else None)
        return frames[min(frames)]

    def test_local_v4_to_v4_is_the_packet_of_the_page(self):
        inner = cases.plain()
        want = bytes(outside() / IP(src=w.VIP4, dst=w.FAR4, ttl=63, id=0x1234)
                     / UDP(sport=50505, dport=4789, chksum=0) / VXLAN(flags=8, vni=100)
                     / Raw(bytes.fromhex("02000000aa04") + inner[6:]))
        self.assertEqual(self.one(cases.tunnel(inner, udp={"chksum": 0})), want)

    def test_a_right_checksum_stays_right(self):
        for dst in ("10.0.0.4", "10.0.0.44", "10.4.0.1", "10.9.0.4", "2001:db8:100::4"):
            frame = self.one(cases.tunnel(cases.plain(dst=dst)))
            self.assertEqual(frame, rebuilt(frame), dst)
        for dst in ("10.0.0.6", "10.9.0.6", "2001:db8:100::6", "2001:db8:4::1"):
            frame = self.one(cases.tunnel(cases.plain(dst=dst), 6))
            self.assertEqual(frame, rebuilt(frame), dst)

    def test_a_wrong_checksum_stays_wrong_by_the_same_amount(self):
        for dst in ("10.0.0.4", "10.4.0.1", "10.9.0.4"):
            right = Ether(self.one(cases.tunnel(cases.plain(dst=dst))))[UDP].chksum
            was = Ether(cases.tunnel(cases.plain(dst=dst)))[UDP].chksum
            for error in (1, 0x100, 0x7FFF):
                bad = (was + error) % 0xFFFF
                got = Ether(self.one(cases.tunnel(cases.plain(dst=dst),
                                                  udp={"chksum": bad})))[UDP].chksum
                self.assertEqual(got, (right + error) % 0xFFFF or 0xFFFF)

    def test_a_sum_of_zero_is_sent_as_all_ones(self):
        seen = 0
        for name, frame in cases.sums_to_zero():
            out = self.one(frame)
            csum = Ether(out)[UDP].chksum
            seen += csum == 0xFFFF
            # 0 leaves only where a family change to v4 asks for it.
            self.assertTrue(csum or IP in Ether(out) and IPv6 in Ether(frame), name)
        self.assertGreater(seen, 5)

    def test_family_change_to_v6_computes_and_to_v4_zeroes(self):
        for csum in (0, 0xDEAD, None):
            udp = {} if csum is None else {"chksum": csum}
            frame = self.one(cases.tunnel(cases.plain(dst="10.0.0.6"), udp=udp))
            self.assertEqual(frame, rebuilt(frame))
            self.assertEqual((Ether(frame)[IPv6].src, Ether(frame)[IPv6].dst),
                             (w.VIP6, w.FAR6))
        frame = Ether(self.one(cases.tunnel(cases.plain(dst="10.0.0.4"), 6)))
        self.assertEqual((frame[UDP].chksum, frame[IP].id, int(frame[IP].flags)), (0, 0, 2))

    def test_the_option_for_zero_over_v6(self):
        got = self.one(cases.tunnel(cases.plain(dst="10.0.0.6"), 6, udp={"chksum": 0}),
                       "zero6")
        self.assertEqual(Ether(got)[UDP].chksum, 0)
        got = self.one(cases.tunnel(cases.plain(dst="10.0.0.6")), "zero6")
        self.assertEqual(Ether(got)[UDP].chksum, 0)
        self.assertEqual(run(cases.tunnel(cases.plain(), 6, udp={"chksum": 0})),
                         [("drop", "outer_udp6_zero_csum")])

    def test_dscp_ecn_and_ttl_cross_the_families(self):
        frame = Ether(self.one(cases.tunnel(cases.plain(dst="10.0.0.6"),
                                            ip={"tos": 0xBB, "ttl": 9})))
        self.assertEqual((frame[IPv6].tc, frame[IPv6].hlim, frame[IPv6].fl), (0xBB, 8, 50505))
        frame = Ether(self.one(cases.tunnel(cases.plain(), 6, ip={"tc": 0x2D, "hlim": 2})))
        self.assertEqual((frame[IP].tos, frame[IP].ttl), (0x2D, 1))

    def test_inner_ttl_falls_only_where_the_vni_changes_or_the_region_ends(self):
        for dst, want in (("10.0.0.4", 77), ("10.9.0.4", 76), ("10.4.0.1", 76),
                          ("10.6.0.1", 76), ("10.14.0.1", 76), ("10.12.0.1", 76), ("10.10.0.4", 76)):
            frame = self.one(cases.tunnel(cases.plain(dst=dst, ip={"ttl": 77})))
            inner = Ether(bytes(Ether(frame)[VXLAN].payload))
            self.assertEqual(inner[IP].ttl, want, dst)
            checked = inner.copy()
            del checked[IP].chksum
            self.assertEqual(bytes(checked), bytes(inner), dst)

    def test_the_vni_is_the_one_of_the_last_lookup_or_of_the_endpoint(self):
        for dst, vni, to in (("10.9.0.4", 200, w.FAR4), ("10.10.0.4", 112, w.FAR4),
                             ("10.4.0.1", 5000, w.IDC4), ("20.1.2.3", 5032, w.IDC4),
                             ("20.1.2.4", 5024, w.IDC4), ("20.1.3.0", 5016, w.IDC4),
                             ("20.9.9.9", 5008, w.IDC4), ("10.12.0.1", 700, w.FAR4)):
            frame = Ether(self.one(cases.tunnel(cases.plain(dst=dst))))
            self.assertEqual((frame[VXLAN].vni, frame[IP].dst), (vni, to), dst)

    def test_reserved_bits_leave_as_zero(self):
        frame = bytearray(cases.tunnel(cases.plain(), vxlan={"flags": 0xFB}))
        frame[43:46], frame[49] = b"\xff\xff\xff", 0xFF
        self.assertEqual(self.one(bytes(frame))[42:50].hex(), "0800000000006400")

    def test_an_inner_tag_passes_as_it_is_where_the_tenant_allows_it(self):
        inner = bytes(Ether(src=cases.VM_MAC, dst=cases.GW_MAC) / Dot1Q(vlan=7, prio=3)
                      / IP(src="10.0.0.5", dst="10.0.0.6") / TCP())
        frame = self.one(cases.tunnel(inner, vni=301))
        self.assertEqual(bytes(Ether(frame)[VXLAN].payload), inner)
        self.assertEqual(run(cases.tunnel(inner, vni=300)), [("drop", "inner_vlan")])

    def test_outer_tags_and_padding_are_left_behind(self):
        bare = self.one(cases.tunnel(cases.plain()))
        self.assertEqual(self.one(cases.tunnel(cases.plain(), tags=(Dot1Q(vlan=5),),
                                               pad=b"tail")), bare)

    def test_an_unresolved_uplink_is_passed_over(self):
        frames = run(cases.tunnel(cases.plain()), "unresolved")[0][1]
        self.assertEqual(list(frames), [1])


class IcmpErrors(unittest.TestCase):
    def error(self, frame, reason):
        result = run(frame)
        self.assertEqual(result[0], ("drop", reason))
        return result[1][1][0]

    def wrapped(self, inner, family=4):
        sport = 0xC000 | 50505 & 0x3FFF
        ip = (IP(src=w.VIP4, dst=w.NC4, tos=0xC0, ttl=64, id=0, flags="DF") if family == 4
              else IPv6(src=w.VIP6, dst=w.NC6, tc=0xC0, hlim=64, fl=sport))
        udp = UDP(sport=sport, dport=4789, **({"chksum": 0} if family == 4 else {}))
        eth = Ether(src=cases.GW_MAC, dst=cases.VM_MAC)
        return bytes(outside() / ip / udp / VXLAN(flags=8, vni=100) / eth / inner)

    def test_time_exceeded_v4(self):
        packet = cases.plain(dst="10.9.0.4", ip={"ttl": 1})
        want = (IP(src=w.ICMP4, dst="10.0.0.5", ttl=64, id=0, flags="DF", tos=0xC0)
                / ICMP(type=11, code=0) / Raw(packet[14:]))
        for family in (4, 6):
            self.assertEqual(self.error(cases.tunnel(packet, family), "inner_ttl"),
                             self.wrapped(want, family))

    def test_time_exceeded_v6(self):
        packet = cases.plain(dst="2001:db8:9::4", ip={"hlim": 1})
        want = (IPv6(src=w.ICMP6, dst="2001:db8:100::5", hlim=64, tc=0xC0)
                / ICMPv6TimeExceeded(code=0) / Raw(packet[14:]))
        for family in (4, 6):
            self.assertEqual(self.error(cases.tunnel(packet, family), "inner_ttl"),
                             self.wrapped(want, family))

    def test_too_big_v4_names_the_mtu_and_quotes_548_bytes(self):
        for dst, mtu in (("10.0.0.4", 1450), ("10.0.0.6", 1430)):
            packet = cases.plain(b"z" * 1500, dst=dst, ip={"flags": "DF"})
            want = (IP(src=w.ICMP4, dst="10.0.0.5", ttl=64, id=0, flags="DF", tos=0xC0)
                    / ICMP(type=3, code=4, nexthopmtu=mtu) / Raw(packet[14:14 + 548]))
            self.assertEqual(self.error(cases.tunnel(packet), "mtu"), self.wrapped(want))

    def test_too_big_v6_stays_within_1280(self):
        packet = cases.plain(b"z" * 1500, dst="2001:db8:100::6")
        want = (IPv6(src=w.ICMP6, dst="2001:db8:100::5", hlim=64, tc=0xC0)
                / ICMPv6PacketTooBig(code=0, mtu=1430) / Raw(packet[14:14 + 1232]))
        got = self.error(cases.tunnel(packet), "mtu")
        self.assertEqual(got, self.wrapped(want))
        self.assertEqual(len(got) - 14 - 20 - 16 - 14, 1280)

    def test_an_error_fits_the_link_it_leaves_by(self):
        device = w.device()
        for u in device["uplinks"]:
            u["mtu"] = 1280
        tight = Forwarder(device, ROWS)
        packet = cases.plain(b"z" * 1500, dst="2001:db8:100::6")
        for family in (4, 6):
            frame = tight.forward(cases.tunnel(packet, family), 0)[1][1][0]
            self.assertEqual(len(frame), 14 + 1280)
            self.assertEqual(frame, rebuilt(frame) if family == 6 else frame)

    def test_what_fits_exactly_passes_and_one_more_does_not(self):
        for dst, family, most in (("10.0.0.4", 4, 1450), ("10.0.0.6", 4, 1430),
                                  ("10.0.0.4", 6, 1450), ("10.0.0.6", 6, 1430)):
            for size in (most, most + 1):
                inner = cases.plain(b"m" * (size - 40), dst=dst)
                got = run(cases.tunnel(inner, family))[0]
                self.assertEqual(got[0], "forward" if size == most else "drop", (dst, size))

    def test_without_df_nobody_is_told(self):
        self.assertEqual(run(cases.tunnel(cases.plain(b"m" * 1500))), [("drop", "mtu")])

    def test_a_tagged_sender_is_told_four_bytes_less(self):
        inner = bytes(Ether(src=cases.VM_MAC, dst=cases.GW_MAC) / Dot1Q(vlan=7)
                      / IP(src="10.0.0.5", dst="10.0.0.4", flags="DF") / Raw(b"m" * 1430))
        error = Ether(self.error(cases.tunnel(inner, vni=301), "mtu"))
        answer = Ether(bytes(error[VXLAN].payload))
        self.assertEqual((answer[Dot1Q].vlan, answer[ICMP].nexthopmtu), (7, 1446))

    def test_never_about_an_error_a_later_fragment_or_a_group(self):
        for ip, l4 in (({"ttl": 1}, ICMP(type=3)), ({"ttl": 1}, ICMP(type=11)),
                       ({"ttl": 1, "frag": 8}, None)):
            frame = cases.tunnel(cases.plain(dst="10.9.0.4", ip=ip, l4=l4))
            self.assertEqual(run(frame), [("drop", "inner_ttl")])
        inner = cases.plain(dst="10.9.0.4", ip={"ttl": 1})
        group = b"\xff" * 6 + inner[6:]
        self.assertEqual(run(cases.tunnel(group)), [("drop", "inner_ttl")])


class Refusals(unittest.TestCase):
    """One line a reason; what is refused is written beside it."""

    def reason(self, frame):
        result = run(frame)
        return result[0][1] if result[0][0] == "drop" else result[0][0]

    def test_each_reason(self):
        good = cases.plain()
        t = cases.tunnel
        for want, frame in (
                ("l2_truncated", t(good)[:13]),
                ("l2_vlan_depth", t(good, tags=(Dot1Q(), Dot1Q(), Dot1Q()))),
                ("l2_not_ip", b"\0" * 12 + b"\x88\xcc" + b"\0" * 46),
                ("outer_length", t(good)[:33]),
                ("outer_version", t(good, ip={"version": 6})),
                ("outer_checksum", t(good, ip={"chksum": 1})),
                ("outer_options", t(good, 6, ip={"nh": 0})),
                ("outer_frag", t(good, ip={"flags": "MF"})),
                ("outer_frag", t(good, ip={"frag": 100})),
                ("not_our_address", t(good, ip={"dst": "172.16.5.5"})),
                ("not_vxlan", t(good, udp={"dport": 4790})),
                ("outer_ttl", t(good, ip={"ttl": 1})),
                ("source_check", t(good, ip={"src": "8.8.8.8"})),
                ("vxlan_truncated", ether_udp(15)), ("inner_truncated", ether_udp(16)),
                ("vxlan_truncated", t(good)[:14] + bytes(
                    IP(src=w.NC4, dst=w.VIP4) / UDP(sport=1, dport=4789))),
                ("vxlan_i_flag", t(good, vxlan={"flags": 0})),
                ("vxlan_gpe", t(good, vxlan={"flags": 0x0C})),
                ("unknown_vni", t(good, vni=101)),
                ("inner_truncated", t(good[:13])),
                ("inner_truncated", t(good[:33])),
                ("inner_not_ip", t(good[:12] + b"\x08\x06" + good[14:])),
                ("inner_version", t(cases.plain(ip={"version": 5}))),
                ("inner_length", t(cases.plain(ip={"len": 1400}))),
                ("inner_checksum", t(cases.plain(ip={"chksum": 1}))),
                ("inner_not_unicast", t(cases.plain(dst="224.0.0.5"))),
                ("route_miss", t(cases.plain(dst="99.0.0.1"))),
                ("peer_limit", t(cases.plain(dst="10.11.0.4"))),
                ("no_snat", t(cases.plain(dst="10.7.0.1"))),
                ("service_unbound", t(cases.plain(dst="10.8.0.1"))),
                ("vm_nc_miss", t(cases.plain(dst="10.0.0.99"))),
                ("local", t(good, ip={"proto": 1})),
                ("local", t(good, udp={"dport": 3784}))):
            self.assertEqual(self.reason(frame), want)

    def test_a_frame_cut_anywhere_is_refused_without_an_exception(self):
        frame = cases.tunnel(cases.plain(dst="2001:db8:9::4"), 6)
        for length in range(len(frame)):
            self.assertIn(self.reason(frame[:length]), ("l2_truncated", "outer_length"))


if __name__ == "__main__":
    unittest.main()
