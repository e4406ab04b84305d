#!/usr/bin/env bash
# Shows that check.sh can fail: for each architecture a small program that passes, then the same with one fault at a
# time, each of which must be refused with the words that name it.
set -euo pipefail
cd "$(dirname "$0")/.."
tests/deps/python.sh cross
export ZIG_GLOBAL_CACHE_DIR=$PWD/target/zig
folder=$(mktemp -d -t ganglion-check.XXXXXX)
trap 'rm -rf "$folder"' EXIT

# What a build embeds: the cubins that kernels/build.rs keeps.
images() {
    local cubin
    for cubin in target/kernels/*."$1".*.cubin; do
        printf '.incbin "%s/%s"\n' "$PWD" "$cubin"
    done
}
{
    echo '.section .rodata'
    images sm_87
    images sm_90
} >"$folder/all.s"
grep -v '/attend\.sm_87\.' "$folder/all.s" >"$folder/lacks-one.s"
{
    echo '.section .rodata'
    images sm_90
} >"$folder/other-gpu.s"
cat >"$folder/main.c" <<'C'
#include <stdio.h>
int main(void) { return puts("ganglion") < 0; }
C
echo 'int odd(void) { return 1; }' >"$folder/odd.c"

compile() { target/venv/bin/python -m ziglang cc -target "$machine" -O1 -Wl,--no-gc-sections "$@"; }

# refuse WORDS ARGUMENTS...: what is compiled from these must be refused with these words and no others.
refuse() {
    local words=$1
    shift
    compile -o "$folder/bad" "$@"
    if cross/check.sh "$folder/bad" "$arch" >"$folder/said" 2>&1; then
        echo "check.sh passes a binary that should be refused: it $words" >&2
        exit 1
    fi
    if grep -v "$words" "$folder/said"; then
        echo "check.sh should have said only that it $words" >&2
        exit 1
    fi
    sort -u "$folder/said" | sed "s,$folder,  refused: ,;q"
}

for arch in amd64 arm64; do
    case $arch in amd64) cpu=x86_64 ;; arm64) cpu=aarch64 ;; esac
    machine=$cpu-linux-gnu.2.31
    good=("$folder/main.c" "$folder/all.s" -pie -s)
    compile -o "$folder/good" "${good[@]}"
    cross/check.sh "$folder/good" "$arch"

    compile -shared -Wl,-soname,libodd.so -o "$folder/libodd.so" "$folder/odd.c"
    refuse 'needs the library libodd.so' "${good[@]}" -Wl,--no-as-needed "$folder/libodd.so"
    refuse 'has a R[UN]*PATH /opt/lib' "${good[@]}" -Wl,-rpath,/opt/lib
    refuse 'is no position-independent' "$folder/main.c" "$folder/all.s" -no-pie -s
    refuse 'has no RELRO' "${good[@]}" -Wl,-z,norelro
    refuse 'has partial RELRO' "${good[@]}" -Wl,-z,lazy
    refuse 'has [0-9]* sm_87 images' "$folder/main.c" "$folder/lacks-one.s" -pie -s
    refuse 'has 0 sm_87 images' "$folder/main.c" "$folder/other-gpu.s" -pie -s
    machine=$cpu-linux-gnu.2.36
    refuse 'needs __libc_start_main of GLIBC_2.34' "${good[@]}"
done
if cross/check.sh "$folder/good" amd64 2>"$folder/said"; then
    echo 'check.sh takes a binary for arm64 as one for amd64' >&2
    exit 1
fi
grep -q 'is not for amd64' "$folder/said"
