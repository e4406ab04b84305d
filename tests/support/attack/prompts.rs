//! Prompts longer than any context: each is refused after it has been encoded.

use std::io::ErrorKind;
use std::path::Path;

use super::{PAUSE, Until, calls, on};

const AT_ONCE: usize = 60;
const BYTES: usize = (1 << 20) - 4096;

pub(super) fn refused(bus: &Path, until: &Until) {
    // Different words, because encoders remember the last ones.
    let words: String = (0_u32..)
        .map(|n| format!("{:x} ", n.wrapping_mul(2_654_435_761)))
        .take(BYTES / 8)
        .collect();
    let text = &words[..BYTES.min(words.len())];
    on(4, bus, until, |wire| {
        let mut last = 0;
        for _ in 0..AT_ONCE / 4 {
            last = wire.send(calls::generate(text, []))?;
        }
        while !until.is_over()
            && wire
                .reply(last, PAUSE)
                .is_err_and(|error| error.kind() == ErrorKind::TimedOut)
        {}
        Ok(())
    });
}
