# shellcheck shell=bash
# Inside the unit's sandbox only its own directories and a private /tmp are writable, only the pseudo devices and the documented ones
# can be opened, and there is no network. The probe runs as the daemon's user and as root: for root only the sandbox can refuse.
unlisted=/dev/ganglion-unlisted
[ -e $unlisted ] || mknod -m 0666 $unlisted c 10 237 # loop-control
listed=/dev/nvmap
[ -e $listed ] || mknod -m 0660 $listed c 10 229 # fuse, a device that opens
chgrp video $listed
# A home that would be writable if it were not hidden.
install -d -o ganglion -m 0777 /home/robot
# With the devices of a Jetson.
drop_in '[Service]' "$(grep '^DeviceAllow=' /usr/share/ganglion/drop-ins/40-tegra.conf)" "ExecStartPre=$check sandbox $unlisted $listed" "ExecStartPre=!$check sandbox $unlisted $listed" \
    'SyslogIdentifier=sandbox'
systemctl start $unit || fail "it did not start: $(journal --output=cat SYSLOG_IDENTIFIER=sandbox)"
journal --output=cat SYSLOG_IDENTIFIER=sandbox >/run/probe
equal 'the probes that ended' "$(grep -c '^end of the probe$' /run/probe)" 2

# Its user can write to its directories, open the pseudo devices and the documented one, and with systemd 254 and later set a
# threshold for the pressure on its own memory.
own='write (/var/lib/ganglion|/var/cache/ganglion|/run/ganglion|/tmp|/var/tmp)(/[^/]+)?'
devices="write /dev/(null|zero|full|random|urandom|tty|ptmx|pts/ptmx|pts/[0-9]+|console)|(write|device) $listed"
pressure="write /sys/fs/cgroup/system.slice/$unit/memory.pressure"
equal 'what the sandbox lets through' "$(grep -vE "^($own|$devices|$pressure|end of the probe)\$|^root: " /run/probe | sort -u)" ''
# Root can also write to folders in private memory, and to those of the nodes in /dev.
memory='write (/dev|/dev/[a-z]+)'
equal 'what it lets root through' "$(sed -n 's/^root: //p' /run/probe | grep -vE "^($own|$devices|$pressure|$memory)\$" | sort -u)" ''
grep -qx "device $listed" /run/probe || fail 'a documented device is closed to it'

# A pattern of a driver's name in /proc/devices opens its devices.
systemctl stop $unit
drop_in '[Service]' 'DeviceAllow=char-m?sc rw' "ExecStartPre=$check sandbox $unlisted" 'SyslogIdentifier=pattern'
systemctl start $unit || fail "it did not start: $(journal --output=cat SYSLOG_IDENTIFIER=pattern)"
journal --output=cat SYSLOG_IDENTIFIER=pattern | grep -qx "device $unlisted" || fail 'a driver by its name is closed'
rm $unlisted $listed
