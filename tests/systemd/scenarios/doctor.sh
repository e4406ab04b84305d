# shellcheck shell=bash
# Doctor looks at the device as the service's user within the unit's limits, says what they hide, and keeps no prompt.
doctor() {
    ganglionctl doctor "$@" || true
}
start
found=$(doctor)
matches 'the unit' "$found" '^ok    unit: active \(running\)'
matches 'the model' "$found" 'sandbox: the service can read /var/lib/ganglion/model.gguf'
matches 'the policy' "$found" '^ok    bus: root may call it'
holds 'not as the service' echo "$found" && fail "root did not check as the service: $found"

# Others check as themselves, and are told so.
matches 'what a member finds' "$(as member ganglionctl doctor || true)" 'the device was checked as member, not as the service'
matches 'what a member may do' "$(as member ganglionctl doctor || true)" '^ok    bus: member may call it'
matches 'what nobody may do' "$(as nobody ganglionctl doctor || true)" 'bus: nobody may not call the daemon'

# A report holds the journal, and no prompt.
ask member 'sentinel-of-a-prompt' >/dev/null
doctor --report /run/report.txt >/dev/null
matches 'the journal' "$(cat /run/report.txt)" '"MESSAGE_ID"'
grep -q sentinel-of-a-prompt /run/report.txt && fail 'the report holds a prompt'
equal 'the mode of the report' "$(stat -c %a /run/report.txt)" 600

# A model that the sandbox hides, by the setting that hides it.
install -D -m 0644 /usr/lib/ganglion-check/tiny.gguf /home/robot/models/tiny.gguf
configure 'model.path = "/home/robot/models/tiny.gguf"'
ganglionctl doctor >/dev/null && fail 'a hidden model is no failure'
found=$(doctor)
matches 'the setting' "$found" '^fail  sandbox: ProtectHome= of the unit hides /home/robot/models/tiny.gguf'
matches 'the service' "$found" '^fail  sandbox: the service cannot read /home/robot/models/tiny.gguf'
rm -r /home/robot

# A configuration that root reads and the service does not; one that is wrong is told once, by what is wrong.
configure 'kv.context = 256'
chmod 0600 /etc/ganglion/gangliond.toml.d/50-scenario.toml
matches 'a closed file' "$(doctor)" '^fail  sandbox: the service cannot read its configuration: .*50-scenario.toml: Permission denied'
configure 'kv.context = "long"'
found=$(doctor)
matches 'a wrong value' "$found" '^fail  configuration: .*kv.context'
grep -q 'cannot read its configuration' <<<"$found" && fail "a wrong value is no closed file: $found"

# A setting of a drop-in is in force in the check as well.
configure
drop_in '[Service]' 'InaccessiblePaths=/var/lib/ganglion/model.gguf'
matches 'the drop-in' "$(doctor)" '^fail  sandbox: the service cannot read /var/lib/ganglion/model.gguf'
