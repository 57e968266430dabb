"""Every command line and file of the product that the lab uses, in one place.

`paths` is a Paths: where the lab keeps its files.  Functions return argument lists;
nothing is run here.
"""

import json
import os
import re
import shlex

import plan

REST_PORT = plan.rest_port()
GRPC_PORT = REST_PORT + 1


class Paths:
    def __init__(self, root):
        self.root = root
        self.dir = os.path.join(root, ".lab" if plan.PREFIX == "xgw"
                                else ".lab-" + plan.PREFIX)
        self.bin = os.path.join(root, ".build/release/bin")
        self.logs = self.file("log")
        self.certs = self.file("certs")
        self.region = self.file("region.yaml")
        self.entries = self.file("entries.ndjson")
        self.picture = self.file("region.svg")
        self.state = self.file("state.json")
        self.ctl = self.file("xgwctl")

    def file(self, *parts):
        return os.path.join(self.dir, *parts)

    def cert(self, name):
        return os.path.join(self.certs, name + ".crt"), os.path.join(self.certs, name + ".key")

    def program(self, name):
        return os.path.join(self.bin, name)

    @property
    def ca(self):
        return os.path.join(self.certs, "ca.crt")


PROGRAMS = ("xgw-controller", "xgw-agent", "xgw-gateway", "xgwctl")


def controller(paths):
    crt, key = paths.cert("controller")
    return [paths.program("xgw-controller"), "--store", paths.file("controller.db"),
            "--rest-listen", "127.0.0.1:%d" % REST_PORT,
            "--grpc-listen", "127.0.0.1:%d" % GRPC_PORT,
            "--tls-ca", paths.ca, "--tls-cert", crt, "--tls-key", key,
            "--tokens", paths.file("tokens")]


def tokens(token):
    """The controller's file of bearer tokens: token, role, name."""
    return "%s admin lab\n" % token


def gateway(paths, node):
    what = [paths.program("xgw-gateway"), "--control", socket(paths, node),
            "--ports", "up0=af_packet:up0"]
    if not node.backing:
        return what + ["--pipeline", node.role]
    crt, key = paths.cert(node.name)
    return what + ["--pipeline", "h", "--addresses", "up0=%s>%s up0=%s>%s" % (
        node.ip4, node.hop4, node.ip6, node.hop6), "--tls-ca", paths.ca,
        "--tls-cert", crt, "--tls-key", key, "--log-level", "debug"]


def switch_writes(log):
    """How often a switch was written to, from its log: P4Runtime does not tell."""
    return log.count('msg="written"') + log.count('msg="program set"')


def drop_reasons(paths):
    """Names of the indexes of the counter `drop_reason`."""
    with open(os.path.join(paths.root, "agent/fwd/drop_reason.h")) as f:
        return ["none"] + re.findall(r'^ +X\(\w+, "(\w+)"\)', f.read(), re.MULTILINE)


def socket(paths, node):
    return "unix:" + paths.file(node.name + ".sock")


def agent(paths, node):
    crt, key = paths.cert(node.name)
    return [paths.program("xgw-agent"), "--device-id", node.name,
            "--controllers", "127.0.0.1:%d" % GRPC_PORT, "--tls-name", "controller",
            "--tls-ca", paths.ca, "--tls-cert", crt, "--tls-key", key,
            *(switch(paths, node) if node.backing else
              ("--device-kind", node.role, "--gateway", socket(paths, node)))]


def switch(paths, node):
    """What an agent is told of a switch that speaks P4Runtime."""
    crt, key = paths.cert(node.name)
    return ["--device-kind", "soft-h", "--p4runtime", socket(paths, node),
            "--p4info", os.path.join(paths.root, "p4/xgw_h_v1model.p4info.bin"),
            "--p4-tls-ca", paths.ca, "--p4-tls-cert", crt, "--p4-tls-key", key,
            "--p4-tls-name", node.name]


def ctl(paths, *words):
    return [paths.program("xgwctl"), "--server", "https://127.0.0.1:%d" % REST_PORT,
            "--grpc", "127.0.0.1:%d" % GRPC_PORT, "--ca", paths.ca,
            "--token-file", paths.file("token"), *words]


def ctl_script(paths):
    """A file that is xgwctl with the lab's address and token."""
    return '#!/bin/sh\n# xgwctl for the lab\'s controller.\nexec %s "$@"\n' % (
        shlex.join(ctl(paths)))


def apply(paths):
    return ctl(paths, "apply", "-f", paths.region)


def import_entries(paths):
    return ctl(paths, "import", paths.entries)


def move(paths, tenant, cluster, drain_ms):
    """Ends when the tenant is at home there and nowhere else."""
    return ctl(paths, "tenant", "move", str(tenant.vni), "--to", cluster, "--drain-ms",
               str(drain_ms))


def status(paths):
    return ctl(paths, "status", "-o", "json")


def trace(paths, source, dst):
    """Of a packet of the VM `source`, which its NC sends over its own family."""
    return ctl(paths, "trace", "--vni", str(source.tenant.vni), "--dst", dst, "--src",
               source.ip4, "--underlay", "v%d" % source.nc.family)


def nodes_in_sync(status_text, names):
    """From `status`: (all nodes are in sync, what to show while they are not)."""
    status = json.loads(status_text)
    counts, sessions = status["counts"], status["sessions"]
    return counts["in_sync"] == sessions == len(names), (
        "%d of %d in sync, %d online, %d sessions" % (
            counts["in_sync"], len(names), counts["online"], sessions))


def sessions(status_text):
    """From `status`: how many agents are connected."""
    return json.loads(status_text)["sessions"]


def tables(status_text):
    """From `status`: {table: {"entries": n, "digest": hex}}, the same after a restart."""
    return json.loads(status_text)["tables"]


def device_api(paths):
    """protoc's Python of the gateways' sockets, which `device` reads."""
    return ["protoc", "-I", os.path.join(paths.root, "proto/api"),
            "--python_out=" + paths.dir, "gateway.proto", "google_rpc.proto",
            "p4info.proto", "p4runtime.proto"]


def device(paths, node):
    """What a gateway says of itself, as JSON."""
    here = os.path.dirname(__file__)
    if not node.backing:
        return ["/usr/bin/python3", os.path.join(here, "device.py"), paths.dir,
                socket(paths, node)]
    return ["/usr/bin/python3", os.path.join(here, "switch.py"), paths.dir,
            socket(paths, node), node.name, paths.ca, *paths.cert(node.name)]


def region(lab):
    """region.yaml as an object."""
    return {
        "region": {"name": plan.REGION, "steering": "lb" if lab.balancers else "vip",
                   "icmp_source_v4": plan.ICMP_SOURCE[0],
                   "icmp_source_v6": plan.ICMP_SOURCE[1],
                   "underlay_sources": plan.UNDERLAY_SOURCE},
        "clusters": [{"name": g.cluster, "kind": g.role,
                      "active_side": g.side, "vip_v4": g.vip4, "vip_v6": g.vip6,
                      **(behind(g) if g.backing else {})} for g in lab.members],
        "nodes": [{"name": g.name, "cluster": g.cluster, "side": g.side,
                   "kind": "soft-h" if g.backing else g.role,
                   "vtep_v4": g.vtep4, "vtep_v6": g.vtep6,
                   **({"fallback_v4": g.fallback4, "fallback_v6": g.fallback6}
                      if g.fallback4 else {}),
                   # A switch's ports are numbers.
                   "uplinks": [{"port": "0" if g.backing else "up0",
                                "addr_v4": g.ip4, "next_hop_v4": g.hop4,
                                "addr_v6": g.ip6, "next_hop_v6": g.hop6,
                                "mtu": plan.UNDERLAY_MTU}]} for g in lab.members]}


def behind(node):
    """What an XGW-H cluster says of its fallback."""
    return {"backing": node.backing, "fallback_meter": {
        "node": {"miss": {"rate_bps": plan.FALLBACK_NODE_BPS}},
        "tenant": {"miss": {"rate_bps": plan.FALLBACK_BPS,
                            "burst_bytes": plan.FALLBACK_BURST}}}}
