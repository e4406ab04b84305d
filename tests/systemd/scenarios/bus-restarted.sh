# shellcheck shell=bash
# The bus restarts many times: the daemon's process and model stay, and its start limit is not used.
start
before=$(pid)
for _ in 1 2 3 4 5 6 7; do
    mark
    # The bus has a start limit too.
    systemctl reset-failed dbus.service
    systemctl restart dbus.service
    reported bus_lost
    reported bus_found
    within 20 ask member 'Name a colour.'
    equal 'the process' "$(pid)" "$before"
done
matches 'the answer' "$(ask member 'Name a colour.')" '^sa\{sv\} '
equal 'restarts of the unit' "$(property NRestarts)" 0
equal 'the unit' "$(property ActiveState)" active
