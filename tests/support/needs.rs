//! Requirements of tests beyond Rust itself.
//!
//! A test whose requirement is missing prints a SKIPPED line with the remedy and returns. With `CI` set it fails instead, because CI has
//! every requirement. A test that needs other rights than the user has is skipped in CI too.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

const DEPS: &str = "run make deps";

/// Checks for the Python packages of `make deps`.
pub(crate) fn python() -> bool {
    file("target/venv/bin/python")
}

/// Checks for the Python package openai.
pub(crate) fn openai() -> bool {
    let found = Command::new("target/venv/bin/python")
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .args(["-c", "import openai"])
        .output();
    let exists = found.is_ok_and(|output| output.status.success());
    exists || missing("the Python package openai", DEPS)
}

/// Checks for SmolLM2-135M-Instruct, a file of 98 MB.
pub(crate) fn smollm2() -> bool {
    file("target/models/SmolLM2-135M-Instruct.Q4_1.gguf")
}

/// Checks for Gemma 3 270M, a file of 253 MB.
pub(crate) fn gemma_3_270m() -> bool {
    let path = "target/models/gemma-3-270m-q4_k_m.gguf";
    let exists = Path::new(env!("CARGO_MANIFEST_DIR")).join(path).exists();
    exists || missing(path, "run make soak")
}

/// Checks for the JSON-Schema-Test-Suite.
pub(crate) fn schemas() -> bool {
    file("target/schemas/draft2020-12")
}

/// Checks for the chat templates of well-known models.
pub(crate) fn templates() -> bool {
    file("target/templates")
}

/// Checks for public parsers of tool calls.
pub(crate) fn parsers() -> bool {
    file("target/parsers") && python()
}

/// Returns the folder with the references of all models with vision towers, which are too large for the repository: the one that
/// `GANGLION_VISION_GOLDENS` names, or `target/vision`. CI has none, so the test that asks is not the only one of what it tests.
pub(crate) fn towers() -> Option<PathBuf> {
    let root = std::env::var_os("GANGLION_VISION_GOLDENS");
    let root = root.map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("target/vision"),
        PathBuf::from,
    );
    if !root.exists() {
        skipped("target/vision has no references of vision towers");
        return None;
    }
    Some(root)
}

/// Checks that the build has compiled the GPU's kernels.
#[cfg(feature = "cuda")]
pub(crate) fn kernels() -> bool {
    ganglion::device::Modules::hash() != 0 || missing("NVRTC, which compiles kernels,", DEPS)
}

/// Checks for programs in `PATH`.
pub(crate) fn programs(names: &[&str]) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = |name: &&str| std::env::split_paths(&path).any(|folder| folder.join(name).exists());
    match names.iter().find(|name| !found(name)) {
        None => true,
        Some(name) => missing(name, DEPS),
    }
}

/// Checks for the headers of a C library.
pub(crate) fn library(name: &str) -> bool {
    let exists = || {
        let found = Command::new("pkg-config").args(["--exists", name]).status();
        found.is_ok_and(|status| status.success())
    };
    programs(&["pkg-config"]) && (exists() || missing(name, DEPS))
}

/// Checks that root runs the test.
pub(crate) fn root() -> bool {
    let is_root = nix::unistd::geteuid().is_root();
    if !is_root {
        skipped("only root can run it");
    }
    is_root
}

/// Reports that the running test is skipped for that reason.
pub(crate) fn skipped(reason: &str) {
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("a test");
    // The harness hides what a passing test prints, but not what it writes to the descriptor.
    let _ = writeln!(std::io::stderr(), "SKIPPED: {test}: {reason}");
}

/// Reports that the running test is skipped because something is not installed, and fails in CI.
pub(crate) fn missing(what: &str, remedy: &str) -> bool {
    let reason = format!("{what} is missing; {remedy}");
    skipped(&reason);
    assert!(std::env::var_os("CI").is_none(), "{reason}");
    false
}

fn file(relative: &str) -> bool {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(relative);
    path.exists() || missing(relative, DEPS)
}
