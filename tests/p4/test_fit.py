#!/usr/bin/python3
"""p4/fit.py sees what the compiler does not say by its exit status."""

import json
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent.parent / "p4"))
import fit  # noqa: E402


def blocks(kind, *units):
    return {"memory_type": kind, "memory_units_and_vpns": [{"memory_units": list(units)}]}


def blocks_of_atcam(*units):
    """As the compiler writes them: without their kind."""
    return {"memory_units_and_vpns": [{"memory_units": list(units)}]}


def exact(name, declared, *parts):
    """`parts`: (stage, entries, SRAM blocks)."""
    return {"name": name, "table_type": "match", "size": declared, "direction": "ingress",
            "match_attributes": {"match_type": "exact", "stage_tables": [
                {"stage_number": s, "size": n, "memory_resource_allocation": blocks("sram", *u)}
                for s, n, u in parts]}}


def atcam(name, declared, *sizes):
    return {"name": name, "table_type": "match", "size": declared, "direction": "egress",
            "match_attributes": {"match_type": "algorithmic_tcam", "units": [
                {"match_attributes": {"stage_tables": [
                    {"stage_number": n, "size": size,
                     "memory_resource_allocation": [blocks_of_atcam(1, 2)]}]}}
                for n, size in enumerate(sizes)]}}


class Fit(unittest.TestCase):
    def folder(self, *pipes):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        for n, tables in enumerate(pipes):
            path = pathlib.Path(folder.name, "pipe%d" % n)
            path.mkdir()
            (path / "context.json").write_text(json.dumps({"tables": tables}))
        return folder.name

    def test_whole_tables_pass(self):
        self.assertEqual(fit.check(self.folder([exact("a", 10, (0, 4, [1]), (1, 6, [1]))],
                                               [atcam("b", 16, 8, 8)])), 0)

    def test_a_table_that_is_short_fails(self):
        self.assertEqual(fit.check(self.folder([exact("a", 10, (0, 4, [1]), (1, 5, [1]))],
                                               [atcam("b", 16, 8, 8)])), 1)

    def test_an_algorithmic_tcam_of_which_half_is_missing_fails(self):
        self.assertEqual(fit.check(self.folder([exact("a", 1, (0, 1, [1]))],
                                               [atcam("b", 16, 8)])), 1)

    def test_a_missing_pipeline_profile_fails(self):
        self.assertEqual(fit.check(self.folder([exact("a", 1, (0, 1, [1]))])), 1)

    def test_nothing_compiled_is_skipped(self):
        self.assertEqual(fit.check(self.folder()), 77)

    def test_blocks_are_counted_once_a_stage_whoever_uses_them(self):
        context = {"tables": [exact("a", 2, (0, 1, [3, 4]), (1, 1, [3])),
                              exact("b", 1, (0, 1, [4, 5]))]}
        self.assertEqual(fit.usage(context)["sram"], 4)
        self.assertEqual(fit.usage(context)["stages"], {"ingress": 2})

    def test_the_blocks_of_an_algorithmic_tcam_are_sram(self):
        self.assertEqual(fit.usage({"tables": [atcam("b", 16, 8, 8)]})["sram"], 4)

    def test_action_data_is_its_tables(self):
        context = {"tables": [exact("a", 1, (0, 1, [3])),
                              dict(exact("a$action", 1, (0, 1, [4])), table_type="action")]}
        self.assertEqual({n: len(b) for n, b in fit.blocks_of(context).items()}, {"a": 2})

    def test_tcam_is_counted_apart(self):
        table = exact("a", 1, (2, 1, [7]))
        table["match_attributes"]["stage_tables"][0]["memory_resource_allocation"] = [
            blocks("tcam", 1, 2), blocks("sram", 1)]
        used = fit.usage({"tables": [table]})
        self.assertEqual((used["tcam"], used["sram"]), (2, 1))


if __name__ == "__main__":
    unittest.main()
