//! A process that a signal kills reports its position, and dies of that signal.

use std::collections::HashMap;
use std::ffi::OsString;
use std::ops::Range;
use std::process::Command;

use nix::sys::signal::Signal;
use tempfile::TempDir;

use super::gangliond::{End, Gangliond};
use crate::support::private_bus::PrivateBus;

const UNIT: &str = include_str!("../../systemd/gangliond.service");

/// Preloads dying.c, with these additional variables in its environment.
fn environment(folder: &TempDir, more: &[(&str, &str)]) -> HashMap<OsString, OsString> {
    let library = folder.path().join("libdying.so");
    let built = Command::new("cc")
        .args(["-shared", "-fPIC", "-D_GNU_SOURCE", "-o"])
        .arg(&library)
        .arg(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/tests/service/dying.c"
        ))
        .status()
        .expect("cc runs");
    assert!(built.success());
    let more = more.iter().map(|(name, value)| (name.into(), value.into()));
    std::iter::once(("LD_PRELOAD".into(), library.into()))
        .chain(more)
        .collect()
}

/// Returns the end by `signal`, and the memory map before it.
async fn killed(more: &[(&str, &str)], signal: Signal) -> (End, String) {
    let (bus, folder) = (PrivateBus::start(), tempfile::tempdir().expect("a folder"));
    let environment = environment(&folder, more);
    let daemon = Gangliond::start_in(bus.text(), &["--sim"], "", environment);
    daemon.await_notification("READY=1").await;
    let maps = std::fs::read_to_string(format!("/proc/{}/maps", daemon.process()));
    daemon.signal(signal);
    (daemon.end().await, maps.expect("it runs"))
}

/// The mappings of the program's own file: its start and its code.
fn of_program(maps: &str) -> Vec<&str> {
    let program = maps.lines().filter(|line| line.ends_with("/gangliond"));
    program
        .filter(|line| line.contains(" 00000000 ") || line.contains(" r-xp "))
        .collect()
}

fn range(mapping: &str) -> Range<u64> {
    let addresses = mapping.split(' ').next().and_then(|it| it.split_once('-'));
    let (start, end) = addresses.expect("two addresses");
    let number = |text| u64::from_str_radix(text, 16).expect("a number");
    number(start)..number(end)
}

/// The addresses of a backtrace: ` 17: 0x55d00f123456 - name`.
fn frames(journal: &str) -> Vec<u64> {
    let frame = |line: &str| {
        let (number, rest) = line.trim_start().split_once(": ")?;
        let _: u32 = number.parse().ok()?;
        let address = rest.trim_start().strip_prefix("0x")?.split(' ').next()?;
        u64::from_str_radix(address, 16).ok()
    };
    journal.lines().filter_map(frame).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_reports_the_programs_address_and_a_backtrace() {
    for signal in [Signal::SIGSEGV, Signal::SIGABRT] {
        let (end, maps) = killed(&[], signal).await;
        let journal = &end.journal;
        assert_eq!(end.signal, Some(signal as i32), "{journal}");
        // On any thread that the system has selected.
        let name = format!(") got {signal} ({})\n", signal as i32);
        assert!(journal.contains(&name), "{journal}");
        assert!(maps.starts_with("200000000-"), "as with CUDA: {maps}");
        let expected = of_program(&maps);
        assert_eq!(of_program(journal), expected, "{journal}");
        let code = range(expected.last().expect("its code"));
        let inside = frames(journal).into_iter().filter(|at| code.contains(at));
        assert!(inside.count() > 1, "{code:x?}: {journal}");
    }
}

/// Everything except the backtrace, which needs memory. The alarm does not replace the signal.
#[tokio::test(flavor = "multi_thread")]
async fn a_crash_with_a_broken_heap_is_reported() {
    let (end, maps) = killed(&[("BROKEN_HEAP", "1")], Signal::SIGSEGV).await;
    let journal = &end.journal;
    assert!(journal.contains(") got SIGSEGV (11)\n"), "{journal}");
    assert_eq!(of_program(journal), of_program(&maps), "{journal}");
    assert!(frames(journal).is_empty(), "no memory for that: {journal}");
    assert_eq!(end.signal, Some(Signal::SIGSEGV as i32), "{journal}");
}

#[test]
fn systemd_waits_for_the_last_words() {
    let waits = UNIT
        .lines()
        .find_map(|line| line.strip_prefix("TimeoutAbortSec="));
    let waits: u32 = waits
        .expect("the unit says")
        .parse()
        .expect("whole seconds");
    assert!(ganglion::device::LAST_WORDS_SECONDS < waits);
}
