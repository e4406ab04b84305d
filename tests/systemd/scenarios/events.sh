# shellcheck shell=bash
# Provokes every event of the table once, except those of a GPU. The journal has each with its level, its source and all its fields.

# One turn of a session, with any result.
converse() {
    printf '%s\n' hello | as member timeout 30 ganglionctl chat >/dev/null 2>&1 || true
}
start_in_vain() {
    ! systemctl start $unit 2>/dev/null || fail 'it started'
    systemctl reset-failed $unit
}
unlimited=('[Unit]' 'StartLimitIntervalSec=0')
drop_in "${unlimited[@]}"

# A session, a reset of the graph, a reload, and refusals.
start
converse
busctl call $name $path $name.Diagnostics ResetGraph
systemctl reload $unit
configure 'kv.slots = 2' 'kv.type = "q8_0"'
systemctl reload $unit

# A named session: a power cut leaves an incomplete write in its file, then another program damages it.
talk() { as member busctl call $name $path $name.Manager OpenSession 'a{sv}' 1 name s talk >/dev/null; }
talk
kept=$(find /var/lib/ganglion/sessions -type f -name 'talk.*')
printf torn >>"$kept"
systemctl restart $unit
talk
printf damaged | dd of="$kept" bs=1 seek=40 conv=notrunc status=none
systemctl restart $unit
talk || true

configure 'kv.contxt = 1'
systemctl reload $unit 2>/dev/null && fail 'a bad configuration became active'
systemd-run --quiet --wait --property=User=ganglion gangliond --sim && fail 'a second daemon has the name'
configure 'limits.requests_per_user = 2'
systemctl restart $unit
as member $check ask 8 hello >/dev/null
configure 'queue.capacity = 1'
systemctl restart $unit
as member $check ask 8 hello 4 >/dev/null
# More events of one caller than are reported at once. The rest is counted before the process ends.
configure 'sampling.max_tokens = 1'
systemctl restart $unit
as member $check ask 2 hello 40 >/dev/null
systemctl stop $unit

# Failing starts.
configure 'kv.contxt = 1'
start_in_vain
configure 'memory.reserve_mib = 1048576'
start_in_vain
configure 'model.path = "/missing"'
start_in_vain

drop_in "${unlimited[@]}" '[Service]' ExecStart= 'ExecStart=/bin/sh -c "ulimit -n 5 && exec /usr/bin/gangliond"'
start_in_vain

# A decode graph whose launches are refused until it is disabled.
configure 'graph.debug.refuse_launches = 3'
drop_in "${unlimited[@]}"
systemctl restart $unit
converse
reported graph_disabled

# The events of the levels debug and trace. A graph that outlives a turn, until the mode is "none".
configure 'log.level = "trace"' 'graph.mode = "piecewise"' 'sampling.max_tokens = 8'
systemctl restart $unit
printf '%s\n' hello again | as member timeout 30 ganglionctl chat >/dev/null 2>&1 || true
reported graph_verified
configure 'log.level = "trace"' 'graph.mode = "none"'
systemctl reload $unit
reported graph_off

# Faults of the engine, warnings of libraries, a client that does not read, a standstill that passes.
configure 'watchdog.stall_seconds = 2' 'stream.stall_seconds = 1' 'sampling.max_tokens = 4000'
for fault in fail_after=1 lost_after=1 panic_after=1 library=complains; do
    scripted $fault "${unlimited[@]}"
    systemctl restart $unit
    converse
done
scripted tokens=4000,delay=1ms "${unlimited[@]}"
systemctl restart $unit
as member $check hold 1 "$(printf 'word%.0s' {1..200})" >/dev/null &
reported slow_reader
kill %%
as member $check hold 1 hello >/run/hold.log &
within 10 grep -q holding /run/hold.log
$check freeze "$(pid)" engine >/dev/null &
reported stalled
kill %%
reported stall_over

# Clients that do not read, on a bus that reports it and on one that does not. An invalid message. A bus that restarts.
scripted tokens=8 "${unlimited[@]}"
systemctl restart $unit
as member $check attack unread-descriptors 4
reported answers_unread
hide=/etc/dbus-1/system.d/hide.conf
printf '%s\n' '<busconfig><policy user="ganglion">' \
    '<deny send_destination="org.freedesktop.DBus" send_interface="org.freedesktop.DBus.Debug.Stats"/>' \
    '</policy></busconfig>' >$hide
systemctl reload dbus.service
as member $check attack unread-descriptors 2
reported bus_untold
rm $hide
systemctl reload dbus.service
as member busctl --timeout=1 call $name "/$(printf 'x%.0s' {1..65530})" org.freedesktop.DBus.Peer Ping 2>/dev/null &&
    fail 'a message with an invalid path was answered'
reported messages_unreadable
systemctl restart dbus.service
reported bus_lost
reported bus_found

# A socket that cannot be used for HTTP.
socket=ganglion-openai.socket
mkdir -p /run/systemd/system/$socket.d
printf '[Socket]\nListenDatagram=/run/ganglion/datagrams\n' >/run/systemd/system/$socket.d/wrong.conf
systemctl daemon-reload
systemctl stop $unit $socket
systemctl start $unit
reported http_refused
rm -r /run/systemd/system/$socket.d
systemctl daemon-reload
systemctl stop $unit $socket
systemctl start $unit
reported http_listening

# A model is released, and its file is away when a request needs it.
drop_in "${unlimited[@]}"
configure 'kv.slots = 2'
systemctl restart $unit
within 15 holds ready manager State
ganglionctl release
reported model_unloaded
mv /var/lib/ganglion/model.gguf /var/lib/ganglion/away.gguf
ask member hello 2>/dev/null && fail 'there is no model'
reported load_again_failed 'model.gguf'
mv /var/lib/ganglion/away.gguf /var/lib/ganglion/model.gguf
matches 'the answer' "$(ask member hello)" '^sa\{sv\} '

# This model cannot cause some events: it sees no images, every context fits, its template and vocabulary have no faults, it
# recommends no sampling, it has no draft model and no head, there is no CUDA, and the system has no sensors. Other places cause the rest: journal-stopped.sh,
# tests/service/named_sessions.rs (failing disks, sessions that exceed the context), tests/lasting.rs (pages on disk),
# tests/together/unloads.rs (short memory) and tests/service/board.rs (a hot board).
journal --output=json | $check fields cuda_error joules largest_context >/run/never
equal 'the events that did not occur' "$(sort /run/never | tr '\n' ' ')" \
    'decoding_recovered decoding_slowed draft_failed events_dropped grammar_stopped head_failed head_layers head_skipped image_encoded kv_harmful memory_relieved pages_refused pages_restored pages_saved pages_unwritten sampling_unused session_unreadable session_unwritten template_stopped tokenizer_skips tower_skipped turns_dropped '
