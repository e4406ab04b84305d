//! `ganglionctl doctor`: its findings in file trees that look like a board, and its reports of a driver's errors.

mod live;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::{Value, json};
use tempfile::TempDir;

const CTL: &str = env!("CARGO_BIN_EXE_ganglionctl");

/// A copy of the healthy AGX Orin with a model, which a test may damage.
struct Board(TempDir);

impl Board {
    fn healthy() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
        copy(&sources.join("doctor/agx-orin"), folder.path());
        let model = folder.path().join("var/lib/ganglion/models/tiny");
        copy(&sources.join("golden/tiny-llama"), &model);
        let letters = (0xc0_u32..0x140).filter_map(char::from_u32);
        let vocabulary: Value = letters
            .map(String::from)
            .zip((0..).map(Value::from))
            .collect();
        let tokenizer = json!({
            "model": {"type": "BPE", "vocab": vocabulary, "merges": []},
            "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false},
            "added_tokens": [{"id": 256, "content": "<s>", "special": true}],
        });
        let tokenizer = serde_json::to_string(&tokenizer).expect("JSON");
        fs::write(model.join("tokenizer.json"), tokenizer).expect("it is written");
        fs::write(model.join("chat_template.jinja"), "{{ messages }}").expect("it is written");
        let weights = model.join("model.safetensors");
        let sum = Command::new("sha256sum").arg(&weights).output();
        let sum = sum.expect("sha256sum runs").stdout;
        fs::write(weights.with_extension("safetensors.sha256"), sum).expect("it is written");
        Self(folder)
    }

    fn path(&self, file: &str) -> PathBuf {
        self.0.path().join(file)
    }

    fn write(&self, file: &str, text: &str) {
        let file = self.path(file);
        fs::create_dir_all(file.parent().expect("a folder")).expect("it is made");
        fs::write(file, text).expect("it is written");
    }

    /// Replaces a part of a file, which must exist.
    fn change(&self, file: &str, from: &str, to: &str) {
        let text = fs::read_to_string(self.path(file)).expect(file);
        assert!(text.contains(from), "{file}: {text}");
        self.write(file, &text.replace(from, to));
    }

    fn doctor(&self, arguments: &[&str]) -> Output {
        let doctor = Command::new(CTL)
            .arg("doctor")
            .arg("--root")
            .arg(self.0.path())
            .args(arguments)
            .output();
        doctor.expect("ganglionctl runs")
    }

    /// Returns the lines that do not say ok, after a check of the exit status.
    fn complaints(&self) -> Vec<String> {
        let output = self.doctor(&[]);
        let text = String::from_utf8(output.stdout).expect("it writes text");
        let complaints: Vec<_> = text
            .lines()
            .filter(|line| !line.starts_with("ok  "))
            .collect();
        let failed = complaints.iter().any(|line| line.starts_with("fail"));
        assert_eq!(output.status.code(), Some(i32::from(failed)), "{text}");
        complaints.iter().map(|line| (*line).to_owned()).collect()
    }

    /// Returns the complaints without the one that all these boards have: no daemon runs.
    fn spoilt(&self) -> Vec<String> {
        let mut complaints = self.complaints();
        complaints.retain(|line| !line.starts_with("warn  unit: inactive (dead)"));
        complaints
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a folder");
    for entry in fs::read_dir(from).expect("a folder") {
        let path = entry.expect("an entry").path();
        let to = to.join(path.file_name().expect("a name"));
        if path.is_dir() {
            copy(&path, &to);
        } else {
            fs::copy(&path, &to).expect("a copy");
        }
    }
}

#[test]
fn a_healthy_board_is_reported_line_by_line() {
    let board = Board::healthy();
    let text = String::from_utf8(board.doctor(&[]).stdout).expect("text");
    let root = board.0.path().display().to_string();
    let expected = "\
ok    board: NVIDIA Jetson AGX Orin Developer Kit, Jetson Linux R36 revision 4.3
warn  unit: inactive (dead), enabled; the first call starts it; sudo systemctl enable --now gangliond
ok    drop-ins: /etc/systemd/system/gangliond.service.d/50-local.conf
ok    device nodes: /dev/nvmap, /dev/nvgpu/igpu0/ctrl, /dev/dri/renderD128, /dev/host1x-fence are open to ganglion
ok    configuration: /etc/ganglion/gangliond.toml
ok    model: /var/lib/ganglion/models/tiny: tiny, 0 MiB of weights
ok    checksum: 1 of 5 files are as recorded
ok    memory: 57344 of 62841 MiB are available, 512 MiB in NvMap, 31420 MiB of swap, which a GPU cannot use; \
the model takes 16, 0 of them for conversations of up to 128 tokens
ok    power mode: MAXN (0)
ok    GPU clock: 306 MHz now, 1300 at most
ok    temperature: 49 C at most (tj-thermal)
ok    supply: never too weak since the start
ok    bus: policy /usr/share/dbus-1/system.d/org.ganglion.Llm1.conf
ok    HTTP: /run/ganglion/openai.sock (mode 0660, group ganglion)
";
    assert_eq!(text.replace(&root, ""), expected);

    let found: Value = serde_json::from_slice(&board.doctor(&["--json"]).stdout).expect("JSON");
    let found = found.as_array().expect("an array");
    assert_eq!(found.len(), expected.lines().count());
    assert_eq!(found[1]["mark"], "warn");
    assert_eq!(found[1]["remedy"], "sudo systemctl enable --now gangliond");
}

#[test]
fn missing_and_closed_nodes_are_named_with_a_remedy() {
    let cases = [
        (
            "dev/nodes",
            "0660 root render /dev/dri/renderD128\n",
            "",
            "fail  device nodes: /dev/dri/renderD128 is missing; CUDA does not start without the render node (cuInit 801)",
        ),
        (
            "dev/nodes",
            "0660 root video /dev/host1x-fence\n",
            "",
            "fail  device nodes: /dev/host1x-fence is missing; sudo modprobe host1x-fence",
        ),
        (
            "dev/nodes",
            "0660 root render",
            "0600 root root",
            "fail  device nodes: /dev/dri/renderD128 (mode 0600, group root) is closed to ganglion; sudo usermod -aG \
             render ganglion",
        ),
    ];
    for (file, from, to, expected) in cases {
        let board = Board::healthy();
        board.change(file, from, to);
        let complaints = board.spoilt();
        assert_eq!(complaints.len(), 1, "{complaints:?}");
        assert!(complaints[0].starts_with(expected), "{complaints:?}");
    }

    // Neither the system nor the unit adds the service to the group.
    let board = Board::healthy();
    board.change("etc/group", "video:x:44:ganglion", "video:x:44:");
    assert_eq!(board.spoilt(), Vec::<String>::new());
    board.change(
        "commands/systemctl-show",
        "Groups=video render",
        "Groups=render",
    );
    let closed: Vec<_> = ["/dev/nvmap (mode 0440", "/dev/nvgpu/igpu0/ctrl (mode 0660", "/dev/host1x-fence (mode 0660"]
        .map(|node| format!("fail  device nodes: {node}, group video) is closed to ganglion; sudo usermod -aG video ganglion"))
        .into();
    let complaints = board.spoilt();
    assert_eq!(complaints.len(), closed.len(), "{complaints:?}");
    for (complaint, expected) in complaints.iter().zip(closed) {
        assert!(complaint.starts_with(&expected), "{complaint}");
    }
}

#[test]
fn sockets_ports_and_keys_of_http_are_checked() {
    const UNIT: &str = "commands/systemctl-show-socket";
    const SOCKET: &str = "0660 root ganglion /run/ganglion/openai.sock";
    let cases = [
        (
            "dev/nodes",
            SOCKET,
            "0666 root ganglion /run/ganglion/openai.sock",
            "fail  HTTP: /run/ganglion/openai.sock (mode 0666, group ganglion) is open to every user of this machine",
        ),
        (
            "dev/nodes",
            SOCKET,
            "0660 root root /run/ganglion/openai.sock",
            "warn  HTTP: /run/ganglion/openai.sock (mode 0660, group root) is not for group ganglion",
        ),
        (
            "dev/nodes",
            SOCKET,
            "",
            "fail  HTTP: /run/ganglion/openai.sock is missing, although ganglion-openai.socket is active; sudo systemctl \
             stop ganglion-openai.socket gangliond; sudo systemctl start gangliond",
        ),
        (
            UNIT,
            "ActiveState=active",
            "ActiveState=failed",
            "fail  HTTP: ganglion-openai.socket failed; systemctl status ganglion-openai.socket says why",
        ),
        (
            UNIT,
            "LoadState=loaded",
            "LoadState=not-found",
            "warn  HTTP: systemd does not know ganglion-openai.socket (not-found); this system has no",
        ),
        (
            UNIT,
            "NeedDaemonReload=no",
            "Listen=127.0.0.1:11435 (Stream)",
            "warn  HTTP: 127.0.0.1:11435 takes no requests: http.key_file is not set",
        ),
    ];
    for (file, from, to, expected) in cases {
        let board = Board::healthy();
        board.change(file, from, to);
        let complaints = board.spoilt();
        assert_eq!(complaints.len(), 1, "{expected}: {complaints:?}");
        assert!(
            complaints[0].starts_with(expected),
            "{expected}: {complaints:?}"
        );
    }

    // A socket that is not enabled is no problem.
    let board = Board::healthy();
    board.change(UNIT, "ActiveState=active", "ActiveState=inactive");
    board.change("dev/nodes", SOCKET, "");
    assert_eq!(board.spoilt(), Vec::<String>::new());

    // A port of the network, and keys that every user or not even the service can read.
    let toml = "[http]\nkey_file = '/etc/ganglion/openai.keys'\n";
    for (rights, expected) in [
        (
            "0644 root ganglion",
            "fail  HTTP: keys /etc/ganglion/openai.keys (mode 0644, owner root, group ganglion) are open",
        ),
        (
            "0600 root root",
            "fail  HTTP: keys /etc/ganglion/openai.keys (mode 0600, owner root, group root) are closed to ganglion",
        ),
    ] {
        let nodes = format!("{SOCKET}\n{rights} /etc/ganglion/openai.keys\n");
        let board = Board::healthy();
        board.change(UNIT, "NeedDaemonReload=no", "Listen=0.0.0.0:11435 (Stream)");
        board.write("etc/ganglion/gangliond.toml.d/60-http.toml", toml);
        board.change("dev/nodes", SOCKET, &nodes);
        let complaints = board.spoilt();
        assert_eq!(complaints.len(), 2, "{complaints:?}");
        let of_network = "warn  HTTP: other machines can reach 0.0.0.0:11435, without encryption";
        assert!(complaints[0].starts_with(of_network), "{complaints:?}");
        assert!(complaints[1].starts_with(expected), "{complaints:?}");
    }
}

#[test]
fn memory_heat_and_power_are_compared_with_the_daemons_needs() {
    let cases = [
        (
            "proc/meminfo",
            "MemAvailable:   58720256 kB",
            "MemAvailable:     102400 kB",
            "fail  memory: the model needs ",
            "and 100 MiB are available (MemAvailable of ",
        ),
        (
            "sys/class/thermal/cooling_device1/cur_state",
            "0",
            "2",
            "warn  temperature: gpu-throttle-alert: the board is slowed down by heat",
            "improve the cooling",
        ),
        (
            "sys/class/thermal/thermal_zone1/temp",
            "44250",
            "99500",
            "warn  temperature: gpu-thermal is at 99 C and slows the board down from 99 C on",
            "improve the cooling",
        ),
        (
            "sys/class/hwmon/hwmon3/oc3_event_cnt",
            "0",
            "37",
            "warn  supply: clocks were lowered for under-voltage 0 times, for average current 0, for peaks 37",
            "a stronger supply",
        ),
        (
            "var/lib/nvpmodel/status",
            "0000",
            "0001",
            "warn  power mode: MODE_15W (1)",
            "sudo nvpmodel -m 0 (MAXN)",
        ),
        (
            "sys/class/devfreq/17000000.gpu/max_freq",
            "1300500000",
            "612000000",
            "warn  GPU clock: 306 MHz now, 612 at most, and the GPU could run at 1300",
            "sudo nvpmodel -q",
        ),
        (
            "etc/nv_tegra_release",
            "R36 (release), REVISION: 4.3",
            "R35 (release), REVISION: 6.0",
            "fail  board: NVIDIA Jetson AGX Orin Developer Kit, Jetson Linux R35 revision 6.0",
            "install JetPack 6.2",
        ),
        (
            "etc/nv_tegra_release",
            "R36 (release), REVISION: 4.3",
            "R36 (release), REVISION: 3.0",
            "fail  board: NVIDIA Jetson AGX Orin Developer Kit, Jetson Linux R36 revision 3.0",
            "install JetPack 6.2",
        ),
    ];
    for (file, from, to, expected, remedy) in cases {
        let board = Board::healthy();
        board.change(file, from, to);
        let complaints = board.spoilt();
        assert_eq!(complaints.len(), 1, "{complaints:?}");
        assert!(complaints[0].starts_with(expected), "{complaints:?}");
        assert!(complaints[0].contains(remedy), "{complaints:?}");
    }
}

#[test]
fn the_model_the_unit_and_the_policy_are_checked() {
    let model = "/var/lib/ganglion/models/tiny";
    let board = Board::healthy();
    board.change("etc/ganglion/gangliond.toml", model, "/home/me/tiny");
    copy(&board.path(&model[1..]), &board.path("home/me/tiny"));
    let complaints = board.spoilt();
    let hidden =
        "fail  sandbox: ProtectHome= of the unit hides /home/me/tiny from the service; move it to ";
    assert!(complaints[0].starts_with(hidden), "{complaints:?}");

    let board = Board::healthy();
    let weights = format!("{}/model.safetensors", &model[1..]);
    let mut bytes = fs::read(board.path(&weights)).expect("weights");
    *bytes.last_mut().expect("a byte") ^= 1;
    fs::write(board.path(&weights), bytes).expect("it is written");
    let complaints = board.spoilt();
    assert!(
        complaints[0].contains("model.safetensors has the SHA-256 "),
        "{complaints:?}"
    );
    assert!(complaints[0].contains("ganglionctl pull"), "{complaints:?}");

    let board = Board::healthy();
    let template = format!("{}/chat_template.jinja", &model[1..]);
    let nested = format!("{{{{ {}1{} }}}}", "[".repeat(99_999), "]".repeat(99_999));
    board.write(&template, &nested);
    let complaints = board.spoilt();
    assert!(
        complaints[0].starts_with("fail  model: ") && complaints[0].contains("the chat template"),
        "{complaints:?}"
    );

    for (file, from, to, expected) in [
        (
            "etc/ganglion/gangliond.toml",
            "path",
            "pth",
            "gangliond.toml:2:1: unknown key `pth`",
        ),
        (
            "etc/ganglion/gangliond.toml",
            "tiny",
            "none",
            "fail  model: /var/lib/ganglion/models/none: No such file",
        ),
        (
            "commands/systemctl-show",
            "NeedDaemonReload=no",
            "NeedDaemonReload=yes",
            "systemctl daemon-reload",
        ),
        (
            "commands/systemctl-show",
            "LoadState=loaded",
            "LoadState=not-found",
            "systemd does not know gangliond.service",
        ),
        (
            "commands/systemctl-show",
            "ActiveState=inactive\nSubState=dead\nUnitFileState=enabled\nResult=success\nExecMainStatus=0",
            "ActiveState=failed\nSubState=failed\nUnitFileState=enabled\nResult=exit-code\nExecMainStatus=78",
            "fail  unit: failed (failed), result exit-code, exit status 78; the configuration or the model",
        ),
        (
            "etc/passwd",
            "ganglion:x:985:985:",
            "other:x:985:985:",
            "there is no user ganglion; sudo systemd-sysusers",
        ),
    ] {
        let board = Board::healthy();
        board.change(file, from, to);
        let complaints = board.complaints();
        assert!(
            complaints.iter().any(|line| line.contains(expected)),
            "{expected}: {complaints:?}"
        );
    }
    let board = Board::healthy();
    fs::remove_file(board.path("usr/share/dbus-1/system.d/org.ganglion.Llm1.conf"))
        .expect("it was there");
    assert!(board.spoilt()[0].starts_with("fail  bus: no policy: "));
}

/// A report is safe to send to strangers and sufficient to see every finding.
#[test]
fn a_report_has_the_findings_and_their_sources() {
    let board = Board::healthy();
    board.write("commands/journalctl", "{\"MESSAGE\":\"ready\"}\n");
    let file = board.path("report.txt");
    let output = board.doctor(&["--report", file.to_str().expect("UTF-8")]);
    assert!(output.status.success(), "{output:?}");
    let report = fs::read_to_string(&file).expect("the report");
    for part in [
        "ok    power mode: MAXN (0)",
        "MemAvailable:   58720256 kB",
        "< PM_CONFIG DEFAULT=2 >",
        "context = 128",
        "{\"MESSAGE\":\"ready\"}",
        "0440 root video /dev/nvmap",
    ] {
        assert!(report.contains(part), "{part}: {report}");
    }
    let mode = fs::metadata(&file).expect("a file").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}
