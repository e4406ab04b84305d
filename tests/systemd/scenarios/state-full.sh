# shellcheck shell=bash
# The service works with a full disk for its state.
mount -t tmpfs -o size=1m tmpfs /var/lib/ganglion
install -m 0644 /usr/lib/ganglion-check/tiny.gguf /var/lib/ganglion/model.gguf
dd if=/dev/zero of=/var/lib/ganglion/full bs=4k 2>/dev/null && fail 'the disk is not full'
start
matches 'the answer' "$(ask member 'Name a colour.')" '^sa\{sv\} '
systemctl stop $unit
equal 'the result' "$(property Result)" success
umount /var/lib/ganglion
