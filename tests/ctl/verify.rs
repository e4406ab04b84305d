//! `verify`: its results on a machine without a board, on files that look like one, and two of its files next to each other.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use super::{golden, run, text};
use crate::support::private_bus::PrivateBus;
use crate::support::process::Process;

const ORIN_NANO: &str = include_str!("../boards/orin-nano.txt");
const AGX_ORIN: &str = include_str!("../boards/agx-orin.txt");

/// Makes a folder with the files of a board.
fn board(files: &str, model: &str, memory_kib: u64) -> tempfile::TempDir {
    let root = tempfile::tempdir().expect("a folder");
    let more = [
        format!("proc/device-tree/model = {model}"),
        format!("proc/meminfo = MemTotal: {memory_kib} kB"),
        "proc/device-tree/compatible = nvidia,tegra234".into(),
    ];
    for line in files.lines().chain(more.iter().map(String::as_str)) {
        let (path, value) = line.split_once(" = ").expect("path = value");
        let file = root.path().join(path);
        fs::create_dir_all(file.parent().expect("a folder")).expect("it is made");
        fs::write(file, value.replace("\\n", "\n") + "\n").expect("it is written");
    }
    root
}

fn read(file: &Path) -> Value {
    let text = fs::read_to_string(file).expect("a file is written");
    serde_json::from_str(&text).expect("JSON")
}

/// Returns the item of a check.
fn item<'a>(record: &'a Value, name: &str) -> &'a Value {
    let items = record["items"].as_array().expect("items");
    let found = items.iter().find(|item| item["name"] == name);
    found.unwrap_or_else(|| panic!("{name}: {record}"))
}

#[tokio::test]
async fn files_of_a_board_have_a_projection_for_its_power_mode_and_nothing_passes() {
    let nano = "NVIDIA Jetson Orin Nano Engineering Reference Developer Kit Super";
    let agx = "NVIDIA Jetson AGX Orin Developer Kit";
    for (files, model, memory, mode, decode) in [
        (ORIN_NANO, nano, 7_620_000, "Nano 15W", 18.6),
        (AGX_ORIN, agx, 64_350_000, "AGX MAXN", 55.7),
    ] {
        let root = board(files, model, memory);
        let output = root.path().join("verify.json");
        let verify = [
            "verify",
            "--root",
            text(root.path()),
            "--output",
            text(&output),
        ];
        let done = run(&verify).await;
        assert_eq!(done.code, Some(0), "{done:?}");
        let record = read(&output);
        assert_eq!(record["machine"]["board"], model);
        let expected = item(&record, "decode")["expected"]
            .as_str()
            .expect("a text");
        assert!(expected.contains(mode), "{expected}");
        let projected = record["figures"]["decode projected tok/s"].as_f64();
        let near = projected.is_some_and(|projected| (projected - decode).abs() < 0.1);
        assert!(near, "{projected:?}");
        for item in record["items"].as_array().expect("items") {
            assert_eq!(item["verdict"], "NOT RUN", "{item}");
        }
        assert_eq!(record["text"].as_str(), Some(&*done.stdout));
    }
}

/// Verdicts that depend on other programs' memory or on times are not asserted.
#[tokio::test(flavor = "multi_thread")]
async fn a_machine_without_a_board_passes_what_it_can_run_and_nothing_else() {
    let folder = tempfile::tempdir().expect("a folder");
    let bus = PrivateBus::start();
    let daemon = Process::start(&bus, "tokens=2000,delay=2ms", "").await;
    let (config, model) = (daemon.config(), golden("tiny-qwen3"));
    let file = folder.path().join("verify.json");
    let verify = [
        "--bus",
        bus.text(),
        "verify",
        "--every=400",
        "--long=0.001",
        "--config",
        text(&config),
        "--model",
        text(&model),
        "--output",
        text(&file),
    ];
    let done = run(&verify).await;
    let record = read(&file);
    for name in ["operations on the CPU", "decode graph", "rows", "answer"] {
        assert_eq!(item(&record, name)["verdict"], "PASS", "{record}");
    }
    for name in ["admission", "long run"] {
        assert_ne!(item(&record, name)["verdict"], "NOT RUN", "{record}");
    }
    for name in ["decode", "prompt", "load peak", "restart", "kill -9"] {
        let item = item(&record, name);
        assert_eq!(item["verdict"], "NOT RUN", "{item}");
        assert!(
            item["observed"].as_str().is_some_and(|why| !why.is_empty()),
            "{item}"
        );
    }
    for figure in ["decode tok/s", "prompt tok/s", "load s"] {
        assert!(
            record["figures"][figure].as_f64() > Some(0.0),
            "{figure}: {record}"
        );
    }
    assert!(!record["heat"].as_array().expect("readings").is_empty());
    // Neither prompts and answers, nor the path of the model, which may be in a user's home.
    let written = record.to_string();
    for private in ["sensors of a robot", "sim:", "Count from", text(&model)] {
        assert!(!written.contains(private), "{private}: {written}");
    }
    for part in ["rows", "expected", "observed", "look at", "NOT RUN"] {
        assert!(done.stdout.contains(part), "{part}: {}", done.stdout);
    }
}

#[tokio::test]
async fn two_files_are_shown_next_to_each_other_and_nothing_runs() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = board(ORIN_NANO, "NVIDIA Jetson Orin Nano", 7_620_000);
    let first = folder.path().join("first.json");
    let verify = [
        "verify",
        "--root",
        text(root.path()),
        "--output",
        text(&first),
    ];
    assert_eq!(run(&verify).await.code, Some(0));
    let mut record = read(&first);
    record["items"][0]["verdict"] = json!("FAIL");
    record["items"][0]["observed"] = json!("/dev/nvmap is missing");
    record["figures"]["decode projected tok/s"] = json!(1.0);
    let second = folder.path().join("second.json");
    fs::write(&second, record.to_string()).expect("it is written");

    let compare = ["verify", "--compare", text(&first), text(&second)];
    let done = run(&compare).await;
    assert_eq!((done.code, &*done.stderr), (Some(0), ""));
    let line = |start: &str| {
        let mut lines = done.stdout.lines().filter(|line| line.starts_with(start));
        let line = lines.next().unwrap_or_else(|| panic!("{start}: {done:?}"));
        line.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    assert_eq!(line("device nodes"), "device nodes NOT RUN FAIL");
    assert!(line("decode projected").ends_with(" 1.00 0.05"), "{done:?}");
    assert!(
        done.stdout.contains("second  /dev/nvmap is missing"),
        "{done:?}"
    );
    assert!(!Path::new("ganglion-verify.json").exists());

    record["format"] = json!(2);
    fs::write(&second, record.to_string()).expect("it is written");
    let refused = run(&compare).await;
    assert_eq!(refused.code, Some(65), "{refused:?}");
    assert!(refused.stderr.contains("its format is 2"), "{refused:?}");
}
