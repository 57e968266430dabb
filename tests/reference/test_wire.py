#!/usr/bin/python3
"""The helpers against the RFCs' own numbers."""

import ipaddress
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import wire  # noqa: E402


class Checksum(unittest.TestCase):
    def test_rfc_1071_section_3_example(self):
        self.assertEqual(wire.ones_sum(bytes.fromhex("0001f203f4f5f6f7")), 0xDDF2)

    def test_odd_length_is_padded_on_the_right(self):
        self.assertEqual(wire.ones_sum(b"\x12"), 0x1200)

    def test_a_known_ipv4_header(self):
        # The worked example of Wikipedia's "Internet checksum": 0xb861.
        head = bytes.fromhex("450000730000400040110000c0a80001c0a800c7")
        self.assertEqual(wire.checksum(head), 0xB861)
        built = wire.ipv4_header(head[12:16], head[16:20], 0x73 - 20, 17, 64)
        self.assertEqual(built, head[:10] + b"\xb8\x61" + head[12:])

    def test_pseudo_headers(self):
        a4, b4 = b"\x01\x02\x03\x04", b"\x05\x06\x07\x08"
        self.assertEqual(wire.pseudo_header(a4, b4, 9, 17).hex(),
                         "0102030405060708" "00" "11" "0009")
        self.assertEqual(wire.pseudo_header(a4 * 4, b4 * 4, 9, 58)[32:].hex(),
                         "00000009" "000000" "3a")


class Unicast(unittest.TestCase):
    def test_what_a_router_may_not_forward(self):
        for text in ("0.0.0.0", "0.255.0.1", "127.0.0.1", "224.0.0.0", "239.255.255.255",
                     "240.0.0.1", "255.255.255.255", "::", "::1", "ff00::", "ff02::1",
                     "fe80::", "febf:ffff::1"):
            self.assertFalse(wire.is_routable_unicast(ipaddress.ip_address(text)), text)

    def test_what_it_may(self):
        for text in ("1.0.0.0", "126.0.0.1", "128.0.0.1", "223.255.255.255", "::2",
                     "fe7f::1", "fec0::1", "2001:db8::1", "fc00::1"):
            self.assertTrue(wire.is_routable_unicast(ipaddress.ip_address(text)), text)


if __name__ == "__main__":
    unittest.main()
