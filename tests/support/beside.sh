#!/usr/bin/env bash
# beside.sh LOG ONE OTHER: runs two commands at once, and fails if either does. What the first says goes to a file, and is shown
# when both have ended, with the seconds that it took. For one that mostly waits. With $IN_TURN set they run one after the other: for a
# machine that does more beside them, where tests would wait too long for what is due.
set -euo pipefail
log=$1 one=$2 other=$3
if [ -n "${IN_TURN:-}" ]; then
    bash -euo pipefail -c "$other"
    exec bash -euo pipefail -c "$one"
fi
mkdir -p "$(dirname "$log")"
(
    SECONDS=0 status=0
    bash -euo pipefail -c "$one" || status=$?
    echo "$SECONDS s"
    exit "$status"
) >"$log" 2>&1 &
beside=$!
trap 'kill "$beside" 2>/dev/null' EXIT
status=0
bash -euo pipefail -c "$other" || status=$?
wait "$beside" || status=$?
trap - EXIT
cat "$log"
exit "$status"
