#!/usr/bin/env bash
# nvrtc.sh [package|own]: readies the kernels' compiler and prints its folder, for $GANGLION_NVRTC: if that is set, it.
# For a package it is NVIDIA's wheel of the CUDA that JetPack 6.2 has, whatever CUDA is installed here: the package is for
# other machines. With "own", for what runs on this machine alone, and where the wheel cannot be had, it is the installed
# CUDA toolkit, if it is complete. kernels/nvrtc.rs looks for the same files.
set -euo pipefail
cd "$(dirname "$0")/../.."

# complete ROOT: it has the compiler and CUDA's headers.
complete() {
    local file part folder found
    for file in 'libnvrtc.so*' cuda_fp16.h; do
        found=false
        for part in "$1" "$1"/targets/* "$1"/cuda_nvrtc "$1"/cuda_runtime; do
            for folder in "$part" "$part"/{lib64,lib,include}; do
                ! compgen -G "$folder/$file" >/dev/null || found=true
            done
        done
        $found || return 1
    done
}

toolkit() {
    local root
    for root in "${CUDA_HOME:-}" /usr/local/cuda; do
        if [ -n "$root" ] && complete "$root"; then
            echo "$root"
            return
        fi
    done
    return 1
}

if [ -n "${GANGLION_NVRTC:-}" ]; then
    complete "$GANGLION_NVRTC" || {
        echo "\$GANGLION_NVRTC is $GANGLION_NVRTC, which lacks libnvrtc.so or cuda_fp16.h" >&2
        exit 1
    }
    echo "$GANGLION_NVRTC"
elif [ "${1:-}" = own ] && toolkit; then
    :
elif cross/deps/python.sh cross/deps/nvrtc.txt >&2; then
    echo target/venv/lib/python3*/site-packages/nvidia
elif toolkit; then
    echo 'NVRTC of CUDA 12.6 cannot be had (see above): the kernels are compiled by the CUDA toolkit instead' >&2
else
    echo 'NVRTC, which compiles the kernels, can neither be had (see above) nor is it in a CUDA toolkit here' >&2
    exit 1
fi
