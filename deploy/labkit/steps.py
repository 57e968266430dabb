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
import steps_h
import system
import traffic

REPO = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TCP_BYTES = 8 << 20


def is_resolution(frame):
    """ARP, or ICMPv6 types 133 to 137 without extension headers."""
    return frame[12:14] == b"\x08\x06" or (
        frame[12:14] == b"\x86\xdd" and frame[20] == 58 and 133 <= frame[54] <= 137)


class Demo:
    PINGS = 5  # of each pair

    def __init__(self, paths, data, reference=False):
        self.paths, self.data, self.reference = paths, data, reference
        self.lab = plan.Lab(whole=not reference)
        self.front = None if reference else steps_h.Front(self)
        self.processes = system.Processes(paths)
        self.packets = None

    def load(self):
        """Reads the data; what only looks or removes does without."""
        self.inventory = content.load(self.data)
        content.extend(self.lab, self.inventory)
        lab = self.lab
        self.packets = replay.Packets(lab.gateways[0], lab.ncs[0], lab.ncs[1],
                                      lab.remotes[0].node.ip4, self.data, self.paths.dir)
        self.entries = list(content.lines(lab, self.inventory)) + list(
            content.captured_lines(lab, self.packets.rows))
        self.kinds = collections.Counter(json.loads(e)["table"] for e in self.entries)
        return "%s: %d tenants, %d routes, %d VM-NC entries" % (
            "no data, so generated" if self.inventory.source == "generated"
            else "real inventory, prefixes and captures", self.kinds["tenant"],
            self.kinds["vxlan_route"], self.kinds["vm_nc"])

    # --- build and remove ---------------------------------------------------------

    def clean(self):
        """Whatever an earlier run left, in any state; the logs stay until the next."""
        if self.packets:
            self.packets.end()
        self.processes.stop_all()
        net.down()
        for name in ("controller.db", "controller.db-wal", "controller.db-shm", "xgwctl"):
            if os.path.exists(self.paths.file(name)):
                os.remove(self.paths.file(name))

    def namespaces(self):
        net.up(self.lab)
        return "%d namespaces: %d NCs, %d VMs, %d gateways, IDC, region 2, underlay" % (
            len(self.lab.namespaces), len(self.lab.ncs), len(self.lab.vms),
            len(self.lab.members))

    def draw(self):
        foot = ["%d tenants, %d routes, %d VM-NC entries" % (
            self.kinds["tenant"], self.kinds["vxlan_route"], self.kinds["vm_nc"]),
                "inventory: %s; %d announced prefixes" % (
                    "generated" if self.inventory.source == "generated"
                    else "inventory/ovn, prefixes/bart", len(self.inventory.prefixes))]
        system.write(self.paths.picture, picture.svg(self.lab, foot))
        return os.path.relpath(self.paths.picture)

    def certificates(self):
        system.certificates(self.paths, ["controller"] + [g.name for g in self.lab.members])
        token = secrets.token_hex(16)
        system.write(self.paths.file("tokens"), commands.tokens(token), 0o600)
        system.write(self.paths.file("token"), token + "\n", 0o600)
        return "a CA, %d certificates, an operator's token" % (1 + len(self.lab.members))

    def write_inputs(self):
        for name in os.listdir(self.paths.logs) if os.path.isdir(self.paths.logs) else ():
            os.remove(os.path.join(self.paths.logs, name))
        system.write(self.paths.region, system.yaml(commands.region(self.lab)))
        system.write(self.paths.entries, "".join(e + "\n" for e in self.entries))
        if not self.reference:
            system.write(self.paths.ctl, commands.ctl_script(self.paths), 0o755)
            system.output(commands.device_api(self.paths))

    # --- processes -----------------------------------------------------------------

    def start_controller(self):
        self.processes.start("controller", commands.controller(self.paths))
        self.poll(lambda text: (True, ""), 15)
        return "ready"

    def start_gateways(self):
        for g in self.lab.members:
            if self.reference:
                self.start_reference(g)
                continue
            self.start_gateway(g)
            self.processes.start("agent-" + g.name, commands.agent(self.paths, g))
        return "%d x86, %d switches, %d load balancers, %d agents" % (
            len(self.lab.gateways), len(self.lab.switches), len(self.lab.balancers),
            0 if self.reference else len(self.lab.members))

    def start_gateway(self, gateway):
        self.processes.start(gateway.name, commands.gateway(self.paths, gateway), gateway.ns)

    def start_reference(self, gateway):
        device = self.paths.file(gateway.name + ".json")
        rows = self.paths.file(gateway.name + ".ndjson")
        system.write(device, json.dumps(content.device(self.lab, gateway, plan)))
        system.write(rows, "".join(json.dumps(e) + "\n" for e in content.derive(
            self.lab, self.entries, gateway.cluster)))
        tool = os.path.join(REPO, "tests/reference/gateway.py")
        self.processes.start(gateway.name, ["/usr/bin/python3", tool, device, rows, "0=up0"],
                             gateway.ns)

    def poll(self, judge, patience):
        """Asks for the status until `judge` is content; what was started must live."""
        said = "no answer"

        def claim():
            nonlocal said
            for process in self.processes.running:
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
        return "%d x86 clusters, %d XGW-H, %d of load balancers, a node each" % (
            len(self.lab.gateways), len(self.lab.switches), len(self.lab.balancers))

    def import_entries(self):
        start = time.monotonic()
        system.output(commands.import_entries(self.paths), 120)
        took = time.monotonic() - start
        for table, held in self.tables().items():
            if held["entries"] != self.kinds[table]:
                raise system.SystemError_("%s: the controller has %d, the file %d" % (
                    table, held["entries"], self.kinds[table]))
        return "xgwctl import: %d entries in %.1f s" % (len(self.entries), took)

    def wait_in_sync(self):
        names = [g.name for g in self.lab.members]
        self.poll(lambda text: commands.nodes_in_sync(text, names), 30)

    def in_sync(self):
        """And each gateway holds what its cluster's tenants imply, no more and no less."""
        self.wait_in_sync()
        said = []
        for g in self.lab.gateways:
            due = sum(1 for _ in content.derive(self.lab, self.entries, g.cluster))
            held = sum(self.device(g)["entries"])
            if held != due:
                raise system.SystemError_("%s holds %d entries, not %d" % (g.name, held, due))
            said.append("%s holds %d entries" % (g.name, held))
        for lb in self.lab.balancers:
            held = sum(self.device(lb)["entries"])
            if held != self.kinds["tenant"]:
                raise system.SystemError_("%s knows the cluster of %d tenants of %d" % (
                    lb.name, held, self.kinds["tenant"]))
            said.append("%s knows %d tenants" % (lb.name, held))
        return ", ".join(said)

    def device(self, gateway):
        """What the gateway says of itself."""
        said = json.loads(system.output(commands.device(self.paths, gateway)))
        if gateway.backing:
            names = commands.drop_reasons(self.paths)
            said["drops"] = {names[int(i)]: n for i, n in said["drops"].items()}
            said["entries"] = said["rows"]
            said["boot_id"] = self.processes.running[gateway.name]
            said["writes"] = commands.switch_writes(
                self.processes.last_words(gateway.name, 10**6))
        return said

    def tables(self):
        return commands.tables(system.output(commands.status(self.paths)))

    # --- traffic -------------------------------------------------------------------

    def first_contact(self):
        """Until the next hops are resolved: a packet or two may be lost."""
        a1, address = self.lab.vm("a1"), self.lab.vm("a2").ip4
        d1, address6 = self.lab.vm("d1"), self.lab.vm("d2").ip6
        # f1 and g3 by XGW-H and the node behind it, on either underlay.
        f1, f3 = self.lab.vm("f1"), self.lab.vm("f3").ip4
        g3, g1 = self.lab.vm("g3"), self.lab.vm("g1").ip6
        for vm, to in ((a1, address), (d1, address6), (f1, f3), (g3, g1)):
            if not system.wait_until(lambda: traffic.ping(vm.ns, to, 1)[1] == 1, 15):
                raise traffic.TrafficError("%s cannot reach %s" % (vm.name, to))
        return "answers"

    def pings(self, pairs):
        """[(VM, VM or remote, family)]: every ping must come back."""
        total, rtts = 0, []
        answers = traffic.ping_all([(source.ns, target) for source, target, _ in pairs],
                                   self.PINGS)
        for (source, target, _), (sent, received, rtt) in zip(pairs, answers):
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

    def ping_known(self):
        return self.pings(self.between("f1>f2", "g1>g2", "f1>g3", "g2>f3", "f2>b1"))

    def ping_v6(self):
        return self.pings(self.between("d1>d2", "d2>d1"))

    def ping_v6_underlay(self):
        return self.pings(self.between("a1>a3", "a3>a2"))

    def ping_inventory(self):
        return self.pings(self.between("o1>o2", "o2>o1"))

    def ping_announced(self):
        e1, e2 = self.lab.vm("e1"), self.lab.vm("e2")
        return "%s, %s: %s" % (e1.tenant.prefixes[0], e2.ip6, self.pings(
            self.between("e1>e2", "e2>e1")))

    def ping_remotes(self):
        a1, a3 = self.lab.vm("a1"), self.lab.vm("a3")
        return self.pings([(vm, r.host(f), f) for r in self.lab.remotes
                           for vm in (a1, a3) for f in (4, 6)])

    def tcp(self, *transfers, size=None):
        """[(from, to, family)]: data there, its digest back."""
        size = size or (TCP_BYTES // 8 if self.reference else TCP_BYTES)
        start = time.monotonic()
        for source, target, family in transfers:
            one, two = self.lab.vm(source), self.lab.vm(target)
            try:
                traffic.tcp(one.ns, two.ns, two.ip(family), size)
            except traffic.TrafficError as e:
                raise traffic.TrafficError("%s to %s: %s" % (source, target, e)) from None
        took = time.monotonic() - start
        return "%s: %d KiB each, byte for byte, %.0f Mbit/s" % (
            ", ".join("%s to %s v%d" % t for t in transfers), size >> 10,
            len(transfers) * size * 8 / took / 1e6)

    def tcp_same_vpc(self):
        # a1 > a3 goes out over the longer v6 header: it works only if the gateway's
        # "too big" reaches a1.
        return self.tcp(("a1", "a2", 4), ("a1", "a2", 6), ("a1", "a3", 4))

    def tcp_peer(self):
        return self.tcp(("a1", "b1", 4), ("b1", "a2", 6))

    def tcp_other_cluster(self):
        return self.tcp(("a1", "c1", 4), ("c1", "a2", 6))

    def tcp_v6(self):
        return self.tcp(("d1", "d2", 6))

    def tcp_inventory(self):
        return self.tcp(("o1", "o2", 4), ("e1", "e2", 4), ("e2", "e1", 6))

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
        """Every frame that comes out, and every drop counter, as the reference has it."""
        gateway, frames = self.lab.gateways[0], self.packets.frames()
        rows = list(content.derive(self.lab, self.entries, gateway.cluster))
        want = replay.expected(content.device(self.lab, gateway, plan), rows, frames)
        sent, heard = self.paths.file("replay-in.jsonl"), self.paths.file("replay-out.jsonl")
        system.write(sent, "".join(json.dumps(f.hex()) + "\n" for f in frames))
        before = None if self.reference else self.device(gateway)
        system.output(["ip", "netns", "exec", plan.ns("underlay"), "/usr/bin/python3",
                       replay.__file__, "play", gateway.router_if, sent, heard,
                       str(sum(want.out.values()))], 120)
        with open(heard) as f:
            lines = [json.loads(line) for line in f]
        # The gateway's own ARP and ND are no answers to packets.
        got = collections.Counter(x for x in lines if not is_resolution(bytes.fromhex(x)))
        missing, extra = replay.differences(got, want)
        if missing or extra:
            told = self.paths.file("replay-differences.json")
            system.write(told, json.dumps({"missing": missing, "unexpected": extra}))
            raise traffic.TrafficError("%d frames missing, %d unexpected: see %s" % (
                sum(missing.values()), sum(extra.values()), told))
        if before:
            wrong = replay.miscounted(before, self.device(gateway), want,
                                      sum(got.values()) - sum(want.out.values()))
            if wrong:
                raise traffic.TrafficError("counted wrongly: " + "; ".join(wrong[:4]))
        return "%d %s packets: %d forwarded as the reference says, %d dropped for %d reasons%s" % (
            len(frames), "captured" if self.packets.captured else "generated",
            sum(want.out.values()), sum(want.drops.values()), len(want.drops),
            ", each counted" if before else "")

    # --- the product under events ---------------------------------------------------

    def trace(self):
        a1, c1 = self.lab.vm("a1"), self.lab.vm("c1")
        text = system.output(commands.trace(self.paths, a1, c1.ip4))
        print("\n".join("      " + line for line in text.splitlines()))
        for due in (c1.nc.ip4, a1.tenant.cluster, c1.tenant.cluster):
            if due not in text:
                raise system.SystemError_("%s is not in the trace" % due)
        return "a1 to c1: %s, then %s, then NC %s" % (
            a1.tenant.cluster, c1.tenant.cluster, c1.nc.ip4)

    def under_traffic(self, event, pairs):
        """Runs `event` under pings, none of which may be lost; nor may any gateway be
        written to.  Ends when all nodes are in sync again."""
        before = [self.device(g) for g in self.lab.members]
        runs = [traffic.PingRun(self.lab.vm(s).ns, self.lab.vm(t).ip4) for s, t in pairs]
        try:
            event()
            self.wait_in_sync()
            for run in runs:
                run.wait(25)
        finally:
            counts = [run.stop() for run in runs]
        for (source, target), (sent, lost) in zip(pairs, counts):
            if lost or not sent:
                raise traffic.TrafficError("%s to %s: %d of %d pings lost" % (
                    source, target, lost, sent))
        writes = 0
        for was, now in zip(before, (self.device(g) for g in self.lab.members)):
            if (was["boot_id"], was["entries"]) != (now["boot_id"], now["entries"]):
                raise system.SystemError_("a gateway's tables changed: %s, then %s" % (
                    was["entries"], now["entries"]))
            writes += now["writes"] - was["writes"]
        if writes:
            raise system.SystemError_("the gateways were written to %d times" % writes)
        return "%d pings meanwhile, none lost; 0 device writes" % sum(c[0] for c in counts)

    MOVED = (("dune", "x86-1"), ("cora", "x86-1"))  # a tenant and where it goes, and back
    NUMBERED = ("d1>d2", "d2>d1", "c1>a1", "a1>c1")

    def move_tenants(self):
        """Tenants move to the other cluster and back under numbered packets, of which
        none may be lost and none may come twice."""
        homes = {t.name: t for t in self.lab.tenants}
        lost = {g.name: self.device(g)["drops"] for g in self.lab.balancers}
        runs = [traffic.Numbered(s.ns, self.lab.vm(name.split(">")[1]).ns, address)
                for name in self.NUMBERED for s, address, _ in self.between(name)]
        moves = 0
        try:
            for name, there in self.MOVED:
                tenant = homes[name]
                for cluster in (there, tenant.cluster):
                    system.output(commands.move(self.paths, tenant, cluster, 1000))
                    moves += 1
        finally:
            counts = [run.stop() for run in runs]
        for run, (sent, came, twice) in zip(runs, counts):
            if came != sent or twice or sent < moves * 100:
                raise traffic.TrafficError("to %s: %d sent, %d came, %d twice" % (
                    run.address, sent, came, twice))
        if lost != {g.name: self.device(g)["drops"] for g in self.lab.balancers}:
            raise traffic.TrafficError("a load balancer dropped packets")
        self.in_sync()
        return "%d moves, %d numbered packets in %d flows: none lost, none twice" % (
            moves, sum(c[0] for c in counts), len(runs))

    def restart_agent(self, gateway, pairs):
        name, others = "agent-" + gateway.name, len(self.lab.members) - 1

        def event():
            for sig in (15, 9):
                self.processes.stop(name, sig=sig)
                self.poll(lambda text: (
                    commands.sessions(text) == others,
                    "%d sessions" % commands.sessions(text)), 15)
                self.processes.start(name, commands.agent(self.paths, gateway))
                self.wait_in_sync()

        return "SIGTERM, then kill -9: " + self.under_traffic(event, pairs)

    def restart_x86_agent(self):
        return self.restart_agent(self.lab.gateways[0], [("a1", "a2"), ("c1", "a1")])

    def restart_controller(self):
        before = self.tables()

        def event():
            self.processes.stop("controller", sig=9)
            self.start_controller()

        said = self.under_traffic(event, [("a1", "a2"), ("c1", "a1"), ("f1", "f3")])
        after = self.tables()
        if before != after:
            raise system.SystemError_("before %s, after %s" % (before, after))
        return "kill -9: digests of %d tables equal, nodes in sync; %s" % (len(after), said)

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
            yield "XGW-H holds its tenants", self.front.holds_what_is_due, True
        yield "first packet through", self.first_contact, True

    def shows(self):
        yield "ping, same VPC", self.ping_same_vpc
        yield "ping, peered VPC, same cluster", self.ping_peer
        yield "ping, peered VPC, other cluster", self.ping_other_cluster
        yield "ping, MACs not in the entries", self.ping_known
        yield "ping, v6 tenant", self.ping_v6
        yield "ping, NC on a v6 underlay", self.ping_v6_underlay
        yield "ping, IDC and second region", self.ping_remotes
        yield "ping, imported inventory", self.ping_inventory
        yield "ping, announced prefixes", self.ping_announced
        yield "path MTU", self.too_big
        yield "TCP, same VPC", self.tcp_same_vpc
        yield "TCP, peered VPC, same cluster", self.tcp_peer
        yield "TCP, peered VPC, other cluster", self.tcp_other_cluster
        yield "TCP, v6 tenant", self.tcp_v6
        yield "TCP, inventory and announced", self.tcp_inventory
        yield "packets replayed, drops counted", self.replay
        if not self.reference:
            yield "xgwctl trace", self.trace
            # Before what sets the policy: a switch's own note of the revision that it has
            # is a write to it, and behind the policy all groups are at the last one.
            yield "tenants moved under traffic", self.move_tenants
            yield from self.front.shows()
            yield "agent restarted under traffic", self.restart_x86_agent
            yield "controller killed and started", self.restart_controller
