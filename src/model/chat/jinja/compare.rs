//! Python's comparisons.

use std::cmp::Ordering;

use minijinja::{Error, Value};

use super::kind::{Kind, items, length, pairs, wrong};

pub(super) fn unsupported(operator: &str, left: &Kind, right: &Kind) -> Error {
    if matches!(left, Kind::Undefined) || matches!(right, Kind::Undefined) {
        return wrong(format!("an operand of {operator} is undefined"));
    }
    let (left, right) = (left.name(), right.name());
    wrong(format!(
        "unsupported operand type(s) for {operator}: '{left}' and '{right}'"
    ))
}

pub(super) fn equals(left: &Value, right: &Value) -> bool {
    let same_items = || {
        let (left, right) = (items(left), items(right));
        left.ok().zip(right.ok()).is_some_and(|(left, right)| {
            left.len() == right.len()
                && left
                    .iter()
                    .zip(&right)
                    .all(|(left, right)| equals(left, right))
        })
    };
    match (Kind::of(left), Kind::of(right)) {
        (Kind::Undefined, Kind::Undefined) | (Kind::None, Kind::None) => true,
        (Kind::Text(left), Kind::Text(right)) => left == right,
        (Kind::List, Kind::List) | (Kind::Tuple, Kind::Tuple) => same_items(),
        (Kind::View(one), Kind::View(other)) => one.name() == other.name() && same_items(),
        (Kind::Dict, Kind::Dict) => {
            let pairs = pairs(left);
            pairs.len() == length(right).unwrap_or_default()
                && pairs.iter().all(|(key, value)| {
                    let object = right.as_object();
                    let other = object.and_then(|object| object.get_value(key));
                    other.is_some_and(|other| equals(value, &other))
                })
        }
        (Kind::Other, Kind::Other) => left == right,
        (left, right) => match (left.int(), right.int()) {
            (Some(left), Some(right)) => left == right,
            _ => left
                .float()
                .zip(right.float())
                .is_some_and(|(left, right)| left.partial_cmp(&right) == Some(Ordering::Equal)),
        },
    }
}

/// How two values are ordered, if Python orders them; `None` where one of them is not a number.
pub(super) fn order(left: &Value, right: &Value) -> Result<Option<Ordering>, Error> {
    match (Kind::of(left), Kind::of(right)) {
        (Kind::Text(left), Kind::Text(right)) => Ok(Some(left.cmp(right))),
        (Kind::List, Kind::List) | (Kind::Tuple, Kind::Tuple) => {
            let (left, right) = (items(left)?, items(right)?);
            for (left, right) in left.iter().zip(&right) {
                if !equals(left, right) {
                    return order(left, right);
                }
            }
            Ok(Some(left.len().cmp(&right.len())))
        }
        (one, other) => {
            if let (Some(left), Some(right)) = (one.int(), other.int()) {
                return Ok(Some(left.cmp(&right)));
            }
            match (one.float(), other.float()) {
                (Some(left), Some(right)) => Ok(left.partial_cmp(&right)),
                _ => Err(unsupported("<", &one, &other)),
            }
        }
    }
}

pub(super) fn contains(container: &Value, value: &Value) -> Result<bool, Error> {
    match Kind::of(container) {
        Kind::Text(text) => match Kind::of(value) {
            Kind::Text(part) => Ok(text.contains(part)),
            other => Err(wrong(format!(
                "'in <string>' requires string as left operand, not {}",
                other.name()
            ))),
        },
        Kind::Dict => match Kind::of(value) {
            Kind::List | Kind::Dict => Err(wrong("unhashable type")),
            _ => {
                let object = container.as_object();
                Ok(object.is_some_and(|object| object.get_value(value).is_some()))
            }
        },
        Kind::Generator(generator) => {
            while let Some(item) = generator.next() {
                if equals(&item, value) {
                    return Ok(true);
                }
            }
            Ok(false)
        }
        Kind::None | Kind::Bool(_) | Kind::Int(_) | Kind::Float(_) | Kind::Other => {
            let name = Kind::of(container).name();
            Err(wrong(format!("argument of type '{name}' is not iterable")))
        }
        _ => Ok(items(container)?.iter().any(|item| equals(item, value))),
    }
}

/// One comparison, by its spelling.
pub(super) fn compare(operator: &str, left: &Value, right: &Value) -> Result<bool, Error> {
    let ordered = |wanted: &[Ordering]| {
        let order = order(left, right)?;
        Ok(order.is_some_and(|order| wanted.contains(&order)))
    };
    match operator {
        "==" => Ok(equals(left, right)),
        "!=" => Ok(!equals(left, right)),
        "<" => ordered(&[Ordering::Less]),
        "<=" => ordered(&[Ordering::Less, Ordering::Equal]),
        ">" => ordered(&[Ordering::Greater]),
        ">=" => ordered(&[Ordering::Greater, Ordering::Equal]),
        "in" => contains(right, left),
        _ => contains(right, left).map(|is| !is),
    }
}
