#!/usr/bin/env bash
# Builds the arm64 release binaries into ${CARGO_TARGET_DIR:-target}/cross/aarch64-unknown-linux-gnu/release.
# A target directory of its own: another rustc would make cargo throw the host's build away.
set -euo pipefail
cd "$(dirname "$0")/.."
RUSTC=$(cross/toolchain.sh)
export RUSTC
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
exec cargo build --release --locked --bins --target aarch64-unknown-linux-gnu \
    --target-dir "${CARGO_TARGET_DIR:-target}/cross"
