#!/usr/bin/env bash
# life.sh FOLDER: the life of the package, inside a Debian root as its root user: install, serve, upgrade, remove,
# purge. FOLDER has three versions of it, 1.deb to 3.deb, whose shipped configurations differ, model.gguf, and golden/.
# Where systemd runs it starts the daemon, else this script does, on a bus of its own. Standard input is empty: whatever
# asks a question fails.
set -euo pipefail
folder=$1
name=org.ganglion.Llm1
shipped=/etc/ganglion/gangliond.toml
exec </dev/null
export DEBIAN_FRONTEND=readline LC_ALL=C.UTF-8
booted=false
[ ! -d /run/systemd/system ] || booted=true

fail() {
    echo "FAILED: $*" >&2
    exit 1
}
trap 'echo "FAILED at line $LINENO: $BASH_COMMAND" >&2' ERR

say() { printf '\n-- %s\n' "$*"; }

# as USER COMMAND...
as() {
    local user=$1
    shift
    setpriv --reuid="$user" --regid="$(id -g "$user")" --init-groups -- "$@"
}

# refused USER PATTERN COMMAND...: it fails with words that match.
refused() {
    local user=$1 pattern=$2 said
    shift 2
    ! said=$(as "$user" "$@" 2>&1) || fail "$user may do this: $*"
    grep -qE -- "$pattern" <<<"$said" || fail "$user was refused by '$said', not by '$pattern': $*"
    echo "$user is refused: $said"
}

# The daemon's process.
owner() {
    busctl call org.freedesktop.DBus /org/freedesktop/DBus org.freedesktop.DBus GetConnectionUnixProcessID s $name
}

complete=(busctl call --timeout=120 "$name" /org/ganglion/Llm1 "$name.Manager" Complete 'sa{sv}' hello 1 max_tokens u 4)

# What a package could leave behind, less what dpkg, the user database and caches keep by design.
files() {
    find / -xdev \( -path /proc -o -path /sys -o -path /dev -o -path /tmp -o -path "$folder" -o -path /var/lib/dpkg \
        -o -path /var/log -o -path /var/cache -o -path /run/dbus -o -path '/run/systemd' -o -path '/etc/.pwd.lock' \
        -o -path '/etc/*-' -o -path '/var/lib/systemd/catalog' \) -prune -o -printf '%y %m %u:%g %p\n' | sort
}

# The configuration and the model.
kept() {
    ls $shipped /etc/ganglion/gangliond.toml.d/50-model.toml /var/lib/ganglion/models/model.gguf
}

install() {
    say "dpkg -i $1"
    dpkg -i "$folder/$1" >/tmp/said 2>&1 || {
        cat /tmp/said
        fail "dpkg -i $1"
    }
    cat /tmp/said
}

start() {
    if $booted; then
        systemctl enable --now --quiet gangliond.service
        return
    fi
    setpriv --reuid=ganglion --regid=ganglion --init-groups --reset-env gangliond &
    local until=$((SECONDS + 120))
    until as member ganglionctl status >/tmp/status 2>&1 && grep -q ready /tmp/status; do
        [ $SECONDS -lt $until ] || fail "the daemon is not ready: $(cat /tmp/status)"
        sleep 0.5
    done
}

stop() {
    if $booted; then
        systemctl stop gangliond.service
    else
        kill %% && wait %%
    fi
}

for user in member other; do
    useradd --no-create-home --shell /usr/sbin/nologin "$user"
done
$booted || {
    mkdir -p /run/dbus
    dbus-daemon --system --fork
}
files >/tmp/before

install 1.deb
grep -qx 'ganglion: not started, as no model is configured: .*' /tmp/said || fail 'it does not say how to start'
id ganglion
[ "$(passwd --status ganglion | cut -d ' ' -f 2)" = L ] || fail 'the user is not locked'
usermod --append --groups ganglion member
refused other 'AccessDenied|Access denied|rejected' "${complete[@]}"
# It reaches the daemon, or what would start it; there is no model.
refused member 'model|NotReady|Llm1|exited' "${complete[@]}"
! $booted || ! systemctl is-active --quiet gangliond.service || fail 'it runs without a model'
# The policy names it, so the bus had read it when dpkg returned.
ganglionctl --version
ganglionctl man ganglionctl.1 | cmp - <(zcat /usr/share/man/man1/ganglionctl.1.gz)
refused root 'model' gangliond --check-config

say 'goldens'
for model in "$folder"/golden/tiny-*/; do
    for kv in f32 f16; do
        ganglionctl score --compare --threads 1 --model "$model" --kv $kv "$model/golden.json"
    done
done

say 'a conversation'
cp "$folder/model.gguf" /var/lib/ganglion/models/
printf 'model.path = "/var/lib/ganglion/models/model.gguf"\n[kv]\ncontext = 256\n' >/etc/ganglion/gangliond.toml.d/50-model.toml
gangliond --check-config
start
as member ganglionctl status
# 1: it finds fault with this machine, which is no Jetson.
ganglionctl doctor || [ $? = 1 ]
as member "${complete[@]}"
as member ganglionctl ask --max-tokens 8 hello
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
