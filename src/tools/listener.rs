//! Reads the tool calls of an answer from its tokens. A grammar of the same format bounds the answer, so its fixed text
//! is as expected.

use super::arguments::{ArgumentsReader, OwnSyntax};
use super::format::ID_CHARS;
use super::symbols::Symbol;
use crate::model::{Call, Decoder};

/// A part of an answer that a token completes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AnswerPart {
    /// Text, which is never empty.
    Text(String),
    Call(Piece),
}

/// A part of a call: first its name, then pieces of the text of its arguments.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Piece {
    /// The position of the call in the answer.
    pub index: usize,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    pub arguments: String,
}

#[derive(Clone, Debug)]
enum Place {
    /// Before the first call.
    Text,
    /// Within fixed text, after this number of its symbols.
    Fixed(Fixed, usize),
    Name,
    Id,
    Arguments(Nesting),
    /// Within arguments that are not a JSON object.
    Own(Box<ArgumentsReader>),
    /// After a call that another one may follow.
    Between,
    /// After the last call.
    Over,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fixed {
    First,
    /// Between a name and the id, if calls have ids.
    Id,
    Middle,
    Close,
    Next,
    End,
}

/// The position within the text of a JSON object.
#[derive(Clone, Copy, Debug, Default)]
struct Nesting {
    depth: usize,
    quoted: bool,
    escaped: bool,
}

impl Nesting {
    /// Advances by a character; returns whether the object has ended.
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

/// The state of reading one answer.
#[derive(Clone, Debug)]
pub struct Listener {
    /// The beginning of calls; `None` if the beginning of the answer decides whether it calls.
    trigger: Option<Vec<Symbol>>,
    /// The fixed texts in the order of `Fixed`.
    fixed: [Vec<Symbol>; 6],
    /// The syntax of arguments that are not a JSON object.
    own: Option<OwnSyntax>,
    salt: u64,
    place: Place,
    /// Text that may belong to a trigger or precede calls, and is not reported yet.
    held: String,
    /// Whether any text was reported.
    shown: bool,
    name: String,
    id: String,
    arguments: String,
    calls: Vec<Call>,
}

impl Listener {
    /// `fixed` holds the text before the first name, before an id (empty without ids), before arguments, after them,
    /// before the next name, and at the end. `own` is the syntax of arguments that are not a JSON object.
    pub(super) fn new(
        trigger: Option<Vec<Symbol>>,
        fixed: [Vec<Symbol>; 6],
        own: Option<OwnSyntax>,
        salt: u64,
    ) -> Self {
        Self {
            trigger,
            fixed,
            own,
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

    /// Adds the next token of the answer. `decoder` turns it into text if it is not a token of the format.
    pub fn take(&mut self, token: u32, decoder: &mut Decoder) -> Vec<AnswerPart> {
        let mut parts = Vec::new();
        if self.is_of_format(token) {
            self.read_symbol(Symbol::Special(token), &mut parts);
        } else {
            let text = decoder.push(token);
            self.take_text(&text, &mut parts);
        }
        self.report_text(&mut parts);
        parts
    }

    /// Reports the held text at the end of the answer.
    pub fn finish(&mut self, rest: &str) -> Vec<AnswerPart> {
        let mut parts = Vec::new();
        self.take_text(rest, &mut parts);
        self.report_text(&mut parts);
        let held = std::mem::take(&mut self.held);
        if !held.is_empty() && matches!(self.place, Place::Text) {
            text(held, &mut parts);
        }
        parts
    }

    /// Returns the complete calls.
    #[must_use]
    pub fn calls(&self) -> &[Call] {
        &self.calls
    }

    fn is_of_format(&self, token: u32) -> bool {
        let trigger = self.trigger.iter().flatten();
        let own = self.own.iter().flat_map(|own| own.delimiters.all());
        let mut all = self.fixed.iter().flatten().chain(trigger).chain(own);
        all.any(|symbol| *symbol == Symbol::Special(token))
    }

    fn take_text(&mut self, text: &str, parts: &mut Vec<AnswerPart>) {
        for c in text.chars() {
            self.read_symbol(Symbol::Char(c), parts);
        }
    }

    fn read_symbol(&mut self, symbol: Symbol, parts: &mut Vec<AnswerPart>) {
        match &mut self.place {
            Place::Text => self.add_text(symbol, parts),
            Place::Fixed(fixed, come) => {
                let (fixed, come) = (*fixed, *come + 1);
                self.at(fixed, come);
            }
            Place::Name => match symbol {
                _ if self.begins(Fixed::Id, symbol) => self.at(Fixed::Id, 1),
                // With ids, the arguments follow the id.
                _ if self.fixed[Fixed::Id as usize].is_empty()
                    && self.begins(Fixed::Middle, symbol) =>
                {
                    self.announce(parts);
                }
                Symbol::Char(c) => self.name.push(c),
                Symbol::Special(_) => {}
            },
            Place::Id => match symbol {
                _ if self.begins(Fixed::Middle, symbol) => self.announce(parts),
                Symbol::Char(c) => self.id.push(c),
                Symbol::Special(_) => {}
            },
            Place::Arguments(nesting) => {
                let Symbol::Char(c) = symbol else { return };
                let over = nesting.take(c);
                self.add_argument(c.encode_utf8(&mut [0; 4]), parts);
                if over {
                    self.end_call();
                    self.at(Fixed::Close, 0);
                }
            }
            Place::Own(reader) => {
                let mut json = String::new();
                let over = reader.take(symbol, &mut json);
                self.add_argument(&json, parts);
                if over {
                    self.end_call();
                    // The reader has seen the text after the arguments.
                    self.at(Fixed::Close, self.fixed[Fixed::Close as usize].len());
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

    /// Reports a call whose arguments begin. A call gets an id of its own if the model wrote none or one that another
    /// call has.
    fn announce(&mut self, parts: &mut Vec<AnswerPart>) {
        let index = self.calls.len();
        if self.id.is_empty() || self.calls.iter().any(|call| call.id == self.id) {
            self.id = id(self.salt, index);
        }
        parts.push(AnswerPart::Call(Piece {
            index,
            id: Some(self.id.clone()),
            name: Some(self.name.clone()),
            arguments: String::new(),
        }));
        self.at(Fixed::Middle, 1);
    }

    /// Adds text of the arguments of the current call.
    fn add_argument(&mut self, text: &str, parts: &mut Vec<AnswerPart>) {
        if text.is_empty() {
            return;
        }
        self.arguments += text;
        let at = self.calls.len();
        match parts.last_mut() {
            Some(AnswerPart::Call(piece)) if piece.index == at && piece.name.is_none() => {
                piece.arguments += text;
            }
            _ => parts.push(AnswerPart::Call(Piece {
                index: at,
                arguments: text.into(),
                ..Piece::default()
            })),
        }
    }

    fn end_call(&mut self) {
        self.calls.push(Call {
            id: std::mem::take(&mut self.id),
            name: std::mem::take(&mut self.name),
            arguments: std::mem::take(&mut self.arguments),
        });
    }

    /// Advances to this number of symbols of the fixed text.
    fn at(&mut self, fixed: Fixed, come: usize) {
        self.place = if come < self.fixed[fixed as usize].len() {
            Place::Fixed(fixed, come)
        } else {
            match fixed {
                Fixed::First | Fixed::Next => Place::Name,
                Fixed::Id => Place::Id,
                Fixed::Middle => self.arguments_place(),
                Fixed::Close => Place::Between,
                Fixed::End => Place::Over,
            }
        };
    }

    /// Returns the place at the beginning of the current call's arguments.
    fn arguments_place(&self) -> Place {
        match &self.own {
            None => Place::Arguments(Nesting::default()),
            Some(own) => Place::Own(Box::new(own.reader(&self.name))),
        }
    }

    /// Adds text before the calls, which may begin here.
    fn add_text(&mut self, symbol: Symbol, parts: &mut Vec<AnswerPart>) {
        if let Symbol::Char(c) = symbol {
            self.held.push(c);
        }
        let begun = match &self.trigger {
            Some(trigger) if trigger.as_slice() == [symbol] => 1,
            Some(trigger) if ends_with(&self.held, trigger) => trigger.len(),
            // The first character other than white space decides whether the answer calls.
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
        text(before.trim_end().to_owned(), parts);
        self.at(Fixed::First, begun);
    }

    /// Reports text that cannot become part of a trigger. White space at its end belongs to the format if calls follow.
    fn report_text(&mut self, parts: &mut Vec<AnswerPart>) {
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
        text(std::mem::replace(&mut self.held, rest), parts);
    }
}

fn text(text: String, parts: &mut Vec<AnswerPart>) {
    if text.is_empty() {
        return;
    }
    match parts.last_mut() {
        Some(AnswerPart::Text(last)) => last.push_str(&text),
        _ => parts.push(AnswerPart::Text(text)),
    }
}

fn ends_with(text: &str, symbols: &[Symbol]) -> bool {
    let mut chars = text.chars().rev();
    let mut symbols = symbols.iter().rev();
    symbols.all(|symbol| chars.next().map(Symbol::Char) == Some(*symbol))
}

/// Makes an id of letters and digits, which depends only on the prompt and the call's position.
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
