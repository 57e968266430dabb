#!/usr/bin/python3
"""Dependencies point one way.  Checks every #include of proto, controller and agent:

  - a folder includes only the folders its rule names (RULES below);
  - nothing pure reaches libevent, gRPC, SQLite, curl, TLS, protobuf, threads or the
    clock, not even through another header, and calls no function that reads them;
  - only agent/gateway includes rte_*.h.

    layering.py [ROOT]      0 when all is well, 1 with one line for each breach
"""

import pathlib
import re
import sys

BASE, MODEL = ("proto/base",), ("proto/base", "proto/model")
CONTROLLER_PURE = tuple("controller/" + name for name in (
    "core", "placement", "capacity", "lifecycle", "health", "recovery", "audit", "probe",
    "sync"))

# Folder -> the folders it may include besides itself.  The longest match decides.
RULES = {
    "proto/base": (),
    "proto/model": BASE,
    "proto/api": (),
    "proto/rpc": MODEL + ("proto/api",),
    "controller/store": MODEL,
    # Of the store, pure modules see the interface alone.
    **{folder: MODEL + CONTROLLER_PURE + ("controller/store/store.h",)
       for folder in CONTROLLER_PURE},
    # The models of capacity are worked out where they are asked for: no region is in them.
    "controller/cli": MODEL + ("proto/api", "proto/rpc", "controller/capacity"),
    "controller": ("proto", "controller"),
    "agent/fwd": MODEL,
    "agent/fwdh": MODEL + ("agent/fwd", "agent/xgwh"),
    "agent/calibrate": MODEL + ("agent/fwd",),
    "agent/xgwh": MODEL + ("agent/fwd",),
    "agent/p4rt": BASE + ("agent/xgwh/phys.h", "proto/rpc/wire.h", "proto/rpc/rpc_status.h"),
    "agent/session": MODEL + ("agent/driver/driver.h",),
    "agent/driver": ("proto", "agent/session/session.h", "agent/p4rt", "agent/xgwh",
                     "agent/fwd/drop_reason.h"),
    "agent/gateway": ("proto", "agent/fwd", "agent/fwdh", "agent/p4rt", "agent/xgwh"),
    "agent": ("proto", "agent/session", "agent/driver"),
}

PURE = ("proto/model", "agent/fwd", "agent/fwdh", "agent/session", "agent/xgwh") + CONTROLLER_PURE
# Files that are impure on purpose, with the reason.
EXCEPTIONS = {
    "proto/base/log.c": "stamps its lines",
    "agent/fwd/fib.c": "a secret hash seed of its own, against chosen collisions",
}
IMPURE_HEADERS = re.compile(
    r"^(event2?/|event\.h|evhttp\.h|evutil\.h|grpc/|sqlite3\.h|curl/|openssl/|protobuf-c/"
    r"|proto/api/|proto/rpc/|rte_|time\.h|sys/time\.h|sys/timerfd\.h|pthread\.h"
    r"|threads\.h|sys/socket\.h|netinet/|arpa/inet\.h|netdb\.h|poll\.h|sys/epoll\.h"
    r"|sys/random\.h)")
IMPURE_CALLS = re.compile(
    r"(?<![.>\w])(clock_gettime|gettimeofday|time|clock|rand|random|getrandom|drand48|arc4random"
    r"|usleep|nanosleep|sleep|pthread_\w+|thrd_\w+)\s*\(")
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', re.M)
COMMENT = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"', re.S)


def folder_rule(path):
    parts = path.split("/")
    for n in range(len(parts) - 1, 0, -1):
        name = "/".join(parts[:n])
        if name in RULES:
            return name
    return None


def under(path, folder):
    return path == folder or path.startswith(folder + "/")


def blank_text(source):
    """The source with comments and strings as spaces, lines kept."""
    return COMMENT.sub(lambda m: re.sub(r"[^\n]", " ", m.group()), source)


class Tree:
    def __init__(self, root):
        self.root = root
        self.includes, self.text = {}, {}
        for top in ("proto", "controller", "agent"):
            for path in sorted((root / top).rglob("*.[ch]")):
                name = path.relative_to(root).as_posix()
                self.text[name] = path.read_text(encoding="utf-8")
                self.includes[name] = [
                    (self.text[name].count("\n", 0, m.start()) + 1, m.group(1))
                    for m in INCLUDE.finditer(self.text[name])]

    def reaches(self, name, seen=None):
        """(header, the chain of files that leads to it), through project headers."""
        seen = seen if seen is not None else set()
        for _, header in self.includes.get(name, ()):
            if header in seen:
                continue
            seen.add(header)
            yield header, [name]
            for deeper, chain in self.reaches(header, seen):
                yield deeper, [name] + chain

    def breaches(self):
        for name in self.includes:
            yield from self.wrong_folders(name)
            if name in EXCEPTIONS:
                continue
            if any(under(name, p) for p in PURE + BASE):
                yield from self.impurities(name)

    def wrong_folders(self, name):
        rule = folder_rule(name)
        for line, header in self.includes[name]:
            where = "%s:%d: " % (name, line)
            if header.startswith("rte_") and not under(name, "agent/gateway"):
                yield where + "%s outside agent/gateway" % header
            if header.split("/")[0] not in ("proto", "controller", "agent", "tests"):
                continue
            if rule is None:
                yield where + "no rule for this folder: add one to tests/layering.py"
                return
            if not any(under(header, ok) for ok in (rule,) + RULES[rule]):
                yield where + "%s may not include %s" % (rule, header)

    def impurities(self, name):
        for header, chain in self.reaches(name):
            if IMPURE_HEADERS.match(header):
                yield "%s: reaches <%s>%s" % (name, header, "".join(
                    ", through " + link for link in chain[1:]))
        code = blank_text(self.text[name])
        for m in IMPURE_CALLS.finditer(code):
            yield "%s:%d: calls %s()" % (name, code.count("\n", 0, m.start()) + 1, m.group(1))


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else
                        pathlib.Path(__file__).resolve().parents[1])
    tree = Tree(root)
    breaches = list(tree.breaches())
    for line in breaches:
        print(line)
    print("layering: %d files, %d breaches" % (len(tree.includes), len(breaches)))
    return 1 if breaches else 0


if __name__ == "__main__":
    sys.exit(main())
