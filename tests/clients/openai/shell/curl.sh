#!/usr/bin/env bash
# A shell client with curl and jq.
#
# curl.sh chat | stream | tools | parse | refuse
set -euo pipefail
socket=${GANGLION_SOCKET:-/run/ganglion/openai.sock}

# ask QUESTION [FIELDS]: the answer as JSON. FIELDS is a JSON object.
ask() {
    jq -n --arg text "$1" --argjson more "${2:-"{}"}" \
        '{model: "ganglion", messages: [{role: "user", content: $text}], max_tokens: 40} + $more' |
        curl --silent --show-error --no-buffer --fail-with-body --unix-socket "$socket" \
            --json @- http://localhost/v1/chat/completions
}

case ${1:-} in
chat)
    ask 'Name a colour.' | jq -er '.choices[0].message.content'
    curl -s --unix-socket "$socket" http://localhost/v1/models | jq -e '.data[0].id'
    curl -s --unix-socket "$socket" http://localhost/health | jq -e '.state == "ready"'
    ;;
stream) # each line of an event begins with "data: ", and the last one is not JSON
    ask 'Name a colour.' '{"stream": true}' | sed -un 's/^data: {/{/p' |
        jq --unbuffered -rj '.choices[0].delta.content // empty' | grep .
    ;;
tools)
    tools='[{"type": "function", "function": {"name": "go", "description": "Drives to a room.", "parameters":
        {"type": "object", "properties": {"room": {"enum": ["kitchen", "hall"]}}, "required": ["room"]}}}]'
    ask 'Drive to the hall.' "{\"tools\": $tools, \"tool_choice\": \"required\"}" |
        jq -er '.choices[0].message.tool_calls[0].function.arguments | fromjson | .room'
    ;;
parse)
    schema='{"type": "object", "properties": {"metres": {"enum": [1, 2, 3]}}, "required": ["metres"], "additionalProperties": false}'
    ask 'Drive two metres.' "{\"response_format\":
        {\"type\": \"json_schema\", \"json_schema\": {\"name\": \"go\", \"strict\": true, \"schema\": $schema}}}" |
        jq -e '.choices[0].message.content | fromjson | .metres'
    ;;
refuse) # a field that would change the answer
    { ask 'Name a colour.' '{"logit_bias": {"1": 5}}' || true; } | jq -e '.error.param == "logit_bias"'
    ;;
*)
    echo 'curl.sh chat | stream | tools | parse | refuse' >&2
    exit 2
    ;;
esac
