# shellcheck shell=bash
# Killed by a signal, it says where it stood, is back by itself, answers, and has left no core.
start
for signal in SEGV ABRT KILL; do
    before=$(pid)
    kill -s $signal "$before"
    within 15 is_anew "$before"
    if [ $signal != KILL ]; then
        within 15 holds "^thread .* got SIG$signal" journal --output=cat --priority=crit _PID="$before"
        within 15 holds 'r--p 00000000 .* /usr/bin/gangliond$' journal --output=cat --priority=crit _PID="$before"
        within 15 holds '^ *[0-9]+: +0x[0-9a-f]+ - ' journal --output=cat --priority=crit _PID="$before"
    fi
    matches 'the answer' "$(ask member 'Name a colour.')" '^sa\{sv\} '
done
equal 'the restarts' "$(property NRestarts)" 3
equal 'cores' "$(find / -xdev -name 'core*' -newer /run/ganglion -type f -size +100k 2>/dev/null)" ''
