#!/usr/bin/env bash
# Runs the commands and the code of README.md, and checks what they name. Started by run.sh, on its bus.
# `make demo` is a stage of its own, and the commands that install the package are those of tests/package.
set -euo pipefail
cd "$(dirname "$0")/../.."
bin=${RELEASE:-${CARGO_TARGET_DIR:-target}/release}
PATH=$(cd "$bin" && pwd):$PATH
fail() { echo "README.md: $*" >&2; exit 1; }
# block LANGUAGE: prints the lines of its blocks.
block() { sed -n "/^\`\`\`$1\$/,/^\`\`\`\$/{/^\`\`\`/d;p}" README.md; }

folder=$(mktemp -d -t ganglion-readme.XXXXXX)
trap 'rm -rf "$folder"' EXIT
[ "$(wc -l <README.md)" -le 200 ] || fail 'longer than 200 lines'

while read -r line; do
    case $line in '' | '#'* | 'make demo') continue ;; esac
    printf '\n$ %s\n' "$line"
    # A small model may talk until the limit of tokens: ganglionctl reports that with 1.
    bash -euo pipefail -c "$line" 2> >(tee "$folder/stderr" >&2) </dev/null || {
        sleep 0.2
        grep -q 'the answer is incomplete' "$folder/stderr" || fail "a command failed: $line"
    }
done < <(block sh)

printf '\nThe Python programs:\n'
block python | sed "s|/run/ganglion/openai.sock|$OPENAI_SOCKET|" | target/venv/bin/python -

block toml | sed "s|^model.path = .*|model.path = '$PWD/target/models/SmolLM2-135M-Instruct.Q4_1.gguf'|" >"$folder/gangliond.toml"
gangliond --config "$folder/gangliond.toml" --check-config >/dev/null || fail 'its configuration has an error'

# Verbs, keys and files that the text names.
grep -oE 'ganglionctl [a-z]+( remove)?' README.md | sort -u | while read -r _ verbs; do
    # shellcheck disable=SC2086
    ganglionctl $verbs --help >/dev/null || fail "there is no ganglionctl $verbs"
done
grep -oE '`(kv|engine|model|limits)\.[a-z_]+' README.md | tr -d '`' | sort -u | while read -r key; do
    grep -qE "^#? ?${key#*.} *=|^#? ?$key *=" config/gangliond.toml || fail "there is no key $key"
done
grep -oE '\]\([^)]+\)' README.md | tr -d '])(' | while read -r link; do
    [ -e "$link" ] || fail "there is no $link"
done
