# shellcheck shell=bash
# A model that does not fit is refused with the numbers before any allocation, and systemd does not restart the daemon.
configure 'memory.reserve_mib = 1048576'
systemctl start $unit 2>/dev/null && fail 'it started'
equal 'the exit status' "$(property ExecMainStatus)" 78
reported memory_refused
reported load_failed 'GB|MiB|memory'
equal 'the restarts' "$(property NRestarts)" 0
