#!/usr/bin/env bash
# programs.sh build CARGO... has it build the test programs; programs.sh run ARGUMENTS... runs these, one after the other. As `cargo
# test --tests` does, but that cargo then holds the lock of its folder until they end, and whatever else is built would wait.
set -euo pipefail
list=target/programs verb=$1
shift
case $verb in
build)
    mkdir -p target
    "$@" test --no-run --tests --message-format=json-render-diagnostics |
        sed -nE '/"profile":\{[^}]*"test":true/s/.*"executable":"([^"]+)".*/\1/p' >"$list"
    ;;
run)
    [ -s "$list" ] || { echo 'programs.sh: no test program is built' >&2; exit 1; }
    while read -r program; do
        printf '%s\n' "$program"
        "$program" "$@" </dev/null
    done <"$list"
    ;;
esac
