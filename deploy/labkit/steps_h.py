"""What the demo shows of XGW-H: which node carried which packet, by the counters of all
of them; what the fallback meter does to a flood; a restarted agent, a killed switch."""

import collections
import json
import time

import commands
import plan
import system
import traffic

# (from, to): clusters whose node a packet crosses there, and an answer on its way back;
# before them the load balancer, which all packets of NCs cross.
H, X1, X2, LB = "h-1", "x86-1", "x86-2", "lb"
RESIDENT = {
    ("f1", "f2"): ((H,), (H,)),
    ("g1", "g2"): ((H,), (H,)),
    ("f1", "g2"): ((H,), (H,)),         # peers, both on XGW-H
}
FALLBACK = {
    ("f1", "f3"): ((H, X1), (H,)),      # f3's entry names its MAC, which no chip holds
    ("f1", "b1"): ((H, X1), (X1,)),     # a peer that has no home on XGW-H
    ("f1", "c1"): ((H, X2), (X2, H)),   # nor has this one, whose x86 cluster is another
}
# Their NCs' underlays differ in family.
OTHER_FAMILY = {("g1", "g3"): ((H, X1), (H, X1))}

FLOOD_PPS, FLOOD_SECONDS, FLOOD_BYTES = 3000, 4, 1000
# Ethernet, IPv4, UDP, VXLAN; Ethernet, IPv4, UDP: a meter counts whole frames.
FLOOD_FRAME = 14 + 20 + 8 + 8 + 14 + 20 + 8 + FLOOD_BYTES


class Front:
    """The steps about the one switch of the lab; `demo` starts, stops and asks."""

    def __init__(self, demo):
        self.demo, self.lab = demo, demo.lab
        self.switch = demo.lab.switches[0]
        self.backing = next(g for g in self.lab.gateways
                            if g.cluster == self.switch.backing)

    # --- what it holds --------------------------------------------------------------

    def due(self):
        """Entries of an XGW-H cluster, as the policy and the rules of residency give
        them for this lab: no internet routes, and no VM-NC that names a MAC."""
        entries = [json.loads(e) for e in self.demo.entries]
        homed = {e["vni"] for e in entries if e["table"] == "tenant" and e.get("h_home")}
        kept = [e for e in entries if e["vni"] in homed and "mac" not in e
                and e.get("scope") != "internet"]
        return collections.Counter(e["table"] for e in kept)

    def holds_what_is_due(self):
        """In sync is: the digests of what the controller wants and what the switch holds
        are equal.  That this is the right set is counted here on the switch."""
        due, rows = self.due(), self.demo.device(self.switch)["rows"]
        status = json.loads(system.output(commands.ctl(
            self.demo.paths, "get", "clusters", self.switch.cluster, "-o", "json")))
        status = status.get("items", [status])[0]["status"]
        if status["vxlan_route"] != due["vxlan_route"]:
            raise system.SystemError_("%d routes are wanted, not %d" % (
                status["vxlan_route"], due["vxlan_route"]))
        held = sum(rows.get(t, 0) for t in ("vm_nc", "vm_nc_spill", "vm_nc_conflict"))
        if held != due["vm_nc"]:
            raise system.SystemError_("%s holds %d VM-NC rows, not %d" % (
                self.switch.name, held, due["vm_nc"]))
        if rows.get("vni") != 2 * due["tenant"]:  # each half has all of them
            raise system.SystemError_("%s holds VNI rows: %s" % (
                self.switch.name, rows.get("vni")))
        return "%s in sync: %d of %d tenants, %d routes, %d VM-NC, %d rows in all" % (
            self.switch.name, due["tenant"], self.demo.kinds["tenant"],
            due["vxlan_route"], due["vm_nc"], sum(rows.values()))

    # --- which node carried what ----------------------------------------------------

    def carried(self):
        """{cluster: packets that its node had}: what came with a known VNI to the
        switch, what was forwarded by the others."""
        counts = {}
        for g in self.lab.members:
            said = self.demo.device(g)
            counts[g.cluster] = said["packets" if g.backing else "forwarded"]
        return counts

    def moved(self, action):
        """(what `action` returned, by how much each node's count moved); the switch must
        not drop meanwhile."""
        drops, before = self.demo.device(self.switch)["drops"], self.carried()
        result = action()
        after, lost = self.carried(), self.demo.device(self.switch)["drops"]
        if lost != drops:
            raise traffic.TrafficError("%s dropped: before %s, after %s" % (
                self.switch.name, drops, lost))
        return result, {c: after[c] - before[c] for c in after}

    def ping_by(self, paths):
        pairs, due = [], collections.Counter()
        for (source, target), (there, back) in paths.items():
            found = self.demo.between("%s>%s" % (source, target))
            pairs += found
            for cluster in (LB, *there, LB, *back):  # by the front, each way
                due[cluster] += len(found) * self.demo.PINGS
        said, moved = self.moved(lambda: self.demo.pings(pairs))
        if moved != {c: due[c] for c in moved}:
            raise traffic.TrafficError("nodes carried %s, not %s" % (moved, dict(due)))
        return "%s; %s" % (said, words(moved))

    def ping_resident(self):
        return self.ping_by(RESIDENT)

    def ping_fallback(self):
        return self.ping_by({**FALLBACK, **OTHER_FAMILY})

    def tcp_resident(self):
        said, moved = self.moved(lambda: self.demo.tcp(
            ("f1", "f2", 4), ("f2", "g2", 6), ("g2", "g1", 4)))
        if moved[X1] or moved[X2]:
            raise traffic.TrafficError("an x86 node carried some: %s" % moved)
        return "%s; %s" % (said, words(moved))

    def tcp_fallback(self):
        """Small, as fallback is metered; the last goes out over the longer v6 header,
        and only x86 tells the sender of its MTU."""
        before = self.carried()
        said = self.demo.tcp(("f1", "f3", 4), ("f1", "b1", 4), ("f1", "g3", 6),
                             size=256 << 10)
        after = self.carried()
        moved = {c: after[c] - before[c] for c in after}
        if not moved[H] or not moved[X1] or moved[X2]:
            raise traffic.TrafficError("nodes carried %s" % moved)
        return "%s; %s" % (said, words(moved))

    def ends_on_x86(self):
        """A service's address and the internet: the switch sends them on, and x86, where
        nothing is bound to them yet, counts why it drops them."""
        f1 = self.lab.vm("f1")
        targets = {"service_unbound": plan.SERVICE4.replace(".0/24", ".1"),
                   "no_snat": "203.0.113.9"}
        before = self.demo.device(self.backing)["drops"]
        answers, moved = self.moved(lambda: traffic.ping_all(
            [(f1.ns, a) for a in targets.values()], 5, wait=1))
        after = self.demo.device(self.backing)["drops"]
        counted = {r: after[r] - before[r] for r in after if after[r] != before[r]}
        sent = {reason: answer[0] for reason, answer in zip(targets, answers)}
        if counted != sent or moved[H] != sum(sent.values()):
            raise traffic.TrafficError("sent %s; %s counted %s, %s carried %d" % (
                sent, self.backing.name, counted, self.switch.name, moved[H]))
        return "%s carried %d; %s counted %s" % (
            self.switch.name, moved[H], self.backing.name,
            ", ".join("%s %d" % item for item in sorted(counted.items())))

    def trace(self):
        """The controller's answer, without a packet, names the same nodes."""
        said = []
        for (source, target), (there, back) in {**RESIDENT, **FALLBACK, **OTHER_FAMILY}.items():
            ends = self.lab.vm(source), self.lab.vm(target)
            for (one, two), due in ((ends, there), (ends[::-1], back)):
                hops = json.loads(system.output(commands.trace(
                    self.demo.paths, one, two.ip4) + ["-o", "json"]))
                path = []
                for hop in hops["hops"]:
                    if hop.get("cluster") and hop["cluster"] not in path[-1:]:
                        path.append(hop["cluster"])
                if tuple(path) != due:
                    raise system.SystemError_("%s to %s: %s, but packets take %s" % (
                        one.name, two.name, path, due))
                said.append("%s>%s %s" % (one.name, two.name, " ".join(path)))
        return "%d traces as the packets went: %s, …" % (len(said), ", ".join(said[6:9]))

    def policy(self):
        """What the policy leaves to x86 takes both nodes, and the switch alone again."""
        moved = {("f1", "f2"): ((H, X1), (H, X1))}
        self.set_policy("local=xgw-x86")
        try:
            there = self.ping_by(moved)
        finally:
            self.set_policy("local=default")
        back = self.ping_by({("f1", "f2"): RESIDENT["f1", "f2"]})
        return "local on x86: %s; back: %s" % (there.split("; ")[1], back.split("; ")[1])

    def set_policy(self, words):
        system.output(commands.ctl(self.demo.paths, "policy", "set", words,
                                   "--wait=applied"))

    # --- the fallback meter ---------------------------------------------------------

    def flood(self):
        """g1 floods addresses that nobody has.  What passes to x86 is its tenant's rate;
        other tenants' fallback, and all that XGW-H answers, lose nothing."""
        g1 = self.lab.vm("g1")
        net = plan.NOWHERE4.rsplit(".", 1)[0]
        before, x86 = self.demo.device(self.switch), self.demo.device(self.backing)
        start = time.monotonic()
        # Longer than the flood's frames: short ones find room in a bucket that is shared.
        runs = {pair: traffic.PingRun(self.lab.vm(pair[0]).ns, self.lab.vm(pair[1]).ip4,
                                      size=FLOOD_BYTES + 200)
                for pair in (("f1", "f2"), ("f1", "f3"), ("g1", "g2"))}
        try:
            sent = traffic.flood(g1.ns, net, FLOOD_BYTES, FLOOD_PPS, FLOOD_SECONDS)
            flooded = time.monotonic() - start
            time.sleep(1)  # what is under way
        finally:
            counts = {pair: run.stop() for pair, run in runs.items()}
        after, x86_after = self.demo.device(self.switch), self.demo.device(self.backing)
        took = time.monotonic() - start
        for pair, (pings, lost) in counts.items():
            if lost or not pings:
                raise traffic.TrafficError("%s to %s beside the flood: %d of %d lost" % (
                    *pair, lost, pings))
        red = moved_drop(before, after, "fallback_miss_red")
        passed = moved_drop(x86, x86_after, "vm_nc_miss")
        others = {r for r in after["drops"] if r != "fallback_miss_red"
                  and moved_drop(before, after, r)}
        # Less the pings and their answers, of which each run may have one under way.
        arrived = after["packets"] - before["packets"] - 2 * sum(
            pings for pings, _ in counts.values())
        if others or abs(arrived - red - passed) > 2 * len(runs) or arrived < sent * 0.9:
            raise traffic.TrafficError(
                "sent %d: %d arrived, %d dropped by the meter, %d passed, other drops %s" % (
                    sent, arrived, red, passed, sorted(others)))
        share = passed * FLOOD_FRAME
        most = plan.FALLBACK_BURST + plan.FALLBACK_BPS / 8 * took
        least = plan.FALLBACK_BPS / 8 * min(flooded, FLOOD_SECONDS) * 0.5
        if not least < share < most:
            raise traffic.TrafficError("%d bytes passed, not %d to %d" % (
                share, least, most))
        return ("%d frames at %.0f Mbit/s: meter dropped %d, %d passed = %.1f Mbit/s (limit "
                "%.0f); %d pings beside it, none lost" % (
                    sent, sent * FLOOD_FRAME * 8 / flooded / 1e6, red, passed,
                    share * 8 / flooded / 1e6, plan.FALLBACK_BPS / 1e6,
                    sum(c[0] for c in counts.values())))

    # --- events ---------------------------------------------------------------------

    def restart_agent(self):
        return self.demo.restart_agent(self.switch, [("f1", "f2"), ("f1", "f3")])

    def kill_switch(self):
        """kill -9: it comes back empty, the agent fills it, packets go on."""
        demo, name = self.demo, self.switch.name
        f1, f2 = self.lab.vm("f1"), self.lab.vm("f2")
        before = demo.device(self.switch)["rows"]
        demo.processes.stop(name, sig=9)
        if traffic.ping(f1.ns, f2.ip4, 2)[1]:
            raise traffic.TrafficError("f1 to f2 without a switch")
        start = time.monotonic()
        demo.start_gateway(self.switch)

        def is_filled():
            try:
                return demo.device(self.switch)["rows"] == before
            except system.SystemError_:
                return False

        if not system.wait_until(is_filled, 30, 0.2):
            raise system.SystemError_("not filled again after 30 s")
        demo.wait_in_sync()
        filled = time.monotonic() - start
        if not system.wait_until(lambda: traffic.ping(f1.ns, f2.ip4, 1)[1] == 1, 15):
            raise traffic.TrafficError("f1 does not reach f2 again")
        said, moved = self.moved(lambda: demo.pings(demo.between("f1>f2")))
        return "back with its %d rows after %.1f s; %s; %s" % (
            sum(before.values()), filled, said, words(moved))

    def shows(self):
        yield "XGW-H: ping, on the switch alone", self.ping_resident
        yield "XGW-H: ping, fallback to x86", self.ping_fallback
        yield "XGW-H: TCP, on the switch alone", self.tcp_resident
        yield "XGW-H: TCP, fallback to x86", self.tcp_fallback
        yield "XGW-H: service and internet", self.ends_on_x86
        yield "XGW-H: trace against packets", self.trace
        yield "XGW-H: policy set, and reset", self.policy
        yield "XGW-H: fallback flooded", self.flood
        yield "XGW-H: agent restarted", self.restart_agent
        yield "XGW-H: switch killed", self.kill_switch


def moved_drop(before, after, reason):
    return after["drops"].get(reason, 0) - before["drops"].get(reason, 0)


def words(moved):
    return "carried: " + ", ".join("%s %d" % item for item in sorted(moved.items()))
