#!/usr/bin/env bash
# run.sh [SCENARIO...]: boots Debian 11, 12 and 13 with their own systemd, bus and journal and the installed tree in each,
# and runs the scenarios there. Prints a table: scenario x release, seconds or FAILED. Exits 77 where nothing can be
# booted; with CI set that is a failure. `run.sh roots` makes what is booted, and no more.
#   RELEASES="bookworm trixie"   only these
#   PROGRAMS=target/release      these binaries instead of the release binaries that cross/build.sh makes
set -euo pipefail
cd "$(dirname "$0")/../.."
read -ra releases <<<"${RELEASES:-bullseye bookworm trixie}"
here=tests/systemd roots=target/roots out=target/booted
lanes=2 # systems booted of each release: most of a scenario is waiting

rm -rf $out
mkdir -p $out
source $here/machine.sh
if ! why=$(can_boot); then
    printf '\n==> NOT RUN: booted systems: %s. Nothing is known of the service under a real systemd.\n\n' "$why" |
        tee $out/not-run >&2
    [ -z "${CI:-}" ] || exit 1
    exit 77
fi
cross/deps/packages.sh mmdebstrap systemd-nspawn=systemd-container
for release in "${releases[@]}"; do
    $here/root.sh "$release" $roots
done
[ "${1:-}" != roots ] || exit 0

scenarios=("$@")
[ $# -gt 0 ] || for file in "$here"/scenarios/*.sh; do
    file=${file##*/}
    scenarios+=("${file%.sh}")
done

arch=$(dpkg --print-architecture)
programs=${PROGRAMS:-$(cross/build.sh "$arch")}
cross/cargo.sh "$arch" zigbuild --example systemd-check
probe=$(cross/cargo.sh "$arch" folder)/examples/systemd-check
cross/install.sh "$programs" $out/tree
check=$out/tree/usr/lib/ganglion-check
install -D -t $check $here/{prepare,scenario,library}.sh
cp -r $here/scenarios $check/
"$probe" model $check/tiny.gguf
install -t $check "$probe"

pids=()
# Whatever ends this ends what it booted.
trap '[ ${#pids[@]} -eq 0 ] || kill "${pids[@]}" 2>/dev/null; wait' EXIT
trap 'exit 130' INT TERM
for release in "${releases[@]}"; do
    mkdir -p "$out/$release"
    for lane in $(seq "$lanes"); do
        $here/lane.sh "ganglion-$$-$release-$lane" "$PWD/$roots/$release" "$PWD/$out/tree" \
            "$PWD/$out/$release" "${scenarios[@]}" &
        pids+=($!)
    done
done
for pid in "${pids[@]}"; do wait "$pid" || true; done
pids=()

failed=0
printf '%-28s' ''
printf '%-14s' "${releases[@]}"
echo
for scenario in "${scenarios[@]}"; do
    printf '%-28s' "$scenario"
    for release in "${releases[@]}"; do
        read -r result seconds 2>/dev/null <"$out/$release/$scenario.result" || result='NOT RUN'
        case $result in
        ok) printf '%-14s' "$seconds s" ;;
        *) printf '%-14s' "$result" && failed=1 ;;
        esac
    done
    echo
done
[ $failed = 1 ] || exit 0
for release in "${releases[@]}"; do
    for scenario in "${scenarios[@]}"; do
        grep -q '^ok' "$out/$release/$scenario.result" 2>/dev/null && continue
        printf '\n--- %s on %s (all of it: %s)\n' "$scenario" "$release" "$out/$release/$scenario.{log,journal}"
        tail -n 15 "$out/$release/$scenario.log" 2>/dev/null || true
    done
done
exit 1
