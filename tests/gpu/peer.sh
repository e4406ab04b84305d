#!/usr/bin/env bash
# peer.sh SOURCE OUT: builds llama.cpp and the programs that measure it, OUT/peer and OUT/peer_images. SOURCE is the complete folder
# llama.cpp of crate llama-cpp-sys-2, which `cargo vendor` fetches. The build is for this machine's GPU if there is nvcc, or else for
# its CPU. It needs cmake and a C++ compiler.
set -euo pipefail
source=$(realpath "$1") out=$2
here=$(dirname "$(realpath "$0")")
mkdir -p "$out"

options=(-DCMAKE_BUILD_TYPE=Release -DLLAMA_CURL=OFF)
for part in TOOLS APP SERVER TESTS EXAMPLES COMMON; do options+=("-DLLAMA_BUILD_$part=OFF"); done
options+=(-DLLAMA_BUILD_MTMD=ON -DMTMD_VIDEO=OFF)

if command -v nvcc >/dev/null; then
    capability=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader | head -n 1 | tr -d .)
    options+=(-DGGML_CUDA=ON "-DCMAKE_CUDA_ARCHITECTURES=$capability" -DGGML_CUDA_FA_QUANTS=f16-f16)
fi

# The processor's features by name: "native" would use AMX on virtual machines that announce it and refuse it.
options+=(-DGGML_NATIVE=OFF)
if [ "$(uname -m)" = x86_64 ]; then
    has() { grep -qw -m 1 "$1" /proc/cpuinfo && echo ON || echo OFF; }
    while read -r option flag; do
        options+=("-DGGML_$option=$(has "$flag")")
    done <<<'AVX2 avx2
FMA fma
F16C f16c
BMI2 bmi2
AVX512 avx512f
AVX512_VBMI avx512vbmi
AVX512_VNNI avx512_vnni
AVX512_BF16 avx512_bf16'
fi

# logged NAME COMMAND...: logs the output, and prints its end if the command fails.
logged() {
    local log=$out/$1.log
    shift
    "$@" >"$log" 2>&1 || {
        tail -n 20 "$log" >&2
        return 1
    }
}

logged cmake cmake -S "$source" -B "$out/build" "${options[@]}"
logged build cmake --build "$out/build" --target llama mtmd -j "$(nproc)"
# compiled NAME OPTION...: compiles NAME.cpp of this folder.
compiled() {
    local name=$1
    shift
    "${CXX:-g++}" -O2 -std=c++17 "$here/$name.cpp" -I"$source/include" -I"$source/ggml/include" -I"$source/tools/mtmd" \
        -L"$out/build/bin" "$@" -lllama -lggml -lggml-base -Wl,-rpath,"$(realpath "$out")/build/bin" -o "$out/$name"
    echo "$out/$name"
}
compiled peer
compiled peer_images -lmtmd
