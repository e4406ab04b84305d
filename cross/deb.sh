#!/usr/bin/env bash
# deb.sh BIN_DIR ARCH OUT_DIR [VERSION]: packs these binaries as OUT_DIR/ganglion_VERSION_ARCH.deb, and prints its path.
# VERSION defaults to that of Cargo.toml. The same binaries and commit give the same bytes. The scripts in cross/debian run
# when the package is installed or removed.
set -euo pipefail
bin=$(cd "$1" && pwd)
arch=$2
mkdir -p "$3"
out=$(cd "$3" && pwd)
cd "$(dirname "$0")/.."
crate=$(sed -n '/^version = /{s/.*"\(.*\)"/\1/p;q}' Cargo.toml)
version=${4:-$crate}
grep -q "^ganglion ($crate) " cross/debian/changelog || {
    echo "cross/debian/changelog has no entry for $crate, the version in Cargo.toml" >&2
    exit 1
}
umask 022
: "${SOURCE_DATE_EPOCH:=$(git log -1 --format=%ct)}"
export SOURCE_DATE_EPOCH
stage=$(mktemp -d -t ganglion-deb.XXXXXX)
trap 'rm -rf "$stage"' EXIT
chmod 00755 "$stage" # five digits: clears the inherited set-group-ID bit too

cross/install.sh "$bin" "$stage"
# The postinst copies it to /etc.
mkdir -p "$stage/usr/share/ganglion"
mv "$stage/etc/ganglion/gangliond.toml" "$stage/usr/share/ganglion/"

doc=$stage/usr/share/doc/ganglion
install -D --mode=0644 cross/debian/copyright "$doc/copyright"
install -D --mode=0644 cross/debian/lintian-overrides "$stage/usr/share/lintian/overrides/ganglion"
target/venv/bin/python -X utf8 cross/debian/licences.py "$arch" | gzip -9n >"$doc/third-party.gz"
gzip -9n <cross/debian/changelog >"$doc/changelog.gz"
# Manual pages are compressed in Debian.
find "$stage/usr/share/man" -type f -exec gzip -9n {} +

control=$stage/DEBIAN
mkdir "$control"
install --mode=0755 cross/debian/{postinst,prerm,postrm} "$control"
(cd "$stage" && find etc usr -type f -print0 | LC_ALL=C sort -z | xargs -0 md5sum) >"$control/md5sums"
case $arch in
# JetPack's driver. On other machines of this architecture apt ignores the recommendation.
arm64) recommends=', nvidia-l4t-cuda' ;;
*) recommends= ;;
esac
# Debian's policy defines this size, as a folder's own size depends on the file system.
size=$(find "$stage/etc" "$stage/usr" -printf '%y %s\n' | awk '{ kib += $1 == "f" ? int(($2 + 1023) / 1024) : 1 } END { print kib }')
sed -e "s/@VERSION@/$version/; s/@ARCH@/$arch/; s/@SIZE@/$size/; s/@RECOMMENDS@/$recommends/; /^$/d" \
    cross/debian/control >"$control/control"

# The bytes depend neither on the time of this build nor on this machine's number of threads.
find "$stage" -exec touch --no-dereference --date="@$SOURCE_DATE_EPOCH" {} +
deb=$out/ganglion_${version}_$arch.deb
# dpkg of Debian 11 cannot read zstd. The window of -z9 is large enough to find that both binaries have the same kernels.
DPKG_DEB_THREADS_MAX=1 dpkg-deb --root-owner-group -Zxz -z9 --build "$stage" "$deb" >&2
echo "$deb"
