#!/usr/bin/env bash
# The command llm (pip install llm), which knows only TCP: it needs a port of ganglion-openai.socket and a key of http.key_file.
#
# llm.sh chat | stream | tools | parse
set -euo pipefail
url=${OPENAI_BASE_URL:?the base URL, such as http://127.0.0.1:11435/v1}

# Its settings, in a folder of their own.
LLM_USER_PATH=$(mktemp -d)
export LLM_USER_PATH
trap 'rm -r "$LLM_USER_PATH"' EXIT
cat >"$LLM_USER_PATH/extra-openai-models.yaml" <<YAML
- model_id: robot
  model_name: ganglion
  api_base: $url
  api_key_name: ganglion
  supports_schema: true
  supports_tools: true
YAML
llm keys set ganglion --value "${OPENAI_API_KEY:?the key}"
ask() { llm --no-log -m robot -o max_tokens 60 "$@"; }

case ${1:-} in
chat) ask --no-stream 'Name a colour.' | grep . ;;
stream) ask 'Name a colour.' | grep . ;;
tools)
    ask --functions 'def battery() -> str:
    "The charge of the battery."
    return "80 %"' --tools-debug 'How full is the battery?' </dev/null
    ;;
parse)
    schema='{"type": "object", "properties": {"room": {"enum": ["kitchen", "hall"]}}, "required": ["room"]}'
    ask --schema "$schema" 'Drive to the hall.' | grep -E '"(kitchen|hall)"'
    ;;
*)
    echo 'llm.sh chat | stream | tools | parse' >&2
    exit 2
    ;;
esac
