#!/usr/bin/env bash
# native.sh: what a build on a Jetson does that one elsewhere does not, as far as that can be shown without one: the
# built build script finds the compiler and the headers where JetPack's CUDA puts them, and uses them.
# /usr/local/cuda is laid in a mount namespace of its own, with the files of the wheels under JetPack's names.
set -euo pipefail
cd "$(dirname "$0")/../.."
folder=$(mktemp -d -t ganglion-native.XXXXXX)
trap 'rm -rf "$folder"' EXIT
# shellcheck disable=SC2012 # the newest of names that cargo made
script=$(ls -t "${CARGO_TARGET_DIR:-target}"/cross/release/build/ganglion-*/build-script-build | head -n 1)

tests/deps/python.sh nvrtc
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

# One kernel is enough: the others are compiled alike. No target/venv is there.
mkdir "$folder/work/kernels"
cp kernels/{abi.h,*.cuh,smoke.cu} "$folder/work/kernels/"
cp "$script" "$folder/build-script"

# compile LOCAL: with that folder as /usr/local.
compile() {
    # shellcheck disable=SC2016 # the new shell's
    unshare --mount --map-root-user bash -euc '
        mount --bind "$1" /usr/local
        cd "$2/work"
        env -u GANGLION_NVRTC -u CUDA_HOME CARGO_FEATURE_CUDA=1 OUT_DIR="$2/out" "$2/build-script"
    ' compile "$1" "$folder"
}

compile "$folder/local" | tee "$folder/said"
grep -q smoke_scale "$folder/out/images.rs"
head -c 4 "$folder/out/smoke.sm_87.cubin" | grep -q ELF
echo "JetPack's NVRTC is found in /usr/local/cuda, and compiles for sm_87"

mkdir "$folder/empty"
rm -rf "$folder/work/target"
compile "$folder/empty" | tee "$folder/said"
grep -q 'cargo::error=NVRTC, which compiles the kernels, is neither' "$folder/said"
