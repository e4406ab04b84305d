# shellcheck shell=bash
# The model is unloaded on a call, after a time, and when other programs of its control group need the memory. The service
# stays active, and the next request has the same answer.
state() { manager State | grep -o '"[a-z]*"' | tr -d '"'; }
is_idle() { [ "$(state)" = idle ]; }

start
before=$(pid)
answer=$(ask member hello)
matches 'the answer' "$answer" '^sa\{sv\} '
as member ganglionctl release 2>/dev/null && fail 'a member may release the model'
ganglionctl release
equal 'the state' "$(state)" idle
matches 'the status' "$(property StatusText)" '^idle; the model is unloaded'
reported model_unloaded
is_active || fail 'the service ended'
mark
matches 'the answer' "$(ask member hello)" '^sa\{sv\} '
reported model_loaded
equal 'the state' "$(state)" ready

mark
configure 'idle.unload_seconds = 1'
systemctl reload $unit
within 60 is_idle
reported model_unloaded
matches 'the answer' "$(ask member hello)" '^sa\{sv\} '
configure 'idle.unload_seconds = 0'
systemctl reload $unit
matches 'the answer' "$(ask member hello)" '^sa\{sv\} '
equal 'the process' "$(pid)" "$before"

# Other processes fill the control group of the daemon. Its limit is a slice's, as an operator would set it.
mark
cat >/run/systemd/system/robot.slice <<END
[Slice]
MemoryMax=512M
END
mkdir -p /run/systemd/system/$unit.d
printf '[Service]\nSlice=robot.slice\n' >/run/systemd/system/$unit.d/slice.conf
systemctl daemon-reload
configure 'memory.keep_free_mib = 128'
systemctl restart $unit
matches 'the answer' "$(ask member hello)" '^sa\{sv\} '
# It holds most of the limit, and waits for the rest of it again and again.
systemd-run --quiet --unit=filler --slice=robot.slice --property=OOMPolicy=continue bash -c '
    exec 3<>/dev/null; mapfile -d "" filled < <(head -c 340M /dev/zero | tr "\0" x)
    head -c 400M /dev/urandom >/var/tmp/read
    while :; do cat /var/tmp/read >/dev/null; done'
within 60 is_idle
reported model_unloaded 'lacks memory'
systemctl stop filler
rm -f /var/tmp/read
matches 'the answer' "$(ask member hello)" '^sa\{sv\} '
