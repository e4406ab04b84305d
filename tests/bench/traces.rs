//! Answers of a real model, and the guesses that `lookup` makes for them. A model with random weights replays how many of them
//! were right, because its own texts repeat nothing. Guided answers it writes again, token by token, because their masks allow
//! nothing else: their forced tokens, their guesses and the times of their masks are then those of the real model's text.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use ganglion::guess::{Custom, Guess, Lookup, MOST_GUESSES, Source};
use serde::{Deserialize, Serialize};

/// The tokens of a conversation with an answer.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Trace {
    pub(crate) prompt: Vec<u32>,
    pub(crate) answer: Vec<u32>,
}

impl Trace {
    /// Returns how many tokens `lookup` guesses after each token of the answer but the last, and how many of them are right.
    pub(crate) fn guesses(&self) -> Vec<(usize, usize)> {
        let mut lookup = Lookup::default();
        self.prompt.iter().for_each(|token| lookup.push(*token));
        let mut guesses = Vec::new();
        for (at, token) in self.answer.iter().enumerate() {
            lookup.push(*token);
            let left = &self.answer[at + 1..];
            let proposed = lookup.propose(MOST_GUESSES);
            let right = proposed.iter().zip(left).take_while(|(a, b)| a == b);
            guesses.push((proposed.len(), right.count()));
        }
        guesses
    }
}

/// Guesses nothing, and keeps the tokens that it sees: the prompt and the answer's first tokens.
pub(crate) fn recorder() -> (Guess, Arc<Mutex<Vec<u32>>>) {
    let seen = Arc::<Mutex<Vec<u32>>>::default();
    let to = seen.clone();
    let custom = Custom::new(move |tokens, _| {
        let mut seen = to.lock().unwrap_or_else(PoisonError::into_inner);
        seen.clear();
        seen.extend_from_slice(tokens);
        Vec::new()
    });
    (guess(custom, false), seen)
}

/// Guesses the tokens of `own`, right or wrong as in `trace` at the same places of the answer.
pub(crate) fn replay(own: &Trace, trace: &Trace, is_auto: bool) -> Guess {
    let (before, answer) = (own.prompt.len(), own.answer.clone());
    let all = trace.guesses();
    let custom = Custom::new(move |tokens: &[u32], most| {
        let at = tokens.len().saturating_sub(before);
        let place = at.wrapping_sub(1);
        let (proposed, right) = all.get(place).copied().unwrap_or_default();
        let next = answer.iter().skip(at).take(proposed.min(most));
        let wrong = |at: usize, token: &u32| if at < right { *token } else { token ^ 1 };
        next.enumerate()
            .map(|(at, token)| wrong(at, token))
            .collect()
    });
    guess(custom, is_auto)
}

/// The answers of `answers.json`, whose guided ones a model with random weights writes again.
static RECORDED: LazyLock<BTreeMap<String, Trace>> =
    LazyLock::new(|| serde_json::from_str(include_str!("answers.json")).expect("they are answers"));

/// Returns the token after these ones of a recorded answer.
pub(crate) fn recorded(tokens: &[u32]) -> Option<u32> {
    let mut all = RECORDED.values();
    let begun = all.find(|trace| !tokens.is_empty() && trace.answer.starts_with(tokens))?;
    begun.answer.get(tokens.len()).copied()
}

fn guess(custom: Custom, is_auto: bool) -> Guess {
    Guess {
        source: Source::Custom(custom),
        most: MOST_GUESSES,
        is_auto,
    }
}
