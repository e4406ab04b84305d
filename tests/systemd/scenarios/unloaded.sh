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

# Other processes fill the control group of the daemon, whose limits are a slice's, as an operator would set them. Above
# MemoryHigh the kernel makes them wait for memory; it kills nothing.
mark
cat >/run/systemd/system/robot.slice <<END
[Slice]
MemoryHigh=400M
MemoryMax=800M
END
systemctl stop $unit
drop_in '[Service]' 'Slice=robot.slice'
configure 'memory.keep_free_mib = 64'
start
matches 'the answer' "$(ask member hello)" '^sa\{sv\} '
# tail holds all that it reads, because there is no line.
systemd-run --quiet --unit=filler --slice=robot.slice bash -c '{ head -c 600M /dev/zero; sleep infinity; } | tail'
within 60 is_idle
reported model_unloaded 'lacks memory'
systemctl is-active --quiet filler || fail 'the other program was killed'
is_active || fail 'the service was killed'
systemctl stop filler
matches 'the answer' "$(ask member hello)" '^sa\{sv\} '
