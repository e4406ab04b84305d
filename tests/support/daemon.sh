# shellcheck shell=bash
# A private message bus with the project's policy, and gangliond on it, for scripts that source this file. Both run until
# `end_daemon` and `end_bus`. Their files are in $folder, which must exist.
bus='' daemon='' address=''

# start_bus TEMPLATE POLICY DBUS-DAEMON...: processes that start later use it as their system bus.
start_bus() {
    local template=$1 policy=$2
    shift 2
    cp "$policy" "${folder:?}/policy.conf"
    sed -e "s|@FOLDER@|$folder|" -e "s|@USER@|$(id -u)|" "$template" >"$folder/bus.conf"
    { read -r address && read -r bus; } < <(
        "$@" --config-file="$folder/bus.conf" --fork --nopidfile --print-address=1 --print-pid=1 \
            2>"$folder/bus.log"
    ) || {
        echo 'The private message bus did not start' >&2
        cat "$folder/bus.log" >&2
        return 1
    }
    export DBUS_SYSTEM_BUS_ADDRESS=$address GANGLION_BUS=$address
}

# start_daemon PROGRAMS CONFIG SECONDS [OPTION...]: returns when the daemon is ready, or fails after SECONDS.
start_daemon() {
    local programs=$1 config=$2 until=$((SECONDS + $3))
    shift 3
    "$programs/gangliond" --config "$config" --bus "$address" "$@" >"$folder/daemon.log" 2>&1 &
    daemon=$!
    until "$programs/ganglionctl" status --json 2>/dev/null | grep -Eiq '"state": *"ready"'; do
        kill -0 "$daemon" 2>/dev/null || { echo 'gangliond ended before it was ready' >&2; return 1; }
        [ "$SECONDS" -lt "$until" ] || { echo "gangliond was not ready within $3 s" >&2; return 1; }
        sleep 0.1
    done
}

# Stops the daemon, kills it if its own grace period does not suffice, and returns its exit status.
end_daemon() {
    [ -n "$daemon" ] || return 0
    local pid=$daemon
    daemon=''
    kill "$pid" 2>/dev/null || true
    for _ in {1..150}; do
        kill -0 "$pid" 2>/dev/null || break
        sleep 0.1
    done
    kill -KILL "$pid" 2>/dev/null || true
    wait "$pid"
}

end_bus() {
    [ -z "$bus" ] || kill "$bus" 2>/dev/null || true
    bus=''
}
