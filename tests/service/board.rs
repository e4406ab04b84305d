//! A daemon on a board of synthetic files: its journal, its bus and `ganglionctl top`.

use std::fs;
use std::path::Path;
use std::process::Command;

use ganglion::bus::proxy::DiagnosticsProxy;
use nix::sys::signal::Signal;

use super::gangliond::{Gangliond, ask, client};
use crate::support::daemon::until;
use crate::support::private_bus::PrivateBus;

const ORIN_NANO: &str = include_str!("../boards/orin-nano.txt");

fn write(root: &Path, path: &str, value: &str) {
    let file = root.join(path);
    fs::create_dir_all(file.parent().expect("a folder")).expect("it is made");
    fs::write(file, value.replace("\\n", "\n")).expect("it is written");
}

#[tokio::test(flavor = "multi_thread")]
async fn heat_and_a_power_mode_are_reported_once_and_shown() {
    let root = tempfile::tempdir().expect("a folder");
    for line in ORIN_NANO.lines() {
        let (path, value) = line.split_once(" = ").expect("path = value");
        write(root.path(), path, value);
    }
    let bus = PrivateBus::start();
    let config = "heat.celsius = 50\nengine.rows = 6\n";
    let board = format!("--board={}", root.path().display());
    // Longer than the test.
    let script = ["--sim=tokens=512,delay=200ms", &board];
    let mut daemon = Gangliond::start(bus.text(), &script, config);
    daemon.await_notification("READY=1").await;
    let manager = client(&bus).await;
    let _stream = ask(&manager, "how hot are you?")
        .await
        .expect("it is asked");
    let hot = "decoding slows down: tj-thermal is at 52 C, and heat.celsius is 50: a step has 3 rows at most";
    daemon.await_line(hot).await;
    daemon
        .await_line("the clock of the GPU may reach 612 of 1020 MHz, in power mode 15W")
        .await;

    let diagnostics = DiagnosticsProxy::new(manager.inner().connection()).await;
    let diagnostics = diagnostics.expect("the proxy is built");
    let device = diagnostics.device().await.expect("it is read");
    let text = |key: &str| String::try_from(device[key].clone()).expect("a text");
    let number = |key: &str| f64::try_from(device[key].clone()).expect("a number");
    let count = |key: &str| u64::try_from(device[key].clone()).expect("a count");
    assert_eq!((&*text("backend"), &*text("power_mode")), ("sim", "15W"));
    assert!((number("celsius") - 52.25).abs() < 1e-9 && (number("watts") - 7.524).abs() < 1e-9);
    assert_eq!(count("gpu_hertz_cap"), 612_000_000);
    assert_eq!(count("throttled_peak_current"), 27);
    assert_eq!(u32::try_from(device["row_limit"].clone()).ok(), Some(3));
    let slowed = Vec::<String>::try_from(device["slowed_by"].clone()).expect("a list");
    assert_eq!(slowed, ["heat.celsius", "clock"]);
    assert!(!device.contains_key("alerts"), "{device:?}");

    let top = Command::new(env!("CARGO_BIN_EXE_ganglionctl"))
        .args(["--bus", bus.text(), "top", "--once"])
        .output();
    let top = String::from_utf8(top.expect("it runs").stdout).expect("text");
    for figure in [
        " power_mode=15W ",
        " celsius=52.2 ",
        " watts=7.5 ",
        " gpu_hertz_cap=612000000 ",
        " row_limit=3 ",
        " slowed_by=heat.celsius,clock ",
    ] {
        assert!(top.contains(figure), "{figure}: {top}");
    }

    // It cools down while the daemon answers.
    for line in ORIN_NANO.lines().filter(|line| line.contains("/temp = ")) {
        let (path, _) = line.split_once(" = ").expect("path = value");
        write(root.path(), path, "41000");
    }
    let cool = "decoding is no longer slowed down by heat.celsius";
    daemon.await_line(cool).await;
    until(async || {
        let device = diagnostics.device().await.expect("it is read");
        !device.contains_key("row_limit")
    })
    .await;
    daemon.signal(Signal::SIGTERM);
    let end = daemon.end().await;
    for (line, times) in [(hot, 1), (cool, 1), ("the clock of the GPU", 1)] {
        assert_eq!(end.journal.matches(line).count(), times, "{}", end.journal);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_machine_without_sensors_shows_none() {
    let root = tempfile::tempdir().expect("a folder");
    let bus = PrivateBus::start();
    let board = format!("--board={}", root.path().display());
    let daemon = Gangliond::start(bus.text(), &["--sim", &board], "heat.celsius = 50\n");
    daemon.await_notification("READY=1").await;
    let manager = client(&bus).await;
    let (_, info) = manager
        .complete("hello", std::collections::HashMap::new())
        .await
        .expect("it answers");
    assert!(!info.contains_key("joules"), "{info:?}");
    let diagnostics = DiagnosticsProxy::new(manager.inner().connection()).await;
    let device = diagnostics.expect("the proxy is built").device().await;
    let device = device.expect("it is read");
    let mut keys: Vec<_> = device.keys().map(String::as_str).collect();
    keys.sort_unstable();
    assert_eq!(keys, ["backend", "description"]);
    daemon.signal(Signal::SIGTERM);
    daemon.end().await;
}
