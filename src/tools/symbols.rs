//! Units of fixed text in a call.

use crate::model::language::Part;

/// A special token or a character.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Symbol {
    Special(u32),
    Char(char),
}

impl Symbol {
    pub(super) const fn bytes(self) -> usize {
        match self {
            Self::Special(_) => 0,
            Self::Char(c) => c.len_utf8(),
        }
    }
}

pub(super) fn symbols(parts: Vec<Part>) -> Vec<Symbol> {
    let each = parts.into_iter().flat_map(|part| match part {
        Part::Special(id) => vec![Symbol::Special(id)],
        Part::Text(text) => text.chars().map(Symbol::Char).collect(),
    });
    each.collect()
}

/// Returns the text of the characters among some symbols.
pub(super) fn text_of(symbols: &[Symbol]) -> String {
    let chars = symbols.iter().filter_map(|symbol| match symbol {
        Symbol::Char(c) => Some(*c),
        Symbol::Special(_) => None,
    });
    chars.collect()
}
