#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Builds and times every example three ways on a machine with GPUs: host-driven (as it was written),
translated (--fast-path) and, where given, the winner of -O evolve.

The forms take turns, each run in processes of its own; within a run, times are those of the timed
region, maximum over the ranks, one per iteration. See bench/gpu/wrap.cc for what is measured and how
computation and communication alone are got, docs/results.md for how to read the report.
Needs python3, nvcc, NCCL (NCCL_HOME) and MPI (MPI_HOME); writes results.json, results.md and SVG plots.
"""
import argparse
import json
import math
import os
import platform
import shutil
import statistics
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "gpu"))
import plan  # noqa: E402
import report  # noqa: E402

WRAPPED = ("MPI_Barrier MPI_Allreduce MPI_Finalize _ZNSt6chrono3_V212steady_clock3nowEv "
           "__cudaRegisterFunction __cudaGetKernel __cudaLaunchKernel cublasGemmEx ncclAllReduce "
           "ncclReduceScatter ncclReduce ncclAllGather ncclAlltoAll ncclBroadcast ncclBcast ncclGather "
           "ncclScatter ncclSend ncclRecv").split()
WRAP = ",".join("--wrap=" + s for s in WRAPPED)
FORMS = ("host", "fast", "evolve")


def arguments():
    p = argparse.ArgumentParser(description=__doc__.split("\n\n")[0],
                                formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    p.add_argument("--gpus", type=int, help="GPUs to use (those that nvidia-smi lists)")
    p.add_argument("--ranks", type=int, help="ranks (as many as GPUs; more share them, NCCL 2.30 or newer)")
    p.add_argument("--originals", default=os.path.join(HERE, "..", "examples"), help="folder of NAME.cu")
    p.add_argument("--translated", help="folder of NAME.cu and NAME.MACRO.cu from bench/translate.sh")
    p.add_argument("--evolved", help="folder of winners: NAME.cu, NAME.MACRO.cu, or NAME.MACRO@SIZE.cu")
    p.add_argument("--work", default="bench-work", help="scratch folder")
    p.add_argument("--out", default="bench-results", help="where the report goes")
    p.add_argument("--quick", action="store_true", help="few sizes")
    p.add_argument("--only", default="", help="families or examples, divided by commas")
    p.add_argument("--rounds", type=int, default=0, help="runs of each form of each size, taking turns (0: 3, or 2 with --quick)")
    p.add_argument("--warmup", type=int, default=5, help="iterations before the timed ones in each run")
    p.add_argument("--scale", type=float, default=1.0, help="factor on the number of iterations")
    p.add_argument("--budget", type=float, default=0, help="seconds after which no new size begins (0: no limit)")
    p.add_argument("--timeout", type=float, default=60, help="seconds for one run")
    p.add_argument("--flush", type=int, default=256, help="MiB written before each region, so that L2 is cold; 0: warm")
    p.add_argument("--nvls", action="store_true", help="let NCCL use NVLink multicast")
    p.add_argument("--arch", default="sm_90")
    p.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="compilations at a time")
    p.add_argument("--dry-run", action="store_true", help="print the plan and stop")
    p.add_argument("--build-only", action="store_true", help="compile and stop")
    p.add_argument("--no-build", action="store_true", help="use what an earlier --build-only made")
    p.add_argument("--render", metavar="JSON", help="write the report of an earlier run again and stop")
    p.add_argument("--resume", metavar="JSON", help="results to go on from: sizes that are there are not measured again")
    a = p.parse_args()
    a.rounds = a.rounds or (2 if a.quick else 3)
    return a


def capture(command):
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=30).stdout.strip()
    except (OSError, subprocess.TimeoutExpired):
        return ""


def slug(text):
    return "".join(c if c.isalnum() or c in "._-" else "_" for c in text)


class Bench:
    def __init__(self, a):
        self.a = a
        self.nvcc = os.environ.get("NVCC", "nvcc")
        self.nccl = os.environ.get("NCCL_HOME", "")
        self.mpi = os.environ.get("MPI_HOME", "")
        self.gpus = a.gpus or len([x for x in capture(["nvidia-smi", "-L"]).splitlines() if x.startswith("GPU")])
        self.ranks = a.ranks or self.gpus
        self.points = plan.points(a.quick, [x for x in a.only.split(",") if x])
        if self.ranks > self.gpus:  # ranks of one process would wait for each other's kernels
            self.points = [p for p in self.points if p["mpi"]]
        self.start = time.monotonic()
        self.failures = []

    # ---- sources and programs ----

    def source(self, form, point):
        """The file of a form of a point, or None."""
        name, macro, label = point["example"], point["macro"], slug(point["label"])
        stem = name + ("." + macro if macro else "")
        if form == "host":
            return os.path.join(self.a.originals, name + ".cu")
        folder = self.a.translated if form == "fast" else self.a.evolved
        if not folder:
            return None
        tries = [stem + ".cu"] if form == "fast" else [stem + "@" + label + ".cu", stem + ".cu"]
        for t in tries:
            path = os.path.join(folder, t)
            if os.path.exists(path):
                return path
        return None

    def program(self, form, point):
        source = self.source(form, point)
        if not source:
            return None
        stem = os.path.basename(source)[:-3]
        if form == "host" and point["macro"]:
            stem += "." + point["macro"]
        return os.path.join(self.a.work, slug(stem) + "." + form)

    def flags(self):
        f = ["-std=c++17", "-O3", "-arch=" + self.a.arch, *os.environ.get("NVCCFLAGS", "").split()]
        for home in (self.nccl, self.mpi):
            if home:
                f += ["-I" + os.path.join(home, "include")]
        return f

    def libraries(self):
        f = []
        for home in (self.nccl, self.mpi):
            if home:
                f += ["-L" + os.path.join(home, "lib"), "-Xlinker", "-rpath=" + os.path.join(home, "lib")]
        return f + ["-lnccl", os.environ.get("MPI_LIB", "-lmpi"), "-lcublas"]

    def builds(self):
        """Every program that the plan needs: {program: (source, macro)}."""
        out = {}
        for p in self.points:
            for form in FORMS:
                program = self.program(form, p)
                if program:
                    out[program] = (self.source(form, p), p["macro"])
        return out

    def compile_command(self, program, source, macro):
        return [self.nvcc, *self.flags(), *(["-D" + macro] if macro else []), source,
                os.path.join(self.a.work, "wrap.o"), "-o", program, "-Xlinker", WRAP,
                *self.libraries()]

    def build(self):
        os.makedirs(self.a.work, exist_ok=True)
        wrap = [self.nvcc, *self.flags(), "-c", os.path.join(HERE, "gpu", "wrap.cc"), "-o",
                os.path.join(self.a.work, "wrap.o")]
        subprocess.run(wrap, check=True)

        def one(item):
            program, (source, macro) = item
            r = subprocess.run(self.compile_command(program, source, macro), capture_output=True, text=True)
            return program, r.returncode, r.stderr

        with ThreadPoolExecutor(max_workers=max(1, self.a.jobs)) as pool:
            for program, status, text in pool.map(one, self.builds().items()):
                if status:
                    self.failures.append("does not compile: %s: %s" % (program, text.strip()[-400:]))
                    print(self.failures[-1], flush=True)

    # ---- runs ----

    def environment(self):
        env = dict(os.environ)
        if not self.a.nvls:
            env["NCCL_NVLS_ENABLE"] = "0"
        if self.ranks > self.gpus:
            env["NCCL_MULTI_RANK_GPU_ENABLE"] = "1"
        if self.a.gpus and "CUDA_VISIBLE_DEVICES" not in env:
            env["CUDA_VISIBLE_DEVICES"] = ",".join(str(i) for i in range(self.a.gpus))
        path = [os.path.join(h, "lib") for h in (self.nccl, self.mpi) if h]
        if path:
            env["LD_LIBRARY_PATH"] = ":".join(path + [x for x in [env.get("LD_LIBRARY_PATH")] if x])
        return env

    def run_command(self, program, point, iters, only):
        mpiexec = os.path.join(self.mpi, "bin", "mpiexec") if self.mpi else "mpiexec"
        launch = [mpiexec, "-n", str(self.ranks)] if point["mpi"] else []
        options = list(point["options"])
        if only == "compute" and point["unsplit"]:
            options += point["unsplit"]
        warmup = min(self.a.warmup, max(1, iters))
        options += ["--iters", str(iters), "--warmup", str(warmup)]
        if point["checks"]:
            options += ["--check-every", str(iters)]  # the first timed iteration and the last
        if not point["mpi"]:
            options += ["--ranks", str(self.ranks)]
        return [*launch, os.path.abspath(program), *options]

    def run(self, form, point, only=""):
        """Times of one run in milliseconds, maximum over ranks, and what else it told; None if it failed."""
        iters = max(2, int(point["iters"] * self.a.scale))
        program = self.program(form, point)
        records = os.path.abspath(os.path.join(self.a.work, "times"))
        for f in os.listdir(self.a.work):
            if f.startswith("times."):
                os.remove(os.path.join(self.a.work, f))
        env = self.environment()
        env.update(CUCOCC_BENCH_OUT=records, CUCOCC_BENCH_ONLY=only, CUCOCC_BENCH_KEEP=point["keep"],
                   CUCOCC_BENCH_FLUSH=str(self.a.flush << 20))
        command = self.run_command(program, point, iters, only)
        what = "%s %s, %s%s" % (point["family"], point["label"], form, " " + only + " alone" if only else "")
        began = time.monotonic()
        try:
            r = subprocess.run(command, capture_output=True, text=True, env=env, timeout=self.a.timeout)
            status, text = r.returncode, r.stdout + r.stderr
        except subprocess.TimeoutExpired as e:
            status, text = "time limit", "".join(
                x if isinstance(x, str) else (x or b"").decode(errors="replace") for x in (e.stdout, e.stderr))
        seconds = time.monotonic() - began
        told = []
        for f in sorted(os.listdir(self.a.work)):
            if f.startswith("times."):
                with open(os.path.join(self.a.work, f)) as h:
                    told.append(json.load(h))
        # Without communication, or without computation, results are wrong by design.
        if status != 0 and not (only and status == 1):
            self.failures.append("%s: exit status %s: %s" % (what, status, text.strip()[-300:]))
            print("  FAIL " + self.failures[-1], flush=True)
            return None
        if point["mpi"]:
            ms = next((t["threads"][0]["max"] for t in told if t["rank"] == 0 and t["threads"]), [])
        else:
            threads = [t["mine"][-iters:] for x in told for t in x["threads"]]
            ms = [max(v) for v in zip(*threads)]
        if len(ms) != iters:
            self.failures.append("%s: %d times of %d" % (what, len(ms), iters))
            print("  FAIL " + self.failures[-1], flush=True)
            return None
        return dict(ms=ms, peak_bytes=max((t["peak_bytes"] for t in told), default=0),
                    verified=("Verification: PASS" in text) if not only else None, seconds=round(seconds, 2),
                    skipped=[sum(t[k] for t in told) for k in ("skipped_calls", "skipped_kernels")],
                    host_calls="uses host calls" in text)

    def measure(self, point):
        forms = [f for f in FORMS if self.program(f, point) and os.path.exists(self.program(f, point))]
        runs = {f: [] for f in forms}
        alone = {}
        for r in range(self.a.rounds):
            for i in range(len(forms)):
                f = forms[(i + r) % len(forms)]  # every form goes first equally often
                if f in runs:
                    got = self.run(f, point)
                    if got is None:
                        del runs[f]
                    else:
                        runs[f].append(got)
            for part in ("compute", "comm"):
                if r == 0 and "host" in runs:
                    alone[part] = self.run("host", point, part)
                    if part == "comm" and "fast" in runs:
                        alone["fast comm"] = self.run("fast", point, part)
        result = dict(family=point["family"], example=point["example"], label=point["label"],
                      options=point["options"], ranks=self.ranks)
        result["forms"] = {f: summary(v) for f, v in runs.items() if v}
        result["alone"] = {k: summary([v]) for k, v in alone.items() if v}
        return derive(result)

    # ---- all ----

    def describe(self):
        gpu = capture(["nvidia-smi", "--query-gpu=name,driver_version,memory.total,clocks.max.sm", "--format=csv,noheader"])
        return dict(gpus=self.gpus, ranks=self.ranks, gpu=gpu.splitlines()[: self.gpus],
                    nvcc=capture([self.nvcc, "--version"]).splitlines()[-2:], nccl=self.nccl_version(),
                    mpi=os.path.basename(self.mpi.rstrip("/")) or "system", host=platform.platform(),
                    date=time.strftime("%Y-%m-%d"), rounds=self.a.rounds, warmup=self.a.warmup,
                    flush_mib=self.a.flush, nvls=self.a.nvls,
                    topology=capture(["nvidia-smi", "topo", "-m"]).splitlines())

    def nccl_version(self):
        try:
            with open(os.path.join(self.nccl, "include", "nccl.h")) as f:
                text = f.read()
            return ".".join(text.split("#define NCCL_%s " % k)[1].split()[0] for k in ("MAJOR", "MINOR", "PATCH"))
        except (OSError, IndexError):
            return "?"

    def print_plan(self):
        print("%d rank(s) on %d GPU(s); %d sizes, %d rounds of each form" %
              (self.ranks, self.gpus, len(self.points), self.a.rounds))
        env = self.environment()
        for k in ("CUDA_VISIBLE_DEVICES", "NCCL_NVLS_ENABLE", "NCCL_MULTI_RANK_GPU_ENABLE"):
            if k in env:
                print("  %s=%s" % (k, env[k]))
        print("build, with WRAP=%s:" % WRAP)
        for program, (source, macro) in self.builds().items():
            print("  " + " ".join(self.compile_command(program, source, macro)).replace(WRAP, "$WRAP"))
        runs = 0
        for p in self.points:
            iters = max(2, int(p["iters"] * self.a.scale))
            print("%s, %s:" % (p["family"], p["label"]))
            for f in FORMS:
                if self.program(f, p):
                    print("  %d x %s" % (self.a.rounds, " ".join(self.run_command(self.program(f, p), p, iters, ""))))
                    runs += self.a.rounds
            for part in ("compute", "comm"):
                print("  1 x CUCOCC_BENCH_ONLY=%s CUCOCC_BENCH_KEEP=%s %s" %
                      (part, p["keep"], " ".join(self.run_command(self.program("host", p), p, iters, part))))
                runs += 1
        print("%d runs of at most %g s each%s" %
              (runs, self.a.timeout, ", no new size after %g s" % self.a.budget if self.a.budget else ""))

    def save(self, results, left):
        doc = dict(machine=self.machine, results=results, not_run=left, failures=self.failures,
                   seconds=round(time.monotonic() - self.start, 1))
        os.makedirs(self.a.out, exist_ok=True)
        with open(os.path.join(self.a.out, "results.json"), "w") as f:
            json.dump(doc, f, indent=1)
        return doc

    def main(self):
        if self.gpus < 1:
            sys.exit("no GPU found (nvidia-smi -L); give --gpus with --dry-run to see a plan")
        if self.a.dry_run:
            self.print_plan()
            return 0
        if not self.a.no_build and not shutil.which(self.nvcc):
            sys.exit(self.nvcc + " not found")
        if not self.a.no_build:
            self.build()
            print("built %d programs in %.0f s" % (len(self.builds()), time.monotonic() - self.start), flush=True)
        if self.a.build_only:
            return bool(self.failures)
        self.machine = self.describe()
        results, left = [], []
        if self.a.resume and os.path.exists(self.a.resume):
            with open(self.a.resume) as f:
                results = json.load(f)["results"]
        done = {(r["family"], r["label"]) for r in results}
        for p in self.points:
            if (p["family"], p["label"]) in done:
                continue
            if self.a.budget and time.monotonic() - self.start > self.a.budget:
                left.append("%s, %s" % (p["family"], p["label"]))
                continue
            began = time.monotonic()
            results.append(self.measure(p))
            print("%s  (%.1f s)" % (report.line(results[-1]), time.monotonic() - began), flush=True)
            self.save(results, left)
        doc = self.save(results, left)
        report.write(doc, self.a.out)
        print("%d sizes, %d not run, %d failures; %.0f s; report in %s" %
              (len(results), len(left), len(self.failures), time.monotonic() - self.start, self.a.out))
        return 1 if self.failures else 0


def summary(runs):
    """Statistics of the times of several runs of one form, in milliseconds."""
    ms = sorted(x for r in runs for x in r["ms"])
    n = len(ms)
    quarters = statistics.quantiles(ms, n=4, method="inclusive") if n > 1 else [ms[0]] * 3
    half = 0.98 * math.sqrt(n)  # order statistics that hold the median with 95 % probability
    low, high = ms[max(0, int(n / 2 - half))], ms[min(n - 1, int(math.ceil(n / 2 + half)))]
    medians = [statistics.median(r["ms"]) for r in runs]
    median = statistics.median(ms)
    return dict(median=median, q1=quarters[0], q3=quarters[2], low=low, high=high, min=ms[0], max=ms[-1], n=n,
                medians=medians, spread=(max(medians) - min(medians)) / median if median else 0.0,
                peak_bytes=max(r["peak_bytes"] for r in runs),
                verified=all(r["verified"] for r in runs) if runs[0]["verified"] is not None else None,
                host_calls=any(r["host_calls"] for r in runs), skipped=runs[0]["skipped"], ms=[r["ms"] for r in runs])


def derive(r):
    """Adds the limit and, for each form, speed-up, share of the ideal gain and FLUX's overlap efficiency."""
    comp = r["alone"].get("compute", {}).get("median")
    comm = r["alone"].get("comm", {}).get("median")
    host = r["forms"].get("host", {}).get("median")
    if comp is not None and comm is not None:
        r["serial"], r["ideal"] = comp + comm, max(comp, comm)
        r["limit"] = r["serial"] / r["ideal"] if r["ideal"] else None
    for name, f in r["forms"].items():
        t = f["median"]
        if host and t:
            f["speedup"] = host / t
            base = r["forms"]["host"]
            f["significant"] = f["high"] < base["low"] or f["low"] > base["high"]
        if "ideal" in r and r["serial"] - r["ideal"] > 0.02 * r["serial"]:
            f["eta"] = (r["serial"] - t) / (r["serial"] - r["ideal"])
        if comp is not None and host and name != "host" and host - comp > 0.02 * host:
            f["overlap"] = 1 - (t - comp) / (host - comp)
    return r


def main():
    a = arguments()
    if a.render:
        with open(a.render) as f:
            report.write(json.load(f), a.out)
        return 0
    return Bench(a).main()


if __name__ == "__main__":
    sys.exit(main())
