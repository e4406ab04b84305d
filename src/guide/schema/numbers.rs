//! Rewrites bounds and multiples of numbers.

use serde_json::{Number, Value};

use super::node::Node;

/// The largest bound that llguidance takes: the largest double below 2 to the power of 63.
pub(in crate::guide) const LIMIT: i64 = 9_223_372_036_854_774_784;

/// From here on, the next whole number may not be a double.
const INEXACT: f64 = 9_007_199_254_740_992.0;

/// The bounds on one side. Lower bounds may be raised, and upper ones lowered.
struct Side {
    inclusive: &'static str,
    exclusive: &'static str,
    is_lower: bool,
}

const SIDES: [Side; 2] = [
    Side {
        inclusive: "minimum",
        exclusive: "exclusiveMinimum",
        is_lower: true,
    },
    Side {
        inclusive: "maximum",
        exclusive: "exclusiveMaximum",
        is_lower: false,
    },
];

/// Keywords that count something.
const COUNTS: [&str; 6] = [
    "maxItems",
    "maxLength",
    "maxProperties",
    "minItems",
    "minLength",
    "minProperties",
];

pub(super) fn fit(node: &mut Node<'_>) {
    for keyword in COUNTS {
        let count = node.members.get(keyword).filter(|count| count.is_f64());
        let count = count.and_then(Value::as_f64).and_then(whole);
        if let Some(count) = count.filter(|count| *count >= 0) {
            // 2.0 is a whole number as well.
            node.members.insert(keyword.to_owned(), count.into());
        }
    }
    for side in &SIDES {
        side.fit(node);
    }
    for keyword in ["const", "enum"] {
        if let Some(number) = node.members.get(keyword).and_then(inexact) {
            let why = format!(
                "{number} cannot be distinguished from the whole numbers next to it, because numbers are doubles"
            );
            node.give_up(keyword, why);
        }
    }
    multiples(node);
}

impl Side {
    /// Rewrites bounds that llguidance would not take, or would take for others.
    fn fit(&self, node: &mut Node<'_>) {
        self.include(node);
        for keyword in [self.inclusive, self.exclusive] {
            let Some(bound) = node.members.get(keyword).and_then(Value::as_number) else {
                continue;
            };
            let narrower = narrowed(bound, self.is_lower);
            if self.excludes(narrower.as_ref().unwrap_or(bound)) {
                self.give_up(node, keyword);
            } else if let Some(narrower) = narrower {
                node.members.insert(keyword.to_owned(), narrower.into());
            }
        }
    }

    /// Replaces a far exclusive bound by an inclusive one, because llguidance would add 1 to it.
    fn include(&self, node: &mut Node<'_>) {
        let exclusive = match node.members.get(self.exclusive) {
            // In draft 4, it is a property of the other bound.
            Some(Value::Bool(true)) => node.members.get(self.inclusive),
            exclusive => exclusive,
        };
        let far = exclusive.and_then(Value::as_number);
        let is_far = |bound: &&Number| bound.as_f64().is_some_and(|one| one.abs() >= INEXACT);
        let Some(far) = far.filter(is_far) else {
            return;
        };
        let Some(next) = narrowed(far, self.is_lower).or_else(|| self.next(far)) else {
            return;
        };
        if self.excludes(&next) {
            self.give_up(node, self.exclusive);
            return;
        }
        node.members.shift_remove(self.exclusive);
        let own = node.members.get(self.inclusive).and_then(Value::as_f64);
        let is_narrower = |own| {
            next.as_f64()
                .is_some_and(|next| (own < next) == self.is_lower)
        };
        if own.is_none_or(is_narrower) {
            node.members.insert(self.inclusive.to_owned(), next.into());
        }
    }

    /// Returns the nearest double beyond a double.
    fn next(&self, bound: &Number) -> Option<Number> {
        let double = bound.as_f64()?;
        of_double(if self.is_lower {
            double.next_up()
        } else {
            double.next_down()
        })
    }

    /// Whether a bound excludes all numbers that llguidance can bound.
    #[allow(clippy::cast_precision_loss)]
    fn excludes(&self, bound: &Number) -> bool {
        let limit = LIMIT as f64;
        bound.as_f64().is_some_and(|bound| {
            if self.is_lower {
                bound > limit
            } else {
                bound < -limit
            }
        })
    }

    fn give_up(&self, node: &mut Node<'_>, keyword: &str) {
        let limit = if self.is_lower { LIMIT } else { -LIMIT };
        let bound = node.members.get(keyword).cloned().unwrap_or_default();
        node.give_up(
            keyword,
            format!("{keyword:?} of {bound} cannot be enforced: the farthest bound is {limit}"),
        );
    }
}

/// Writes a double, as a whole number if it is one.
#[allow(clippy::cast_possible_truncation)]
fn of_double(double: f64) -> Option<Number> {
    let whole = (double.fract() == 0.0).then_some(double as i128);
    whole
        .and_then(Number::from_i128)
        .or_else(|| Number::from_f64(double))
}

/// Returns the bound that is used instead: a double not beyond `LIMIT`; `None` if this one is usable.
#[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation)]
fn narrowed(bound: &Number, is_lower: bool) -> Option<Number> {
    let limit = i128::from(LIMIT);
    let whole = bound.as_i64().map(i128::from);
    let Some(whole) = whole.or_else(|| bound.as_u64().map(i128::from)) else {
        let double = bound.as_f64()?;
        let (limit, is_beyond) = if is_lower {
            (-LIMIT, double < -LIMIT as f64)
        } else {
            (LIMIT, double > LIMIT as f64)
        };
        return is_beyond.then(|| limit.into());
    };
    let mut double = whole as f64;
    if is_lower && (double as i128) < whole {
        double = double.next_up();
    } else if !is_lower && (double as i128) > whole {
        double = double.next_down();
    }
    let narrower = if is_lower {
        (double as i128).max(-limit)
    } else {
        (double as i128).min(limit)
    };
    if narrower == whole {
        return None;
    }
    of_double(narrower as f64)
}

/// Returns a whole number in it that a double cannot represent.
pub(in crate::guide) fn inexact(json: &Value) -> Option<&Value> {
    match json {
        Value::Number(number) => {
            let whole = number.as_i64().map(i128::from);
            let whole = whole.or_else(|| number.as_u64().map(i128::from))?;
            #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation)]
            let nearest = whole as f64 as i128;
            (nearest != whole).then_some(json)
        }
        Value::Array(items) => items.iter().find_map(inexact),
        Value::Object(members) => members.values().find_map(inexact),
        _ => None,
    }
}

/// The most multiples that are listed instead of computed.
const LISTED: i64 = 1024;
/// The largest number whose multiples are computed: a larger one needs too many states.
const COMPUTED: i64 = 500;
/// The range of multiples without bounds, so that an answer ends.
const FAR: i64 = 1_000_000;

fn multiples(node: &mut Node<'_>) {
    let members = &node.members;
    let Some(number) = members.get("multipleOf").and_then(Value::as_f64) else {
        return;
    };
    let kind = members.get("type").and_then(Value::as_str);
    let is_whole = kind == Some("integer");
    let is_number = is_whole || kind == Some("number");
    let Some(of) = Decimal::of(number) else {
        node.give_up("multipleOf", too_many(number));
        return;
    };
    if is_whole && of.digits == 1 && of.exponent == 0 {
        node.members.shift_remove("multipleOf");
        return;
    }
    let (least, most) = range(node, number);
    let count = least
        .zip(most)
        .map(|(least, most)| most.saturating_sub(least));
    let is_listed = ["enum", "const"]
        .iter()
        .any(|keyword| node.members.contains_key(*keyword));
    // Some multiples of a fraction are whole numbers, and others are not.
    let can_list = is_number && !is_listed && (of.exponent == 0 || !is_whole);
    let listed = count.is_some_and(|count| count < LISTED) && can_list;
    if let (Some((least, most)), true) = (least.zip(most), listed) {
        let each = (least..=most).map(|at| of.times(at));
        node.members.insert("enum".into(), each.collect());
        for keyword in [
            "multipleOf",
            "minimum",
            "maximum",
            "exclusiveMinimum",
            "exclusiveMaximum",
        ] {
            node.members.shift_remove(keyword);
        }
    } else if of.digits > COMPUTED {
        node.give_up("multipleOf", too_many(number));
    } else if of.exponent == 0 {
        let near = least.or(most).unwrap_or_default();
        for (keyword, bound, far) in [("minimum", least, -FAR), ("maximum", most, FAR)] {
            if bound.is_none() && !node.members.contains_key(keyword) {
                let bound = near.saturating_add(far).saturating_mul(of.digits);
                node.members.insert(keyword.into(), bound.into());
            }
        }
    }
}

/// Returns a double as a whole number, if it is one of moderate size.
#[allow(clippy::cast_possible_truncation)]
fn whole(double: f64) -> Option<i64> {
    (double.fract() == 0.0 && double.abs() < 9e15).then_some(double as i64)
}

fn too_many(of: f64) -> String {
    format!(
        "multiples of {of} can be enforced only between a minimum and a maximum with at most {LISTED} of them"
    )
}

/// Returns the first and the last multiple within the bounds, as factors of `of`.
#[allow(clippy::cast_possible_truncation)]
fn range(node: &Node<'_>, of: f64) -> (Option<i64>, Option<i64>) {
    // A quotient very close to a whole number counts as one: 0.3 is three times 0.1.
    let times = |keyword: &str| {
        let times = node.members.get(keyword)?.as_f64()? / of;
        let is_near = (times - times.round()).abs() < times.abs() * 1e-12;
        (times.abs() < 9e15).then_some(if is_near { times.round() } else { times })
    };
    let least = [
        times("minimum").map(f64::ceil),
        times("exclusiveMinimum").map(|times| times.floor() + 1.0),
    ];
    let most = [
        times("maximum").map(f64::floor),
        times("exclusiveMaximum").map(|times| times.ceil() - 1.0),
    ];
    let least = least.into_iter().flatten().reduce(f64::max);
    let most = most.into_iter().flatten().reduce(f64::min);
    (least.map(|at| at as i64), most.map(|at| at as i64))
}

/// A positive decimal number: its digits without the point, and the number of digits behind the point.
struct Decimal {
    digits: i64,
    exponent: u32,
}

impl Decimal {
    /// Parses a number; `None` if it has too many digits.
    fn of(number: f64) -> Option<Self> {
        const MOST: i64 = 1_000_000_000_000;
        let text = number.abs().to_string();
        let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
        let digits: i64 = format!("{whole}{fraction}").parse().ok()?;
        let exponent = u32::try_from(fraction.len()).ok()?;
        (0 < digits && digits < MOST).then_some(Self { digits, exponent })
    }

    fn times(&self, at: i64) -> Value {
        let digits = self.digits.saturating_mul(at);
        if self.exponent == 0 {
            return digits.into();
        }
        // Parsing is exact to the last digit, unlike a division.
        let text = format!("{digits}e-{}", self.exponent);
        text.parse::<f64>().unwrap_or_default().into()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::prepare;
    use super::*;

    #[test]
    fn bounds_are_doubles_and_multiples_are_few() {
        let after = |schema: Value| {
            let prepared = prepare(schema);
            (prepared.schema, prepared.unchecked.len())
        };
        let (int64, _) = after(json!({"minimum": i64::MIN, "maximum": i64::MAX}));
        assert_eq!(int64, json!({"minimum": -LIMIT, "maximum": LIMIT}));
        let (uint64, _) =
            after(json!({"exclusiveMinimum": 9_007_199_254_740_993_i64, "maximum": u64::MAX}));
        assert_eq!(
            uint64,
            json!({"maximum": LIMIT, "minimum": 9_007_199_254_740_994_i64})
        );
        for (exclusive, inclusive) in [
            (
                json!({"exclusiveMinimum": 9_007_199_254_740_992_i64, "minimum": 1}),
                json!({"minimum": 9_007_199_254_740_994_i64}),
            ),
            (
                json!({"maximum": -1e17, "exclusiveMaximum": true}),
                json!({"maximum": -100_000_000_000_000_016_i64}),
            ),
        ] {
            assert_eq!(after(exclusive), (inclusive, 0));
        }
        for far in [
            json!({"minimum": 1e300}),
            json!({"exclusiveMaximum": -LIMIT}),
        ] {
            assert_eq!(after(far), (json!({}), 1));
        }
        assert_eq!(
            after(json!({"maxItems": 2.0, "minLength": 0.5})).0,
            json!({"maxItems": 2, "minLength": 0.5})
        );
        let (single, _) = after(json!({"minimum": -3.4e38, "maximum": 3.4e38}));
        assert_eq!(single, json!({"minimum": -LIMIT, "maximum": LIMIT}));
        let (hours, lost) = after(
            json!({"type": "integer", "multipleOf": 3600, "minimum": 1, "exclusiveMaximum": 10_800}),
        );
        assert_eq!(
            (hours, lost),
            (json!({"type": "integer", "enum": [3600, 7200]}), 0)
        );
        assert_eq!(
            after(json!({"type": "integer", "multipleOf": 3600})),
            (json!({"type": "integer"}), 1)
        );
        let (steps, _) =
            after(json!({"type": "number", "multipleOf": 0.07, "minimum": 0, "maximum": 0.21}));
        assert_eq!(
            steps,
            json!({"type": "number", "enum": [0.0, 0.07, 0.14, 0.21]})
        );
        assert_eq!(after(json!({"multipleOf": 0.0501})).1, 1);
        let (seven, lost) = after(json!({"type": "integer", "multipleOf": 7, "minimum": 0}));
        assert_eq!(
            (seven, lost),
            (
                json!({"type": "integer", "multipleOf": 7, "minimum": 0, "maximum": 7 * FAR}),
                0
            )
        );
        assert_eq!(after(json!({"multipleOf": 0.01})).1, 0);
    }
}
