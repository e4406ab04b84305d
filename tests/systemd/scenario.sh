#!/usr/bin/env bash
# scenario.sh NAME: runs one scenario in a booted system.
set -Eeuo pipefail
here=/usr/lib/ganglion-check
source $here/library.sh
fresh
source "$here/scenarios/$1.sh"
