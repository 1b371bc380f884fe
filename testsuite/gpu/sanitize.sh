#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs translated examples under compute-sanitizer, each rank in its own, and prints one line a run:
#   testsuite/gpu/sanitize.sh TRANSLATED WORK [NAME]...
# From the environment: NCCL_HOME, MPI_HOME, RANKS (2), TOOLS ("memcheck racecheck synccheck"), NVCC,
# SANITIZER (compute-sanitizer), TIME_LIMIT (seconds a run, 120). Exits with 0 when every summary is clean and
# every program's own verification passed.
set -u
translated=$1 work=$2
shift 2
[ $# -gt 0 ] || set -- gemm_allgather gemm_allreduce gemm_reduce_scatter ring_attention moe_dispatch_combine \
  kv_transfer jacobi_halo rmsnorm_allreduce
: "${RANKS:=2}" "${TOOLS:=memcheck racecheck synccheck}" "${NVCC:=nvcc}" "${SANITIZER:=compute-sanitizer}"
: "${TIME_LIMIT:=120}"
gpus=$(nvidia-smi -L | grep -c '^GPU')
[ "$RANKS" -gt "$gpus" ] && export NCCL_MULTI_RANK_GPU_ENABLE=1
export NCCL_NVLS_ENABLE="${NCCL_NVLS_ENABLE:-0}"
mkdir -p "$work"

options() {
  case $1 in
  gemm_allreduce) echo "--m 64 --n 64 --k 64 --chunks 2" ;;
  gemm_*) echo "--m 67 --n 34 --k 48" ;;
  ring_attention) echo "--seq 96 --heads 1 --dim 16" ;;
  moe_dispatch_combine) echo "--tokens 32 --hidden 48 --inter 32" ;;
  kv_transfer) echo "--seq 64 --kv 32 --hidden 32 --layers 2" ;;
  jacobi_halo) echo "--nx 40 --ny 35 --steps 4" ;;
  rmsnorm_allreduce) echo "--tokens 8 --hidden 64 --layers 2" ;;
  esac
}

for name in "$@"; do
  "$NVCC" -std=c++17 -O2 -lineinfo -arch=sm_90 -I"$NCCL_HOME/include" -I"$MPI_HOME/include" \
    "$translated/$name.cu" -o "$work/$name.checked" -L"$NCCL_HOME/lib" -lnccl -L"$MPI_HOME/lib" -lmpi -lcublas \
    > "$work/$name.checked.log" 2>&1 || echo "compile $name failed" &
done
wait

clean=0 dirty=0
for tool in $TOOLS; do
  for name in "$@"; do
    [ -x "$work/$name.checked" ] || { dirty=$((dirty + 1)); continue; }
    # shellcheck disable=SC2046
    timeout -k 5 "$TIME_LIMIT" "$MPI_HOME/bin/mpiexec" -n "$RANKS" "$SANITIZER" --tool "$tool" --error-exitcode 9 \
      "$work/$name.checked" $(options "$name") --iters 2 --warmup 1 > "$work/$name.$tool.txt" 2>&1
    status=$?
    if [ $status -eq 0 ]; then clean=$((clean + 1)); else dirty=$((dirty + 1)); fi
    printf '%-10s %-22s exit %-3d %s; %s\n' "$tool" "$name" $status \
      "$(grep -h 'SUMMARY' "$work/$name.$tool.txt" | sed 's/=* *//' | sort | uniq -c | tr -s ' \n' ' ')" \
      "$(grep -h '^Verification' "$work/$name.$tool.txt" | head -n 1)"
    [ $status -eq 0 ] || grep -v '^ *$' "$work/$name.$tool.txt" | head -n 12 | sed 's/^/    /'
  done
done
echo "$clean clean, $dirty not"
[ $dirty -eq 0 ]
