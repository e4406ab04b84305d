# shellcheck shell=bash
# With a model that is missing or a configuration that is wrong, the call that starts the service learns why at once
# instead of waiting for 25 s, and systemd does not try again.
in_vain() {
    local event=$1 pattern=$2 said
    mark
    systemctl reset-failed $unit 2>/dev/null || true
    said=$(as member busctl call --timeout=5 $name $path $name.Manager Complete 'sa{sv}' 'Name a colour.' 0 2>&1) &&
        fail "the call was answered: $said"
    matches 'what the caller reads' "$said" "$pattern"
    within 10 has_failed
    equal 'the exit status' "$(property ExecMainStatus)" 78
    reported "$event" "$pattern"
    explained "$event" 'gangliond'
    sleep 3
    equal 'the restarts' "$(property NRestarts)" 0
}
rm /var/lib/ganglion/model.gguf
in_vain load_failed '/var/lib/ganglion/model.gguf'
configure 'kv.contxt = 3'
in_vain config_error 'contxt'
rm /etc/ganglion/gangliond.toml.d/*
in_vain config_error 'model.path'
