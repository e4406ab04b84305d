# shellcheck shell=bash
# systemctl reload returns when the new configuration is active, or fails with the reason and changes nothing.
start
before=$(pid)
tokens() {
    as member busctl call $name $path $name.Manager Complete 'sa{sv}' hello 0 | grep -o '"completion_tokens" u [0-9]*'
}
configure 'sampling.max_tokens = 3'
systemctl reload $unit
equal 'the tokens of an answer' "$(tokens)" '"completion_tokens" u 3'
reported reloaded

mark
configure 'sampling.max_tokens = 0'
systemctl reload $unit 2>/dev/null && fail 'a bad configuration became active'
reported reload_failed 'max_tokens'
is_active || fail 'the service ended'
equal 'the tokens of an answer' "$(tokens)" '"completion_tokens" u 3'

# Another model replaces the old one while a request runs. A missing model changes nothing.
mark
cp /var/lib/ganglion/model.gguf /var/lib/ganglion/other.gguf
configure 'model.path = "/var/lib/ganglion/other.gguf"'
as member $check ask 4 'Name a colour.' >/run/ended.log &
systemctl reload $unit
wait $!
matches 'how the running requests ended' "$(cat /run/ended.log)" '^4 (stop|length)$'
matches 'the model' "$(manager Model)" '/var/lib/ganglion/other.gguf'
reported reloaded

mark
configure 'model.path = "/var/lib/ganglion/missing.gguf"'
systemctl reload $unit 2>/dev/null && fail 'a missing model became active'
reported reload_failed '/var/lib/ganglion/missing.gguf'
matches 'the model' "$(manager Model)" '/var/lib/ganglion/other.gguf'
matches 'the answer' "$(ask member hello)" '^sa\{sv\} '
equal 'the process' "$(pid)" "$before"
