# shellcheck shell=bash
# A journal that reads nothing holds up no request. What it is not told meanwhile is told later, and what was too much
# is counted.
journald=$(systemctl show --property=MainPID --value systemd-journald.service)
scripted tokens=2
configure 'limits.requests_per_user = 64' 'queue.capacity = 64' 'limits.queue_percent_per_user = 100'
start
kill -STOP "$journald"
trap 'kill -CONT "$journald"' EXIT
# No caller can cause as many events as the queue holds; an operator can.
timeout 250 $check reload 5000
ended=$(as member timeout 250 $check ask 20 'Name a colour.' 30)
kill -CONT "$journald"
equal 'how the requests ended' "$ended" '600 stop'
reported reloaded
reported events_dropped
explained events_dropped 'log'
