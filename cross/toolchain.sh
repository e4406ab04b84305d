#!/usr/bin/env bash
# toolchain.sh TARGET ARCH: installs the missing tools that build binaries for the target, and prints the rustc for them: an
# installed one with the target, or else Debian's, or else rustup's with the target added.
set -euo pipefail
cd "$(dirname "$0")/.."
target=$1
arch=$2

has_target() {
    local sysroot
    sysroot=$("$1" --print sysroot 2>/dev/null) &&
        compgen -G "$sysroot/lib/rustlib/$target/lib/libstd-*.rlib" >/dev/null
}

# Debian keeps this rustc recent for its web browsers. Ubuntu has no such package.
from_debian() {
    grep -qx ID=debian /etc/os-release 2>/dev/null || return 1
    if ! dpkg --print-foreign-architectures | grep -qx "$arch"; then
        if [ "$(id -u)" = 0 ]; then dpkg --add-architecture "$arch"; else sudo dpkg --add-architecture "$arch"; fi
    fi
    cross/deps/packages.sh rustc-web "libstd-rust-web-dev:$arch"
}

cross/deps/python.sh cross/deps/cross.txt >&2

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
