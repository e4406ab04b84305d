#!/usr/bin/env bash
# Installs the Debian packages that are missing. Each argument is COMMAND=PACKAGE (installed only when
# the command is not there) or PACKAGE. Where there is no apt it names what is missing instead.
set -euo pipefail

# One at a time: builds run side by side.
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
    echo "Missing, and there is no apt here to install it (Debian's names): ${missing[*]}" >&2
    exit 1
fi
as_root=()
if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null || {
        echo "Missing, and neither root nor sudo is here to install it: ${missing[*]}" >&2
        exit 1
    }
    as_root=(sudo)
fi
echo "Installing ${missing[*]}" >&2
# What is started by what is installed is not to keep the lock.
"${as_root[@]}" apt-get update -qq >&2 9<&-
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends -o Dpkg::Use-Pty=0 "${missing[@]}" >/dev/null 9<&-
