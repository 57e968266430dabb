#!/usr/bin/python3
"""What the capacity model says of the Tofino image is what the compiler made of it.

    test_capacity.py XGWCTL BUILD/p4/xgw_h      77 when nothing was compiled
"""

import json
import pathlib
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent.parent / "p4"))
import fit  # noqa: E402

XGWCTL, OUT = None, None


class Capacity(unittest.TestCase):
    def pipes(self):
        """(the model's pipe, what the compiler used), A and B."""
        said = json.loads(subprocess.run(
            [XGWCTL, "capacity", "explain", "--layout", "-o", "json"], check=True,
            capture_output=True, text=True).stdout)["pipes"]
        made = [fit.usage(context) for _, context in fit.contexts(OUT)]
        self.assertEqual(len(made), len(said))
        return zip(said, made)

    def test_the_report_is_the_compilers(self):
        for said, made in self.pipes():
            for kind, of in (("sram", fit.SRAM_BLOCKS * fit.STAGES),
                             ("tcam", fit.TCAM_BLOCKS * fit.STAGES),
                             ("phv", fit.PHV_CONTAINERS)):
                self.assertAlmostEqual(said["reported_%s_pct" % kind],
                                       fit.percent(made[kind], of), delta=0.5, msg=kind)
            self.assertEqual(said["reported_stages"], max(made["stages"].values()))

    def test_the_model_works_out_the_same(self):
        for said, made in self.pipes():
            self.assertAlmostEqual(
                said["sram_pct"],
                fit.percent(made["sram"], fit.SRAM_BLOCKS * fit.STAGES), delta=1)
            self.assertAlmostEqual(
                said["tcam_pct"],
                fit.percent(made["tcam"], fit.TCAM_BLOCKS * fit.STAGES), delta=0.5)


if __name__ == "__main__":
    XGWCTL, OUT = sys.argv[1:3]
    if not list(fit.contexts(OUT)):
        print("skipped: no image for Tofino was compiled (p4/README.md says how to)")
        sys.exit(77)
    unittest.main(argv=sys.argv[:1])
