#!/usr/bin/env bash
# build.sh [ARCH]: builds the release binaries for amd64 or arm64 (the default), and prints their folder. They need
# no glibc newer than 2.31, and the same commit gives the same bytes wherever and whenever it is built.
set -euo pipefail
cd "$(dirname "$0")/.."
arch=${1:-arm64}
case $arch in
amd64) target=x86_64-unknown-linux-gnu ;;
arm64) target=aarch64-unknown-linux-gnu ;;
*)
    echo "cross/build.sh: no architecture '$arch': amd64 or arm64" >&2
    exit 2
    ;;
esac
RUSTC=$(cross/toolchain.sh "$arch" "$target")
export RUSTC

# The builder's folders and clock stay out of the binaries: what panics name starts from the project's own.
sources=${CARGO_HOME:-$HOME/.cargo}/registry/src
standard=$("$RUSTC" --print sysroot)/lib/rustlib/src/rust
RUSTFLAGS="--remap-path-prefix=$PWD=/usr/src/ganglion --remap-path-prefix=$sources=/usr/src/crates"
export RUSTFLAGS="$RUSTFLAGS --remap-path-prefix=$standard=/usr/src/rust"
export CARGO_INCREMENTAL=0 CARGO_PROFILE_RELEASE_STRIP=symbols
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH
export CARGO_ZIGBUILD_CACHE_DIR=$PWD/target/zig ZIG_GLOBAL_CACHE_DIR=$PWD/target/zig

# A target directory of its own: another rustc would make cargo throw the host's build away.
folder=${CARGO_TARGET_DIR:-target}/cross
PATH=$PWD/target/venv/bin:$PATH cargo-zigbuild zigbuild --release --locked --bins \
    --target "$target.2.31" --target-dir "$folder" >&2
for binary in gangliond ganglionctl; do
    cross/check.sh "$folder/$target/release/$binary" "$arch" >&2
done
echo "$folder/$target/release"
