//! Where each thread of the process stands, as the kernel tells it: what can be known of one that hangs without
//! stopping it, and without unsafe code.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

/// One line a thread: its name, what it does, and the code that had it call the kernel. Files that this kernel does not
/// have leave their part out.
pub(super) fn describe() -> String {
    let maps = read(Path::new("/proc/self/maps"));
    let Ok(tasks) = fs::read_dir("/proc/self/task") else {
        return "unknown: /proc cannot be read".to_owned();
    };
    let mut lines: Vec<String> = tasks
        .filter_map(Result::ok)
        .map(|task| line(&task.path(), &maps))
        .collect();
    lines.sort();
    lines.join("\n")
}

fn line(task: &Path, maps: &str) -> String {
    let id = task.file_name().unwrap_or_default().to_string_lossy();
    let mut line = format!("{} ({id})", read(&task.join("comm")).trim());
    let stat = read(&task.join("stat"));
    // The name before it may hold anything, also parentheses.
    if let Some(state) = stat
        .rsplit_once(") ")
        .and_then(|(_, rest)| rest.chars().next())
    {
        line.push_str(match state {
            'R' => ": running",
            'S' => ": sleeping",
            'D' => ": waiting for a device",
            'T' | 't' => ": stopped",
            _ => ": ended",
        });
    }
    let waits = read(&task.join("wchan"));
    if !matches!(waits.trim(), "" | "0") {
        let _ = write!(line, " in {}", waits.trim());
    }
    // "number, arguments, stack pointer, program counter" of a thread that is in the kernel.
    let syscall = read(&task.join("syscall"));
    let place = syscall.split_whitespace().last().and_then(hexadecimal);
    if let Some((file, offset)) = place.and_then(|place| mapped(maps, place)) {
        let _ = write!(line, ", from {file}+{offset:#x}");
    }
    line
}

/// The file that is mapped at an address, and the place in it.
fn mapped(maps: &str, address: u64) -> Option<(&str, u64)> {
    maps.lines().find_map(|line| {
        let mut fields = line.split_whitespace();
        let (first, end) = fields.next()?.split_once('-')?;
        let first = u64::from_str_radix(first, 16).ok()?;
        let end = u64::from_str_radix(end, 16).ok()?;
        let offset = u64::from_str_radix(fields.nth(1)?, 16).ok()?;
        let path = fields.nth(2)?;
        let name = path.rsplit('/').next().unwrap_or(path);
        (first..end)
            .contains(&address)
            .then(|| (name, address - first + offset))
    })
}

fn hexadecimal(text: &str) -> Option<u64> {
    u64::from_str_radix(text.strip_prefix("0x")?, 16).ok()
}

/// Empty if it cannot be read.
fn read(file: &Path) -> String {
    fs::read_to_string(file).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_waiting_thread_is_told_with_what_it_waits_in() {
        let (ready, started) = std::sync::mpsc::channel();
        let waiting = std::thread::Builder::new().name("waits".into());
        let waiting = waiting.spawn(move || {
            ready.send(()).unwrap();
            std::thread::park();
        });
        started.recv().unwrap();
        let told = loop {
            let told = describe();
            let line = told.lines().find(|line| line.starts_with("waits ("));
            if line.is_some_and(|line| line.contains("sleeping")) {
                break told;
            }
        };
        assert!(told.lines().any(|line| line.contains("running")), "{told}");
        let waiting = waiting.unwrap();
        waiting.thread().unpark();
        waiting.join().unwrap();
    }

    #[test]
    fn an_address_is_told_by_file_and_offset() {
        let maps = "00400000-00452000 r-xp 00001000 08:02 173521      /usr/bin/dbus-daemon\n\
                    7f0000000000-7f0000001000 rw-p 00000000 00:00 0\n";
        assert_eq!(mapped(maps, 0x40_0010), Some(("dbus-daemon", 0x1010)));
        assert_eq!(mapped(maps, 0x7f00_0000_0001), None);
        assert_eq!(mapped(maps, 0x10), None);
    }
}
