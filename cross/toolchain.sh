#!/usr/bin/env bash
# Readies what arm64 binaries need, installing what is missing, and prints the rustc that builds them.
# It prefers a rustc that has the target already, then Debian's own compiler, then rustup's target.
set -euo pipefail
cd "$(dirname "$0")/.."
target=aarch64-unknown-linux-gnu

has_target() {
    local sysroot
    sysroot=$("$1" --print sysroot 2>/dev/null) &&
        compgen -G "$sysroot/lib/rustlib/$target/lib/libstd-*.rlib" >/dev/null
}

# Debian builds its web browsers with this rustc, so it is recent there; Ubuntu has none.
from_debian() {
    grep -qx ID=debian /etc/os-release 2>/dev/null || return 1
    if ! dpkg --print-foreign-architectures | grep -qx arm64; then
        if [ "$(id -u)" = 0 ]; then dpkg --add-architecture arm64; else sudo dpkg --add-architecture arm64; fi
    fi
    tests/deps/packages.sh rustc-web libstd-rust-web-dev:arm64
}

tests/deps/packages.sh aarch64-linux-gnu-gcc=gcc-aarch64-linux-gnu \
    aarch64-linux-gnu-gcc=libc6-dev-arm64-cross qemu-aarch64-static=qemu-user-static >&2

for rustc in rustc /usr/bin/rustc; do
    has_target "$rustc" && command -v "$rustc" && exit
done
if from_debian >&2 && has_target /usr/bin/rustc; then
    echo /usr/bin/rustc
    exit
fi
if command -v rustup >/dev/null && rustup target add "$target" >&2 && has_target rustc; then
    command -v rustc
    exit
fi
echo "No rustc for $target: install rustup, then 'rustup target add $target'" >&2
exit 1
