#!/usr/bin/python3
"""The lab stands by itself: with the reference forwarder as gateways every step of the
demo works against the kernel's VXLAN, with generated data, and nothing is left behind.

So a failing demo with the real gateways is theirs, and the reference agrees with a
VXLAN implementation that is not ours.  Needs root and network namespaces: 77 without.
"""

import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
PREFIX = "xgwtest"  # beside a lab that somebody has up


def namespaces():
    out = subprocess.run(["ip", "netns", "list"], text=True, stdout=subprocess.PIPE).stdout
    return [line for line in out.splitlines() if line.startswith(PREFIX)]


def main():
    probe = PREFIX + "-probe"
    if os.geteuid() or subprocess.run(["ip", "netns", "add", probe]).returncode:
        print("skipped: no root or no network namespaces")
        return 77
    subprocess.run(["ip", "netns", "del", probe], check=True)
    env = {**os.environ, "XGW_LAB_PREFIX": PREFIX, "XGW_DATA": "/nonexistent"}
    lab = [ROOT / "deploy/lab"]
    demo = subprocess.run(lab + ["demo", "--reference"], env=env)
    left = namespaces()
    if left:
        print("left behind:", left)
    # A second `down` and one without anything up change nothing.
    downs = [subprocess.run(lab + ["down"], env=env).returncode for _ in range(2)]
    print("demo %d, down %s" % (demo.returncode, downs))
    return int(bool(demo.returncode or left or any(downs)))


if __name__ == "__main__":
    sys.exit(main())
