#!/usr/bin/python3
"""deploy/lab from outside, with generated data.

- The lab stands by itself: with the reference forwarder as gateways every step of the
  demo works against the kernel's VXLAN.  So a failing demo with the real gateways is
  theirs, and the reference agrees with a VXLAN implementation that is not ours.
- The demo with the real programs works, behind a load balancer, and has shown XGW-H:
  which node carried which packet, and the fallback meter under a flood; tenants that
  moved between clusters under numbered packets, none lost and none twice.
- `up` may be repeated, `status` says what is there, no other clone's lab takes it for
  its own leftovers, `down` removes all of it.
- A failure and an interrupt end with an exit code and leave nothing behind.

Needs root and network namespaces: 77 without.
"""

import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import zlib

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Beside a lab that somebody has up, and beside this test of another clone.
PREFIX = "t%06x" % (zlib.crc32(str(ROOT).encode()) & 0xFFFFFF)
FOLDER = ROOT / (".lab-" + PREFIX)
ENV = {**os.environ, "XGW_LAB_PREFIX": PREFIX, "XGW_DATA": "/nonexistent"}
ENV.pop("XGW_LAB_PORT", None)


def check(claim, words):
    if not claim:
        raise AssertionError(words)


def left():
    """What the lab made and is still there: namespaces, processes."""
    out = subprocess.run(["ip", "netns", "list"], text=True, stdout=subprocess.PIPE).stdout
    found = [line for line in out.splitlines() if line.startswith(PREFIX + "-")]
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.readlink("/proc/%s/cwd" % pid) == str(FOLDER):
                found.append(pathlib.Path("/proc", pid, "cmdline").read_text())
        except OSError:
            pass
    return found


def check_nothing_left(patience=10):
    """Whoever was told to end may take a moment; what the lab forgot stays."""
    end = time.monotonic() + patience
    while left() and time.monotonic() < end:
        time.sleep(0.1)
    check(not left(), "left behind: %s" % left())


def begin_demo():
    """A demo in a group of its own, that has its first packet through.  As in a terminal:
    a shell's background jobs ignore SIGINT, and so would what they start."""
    run = subprocess.Popen([ROOT / "deploy/lab", "demo"], env=ENV, text=True,
                           stdout=subprocess.PIPE, start_new_session=True,
                           preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
    for line in run.stdout:
        if "first packet" in line:
            return run
    raise AssertionError("the demo ended with %d before its first packet" % run.wait())


def lab(*words, root=ROOT, env=None):
    """(exit code, what it said); shown, so that a failing test explains itself."""
    done = subprocess.run([str(root) + "/deploy/lab", *words], env={**ENV, **(env or {})},
                          text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    print("$ deploy/lab %s: %d\n%s" % (" ".join(words), done.returncode, done.stdout))
    return done.returncode, done.stdout


SHOWN = ("ping, on the switch alone", "ping, fallback to x86", "TCP, on the switch alone",
         "trace against packets", "policy set, and reset", "fallback flooded",
         "agent restarted", "switch killed")


def demo(*words):
    code, said = lab("demo", *words)
    check(code == 0, "demo %s ended with %d" % (" ".join(words), code))
    check_nothing_left()
    check(words or "ok   tenants moved under traffic" in said, "no tenant was moved")
    missing = [step for step in SHOWN if "ok   XGW-H: " + step not in said]
    check(len(missing) == (len(SHOWN) if words else 0), "XGW-H was not shown: %s" % missing)


def region_stays_up():
    check(lab("status")[0] == 1, "status of nothing is no success")
    for _ in range(2):
        check(lab("up")[0] == 0, "up, and up again")
    check(lab("status")[0] == 0, "status of a region")
    ctl = subprocess.run([FOLDER / "xgwctl", "get", "clusters"], text=True,
                         stdout=subprocess.PIPE)
    check(ctl.returncode == 0 and "x86-2" in ctl.stdout and "h-1" in ctl.stdout,
          "xgwctl of the lab")
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(ROOT / "deploy", pathlib.Path(folder, "deploy"))
        code, said = lab("down", root=folder)
        check(code == 1 and str(FOLDER) in said, "another clone's down is refused")
    check(lab("status")[0] == 0, "and the region is as it was")
    for _ in range(2):
        check(lab("down")[0] == 0, "down, and down again")
        check_nothing_left()


def failure_is_told_and_cleaned():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        for word in ("up", "demo"):
            code, said = lab(word, env={"XGW_LAB_PORT": port})
            check(code == 1 and "FAIL" in said and port in said, "a port that is taken")
            check_nothing_left()


def interrupt_cleans():
    for number in (signal.SIGINT, signal.SIGTERM):
        run = begin_demo()
        os.killpg(run.pid, number)
        said = run.stdout.read()
        check(run.wait(60) == 128 + number,
              "exit code %d after signal %d:\n%s" % (run.returncode, number, said))
        check_nothing_left()


def kill_leaves_what_down_removes():
    run = begin_demo()
    os.killpg(run.pid, signal.SIGKILL)
    run.wait()
    check(lab("down")[0] == 0, "down after a kill")
    check_nothing_left()


def main():
    probe = PREFIX + "-probe"
    if os.geteuid() or subprocess.run(["ip", "netns", "add", probe]).returncode:
        print("skipped: no root or no network namespaces")
        return 77
    subprocess.run(["ip", "netns", "del", probe], check=True)
    start = time.monotonic()
    try:
        demo("--reference")
        demo()
        region_stays_up()
        failure_is_told_and_cleaned()
        interrupt_cleans()
        kill_leaves_what_down_removes()
    except AssertionError as e:
        print("FAILED: %s" % e)
        return 1
    finally:
        lab("down")
    print("passed in %.0f s" % (time.monotonic() - start))
    return 0


if __name__ == "__main__":
    sys.exit(main())
