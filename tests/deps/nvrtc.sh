#!/usr/bin/env bash
# Brings the kernels' compiler into target/venv, unless kernels/build.rs finds one elsewhere.
set -euo pipefail
cd "$(dirname "$0")/../.."
for root in "${GANGLION_NVRTC:-}" "${CUDA_HOME:-}" /usr/local/cuda; do
    [ -n "$root" ] || continue
    for folder in "$root" "$root"/{lib,lib64} "$root"/targets/*/lib; do
        ! compgen -G "$folder/libnvrtc.so*" >/dev/null || exit 0
    done
done
exec tests/deps/python.sh nvrtc
