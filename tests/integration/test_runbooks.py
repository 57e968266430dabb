#!/usr/bin/python3
"""Runbooks are run, command by command, against the lab, so that they cannot rot.

Every ```sh block of deploy/runbooks/*.md is given to a shell as it stands, with xgwctl of
a running lab on its PATH.  A command must succeed; where it ends with `# → words`, its
output must have the words.

Needs root and network namespaces: 77 without.
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import zlib

ROOT = pathlib.Path(__file__).resolve().parents[2]
PREFIX = "r%06x" % (zlib.crc32(str(ROOT).encode()) & 0xFFFFFF)
FOLDER = ROOT / (".lab-" + PREFIX)
ENV = {**os.environ, "XGW_LAB_PREFIX": PREFIX, "XGW_DATA": "/nonexistent"}
EXPECTS = re.compile(r"(.*?)\s+# → (.+)$")


def commands(text):
    """(command, words its output must have or None) of every ```sh block, in order."""
    for block in re.findall(r"^```sh\n(.*?)^```$", text, re.M | re.S):
        lines = []
        for line in block.splitlines():
            lines.append(line)
            whole = "\n".join(lines)
            found = EXPECTS.match(line)
            if found:
                whole = "\n".join(lines[:-1] + [found.group(1)])
            # A command may go over several lines: it is whole when the shell says so.
            if subprocess.run(["bash", "-nc", whole], stderr=subprocess.DEVNULL).returncode == 0 \
                    and not whole.rstrip().endswith(("|", "\\", "&&")):
                yield whole, found.group(2).strip() if found else None
                lines = []
        if lines:
            raise AssertionError("a command without an end: %s" % lines)


def run(runbook, folder):
    """One shell for all of it, so that variables and files stay."""
    environment = {**ENV, "PATH": "%s:%s" % (FOLDER, os.environ["PATH"])}
    state = folder / "variables"
    state.write_text("")
    done = 0
    for command, words in commands(runbook.read_text()):
        script = "set -euo pipefail\n. %s\n%s\ndeclare -p | grep -E '^declare -- (id|vni|vm)=' > %s || true\n" % (
            state, command, state)
        got = subprocess.run(["bash", "-c", script], cwd=folder, env=environment, text=True,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=180)
        print("$ %s\n%s" % (command, got.stdout), flush=True)
        if got.returncode != 0:
            raise AssertionError("%s: ended with %d: %s" % (runbook.name, got.returncode, command))
        if words and words not in got.stdout:
            raise AssertionError("%s: '%s' is not in what came of: %s" % (
                runbook.name, words, command))
        done += 1
    if not done:
        raise AssertionError("%s has no command" % runbook.name)
    return done


def lab(word):
    return subprocess.run([ROOT / "deploy/lab", word], env=ENV, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def main():
    probe = PREFIX + "-probe"
    if os.geteuid() or subprocess.run(["ip", "netns", "add", probe]).returncode:
        print("skipped: no root or no network namespaces")
        return 77
    subprocess.run(["ip", "netns", "del", probe], check=True)
    try:
        up = lab("up")
        if up.returncode:
            raise AssertionError("no lab: %s" % up.stdout)
        with tempfile.TemporaryDirectory() as folder:
            for runbook in sorted((ROOT / "deploy/runbooks").glob("*.md")):
                print("%s: %d commands" % (runbook.name, run(runbook, pathlib.Path(folder))))
    except AssertionError as e:
        print("FAILED: %s" % e)
        return 1
    finally:
        lab("down")
    return 0


if __name__ == "__main__":
    sys.exit(main())
