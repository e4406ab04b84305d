#!/usr/bin/env bash
# build.sh ARCH: builds the release binaries for amd64 or arm64, checks them, and prints their folder. They need no glibc
# newer than 2.31, and the same commit gives the same bytes wherever and whenever it is built. With KERNELS=own they are
# for this machine's driver: its own CUDA toolkit compiles the kernels.
set -euo pipefail
cd "$(dirname "$0")/.."
arch=$1
cross/cargo.sh "$arch" zigbuild --bins >&2
folder=$(cross/cargo.sh "$arch" folder)
for binary in gangliond ganglionctl; do
    cross/check.sh "$folder/$binary" "$arch" ${KERNELS:+"$KERNELS"} >&2
done
echo "$folder"
