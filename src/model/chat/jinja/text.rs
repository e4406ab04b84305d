//! `str` and `repr` of Python's values.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU32, Ordering};

use minijinja::Value;

use super::kind::{Kind, internal, items, pairs};

/// The character that guards special spellings, which no escape may change: `chat::guard`.
static MARK: AtomicU32 = AtomicU32::new(0);

pub(super) fn set_mark(mark: Option<char>) {
    MARK.store(mark.map_or(0, u32::from), Ordering::Relaxed);
}

pub(super) fn is_mark(c: char) -> bool {
    c != '\0' && u32::from(c) == MARK.load(Ordering::Relaxed)
}

/// `str(value)`.
pub(super) fn str(value: &Value) -> String {
    match Kind::of(value) {
        Kind::Undefined => String::new(),
        Kind::Text(text) => text.to_owned(),
        _ => repr(value),
    }
}

/// `repr(value)`.
pub(super) fn repr(value: &Value) -> String {
    match Kind::of(value) {
        Kind::Undefined => "Undefined".into(),
        Kind::None => "None".into(),
        Kind::Bool(true) => "True".into(),
        Kind::Bool(false) => "False".into(),
        Kind::Int(int) => int.to_string(),
        Kind::Float(number) => float(number),
        Kind::Text(text) => quoted(text),
        Kind::List => list(&items(value).unwrap_or_default()),
        Kind::Tuple => {
            let each: Vec<_> = items(value).unwrap_or_default().iter().map(repr).collect();
            let comma = if each.len() == 1 { "," } else { "" };
            format!("({}{comma})", each.join(", "))
        }
        Kind::Dict => dict(value),
        Kind::View(view) => match view.range() {
            Some([start, stop, 1]) => format!("range({start}, {stop})"),
            Some([start, stop, stride]) => format!("range({start}, {stop}, {stride})"),
            None => format!("{}({})", view.name(), list(view.items())),
        },
        Kind::Generator(_) => "<generator object>".into(),
        Kind::Other => match internal(value) {
            Some("Namespace") => format!("<Namespace {}>", dict(value)),
            Some("Macro") => {
                let name = value.get_attr("name").unwrap_or_default();
                format!("<Macro {}>", repr(&name))
            }
            Some("Loop") => {
                let part = |name| repr(&value.get_attr(name).unwrap_or_default());
                format!("<LoopContext {}/{}>", part("index"), part("length"))
            }
            _ => value.to_string(),
        },
    }
}

/// `repr` of a list.
pub(super) fn list(items: &[Value]) -> String {
    let each: Vec<_> = items.iter().map(repr).collect();
    format!("[{}]", each.join(", "))
}

fn dict(value: &Value) -> String {
    let pairs = pairs(value);
    let each = pairs
        .iter()
        .map(|(key, value)| format!("{}: {}", repr(key), repr(value)));
    format!("{{{}}}", each.collect::<Vec<_>>().join(", "))
}

/// A float as Python writes it: the shortest digits that are read as the same, with an exponent below 1e-4 and from
/// 1e16.
pub(super) fn float(value: f64) -> String {
    if value.is_nan() {
        return "nan".into();
    }
    if value.is_infinite() {
        return if value > 0.0 { "inf" } else { "-inf" }.into();
    }
    let scientific = format!("{value:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    if (-4..16).contains(&exponent) {
        let plain = value.to_string();
        if plain.contains('.') {
            plain
        } else {
            plain + ".0"
        }
    } else {
        let sign = if exponent < 0 { '-' } else { '+' };
        format!("{digits}e{sign}{:02}", exponent.abs())
    }
}

/// A text between quotes.
fn quoted(text: &str) -> String {
    let quote = if text.contains('\'') && !text.contains('"') {
        '"'
    } else {
        '\''
    };
    let mut written = String::with_capacity(text.len() + 2);
    written.push(quote);
    for c in text.chars() {
        match c {
            '\\' => written.push_str("\\\\"),
            '\n' => written.push_str("\\n"),
            '\r' => written.push_str("\\r"),
            '\t' => written.push_str("\\t"),
            c if c == quote => written.extend(['\\', c]),
            c if is_printable(c) => written.push(c),
            c => {
                let code = u32::from(c);
                let _ = match code {
                    0..=0xFF => write!(written, "\\x{code:02x}"),
                    0x100..=0xFFFF => write!(written, "\\u{code:04x}"),
                    _ => write!(written, "\\U{code:08x}"),
                };
            }
        }
    }
    written.push(quote);
    written
}

/// `str.isprintable` of a character, where unassigned characters count as printable.
pub(super) fn is_printable(c: char) -> bool {
    if is_mark(c) {
        return true;
    }
    let code = u32::from(c);
    let other = c.is_control()
        || (c.is_whitespace() && c != ' ')
        || matches!(
            code,
            0xAD | 0x600..=0x605 | 0x61C | 0x6DD | 0x70F | 0x890 | 0x891 | 0x8E2 | 0x180E
        )
        || matches!(code, 0x200B..=0x200F | 0x2028..=0x202E | 0x2060..=0x206F | 0xFEFF | 0xFFF9..=0xFFFB)
        || matches!(code, 0x110BD | 0x110CD | 0x13430..=0x1343F | 0x1BCA0..=0x1BCA3 | 0x1D173..=0x1D17A)
        || matches!(code, 0xE0000..=0xE007F | 0xE000..=0xF8FF | 0xF0000..=0x0010_FFFF | 0xFDD0..=0xFDEF)
        || code & 0xFFFE == 0xFFFE;
    !other
}

/// HTML of a value, which is left if it is safe.
pub(super) fn escaped(value: &Value) -> String {
    let text = str(value);
    if value.is_safe() { text } else { html(&text) }
}

/// A text with the characters escaped that HTML has.
pub(super) fn html(text: &str) -> String {
    let mut written = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => written.push_str("&amp;"),
            '<' => written.push_str("&lt;"),
            '>' => written.push_str("&gt;"),
            '\'' => written.push_str("&#39;"),
            '"' => written.push_str("&#34;"),
            c => written.push(c),
        }
    }
    written
}
