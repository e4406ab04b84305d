#!/usr/bin/env bash
# run.sh [SCENARIO...]: boots Debian 11, 12 and 13, each with its own systemd, bus and journal, and with the installed tree.
# Runs the scenarios there, without names all but the slow ones. Prints a table: scenario x release, seconds or FAILED.
# Exits with 77 if nothing can be booted, and with 1 if CI is set.
#   RELEASES="bookworm trixie"   only these
#   PROGRAMS=target/release      these binaries instead of the release binaries of cross/build.sh
set -euo pipefail
cd "$(dirname "$0")/../.."
read -ra releases <<<"${RELEASES:-bullseye bookworm trixie}"
here=tests/systemd roots=target/roots out=target/booted
slow=' hostile ' # `make soak` runs them
lanes=2          # systems per release: a scenario mostly waits

rm -rf $out
mkdir -p $out
source $here/machine.sh
if ! why=$(can_boot); then
    printf '\n==> SKIPPED: booted systems: %s. The service is untested under a real systemd.\n\n' "$why" >&2
    [ -z "${CI:-}" ] || exit 1
    exit 77
fi
cross/deps/packages.sh mmdebstrap systemd-nspawn=systemd-container
for release in "${releases[@]}"; do
    $here/root.sh "$release" $roots
done

scenarios=("$@")
[ $# -gt 0 ] || for file in "$here"/scenarios/*.sh; do
    file=${file##*/}
    [[ $slow = *" ${file%.sh} "* ]] || scenarios+=("${file%.sh}")
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
# The booted systems end with this script.
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
        printf '\n--- %s on %s (complete: %s)\n' "$scenario" "$release" "$out/$release/$scenario.{log,journal}"
        tail -n 15 "$out/$release/$scenario.log" 2>/dev/null || true
    done
done
exit 1
