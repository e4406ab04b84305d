#!/usr/bin/env bash
# root.sh RELEASE FOLDER [PACKAGES]: makes a root of that Debian release in FOLDER/RELEASE, unless it exists: systemd and the
# bus, or the PACKAGES with commas between them, and little else.
# The source is the mirror in apt's configuration, or else Debian's. mmdebstrap takes a third of the time of debootstrap.
set -euo pipefail
release=$1 folder=$2 root=$2/$1
packages=${3:-systemd,systemd-sysv,dbus}
stamp="$packages $(dpkg --print-architecture)"
! [ "$(cat "$root.stamp" 2>/dev/null)" = "$stamp" ] || exit 0

mkdir -p "$folder"
rm -rf "$root" "$root.stamp"
# shellcheck disable=SC2016 # apt's own variables
mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Origin: Debian' 'Label: Debian' | sort -u | sed -n 1p) || mirror=''
# As in every installation, /bin and similar folders are links to /usr.
# shellcheck disable=SC2016 # the hook's own variables
merged='for folder in bin sbin lib lib32 lib64 libx32; do mkdir -p "$1/usr/$folder"; ln -s "usr/$folder" "$1/$folder"; done'
if ! mmdebstrap --variant=minbase --include="$packages" --setup-hook="$merged" \
    "$release" "$root" ${mirror:+"$mirror"} >"$root.log" 2>&1; then
    echo "mmdebstrap could not make Debian $release:" >&2
    tail -n 5 "$root.log" >&2
    exit 1
fi
rm -rf "$root"/var/cache/apt/*.bin "$root"/var/cache/apt/archives/*.deb "$root"/var/lib/apt/lists/*
printf '%s\n' "$stamp" >"$root.stamp"
