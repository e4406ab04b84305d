//! The doctor on this machine, with a fake driver and a private bus.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::support::daemon::Daemon;
use crate::support::fake_driver;
use crate::support::needs;
use crate::support::private_bus::PrivateBus;
use crate::support::tiny_gguf;

/// Returns its findings as "mark check: text".
fn findings(bus: &str, answers: &[(&str, &str)]) -> Vec<String> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let config = folder.path().join("gangliond.toml");
    let model = folder.path().join("tiny.gguf");
    std::fs::write(&model, tiny_gguf::with_vocabulary().file()).expect("it is written");
    let text = format!("model.path = '{}'\nkv.context = 64\n", model.display());
    std::fs::write(&config, text).expect("it is written");
    let output = Command::new(super::CTL)
        .args(["--bus", bus, "doctor", "--json", "--config"])
        .arg(&config)
        .envs(fake_driver::environment(answers))
        .output()
        .expect("ganglionctl runs");
    let found: Vec<Value> = serde_json::from_slice(&output.stdout).expect("JSON");
    let text = |finding: &Value, key: &str| finding[key].as_str().unwrap_or_default().to_owned();
    found
        .iter()
        .map(|finding| {
            let [mark, check, what] = ["mark", "check", "what"].map(|key| text(finding, key));
            format!("{mark} {check}: {what}")
        })
        .collect()
}

fn has(findings: &[String], expected: &str) {
    let found = findings.iter().any(|finding| finding.starts_with(expected));
    assert!(found, "{expected}: {findings:#?}");
}

#[test]
fn a_drivers_errors_are_reported_with_their_codes() {
    if !needs::kernels() {
        return;
    }
    let bus = PrivateBus::start();
    let [name, capability] = ["CUDA_ERROR_FAKE_", "FAKE_CAPABILITY"];
    for (variable, answer, expected) in [
        (
            "FAKE_INIT",
            "801",
            format!(
                "fail driver: the driver does not start ({name}801, cuInit 801): the render node"
            ),
        ),
        (
            "FAKE_INIT",
            "999",
            format!("fail driver: the driver does not start ({name}999, cuInit 999): /dev/nvmap"),
        ),
        (
            "FAKE_DRIVER",
            "12020",
            "fail driver: the driver knows CUDA 12.2 and 12.6 is needed".into(),
        ),
        (
            capability,
            "86",
            "fail kernels: no kernels for compute capability 8.6".into(),
        ),
        ("FAKE_FREE", "1000", "fail memory: the model needs ".into()),
    ] {
        has(&findings(bus.text(), &[(variable, answer)]), &expected);
    }
    let healthy = findings(bus.text(), &[("FAKE_INTEGRATED", "1"), (capability, "87")]);
    for expected in [
        "ok driver: CUDA 12.6, Fake, compute capability 8.7, 1024 MiB of memory, shared with the CPU",
        "ok kernels: the sm_87 cubin was loaded",
        "ok memory: ",
        "warn checksum: none is recorded for ",
        "warn bus: the daemon is not running",
    ] {
        has(&healthy, expected);
    }
}

/// The file is found from the current folder. A machine without a GPU gets no advice to install a driver.
#[test]
fn a_relative_file_is_found_and_a_machine_without_a_gpu_lacks_nothing() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("mine.toml");
    std::fs::write(&file, "kv.context = 64\n").expect("it is written");
    let output = Command::new(super::CTL)
        .args(["--bus", "unix:path=/nonexistent/bus", "doctor", "--config"])
        .arg("mine.toml")
        .current_dir(folder.path())
        .output()
        .expect("ganglionctl runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let unset = format!("{}: model.path is not set", file.display());
    assert!(text.contains(&unset), "{text}");
    let gpus = ["/dev/nvidiactl", "/dev/nvmap"];
    if !gpus.iter().any(|node| Path::new(node).exists()) {
        let driver = text.lines().find(|line| line.contains("  driver: "));
        let driver = driver.expect("a line");
        assert!(
            driver.starts_with("ok ") && !driver.contains("install"),
            "{driver}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_doctor_queries_a_running_daemon() {
    let daemon = Daemon::start("").await;
    let bus = daemon.bus.text().to_owned();
    let asked = tokio::task::spawn_blocking(move || findings(&bus, &[]));
    let asked = asked.await.expect("it is asked");
    for expected in [
        "ok bus: gangliond ",
        "ok memory: the model is loaded and takes ",
    ] {
        has(&asked, expected);
    }
    assert!(
        asked
            .iter()
            .any(|finding| finding.ends_with(" may call it")),
        "{asked:#?}"
    );
}
