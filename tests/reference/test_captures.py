#!/usr/bin/python3
"""captures.py against scapy: its tunnels byte by byte, its readdressed frames by sums."""

import pathlib
import struct
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import captures  # noqa: E402
import cases  # noqa: E402
import world as w  # noqa: E402
from scapy.all import IP, IPv6, Ether, UDP  # noqa: E402

PLACE = captures.Place(w.NC4, w.NC6, w.VIP4, w.VIP6, w.FAR4, w.FAR6)
MACS = (w.PORT_MAC[0], cases.PEER_MAC)


class Captures(unittest.TestCase):
    def test_a_tunnel_is_what_scapy_makes(self):
        for inner in (b"", b"x", cases.plain(), bytes(range(256)) * 30, b"\xff" * 61):
            for family in (4, 6):
                for zero in (False, True):
                    self.assertEqual(
                        captures.tunnel(inner, PLACE, MACS, family, 70000, zero),
                        cases.tunnel(inner, family, 70000,
                                     udp={"chksum": 0} if zero else None))

    def test_a_readdressed_frame_is_right_if_it_was(self):
        for family, layer in ((4, IP), (6, IPv6)):
            for sport in range(1, 65536, 257):
                was = Ether(cases.tunnel(cases.plain(), family, udp={"sport": sport}))
                src, dst = ("192.0.2.7", "192.0.2.9") if family == 4 else ("2001::7", "2001::9")
                was[layer].src, was[layer].dst, was[UDP].dport = src, dst, 8472
                if family == 4:
                    del was[layer].chksum
                del was[UDP].chksum
                frame = bytes(was)
                new = captures.readdress(frame, captures.find_vxlan(frame), PLACE)
                want = Ether(new)
                ends = (w.NC4, w.VIP4) if family == 4 else (w.NC6, w.VIP6)
                self.assertEqual((want[layer].src, want[layer].dst, want[UDP].dport),
                                 (*ends, 4789))
                if family == 4:
                    del want[layer].chksum
                del want[UDP].chksum
                self.assertEqual(bytes(want), new)

    def test_frames_come_out_of_either_byte_order_and_cut_files_are_refused(self):
        for order in "<>":
            head = struct.pack(order + "IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1)
            record = struct.pack(order + "IIII", 1, 2, 3, 60) + b"abc"
            with tempfile.NamedTemporaryFile() as f:
                f.write(head + record)
                f.flush()
                self.assertEqual(captures.read_pcap(f.name), [b"abc"])
                f.truncate(24 + 18)
                with self.assertRaises(ValueError):
                    captures.read_pcap(f.name)


if __name__ == "__main__":
    unittest.main()
