//! The address of the program in memory, from the kernel. It is used while the process dies, so nothing here allocates
//! memory.

use std::fs::File;
use std::io::Read;
use std::ops::Range;

use nix::fcntl::{OFlag, open};
use nix::sys::stat::Mode;

/// A line contains a path, and some numbers before it.
const LONGEST: usize = 5000;

/// Calls `report` with the lines of /proc/self/maps that explain an address in the program: the mapping of the file's
/// start, and that of the code at `address`. Other lines, such as a driver's, may come first.
pub(super) fn of_code(address: usize, report: impl FnMut(&str)) {
    let maps = || {
        let file = open(c"/proc/self/maps", OFlag::O_RDONLY, Mode::empty());
        file.ok().map(File::from)
    };
    find(maps, address, report);
}

/// `open` returns the text from its beginning, each time.
fn find<R: Read>(open: impl Fn() -> Option<R>, address: usize, mut report: impl FnMut(&str)) {
    let mut file = Text::default();
    each_line(open(), |line| {
        let mapping = Mapping::of(line).filter(|mapping| mapping.range.contains(&address));
        if let Some(mapping) = mapping {
            file = Text::of(mapping.file);
        }
    });
    each_line(open(), |line| {
        let mapping = Mapping::of(line).filter(|mapping| mapping.file == file.text());
        // A program can also be mapped above as a file, for example for its symbols.
        let base = |it: &Mapping| it.offset == 0 && it.range.start <= address;
        if mapping.is_some_and(|it| base(&it) || it.range.contains(&address)) {
            report(line);
        }
    });
}

/// `55d0c000-55d0f000 r-xp 00003000 08:02 173521   /usr/bin/gangliond`
struct Mapping<'a> {
    range: Range<usize>,
    offset: u64,
    /// Device, inode and path.
    file: &'a str,
}

impl<'a> Mapping<'a> {
    fn of(line: &'a str) -> Option<Self> {
        let mut fields = line.splitn(4, ' ');
        let (start, end) = fields.next()?.split_once('-')?;
        let number = |text| usize::from_str_radix(text, 16).ok();
        let range = number(start)?..number(end)?;
        let offset = u64::from_str_radix(fields.nth(1)?, 16).ok()?;
        let file = fields.next()?;
        Some(Self {
            range,
            offset,
            file,
        })
    }
}

fn each_line(source: Option<impl Read>, mut see: impl FnMut(&str)) {
    let Some(mut source) = source else { return };
    let mut bytes = [0; LONGEST];
    let mut held = 0;
    // The kernel returns whole lines as far as they fit.
    while let Ok(read @ 1..) = source.read(&mut bytes[held..]) {
        held += read;
        let mut seen = 0;
        while let Some(length) = bytes[seen..held].iter().position(|byte| *byte == b'\n') {
            if let Ok(line) = std::str::from_utf8(&bytes[seen..seen + length]) {
                see(line);
            }
            seen += length + 1;
        }
        bytes.copy_within(seen..held, 0);
        held -= seen;
    }
}

/// A copy of a line on the stack.
struct Text {
    bytes: [u8; LONGEST],
    length: usize,
}

impl Default for Text {
    fn default() -> Self {
        Self::of("")
    }
}

impl Text {
    fn of(text: &str) -> Self {
        let mut bytes = [0; LONGEST];
        let length = text.len().min(LONGEST);
        bytes[..length].copy_from_slice(&text.as_bytes()[..length]);
        Self { bytes, length }
    }

    fn text(&self) -> &str {
        std::str::from_utf8(&self.bytes[..self.length]).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: &str =
        "55d00c000-55d00f000 r--p 00000000 08:02 173521                    /usr/bin/gangliond";
    const CODE: &str =
        "55d00f000-55d020000 r-xp 00003000 08:02 173521                    /usr/bin/gangliond";

    /// The maps of a process that uses CUDA: the driver's mappings come first.
    fn maps() -> String {
        format!(
            "200000000-200200000 ---p 00000000 00:00 0 \n\
             200200000-200201000 rw-s 00000000 00:06 431                        /dev/nvidiactl\n\
             {BASE}\n{CODE}\n\
             55d020000-55d021000 rw-p 00014000 08:02 173521                    /usr/bin/gangliond\n\
             7f0000000-7f0001000 r--p 00000000 08:02 99                        /usr/lib/libc.so.6\n\
             7f1000000-7f1020000 r--p 00000000 08:02 173521                    /usr/bin/gangliond\n"
        )
    }

    /// A reader that returns a few bytes at a time.
    struct Slow<'a>(&'a [u8]);

    impl Read for Slow<'_> {
        fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
            let length = into.len().min(7);
            self.0.read(&mut into[..length])
        }
    }

    #[test]
    fn the_mappings_of_base_and_code_are_found() {
        let maps = maps();
        let lines = |address| {
            let mut lines = Vec::new();
            find(
                || Some(Slow(maps.as_bytes())),
                address,
                |line| lines.push(line.to_owned()),
            );
            lines
        };
        assert_eq!(lines(0x5_5d01_0000), [BASE, CODE]);
        assert_eq!(lines(0x5_5d00_c000), [BASE], "one mapping is both");
        assert!(lines(0x1).is_empty());
    }

    #[test]
    fn the_code_of_this_test_is_found() {
        let mut lines = Vec::new();
        let address = maps as *const () as usize;
        of_code(address, |line| lines.push(line.to_owned()));
        let last = lines.last().and_then(|line| Mapping::of(line)).unwrap();
        assert!(last.range.contains(&address), "{lines:?}");
        let first = Mapping::of(&lines[0]).unwrap();
        assert_eq!((first.offset, first.file), (0, last.file));
    }
}
