#!/usr/bin/env bash
# Readies cargo and rustc: those on PATH if they are recent enough, else Debian's own, which it keeps recent for its
# web browsers.
set -euo pipefail
cd "$(dirname "$0")/../.."
wanted=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
recent() {
    local found
    found=$(cargo --version 2>/dev/null | cut -d ' ' -f 2) && [ -n "$found" ] &&
        [ "$(printf '%s\n' "$wanted" "$found" | sort -V | head -n 1)" = "$wanted" ]
}
recent && exit
if grep -qx ID=debian /etc/os-release 2>/dev/null; then
    tests/deps/packages.sh cargo-web rustc-web
    recent && exit
fi
echo "Rust $wanted or newer is missing: install rustup, then run this again" >&2
exit 1
