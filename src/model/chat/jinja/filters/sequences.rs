//! Filters of sequences and dicts.

use std::cmp::Ordering;

use minijinja::value::Kwargs;
use minijinja::{Error, State, Value};

use super::arguments::{parts, path, value_first};
use crate::model::chat::jinja::compare::{equals, order};
use crate::model::chat::jinja::kind::{
    self, Kind, bind, int_of, length, needed, split, text_of, wrong,
};
use crate::model::chat::jinja::lookup::{attr_alone, tuples};
use crate::model::chat::jinja::objects::{Generator, Group};
use crate::model::chat::jinja::{limits, text};

pub(super) fn attr(_: &mut State, values: &[Value]) -> Result<Value, Error> {
    let [value, name] = bind("attr", values, ["obj", "name"])?;
    let value = needed(value, "obj")?;
    if value.is_undefined() {
        return Ok(Value::UNDEFINED);
    }
    Ok(attr_alone(&value, text_of(&needed(name, "name")?)?))
}

pub(super) fn batch(_: &mut State, values: &[Value]) -> Result<Value, Error> {
    let [value, size, fill] = bind("batch", values, ["value", "linecount", "fill_with"])?;
    let size = int_of(&needed(size, "linecount")?)?;
    let items = kind::items(&needed(value, "value")?)?;
    let fill = fill.filter(|fill| !fill.is_none());
    let bytes = size_of::<Value>();
    let whole = usize::try_from(size).unwrap_or_default();
    // Jinja starts a new batch where the last one has exactly this size.
    let mut batches = if whole == 0 {
        vec![items]
    } else {
        items.chunks(whole).map(<[Value]>::to_vec).collect()
    };
    batches.retain(|batch: &Vec<Value>| !batch.is_empty());
    if let (Some(fill), Some(last)) = (fill, batches.last_mut()) {
        let missing = kind::count(size, bytes)?.saturating_sub(last.len());
        last.extend(vec![fill; missing]);
    }
    Ok(Generator::value(
        batches.into_iter().map(Value::from).collect(),
    ))
}

pub(super) fn slice(_: &mut State, values: &[Value]) -> Result<Value, Error> {
    let [value, slices, fill] = bind("slice", values, ["value", "slices", "fill_with"])?;
    let items = kind::items(&needed(value, "value")?)?;
    let slices = kind::count(int_of(&needed(slices, "slices")?)?, size_of::<Value>())?;
    if slices == 0 {
        return Err(wrong("integer division or modulo by zero"));
    }
    let (each, larger) = (items.len() / slices, items.len() % slices);
    let fill = fill.filter(|fill| !fill.is_none());
    let mut rest = items.as_slice();
    let mut parts = Vec::new();
    for at in 0..slices {
        let (now, behind) = rest.split_at(each + usize::from(at < larger));
        let mut now = now.to_vec();
        if at >= larger {
            now.extend(fill.clone());
        }
        parts.push(Value::from(now));
        rest = behind;
    }
    Ok(Generator::value(parts))
}

pub(super) fn count(_: &mut State, values: &[Value]) -> Result<Value, Error> {
    let [value] = bind("length", values, ["value"])?;
    length(&needed(value, "value")?).map(Value::from)
}

pub(super) fn first(_: &mut State, values: &[Value]) -> Result<Value, Error> {
    let [value] = bind("first", values, ["seq"])?;
    let value = needed(value, "seq")?;
    if let Kind::Generator(generator) = Kind::of(&value) {
        return Ok(generator.next().unwrap_or_default());
    }
    Ok(kind::items(&value)?.into_iter().next().unwrap_or_default())
}

pub(super) fn last(_: &mut State, values: &[Value]) -> Result<Value, Error> {
    let [value] = bind("last", values, ["seq"])?;
    let value = needed(value, "seq")?;
    reversible(&value)?;
    Ok(kind::items(&value)?.pop().unwrap_or_default())
}

fn reversible(value: &Value) -> Result<(), Error> {
    match Kind::of(value) {
        Kind::Generator(_) => Err(wrong("'generator' object is not reversible")),
        _ => Ok(()),
    }
}

pub(super) fn reverse(_: &mut State, values: &[Value]) -> Result<Value, Error> {
    let [value] = bind("reverse", values, ["value"])?;
    let value = needed(value, "value")?;
    if let Kind::Text(text) = Kind::of(&value) {
        return Ok(Value::from(text.chars().rev().collect::<String>()));
    }
    let mut items = kind::items(&value)?;
    items.reverse();
    Ok(match Kind::of(&value) {
        Kind::Generator(_) => Value::from(items),
        _ => Generator::value(items),
    })
}

pub(super) fn random(_: &mut State, values: &[Value]) -> Result<Value, Error> {
    let [value] = bind("random", values, ["seq"])?;
    let items = kind::items(&needed(value, "seq")?)?;
    if items.is_empty() {
        return Ok(Value::UNDEFINED);
    }
    Ok(items
        .get(fastrand::usize(..items.len()))
        .cloned()
        .unwrap_or_default())
}

pub(super) fn items(_: &mut State, values: &[Value]) -> Result<Value, Error> {
    let [value] = bind("items", values, ["value"])?;
    let value = needed(value, "value")?;
    match Kind::of(&value) {
        Kind::Undefined => Ok(Generator::value(Vec::new())),
        Kind::Dict => Ok(Generator::value(tuples(&value))),
        _ => Err(wrong("can only get item pairs from a mapping")),
    }
}

pub(super) fn list(_: &mut State, values: &[Value]) -> Result<Value, Error> {
    let [value] = bind("list", values, ["value"])?;
    kind::items(&needed(value, "value")?).map(Value::from)
}

pub(super) fn join(_: &mut State, values: &[Value]) -> Result<Value, Error> {
    let [value, between, attribute] = bind("join", values, ["value", "d", "attribute"])?;
    let between = between
        .map(|between| text::str(&between))
        .unwrap_or_default();
    let attribute = attribute.filter(|attribute| !attribute.is_none());
    let mut joined = String::new();
    for (at, item) in kind::items(&needed(value, "value")?)?.iter().enumerate() {
        if at > 0 {
            joined.push_str(&between);
        }
        joined.push_str(&match &attribute {
            Some(attribute) => text::str(&path(item, attribute, None)?),
            None => text::str(item),
        });
        if joined.len() > limits::LARGEST {
            return Err(wrong("it would need too much memory"));
        }
    }
    Ok(Value::from(joined))
}

/// A text that is compared without regard to case.
fn folded(value: Value) -> Value {
    match Kind::of(&value) {
        Kind::Text(text) => Value::from(text.to_lowercase()),
        _ => value,
    }
}

fn key(value: &Value, attribute: Option<&Value>, sensitive: bool) -> Result<Value, Error> {
    let key = match attribute {
        Some(attribute) => path(value, attribute, None)?,
        None => value.clone(),
    };
    Ok(if sensitive { key } else { folded(key) })
}

/// Sorts values by their keys, stably, as Python sorts.
fn sorted(mut keyed: Vec<(Value, Value)>, reverse: bool) -> Result<Vec<Value>, Error> {
    for pair in keyed.windows(2) {
        if let [(one, _), (other, _)] = pair {
            order(other, one)?;
        }
    }
    let mut failed = None;
    keyed.sort_by(|(one, _), (other, _)| {
        let order = order(one, other).unwrap_or_else(|error| {
            failed = Some(error);
            None
        });
        let order = order.unwrap_or(Ordering::Equal);
        if reverse { order.reverse() } else { order }
    });
    match failed {
        Some(error) => Err(error),
        None => Ok(keyed.into_iter().map(|(_, value)| value).collect()),
    }
}

pub(super) fn sort(_: &mut State, values: &[Value]) -> Result<Value, Error> {
    let parameters = ["value", "reverse", "case_sensitive", "attribute"];
    let [value, reverse, sensitive, attribute] = bind("sort", values, parameters)?;
    let sensitive = sensitive.is_some_and(|sensitive| sensitive.is_true());
    let attributes: Vec<Value> = match attribute.as_ref().map(Kind::of) {
        Some(Kind::Text(text)) => text.split(',').map(Value::from).collect(),
        _ => attribute.iter().cloned().collect(),
    };
    let items = kind::items(&needed(value, "value")?)?;
    let keyed = items.into_iter().map(|item| {
        let key = if attributes.is_empty() {
            key(&item, None, sensitive)?
        } else {
            let each = attributes.iter();
            let each = each.map(|attribute| key(&item, Some(attribute), sensitive));
            Value::from(each.collect::<Result<Vec<_>, _>>()?)
        };
        Ok((key, item))
    });
    let keyed = keyed.collect::<Result<_, Error>>()?;
    sorted(keyed, reverse.is_some_and(|reverse| reverse.is_true())).map(Value::from)
}

pub(super) fn dictsort(_: &mut State, values: &[Value]) -> Result<Value, Error> {
    let parameters = ["value", "case_sensitive", "by", "reverse"];
    let [value, sensitive, by, reverse] = bind("dictsort", values, parameters)?;
    let value = needed(value, "value")?;
    if !matches!(Kind::of(&value), Kind::Dict) {
        return Err(wrong("dictsort sorts a dict"));
    }
    let sensitive = sensitive.is_some_and(|sensitive| sensitive.is_true());
    let at = match by.as_ref().map_or(Some("key"), |by| by.as_str()) {
        Some("key") => 0,
        Some("value") => 1,
        _ => return Err(wrong("You can only sort by either \"key\" or \"value\"")),
    };
    let keyed = tuples(&value).into_iter().map(|pair| {
        let key = key(&pair.get_item_by_index(at)?, None, sensitive)?;
        Ok((key, pair))
    });
    let keyed = keyed.collect::<Result<_, Error>>()?;
    sorted(keyed, reverse.is_some_and(|reverse| reverse.is_true())).map(Value::from)
}

pub(super) fn groupby(_: &mut State, values: &[Value]) -> Result<Value, Error> {
    let parameters = ["value", "attribute", "default", "case_sensitive"];
    let [value, attribute, default, sensitive] = bind("groupby", values, parameters)?;
    let attribute = needed(attribute, "attribute")?;
    let sensitive = sensitive.is_some_and(|sensitive| sensitive.is_true());
    let find = |item: &Value| path(item, &attribute, default.as_ref());
    let folded_key = |item: &Value| {
        let key = find(item)?;
        Ok::<_, Error>(if sensitive { key } else { folded(key) })
    };
    let items = kind::items(&needed(value, "value")?)?;
    let keyed = items.into_iter().map(|item| Ok((folded_key(&item)?, item)));
    let ordered = sorted(keyed.collect::<Result<_, Error>>()?, false)?;
    let mut groups: Vec<(Value, Vec<Value>)> = Vec::new();
    for item in ordered {
        let key = folded_key(&item)?;
        match groups.last_mut() {
            Some((last, group)) if equals(last, &key) => group.push(item),
            _ => groups.push((key, vec![item])),
        }
    }
    let groups = groups.into_iter().map(|(key, list)| {
        let grouper = match list.first() {
            Some(first) if !sensitive => find(first)?,
            _ => key,
        };
        let list = Value::from(list);
        Ok(Value::from_object(Group { grouper, list }))
    });
    groups.collect::<Result<Vec<_>, Error>>().map(Value::from)
}

pub(super) fn unique(_: &mut State, values: &[Value]) -> Result<Value, Error> {
    let parameters = ["value", "case_sensitive", "attribute"];
    let [value, sensitive, attribute] = bind("unique", values, parameters)?;
    let sensitive = sensitive.is_some_and(|sensitive| sensitive.is_true());
    let mut seen = std::collections::BTreeSet::new();
    let mut unique = Vec::new();
    for item in kind::items(&needed(value, "value")?)? {
        let key = key(&item, attribute.as_ref(), sensitive)?;
        if matches!(Kind::of(&key), Kind::List | Kind::Dict) {
            return Err(wrong(format!(
                "unhashable type: '{}'",
                Kind::of(&key).name()
            )));
        }
        if seen.insert(key) {
            unique.push(item);
        }
    }
    Ok(Generator::value(unique))
}

pub(super) fn min(_: &mut State, values: &[Value]) -> Result<Value, Error> {
    extreme("min", values, Ordering::Less)
}

pub(super) fn max(_: &mut State, values: &[Value]) -> Result<Value, Error> {
    extreme("max", values, Ordering::Greater)
}

fn extreme(name: &str, values: &[Value], wanted: Ordering) -> Result<Value, Error> {
    let parameters = ["value", "case_sensitive", "attribute"];
    let [value, sensitive, attribute] = bind(name, values, parameters)?;
    let sensitive = sensitive.is_some_and(|sensitive| sensitive.is_true());
    let mut best: Option<(Value, Value)> = None;
    for item in kind::items(&needed(value, "value")?)? {
        let key = key(&item, attribute.as_ref(), sensitive)?;
        let better = match &best {
            Some((best, _)) => order(&key, best)? == Some(wanted),
            None => true,
        };
        if better {
            best = Some((key, item));
        }
    }
    Ok(best.map(|(_, item)| item).unwrap_or_default())
}

pub(super) fn map(state: &mut State, values: &[Value]) -> Result<Value, Error> {
    let (value, rest, named) = parts(values)?;
    if !value.is_true() {
        return Ok(Generator::value(Vec::new()));
    }
    let items = kind::items(value)?;
    let find = |name: &str| {
        let mut named = named.iter();
        named.find(|(one, _)| one == name).map(|(_, value)| value)
    };
    let mut mapped = Vec::with_capacity(items.len());
    match (rest.split_first(), find("attribute")) {
        (Some((name, arguments)), _) => {
            let name = text_of(name)?;
            for item in items {
                let arguments = call_arguments(item, arguments, &named);
                mapped.push(state.apply_filter(name, &arguments)?);
            }
        }
        (None, Some(attribute)) => {
            let mut others = named.iter().map(|(name, _)| name.as_str());
            if let Some(name) = others.find(|name| !matches!(*name, "attribute" | "default")) {
                return Err(wrong(format!("unexpected keyword argument '{name}'")));
            }
            for item in items {
                mapped.push(path(&item, attribute, find("default"))?);
            }
        }
        (None, None) => return Err(wrong("map requires a filter argument")),
    }
    Ok(Generator::value(mapped))
}

fn call_arguments(item: Value, arguments: &[Value], named: &[(String, Value)]) -> Vec<Value> {
    let mut all = vec![item];
    all.extend_from_slice(arguments);
    if !named.is_empty() {
        all.push(named.iter().cloned().collect::<Kwargs>().into());
    }
    all
}

pub(super) fn select(state: &mut State, values: &[Value]) -> Result<Value, Error> {
    selected(state, values, false, true)
}

pub(super) fn reject(state: &mut State, values: &[Value]) -> Result<Value, Error> {
    selected(state, values, false, false)
}

pub(super) fn selectattr(state: &mut State, values: &[Value]) -> Result<Value, Error> {
    selected(state, values, true, true)
}

pub(super) fn rejectattr(state: &mut State, values: &[Value]) -> Result<Value, Error> {
    selected(state, values, true, false)
}

fn selected(
    state: &mut State,
    values: &[Value],
    by_attribute: bool,
    wanted: bool,
) -> Result<Value, Error> {
    let (positional, named) = split(values)?;
    let (value, mut rest) = value_first(positional)?;
    if !value.is_true() {
        return Ok(Generator::value(Vec::new()));
    }
    let mut attribute = None;
    if by_attribute {
        let (first, behind) = rest
            .split_first()
            .ok_or_else(|| wrong("Missing parameter for attribute name"))?;
        (attribute, rest) = (Some(first), behind);
    }
    let mut kept = Vec::new();
    for item in kind::items(value)? {
        let tested = match attribute {
            Some(attribute) => path(&item, attribute, None)?,
            None => item.clone(),
        };
        let holds = match rest.split_first() {
            Some((name, arguments)) => {
                let arguments = call_arguments(tested, arguments, &named);
                state.perform_test(text_of(name)?, &arguments)?
            }
            None => tested.is_true(),
        };
        if holds == wanted {
            kept.push(item);
        }
    }
    Ok(Generator::value(kept))
}
