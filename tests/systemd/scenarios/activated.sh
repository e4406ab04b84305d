# shellcheck shell=bash
# A call starts the service and gets its answer after the load. Reading a property starts it too.
matches 'the answer' "$(ask member 'Name a colour.')" '^sa\{sv\} '
equal 'the unit' "$(property ActiveState)" active

systemctl stop $unit
matches State "$(manager State)" "loading|ready"
within 10 is_active

# A load of three seconds: the first caller waits for it.
systemctl stop $unit
scripted load=3s
matches 'the answer of a slow load' "$(ask member 'Name a colour.')" 'sim: Name a colour'
