//! The methods of Python's `str`.

use minijinja::value::Tuple;
use minijinja::{Error, Value};

use super::kind::{Kind, bind, count, int_of, items, needed, pairs, split, text_of, wrong};
use super::lookup::indices;
use super::{format, text};

/// Calls a method.
pub(super) fn call(of: &str, name: &str, values: &[Value]) -> Result<Value, Error> {
    let plain: Option<fn(&str) -> String> = match name {
        "capitalize" => Some(capitalized),
        "casefold" => Some(|of| of.to_lowercase().replace('ß', "ss")),
        "lower" => Some(str::to_lowercase),
        "swapcase" => Some(swapped),
        "title" => Some(titled),
        "upper" => Some(str::to_uppercase),
        _ => None,
    };
    if let Some(plain) = plain {
        return bind(name, values, []).map(|[]| Value::from(plain(of)));
    }
    if let Some(test) = name.strip_prefix("is") {
        return bind(name, values, []).map(|[]| Value::from(is(of, test)));
    }
    match name {
        "center" | "ljust" | "rjust" | "zfill" => padded(of, name, values),
        "count" | "find" | "index" | "rfind" | "rindex" => found(of, name, values),
        "startswith" | "endswith" => edge(of, name, values),
        "strip" | "lstrip" | "rstrip" => {
            let [chars] = bind(name, values, ["chars"])?;
            let chars = chars.filter(|chars| !chars.is_none());
            let chars = chars.as_ref().map(text_of).transpose()?;
            Ok(Value::from(stripped(of, name, chars)))
        }
        "split" | "rsplit" => pieces(of, name, values),
        "splitlines" => {
            let [keep] = bind(name, values, ["keepends"])?;
            let lines = lines(of, keep.is_some_and(|keep| keep.is_true()));
            Ok(lines.into_iter().map(Value::from).collect())
        }
        "partition" | "rpartition" => parted(of, name, values),
        "removeprefix" | "removesuffix" => {
            let [affix] = bind(name, values, ["affix"])?;
            let affix = needed(affix, "affix")?;
            let affix = text_of(&affix)?;
            let rest = if name == "removeprefix" {
                of.strip_prefix(affix)
            } else {
                of.strip_suffix(affix)
            };
            Ok(Value::from(rest.unwrap_or(of)))
        }
        "replace" => {
            let [old, new, times] = bind(name, values, ["old", "new", "count"])?;
            let (old, new) = (needed(old, "old")?, needed(new, "new")?);
            let times = times.map_or(Ok(-1), |times| int_of(&times))?;
            replaced(of, text_of(&old)?, text_of(&new)?, times).map(Value::from)
        }
        "join" => {
            let [each] = bind(name, values, ["iterable"])?;
            let each = items(&needed(each, "iterable")?)?;
            let each: Vec<_> = each.iter().map(text_of).collect::<Result<_, _>>()?;
            Ok(Value::from(each.join(of)))
        }
        "format" => {
            let (positional, named) = split(values)?;
            format::braces(of, positional, &named).map(Value::from)
        }
        "format_map" => {
            let [mapping] = bind(name, values, ["mapping"])?;
            let named = pairs(&needed(mapping, "mapping")?).into_iter();
            let named: Vec<_> = named.map(|(key, value)| (text::str(&key), value)).collect();
            format::braces(of, &[], &named).map(Value::from)
        }
        "expandtabs" => expanded(of, values),
        "translate" => translated(of, values),
        // A prompt does not need bytes.
        _ => Err(wrong(format!("str.{name} is not supported"))),
    }
}

/// Whether Python treats a character as white space.
pub(super) fn is_space(c: char) -> bool {
    c.is_whitespace() || ('\x1c'..='\x1f').contains(&c)
}

/// `strip`, `lstrip` and `rstrip`.
pub(super) fn stripped<'a>(of: &'a str, name: &str, chars: Option<&str>) -> &'a str {
    let out = |c: char| chars.map_or_else(|| is_space(c), |chars| chars.contains(c));
    match name {
        "lstrip" => of.trim_start_matches(out),
        "rstrip" => of.trim_end_matches(out),
        _ => of.trim_matches(out),
    }
}

fn upper_first(c: char) -> String {
    match c {
        'ǆ' => "ǅ".into(),
        'ß' => "Ss".into(),
        c => c.to_uppercase().collect(),
    }
}

pub(super) fn capitalized(of: &str) -> String {
    let mut chars = of.chars();
    let first = chars.next().map(upper_first).unwrap_or_default();
    first + &chars.as_str().to_lowercase()
}

fn swapped(of: &str) -> String {
    let each = of.chars().map(|c| -> String {
        if c.is_uppercase() {
            c.to_lowercase().collect()
        } else {
            c.to_uppercase().collect()
        }
    });
    each.collect()
}

fn is_cased(c: char) -> bool {
    c.is_uppercase() || c.is_lowercase()
}

fn titled(of: &str) -> String {
    let mut titled = String::with_capacity(of.len());
    let mut within = false;
    for c in of.chars() {
        if within {
            titled.extend(c.to_lowercase());
        } else {
            titled.push_str(&upper_first(c));
        }
        within = is_cased(c);
    }
    titled
}

/// The first digits of scripts with ten digits in a row.
const ZEROS: [u32; 40] = [
    0x30, 0x660, 0x6F0, 0x7C0, 0x966, 0x9E6, 0xA66, 0xAE6, 0xB66, 0xBE6, 0xC66, 0xCE6, 0xD66,
    0xDE6, 0xE50, 0xED0, 0xF20, 0x1040, 0x1090, 0x17E0, 0x1810, 0x1946, 0x19D0, 0x1A80, 0x1A90,
    0x1B50, 0x1BB0, 0x1C40, 0x1C50, 0xA620, 0xA8D0, 0xA900, 0xA9D0, 0xA9F0, 0xAA50, 0xABF0, 0xFF10,
    0x104A0, 0x1D7CE, 0x1D7D8,
];

fn is_decimal(c: char) -> bool {
    let code = u32::from(c);
    ZEROS.iter().any(|zero| (*zero..zero + 10).contains(&code))
}

fn is_digit(c: char) -> bool {
    let code = u32::from(c);
    is_decimal(c)
        || matches!(code, 0xB2 | 0xB3 | 0xB9 | 0x2070 | 0x2074..=0x2079 | 0x2080..=0x2089)
        || matches!(code, 0x2460..=0x2468 | 0x2474..=0x247C | 0x2488..=0x2490 | 0x2776..=0x277E)
}

fn is(of: &str, test: &str) -> bool {
    let all = |test: fn(char) -> bool| !of.is_empty() && of.chars().all(test);
    match test {
        "alnum" => all(char::is_alphanumeric),
        "alpha" => all(char::is_alphabetic),
        "ascii" => of.is_ascii(),
        "decimal" => all(is_decimal),
        "digit" => all(is_digit),
        "numeric" => all(char::is_numeric),
        "identifier" => {
            let start = |c: char| c.is_alphabetic() || c == '_';
            of.chars().next().is_some_and(start)
                && of.chars().all(|c| c.is_alphanumeric() || c == '_')
        }
        "lower" => of.chars().any(char::is_lowercase) && !of.chars().any(char::is_uppercase),
        "upper" => of.chars().any(char::is_uppercase) && !of.chars().any(char::is_lowercase),
        "printable" => of.chars().all(text::is_printable),
        "space" => all(is_space),
        _ => {
            let mut within = false;
            let right = of.chars().all(|c| {
                let right = !(within && c.is_uppercase() || !within && c.is_lowercase());
                within = is_cased(c);
                right
            });
            right && of.chars().any(is_cased)
        }
    }
}

/// Whether a text is lower or upper case, for the tests of these names.
pub(super) fn is_case(of: &str, test: &str) -> bool {
    is(of, test)
}

fn padded(of: &str, name: &str, values: &[Value]) -> Result<Value, Error> {
    let [width, fill] = bind(name, values, ["width", "fillchar"])?;
    let width = count(int_of(&needed(width, "width")?)?, 4)?;
    let fill = fill.as_ref().map_or(Ok(" "), text_of)?;
    if fill.chars().count() != 1 {
        return Err(wrong(
            "the fill character must be exactly one character long",
        ));
    }
    Ok(Value::from(match name {
        "zfill" => {
            let (sign, digits) = match of.strip_prefix(['+', '-']) {
                Some(digits) => (of.get(..1).unwrap_or_default(), digits),
                None => ("", of),
            };
            let missing = width.saturating_sub(of.chars().count());
            [sign, &"0".repeat(missing), digits].concat()
        }
        _ => pad(of, name, width, fill),
    }))
}

/// `center`, `ljust` and `rjust`.
pub(super) fn pad(of: &str, name: &str, width: usize, fill: &str) -> String {
    let missing = width.saturating_sub(of.chars().count());
    let left = match name {
        "ljust" => 0,
        "rjust" => missing,
        // Python's rule for odd numbers.
        _ => missing / 2 + (missing & width & 1),
    };
    [&fill.repeat(left), of, &fill.repeat(missing - left)].concat()
}

/// Returns the part between two indices of characters, and the index of its first character.
fn part(of: &str, bounds: [Option<Value>; 2]) -> Result<Option<(&str, usize)>, Error> {
    let [start, stop] = bounds.map(|bound| bound.filter(|bound| !bound.is_none()));
    if start.is_none() && stop.is_none() {
        return Ok(Some((of, 0)));
    }
    let start = start.map(|start| int_of(&start)).transpose()?;
    let stop = stop.map(|stop| int_of(&stop)).transpose()?;
    let length = of.chars().count();
    let selected = indices(length, start, stop, 1);
    let Some(first) = selected.first() else {
        let length = i128::try_from(length).unwrap_or(i128::MAX);
        let start = start.unwrap_or_default();
        let start = if start < 0 {
            (start + length).max(0)
        } else {
            start
        };
        let at = usize::try_from(start).unwrap_or(usize::MAX);
        let reachable = start <= length && stop.is_none_or(|stop| stop >= start || stop < 0);
        return Ok(reachable.then_some(("", at)));
    };
    let byte = |at: usize| of.char_indices().nth(at).map_or(of.len(), |(byte, _)| byte);
    let part = of.get(byte(*first)..byte(first + selected.len()));
    Ok(part.map(|part| (part, *first)))
}

fn found(of: &str, name: &str, values: &[Value]) -> Result<Value, Error> {
    let [sub, start, stop] = bind(name, values, ["sub", "start", "end"])?;
    let sub = needed(sub, "sub")?;
    let sub = text_of(&sub)?;
    let part = part(of, [start, stop])?;
    if name == "count" {
        let count = part.map_or(0, |(part, _)| match sub {
            "" => part.chars().count() + 1,
            sub => part.matches(sub).count(),
        });
        return Ok(Value::from(count));
    }
    let at = part.and_then(|(part, first)| {
        let at = if name.starts_with('r') {
            part.rfind(sub)
        } else {
            part.find(sub)
        }?;
        Some(first + part.get(..at)?.chars().count())
    });
    match at {
        Some(at) => Ok(Value::from(at)),
        None if name.ends_with("find") => Ok(Value::from(-1)),
        None => Err(wrong("substring not found")),
    }
}

fn edge(of: &str, name: &str, values: &[Value]) -> Result<Value, Error> {
    let [affix, start, stop] = bind(name, values, ["affix", "start", "end"])?;
    let affix = needed(affix, "affix")?;
    let any = match Kind::of(&affix) {
        Kind::Tuple => items(&affix)?,
        Kind::Text(_) => vec![affix],
        other => {
            return Err(wrong(format!(
                "{name} first arg must be str or a tuple of str, not {}",
                other.name()
            )));
        }
    };
    let part = part(of, [start, stop])?;
    for affix in &any {
        let affix = text_of(affix)?;
        let has = part.is_some_and(|(part, _)| match name {
            "startswith" => part.starts_with(affix),
            _ => part.ends_with(affix),
        });
        if has {
            return Ok(Value::from(true));
        }
    }
    Ok(Value::from(false))
}

/// `replace`, with at most as many replacements as `times` if that is not negative.
pub(super) fn replaced(of: &str, old: &str, new: &str, times: i128) -> Result<String, Error> {
    let most = match old {
        "" => of.chars().count() + 1,
        old => of.matches(old).count(),
    };
    let times = usize::try_from(times).map_or(most, |times| times.min(most));
    if times.saturating_mul(new.len()) > super::limits::LARGEST {
        return Err(wrong("it would need too much memory"));
    }
    Ok(of.replacen(old, new, times))
}

fn pieces(of: &str, name: &str, values: &[Value]) -> Result<Value, Error> {
    let [separator, most] = bind(name, values, ["sep", "maxsplit"])?;
    let most = most.map_or(Ok(-1), |most| int_of(&most))?;
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    let from_end = name == "rsplit";
    let separator = separator.filter(|separator| !separator.is_none());
    let Some(separator) = separator else {
        let words = words(of, most, from_end);
        return Ok(words.into_iter().map(Value::from).collect());
    };
    let separator = text_of(&separator)?;
    if separator.is_empty() {
        return Err(wrong("empty separator"));
    }
    let most = most.saturating_add(1);
    Ok(if from_end {
        let mut pieces: Vec<_> = of.rsplitn(most, separator).map(Value::from).collect();
        pieces.reverse();
        Value::from(pieces)
    } else {
        of.splitn(most, separator).map(Value::from).collect()
    })
}

/// Returns the words between white space; the last of `most + 1` pieces is the remainder.
fn words(of: &str, most: usize, from_end: bool) -> Vec<&str> {
    let mut words = Vec::new();
    let mut rest = stripped(of, if from_end { "rstrip" } else { "lstrip" }, None);
    while !rest.is_empty() {
        let at = if from_end {
            rest.char_indices().rev().find(|(_, c)| is_space(*c))
        } else {
            rest.char_indices().find(|(_, c)| is_space(*c))
        };
        let cut = at.filter(|_| words.len() < most);
        let Some((at, c)) = cut else {
            words.push(rest);
            break;
        };
        let (before, after) = (
            rest.get(..at).unwrap_or_default(),
            rest.get(at + c.len_utf8()..).unwrap_or_default(),
        );
        if from_end {
            words.push(after);
            rest = stripped(before, "rstrip", None);
        } else {
            words.push(before);
            rest = stripped(after, "lstrip", None);
        }
    }
    if from_end {
        words.reverse();
    }
    words
}

/// `splitlines`.
pub(super) fn lines(of: &str, keep: bool) -> Vec<&str> {
    let mut lines = Vec::new();
    let mut rest = of;
    while !rest.is_empty() {
        let end = rest.char_indices().find(|(_, c)| {
            matches!(
                c,
                '\n' | '\r' | '\x0b' | '\x0c' | '\x1c'
                    ..='\x1e' | '\u{85}' | '\u{2028}' | '\u{2029}'
            )
        });
        let Some((at, c)) = end else {
            lines.push(rest);
            break;
        };
        let (line, after) = rest.split_at(at);
        let ending = if after.starts_with("\r\n") {
            2
        } else {
            c.len_utf8()
        };
        lines.push(if keep {
            rest.get(..at + ending).unwrap_or(line)
        } else {
            line
        });
        rest = after.get(ending..).unwrap_or_default();
    }
    lines
}

fn parted(of: &str, name: &str, values: &[Value]) -> Result<Value, Error> {
    let [separator] = bind(name, values, ["sep"])?;
    let separator = needed(separator, "sep")?;
    let separator = text_of(&separator)?;
    if separator.is_empty() {
        return Err(wrong("empty separator"));
    }
    let from_end = name == "rpartition";
    let parts = if from_end {
        of.rsplit_once(separator)
    } else {
        of.split_once(separator)
    };
    let parts = match parts {
        Some((before, after)) => [before, separator, after],
        None if from_end => ["", "", of],
        None => [of, "", ""],
    };
    Ok(Tuple::from(parts.map(Value::from)).into())
}

fn expanded(of: &str, values: &[Value]) -> Result<Value, Error> {
    let [size] = bind("expandtabs", values, ["tabsize"])?;
    let size = count(size.map_or(Ok(8), |size| int_of(&size))?, of.len().max(1))?;
    let mut expanded = String::with_capacity(of.len());
    let mut column = 0;
    for c in of.chars() {
        match c {
            '\t' if size > 0 => {
                let spaces = size - column % size;
                expanded.push_str(&" ".repeat(spaces));
                column += spaces;
            }
            '\t' => {}
            c => {
                expanded.push(c);
                column = if matches!(c, '\n' | '\r') {
                    0
                } else {
                    column + 1
                };
            }
        }
    }
    Ok(Value::from(expanded))
}

fn translated(of: &str, values: &[Value]) -> Result<Value, Error> {
    let [table] = bind("translate", values, ["table"])?;
    let table = needed(table, "table")?;
    let mut written = String::with_capacity(of.len());
    for c in of.chars() {
        let object = table.as_object();
        let other = object.and_then(|object| object.get_value(&Value::from(u32::from(c))));
        match other.as_ref().map(Kind::of) {
            None => written.push(c),
            Some(Kind::None) => {}
            Some(Kind::Text(other)) => written.push_str(other),
            Some(other) => {
                let code = other.int().and_then(|code| u32::try_from(code).ok());
                let other = code.and_then(char::from_u32);
                written.push(other.ok_or_else(|| wrong("a character cannot be translated"))?);
            }
        }
    }
    Ok(Value::from(written))
}
