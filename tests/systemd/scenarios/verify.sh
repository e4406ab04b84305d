# shellcheck shell=bash
# `verify` on a booted system without a board: it passes what can run, as the service in its sandbox, and restarts the service. What
# needs a GPU is NOT RUN. The service serves afterwards.
verdict() {
    grep -A1 "\"name\": \"$2\"" "$1" | sed -n 's/.*"verdict": "\(.*\)",/\1/p'
}
expect() {
    [ "$(verdict "$1" "$2")" = "$3" ] || fail "$2: $(grep -A4 "\"name\": \"$2\"" "$1")"
}

start
before=$(pid)
# A time may be too long on a busy machine, so the exit status is not checked.
ganglionctl verify --every 400 --long=0.01 --output /run/verify.json || true
for check in 'operations on the CPU' 'decode graph' rows answer release reload restart 'kill -9'; do
    expect /run/verify.json "$check" PASS
done
for check in 'device nodes' 'GPU in the sandbox' 'managed memory' chunks 'sm_87 cubins' 'operations on the GPU' decode prompt; do
    expect /run/verify.json "$check" 'NOT RUN'
done
systemd_said 'ganglionctl verify --part rows'
is_anew "$before"
matches 'the answer' "$(ask member hello)" '^sa\{sv\} '
grep -q 'sensors of a robot' /run/verify.json && fail 'the file holds a prompt'

# A member may ask and not restart. Nothing that did not run has passed.
as member ganglionctl verify --every 400 --output /tmp/verify.json >/dev/null || true
expect /tmp/verify.json answer PASS
for check in release restart 'kill -9' 'GPU in the sandbox'; do
    expect /tmp/verify.json "$check" 'NOT RUN'
done

# The two runs next to each other.
matches 'the comparison' "$(ganglionctl verify --compare /run/verify.json /tmp/verify.json)" '^kill -9 +PASS +NOT RUN$'
