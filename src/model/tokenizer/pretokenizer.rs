//! Splits a text into the pieces that merges work within.
//!
//! A GGUF file only names its pre-tokenizer, and llama.cpp defines the names. Each is the regular expression of the
//! original `tokenizer.json`.

use tokenizers::SplitDelimiterBehavior::Isolated;
use tokenizers::normalizers::unicode::NFC;
use tokenizers::pipeline::{PipelineNormalizer, PipelinePreTokenizer};
use tokenizers::pre_tokenizers::sequence::PipelineSequence;
use tokenizers::pre_tokenizers::split::{Split, SplitPattern};
use tokenizers::utils::byte_level::GPT2_REGEX_STR as GPT2;

use crate::model::language_error::LanguageError;

const LLAMA3: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const QWEN2: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
/// Mistral's: words end before a capital letter that follows a small one, and slashes belong to paths.
const TEKKEN: &str = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const PUNCTUATION: &str = r"[\p{P}\$\+<=>\^~\|]+";
const NUMBERS: &str = r"\p{N}+";
const THREE_DIGITS: &str = "[0-9][0-9][0-9]";

/// Qwen 3.5's: marks belong to words.
const QWEN35: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
/// GPT-4o's: like Mistral's, with English endings, and digits in groups of three.
const GPT4O: &str = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const SEED_CODER: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+";
const BAILING: &str = r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+";
const BLOOM: &str = r" ?[^(\s|.,!?…。，、।۔،)]+";
const FALCON: &str = r"[\p{P}\$\+<=>\^~\|`]+";
const LINE_BREAK: &str = r"[\r\n]";
const DIGIT: &str = r"\p{N}";
const DIGITS: &str = r"\p{N}{1,3}";
const DEEPSEEK3_CJK: &str = r"[一-龥\x{3040}-ゟ゠-ヿ]+";
const DEEPSEEK3: &str = r##"[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"##;
/// DeepSeek LLM's words: letters of cased scripts.
const DEEPSEEK_LETTERS: &str = concat!(
    r"\s?[A-Za-z\x{B5}\x{C0}-\x{D6}\x{D8}-\x{F6}\x{F8}-\x{1BA}\x{1BC}-\x{1BF}\x{1C4}-\x{293}\x{295}-\x{2AF}\x{370}",
    r"-\x{373}\x{376}\x{377}\x{37B}-\x{37D}\x{37F}\x{386}\x{388}-\x{38A}\x{38C}\x{38E}-\x{3A1}\x{3A3}-\x{3F5}\x{3F7}",
    r"-\x{481}\x{48A}-\x{52F}\x{531}-\x{556}\x{10A0}-\x{10C5}\x{13A0}-\x{13F5}\x{13F8}-\x{13FD}\x{1C90}-\x{1CBA}",
    r"\x{1CBD}-\x{1CBF}\x{1D00}-\x{1D2B}\x{1D6B}-\x{1D77}\x{1D79}-\x{1D9A}\x{1E00}-\x{1F15}\x{1F18}-\x{1F1D}\x{1F20}",
    r"-\x{1F45}\x{1F48}-\x{1F4D}\x{1F50}-\x{1F57}\x{1F59}\x{1F5B}\x{1F5D}\x{1F5F}-\x{1F7D}\x{1F80}-\x{1FB4}\x{1FB6}",
    r"-\x{1FBC}\x{1FBE}\x{1FC2}-\x{1FC4}\x{1FC6}-\x{1FCC}\x{1FD0}-\x{1FD3}\x{1FD6}-\x{1FDB}\x{1FE0}-\x{1FEC}\x{1FF2}",
    r"-\x{1FF4}\x{1FF6}-\x{1FFC}\x{2102}\x{2107}\x{210A}-\x{2113}\x{2115}\x{2119}-\x{211D}\x{2124}\x{2126}\x{2128}",
    r"\x{212A}-\x{212D}\x{212F}-\x{2134}\x{2139}\x{213C}-\x{213F}\x{2145}-\x{2149}\x{214E}\x{2183}\x{2184}\x{2C00}",
    r"-\x{2C7B}\x{2C7E}-\x{2CE4}\x{2CEB}-\x{2CEE}\x{2CF2}\x{2CF3}\x{A640}-\x{A66D}\x{A680}-\x{A69B}\x{A722}-\x{A76F}",
    r"\x{A771}-\x{A787}\x{A78B}-\x{A78E}\x{AB70}-\x{ABBF}\x{FB00}-\x{FB06}\x{FB13}-\x{FB17}\x{FF21}-\x{FF3A}\x{FF41}",
    r"-\x{FF5A}\x{10400}-\x{1044F}\x{104B0}-\x{104D3}\x{104D8}-\x{104FB}\x{10C80}-\x{10CB2}\x{10CC0}-\x{10CF2}",
    r"\x{118A0}-\x{118DF}\x{1E900}-\x{1E943}]+",
);
/// DeepSeek LLM's signs.
const DEEPSEEK_SIGNS: &str =
    "\\s?[!-/:-~\\x{FF01}-\\x{FF0F}\\x{FF1A}-\\x{FF5E}\\x{2018}-\\x{201F}\\x{3000}-\\x{3002}]+";
/// Chinese, Japanese and Korean, as in DeepSeek's first models.
const DEEPSEEK_CJK: &str = "[\\x{4E00}-\\x{9FA5}\\x{800}-\\x{4E00}\\x{AC00}-\\x{D7FF}]+";
/// The supported names.
const NAMES: &str = "default, gpt-2, llama-bpe, smaug-bpe, qwen2, qwen35, gpt-4o, tekken, smollm, starcoder, refact, command-r, \
                     falcon, mpt, olmo, deepseek-llm, deepseek-coder, deepseek-v3, stablelm2, bloom, viking, bailingmoe, \
                     seed-coder, and llama.cpp's other names for them";

/// A pre-tokenizer with its normalization and the assumptions of merges about its pieces.
#[derive(Debug)]
pub(super) struct Preparation {
    pub(super) normalizers: Vec<PipelineNormalizer>,
    pub(super) pre_tokenizer: PipelinePreTokenizer,
    pub(super) ignore_merges: bool,
}

/// Returns the pre-tokenizer that GGUF files call `name`; without a name it is "default".
pub(super) fn named(name: Option<&str>) -> Result<Preparation, LanguageError> {
    let name = name.unwrap_or("default");
    let regexes = regexes(name).ok_or_else(|| LanguageError::Unsupported {
        what: "pre-tokenizer",
        found: name.to_owned(),
        supported: NAMES,
    })?;
    let cuts = regexes.iter().map(|regex| split(regex));
    let normalizers = match name {
        "qwen2" | "deepseek-r1-qwen" => vec![PipelineNormalizer::NFC(NFC)],
        _ => Vec::new(),
    };
    Ok(Preparation {
        normalizers,
        pre_tokenizer: in_turn(cuts.collect::<Result<_, _>>()?),
        ignore_merges: IGNORE_MERGES.contains(&name),
    })
}

/// Names of tokenizers that take a piece whole if it is a token.
const IGNORE_MERGES: [&str; 12] = [
    "llama3",
    "llama-v3",
    "llama-bpe",
    "falcon3",
    "falcon-h1",
    "pixtral",
    "midm-2.0",
    "lfm2",
    "jina-v5-nano",
    "tekken",
    "glm4",
    "glm5",
];

/// Returns the regular expressions that split a text one after the other.
fn regexes(name: &str) -> Option<&'static [&'static str]> {
    Some(match name {
        "default" => &[PUNCTUATION, GPT2, NUMBERS, THREE_DIGITS],
        "gpt-2" | "phi-2" | "gigachat" | "a.x-4.0" | "mellum" | "mpt" | "olmo" | "jais"
        | "trillion" | "exaone4" | "granite-docling" => &[GPT2],
        "llama3" | "llama-v3" | "llama-bpe" | "falcon3" | "falcon-h1" | "pixtral" | "midm-2.0"
        | "lfm2" | "jina-v5-nano" | "smaug-bpe" | "dbrx" | "chatglm-bpe" | "glm4" | "glm5" => {
            &[LLAMA3]
        }
        "tekken" => &[TEKKEN],
        "qwen2" | "deepseek-r1-qwen" | "kormo" | "f2llmv2" | "megrez" | "stablelm2" | "hunyuan"
        | "solar-open" | "grok-2" => &[QWEN2],
        "qwen35" => &[QWEN35],
        "gpt-4o" | "llama4" | "kanana2" | "talkie" | "minimax-m2" => &[GPT4O],
        "smollm" | "starcoder" | "refact" | "command-r" | "codeshell" | "exaone" | "minerva-7b"
        | "mellum2" => &[DIGIT, GPT2],
        "falcon" => &[FALCON, GPT2, THREE_DIGITS],
        "deepseek-llm" => &[
            LINE_BREAK,
            DEEPSEEK_LETTERS,
            DEEPSEEK_SIGNS,
            r"\s+$",
            DEEPSEEK_CJK,
            NUMBERS,
        ],
        "deepseek-coder" => &[LINE_BREAK, r"\s?\p{L}+", r"\s?\p{P}+", DEEPSEEK_CJK, DIGIT],
        "deepseek-v3" | "hunyuan-dense" | "joyai-llm" | "hy_v4" => {
            &[DIGITS, DEEPSEEK3_CJK, DEEPSEEK3]
        }
        "poro-chat" | "bloom" | "gpt3-finnish" => &[BLOOM],
        "viking" => &[BLOOM, DIGIT],
        "bailingmoe" | "bailingmoe2" | "llada-moe" => &[BAILING],
        "seed-coder" => &[SEED_CODER],
        _ => return None,
    })
}

/// Combines splits, each of which works within the pieces of the previous one.
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
