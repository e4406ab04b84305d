#!/usr/bin/env bash
# versions.sh DEB FOLDER: copies the package to FOLDER/1.deb, and makes later versions with other configurations, 2.deb and 3.deb.
set -euo pipefail
deb=$1 folder=$2
mkdir -p "$folder"
cp "$deb" "$folder/1.deb"
stage=$(mktemp -d -t ganglion-versions.XXXXXX)
trap 'rm -rf "$stage"' EXIT
for number in 2 3; do
    rm -rf "$stage/tree"
    dpkg-deb --raw-extract "$deb" "$stage/tree"
    sed -i "s/^Version: .*/&+$number/" "$stage/tree/DEBIAN/control"
    echo "# of $number.deb" >>"$stage/tree/usr/share/ganglion/gangliond.toml"
    # Fast instead of small.
    dpkg-deb --root-owner-group -Zgzip -z1 --build "$stage/tree" "$folder/$number.deb" >/dev/null
done
