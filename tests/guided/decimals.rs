//! Decimal numbers that no double represents, for a validator that uses doubles. Other numbers replace them with the
//! same order against every number of the schema, and the same integrality and divisibility. The comparison is exact.

use std::iter::successors;
use std::str::FromStr;

use bigdecimal::{BigDecimal, ToPrimitive as _, Zero as _};
use serde_json::Value;

/// Digits that every double represents.
const HELD: usize = 15;
/// Larger than all numbers of the schemas.
const EXPONENT: i64 = 2000;
/// Doubles to try above and below the nearest one.
const NEIGHBOURS: usize = 64;

/// Parses a number. Its exponent is clamped to the significant range. Returns `None` for other texts.
fn decimal(text: &str) -> Option<BigDecimal> {
    let (digits, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let exponent = exponent.parse().unwrap_or_else(|_| {
        if exponent.starts_with('-') {
            -EXPONENT
        } else {
            EXPONENT
        }
    });
    let exponent = exponent.clamp(-EXPONENT, EXPONENT);
    BigDecimal::from_str(&format!("{digits}e{exponent}")).ok()
}

/// Splits a JSON text into parts: whether each is a number, and its text.
fn parts(json: &str) -> Vec<(bool, String)> {
    let mut parts: Vec<(bool, String)> = Vec::new();
    let (mut quoted, mut escaped, mut number) = (false, false, false);
    for c in json.chars() {
        // The letter of an exponent follows a digit.
        number = !quoted && (c.is_ascii_digit() || c == '-' || number && ".eE+".contains(c));
        match parts.last_mut() {
            Some((known, text)) if *known == number => text.push(c),
            _ => parts.push((number, c.into())),
        }
        quoted ^= c == '"' && !escaped;
        escaped = quoted && c == '\\' && !escaped;
    }
    parts
}

/// All divisors in a schema.
fn multiples(schema: &Value, found: &mut Vec<BigDecimal>) {
    match schema {
        Value::Object(members) => {
            let of = members.get("multipleOf").map(Value::to_string);
            found.extend(of.and_then(|of| decimal(&of)).filter(|of| !of.is_zero()));
            members.values().for_each(|member| multiples(member, found));
        }
        Value::Array(items) => items.iter().for_each(|item| multiples(item, found)),
        _ => {}
    }
}

/// The replacements of an answer's numbers.
struct Doubles {
    /// Numbers of the schema.
    known: Vec<BigDecimal>,
    multiples: Vec<BigDecimal>,
    /// Replaced numbers. Different numbers stay different.
    taken: Vec<(BigDecimal, f64)>,
}

impl Doubles {
    fn is_like(&self, double: f64, number: &BigDecimal) -> bool {
        let Ok(exact) = BigDecimal::try_from(double) else {
            return false;
        };
        // A parser may be off by one.
        let read = serde_json::from_str::<f64>(&format!("{double:?}"));
        if !read.is_ok_and(|read| read.to_bits() == double.to_bits()) {
            return false;
        }
        let mut known = self.known.iter();
        let mut multiples = self.multiples.iter();
        exact.is_integer() == number.is_integer()
            && known.all(|known| exact.cmp(known) == number.cmp(known))
            && multiples.all(|of| (&exact % of).is_zero() == (number % of).is_zero())
    }

    fn stand_in(&mut self, number: BigDecimal) -> Option<f64> {
        if let Some((_, double)) = self.taken.iter().find(|(known, _)| *known == number) {
            return Some(*double);
        }
        let nearest = number.to_f64()?.clamp(f64::MIN, f64::MAX);
        let up = successors(Some(nearest), |one| Some(one.next_up())).take(NEIGHBOURS);
        let down = successors(Some(nearest), |one| Some(one.next_down())).take(NEIGHBOURS);
        // Large doubles are all even.
        let bases = self.known.iter().filter_map(BigDecimal::to_f64);
        let bases: Vec<_> = bases.chain([0.0]).collect();
        let near = bases.into_iter().flat_map(|base| {
            (-1000..=1000).flat_map(move |by| [base + f64::from(by), base + f64::from(by) / 64.0])
        });
        let mut all = up.chain(down).chain(near);
        let found = all.find(|double| {
            let is_taken = |(_, taken): &(_, f64)| taken.to_bits() == double.to_bits();
            !self.taken.iter().any(is_taken) && self.is_like(*double, &number)
        })?;
        self.taken.push((number, found));
        Some(found)
    }
}

/// Returns an answer for a validator with doubles, or `None` if there is none.
pub(crate) fn as_doubles(answer: &str, schema: &Value) -> Option<String> {
    let of_schema = parts(&schema.to_string());
    let of_schema = of_schema.iter().filter(|(is_number, _)| *is_number);
    let mut doubles = Doubles {
        known: of_schema.filter_map(|(_, text)| decimal(text)).collect(),
        multiples: Vec::new(),
        taken: Vec::new(),
    };
    multiples(schema, &mut doubles.multiples);
    let part = |(is_number, text): (bool, String)| {
        let is_held = text.len() <= HELD && !text.contains(['e', 'E']);
        if !is_number || is_held {
            return Some(text);
        }
        let number = decimal(&text)?;
        if let Some(known) = doubles.known.iter().find(|known| **known == number) {
            return Some(known.to_string());
        }
        doubles.stand_in(number).map(|double| format!("{double:?}"))
    };
    parts(answer).into_iter().map(part).collect()
}

#[test]
fn a_replacement_has_the_same_properties() {
    use serde_json::json;
    let judged = |answer: &str, schema: &Value| {
        let answer = as_doubles(answer, schema).expect("something does");
        let json = serde_json::from_str(&answer).expect("it is JSON");
        jsonschema::is_valid(schema, &json)
    };
    // As doubles all of these are 3.
    let below = json!({"type": "number", "exclusiveMaximum": 3});
    assert!(judged("2.99999999999999999999", &below));
    assert!(!judged("3.00000000000000000001", &below));
    assert!(!judged("30000000000000000000e-19", &below));
    assert!(judged("-1e999", &below) && !judged("1e99999999999999999999", &below));
    let whole = json!({"type": "array", "items": {"type": "integer"}, "uniqueItems": true});
    assert!(judged("[1e999, 1e998, 12345678901234567]", &whole));
    assert!(!judged("[1e999, 1E+999]", &whole) && !judged("[1e-999]", &whole));
    let odd = json!({"not": {"multipleOf": 2}, "minimum": 2});
    assert!(judged("12345678901234567891", &odd) && !judged("12345678901234567892", &odd));
    let text = json!({"const": "1e999"});
    assert!(judged("\"1e999\"", &text) && !judged("\"1e998\"", &text));
    assert_eq!(
        as_doubles(r#"{"a\"1e9": 0.1}"#, &text).as_deref(),
        Some(r#"{"a\"1e9": 0.1}"#)
    );
}
