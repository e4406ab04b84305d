//! Reads the components of a `tokenizer.json`, in the form that `tokenizers::canonicalize_value` returns: byte-level
//! mapping is a property of the model, and a post-processor names ids.

use serde_json::{Map, Value};
use tokenizers::SplitDelimiterBehavior;
use tokenizers::normalizers::metaspace::{MetaspaceNormalizer, PrependBehavior};
use tokenizers::normalizers::prepend::Prepend;
use tokenizers::normalizers::replace::Replace;
use tokenizers::normalizers::unicode::{NFC, NFD, NFKC, NFKD};
use tokenizers::pipeline::{PipelineNormalizer, PipelinePreTokenizer};
use tokenizers::pre_tokenizers::digits::Digits;
use tokenizers::pre_tokenizers::split::{Split, SplitPattern};

use crate::model::language_error::LanguageError;
use crate::model::tokenizer::pretokenizer;

const BPE: &str = "BPE over bytes (ByteLevel), BPE with byte_fallback";

/// Refuses every model but BPE. Old files do not name their model.
pub(super) fn check_kind(model: &Map<String, Value>) -> Result<(), LanguageError> {
    match model.get("type").and_then(Value::as_str) {
        None | Some("BPE") => Ok(()),
        Some(other) => Err(unsupported("tokenizer", other, BPE)),
    }
}

/// What the merges of BPE begin with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Atoms {
    Bytes,
    /// Characters, and the bytes of those that are no tokens.
    Characters,
}

/// Returns what merges begin with. Refuses variants of BPE, and characters without `byte_fallback`.
pub(super) fn atoms(model: &Map<String, Value>) -> Result<Atoms, LanguageError> {
    let is_on = |key: &str| match model.get(key) {
        None | Some(Value::Null | Value::Bool(false)) => false,
        Some(Value::String(text)) => !text.is_empty(),
        Some(Value::Number(number)) => number.as_f64() != Some(0.0),
        Some(_) => true,
    };
    let variants = ["dropout", "continuing_subword_prefix", "end_of_word_suffix"];
    let variant = variants.into_iter().find(|key| is_on(key));
    let found = match (variant, is_on("byte_level"), is_on("byte_fallback")) {
        (None, true, false) => return Ok(Atoms::Bytes),
        (None, false, true) => return Ok(Atoms::Characters),
        (Some(variant), ..) => format!("BPE with {variant}"),
        (None, true, true) => "BPE over bytes with byte_fallback".to_owned(),
        (None, false, false) => "BPE over characters without byte_fallback".to_owned(),
    };
    Err(unsupported("tokenizer", found, BPE))
}

/// Returns the normalizers, and the `Metaspace` that follows them.
pub(super) fn normalizers(
    config: Option<&Value>,
    atoms: Atoms,
) -> Result<(Vec<PipelineNormalizer>, Option<MetaspaceNormalizer>), LanguageError> {
    let marks = atoms == Atoms::Characters;
    let mut steps = Vec::new();
    let mut metaspace = None;
    for config in members(config, "normalizers") {
        let step = match kind(config) {
            other if metaspace.is_some() => {
                let found = format!("{other} after Metaspace");
                return Err(unsupported("normalizer", found, "Metaspace as the last"));
            }
            "NFC" => PipelineNormalizer::NFC(NFC),
            "NFD" => PipelineNormalizer::NFD(NFD),
            "NFKC" => PipelineNormalizer::NFKC(NFKC),
            "NFKD" => PipelineNormalizer::NFKD(NFKD),
            "Prepend" if marks => PipelineNormalizer::Prepend(prepend(config)?),
            "Replace" if marks => PipelineNormalizer::Replace(replace(config)?),
            "MetaspaceNormalizer" if marks => {
                metaspace = Some(metaspace_of(config)?);
                continue;
            }
            other if marks => {
                let supported = "NFC, NFD, NFKC, NFKD, Prepend, Replace, Metaspace";
                return Err(unsupported("normalizer", other, supported));
            }
            other => return Err(unsupported("normalizer", other, "NFC, NFD, NFKC, NFKD")),
        };
        steps.push(step);
    }
    Ok((steps, metaspace))
}

/// Returns the mark of a space that is put before a text.
fn prepend(config: &Value) -> Result<Prepend, LanguageError> {
    // Encoding a continued text leaves it out, and decoding a prompt takes it off.
    match config.get("prepend").and_then(Value::as_str) {
        Some(mark @ "▁") => Ok(Prepend::new(mark.to_owned())),
        _ => Err(unsupported(
            "Prepend normalizer",
            config.to_string(),
            "the prepended mark ▁",
        )),
    }
}

fn replace(config: &Value) -> Result<Replace, LanguageError> {
    let (pattern, content) = replacement(config)?;
    Replace::new(pattern, content).map_err(|error| {
        unsupported(
            "Replace normalizer",
            error.to_string(),
            "the pattern String",
        )
    })
}

/// Returns the pattern and the content of a `Replace`.
pub(super) fn replacement(config: &Value) -> Result<(&str, &str), LanguageError> {
    let pattern = config
        .get("pattern")
        .and_then(|one| one.get("String")?.as_str());
    let content = config.get("content").and_then(Value::as_str);
    let pattern = pattern.filter(|pattern| !pattern.is_empty());
    pattern
        .zip(content)
        .ok_or_else(|| unsupported("Replace", config.to_string(), "the pattern String"))
}

fn metaspace_of(config: &Value) -> Result<MetaspaceNormalizer, LanguageError> {
    let text = |key| config.get(key).and_then(Value::as_str);
    let prepend = match text("prepend") {
        Some("always") => PrependBehavior::Always,
        Some("first") => PrependBehavior::First,
        Some("never") => PrependBehavior::Never,
        _ => {
            return Err(unsupported(
                "Metaspace",
                config.to_string(),
                "prepend_scheme",
            ));
        }
    };
    let drops = config.get("drop_whitespace").and_then(Value::as_bool);
    if (text("replacement"), drops) == (Some("▁"), Some(false)) {
        return Ok(MetaspaceNormalizer::new('▁', prepend, false));
    }
    Err(unsupported(
        "Metaspace",
        config.to_string(),
        "the replacement ▁, without WhitespaceSplit",
    ))
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
pub(super) fn members<'a>(config: Option<&'a Value>, key: &str) -> Vec<&'a Value> {
    match config {
        None | Some(Value::Null) => Vec::new(),
        Some(sequence) if kind(sequence) == "Sequence" => {
            let members = sequence.get(key).and_then(Value::as_array);
            members.into_iter().flatten().collect()
        }
        Some(one) => vec![one],
    }
}

pub(super) fn kind(config: &Value) -> &str {
    config.get("type").and_then(Value::as_str).unwrap_or("none")
}

pub(super) fn unsupported(
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
