# shellcheck shell=bash
# Named sessions on a full disk and on a read-only one: turns that cannot be written are refused with a remedy, written turns remain,
# and the service continues when the disk has room.
talk() { as member $check talk "$@"; }
last() { tail -n 1 <<<"$1"; }
sessions=/var/lib/ganglion/sessions
install -d -o ganglion -g ganglion -m 0700 $sessions
mount -t tmpfs -o size=256k,mode=0700,uid="$(id -u ganglion)",gid="$(id -g ganglion)" tmpfs $sessions

start
equal 'the turns at first' "$(last "$(talk one hello again)")" '2 turns'

# Full: the daemon confirms neither a turn nor a session.
dd if=/dev/zero of=$sessions/full bs=4k 2>/dev/null && fail 'the disk is not full'
matches 'a session on a full disk' "$(talk two)" '^not opened: .*make room'
# Some turns still fit the last block of the file.
mapfile -t texts < <(yes hello | head -n 12)
said=$(talk one "${texts[@]}")
matches 'what was said on a full disk' "$said" 'error: .*make room'
reported session_unwritten 'make room'
explained session_unwritten 'make room'
kept=$((2 + $(grep -cE '^(stop|length)' <<<"$said" || true)))
equal 'the turns on a full disk' "$(last "$said")" "$kept turns"
matches 'an answer without a session' "$(ask member 'Name a colour.')" '^sa\{sv\} '
systemctl restart $unit
equal 'the turns after a restart' "$(last "$(talk one)")" "$kept turns"
rm $sessions/full
equal 'the turns with room again' "$(last "$(talk one hello)")" "$((kept + 1)) turns"

# Read-only, for which no file may be open: written turns are readable, and no new turn is confirmed.
systemctl stop $unit
mount -o remount,ro $sessions
mark
start
matches 'a session on a disk that takes no writes' "$(talk two)" '^not opened: .*(let the daemon|sessions.directory)'
said=$(talk one hello)
matches 'one that was kept' "$said" '(let the daemon|sessions.directory)'
equal 'its turns' "$(last "$said")" "$((kept + 1)) turns"
matches 'an answer without a session' "$(ask member 'Name a colour.')" '^sa\{sv\} '
systemctl stop $unit
equal 'the result' "$(property Result)" success
mount -o remount,rw $sessions
start
equal 'the turns at last' "$(last "$(talk one hello)")" "$((kept + 2)) turns"
systemctl stop $unit
umount $sessions
