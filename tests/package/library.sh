# shellcheck shell=bash
# Functions of life.sh and trouble.sh, inside a Debian root as its root user. $folder has the files of booted.sh or emulated.sh.
# systemd starts the daemon if it runs, or else the script does, on a bus of its own. A program that asks a question fails, because
# standard input is empty.
: "${folder:?}"
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

# refused USER PATTERN COMMAND...: checks that it fails with a matching message.
refused() {
    local user=$1 pattern=$2 said
    shift 2
    ! said=$(as "$user" "$@" 2>&1) || fail "$user may do this: $*"
    grep -qE -- "$pattern" <<<"$said" || fail "$user was refused by '$said', not by '$pattern': $*"
    echo "$user is refused: $said"
}

# Prints the daemon's process.
owner() {
    busctl call org.freedesktop.DBus /org/freedesktop/DBus org.freedesktop.DBus GetConnectionUnixProcessID s $name
}

# shellcheck disable=SC2034 # scripts that source this file use it
complete=(busctl call --timeout=120 "$name" /org/ganglion/Llm1 "$name.Manager" Complete 'sa{sv}' hello 1 max_tokens u 4)

# Lists the files that a package could leave behind, without those that dpkg, the user database, systemd and caches keep by design.
files() {
    find / /run -xdev \( -path /proc -o -path /sys -o -path /dev -o -path /tmp -o -path "$folder" -o -path /var/lib/dpkg \
        -o -path /var/log -o -path '/var/cache/*' ! -path '/var/cache/ganglion*' -o -path /run/dbus -o -path '/run/user' \
        -o -path '/run/systemd/*' ! -path '/run/systemd/system*' ! -path '/run/systemd/generator*' \
        -o -path '/etc/.pwd.lock' -o -path '/etc/*-' -o -path '/var/lib/systemd/catalog' \) -prune \
        -o -printf '%y %m %u:%g %p\n' | sort -u
}

# Lists the configuration and the model.
kept() {
    ls $shipped /etc/ganglion/gangliond.toml.d/50-model.toml /var/lib/ganglion/models/model.gguf
}

configure_model() {
    cp "$folder/model.gguf" /var/lib/ganglion/models/
    printf 'model.path = "/var/lib/ganglion/models/model.gguf"\n[kv]\ncontext = 256\n' >/etc/ganglion/gangliond.toml.d/50-model.toml
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

