#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints what a translation did and what the graph shows, as text: summary.py IR.json REPORT.json"""
import json
import sys


MOST = 16  # dependences that are listed


def main():
    with open(sys.argv[1]) as f:
        ir = json.load(f)
    with open(sys.argv[2]) as f:
        report = json.load(f)

    s = report["summary"]
    print(f"{s['regions']} communication regions: {s['translated']} on the device, {s['host']} left on the host")
    for r in report["regions"]:
        region = r.get("region", {})
        what = ", ".join(str(r[k]) for k in ("backend", "placement", "sync") if k in r)
        reason = r.get("reason") or ""
        print(f"  line {region.get('line', '?'):>4}  {region.get('call', '?'):<18} {what}  {reason}")

    names = {n["id"]: n for n in ir.get("nodes", [])}

    def label(i):
        n = names.get(i, {})
        line = n.get("range", {}).get("line", 0)
        return f"{n.get('label') or n.get('kind', '?')} (line {line})" if line else str(n.get("label", i))

    deps = ir.get("deps", [])
    print(f"graph: {len(names)} nodes, {len(deps)} dependences")
    data = [d for d in deps if d.get("kind") in ("RAW", "WAR", "WAW") and not d.get("carried")
            and "Free" not in label(d["to"])]
    for d in data[:MOST]:
        print(f"  {label(d['from'])} --{d['kind']}--> {label(d['to'])}")
    if len(data) > MOST:
        print(f"  and {len(data) - MOST} more, and those from one iteration of a loop to the next: see the picture")
    for o in ir.get("overlaps", []):
        if o.get("kind") == "order_only":
            print(f"  could overlap: {label(o['a'])} and {label(o['b'])}: {o.get('why', '')}")


main()
