#!/usr/bin/python3
"""The comparer finds what is wrong: one that agrees with everything would prove nothing."""

import copy
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import compare  # noqa: E402

EXPECTED = [
    {"i": 0, "name": "a", "verdict": "forward", "flow": "f",
     "out": [{"port": 0, "frame": "aa00"}, {"port": 1, "frame": "bb00"}]},
    {"i": 1, "name": "b", "verdict": "drop", "reason": "mtu",
     "icmp": [{"port": 0, "frame": "cc"}]},
    {"i": 2, "name": "c", "verdict": "drop", "reason": "mtu"},
    {"i": 3, "name": "d", "verdict": "local"},
    {"i": 4, "name": "e", "verdict": "forward", "flow": "f",
     "out": [{"port": 0, "frame": "aa01"}, {"port": 1, "frame": "bb01"}]},
]
GOOD = [
    {"i": 0, "verdict": "forward", "port": 1, "frame": "bb00"},
    {"i": 1, "verdict": "drop", "reason": "mtu", "icmp": {"port": 0, "frame": "cc"}},
    {"i": 2, "verdict": "drop", "reason": "mtu"},
    {"i": 3, "verdict": "local"},
    {"i": 4, "verdict": "forward", "port": 1, "frame": "bb01"},
]


class Replay(unittest.TestCase):
    def problems(self, **change):
        out = copy.deepcopy(GOOD)
        out[change.pop("at", 0)].update(change)
        return len(compare.compare_replay(EXPECTED, out))

    def test_agreement(self):
        self.assertEqual(compare.compare_replay(EXPECTED, GOOD), [])

    def test_each_kind_of_difference(self):
        self.assertEqual(self.problems(frame="bb02"), 1)
        self.assertEqual(self.problems(port=0, frame="bb00"), 1)
        self.assertEqual(self.problems(port=7), 1)
        self.assertEqual(self.problems(verdict="drop", reason="mtu"), 1)
        self.assertEqual(self.problems(at=1, icmp=None), 1)
        self.assertEqual(self.problems(at=2, icmp={"port": 0, "frame": "cc"}), 1)
        self.assertEqual(self.problems(at=2, reason="no_vip"), 1)

    def test_a_flow_that_changes_its_uplink(self):
        self.assertEqual(self.problems(at=4, port=0, frame="aa01"), 1)

    def test_missing_double_and_unknown_packets(self):
        self.assertEqual(len(compare.compare_replay(EXPECTED, GOOD[1:])), 1)
        self.assertEqual(len(compare.compare_replay(EXPECTED, GOOD + GOOD[3:4])), 1)
        self.assertEqual(len(compare.compare_replay(EXPECTED[:4], GOOD)), 1)


class Ports(unittest.TestCase):
    FRAMES = {0: [b"\xcc"], 1: [b"\xbb\x00", b"\xbb\x01"]}

    def setUp(self):
        # The frames here are too short to be VXLAN.
        self.real, compare.is_vxlan = compare.is_vxlan, lambda frame: frame != b"arp"

    def tearDown(self):
        compare.is_vxlan = self.real

    COUNTERS = {"rx": 5, "tx": 3, "local": 1, "icmp_sent": 1, "drops": {"mtu": 2}}

    def problems(self, frames, **change):
        return len(compare.compare_ports(EXPECTED, {**self.FRAMES, **frames},
                                         {**self.COUNTERS, **change}))

    def test_agreement_in_any_order(self):
        self.assertEqual(self.problems({}), 0)
        self.assertEqual(self.problems({1: [b"\xbb\x01", b"\xbb\x00"]}), 0)
        self.assertEqual(self.problems({0: [b"arp", b"\xcc", b"arp"]}), 0)

    def test_an_error_may_be_held_back_where_that_is_said(self):
        self.assertEqual(self.problems({0: []}, tx=2, icmp_sent=0), 2)
        self.assertEqual(self.problems({0: []}, tx=2, icmp_sent=0,
                                       icmp_may_be_limited=True), 0)
        self.assertEqual(self.problems({0: []}, tx=2, icmp_may_be_limited=True), 1)

    def test_each_kind_of_difference(self):
        self.assertEqual(self.problems({1: [b"\xbb\x00"]}, tx=2), 1)
        self.assertEqual(self.problems({0: [b"\xcc", b"\xcc"]}, tx=4), 1)
        self.assertEqual(self.problems({}, drops={"mtu": 1}), 1)
        self.assertEqual(self.problems({}, drops={"mtu": 2, "no_vip": 1}), 1)
        self.assertEqual(self.problems({}, rx=4), 1)


if __name__ == "__main__":
    unittest.main()
