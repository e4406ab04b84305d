# shellcheck shell=bash
# This systemd accepts the installed files without a warning, and they are as documented.
equal 'systemd-analyze verify' "$(systemd-analyze verify --man=no /usr/lib/systemd/system/$unit 2>&1)" ''

# Drop-ins are enabled if this systemd knows their keys.
version=$(systemctl --version | sed -n '1s/^systemd \([0-9]*\).*/\1/p')
for file in /usr/share/ganglion/drop-ins/*-v*.conf; do
    since=${file##*-v}
    wanted=$([ "${since%.conf}" -gt "$version" ] || echo "${file##*/}")
    equal "the drop-in ${file##*/}" "$(property DropInPaths | grep -o "${file##*/}" || true)" "$wanted"
done
if [ "$version" -ge 254 ]; then
    equal 'RestartSteps' "$(property RestartSteps)" 5
fi

if systemd-analyze --help | grep -q -- --offline; then
    systemd-analyze security --offline=true --threshold=10 /usr/lib/systemd/system/$unit >/run/security || fail "$(tail -n 1 /run/security)"
else
    systemd-analyze security $unit >/run/security
fi
exposure=$(sed -n 's/.*Overall exposure level for [^:]*: \([0-9.]*\) .*/\1/p' /run/security)
echo "exposure: $exposure"
awk -v found="$exposure" 'BEGIN { exit !(found != "" && found <= 1.0) }' || fail "the exposure is '$exposure', more than 1.0"

# Every event of the table has its entry in this journal's catalog.
for event in $($check events); do
    journalctl --list-catalog "$($check id "$event")" | grep -q . || fail "the catalog has no entry for $event"
done
id ganglion | grep -q video || fail 'the user is not in group video'
id ganglion | grep -q render || fail 'the user is not in group render'
