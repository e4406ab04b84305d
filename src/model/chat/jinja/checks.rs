//! Jinja's tests.

use minijinja::{Error, State, Value};

use super::kind::{Kind, bind, internal, needed, wrong};
use super::{compare, operators, strings, text, turns};

/// A test: the value is the first argument.
pub(super) type Check = fn(&mut State, &[Value]) -> Result<bool, Error>;

/// All tests of Jinja.
pub(super) const ALL: [(&str, Check); 39] = [
    ("boolean", |_, values| {
        is(values, |kind| matches!(kind, Kind::Bool(_)))
    }),
    ("callable", callable),
    ("defined", |_, values| {
        is(values, |kind| !matches!(kind, Kind::Undefined))
    }),
    ("divisibleby", |state, values| {
        rest_is(state, values, None, 0)
    }),
    ("eq", |_, values| compared(values, "==")),
    ("equalto", |_, values| compared(values, "==")),
    ("==", |_, values| compared(values, "==")),
    ("escaped", |_, values| {
        Ok(values.first().is_some_and(Value::is_safe))
    }),
    ("even", |state, values| rest_is(state, values, Some(2), 0)),
    ("false", |_, values| {
        is(values, |kind| matches!(kind, Kind::Bool(false)))
    }),
    ("filter", |_, values| known(values, &names_of_filters())),
    ("float", |_, values| {
        is(values, |kind| matches!(kind, Kind::Float(_)))
    }),
    ("ge", |_, values| compared(values, ">=")),
    (">=", |_, values| compared(values, ">=")),
    ("greaterthan", |_, values| compared(values, ">")),
    ("gt", |_, values| compared(values, ">")),
    (">", |_, values| compared(values, ">")),
    ("in", |_, values| compared(values, "in")),
    ("integer", |_, values| {
        is(values, |kind| matches!(kind, Kind::Int(_)))
    }),
    ("iterable", |_, values| is(values, is_iterable)),
    ("le", |_, values| compared(values, "<=")),
    ("<=", |_, values| compared(values, "<=")),
    ("lessthan", |_, values| compared(values, "<")),
    ("lt", |_, values| compared(values, "<")),
    ("<", |_, values| compared(values, "<")),
    ("lower", |_, values| cased(values, "lower")),
    ("mapping", |_, values| {
        is(values, |kind| matches!(kind, Kind::Dict))
    }),
    ("ne", |_, values| compared(values, "!=")),
    ("!=", |_, values| compared(values, "!=")),
    ("none", |_, values| {
        is(values, |kind| matches!(kind, Kind::None))
    }),
    ("number", |_, values| {
        is(values, |kind| kind.float().is_some())
    }),
    ("odd", |state, values| rest_is(state, values, Some(2), 1)),
    ("sameas", same_as),
    ("sequence", |_, values| is(values, is_sequence)),
    ("string", |_, values| {
        is(values, |kind| matches!(kind, Kind::Text(_)))
    }),
    ("test", |_, values| {
        known(values, &ALL.map(|(name, _)| name))
    }),
    ("true", |_, values| {
        is(values, |kind| matches!(kind, Kind::Bool(true)))
    }),
    ("undefined", |_, values| {
        is(values, |kind| matches!(kind, Kind::Undefined))
    }),
    ("upper", |_, values| cased(values, "upper")),
];

fn names_of_filters() -> Vec<&'static str> {
    let names = super::filters::ALL.iter().map(|(name, _)| *name);
    names.chain(["tojson", "urlize"]).collect()
}

fn is(values: &[Value], test: impl Fn(&Kind) -> bool) -> Result<bool, Error> {
    let [value] = bind("test", values, ["value"])?;
    Ok(test(&Kind::of(&needed(value, "value")?)))
}

fn is_iterable(kind: &Kind) -> bool {
    match kind {
        Kind::None | Kind::Bool(_) | Kind::Int(_) | Kind::Float(_) | Kind::Other => false,
        Kind::Undefined
        | Kind::Text(_)
        | Kind::List
        | Kind::Tuple
        | Kind::Dict
        | Kind::View(_)
        | Kind::Generator(_) => true,
    }
}

/// Jinja requires a length and items, which an undefined value has.
fn is_sequence(kind: &Kind) -> bool {
    match kind {
        Kind::View(view) => view.range().is_some(),
        Kind::Generator(_) => false,
        other => is_iterable(other),
    }
}

fn callable(_: &mut State, values: &[Value]) -> Result<bool, Error> {
    let [value] = bind("callable", values, ["value"])?;
    let value = needed(value, "value")?;
    Ok(match Kind::of(&value) {
        Kind::Undefined => true,
        Kind::Other => internal(&value) != Some("Namespace") && !is_cycler(&value),
        _ => false,
    })
}

fn is_cycler(value: &Value) -> bool {
    value.downcast_object_ref::<turns::Cycler>().is_some()
}

/// Whether the rest of a division is `wanted`.
fn rest_is(
    state: &mut State,
    values: &[Value],
    divisor: Option<i64>,
    wanted: i64,
) -> Result<bool, Error> {
    let (value, divisor) = match (values, divisor) {
        ([value], Some(divisor)) => (value.clone(), Value::from(divisor)),
        ([value, divisor], None) => (value.clone(), divisor.clone()),
        _ => return Err(wrong("a test has too many or too few arguments")),
    };
    let rest = operators::rem(state, &[value, divisor])?;
    Ok(compare::equals(&rest, &Value::from(wanted)))
}

fn compared(values: &[Value], operator: &str) -> Result<bool, Error> {
    let [value, other] = bind("test", values, ["value", "other"])?;
    compare::compare(operator, &needed(value, "value")?, &needed(other, "other")?)
}

fn cased(values: &[Value], case: &str) -> Result<bool, Error> {
    let [value] = bind(case, values, ["value"])?;
    let text = text::str(&needed(value, "value")?);
    Ok(strings::is_case(&text, case))
}

fn known(values: &[Value], names: &[&str]) -> Result<bool, Error> {
    let [value] = bind("test", values, ["value"])?;
    Ok(needed(value, "value")?
        .as_str()
        .is_some_and(|name| names.contains(&name)))
}

/// Whether both are one object: Python has one object for each constant and small int. For lists and dicts this is
/// unknown here.
fn same_as(_: &mut State, values: &[Value]) -> Result<bool, Error> {
    let [value, other] = bind("sameas", values, ["value", "other"])?;
    let (value, other) = (needed(value, "value")?, needed(other, "other")?);
    Ok(match (Kind::of(&value), Kind::of(&other)) {
        (Kind::None, Kind::None) => true,
        (Kind::Bool(one), Kind::Bool(other)) => one == other,
        (Kind::Int(one), Kind::Int(other)) => one == other,
        (Kind::Text(one), Kind::Text(other)) => one == other,
        _ => false,
    })
}
