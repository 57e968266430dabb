#!/usr/bin/python3
"""The load balancer's packet functions, and a whole xgw-gateway --pipeline lb on ports
that are files, do what the reference says, packet by packet.

    test_fwd_lb_reference.py FWD_REPLAY [XGW_GATEWAY] [--seed N] [--mutations N]
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
REFERENCE = HERE.parent / "reference"
sys.path[:0] = [str(HERE), str(REFERENCE)]
import cases_lb  # noqa: E402
import compare  # noqa: E402
import world  # noqa: E402

BURSTS = (1, 32, 200)  # alone; one chunk; several, the last one short


def replay(program, folder, burst):
    out = folder / f"out.{burst}.jsonl"
    with out.open("w") as file:
        subprocess.run([program, "--pipeline", "lb", "--device", folder / "device.json",
                        "--entries", folder / "entries.ndjson", "--pcap",
                        folder / "in.pcap", "--burst", str(burst)], stdout=file, check=True)
    return compare.compare_replay(compare.read_lines(folder / "expected.jsonl"),
                                  compare.read_lines(out))


def verdicts(folder):
    count = {}
    for line in compare.read_lines(folder / "expected.jsonl"):
        name = line.get("reason", line["verdict"])
        count[name] = count.get(name, 0) + 1
    return count


def gateway(program, folder):
    import test_gateway_packets as packets
    import gateway_rig as gw
    api = gw.load_api(folder)
    return packets.check(program, api, folder, 2, pipeline="lb")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("replay")
    parser.add_argument("gateway", nargs="?")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--mutations", type=int, default=4000)
    args = parser.parse_args()
    failed = 0
    if args.gateway:
        import test_gateway_packets as packets
        world.PORT_MAC = packets.PORT_MAC
    with tempfile.TemporaryDirectory() as name:
        for folder in cases_lb.write(name, args.seed, args.mutations):
            seen = verdicts(folder)
            if folder.name == "base":
                print(json.dumps(seen))
                assert {"forward", "local", "unknown_vni", "no_member", "mtu"} <= set(seen)
            for burst in BURSTS:
                problems = replay(args.replay, folder, burst)
                print(f"{folder.name}, {burst} a call: {len(problems)} differences",
                      flush=True)
                for line in problems[:20]:
                    print("  " + line)
                failed += len(problems)
            if args.gateway and folder.name == "base":
                failed += gateway(args.gateway, folder)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
