#!/usr/bin/env bash
# attacked.sh ATTACK...: runs inside a booted system, and prints a row of the table for each attack. See attacks.sh.
set -uo pipefail
here=/usr/lib/ganglion-check
source $here/library.sh
trap - ERR
row='%-25s %-29s %-29s %-15s %-19s %-9s %-7s %s\n'

memory() {
    local kilobytes
    kilobytes=$(sed -n "s/^$1:[^0-9]*\([0-9]*\) kB/\1/p" "/proc/$(pid)/status" 2>/dev/null)
    echo $((${kilobytes:-0} / 1024))
}

# what LINE KEY...: prints the words after the keys, with slashes between.
what() {
    local line=$1 key
    shift
    for key in "$@"; do sed -n "s/^$line .*\b$key \([^ ]*\).*/\1/p;s/^$line $key \([^ ]*\).*/\1/p" /run/honest.log | head -n 1; done |
        paste -sd /
}

# Starts the daemon, also after a failure.
begin() {
    systemctl stop $unit
    systemctl reset-failed $unit 2>/dev/null
    systemctl start $unit
    within 60 holds '"ready"' manager State
    # The first request is slower than later ones.
    as both $check honest 2 1 >/dev/null
    sleep 1
}

# attacked NAME CLIENTS COMMAND...
attacked() {
    local title=$1 clients=$2 before base restarts high after stalls named
    shift 2
    begin
    mark
    before=$(pid) base=$(memory VmRSS) restarts=$(property NRestarts)
    echo 5 >"/proc/$before/clear_refs"
    "$@" &
    local attack=$!
    sleep 1
    as both $check honest "$ATTACK_SECONDS" "$clients" >/run/honest.log 2>&1
    high=$(memory VmHWM)
    wait $attack
    sleep "$REST_SECONDS"
    after=$(memory VmRSS)
    [ "$(pid)" = "$before" ] || high="?$high"
    restarts=$(($(property NRestarts) - restarts))
    is_active || restarts="$restarts $(property ActiveState)"
    stalls=$(journal --output=cat MESSAGE_ID="$($check id stalled)" | wc -l)
    # Warnings that name the attackers; the honest clients are another user.
    named=$(journal --output=json --priority=warning | grep -cE '"CLIENT_UID" *: *"('"$culprits"')"')
    # shellcheck disable=SC2059
    printf "$row" "$title" "$(what first p50 p99 max of)" "$(what ping p50 p99 max of)" "$(what bus p50 p99)" "$base/$high/$after" "$restarts" "$stalls" \
        "$named; $(grep -E '^(wrong|error)' /run/honest.log | paste -sd ';')"
}

# bare NAME COMMAND...: the same attack on a service that only answers. The rest of the delay comes from the bus.
bare() {
    local title=$1 service attack
    shift
    systemctl stop $unit
    as ganglion $check bare &
    service=$!
    within 10 busctl status $name
    "$@" &
    attack=$!
    sleep 1
    as both $check honest "$ATTACK_SECONDS" 0 >/run/honest.log 2>&1
    wait $attack
    # $service only changes the user: its child owns the name.
    kill "$(busctl status $name | sed -n 's/^PID=//p')"
    wait $service 2>/dev/null
    # shellcheck disable=SC2059
    printf "$row" "$title" - "$(what ping p50 p99 max of)" "$(what bus p50 p99)" - - - "$(grep -E '^error' /run/honest.log | paste -sd ';')"
}

together() {
    as member $check attack members "$ATTACK_SECONDS" &
    as stranger $check attack strangers "$ATTACK_SECONDS" &
    wait
}

one() {
    local who
    who=$($check attacks | sed -n "s/^$1 //p")
    as "$who" $check attack "$1" "$ATTACK_SECONDS"
}

culprits="$(id -u member)|$(id -u stranger)"
fresh
if [ -e $here/model.gguf ]; then
    cp $here/model.gguf /var/lib/ganglion/model.gguf
    printf '%s\n' 'model.path = "/var/lib/ganglion/model.gguf"' >/etc/ganglion/gangliond.toml.d/10-base.toml
else
    scripted tokens=8,delay=5ms
fi
# shellcheck disable=SC2059
printf "$row" attack 'first token p50/p99/max/number' 'ping p50/p99/max/number (ms)' 'bus p50/p99' 'RSS base/high/after' restarts stalls \
    'named in the journal; what honest clients saw'
attacked 'alone (1 honest)' 1 true
[ -z "${BARE:-}" ] || bare '  a bare service' true
for attack in "$@"; do
    case $attack in
    together) attacked 'together (4 honest)' 4 together ;;
    *)
        attacked "$attack" 1 one "$attack"
        [ -z "${BARE:-}" ] || bare '  a bare service' one "$attack"
        ;;
    esac
done
