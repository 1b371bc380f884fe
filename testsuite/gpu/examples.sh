#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Builds the examples and their translations and runs both on a machine with GPUs:
#   testsuite/gpu/examples.sh ORIGINALS TRANSLATED WORK
# ORIGINALS and TRANSLATED are folders of .cu files with the same names, WORK a scratch folder.
# Originals run on ORIGINAL_RANKS (default: RANKS). From the environment: NCCL_HOME (2.30 or newer when ranks share a GPU), MPI_HOME (MPICH or another with
# mpiexec), RANKS (default "1 2 4 8"), NVCC, JOBS (parallel compilations), TIME_LIMIT (seconds a run).
# Every example checks its own results; a run passes when it exits with 0. One line a run, then
# "N passed, N failed".
set -u
originals=$1 translated=$2 work=$3
: "${NVCC:=nvcc}" "${JOBS:=$(nproc)}" "${RANKS:=1 2 4 8}" "${TIME_LIMIT:=60}"
: "${ORIGINAL_RANKS:=$RANKS}" "${CUBLAS:=-lcublas}" # CUBLAS=-DNO_CUBLAS builds without it
mkdir -p "$work"

cat > "$work/sizes" <<'END'
allgather_single_process --count 100003 --iters 3
allgather_threads --rows 65 --cols 129 --iters 3
ddp_buckets --layers 4 --width 96 --batch 8 --bucket 65536 --iters 3 --warmup 1
decode_attention --seq 1024 --heads 4 --dim 64 --iters 3 --warmup 1
gemm_allgather --m 259 --n 130 --k 192 --iters 3 --warmup 1
gemm_allreduce --m 256 --n 128 --k 192 --chunks 4 --iters 3 --warmup 1
gemm_reduce_scatter --m 259 --n 130 --k 192 --iters 3 --warmup 1
jacobi_halo --nx 130 --ny 129 --steps 12 --iters 2 --warmup 1
kv_transfer --seq 256 --kv 128 --hidden 128 --layers 2 --iters 3 --warmup 1
moe_dispatch_combine --tokens 192 --hidden 96 --inter 64 --skew 3 --iters 3 --warmup 1
ring_attention --seq 512 --heads 2 --dim 64 --iters 3 --warmup 1
rmsnorm_allreduce --tokens 96 --hidden 256 --layers 3 --iters 3 --warmup 1
END

compile() { # compile FORM FILE
  name=$(basename "$2" .cu)
  "$NVCC" -std=c++17 -O2 -arch=sm_90 -I"$NCCL_HOME/include" -I"$MPI_HOME/include" "$2" -o "$work/$name.$1" \
    -L"$NCCL_HOME/lib" -lnccl -L"$MPI_HOME/lib" -lmpi $CUBLAS > "$work/$name.$1.log" 2>&1 ||
    { echo "compile $name $1 failed"; tail -n 5 "$work/$name.$1.log"; }
}

n=0
for form in original translated; do
  dir=$originals
  [ $form = translated ] && dir=$translated
  for file in "$dir"/*.cu; do
    compile $form "$file" &
    n=$((n + 1))
    [ $((n % JOBS)) -eq 0 ] && wait
  done
done
wait

passed=0 failed=0
gpus=$(nvidia-smi -L | wc -l)
for file in "$originals"/*.cu; do
  name=$(basename "$file" .cu)
  args=$(sed -n "s/^$name //p" "$work/sizes")
  for ranks in $RANKS; do
    [ "$ranks" -gt "$gpus" ] && export NCCL_MULTI_RANK_GPU_ENABLE=1
    case $name in
      # one process with all ranks: a device synchronisation would wait for ranks on the same GPU
      allgather_single_process|allgather_threads)
        [ "$ranks" -gt "$gpus" ] && continue
        launch= more="--ranks $ranks" ;;
      *) launch="$MPI_HOME/bin/mpiexec -n $ranks" more= ;;
    esac
    for form in original translated; do
      case " $ORIGINAL_RANKS " in
        *" $ranks "*) ;;
        *) [ $form = original ] && continue ;;
      esac
      [ -x "$work/$name.$form" ] || { failed=$((failed + 1)); continue; }
      # shellcheck disable=SC2086
      timeout -k 5 "$TIME_LIMIT" $launch "$work/$name.$form" $args $more > "$work/out" 2>&1
      status=$?
      if [ $status -eq 0 ]; then passed=$((passed + 1)); else failed=$((failed + 1)); fi
      printf '%-26s %-10s %d ranks  exit %-3d %s\n' "$name" $form "$ranks" $status \
        "$(grep -v '^ *$' "$work/out" | tail -n 1 | cut -c1-110)"
      [ $status -eq 0 ] || tail -n 4 "$work/out" | sed 's/^/    /'
    done
  done
done
echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
