#!/usr/bin/env bash
# build.sh ARCH: builds the release binaries for amd64 or arm64, checks them, and prints their folder. They run with glibc
# 2.31 and later, and one commit gives the same bytes in every folder. With KERNELS=own they are for this machine alone, and
# unchecked: its own CUDA toolkit compiles the kernels for its GPU.
set -euo pipefail
cd "$(dirname "$0")/.."
arch=$1
cross/cargo.sh "$arch" zigbuild --bins >&2
folder=$(cross/cargo.sh "$arch" folder)
if [ -z "${KERNELS:-}" ]; then
    for binary in gangliond ganglionctl; do
        cross/check.sh "$folder/$binary" "$arch" >&2
    done
fi
echo "$folder"
