#!/usr/bin/env bash
# pack.sh BIN OUT: what a GPU machine without Rust or network needs to check the CUDA backend, in one
# folder. The real model travels apart: put it beside run.sh.
set -euo pipefail
cd "$(dirname "$0")/../.."
bin=$1 out=$2
rm -rf "$out"
mkdir -p "$out"
cp "$bin/ganglionctl" "$bin/gangliond" "$out"
strip "$out/ganglionctl" "$out/gangliond"
cp -r tests/golden "$out/golden"
cp tests/gpu/run.sh tests/gpu/synthesize.py "$out"
wheels=$(mktemp -d)
trap 'rm -rf "$wheels"' EXIT
target/venv/bin/pip download -q --no-deps "$(grep '^gguf==' tests/deps/requirements.txt)" -d "$wheels"
# A wheel is a zip, which Python imports from as it is.
cp "$wheels"/gguf-*.whl "$out/gguf.whl"
bytes=$(du -sb "$out" | cut -f1)
echo "$out: $((bytes >> 20)) MiB"
[ "$bytes" -le $((64 << 20)) ] || { echo 'more than 64 MiB' >&2; exit 1; }
