#!/usr/bin/python3
"""BGP, BFD and ICMP to the gateway's own address go through its tap: BIRD at both ends.

    test_gateway_tap.py XGW_GATEWAY

A router (BIRD in its own namespace) peers with a BIRD beside the gateway, whose only way
out is the tap interface that `--taps` made.  The router must learn the VIP by BGP into
its kernel table, see BFD up, reach the address by ping, and lose all of it when the
gateway dies: BFD says so, long before BGP's hold time.
Needs root, network namespaces and BIRD: ends with 77 without.
"""
import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import gateway_rig as gw  # noqa: E402

PREFIX = "xgwtap"
OWN, ROUTER, VIP = "172.20.0.1", "172.20.0.2", "172.31.0.1"
HOLD_S = 90  # BGP alone would take so long to see a dead peer

BIRD = """
router id {own};
log stderr {{ warning, error, bug }};
protocol device {{ scan time 1; }}
protocol kernel {{ ipv4 {{ export {export}; import none; }}; }}
protocol bfd {{ interface "*" {{ min rx interval 50 ms; min tx interval 50 ms;
                               multiplier 3; }}; }}
{extra}
protocol bgp peer1 {{
  local {own} as {own_as};
  neighbor {peer} as {peer_as};
  bfd on;
  hold time {hold};
  connect retry time 1;
  connect delay time 1;
  error wait time 1, 2;
  ipv4 {{ import all; export {announce}; next hop self; }};
}}
"""


def run(*words, check=True):
    return subprocess.run(words, check=check, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE)


def in_ns(name, *words, check=True):
    return run("ip", "netns", "exec", f"{PREFIX}-{name}", *words, check=check).stdout


def make_link():
    for name in ("gw", "r"):
        run("ip", "netns", "add", f"{PREFIX}-{name}")
        in_ns(name, "ip", "link", "set", "lo", "up")
    run("ip", "link", "add", "up0", "netns", f"{PREFIX}-gw", "type", "veth", "peer",
        "name", "to-gw", "netns", f"{PREFIX}-r")
    for name, device in (("gw", "up0"), ("r", "to-gw")):
        # The gateway has the port: the kernel must not answer on it as well.
        in_ns(name, "sysctl", "-qw", f"net.ipv6.conf.{device}.disable_ipv6=1")
        in_ns(name, "ip", "link", "set", device, "up")
        in_ns(name, "ethtool", "-K", device,
              *"tx off rx off tso off gso off gro off".split())
    in_ns("r", "ip", "addr", "add", ROUTER + "/24", "dev", "to-gw")


def remove_link():
    for line in run("ip", "netns", "list").stdout.splitlines():
        if line.startswith(PREFIX):
            run("ip", "netns", "del", line.split()[0])


class Bird:
    """One bird and its control socket."""

    def __init__(self, folder, name, **words):
        self.socket = folder / f"{name}.ctl"
        config = folder / f"{name}.conf"
        config.write_text(BIRD.format(hold=HOLD_S, **words))
        self.process = subprocess.Popen(
            ["ip", "netns", "exec", f"{PREFIX}-{name}", "bird", "-f", "-c", str(config),
             "-s", str(self.socket), "-P", str(folder / f"{name}.pid")])

    def ask(self, *words):
        return run("birdc", "-s", str(self.socket), *words, check=False).stdout

    def bgp_is_up(self):
        return "Established" in self.ask("show", "protocols", "peer1")

    def bfd_state(self):
        for line in self.ask("show", "bfd", "sessions").splitlines():
            words = line.split()
            if words and words[0] in (OWN, ROUTER):
                return words[2]
        return "none"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()


def config():
    return {"vteps": [OWN], "vips": [VIP], "icmp_source": [],
            "underlay_source": ["172.16.0.0/16"],
            "uplinks": [{"port": "up0", "address": OWN, "next_hop": ROUTER,
                         "next_hop_mac": None, "mtu": 1500}]}


class Tap(unittest.TestCase):
    """One story, in order: BGP and BFD need seconds to come up."""

    def test_bgp_bfd_and_ping_go_through_the_tap_and_end_with_the_gateway(self):
        folder = pathlib.Path(FOLDER)
        in_ns("gw", "ip", "addr", "add", OWN + "/24", "dev", "xgw-up0")
        router = dict(own=ROUTER, peer=OWN, own_as=65001, peer_as=65002, export="all",
                      extra="", announce="none")
        beside = dict(own=OWN, peer=ROUTER, own_as=65002, peer_as=65001, export="none",
                      announce="all",
                      extra=f"protocol static {{ ipv4; route {VIP}/32 blackhole; }}")
        with Bird(folder, "r", **router) as r, Bird(folder, "gw", **beside) as b:
            gw.wait_until(r.bgp_is_up, "BGP is up")
            gw.wait_until(lambda: r.bfd_state() == b.bfd_state() == "Up", "BFD is up")
            gw.wait_until(lambda: f"via {OWN}" in in_ns("r", "ip", "route", "show", VIP),
                          "the router's kernel knows the VIP")
            in_ns("r", "ping", "-c", "3", "-i", "0.2", "-W", "5", OWN)
            self.assertEqual(r.bfd_state(), "Up")  # all the while

            GATEWAY.process.kill()
            GATEWAY.process.wait()
            began = gw.time.monotonic()
            gw.wait_until(lambda: not in_ns("r", "ip", "route", "show", VIP),
                          "the router lost the VIP")
            self.assertLess(gw.time.monotonic() - began, HOLD_S)  # so it was BFD
            self.assertNotEqual(r.bfd_state(), "Up")


GATEWAY = FOLDER = None


def main():
    global GATEWAY, FOLDER
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("gateway")
    args = parser.parse_args()
    if not shutil.which("bird") or os.geteuid() or run(
            "ip", "netns", "add", f"{PREFIX}-probe", check=False).returncode:
        print("skipped: no BIRD, no root or no network namespaces")
        return 77
    remove_link()
    with tempfile.TemporaryDirectory() as FOLDER:
        api = gw.load_api(FOLDER)
        try:
            make_link()
            with gw.Gateway(os.path.abspath(args.gateway), "up0=af_packet:up0", "--taps",
                            "--max-routes", "1000", "--max-vm-nc", "1000",
                            "--max-vnis", "100", folder=pathlib.Path(FOLDER),
                            namespace=f"{PREFIX}-gw") as GATEWAY, \
                    gw.Client(api, GATEWAY.address) as client:
                client.open(1)
                client.configure(gw.packed_config(config()))
                client.write(b"", revision=1, ready=True)
                result = unittest.main(argv=[sys.argv[0]], exit=False).result
        finally:
            remove_link()
    return 0 if result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
