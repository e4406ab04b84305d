#!/usr/bin/env bash
# one-call.sh busctl|gdbus complete: a whole answer by one call, with a system message and what was said before.
set -euo pipefail
case "$*" in
'busctl complete')
    busctl call org.ganglion.Llm1 /org/ganglion/Llm1 org.ganglion.Llm1.Manager Complete 'sa{sv}' 'And a fruit?' \
        3 max_tokens u 10 system s 'Be brief.' messages 'a(sa{sv})' 2 \
        user 1 content s 'Name a colour.' assistant 1 content s 'Red.'
    ;;
'gdbus complete')
    gdbus call --system --dest org.ganglion.Llm1 --object-path /org/ganglion/Llm1 \
        --method org.ganglion.Llm1.Manager.Complete 'And a fruit?' \
        "{'max_tokens': <10>, 'system': <'Be brief.'>, 'messages': <[('user', {'content': <'Name a colour.'>}),
          ('assistant', {'content': <'Red.'>})]>}"
    ;;
*) exit 2 ;;
esac
