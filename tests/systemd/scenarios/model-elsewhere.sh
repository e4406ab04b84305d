# shellcheck shell=bash
# Models on another disk are readable, and with BindReadOnlyPaths= also in folders that the sandbox hides.
mkdir -p /mnt/nvme/models /home/robot/models
for folder in /mnt/nvme/models /home/robot/models; do
    install -m 0644 /usr/lib/ganglion-check/tiny.gguf $folder/model.gguf
done
configure 'model.path = "/mnt/nvme/models/model.gguf"'
start
systemctl stop $unit

configure 'model.path = "/home/robot/models/model.gguf"'
systemctl start $unit 2>/dev/null && fail 'the sandbox does not hide /home'
reported load_failed '/home/robot/models/model.gguf'

drop_in '[Service]' 'BindReadOnlyPaths=/home/robot/models:/var/lib/ganglion/elsewhere'
configure 'model.path = "/var/lib/ganglion/elsewhere/model.gguf"'
systemctl reset-failed $unit
start
matches 'the answer' "$(ask member 'Name a colour.')" '^sa\{sv\} '
ganglionctl setup
matches 'what setup wrote' "$(cat /etc/ganglion/gangliond.toml.d/50-setup.toml)" '/var/lib/ganglion/elsewhere/model.gguf'
matches 'the answer' "$(ask member 'Name a colour.')" '^sa\{sv\} '
systemctl disable $unit
