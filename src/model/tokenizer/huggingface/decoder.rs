//! The decoder of a `tokenizer.json` whose tokens are text. The decoder of bytes is a property of the alphabet.

use serde_json::Value;

use super::components::{kind, members, replacement, unsupported};
use crate::model::language_error::LanguageError;
use crate::model::tokenizer::decode::Lead;
use crate::model::tokenizer::spelling::{Marks, Spelling};

const SUPPORTED: &str =
    "Replace, Metaspace, ByteFallback, Fuse and Strip of leading spaces, in this order";

/// The meaning of spellings.
#[derive(Debug)]
pub(super) struct Decoding {
    pub(super) spelling: Spelling,
    /// Whether `<0x0A>` is a byte.
    pub(super) bytes: bool,
    pub(super) lead: Lead,
}

/// Reads a decoder whose steps change each token alone, except at the beginning of a text.
pub(super) fn read(config: Option<&Value>) -> Result<Decoding, LanguageError> {
    let mut marks = Marks {
        replaced: Vec::new(),
        in_added: true,
    };
    let (mut bytes, mut lead) = (false, Lead::Kept);
    let steps = members(config, "decoders");
    if steps.is_empty() {
        return Err(unsupported("decoder", "none", SUPPORTED));
    }
    let mut is_fused = false;
    for step in steps {
        let is_first = !is_fused && !bytes && lead == Lead::Kept;
        match kind(step) {
            "Replace" if is_first => {
                let (pattern, content) = replacement(step)?;
                let replaced = (pattern.to_owned(), content.to_owned());
                marks.replaced.push(replaced);
            }
            "Metaspace" if is_first => {
                let text = |key| step.get(key).and_then(Value::as_str);
                let mark = text("replacement").unwrap_or_default().to_owned();
                marks.replaced.push((mark, " ".to_owned()));
                if text("prepend_scheme") != Some("never") {
                    lead = Lead::FirstToken;
                }
            }
            "ByteFallback" if !is_fused && !bytes => bytes = true,
            "Fuse" => is_fused = true,
            "Strip" if is_fused && lead == Lead::Kept => {
                lead = Lead::Spaces(stripped(step)?);
            }
            other => return Err(unsupported("decoder", other, SUPPORTED)),
        }
    }
    Ok(Decoding {
        spelling: Spelling::Text(marks),
        bytes,
        lead,
    })
}

/// Returns the number of leading spaces that a `Strip` takes away.
fn stripped(config: &Value) -> Result<usize, LanguageError> {
    let number = |key| config.get(key).and_then(Value::as_u64);
    let content = config.get("content").and_then(Value::as_str);
    match (content, number("start"), number("stop")) {
        (Some(" "), Some(start), Some(0)) => Ok(usize::try_from(start).unwrap_or(usize::MAX)),
        _ => Err(unsupported("decoder", config.to_string(), SUPPORTED)),
    }
}
