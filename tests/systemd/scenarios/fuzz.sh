# shellcheck shell=bash
# Calls every method and property as an unprivileged user, with random arguments of the introspected signatures and a fixed seed:
# no crash, no call without an answer, no leak.
resident() {
    sed -n 's/^VmRSS:[^0-9]*\([0-9]*\) kB/\1/p' "/proc/$(pid)/status"
}
scripted tokens=8
start
before=$(pid)
as member $check fuzz 1 1 >/dev/null
warm=$(resident)
as member $check fuzz 2 6
# The bus refuses Set to members. An operator's Set reaches the daemon, which refuses it.
said=$($check fuzz 3 2)
echo "$said"
matches 'what became of written properties' "$said" 'not written: .*PropertyReadOnly'
! grep -E 'not written: .*(AccessDenied|Denied)' <<<"$said" || fail 'the bus kept an operator from Set'
equal 'the process' "$(pid)" "$before"
after=$(resident)
echo "resident: $warm kB, then $after kB"
[ $((after - warm)) -lt 8192 ] || fail "memory grew from $warm kB to $after kB"
matches 'the answer' "$(ask member hello)" 'sim: hello'
within 5 holds '^u 0$' manager Sessions
within 5 holds '^u 0$' manager QueueLength
