//! The state of each thread as the kernel reports it in /proc. It describes a hanging thread without stopping it, and
//! without unsafe code.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

/// Returns a line for each thread: its name, its state, and the code that made its system call. Missing files of /proc
/// leave their part out.
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
    // The name before the state may contain anything, including parentheses.
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
    // "number, arguments, stack pointer, program counter" of a thread that is in a system call.
    let syscall = read(&task.join("syscall"));
    let place = syscall.split_whitespace().last().and_then(hexadecimal);
    if let Some((file, offset)) = place.and_then(|place| mapped(maps, place)) {
        let _ = write!(line, ", from {file}+{offset:#x}");
    }
    line
}

/// Returns the file that is mapped at an address, and the offset in it.
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

/// Reads a file; empty if that fails.
fn read(file: &Path) -> String {
    fs::read_to_string(file).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_waiting_thread_is_described() {
        let (ready, started) = std::sync::mpsc::channel();
        let waiting = std::thread::Builder::new().name("waits".into());
        let waiting = waiting.spawn(move || {
            ready.send(()).unwrap();
            std::thread::park();
        });
        started.recv().unwrap();
        let described = loop {
            let described = describe();
            let line = described.lines().find(|line| line.starts_with("waits ("));
            if line.is_some_and(|line| line.contains("sleeping")) {
                break described;
            }
        };
        assert!(
            described.lines().any(|line| line.contains("running")),
            "{described}"
        );
        let waiting = waiting.unwrap();
        waiting.thread().unpark();
        waiting.join().unwrap();
    }

    #[test]
    fn an_address_becomes_file_and_offset() {
        let maps = "00400000-00452000 r-xp 00001000 08:02 173521      /usr/bin/dbus-daemon\n\
                    7f0000000000-7f0000001000 rw-p 00000000 00:00 0\n";
        assert_eq!(mapped(maps, 0x40_0010), Some(("dbus-daemon", 0x1010)));
        assert_eq!(mapped(maps, 0x7f00_0000_0001), None);
        assert_eq!(mapped(maps, 0x10), None);
    }
}
