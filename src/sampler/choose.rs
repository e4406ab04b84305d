//! The choice itself. Order: repetition penalty, then greedy; or temperature, top-k, top-p, min-p, and
//! one draw from what is left.

use super::Sampler;
use super::philox::uniform;

#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate {
    token: u32,
    /// A scaled logit, then a probability.
    weight: f32,
}

impl Sampler {
    /// Chooses a token by its logits, which a repetition penalty changes in place, and remembers it.
    /// `None` if a logit is NaN or infinite; the state is then as before.
    pub fn choose(&mut self, logits: &mut [f32]) -> Option<u32> {
        if !logits.iter().all(|logit| logit.is_finite()) {
            return None;
        }
        let penalty = self.parameters.repetition_penalty;
        for token in self.history.distinct() {
            if let Some(logit) = logits.get_mut(token as usize) {
                *logit = if *logit > 0.0 {
                    *logit / penalty
                } else {
                    *logit * penalty
                };
            }
        }
        let token = if self.parameters.temperature > 0.0 {
            self.draw(logits)
        } else {
            greatest(logits)
        };
        self.counter += 1;
        self.history.push(token);
        Some(token)
    }

    fn draw(&mut self, logits: &[f32]) -> u32 {
        let parameters = self.parameters;
        let candidates = &mut self.candidates;
        candidates.clear();
        let scaled = |(token, logit): (u32, &f32)| Candidate {
            token,
            weight: logit / parameters.temperature,
        };
        candidates.extend((0..).zip(logits).map(scaled));
        let order = |a: &Candidate, b: &Candidate| {
            b.weight.total_cmp(&a.weight).then(a.token.cmp(&b.token))
        };
        let keep = parameters.top_k as usize;
        if keep > 0 && keep < candidates.len() {
            candidates.select_nth_unstable_by(keep - 1, order);
            candidates.truncate(keep);
        }
        candidates.sort_unstable_by(order);
        let Some(&Candidate { weight: top, .. }) = candidates.first() else {
            return 0;
        };
        candidates
            .iter_mut()
            .for_each(|candidate| candidate.weight = (candidate.weight - top).exp());
        // The most probable has weight 1, and always stays.
        let total: f32 = candidates.iter().map(|candidate| candidate.weight).sum();
        let mut mass = 0.0;
        let kept = candidates.iter().take_while(|candidate| {
            let reached = mass >= parameters.top_p * total;
            mass += candidate.weight;
            !reached && candidate.weight >= parameters.min_p
        });
        let kept = kept.count().max(1);
        candidates.truncate(kept);
        // In the order of the vocabulary: a device draws without sorting, and draws the same.
        candidates.sort_unstable_by_key(|candidate| candidate.token);
        let total: f32 = candidates.iter().map(|candidate| candidate.weight).sum();
        let mut left = uniform(parameters.seed, self.counter) * total;
        for candidate in candidates.iter() {
            left -= candidate.weight;
            if left < 0.0 {
                return candidate.token;
            }
        }
        // Rounding may leave a rest: it belongs to the last.
        candidates.last().map_or(0, |candidate| candidate.token)
    }
}

/// The token of the greatest logit, the first of equals.
fn greatest(logits: &[f32]) -> u32 {
    let mut best = (0, f32::NEG_INFINITY);
    for (token, &logit) in (0..).zip(logits) {
        if logit > best.1 {
            best = (token, logit);
        }
    }
    best.0
}
