//! The most probable tokens by the model's own logits, before penalties, temperature and masks.

/// The most scores that are reported with a chosen token.
pub const MOST_SCORED: usize = 20;

/// A token and the natural logarithm of its probability.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scored {
    pub token: u32,
    pub logprob: f32,
}

impl Scored {
    /// Puts the scores of `chosen` and of the `most` most probable tokens into `to`, in descending probability; of
    /// equals the first token comes first.
    pub fn rank(logits: &[f32], chosen: u32, most: usize, to: &mut Vec<Self>) {
        to.clear();
        let greatest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let sum: f64 = logits
            .iter()
            .map(|logit| f64::from((logit - greatest).exp()))
            .sum();
        #[allow(clippy::cast_possible_truncation)] // to what a logit has
        let whole = sum.ln() as f32;
        let scored = |(token, logit): (u32, &f32)| Self {
            token,
            logprob: logit - greatest - whole,
        };
        to.extend((0..).zip(logits).map(scored));
        let of_chosen = to.get(chosen as usize).copied();
        let most = most.min(MOST_SCORED).min(to.len());
        if most > 0 {
            to.select_nth_unstable_by(most - 1, Self::order);
        }
        to.truncate(most);
        to.sort_unstable_by(Self::order);
        to.splice(0..0, of_chosen);
    }

    /// Orders scores by descending probability.
    #[must_use]
    pub fn order(a: &Self, b: &Self) -> std::cmp::Ordering {
        b.logprob.total_cmp(&a.logprob).then(a.token.cmp(&b.token))
    }
}
