#!/usr/bin/env bash
# pack.sh BIN OUT EXAMPLE...: collects in one folder everything that checks the CUDA backend on a machine without Rust, network or
# D-Bus. Copy the real model next to run.sh.
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
# The vocabulary of the models that run.sh makes.
cp target/templates/ggml-vocab-qwen2.gguf "$out/vocabulary.gguf"
cp tests/gpu/run.sh tests/gpu/*.py tests/gpu/peer*.cpp tests/gpu/peer.sh tests/support/daemon.sh tests/support/bus.conf \
    config/org.ganglion.Llm1.conf "$out"

# The answers whose guesses run.sh replays, and models with a head, without and with an embedding of its own.
cp tests/bench/answers.json "$out"
target/venv/bin/python tests/gpu/add_head.py tests/golden/tiny-qwen3_5 "$out/head"
target/venv/bin/python tests/gpu/add_head.py tests/golden/tiny-qwen3_5 "$out/own" own

# Debian's message bus with its libraries, C library and loader. Started by that loader it needs only the machine's kernel.
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
# Python can import from a wheel, which is a zip.
cp "$wheels"/gguf-*.whl "$out/gguf.whl"
echo "$out: $(($(du -sb "$out" | cut -f1) >> 20)) MiB"
