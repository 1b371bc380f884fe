# SPDX-License-Identifier: Apache-2.0
"""What bench/run.py measures: the examples, their forms and their sizes.

An example's entry:
  macro      macro of the form that is built ("" for the plain one)
  keep       NCCL calls and kernels that are run also when communication or computation alone is timed,
             because the program's control flow needs them
  unsplit    options for "compute alone" that undo a division into chunks (the best undivided GEMM)
  mpi        one process a rank, started by mpiexec; else the program takes --ranks
A size is (label, options, iterations in one run). Sizes of a quick run come first in each list; QUICK says how many.
"""

# name: (example, macro, common options)
FAMILIES = {
    "gemm_allgather plain": dict(
        example="gemm_allgather", macro="", options="", quick=2,
        sizes=[("256", "--m 256 --n 256 --k 256", 60),
               ("2048", "--m 2048 --n 2048 --k 2048", 30),
               ("4096", "--m 4096 --n 4096 --k 4096", 8),
               ("8192", "--m 8192 --n 8192 --k 8192", 3),
               ("16384", "--m 16384 --n 16384 --k 16384", 2)]),
    "gemm_allgather bf16": dict(
        example="gemm_allgather", macro="USE_BF16", options="--cublas", quick=2,
        sizes=[("8192x8192 k2048", "--m 8192 --n 8192 --k 2048", 40),
               ("1024", "--m 1024 --n 1024 --k 1024", 60),
               ("8192x8192 k512", "--m 8192 --n 8192 --k 512", 40),
               ("8192x8192 k1024", "--m 8192 --n 8192 --k 1024", 40),
               ("8192x8192 k4096", "--m 8192 --n 8192 --k 4096", 30),
               ("8192x8192 k8192", "--m 8192 --n 8192 --k 8192", 20),
               ("16384x16384 k2048", "--m 16384 --n 16384 --k 2048", 15),
               ("4096x4096 k2048", "--m 4096 --n 4096 --k 2048", 40)]),
    "gemm_reduce_scatter bf16": dict(
        example="gemm_reduce_scatter", macro="", options="--bf16 --cublas", quick=1,
        sizes=[("8192x8192 k2048", "--m 8192 --n 8192 --k 2048", 40),
               ("1024", "--m 1024 --n 1024 --k 1024", 60),
               ("8192x8192 k1024", "--m 8192 --n 8192 --k 1024", 40),
               ("8192x8192 k4096", "--m 8192 --n 8192 --k 4096", 30),
               ("8192x8192 k8192", "--m 8192 --n 8192 --k 8192", 20)]),
    "gemm_allreduce bf16": dict(
        example="gemm_allreduce", macro="", options="--cublas", quick=1, unsplit="--chunks 1",
        sizes=[("4096x4096 k8192 c8", "--m 4096 --n 4096 --k 8192 --chunks 8", 40),
               ("512 c1", "--m 512 --n 512 --k 1024 --chunks 1", 60),
               ("4096x4096 k4096 c8", "--m 4096 --n 4096 --k 4096 --chunks 8", 40),
               ("4096x4096 k16384 c8", "--m 4096 --n 4096 --k 16384 --chunks 8", 30),
               ("4096x4096 k8192 c1", "--m 4096 --n 4096 --k 8192 --chunks 1", 30)]),
    "ring_attention bf16": dict(
        example="ring_attention", macro="USE_BF16", options="--heads 32 --dim 128", quick=2,
        sizes=[("seq 2048", "--seq 2048", 40),
               ("seq 8192", "--seq 8192", 20),
               ("seq 1024", "--seq 1024", 40),
               ("seq 4096", "--seq 4096", 30),
               ("seq 16384", "--seq 16384", 10)]),
    "ring_attention plain": dict(
        example="ring_attention", macro="", options="--heads 8 --dim 64", quick=1,
        sizes=[("seq 256", "--seq 256", 40),
               ("seq 8192", "--seq 8192", 6)]),
    "moe_dispatch_combine plain": dict(
        example="moe_dispatch_combine", macro="", options="", quick=1,
        keep="ncclAllGather,count_tokens",
        sizes=[("t64 h1024 skew 1", "--tokens 64 --hidden 1024 --inter 64 --skew 1", 40),
               ("t1024 h2048 i256 skew 1", "--tokens 1024 --hidden 2048 --inter 256 --skew 1", 20),
               ("t1024 h2048 i256 skew 3", "--tokens 1024 --hidden 2048 --inter 256 --skew 3", 20),
               ("t4096 h7168 i2048 skew 3", "--tokens 4096 --hidden 7168 --inter 2048 --skew 3", 3)]),
    "moe_dispatch_combine bf16": dict(
        example="moe_dispatch_combine", macro="USE_CUBLAS", options="", quick=2,
        keep="ncclAllGather,count_tokens",
        sizes=[("t4096 h4096 i2048 skew 3", "--tokens 4096 --hidden 4096 --inter 2048 --skew 3", 15),
               ("t4096 h4096 i2048 skew 1", "--tokens 4096 --hidden 4096 --inter 2048 --skew 1", 15),
               ("t512 h4096 i2048 skew 3", "--tokens 512 --hidden 4096 --inter 2048 --skew 3", 30),
               ("t4096 h4096 i8192 skew 1", "--tokens 4096 --hidden 4096 --inter 8192 --skew 1", 10),
               ("t4096 h7168 i2048 skew 3", "--tokens 4096 --hidden 7168 --inter 2048 --skew 3", 10)]),
    "kv_transfer cublas": dict(
        example="kv_transfer", macro="USE_CUBLAS", options="", quick=2,
        sizes=[("s8192 kv1024 h2048", "--seq 8192 --kv 1024 --hidden 2048 --layers 4 --block 64", 20),
               ("s8192 kv1024 h8192", "--seq 8192 --kv 1024 --hidden 8192 --layers 4 --block 64", 15),
               ("s8192 kv1024 h2048 block 512", "--seq 8192 --kv 1024 --hidden 2048 --layers 4 --block 512", 20),
               ("s1024 kv1024 h2048", "--seq 1024 --kv 1024 --hidden 2048 --layers 4 --block 64", 30),
               ("s8192 kv1024 h512", "--seq 8192 --kv 1024 --hidden 512 --layers 4 --block 64", 20)]),
    "kv_transfer plain": dict(
        example="kv_transfer", macro="", options="", quick=1,
        sizes=[("s256", "--seq 256 --kv 128 --hidden 128 --layers 2 --block 16", 40),
               ("s4096 kv1024 h128", "--seq 4096 --kv 1024 --hidden 128 --layers 4 --block 64", 20),
               ("s4096 kv1024 h2048", "--seq 4096 --kv 1024 --hidden 2048 --layers 4 --block 64", 4)]),
    "jacobi_halo": dict(
        example="jacobi_halo", macro="", options="--tol -0.5", quick=1,
        sizes=[("1024x1024", "--nx 1024 --ny 1024 --steps 50", 15),
               ("16384x2048", "--nx 16384 --ny 2048 --steps 50", 10)]),
    "decode_attention": dict(
        example="decode_attention", macro="", options="", quick=1,
        sizes=[("s8192 h32", "--seq 8192 --heads 32 --dim 128", 40),
               ("s65536 h32", "--seq 65536 --heads 32 --dim 128", 20),
               ("s8192 h32 gather", "--seq 8192 --heads 32 --dim 128 --gather", 40)]),
    "rmsnorm_allreduce": dict(
        example="rmsnorm_allreduce", macro="", options="", quick=2,
        sizes=[("t16 h8192", "--tokens 16 --hidden 8192 --layers 8", 40),
               ("t2048 h8192", "--tokens 2048 --hidden 8192 --layers 8", 20),
               ("t1 h4096", "--tokens 1 --hidden 4096 --layers 8", 40),
               ("t256 h8192", "--tokens 256 --hidden 8192 --layers 8", 30)]),
    "ddp_buckets": dict(
        example="ddp_buckets", macro="", options="", quick=0, checks=False,
        sizes=[("24 layers", "--layers 24 --width 1024 --batch 32 --bucket 4194304", 15),
               ("6 layers, small", "--layers 6 --width 128 --batch 8 --bucket 16384", 30)]),
    "allgather_single_process": dict(
        example="allgather_single_process", macro="", options="", quick=0, mpi=False, checks=False,
        sizes=[("4099", "--count 4099", 40), ("1048576", "--count 1048576", 10)]),
    "allgather_threads": dict(
        example="allgather_threads", macro="", options="", quick=0, mpi=False, checks=False,
        sizes=[("64x48", "--rows 64 --cols 48", 40), ("1024x512", "--rows 1024 --cols 512", 10)]),
}


def points(quick, names):
    """The points to measure, in order of importance: the first size of every family, then the second, ..."""
    chosen = {k: v for k, v in FAMILIES.items()
              if not names or any(n in (k, v["example"]) for n in names)}
    depth = max((len(v["sizes"]) for v in chosen.values()), default=0)
    out = []
    for i in range(depth):
        for family, f in chosen.items():
            n = f["quick"] if quick else len(f["sizes"])
            if i >= n:
                continue
            label, options, iters = f["sizes"][i]
            out.append(dict(family=family, example=f["example"], macro=f["macro"], label=label,
                            options=(f["options"] + " " + options).split(), iters=iters,
                            keep=f.get("keep", ""), unsplit=f.get("unsplit", "").split(),
                            mpi=f.get("mpi", True), checks=f.get("checks", True)))
    return out
