//! Builds the model of the `tokenizers` crate from a checked vocabulary.

use std::collections::{HashMap, HashSet};

use tokenizers::models::bpe::{BpeConfig, PipelineBPE};

use super::definition::Merges;
use super::spelling::Spelling;
use super::vocabulary::Vocabulary;
use crate::model::language_error::LanguageError;

/// The `tokenizers` crate keeps merges among the first 512 symbols in a table of 16-bit indices, and asserts that they
/// fit.
const DENSE_SYMBOLS: usize = 512;
const MAX_DENSE_MERGES: usize = u16::MAX as usize;

/// Builds the model. The `tokenizers` crate wants a token for every byte: missing ones get ids from the vocabulary's
/// length on, which the caller drops.
pub(super) fn model(
    vocabulary: Vocabulary,
    merges: Merges,
    spelling: &Spelling,
) -> Result<PipelineBPE, LanguageError> {
    let mut next = vocabulary.len();
    let mut ordinary = vocabulary.into_ordinary();
    check_dense_merges(&ordinary, &merges.pairs)?;
    for byte in 0..=u8::MAX {
        ordinary.entry(spelling.of_byte(byte)).or_insert_with(|| {
            next += 1;
            next - 1
        });
    }
    let byte_level = matches!(spelling, Spelling::Bytes);
    PipelineBPE::from_config(BpeConfig {
        vocab: ordinary.into_iter().collect(),
        merges: merges.pairs,
        byte_level,
        byte_fallback: !byte_level,
        ignore_merges: merges.ignored,
        // No cache of words: a caller's text must not outlive the request.
        cache_capacity: 0,
        ..BpeConfig::default()
    })
    .map_err(|error| LanguageError::Vocabulary(error.to_string()))
}

/// Checks the table. Symbols are numbered: tokens that no merge makes by id, then products by rank.
fn check_dense_merges(
    ordinary: &HashMap<String, u32>,
    merges: &[(String, String)],
) -> Result<(), LanguageError> {
    let mut products = HashSet::with_capacity(merges.len());
    let mut by_rank = Vec::new();
    for (left, right) in merges {
        let product = [left.as_str(), right.as_str()].concat();
        if let Some(&id) = ordinary.get(&product)
            && products.insert(id)
        {
            by_rank.push(id);
        }
    }
    let mut symbols: Vec<u32> = ordinary
        .values()
        .copied()
        .filter(|id| !products.contains(id))
        .collect();
    symbols.sort_unstable();
    symbols.extend(by_rank);
    let dense: HashSet<u32> = symbols.into_iter().take(DENSE_SYMBOLS).collect();
    let is_dense = |part: &String| ordinary.get(part).is_some_and(|id| dense.contains(id));
    let count = merges
        .iter()
        .filter(|(left, right)| is_dense(left) && is_dense(right))
        .count();
    if count >= MAX_DENSE_MERGES {
        return Err(LanguageError::Vocabulary(format!(
            "{count} merges join its first {DENSE_SYMBOLS} symbols; {MAX_DENSE_MERGES} are possible"
        )));
    }
    Ok(())
}
