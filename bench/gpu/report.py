# SPDX-License-Identifier: Apache-2.0
"""The report of bench/run.py as text, Markdown and SVG, from its results.json."""
import os
from html import escape

COLOURS = {"host": "#7f7f7f", "fast": "#1f77b4", "evolve": "#2ca02c", "limit": "#d62728", "ideal": "#d62728"}
TITLES = {"host": "host-driven", "fast": "fast path", "evolve": "evolve"}


def number(x, digits=3):
    """A time or ratio in DIGITS significant digits, or a dash."""
    if x is None:
        return "-"
    if x == 0:
        return "0"
    text = "%.*g" % (digits, x)
    return "%.0f" % float(text) if "e" in text and abs(x) >= 1 else text


def percent(x):
    return "-" if x is None else "%.0f %%" % (100 * x)


def alone(r, part):
    return r["alone"].get(part, {}).get("median")


def line(r):
    """One result as one line of text."""
    out = "%-28s %-24s" % (r["family"], r["label"])
    out += " comp %8s comm %8s limit %5s |" % (
        number(alone(r, "compute")), number(alone(r, "comm")), number(r.get("limit")))
    for name, f in r["forms"].items():
        out += " %s %s ms ±%s%s%s" % (
            name, number(f["median"], 4), percent((f["q3"] - f["q1"]) / 2 / f["median"] if f["median"] else 0),
            "" if name == "host" else " x%s eta %s" % (number(f.get("speedup")), number(f.get("eta"), 2)),
            "" if f["verified"] else " WRONG")
        out += ";"
    return out


def markdown(doc):
    m = doc["machine"]
    out = ["# Measured", ""]
    out += ["- %d rank(s) on %d GPU(s): %s" % (m["ranks"], m["gpus"], "; ".join(m["gpu"]) or "?"),
            "- NCCL %s, %s, %s" % (m["nccl"], " ".join(m["nvcc"]), m["host"]),
            "- %s; %d runs of each form, taking turns, %d warm-up iterations in each; %s before each region; "
            "NVLink multicast %s" % (m["date"], m["rounds"], m["warmup"],
                                     "%d MiB written" % m["flush_mib"] if m["flush_mib"] else "L2 left warm",
                                     "on" if m["nvls"] else "off"), "",
            "Times in milliseconds, maximum over ranks, median of all timed iterations ± half the interquartile "
            "range; *runs* is the spread of the runs' own medians. Limit = (compute + communication) / max(compute, "
            "communication), each measured alone in the host-driven program. η = share of the ideal gain reached, "
            "(serial − T)/(serial − ideal); E = FLUX's overlap efficiency 1 − (T − compute)/(T of host − compute). "
            "A speed-up in parentheses is inside the noise (the 95 % intervals of the medians overlap).", ""]
    for family in dict.fromkeys(r["family"] for r in doc["results"]):
        out += ["## " + family, "",
                "| size | compute | comm. | limit | form | time | runs | speed-up | η | E | memory | verified |",
                "|---|---|---|---|---|---|---|---|---|---|---|---|"]
        for r in (x for x in doc["results"] if x["family"] == family):
            first = True
            for name, f in r["forms"].items():
                head = [r["label"], number(alone(r, "compute")), number(alone(r, "comm")),
                        number(r.get("limit"))] if first else [""] * 4
                first = False
                speed = "" if name == "host" else number(f.get("speedup"))
                if speed and not f.get("significant"):
                    speed = "(" + speed + ")"
                out.append("| " + " | ".join(head + [
                    TITLES[name] + (" (host calls)" if f.get("host_calls") else ""),
                    "%s ± %s" % (number(f["median"], 4), number((f["q3"] - f["q1"]) / 2, 2)),
                    percent(f["spread"]), speed, number(f.get("eta"), 2), number(f.get("overlap"), 2),
                    "%.0f MiB" % (f["peak_bytes"] / 2**20), "yes" if f["verified"] else "NO"]) + " |")
            if "fast comm" in r["alone"]:
                out.append("|  |  | %s |  | fast path, communication alone |  |  |  |  |  |  |  |" %
                           number(alone(r, "fast comm")))
        out.append("")
    if doc["not_run"]:
        out += ["Not run (time budget): " + "; ".join(doc["not_run"]), ""]
    if doc["failures"]:
        out += ["Failures:", ""] + ["- " + " ".join(x.split())[:300] for x in doc["failures"]] + [""]
    return "\n".join(out)


class Svg:
    def __init__(self, width, height):
        self.width, self.height, self.parts = width, height, []

    def add(self, text):
        self.parts.append(text)

    def text(self, x, y, s, anchor="start", size=11, colour="#222"):
        self.add('<text x="%.1f" y="%.1f" text-anchor="%s" font-size="%d" fill="%s">%s</text>' %
                 (x, y, anchor, size, colour, escape(s)))

    def rect(self, x, y, w, h, colour, title=""):
        self.add('<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="%s"><title>%s</title></rect>' %
                 (x, y, max(w, 0.0), h, colour, escape(title)))

    def rule(self, x1, y1, x2, y2, colour="#bbb", width=1.0):
        self.add('<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="%s" stroke-width="%.1f"/>' %
                 (x1, y1, x2, y2, colour, width))

    def save(self, path):
        with open(path, "w") as f:
            f.write('<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" font-family="sans-serif">\n'
                    '<rect width="100%%" height="100%%" fill="white"/>\n%s\n</svg>\n' %
                    (self.width, self.height, "\n".join(self.parts)))


def bars(results, path, title, value, forms, mark, reference):
    """Horizontal bars, one group a result: VALUE(result, form) for FORMS, a red tick at MARK(result)."""
    rows = [r for r in results if any(value(r, f) is not None for f in forms)]
    if not rows:
        return
    left, scale_width, bar, gap = 330, 520, 11, 9
    most = max([reference * 1.1] + [v for r in rows for v in [mark(r)] + [value(r, f) for f in forms] if v is not None])
    most = min(most, reference * 6)
    height = 60 + sum(gap + bar * sum(value(r, f) is not None for f in forms) for r in rows)
    s = Svg(left + scale_width + 80, height)
    s.text(10, 18, title, size=14)
    x = left
    for f in forms:
        s.rect(x, 26, 10, 10, COLOURS[f])
        s.text(x + 14, 35, TITLES[f])
        x += 100
    s.rule(x, 26, x, 36, COLOURS["ideal"], 2)
    s.text(x + 6, 35, "limit")
    steps = 4 if most <= reference * 3 else 2
    for i in range(int(most / reference * steps) + 1):
        v = i * reference / steps
        at = left + v / most * scale_width
        s.rule(at, 44, at, height - 8, "#999" if v == reference else "#e4e4e4")
        s.text(at, height - 0.5, number(v), "middle", 9)
    y = 48
    for r in rows:
        shown = [f for f in forms if value(r, f) is not None]
        s.text(left - 8, y + bar * len(shown) / 2 + 4, r["family"] + ", " + r["label"], "end")
        top = y
        for f in shown:
            v = value(r, f)
            s.rect(left, y, min(v, most) / most * scale_width, bar - 1, COLOURS[f], "%s: %s" % (TITLES[f], number(v)))
            s.text(left + min(v, most) / most * scale_width + 3, y + bar - 2, number(v), size=9, colour="#555")
            y += bar
        if mark(r) is not None and mark(r) <= most:
            at = left + mark(r) / most * scale_width
            s.rule(at, top - 1, at, y, COLOURS["ideal"], 2)
        y += gap
    s.save(path)


def write(doc, out):
    """Writes results.md and the plots into folder OUT."""
    os.makedirs(out, exist_ok=True)
    with open(os.path.join(out, "results.md"), "w") as f:
        f.write(markdown(doc))
    results = doc["results"]

    def relative(r, form):
        t = r["forms"].get(form, {}).get("median")
        return t / r["serial"] if t is not None and r.get("serial") else None

    bars(results, os.path.join(out, "speedup.svg"), "Speed-up over the host-driven program",
         lambda r, form: r["forms"].get(form, {}).get("speedup"), ("fast", "evolve"), lambda r: r.get("limit"), 1.0)
    bars(results, os.path.join(out, "times.svg"), "Time / (compute alone + communication alone)",
         relative, ("host", "fast", "evolve"), lambda r: r["ideal"] / r["serial"] if r.get("serial") else None, 1.0)
