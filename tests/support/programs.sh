#!/usr/bin/env bash
# programs.sh ARGUMENTS... -- CARGO...: runs the test programs that CARGO builds, one after the other, with these arguments. As
# `cargo test --tests` does, but that cargo then holds the lock of its folder until they end, and whatever else is built would wait.
set -euo pipefail
arguments=()
while [ "$1" != -- ]; do
    arguments+=("$1")
    shift
done
shift
"$@" test --no-run --tests --message-format=json |
    sed -nE '/"profile":\{[^}]*"test":true/s/.*"executable":"([^"]+)".*/\1/p' >target/programs
[ -s target/programs ] || { echo 'programs.sh: no test program is built' >&2; exit 1; }
while read -r program; do
    printf '%s\n' "$program"
    "$program" "${arguments[@]}" </dev/null
done <target/programs
