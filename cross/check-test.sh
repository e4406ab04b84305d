#!/usr/bin/env bash
# check-test.sh: shows that check.sh can fail. It accepts a small program with the kernels that this machine's release build
# has compiled. It refuses the same program for a newer glibc, and the same program without one source's kernels.
set -euo pipefail
cd "$(dirname "$0")/.."
arch=$(dpkg --print-architecture)
export ZIG_GLOBAL_CACHE_DIR=$PWD/target/zig
# shellcheck disable=SC2012 # cargo's names have no spaces
built=$(ls -t "$(cross/cargo.sh "$arch" folder)"/build/ganglion-*/out/images.rs | head -n 1)
built=$(realpath "${built%/*}")
folder=$(mktemp -d -t ganglion-check.XXXXXX)
trap 'rm -rf "$folder"' EXIT
cat >"$folder/main.c" <<'C'
#include <stdio.h>
int main(void) { return puts("ganglion") < 0; }
C

# program GLIBC IMAGE...: compiles $folder/program with these images.
program() {
    local machine
    machine=$(uname -m)-linux-gnu.$1
    shift
    {
        echo '.section .rodata'
        printf '.incbin "%s"\n' "$@"
    } >"$folder/images.s"
    target/venv/bin/python -m ziglang cc -target "$machine" -O1 -pie -s -Wl,--no-gc-sections \
        -o "$folder/program" "$folder/main.c" "$folder/images.s"
}

# refused WORDS: fails unless check.sh refuses the program with this message.
refused() {
    if cross/check.sh "$folder/program" "$arch" 2>"$folder/said" || ! grep -q "$1" "$folder/said"; then
        echo "check.sh does not report '$1':" >&2
        cat "$folder/said" >&2
        exit 1
    fi
    echo "  refused: $1"
}

images=("$built"/*.sm_87.{cubin,ptx})
program 2.31 "${images[@]}"
cross/check.sh "$folder/program" "$arch"
program 2.36 "${images[@]}"
refused 'needs __libc_start_main of GLIBC_2.34'
others=()
for image in "${images[@]}"; do
    [ "${image##*/}" = embed.sm_87.cubin ] || others+=("$image")
done
program 2.31 "${others[@]}"
refused 'has 0 sm_87 images of embed'
