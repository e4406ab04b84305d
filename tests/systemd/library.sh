# shellcheck shell=bash
# Functions of the scenarios, inside a booted system. A scenario is a list of commands, each of which must succeed. `fail` prints
# the reason.
unit=gangliond.service
check=/usr/lib/ganglion-check/systemd-check
name=org.ganglion.Llm1 path=/org/ganglion/Llm1
since=@0

fail() {
    echo "FAILED: $*" >&2
    exit 1
}
trap 'echo "FAILED at line $LINENO of ${BASH_SOURCE[0]##*/}: $BASH_COMMAND" >&2' ERR

# within SECONDS COMMAND...: waits until it succeeds. On an idle machine it takes at most SECONDS. The wait is several times
# longer, so that a busy machine passes too.
within() {
    local until=$((SECONDS + 6 * $1))
    shift
    until "$@" >/dev/null 2>&1; do
        [ "$SECONDS" -lt "$until" ] || fail "this did not become true: $*"
        sleep 0.1
    done
}

# equal WHAT FOUND WANTED
equal() {
    [ "$2" = "$3" ] || fail "$1 is '$2', not '$3'"
}

# matches WHAT FOUND PATTERN: an extended regular expression.
matches() {
    grep -qE -- "$3" <<<"$2" || fail "$1 is '$2', which does not match '$3'"
}

# Restores the system as prepare.sh left it, with a working configuration, and marks the journal.
fresh() {
    systemctl stop $unit ganglion-vision.socket 2>/dev/null || true
    rm -rf /etc/systemd/system/$unit.d /run/systemd/system/$unit.d /run/systemd/system/ganglion-{openai.socket.d,vision.socket}
    rm -rf /etc/ganglion /var/lib/ganglion/* /var/cache/ganglion/*
    cp -a /run/ganglion-pristine /etc/ganglion
    systemctl daemon-reload
    systemctl reset-failed $unit 2>/dev/null || true
    install -D -m 0644 /usr/lib/ganglion-check/tiny.gguf /var/lib/ganglion/model.gguf
    printf '%s\n' 'model.path = "/var/lib/ganglion/model.gguf"' 'kv.context = 512' >/etc/ganglion/gangliond.toml.d/10-base.toml
    chmod 0644 /etc/ganglion/gangliond.toml.d/10-base.toml
    mark
}

# configure LINE...: adds lines to the working configuration.
configure() {
    printf '%s\n' "$@" >/etc/ganglion/gangliond.toml.d/50-scenario.toml
    chmod 0644 /etc/ganglion/gangliond.toml.d/50-scenario.toml
}

# drop_in LINE...: adds a drop-in to the unit.
drop_in() {
    mkdir -p /run/systemd/system/$unit.d
    printf '%s\n' "$@" >/run/systemd/system/$unit.d/90-scenario.conf
    systemctl daemon-reload
}

# scripted SCRIPT [LINE...]: the daemon answers by a script instead of a model. LINEs are added to the drop-in.
scripted() {
    drop_in "${@:2}" '[Service]' 'ExecStart=' "ExecStart=/usr/bin/gangliond --config /etc/ganglion/gangliond.toml --sim $1"
}

# Later checks ignore the journal's entries before this call.
mark() {
    journalctl --sync
    # Not a cursor: with a match, journalctl 252 and older skip the first entry after it.
    since=@$(date +%s.%6N)
}

# journal ARGUMENT...: prints the entries since the last mark.
journal() {
    journalctl --sync
    journalctl --quiet --no-pager --since="$since" "$@"
}

# reported EVENT [PATTERN]: waits for an event whose message matches.
reported() {
    local id
    id=$($check id "$1")
    within 15 holds "${2:-.}" journal --output=cat MESSAGE_ID="$id"
}

# explained EVENT PATTERN: checks the remedy that journalctl -x prints for a reported event.
explained() {
    matches "what journalctl -x says of $1" \
        "$(journal --catalog MESSAGE_ID="$($check id "$1")" | sed -n '/What to do:/,/^$/p' | tr '\n' ' ')" "$2"
}

# holds PATTERN COMMAND...: whether the standard output matches.
holds() {
    local pattern=$1
    shift
    grep -qE -- "$pattern" <<<"$("$@")"
}

# systemd_said PATTERN: waits for a message of systemd.
systemd_said() {
    within 15 holds "$1" journal _PID=1 --output=cat
}

is_active() {
    [ "$(property ActiveState)" = active ]
}

has_failed() {
    [ "$(property ActiveState)" = failed ]
}

# is_anew PID: whether another process serves.
is_anew() {
    [ "$(pid)" != "$1" ] && is_active
}

property() {
    systemctl show --property="$1" --value $unit
}

pid() {
    property MainPID
}

start() {
    systemctl start $unit
    is_active || fail "the unit is $(property ActiveState)"
}

# Prints the KiB of all processes of the unit, with their shares of common pages.
pss() {
    local process
    for process in $(find "/sys/fs/cgroup$(property ControlGroup)" -name cgroup.procs -exec cat {} + 2>/dev/null); do
        sed -n 's/^Pss: *\([0-9]*\) kB/\1/p' "/proc/$process/smaps_rollup" 2>/dev/null
    done | awk '{ sum += $1 } END { print sum + 0 }'
}

# as USER COMMAND...
as() {
    local user=$1
    shift
    setpriv --reuid="$user" --regid="$(id -g "$user")" --init-groups -- "$@"
}

# ask USER TEXT: prints a short answer.
ask() {
    as "$1" busctl call --timeout=60 $name $path $name.Manager Complete 'sa{sv}' "$2" 1 max_tokens u 4
}

# manager PROPERTY: prints a property, read as a member.
manager() {
    as member busctl get-property $name $path $name.Manager "$1"
}
