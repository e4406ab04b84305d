# shellcheck shell=bash
# With a missing model or a wrong configuration, the call that starts the service gets the reason. Calls that arrive while it
# exits get it too, and systemd does not restart it.
drop_in '[Unit]' 'StartLimitIntervalSec=0'
in_vain() {
    local event=$1 pattern=$2 said
    mark
    systemctl reset-failed $unit 2>/dev/null || true
    said=$(as member busctl call --timeout=60 $name $path $name.Manager Complete 'sa{sv}' 'Name a colour.' 0 2>&1) &&
        fail "the call was answered: $said"
    matches 'what the caller reads' "$said" "$pattern"
    within 10 has_failed
    # Many at once, at different moments of its short life.
    systemctl reset-failed $unit
    for caller in 1 2 3 4 5 6 7 8; do
        (sleep "0.0$caller" && as member busctl call --timeout=60 $name $path $name.Manager Complete 'sa{sv}' hello 0 2>&1 || true) \
            >"/run/caller-$caller" &
    done
    wait
    for caller in 1 2 3 4 5 6 7 8; do
        matches "what caller $caller reads" "$(cat "/run/caller-$caller")" "$pattern"
    done
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
