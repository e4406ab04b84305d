#!/usr/bin/env bash
# cargo.sh ARCH SUBCOMMAND [ARGUMENTS...]: runs cargo for amd64 or arm64 with what every release binary is made with: a
# linker that keeps them to glibc 2.31, kernels that JetPack 6.2's driver loads, and nothing of this machine in them.
# With KERNELS=own they are for this machine's driver alone. cargo.sh ARCH folder prints where they go.
set -euo pipefail
cd "$(dirname "$0")/.."
arch=$1 subcommand=$2
shift 2
case $arch in
amd64) target=x86_64-unknown-linux-gnu ;;
arm64) target=aarch64-unknown-linux-gnu ;;
*)
    echo "cross/cargo.sh: no architecture '$arch': amd64 or arm64" >&2
    exit 2
    ;;
esac
# Apart from what plain cargo builds, with its own flags and perhaps another compiler; and one for each architecture, so that
# both can be built at once.
folder=${CARGO_TARGET_DIR:-target}/cross/$arch
if [ "$subcommand" = folder ]; then
    echo "$folder/$target/release"
    exit
fi
RUSTC=$(cross/toolchain.sh "$target" "$arch")
# clippy asks its own.
[ "$subcommand" = clippy ] || export RUSTC
GANGLION_NVRTC=$(cross/deps/nvrtc.sh ${KERNELS:+"$KERNELS"})
export GANGLION_NVRTC

# Kernels for arm64 have pages of 4 to 64 KiB, and the allocator runs with any that is not larger than what it was made for.
[ "$arch" != arm64 ] || export JEMALLOC_SYS_WITH_LG_PAGE=16

# The builder's folders and clock stay out of the binaries: what panics name starts from the project's own.
sources=${CARGO_HOME:-$HOME/.cargo}/registry/src
standard=$("$RUSTC" --print sysroot)/lib/rustlib/src/rust
RUSTFLAGS="--remap-path-prefix=$PWD=/usr/src/ganglion --remap-path-prefix=$sources=/usr/src/crates"
export RUSTFLAGS="$RUSTFLAGS --remap-path-prefix=$standard=/usr/src/rust"
export CARGO_INCREMENTAL=0 CARGO_PROFILE_RELEASE_STRIP=symbols
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH
export CARGO_ZIGBUILD_CACHE_DIR=$PWD/target/zig ZIG_GLOBAL_CACHE_DIR=$PWD/target/zig

PATH=$PWD/target/venv/bin:$PATH exec cargo-zigbuild "$subcommand" --release --locked \
    --target "$target.2.31" --target-dir "$folder" "$@"
