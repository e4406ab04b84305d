#!/usr/bin/env bash
# container.sh ROOT FOLDER USER: calls the daemon from containers that podman makes of ROOT, a Debian with curl and jq. The socket
# FOLDER/shared/openai.sock is that of all programs, and all callers of FOLDER/own/openai.sock are USER. Needs root.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(realpath "$1") folder=$2 user=$3
place=http://localhost

# contained KIND SOCKET COMMAND...: runs it in a container with one of the sockets. Its root is root of this machine (KIND is
# host), or user 100000, as in a rootless container (KIND is mapped). It has no network.
contained() {
    local map=()
    [ "$1" = host ] || map=(--uidmap 0:100000:65536 --gidmap 0:100000:65536)
    # runc also runs where both versions of control groups are mounted. A container cannot raise limits of its starter.
    podman --runtime runc run --rm --network none --no-hosts --read-only --ulimit nofile=1024:1024 --ulimit nproc=1024:1024 \
        ${map[@]+"${map[@]}"} --volume "$folder/$2:/run/ganglion" --volume "$here/openai/shell:/run/client:ro" \
        --rootfs "$root" "${@:3}"
}

# request KIND SOCKET PATH [FIELDS]: prints the answer to a GET, or to a question with these fields, in JSON.
request() {
    local body=()
    [ $# = 3 ] || body=(--json "{\"messages\": [{\"role\": \"user\", \"content\": \"Hello\"}], \"max_tokens\": 4, $4}")
    contained "$1" "$2" curl --silent --show-error --unix-socket /run/ganglion/openai.sock ${body[@]+"${body[@]}"} "$place$3"
}

# matches WHAT FOUND PATTERN: an extended regular expression.
matches() {
    grep -qE -- "$3" <<<"$2" && return
    echo "FAILED: $1 is '$2', which does not match '$3'" >&2
    exit 1
}

chat=/v1/chat/completions
realtime='"ganglion": {"priority": "realtime"}'
session='"ganglion": {"session": "kitchen"}'
tokens() { jq -e .usage.prompt_tokens; }

chown 100000 "$folder/own/openai.sock"
chmod 0600 "$folder/own/openai.sock"
chmod 0660 "$folder/shared/openai.sock"
for kind in host mapped; do
    for verb in chat stream tools parse refuse; do
        contained $kind own /run/client/curl.sh $verb
    done
    matches "/metrics for $kind" "$(request $kind own /metrics)" "user $user is neither.*\"insufficient_permissions\""
    matches "realtime for $kind" "$(request $kind own $chat "$realtime")" "user $user is not in group"
done

# Root of a container has the rights of other users.
contained host shared /run/client/curl.sh chat
matches 'realtime for root' "$(request host shared $chat "$realtime")" 'but not over HTTP'
# The owner of the socket decides who connects.
matches 'an answer to another user' "$(request mapped shared /health 2>&1 || true)" 'curl: \(7\)'

# Both containers on the socket are one user, and have its session. Root begins another one of that name.
first=$(request host own $chat "$session" | tokens)
second=$(request mapped own $chat "$session" | tokens)
other=$(request host shared $chat "$session" | tokens)
[ "$second" -gt "$first" ] || matches 'the prompt of the second turn' "$second" "more than $first"
matches 'the first prompt of root' "$other" "^$first\$"
echo "users of the sockets: $user and 0; prompts of the session: $first, $second and $other tokens"
