"""Pings and TCP between the lab's namespaces, with tools of the system."""

import re
import subprocess
import sys
import time

TCP = r'''
import hashlib, os, socket, sys
role, address, port, size = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
family = socket.AF_INET6 if ":" in address else socket.AF_INET
s = socket.socket(family)
s.settimeout(20)
digest = hashlib.sha256()
if role == "serve":
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    s.bind((address, port)); s.listen(1)
    print("listening", flush=True)
    c, _ = s.accept(); c.settimeout(20)
    while True:
        data = c.recv(65536)
        if not data:
            break
        digest.update(data)
    c.sendall(digest.digest()); c.close()
else:
    s.connect((address, port))
    block = os.urandom(65536)
    for n in range(0, size, len(block)):
        part = block[:min(len(block), size - n)]
        digest.update(part); s.sendall(part)
    s.shutdown(socket.SHUT_WR)
    answer = b""
    while len(answer) < 32:
        more = s.recv(32)
        if not more:
            break
        answer += more
    sys.exit(0 if answer == digest.digest() else "the bytes that arrived differ")
'''


FLOOD = r'''
import socket, sys, time
net, size, rate, seconds = sys.argv[1], *map(float, sys.argv[2:])
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
data, sent, start = bytes(int(size)), 0, time.monotonic()
while sent < rate * seconds:
    # What was missed in a pause is not caught up with by more than 20 ms of it.
    due = (time.monotonic() - start) * rate
    if due - sent > rate / 50:
        start += (due - sent - rate / 50) / rate
    while sent < min(due, rate * seconds):
        s.sendto(data, ("%s.%d" % (net, 1 + sent % 254), 9))
        sent += 1
    time.sleep(0.001)
print(sent)
'''


NUMBERED = r'''
import select, socket, struct, sys, time
role, address, port, rate = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
s = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_DGRAM)
ended = lambda: select.select([sys.stdin], [], [], 0)[0]
if role == "take":
    s.setsockopt(socket.SOL_SOCKET, 33, 16 << 20)  # SO_RCVBUFFORCE
    s.bind((address, port))
    print("listening", flush=True)
    seen, twice = set(), 0
    while True:
        ready = select.select([s, sys.stdin], [], [])[0]
        if s in ready:
            number = struct.unpack("!Q", s.recv(2048)[:8])[0]
            twice += number in seen
            seen.add(number)
        elif ready:
            break
    print(len(seen), twice)
else:
    s.connect((address, port))
    number, start = 0, time.monotonic()
    while not ended():
        while number < (time.monotonic() - start) * rate:
            s.send(struct.pack("!Q", number) + bytes(200))
            number += 1
        time.sleep(0.002)
    print(number)
'''


IN_FLIGHT = 10  # pings of a PingRun that may be unanswered when it ends: 200 ms


class TrafficError(Exception):
    pass


def inside(namespace, *words):
    return ["ip", "netns", "exec", namespace, *words]


def start_ping(source_ns, address, count=3, interval=0.05, size=None, wait=1):
    words = ["ping", "-n", "-q", "-c", str(count), "-i", str(interval), "-W", str(wait)]
    if size is not None:
        words += ["-M", "do", "-s", str(size)]
    return subprocess.Popen(inside(source_ns, *words, address), text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def ping(*args, **more):
    """(sent, received, average round trip in ms or None)."""
    return parse_ping(start_ping(*args, **more).communicate()[0])


def ping_all(pairs, count, wait=5):
    """The same for each (namespace, address), all at once.  Where an answer is missing
    ping(8) waits for it: long enough for a busy machine."""
    runs = [start_ping(*pair, count=count, interval=0.3, wait=wait) for pair in pairs]
    return [parse_ping(run.communicate()[0]) for run in runs]


def parse_ping(out):
    m = re.search(r"(\d+) packets transmitted, (\d+) received", out)
    if not m:
        raise TrafficError(out.strip().splitlines()[-1] if out.strip() else "ping is mute")
    rtt = re.search(r"= [\d.]+/([\d.]+)/", out)
    return int(m.group(1)), int(m.group(2)), float(rtt.group(1)) if rtt else None


class PingRun:
    """A ping in the background, over an event that must lose nothing."""

    def __init__(self, source_ns, address, interval=0.02, size=56):
        self.interval = interval
        self.process = subprocess.Popen(
            inside(source_ns, "ping", "-n", "-i", str(interval), "-s", str(size), address),
            text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def wait(self, more):
        """Lets `more` pings go, after what they are about is over."""
        time.sleep(more * self.interval)

    def stop(self):
        """(sent, lost): the last few may be under way, so what counts is what is missing
        before an answer that came."""
        self.process.send_signal(2)  # SIGINT: print the summary
        out = self.process.communicate(timeout=10)[0]
        sent, received, _ = parse_ping(out)
        answered = {int(n) for n in re.findall(r"bytes from .*icmp_seq=(\d+)", out)}
        if sent - max(answered, default=0) > IN_FLIGHT:
            return sent, sent - received
        return sent, max(answered, default=0) - len(answered)


class Numbered:
    """UDP datagrams with numbers in the background, `rate` a second."""

    port = 6000

    def __init__(self, source_ns, target_ns, address, rate=250):
        Numbered.port += 1
        self.address = address
        words = [address, str(Numbered.port), str(rate)]
        self.taker = self.start(target_ns, "take", words)
        if self.taker.stdout.readline().strip() != "listening":
            raise TrafficError("no listener: " + last_line(self.taker.communicate()[1]))
        self.sender = self.start(source_ns, "send", words)

    @staticmethod
    def start(namespace, role, words):
        return subprocess.Popen(inside(namespace, sys.executable, "-c", NUMBERED, role, *words),
                                stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True)

    def stop(self):
        """(sent, arrived, arrived more than once), when what was under way is there."""
        sent = self.sender.communicate(timeout=10)[0]
        time.sleep(1)
        arrived = self.taker.communicate(timeout=10)[0]
        if not sent or not arrived:
            raise TrafficError("numbered packets to %s: a program ended" % self.address)
        return (int(sent), *map(int, arrived.split()))


def tcp(source_ns, target_ns, address, size, port=5001, timeout=60):
    """Moves `size` bytes and compares digests.  TrafficError when it does not work."""
    python = sys.executable
    server = subprocess.Popen(
        inside(target_ns, python, "-c", TCP, "serve", address, str(port), "0"),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        if server.stdout.readline().strip() != "listening":
            raise TrafficError("no listener: " + last_line(server.communicate()[1]))
        client = subprocess.run(
            inside(source_ns, python, "-c", TCP, "send", address, str(port), str(size)),
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=timeout)
        if client.returncode:
            raise TrafficError(last_line(client.stdout))
        server.wait(timeout=10)
    except subprocess.TimeoutExpired:
        raise TrafficError("not finished after %d s" % timeout) from None
    finally:
        server.kill()
        server.communicate()


def flood(source_ns, net, size, rate, seconds):
    """UDP datagrams to the addresses of a /24 (`net`: its first three numbers), `rate` a
    second.  How many."""
    done = subprocess.run(
        inside(source_ns, sys.executable, "-c", FLOOD, net, str(size), str(rate), str(seconds)),
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60)
    if done.returncode:
        raise TrafficError(last_line(done.stdout))
    return int(done.stdout)


def last_line(text):
    lines = text.strip().splitlines()
    return lines[-1] if lines else "no message"
