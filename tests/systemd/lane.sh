#!/usr/bin/env bash
# lane.sh NAME ROOT TREE FOLDER SCENARIO...: boots one system, and runs the scenarios there that no other lane of the release has
# taken. FOLDER/SCENARIO.result has the result of each.
set -euo pipefail
name=$1 root=$2 tree=$3 folder=$4
shift 4
here=$(dirname "$0")
# shellcheck source=tests/systemd/machine.sh
source "$here/machine.sh"
trap halt EXIT
trap 'exit 130' INT TERM

mkdir -p "$folder/$name"
boot "$name" "$root" "$tree" "$folder/$name"
inside bash /usr/lib/ganglion-check/prepare.sh >"$folder/$name/prepare.log" 2>&1 || {
    echo "$name: the steps of a package's installation failed:" >&2
    tail -n 20 "$folder/$name/prepare.log" >&2
    exit 1
}
for scenario in "$@"; do
    mkdir "$folder/$scenario.taken" 2>/dev/null || continue
    begun=$SECONDS
    result=ok
    inside timeout --kill-after=5 600 bash /usr/lib/ganglion-check/scenario.sh "$scenario" \
        >"$folder/$scenario.log" 2>&1 </dev/null &
    # In the background, so that a signal can end this script.
    wait $! || result=FAILED
    [ "$result" = ok ] || inside journalctl --boot --output=short-precise --no-pager >"$folder/$scenario.journal" || true
    printf '%s %s\n' "$result" $((SECONDS - begun)) >"$folder/$scenario.result"
done
