#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Builds bench/gpu/latency.cu: bench/gpu/latency.sh OUTPUT [nvcc options]
set -eu
here=$(CDPATH= cd -- "$(dirname -- "$0")" && pwd)
BODY=$here/latency.cu TYPE=float OP=Sum exec "$here/../../testsuite/gpu/build.sh" "$@"
