# shellcheck shell=bash
# Killed by a signal, it is back by itself, answers, and has left no core.
start
for signal in SEGV ABRT KILL; do
    before=$(pid)
    kill -s $signal "$before"
    # A violation repeats itself; Rust's handler, which looks for a full stack, returns from the first.
    [ $signal != SEGV ] || { sleep 0.5 && kill -s $signal "$before"; }
    within 15 is_anew "$before"
    matches 'the answer' "$(ask member 'Name a colour.')" '^sa\{sv\} '
done
equal 'the restarts' "$(property NRestarts)" 3
equal 'cores' "$(find / -xdev -name 'core*' -newer /run/ganglion -type f -size +100k 2>/dev/null)" ''
