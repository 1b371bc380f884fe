#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Builds the double of NCCL for virtual ranks: src/virtual/build.sh FOLDER [nvcc options]
# FOLDER/libnccl.so.2 then stands in for the library: LD_LIBRARY_PATH=FOLDER program. The options give the
# folder of the headers that the program was compiled with (-I); both must be of the same NCCL.
set -eu
here=$(CDPATH= cd -- "$(dirname -- "$0")" && pwd)
out=$1
shift
mkdir -p "$out"
"${NVCC:-nvcc}" -std=c++17 -O2 -arch=sm_90 -Xcompiler -fPIC -shared "$@" "$here"/*.cu -o "$out/libnccl.so.2" \
  -Xlinker -soname=libnccl.so.2
ln -sf libnccl.so.2 "$out/libnccl.so"
