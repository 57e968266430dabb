#!/usr/bin/python3
"""The lab's commands: up, demo, status, down.  deploy/lab calls this when packages are
installed and the programs are built."""

import argparse
import fcntl
import os
import signal
import subprocess
import sys
import time

import commands
import net
import picture
import plan
import steps
import system
import traffic

FAILURES = (system.SystemError_, net.NetError, traffic.TrafficError, OSError,
            subprocess.SubprocessError, ValueError, KeyError)
TITLE = 34


class Table:
    """Says each step as it ends, and all of them once more at the end."""

    def __init__(self):
        self.rows, self.color = [], sys.stdout.isatty()

    def run(self, title, function):
        start = time.monotonic()
        try:
            ok, words = True, function()
        except FAILURES as e:
            ok, words = False, "%s" % (e or type(e).__name__)
        self.rows.append((ok, title, words, time.monotonic() - start))
        print(self.line(self.rows[-1]), flush=True)
        return ok

    def line(self, row):
        ok, title, words, took = row
        mark = "ok  " if ok else "FAIL"
        if self.color:
            mark = "\033[%dm%s\033[0m" % (32 if ok else 31, mark)
        return "  %s %-*s %5.1f s  %s" % (mark, TITLE, title, took, words)

    def summary(self):
        bad = sum(not row[0] for row in self.rows)
        print("\nSummary: what was shown, how long it took, what was seen")
        for row in self.rows:
            print(self.line(row))
        print("\n%d of %d steps worked%s" % (len(self.rows) - bad, len(self.rows),
                                             "" if bad else ": the region moves packets"))
        return bad == 0


def build_region(demo, table):
    demo.clean()
    os.makedirs(demo.paths.dir, exist_ok=True)
    if not table.run("data read", demo.load):
        return False
    demo.write_inputs()
    for title, function, needed in demo.steps():
        if not table.run(title, function) and needed:
            return False
    return True


def show(demo):
    print("\n" + "\n".join(picture.ascii_lines(demo.lab)))
    print("\n   picture: %s\n" % os.path.relpath(demo.paths.picture))


def cmd_up(demo, args):
    table = Table()
    if not build_region(demo, table):
        print("\nLogs are in %s; `deploy/lab down` removes the rest" % demo.paths.logs)
        return 1
    show(demo)
    print("The region runs.  `deploy/lab status` looks at it, `deploy/lab down` ends it.")
    print("A VM: ip netns exec %s ping %s" % (demo.lab.vm("a1").ns, demo.lab.vm("c1").ip4))
    if not args.reference:
        print("The command line:  " + " ".join(commands.ctl(demo.paths, "status")))
    return 0


def cmd_demo(demo, args):
    table = Table()
    try:
        if build_region(demo, table):
            show(demo)
            for title, function in demo.shows():
                table.run(title, function)
        ok = table.summary()
    finally:
        if not args.keep:
            demo.clean()
    if not ok:
        print("Logs: %s" % demo.paths.logs)
    return 0 if ok else 1


def cmd_down(demo, args):
    demo.clean()
    print("lab: nothing of it runs; files are left in %s" % demo.paths.dir)
    return 0


def cmd_status(demo, args):
    there = net.existing()
    alive = [n for n in demo.processes.running if demo.processes.alive(n)]
    dead = sorted(set(demo.processes.running) - set(alive))
    print("namespaces: %d" % len(there))
    print("processes:  %s" % (", ".join(alive) or "none"))
    if dead:
        print("ended:      %s (logs in %s)" % (", ".join(dead), demo.paths.logs))
    if "controller" in alive:
        print(system.output(commands.ctl(demo.paths, "status")), end="")
    return 0 if there and alive and not dead else 1


def lock_machine():
    """One lab command at a time, whichever clone it is of: namespaces are the machine's.
    Held until this process ends."""
    lock = open("/run/lock/%s-lab.lock" % plan.PREFIX, "w")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise system.SystemError_("another deploy/lab is at work on this machine; "
                                  "XGW_LAB_PREFIX=name makes one beside it") from None
    return lock


def main():
    p = argparse.ArgumentParser(prog="deploy/lab", description="a region on one machine: "
                                "kernel VXLAN NCs, two x86 clusters, a controller")
    p.add_argument("command", choices=("up", "down", "demo", "status"))
    p.add_argument("--data", metavar="DIR", help="inventory, prefixes and captures; default "
                   "../shared/data where it is there, else a generated set")
    p.add_argument("--keep", action="store_true", help="demo: leave the region running")
    p.add_argument("--reference", action="store_true", help="tests/reference/gateway.py as "
                   "gateways, no controller and no agents: tests the lab itself")
    args = p.parse_args()
    if os.geteuid() != 0:
        p.error("must be root: it makes network namespaces")
    if args.data and not os.path.isdir(args.data):
        p.error("--data %s: no such directory" % args.data)
    data = args.data or os.environ.get("XGW_DATA") or os.path.join(
        steps.REPO, "../shared/data")
    paths = commands.Paths(steps.REPO)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that `finally` cleans up
    lock = lock_machine() if args.command != "status" else None  # noqa: F841  held
    demo = steps.Demo(paths, data if os.path.isdir(data) else None, args.reference)
    return globals()["cmd_" + args.command](demo, args)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
    except FAILURES as e:
        print("lab: %s" % e, file=sys.stderr)
        sys.exit(1)
