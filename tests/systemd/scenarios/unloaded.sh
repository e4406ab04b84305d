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

# Other processes fill the memory. With groups of memory it is that of a slice, as an operator would set it: above
# MemoryHigh the kernel makes them wait, and kills nothing. Without, files stand for what the kernel reports.
mark
systemctl stop $unit
configure 'memory.keep_free_mib = 64'
mkdir -p /run/reported
reported_memory() {
    printf 'MemTotal: 8000000 kB\nMemFree: %s kB\nMemAvailable: %s kB\n' "$1" "$1" >/run/reported/meminfo
    printf '%s avg10=%s avg60=0.00 avg300=0.00 total=0\n' some "$2" full 0.00 >/run/reported/memory
}
if grep -qw memory /sys/fs/cgroup/cgroup.controllers; then
    printf '%s\n' '[Slice]' MemoryHigh=400M MemoryMax=800M >/run/systemd/system/robot.slice
    drop_in '[Service]' Slice=robot.slice
else
    reported_memory 4000000 0.00
    drop_in '[Service]' BindReadOnlyPaths=/run/reported/meminfo:/proc/meminfo \
        BindReadOnlyPaths=/run/reported/memory:/proc/pressure/memory
fi
start
before=$(pid)
matches 'the answer' "$(ask member hello)" '^sa\{sv\} '
if [ -e /run/systemd/system/robot.slice ]; then
    # tail holds all that it reads, because there is no line.
    systemd-run --quiet --unit=filler --slice=robot.slice bash -c '{ head -c 600M /dev/zero; sleep infinity; } | tail'
else
    systemd-run --quiet --unit=filler sleep infinity
    reported_memory 32000 20.00
fi
within 60 is_idle
reported model_unloaded 'lacks memory'
systemctl is-active --quiet filler || fail 'the other program was killed'
events=/sys/fs/cgroup/robot.slice/memory.events
[ ! -e $events ] || grep -qx 'oom_kill 0' $events || fail "the kernel killed: $(tr '\n' ' ' <$events)"
systemctl stop filler
[ ! -e /run/reported/meminfo ] || reported_memory 4000000 0.00
matches 'the answer' "$(ask member hello)" '^sa\{sv\} '
equal 'the process' "$(pid)" "$before"
rm -f /run/systemd/system/robot.slice
