//! Bounds numbers in JSON answers, so that they end and a double holds each of them. Neither JSON nor most schemas
//! bound a number, and a small model may write digits forever.
//!
//! This follows the bytes of an answer, and removes tokens from a mask after which a number would be too long or too
//! large. A mask never loses all of its tokens, so a number that a schema requires is still written.

use std::collections::{HashSet, VecDeque};
use std::fmt;
use std::sync::Arc;

use toktrie::SimpleVob;

use super::vocabulary::Words;

/// The most digits of a number, without leading zeros: 17 digits identify each double.
const DIGITS: usize = 17;
/// Zeros between the point and the first other digit.
const ZEROS: usize = 17;
/// The largest exponent of a double, and its digits.
const EXPONENT: u32 = 308;
const EXPONENT_DIGITS: usize = 3;

/// The tokens of a vocabulary, classified by their effect on a number.
pub(super) struct Tokens {
    words: Arc<Words>,
    specials: HashSet<u32>,
    /// Tokens that may continue a number with a digit or a point.
    go_on: Vec<u32>,
}

impl Tokens {
    pub(super) fn new(words: &Arc<Words>) -> Self {
        let specials: HashSet<_> = words.specials();
        let goes_on = |token: &u32| {
            let bytes = words.bytes(*token);
            let mut of_number = bytes.iter().take_while(|byte| is_in_number(**byte));
            !specials.contains(token)
                && of_number.any(|byte| byte.is_ascii_digit() || *byte == b'.')
        };
        let go_on = (0..words.count()).filter(goes_on).collect();
        Self {
            words: words.clone(),
            specials,
            go_on,
        }
    }
}

/// The state of an answer.
#[derive(Clone)]
pub(super) struct Numbers {
    tokens: Arc<Tokens>,
    /// How JSON begins, while the answer is not JSON yet.
    begins: Option<Begins>,
    /// The bytes that JSON follows; empty if a token marks it.
    trigger: Arc<[u8]>,
    /// The end of the text so far, no longer than the trigger.
    text: VecDeque<u8>,
    quoted: bool,
    escaped: bool,
    /// The beginning of the number at the end of the answer.
    number: Vec<u8>,
}

/// The place where JSON begins: at the first byte, or behind a special token or the trigger.
#[derive(Clone, Copy)]
enum Begins {
    Here,
    Later,
}

impl Numbers {
    /// Follows an answer that is JSON as a whole.
    pub(super) fn of_json(tokens: Arc<Tokens>) -> Self {
        Self {
            tokens,
            begins: None,
            trigger: [].into(),
            text: VecDeque::new(),
            quoted: false,
            escaped: false,
            number: Vec::new(),
        }
    }

    /// Follows an answer of text, and calls behind a token or a trigger.
    pub(super) fn of_calls(tokens: Arc<Tokens>, trigger: Option<&str>) -> Self {
        Self {
            begins: Some(Begins::Here),
            trigger: trigger.unwrap_or_default().as_bytes().into(),
            ..Self::of_json(tokens)
        }
    }

    /// Adds a token of the answer.
    pub(super) fn take(&mut self, token: u32) {
        let tokens = self.tokens.clone();
        if tokens.specials.contains(&token) {
            *self = Self::of_json(tokens);
            return;
        }
        for byte in tokens.words.bytes(token) {
            self.push(*byte);
        }
    }

    /// Whether this byte of text completes the trigger of calls.
    fn is_triggered(&mut self, byte: u8) -> bool {
        if self.trigger.is_empty() {
            return false;
        }
        if self.text.len() == self.trigger.len() {
            self.text.pop_front();
        }
        self.text.push_back(byte);
        self.text.iter().eq(self.trigger.iter())
    }

    fn push(&mut self, byte: u8) {
        if self.begins.is_some() && self.is_triggered(byte) {
            self.begins = None;
            return;
        }
        match (self.begins, byte) {
            (Some(Begins::Here), b'{' | b'[') => self.begins = None,
            (Some(Begins::Here), byte) if byte.is_ascii_whitespace() => return,
            (Some(_), _) => {
                self.begins = Some(Begins::Later);
                return;
            }
            (None, _) => {}
        }
        if self.quoted {
            self.quoted = self.escaped || byte != b'"';
            self.escaped = !self.escaped && byte == b'\\';
            return;
        }
        self.quoted = byte == b'"';
        let begins = byte == b'-' || byte.is_ascii_digit();
        if begins || !self.number.is_empty() && is_in_number(byte) {
            self.number.push(byte);
        } else {
            self.number.clear();
        }
    }

    /// Removes tokens from a mask that would make the number too long or too large, unless that would leave none.
    pub(super) fn bound(&self, mask: &mut SimpleVob) {
        // No number is being written.
        if self.number.is_empty() {
            return;
        }
        let too_much = |token: &u32| {
            let bytes = self.tokens.words.bytes(*token);
            let more = bytes.iter().take_while(|byte| is_in_number(**byte));
            let number: Vec<_> = self.number.iter().chain(more).copied().collect();
            exceeds_double(&number)
        };
        let go_on = self.tokens.go_on.iter().copied();
        let allowed = go_on.filter(|token| mask.is_allowed(*token));
        let gone: Vec<_> = allowed.filter(too_much).collect();
        if gone.len() == mask.num_set() {
            return;
        }
        for token in gone {
            mask.disallow_token(token);
        }
    }
}

fn is_in_number(byte: u8) -> bool {
    byte.is_ascii_digit() || b"+-.eE".contains(&byte)
}

/// Whether a number, or the beginning of one, is longer than any that a double needs, or larger than any double.
fn exceeds_double(number: &[u8]) -> bool {
    let Ok(text) = str::from_utf8(number) else {
        return false;
    };
    let text = text.strip_prefix('-').unwrap_or(text);
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (text, None),
    };
    let (whole, fraction) = match mantissa.split_once('.') {
        Some((whole, fraction)) => (whole, Some(fraction)),
        None => (mantissa, None),
    };
    let behind = fraction.unwrap_or_default();
    let zeros = behind.bytes().take_while(|byte| *byte == b'0').count();
    let digits = match whole.trim_start_matches('0').len() {
        0 => behind.len() - zeros,
        whole => whole + behind.len(),
    };
    // A digit must follow the point.
    let open = usize::from(fraction == Some(""));
    if digits + open > DIGITS || whole == "0" && zeros > ZEROS {
        return true;
    }
    let Some(exponent) = exponent else {
        return false;
    };
    let power = exponent.trim_start_matches(['+', '-']);
    let is_far = power.parse::<u32>().is_ok_and(|power| power > EXPONENT);
    power.len() > EXPONENT_DIGITS || is_far || text.parse().is_ok_and(f64::is_infinite)
}

impl fmt::Debug for Numbers {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Numbers").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::exceeds_double;

    #[test]
    fn numbers_have_as_many_digits_as_doubles() {
        for number in [
            "12345678901234567",
            "-0.00012345678901234567",
            "1.2345678901234567e-308",
            "1e+308",
            "0",
            "-",
            "1e",
            "1e-",
            "0.00000000000000000",
            "10000000000000000",
            "1.5E9",
            "0e308",
        ] {
            assert!(!exceeds_double(number.as_bytes()), "{number}");
        }
        for number in [
            "123456789012345678",
            "12345678901234567.",
            "1234567890123456.78",
            "0.000000000000000000",
            "1e0000",
            "1e309",
            "1e-309",
            "9e308",
            "100000000000000000",
        ] {
            assert!(exceeds_double(number.as_bytes()), "{number}");
        }
    }
}
