#!/usr/bin/env bash
# run.sh: makes both packages and checks them: the same binaries give the same bytes, lintian finds no error, and their
# life from install to purge goes as it should, in booted Debian 11, 12 and 13 and, for arm64, under qemu-user.
set -euo pipefail
cd "$(dirname "$0")/../.."
out=target/deb
host=$(dpkg --print-architecture)
cross/deps/packages.sh lintian debootstrap systemd-nspawn=systemd-container

for arch in amd64 arm64; do
    bin=$(cross/build.sh $arch)
    deb=$(cross/deb.sh "$bin" $arch $out)
    # shellcheck source-path=SCRIPTDIR/../..
    (
        . cross/elsewhere.sh
        cross/deb.sh "$bin" $arch $out/again >/dev/null
    )
    cmp "$deb" "$out/again/${deb##*/}"
    dpkg-deb --contents "$deb" >"${deb%.deb}.contents"
    echo "${deb%.deb}.contents: $(grep -c '^-' "${deb%.deb}.contents") files, $(wc -c <"$deb") bytes in the package"
    lintian --allow-root --fail-on error "$deb"
    sha256sum "$deb"
done

cross/cargo.sh "$host" zigbuild --example systemd-check
"$(cross/cargo.sh "$host" folder)/examples/systemd-check" model $out/tiny.gguf
# Side by side: the one waits most of the time, the other computes.
tests/package/emulated.sh $out/ganglion_*_arm64.deb $out/tiny.gguf >$out/emulated.log 2>&1 &
emulated=$!
trap 'kill "$emulated" 2>/dev/null' EXIT
tests/package/booted.sh $out/ganglion_*_"$host".deb $out/tiny.gguf || [ $? = 77 ]
wait "$emulated" || {
    cat $out/emulated.log
    exit 1
}
trap - EXIT
tail -n 5 $out/emulated.log
