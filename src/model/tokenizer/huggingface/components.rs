//! Reads the components of a `tokenizer.json`, in the form that `tokenizers::canonicalize_value` returns: byte-level
//! mapping is a property of the model, and a post-processor names ids.

use serde_json::{Map, Value};
use tokenizers::SplitDelimiterBehavior;
use tokenizers::normalizers::unicode::{NFC, NFD, NFKC, NFKD};
use tokenizers::pipeline::{PipelineNormalizer, PipelinePreTokenizer};
use tokenizers::pre_tokenizers::digits::Digits;
use tokenizers::pre_tokenizers::split::{Split, SplitPattern};

use crate::model::language_error::LanguageError;
use crate::model::tokenizer::pretokenizer;

const BYTE_LEVEL_BPE: &str = "BPE over bytes (ByteLevel)";

/// Refuses every model but BPE. Old files do not name their model.
pub(super) fn check_kind(model: &Map<String, Value>) -> Result<(), LanguageError> {
    match model.get("type").and_then(Value::as_str) {
        None | Some("BPE") => Ok(()),
        Some(other) => Err(unsupported("tokenizer", other, BYTE_LEVEL_BPE)),
    }
}

/// Refuses every BPE except byte-level BPE without variants.
pub(super) fn check_bpe(model: &Map<String, Value>) -> Result<(), LanguageError> {
    let is_on = |key: &str| match model.get(key) {
        None | Some(Value::Null | Value::Bool(false)) => false,
        Some(Value::String(text)) => !text.is_empty(),
        Some(Value::Number(number)) => number.as_f64() != Some(0.0),
        Some(_) => true,
    };
    let variants = [
        "dropout",
        "byte_fallback",
        "continuing_subword_prefix",
        "end_of_word_suffix",
    ];
    let found = if let Some(variant) = variants.into_iter().find(|key| is_on(key)) {
        format!("BPE with {variant}")
    } else if !is_on("byte_level") {
        "BPE over characters".to_owned()
    } else {
        return Ok(());
    };
    Err(unsupported(
        "tokenizer",
        found,
        "BPE over bytes (ByteLevel)",
    ))
}

pub(super) fn normalizers(
    config: Option<&Value>,
) -> Result<Vec<PipelineNormalizer>, LanguageError> {
    let one = |config: &Value| match kind(config) {
        "NFC" => Ok(PipelineNormalizer::NFC(NFC)),
        "NFD" => Ok(PipelineNormalizer::NFD(NFD)),
        "NFKC" => Ok(PipelineNormalizer::NFKC(NFKC)),
        "NFKD" => Ok(PipelineNormalizer::NFKD(NFKD)),
        other => Err(unsupported("normalizer", other, "NFC, NFD, NFKC, NFKD")),
    };
    members(config, "normalizers")
        .into_iter()
        .map(one)
        .collect()
}

pub(super) fn pre_tokenizer(config: Option<&Value>) -> Result<PipelinePreTokenizer, LanguageError> {
    let one = |config: &Value| match kind(config) {
        "Split" => split(config),
        "Digits" => {
            let individual = config.get("individual_digits").and_then(Value::as_bool);
            let digits = Digits::new(individual.unwrap_or(false));
            Ok(PipelinePreTokenizer::Digits(digits))
        }
        other => Err(unsupported(
            "pre-tokenizer",
            other,
            "Split, Digits, ByteLevel",
        )),
    };
    let cuts = members(config, "pretokenizers").into_iter().map(one);
    Ok(pretokenizer::in_turn(cuts.collect::<Result<_, _>>()?))
}

/// Returns the token that a post-processor puts before a text.
pub(super) fn begin(config: Option<&Value>) -> Option<u32> {
    let first = config?.get("single")?.get(0)?;
    first.get("ids")?.get(0)?.as_u64()?.try_into().ok()
}

fn split(config: &Value) -> Result<PipelinePreTokenizer, LanguageError> {
    let pattern = config.get("pattern");
    let part = |key| pattern.and_then(|pattern| pattern.get(key)?.as_str());
    let pattern = match (part("Regex"), part("String")) {
        (Some(regex), _) => SplitPattern::Regex(regex.to_owned()),
        (None, Some(text)) => SplitPattern::String(text.to_owned()),
        (None, None) => {
            let found = format!("{config}");
            return Err(unsupported("pattern of a Split", found, "Regex, String"));
        }
    };
    let behavior = match config.get("behavior").and_then(Value::as_str) {
        None | Some("Isolated") => SplitDelimiterBehavior::Isolated,
        Some("Removed") => SplitDelimiterBehavior::Removed,
        Some("MergedWithPrevious") => SplitDelimiterBehavior::MergedWithPrevious,
        Some("MergedWithNext") => SplitDelimiterBehavior::MergedWithNext,
        Some("Contiguous") => SplitDelimiterBehavior::Contiguous,
        Some(other) => {
            let supported = "Isolated, Removed, MergedWithPrevious, MergedWithNext, Contiguous";
            return Err(unsupported("behavior of a Split", other, supported));
        }
    };
    let invert = config.get("invert").and_then(Value::as_bool) == Some(true);
    Split::new(pattern, behavior, invert)
        .and_then(Split::canonicalized_for_pipeline)
        .map(PipelinePreTokenizer::Split)
        .map_err(|error| {
            let supported = "the syntax of the fancy-regex crate";
            unsupported("pattern of a Split", error.to_string(), supported)
        })
}

/// Returns the members of a `Sequence`, or the single component.
fn members<'a>(config: Option<&'a Value>, key: &str) -> Vec<&'a Value> {
    match config {
        None | Some(Value::Null) => Vec::new(),
        Some(sequence) if kind(sequence) == "Sequence" => {
            let members = sequence.get(key).and_then(Value::as_array);
            members.into_iter().flatten().collect()
        }
        Some(one) => vec![one],
    }
}

fn kind(config: &Value) -> &str {
    config.get("type").and_then(Value::as_str).unwrap_or("none")
}

fn unsupported(
    what: &'static str,
    found: impl Into<String>,
    supported: &'static str,
) -> LanguageError {
    LanguageError::Unsupported {
        what,
        found: found.into(),
        supported,
    }
}
