#!/usr/bin/env bash
# rust.sh [fmt] [clippy]: ensures a recent cargo and rustc, and these cargo commands. It takes those on PATH, or else
# installs Debian's, which are recent because its web browsers need them. rustup adds the commands to its own toolchain.
set -euo pipefail
cd "$(dirname "$0")/../.."
wanted=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
recent() {
    local found
    found=$(cargo --version 2>/dev/null | cut -d ' ' -f 2) && [ -n "$found" ] &&
        [ "$(printf '%s\n' "$wanted" "$found" | sort -V | head -n 1)" = "$wanted" ]
}
debian=false
! grep -qx ID=debian /etc/os-release 2>/dev/null || debian=true

if ! recent; then
    ! $debian || cross/deps/packages.sh cargo-web rustc-web
    recent || {
        if command -v rustup >/dev/null; then
            remedy='rustup update'
        else
            remedy='install rustup'
        fi
        echo "Rust $wanted or newer is missing (cargo on PATH: $(cargo --version 2>/dev/null || echo none)): $remedy, then run this again" >&2
        exit 1
    }
fi
for command; do
    runs() { cargo "$command" --version >/dev/null 2>&1; }
    runs && continue
    case $command in
    fmt) component=rustfmt package=rustfmt-web ;;
    clippy) component=clippy package=rust-web-clippy ;;
    esac
    if command -v rustup >/dev/null; then
        rustup component add "$component" >&2
    elif $debian; then
        cross/deps/packages.sh "$package"
    fi
    runs || {
        echo "cargo $command is missing: rustup component add $component" >&2
        exit 1
    }
done
