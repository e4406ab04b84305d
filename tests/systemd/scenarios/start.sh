# shellcheck shell=bash
# The service is ready when systemctl returns, answers, reports its status, and stops with status 0. systemd prints no warning about
# missing devices.
start
equal 'the warnings about devices' "$(journal _PID=1 --output=cat | grep -i device || true)" ''
equal 'State' "$(manager State)" 's "ready"'
reported started
reported loading
reported backend_chosen
reported model_loaded 'is loaded'
reported ready 'is ready'
matches 'the answer' "$(ask member 'Name a colour.')" '^sa\{sv\} '
reported request_finished
within 5 holds 'Status: .ready; last request: .*tokens' systemctl status $unit

systemctl stop $unit
reported stopping
reported stopped
equal 'the result' "$(property Result)" success
equal 'the exit status' "$(property ExecMainStatus)" 0
equal 'the unit' "$(property ActiveState)" inactive
