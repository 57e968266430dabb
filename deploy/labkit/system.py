"""Processes the lab starts, its certificates, and small files."""

import json
import os
import signal
import subprocess
import time


class SystemError_(Exception):
    """Said to the user as it is."""


def write(path, text, mode=0o644):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as f:
        f.write(text)
    os.chmod(path, mode)


def yaml(value, indent=0):
    """Block YAML of dicts, lists, strings and numbers; strings quoted the JSON way."""
    pad, out = "  " * indent, ""
    if isinstance(value, dict):
        for k, v in value.items():
            nested = isinstance(v, (dict, list))
            out += "%s%s:%s" % (pad, k, "\n" + yaml(v, indent + 1) if nested
                                else " %s\n" % json.dumps(v))
    else:
        for v in value:
            if isinstance(v, dict):
                out += pad + "- " + yaml(v, indent + 1)[len(pad) + 2:]
            else:
                out += "%s- %s\n" % (pad, json.dumps(v))
    return out


def start_time(pid):
    """Of a process, in ticks: with the pid it names one process for ever."""
    try:
        with open("/proc/%d/stat" % pid) as f:
            return int(f.read().rsplit(")", 1)[1].split()[19])
    except (OSError, IndexError, ValueError):
        return None


def strays(folder, programs):
    """Processes that run one of `programs` (a folder) in `folder`."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.readlink("/proc/%s/cwd" % pid) == os.path.realpath(folder) and os.readlink(
                    "/proc/%s/exe" % pid).startswith(os.path.realpath(programs) + "/"):
                yield int(pid)
        except OSError:
            pass  # a kernel thread, or gone


class Processes:
    """What was started, kept in a file, so that another call can stop it."""

    def __init__(self, paths):
        self.paths, self.running = paths, {}
        try:
            with open(paths.state) as f:
                self.running = json.load(f)["processes"]
        except (OSError, ValueError, KeyError):
            pass

    def save(self):
        write(self.paths.state, json.dumps({"processes": self.running}, indent=1) + "\n")

    def start(self, name, argv, namespace=None):
        if self.alive(name):
            raise SystemError_("%s is running already" % name)
        log = os.path.join(self.paths.logs, name + ".log")
        os.makedirs(self.paths.logs, exist_ok=True)
        if namespace:
            argv = ["ip", "netns", "exec", namespace, *argv]
        with open(log, "ab") as out:
            child = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                                     start_new_session=True, cwd=self.paths.dir)
        self.running[name] = {"pid": child.pid, "start": start_time(child.pid)}
        self.save()

    def alive(self, name):
        p = self.running.get(name)
        if not p or p["start"] is None or start_time(p["pid"]) != p["start"]:
            return False
        try:  # our own child may be dead and not yet waited for
            return os.waitpid(p["pid"], os.WNOHANG)[0] == 0
        except ChildProcessError:
            return True

    def stop(self, name, sig=signal.SIGTERM, patience=10):
        """Asks, waits, and kills what does not listen."""
        if self.alive(name):
            pid = self.running[name]["pid"]
            os.kill(pid, sig)
            if not self.wait_end(name, patience):
                os.kill(pid, signal.SIGKILL)
                self.wait_end(name, 5)
        self.running.pop(name, None)
        self.save()

    def wait_end(self, name, patience):
        return wait_until(lambda: not self.alive(name), patience)

    def stop_all(self):
        for name in reversed(list(self.running)):
            self.stop(name)
        # And what was started in the moment in which an earlier call was killed.
        for pid in strays(self.paths.dir, self.paths.bin):
            os.kill(pid, signal.SIGKILL)

    def last_words(self, name, lines=5):
        try:
            with open(os.path.join(self.paths.logs, name + ".log"), errors="replace") as f:
                return "".join(f.readlines()[-lines:])
        except OSError:
            return ""


def wait_until(claim, patience, pause=0.05):
    """True as soon as `claim()` is, False after `patience` seconds."""
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        if claim():
            return True
        time.sleep(pause)
    return bool(claim())


def output(argv, timeout=60):
    """Standard output of a program, or SystemError_ with what it said."""
    try:
        done = subprocess.run(argv, text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, timeout=timeout)
    except FileNotFoundError:
        raise SystemError_("%s is not there" % argv[0]) from None
    except subprocess.TimeoutExpired:
        raise SystemError_("%s: no end after %d s" % (os.path.basename(argv[0]),
                                                      timeout)) from None
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines()
        raise SystemError_("%s ended with %d: %s" % (
            os.path.basename(argv[0]), done.returncode, said[-1] if said else "no message"))
    return done.stdout


def certificates(paths, names):
    """A CA and a certificate for each name, its subject the name (a device's id).  Made
    once; they live two years, as long as any lab does."""
    if all(os.path.exists(f) for n in names for f in (*paths.cert(n), paths.ca)):
        return
    os.makedirs(paths.certs, mode=0o700, exist_ok=True)
    ca_key = os.path.join(paths.certs, "ca.key")
    new_key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    output(["openssl", "req", "-x509", *new_key, "-keyout", ca_key, "-out", paths.ca,
            "-days", "730", "-subj", "/O=xgw lab/CN=xgw lab CA"])
    for name in names:
        crt, key = paths.cert(name)
        request = os.path.join(paths.certs, name + ".csr")
        output(["openssl", "req", *new_key, "-keyout", key, "-out", request, "-subj",
                "/O=xgw lab/CN=" + name, "-addext",
                "subjectAltName=DNS:%s,DNS:localhost,IP:127.0.0.1" % name, "-addext",
                "extendedKeyUsage=serverAuth,clientAuth"])
        output(["openssl", "x509", "-req", "-in", request, "-CA", paths.ca, "-CAkey", ca_key,
                "-CAcreateserial", "-days", "730", "-copy_extensions", "copyall", "-out", crt])
        os.remove(request)
