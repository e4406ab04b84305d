//! Prompts that no context holds: each is refused, once it has been encoded.

use std::path::Path;
use std::time::{Duration, Instant};

use super::{calls, on};

const ANSWER: Duration = Duration::from_secs(120);
const AT_ONCE: usize = 60;
const BYTES: usize = (1 << 20) - 4096;

pub(super) fn refused(bus: &Path, until: Instant) {
    // Words that differ: encoders remember the last ones.
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
        let left = until.saturating_duration_since(Instant::now());
        wire.reply(last, ANSWER.min(left)).map(drop)
    });
}
