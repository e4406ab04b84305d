//! The parameters of a choice that a caller can set.

/// The parameters of a choice; `Parameters::default()` is greedy.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Parameters {
    /// Divides the logits; 0 means greedy. In 0..=2.
    pub temperature: f32,
    /// Keeps the `top_k` most probable tokens; 0 keeps all.
    pub top_k: u32,
    /// Keeps the smallest set of most probable tokens whose probability reaches `top_p`; 1 keeps all. In 0..=1.
    pub top_p: f32,
    /// Drops tokens less probable than `min_p` times the most probable one; 0 keeps all. In 0..=1.
    pub min_p: f32,
    /// Divides positive logits of the last `WINDOW` tokens by this, and multiplies negative ones (Keskar et al. 2019);
    /// 1 changes nothing. In 0.1..=10.
    pub repetition_penalty: f32,
    /// The same seed, parameters and prompt give the same text.
    pub seed: u64,
    /// Reports the log probability of each token and of this number of most probable ones, at most `MOST_SCORED`;
    /// `None` reports nothing.
    pub logprobs: Option<u8>,
}

impl Parameters {
    /// The least and the largest values.
    pub const TEMPERATURE: [f32; 2] = [0.0, 2.0];
    pub const TOP_P: [f32; 2] = [0.0, 1.0];
    pub const MIN_P: [f32; 2] = [0.0, 1.0];
    pub const REPETITION_PENALTY: [f32; 2] = [0.1, 10.0];
}

impl Default for Parameters {
    fn default() -> Self {
        Self {
            temperature: 0.0,
            top_k: 0,
            top_p: 1.0,
            min_p: 0.0,
            repetition_penalty: 1.0,
            seed: 0,
            logprobs: None,
        }
    }
}
