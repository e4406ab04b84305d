#!/usr/bin/env bash
# packages.sh PACKAGE|COMMAND=PACKAGE...: installs the missing Debian packages. With a COMMAND, a package counts as missing if the
# command is. Without apt it names the missing packages, and fails.
set -euo pipefail

# One at a time: builds run in parallel.
exec 9<"$0"
flock 9

missing=()
for want in "$@"; do
    case $want in
    *=*) command -v "${want%%=*}" >/dev/null || missing+=("${want#*=}") ;;
    *) dpkg-query --show --showformat '${db:Status-Status}' "$want" 2>/dev/null | grep -qx installed ||
        missing+=("$want") ;;
    esac
done
[ ${#missing[@]} -gt 0 ] || exit 0

if ! command -v apt-get >/dev/null; then
    echo "Missing, and there is no apt to install it (Debian's names): ${missing[*]}" >&2
    exit 1
fi
as_root=()
if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null || {
        echo "Missing, and installing it needs root or sudo: ${missing[*]}" >&2
        exit 1
    }
    as_root=(sudo)
fi
echo "Installing ${missing[*]}" >&2
# Services that an installation starts must not inherit the lock.
"${as_root[@]}" apt-get update -qq >&2 9<&-
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends -o Dpkg::Use-Pty=0 "${missing[@]}" >/dev/null 9<&-
