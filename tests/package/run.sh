#!/usr/bin/env bash
# run.sh: builds both packages and runs lintian on them. The arm64 package is packed twice and compared, and its steps from install to
# purge run under qemu-user. Those of this machine's package run in booted Debian 11, 12 and 13, or only the self-test without root.
set -euo pipefail
cd "$(dirname "$0")/../.."
out=target/deb
host=$(dpkg --print-architecture)
cross/deps/packages.sh lintian debootstrap mmdebstrap systemd-nspawn=systemd-container

# Installed now, as two jobs in parallel need it below.
[ "$host" = arm64 ] || cross/deps/packages.sh qemu-aarch64-static=qemu-user-static libc6-arm64-cross

# pack ARCH [twice]: builds the package and checks it. With "twice", builds it again in parallel in a different environment, and
# compares the bytes.
pack() {
    local arch=$1 bin deb again=''
    bin=$(cross/build.sh "$arch")
    if [ "${2:-}" = twice ]; then
        # shellcheck source-path=SCRIPTDIR/../..
        (
            . cross/elsewhere.sh
            cross/deb.sh "$bin" "$arch" $out/again >/dev/null
        ) &
        again=$!
    fi
    deb=$(cross/deb.sh "$bin" "$arch" $out)
    if [ -n "$again" ]; then
        wait "$again"
        cmp "$deb" "$out/again/${deb##*/}"
    fi
    dpkg-deb --contents "$deb" >"${deb%.deb}.contents"
    echo "${deb%.deb}.contents: $(grep -c '^-' "${deb%.deb}.contents") files, $(wc -c <"$deb") bytes in the package"
    lintian --allow-root --fail-on error "$deb"
    sha256sum "$deb"
}

cross/cargo.sh "$host" zigbuild --example systemd-check
mkdir -p $out
"$(cross/cargo.sh "$host" folder)/examples/systemd-check" model $out/tiny.gguf
pack arm64 twice
# It computes for minutes, in parallel with the rest.
tests/package/emulated.sh $out/ganglion_*_arm64.deb $out/tiny.gguf >$out/emulated.log 2>&1 &
emulated=$!
trap 'kill "$emulated" 2>/dev/null' EXIT
pack amd64
tests/package/booted.sh $out/ganglion_*_"$host".deb $out/tiny.gguf || {
    [ $? = 77 ]
    # Without booted systems the whole self-test has not run.
    "$(cross/cargo.sh "$host" folder)/gangliond" --self-test
}
wait "$emulated" || {
    cat $out/emulated.log
    exit 1
}
trap - EXIT
tail -n 5 $out/emulated.log
