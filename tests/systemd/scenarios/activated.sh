# shellcheck shell=bash
# A call starts the service, and is answered, while the model loads and when it has loaded.
matches 'the answer' "$(ask member 'Name a colour.')" '^sa\{sv\} '
equal 'the unit' "$(property ActiveState)" active

# Nobody may ask, but whoever looks starts it too.
systemctl stop $unit
matches State "$(manager State)" "loading|ready"
within 10 is_active

# A load of three seconds: the first caller waits for it.
systemctl stop $unit
scripted load=3s
matches 'the answer of a slow load' "$(ask member 'Name a colour.')" 'sim: Name a colour'
