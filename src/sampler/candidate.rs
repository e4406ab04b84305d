//! A token that may be chosen, with its weight.

/// A token that may be chosen.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate {
    pub(super) token: u32,
    /// The logit, then the scaled logit, then a probability.
    pub(super) weight: f32,
}
