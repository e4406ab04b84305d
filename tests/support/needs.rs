//! What a test needs beside Rust. Where it is missing the test says NOT RUN and why, and ends; but with `CI` set it
//! fails, for there everything is to run. What needs dbus-daemon is left out at build time: see `tests/main.rs`.

use std::io::Write as _;
use std::path::Path;

/// The Python packages of `make deps`.
pub(crate) fn python() -> bool {
    file("target/venv/bin/python", "make deps")
}

/// SmolLM2-135M-Instruct, of 98 MB.
pub(crate) fn smollm2() -> bool {
    file("target/models/SmolLM2-135M-Instruct.Q4_1.gguf", "make deps")
}

/// The JSON-Schema-Test-Suite.
pub(crate) fn schemas() -> bool {
    file("target/schemas/draft2020-12", "make deps")
}

/// Chat templates of well-known models.
pub(crate) fn templates() -> bool {
    file("target/templates", "make deps")
}

/// Public parsers of tool calls.
pub(crate) fn parsers() -> bool {
    file("target/parsers", "make deps") && python()
}

/// Programs that a search finds.
pub(crate) fn programs(names: &[&str]) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = |name: &&str| std::env::split_paths(&path).any(|folder| folder.join(name).exists());
    match names.iter().find(|name| !found(name)) {
        None => true,
        Some(name) => missing(name, "make deps"),
    }
}

fn file(relative: &str, remedy: &str) -> bool {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(relative);
    path.exists() || missing(relative, remedy)
}

fn missing(what: &str, remedy: &str) -> bool {
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("a test");
    let line = format!("NOT RUN: {test}: {what} is missing; {remedy}\n");
    assert!(std::env::var_os("CI").is_none(), "{line}");
    // Past the harness, which keeps to itself what tests print that do not fail.
    let _ = std::io::stderr().write_all(line.as_bytes());
    false
}
