# shellcheck shell=bash
# Gives this shell another umask, time zone, locale and temporary folder, for a second build that must have the same bytes.
# Source it in a subshell.
umask 077
export TZ=Asia/Tokyo
# A locale without UTF-8: if there is none, C without Python's coercion to UTF-8.
LC_ALL=$(locale -a | grep -iE '[.]?iso-?8859-?1$' | head -n 1 || true)
export LC_ALL=${LC_ALL:-C} PYTHONUTF8=0 PYTHONCOERCECLOCALE=0
# Temporary files are on another kind of file system, in a folder whose files inherit its group.
if [ "$(stat --file-system --format=%T /dev/shm 2>/dev/null)" = tmpfs ] &&
    [ "$(df --output=avail /dev/shm | tail -n 1)" -gt 500000 ]; then
    TMPDIR=$(mktemp -d -p /dev/shm ganglion-elsewhere.XXXXXX)
else
    TMPDIR=$(mktemp -d)
    echo 'no tmpfs with room at /dev/shm: both builds put their temporary files on one file system' >&2
fi
trap 'rm -rf "$TMPDIR"' EXIT
chmod 02755 "$TMPDIR"
export TMPDIR
