# shellcheck shell=bash
# From a model file to an answer: pull gives it to the service with its checksum, setup fits the configuration to the
# board and starts the service, and a second setup stops it for the count and starts it again.
rm /etc/ganglion/gangliond.toml.d/10-base.toml
mv /var/lib/ganglion/model.gguf /root/mine.gguf
ganglionctl pull /root/mine.gguf >/dev/null
equal 'the owner' "$(stat -c %U:%G:%a /var/lib/ganglion/models/mine.gguf)" ganglion:ganglion:644
(cd /var/lib/ganglion/models && sha256sum --check --quiet mine.gguf.sha256)
equal 'what is left beside it' "$(ls /var/lib/ganglion/models | wc -l)" 2

matches 'the plan' "$(ganglionctl setup --dry-run)" 'would: systemctl enable --now gangliond'
equal 'the unit after a plan' "$(property ActiveState)" inactive
ganglionctl setup
matches 'the answer' "$(ask member 'Name a colour.')" '^sa\{sv\} '
equal 'the unit at the next start' "$(systemctl is-enabled $unit)" enabled
before=$(pid)
ganglionctl setup
is_anew "$before"
systemctl disable $unit
