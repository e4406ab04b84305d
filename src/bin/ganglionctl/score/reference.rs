//! Reads a file of cases, and checks whatever would otherwise be compared wrongly.

use std::path::Path;

use ganglion::engine::score::{Case, Reference};

use crate::failure::{Exit, OrFail as _, Outcome, bail};

/// Reads `path`; every id must be below `vocabulary`.
///
/// # Errors
/// `Exit::Data` if it cannot be read, is not in the format, contradicts itself, or was made for another
/// model.
pub(super) fn read(path: &Path, vocabulary: usize) -> Outcome<Reference> {
    let shown = path.display();
    let text = std::fs::read_to_string(path).or_fail(Exit::Data, &shown)?;
    let reference: Reference = serde_json::from_str(&text).or_fail(Exit::Data, &shown)?;
    if reference.cases.is_empty() {
        bail!(
            Data,
            "{shown}: cases is empty; give at least one with input_ids"
        );
    }
    for (number, case) in reference.cases.iter().enumerate() {
        check(case, vocabulary).or_fail(Exit::Data, format!("{shown}: cases[{number}]"))?;
    }
    Ok(reference)
}

fn check(case: &Case, vocabulary: usize) -> Result<(), String> {
    let ids = case.input_ids.len();
    let Some(pairs) = ids.checked_sub(1) else {
        return Err("input_ids is empty; give at least one id".into());
    };
    for (name, len, expected) in [
        ("token_logprobs", case.token_logprobs.len(), pairs),
        ("argmax", case.argmax.len(), ids),
    ] {
        if len != 0 && len != expected {
            return Err(format!(
                "{name} has {len} entries; {ids} input_ids need {expected}"
            ));
        }
    }
    let top = case.last_top10.iter().map(|(id, _)| id);
    for id in case.input_ids.iter().chain(&case.argmax).chain(top) {
        if usize::try_from(*id).map_or(true, |id| id >= vocabulary) {
            return Err(format!(
                "id {id} is not in the model's vocabulary of {vocabulary}; was the file made for another model?"
            ));
        }
    }
    Ok(())
}
