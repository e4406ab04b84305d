#!/usr/bin/env bash
# booted.sh DEB MODEL: runs the life of this machine's package (life.sh, trouble.sh) in booted Debian 11, 12 and 13, in parallel.
# RELEASES="bookworm trixie" selects some. Exits with 77 if nothing can be booted, and with 1 if CI is set.
set -euo pipefail
cd "$(dirname "$0")/../.."
deb=$1 model=$2
read -ra releases <<<"${RELEASES:-bullseye bookworm trixie}"
roots=target/roots out=target/package

# shellcheck source-path=SCRIPTDIR/../..
. tests/systemd/machine.sh
if ! why=$(can_boot); then
    printf '\n    SKIPPED: no system was booted: %s.\n\n' "$why" >&2
    [ -z "${CI:-}" ] || exit 1
    exit 77
fi
rm -rf $out
within=$out/tree/usr/lib/ganglion-package
tests/package/versions.sh "$deb" $within
cp "$model" $within/model.gguf
cp -r tests/golden tests/package/{library,life,trouble}.sh $within/

# live RELEASE EVERY
live() {
    trap halt EXIT
    boot "ganglion-package-$$-$1" "$PWD/$roots/$1" "$PWD/$out/tree" "$PWD/$out/$1"
    for script in life trouble; do
        inside timeout --kill-after=5 600 bash /usr/lib/ganglion-package/$script.sh /usr/lib/ganglion-package "$2" </dev/null
    done
}

pids=()
trap '[ ${#pids[@]} -eq 0 ] || kill "${pids[@]}" 2>/dev/null; wait' EXIT
trap 'exit 130' INT TERM
# One of the systems runs the whole self-test, which takes minutes. Program and processor are the same in all.
every=1
for release in "${releases[@]}"; do
    tests/systemd/root.sh "$release" $roots
    mkdir -p "$out/$release"
    (live "$release" $every) >"$out/$release/log" 2>&1 &
    pids+=($!)
    every=11
done
failed=0
for at in "${!pids[@]}"; do
    release=${releases[$at]}
    if wait "${pids[$at]}"; then
        printf '%s: %s\n' "$release" "$(grep -c '^-- ' "$out/$release/log") steps; $(grep -h 'ganglion: purged' "$out/$release/log")"
    else
        printf '%s: FAILED; the end of %s:\n' "$release" "$out/$release/log"
        tail -n 30 "$out/$release/log"
        failed=1
    fi
done
pids=()
exit $failed
