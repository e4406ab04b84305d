#!/usr/bin/env bash
# emulated.sh DEB MODEL: runs the life of the arm64 package (life.sh, trouble.sh) in an arm64 Debian 11, under qemu-user unless this
# machine is arm64. The root in target/roots is made once and never changes: its processes write to memory, have no network, and end
# with this script.
set -euo pipefail
cd "$(dirname "$0")/../.."
deb=$(realpath "$1") model=$(realpath "$2")
root=target/roots/arm64
as_root=()
[ "$(id -u)" = 0 ] || as_root=(sudo)
qemu=
if [ "$(uname -m)" != aarch64 ]; then
    cross/deps/packages.sh qemu-aarch64-static=qemu-user-static
    qemu=$(command -v qemu-aarch64-static)
fi
cross/deps/packages.sh debootstrap=debootstrap dpkg-deb=dpkg

# Runs a command in new namespaces. If systemd has not registered qemu with binfmt_misc, this does. The flag F keeps qemu open, so the
# root does not need it.
# shellcheck disable=SC2016 # the new shell's variables
enter='
qemu=$1
shift
if [ -n "$qemu" ]; then
    binfmt=/proc/sys/fs/binfmt_misc
    [ -e $binfmt/register ] || mount -t binfmt_misc binfmt_misc $binfmt
    if ! grep -ls "^flags:.*F" $binfmt/*aarch64* >/dev/null; then
        magic="\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00"
        mask="\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff"
        echo ":ganglion-aarch64:M::$magic:$mask:$qemu:OCF" >$binfmt/register
        trap "echo -1 >$binfmt/ganglion-aarch64" EXIT
    fi
fi
"$@"
'
inside() { "${as_root[@]}" unshare --mount --net --pid --fork --kill-child bash -euc "$enter" enter "$qemu" "$@"; }

packages=dbus,systemd
if [ "$(cat $root.stamp 2>/dev/null)" != $packages ]; then
    echo 'making an arm64 Debian 11'
    "${as_root[@]}" rm -rf $root $root.stamp
    mkdir -p target/roots
    # The mirror in apt's configuration, or else debootstrap's default.
    # shellcheck disable=SC2016 # apt's own variables
    mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Origin: Debian' 'Label: Debian' | sort -u | sed -n 1p) || mirror=
    "${as_root[@]}" debootstrap --foreign --arch=arm64 --variant=minbase --include=$packages \
        bullseye $root ${mirror:+"$mirror"} >$root.log
    inside chroot $root /debootstrap/debootstrap --second-stage >>$root.log
    echo $packages >$root.stamp
fi

work=$(mktemp -d -t ganglion-emulated.XXXXXX)
trap 'rm -rf "$work"' EXIT
tests/package/versions.sh "$deb" "$work"
cp "$model" "$work/model.gguf"
cp -r tests/golden "$work/golden"
cp tests/package/{library,life,trouble}.sh "$work/"
# shellcheck disable=SC2016 # the new shell's variables
inside bash -euc '
root=$1 work=$2
layer=$(mktemp -d)
mount -t tmpfs tmpfs "$layer"
mkdir "$layer"/{upper,work,root}
mount -t overlay overlay -o "lowerdir=$root,upperdir=$layer/upper,workdir=$layer/work" "$layer/root"
cd "$layer/root"
mount -t proc proc proc
mount -t tmpfs tmpfs tmp
mkdir tmp/package
mount --bind "$work" tmp/package
for script in life trouble; do
    chroot . /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin bash /tmp/package/$script.sh /tmp/package
done
' life "$PWD/$root" "$work"
