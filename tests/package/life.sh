#!/usr/bin/env bash
# life.sh FOLDER [EVERY]: the life of the package, inside a Debian root as its root user: install, serve, upgrade, remove, purge.
# FOLDER has three versions with different shipped configurations, 1.deb to 3.deb, and model.gguf and golden/. The self-test runs one
# of EVERY cases. The default of 11 includes each operation and each format: under emulation all cases take a quarter of an hour.
set -euo pipefail
folder=$1 every=${2:-11}
# shellcheck source=tests/package/library.sh source-path=SCRIPTDIR/../..
. "$folder/library.sh"

for user in member other; do
    useradd --no-create-home --shell /usr/sbin/nologin "$user"
done
$booted || {
    mkdir -p /run/dbus
    dbus-daemon --system --fork
}
files >/tmp/before
# A program of the member on the bus, before the member joins the group.
as member dbus-monitor --system >/dev/null 2>&1 &
listener=$!

install 1.deb
grep -qx 'ganglion: not started, as no model is configured: .*' /tmp/said || fail 'it does not say how to start'
id ganglion
[ "$(passwd --status ganglion | cut -d ' ' -f 2)" = L ] || fail 'the user is not locked'
usermod --append --groups ganglion member
refused other 'AccessDenied|Access denied|rejected' "${complete[@]}"
# The bus of Debian 11 caches the groups of connected users until it reloads. ganglionctl setup reloads it too.
kill -0 "$listener" || fail 'the listener is gone'
busctl call org.freedesktop.DBus /org/freedesktop/DBus org.freedesktop.DBus ReloadConfig
# The call reaches the daemon or its activation, but there is no model.
refused member 'model|NotReady|Llm1|exited' "${complete[@]}"
! $booted || ! systemctl is-active --quiet gangliond.service || fail 'it runs without a model'
kill "$listener"
ganglionctl --version
ganglionctl man ganglionctl.1 | cmp - <(zcat /usr/share/man/man1/ganglionctl.1.gz)
refused root 'model' gangliond --check-config

gangliond --self-test=$every >/tmp/self-test &
self_test=$!
say 'goldens'
for model in "$folder"/golden/tiny-*/; do
    # Some show rounding otherwise than most: f32 alone has one bound for all (golden/README.md).
    kinds='f32 f16'
    [ ! -e "$model/rounding" ] || kinds=f32
    # Two families have only a GGUF file.
    reference=$model/golden.json
    if [ ! -e "$reference" ]; then
        model+=model.q8_0.gguf
        reference=$model.golden.json
    fi
    for kv in $kinds; do
        ganglionctl score --compare --cpu-activations f32 --threads 1 --model "$model" --kv $kv "$reference"
    done
done
say 'self-test'
wait "$self_test" || { cat /tmp/self-test; fail 'the self-test'; }
cat /tmp/self-test

say 'a conversation'
configure_model
gangliond --check-config
start
as member ganglionctl status
# 1: doctor reports that this machine is not a Jetson.
ganglionctl doctor || [ $? = 1 ]
as member "${complete[@]}"
# 1: max_tokens cuts the answer.
as member ganglionctl ask --max-tokens 8 hello </dev/null || [ $? = 1 ]
refused other 'AccessDenied|Access denied|rejected' "${complete[@]}"

say 'an upgrade restarts what runs, and asks nothing'
process=$(owner)
install 2.deb
cmp $shipped /usr/share/ganglion/gangliond.toml || fail 'an unedited configuration does not follow the package'
grep -q 'of 2.deb' $shipped
if $booted; then
    [ "$(owner)" != "$process" ] || fail 'it was not restarted'
    systemctl is-active gangliond.service
    as member "${complete[@]}"
fi
stop

say 'an upgrade keeps what was edited, and starts nothing'
echo '# edited' >>$shipped
install 3.deb
grep -q 'of 2.deb' $shipped
grep -q '^# edited' $shipped
grep -q 'of 3.deb' /usr/share/ganglion/gangliond.toml
kept
! $booted || ! systemctl is-active --quiet gangliond.service || fail 'an upgrade started what did not run'

start
if $booted; then
    say 'an upgrade does not restart into a configuration that cannot be used'
    process=$(owner)
    echo 'nonsense = 1' >/etc/ganglion/gangliond.toml.d/99-bad.toml
    install 3.deb
    grep -q '^ganglion: not restarted, .*nonsense' /tmp/said || fail 'it does not say why'
    [ "$(owner)" = "$process" ] || fail 'it was restarted'
    rm /etc/ganglion/gangliond.toml.d/99-bad.toml
fi

say 'dpkg -r keeps configuration and models'
$booted || stop
dpkg -r ganglion
! owner 2>/dev/null || fail 'the daemon still runs'
[ ! -e /usr/bin/gangliond ] || fail 'the daemon is still there'
kept
install 3.deb

say 'dpkg -P leaves nothing'
dpkg -P ganglion | tee /tmp/said
grep -qE 'freed [1-9][0-9]{5,} bytes' /tmp/said || fail 'it does not say what it freed'
[ ! -e /run/ganglion ] || fail '/run/ganglion is still there'
files >/tmp/after
diff /tmp/before /tmp/after || fail 'files were left behind'
[ "$(passwd --status ganglion | cut -d ' ' -f 2)" = L ] || fail 'the user is not locked'
refused member 'AccessDenied|Access denied|rejected|not provided|ServiceUnknown' "${complete[@]}"
say 'the package came and went'
