# shellcheck shell=bash
# systemd gives up after repeated failures, which saves the robot's battery. An operator can start the service again.
scripted lost_after=0 '[Service]' 'RestartSec=100ms' 'RestartSteps=0'
is_given_up() {
    as member busctl call --timeout=25 $name $path $name.Manager Complete 'sa{sv}' hello 0 >/dev/null 2>&1 || true
    has_failed
}
within 15 is_given_up
reported engine_failed
systemd_said 'Start request repeated too quickly'
systemctl reset-failed $unit
rm /run/systemd/system/$unit.d/90-scenario.conf
systemctl daemon-reload
start
