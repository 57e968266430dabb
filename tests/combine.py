#!/usr/bin/python3
"""Writes one CTest list over several build directories, so that one ctest runs them all
and its closing line counts them all.

    combine.py OUT NAME=BUILD[:LABEL|LABEL…] … [--add LABEL NAME TIMEOUT COMMAND…]…

Tests of BUILD that carry one of the labels (all of them without labels) appear as
NAME/test with their properties.  --add appends one more test, up to the next --add.
"""

import json
import pathlib
import subprocess
import sys

# Names in these properties are shared by tests, so they get the build's name as well.
SHARED = ("FIXTURES_REQUIRED", "FIXTURES_SETUP", "FIXTURES_CLEANUP", "DEPENDS")
# Filled by ctest itself, or meaningless in a list of ours.
IGNORED = ("_BACKTRACE_TRIPLES",)


def quote(text):
    """A bracket argument: nothing inside is special to CMake."""
    level = 1
    while "]" + "=" * level + "]" in text or text.endswith("]" + "=" * level):
        level += 1
    return "[%s[%s]%s]" % ("=" * level, text, "=" * level)


def tests_of(build):
    out = subprocess.run(["ctest", "--test-dir", build, "--show-only=json-v1"],
                         check=True, stdout=subprocess.PIPE).stdout
    return json.loads(out)["tests"]


def flat(value):
    if isinstance(value, list):
        return ";".join(str(v) for v in value)
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    return str(value)


def lines_of(prefix, build, labels):
    for test in tests_of(build):
        properties = {p["name"]: p["value"] for p in test.get("properties", ())}
        if labels and not set(labels) & set(properties.get("LABELS", ())):
            continue
        name = "%s/%s" % (prefix, test["name"])
        if not test.get("command"):
            raise SystemExit("combine: %s has no program; was %s built?" % (name, build))
        yield "add_test(%s %s)" % (quote(name), " ".join(map(quote, test["command"])))
        for key, value in sorted(properties.items()):
            if key in IGNORED:
                continue
            if key in SHARED:
                value = ["%s/%s" % (prefix, v) for v in value]
            yield "set_tests_properties(%s PROPERTIES %s %s)" % (
                quote(name), key, quote(flat(value)))


def main(argv):
    out, lines, i = pathlib.Path(argv[0]), [], 1
    while i < len(argv) and argv[i] != "--add":
        name, _, rest = argv[i].partition("=")
        build, _, labels = rest.partition(":")
        lines += lines_of(name, build, [x for x in labels.split("|") if x])
        i += 1
    while i < len(argv):
        end = argv.index("--add", i + 1) if "--add" in argv[i + 1:] else len(argv)
        label, name, timeout, *command = argv[i + 1:end]
        lines.append("add_test(%s %s)" % (quote(name), " ".join(map(quote, command))))
        lines.append("set_tests_properties(%s PROPERTIES LABELS %s TIMEOUT %s)" % (
            quote(name), label, timeout))
        i = end
    out.mkdir(parents=True, exist_ok=True)
    (out / "CTestTestfile.cmake").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
