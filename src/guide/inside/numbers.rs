//! Numbers in answers that are JSON, none of which becomes greater than a double: most programs that read one, and this one, refuse
//! the whole answer, and others find infinity. JSON itself bounds them no more than a schema does that says nothing of it.
//!
//! It follows the bytes of an answer, and takes from a mask the tokens after which a number would be too great. Those that end
//! the number stay, as it is never begun that way.

use std::collections::{HashSet, VecDeque};
use std::fmt;
use std::sync::Arc;

use toktrie::SimpleVob;

use super::vocabulary::Words;

/// A number of as many bytes at most, and without an exponent, is held by a double.
const HELD: usize = 300;

/// The tokens of a vocabulary, as numbers meet them.
pub(super) struct Tokens {
    words: Arc<Words>,
    specials: HashSet<u32>,
    /// These tokens may go on with a number to another digit.
    go_on: Vec<u32>,
}

impl Tokens {
    pub(super) fn new(words: &Arc<Words>) -> Self {
        let specials: HashSet<_> = words.specials();
        let goes_on = |token: &u32| {
            let bytes = words.bytes(*token);
            let mut of_number = bytes.iter().take_while(|byte| is_in_number(**byte));
            !specials.contains(token) && of_number.any(u8::is_ascii_digit)
        };
        let go_on = (0..words.count()).filter(goes_on).collect();
        Self {
            words: words.clone(),
            specials,
            go_on,
        }
    }
}

/// Where an answer stands.
#[derive(Clone)]
pub(super) struct Numbers {
    tokens: Arc<Tokens>,
    /// What is no JSON yet.
    begins: Option<Begins>,
    /// Behind these bytes there is JSON; none if they are a token.
    trigger: Arc<[u8]>,
    /// The end of what is no JSON yet, no longer than the trigger.
    text: VecDeque<u8>,
    quoted: bool,
    escaped: bool,
    /// What there is of the number that the answer ends in.
    number: Vec<u8>,
}

/// Where JSON begins in an answer that need not be JSON: at its first byte, or behind a special token or the trigger.
#[derive(Clone, Copy)]
enum Begins {
    Here,
    Later,
}

impl Numbers {
    /// All of the answer is JSON.
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

    /// There may be text, and calls behind a token or a text that says so.
    pub(super) fn of_calls(tokens: Arc<Tokens>, trigger: Option<&str>) -> Self {
        Self {
            begins: Some(Begins::Here),
            trigger: trigger.unwrap_or_default().as_bytes().into(),
            ..Self::of_json(tokens)
        }
    }

    /// A token of the answer has come.
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

    /// Whether calls begin with this byte of what was text.
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

    /// Takes from a mask what would make the number too great; but not all that it allows.
    pub(super) fn bound(&self, mask: &mut SimpleVob) {
        // Within a text, there is none.
        if self.number.is_empty() {
            return;
        }
        let too_great = |token: &u32| {
            let bytes = self.tokens.words.bytes(*token);
            let more = bytes.iter().take_while(|byte| is_in_number(**byte));
            let number: Vec<_> = self.number.iter().chain(more).copied().collect();
            is_too_great(&number)
        };
        let go_on = self.tokens.go_on.iter().copied();
        let allowed = go_on.filter(|token| mask.is_allowed(*token));
        let gone: Vec<_> = allowed.filter(too_great).collect();
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

fn is_too_great(number: &[u8]) -> bool {
    let has_exponent = number.iter().any(|byte| b"eE".contains(byte));
    if number.len() <= HELD && !has_exponent {
        return false;
    }
    let number = str::from_utf8(number)
        .ok()
        .and_then(|text| text.parse().ok());
    number.is_some_and(f64::is_infinite)
}

impl fmt::Debug for Numbers {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Numbers").finish_non_exhaustive()
    }
}
