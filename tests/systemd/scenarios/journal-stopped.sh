# shellcheck shell=bash
# A stopped journal delays no request. Events that wait are reported later, and dropped events are counted.
journald=$(systemctl show --property=MainPID --value systemd-journald.service)
scripted tokens=2
configure 'limits.requests_per_user = 64' 'queue.capacity = 64' 'limits.queue_percent_per_user = 100'
start
kill -STOP "$journald"
trap 'kill -CONT "$journald"' EXIT
# Callers cannot cause enough events to fill the queue. An operator can.
timeout 250 $check reload 5000
ended=$(as member timeout 250 $check ask 20 'Name a colour.' 30)
kill -CONT "$journald"
equal 'how the requests ended' "$ended" '600 stop'
reported reloaded
reported events_dropped
explained events_dropped 'log'
