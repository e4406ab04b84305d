//! `ganglionctl setup`: it writes a configuration that admission accepts on the board.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use ganglion::config::Config;
use tempfile::TempDir;

const FILE: &str = "etc/ganglion/gangliond.toml";
const DROP_IN: &str = "etc/ganglion/gangliond.toml.d/50-setup.toml";

fn setup(root: &Path, arguments: &[&str]) -> Output {
    let setup = Command::new(super::CTL)
        .arg("setup")
        .arg("--root")
        .arg(root)
        .args(arguments)
        .output();
    setup.expect("ganglionctl runs")
}

/// A board with that many KiB available, and a model.
fn board(available: u64) -> TempDir {
    let root = tempfile::tempdir().expect("a temporary folder");
    let write = |file: &str, bytes: &[u8]| {
        let file = root.path().join(file);
        fs::create_dir_all(file.parent().expect("a folder")).expect("it is made");
        fs::write(file, bytes).expect("it is written");
    };
    write(
        "proc/device-tree/model",
        b"NVIDIA Jetson Orin Nano Developer Kit\0",
    );
    write(
        "proc/device-tree/compatible",
        b"nvidia,p3768-0000+p3767-0005\0nvidia,tegra234\0",
    );
    write(
        "proc/meminfo",
        format!("MemTotal: 7802780 kB\nMemAvailable: {available} kB\n").as_bytes(),
    );
    write(FILE, include_bytes!("../../config/gangliond.toml"));
    write("var/lib/ganglion/models/tiny.gguf", &super::model());
    root
}

#[test]
fn the_only_model_is_taken_and_a_rerun_writes_the_same() {
    let root = board(6_000_000);
    let planned = setup(root.path(), &["--dry-run"]);
    assert!(planned.status.success(), "{planned:?}");
    assert!(!root.path().join(DROP_IN).exists());
    let done = setup(root.path(), &[]);
    assert!(done.status.success(), "{done:?}");
    let text = fs::read_to_string(root.path().join(DROP_IN)).expect("the drop-in");
    assert!(
        text.contains("for NVIDIA Jetson Orin Nano Developer Kit"),
        "{text}"
    );
    let planned = String::from_utf8_lossy(&planned.stdout).into_owned();
    assert!(
        planned.contains("would: write") && planned.ends_with(&text),
        "{planned}"
    );

    let config = Config::read(&root.path().join(FILE)).expect("what it wrote");
    let path = config.model.path.clone().expect("a model");
    assert_eq!(path, Path::new("/var/lib/ganglion/models/tiny.gguf"));
    assert_eq!(config.kv.memory_mib, 1);
    assert!(setup(root.path(), &[]).status.success());
    assert_eq!(
        fs::read_to_string(root.path().join(DROP_IN)).expect("the drop-in"),
        text
    );
}

#[test]
fn a_board_without_room_is_refused_and_keeps_its_configuration() {
    let root = board(1000);
    let refused = setup(root.path(), &[]);
    assert_eq!(refused.status.code(), Some(69), "{refused:?}");
    let text = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(text.contains("ganglionctl pull --list"), "{text}");
    assert!(!root.path().join(DROP_IN).exists());

    let missing = setup(root.path(), &["--model", "qwen3-4b"]);
    assert_eq!(missing.status.code(), Some(65), "{missing:?}");
    assert!(String::from_utf8_lossy(&missing.stderr).contains("sudo ganglionctl pull qwen3-4b"));
    fs::copy(
        root.path().join("var/lib/ganglion/models/tiny.gguf"),
        root.path().join("var/lib/ganglion/models/other.gguf"),
    )
    .expect("a copy");
    let several = setup(root.path(), &[]);
    assert_eq!(several.status.code(), Some(2), "{several:?}");
}
