# SPDX-License-Identifier: Apache-2.0
# For .test scripts: `. "$top_srcdir/testsuite/lib/tap.sh"`, then checks, then `done_testing`.
# Each script runs in a temporary folder of its own ($tmp), which is removed at the end.
# Needs from the environment: top_srcdir, top_builddir, CUCOCC (set by make check).

: "${top_srcdir:?run through make check}" "${CUCOCC:?run through make check}"
tap_count=0
tap_failed=0
tmp=$(mktemp -d) || exit 99
trap 'cd /; rm -rf "$tmp"' EXIT
trap 'exit 143' HUP INT TERM
cd "$tmp" || exit 99
unset NO_COLOR CUCOCC_RESOURCE_DIR

# ok STATUS NAME: passes when STATUS is 0.
ok() {
  tap_count=$((tap_count + 1))
  if [ "$1" -eq 0 ]; then
    echo "ok $tap_count - $2"
  else
    tap_failed=$((tap_failed + 1))
    echo "not ok $tap_count - $2"
    for tap_file in out err; do
      if [ -s "$tmp/$tap_file" ]; then
        sed "s/^/# $tap_file: /" "$tmp/$tap_file" | head -n 20
      fi
    done
  fi
}

# is GOT EXPECTED NAME
is() {
  [ "$1" = "$2" ]
  tap_same=$?
  ok $tap_same "$3"
  if [ $tap_same -ne 0 ]; then
    printf '%s\n' "$1" | head -n 10 | sed 's/^/# got:      /'
    printf '%s\n' "$2" | head -n 10 | sed 's/^/# expected: /'
  fi
}

# run COMMAND...: standard output to $tmp/out, standard error to $tmp/err, exit status to $status.
run() {
  "$@" >"$tmp/out" 2>"$tmp/err" </dev/null
  status=$?
}

# check STATUS NAME COMMAND...: runs it; passes when it exits with STATUS.
check() {
  tap_want=$1 tap_name=$2
  shift 2
  run "$@"
  if [ "$status" -ne "$tap_want" ]; then
    echo "# exit status $status, expected $tap_want: $*"
  fi
  [ "$status" -eq "$tap_want" ]
  ok $? "$tap_name"
}

# has FILE TEXT NAME: FILE contains the fixed string TEXT. hasnt: it does not.
has() {
  grep -qF -e "$2" "$1"
  ok $? "$3"
}
hasnt() {
  ! grep -qF -e "$2" "$1"
  ok $? "$3"
}

# skip REASON: the whole script is skipped, and says why.
skip_all() {
  echo "1..0 # SKIP $1"
  exit 0
}

# skip NAME REASON: one check is skipped.
skip() {
  tap_count=$((tap_count + 1))
  echo "ok $tap_count - $1 # SKIP $2"
}

done_testing() {
  echo "1..$tap_count"
  [ "$tap_failed" -eq 0 ]
  exit
}
