#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Everything that the benchmark measures on a machine, in one go and within a time limit:
#   bench/gpu/session.sh OUT TRANSLATED [options of bench/run.py]
# TRANSLATED is the folder that bench/translate.sh made. OUT receives hardware.json (what the machine can
# do), latency-*.json (small messages) and the report of bench/run.py. From the environment: NCCL_HOME,
# MPI_HOME, NVCC, GPUS (all), STEPS ("topology latency examples"), BUDGET (seconds for the sizes of the
# examples, 240), WORK (a scratch folder).
set -u
here=$(CDPATH= cd -- "$(dirname -- "$0")" && pwd)
out=$1 translated=$2
shift 2
: "${NCCL_HOME:=}" "${MPI_HOME:=}" "${NVCC:=nvcc}" "${STEPS:=topology latency examples}" "${BUDGET:=240}" "${WORK:=bench-work}"
: "${GPUS:=$(nvidia-smi -L | grep -c '^GPU')}"
export NCCL_HOME MPI_HOME NVCC
export NCCL_NVLS_ENABLE="${NCCL_NVLS_ENABLE:-0}"
export LD_LIBRARY_PATH="${NCCL_HOME:+$NCCL_HOME/lib:}${MPI_HOME:+$MPI_HOME/lib:}${LD_LIBRARY_PATH:-}"
mkdir -p "$out" "$WORK"
began=$(date +%s)
say() { echo "[$(($(date +%s) - began)) s] $*"; }
nccl="${NCCL_HOME:+-I$NCCL_HOME/include -L$NCCL_HOME/lib}"

# The two programs compile beside the examples.
case $STEPS in *topology*)
  # shellcheck disable=SC2086
  "$NVCC" -std=c++17 -O3 -arch=sm_90 $nccl "$here/topology.cu" -o "$WORK/topology" -lnccl -lcublas > "$WORK/topology.log" 2>&1 &
  topology=$! ;;
esac
case $STEPS in *latency*)
  # shellcheck disable=SC2086
  "$here/latency.sh" "$WORK/latency" $nccl > "$WORK/latency.log" 2>&1 &
  latency=$! ;;
esac
case $STEPS in *examples*)
  python3 "$here/../run.py" --gpus "$GPUS" --translated "$translated" --work "$WORK" --out "$out" --build-only "$@" || say "some examples do not compile" ;;
esac

case $STEPS in *topology*)
  wait "$topology" && timeout 150 "$WORK/topology" --gpus "$GPUS" --name measured --out "$out/hardware.json" ||
    { say "topology failed"; tail -n 5 "$WORK/topology.log"; } ;;
esac
say "topology done"
case $STEPS in *latency*)
  if wait "$latency"; then
    ranks=$GPUS
    [ "$ranks" -lt 2 ] && ranks=2
    for mode in threads processes; do
      timeout 150 "$WORK/latency" --ranks "$ranks" --mode $mode --out "$out/latency-$mode.json" || say "latency of $mode failed"
    done
  else
    say "latency does not compile"
    tail -n 5 "$WORK/latency.log"
  fi ;;
esac
say "latency done"
case $STEPS in *examples*)
  python3 "$here/../run.py" --gpus "$GPUS" --translated "$translated" --work "$WORK" --out "$out" --no-build --budget "$BUDGET" "$@"
  say "examples done, status $?" ;;
esac
