#!/usr/bin/env bash
# run.sh MODEL [COMMAND...]: starts a private message bus with the project's policy, and the daemon on
# it with MODEL; asks $ASK, or runs COMMAND with that bus as its system bus; then ends both.
set -euo pipefail
cd "$(dirname "$0")/../.."
model=$PWD/$1
shift
bin=${CARGO_TARGET_DIR:-target}/release
folder=$(mktemp -d -t ganglion-demo.XXXXXX)
bus= daemon=

# However this ends: no process and no file of the demo is left.
clean_up() {
    local status=$?
    trap - EXIT INT TERM HUP
    if [ -n "$daemon" ]; then
        kill "$daemon" 2>/dev/null || true
        # Its own grace, and a little more.
        for _ in {1..150}; do
            kill -0 "$daemon" 2>/dev/null || break
            sleep 0.1
        done
        kill -KILL "$daemon" 2>/dev/null || true
    fi
    [ -z "$bus" ] || kill "$bus" 2>/dev/null || true
    if [ "$status" != 0 ] && [ "$status" != 130 ] && [ -s "$folder/daemon.log" ]; then
        printf '\nThe demo failed (exit %s). The daemon said:\n' "$status" >&2
        cat "$folder/daemon.log" >&2
    fi
    rm -rf "$folder"
    exit "$status"
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# The default policy is the system bus's: nobody owns a name or calls a service until a file allows it.
cp config/org.ganglion.Llm1.conf "$folder/policy.conf"
cat >"$folder/bus.conf" <<XML
<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-BUS Bus Configuration 1.0//EN"
 "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig>
  <listen>unix:path=$folder/bus</listen>
  <auth>EXTERNAL</auth>
  <policy context="default">
    <allow user="*"/>
    <deny own="*"/>
    <deny send_type="method_call"/>
    <allow send_type="signal"/>
    <allow send_requested_reply="true" send_type="method_return"/>
    <allow send_requested_reply="true" send_type="error"/>
    <allow receive_type="method_call"/>
    <allow receive_type="method_return"/>
    <allow receive_type="error"/>
    <allow receive_type="signal"/>
    <allow send_destination="org.freedesktop.DBus"/>
  </policy>
  <include>policy.conf</include>
  <policy user="$(id -u)">
    <allow own="org.ganglion.Llm1"/>
    <allow send_destination="org.ganglion.Llm1"/>
  </policy>
</busconfig>
XML
cat >"$folder/gangliond.toml" <<TOML
[model]
path = '$model'
[kv]
context = 2048
TOML

{ read -r address && read -r bus; } < <(
    dbus-daemon --config-file="$folder/bus.conf" --fork --nopidfile --print-address=1 --print-pid=1 \
        2>"$folder/bus.log"
) || {
    echo "The private message bus did not start" >&2
    cat "$folder/bus.log" >&2
    exit 1
}
export DBUS_SYSTEM_BUS_ADDRESS=$address GANGLION_BUS=$address

"$bin/gangliond" --config "$folder/gangliond.toml" --bus "$address" >"$folder/daemon.log" 2>&1 &
daemon=$!
until "$bin/ganglionctl" status --json 2>/dev/null | grep -Eiq '"state": *"ready"'; do
    kill -0 "$daemon" 2>/dev/null || { echo "gangliond ended before it was ready" >&2; exit 1; }
    [ "$SECONDS" -lt 120 ] || { echo "gangliond was not ready within two minutes" >&2; exit 1; }
    sleep 0.1
done

if [ $# -gt 0 ]; then
    "$@"
else
    printf '\n> %s\n\n' "$ASK"
    "$bin/ganglionctl" ask "$ASK"
fi
