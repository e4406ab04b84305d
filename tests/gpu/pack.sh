#!/usr/bin/env bash
# pack.sh BIN OUT EXAMPLE...: what a GPU machine without Rust, network or D-Bus needs to check the CUDA
# backend, in one folder. The real model travels apart: put it beside run.sh.
set -euo pipefail
cd "$(dirname "$0")/../.."
bin=$1 out=$2
shift 2
rm -rf "$out"
mkdir -p "$out/dbus"
for program in ganglionctl gangliond "${@/#/examples/}"; do
    strip -o "$out/$(basename "$program")" "$bin/$program"
done
cp -r tests/golden "$out/golden"
# The words of the models that are made there.
cp target/templates/ggml-vocab-qwen2.gguf "$out/vocabulary.gguf"
cp tests/gpu/run.sh tests/gpu/*.py tests/gpu/peer.cpp tests/gpu/peer.sh tests/support/daemon.sh tests/support/bus.conf \
    config/org.ganglion.Llm1.conf "$out"

# Debian's message bus with all that it loads, C library and loader included: started through that loader it
# asks nothing of the machine but its kernel.
bus=$(command -v dbus-daemon)
ldd "$bus" | awk '$2 == "=>" { print $3 } $1 ~ /^\// { print $1 }' | while read -r library; do
    case $library in
    */ld-linux*) cp -L "$library" "$out/dbus/ld.so" ;;
    *) cp -L "$library" "$out/dbus" ;;
    esac
done
cp -L "$bus" "$out/dbus"

wheels=$(mktemp -d)
trap 'rm -rf "$wheels"' EXIT
target/venv/bin/pip download -q --no-deps "$(grep '^gguf==' tests/deps/requirements.txt)" -d "$wheels"
# A wheel is a zip, which Python imports from as it is.
cp "$wheels"/gguf-*.whl "$out/gguf.whl"
echo "$out: $(($(du -sb "$out" | cut -f1) >> 20)) MiB"
