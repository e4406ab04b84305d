#!/usr/bin/env bash
# exhausted.sh ATTACK...: runs inside a booted system with MemoryMax=2G, and prints a row of the table for each attack. Four honest
# clients run next to it, two of them with JSON answers. See attacks.sh.
# Verdicts: RESTARTED or REPLACED (the daemon), KEPT (more than 128 MiB afterwards), WRONG, LATE or REFUSED (answers of honest
# clients), BROKEN (the attack did harm), DEAF (no introspection). "miss" is a p99 of more than twice that of running alone;
# it depends on the machine and is not a failure.
set -uo pipefail
here=/usr/lib/ganglion-check
source $here/library.sh
trap - ERR
honest=4 guided=2 most=2G keeps=$((128 * 1024))
row='%-20s %-15s %-15s %-23s %-23s %-9s %-13s %s\n'
failed=0

# Limits the daemon's memory to $most. If the unified hierarchy has no memory controller, as in many containers, the daemon enters a
# group of the older hierarchy before it starts.
bounded() {
    local enter=()
    if ! grep -qw memory /sys/fs/cgroup/cgroup.controllers; then
        group=/srv/memory/ganglion-attacked
        mkdir -p /srv/memory
        mount -t cgroup -o memory cgroup /srv/memory
        mkdir -p $group
        echo $most >$group/memory.limit_in_bytes
        chown ganglion $group/cgroup.procs
        enter=("ReadWritePaths=$group" 'ExecStart='
            "ExecStart=/bin/sh -c 'echo \$\$\$\$ >$group/cgroup.procs && exec /usr/bin/gangliond'")
    fi
    drop_in '[Service]' "MemoryMax=$most" ${enter[@]+"${enter[@]}"}
}

# Prints the KiB of the daemon and all of its processes, page cache included.
current() {
    local file=/sys/fs/cgroup$(property ControlGroup)/memory.current
    [ -z "${group:-}" ] || file=$group/memory.usage_in_bytes
    echo $(($(cat "$file" 2>/dev/null || echo 0) / 1024))
}

# mebibytes KIB...: with slashes between.
mebibytes() {
    local one
    for one in "$@"; do echo $((one / 1024)); done | paste -sd /
}

# what FILE KEY: prints the word after the key in the line about first tokens.
what() { sed -n "s/^first .*\b$2 \([^ ]*\).*/\1/p;s/^first $2 \([^ ]*\).*/\1/p" "$1" | head -n 1; }

is_ready() { holds '"ready"' manager State; }

# Starts the daemon, also after a failure, and warms it up.
begin() {
    systemctl stop $unit
    systemctl reset-failed $unit 2>/dev/null
    systemctl start $unit
    within 60 is_ready
    as both $check honest 5 $honest $guided >/dev/null
    sleep 1
}

peaks() {
    local highest=(0 0) now
    while :; do
        now=("$(current)" "$(pss)")
        for at in 0 1; do [ "${now[at]}" -le "${highest[at]}" ] || highest[at]=${now[at]}; done
        echo "${highest[@]}" >/run/peaks
        sleep 0.5
    done
}

# attacked NAME [MEANWHILE]: prints a row for attack_NAME. MEANWHILE is run between the start of the attack and that of the
# honest clients.
attacked() {
    local title=$1 meanwhile=${2:-sleep 1} before base after peak restarts kept verdict=()
    begin
    # A daemon that has just started answers its first requests later, also without an attack.
    [ "$meanwhile" != restarted ] || restarted >/dev/null
    as both $check honest "$ALONE_SECONDS" $honest $guided >/run/alone.log 2>&1
    before=$(pid) base=("$(current)" "$(pss)")
    : >/run/attacker.log
    peaks &
    local peaks=$!
    "attack_${title//-/_}" >/run/attacker.log 2>&1 &
    local attack=$!
    $meanwhile >/run/meanwhile.log 2>&1
    as both $check honest "$ATTACK_SECONDS" $honest $guided >/run/honest.log 2>&1
    wait $attack
    sleep "$REST_SECONDS"
    kill $peaks 2>/dev/null
    wait $peaks 2>/dev/null
    after=("$(current)" "$(pss)")
    read -ra peak </run/peaks
    restarts=$(property NRestarts)
    kept=$((after[1] - base[1]))

    [ "$restarts" = 0 ] && is_active || verdict+=(RESTARTED)
    [ "$meanwhile" = restarted ] || [ "$(pid)" = "$before" ] || verdict+=(REPLACED)
    [ $kept -le $keeps ] || verdict+=("KEPT")
    grep -q '^wrong 0 lost 0 ' /run/honest.log || verdict+=(WRONG)
    grep -q ' unanswered 0$' /run/honest.log || verdict+=(LATE)
    ! grep -q '^error' /run/honest.log || verdict+=(REFUSED)
    ! grep -q FAILED /run/attacker.log /run/meanwhile.log || verdict+=(BROKEN)
    as member timeout 10 busctl introspect $name $path >/dev/null 2>&1 || verdict+=(DEAF)
    [ ${#verdict[@]} = 0 ] || failed=1
    awk -v alone="$(what /run/alone.log p99)" -v with="$(what /run/honest.log p99)" \
        'BEGIN { exit alone + 0 > 0 && with + 0 > 0 && with <= 2 * alone }' && verdict+=(miss)
    [ ${#verdict[@]} -gt 0 ] || verdict=(ok)
    # shellcheck disable=SC2059
    printf "$row" "$title" "$(what /run/alone.log p50)/$(what /run/alone.log p99)" \
        "$(what /run/honest.log p50)/$(what /run/honest.log p99)" \
        "$(mebibytes "${base[0]}" "${peak[0]}" "${after[0]}")" "$(mebibytes "${base[1]}" "${peak[1]}" "${after[1]}")" \
        "$restarts" "$(IFS=,; echo "${verdict[*]}")" \
        "$(cat /run/attacker.log /run/meanwhile.log | grep -v '^  ' | paste -sd ';'); $(grep -E '^wrong [^0]|^error|lost [^0]|unanswered [^0]' /run/honest.log | paste -sd ';')"
    cp /run/attacker.log "/run/attacker-$title.log"
}

guides() { as "$1" $check guides "$2" "$ATTACK_SECONDS" ${3:+"$3"}; }
attack_patterns_all_of() { guides member patterns-all-of; }
attack_patterns_lark() { guides member patterns-lark; }
attack_pattern_properties() { guides member pattern-properties; }
attack_multiple_of() { guides member multiple-of; }
attack_long_pointers() { guides member long-pointers; }
attack_json_in_a_string() { guides member json-in-a-string; }
attack_large_schemas() { guides member large-schemas 10; }
attack_two_users() {
    guides member patterns-all-of &
    guides other patterns-lark &
    wait
}
attack_during_load() { guides member patterns-all-of; }
attack_takes() { as member $check takes "$ATTACK_SECONDS"; }
attack_random() {
    as member $check shapes "$SEED" "$ATTACK_SECONDS" "$SCHEMAS"
}

# Restarts the daemon during the attack. Prints the seconds until it has stopped, and from there until it is ready.
restarted() {
    local begun until=$((SECONDS + 60)) at
    sleep 1
    begun=$(cut -d ' ' -f 1 /proc/uptime)
    systemctl restart $unit
    until is_ready; do
        [ $SECONDS -lt $until ] || { echo 'FAILED: it is not ready'; break; }
        sleep 0.1
    done
    at=$(property InactiveExitTimestampMonotonic)
    awk -v begun="$begun" -v at="$at" -v now="$(cut -d ' ' -f 1 /proc/uptime)" \
        'BEGIN { printf "stopped within %.1f s, ready %.1f s later\n", at / 1e6 - begun, now - at / 1e6 }'
}

# The state folder has a FIFO, a device and a file of 3 GiB in the places of session files. Sessions of the user can be listed
# and opened all the same.
attack_state_folder() {
    local until=$((SECONDS + ATTACK_SECONDS)) folder answered=0 late=0 session
    folder=/var/lib/ganglion/sessions/$(id -u member)
    mkdir -p "$folder"
    for session in fifo.session device.session fifo.pages huge.session; do
        case $session in
        fifo.*) mkfifo "$folder/$session" ;;
        device.*) mknod "$folder/$session" c 1 5 ;;
        huge.*) truncate --size=3G "$folder/$session" ;;
        esac
    done
    chown -R ganglion:ganglion /var/lib/ganglion/sessions
    chmod -R u=rwX,go= /var/lib/ganglion/sessions
    while [ $SECONDS -lt $until ]; do
        for session in fifo device huge other; do
            # The call may be refused, but it has an answer.
            if as member busctl call --timeout=5 $name $path $name.Manager OpenSession 'a{sv}' \
                1 name s "$session" 2>&1 | grep -qiE 'timed out|NoReply'; then
                late=$((late + 1))
            else
                answered=$((answered + 1))
            fi
        done
        as member busctl call --timeout=5 $name $path $name.Manager ListSessions >/dev/null 2>&1 ||
            late=$((late + 1))
        sleep 0.2
    done
    echo "$answered opened or refused"
    [ $late = 0 ] || echo "FAILED: $late calls had no answer within 5 s"
}
# The folder is read at the start.
attack_state_folder_at_start() { attack_state_folder; }

fresh
bounded
context=512
if [ -e $here/model.gguf ]; then
    cp $here/model.gguf /var/lib/ganglion/model.gguf
    context=1024
fi
printf '%s\n' 'model.path = "/var/lib/ganglion/model.gguf"' "kv.context = $context" >/etc/ganglion/gangliond.toml.d/10-base.toml
# shellcheck disable=SC2059
printf "$row" attack 'alone p50/p99' 'with p50/p99' 'memory base/peak/after' 'PSS base/peak/after' restarts verdict \
    'outcomes of the attacker; errors of honest clients (first token in ms, memory in MiB)'
for attack in "$@"; do
    case $attack in
    during-load) attacked "$attack" restarted ;;
    state-folder-at-start) attacked "$attack" restarted ;;
    *) attacked "$attack" ;;
    esac
    # The next one begins with an empty state folder.
    systemctl stop $unit
    rm -rf /var/lib/ganglion/sessions
done
exit $failed
