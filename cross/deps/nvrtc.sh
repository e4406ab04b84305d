#!/usr/bin/env bash
# nvrtc.sh [package|own]: installs the kernels' compiler if it is missing, and prints its folder, for $GANGLION_NVRTC. If the
# variable is set, it prints its value. For a package the compiler is NVIDIA's wheel of CUDA 12.6, the CUDA of JetPack 6.2.
# With "own", or if pip cannot fetch the wheel, it is the installed CUDA toolkit, if that is complete. kernels/nvrtc.rs looks
# for the same files.
set -euo pipefail
cd "$(dirname "$0")/../.."

# complete ROOT: whether it has the compiler and CUDA's headers.
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
    echo 'NVRTC of CUDA 12.6 could not be fetched (see above): the CUDA toolkit compiles the kernels instead' >&2
else
    echo 'NVRTC, which compiles the kernels, could not be fetched (see above), and there is no CUDA toolkit' >&2
    exit 1
fi
