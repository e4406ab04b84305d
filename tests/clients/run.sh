#!/usr/bin/env bash
# run.sh [NAME...]: installs what the clients need (Debian's packages; the rest below target/clients), makes code of the
# shipped interfaces with four generators, compiles it, and runs each client, or those named, against the daemon with a
# tiny model on a private bus. Then runs programs with OpenAI's API over HTTP, and example programs of robots, or those
# named, with a real model. Prints tables, which are also target/clients/table.md; fails if any cell does.
#   RELEASE=target/release   these binaries and their examples/systemd-check, instead of release binaries that are built here
#   TURNS=300 PAUSE=0.1      turns of the companion, which outlives a restart of the daemon in the middle, and the seconds
#                            between them
set -euo pipefail
cd "$(dirname "$0")/../.."
root=$PWD
here=$root/tests/clients
made=$root/target/clients
interfaces=$root/config/interfaces
bin=$(realpath -m "${RELEASE:-${CARGO_TARGET_DIR:-target}/release}")
verbs=(generate session cancel complete signals reconnect)
http_verbs=(chat stream async tools parse refuse image same)

# Each client: its name in the table, and the function that builds it and sets $run. Each uses another D-Bus library.
clients=(
    'dbus-fast (Python, asyncio)=python' 'sd-bus (C)=c' 'sdbus-c++=cpp' 'zbus (Rust)=rust' 'dbus-next (Node)=node'
    'ganglionctl, busctl, gdbus (shell)=shell'
    'PyGObject=gi' 'dbus-python=dbus_python' 'QtDBus, qdbusxml2cpp=qt' 'GDBus, gdbus-codegen=codegen'
)
# Each client of OpenAI's and Anthropic's APIs, as above.
http_clients=(
    'openai (Python)=openai' 'openai, responses (Python)=openai_responses' 'anthropic (Python)=anthropic'
    'openai (Node)=openai_node' 'curl, jq (shell)=curl_jq' 'async-openai (Rust)=async_openai'
    'langchain-openai (Python)=langchain' 'pydantic-ai (Python)=pydantic_ai' 'instructor (Python)=instructor'
    'litellm (Python)=litellm' 'llm (shell, TCP)=llm'
)
# Each program: its name in the table, and its file below python/; ros is the folder ros/, and container is container.sh.
programs=(
    'voice loop=voice' 'fleet=fleet' 'planner=planner' 'companion=companion' 'ROS 2 action (rclpy)=ros'
    'containers (podman, curl)=container'
)
turns=${TURNS:-300} pause=${PAUSE:-0.1}

packages() { "$root/cross/deps/packages.sh" "$@"; }
flags() { pkg-config --cflags --libs "$@"; }

# Installs Python packages into a virtual environment that also sees Debian's modules.
venv() {
    packages python3 python3-venv
    [ -x "$made/venv/bin/python" ] || /usr/bin/python3 -m venv --system-site-packages "$made/venv"
    [ $# = 0 ] || "$made/venv/bin/pip" install --quiet --disable-pip-version-check "$@"
}
python() {
    venv dbus-fast
    run=("$made/venv/bin/python" "$here/python/client.py")
}
c() {
    packages cc=build-essential pkg-config libsystemd-dev
    # shellcheck disable=SC2046
    cc -Wall -Wextra -Werror "$here/c/client.c" $(flags libsystemd) -o "$made/c"
    run=("$made/c")
}
cpp() {
    packages c++=build-essential pkg-config libsdbus-c++-dev sdbus-c++-xml2cpp=libsdbus-c++-bin
    mkdir -p "$made/sdbus-c++"
    for one in Manager Session Request Diagnostics; do
        sdbus-c++-xml2cpp "$interfaces/org.ganglion.Llm1.$one.xml" --proxy="$made/sdbus-c++/${one,,}.h" >/dev/null
    done
    # shellcheck disable=SC2046
    c++ -std=c++17 -Wall -Wextra -I"$made/sdbus-c++" "$here/cpp/client.cpp" $(flags sdbus-c++) -lpthread -o "$made/cpp"
    run=("$made/cpp")
}
rust() {
    [ -x "$made/xmlgen/bin/zbus-xmlgen" ] || cargo install --quiet zbus_xmlgen --root "$made/xmlgen"
    mkdir -p "$made/rust/src"
    cp "$here/rust/Cargo.toml" "$made/rust/"
    cp "$here/rust/main.rs" "$made/rust/src/"
    for one in Manager Session Request Diagnostics; do
        "$made/xmlgen/bin/zbus-xmlgen" file "$interfaces/org.ganglion.Llm1.$one.xml" \
            --output "$made/rust/src/${one,,}.rs" >/dev/null
    done
    CARGO_TARGET_DIR=$made/rust/target cargo build --quiet --manifest-path "$made/rust/Cargo.toml"
    run=("$made/rust/target/debug/client")
}
node() {
    packages node=nodejs npm=npm
    [ -d "$made/node/node_modules/dbus-next" ] || npm install --silent --prefix "$made/node" dbus-next
    run=(env NODE_PATH="$made/node/node_modules" "$(type -P node)" "$here/node/client.js")
}
shell() {
    packages busctl=systemd gdbus=libglib2.0-bin
    run=(env PATH="$bin:$PATH" "$here/shell/client.sh")
}
with() { run=("$made/venv/bin/python" "$here/more/try.py" "with_$1"); }
gi() { packages python3-gi && venv && with gi; }
dbus_python() { packages python3-gi python3-dbus && venv && with dbus_python; }
qt() {
    packages c++=build-essential pkg-config qtbase5-dev qtbase5-dev-tools
    mkdir -p "$made/qt"
    for one in Manager Session Request Diagnostics; do
        (
            cd "$made/qt"
            qdbusxml2cpp -i ganglion_types.h -p "${one,,}" "$interfaces/org.ganglion.Llm1.$one.xml"
            moc -I"$here/more" "${one,,}.h" -o "${one,,}.moc.cpp"
        )
    done
    # shellcheck disable=SC2046
    c++ -std=c++17 -fPIC -Wall -I"$made/qt" -I"$here/more" "$here/more/qt.cpp" "$made"/qt/*.cpp \
        $(flags Qt5DBus Qt5Core) -o "$made/qt/client"
    run=("$made/qt/client")
}
codegen() {
    packages cc=build-essential pkg-config libglib2.0-dev gdbus-codegen=libglib2.0-dev-bin
    mkdir -p "$made/codegen"
    (
        cd "$made/codegen"
        gdbus-codegen --interface-prefix org.ganglion.Llm1. --c-namespace Ganglion --generate-c-code ganglion \
            "$interfaces"/org.ganglion.Llm1.{Manager,Session,Request,Diagnostics}.xml
    )
    # shellcheck disable=SC2046
    cc -Wall -Wextra -I"$made/codegen" "$here/more/codegen.c" "$made/codegen/ganglion.c" $(flags gio-unix-2.0) \
        -o "$made/codegen/client"
    run=("$made/codegen/client")
}

# of_package NAME PACKAGE...: the script with_NAME.py, in an environment of its own: some packages need other releases of openai.
of_package() {
    local python=$made/venv-$1/bin/python script=$here/openai/python/with_$1.py
    packages python3 python3-venv
    [ -x "$python" ] || /usr/bin/python3 -m venv "$made/venv-$1"
    shift
    "$python" -m pip install --quiet --disable-pip-version-check "$@"
    run=("$python" "$script")
}
openai() {
    venv dbus-fast openai
    run=("$made/venv/bin/python" "$here/openai/python/sdk.py")
}
openai_responses() {
    openai
    run+=(responses)
}
anthropic() { of_package anthropic anthropic; }
langchain() { of_package langchain langchain-openai; }
pydantic_ai() { of_package pydantic_ai 'pydantic-ai-slim[openai]'; }
instructor() { of_package instructor instructor; }
litellm() { of_package litellm litellm; }
llm() {
    of_package llm llm
    serve_tcp
    run=(env PATH="$made/venv-llm/bin:$PATH" "$here/openai/shell/llm.sh")
}
openai_node() {
    packages node=nodejs npm=npm
    # The release 6 of undici is the last for the Node of Debian 12.
    [ -d "$made/openai-node/node_modules/zod" ] || npm install --silent --prefix "$made/openai-node" openai undici@6 zod
    run=(env NODE_PATH="$made/openai-node/node_modules" "$(type -P node)" "$here/openai/node/sdk.js")
}
curl_jq() {
    packages curl jq
    run=("$here/openai/shell/curl.sh")
}
async_openai() {
    mkdir -p "$made/openai-rust/src"
    cp "$here/openai/rust/Cargo.toml" "$made/openai-rust/"
    cp "$here/openai/rust/main.rs" "$made/openai-rust/src/"
    CARGO_TARGET_DIR=$made/openai-rust/target cargo build --quiet --manifest-path "$made/openai-rust/Cargo.toml"
    run=("$made/openai-rust/target/debug/client")
}

# has CLIENT VERB: whether the client implements the verb.
has() {
    case $1 in
    openai) true ;;
    openai_responses) [[ $2 != @(async|same) ]] ;;
    anthropic) [ "$2" != same ] ;;
    openai_node | async_openai) [[ $2 != @(image|same) ]] ;;
    curl_jq) [[ $2 != @(async|image|same) ]] ;;
    langchain) [[ $2 != @(refuse|image|same) ]] ;;
    pydantic_ai | litellm | llm) [[ $2 != @(async|refuse|image|same) ]] ;;
    instructor) [[ $2 = @(tools|parse) ]] ;;
    python | c | cpp | rust | node) true ;;
    shell) [ "$2" != signals ] ;;
    *) [ "$2" != reconnect ] ;;
    esac
}

# wanted NAME: whether it is among the arguments, or there are none.
wanted() { [ -z "$asked" ] || [[ " $asked " == *" $1 "* ]]; }

# Makes the model of the programs: SmolLM2 with a chat template that has tools.
model() {
    local plain=$root/target/models/SmolLM2-135M-Instruct.Q4_1.gguf
    "$root/target/venv/bin/python" tests/deps/model.py "$plain"
    [ "$made/tools.gguf" -nt "$here/tools.jinja" ] ||
        "$root/target/venv/bin/gguf-new-metadata" --force --chat-template "$(cat "$here/tools.jinja")" \
            "$plain" "$made/tools.gguf" >"$folder/output" 2>&1
}

# The configuration of the daemon that sees: a tiny model with a vision tower.
sees() {
    local golden=$root/tests/golden/vision
    cp "$golden/tiny-gemma3.q8_0.gguf" "$folder/sees.gguf"
    cp "$golden/tiny-gemma3.mmproj-f16.gguf" "$folder/mmproj-F16.gguf"
    cat >"$folder/sees.toml" <<TOML
backend = 'cpu'
model.path = '$folder/sees.gguf'
model.chat_template = '$here/openai/images.jinja'
kv.context = 512
TOML
}

# configure CONTEXT: writes the configuration of the programs' daemon, with a context of CONTEXT tokens.
configure() {
    cat >"$folder/gangliond.toml" <<TOML
backend = 'cpu'
model.path = '$made/tools.gguf'
model.tool_formats = '$root/config/tools'
kv.context = $1
sessions.directory = '$folder/sessions'
TOML
}

# serve CONTEXT: the daemon of the programs.
serve() {
    end_daemon || true
    configure "$1"
    start_daemon "$bin" "$folder/gangliond.toml" 60 --http "$GANGLION_SOCKET"
}

# serve_sockets LINES NAME=PLACE...: the same with sockets that systemd passes, and further LINES of the configuration.
serve_sockets() {
    local program=$folder/with-sockets
    end_daemon || true
    configure 1024
    echo "$1" >>"$folder/gangliond.toml"
    shift
    mkdir -p "$program"
    ln -sf "$bin/ganglionctl" "$program/"
    {
        echo '#!/bin/sh'
        printf 'exec /usr/bin/python3'
        printf " '%s'" "$here/with_sockets.py" "$@" -- "$bin/gangliond"
        echo ' "$@"'
    } >"$program/gangliond"
    chmod +x "$program/gangliond"
    start_daemon "$program" "$folder/gangliond.toml" 60
}

# The same with a port of this machine and a key, as the package's drop-in has it.
serve_tcp() {
    OPENAI_API_KEY=$(od -An -N32 -tx1 /dev/urandom | tr -d ' \n')
    (umask 077 && echo "$(id -u) $OPENAI_API_KEY" >"$folder/keys")
    serve_sockets "http.key_file = '$folder/keys'" "openai=tcp:$folder/port"
    OPENAI_BASE_URL=http://127.0.0.1:$(<"$folder/port")/v1
    export OPENAI_BASE_URL OPENAI_API_KEY
}

# The same with two sockets, of which one is for containers, and the containers that call them.
run_container() {
    local user=1001
    [ "$(id -u)" = 0 ] || {
        echo 'the programs in containers need root' >"$folder/output"
        return 1
    }
    packages podman runc jq mmdebstrap
    "$root/tests/systemd/root.sh" bookworm "$made/roots" bash,curl,jq
    # Users of containers reach the sockets.
    chmod 0711 "$folder"
    mkdir -p "$folder/shared" "$folder/own"
    rm -f "$folder"/{shared,own}/openai.sock
    serve_sockets "http.users = ['vision=$user']
limits.realtime_group = 'root'" "openai=$folder/shared/openai.sock" "vision=$folder/own/openai.sock"
    timeout 300 "$here/container.sh" "$made/roots/bookworm" "$folder" "$user" >"$folder/output" 2>&1
}

# Installs rclpy without ROS, and builds the package of the action in the same place. The wheels have paths of the machine that
# built them.
ros() {
    packages cc=build-essential c++=build-essential cmake python3 python3-venv
    local venv=$made/venv-ros
    [ -x "$venv/bin/python" ] || /usr/bin/python3 -m venv "$venv"
    local site=("$venv"/lib/python3.*/site-packages)
    export PATH=$venv/bin:$PATH PYTHONPATH=${site[0]} AMENT_PREFIX_PATH=$venv LD_LIBRARY_PATH=$venv/lib
    [ ! -d "$venv/share/ganglion_interfaces" ] || return 0
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --requirement "$here/ros/requirements.txt"
    local headers
    headers=$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("include"))')
    { grep -rlE /opt/python/ "$venv/share" --include='*.cmake' || true; } | xargs -r sed -i -E \
        -e "s|/opt/python/cp[0-9]+-cp[0-9]+/include/python3\.[0-9]+|$headers|g" \
        -e "s|/opt/python/cp[0-9]+-cp[0-9]+/lib/python3\.[0-9]+/site-packages|${site[0]}|g"
    cmake -S "$here/ros/ganglion_interfaces" -B "$made/ros" -DCMAKE_PREFIX_PATH="$venv" -DCMAKE_INSTALL_PREFIX="$venv" \
        -DPython3_EXECUTABLE="$venv/bin/python" -DBUILD_TESTING=OFF >"$folder/output" 2>&1
    cmake --build "$made/ros" --target install --parallel >"$folder/output" 2>&1
}

# The node of the action, and a node that sends it goals; they talk to no other machine.
run_ros() (
    ros
    export ROS_AUTOMATIC_DISCOVERY_RANGE=LOCALHOST ROS_DOMAIN_ID=$((RANDOM % 100))
    python3 "$here/ros/server.py" >"$folder/node" 2>&1 &
    local node=$! ended=0
    timeout 300 python3 "$here/ros/client.py" >"$folder/output" 2>&1 || ended=$?
    kill -INT "$node"
    wait "$node" || true
    [ "$ended" = 0 ] || tail -n 20 "$folder/node" >>"$folder/output"
    return "$ended"
)

# run_program NAME: its output goes to $folder/output.
run_program() {
    local program=("$made/venv/bin/python" "$here/python/$1.py")
    case $1 in
    ros)
        serve 1024
        run_ros
        return
        ;;
    container)
        run_container
        return
        ;;
    esac
    if [ "$1" != companion ]; then
        serve 1024
        timeout 300 "${program[@]}" >"$folder/output" 2>&1
        return
    fi
    # A small context, so that turns are dropped.
    serve 512
    timeout 1800 "${program[@]}" "$turns" 1 "$pause" >"$folder/output" 2>&1 &
    local companion=$!
    until grep -q "^turn $((turns / 50 * 25))," "$folder/output"; do
        kill -0 "$companion" 2>/dev/null || break
        sleep 0.1
    done
    serve 512
    wait "$companion"
}

# try NAME VERB: its output goes to $folder/output.
try() {
    if [ "$2" != reconnect ]; then
        timeout 60 "${run[@]}" "$2" >"$folder/output" 2>&1
        return
    fi
    export RESTARTED=$folder/restarted
    rm -f "$RESTARTED"
    timeout 60 "${run[@]}" reconnect >"$folder/output" 2>&1 &
    local client=$!
    until grep -q 'restart the daemon' "$folder/output"; do
        kill -0 "$client" 2>/dev/null || break
        sleep 0.1
    done
    end_daemon || true
    start_daemon "$bin" "$folder/gangliond.toml" 30
    touch "$RESTARTED"
    wait "$client"
}

# try_http NAME VERB: its output goes to $folder/output.
try_http() {
    local more=()
    case $2 in
    same)
        timeout 300 "$made/venv/bin/python" "$here/openai/python/same.py" >"$folder/output" 2>&1
        return
        ;;
    image)
        more=("$root/tests/golden/vision/gemma3/images/one0.png")
        end_daemon || true
        start_daemon "$bin" "$folder/sees.toml" 60 --http "$GANGLION_SOCKET"
        ;;
    esac
    timeout 120 "${run[@]}" "$2" "${more[@]}" >"$folder/output" 2>&1 || return
    [ "$2" != image ] || serve 1024
}

# serve_tiny: the daemon of the clients on the bus.
serve_tiny() {
    end_daemon || true
    "$bin/examples/systemd-check" model "$folder/tiny.gguf"
    cat >"$folder/gangliond.toml" <<TOML
backend = 'cpu'
model.path = '$folder/tiny.gguf'
kv.context = 512
TOML
    start_daemon "$bin" "$folder/gangliond.toml" 30
}

asked=$*
export PYTHONDONTWRITEBYTECODE=1
mkdir -p "$made"
packages dbus-daemon=dbus
[ -n "${RELEASE:-}" ] || cargo build --quiet --release --bins --example systemd-check
folder=$(mktemp -d -t ganglion-clients.XXXXXX)
export GANGLION_SOCKET=$folder/openai.sock
# shellcheck source-path=SCRIPTDIR/../..
. tests/support/daemon.sh
trap 'end_daemon || true; end_bus; rm -rf "$folder"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP
start_bus tests/support/bus.conf config/org.ganglion.Llm1.conf dbus-daemon

failed=0
{
    echo "| client | ${verbs[*]} |" | sed 's/\([a-z]\) \([a-z]\)/\1 | \2/g'
    echo '|---|---|---|---|---|---|---|'
} >"$made/table.md"
is_begun=''
for client in "${clients[@]}"; do
    name=${client#*=}
    wanted "$name" || continue
    [ -n "$is_begun" ] || serve_tiny
    is_begun=yes
    echo "==> ${client%=*}"
    run=()
    "$name"
    row="| ${client%=*} |"
    for verb in "${verbs[@]}"; do
        cell='-'
        if has "$name" "$verb"; then
            if try "$name" "$verb"; then
                cell=ok
            else
                cell=FAIL
                failed=1
                sed "s/^/    $verb: /" "$folder/output" | tail -n 20
            fi
        fi
        row+=" $cell |"
    done
    echo "$row" | tee -a "$made/table.md"
done

# prepare: makes what the programs with a real model need, once.
ready=''
prepare() {
    [ -z "$ready" ] || return 0
    venv dbus-fast jsonschema
    model
    ready=yes
}

# table KIND COLUMN...: the head of a table.
table() {
    printf '\n|'
    printf ' %s |' "$@"
    printf '\n|'
    printf '%.0s---|' "$@"
    printf '\n'
}

is_begun=''
for client in "${http_clients[@]}"; do
    name=${client#*=}
    wanted "$name" || continue
    if [ -z "$is_begun" ]; then
        prepare
        sees
        serve 1024
        table 'client of OpenAI' "${http_verbs[@]}" >>"$made/table.md"
        is_begun=yes
    fi
    echo "==> ${client%=*}"
    run=()
    "$name"
    row="| ${client%=*} |"
    for verb in "${http_verbs[@]}"; do
        cell='-'
        if has "$name" "$verb"; then
            cell=ok
            try_http "$name" "$verb" || {
                cell=FAIL failed=1
                sed "s/^/    $verb: /" "$folder/output" | tail -n 20
            }
        fi
        row+=" $cell |"
    done
    echo "$row" | tee -a "$made/table.md"
done

is_begun=''
for program in "${programs[@]}"; do
    name=${program#*=}
    wanted "$name" || continue
    if [ -z "$is_begun" ]; then
        prepare
        table program result seconds >>"$made/table.md"
        is_begun=yes
    fi
    echo "==> ${program%=*}"
    begun=$SECONDS
    cell=ok
    run_program "$name" || cell=FAIL failed=1
    sed 's/^/    /' "$folder/output" | tail -n 20
    echo "| ${program%=*} | $cell | $((SECONDS - begun)) |" | tee -a "$made/table.md"
done
exit "$failed"
