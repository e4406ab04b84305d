#!/usr/bin/env bash
# Runs once in a booted system: does the work of the package's triggers and scripts, and creates users.
set -euo pipefail
systemd-sysusers
systemd-tmpfiles --create
journalctl --update-catalog
systemctl daemon-reload
systemctl reload dbus.service

for user in member other admin both stranger; do
    useradd --no-create-home --shell /usr/sbin/nologin "$user"
done
usermod --append --groups ganglion member
usermod --append --groups ganglion other
usermod --append --groups ganglion-admin admin
usermod --append --groups ganglion,ganglion-admin both
# Each scenario starts from this copy.
cp -a /etc/ganglion /run/ganglion-pristine
