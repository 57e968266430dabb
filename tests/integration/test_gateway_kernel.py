#!/usr/bin/python3
"""Linux' own VXLAN at both ends, a real xgw-gateway between, on af_packet.

    test_gateway_kernel.py XGW_GATEWAY

Two NCs are network namespaces with the kernel's VXLAN device (the VM's address is on
it), a router forwards the underlay, and the gateway's port is one end of a veth.  The
kernel must take what we send: UDP and TCP of both families within a VPC and across a
peering, a path MTU learned from our ICMP, and a time exceeded where the TTL ends.  And
a probe (controller/probe/README.md, "The mark") is no traffic: it leaves the gateway by no
port, and one that did leave would reach no service of a VM.
Needs root and network namespaces: ends with 77 without.
"""
import argparse
import contextlib
import ipaddress
import os
import pathlib
import socket
import struct
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import gateway_rig as gw  # noqa: E402
from scapy.all import IP, UDP, Ether, IPv6, Raw  # noqa: E402
from scapy.layers.vxlan import VXLAN  # noqa: E402

PREFIX = "xgwkern"
VIP4, VTEP4 = "172.31.0.1", "172.30.0.1"
VIP6, VTEP6 = "fd00:31::1", "fd00:30::1"
ICMP4, ICMP6 = "100.64.0.1", "fd64::1"
MTU = 1400  # of the gateway's uplink: what the VMs must learn
ERRQUEUE, IP_RECVERR, IPV6_RECVERR = 0x2000, 11, 25
ETH_P_ALL = 3
PROBE, DISCARD, PROBE_SPORT = b"xgw probe ", 9, 40000  # the mark
SERVICES = (53, 5000, PROBE_SPORT)  # that a VM may offer; PROBE_SPORT: whoever is answered
IP_MTU_DISCOVER, IP_MTU, IPV6_MTU_DISCOVER, IPV6_MTU = 10, 14, 23, 24


def run(*words, check=True):
    return subprocess.run(words, check=check, text=True, stdout=subprocess.PIPE,
                          stderr=None if check else subprocess.PIPE)


def ip(*words):
    run("ip", *words)


def in_ns(name, *words):
    run("ip", "netns", "exec", f"{PREFIX}-{name}", *words)


@contextlib.contextmanager
def inside(name):
    """Sockets made here belong to the namespace and keep to it."""
    home = os.open("/proc/self/ns/net", os.O_RDONLY)
    there = os.open(f"/run/netns/{PREFIX}-{name}", os.O_RDONLY)
    try:
        setns(there)
        yield
    finally:
        setns(home)
        os.close(home)
        os.close(there)


def setns(fd):
    import ctypes
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(fd, 0x40000000) != 0:  # CLONE_NEWNET
        raise OSError(ctypes.get_errno(), "setns")


def link(a, b, name_a, name_b):
    ip("link", "add", name_a, "netns", f"{PREFIX}-{a}", "type", "veth", "peer", "name",
       name_b, "netns", f"{PREFIX}-{b}")
    for where, device in ((a, name_a), (b, name_b)):
        in_ns(where, "ip", "link", "set", device, "up")
        # A gateway reads what the kernel left to a NIC that is none.
        in_ns(where, "ethtool", "-K", device, *"tx off rx off tso off gso off gro off".split())


def mac_of(name, device):
    with inside(name):
        s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
        s.bind((device, 0))
        mac = s.getsockname()[4]
        s.close()
    return ":".join("%02x" % b for b in mac)


class Vm:
    """An address pair on a VXLAN device of an NC."""

    def __init__(self, nc, vni, device, v4, v6):
        self.nc, self.vni, self.device, self.v4, self.v6 = nc, vni, device, v4, v6

    def make(self, nc4):
        ns = self.nc
        in_ns(ns, "ip", "link", "add", self.device, "type", "vxlan", "id", str(self.vni),
              "local", nc4, "remote", VIP4, "dstport", "4789", "nolearning")
        in_ns(ns, "ip", "link", "set", self.device, "up", "mtu", "1450")
        in_ns(ns, "ip", "addr", "add", self.v4 + "/32", "dev", self.device)
        in_ns(ns, "ip", "-6", "addr", "add", self.v6 + "/128", "dev", self.device, "nodad")
        in_ns(ns, "ip", "route", "add", "10.0.0.0/8", "dev", self.device, "src", self.v4)
        in_ns(ns, "ip", "-6", "route", "add", "2001:db8::/32", "dev", self.device)
        self.mac = mac_of(ns, self.device)

    def knows(self, other):
        """The gateway answers no inner ARP: the region's controller would do this."""
        for address in (other.v4, other.v6):
            in_ns(self.nc, "ip", "neigh", "add", address, "lladdr", other.mac, "dev",
                  self.device)


NCS = {"nc1": ("172.16.1.2", "172.16.1.1"), "nc2": ("172.16.2.2", "172.16.2.1"),
       "nc3": ("172.16.3.2", "172.16.3.1")}
# c is in another VPC, which a's peers with.
VMS = {"a": Vm("nc1", 100, "vx0", "10.0.0.4", "2001:db8:1::4"),
       "b": Vm("nc2", 100, "vx0", "10.0.0.6", "2001:db8:1::6"),
       "c": Vm("nc3", 200, "vx0", "10.9.0.7", "2001:db8:9::7")}


def make_underlay():
    for name in ("r", "gw", *NCS):
        ip("netns", "add", f"{PREFIX}-{name}")
        in_ns(name, "ip", "link", "set", "lo", "up")
        in_ns(name, "sysctl", "-qw", "net.ipv4.conf.all.rp_filter=0",
              "net.ipv4.conf.default.rp_filter=0", "net.ipv4.ip_forward=1")
    link("gw", "r", "up0", "to-gw")
    in_ns("r", "ip", "addr", "add", "172.20.0.2/24", "dev", "to-gw")
    for address in (VIP4, VTEP4):
        in_ns("r", "ip", "route", "add", address, "via", "172.20.0.1")
    for n, (name, (own, router)) in enumerate(NCS.items()):
        link(name, "r", "eth0", f"to-nc{n}")
        in_ns(name, "ip", "addr", "add", own + "/24", "dev", "eth0")
        in_ns(name, "ip", "route", "add", "default", "via", router)
        in_ns("r", "ip", "addr", "add", router + "/24", "dev", f"to-nc{n}")
    for vm in VMS.values():
        vm.make(NCS[vm.nc][0])
    for a in VMS.values():
        for b in VMS.values():
            if a is not b:
                a.knows(b)


def remove_underlay():
    for line in run("ip", "netns", "list").stdout.splitlines():
        if line.startswith(PREFIX):
            ip("netns", "del", line.split()[0])


def config():
    return {"vteps": [VTEP4], "vips": [VIP4], "icmp_source": [ICMP4, ICMP6],
            "underlay_source": ["172.16.0.0/16"],
            "uplinks": [{"port": "up0", "address": "172.20.0.1", "next_hop": "172.20.0.2",
                         "next_hop_mac": None, "mtu": MTU}]}


def entries():
    out = []
    for vni, peer in ((100, 200), (200, 100)):
        own4, far4 = ("10.0.0.0/16", "10.9.0.0/16")[::1 if vni == 100 else -1]
        own6, far6 = ("2001:db8:1::/48", "2001:db8:9::/48")[::1 if vni == 100 else -1]
        out.append({"table": "vni", "vni": vni})
        for prefix in (own4, own6):
            out.append({"table": "vxlan_route", "vni": vni, "prefix": prefix,
                        "scope": "local"})
        for prefix in (far4, far6):
            out.append({"table": "vxlan_route", "vni": vni, "prefix": prefix,
                        "scope": "peer", "peer_vni": peer})
    for vm in VMS.values():
        for address in (vm.v4, vm.v6):
            out.append({"table": "vm_nc", "vni": vm.vni, "vm": address,
                        "nc": NCS[vm.nc][0], "mac": vm.mac})
    return out


def udp(vm, v6):
    family = socket.AF_INET6 if v6 else socket.AF_INET
    with inside(vm.nc):
        s = socket.socket(family, socket.SOCK_DGRAM)
        s.bind((vm.v6 if v6 else vm.v4, 0))
    s.settimeout(10)
    return s


def probe_frame(a, b, v6, number):
    """From NC to gateway, as the controller's documentation describes it."""
    inner = IPv6(src=a.v6, dst=b.v6, hlim=64) if v6 else \
        IP(src=a.v4, dst=b.v4, ttl=64, flags="DF", id=0)
    return bytes(
        Ether(dst="02:00:00:00:00:01", src="02:00:00:00:00:02") /
        IP(src=NCS[a.nc][0], dst=VTEP4, ttl=64, flags="DF", id=0) /
        UDP(sport=49152 + number, dport=4789, chksum=0) / VXLAN(flags=8, vni=a.vni) /
        Ether(dst="02:58:47:57:00:02", src="02:58:47:57:00:01") / inner /
        UDP(sport=PROBE_SPORT, dport=DISCARD) / Raw(PROBE + number.to_bytes(8, "big")))


def tap(name, device):
    """All that passes a device from now on."""
    with inside(name):
        s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
        s.bind((device, ETH_P_ALL))
    s.setblocking(False)
    return s


def frames_of(s):
    out = []
    with contextlib.suppress(BlockingIOError):
        while True:
            out.append(s.recv(2000))
    return out


def no_ports(name, v6):
    """UDP datagrams that the namespace's kernel took and had no socket for."""
    out = run("ip", "netns", "exec", f"{PREFIX}-{name}", "cat",
              "/proc/net/snmp6" if v6 else "/proc/net/snmp").stdout
    if v6:
        return int(next(x.split()[1] for x in out.splitlines() if x.startswith("Udp6NoPorts")))
    names, values = (x.split() for x in out.splitlines() if x.startswith("Udp:"))
    return int(values[names.index("NoPorts")])


def error_of(s, v6):
    """(type, code, info, who said so) of the ICMP error that came for a socket."""
    level = socket.IPPROTO_IPV6 if v6 else socket.IPPROTO_IP
    deadline = gw.time.monotonic() + 10
    while True:
        try:
            _, ancillary, _, _ = s.recvmsg(2000, 512, ERRQUEUE)
            break
        except BlockingIOError:
            if gw.time.monotonic() > deadline:
                raise AssertionError("no ICMP error came")
            gw.time.sleep(0.01)
    for got_level, kind, data in ancillary:
        if got_level == level and kind in (IP_RECVERR, IPV6_RECVERR):
            _, _, type_, code, _, info, _ = struct.unpack_from("=IBBBBII", data)
            at = 16 + (8 if v6 else 4)
            who = ipaddress.ip_address(data[at:at + (16 if v6 else 4)])
            return type_, code, info, str(who)
    raise AssertionError("an error without its origin")


class Kernel(unittest.TestCase):
    def exchange(self, a, b, v6):
        sender, receiver = udp(a, v6), udp(b, v6)
        sender.connect(receiver.getsockname()[:2])
        for size in (1, 100, 1200):
            sender.send(b"q" * size)
            data, back = receiver.recvfrom(2000)
            self.assertEqual(len(data), size)
            self.assertEqual(back[0], a.v6 if v6 else a.v4)
            receiver.sendto(b"r" * size, back[:2])
            self.assertEqual(sender.recv(2000), b"r" * size)
        sender.close()
        receiver.close()

    def test_udp_within_a_vpc_and_across_a_peering(self):
        for other in ("b", "c"):
            for v6 in (False, True):
                with self.subTest(to=other, v6=v6):
                    self.exchange(VMS["a"], VMS[other], v6)

    def test_tcp_moves_data_through_a_smaller_path_mtu(self):
        for other in ("b", "c"):
            for v6 in (False, True):
                with self.subTest(to=other, v6=v6):
                    self.tcp(VMS["a"], VMS[other], v6)

    def tcp(self, a, b, v6):
        family = socket.AF_INET6 if v6 else socket.AF_INET
        with inside(b.nc):
            server = socket.create_server((b.v6 if v6 else b.v4, 0), family=family)
        with inside(a.nc):
            client = socket.socket(family, socket.SOCK_STREAM)
        server.settimeout(10)
        client.settimeout(20)
        client.connect(server.getsockname()[:2])
        there, _ = server.accept()
        there.settimeout(20)
        data = os.urandom(300_000)
        got = bytearray()
        client.setblocking(False)
        left = memoryview(data)
        while len(got) < len(data):  # both ends by turns: no thread is needed
            with contextlib.suppress(BlockingIOError):
                left = left[client.send(left):] if left else left
            got += there.recv(65536)
        self.assertEqual(bytes(got), data)
        for s in (client, there, server):
            s.close()

    def test_the_path_mtu_is_learned_from_our_too_big(self):
        for v6 in (False, True):
            with self.subTest(v6=v6):
                s, receiver = udp(VMS["b"], v6), udp(VMS["a"], v6)
                level = socket.IPPROTO_IPV6 if v6 else socket.IPPROTO_IP
                s.setsockopt(level, IPV6_MTU_DISCOVER if v6 else IP_MTU_DISCOVER, 2)  # DO
                s.setsockopt(level, IPV6_RECVERR if v6 else IP_RECVERR, 1)
                s.connect(receiver.getsockname()[:2])
                head = 48 if v6 else 28
                s.send(b"x" * (MTU - 50 - head))  # just fits
                self.assertEqual(len(receiver.recv(2000)), MTU - 50 - head)
                s.send(b"x" * (MTU - 50 - head + 1))
                type_, code, mtu, who = error_of(s, v6)
                self.assertEqual((type_, code, mtu), (2, 0, MTU - 50) if v6
                                 else (3, 4, MTU - 50))
                self.assertEqual(who, ICMP6 if v6 else ICMP4)
                self.assertEqual(s.getsockopt(level, IPV6_MTU if v6 else IP_MTU), MTU - 50)
                s.close()
                receiver.close()

    def test_a_ttl_that_ends_at_the_gateway_is_told(self):
        for v6 in (False, True):
            with self.subTest(v6=v6):
                s = udp(VMS["a"], v6)
                level = socket.IPPROTO_IPV6 if v6 else socket.IPPROTO_IP
                s.setsockopt(level, 16 if v6 else socket.IP_TTL, 1)  # as traceroute does
                s.setsockopt(level, IPV6_RECVERR if v6 else IP_RECVERR, 1)
                c = VMS["c"]
                s.connect((c.v6 if v6 else c.v4, 33434))
                s.send(b"probe")
                type_, code, _, who = error_of(s, v6)
                self.assertEqual((type_, code), (3, 0) if v6 else (11, 0))
                self.assertEqual(who, ICMP6 if v6 else ICMP4)
                s.close()

    # --- probes are no traffic

    def probe(self, a, b, v6, number):
        """What the gateway makes of it: what would have gone to the NC of `b`."""
        reply = CLIENT.unary("Probe", CLIENT.api.ProbeRequest(
            frame=probe_frame(a, b, v6, number)), CLIENT.api.ProbeReply)
        self.assertEqual((reply.outcome, reply.port), (1, "up0"), reply)
        out = Ether(reply.frame)
        self.assertEqual((out[IP].src, out[IP].dst), (VIP4, NCS[b.nc][0]))
        self.assertTrue(reply.frame.endswith(PROBE + number.to_bytes(8, "big")))
        return reply.frame

    def test_a_probe_through_the_gateway_sends_nothing_to_any_nc(self):
        taps = {name: tap("r", name) for name in ("to-gw", "to-nc0", "to-nc1", "to-nc2")}
        for number, (other, v6) in enumerate((o, v6) for o in "bc" for v6 in (False, True)):
            self.probe(VMS["a"], VMS[other], v6, number)
        for other in "bc":  # traffic goes the same way, behind them
            sender, receiver = udp(VMS["a"], False), udp(VMS[other], False)
            sender.sendto(b"traffic", receiver.getsockname())
            self.assertEqual(receiver.recv(100), b"traffic")
            sender.close()
            receiver.close()
        seen = {name: frames_of(s) for name, s in taps.items()}
        for name, count in (("to-gw", 4), ("to-nc0", 2), ("to-nc1", 1), ("to-nc2", 1)):
            self.assertEqual(sum(b"traffic" in f for f in seen[name]), count, name)
            self.assertEqual([f for f in seen[name] if PROBE in f], [], name)
        for s in taps.values():
            s.close()

    def services(self, vm):
        """A socket for each service and family, and one for TCP."""
        out = []
        with inside(vm.nc):
            for family, address in ((socket.AF_INET, vm.v4), (socket.AF_INET6, vm.v6)):
                for port in SERVICES:
                    out.append(socket.socket(family, socket.SOCK_DGRAM))
                    out[-1].bind((address, port))
                out.append(socket.create_server((address, DISCARD), family=family))
        for s in out:
            s.setblocking(False)
            self.addCleanup(s.close)
        return out

    def test_a_probe_that_did_leave_reaches_no_service_and_is_known_by_its_payload(self):
        a, b = VMS["a"], VMS["b"]
        services = self.services(b)
        seen = tap(b.nc, b.device)
        self.addCleanup(seen.close)
        with inside("r"):
            wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
            wire.bind(("to-nc1", 0))
        self.addCleanup(wire.close)
        to_nc = gw.mac_bytes(mac_of(b.nc, "eth0")) + gw.mac_bytes(mac_of("r", "to-nc1"))
        for number, v6 in ((70, False), (71, True)):
            with self.subTest(v6=v6):
                frame = to_nc + self.probe(a, b, v6, number)[12:]
                before = no_ports(b.nc, v6)
                wire.send(frame)  # by hand: no gateway does
                gw.wait_until(lambda: no_ports(b.nc, v6) == before + 1,
                              "the VM's kernel has no socket for it")
                for s in services:
                    self.assertRaises(BlockingIOError, s.accept if s.type ==
                                      socket.SOCK_STREAM else lambda: s.recv(2000))
                inner = [p for p in map(Ether, frames_of(seen)) if p.haslayer(UDP)]
                self.assertEqual([(p[UDP].dport, bytes(p[Raw])) for p in inner
                                  if p[UDP].sport == PROBE_SPORT],
                                 [(DISCARD, PROBE + number.to_bytes(8, "big"))])
                with inside(b.nc):  # who does listen there discards it (RFC 863) …
                    s = socket.socket(socket.AF_INET6 if v6 else socket.AF_INET,
                                      socket.SOCK_DGRAM)
                    s.bind((b.v6 if v6 else b.v4, DISCARD))
                s.settimeout(10)
                wire.send(frame)
                self.assertTrue(s.recv(2000).startswith(PROBE))  # … and can tell it
                s.close()
                frames_of(seen)

    def test_the_router_learned_our_mac_by_arp_and_we_its(self):
        out = run("ip", "netns", "exec", f"{PREFIX}-r", "ip", "neigh", "show",
                  "172.20.0.1").stdout
        self.assertIn(mac_of("gw", "up0"), out)
        drops = {d.reason: d.packets for d in CLIENT.counters().drops}
        self.assertEqual(drops["not_our_address"], 0)


CLIENT = None


def wait_for_next_hop():
    """Until ARP is through, packets are counted drops."""
    sender, receiver = udp(VMS["a"], False), udp(VMS["b"], False)
    receiver.setblocking(False)

    def is_through():
        sender.sendto(b"?", receiver.getsockname())
        with contextlib.suppress(BlockingIOError):
            return receiver.recv(10)

    gw.wait_until(is_through, "the router's MAC is known")
    sender.close()
    receiver.close()


def main():
    global CLIENT
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("gateway")
    args = parser.parse_args()
    if os.geteuid() or run("ip", "netns", "add", f"{PREFIX}-probe",
                           check=False).returncode:
        print("skipped: no root or no network namespaces")
        return 77
    remove_underlay()
    with tempfile.TemporaryDirectory() as name:
        api = gw.load_api(name)
        try:
            make_underlay()
            with gw.Gateway(os.path.abspath(args.gateway), "up0=af_packet:up0",
                            "--max-routes", "1000", "--max-vm-nc", "1000", "--max-vnis",
                            "100", folder=pathlib.Path(name),
                            namespace=f"{PREFIX}-gw") as g, \
                    gw.Client(api, g.address) as CLIENT:
                CLIENT.open(1)
                CLIENT.configure(gw.packed_config(config()))
                CLIENT.write(gw.batch(gw.PUT, entries()), revision=1, ready=True)
                wait_for_next_hop()
                result = unittest.main(argv=[sys.argv[0]], exit=False).result
                print({d.reason: d.packets for d in CLIENT.counters().drops if d.packets})
        finally:
            remove_underlay()
    return 0 if result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
