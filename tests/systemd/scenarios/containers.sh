# shellcheck shell=bash
# A socket for a container, as ganglion-openai(7) documents it: all its callers are the user that the configuration names.
socket=ganglion-vision.socket
place=/run/ganglion-vision/openai.sock
user=$(id -u other)
cat >/run/systemd/system/$socket <<UNIT
[Socket]
ListenStream=$place
FileDescriptorName=vision
SocketMode=0600
SocketUser=stranger
Service=$unit
UNIT
configure "http.users = [\"vision=$user\"]"
drop_in '[Service]' "Sockets=$socket"
systemctl stop $unit ganglion-openai.socket
systemctl start $unit
reported http_listening "unix $place \\(vision\\)"

# rootless COMMAND...: in a container of a stranger, where the stranger is root. rootful: where root is root of the machine.
rootless() { as stranger unshare --user --map-root-user --mount --pid --fork --net --ipc --uts "$@" 2>&1; }
rootful() { unshare --mount --pid --fork --net --ipc --uts "$@" 2>&1; }
equal 'the user in the container' "$(rootless id -u)" 0
for container in rootless rootful; do
    within 10 holds '200 OK: .*"ready"' $container $check http $place /health
    matches "/metrics for $container" "$($container $check http $place /metrics)" "403 .*user $user "
done
# The socket of all programs has no such user: root is root, and the stranger may not connect.
matches '/metrics for root' "$(rootful $check http /run/ganglion/openai.sock /metrics)" '200 OK'
matches 'what a stranger reads' "$(rootless $check http /run/ganglion/openai.sock /health || true)" 'Permission denied'

# A reload applies another user to new connections.
configure "http.users = [\"vision=$(id -u member)\"]"
systemctl reload $unit
matches '/metrics after a reload' "$(rootless $check http $place /metrics)" "403 .*user $(id -u member) "

# Without the key the callers are the users that they are on this machine.
configure ''
systemctl reload $unit
matches '/metrics without the key' "$(rootless $check http $place /metrics)" "403 .*user $(id -u stranger) "
