//! The log probabilities of an answer whose text is not streamed: a JSON array, reported at its end.

use zbus::Str;

use super::proxy::Info;
use crate::engine::Likelihood;

/// Bytes of the array.
const KEPT: usize = 1 << 20;

#[derive(Debug, Default)]
pub(super) struct Likelihoods {
    /// The array without its closing bracket.
    array: String,
    /// Whether later tokens were left out.
    cut: bool,
}

impl Likelihoods {
    pub(super) fn push(&mut self, likelihood: &Likelihood) {
        // Serializing to memory fails only for maps without text keys.
        let one = serde_json::to_string(likelihood).unwrap_or_default();
        self.cut |= self.array.len() + one.len() + 2 > KEPT;
        if self.cut {
            return;
        }
        self.array
            .push(if self.array.is_empty() { '[' } else { ',' });
        self.array += &one;
    }

    pub(super) fn bytes(&self) -> usize {
        self.array.len()
    }

    /// Adds the array to the end of a request.
    pub(super) fn add_to(&self, info: &mut Info) {
        if self.array.is_empty() {
            return;
        }
        let array = Str::from(format!("{}]", self.array));
        info.insert("logprobs".to_owned(), array.into());
        if self.cut {
            let note = "the logprobs exceed 1 MiB; they stopped there";
            info.entry("message".to_owned())
                .or_insert_with(|| Str::from_static(note).into());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_array_is_cut_between_tokens_with_a_note() {
        let one = Likelihood {
            token: 7,
            text: "x".repeat(1000),
            logprob: -0.5,
            best: Vec::new(),
        };
        let mut likelihoods = Likelihoods::default();
        for _ in 0..2000 {
            likelihoods.push(&one);
        }
        let mut info = Info::new();
        likelihoods.add_to(&mut info);
        let text = |key: &str| String::try_from(info[key].try_clone().expect("a copy"));
        let array = text("logprobs").expect("a text");
        assert!(array.len() <= KEPT && info.contains_key("message"));
        let kept: Vec<Likelihood> = serde_json::from_str(&array).expect("an array");
        assert!(kept.len() > 900 && kept.iter().all(|kept| *kept == one));
    }
}
