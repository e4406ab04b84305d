#!/usr/bin/env bash
# Runs the arm64 ganglionctl under qemu-user over the tiny goldens, with every KV type that the CPU
# backend holds to a bar. It fails when a figure passes its threshold.
set -euo pipefail
cd "$(dirname "$0")/.."
tests/deps/packages.sh qemu-aarch64-static=qemu-user-static libc6-arm64-cross
ctl=${CARGO_TARGET_DIR:-target}/cross/aarch64-unknown-linux-gnu/release/ganglionctl
# The cross toolchain's C library, both its parts: beside it Debian's own for arm64 may be installed, and a
# loader of one that takes the other's libc hangs.
root=/usr/aarch64-linux-gnu
qemu=$(command -v qemu-aarch64-static || command -v qemu-aarch64)

for model in tests/golden/tiny-*/; do
    for kv in f32 f16; do
        echo "arm64 ${model%/} --kv $kv"
        "$qemu" -L "$root" -E LD_LIBRARY_PATH="$root/lib" "$ctl" score --compare --threads 1 --model "$model" --kv "$kv" "$model/golden.json"
    done
done
