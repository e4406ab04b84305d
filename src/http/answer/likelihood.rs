//! The probability of a token, as OpenAI's API has it.

use crate::engine::Likelihood;

/// Returns the logarithm of the probability. JSON has no infinity; OpenAI has this number in its place.
pub(in crate::http) fn logprob(likelihood: &Likelihood) -> f32 {
    const LEAST: f32 = -9999.0;
    likelihood.logprob.max(LEAST)
}

/// Returns the bytes of the token's text; `None` for a part of a character.
pub(in crate::http) fn bytes(likelihood: &Likelihood) -> Option<&[u8]> {
    let text = &*likelihood.text;
    (!text.contains(char::REPLACEMENT_CHARACTER)).then_some(text.as_bytes())
}
