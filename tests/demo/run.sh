#!/usr/bin/env bash
# run.sh MODEL [COMMAND...]: starts a private message bus with the project's policy, and the daemon with MODEL. Asks $ASK, or
# runs COMMAND with that bus as its system bus, and OpenAI's API on $OPENAI_SOCKET. Then ends both.
set -euo pipefail
cd "$(dirname "$0")/../.."
# shellcheck source-path=SCRIPTDIR/../..
. tests/support/daemon.sh
model=$PWD/$1
shift
bin=${RELEASE:-${CARGO_TARGET_DIR:-target}/release}
folder=$(mktemp -d -t ganglion-demo.XXXXXX)

# Leaves no process and no file of the demo, also after an error.
clean_up() {
    local status=$?
    trap - EXIT INT TERM HUP
    end_daemon || true
    end_bus
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

cat >"$folder/gangliond.toml" <<TOML
[model]
path = '$model'
tool_formats = '$PWD/config/tools'
${CHAT_TEMPLATE:+chat_template = '$PWD/$CHAT_TEMPLATE'}
[kv]
context = 2048
[sessions]
directory = '$folder/sessions'
TOML
echo "Starting gangliond with ${model##*/} on a private message bus"
start_bus tests/support/bus.conf config/org.ganglion.Llm1.conf dbus-daemon
export OPENAI_SOCKET=$folder/openai.sock
start_daemon "$bin" "$folder/gangliond.toml" 120 --http "$OPENAI_SOCKET"

if [ $# -gt 0 ]; then
    "$@"
    exit
fi
printf '\nQuestion: %s\n\n' "$ASK"
"$bin/ganglionctl" ask "$ASK" </dev/null
cat <<'TEXT'

Next:
  make demo ASK='...'   asks something else
  sudo make install     installs the service on this machine
  make deb              builds the package for a Jetson
README.md continues with a model of your choice.
TEXT
