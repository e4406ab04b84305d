# shellcheck shell=bash
# Losing the bus ends it with status 69; systemd starts it again, and its name is back.
start
before=$(pid)
systemctl restart dbus.service
within 20 is_anew "$before"
reported bus_lost
systemd_said 'status=69'
matches 'the answer' "$(ask member 'Name a colour.')" '^sa\{sv\} '
