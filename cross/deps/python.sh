#!/usr/bin/env bash
# python.sh LIST...: creates target/venv, and installs the packages of each LIST in it.
set -euo pipefail
cd "$(dirname "$0")/../.."
# One at a time: builds run in parallel.
exec 9<cross/deps/python.sh
flock 9
venv=target/venv

# The first python3 on PATH may lack venv (a separate package in Debian), or belong to pyenv.
make_venv() {
    local python
    for python in python3 /usr/bin/python3; do
        "$python" -c 'import sys, ensurepip, venv; sys.exit(sys.version_info < (3, 10))' 2>/dev/null || continue
        "$python" -m venv --clear "$venv" && return
    done
    return 1
}

if ! "$venv/bin/python" -m pip --version >/dev/null 2>&1; then
    mkdir -p target
    make_venv || { cross/deps/packages.sh python3 python3-venv && make_venv; } || {
        echo "No Python >= 3.10 with the venv module was found" >&2
        exit 1
    }
fi

for wanted; do
    installed=$venv/$(basename "$wanted")
    if ! cmp -s "$wanted" "$installed"; then
        "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --requirement "$wanted"
        cp "$wanted" "$installed"
    fi
done
