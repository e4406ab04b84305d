//! Reads the calls of an answer as its tokens come. The answer was bounded by the grammar of the same format: what is
//! fixed in it is as the format says.

use super::format::ID_CHARS;
use crate::model::language::Part;
use crate::model::{Call, Decoder};

/// What a token made of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heard {
    /// It is never empty.
    Text(String),
    Call(Piece),
}

/// A part of a call: first its name, then pieces of the text of its arguments.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Piece {
    /// Which call of the answer.
    pub index: usize,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    pub arguments: String,
}

/// What fixed text is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Symbol {
    Special(u32),
    Char(char),
}

#[derive(Clone, Debug)]
enum Place {
    /// No call has begun.
    Text,
    /// It is within what is fixed, of which so many symbols have come.
    Fixed(Fixed, usize),
    Name,
    Id,
    Arguments(Nesting),
    /// A call has ended, and another may come.
    Between,
    /// All calls have ended.
    Over,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fixed {
    First,
    /// Between a name and the id, if the model gives any.
    Id,
    Middle,
    Close,
    Next,
    End,
}

/// Where the text of a JSON object stands.
#[derive(Clone, Copy, Debug, Default)]
struct Nesting {
    depth: usize,
    quoted: bool,
    escaped: bool,
}

impl Nesting {
    /// Returns whether the object has ended.
    fn take(&mut self, c: char) -> bool {
        match c {
            _ if self.escaped => self.escaped = false,
            '\\' if self.quoted => self.escaped = true,
            '"' => self.quoted = !self.quoted,
            '{' | '[' if !self.quoted => self.depth += 1,
            '}' | ']' if !self.quoted => self.depth = self.depth.saturating_sub(1),
            _ => {}
        }
        self.depth == 0
    }
}

/// Goes along with one answer.
#[derive(Clone, Debug)]
pub struct Listener {
    /// What calls begin with; `None` where the beginning of the answer says whether it calls.
    trigger: Option<Vec<Symbol>>,
    /// They are in the order of `Fixed`.
    fixed: [Vec<Symbol>; 6],
    salt: u64,
    place: Place,
    /// Text that calls may still follow, or that their trigger may begin in.
    held: String,
    /// Whether any was shown.
    shown: bool,
    name: String,
    id: String,
    arguments: String,
    calls: Vec<Call>,
}

impl Listener {
    /// `fixed` is what precedes the first name, an id (nothing, if the model gives none), and arguments, follows these,
    /// precedes the next name, and ends all.
    pub(super) fn new(trigger: Option<Vec<Part>>, fixed: [Vec<Part>; 6], salt: u64) -> Self {
        Self {
            trigger: trigger.map(symbols),
            fixed: fixed.map(symbols),
            salt,
            place: Place::Text,
            held: String::new(),
            shown: false,
            name: String::new(),
            id: String::new(),
            arguments: String::new(),
            calls: Vec::new(),
        }
    }

    /// The next token of the answer, which `decoder` turns into text where it is not one of the format's.
    pub fn take(&mut self, token: u32, decoder: &mut Decoder) -> Vec<Heard> {
        let mut heard = Vec::new();
        if self.is_of_format(token) {
            self.hear(Symbol::Special(token), &mut heard);
        } else {
            let text = decoder.push(token);
            self.take_text(&text, &mut heard);
        }
        self.show(&mut heard);
        heard
    }

    /// What was held back, once nothing more comes.
    pub fn finish(&mut self, rest: &str) -> Vec<Heard> {
        let mut heard = Vec::new();
        self.take_text(rest, &mut heard);
        self.show(&mut heard);
        let held = std::mem::take(&mut self.held);
        if !held.is_empty() && matches!(self.place, Place::Text) {
            text(held, &mut heard);
        }
        heard
    }

    /// The calls that are whole.
    #[must_use]
    pub fn calls(&self) -> &[Call] {
        &self.calls
    }

    fn is_of_format(&self, token: u32) -> bool {
        let trigger = self.trigger.iter().flatten();
        let mut all = self.fixed.iter().flatten().chain(trigger);
        all.any(|symbol| *symbol == Symbol::Special(token))
    }

    fn take_text(&mut self, text: &str, heard: &mut Vec<Heard>) {
        for c in text.chars() {
            self.hear(Symbol::Char(c), heard);
        }
    }

    fn hear(&mut self, symbol: Symbol, heard: &mut Vec<Heard>) {
        match &mut self.place {
            Place::Text => self.hear_text(symbol, heard),
            Place::Fixed(fixed, come) => {
                let (fixed, come) = (*fixed, *come + 1);
                self.at(fixed, come);
            }
            Place::Name => match symbol {
                _ if self.begins(Fixed::Id, symbol) => self.at(Fixed::Id, 1),
                // With ids, arguments follow these.
                _ if self.fixed[Fixed::Id as usize].is_empty()
                    && self.begins(Fixed::Middle, symbol) =>
                {
                    self.announce(heard);
                }
                Symbol::Char(c) => self.name.push(c),
                Symbol::Special(_) => {}
            },
            Place::Id => match symbol {
                _ if self.begins(Fixed::Middle, symbol) => self.announce(heard),
                Symbol::Char(c) => self.id.push(c),
                Symbol::Special(_) => {}
            },
            Place::Arguments(nesting) => {
                let Symbol::Char(c) = symbol else { return };
                let over = nesting.take(c);
                self.arguments.push(c);
                self.argue(c, heard);
                if over {
                    self.calls.push(Call {
                        id: std::mem::take(&mut self.id),
                        name: std::mem::take(&mut self.name),
                        arguments: std::mem::take(&mut self.arguments),
                    });
                    self.at(Fixed::Close, 0);
                }
            }
            Place::Between => {
                let mut follow = [Fixed::Next, Fixed::End].into_iter();
                if let Some(fixed) = follow.find(|fixed| self.begins(*fixed, symbol)) {
                    self.at(fixed, 1);
                }
            }
            Place::Over => {}
        }
    }

    fn begins(&self, fixed: Fixed, symbol: Symbol) -> bool {
        self.fixed[fixed as usize].first() == Some(&symbol)
    }

    /// All is known of a call but its arguments. One that the model gave no id, or one that is another call's, has an id of
    /// ours: what answers it must find it.
    fn announce(&mut self, heard: &mut Vec<Heard>) {
        let index = self.calls.len();
        if self.id.is_empty() || self.calls.iter().any(|call| call.id == self.id) {
            self.id = id(self.salt, index);
        }
        heard.push(Heard::Call(Piece {
            index,
            id: Some(self.id.clone()),
            name: Some(self.name.clone()),
            arguments: String::new(),
        }));
        self.at(Fixed::Middle, 1);
    }

    /// Another character of the arguments of the call that is being said.
    fn argue(&self, c: char, heard: &mut Vec<Heard>) {
        let at = self.calls.len();
        match heard.last_mut() {
            Some(Heard::Call(piece)) if piece.index == at && piece.name.is_none() => {
                piece.arguments.push(c);
            }
            _ => heard.push(Heard::Call(Piece {
                index: at,
                arguments: c.into(),
                ..Piece::default()
            })),
        }
    }

    /// So many symbols of what is fixed here have come.
    fn at(&mut self, fixed: Fixed, come: usize) {
        self.place = if come < self.fixed[fixed as usize].len() {
            Place::Fixed(fixed, come)
        } else {
            match fixed {
                Fixed::First | Fixed::Next => Place::Name,
                Fixed::Id => Place::Id,
                Fixed::Middle => Place::Arguments(Nesting::default()),
                Fixed::Close => Place::Between,
                Fixed::End => Place::Over,
            }
        };
    }

    /// Hears text before the calls, which may begin here.
    fn hear_text(&mut self, symbol: Symbol, heard: &mut Vec<Heard>) {
        if let Symbol::Char(c) = symbol {
            self.held.push(c);
        }
        let begun = match &self.trigger {
            Some(trigger) if trigger.as_slice() == [symbol] => 1,
            Some(trigger) if ends_with(&self.held, trigger) => trigger.len(),
            // Whether it calls is known at the first character that is no space.
            None if !self.shown
                && self.held.trim_start().len() == symbol.bytes()
                && self.fixed[Fixed::First as usize].first() == Some(&symbol) =>
            {
                1
            }
            _ => return,
        };
        let first = &self.fixed[Fixed::First as usize][..begun];
        let bytes: usize = first.iter().map(|symbol| symbol.bytes()).sum();
        let mut before = std::mem::take(&mut self.held);
        before.truncate(before.len() - bytes);
        text(before.trim_end().to_owned(), heard);
        self.at(Fixed::First, begun);
    }

    /// Shows text before which nothing can become a trigger; space at its end is the format's if calls follow.
    fn show(&mut self, heard: &mut Vec<Heard>) {
        if !matches!(self.place, Place::Text) {
            return;
        }
        let trigger = self.trigger.as_deref().unwrap_or_default();
        let begun = (1..trigger.len()).rev().map(|length| &trigger[..length]);
        let begun = begun.filter(|begun| ends_with(&self.held, begun));
        let bytes = |begun: &[Symbol]| begun.iter().map(|symbol| symbol.bytes()).sum();
        let begun: usize = begun.map(bytes).next().unwrap_or(0);
        let sure = self.held[..self.held.len() - begun].trim_end().len();
        let rest = self.held.split_off(sure);
        self.shown |= sure > 0;
        text(std::mem::replace(&mut self.held, rest), heard);
    }
}

impl Symbol {
    const fn bytes(self) -> usize {
        match self {
            Self::Special(_) => 0,
            Self::Char(c) => c.len_utf8(),
        }
    }
}

fn text(text: String, heard: &mut Vec<Heard>) {
    if text.is_empty() {
        return;
    }
    match heard.last_mut() {
        Some(Heard::Text(last)) => last.push_str(&text),
        _ => heard.push(Heard::Text(text)),
    }
}

fn ends_with(text: &str, symbols: &[Symbol]) -> bool {
    let mut chars = text.chars().rev();
    let mut symbols = symbols.iter().rev();
    symbols.all(|symbol| chars.next().map(Symbol::Char) == Some(*symbol))
}

fn symbols(parts: Vec<Part>) -> Vec<Symbol> {
    let each = parts.into_iter().flat_map(|part| match part {
        Part::Special(id) => vec![Symbol::Special(id)],
        Part::Text(text) => text.chars().map(Symbol::Char).collect(),
    });
    each.collect()
}

/// Letters and digits, the same for the same answer to the same prompt.
fn id(salt: u64, index: usize) -> String {
    const DIGITS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    // The constants of SplitMix64.
    let mut mixed = salt.wrapping_add((index as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^= mixed >> 31;
    let digits = (0..ID_CHARS).map(|_| {
        let digit = DIGITS[usize::try_from(mixed % 62).unwrap_or_default()];
        mixed /= 62;
        char::from(digit)
    });
    digits.collect()
}
