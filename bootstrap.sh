#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# From a bare Debian 12 to a tested program:
#   ./bootstrap.sh deps    install what is missing (apt; CUDA and NCCL from PyPI when none is found)
#   ./bootstrap.sh build   build; the program is build/cucocc
#   ./bootstrap.sh demo    deps, build, and the main job on an example
#   ./bootstrap.sh check   deps, build with warnings as errors, and all tests
# Setting up twice is harmless and fast.
#
# Environment: CUCOCC_PREFIX (where CUDA goes when it must be fetched), CUCOCC_IGNORE_SYSTEM_CUDA=1 (fetch
# it even if there is one), JOBS, DEMO (an example's name, default gemm_allgather).
set -eu

top=$(cd "$(dirname "$0")" && pwd)
jobs=${JOBS:-$(nproc)}

apt_packages="autoconf automake make pkg-config gcc g++ binutils
libclang-19-dev clang-19 libjansson-dev libsqlite3-dev libgraphviz-dev graphviz libboost-context-dev
libopenblas-dev mpich libmpich-dev libcmocka-dev mandoc python3 python3-jsonschema python3-venv
ca-certificates"

# One set that fits together: CUDA 13.0 and NCCL 2.28.9.
pip_packages="nvidia-cuda-nvcc==13.0.88 nvidia-cuda-crt==13.0.88 nvidia-nvvm==13.0.88
nvidia-cuda-runtime==13.0.96 nvidia-cuda-cccl==13.0.85 nvidia-cublas==13.1.0.3
nvidia-nccl-cu13==2.28.9"

say() { printf '%s\n' "bootstrap: $*"; }
die() {
  printf '%s\n' "bootstrap: error: $*" >&2
  exit 1
}

# ---- what is missing ----------------------------------------------------------------------------------

missing_apt() {
  for p in $apt_packages; do
    dpkg-query -W -f '${Status}' "$p" 2>/dev/null | grep -q 'ok installed' || printf '%s ' "$p"
  done
}

install_apt() {
  missing=$(missing_apt)
  [ -z "$missing" ] && return
  say "installing $missing"
  [ "$(id -u)" -eq 0 ] || die "missing packages; as root: apt-get install $missing"
  export DEBIAN_FRONTEND=noninteractive
  # shellcheck disable=SC2086 # a list of words
  apt-get install -qq -y --no-install-recommends $missing >/dev/null 2>&1 || {
    apt-get update -qq
    apt-get install -qq -y --no-install-recommends $missing >/dev/null
  }
}

cuda_prefix() {
  if [ -n "${CUCOCC_PREFIX:-}" ]; then
    printf '%s\n' "$CUCOCC_PREFIX"
  elif [ "$(id -u)" -eq 0 ]; then
    echo /opt/cucocc
  else
    printf '%s\n' "${XDG_CACHE_HOME:-$HOME/.cache}/cucocc"
  fi
}

# The version of an nccl.h as one number, 0 if there is none: 2.28.9 is 22809.
nccl_version() {
  sed -n 's/^#define NCCL_\(MAJOR\|MINOR\|PATCH\) \([0-9]*\).*/\2/p' "$1" 2>/dev/null |
    awk '{ v[NR] = $1 } END { print v[1] * 10000 + v[2] * 100 + v[3] }'
}

# Prints the root of a CUDA toolkit 12 or newer that has nvcc and headers, and NCCL 2.28.7 or newer.
system_cuda() {
  [ -z "${CUCOCC_IGNORE_SYSTEM_CUDA:-}" ] || return 1
  nvcc=$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)
  [ -x "$nvcc" ] || return 1
  root=$(dirname "$(dirname "$(readlink -f "$nvcc")")")
  [ -f "$root/include/cuda_runtime.h" ] || return 1
  for h in "$root/include/nccl.h" /usr/local/include/nccl.h /usr/include/nccl.h; do
    if [ -f "$h" ] && [ "$(nccl_version "$h")" -ge 22807 ]; then
      printf '%s\n' "$root"
      return 0
    fi
  done
  return 1
}

# PyPI's wheels hold the toolkit in one tree, without the plain names of shared libraries.
install_cuda() {
  prefix=$(cuda_prefix)
  stamp=$prefix/stamp
  if [ "$(cat "$stamp" 2>/dev/null)" = "$pip_packages" ]; then
    return
  fi
  say "fetching CUDA 13.0 and NCCL 2.28.9 into $prefix (about 1 GB)"
  mkdir -p "$prefix"
  rm -rf "$prefix/venv" "$prefix/site" "$stamp"
  /usr/bin/python3 -m venv "$prefix/venv"
  # shellcheck disable=SC2086
  "$prefix/venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps \
    --no-compile --no-cache-dir --target "$prefix/site" $pip_packages
  rm -rf "$prefix/venv"
  cuda=$prefix/site/nvidia/cu13
  [ -x "$cuda/bin/nvcc" ] || die "the wheels hold no nvcc where it was expected: $cuda/bin"
  ln -sfn lib "$cuda/lib64"
  ln -sf ../../nccl/include/nccl.h ../../nccl/include/nccl_device.h "$cuda/include/"
  for entry in "$prefix"/site/nvidia/nccl/include/*; do
    ln -sfn "../../nccl/include/$(basename "$entry")" "$cuda/include/$(basename "$entry")"
  done
  ln -sf ../../nccl/lib/libnccl.so.2 "$cuda/lib/libnccl.so.2"
  for lib in "$cuda"/lib/lib*.so.*; do
    base=$(basename "$lib")
    ln -sf "$base" "$cuda/lib/${base%%.so.*}.so"
  done
  ln -sfn site/nvidia/cu13 "$prefix/cuda"
  printf '%s\n' "$pip_packages" >"$stamp"
}

# Sets $cuda to the toolkit in use.
find_cuda() {
  cuda=$(system_cuda) && return
  cuda=$(cuda_prefix)/cuda
  [ -x "$cuda/bin/nvcc" ] || cuda=
}

# ---- steps --------------------------------------------------------------------------------------------

deps() {
  install_apt
  system_cuda >/dev/null || install_cuda
  find_cuda
  say "CUDA in $cuda"
}

configure_arguments() {
  printf '%s\n' PYTHON=/usr/bin/python3
  [ -z "$cuda" ] || printf '%s\n' "--with-cuda=$cuda" "NVCC=$cuda/bin/nvcc"
}

# build FOLDER [configure options]: configures again only when something that matters has changed.
build() {
  dir=$1
  shift
  cd "$top"
  if [ ! -x configure ] || [ -n "$(find configure.ac Makefile.am src/emulator/sources.mk -newer configure 2>/dev/null)" ]; then
    say "preparing the build system"
    autoreconf -fi >"$top/autoreconf.log" 2>&1 || {
      cat "$top/autoreconf.log" >&2
      die "autoreconf failed"
    }
    rm -f "$top/autoreconf.log"
  fi
  mkdir -p "$dir"
  cd "$dir"
  args="$(configure_arguments) $*"
  if [ ! -f Makefile ] || [ "$(cat .configured 2>/dev/null)" != "$args" ] ||
    [ -n "$(find "$top/configure" -newer Makefile)" ]; then
    say "configuring $dir"
    # shellcheck disable=SC2046,SC2086
    "$top/configure" -q $args
    printf '%s\n' "$args" >.configured
  fi
  say "building $dir"
  make -s -j"$jobs"
  cd "$top"
}

check() {
  deps
  build "$top/build" --enable-werror
  cd "$top/build"
  log=$top/build/check.log
  status=0
  make -s -j"$jobs" check >"$log" 2>&1 || status=$?
  grep -E '^(PASS|FAIL|ERROR|XPASS|SKIP):' "$log" | grep -v '^PASS' || true
  if [ $status -ne 0 ]; then
    for failed in $(sed -n 's/^\(FAIL\|ERROR\): \([^ ]*\).*/\2/p' "$log" | sort -u); do
      tail -n 40 "${failed%.test}.log" 2>/dev/null || true
    done
  fi
  counts=$(awk '
    /^# PASS:/ { pass += $3 }
    /^# (FAIL|XPASS|ERROR):/ { fail += $3 }
    /^# SKIP:/ { skip += $3 }
    END { printf "%d %d %d", pass, fail, skip }' "$log")
  set -- $counts
  if [ $status -ne 0 ] && [ "$2" -eq 0 ]; then
    tail -n 30 "$log"
    set -- "$1" 1 "$3"
  fi
  [ "$3" -eq 0 ] || say "$3 skipped (named above)"
  printf '%s passed, %s failed\n' "$1" "$2"
  [ "$2" -eq 0 ]
}

demo() {
  deps
  build "$top/build"
  name=${DEMO:-gemm_allgather}
  out=$top/build/demo
  mkdir -p "$out"
  cd "$out"
  cucocc=$top/build/cucocc
  set -- "$top/examples/$name.cu"
  mpi=$(pkg-config --cflags mpich 2>/dev/null || echo)
  mpi_libs=-lmpich

  say "translating examples/$name.cu"
  # shellcheck disable=SC2086
  "$cucocc" --fast-path $mpi -o "$name.device.cu" --graph="$name.svg" --emit-ir="$name.ir.json" \
    --report="$name.report.json" "$1"
  say "compiling the result with nvcc"
  # shellcheck disable=SC2086
  "$cuda/bin/nvcc" -std=c++17 -O2 -arch=sm_90 $mpi "$name.device.cu" -o "$name" -lnccl -lcublas \
    $mpi_libs
  echo
  /usr/bin/python3 "$top/bench/summary.py" "$name.ir.json" "$name.report.json"
  echo
  emulate "$name.device.cu"
  printf 'source    %s\n' "$1"
  printf 'result    %s\n' "$out/$name.device.cu"
  printf 'program   %s\n' "$out/$name"
  printf 'graph     %s\n' "$out/$name.svg"
}

# Runs the result on emulated ranks, where this build has an emulator.
emulate() {
  if "$cucocc" --help | grep -q 'GPU (not built yet)'; then
    return
  fi
  say "running the result on 2 emulated ranks"
  # shellcheck disable=SC2086
  "$cucocc" --emulate -np 2 -DNO_CUBLAS $mpi "$1" -- --m 48 --n 32 --k 16 || die "emulation failed"
}

case ${1:-} in
deps) deps ;;
build)
  find_cuda
  build "$top/build"
  say "built $top/build/cucocc"
  ;;
demo) demo ;;
check) check ;;
*)
  sed -n '3,8s/^# \{0,1\}//p' "$0"
  exit 2
  ;;
esac
