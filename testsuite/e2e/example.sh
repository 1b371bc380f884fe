#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# One example through the whole tool: example.sh FILE.cu
# What was not rewritten is the user's, byte for byte; nvcc compiles and links the result without a warning
# about it; translating it again changes nothing; what stays a host call is named by a warning.
. "$top_srcdir/testsuite/lib/tap.sh"

case $1 in
/*) example=$1 ;;
*) example=$top_srcdir/examples/$(basename "$1") ;;
esac
name=$(basename "$example" .cu)
mpi=$(pkg-config --cflags mpich 2>/dev/null)

# shellcheck disable=SC2086
check 0 "$name: translated" "$CUCOCC" --fast-path $mpi --report=report.json --emit-ir=ir.json \
  --emit-directives=directives.json -o "$name.cu" "$example"
cp err warnings

"$PYTHON" "$top_srcdir/testsuite/e2e/check.py" "$example" "$name.cu" report.json warnings \
  "$top_srcdir/spec/collectives.def" >out 2>err
ok $? "$name: user code unchanged, remaining host calls named"

# The other forms of the example, which its macros choose.
for macro in $(sed -n 's/^#ifn\{0,1\}def \(USE_[A-Z0-9_]*\|NO_[A-Z_]*\).*/\1/p' "$example" | sort -u); do
  # shellcheck disable=SC2086
  check 0 "$name: translated with -D$macro" "$CUCOCC" --fast-path $mpi "-D$macro" --report=form.json \
    -o form.cu "$example"
  cp err form.err
  "$PYTHON" "$top_srcdir/testsuite/e2e/check.py" "$example" form.cu form.json form.err \
    "$top_srcdir/spec/collectives.def" "$macro" >out 2>err
  ok $? "$name: with -D$macro, user code unchanged, remaining host calls named"
done

for pair in ir:ir directives:directive; do
  schema=$top_srcdir/spec/${pair#*:}.schema.json
  "$PYTHON" "$top_srcdir/testsuite/e2e/validate.py" "$schema" "${pair%:*}.json" >out 2>err
  ok $? "$name: ${pair%:*}.json fits its schema"
done

# shellcheck disable=SC2086
check 0 "$name: the directives, read back" "$CUCOCC" $mpi --directives=directives.json -o again.cu "$example"
cmp -s again.cu "$name.cu"
ok $? "$name: give the same result"
# shellcheck disable=SC2086
check 0 "$name: translated again" "$CUCOCC" --fast-path $mpi -o twice.cu "$name.cu"
cmp -s twice.cu "$name.cu"
ok $? "$name: nothing changes"

if [ "$NVCC" = no ]; then
  skip "$name: compiled and linked" "no nvcc"
else
  # shellcheck disable=SC2086
  check 0 "$name: compiled and linked" "$NVCC" -std=c++17 -O1 -arch=sm_90 -Xcompiler -Wall,-Wextra \
    $mpi "$name.cu" -o "$name" -lnccl -lcublas -lmpich
  grep -E "^($name\.cu|$example|[^ ]*/$name\.cu)[:(].*warning" err >warned
  is "$(cat warned)" "" "$name: without a warning in generated or user code"
fi
done_testing
