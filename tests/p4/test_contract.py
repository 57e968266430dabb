#!/usr/bin/python3
"""The P4 image is what agent/xgwh/phys.h says, on both targets.

    test_contract.py PRINT_PHYS

Ids, names, widths, match kinds, sizes and actions of the kept p4info files against what
a C program prints from the header; constants of the P4 sources against its enums.
"""

import json
import pathlib
import re
import subprocess
import sys
import unittest

import p4info

P4 = p4info.ROOT / "p4"
IMAGES = [n for n in ("xgw_h", "xgw_h_v1model")
          if (P4 / (n + ".p4info.bin")).exists()]
EXACT, TERNARY, NO_ACTION = 2, 4, "NoAction"
PHYS = None


def constants():
    """`const bit<8> NAME = 1;` of all the sources."""
    text = "".join(f.read_text() for f in sorted(P4.glob("include/*.p4")))
    return {name: int(value, 0) for name, value in
            re.findall(r"^const bit<\d+> (\w+) = (\w+);", text, re.M)}


class Contract(unittest.TestCase):
    def images(self):
        for name in IMAGES:
            with self.subTest(image=name):
                yield p4info.load(P4 / (name + ".p4info.bin"))

    @staticmethod
    def bits(table, field):
        """A partition's number has as many bits as this image's partitions need; the
        contract leaves room for more of them."""
        if (table["name"], field["name"]) == ("route_part", "part"):
            need = (PHYS["partitions"] - 1).bit_length()
            assert need <= field["bits"]
            return need
        return field["bits"]

    def test_every_table_has_the_ids_widths_and_matches_of_the_contract(self):
        for info in self.images():
            by_id = {t.preamble.id: t for t in info.tables}
            for want in PHYS["tables"]:
                with self.subTest(table=want["name"]):
                    got = by_id[want["id"]]
                    self.assertEqual(p4info.last(got.preamble.name), want["name"])
                    self.assertEqual(
                        [(f.id, f.name, f.bitwidth, f.match_type)
                         for f in got.match_fields],
                        [(f["id"], f["name"], self.bits(want, f),
                          TERNARY if f["ternary"] else EXACT) for f in want["fields"]])

    def test_every_table_has_the_size_of_the_contract(self):
        for info in self.images():
            sizes = {t.preamble.id: t.size for t in info.tables}
            for want in PHYS["tables"]:
                with self.subTest(table=want["name"]):
                    self.assertEqual(sizes[want["id"]], want["size"])

    def test_an_entry_may_carry_the_actions_of_the_contract_and_no_other(self):
        for info in self.images():
            by_id = {t.preamble.id: t for t in info.tables}
            for want in PHYS["tables"]:
                with self.subTest(table=want["name"]):
                    got = {r.id for r in by_id[want["id"]].action_refs
                           if r.scope != 2}  # DEFAULT_ONLY
                    self.assertEqual(got, set(want["actions"]))

    def test_every_action_has_the_parameters_of_the_contract(self):
        for info in self.images():
            by_id = {a.preamble.id: a for a in info.actions}
            for want in PHYS["actions"]:
                with self.subTest(action=want["name"]):
                    got = by_id[want["id"]]
                    self.assertEqual(p4info.last(got.preamble.name), want["name"])
                    self.assertEqual([(p.id, p.name, p.bitwidth) for p in got.params],
                                     [(p["id"], p["name"], p["bits"])
                                      for p in want["params"]])

    def test_a_table_that_is_not_in_the_contract_has_its_entries_in_the_image(self):
        ours = {t["id"] for t in PHYS["tables"]}
        for info in self.images():
            for table in info.tables:
                self.assertTrue(table.preamble.id in ours or table.is_const_table,
                                table.preamble.name)

    def test_there_are_images(self):
        self.assertIn("xgw_h_v1model", IMAGES)

    def test_ids_of_tables_and_actions_are_pinned_to_the_same_in_both_images(self):
        if len(IMAGES) < 2:
            self.skipTest("only %s is kept" % IMAGES)

        def ids(info):
            """What no table carries has no pinned id and does not need one."""
            carried = {r.id for t in info.tables for r in t.action_refs}
            return {(p4info.last(x.preamble.name), x.preamble.id)
                    for x in list(info.tables) + [a for a in info.actions
                                                  if a.preamble.id in carried]}

        one, other = (ids(p4info.load(P4 / (n + ".p4info.bin"))) for n in IMAGES)
        self.assertEqual(one, other)

    def test_meters_and_counters_are_found_by_name_with_their_sizes(self):
        for info in self.images():
            for kind, got in (("meters", info.meters), ("counters", info.counters)):
                for name, size in PHYS[kind].items():
                    found = [x.size for x in got if p4info.last(x.preamble.name) == name]
                    self.assertTrue(found, name)
                    self.assertEqual(set(found), {size}, name)

    def test_packets_to_and_from_the_control_thread_name_their_port(self):
        for info in self.images():
            got = {p.preamble.name: {m.name: (m.id, m.bitwidth) for m in p.metadata}
                   for p in info.controller_packet_metadata}
            self.assertEqual(got["packet_in"]["ingress_port"], (1, 9))
            self.assertEqual(got["packet_out"]["egress_port"], (1, 9))

    def test_constants_of_the_sources_are_the_enums_of_the_contract(self):
        got = constants()
        reasons = {n[5:].lower(): v for n, v in got.items() if n.startswith("DROP_")}
        self.assertGreater(len(reasons), 20)
        self.assertEqual(reasons, {n: PHYS["drop_reasons"].get(n) for n in reasons})
        for prefix, enum in (("SCOPE_", "scopes"), ("CLASS_", "classes")):
            for name, value in PHYS[enum].items():
                self.assertEqual(got[prefix + name], value, name)
        self.assertEqual(got["HALF_BY_DST"], PHYS["half_by_dst"])

    def test_partitions_times_slots_are_the_rows_of_route_part(self):
        sizes = dict(re.findall(r"^#define (\w+)\s+(\d+)\b",
                                (P4 / "include/sizes.p4").read_text(), re.M))
        self.assertEqual(int(sizes["ROUTE_PARTITIONS"]), PHYS["partitions"])
        self.assertEqual(int(sizes["ROUTE_PARTITION_SLOTS"]), PHYS["partition_slots"])
        self.assertLessEqual(PHYS["partitions"], 1 << int(sizes["ROUTE_PARTITION_BITS"]))


if __name__ == "__main__":
    PHYS = json.loads(subprocess.run([sys.argv.pop(1)], check=True,
                                     capture_output=True, text=True).stdout)
    unittest.main()
