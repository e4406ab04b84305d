# shellcheck shell=bash
# OpenAI's API on the sockets of ganglion-openai.socket: who may connect, what starts the service, and what outlives it.
socket=ganglion-openai.socket
place=/run/ganglion/openai.sock
health() { as "$1" $check http $place /health 2>&1; }
answers() { health member | grep -q '200 OK: .*"ready"'; }

# A start of the service, here by a call on the bus, starts the socket too.
systemctl stop $unit $socket
matches 'the answer on the bus' "$(ask member 'Name a colour.')" '^sa\{sv\} '
within 10 answers
reported http_listening "unix $place \\(openai\\)"
equal 'the owner and the mode' "$(stat --format='%U:%G %a' $place)" 'ganglion:ganglion 660'
for user in root both; do
    matches "the answer to $user" "$(health $user)" '200 OK'
done
for user in stranger nobody admin; do
    matches "what $user reads" "$(health $user)" 'Permission denied'
done

# The socket outlives the service, and a connection starts it.
systemctl stop $unit
[ -S $place ] || fail 'the socket went with the service'
health member >/dev/null || true
within 10 answers
is_active || fail 'a connection does not start the service'
systemctl restart $unit
within 10 answers

# TCP, as the drop-in documents it.
key=0123456789abcdef0123456789abcdef
install -m 0600 -o ganglion /dev/null /etc/ganglion/openai.keys
echo "member $key" >>/etc/ganglion/openai.keys
configure 'http.key_file = "/etc/ganglion/openai.keys"'
install -D -m 0644 /usr/share/ganglion/drop-ins/openai-tcp.conf /run/systemd/system/$socket.d/tcp.conf
systemctl daemon-reload
systemctl stop $unit $socket
systemctl start $unit
within 10 answers
tcp() { $check http 127.0.0.1:11435 /v1/models "$@" 2>&1; }
matches 'the answer to a key' "$(tcp $key)" '200 OK'
matches 'the answer without a key' "$(tcp)" '401 .*missing_api_key'
matches 'the answer to a probe without a key' "$($check http 127.0.0.1:11435 /health)" '200 OK'
matches 'the answer to another key' "$(tcp fedcba9876543210fedcba9876543210)" '401 .*invalid_api_key'

# A key file that other users can read is refused.
chmod 0640 /etc/ganglion/openai.keys
said=$(systemctl reload $unit 2>&1) && fail 'an open key file is accepted'
matches 'the answer to the old key' "$(tcp $key)" '200 OK'

# A socket for datagrams is refused, and the others work.
printf '[Socket]\nListenDatagram=/run/ganglion/datagrams\n' >/run/systemd/system/$socket.d/wrong.conf
chmod 0600 /etc/ganglion/openai.keys
systemctl daemon-reload
systemctl stop $unit $socket
systemctl start $unit
reported http_refused 'not a listening stream socket'
explained http_refused 'systemctl cat ganglion-openai.socket'
within 10 answers

# Without the socket there is no HTTP, and the bus answers.
rm -r /run/systemd/system/$socket.d
systemctl stop $unit $socket
systemctl mask --runtime --quiet $socket
systemctl daemon-reload
systemctl start $unit
! health member >/dev/null || fail 'HTTP is served although the socket is masked'
matches 'the answer on the bus' "$(ask member 'Name a colour.')" '^sa\{sv\} '
systemctl unmask --runtime --quiet $socket
systemctl daemon-reload
