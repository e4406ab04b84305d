#!/usr/bin/env bash
# native.sh [BUILD_SCRIPT]: simulates a build on a Jetson. The build script must find and use the compiler and the headers of
# JetPack's CUDA, while a package is still compiled by the pinned wheels. A mount namespace has a /usr/local/cuda with the
# wheels' files under JetPack's names.
set -euo pipefail
cd "$(dirname "$0")/../.."
folder=$(mktemp -d -t ganglion-native.XXXXXX)
trap 'rm -rf "$folder"' EXIT
script=${1:-}
if [ -z "$script" ]; then
    # shellcheck disable=SC2012 # the newest of names that cargo made
    script=$(ls -t "${CARGO_TARGET_DIR:-target}"/cross/*/release/build/ganglion-*/build-script-build | head -n 1)
fi

cross/deps/python.sh cross/deps/nvrtc.txt
wheels=$(echo target/venv/lib/python3*/site-packages/nvidia)
cuda=$folder/local/cuda-12.6
toolkit=$cuda/targets/aarch64-linux
mkdir -p "$toolkit" "$folder"/{out,work}
ln -s cuda-12.6 "$folder/local/cuda"
ln -s targets/aarch64-linux/lib "$cuda/lib64"
ln -s targets/aarch64-linux/include "$cuda/include"
cp -rL "$wheels/cuda_runtime/include" "$toolkit/include"
cp -rL "$wheels/cuda_nvrtc/lib" "$toolkit/lib"
rm -f "$toolkit/lib/libnvrtc.so"
ln -s libnvrtc.so.12 "$toolkit/lib/libnvrtc.so"

# One kernel is enough. The folder has no target/venv.
mkdir "$folder/work/kernels"
cp kernels/{abi.h,*.cuh,smoke.cu} "$folder/work/kernels/"
cp "$script" "$folder/build-script"

# Containers and Ubuntu 24.04 refuse user namespaces.
if unshare --mount --map-root-user true 2>/dev/null; then
    enter=(unshare --mount --map-root-user)
    back=()
else
    enter=(unshare --mount)
    [ "$(id -u)" = 0 ] || enter=(sudo "${enter[@]}")
    back=(setpriv --reuid="$(id -u)" --regid="$(id -g)" --clear-groups)
fi

# within LOCAL COMMAND...: runs it with that folder as /usr/local.
within() {
    local at=$1
    shift
    # shellcheck disable=SC2016 # the new shell's
    "${enter[@]}" bash -euc '
        mount --bind "$1" /usr/local
        shift
        exec "$@"
    ' within "$at" "${back[@]}" env -u GANGLION_NVRTC -u CUDA_HOME "$@"
}

export GANGLION_KERNEL_CACHE=off GANGLION_ARCHITECTURES=sm_87
# compile LOCAL: runs the build script.
compile() {
    (cd "$folder/work" && within "$1" CARGO_FEATURE_CUDA=1 OUT_DIR="$folder/out" "$folder/build-script" | tee "$folder/said")
}

# chosen LOCAL FOR FOLDER: checks the choice of cross/deps/nvrtc.sh there, FOR is "package" or "own".
chosen() {
    local found
    found=$(within "$1" cross/deps/nvrtc.sh "$2")
    # shellcheck disable=SC2053 # a pattern
    [[ $found = $3 ]] || {
        echo "with $1 as /usr/local, nvrtc.sh $2 chooses $found, not $3" >&2
        exit 1
    }
}

compile "$folder/local"
grep -q smoke_scale "$folder/out/images.rs"
python3 -c 'import sys, zlib; sys.stdout.buffer.write(zlib.decompress(open(sys.argv[1], "rb").read())[:4])' \
    "$folder/out/smoke.sm_87.cubin" | grep -q ELF
chosen "$folder/local" own /usr/local/cuda
echo "JetPack's NVRTC is found in /usr/local/cuda, and compiles for sm_87"
chosen "$folder/local" package 'target/venv/lib/python3*/site-packages/nvidia'
echo 'the pinned NVRTC still compiles a package'

rm "$toolkit/include/cuda_fp16.h"
compile "$folder/local"
grep -q 'cargo::warning=no kernels for a GPU: NVRTC, which compiles them, is neither' "$folder/said"
chosen "$folder/local" own 'target/venv/lib/python3*/site-packages/nvidia'
mkdir -p "$folder/work/target"
ln -s "$PWD/target/venv" "$folder/work/target/venv"
rm "$folder/out/images.rs"
compile "$folder/local"
grep -q smoke_scale "$folder/out/images.rs"
echo 'a toolkit without the headers is ignored'
rm "$folder/work/target/venv"

mkdir "$folder/empty"
compile "$folder/empty"
grep -q 'cargo::warning=no kernels for a GPU: NVRTC, which compiles them, is neither' "$folder/said"
(cd "$folder/work" && CARGO_FEATURE_CUDA=1 OUT_DIR="$folder/out" GANGLION_NVRTC=/nowhere "$folder/build-script" >"$folder/said")
# shellcheck disable=SC2016 # the words are those
grep -q 'cargo::error=$GANGLION_NVRTC is /nowhere, which lacks' "$folder/said"
