#!/usr/bin/env bash
# cargo.sh ARCH SUBCOMMAND [ARGUMENTS...]: runs cargo for amd64 or arm64 as for a release: a linker for glibc 2.31, kernels
# that JetPack 6.2's driver loads, and no path or time of this machine in the binaries. With KERNELS=own the kernels are for
# this machine's GPU and driver. cargo.sh ARCH folder prints the output folder.
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
# Plain cargo has other flags and perhaps another compiler, so it has another folder. Each architecture has its own, so that
# two builds can run at once.
folder=${CARGO_TARGET_DIR:-target}/cross/$arch
if [ "$subcommand" = folder ]; then
    echo "$folder/$target/release"
    exit
fi
RUSTC=$(cross/toolchain.sh "$target" "$arch")
# clippy runs a compiler of its own.
[ "$subcommand" = clippy ] || export RUSTC
GANGLION_NVRTC=$(cross/deps/nvrtc.sh ${KERNELS:+"$KERNELS"})
export GANGLION_NVRTC
[ -n "${KERNELS:-}" ] || export GANGLION_ARCHITECTURES=${GANGLION_ARCHITECTURES:-sm_87 sm_90}

# Linux for arm64 has pages of 4 to 64 KiB. The allocator is compiled for the largest, and then runs with each.
[ "$arch" != arm64 ] || export JEMALLOC_SYS_WITH_LG_PAGE=16

# No folder or time of the builder in the binaries: panics name paths below /usr/src.
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
