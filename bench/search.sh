#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The tables of docs/search.md. `make bench-search` prints them; with UPDATE=1 it writes them there, between the
# two marks.
set -eu
: "${CUCOCC:?}" "${SEARCH_BENCH:?}" "${top_srcdir:?}"
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
mpi=$(pkg-config --cflags mpich 2>/dev/null || true)

# shellcheck disable=SC2086
{
  "$CUCOCC" --emit-ir="$tmp/small.json" "$top_srcdir/testsuite/driver/produce_gather.cu"
  "$CUCOCC" $mpi -DNO_CUBLAS --emit-ir="$tmp/gemm.json" "$top_srcdir/examples/gemm_allgather.cu"
  "$CUCOCC" $mpi -DNO_CUBLAS --emit-ir="$tmp/scatter.json" "$top_srcdir/examples/gemm_reduce_scatter.cu"
}
status=0
"$SEARCH_BENCH" "a producer, an all-gather, work beside it" "$tmp/small.json" "$top_srcdir/testsuite/driver/produce_gather.cu" \
  produce=60us beside=40us consume=50us -- \
  "gemm_allgather" "$tmp/gemm.json" "$top_srcdir/examples/gemm_allgather.cu" m=8192 n=8192 k=8192 gemm=400us -- \
  "gemm_reduce_scatter" "$tmp/scatter.json" "$top_srcdir/examples/gemm_reduce_scatter.cu" m=4096 n=4096 k=8192 \
  gemm=200us >"$tmp/tables" || status=$?
if [ -n "${UPDATE:-}" ]; then
  docs=$top_srcdir/docs/search.md
  awk -v tables="$tmp/tables" '
    /^<!-- tables end -->/ { skip = 0 }
    !skip
    /^<!-- tables begin -->/ { skip = 1; print ""; while ((getline line < tables) > 0) print line }' "$docs" >"$tmp/new"
  cat "$tmp/new" >"$docs"
else
  cat "$tmp/tables"
fi
[ $status -eq 0 ] || echo "some seed is not within 2 %" >&2
exit $status
