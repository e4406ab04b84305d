//! How text is cut into the pieces that merges work within.
//!
//! A GGUF file only names its pre-tokenizer; llama.cpp gave the names their meaning. Each is the
//! regular expression of the original `tokenizer.json`.

use tokenizers::SplitDelimiterBehavior::Isolated;
use tokenizers::normalizers::unicode::NFC;
use tokenizers::pipeline::{PipelineNormalizer, PipelinePreTokenizer};
use tokenizers::pre_tokenizers::digits::Digits;
use tokenizers::pre_tokenizers::sequence::PipelineSequence;
use tokenizers::pre_tokenizers::split::{Split, SplitPattern};
use tokenizers::utils::byte_level::GPT2_REGEX_STR as GPT2;

use crate::model::language::LanguageError;

const LLAMA3: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const QWEN2: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
/// Mistral's: words end where small letters are followed by a capital, and paths stay with their slashes.
const TEKKEN: &str = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const PUNCTUATION: &str = r"[\p{P}\$\+<=>\^~\|]+";
const NUMBERS: &str = r"\p{N}+";
const THREE_DIGITS: &str = "[0-9][0-9][0-9]";

/// The names that are understood.
const NAMES: &str = "default, gpt-2, llama-bpe (llama3, llama-v3), smaug-bpe, qwen2 (deepseek-r1-qwen), \
                     tekken, smollm, starcoder, refact, command-r";

/// A pre-tokenizer with what comes before it and what merges may assume of its pieces.
#[derive(Debug)]
pub(super) struct Preparation {
    pub(super) normalizers: Vec<PipelineNormalizer>,
    pub(super) pre_tokenizer: PipelinePreTokenizer,
    pub(super) ignore_merges: bool,
}

/// The pre-tokenizer that GGUF files call `name`; without a name it is "default".
pub(super) fn named(name: Option<&str>) -> Result<Preparation, LanguageError> {
    let (cuts, normalizers, ignore_merges) = match name.unwrap_or("default") {
        "default" => (
            vec![
                split(PUNCTUATION)?,
                split(GPT2)?,
                split(NUMBERS)?,
                split(THREE_DIGITS)?,
            ],
            vec![],
            false,
        ),
        "gpt-2" => (vec![split(GPT2)?], vec![], false),
        "llama-bpe" | "llama3" | "llama-v3" => (vec![split(LLAMA3)?], vec![], true),
        "smaug-bpe" => (vec![split(LLAMA3)?], vec![], false),
        "tekken" => (vec![split(TEKKEN)?], vec![], true),
        "qwen2" | "deepseek-r1-qwen" => (
            vec![split(QWEN2)?],
            vec![PipelineNormalizer::NFC(NFC)],
            false,
        ),
        "smollm" | "starcoder" | "refact" | "command-r" => {
            let digits = PipelinePreTokenizer::Digits(Digits::new(true));
            (vec![digits, split(GPT2)?], vec![], false)
        }
        other => {
            return Err(LanguageError::Unsupported {
                what: "pre-tokenizer",
                found: other.to_owned(),
                supported: NAMES,
            });
        }
    };
    Ok(Preparation {
        normalizers,
        pre_tokenizer: in_turn(cuts),
        ignore_merges,
    })
}

/// Each of `cuts` works within the pieces of the one before.
pub(super) fn in_turn(mut cuts: Vec<PipelinePreTokenizer>) -> PipelinePreTokenizer {
    match cuts.len() {
        0 => PipelinePreTokenizer::None,
        1 => cuts.swap_remove(0),
        _ => PipelinePreTokenizer::Sequence(PipelineSequence::new(cuts)),
    }
}

fn split(regex: &str) -> Result<PipelinePreTokenizer, LanguageError> {
    Split::new(SplitPattern::Regex(regex.to_owned()), Isolated, false)
        .map(PipelinePreTokenizer::Split)
        .map_err(|error| LanguageError::Unsupported {
            what: "pre-tokenizer's regular expression",
            found: format!("{regex} ({error})"),
            supported: "the syntax of the fancy-regex crate",
        })
}
