# shellcheck shell=bash
# Neither the journal nor the state contains a prompt or an answer afterwards.
sentinel=plumbago-4711-vermilion
configure 'log.level = "trace"'
start
ask member "Say $sentinel." >/dev/null
as member busctl call $name $path $name.Manager Complete 'sa{sv}' "$sentinel" 1 "$sentinel" s "$sentinel" >/dev/null 2>&1 || true
as member $check ask 4 "Say $sentinel." >/dev/null
systemctl stop $unit
scripted fail_after=2
start
as member $check ask 4 "Say $sentinel." >/dev/null
systemctl stop $unit
reported request_failed
journal --output=export | grep -a "$sentinel" && fail 'the journal contains the prompt'
grep -ra "$sentinel" /var/lib/ganglion /var/cache/ganglion /run/ganglion /etc/ganglion 2>/dev/null && fail 'the state contains the prompt'
true
