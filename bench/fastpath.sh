#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The time of cucocc --fast-path as a ratio to clang -fsyntax-only on the same file with the same flags.
# The two take turns (RUNS times each, 7 if not set); the medians are compared. `make bench` runs this.
set -eu
: "${CUCOCC:?}" "${CLANG:?}" "${top_srcdir:?}"
runs=${RUNS:-7}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
mpi=$(pkg-config --cflags mpich 2>/dev/null || true)

now() { date +%s%N; }
median() { sort -n "$1" | awk '{ v[NR] = $1 } END { print NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2 }'; }

# clang's command line is the one that cucocc itself parses with.
printf '%-26s %10s %10s %7s\n' example cucocc/ms clang/ms ratio
: >"$tmp/all"
for file in "$top_srcdir"/examples/*.cu; do
  name=$(basename "$file" .cu)
  # shellcheck disable=SC2086
  "$CUCOCC" -v --fast-path $mpi -o "$tmp/out.cu" "$file" 2>"$tmp/verbose"
  command=$(grep -m 1 -e '--cuda-host-only' "$tmp/verbose" |
    sed "s|^[^ ]*clang[^ ]* |$CLANG |; s| -fsyntax-only||; s| -include [^ ]*cucocc[^ ]*||")
  if [ -z "$command" ]; then
    echo "cucocc -v shows no clang command" >&2
    exit 1
  fi
  : >"$tmp/ours"
  : >"$tmp/theirs"
  i=0
  while [ $i -le "$runs" ]; do
    a=$(now)
    # shellcheck disable=SC2086
    "$CUCOCC" --fast-path $mpi -o "$tmp/out.cu" "$file" 2>/dev/null
    b=$(now)
    eval "$command -w -fsyntax-only" >/dev/null 2>&1 || {
      echo "clang fails on $file: $command" >&2
      exit 1
    }
    c=$(now)
    if [ $i -gt 0 ]; then # the first pair warms the file cache
      echo $((b - a)) >>"$tmp/ours"
      echo $((c - b)) >>"$tmp/theirs"
    fi
    i=$((i + 1))
  done
  ours=$(median "$tmp/ours")
  theirs=$(median "$tmp/theirs")
  echo "$ours $theirs" >>"$tmp/all"
  echo "$name $ours $theirs" | awk '{ printf "%-26s %10.0f %10.0f %7.2f\n", $1, $2 / 1e6, $3 / 1e6, $2 / $3 }'
done
awk '{ a += $1; b += $2; r = $1 / $2; if (r > worst) worst = r }
  END { printf "%-26s %10.0f %10.0f %7.2f   (worst %.2f)\n", "all", a / 1e6, b / 1e6, a / b, worst }' "$tmp/all"
