#!/usr/bin/env bash
# attacks.sh [ATTACK...]: boots Debian 11 and 12 (dbus-daemon 1.12 and 1.14), lets one hostile user at a time at the
# service there, and prints a row for each: how an honest client fares meanwhile, and what becomes of the daemon.
#   RELEASES="bullseye"        only these
#   PROGRAMS=target/release    these binaries instead of the release binaries that cross/build.sh makes
#   PROBE=FILE                 this systemd-check instead of one that is built for them
#   OUT=target/attacked        logs and journals
#   MODEL=FILE                 a model answers instead of a script
#   ATTACK_SECONDS=10          how long each attack goes on; REST_SECONDS=10, and how long the daemon rests after it
#   BARE=1                     a second row for each: the same at a service that does nothing but answer
# systemd-check attacks lists them. "together" is all of them at once, beside four honest clients.
set -euo pipefail
cd "$(dirname "$0")/../.."
read -ra releases <<<"${RELEASES:-bullseye bookworm}"
here=tests/systemd roots=target/roots out=${OUT:-target/attacked}

source $here/machine.sh
can_boot >&2 || exit 77
cross/deps/packages.sh mmdebstrap systemd-nspawn=systemd-container
arch=$(dpkg --print-architecture)
programs=${PROGRAMS:-$(cross/build.sh "$arch")}
if [ -z "${PROBE:-}" ]; then
    cross/cargo.sh "$arch" zigbuild --example systemd-check
    PROBE=$(cross/cargo.sh "$arch" folder)/examples/systemd-check
fi
rm -rf $out
mkdir -p $out
cross/install.sh "$programs" $out/tree >&2
check=$out/tree/usr/lib/ganglion-check
install -D -t $check $here/{prepare,library,attacked}.sh
"$PROBE" model $check/tiny.gguf
install "$PROBE" $check/systemd-check
[ -z "${MODEL:-}" ] || install -m 0644 "$MODEL" $check/model.gguf
attacks=("$@")
[ $# -gt 0 ] || mapfile -t attacks < <("$PROBE" attacks | cut -d ' ' -f 1)

trap halt EXIT
trap 'exit 130' INT TERM
for release in "${releases[@]}"; do
    $here/root.sh "$release" $roots
    mkdir -p $out/"$release"
    boot "attacked-$$-$release" "$PWD/$roots/$release" "$PWD/$out/tree" "$PWD/$out/$release"
    inside bash /usr/lib/ganglion-check/prepare.sh >"$out/$release/prepare.log" 2>&1
    printf '\nDebian %s, %s, %s\n' "$release" "$(inside dbus-daemon --version | head -n 1)" "${MODEL:-scripted}"
    inside env BARE="${BARE:-}" ATTACK_SECONDS="${ATTACK_SECONDS:-10}" REST_SECONDS="${REST_SECONDS:-10}" \
        bash /usr/lib/ganglion-check/attacked.sh "${attacks[@]}" 2>"$out/$release/errors" || cat "$out/$release/errors" >&2
    inside journalctl --boot --unit=gangliond --output=short-precise --no-pager >"$out/$release/journal" || true
    halt
    machine='' nspawn='' cgroups=()
done
