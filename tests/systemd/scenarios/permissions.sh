# shellcheck shell=bash
# For an unreadable model or configuration, the error names the file and the reason.
install -m 0600 -o root /usr/lib/ganglion-check/tiny.gguf /var/lib/tiny-root.gguf
configure 'model.path = "/var/lib/tiny-root.gguf"'
systemctl start $unit 2>/dev/null && fail 'it started'
equal 'the exit status' "$(property ExecMainStatus)" 78
reported load_failed '/var/lib/tiny-root.gguf.*([Pp]ermission|read)'
rm /var/lib/tiny-root.gguf

mark
systemctl reset-failed $unit
rm /etc/ganglion/gangliond.toml.d/50-scenario.toml
chmod 0600 /etc/ganglion/gangliond.toml
systemctl start $unit 2>/dev/null && fail 'it started'
reported config_error '/etc/ganglion/gangliond.toml.*[Pp]ermission'
