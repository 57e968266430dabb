"""What the demo shows, step by step.  Each step returns one line for the summary table,
or raises and the table says why."""

import collections
import json
import os
import secrets
import subprocess
import time

import commands
import content
import net
import picture
import plan
import replay
import system
import traffic

REPO = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TCP_BYTES = 8 << 20


def is_resolution(frame):
    """ARP, or ICMPv6 types 133 to 137 without extension headers."""
    return frame[12:14] == b"\x08\x06" or (
        frame[12:14] == b"\x86\xdd" and frame[20] == 58 and 133 <= frame[54] <= 137)


class Demo:
    def __init__(self, paths, data, reference=False):
        self.paths, self.data, self.reference = paths, data, reference
        self.lab = plan.Lab()
        self.processes = system.Processes(paths)

    def load(self):
        """Reads the data; what only looks or removes does without."""
        self.inventory = content.load(self.data)
        content.extend(self.lab, self.inventory)
        self.frames, captured = replay.prepare(
            self.lab.gateways[0], self.lab.ncs[0], self.lab.remotes[0].node.ip4, self.data)
        self.entries = list(content.lines(self.lab, self.inventory)) + list(
            content.captured_lines(self.lab, captured))
        kinds = collections.Counter(json.loads(e)["table"] for e in self.entries)
        return "%s: %d tenants, %d routes, %d VM-NC, %d packets to replay" % (
            "no data given, generated" if self.inventory.source == "generated"
            else "real inventory, prefixes, captures", kinds["tenant"],
            kinds["vxlan_route"], kinds["vm_nc"], len(self.frames))

    # --- build and remove ---------------------------------------------------------

    def clean(self):
        """Whatever an earlier run left, in any state; the logs stay until the next."""
        self.processes.stop_all()
        net.down()
        for name in ("controller.db", "controller.db-wal", "controller.db-shm"):
            if os.path.exists(self.paths.file(name)):
                os.remove(self.paths.file(name))

    def namespaces(self):
        net.up(self.lab)
        return "%d namespaces: %d NCs, %d VMs, %d gateways, IDC, region 2, underlay" % (
            len(self.lab.namespaces), len(self.lab.ncs), len(self.lab.vms),
            len(self.lab.gateways))

    def draw(self):
        kinds = collections.Counter(json.loads(e)["table"] for e in self.entries)
        foot = ["%d tenants, %d routes, %d VM-NC entries" % (
            kinds["tenant"], kinds["vxlan_route"], kinds["vm_nc"]),
                "inventory: %s; %d announced prefixes" % (
                    "generated" if self.inventory.source == "generated"
                    else "inventory/ovn, prefixes/bart", len(self.inventory.prefixes))]
        system.write(self.paths.picture, picture.svg(self.lab, foot))
        return os.path.relpath(self.paths.picture)

    def certificates(self):
        system.certificates(self.paths, ["controller"] + [g.name for g in self.lab.gateways])
        token = secrets.token_hex(16)
        system.write(self.paths.file("tokens"), commands.tokens(token), 0o600)
        system.write(self.paths.file("token"), token + "\n", 0o600)
        return "a CA, %d certificates, an operator's token" % (1 + len(self.lab.gateways))

    def write_inputs(self):
        for name in os.listdir(self.paths.logs) if os.path.isdir(self.paths.logs) else ():
            os.remove(os.path.join(self.paths.logs, name))
        system.write(self.paths.region, system.yaml(commands.region(self.lab, plan)))
        system.write(self.paths.entries, "".join(e + "\n" for e in self.entries))

    # --- processes -----------------------------------------------------------------

    def start_controller(self):
        self.processes.start("controller", commands.controller(self.paths))
        self.poll("controller", lambda text: (True, ""), 15)
        return "ready"

    def start_gateways(self):
        for g in self.lab.gateways:
            if self.reference:
                self.start_reference(g)
                continue
            self.processes.start(g.name, commands.gateway(self.paths, g), g.ns)
            self.processes.start("agent-" + g.name, commands.agent(self.paths, g))
        return "%d gateways, %d agents" % (
            len(self.lab.gateways), 0 if self.reference else len(self.lab.gateways))

    def start_reference(self, gateway):
        device = self.paths.file(gateway.name + ".json")
        rows = self.paths.file(gateway.name + ".ndjson")
        system.write(device, json.dumps(content.device(self.lab, gateway, plan)))
        system.write(rows, "".join(json.dumps(e) + "\n" for e in content.derive(
            self.lab, self.entries, gateway.cluster)))
        tool = os.path.join(REPO, "tests/reference/gateway.py")
        self.processes.start(gateway.name, ["/usr/bin/python3", tool, device, rows, "0=up0"],
                             gateway.ns)

    def poll(self, process, judge, patience):
        """Asks for the status until `judge` is content; the process must live."""
        said = "no answer"

        def claim():
            nonlocal said
            if not self.processes.alive(process):
                raise system.SystemError_("%s ended: %s" % (
                    process, self.processes.last_words(process).strip() or "no word"))
            try:
                done, said = judge(system.output(commands.status(self.paths)))
                return done
            except system.SystemError_ as e:
                said = str(e)
                return False

        if not system.wait_until(claim, patience, 0.2):
            raise system.SystemError_("not after %d s: %s" % (patience, said))

    def apply_region(self):
        system.output(commands.apply(self.paths))
        return "%d clusters, %d nodes" % (len(self.lab.gateways), len(self.lab.gateways))

    def import_entries(self):
        start = time.monotonic()
        system.output(commands.import_entries(self.paths), 120)
        took = time.monotonic() - start
        return "%d entries in %.1f s" % (len(self.entries), took)

    def in_sync(self):
        names = [g.name for g in self.lab.gateways]
        start = time.monotonic()
        self.poll("controller", lambda text: commands.nodes_in_sync(text, names), 30)
        return "%s after %.1f s" % (", ".join(names), time.monotonic() - start)

    # --- traffic -------------------------------------------------------------------

    def first_contact(self):
        """Until the next hops are resolved: a packet or two may be lost."""
        a1, address = self.lab.vm("a1"), self.lab.vm("a2").ip4
        d1, address6 = self.lab.vm("d1"), self.lab.vm("d2").ip6
        for vm, to in ((a1, address), (d1, address6)):
            if not system.wait_until(lambda: traffic.ping(vm.ns, to, 1)[1] == 1, 15):
                raise traffic.TrafficError("%s cannot reach %s" % (vm.name, to))
        return "answers"

    def pings(self, pairs):
        """[(VM, VM or remote, family)]: every ping must come back."""
        total, rtts = 0, []
        for source, target, family in pairs:
            sent, received, rtt = traffic.ping(source.ns, target, 5, wait=2)
            if received != sent:
                raise traffic.TrafficError("%s to %s: %d of %d" % (
                    source.name, target, received, sent))
            total += sent
            rtts.append(rtt)
        return "%d of %d pings, %d pairs, %.2f ms" % (
            total, total, len(pairs), sum(rtts) / len(rtts))

    def between(self, *names):
        """Pairs of VMs by "a1>a2", both families where both ends have them."""
        pairs = []
        for name in names:
            source, target = (self.lab.vm(n) for n in name.split(">"))
            pairs += [(source, target.ip(f), f) for f in (4, 6)
                      if source.ip(f) and target.ip(f)]
        return pairs

    def ping_same_vpc(self):
        return self.pings(self.between("a1>a2", "a2>a1"))

    def ping_peer(self):
        return self.pings(self.between("a1>b1", "b1>a2"))

    def ping_other_cluster(self):
        return self.pings(self.between("a1>c1", "c1>a2"))

    def ping_v6(self):
        return self.pings(self.between("d1>d2", "d2>d1"))

    def ping_v6_underlay(self):
        return self.pings(self.between("a1>a3", "a3>a2"))

    def ping_inventory(self):
        return self.pings(self.between("o1>o2", "e1>e2", "e2>e1"))

    def ping_remotes(self):
        a1, a3 = self.lab.vm("a1"), self.lab.vm("a3")
        return self.pings([(vm, r.host(f), f) for r in self.lab.remotes
                           for vm in (a1, a3) for f in (4, 6)])

    def tcp(self):
        # a1 > a3 goes out over the longer v6 header: it works only if the gateway's
        # "too big" reaches a1.
        done = 0
        for source, target, family in (("a1", "a2", 4), ("a1", "b1", 6), ("a1", "c1", 4),
                                       ("d1", "d2", 6), ("a1", "a3", 4), ("o1", "o2", 4)):
            one, two = self.lab.vm(source), self.lab.vm(target)
            try:
                traffic.tcp(one.ns, two.ns, two.ip(family), TCP_BYTES // 8
                            if self.reference else TCP_BYTES)
            except traffic.TrafficError as e:
                raise traffic.TrafficError("%s to %s: %s" % (source, target, e)) from None
            done += 1
        return "%d transfers of %d MiB arrived byte for byte" % (
            done, (TCP_BYTES // 8 if self.reference else TCP_BYTES) >> 20)

    def too_big(self):
        """1,450 bytes fit towards v4, not towards the NC on v6: the VM hears 1,430."""
        a1, a3 = self.lab.vm("a1"), self.lab.vm("a3")
        subprocess.run(traffic.inside(a1.ns, "ip", "route", "flush", "cache"), check=True)
        traffic.ping(a1.ns, a3.ip4, 2, size=1450 - 28)
        route = subprocess.run(traffic.inside(a1.ns, "ip", "route", "get", a3.ip4), text=True,
                               stdout=subprocess.PIPE).stdout
        if "mtu 1430" not in route:
            raise traffic.TrafficError("a1 did not learn MTU 1430: " + " ".join(route.split()))
        sent, received, _ = traffic.ping(a1.ns, a3.ip4, 3, size=1430 - 28)
        if sent != received:
            raise traffic.TrafficError("1,430 bytes: %d of %d" % (received, sent))
        return "a1 was told MTU 1430 for a3 and uses it"

    def replay(self):
        gateway = self.lab.gateways[0]
        rows = list(content.derive(self.lab, self.entries, gateway.cluster))
        out, icmp, drops, local = replay.expected(
            content.device(self.lab, gateway, plan), rows, self.frames)
        sent, heard = self.paths.file("replay-in.jsonl"), self.paths.file("replay-out.jsonl")
        system.write(sent, "".join(json.dumps(f.hex()) + "\n" for f in self.frames))
        system.output(["ip", "netns", "exec", plan.ns("underlay"), "/usr/bin/python3",
                       replay.__file__, gateway.router_if, sent, heard], 120)
        with open(heard) as f:
            lines = [json.loads(line) for line in f]
        # The gateway's own ARP and ND are no answers to packets.
        got = collections.Counter(x for x in lines if not is_resolution(bytes.fromhex(x)))
        missing, extra = replay.differences(got, out, icmp)
        if missing or extra:
            told = self.paths.file("replay-differences.json")
            system.write(told, json.dumps({"missing": missing, "unexpected": extra}))
            raise traffic.TrafficError("%d frames missing, %d unexpected: see %s" % (
                sum(missing.values()), sum(extra.values()), told))
        return "%d packets: %d forwarded as the reference says, %d dropped for %d reasons" % (
            len(self.frames), sum(out.values()), sum(drops.values()), len(drops))

    # --- the product under events ---------------------------------------------------

    def trace(self):
        a1, c1 = self.lab.vm("a1"), self.lab.vm("c1")
        text = system.output(commands.trace(self.paths, a1.tenant.vni, c1.ip4, a1.ip4))
        print("\n".join("      " + line for line in text.splitlines()))
        return "a1 to c1, %d lines above" % len(text.splitlines())

    def restart_agent(self):
        name = "agent-" + self.lab.gateways[0].name
        run = traffic.PingRun(self.lab.vm("a1").ns, self.lab.vm("a2").ip4)
        try:
            self.processes.stop(name)
            self.processes.start(name, commands.agent(self.paths, self.lab.gateways[0]))
            self.in_sync()
            run.wait(50)
        finally:
            sent, received = run.stop()
        if sent != received:
            raise traffic.TrafficError("%d of %d pings" % (received, sent))
        return "%d pings meanwhile, none lost" % sent

    def restart_controller(self):
        before = commands.entry_count(system.output(commands.status(self.paths)))
        run = traffic.PingRun(self.lab.vm("a1").ns, self.lab.vm("a2").ip4)
        try:
            self.processes.stop("controller", sig=9)
            self.start_controller()
            self.in_sync()
            run.wait(50)
        finally:
            sent, received = run.stop()
        after = commands.entry_count(system.output(commands.status(self.paths)))
        if before != after:
            raise system.SystemError_("before %s, after %s" % (before, after))
        if sent != received:
            raise traffic.TrafficError("%d of %d pings" % (received, sent))
        return "kill -9: tables the same, %d pings meanwhile, none lost" % sent

    def steps(self):
        """(title, function, needed): nothing goes on behind a needed step that failed."""
        yield "namespaces and kernel VXLAN", self.namespaces, True
        yield "picture of the region", self.draw, False
        if not self.reference:
            yield "certificates", self.certificates, True
            yield "controller", self.start_controller, True
            yield "region applied", self.apply_region, True
            yield "entries imported", self.import_entries, True
        yield "gateways and agents", self.start_gateways, True
        if not self.reference:
            yield "devices in sync", self.in_sync, True
        yield "first packet through", self.first_contact, True

    def shows(self):
        yield "ping, same VPC", self.ping_same_vpc
        yield "ping, peered VPC, same cluster", self.ping_peer
        yield "ping, peered VPC, other cluster", self.ping_other_cluster
        yield "ping, v6 tenant", self.ping_v6
        yield "ping, NC on a v6 underlay", self.ping_v6_underlay
        yield "ping, IDC and second region", self.ping_remotes
        yield "ping, imported inventory", self.ping_inventory
        yield "path MTU", self.too_big
        yield "TCP", self.tcp
        yield "packets replayed", self.replay
        if not self.reference:
            yield "xgwctl trace", self.trace
            yield "agent restarted under traffic", self.restart_agent
            yield "controller killed and started", self.restart_controller
