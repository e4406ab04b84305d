//! The terminals of texts: regular expressions in Lark's syntax, joined with `&`.

use llguidance::regex_to_lark;
use serde_json::{Map, Number, Value};

use super::formats;
use super::types::Types;
use crate::guide::schema::scan;

/// Any text.
const ANY: &str = "(?s:.*)";

/// Characters of a text in Python between single or double quotes, and its escapes.
const SINGLE: &str = r"[^'\\\n\r\x00]";
const DOUBLE: &str = r#"[^"\\\n\r\x00]"#;
const ESCAPE: &str = r#"\\[\\'"nrt]"#;

/// Numbers as JSON has them, and as they are generated. A double holds each generated one.
const NUMBER: &str = r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?";
pub(super) const INTEGER: &str = r"/-?(?:0|[1-9][0-9]{0,14})/";
pub(super) const DECIMAL: &str =
    r"/-?(?:0|[1-9][0-9]{0,14})(?:\.[0-9]{1,15})?(?:[eE][+-]?[0-9]{1,2})?/";

/// The most characters that are counted. Counting more would take too many steps in a long answer.
const COUNTED: u64 = 256;

/// A terminal for a text, and the keywords that it does not enforce.
pub(super) struct Terminal {
    pub(super) lark: String,
    pub(super) lost: Vec<&'static str>,
}

/// Returns the terminal of a text as it is, without any of the texts in `never`, and not like a value of `others`.
pub(super) fn raw(schema: &Map<String, Value>, never: &[String], others: Types) -> Terminal {
    let mut lost = Vec::new();
    let mut all = vec![regex(&repeated("(?s:.)", schema, &mut lost))];
    all.extend(matched(schema, &mut lost).iter().map(|one| regex(one)));
    if !never.is_empty() {
        let each: Vec<_> = never.iter().map(|text| escaped(text)).collect();
        all.push(format!(
            "~{}",
            regex(&format!("{ANY}(?:{}){ANY}", each.join("|")))
        ));
    }
    all.extend(others_like(others).map(|like| format!("~{}", regex(&like))));
    let lark = format!("({})", all.join(" & "));
    Terminal { lark, lost }
}

/// Returns the terminal of a text as Python writes it.
pub(super) fn python(schema: &Map<String, Value>) -> Terminal {
    let mut lost = Vec::new();
    let matched = matched(schema, &mut lost);
    let both = [('\'', SINGLE), ('"', DOUBLE)].map(|(quote, plain)| {
        let one = if matched.is_empty() {
            format!("(?:{plain}|{ESCAPE})")
        } else {
            // A text with an escape would not match as it is written.
            plain.to_owned()
        };
        let all = repeated(&one, schema, &mut lost);
        let all = std::iter::once(&all).chain(&matched);
        let all: Vec<_> = all
            .map(|one| regex(&format!("{quote}(?:{one}){quote}")))
            .collect();
        format!("({})", all.join(" & "))
    });
    let lark = format!("({})", both.join(" | "));
    Terminal { lark, lost }
}

/// Returns the expression of a character as often as the schema allows.
fn repeated(one: &str, schema: &Map<String, Value>, lost: &mut Vec<&'static str>) -> String {
    let mut bound = |keyword: &'static str| {
        let bound = schema.get(keyword).and_then(Value::as_u64)?;
        if bound > COUNTED {
            lost.push(keyword);
        }
        (bound <= COUNTED).then_some(bound)
    };
    match (bound("minLength").unwrap_or(0), bound("maxLength")) {
        (0, None) => format!("{one}*"),
        (least, None) => format!("{one}{{{least},}}"),
        (least, Some(most)) => format!("{one}{{{least},{most}}}"),
    }
}

/// Returns the expressions of a schema's patterns and format, which match whole texts.
fn matched(schema: &Map<String, Value>, lost: &mut Vec<&'static str>) -> Vec<String> {
    let mut all = Vec::new();
    let patterns = schema.get("pattern").and_then(Value::as_array);
    for pattern in patterns.into_iter().flatten().filter_map(Value::as_str) {
        match whole(pattern) {
            Some(pattern) => all.push(pattern),
            None => lost.push("pattern"),
        }
    }
    let format = schema.get("format").and_then(Value::as_str);
    all.extend(format.and_then(formats::regex));
    all
}

/// Returns an expression that matches the whole of each text in which `pattern` is found; `None` for anchors within it.
fn whole(pattern: &str) -> Option<String> {
    let mut cuts = Vec::new();
    let anchored = scan(pattern, |at, c, depth| {
        match c {
            '|' if depth == 0 => cuts.push(at),
            // Only the first and the last character of an alternative may be an anchor.
            '^' if at > 0 && cuts.last().is_none_or(|cut| cut + 1 != at) => return Some(()),
            '$' if !matches!(pattern.as_bytes().get(at + 1), None | Some(b'|')) || depth > 0 => {
                return Some(());
            }
            _ => {}
        }
        None
    });
    let finds_words = pattern.contains("\\b") || pattern.contains("\\B");
    if anchored.is_some() || finds_words {
        return None;
    }
    let mut each = Vec::new();
    let mut begin = 0;
    for end in cuts.into_iter().chain([pattern.len()]) {
        let one = pattern.get(begin..end)?;
        begin = end + 1;
        let (one, first) = match one.strip_prefix('^') {
            Some(rest) => (rest, ""),
            None => (one, ANY),
        };
        let (one, last) = match one.strip_suffix('$').filter(|rest| !is_escaped(rest)) {
            Some(rest) => (rest, ""),
            None => (one, ANY),
        };
        each.push(format!("{first}(?:{one}){last}"));
    }
    Some(each.join("|"))
}

/// Whether a text ends with a backslash that escapes the next character.
fn is_escaped(text: &str) -> bool {
    (text.len() - text.trim_end_matches('\\').len()) % 2 == 1
}

/// Returns expressions for texts that would be read as values of these types.
fn others_like(types: Types) -> impl Iterator<Item = String> {
    let each = [
        (Types::NUMBER, NUMBER),
        (Types::BOOLEAN, "(?i:true|false)"),
        (Types::NULL, "(?i:null|none)"),
        (Types::CONTAINER, r"[\[{](?s:.*)"),
    ];
    let each = each.into_iter().filter(move |(one, _)| types.has(*one));
    each.map(|(_, like)| format!(r"\s*(?:{like})\s*"))
}

/// Whether a text without quotes would be read as a value of one of these types. `words` are a format's words for true,
/// false and null.
pub(super) fn is_like(text: &str, types: Types, words: &[String; 3]) -> bool {
    let text = text.trim();
    let [yes, no, null] = words.each_ref().map(String::as_str);
    let is_one = |of: Types, words: [&str; 4]| {
        types.has(of) && words.iter().any(|word| text.eq_ignore_ascii_case(word))
    };
    types.has(Types::NUMBER) && serde_json::from_str::<Number>(text).is_ok()
        || is_one(Types::BOOLEAN, ["true", "false", yes, no])
        || is_one(Types::NULL, ["null", "none", null, null])
        || types.has(Types::CONTAINER) && text.starts_with(['[', '{'])
}

/// Writes a regular expression in Lark's syntax.
fn regex(pattern: &str) -> String {
    format!("/(?:{})/", regex_to_lark(pattern, "dw"))
}

/// Escapes a text for a regular expression.
fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    for c in text.chars() {
        if r"\.+*?()|[]{}^$#&-~".contains(c) {
            escaped.push('\\');
        }
        escaped.push(c);
    }
    escaped
}

/// Returns a terminal of names without quotes, or in quotes, other than `taken`.
pub(super) fn name(taken: &[String], quoted: bool) -> String {
    let quote = if quoted { "\"" } else { "" };
    let any = format!("/{quote}[A-Za-z_][A-Za-z0-9_.-]{{0,63}}{quote}/");
    if taken.is_empty() {
        return any;
    }
    let taken: Vec<_> = taken.iter().map(|name| escaped(name)).collect();
    format!(
        "({any} & ~{})",
        regex(&format!("{quote}(?:{}){quote}", taken.join("|")))
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_like_a_value_of_another_type_as_readers_guess_it() {
        let words = ["yes", "no", "nil"].map(str::to_owned);
        for (text, types) in [
            ("12", Types::NUMBER),
            (" -1.5e3\n", Types::NUMBER),
            ("True", Types::BOOLEAN),
            ("no", Types::BOOLEAN),
            ("NULL", Types::NULL),
            ("nil", Types::NULL),
            ("[a", Types::CONTAINER),
            ("12 m", Types::default()),
            ("", Types::default()),
        ] {
            for one in [Types::NUMBER, Types::BOOLEAN, Types::NULL, Types::CONTAINER] {
                assert_eq!(is_like(text, one, &words), one == types, "{text}");
            }
        }
    }

    #[test]
    fn a_pattern_matches_the_whole_text_around_it() {
        for (pattern, expected) in [
            ("^a+$", Some("(?:a+)")),
            ("a", Some("(?s:.*)(?:a)(?s:.*)")),
            ("^a|b$", Some("(?:a)(?s:.*)|(?s:.*)(?:b)")),
            (r"^a\$", Some(r"(?:a\$)(?s:.*)")),
            ("^[$^|]$", Some("(?:[$^|])")),
            ("(^a)", None),
            ("a$b", None),
            (r"\bgo", None),
        ] {
            assert_eq!(whole(pattern).as_deref(), expected, "{pattern}");
        }
    }
}
