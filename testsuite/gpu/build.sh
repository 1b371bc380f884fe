#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Builds testsuite/gpu/collectives.cu, or the file that BODY names, behind the runtime prelude and one
# region per collective: testsuite/gpu/build.sh OUTPUT [nvcc options]
# The options give NCCL's folders where they are not nvcc's own (-I, -L). TYPE and OP fix what reductions
# are made for (void: decided at run time).
set -eu
top=$(CDPATH= cd -- "$(dirname -- "$0")/../.." && pwd)
out=$1
shift
src=$top/src/backend
body=${BODY:-$top/testsuite/gpu/collectives.cu}
id=0
{
  cat "$src/runtime/cucocc_runtime.cuh"
  for name in all_reduce all_gather reduce_scatter reduce broadcast gather scatter all_to_all bcast p2p; do
    id=$((id + 1))
    sed -e "s/@ID@/$id/g" -e "s/@CALL@/$name/g" -e 's/@LOC@/collectives.cu:1:1/g' -e 's/@DIRECTIVE@/test/g' \
      -e 's/@CTAS@/32/g' -e 's/@THREADS@/512/g' -e 's/@CHUNK@/0/g' -e 's/@PLACE@/Whole/g' -e 's/@PUSH@/true/g' \
      -e "s/@TYPE@/${TYPE:-void}/g" -e "s/@OP@/${OP:-void}/g" \
      "$src/templates/$name.cuh.in"
  done
  echo "#line 1 \"$(basename "$body")\""
  cat "$body"
} > "$out.cu"
"${NVCC:-nvcc}" -std=c++17 -O2 -arch=sm_90 "$@" "$out.cu" -o "$out" -lnccl
