#!/usr/bin/python3
"""The lab's commands: up, demo, status, down.  deploy/lab calls this when packages are
installed and the programs are built."""

import argparse
import fcntl
import os
import re
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


def guide(demo):
    """What a newcomer can do with a region that runs."""
    vm = demo.lab.vm
    print("Try:")
    print("  ip netns exec %s ping -c 3 %-12s  VM a1 to c1, another VPC on the other cluster"
          % (vm("a1").ns, vm("c1").ip4))
    if not demo.reference:
        ctl = os.path.relpath(demo.paths.ctl)
        for words, what in (("status", "nodes, tables and their digests"),
                            ("get tenants", "every VPC and where it lives"),
                            ("trace --vni %d --dst %s" % (vm("a1").tenant.vni, vm("c1").ip4),
                             "what happens to a packet, hop by hop"),
                            ("--help", "what else there is")):
            print("  %s %-34s  %s" % (ctl, words, what))
    print("  deploy/lab down   removes all of it")


def clean(demo):
    """Not to be interrupted: whoever is impatient would have to clean by hand."""
    signals = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = [signal.signal(s, signal.SIG_IGN) for s in signals]
    try:
        demo.clean()
    finally:
        for s, handler in zip(signals, before):
            signal.signal(s, handler)


def cmd_up(demo, args):
    table, done = Table(), False
    try:
        done = build_region(demo, table)
    finally:
        if not done:
            clean(demo)
    if not done:
        print("\nlab: all of it was removed again; logs are in %s" % demo.paths.logs)
        return 1
    show(demo)
    print("The region runs.")
    guide(demo)
    return 0


def cmd_demo(demo, args):
    table = Table()
    ok, done = False, False
    try:
        if build_region(demo, table):
            show(demo)
            for title, function in demo.shows():
                table.run(title, function)
        ok, done = table.summary(), True
    finally:
        if not (args.keep and done):
            clean(demo)
    print("Picture of the region: %s" % os.path.relpath(demo.paths.picture))
    if args.keep:
        print("It still runs.")
        guide(demo)
    if not ok:
        print("Logs: %s" % demo.paths.logs)
    return 0 if ok else 1


def cmd_down(demo, args):
    there = net.existing() or any(map(demo.processes.alive, demo.processes.running))
    clean(demo)
    print("lab: %s; files are left in %s" % (
        "removed" if there else "nothing of it was there", demo.paths.dir))
    return 0


def cmd_status(demo, args):
    there = net.existing()
    if not there and not demo.processes.running:
        print("lab: no region is up here; `deploy/lab up` makes one")
        return 1
    alive = [n for n in demo.processes.running if demo.processes.alive(n)]
    dead = sorted(set(demo.processes.running) - set(alive))
    print("namespaces: %d" % len(there))
    print("processes:  %s" % (", ".join(alive) or "none"))
    if dead:
        print("ended:      %s (logs in %s)" % (", ".join(dead), demo.paths.logs))
    if "controller" in alive:
        print(system.output(commands.ctl(demo.paths, "status")), end="")
    if there and alive:
        guide(demo)
    return 0 if there and alive and not dead else 1


BESIDE = "XGW_LAB_PREFIX=name deploy/lab … makes one beside it"


def lock_machine(paths):
    """One lab command at a time, whichever clone it is of: namespaces are the machine's.
    Held until this process ends.  The file names the lab that made the namespaces, so
    that no clone takes another's for its own leftovers."""
    os.makedirs("/run/lock", exist_ok=True)  # systemd makes it; a container may have none
    lock = open("/run/lock/%s-lab.lock" % plan.PREFIX, "a+")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise system.SystemError_("another deploy/lab is at work on this machine; "
                                  + BESIDE) from None
    lock.seek(0)
    owner = lock.read().strip()
    if owner not in ("", paths.dir) and os.path.isdir(owner) and net.existing():
        raise system.SystemError_("the region of %s is up: `deploy/lab down` there ends it; %s"
                                  % (owner, BESIDE))
    lock.truncate(0)
    lock.write(paths.dir + "\n")
    lock.flush()
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
    if not re.fullmatch("[a-z0-9]{1,8}", plan.PREFIX):
        p.error("XGW_LAB_PREFIX=%s: not 1 to 8 of a-z and 0-9" % plan.PREFIX)
    paths = commands.Paths(steps.REPO)
    for s in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(s, lambda number, _: sys.exit(128 + number))  # `finally` cleans up
    lock = lock_machine(paths) if args.command != "status" else None  # noqa: F841  held
    demo = steps.Demo(paths, data if os.path.isdir(data) else None, args.reference)
    return globals()["cmd_" + args.command](demo, args)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        print("\nlab: interrupted", file=sys.stderr)
        sys.exit(130)
    except FAILURES as e:
        print("lab: %s" % e, file=sys.stderr)
        sys.exit(1)
