//! The text of a token's spelling.

use tokenizers::utils::byte_level::char_to_byte;

/// What spellings consist of.
#[derive(Debug)]
pub(super) enum Spelling {
    /// Each character of an ordinary token is a byte, as in GPT-2. Added tokens are text.
    Bytes,
    /// Text, in which marks stand for spaces.
    Text(Marks),
}

#[derive(Debug, Default)]
pub(super) struct Marks {
    /// Each mark and the text that replaces it, one after the other.
    pub(super) replaced: Vec<(String, String)>,
    /// Whether added tokens have marks too.
    pub(super) in_added: bool,
}

impl Spelling {
    /// Returns the text of an ordinary token.
    pub(super) fn ordinary(&self, spelling: &str) -> Vec<u8> {
        match self {
            Self::Bytes => {
                let of = |c: char| char_to_byte(c).map_or_else(|| encoded(c), |byte| vec![byte]);
                spelling.chars().flat_map(of).collect()
            }
            Self::Text(marks) => marks.text(spelling),
        }
    }

    /// Returns the text of an added token.
    pub(super) fn added(&self, spelling: &str) -> Vec<u8> {
        match self {
            Self::Text(marks) if marks.in_added => marks.text(spelling),
            _ => spelling.as_bytes().to_vec(),
        }
    }

    /// Returns the spelling in which the last mark stands for nothing.
    pub(super) fn without_last_mark(&self) -> Self {
        let Self::Text(marks) = self else {
            return Self::Bytes;
        };
        let mut replaced = marks.replaced.clone();
        if let Some((_, replacement)) = replaced.last_mut() {
            replacement.clear();
        }
        Self::Text(Marks {
            replaced,
            in_added: marks.in_added,
        })
    }

    /// Whether text can become a token with this spelling.
    pub(super) fn is_reachable(&self, spelling: &str) -> bool {
        match self {
            Self::Bytes => spelling.chars().all(|c| char_to_byte(c).is_some()),
            Self::Text(_) => true,
        }
    }

    /// Whether a spelling is a single symbol, from which merges begin.
    pub(super) fn is_atom(&self, spelling: &str) -> bool {
        let mut chars = spelling.chars();
        let is_symbol = |c| matches!(self, Self::Text(_)) || char_to_byte(c).is_some();
        chars.next().is_some_and(is_symbol) && chars.next().is_none()
    }

    /// Returns the spelling of the token of a byte.
    pub(super) fn of_byte(&self, byte: u8) -> String {
        match self {
            Self::Bytes => {
                tokenizers::utils::byte_level::BYTES_CHAR_LOOKUP[usize::from(byte)].into()
            }
            Self::Text(_) => format!("<0x{byte:02X}>"),
        }
    }
}

impl Marks {
    fn text(&self, spelling: &str) -> Vec<u8> {
        let mut text = spelling.to_owned();
        for (mark, replacement) in &self.replaced {
            if text.contains(mark.as_str()) {
                text = text.replace(mark.as_str(), replacement);
            }
        }
        text.into_bytes()
    }
}

/// Returns the byte that a spelling as `<0x0A>` names.
pub(super) fn byte(spelling: &str) -> Option<u8> {
    let digits = spelling.strip_prefix("<0x")?.strip_suffix('>')?;
    let is_hex = digits.len() == 2 && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    u8::from_str_radix(digits, 16).ok().filter(|_| is_hex)
}

fn encoded(c: char) -> Vec<u8> {
    c.to_string().into_bytes()
}
