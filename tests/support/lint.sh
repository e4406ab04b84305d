#!/usr/bin/env bash
# lint.sh RUSTC ARGUMENTS...: as cargo's RUSTC_WRAPPER has clippy read the project's own code beside the compiler, and compiles it
# with what the compiler is told in any case, so that nothing differs in what is made; but for tests/, what checks a GPU and the
# library with its unit tests, which do nothing here that takes long, and are not made quick: that takes a quarter of the time. A
# warning is an error. For trees in which nothing is compiled yet: what cargo finds compiled is not linted, and there `cargo clippy`
# would first read all that the project depends on, for minutes.
set -euo pipefail
[ -n "${CARGO_PRIMARY_PACKAGE:-}" ] || exec "$@"
# Where the library is compiled for its tests too, that is all of it and more: without them it only is not to warn.
if [ "${LINT:-}" = tests ] && [[ " $* " == *' --crate-type lib '* ]]; then exec "$@" -Dwarnings; fi
folder=$(mktemp -d -t ganglion-lint.XXXXXX)
trap 'rm -rf "$folder"' EXIT

# The same, but that what it finds is all that it makes, and that it tells of nothing made.
arguments=("${@:2}")
for at in "${!arguments[@]}"; do
    case ${arguments[at]} in
    --emit=*) arguments[at]=--emit=metadata ;;
    --json=*) arguments[at]=${arguments[at]//artifacts,/} ;;
    --out-dir) arguments[at + 1]=$folder ;;
    esac
done
CLIPPY_ARGS='-D__CLIPPY_HACKERY__warnings' clippy-driver "${arguments[@]}" 2>"$folder/said" &
clippy=$!
compiled=("$@")
if [[ " $* " == *' tests/main.rs '* || " $* " == *' tests/gpu/check.rs '* || " $* " == *' src/lib.rs '*' --test '* ]]; then compiled=("${compiled[@]/#opt-level=*/opt-level=0}"); fi
status=0
"${compiled[@]}" || status=$?
wait "$clippy" || status=$?
cat "$folder/said" >&2
exit "$status"
