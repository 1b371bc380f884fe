#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""check.py INPUT.cu OUTPUT.cu REPORT.json WARNINGS COLLECTIVES.def [MACRO]...

Takes the replaced names in the output back and compares with the input, byte for byte; then looks for
host communication that remains, which a warning must name. Lines under #ifdef count when the MACRO was
defined."""
import json
import re
import sys

input_path, output_path, report_path, warnings_path, table_path = sys.argv[1:6]
macros = sys.argv[6:]
with open(input_path, "rb") as f:
    original = f.read()
with open(output_path, "rb") as f:
    output = f.read()
with open(report_path) as f:
    report = json.load(f)
with open(warnings_path) as f:
    warnings = f.read()
with open(table_path) as f:
    collectives = dict(re.findall(r'^COLL\(\w+, "(\w+)", "(\w+)"', f.read(), re.M))
by_entry = {entry: nccl for nccl, entry in collectives.items()}

OTHER = {
    "symmetric_malloc": "cudaMalloc", "symmetric_free": "cudaFree",
    "group_start": "ncclGroupStart", "group_end": "ncclGroupEnd",
    "comm_init_rank": "ncclCommInitRank", "comm_init_all": "ncclCommInitAll",
    "comm_init_rank_config": "ncclCommInitRankConfig",
    "comm_init_rank_scalable": "ncclCommInitRankScalable",
    "comm_split": "ncclCommSplit", "comm_destroy": "ncclCommDestroy",
    "comm_finalize": "ncclCommFinalize", "comm_abort": "ncclCommAbort",
}

failures = []
if macros and report["summary"]["regions"] == 0:  # a form without NCCL
    sys.exit(0 if output == original else "no region, and yet something changed")
at = list(re.finditer(rb'^#line 1 "[^"\n]*"\n', output, re.M))
if not at:
    sys.exit("no #line directive before the user's text")
text = output[at[-1].end():]


def back(m):
    name = m.group(2).decode()
    table = by_entry if m.group(1) else OTHER
    if name not in table:
        failures.append(f"unknown name {name} in the output")
    return table.get(name, name).encode()


restored = re.sub(rb"\bcucocc::(region_\d+::)?(\w+)", back, text)
if restored != original:
    a, b = restored.split(b"\n"), original.split(b"\n")
    for i, (x, y) in enumerate(zip(a, b)):
        if x != y:
            failures.append(f"line {i + 1} differs: {x!r} for {y!r}")
            break
    else:
        failures.append("the user's text has another length")

name = input_path.rsplit("/", 1)[-1]
active = [True]
for i, line in enumerate(text.decode().split("\n"), 1):
    directive = re.match(r"#(ifdef|ifndef|if|else|endif)\b\s*(\w*)", line)
    if directive:
        kind, macro = directive.groups()
        if kind in ("ifdef", "ifndef"):
            active.append((macro in macros) == (kind == "ifdef"))
        elif kind == "if":
            active.append(True)
        elif kind == "else":
            active[-1] = not active[-1]
        else:
            active.pop()
        continue
    if not all(active):
        continue
    code = re.sub(r"//.*|\"[^\"]*\"", "", line)
    for m in re.finditer(r"\b(nccl\w+)\s*\(", code):
        if m.group(1) not in collectives:
            continue
        named = re.search(rf"{re.escape(name)}:{i}:\d+: .*\[CU0401\]", warnings)
        if not named:
            failures.append(f"line {i}: {m.group(1)} stays, and no warning says so")

summary = report["summary"]
if summary["translated"] + summary["host"] != summary["regions"]:
    failures.append(f"the report does not add up: {summary}")
if summary["translated"] == 0:
    failures.append("nothing was translated")
if summary["host"] != len(set(re.findall(r"^(\S+): .*\[CU0401\]", warnings, re.M))) and summary["host"] == 0:
    failures.append("the report knows of no host call, the warnings do")

print("\n".join(failures))
sys.exit(bool(failures))
