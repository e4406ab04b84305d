# shellcheck shell=bash
# Doctor checks the device as the service's user within the unit's sandbox, reports the paths that it hides, and stores no prompt.
doctor() {
    ganglionctl doctor "$@" || true
}
start
found=$(doctor)
matches 'the unit' "$found" '^ok    unit: active \(running\)'
matches 'the model' "$found" 'sandbox: the service can read /var/lib/ganglion/model.gguf'
matches 'the policy' "$found" '^ok    bus: root may call it'
holds 'not as the service' echo "$found" && fail "root did not check as the service: $found"

# Other users check as themselves, and doctor says it.
matches 'what a member finds' "$(as member ganglionctl doctor || true)" 'the device was checked as member, not as the service'
matches 'what a member may do' "$(as member ganglionctl doctor || true)" '^ok    bus: member may call it'
matches 'what nobody may do' "$(as nobody ganglionctl doctor || true)" 'bus: nobody may not call the daemon'

# A report contains the journal, and no prompt.
ask member 'sentinel-of-a-prompt' >/dev/null
doctor --report /run/report.txt >/dev/null
matches 'the journal' "$(cat /run/report.txt)" '"MESSAGE_ID"'
grep -q sentinel-of-a-prompt /run/report.txt && fail 'the report holds a prompt'
equal 'the mode of the report' "$(stat -c %a /run/report.txt)" 600

# The setting that hides a model.
install -D -m 0644 /usr/lib/ganglion-check/tiny.gguf /home/robot/models/tiny.gguf
configure 'model.path = "/home/robot/models/tiny.gguf"'
ganglionctl doctor >/dev/null && fail 'a hidden model is not a failure'
found=$(doctor)
matches 'the setting' "$found" '^fail  sandbox: ProtectHome= of the unit hides /home/robot/models/tiny.gguf'
matches 'the service' "$found" '^fail  sandbox: the service cannot read /home/robot/models/tiny.gguf'
rm -r /home/robot

# A configuration that root can read and the service cannot. A wrong value is reported once, by its key.
configure 'kv.context = 256'
chmod 0600 /etc/ganglion/gangliond.toml.d/50-scenario.toml
matches 'a closed file' "$(doctor)" '^fail  sandbox: the service cannot read its configuration: .*50-scenario.toml: Permission denied'
configure 'kv.context = "long"'
found=$(doctor)
matches 'a wrong value' "$found" '^fail  configuration: .*kv.context'
grep -q 'cannot read its configuration' <<<"$found" && fail "a wrong value is reported as an unreadable file: $found"

# The check applies a drop-in's setting too.
configure
drop_in '[Service]' 'InaccessiblePaths=/var/lib/ganglion/model.gguf'
matches 'the drop-in' "$(doctor)" '^fail  sandbox: the service cannot read /var/lib/ganglion/model.gguf'
