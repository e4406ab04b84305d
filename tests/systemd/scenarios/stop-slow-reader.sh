# shellcheck shell=bash
# A client that never reads delays neither the others nor the stop. Other clients get their last frame.
scripted tokens=4000,delay=1ms
configure 'stop.grace_seconds = 2' 'sampling.max_tokens = 4000'
start
as member $check hold 2 "$(printf 'word%.0s ' {1..200})" >/run/hold.log &
within 10 grep -q holding /run/hold.log
as member $check ask 2 'Name a colour.' >/run/ask.log &
reader=$!
sleep 1
systemctl stop $unit
# Otherwise systemd would have killed it.
equal 'the result' "$(property Result)" success
wait $reader
matches 'how the readers ended' "$(cat /run/ask.log)" '^[12] (cancelled|length|stop)'
grep -q lost /run/ask.log && fail "a reader lost its stream: $(cat /run/ask.log)"
kill %1
