//! Reads what a file lists for each layer.

use super::family::Keys;
use crate::model::error::Defect;

/// Keys of a config.json that list the kinds of layers, as words or as the characters of a text.
const LISTS: [&str; 3] = [
    "layer_types",
    "layers_block_type",
    "hybrid_override_pattern",
];

/// Returns the kinds of layers that a config.json lists, and the key that lists them.
pub(in crate::model) fn layer_kinds(
    keys: &dyn Keys,
) -> Result<Option<(&'static str, Vec<String>)>, Defect> {
    for key in LISTS {
        let kinds = if keys.is_list(key) {
            keys.words(key)?
        } else {
            let text = keys.word(key)?;
            text.map(|text| text.chars().map(String::from).collect())
        };
        if let Some(kinds) = kinds {
            return Ok(Some((key, kinds)));
        }
    }
    Ok(None)
}

/// Returns the kind of each of `count` layers, if a config.json lists them.
pub(in crate::model) fn layer_list(
    keys: &dyn Keys,
    count: usize,
) -> Result<Option<Vec<String>>, Defect> {
    let Some((key, kinds)) = layer_kinds(keys)? else {
        return Ok(None);
    };
    check_length(&keys.named(key), kinds.len(), count)?;
    Ok(Some(kinds))
}

/// Returns a flag for each of `count` layers, as a file lists them or else as is usual.
pub(super) fn flags_or(
    keys: &dyn Keys,
    key: &str,
    count: usize,
    usual: impl Fn(usize) -> bool,
) -> Result<Vec<bool>, Defect> {
    let listed = keys.flags(key, count)?;
    Ok(listed.unwrap_or_else(|| (0..count).map(usual).collect()))
}

/// Checks that an array of a file has an entry for each of `count` layers.
pub(in crate::model) fn check_length(key: &str, length: usize, count: usize) -> Result<(), Defect> {
    if length == count {
        return Ok(());
    }
    let allowed = format!("it must have one for each of {count} layers");
    Err(Defect::bad_value(
        key,
        format!("an array of {length}"),
        allowed,
    ))
}
