# shellcheck shell=bash
# The watchdog detects a standstill, the journal names the part, and systemd restarts the daemon: the whole process, only the
# engine's thread (stopped by ptrace, as in a hanging driver, and by itself), only the reactor.
configure 'watchdog.stall_seconds = 2' 'sampling.max_tokens = 4000'
watched=('[Unit]' 'StartLimitIntervalSec=0' '[Service]' 'WatchdogSec=6' 'TimeoutAbortSec=2' 'RestartSec=100ms')

# restarted PID [PART]: waits for another process after a watchdog timeout. The journal names the part that stood still.
restarted() {
    within 40 is_anew "$1"
    systemd_said 'Watchdog timeout'
    [ -z "${2:-}" ] || reported stalled "the $2 has stood still"
    mark
}

# Requests a long answer and does not read it, so that the engine has work.
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
