#!/usr/bin/env bash
# reproduce.sh [ARCH...]: builds the packages of the last commit twice, from clones in two folders, and compares their bytes.
# Slow: it compiles everything twice, the kernels too.
set -euo pipefail
cd "$(dirname "$0")/.."
[ $# -gt 0 ] || set -- amd64 arm64
folder=$(mktemp -d -t ganglion-reproduce.XXXXXX)
trap 'rm -rf "$folder"' EXIT
unset CARGO_TARGET_DIR
export GANGLION_KERNEL_CACHE=off
cross/deps/python.sh cross/deps/cross.txt
venv=$(readlink -f target/venv)
elsewhere=$PWD/cross/elsewhere.sh

# Both clones have one commit, even if another is made meanwhile.
git clone --quiet . "$folder/one"
git clone --quiet "$folder/one" "$folder/another/one"
for place in one another/one; do
    mkdir "$folder/$place/target"
    # Both use the same compilers.
    ln -s "$venv" "$folder/$place/target/venv"
    for arch; do
        (
            cd "$folder/$place"
            # shellcheck source=cross/elsewhere.sh source-path=SCRIPTDIR/..
            [ "$place" = one ] || . "$elsewhere"
            make deb ARCH="$arch"
        )
    done
done
for arch; do
    (cd "$folder" && sha256sum {one,another/one}/target/deb/*_"$arch".deb)
    cmp "$folder"/{one,another/one}/target/deb/ganglion_*_"$arch".deb
    echo "$arch: the same bytes"
done
