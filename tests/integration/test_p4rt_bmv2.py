#!/usr/bin/python3
"""The long form: the P4Runtime driver against BMv2's simple_switch_grpc.

    test_p4rt_bmv2.py TEST_DRIVER_P4_PROCESS

Compiles p4/xgw_h_v1model.p4 with p4c-bm2-ss and runs every driver's suite, and a bulk
write and read-back, against simple_switch_grpc.  Both are looked for in XGW_P4_BIN and on
PATH; skipped (77) where they are not: they are no Debian packages (p4/README.md).
ENTRIES=N moves as many.
"""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]


def tool(name):
    path = os.environ.get("XGW_P4_BIN", "") + os.pathsep + os.environ["PATH"]
    found = shutil.which(name, path=path)
    if not found:
        print(f"{name} is neither in XGW_P4_BIN nor on PATH: skipped")
        sys.exit(77)
    return found


def main():
    switch, compiler = tool("simple_switch_grpc"), tool("p4c-bm2-ss")
    with tempfile.TemporaryDirectory() as out:
        subprocess.run([ROOT / "p4/compile", "xgw_h_v1model", compiler, out], check=True)
        sys.exit(subprocess.run(
            [sys.argv[1], "bmv2", switch, f"{out}/xgw_h_v1model.p4info.bin",
             f"{out}/xgw_h_v1model.json"],
            env={"ENTRIES": "5000", **os.environ}, check=False).returncode)


if __name__ == "__main__":
    main()
