# shellcheck shell=bash
# Functions that boot a system without a trace. Its file system has three layers: the release's root, the installed files, and a
# writable layer in memory.
machine='' # the pid of its systemd on this machine
nspawn='' cgroups=()

# Whether this machine can boot a system. Otherwise prints the reason.
can_boot() {
    local why
    if [ "$(id -u)" != 0 ]; then
        why='it needs root'
    elif ! unshare --mount --pid --net --uts --ipc --cgroup --fork true 2>/dev/null; then
        why='the kernel or the container refuses namespaces'
    elif [ -z "$(findmnt --noheadings --types cgroup2 --output TARGET | head -n 1)" ]; then
        why='no cgroup2 file system is mounted'
    else
        return 0
    fi
    echo "$why"
    return 1
}

# boot NAME ROOT TREE FOLDER: boots a system with its console in FOLDER/console.
boot() {
    local name=$1 root=$2 tree=$3 folder=$4
    mkdir -p "$folder/layer"
    # Each system has its own control group: in a common one they would share their units' groups.
    local hierarchy
    for hierarchy in $(findmnt --noheadings --types cgroup2 --output TARGET | head -n 1) /sys/fs/cgroup/systemd; do
        [ -w "$hierarchy/cgroup.procs" ] || continue
        mkdir -p "$hierarchy/$name"
        cgroups+=("$hierarchy/$name")
    done
    # The script of the new mount namespace takes these as arguments.
    # shellcheck disable=SC2016
    unshare --mount --propagation private bash -euc '
        name=$1 root=$2 tree=$3 layer=$4
        shift 4
        for group in "$@"; do echo $$ >"$group/cgroup.procs"; done
        # Hides the systemd of this machine from systemd-nspawn.
        mkdir -p /run/systemd
        mount -t tmpfs tmpfs /run/systemd
        mount -t tmpfs -o mode=0755 tmpfs "$layer"
        mkdir "$layer/upper" "$layer/work" "$layer/root"
        mount -t overlay overlay -o "lowerdir=$tree:$root,upperdir=$layer/upper,workdir=$layer/work" "$layer/root"
        # The device filter of units is enforced only with these three.
        exec env SYSTEMD_NSPAWN_UNIFIED_HIERARCHY=1 systemd-nspawn --quiet --capability=all --system-call-filter=bpf \
            --directory="$layer/root" --machine="$name" --boot --register=no --keep-unit --private-network \
            --console=pipe </dev/null
    ' boot "$name" "$root" "$tree" "$folder/layer" "${cgroups[@]}" >"$folder/console" 2>&1 &
    nspawn=$!
    disown "$nspawn"
    local until=$((SECONDS + 60))
    until machine=$(pgrep --parent "$nspawn") && is_up; do
        kill -0 "$nspawn" 2>/dev/null && [ "$SECONDS" -lt "$until" ] || {
            echo "$name did not boot:" >&2
            tail -n 20 "$folder/console" >&2
            return 1
        }
        sleep 0.2
    done
}

# Whether the boot is complete. Units that do not suit a container may have failed.
is_up() {
    case $(inside systemctl is-system-running 2>/dev/null || true) in
    running | degraded) ;;
    *) return 1 ;;
    esac
}

# inside COMMAND...: runs it in the system as root.
inside() {
    nsenter --target "$machine" --all env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 TERM=dumb "$@"
}

# Ends the system: all its processes die with the first.
halt() {
    [ -n "$nspawn" ] || return 0
    kill -KILL "$nspawn" 2>/dev/null || true
    [ -z "$machine" ] || kill -KILL "$machine" 2>/dev/null || true
    # Not wait: bash would report the kill.
    while kill -0 "$nspawn" 2>/dev/null; do sleep 0.1; done
    local group
    for group in ${cgroups[@]+"${cgroups[@]}"}; do
        # Its last processes take a moment to end.
        for _ in {1..50}; do
            find "$group" -depth -type d -exec rmdir {} + 2>/dev/null || true
            [ -d "$group" ] || break
            sleep 0.1
        done
    done
}
