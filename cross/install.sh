#!/usr/bin/env bash
# install.sh BIN_DIR [DESTDIR]: installs the files that cross/tree lists, with the binaries of BIN_DIR. Without DESTDIR it
# installs on this system, and keeps an existing /etc/ganglion/gangliond.toml. It creates no user and starts nothing: the
# package does.
set -euo pipefail
bin=$(cd "$1" && pwd)
root=${2:-}
cd "$(dirname "$0")/.."
# The builder's umask must not decide who can read the files.
umask 022

# printed "NAME ARGUMENTS": prints the output of a built binary, run by qemu-user if it is for another machine.
printed() {
    local arguments
    read -ra arguments <<<"$1"
    local binary=$bin/${arguments[0]}
    if [ "$(od -An -tx1 -j18 -N1 "$binary" | tr -d ' ')" = b7 ] && [ "$(uname -m)" != aarch64 ]; then
        cross/deps/packages.sh qemu-aarch64-static=qemu-user-static libc6-arm64-cross
        # The loader and the libraries must belong to one glibc; others may be installed.
        local libraries=/usr/aarch64-linux-gnu
        qemu-aarch64-static -L $libraries -E LD_LIBRARY_PATH=$libraries/lib "$binary" "${arguments[@]:1}"
    else
        "$binary" "${arguments[@]:1}"
    fi
}

while read -r mode source; do
    case $mode in '' | \#*) continue ;; esac
    destination=$root${source##* }
    source=${source% *}
    source=${source%"${source##*[! ]}"} # without the spaces at its end
    case $source in
    /)
        mkdir -p "$destination"
        chmod "$mode" "$destination"
        ;;
    @*' >')
        mkdir -p "${destination%/*}"
        source=${source#@}
        printed "${source% >}" >"$destination"
        chmod "$mode" "$destination"
        ;;
    *)
        if [ -z "$root" ] && [ "$destination" = /etc/ganglion/gangliond.toml ] && [ -e "$destination" ]; then
            continue
        fi
        for file in ${source/#@/$bin/}; do # may be a pattern
            case $destination in
            */) install -D --mode="$mode" "$file" "$destination${file##*/}" ;;
            *) install -D --mode="$mode" "$file" "$destination" ;;
            esac
        done
        ;;
    esac
done <cross/tree
if [ -z "$root" ]; then
    echo 'Installed. To create the users and reload systemd and the bus:'
    echo '  sudo sh -c "systemd-sysusers && systemd-tmpfiles --create gangliond.conf && systemctl daemon-reload && systemctl reload dbus"'
fi
