#!/usr/bin/python3
"""The packet functions say what the reference forwarder says, packet by packet.

    test_fwd_reference.py FWD_REPLAY [--data DIR] [--seed N] [--mutations N]

Makes the cases of tests/reference/cases.py in a temporary directory, runs each world
through fwd_replay in calls of several lengths, and holds the output against the
expectation.  With --data the captures there are replayed too.
"""
import argparse
import os
import pathlib
import subprocess
import sys
import tempfile

REFERENCE = pathlib.Path(__file__).resolve().parent.parent / "reference"
BURSTS = (1, 32, 200)  # alone; one chunk; chunks that overlap, the last one short


def replay(program, world, burst):
    out = world / f"out.{burst}.jsonl"
    with out.open("w") as file:
        subprocess.run([program, "--device", world / "device.json", "--entries",
                        world / "entries.ndjson", "--pcap", world / "in.pcap",
                        "--burst", str(burst)], stdout=file, check=True)
    return subprocess.run([REFERENCE / "compare.py", world / "expected.jsonl",
                           "--replay", out]).returncode


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("replay")
    parser.add_argument("--data", default=os.environ.get("XGW_DATA", "../shared/data"))
    parser.add_argument("--seed", default="1")
    parser.add_argument("--mutations", default="4000")
    args = parser.parse_args()
    failed = 0
    with tempfile.TemporaryDirectory() as name:
        subprocess.run([REFERENCE / "cases.py", "--out", name, "--data", args.data,
                        "--seed", args.seed, "--mutations", args.mutations], check=True)
        for world in sorted(pathlib.Path(name).iterdir()):
            for burst in BURSTS:
                print(f"{world.name}, {burst} a call: ", end="", flush=True)
                failed |= replay(args.replay, world, burst)
    return failed


if __name__ == "__main__":
    sys.exit(main())
