//! The ids of tokens, checked.

use serde_json::Value;

use crate::model::language_error::LanguageError;

/// Returns the id of a token, for which the model must have a row.
pub(super) fn slot(spelling: &str, id: &Value, rows: usize) -> Result<u32, LanguageError> {
    let number = id.as_u64().and_then(|id| u32::try_from(id).ok());
    number.filter(|id| (*id as usize) < rows).ok_or_else(|| {
        LanguageError::Vocabulary(format!(
            "token {spelling:?} has the id {id}; the model has {rows} rows for tokens"
        ))
    })
}

/// Returns the error of two tokens with one id.
pub(super) fn twice(one: &str, other: &str, id: u32) -> LanguageError {
    LanguageError::Vocabulary(format!(
        "tokens {one:?} and {other:?} have the same id {id}"
    ))
}
