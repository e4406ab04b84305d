//! Rewrites formats and patterns of texts.

use serde_json::{Value, json};

use super::node::Node;

/// Formats that llguidance enforces. Any other format is an annotation.
const FORMATS: [&str; 10] = [
    "date",
    "date-time",
    "duration",
    "email",
    "hostname",
    "ipv4",
    "ipv6",
    "time",
    "uri",
    "uuid",
];

/// Patterns that a format implies, as zod writes both.
const IMPLIED: [(&str, &str); 1] = [(
    "duration",
    r"^P(?:(\d+W)|(?!.*W)(?=\d|T\d)(\d+Y)?(\d+M)?(\d+D)?(T(?=\d)(\d+H)?(\d+M)?(\d+([.,]\d+)?S)?)?)$",
)];

pub(super) fn fit(node: &mut Node<'_>) {
    let format = node.members.get("format").and_then(Value::as_str);
    let format = format.map(str::to_owned);
    if let Some(format) = &format
        && !FORMATS.contains(&format.as_str())
    {
        node.members.shift_remove("format");
        if let Some(pattern) = uuid(format).filter(|_| !node.members.contains_key("pattern")) {
            node.members.insert("pattern".into(), pattern.into());
        }
    }
    let Some(pattern) = node.members.get("pattern").and_then(Value::as_str) else {
        return;
    };
    let is_implied =
        |(of, implied): &(&str, &str)| format.as_deref() == Some(*of) && *implied == pattern;
    if IMPLIED.iter().any(is_implied) {
        node.members.shift_remove("pattern");
    } else if let Some((also, rest)) = without_ahead(pattern) {
        node.members.insert("pattern".into(), rest.into());
        let each = also.into_iter().map(|pattern| json!({"pattern": pattern}));
        let all = node
            .members
            .entry("allOf")
            .or_insert_with(|| Value::Array(Vec::new()));
        if let Some(all) = all.as_array_mut() {
            all.extend(each);
        }
    }
}

/// Returns the pattern of a UUID of one version, by pydantic's names of formats.
fn uuid(format: &str) -> Option<String> {
    let version = format.strip_prefix("uuid")?;
    matches!(version, "1" | "3" | "4" | "5" | "6" | "7" | "8").then(|| {
        format!("^[0-9a-fA-F]{{8}}-[0-9a-fA-F]{{4}}-{version}[0-9a-fA-F]{{3}}-[89abAB][0-9a-fA-F]{{3}}-[0-9a-fA-F]{{12}}$")
    })
}

/// Rewrites look-ahead at the beginning of a pattern as further patterns for the same text; `None` if there is none, or
/// if there is another look-around.
fn without_ahead(pattern: &str) -> Option<(Vec<String>, String)> {
    let mut rest = pattern.strip_prefix('^')?;
    let mut also = Vec::new();
    loop {
        let (is_negative, inner) = match (rest.strip_prefix("(?="), rest.strip_prefix("(?!")) {
            (Some(inner), _) => (false, inner),
            (_, Some(inner)) => (true, inner),
            _ => break,
        };
        let end = closing(inner)?;
        let (within, after) = inner.split_at(end);
        also.push(if is_negative {
            excluding(within)?
        } else {
            including(within)
        });
        rest = after.strip_prefix(')')?;
    }
    let is_one = !also.is_empty() && !has_alternatives(rest) && !looks_around(rest);
    let are_plain = !also.iter().any(|pattern| looks_around(pattern));
    (is_one && are_plain).then(|| (also, format!("^{rest}")))
}

/// Returns the pattern of a text that begins with `within`.
fn including(within: &str) -> String {
    match within.strip_suffix('$') {
        Some(whole) if !whole.ends_with('\\') && !has_alternatives(whole) => {
            format!("^(?:{whole})$")
        }
        _ => format!("^(?:{within})"),
    }
}

/// Returns the pattern of a text that does not begin with `within`, for simple forms: a character, one anywhere, one at
/// the end, two of the same, and no other ones at all.
fn excluding(within: &str) -> Option<String> {
    let only = within.strip_prefix('^').unwrap_or(within);
    if let Some(other) = only.strip_suffix("*$").and_then(other) {
        return Some(other);
    }
    if let Some(other) = other(within) {
        return Some(format!("^(?:{other}[\\s\\S]*)?$"));
    }
    let anywhere = within.strip_prefix(".*")?;
    if let Some(other) = other(anywhere) {
        return Some(format!("^{other}*$"));
    }
    if let Some(other) = anywhere.strip_suffix('$').and_then(other) {
        return Some(format!("^(?:[\\s\\S]*{other})?$"));
    }
    let half = anywhere.len() / 2;
    let (one, again) = anywhere
        .is_char_boundary(half)
        .then(|| anywhere.split_at(half))?;
    let other = other(one).filter(|_| one == again)?;
    Some(format!("^(?:{other}|{one}{other})*(?:{one})?$"))
}

/// Returns the class of all characters but that of `one`, which is a character, an escape or a class.
fn other(one: &str) -> Option<String> {
    let mut chars = one.chars();
    match (chars.next()?, chars.next(), chars.next()) {
        ('\\', Some(escaped), None)
            if escaped.is_ascii_punctuation() || "dsw".contains(escaped) =>
        {
            Some(format!("[^{one}]"))
        }
        (plain, None, _) if plain.is_alphanumeric() || "-_@ /,:;#".contains(plain) => {
            Some(format!("[^{one}]"))
        }
        ('[', Some(first), _) if first != '^' => {
            let class = one.strip_prefix('[')?.strip_suffix(']')?;
            (!class.contains(['[', ']'])).then(|| format!("[^{class}]"))
        }
        _ => None,
    }
}

/// Calls `each` with the position, the character and the depth of groups of everything that is neither escaped nor in a class,
/// until it returns something.
pub(in crate::guide) fn scan<T>(
    pattern: &str,
    mut each: impl FnMut(usize, char, usize) -> Option<T>,
) -> Option<T> {
    let (mut escaped, mut class, mut depth) = (false, false, 0_usize);
    for (at, c) in pattern.char_indices() {
        if escaped {
            escaped = false;
        } else if c == '\\' {
            escaped = true;
        } else if class {
            class = c != ']';
        } else {
            if let Some(found) = each(at, c, depth) {
                return Some(found);
            }
            match c {
                '[' => class = true,
                '(' => depth += 1,
                ')' => depth = depth.saturating_sub(1),
                _ => {}
            }
        }
    }
    None
}

/// Returns the position of the parenthesis that closes a group.
fn closing(inner: &str) -> Option<usize> {
    scan(inner, |at, c, depth| (c == ')' && depth == 0).then_some(at))
}

fn has_alternatives(pattern: &str) -> bool {
    scan(pattern, |_, c, depth| {
        (c == '|' && depth == 0).then_some(())
    })
    .is_some()
}

fn looks_around(pattern: &str) -> bool {
    let begins = |at: usize| {
        let rest = pattern.get(at..).unwrap_or_default();
        ["(?=", "(?!", "(?<=", "(?<!"]
            .iter()
            .any(|look| rest.starts_with(look))
    };
    scan(pattern, |at, _, _| begins(at).then_some(())).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn look_ahead_at_the_beginning_becomes_patterns_of_the_same_texts() {
        let rewritten = |pattern: &str, also: &[&str], rest: &str| {
            let expected = (
                also.iter().map(|one| (*one).to_owned()).collect(),
                rest.to_owned(),
            );
            assert_eq!(without_ahead(pattern), Some(expected), "{pattern}");
        };
        rewritten(
            r"^(?!\.)(?!.*\.\.)([a-z.]*)[a-z]@b$",
            &[r"^(?:[^\.][\s\S]*)?$", r"^(?:[^\.]|\.[^\.])*(?:\.)?$"],
            r"^([a-z.]*)[a-z]@b$",
        );
        rewritten(
            r"^(?=.{1,253}\.?$)[a-z]+$",
            &[r"^(?:.{1,253}\.?)$"],
            "^[a-z]+$",
        );
        rewritten(r"^(?!^[-+.]*$)[+-]?\d*$", &["[^-+.]"], r"^[+-]?\d*$");
        rewritten("^(?!.*-$)[a-z-]+$", &[r"^(?:[\s\S]*[^-])?$"], "^[a-z-]+$");
        for kept in [
            "^a(?=b)",
            "^(?=a)b|c",
            "^(?!ab)c",
            "^(?=a(?!b))c",
            "^[(?=]a",
            "a",
            "^(?=a",
            r"^\(?=a",
        ] {
            assert_eq!(without_ahead(kept), None, "{kept}");
        }
    }
}
