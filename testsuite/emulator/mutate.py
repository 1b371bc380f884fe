#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Mutation check: removes or weakens one synchronisation of a CUDA program at a time and looks whether it is caught.

  mutate.py --list FILE.cu
  mutate.py [--keep DIR] [--waive FILE] [--least PERCENT] FILE.cu -- COMMAND...

COMMAND runs one program on emulated ranks; `{}` in it stands for the program. It is run on FILE.cu itself first, which
must exit 0, then on every mutant: a mutant is caught when the command exits with another status or runs past
--timeout seconds. Survivors are listed. A mutant that is not wrong (a barrier that another one implies) is waived by a
line "RULE LINE-TEXT # reason" in the file given by --waive; the share is taken over the rest.
Exit status: 0 when the share reached --least (default 95), 1 when not, 2 on wrong usage.
"""
import argparse
import os
import re
import shlex
import subprocess
import sys
import tempfile

# (rule, pattern, replacement). Statements are replaced by an empty one, so that an `if` before them keeps its body.
REMOVALS = [
    ("block-barrier", r"\b__syncthreads\s*\(\s*\)\s*;", ";"),
    ("warp-barrier", r"\b__syncwarp\s*\([^;()]*(\([^()]*\)[^;()]*)*\)\s*;", ";"),
    ("fence", r"\b__threadfence(_system|_block)?\s*\(\s*\)\s*;", ";"),
    ("fence", r"\b(cuda::)?atomic_thread_fence\s*\([^;]*\)\s*;", ";"),
]
SWAPS = [
    ("fence-scope", r"\b__threadfence_system\b", "__threadfence"),
    ("order", r"\bmemory_order(_|::)(release|acquire|acq_rel|seq_cst)\b", r"memory_order\1relaxed"),
    ("half-order", r"\bmemory_order(_|::)acq_rel\b", r"memory_order\1acquire"),
    ("half-order", r"\bmemory_order(_|::)acq_rel\b", r"memory_order\1release"),
    ("scope", r"\bthread_scope_system\b", "thread_scope_device"),
]
# Calls of methods: receiver.NAME(arguments); removed as a statement.
METHODS = {
    "sync": "barrier",
    "arrive": "barrier-arrive",
    "wait": "barrier-wait",
    "waitSignal": "signal-wait",
    "waitCounter": "counter-wait",
    "waitSignalMeetShadow": "signal-wait",
    "waitSignalFollowShadow": "signal-wait",
    "flush": "flush",
    "signal": "signal",
}


def code_only(text):
    """TEXT with comments, literals and preprocessor lines blanked: same length, same lines."""
    pattern = r'(?m:^[ \t]*#(?:\\\n|[^\n])*)|//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\''
    return re.sub(pattern, lambda m: re.sub(r"[^\n]", " ", m.group(0)), text, flags=re.S)


def closing(code, start):
    """Index behind the parenthesis that closes the one at START, or -1."""
    depth = 0
    for i in range(start, len(code)):
        if code[i] == "(":
            depth += 1
        elif code[i] == ")":
            depth -= 1
            if depth == 0:
                return i + 1
    return -1


def method_sites(code):
    """(rule, start, end) of every statement RECEIVER.METHOD(...);"""
    names = "|".join(METHODS)
    for m in re.finditer(r"(?<![\w.>:])[A-Za-z_]\w*(?:(?:\.|->)\w+|\[[^\]]*\])*(?:\.|->)(%s)\s*\(" % names, code):
        end = closing(code, m.end() - 1)
        tail = re.match(r"\s*;", code[end:]) if end > 0 else None
        before = code[: m.start()].rstrip()
        if tail and (not before or before[-1] in ";{})" or before.endswith("else")):
            yield METHODS[m.group(1)], m.start(), end + tail.end()


def flag_sites(code):
    """(rule, start, end, text): stores through an atomic removed, loops that wait on an atomic made to pass at once."""
    for m in re.finditer(r"[;{})]\s*(?=[\w:]*(?:atomic_ref|Flag)\b[^;{}]*\.\s*store\s*\()", code):
        end = code.find(";", m.end())
        if end > 0:
            yield "flag-store", m.end(), end + 1, ";"
    for m in re.finditer(r"\bwhile\s*(\()", code):
        end = closing(code, m.start(1))
        if end > 0 and re.search(r"\.\s*load\s*\(", code[m.start() : end]):
            yield "flag-wait", m.start(1), end, "(false)"


def mutants(text):
    """(rule, line, mutated text) for every site of TEXT, in order of their places."""
    code = code_only(text)
    sites = []
    for rule, pattern, replacement in REMOVALS + SWAPS:
        for m in re.finditer(pattern, code):
            sites.append((m.start(), m.end(), rule, m.expand(replacement)))
    sites += [(a, b, rule, ";") for rule, a, b in method_sites(code)]
    sites += [(a, b, rule, new) for rule, a, b, new in flag_sites(code)]
    seen = set()
    for a, b, rule, new in sorted(sites):
        mutated = text[:a] + new + "\n" * text[a:b].count("\n") + text[b:]
        if mutated not in seen and mutated != text:
            seen.add(mutated)
            yield rule, text.count("\n", 0, a) + 1, mutated


def read_waivers(path):
    waivers = {}
    for line in open(path) if path else []:
        what, _, reason = line.partition("#")
        rule, _, code = what.strip().partition(" ")
        if rule:
            if not reason.strip():
                sys.exit("%s: a waiver needs a reason: %s" % (path, line.strip()))
            waivers[rule, " ".join(code.split())] = reason.strip()
    return waivers


def run(command, program, timeout):
    """0 when COMMAND finds nothing, else a word that says how it was caught."""
    argv = [a.replace("{}", program) for a in command]
    try:
        p = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                           timeout=timeout)
    except subprocess.TimeoutExpired:
        return "time"
    return "status %d" % p.returncode if p.returncode else 0


def main():
    argv = sys.argv[1:]
    command = []
    if "--" in argv:
        command = argv[argv.index("--") + 1 :]
        argv = argv[: argv.index("--")]
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--keep")
    parser.add_argument("--waive")
    parser.add_argument("--least", type=float, default=95)
    parser.add_argument("--timeout", type=float, default=60)
    parser.add_argument("program")
    args = parser.parse_args(argv)
    text = open(args.program).read()
    lines = text.split("\n")
    all_mutants = list(mutants(text))
    if args.list:
        for rule, line, _ in all_mutants:
            print("%s:%d: %s: %s" % (args.program, line, rule, lines[line - 1].strip()))
        print("%d mutants" % len(all_mutants))
        return 0
    if not command or not any("{}" in a for a in command):
        parser.error("the command after -- must contain {}")
    waivers = read_waivers(args.waive)
    how = run(command, args.program, args.timeout)
    if how:
        print("the program itself is not clean (%s): %s" % (how, shlex.join(command)))
        return 1
    caught = waived = 0
    survivors = []
    with tempfile.TemporaryDirectory() as scratch:
        folder = args.keep or scratch
        os.makedirs(folder, exist_ok=True)
        stem = os.path.splitext(os.path.basename(args.program))[0]
        for number, (rule, line, mutated) in enumerate(all_mutants):
            path = os.path.join(folder, "%s.%03d.cu" % (stem, number))
            # Quoted includes are looked for beside the original.
            here = os.path.abspath(os.path.dirname(args.program))
            local = re.sub(r'(?m)^(\s*#\s*include\s*)"([^"/][^"]*)"',
                           lambda m: '%s"%s"' % (m.group(1), os.path.join(here, m.group(2)))
                           if os.path.exists(os.path.join(here, m.group(2))) else m.group(0), mutated)
            with open(path, "w") as f:
                f.write(local)
            how = run(command, path, args.timeout)
            where = "%d: %s: %s" % (line, rule, lines[line - 1].strip())
            reason = waivers.get((rule, " ".join(lines[line - 1].split())))
            if how:
                caught += 1
                print("caught (%s) %s" % (how, where))
            elif reason:
                waived += 1
                print("waived (%s) %s" % (reason, where))
            else:
                survivors.append(where)
                print("SURVIVED %s" % where)
    wrong = caught + len(survivors)
    share = 100.0 * caught / wrong if wrong else 100.0
    print("%d mutants, %d caught, %d waived, %d survived: %.1f %%"
          % (len(all_mutants), caught, waived, len(survivors), share))
    return 0 if share >= args.least else 1


if __name__ == "__main__":
    sys.exit(main())
