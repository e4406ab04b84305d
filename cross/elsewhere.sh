# shellcheck shell=bash
# Makes this shell another builder's, for a second build whose bytes must be the first's: sourced by a subshell.
umask 077
export TZ=Asia/Tokyo
# A locale whose encoding is not UTF-8: without one, C, in which Python is not to help itself.
LC_ALL=$(locale -a | grep -iE '[.]?iso-?8859-?1$' | head -n 1 || true)
export LC_ALL=${LC_ALL:-C} PYTHONUTF8=0 PYTHONCOERCECLOCALE=0
# Temporary files on another kind of file system, in a folder that hands its group down.
if [ "$(stat --file-system --format=%T /dev/shm 2>/dev/null)" = tmpfs ] &&
    [ "$(df --output=avail /dev/shm | tail -n 1)" -gt 500000 ]; then
    TMPDIR=$(mktemp -d -p /dev/shm ganglion-elsewhere.XXXXXX)
else
    TMPDIR=$(mktemp -d)
    echo 'no tmpfs with room at /dev/shm: both builds have their temporary files on one file system' >&2
fi
trap 'rm -rf "$TMPDIR"' EXIT
chmod 02755 "$TMPDIR"
export TMPDIR
