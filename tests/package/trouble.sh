#!/usr/bin/env bash
# trouble.sh FOLDER: the package in unusual conditions, after life.sh and in the same system: clients that call during a removal, disks
# and links in its folders, an interrupted upgrade, deleted files and left ones.
set -euo pipefail
folder=$1
# shellcheck source=tests/package/library.sh source-path=SCRIPTDIR/../..
. "$folder/library.sh"

ours=/usr/share/ganglion/gangliond.toml
drop_ins=/etc/ganglion/gangliond.toml.d
systemd_files=/etc/systemd/system

# said PATTERN: checks the output of the last dpkg command.
said() {
    grep -qE -- "$1" /tmp/said || {
        cat /tmp/said
        fail "it does not say '$1'"
    }
}

remove() { dpkg "$1" ganglion >/tmp/said 2>&1 || { cat /tmp/said && fail "dpkg $1"; }; }

# forgotten: whether systemd does not know the unit.
forgotten() { [ "$(systemctl show --property=LoadState,ActiveState --value gangliond.service | paste -sd ' ')" = "not-found inactive" ]; }

files >/tmp/before

say 'the first install reports a configuration that cannot be used'
mkdir -p $drop_ins
echo 'nonsense = 1' >$drop_ins/99-bad.toml
install 1.deb
said '^ganglion: not started, as the configuration cannot be used: .*nonsense'
rm $drop_ins/99-bad.toml

say 'an edit during an interrupted upgrade is kept'
dpkg --unpack "$folder/2.deb"
touch $shipped.unedited # of another interrupted upgrade
echo '# edited' >>$shipped
dpkg --configure ganglion
grep -q '^# edited' $shipped
rm $shipped.unedited

say 'a deleted configuration stays deleted'
rm $shipped
install 3.deb
[ ! -e $shipped ] || fail 'a configuration came back that was deleted'
cp $ours $shipped

say 'an unedited configuration follows the package after dpkg -r, and the output says how to start'
configure_model
! $booted || systemctl enable --quiet gangliond.service
install 2.deb
remove -r
install 3.deb
cmp $shipped $ours || fail 'an unedited configuration does not follow the package'
if $booted; then
    said '^ganglion: not started before the next boot, .*systemctl start gangliond'
else
    said '^ganglion: not started; a model is configured already: .*systemctl enable --now gangliond'
fi
! $booted || ! systemctl is-active --quiet gangliond.service || fail 'it was started'

if $booted; then
    say 'an upgrade keeps a daemon alive whose model is gone'
    start
    process=$(owner)
    mv /var/lib/ganglion/models/model.gguf /var/lib/ganglion/models/elsewhere.gguf
    install 3.deb
    said '^ganglion: not restarted, as it could not load its model again: /var/lib/ganglion/models/model.gguf: No such file'
    [ "$(owner)" = "$process" ] || fail 'it was restarted'
    mv /var/lib/ganglion/models/elsewhere.gguf /var/lib/ganglion/models/model.gguf

    say 'an upgrade restarts a daemon whose model only its namespace has'
    mkdir -p /srv/models $systemd_files/gangliond.service.d
    cp "$folder/model.gguf" /srv/models/
    printf '[Service]\nBindReadOnlyPaths=/srv/models:/var/lib/ganglion/elsewhere\n' >$systemd_files/gangliond.service.d/bind.conf
    echo 'model.path = "/var/lib/ganglion/elsewhere/model.gguf"' >$drop_ins/60-elsewhere.toml
    systemctl daemon-reload
    systemctl restart gangliond.service
    process=$(owner)
    install 3.deb
    [ "$(owner)" != "$process" ] || fail "it was not restarted: $(grep 'not restarted' /tmp/said)"
    systemctl stop gangliond.service
    rm -r /srv/models $systemd_files/gangliond.service.d $drop_ins/60-elsewhere.toml
    systemctl daemon-reload

    say 'dpkg -r while clients call'
    callers=()
    for _ in 1 2 3 4; do
        as member bash -c 'while :; do "$@"; done' caller "${complete[@]}" >/dev/null 2>&1 &
        callers+=($!)
    done
    for _ in 1 2 3 4 5; do
        sleep 1
        as member "${complete[@]}" >/dev/null || fail 'it does not start for a caller'
        remove -r
        forgotten || fail "of the unit is left: $(systemctl show --property=LoadState,ActiveState gangliond.service)"
        [ ! -e /run/systemd/system/gangliond.service ] || fail 'it is still masked'
        left=$(find /run/ganglion /tmp/systemd-private-*gangliond* /var/tmp/systemd-private-*gangliond* -maxdepth 0 2>/dev/null || true)
        [ -z "$left" ] || fail "it leaves $left"
        install 3.deb >/dev/null
    done
    kill "${callers[@]}"
    wait "${callers[@]}" || true

    say 'dpkg -r of a unit whose file is gone'
    start
    rm /usr/lib/systemd/system/gangliond.service
    systemctl daemon-reload
    remove -r
    forgotten || fail "of the unit is left: $(systemctl show --property=LoadState,ActiveState gangliond.service)"
    install 3.deb
fi

say 'the drop-ins follow the running systemd'
mkdir /tmp/fake
# enabled VERSION: lists the drop-ins of systemd VERSION. The first process is not systemd, so the generator asks systemctl.
enabled() {
    printf '#!/bin/sh\necho "systemd %s (%s.1-1)"\n' "$1" "$1" >/tmp/fake/systemctl
    chmod +x /tmp/fake/systemctl
    rm -rf /tmp/generated
    mkdir /tmp/generated
    PATH=/tmp/fake:$PATH unshare --pid --fork --mount-proc sh -c '"$@"; exit $?' sh \
        /usr/lib/systemd/system-generators/gangliond-generator /tmp/generated /tmp/generated /tmp/generated
    find /tmp/generated -type l -printf '%f ' | sort
}
for version in 247 252 253; do
    [ -z "$(enabled $version)" ] || fail "systemd $version gets $(enabled $version)"
done
for version in 254 257 260; do
    [ "$(enabled $version)" = '50-v254.conf ' ] || fail "systemd $version gets '$(enabled $version)'"
done
rm -r /tmp/fake /tmp/generated

say 'a purge keeps mounts below its folders, and the targets of links'
mkdir -p $systemd_files/gangliond.service.d "/srv/robot models" /srv/linked
echo '[Service]' >$systemd_files/gangliond.service.d/override.conf
echo mine | tee "/srv/robot models/mine" >/srv/linked/mine
mkdir "/var/lib/ganglion/models/a disk" /var/cache/ganglion/disk -p
mount --bind "/srv/robot models" "/var/lib/ganglion/models/a disk"
mount -t tmpfs tmpfs /var/cache/ganglion/disk
echo mine >/var/cache/ganglion/disk/mine
ln -s /srv/linked /var/lib/ganglion/models/linked
remove -P
cat /tmp/said
said "^ganglion: not removed: /var/lib/ganglion/models/a disk, .*mounted.*sudo umount '/var/lib/ganglion/models/a disk'"
said '^ganglion: not removed: /var/cache/ganglion/disk, .*mounted'
said '^ganglion: not removed: /srv/linked/?, to which a link below .* pointed'
said '^ganglion: purged .*, but for what is named above: freed [1-9]'
cat "/srv/robot models/mine" /srv/linked/mine /var/cache/ganglion/disk/mine
[ ! -e /var/lib/ganglion/models/model.gguf ] || fail 'the model is still there'
umount "/var/lib/ganglion/models/a disk" /var/cache/ganglion/disk
rmdir "/var/lib/ganglion/models/a disk" /var/lib/ganglion/models /var/lib/ganglion /var/cache/ganglion/disk /var/cache/ganglion
rm -r "/srv/robot models"

say 'a purge keeps a disk that holds the whole state, and the target of a link to it'
mkdir -p /var/lib/ganglion
mount -t tmpfs tmpfs /var/lib/ganglion
install 3.deb
echo mine >/var/lib/ganglion/models/mine
remove -P
said '^ganglion: not removed: /var/lib/ganglion, .*mounted'
cat /var/lib/ganglion/models/mine
umount /var/lib/ganglion
rmdir /var/lib/ganglion
ln -s /srv/linked /var/lib/ganglion
install 3.deb
said '^ganglion: /var/lib/ganglion is a symbolic link'
if $booted; then
    systemctl start gangliond.service 2>/dev/null || true
    status=$(systemctl show --property=ExecMainStatus --value gangliond.service)
    [ "$status" = 238 ] || fail "with a link for its state it ends with $status, not with 238"
fi
! $booted || ln -s /dev/null $systemd_files/gangliond.service
remove -P
said '^ganglion: not removed: /srv/linked, to which /var/lib/ganglion was a link'
cat /srv/linked/mine
rm -r /srv/linked

files >/tmp/after
diff /tmp/before /tmp/after || fail 'files were left behind'
say 'the package handled all of it'
