# shellcheck shell=bash
# From a model file to an answer: pull copies the file with its checksum, setup adapts the configuration to the board and starts the
# service, and a second setup stops it for its measurement and starts it again.
rm /etc/ganglion/gangliond.toml.d/10-base.toml
mv /var/lib/ganglion/model.gguf /root/mine.gguf
ganglionctl pull /root/mine.gguf >/dev/null
equal 'the owner' "$(stat -c %U:%G:%a /var/lib/ganglion/models/mine.gguf)" ganglion:ganglion:644
(cd /var/lib/ganglion/models && sha256sum --check --quiet mine.gguf.sha256)
equal 'the number of files' "$(ls /var/lib/ganglion/models | wc -l)" 2

matches 'the plan' "$(ganglionctl setup --dry-run)" 'would: systemctl enable and restart gangliond'
equal 'the unit after a plan' "$(property ActiveState)" inactive
# Calls before a model is configured each start the service in vain.
for _ in 1 2 3 4 5 6; do
    ask member 'Is anybody there?' 2>/dev/null || true
done
umask 077
ganglionctl setup
umask 022
matches 'the answer' "$(ask member 'Name a colour.')" '^sa\{sv\} '
equal 'the unit at the next start' "$(systemctl is-enabled $unit)" enabled
before=$(pid)
ganglionctl setup
is_anew "$before"

# Another model is set up while programs call. It serves afterwards.
cp /var/lib/ganglion/models/mine.gguf /var/lib/ganglion/models/other.gguf
calling() {
    while :; do
        timeout 5 busctl --quiet get-property $name $path $name.Manager State 2>/dev/null || true
    done
}
calling &
caller=$!
trap 'kill $caller 2>/dev/null || true' EXIT
for model in other mine other; do
    ganglionctl setup --model /var/lib/ganglion/models/$model.gguf
    matches 'the model' "$(manager Model)" "\"path\" s \"[^\"]*/$model.gguf\""
done
kill $caller
equal 'what holds it' "$(property LoadState)" loaded

# A signal to setup, at any moment, leaves the service running and able to start.
for after in 0.02 0.05 0.1 0.2 0.4 0.8; do
    timeout --signal=TERM $after ganglionctl setup --model /var/lib/ganglion/models/other.gguf >/dev/null 2>&1 || true
    within 30 is_active
    equal 'what holds it' "$(property LoadState)" loaded
done

# Another model replaces it without a restart. The served model cannot be removed.
before=$(pid)
ganglionctl use mine.gguf
matches 'the model' "$(manager Model)" '/mine.gguf'
equal 'the process' "$(pid)" "$before"
matches 'the list' "$(ganglionctl models)" '^mine.gguf .* served'
! said=$(ganglionctl models remove mine.gguf 2>&1) || fail 'the served model was removed'
matches 'the refusal' "$said" 'mine.gguf is served: sudo ganglionctl use ANOTHER'

# A model that cannot serve is refused, and the old one continues.
before=$(pid)
mkdir -p /home/robot && cp /var/lib/ganglion/models/mine.gguf /home/robot/
! said=$(ganglionctl setup --model /home/robot/mine.gguf 2>&1) || fail 'a model that the sandbox hides is set up'
matches 'the refusal' "$said" 'ProtectHome=.*BindReadOnlyPaths='
install -m 0600 -o root /var/lib/ganglion/models/mine.gguf /var/lib/ganglion/models/private.gguf
! said=$(ganglionctl setup --model /var/lib/ganglion/models/private.gguf 2>&1) || fail "root's own file is set up"
matches 'the refusal' "$said" 'user ganglion cannot read'
ganglionctl models remove private.gguf
[ ! -e /var/lib/ganglion/models/private.gguf ] || fail 'a model that is not served was not removed'
equal 'the process' "$(pid)" "$before"

echo 'model.path = "/var/lib/ganglion/models/other.gguf"' >/etc/ganglion/gangliond.toml.d/60-local.toml
! said=$(ganglionctl setup --model /var/lib/ganglion/models/mine.gguf 2>&1) || fail 'a later file is not seen'
matches 'the refusal' "$said" 'comes after 50-setup.toml says model.path = .*runs again'
within 30 is_active
matches 'the model' "$(manager Model)" '/other.gguf'
systemctl disable $unit
