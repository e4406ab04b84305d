# shellcheck shell=bash
# The bus is lost and found again, many times: the process and its model stay, and the start limit is not touched.
start
before=$(pid)
for _ in 1 2 3 4 5 6 7; do
    mark
    # The bus has a start limit of its own.
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
