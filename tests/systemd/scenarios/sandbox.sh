# shellcheck shell=bash
# From within the unit's sandbox nothing can be written but its own directories and a private /tmp, no device is open
# but the pseudo devices and the documented ones, and there is no network. Tried as its user, and as root without
# its user, which shows that it is the sandbox that refuses.
unlisted=/dev/ganglion-unlisted
[ -e $unlisted ] || mknod -m 0666 $unlisted c 10 237 # loop-control
listed=/dev/nvmap
[ -e $listed ] || mknod -m 0660 $listed c 10 229 # fuse, to have something that opens
chgrp video $listed
# Someone's home, which would be writable if it were not hidden.
install -d -o ganglion -m 0777 /home/robot
# With what is in force on a Jetson.
drop_in '[Service]' "$(grep '^DeviceAllow=' /usr/share/ganglion/drop-ins/40-tegra.conf)" "ExecStartPre=$check sandbox $unlisted $listed" "ExecStartPre=!$check sandbox $unlisted $listed" \
    'SyslogIdentifier=sandbox'
systemctl start $unit || fail "it did not start: $(journal --output=cat SYSLOG_IDENTIFIER=sandbox)"
journal --output=cat SYSLOG_IDENTIFIER=sandbox >/run/probe
equal 'the probes that ended' "$(grep -c '^end of the probe$' /run/probe)" 2

# Its user writes there and nowhere else; of the devices, the pseudo devices and the documented one are open. The last
# file tells it of its own memory's pressure; systemd 254 and newer let it set when.
own='write (/var/lib/ganglion|/var/cache/ganglion|/run/ganglion|/tmp|/var/tmp)(/[^/]+)?'
devices="write /dev/(null|zero|full|random|urandom|tty|ptmx|pts/ptmx|pts/[0-9]+|console)|(write|device) $listed"
pressure="write /sys/fs/cgroup/system.slice/$unit/memory.pressure"
equal 'what the sandbox lets through' "$(grep -vE "^($own|$devices|$pressure|end of the probe)\$|^root: " /run/probe | sort -u)" ''
# Root could fill directories in memory that nobody else sees, and those of the nodes in /dev.
memory='write (/dev|/dev/[a-z]+)'
equal 'what it lets root through' "$(sed -n 's/^root: //p' /run/probe | grep -vE "^($own|$devices|$pressure|$memory)\$" | sort -u)" ''
grep -qx "device $listed" /run/probe || fail 'a documented device is closed to it'

# A device is open by what its driver is called in /proc/devices, for which a pattern may stand.
systemctl stop $unit
drop_in '[Service]' 'DeviceAllow=char-m?sc rw' "ExecStartPre=$check sandbox $unlisted" 'SyslogIdentifier=pattern'
systemctl start $unit || fail "it did not start: $(journal --output=cat SYSLOG_IDENTIFIER=pattern)"
journal --output=cat SYSLOG_IDENTIFIER=pattern | grep -qx "device $unlisted" || fail 'a driver by its name is closed'
rm $unlisted $listed
