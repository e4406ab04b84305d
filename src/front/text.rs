//! Limits of the texts in one call, and how errors quote them.

/// Bytes of text in one call: more than any context takes. Each pending request holds its text once.
pub const TEXT_BYTES: usize = 1 << 20;

/// Returns the beginning of a text, for an error that quotes it.
#[must_use]
pub fn shortened(text: &str) -> String {
    const CHARS: usize = 60;
    let mut short: String = text.chars().take(CHARS).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}
