#!/usr/bin/python3
"""What the Tofino compiler made of the image, read from its context.json files.

    fit.py OUT           tables, stages, SRAM, TCAM and PHV of each pipe
    fit.py --check OUT   1 when a table has fewer entries than it was declared with: the
                         compiler can leave half of an algorithmic TCAM unplaced and still
                         return 0; 77 when nothing was compiled
"""

import json
import pathlib
import sys

STAGES, SRAM_BLOCKS, TCAM_BLOCKS = 12, 80, 24  # of a pipe of Tofino 1, blocks a stage
PHV_CONTAINERS = 224  # 64 of 8 bit, 96 of 16, 64 of 32; without tagalong ones


def contexts(out):
    """(pipe, context) of each pipeline profile."""
    for path in sorted(pathlib.Path(out).glob("pipe*/context.json")):
        yield path.parent.name, json.loads(path.read_text())


def match_tables(context):
    """(name, declared, placed, stages) of the program's own tables."""
    for t in context["tables"]:
        if t.get("table_type") != "match" or t["name"].startswith("tbl_") or "$" in t["name"]:
            continue
        attributes = t["match_attributes"]
        if attributes.get("match_type") == "algorithmic_lpm":
            continue
        parts = list(attributes.get("stage_tables", []))
        for unit in attributes.get("units", []):
            parts += unit["match_attributes"]["stage_tables"]
        yield (t["name"], t["size"], sum(s["size"] for s in parts),
               sorted({s["stage_number"] for s in parts}))


def short_tables(context):
    return [(name, declared, placed) for name, declared, placed, _ in match_tables(context)
            if placed < declared]


def memory_units(node, stage=None):
    """(kind, stage, unit) of every SRAM and TCAM block.  Those of an algorithmic TCAM
    have no kind of their own: they are SRAM."""
    if isinstance(node, list):
        for item in node:
            yield from memory_units(item, stage)
    elif isinstance(node, dict):
        stage = node.get("stage_number", stage)
        kind = node.get("memory_type", "sram")
        if kind in ("sram", "tcam"):
            for part in node.get("memory_units_and_vpns", []):
                for unit in part["memory_units"]:
                    yield kind, stage, unit
            spare = node.get("spare_bank_memory_unit")
            for unit in spare if isinstance(spare, list) else [spare]:
                if unit is not None:
                    yield kind, stage, unit
        for item in node.values():
            if isinstance(item, (dict, list)):
                yield from memory_units(item, stage)


def blocks_of(context):
    """{table: its blocks}; action data ("vni$action") is the table's."""
    of = {}
    for t in context["tables"]:
        of.setdefault(t["name"].split("$")[0], set()).update(memory_units(t))
    return of


def phv_containers(context):
    used = set()
    for stage in context.get("phv_allocation", []):
        for gress in ("ingress", "egress"):
            used |= {f["phv_number"] for f in stage.get(gress, [])}
    return len({n for n in used if n < PHV_CONTAINERS})


def usage(context):
    """{"sram": blocks, "tcam": blocks, "phv": containers, "stages": {gress: n}}"""
    blocks = set().union(*blocks_of(context).values())
    stages = {}
    for t in context["tables"]:
        for _, stage, _ in memory_units(t):
            stages.setdefault(t.get("direction", "?"), set()).add(stage)
    return {"sram": sum(k == "sram" for k, _, _ in blocks),
            "tcam": sum(k == "tcam" for k, _, _ in blocks),
            "phv": phv_containers(context),
            "stages": {g: max(s) + 1 for g, s in stages.items()}}


def percent(part, whole):
    return 100.0 * part / whole


def report(out):
    for pipe, context in contexts(out):
        u = usage(context)
        print("%s: SRAM %d of %d (%.1f %%), TCAM %d of %d (%.1f %%), PHV %d of %d (%.0f %%)" % (
            pipe, u["sram"], STAGES * SRAM_BLOCKS, percent(u["sram"], STAGES * SRAM_BLOCKS),
            u["tcam"], STAGES * TCAM_BLOCKS, percent(u["tcam"], STAGES * TCAM_BLOCKS),
            u["phv"], PHV_CONTAINERS, percent(u["phv"], PHV_CONTAINERS)))
        print("    last stage with memory: %s" % ", ".join(
            "%s %d of %d" % (g, n, STAGES) for g, n in sorted(u["stages"].items())))
        placed = {name: rest for name, *rest in match_tables(context)}
        for name, blocks in sorted(blocks_of(context).items()):
            kinds = [k for k, _, _ in blocks]
            if blocks or name in placed:
                print("    %-40s SRAM %3d  TCAM %3d  %s" % (
                    name, kinds.count("sram"), kinds.count("tcam"),
                    "%7d of %7d  stages %s" % (
                        placed[name][1], placed[name][0], " ".join(map(str, placed[name][2])))
                    if name in placed else ""))


def check(out):
    found = list(contexts(out))
    if not found:
        print("skipped: no image for Tofino was compiled (p4/README.md says how to)")
        return 77
    status = 0
    for pipe, context in found:
        for name, declared, placed in short_tables(context):
            print("%s: %s: %d of %d entries placed" % (pipe, name, placed, declared))
            status = 1
    if len(found) != 2:
        print("%d pipeline profiles, not 2" % len(found))
        status = 1
    return status


if __name__ == "__main__":
    if sys.argv[1] == "--check":
        sys.exit(check(sys.argv[2]))
    report(sys.argv[1])
