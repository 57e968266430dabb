"""A picture of the region: SVG for a browser, lines for a terminal."""

import html

COLORS = ("#4c78a8", "#f58518", "#54a24b", "#b279a2", "#e45756", "#72b7b2", "#9d755d",
          "#bab0ac", "#59a14f")
FILLS = {"x86": "#e3f2fd", "xgw-h": "#e8f5e9", "lb": "#fce4ec"}
TITLES = {"x86": "XGW-x86", "xgw-h": "XGW-H", "lb": "front"}
BOX, GAP = 236, 24


def width_of(lab):
    """A column for the controller, each gateway, the remotes."""
    return (2 + len(lab.members)) * (BOX + GAP) + 40


def color_of(lab, tenant):
    shown = list(dict.fromkeys(vm.tenant.vni for vm in lab.vms))
    return COLORS[shown.index(tenant.vni) % len(COLORS)] if tenant.vni in shown else "#888"


class Svg:
    def __init__(self, width):
        self.width, self.parts = width, []

    def box(self, x, y, w, h, fill="#fff", stroke="#555", title=None, dash=False):
        self.parts.append(
            '<rect x="%d" y="%d" width="%d" height="%d" rx="6" fill="%s" stroke="%s"%s/>' % (
                x, y, w, h, fill, stroke, ' stroke-dasharray="5 4"' if dash else ""))
        if title:
            self.text(x + 10, y + 20, title, bold=True)

    def text(self, x, y, words, bold=False, fill="#222", size=13):
        self.parts.append('<text x="%d" y="%d" font-size="%d" fill="%s"%s>%s</text>' % (
            x, y, size, fill, ' font-weight="bold"' if bold else "", html.escape(words)))

    def line(self, x1, y1, x2, y2, dash=False, stroke="#777"):
        self.parts.append('<line x1="%d" y1="%d" x2="%d" y2="%d" stroke="%s" '
                          'stroke-width="1.6"%s/>' % (x1, y1, x2, y2, stroke,
                          ' stroke-dasharray="5 4"' if dash else ""))

    def page(self, height):
        return ('<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" '
                'font-family="sans-serif">\n<rect width="100%%" height="100%%" '
                'fill="#fafafa"/>\n%s\n</svg>\n' % (self.width, height, "\n".join(self.parts)))


def svg(lab, counts):
    """`counts`: lines about what the tables hold, for the foot of the picture."""
    members, last = lab.balancers + lab.switches + lab.gateways, GAP + (1 + len(lab.members)) * (BOX + GAP)
    s = Svg(width_of(lab))
    right = s.width - GAP // 2
    s.text(GAP, 32, "Region \u201clab\u201d", bold=True, size=20)
    middle = 380
    s.box(GAP, 50, BOX, 96, "#fff8e1", title="xgw-controller")
    s.text(GAP + 10, 92, "desired state in SQLite", size=12)
    s.text(GAP + 10, 112, "REST and gRPC on 127.0.0.1", size=12)
    for n, g in enumerate(members):
        x = GAP + (n + 1) * (BOX + GAP)
        s.box(x, 50, BOX, 66, "#fff8e1", title="xgw-agent " + g.name)
        s.text(x + 10, 94, "P4Runtime below, TLS both ways" if g.backing else
               "gRPC over TLS to the controller", size=12)
        s.box(x, 150, BOX, 124, FILLS[g.role],
              title="xgw-gateway %s, %s" % (g.name, TITLES[g.role]))
        for k, words in enumerate(("cluster %s, side %s%s" % (
                g.cluster, g.side, ", behind it " + g.backing if g.backing else ""),
                                   "VIP %s  %s" % (g.vip4, g.vip6),
                                   "VTEP %s  %s" % (g.vtep4, g.vtep6),
                                   {"xgw-h": "the chip's tables in software",
                                    "lb": "VNI \u2192 cluster \u2192 a node that is up"}.get(
                                        g.role, "fallback %s" % g.fallback4))):
            s.text(x + 10, 194 + 22 * k, words, size=12)
        if g.backing:  # metered, by the underlay: drawn to the node that takes it
            to = GAP + (members.index(next(b for b in members if b.cluster == g.backing)) + 1
                        ) * (BOX + GAP)
            s.line(x + BOX, 240, to, 240, stroke="#e45756")
            s.text(x + BOX // 2 + 10, 292, "fallback, metered \u2192", size=11,
                   fill="#e45756")
        s.line(x + BOX // 2, 116, x + BOX // 2, 150)
        s.line(x + BOX // 2, 274, x + BOX // 2, middle)
        s.line(x + BOX // 2, 38, x + BOX // 2, 50, dash=True)
    s.line(GAP + BOX - 30, 38, GAP + len(members) * (BOX + GAP) + BOX // 2, 38, dash=True)
    s.line(GAP + BOX - 30, 38, GAP + BOX - 30, 50, dash=True)
    s.text(GAP, 182, "Peered VPCs", bold=True)
    for n, (one, other) in enumerate(lab.peerings):
        s.text(GAP, 204 + 20 * n, "%s \u2013 %s: %s" % (
            one.name, other.name,
            "both on " + one.steered_to if one.steered_to == other.steered_to
            else "%s and %s" % (one.steered_to, other.steered_to)), size=12)
    s.text(GAP, 204 + 20 * len(lab.peerings), "the inventory's networks, each with each",
           size=12)
    s.text(GAP, 234 + 20 * len(lab.peerings), "A colour is a VPC; solid lines carry", size=12)
    s.text(GAP, 250 + 20 * len(lab.peerings), "packets, dashed ones tables.", size=12)
    for n, r in enumerate(lab.remotes):
        x, y = last, 50 + n * 156
        s.box(x, y, BOX, 140, "#f3e5f5", title=r.node.name)
        for k, words in enumerate(("kernel VXLAN, VNI %d" % r.vni,
                                   "endpoint " + r.node.ip(r.node.family),
                                   r.host4, r.host6)):
            s.text(x + 10, y + 46 + 22 * k, words, size=12)
    s.line(right, 120, right, middle)
    for n in range(len(lab.remotes)):
        s.line(last + BOX, 120 + n * 156, right, 120 + n * 156)
    s.box(GAP, middle, s.width - GAP - 6, 44, "#eceff1", title="underlay: a routing namespace, "
          "IPv4 and IPv6, MTU 1500")
    tallest = max(sum(vm.nc is nc for vm in lab.vms) for nc in lab.ncs)
    for n, nc in enumerate(lab.ncs):
        x, y = GAP + n * (BOX + GAP), middle + 84
        s.line(x + BOX // 2, middle + 44, x + BOX // 2, y)
        s.box(x, y, BOX, 60 + tallest * 66, title="NC %s, kernel VXLAN" % nc.name)
        s.text(x + 10, y + 42, nc.ip(nc.family), size=12)
        for k, vm in enumerate(v for v in lab.vms if v.nc is nc):
            at = y + 56 + k * 66
            s.box(x + 10, at, BOX - 20, 58, "#fff", color_of(lab, vm.tenant))
            s.text(x + 18, at + 18, "VM %s, %s" % (vm.name, vm.tenant.name[:18]), bold=True,
                   fill=color_of(lab, vm.tenant), size=12)
            s.text(x + 18, at + 34, vm.ip4 or vm.ip6, size=11)
            s.text(x + 18, at + 49, "%sVNI %d on %s" % (
                vm.ip6 + "  " if vm.ip4 and vm.ip6 and len(vm.ip6) < 16 else "",
                vm.tenant.vni, vm.tenant.steered_to), size=11)
    foot = middle + 84 + 60 + tallest * 66 + 30
    for k, words in enumerate(counts):
        s.text(GAP, foot + 20 * k, words, size=13)
    return s.page(foot + 20 * len(counts) + 10)


def ascii_lines(lab):
    members = lab.balancers + lab.switches + lab.gateways
    boxes = [["xgw-agent".center(13), "|".center(13), "+-----------+", "| %-9s |" % g.name,
              "| %-9s |" % g.cluster, "+-----------+", "|".center(13)] for g in members]
    boxes += [["", "", "+---------+", "| %-7s |" % r.node.name, "|VNI %4d |" % r.vni,
               "+---------+", "|".center(11)] for r in lab.remotes]
    widths = [max(map(len, box)) for box in boxes]
    out = ["   xgw-controller (SQLite; REST, gRPC) steers every agent"]
    for k in range(len(boxes[0])):
        out.append("   " + " ".join(box[k].ljust(w) for box, w in zip(boxes, widths)))
    out.append("   " + " underlay, v4 and v6 ".center(sum(widths) + len(widths) - 1, "="))
    cells = []
    for nc in lab.ncs:
        vms = [v for v in lab.vms if v.nc is nc]
        cells.append(["        |        ", "+---------------+",
                      "| %-4s %-8s |" % (nc.name, "v%d" % nc.family)]
                     + ["|  %-3s %-8s |" % (v.name, v.tenant.name[:8]) for v in vms])
    height = max(map(len, cells))
    for c in cells:
        c += ["|               |"] * (height - len(c)) + ["+---------------+"]
    out += ["   " + " ".join(row) for row in zip(*cells)]
    out += ["   %s hands what it cannot answer to %s, metered" % (h.name, h.backing)
            for h in lab.switches]
    out += ["   all that NCs send goes to %s, which hands it to the tenant's cluster" % b.name
            for b in lab.balancers]
    return [line.rstrip() for line in out]
