//! Python's operators.

use minijinja::value::Tuple;
use minijinja::{Error, State, Value};

use super::compare::{compare, unsupported};
use super::kind::{Kind, count, int, items, wrong};
use super::{format, text};

/// The operands that a rewritten expression passes.
fn two(values: &[Value]) -> Result<(&Value, &Value), Error> {
    match values {
        [left, right] => Ok((left, right)),
        _ => Err(wrong("an operator has two operands")),
    }
}

/// Applies an operator of numbers; `None` where an int would not fit.
fn numbers(
    operator: &str,
    left: &Value,
    right: &Value,
    ints: impl Fn(i128, i128) -> Option<i128>,
    floats: impl Fn(f64, f64) -> f64,
) -> Result<Value, Error> {
    let (left, right) = (Kind::of(left), Kind::of(right));
    if let (Some(left), Some(right)) = (left.int(), right.int()) {
        let result = ints(left, right);
        return result
            .map(int)
            .ok_or_else(|| wrong(format!("{left} {operator} {right} has no result")));
    }
    match (left.float(), right.float()) {
        (Some(left), Some(right)) => Ok(Value::from(floats(left, right))),
        _ => Err(unsupported(operator, &left, &right)),
    }
}

pub(super) fn add(_: &mut State, values: &[Value]) -> Result<Value, Error> {
    let (left, right) = two(values)?;
    sum(left, right)
}

pub(super) fn sum(left: &Value, right: &Value) -> Result<Value, Error> {
    match (Kind::of(left), Kind::of(right)) {
        (Kind::Text(_), Kind::Text(_)) if left.is_safe() || right.is_safe() => Ok(
            Value::from_safe_string(text::escaped(left) + &text::escaped(right)),
        ),
        (Kind::Text(left), Kind::Text(right)) => Ok(Value::from([left, right].concat())),
        (Kind::List, Kind::List) => Ok(Value::from([items(left)?, items(right)?].concat())),
        (Kind::Tuple, Kind::Tuple) => {
            Ok(Tuple::from([items(left)?, items(right)?].concat()).into())
        }
        _ => numbers("+", left, right, i128::checked_add, |left, right| {
            left + right
        }),
    }
}

pub(super) fn sub(_: &mut State, values: &[Value]) -> Result<Value, Error> {
    let (left, right) = two(values)?;
    numbers("-", left, right, i128::checked_sub, |left, right| {
        left - right
    })
}

pub(super) fn mul(_: &mut State, values: &[Value]) -> Result<Value, Error> {
    let (left, right) = two(values)?;
    match (Kind::of(left), Kind::of(right)) {
        (Kind::Text(text), times) | (times, Kind::Text(text)) if times.int().is_some() => {
            let times = count(times.int().unwrap_or_default(), text.len().max(1))?;
            Ok(Value::from(text.repeat(times)))
        }
        (kind @ (Kind::List | Kind::Tuple), times) if times.int().is_some() => {
            repeated(left, &kind, &times)
        }
        (times, kind @ (Kind::List | Kind::Tuple)) if times.int().is_some() => {
            repeated(right, &kind, &times)
        }
        _ => numbers("*", left, right, i128::checked_mul, |left, right| {
            left * right
        }),
    }
}

fn repeated(value: &Value, kind: &Kind, times: &Kind) -> Result<Value, Error> {
    let items = items(value)?;
    let bytes = items.len().max(1) * size_of::<Value>();
    let times = count(times.int().unwrap_or_default(), bytes)?;
    let items = vec![items; times].concat();
    Ok(match kind {
        Kind::Tuple => Tuple::from(items).into(),
        _ => Value::from(items),
    })
}

pub(super) fn div(_: &mut State, values: &[Value]) -> Result<Value, Error> {
    let (left, right) = two(values)?;
    let (left, right) = (Kind::of(left), Kind::of(right));
    match (left.float(), right.float()) {
        (Some(_), Some(0.0)) => Err(wrong("division by zero")),
        (Some(left), Some(right)) => Ok(Value::from(left / right)),
        _ => Err(unsupported("/", &left, &right)),
    }
}

fn not_by_zero(value: &Value) -> Result<(), Error> {
    match Kind::of(value).float() {
        Some(0.0) => Err(wrong("integer division or modulo by zero")),
        _ => Ok(()),
    }
}

pub(super) fn int_div(_: &mut State, values: &[Value]) -> Result<Value, Error> {
    let (left, right) = two(values)?;
    not_by_zero(right)?;
    let ints = |left: i128, right: i128| {
        let quotient = left.checked_div(right)?;
        let inexact = left.checked_rem(right)? != 0 && (left < 0) != (right < 0);
        Some(quotient - i128::from(inexact))
    };
    numbers("//", left, right, ints, |left, right| {
        (left - float_rem(left, right)) / right
    })
}

fn float_rem(left: f64, right: f64) -> f64 {
    let rest = left % right;
    if rest == 0.0 {
        0.0_f64.copysign(right)
    } else if (rest < 0.0) == (right < 0.0) {
        rest
    } else {
        rest + right
    }
}

pub(super) fn rem(_: &mut State, values: &[Value]) -> Result<Value, Error> {
    let (left, right) = two(values)?;
    if let Kind::Text(text) = Kind::of(left) {
        return format::percent(text, right).map(Value::from);
    }
    not_by_zero(right)?;
    let ints = |left: i128, right: i128| {
        let rest = left.checked_rem(right)?;
        let other_sign = rest != 0 && (rest < 0) != (right < 0);
        Some(if other_sign { rest + right } else { rest })
    };
    numbers("%", left, right, ints, float_rem)
}

#[allow(clippy::cast_precision_loss)] // as Python converts
pub(super) fn pow(_: &mut State, values: &[Value]) -> Result<Value, Error> {
    let (left, right) = two(values)?;
    match (Kind::of(left), Kind::of(right)) {
        (base, Kind::Int(exponent)) if exponent < 0 && base.float().is_some_and(|x| x != 0.0) => {
            let base = base.float().unwrap_or_default();
            Ok(Value::from(base.powf(exponent as f64)))
        }
        _ => numbers(
            "**",
            left,
            right,
            |base, exponent| base.checked_pow(u32::try_from(exponent).ok()?),
            f64::powf,
        ),
    }
}

pub(super) fn neg(_: &mut State, values: &[Value]) -> Result<Value, Error> {
    let kind = values.first().map(Kind::of);
    match kind {
        Some(Kind::Float(value)) => Ok(Value::from(-value)),
        Some(kind) => match kind.int().and_then(i128::checked_neg) {
            Some(value) => Ok(int(value)),
            None => Err(wrong(format!(
                "bad operand type for unary -: '{}'",
                kind.name()
            ))),
        },
        None => Err(wrong("an operator has an operand")),
    }
}

pub(super) fn concat(_: &mut State, values: &[Value]) -> Result<Value, Error> {
    let (left, right) = two(values)?;
    Ok(Value::from(text::str(left) + &text::str(right)))
}

/// `a < b <= c`: operands and the spellings of the operators between them.
pub(super) fn chain(_: &mut State, values: &[Value]) -> Result<Value, Error> {
    let mut rest = values;
    while let [left, operator, right, ..] = rest {
        if !compare(operator.as_str().unwrap_or_default(), left, right)? {
            return Ok(Value::from(false));
        }
        rest = rest.get(2..).unwrap_or_default();
    }
    Ok(Value::from(true))
}
