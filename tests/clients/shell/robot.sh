#!/usr/bin/env bash
# robot.sh NAME: a robot for `ganglionctl ask --tools robot.json --call robot.sh`. The arguments arrive as JSON on standard input and fit the
# declaration, so no check is needed. The output is the result for the model.
set -euo pipefail
arguments=$(cat)
value=$(sed 's/.*: *"\{0,1\}\([a-z0-9]*\)"\{0,1\} *}.*/\1/' <<<"$arguments")
case $1 in
turn) echo "looking $value" ;;
go) echo "went $value m" ;;
esac
