#!/usr/bin/env bash
# Shell clients: ganglionctl for lasting work, and busctl or gdbus for one whole answer. Both leave the bus after their call, which
# ends their requests and sessions.
#
# client.sh generate | session | cancel | complete | signals | reconnect
set -euo pipefail
exec </dev/null # ganglionctl ask adds its standard input to the question

complete() {
    busctl call org.ganglion.Llm1 /org/ganglion/Llm1 org.ganglion.Llm1.Manager \
        Complete 'sa{sv}' "$1" 2 max_tokens u 10 system s 'Be brief.'
    gdbus call --system --dest org.ganglion.Llm1 --object-path /org/ganglion/Llm1 \
        --method org.ganglion.Llm1.Manager.Complete "$1" "{'max_tokens': <10>}"
}

case ${1:-} in
# 1: an answer is incomplete.
generate) ganglionctl ask --max-tokens 20 hello || [ $? = 1 ] ;;
session) printf 'hello\nand again\n/history\n' | ganglionctl chat --max-tokens 10 --system 'Be brief.' || [ $? = 1 ] ;;
# Ctrl-C does the same.
cancel) ! timeout --signal INT 1 ganglionctl ask --max-tokens 400 hello || echo 'it ended before the signal' ;;
complete) complete hello ;;
signals) # the daemon's signals, because a tool that has left the bus receives none of its request
    timeout 2 gdbus monitor --system --dest org.ganglion.Llm1 --object-path /org/ganglion/Llm1 >/dev/null || [ $? = 124 ] ;;
reconnect)
    complete hello
    echo 'restart the daemon'
    until [ "$(busctl get-property org.ganglion.Llm1 /org/ganglion/Llm1 org.ganglion.Llm1.Manager State 2>/dev/null)" = 's "ready"' ] &&
        [ -e "${RESTARTED:?a file that is there once it has restarted}" ]; do sleep 0.2; done
    complete 'hello again'
    ;;
*)
    echo 'client.sh generate | session | cancel | complete | signals | reconnect' >&2
    exit 2
    ;;
esac
