# shellcheck shell=bash
# Two users send schemas that exhaust time and memory, another tries to take a session, next to four honest clients. No answer is
# wrong, late or lost, the daemon does not restart, and it returns the memory. tests/systemd/attacks.sh exhaust has more attacks,
# and figures.
is_small() {
    [ $(($(pss) - base)) -lt $((128 * 1024)) ]
}
drop_in '[Service]' 'MemoryMax=2G'
start
within 10 holds '"ready"' manager State
as both $check honest 2 4 2 >/dev/null
before=$(pid) base=$(pss)
as member $check guides patterns-all-of 8 >/run/all-of.log &
as other $check guides patterns-lark 8 >/run/lark.log &
as member $check takes 8 >/run/takes.log &
as both $check honest 8 4 2 | tee /run/honest.log
wait
tail -n +1 /run/{all-of,lark,takes}.log
matches 'what honest clients saw' "$(cat /run/honest.log)" '^wrong 0 lost 0 unanswered 0$'
! grep '^error' /run/honest.log || fail 'honest clients were refused'
! grep FAILED /run/takes.log || fail 'a refused take broke the session of its holder'
within 10 is_small
# On a busy machine no schema has had its processor time in 8 s. This one has as long as it takes.
as member $check guides patterns-all-of 120 1
reported grammar_stopped
explained grammar_stopped 'simplify the grammar'
equal 'the process' "$(pid)" "$before"
equal 'the restarts' "$(property NRestarts)" 0
matches 'the answer' "$(ask member hello)" '^sa\{sv\} '
