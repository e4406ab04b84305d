//! Converts a template's text so that minijinja's lexer reads it as Jinja's does.

use std::fmt::Write as _;

use minijinja::{Error, ErrorKind};

/// Rewrites line ends, escapes in strings, `generation` blocks and `raw` blocks.
pub(super) fn prepared(source: &str) -> Result<String, Error> {
    let source = source.replace("\r\n", "\n").replace('\r', "\n");
    let mut written = String::with_capacity(source.len());
    let mut rest = source.as_str();
    while let Some(at) = opening(rest) {
        let (before, tag) = rest.split_at(at);
        written.push_str(before);
        rest = if tag.starts_with("{#") {
            let end = tag.get(2..).and_then(|inside| inside.find("#}"));
            let (comment, behind) = tag.split_at(end.map_or(tag.len(), |end| end + 4));
            written.push_str(comment);
            behind
        } else if let Some((raw, behind)) = raw(tag) {
            written.push_str(&raw);
            behind
        } else {
            code(tag, &mut written)?
        };
    }
    written.push_str(rest);
    Ok(written)
}

/// Returns the position of the next tag.
fn opening(text: &str) -> Option<usize> {
    let mut from = 0;
    loop {
        let at = from + text.get(from..)?.find('{')?;
        match text.as_bytes().get(at + 1) {
            Some(b'{' | b'%' | b'#') => return Some(at),
            _ => from = at + 1,
        }
    }
}

/// Splits a tag of one word: returns the white-space control at its beginning and end, and the text behind it.
fn word<'a>(tag: &'a str, name: &str) -> Option<(&'a str, &'a str, &'a str)> {
    let inside = tag.strip_prefix("{%")?;
    let (inside, behind) = inside.split_once("%}")?;
    let begin = inside
        .get(..1)
        .filter(|c| matches!(*c, "-" | "+"))
        .unwrap_or_default();
    let rest = inside.get(begin.len()..)?;
    let end = rest.len().checked_sub(1).and_then(|at| rest.get(at..));
    let end = end.filter(|c| matches!(*c, "-" | "+")).unwrap_or_default();
    let between = rest.get(..rest.len() - end.len())?;
    (between.trim() == name).then_some((begin, end, behind))
}

/// Copies a block that is not interpreted. Jinja keeps a line end behind `{% raw %}`, which `trim_blocks` would remove.
fn raw(tag: &str) -> Option<(String, &str)> {
    let (begin, end, behind) = word(tag, "raw")?;
    let mut from = 0;
    let (inside, close) = loop {
        let at = from + behind.get(from..)?.find("{%")?;
        let close = behind.get(at..)?;
        if word(close, "endraw").is_some() {
            break (behind.get(..at)?, close);
        }
        from = at + 2;
    };
    let end = if end.is_empty() { "+" } else { end };
    let (close_begin, close_end, behind) = word(close, "endraw")?;
    let raw = format!("{{%{begin} raw {end}%}}{inside}{{%{close_begin} endraw {close_end}%}}");
    Some((raw, behind))
}

/// Copies a tag of code. Returns the text behind it.
fn code<'a>(tag: &'a str, written: &mut String) -> Result<&'a str, Error> {
    // transformers lets a template mark what an assistant said: a scope of its own, always rendered.
    for (name, instead) in [("generation", "with"), ("endgeneration", "endwith")] {
        if let Some((begin, end, behind)) = word(tag, name) {
            let _ = write!(written, "{{%{begin} {instead} {end}%}}");
            return Ok(behind);
        }
    }
    let (open, mut rest) = tag.split_at(2);
    let close = if open == "{{" { "}}" } else { "%}" };
    written.push_str(open);
    if let Some(control) = rest.get(..1).filter(|c| matches!(*c, "-" | "+")) {
        written.push_str(control);
        rest = rest.get(1..).unwrap_or_default();
    }
    let begin = written.len();
    // The code without strings and the content of brackets.
    let mut flat = String::new();
    let mut depth = 0_usize;
    while let Some(c) = rest.chars().next() {
        if depth == 0 && rest.starts_with(close) {
            if let Some([from, to]) = bare_tuple(open, &flat) {
                written.insert(begin + to, ')');
                written.insert(begin + from, '(');
            }
            written.push_str(close);
            return Ok(rest.get(2..).unwrap_or_default());
        }
        let (code, behind) = match c {
            '\'' | '"' => {
                let (literal, behind) = rest.split_at(string_end(rest, c));
                (literal_of(literal, c)?, behind)
            }
            _ => (c.to_string(), rest.get(c.len_utf8()..).unwrap_or_default()),
        };
        rest = behind;
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth = depth.saturating_sub(1),
            '+' if is_sign(written.get(begin..).unwrap_or_default())
                && !rest.starts_with(close) =>
            {
                continue;
            }
            _ => {}
        }
        let is_flat = depth == 0 && code.len() == 1;
        flat.push_str(&if is_flat {
            code.clone()
        } else {
            "_".repeat(code.len())
        });
        written.push_str(&code);
    }
    Ok(rest)
}

/// Returns the bounds of a tuple without parentheses, which minijinja requires for a value that is written or looped
/// over.
fn bare_tuple(open: &str, flat: &str) -> Option<[usize; 2]> {
    let end = flat.trim_end_matches(['-', '+']).len();
    let code = flat.get(..end)?;
    let from = if open == "{{" {
        0
    } else if code.trim_start().starts_with("for ") {
        code.find(" in ")? + 3
    } else {
        return None;
    };
    let tuple = code.get(from..)?;
    let ends = [" if ", " recursive"].map(|word| tuple.find(word));
    let to = ends.into_iter().flatten().min();
    let to = to.filter(|_| open != "{{").unwrap_or(tuple.len());
    let has_comma = tuple.get(..to)?.contains(',');
    has_comma.then_some([from, from + to])
}

/// Whether a plus behind this code is the sign of a value, which minijinja does not know and which has no effect.
fn is_sign(code: &str) -> bool {
    const WORDS: [&str; 7] = ["and", "else", "if", "in", "is", "not", "or"];
    let code = code.trim_end();
    let word = code.rsplit(|c: char| !(c.is_alphanumeric() || c == '_'));
    code.is_empty()
        || code.ends_with([
            '(', '[', '{', ',', ':', '=', '<', '>', '+', '-', '*', '/', '%', '~',
        ])
        || word.take(1).any(|word| WORDS.contains(&word))
}

/// Returns the bytes of the string at the beginning of a text, including its quotes.
fn string_end(text: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        if escaped {
            escaped = false;
        } else if c == '\\' {
            escaped = true;
        } else if c == quote {
            return at + 1;
        }
    }
    text.len()
}

/// Converts a string with Python's escapes to one with minijinja's.
fn literal_of(literal: &str, quote: char) -> Result<String, Error> {
    if !literal.contains('\\') {
        return Ok(literal.to_owned());
    }
    let mut written = String::from(quote);
    let inside = literal.get(1..literal.len().saturating_sub(1));
    for c in unescaped(inside.unwrap_or_default())?.chars() {
        if c == '\\' || c == quote {
            written.push('\\');
        }
        written.push(c);
    }
    written.push(quote);
    Ok(written)
}

/// Decodes Python's escapes in a string.
fn unescaped(text: &str) -> Result<String, Error> {
    let wrong = |what: &str| {
        let why = format!("a string has an escape that is {what}");
        Error::new(ErrorKind::SyntaxError, why)
    };
    let mut written = String::with_capacity(text.len());
    let mut high: Option<u32> = None;
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            written.push(c);
            continue;
        }
        let escape = chars.next().ok_or_else(|| wrong("incomplete"))?;
        let digits = match escape {
            'x' => 2,
            'u' => 4,
            'U' => 8,
            'N' => return Err(wrong("a name of a character, which is not supported")),
            '0'..='7' => {
                let octal = chars.as_str().chars().take(2);
                let octal = octal.take_while(|c| c.is_digit(8)).count();
                let rest: String = chars.by_ref().take(octal).collect();
                let code = u32::from_str_radix(&format!("{escape}{rest}"), 8).ok();
                written.extend(code.and_then(char::from_u32));
                continue;
            }
            other => {
                match other {
                    '\n' => {}
                    '\\' | '\'' | '"' => written.push(other),
                    'a' => written.push('\x07'),
                    'b' => written.push('\x08'),
                    'f' => written.push('\x0c'),
                    'n' => written.push('\n'),
                    'r' => written.push('\r'),
                    't' => written.push('\t'),
                    'v' => written.push('\x0b'),
                    other => written.extend(['\\', other]),
                }
                continue;
            }
        };
        let code: String = chars.by_ref().take(digits).collect();
        let code = Some(code).filter(|code| code.len() == digits);
        let code = code.and_then(|code| u32::from_str_radix(&code, 16).ok());
        let code = code.ok_or_else(|| wrong("not hexadecimal"))?;
        match (high.take(), code) {
            (Some(high), 0xDC00..=0xDFFF) => {
                let code = 0x10000 + ((high - 0xD800) << 10) + (code - 0xDC00);
                written.extend(char::from_u32(code));
            }
            (None, 0xD800..=0xDBFF) => high = Some(code),
            (None, code) => {
                let c = char::from_u32(code);
                written.push(c.ok_or_else(|| wrong("not a character"))?);
            }
            (Some(_), _) => return Err(wrong("half a character")),
        }
    }
    if high.is_some() {
        return Err(wrong("half a character"));
    }
    Ok(written)
}
