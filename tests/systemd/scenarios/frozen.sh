# shellcheck shell=bash
# What stands still is found by the watchdog, named in the journal, and restarted by systemd: the whole process, the
# engine's thread alone (stopped by ptrace, as in a driver that hangs, and by itself), the reactor alone.
configure 'watchdog.stall_seconds = 2' 'sampling.max_tokens = 4000'
watched=('[Unit]' 'StartLimitIntervalSec=0' '[Service]' 'WatchdogSec=6' 'TimeoutAbortSec=2' 'RestartSec=100ms')

# restarted PID [PART]: another process serves, because the watchdog was not fed; the journal names what stood still.
restarted() {
    within 40 is_anew "$1"
    systemd_said 'Watchdog timeout'
    [ -z "${2:-}" ] || reported stalled "the $2 has stood still"
    mark
}

# A long answer that nobody reads, so that the engine has work.
busy() {
    as member $check hold 1 'Name a colour.' >/run/hold.log &
    within 10 grep -q holding /run/hold.log
}

scripted tokens=4000,delay=20ms "${watched[@]}"
start
before=$(pid)
kill -STOP "$before"
restarted "$before"

before=$(pid)
busy
$check freeze "$before" engine &
restarted "$before" engine

before=$(pid)
$check freeze "$before" gangliond tokio-rt-worker &
restarted "$before" reactor

for fault in freeze_after=3:engine freeze_reactor_after=3:reactor; do
    scripted "tokens=100,${fault%:*}" "${watched[@]}"
    systemctl restart $unit
    mark
    before=$(pid)
    busy
    restarted "$before" "${fault#*:}"
done
kill %% 2>/dev/null || true
