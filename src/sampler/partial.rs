//! Parameters that are only partly set, so that several sources can complete them in order of precedence.

use super::parameters::Parameters;

/// The parameters that shape a choice; `None` is unset.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Partial {
    pub temperature: Option<f32>,
    pub top_k: Option<u32>,
    pub top_p: Option<f32>,
    pub min_p: Option<f32>,
    pub repetition_penalty: Option<f32>,
}

impl Partial {
    /// Takes unset parameters from `next`.
    #[must_use]
    pub fn or(self, next: Self) -> Self {
        Self {
            temperature: self.temperature.or(next.temperature),
            top_k: self.top_k.or(next.top_k),
            top_p: self.top_p.or(next.top_p),
            min_p: self.min_p.or(next.min_p),
            repetition_penalty: self.repetition_penalty.or(next.repetition_penalty),
        }
    }

    /// Returns all parameters: defaults for the unset ones, and the seed and `logprobs` of `rest`.
    #[must_use]
    pub fn over(self, rest: &Parameters) -> Parameters {
        let default = Parameters::default();
        Parameters {
            temperature: self.temperature.unwrap_or(default.temperature),
            top_k: self.top_k.unwrap_or(default.top_k),
            top_p: self.top_p.unwrap_or(default.top_p),
            min_p: self.min_p.unwrap_or(default.min_p),
            repetition_penalty: self
                .repetition_penalty
                .unwrap_or(default.repetition_penalty),
            seed: rest.seed,
            logprobs: rest.logprobs,
        }
    }
}
