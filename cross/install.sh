#!/usr/bin/env bash
# install.sh BIN_DIR [DESTDIR]: lays the installed tree, as cross/tree lists it, with the binaries of BIN_DIR.
# On a running system (no DESTDIR) it keeps an /etc/ganglion/gangliond.toml that is there. It creates no user and
# starts nothing: that is the package's work.
set -euo pipefail
bin=$(cd "$1" && pwd)
root=${2:-}
cd "$(dirname "$0")/.."
# A umask of the builder's must not decide who may read the result.
umask 022

# Prints what a built binary prints, through qemu-user where it is another machine's.
printed() {
    local arguments
    read -ra arguments <<<"$1"
    local binary=$bin/${arguments[0]}
    if [ "$(od -An -tx1 -j18 -N1 "$binary" | tr -d ' ')" = b7 ] && [ "$(uname -m)" != aarch64 ]; then
        cross/deps/packages.sh qemu-aarch64-static=qemu-user-static libc6-arm64-cross
        # Its loader and its libraries must be of one glibc; another's may be installed as well.
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
        for file in ${source/#@/$bin/}; do # a pattern stands for several
            case $destination in
            */) install -D --mode="$mode" "$file" "$destination${file##*/}" ;;
            *) install -D --mode="$mode" "$file" "$destination" ;;
            esac
        done
        ;;
    esac
done <cross/tree
if [ -z "$root" ]; then
    echo 'Installed. To make the users and have systemd and the bus read it:'
    echo '  sudo sh -c "systemd-sysusers && systemd-tmpfiles --create gangliond.conf && systemctl daemon-reload && systemctl reload dbus"'
fi
