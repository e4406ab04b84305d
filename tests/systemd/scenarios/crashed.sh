# shellcheck shell=bash
# After a fatal signal the daemon prints its position, restarts, answers, and leaves no core.
last_words() {
    journal --output=cat --priority=crit _PID="$1"
}
# Prints the number of frames within the program's code.
frames_inside() {
    local first end frame count=0
    IFS=- read -r first end < <(sed -n 's/^\([0-9a-f-]*\) r-xp .* \/usr\/bin\/gangliond$/\1/p' <<<"$1")
    for frame in $(sed -n 's/^ *[0-9]*: *\(0x[0-9a-f]*\) - .*/\1/p' <<<"$1"); do
        if ((frame >= 0x$first && frame < 0x$end)); then count=$((count + 1)); fi
    done
    echo $count
}
start
for signal in SEGV ABRT KILL; do
    before=$(pid)
    kill -s $signal "$before"
    within 15 is_anew "$before"
    if [ $signal != KILL ]; then
        within 15 holds '^ *[0-9]+: +0x[0-9a-f]+ - ' last_words "$before"
        said=$(last_words "$before")
        matches 'the first line' "$(head -n 1 <<<"$said")" "^thread .* \([0-9]+\) got SIG$signal \([0-9]+\)$"
        matches 'where the program begins' "$said" '^[0-9a-f]+-[0-9a-f]+ r--p 00000000 .* /usr/bin/gangliond$'
        [ "$(frames_inside "$said")" -gt 1 ] || fail "no frame lies in the program: $said"
    fi
    matches 'the answer' "$(ask member 'Name a colour.')" '^sa\{sv\} '
done
equal 'the restarts' "$(property NRestarts)" 3
equal 'cores' "$(find / -xdev -name 'core*' -newer /run/ganglion -type f -size +100k 2>/dev/null)" ''
