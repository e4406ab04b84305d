# shellcheck shell=bash
# All attacks of hostile users at once, next to four honest clients: no answer is wrong or lost, nothing restarts, the daemon returns
# the memory, and the journal names the attackers. `make soak` runs it.
seconds=${HOSTILE_SECONDS:-60}
resident() {
    sed -n 's/^VmRSS:[^0-9]*\([0-9]*\) kB/\1/p' "/proc/$(pid)/status"
}
is_small() {
    [ $(($(resident) - base)) -lt 16384 ]
}
scripted tokens=8,delay=2ms
start
within 10 holds '"ready"' manager State
as both $check honest 2 4 >/dev/null
before=$(pid) base=$(resident)
as member $check attack members "$seconds" &
as stranger $check attack strangers "$seconds" &
as both $check honest "$seconds" 4 | tee /run/honest.log
wait
matches 'what honest clients saw' "$(cat /run/honest.log)" '^wrong 0 lost 0 unanswered 0$'
! grep '^error' /run/honest.log || fail 'honest clients were refused'
equal 'the process' "$(pid)" "$before"
equal 'the restarts' "$(property NRestarts)" 0
high=$(sed -n 's/^VmHWM:[^0-9]*\([0-9]*\) kB/\1/p' "/proc/$before/status")
echo "resident: $base kB, at most $high kB, then $(resident) kB"
[ $((high - base)) -lt $((128 * 1024)) ] || fail "memory grew from $base kB to $high kB"
within 20 is_small
holds "\"CLIENT_UID\" *: *\"$(id -u member)\"" journal --output=json --priority=warning || fail 'the journal does not name the attacker'
matches 'the answer' "$(ask member hello)" 'sim: hello'
