//! How probable the tokens of an answer were, for whoever is told when it has ended: a JSON array, as long as a text may be.

use zbus::Str;

use super::proxy::Info;
use crate::engine::Likelihood;

/// Bytes of the array.
const KEPT: usize = 1 << 20;

#[derive(Debug, Default)]
pub(super) struct Likelihoods {
    /// It is an array that still lacks its end.
    array: String,
    /// Whether there was no room for some.
    cut: bool,
}

impl Likelihoods {
    pub(super) fn push(&mut self, likelihood: &Likelihood) {
        // Neither maps nor writers are involved: serializing cannot fail.
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

    /// Adds them to how a request ended.
    pub(super) fn tell(&self, info: &mut Info) {
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
    fn what_is_too_long_is_cut_between_tokens_and_says_so() {
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
        likelihoods.tell(&mut info);
        let text = |key: &str| String::try_from(info[key].try_clone().expect("a copy"));
        let array = text("logprobs").expect("a text");
        assert!(array.len() <= KEPT && info.contains_key("message"));
        let told: Vec<Likelihood> = serde_json::from_str(&array).expect("an array");
        assert!(told.len() > 900 && told.iter().all(|told| *told == one));
    }
}
