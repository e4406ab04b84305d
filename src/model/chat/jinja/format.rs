//! Python's two ways to format: `%` and braces.

use minijinja::{Error, Value};

use super::kind::{Kind, count, int_of, items, wrong};
use super::lookup::lookup;
use super::text;

/// Flags, width and precision of one conversion.
#[derive(Clone, Debug, Default)]
struct Spec {
    fill: Option<char>,
    align: Option<char>,
    sign: Option<char>,
    alternate: bool,
    grouping: Option<char>,
    width: usize,
    precision: Option<usize>,
    conversion: Option<char>,
}

/// `format % values`.
pub(super) fn percent(format: &str, values: &Value) -> Result<String, Error> {
    let tuple = match Kind::of(values) {
        Kind::Tuple => Some(items(values)?),
        _ => None,
    };
    let is_mapping = matches!(Kind::of(values), Kind::Dict);
    let mut next = tuple.unwrap_or_else(|| vec![values.clone()]).into_iter();
    let mut used = false;
    let mut written = String::new();
    let mut rest = format;
    while let Some((before, after)) = rest.split_once('%') {
        written.push_str(before);
        let mut after = after;
        let key = match after
            .strip_prefix('(')
            .and_then(|rest| rest.split_once(')'))
        {
            Some((key, behind)) => {
                after = behind;
                Some(Value::from(key))
            }
            None => None,
        };
        let mut argument = || {
            used = true;
            let argument = match &key {
                Some(key) if is_mapping => {
                    Some(lookup(values, key)?).filter(|value| !value.is_undefined())
                }
                Some(_) => return Err(wrong("format requires a mapping")),
                None => next.next(),
            };
            argument.ok_or_else(|| wrong("not enough arguments for format string"))
        };
        let flags = after.len() - after.trim_start_matches(['-', '+', ' ', '#', '0']).len();
        let (flags, behind) = after.split_at(flags);
        let mut spec = Spec {
            sign: ['+', ' '].into_iter().find(|c| flags.contains(*c)),
            alternate: flags.contains('#'),
            ..Spec::default()
        };
        let left = flags.contains('-');
        let mut behind = behind;
        match number(&mut behind, &mut argument)? {
            Some(width) if width < 0 => {
                spec.align = Some('<');
                spec.width = count(-width, 4)?;
            }
            width => spec.width = count(width.unwrap_or(0), 4)?,
        }
        if let Some(precise) = behind.strip_prefix('.') {
            behind = precise;
            let precision = number(&mut behind, &mut argument)?;
            spec.precision = Some(count(precision.unwrap_or(0), 4)?);
        }
        behind = behind.trim_start_matches(['h', 'l', 'L']);
        let mut chars = behind.chars();
        let conversion = chars.next().ok_or_else(|| wrong("incomplete format"))?;
        rest = chars.as_str();
        if conversion == '%' {
            written.push('%');
            continue;
        }
        let value = argument()?;
        let is_number = !matches!(conversion, 's' | 'r' | 'a' | 'c');
        if left {
            spec.align = Some('<');
        } else if flags.contains('0') && is_number {
            (spec.fill, spec.align) = (Some('0'), Some('='));
        } else if spec.align.is_none() {
            spec.align = Some('>');
        }
        written.push_str(&converted(&value, conversion, spec)?);
    }
    written.push_str(rest);
    let left_over = match Kind::of(values) {
        Kind::Tuple => next.next().is_some(),
        Kind::Dict | Kind::List => false,
        _ => !used,
    };
    if left_over {
        return Err(wrong(
            "not all arguments converted during string formatting",
        ));
    }
    Ok(written)
}

/// A width or precision: digits, or `*` for an argument.
fn number(
    rest: &mut &str,
    argument: &mut impl FnMut() -> Result<Value, Error>,
) -> Result<Option<i128>, Error> {
    if let Some(behind) = rest.strip_prefix('*') {
        *rest = behind;
        return int_of(&argument()?).map(Some);
    }
    let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (digits, behind) = rest.split_at(digits);
    *rest = behind;
    if digits.is_empty() {
        return Ok(None);
    }
    let number = digits.parse().map_err(|_| wrong("width too big"))?;
    Ok(Some(number))
}

/// One conversion of `%`.
fn converted(value: &Value, conversion: char, mut spec: Spec) -> Result<String, Error> {
    let kind = Kind::of(value);
    match conversion {
        's' | 'r' | 'a' => {
            let whole = if conversion == 's' {
                text::str(value)
            } else {
                text::repr(value)
            };
            let cut = match spec.precision {
                Some(precision) => whole.chars().take(precision).collect(),
                None => whole,
            };
            Ok(aligned("", &cut, &spec, '>'))
        }
        'c' => {
            let text = match (kind.int(), &kind) {
                (Some(code), _) => {
                    let c = u32::try_from(code).ok().and_then(char::from_u32);
                    c.map(String::from)
                }
                (None, Kind::Text(text)) if text.chars().count() == 1 => Some((*text).to_owned()),
                _ => None,
            };
            let text = text.ok_or_else(|| wrong("%c requires int or char"))?;
            Ok(aligned("", &text, &spec, '>'))
        }
        'd' | 'i' | 'u' => {
            let int = match kind {
                Kind::Float(number) => whole(number)?,
                ref kind => kind.int().ok_or_else(|| {
                    let name = kind.name();
                    wrong(format!("%d format: a real number is required, not {name}"))
                })?,
            };
            spec.conversion = Some('d');
            number_text(&Kind::Int(int), &spec)
        }
        'x' | 'X' | 'o' => {
            let int = kind
                .int()
                .ok_or_else(|| wrong(format!("%{conversion} format: an integer is required")))?;
            spec.conversion = Some(conversion);
            number_text(&Kind::Int(int), &spec)
        }
        'e' | 'E' | 'f' | 'F' | 'g' | 'G' => {
            let number = kind
                .float()
                .ok_or_else(|| wrong(format!("must be real number, not {}", kind.name())))?;
            spec.conversion = Some(conversion);
            number_text(&Kind::Float(number), &spec)
        }
        other => Err(wrong(format!("unsupported format character {other:?}"))),
    }
}

/// `int` of a float.
#[allow(clippy::cast_possible_truncation)] // what is out of range is an error
pub(super) fn whole(number: f64) -> Result<i128, Error> {
    if number.is_finite() && number.abs() < 1e38 {
        Ok(number.trunc() as i128)
    } else {
        Err(wrong("cannot convert the float to an integer"))
    }
}

/// `sign` and `body` in a field.
fn aligned(sign: &str, body: &str, spec: &Spec, default: char) -> String {
    let length = sign.chars().count() + body.chars().count();
    let missing = spec.width.saturating_sub(length);
    let fill = |count: usize| spec.fill.unwrap_or(' ').to_string().repeat(count);
    match spec.align.unwrap_or(default) {
        '<' => [sign, body, &fill(missing)].concat(),
        '^' => [&fill(missing / 2), sign, body, &fill(missing - missing / 2)].concat(),
        '=' => [sign, &fill(missing), body].concat(),
        _ => [&fill(missing), sign, body].concat(),
    }
}

/// A number in a field, by the rules of `format()`.
fn number_text(number: &Kind, spec: &Spec) -> Result<String, Error> {
    let (negative, mut body) = match number {
        Kind::Int(int) => {
            let size = int.unsigned_abs();
            let body = match spec.conversion {
                None | Some('d' | 'n') => size.to_string(),
                Some('x') => format!("{size:x}"),
                Some('X') => format!("{size:X}"),
                Some('o') => format!("{size:o}"),
                Some('b') => format!("{size:b}"),
                Some(other) => return Err(wrong(format!("unknown format code {other:?}"))),
            };
            (*int < 0, body)
        }
        Kind::Float(float) => {
            let body = float_text(float.abs(), spec)?;
            (float.is_sign_negative() && !float.is_nan(), body)
        }
        _ => return Err(wrong("a number is required")),
    };
    let prefix = match spec.conversion {
        Some(c @ ('x' | 'X' | 'o' | 'b')) if spec.alternate => format!("0{c}"),
        _ => String::new(),
    };
    if let Some(separator) = spec.grouping {
        body = grouped(&body, separator);
    }
    let sign = match spec.sign {
        _ if negative => "-",
        Some('+') => "+",
        Some(' ') => " ",
        _ => "",
    };
    Ok(aligned(&[sign, &prefix].concat(), &body, spec, '>'))
}

/// Digits with a separator between thousands.
fn grouped(body: &str, separator: char) -> String {
    let digits = body.len() - body.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (digits, rest) = body.split_at(digits);
    let mut written = String::new();
    for (at, c) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at) % 3 == 0 {
            written.push(separator);
        }
        written.push(c);
    }
    written + rest
}

fn float_text(number: f64, spec: &Spec) -> Result<String, Error> {
    let upper = spec.conversion.is_some_and(|c| c.is_ascii_uppercase());
    let cased = |text: String| if upper { text.to_uppercase() } else { text };
    if !number.is_finite() {
        let percent = if spec.conversion == Some('%') {
            "%"
        } else {
            ""
        };
        return Ok(cased(text::float(number)) + percent);
    }
    // Python has no more digits than a float has.
    let precision = spec.precision.unwrap_or(6).min(1100);
    let text = match spec.conversion.map(|c| c.to_ascii_lowercase()) {
        Some('f') => format!("{number:.precision$}"),
        Some('%') => format!("{:.precision$}%", number * 100.0),
        Some('e') => exponent(&format!("{number:.precision$e}")),
        Some('g') => general(number, precision.max(1), spec.alternate),
        None if spec.precision.is_some() => {
            let text = general(number, precision.max(1), false);
            let plain = !text.contains(['.', 'e']);
            if plain { text + ".0" } else { text }
        }
        None => text::float(number),
        Some(other) => return Err(wrong(format!("unknown format code {other:?}"))),
    };
    Ok(cased(text))
}

/// Python's exponents have a sign and two digits.
fn exponent(text: &str) -> String {
    let (digits, exponent) = text.split_once('e').unwrap_or((text, "0"));
    let (sign, exponent) = match exponent.strip_prefix('-') {
        Some(exponent) => ('-', exponent),
        None => ('+', exponent),
    };
    format!("{digits}e{sign}{exponent:0>2}")
}

fn general(number: f64, precision: usize, keep: bool) -> String {
    let scientific = format!("{number:.*e}", precision - 1);
    let (_, power) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let power: i64 = power.parse().unwrap_or_default();
    let places = i64::try_from(precision).unwrap_or(i64::MAX);
    let trimmed = |text: &str| {
        if keep || !text.contains('.') {
            return text.to_owned();
        }
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    };
    if power < -4 || power >= places {
        let (digits, power) = scientific.split_once('e').unwrap_or((&scientific, "0"));
        exponent(&format!("{}e{power}", trimmed(digits)))
    } else {
        let decimals = usize::try_from(places - 1 - power).unwrap_or_default();
        trimmed(&format!("{number:.decimals$}"))
    }
}

/// `str.format`.
pub(super) fn braces(
    format: &str,
    positional: &[Value],
    named: &[(String, Value)],
) -> Result<String, Error> {
    let mut automatic = 0;
    filled(format, positional, named, &mut automatic, 0)
}

fn filled(
    format: &str,
    positional: &[Value],
    named: &[(String, Value)],
    automatic: &mut usize,
    depth: usize,
) -> Result<String, Error> {
    let mut written = String::new();
    let mut rest = format;
    while let Some(at) = rest.find(['{', '}']) {
        let (before, after) = rest.split_at(at);
        written.push_str(before);
        if after.starts_with("{{") || after.starts_with("}}") {
            written.push_str(after.get(..1).unwrap_or_default());
            rest = after.get(2..).unwrap_or_default();
            continue;
        }
        if after.starts_with('}') {
            return Err(wrong("single '}' encountered in format string"));
        }
        let end = closing(after).ok_or_else(|| wrong("expected '}' before end of string"))?;
        let field = after.get(1..end).unwrap_or_default();
        rest = after.get(end + 1..).unwrap_or_default();
        if depth > 1 {
            return Err(wrong("max string recursion exceeded"));
        }
        let (name, spec) = match field.split_once(':') {
            Some((name, spec)) => (name, spec),
            None => (field, ""),
        };
        let (name, conversion) = match name.split_once('!') {
            Some((name, conversion)) => (name, Some(conversion)),
            None => (name, None),
        };
        let value = field_value(name, positional, named, automatic)?;
        let value = match conversion {
            None => value,
            Some("s") => Value::from(text::str(&value)),
            Some("r" | "a") => Value::from(text::repr(&value)),
            Some(_) => return Err(wrong("unknown conversion specifier")),
        };
        let spec = filled(spec, positional, named, automatic, depth + 1)?;
        written.push_str(&formatted(&value, &spec)?);
    }
    Ok(written + rest)
}

/// Returns the end of the brace at the beginning of a text.
fn closing(text: &str) -> Option<usize> {
    let mut depth = 0_usize;
    for (at, c) in text.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 1 => return Some(at),
            '}' => depth -= 1,
            _ => {}
        }
    }
    None
}

fn field_value(
    name: &str,
    positional: &[Value],
    named: &[(String, Value)],
    automatic: &mut usize,
) -> Result<Value, Error> {
    let cut = name.find(['.', '[']).unwrap_or(name.len());
    let (first, mut path) = name.split_at(cut);
    let index = if first.is_empty() {
        *automatic += 1;
        Some(*automatic - 1)
    } else {
        first.parse().ok()
    };
    let mut value = if let Some(index) = index {
        positional.get(index).cloned()
    } else {
        let mut named = named.iter();
        named
            .find(|(name, _)| name == first)
            .map(|(_, value)| value.clone())
    }
    .ok_or_else(|| wrong(format!("no argument for the field {first:?}")))?;
    while !path.is_empty() {
        let (key, behind) = if let Some(rest) = path.strip_prefix('[') {
            rest.split_once(']')
                .ok_or_else(|| wrong("missing ']' in format string"))?
        } else {
            let rest = path.get(1..).unwrap_or_default();
            rest.split_at(rest.find(['.', '[']).unwrap_or(rest.len()))
        };
        let key = key
            .parse::<i64>()
            .map_or_else(|_| Value::from(key), Value::from);
        value = lookup(&value, &key)?;
        path = behind;
    }
    Ok(value)
}

/// `format(value, spec)`.
fn formatted(value: &Value, spec: &str) -> Result<String, Error> {
    if spec.is_empty() {
        return Ok(text::str(value));
    }
    let spec = parsed(spec)?;
    let kind = Kind::of(value);
    match kind {
        Kind::Text(text) => {
            if !matches!(spec.conversion, None | Some('s')) || spec.align == Some('=') {
                return Err(wrong("unknown format code for object of type 'str'"));
            }
            let cut: String = match spec.precision {
                Some(precision) => text.chars().take(precision).collect(),
                None => text.to_owned(),
            };
            Ok(aligned("", &cut, &spec, '<'))
        }
        Kind::Int(_) | Kind::Bool(_) => match spec.conversion {
            Some('e' | 'E' | 'f' | 'F' | 'g' | 'G' | '%') => {
                number_text(&Kind::Float(kind.float().unwrap_or_default()), &spec)
            }
            Some('c') => converted(value, 'c', spec),
            _ if spec.precision.is_some() => {
                Err(wrong("Precision not allowed in integer format specifier"))
            }
            _ => number_text(&Kind::Int(kind.int().unwrap_or_default()), &spec),
        },
        Kind::Float(_) => number_text(&kind, &spec),
        other => Err(wrong(format!(
            "unsupported format string passed to {}.__format__",
            other.name()
        ))),
    }
}

fn parsed(text: &str) -> Result<Spec, Error> {
    const ALIGNS: [char; 4] = ['<', '>', '=', '^'];
    let invalid = || wrong("invalid format specifier");
    let mut spec = Spec::default();
    let mut rest = text;
    let mut chars = text.chars();
    match (chars.next(), chars.next()) {
        (Some(fill), Some(align)) if ALIGNS.contains(&align) => {
            (spec.fill, spec.align) = (Some(fill), Some(align));
            rest = chars.as_str();
        }
        (Some(align), _) if ALIGNS.contains(&align) => {
            spec.align = Some(align);
            rest = text.get(1..).unwrap_or_default();
        }
        _ => {}
    }
    if let Some(behind) = rest.strip_prefix(['+', '-', ' ']) {
        spec.sign = rest.chars().next();
        rest = behind;
    }
    if let Some(behind) = rest.strip_prefix('#') {
        spec.alternate = true;
        rest = behind;
    }
    if let Some(behind) = rest.strip_prefix('0') {
        spec.fill = spec.fill.or(Some('0'));
        spec.align = spec.align.or(Some('='));
        rest = behind;
    }
    let mut none = || Err(invalid());
    if !rest.starts_with('*') {
        spec.width = count(number(&mut rest, &mut none)?.unwrap_or(0), 4)?;
    }
    if let Some(behind) = rest.strip_prefix([',', '_']) {
        spec.grouping = rest.chars().next();
        rest = behind;
    }
    if let Some(mut behind) = rest.strip_prefix('.') {
        let precision = number(&mut behind, &mut none)?.ok_or_else(invalid)?;
        spec.precision = Some(count(precision, 4)?);
        rest = behind;
    }
    let mut chars = rest.chars();
    spec.conversion = chars.next();
    match chars.next() {
        None => Ok(spec),
        Some(_) => Err(invalid()),
    }
}

/// `format` as a filter.
pub(super) fn filter(
    format: &str,
    positional: &[Value],
    named: Vec<(String, Value)>,
) -> Result<String, Error> {
    use minijinja::value::Tuple;
    match (positional, named.is_empty()) {
        (_, true) => percent(format, &Tuple::from(positional.to_vec()).into()),
        ([], false) => percent(format, &Value::from_pairs(named)),
        _ => Err(wrong(
            "can't handle positional and keyword arguments at the same time",
        )),
    }
}

/// Digits after the point, rounded half to even as Python rounds.
pub(super) fn rounded(number: f64, digits: i128) -> f64 {
    if !number.is_finite() {
        return number;
    }
    if let Ok(digits) = usize::try_from(digits) {
        format!("{number:.*}", digits.min(400))
            .parse()
            .unwrap_or(number)
    } else {
        let power = i32::try_from(digits.unsigned_abs().min(400)).unwrap_or(400);
        let unit = 10_f64.powi(power);
        (number / unit).round_ties_even() * unit
    }
}
