//! The selected backend, the reason against the other one, and the remedy: with a fake driver.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use nix::sys::signal::Signal;
use nix::unistd::Uid;
use tempfile::TempDir;

use super::gangliond::{Gangliond, client};
use crate::support::fake_driver::environment;
use crate::support::gguf_writer::{F32, GgufWriter};
use crate::support::needs;
use crate::support::private_bus::PrivateBus;
use crate::support::tiny_gguf;

const CTL: &str = env!("CARGO_BIN_EXE_ganglionctl");

fn tiny() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/tiny-qwen3")
}

/// Runs one token of `model`, with a cache of `context` positions.
fn bench(model: &Path, context: usize, arguments: &[&str], answers: &[(&str, &str)]) -> Output {
    Command::new(CTL)
        .args(["bench", "--reps", "1", "--generate", "1", "--prompt"])
        .arg((context - 1).to_string())
        .arg("--model")
        .arg(model)
        .args(arguments)
        .envs(environment(answers))
        .output()
        .expect("ganglionctl runs")
}

/// Returns the standard error of a run that must fail.
fn failure(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success(), "{text}");
    text
}

/// The driver's answers, and the errors for them.
const UNUSABLE: &[(&str, &str, &str)] = &[
    (
        "FAKE_DRIVER",
        "12020",
        "the driver knows CUDA 12.2 and 12.6 is needed: update it",
    ),
    ("FAKE_INIT", "100", "the driver finds no CUDA device: "),
    (
        "FAKE_CAPABILITY",
        "86",
        "no kernels for compute capability 8.6: ",
    ),
];

#[test]
fn unusable_devices_have_different_errors() {
    if !needs::kernels() {
        return;
    }
    let cuda = &["--backend", "cuda"];
    for (name, answer, expected) in UNUSABLE {
        let text = failure(&bench(&tiny(), 2, cuda, &[(name, answer)]));
        assert!(text.contains(expected), "{name}={answer}: {text}");
        let other = bench(&tiny(), 2, &["--backend", "auto"], &[(name, answer)]);
        assert!(other.status.success(), "{name}={answer}: {other:?}");
    }
    let broken = tempfile::tempdir().expect("a temporary folder");
    for library in ["libcuda.so", "libcuda.so.1"] {
        std::fs::write(broken.path().join(library), "no library").expect("it is written");
    }
    let library = broken.path().to_string_lossy();
    let text = failure(&bench(&tiny(), 2, cuda, &[("LD_LIBRARY_PATH", &library)]));
    assert!(text.contains("install NVIDIA's driver"), "{text}");
}

#[test]
fn a_temporary_failure_never_falls_back_to_the_cpu() {
    if !needs::kernels() {
        return;
    }
    for (name, answer, expected) in [
        (
            "FAKE_INIT",
            "802",
            "the driver does not start (CUDA_ERROR_FAKE_802, cuInit 802): the system is not ready",
        ),
        (
            "FAKE_INIT",
            "801",
            "cuInit 801): the render node or /sys is hidden",
        ),
        (
            "FAKE_INIT",
            "999",
            "cuInit 999): /dev/nvmap or /dev/nvgpu refuses this process",
        ),
        (
            "FAKE_RETAIN",
            "2",
            "cuDevicePrimaryCtxRetain found no free memory",
        ),
        (
            "FAKE_FREE",
            "1000",
            "0 MiB of the GPU's own memory are free",
        ),
    ] {
        for backend in ["auto", "cuda"] {
            let output = bench(&tiny(), 2, &["--backend", backend], &[(name, answer)]);
            let text = failure(&output);
            assert!(text.contains(expected), "{backend} {name}={answer}: {text}");
        }
    }
}

/// The root user of a namespace without the right to ignore file modes meets a closed device node.
#[test]
fn a_closed_device_node_is_named_with_the_group_that_opens_it() {
    let namespaces = if Uid::effective().is_root() {
        "-m"
    } else {
        "-rm"
    };
    let inside = |script: &str, init: &str| {
        Command::new("unshare")
            .args([namespaces, "sh", "-c"])
            .arg(format!("mount -t tmpfs tmpfs /dev && {script}"))
            .args(["sh", CTL, "bench", "--prompt", "1", "--generate", "1"])
            .args(["--reps", "1", "--backend", "cuda", "--model"])
            .arg(tiny())
            .envs(environment(&[("FAKE_INIT", init)]))
            .output()
    };
    let allowed = inside("setpriv --bounding-set=-all --inh-caps=-all true", "0");
    if !allowed.is_ok_and(|output| output.status.success()) {
        needs::skipped("unshare or setpriv is not allowed");
        return;
    }
    for (node, group, init) in [
        ("nvidiactl", "video", "100"),
        ("nvmap", "video", "999"),
        ("dri/renderD128", "render", "801"),
    ] {
        // A render node matters on a Jetson only.
        let script = format!(
            "mkdir /dev/dri && {} touch /dev/{node} && chmod 0 /dev/{node} && \
             exec setpriv --bounding-set=-all --inh-caps=-all \"$@\"",
            if node.starts_with("dri") {
                "touch /dev/nvmap &&"
            } else {
                ""
            }
        );
        let output = inside(&script, init).expect("it ran before");
        let text = failure(&output);
        for expected in [
            format!("/dev/{node} may not be opened: `sudo usermod -aG {group} "),
            format!("SupplementaryGroups={group}"),
            format!("DeviceAllow=/dev/{node} rw"),
        ] {
            assert!(text.contains(&expected), "{node}: {text}");
        }
    }

    // On a Jetson, a missing node.
    for (there, init, expected) in [
        ("nvmap", "801", "/dev/dri/renderD128 is missing: "),
        (
            "nvmap /dev/dri/renderD128",
            "999",
            "/dev/host1x-fence is missing: sudo modprobe host1x-fence",
        ),
    ] {
        let script = format!("mkdir /dev/dri && touch /dev/{there} && exec \"$@\"");
        let text = failure(&inside(&script, init).expect("it ran before"));
        assert!(text.contains(expected), "{there}: {text}");
    }
}

/// The last call before the first allocation counts as success.
#[test]
fn on_a_gpu_the_largest_context_that_a_refusal_names_is_the_largest_that_is_admitted() {
    const ADMITTED: &str =
        "CUDA call cuStreamCreate failed: CUDA_ERROR_FAKE_777; see journalctl -k";
    if !needs::kernels() {
        return;
    }
    let load = |free: usize, context, memory| {
        let free = free.to_string();
        let arguments = [
            "--backend",
            "cuda",
            "--reserve-mib",
            "1",
            "--memory",
            memory,
        ];
        failure(&bench(
            &tiny(),
            context,
            &arguments,
            &[("FAKE_FREE", &free)],
        ))
    };
    let mut refused = 0;
    for (free, memory) in [(2860, "device"), (2960, "unified"), (3110, "device")] {
        let text = load(free << 10, 512, memory);
        let Some((_, rest)) = text.split_once("the largest kv.context that fits is ") else {
            panic!("{free}: {text}");
        };
        let largest = rest
            .split(':')
            .next()
            .and_then(|number| number.parse().ok());
        let largest: usize = largest.expect("a number");
        let text = load(free << 10, largest, memory);
        assert!(text.contains(ADMITTED), "{free}: {largest}: {text}");
        let text = load(free << 10, largest + 1, memory);
        assert!(
            text.contains("MiB of the GPU's own memory are free"),
            "{free}: {text}"
        );
        refused += usize::from(largest > 2);
    }
    assert_eq!(refused, 3, "each fits in part");

    // An integrated GPU has no memory of its own: the driver's free memory does not matter.
    let integrated = [("FAKE_INTEGRATED", "1"), ("FAKE_FREE", "0")];
    let output = bench(&tiny(), 2, &["--backend", "cuda"], &integrated);
    assert!(failure(&output).contains(ADMITTED), "{output:?}");
    let reserve = ["--backend", "cuda", "--reserve-mib", "1048576"];
    let text = failure(&bench(&tiny(), 2, &reserve, &integrated));
    assert!(
        text.contains("are available (MemAvailable of /proc/meminfo)"),
        "{text}"
    );
}

#[test]
fn a_model_that_the_kernels_cannot_run_is_refused_before_it_is_loaded() {
    if !needs::kernels() {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let model = folder.path().join("wide.gguf");
    std::fs::write(&model, wide_heads()).expect("it is written");
    let text = failure(&bench(&model, 2, &["--backend", "cuda"], &[]));
    let expected =
        "the CUDA kernels take heads of at most 512, and the model has 514: use backend = \"cpu\"";
    assert!(text.contains(expected), "{text}");
    let other = bench(&model, 2, &["--backend", "auto"], &[]);
    assert!(other.status.success(), "{other:?}");
}

/// A model with one head of 514 dimensions.
fn wide_heads() -> Vec<u8> {
    const HEAD: usize = 514;
    let mut gguf = GgufWriter::default();
    gguf.string("general.architecture", "llama");
    for (key, value) in [
        ("block_count", 1),
        ("context_length", 16),
        ("embedding_length", 2),
        ("feed_forward_length", 2),
        ("attention.head_count", 1),
        ("attention.head_count_kv", 1),
        ("attention.key_length", 514),
        ("rope.dimension_count", 514),
    ] {
        gguf.u32(&format!("llama.{key}"), value);
    }
    gguf.f32("llama.attention.layer_norm_rms_epsilon", 1e-5);
    gguf.f32("llama.rope.freq_base", 10_000.0);
    for (name, shape) in [
        ("token_embd", &[4, 2][..]),
        ("output_norm", &[2]),
        ("blk.0.attn_norm", &[2]),
        ("blk.0.attn_q", &[HEAD, 2]),
        ("blk.0.attn_k", &[HEAD, 2]),
        ("blk.0.attn_v", &[HEAD, 2]),
        ("blk.0.attn_output", &[2, HEAD]),
        ("blk.0.ffn_norm", &[2]),
        ("blk.0.ffn_gate", &[2, 2]),
        ("blk.0.ffn_up", &[2, 2]),
        ("blk.0.ffn_down", &[2, 2]),
    ] {
        let elements: usize = shape.iter().product();
        gguf.tensor(
            &format!("{name}.weight"),
            shape,
            F32,
            &vec![0; 4 * elements],
        );
    }
    gguf.file()
}

/// A daemon with a complete model to load.
fn daemon(
    bus: &PrivateBus,
    folder: &TempDir,
    backend: &str,
    answers: &[(&str, &str)],
) -> Gangliond {
    let model = model(folder);
    std::fs::write(&model, tiny_gguf::with_vocabulary().file()).expect("it is written");
    let config = serving(&model, backend);
    Gangliond::start_in(bus.text(), &[], &config, environment(answers))
}

fn model(folder: &TempDir) -> PathBuf {
    folder.path().join("tiny.gguf")
}

fn serving(model: &Path, backend: &str) -> String {
    let model = model.display().to_string();
    format!("backend = {backend:?}\n[model]\npath = {model:?}\n[kv]\ncontext = 64\n")
}

/// The lines that name the backend.
fn chosen(journal: &str) -> Vec<&str> {
    let lines = journal.lines();
    lines
        .filter(|line| line.starts_with("info: the backend is "))
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reload_reports_the_backend_only_if_it_changes() {
    let (bus, folder) = (PrivateBus::start(), tempfile::tempdir().expect("a folder"));
    let (name, answer, reason) = UNUSABLE[0];
    let daemon = daemon(&bus, &folder, "cpu", &[(name, answer)]);
    daemon.await_notification("READY=1").await;
    let manager = client(&bus).await;
    let cpu = serving(&model(&folder), "cpu");
    for same in [format!("{cpu}slots = 3\n"), cpu] {
        daemon.configure(&same);
        manager.reload().await.expect("it can be used");
    }
    daemon.configure(&serving(&model(&folder), "auto"));
    manager.reload().await.expect("it can be used");
    daemon.signal(Signal::SIGTERM);
    let journal = daemon.end().await.journal;
    let outdated = "warn: kv.slots is deprecated";
    assert!(journal.contains(outdated), "{journal}");
    let [at_start, by_reload] = *chosen(&journal) else {
        panic!("{journal}")
    };
    assert!(!at_start.contains("not cuda"), "{at_start}");
    let expected = format!("the backend is cpu (not cuda: {reason}");
    assert!(by_reload.contains(&expected), "{by_reload}");
}

#[tokio::test(flavor = "multi_thread")]
async fn auto_reports_why_it_did_not_select_cuda() {
    let (bus, folder) = (PrivateBus::start(), tempfile::tempdir().expect("a folder"));
    let (name, answer, reason) = UNUSABLE[0];
    let daemon = daemon(&bus, &folder, "auto", &[(name, answer)]);
    daemon.await_notification("READY=1").await;
    let status = tokio::process::Command::new(CTL)
        .args(["--bus", bus.text(), "status"])
        .output()
        .await
        .expect("ganglionctl runs");
    let status = String::from_utf8_lossy(&status.stdout).into_owned();
    let device = status.lines().find(|line| line.starts_with("device "));
    assert!(
        device.is_some_and(|line| line.contains(&format!("not cuda: {reason}"))),
        "{status}"
    );
    daemon.signal(Signal::SIGTERM);
    let journal = daemon.end().await.journal;
    let expected = format!("the backend is cpu (not cuda: {reason}");
    assert!(journal.contains(&expected), "{journal}");
}

#[tokio::test(flavor = "multi_thread")]
async fn unusable_cuda_and_short_memory_end_with_78_and_the_remedy() {
    if !needs::kernels() {
        return;
    }
    let (name, answer, reason) = UNUSABLE[0];
    let short = "no kv.context is small enough: use a smaller quantization";
    for (backend, name, answer, expected) in [
        ("cuda", name, answer, reason),
        ("auto", "FAKE_FREE", "1000", short),
    ] {
        let (bus, folder) = (PrivateBus::start(), tempfile::tempdir().expect("a folder"));
        let end = daemon(&bus, &folder, backend, &[(name, answer)])
            .end()
            .await;
        assert_eq!(end.status, Some(78), "{}", end.journal);
        let last = end.journal.lines().last().expect("it says something");
        assert!(last.contains(expected), "{backend} {name}: {last}");
    }
}
