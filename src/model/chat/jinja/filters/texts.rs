//! Filters of texts.

use std::fmt::Write as _;

use minijinja::{Error, State, Value};

use super::arguments::{parts, value_first};
use crate::model::chat::jinja::kind::{
    self, Kind, bind, count, int_of, needed, pairs, text_of, wrong,
};
use crate::model::chat::jinja::{format as formats, strings, text, wrap};

/// The text of a filter's only argument.
fn only(name: &str, values: &[Value]) -> Result<String, Error> {
    let [value] = bind(name, values, ["s"])?;
    Ok(text::str(&needed(value, "s")?))
}

pub(super) fn capitalize(_: &mut State, values: &[Value]) -> Result<Value, Error> {
    only("capitalize", values).map(|text| Value::from(strings::capitalized(&text)))
}

pub(super) fn lower(_: &mut State, values: &[Value]) -> Result<Value, Error> {
    only("lower", values).map(|text| Value::from(text.to_lowercase()))
}

pub(super) fn upper(_: &mut State, values: &[Value]) -> Result<Value, Error> {
    only("upper", values).map(|text| Value::from(text.to_uppercase()))
}

pub(super) fn string(_: &mut State, values: &[Value]) -> Result<Value, Error> {
    only("string", values).map(Value::from)
}

pub(super) fn safe(_: &mut State, values: &[Value]) -> Result<Value, Error> {
    only("safe", values).map(Value::from_safe_string)
}

pub(super) fn escape(_: &mut State, values: &[Value]) -> Result<Value, Error> {
    let (value, _) = value_first(values)?;
    Ok(Value::from_safe_string(text::escaped(value)))
}

pub(super) fn force_escape(_: &mut State, values: &[Value]) -> Result<Value, Error> {
    only("forceescape", values).map(|text| Value::from_safe_string(text::html(&text)))
}

pub(super) fn trim(_: &mut State, values: &[Value]) -> Result<Value, Error> {
    let [value, chars] = bind("trim", values, ["value", "chars"])?;
    let chars = chars.filter(|chars| !chars.is_none());
    let chars = chars.as_ref().map(text_of).transpose()?;
    let value = text::str(&needed(value, "value")?);
    Ok(Value::from(strings::stripped(&value, "strip", chars)))
}

pub(super) fn title(_: &mut State, values: &[Value]) -> Result<Value, Error> {
    let text = only("title", values)?;
    let breaks = |c: char| strings::is_space(c) || "-({[<".contains(c);
    let mut titled = String::with_capacity(text.len());
    let mut first = true;
    for c in text.chars() {
        if breaks(c) {
            titled.push(c);
            first = true;
        } else if first {
            titled.extend(c.to_uppercase());
            first = false;
        } else {
            titled.extend(c.to_lowercase());
        }
    }
    Ok(Value::from(titled))
}

pub(super) fn center(_: &mut State, values: &[Value]) -> Result<Value, Error> {
    let [value, width] = bind("center", values, ["value", "width"])?;
    let width = count(width.map_or(Ok(80), |width| int_of(&width))?, 4)?;
    let text = text::str(&needed(value, "value")?);
    Ok(Value::from(strings::pad(&text, "center", width, " ")))
}

pub(super) fn replace(_: &mut State, values: &[Value]) -> Result<Value, Error> {
    let [value, old, new, times] = bind("replace", values, ["s", "old", "new", "count"])?;
    let times = times.filter(|times| !times.is_none());
    let times = times.map_or(Ok(-1), |times| int_of(&times))?;
    let part = |value: Option<Value>, name| needed(value, name).map(|value| text::str(&value));
    let (value, old, new) = (part(value, "s")?, part(old, "old")?, part(new, "new")?);
    strings::replaced(&value, &old, &new, times).map(Value::from)
}

pub(super) fn format(_: &mut State, values: &[Value]) -> Result<Value, Error> {
    let (value, rest, named) = parts(values)?;
    formats::filter(&text::str(value), rest, named).map(Value::from)
}

pub(super) fn indent(_: &mut State, values: &[Value]) -> Result<Value, Error> {
    let [value, width, first, blank] = bind("indent", values, ["s", "width", "first", "blank"])?;
    let value = needed(value, "s")?;
    let whole = text_of(&value)?.to_owned() + "\n";
    let lines = strings::lines(&whole, false);
    let indention = match width.as_ref().map(Kind::of) {
        Some(Kind::Text(text)) => text.to_owned(),
        None => " ".repeat(4),
        Some(_) => {
            let width = int_of(&width.unwrap_or_default())?;
            " ".repeat(count(width, lines.len().max(1))?)
        }
    };
    let blank = blank.is_some_and(|blank| blank.is_true());
    let mut written = String::new();
    for (at, line) in lines.iter().enumerate() {
        if at > 0 {
            written.push('\n');
            if blank || !line.is_empty() {
                written.push_str(&indention);
            }
        } else if first.as_ref().is_some_and(Value::is_true) {
            written.push_str(&indention);
        }
        written.push_str(line);
    }
    Ok(Value::from(written))
}

pub(super) fn truncate(_: &mut State, values: &[Value]) -> Result<Value, Error> {
    let parameters = ["s", "length", "killwords", "end", "leeway"];
    let [value, length, kill, end, leeway] = bind("truncate", values, parameters)?;
    let value = needed(value, "s")?;
    let text = text_of(&value)?;
    let length = count(length.map_or(Ok(255), |length| int_of(&length))?, 1)?;
    let leeway = leeway.filter(|leeway| !leeway.is_none());
    let leeway = count(leeway.map_or(Ok(5), |leeway| int_of(&leeway))?, 1)?;
    let end = end.unwrap_or_else(|| Value::from("..."));
    let end = text_of(&end)?;
    let kept = length
        .checked_sub(end.chars().count())
        .ok_or_else(|| wrong("the length is shorter than the end"))?;
    if text.chars().count() <= length + leeway {
        return Ok(value);
    }
    let cut: String = text.chars().take(kept).collect();
    let cut = match cut.rsplit_once(' ') {
        Some((before, _)) if !kill.is_some_and(|kill| kill.is_true()) => before.to_owned(),
        _ => cut,
    };
    Ok(Value::from(cut + end))
}

pub(super) fn wordcount(_: &mut State, values: &[Value]) -> Result<Value, Error> {
    let text = only("wordcount", values)?;
    let words = text.split(|c: char| !(c.is_alphanumeric() || c == '_'));
    Ok(Value::from(words.filter(|word| !word.is_empty()).count()))
}

pub(super) fn wordwrap(_: &mut State, values: &[Value]) -> Result<Value, Error> {
    let parameters = [
        "s",
        "width",
        "break_long_words",
        "wrapstring",
        "break_on_hyphens",
    ];
    let [value, width, long, between, hyphens] = bind("wordwrap", values, parameters)?;
    let value = needed(value, "s")?;
    let width = int_of(&width.unwrap_or_else(|| Value::from(79)))?;
    let width = usize::try_from(width).ok().filter(|width| *width > 0);
    let width = width.ok_or_else(|| wrong("invalid width (must be > 0)"))?;
    let long = long.is_none_or(|long| long.is_true());
    let hyphens = hyphens.is_none_or(|hyphens| hyphens.is_true());
    let between = between.filter(|between| !between.is_none());
    let between = between.unwrap_or_else(|| Value::from("\n"));
    let between = text_of(&between)?;
    let lines = strings::lines(text_of(&value)?, false).into_iter();
    let wrapped = lines.map(|line| wrap::lines(line, width, long, hyphens).join(between));
    Ok(Value::from(wrapped.collect::<Vec<_>>().join(between)))
}

pub(super) fn striptags(_: &mut State, values: &[Value]) -> Result<Value, Error> {
    let mut text = only("striptags", values)?;
    for (open, close) in [("<!--", "-->"), ("<", ">")] {
        let mut kept = String::with_capacity(text.len());
        let mut rest = text.as_str();
        while let Some((before, tag)) = rest.split_once(open) {
            let Some((_, after)) = tag.split_once(close) else {
                break;
            };
            kept.push_str(before);
            rest = after;
        }
        kept.push_str(rest);
        text = kept;
    }
    let words: Vec<_> = text
        .split(strings::is_space)
        .filter(|word| !word.is_empty())
        .collect();
    Ok(Value::from(unescaped(&words.join(" "))))
}

/// HTML without the entities that `escape` writes.
fn unescaped(text: &str) -> String {
    let entities = [
        ("&lt;", "<"),
        ("&gt;", ">"),
        ("&#39;", "'"),
        ("&#34;", "\""),
        ("&quot;", "\""),
        ("&nbsp;", "\u{a0}"),
        ("&amp;", "&"),
    ];
    let mut text = text.to_owned();
    for (entity, c) in entities {
        text = text.replace(entity, c);
    }
    text
}

fn quoted(value: &Value, slash: bool) -> String {
    let mut written = String::new();
    for byte in text::str(value).bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'_' | b'.' | b'-' | b'~' => {
                written.push(char::from(byte));
            }
            b'/' if slash => written.push('/'),
            b' ' if !slash => written.push('+'),
            byte => {
                let _ = write!(written, "%{byte:02X}");
            }
        }
    }
    written
}

pub(super) fn urlencode(_: &mut State, values: &[Value]) -> Result<Value, Error> {
    let [value] = bind("urlencode", values, ["value"])?;
    let value = needed(value, "value")?;
    let pairs = match Kind::of(&value) {
        Kind::Dict => pairs(&value),
        Kind::List | Kind::Tuple | Kind::View(_) | Kind::Generator(_) => {
            let each =
                kind::items(&value)?
                    .into_iter()
                    .map(|pair| match kind::items(&pair)?.as_slice() {
                        [key, value] => Ok((key.clone(), value.clone())),
                        _ => Err(wrong("urlencode takes pairs")),
                    });
            each.collect::<Result<_, Error>>()?
        }
        _ => return Ok(Value::from(quoted(&value, true))),
    };
    let each = pairs.iter();
    let each = each.map(|(key, value)| [quoted(key, false), quoted(value, false)].join("="));
    Ok(Value::from(each.collect::<Vec<_>>().join("&")))
}

pub(super) fn xmlattr(_: &mut State, values: &[Value]) -> Result<Value, Error> {
    let [value, space] = bind("xmlattr", values, ["d", "autospace"])?;
    let value = needed(value, "d")?;
    if !matches!(Kind::of(&value), Kind::Dict) {
        return Err(wrong("xmlattr takes a dict"));
    }
    let mut attributes = Vec::new();
    for (key, value) in pairs(&value) {
        if value.is_none() || value.is_undefined() {
            continue;
        }
        let name = text::str(&key);
        if name.contains([' ', '\t', '\n', '\r', '\x0b', '\x0c', '/', '>', '=']) {
            return Err(wrong("Invalid character in attribute name"));
        }
        attributes.push(std::format!(
            "{}=\"{}\"",
            text::escaped(&key),
            text::escaped(&value)
        ));
    }
    let joined = attributes.join(" ");
    let space = space.is_none_or(|space| space.is_true()) && !joined.is_empty();
    Ok(Value::from(if space {
        " ".to_owned() + &joined
    } else {
        joined
    }))
}

/// `pprint.pformat` of a value that fits a line.
pub(super) fn pprint(_: &mut State, values: &[Value]) -> Result<Value, Error> {
    let [value] = bind("pprint", values, ["value"])?;
    let written = text::repr(&sorted(&needed(value, "value")?)?);
    if written.chars().count() > 80 {
        return Err(wrong("pprint of more than a line is not supported"));
    }
    Ok(Value::from(written))
}

/// A value whose dicts are sorted.
fn sorted(value: &Value) -> Result<Value, Error> {
    Ok(match Kind::of(value) {
        Kind::Dict => {
            let mut pairs = pairs(value);
            pairs.sort_by(|(one, _), (other, _)| one.cmp(other));
            let pairs = pairs
                .into_iter()
                .map(|(key, value)| Ok((key, sorted(&value)?)));
            Value::from_pairs(pairs.collect::<Result<Vec<_>, Error>>()?)
        }
        Kind::List => {
            let items = kind::items(value)?;
            let items = items
                .iter()
                .map(sorted)
                .collect::<Result<Vec<_>, Error>>()?;
            Value::from(items)
        }
        _ => value.clone(),
    })
}
