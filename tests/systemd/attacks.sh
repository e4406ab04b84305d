#!/usr/bin/env bash
# attacks.sh [ATTACK...]: boots Debian 11 and 12 (dbus-daemon 1.12 and 1.14), runs one hostile user at a time, and prints a row
# for each: the times of an honest client, and the daemon's memory and restarts.
# attacks.sh exhaust [ATTACK...]: attacks on the memory and time of a daemon with MemoryMax=2G, next to four honest clients:
# schemas, grammars, taken sessions, the state folder. A row has the first-token time alone and with the attack, the memory
# before, at the peak and after, the restarts, and the attacker's outcomes. Exits with 1 if the daemon restarts or keeps 128 MiB,
# or if an honest client gets a wrong answer or none.
#   RELEASES="bullseye"        only these
#   PROGRAMS=target/release    these binaries instead of the release binaries that cross/build.sh makes
#   PROBE=FILE                 this systemd-check instead of a newly built one
#   OUT=target/attacked        logs and journals
#   MODEL=FILE                 a model instead of a script; for exhaust the default is SmolLM2 if it is installed, and MODEL= a tiny one
#   ATTACK_SECONDS=10          the time of each attack; REST_SECONDS=10 is the pause after it
#   BARE=1                     a second row for each: the same attack on a service that only answers
#   ALONE_SECONDS=10           exhaust: the time of honest clients without an attack
#   SEED=1 SCHEMAS=1000        exhaust random: the seed and number of schemas of ten shapes, sent in ATTACK_SECONDS
# systemd-check attacks lists the attacks. "together" is all of them at once, next to four honest clients. A long run of random schemas:
#   ATTACK_SECONDS=600 tests/systemd/attacks.sh exhaust random
set -euo pipefail
cd "$(dirname "$0")/../.."
read -ra releases <<<"${RELEASES:-bullseye bookworm}"
here=tests/systemd roots=target/roots out=${OUT:-target/attacked}
inner=attacked.sh
if [ "${1:-}" = exhaust ]; then
    shift
    inner=exhausted.sh
    [ $# -gt 0 ] || set -- patterns-all-of patterns-lark pattern-properties multiple-of long-pointers json-in-a-string \
        large-schemas two-users during-load takes state-folder state-folder-at-start random
    smollm2=target/models/SmolLM2-135M-Instruct.Q4_1.gguf
    [ -n "${MODEL+set}" ] || [ ! -e $smollm2 ] || MODEL=$smollm2
fi

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
install -D -t $check $here/{prepare,library,attacked,exhausted}.sh
"$PROBE" model $check/tiny.gguf
install "$PROBE" $check/systemd-check
[ -z "${MODEL:-}" ] || install -m 0644 "$MODEL" $check/model.gguf
attacks=("$@")
[ $# -gt 0 ] || mapfile -t attacks < <("$PROBE" attacks | cut -d ' ' -f 1)

# The system's end leaves the control group of the older hierarchy that exhausted.sh may have made.
end() {
    halt
    [ ! -d /sys/fs/cgroup/memory ] ||
        find /sys/fs/cgroup/memory -depth -type d -name ganglion-attacked -exec rmdir {} + 2>/dev/null || true
}
failed=0
trap end EXIT
trap 'exit 130' INT TERM
for release in "${releases[@]}"; do
    $here/root.sh "$release" $roots
    mkdir -p $out/"$release"
    boot "attacked-$$-$release" "$PWD/$roots/$release" "$PWD/$out/tree" "$PWD/$out/$release"
    inside bash /usr/lib/ganglion-check/prepare.sh >"$out/$release/prepare.log" 2>&1
    printf '\nDebian %s, %s, %s\n' "$release" "$(inside dbus-daemon --version | head -n 1)" "${MODEL:-scripted}"
    inside env BARE="${BARE:-}" ATTACK_SECONDS="${ATTACK_SECONDS:-10}" REST_SECONDS="${REST_SECONDS:-10}" \
        ALONE_SECONDS="${ALONE_SECONDS:-10}" SEED="${SEED:-1}" SCHEMAS="${SCHEMAS:-1000}" \
        bash /usr/lib/ganglion-check/$inner "${attacks[@]}" 2>"$out/$release/errors" || {
        failed=1
        cat "$out/$release/errors" >&2
    }
    inside sh -c 'tail -n +1 /run/attacker-*.log' >"$out/$release/attackers" 2>/dev/null || true
    inside journalctl --boot --unit=gangliond --output=short-precise --no-pager >"$out/$release/journal" || true
    end
    machine='' nspawn='' cgroups=()
done
exit $failed
