#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Translates the examples, in every form that the benchmark builds, where cucocc runs; the result can be
# taken to a machine that has only nvcc: bench/translate.sh OUTPUT [cucocc options], --fast-path if none.
# CUCOCC names the compiler (cucocc), MPI_CFLAGS its options for mpi.h (pkg-config's for mpich).
set -eu
top=$(CDPATH= cd -- "$(dirname -- "$0")/.." && pwd)
out=$1
shift
[ $# -gt 0 ] || set -- --fast-path
mpi=${MPI_CFLAGS-$(pkg-config --cflags mpich 2>/dev/null || true)}
mkdir -p "$out"
status=0
for file in "$top"/examples/*.cu; do
  name=$(basename "$file" .cu)
  # shellcheck disable=SC2086
  "${CUCOCC:-cucocc}" "$@" $mpi -o "$out/$name.cu" "$file" || status=1
  for macro in $(sed -n 's/^#ifdef \(USE_BF16\|USE_CUBLAS\)$/\1/p' "$file" | sort -u); do
    # shellcheck disable=SC2086
    "${CUCOCC:-cucocc}" "$@" $mpi "-D$macro" -o "$out/$name.$macro.cu" "$file" || status=1
  done
done
exit $status
