//! The choice of a token: mask, repetition penalty, and then the greatest logit, or temperature, top-k, top-p, min-p
//! and one draw. The logits stay unchanged.

use super::Sampler;
use super::candidate::Candidate;
use super::mask::Mask;
use super::philox::uniform;

impl Sampler {
    /// Chooses a token that `mask` allows, and remembers it. Returns `None` and keeps the state if a logit is NaN or
    /// infinite, or if no token is allowed.
    pub fn sample(&mut self, logits: &[f32], mask: Option<&Mask>) -> Option<u32> {
        if !logits.iter().all(|logit| logit.is_finite()) {
            return None;
        }
        let allowed = |token: &u32| mask.is_none_or(|mask| mask.allows(*token));
        let candidate = |(token, weight): (u32, &f32)| Candidate {
            token,
            weight: *weight,
        };
        let candidates = &mut self.candidates;
        candidates.clear();
        candidates.reserve_exact(logits.len());
        let all = (0..).zip(logits);
        candidates.extend(all.filter(|(token, _)| allowed(token)).map(candidate));
        let penalty = self.parameters.repetition_penalty;
        for token in self.history.distinct() {
            // Candidates are in the order of the vocabulary.
            let at = candidates.binary_search_by_key(&token, |candidate| candidate.token);
            if let Ok(at) = at {
                let logit = &mut candidates[at].weight;
                *logit = if *logit > 0.0 {
                    *logit / penalty
                } else {
                    *logit * penalty
                };
            }
        }
        let token = if self.parameters.temperature > 0.0 {
            self.draw()
        } else {
            greatest(&self.candidates)
        }?;
        self.counter += 1;
        self.history.push(token);
        Some(token)
    }

    /// Draws one of the candidates.
    fn draw(&mut self) -> Option<u32> {
        let parameters = self.parameters;
        let candidates = &mut self.candidates;
        // A smaller divisor would make even the greatest logit infinite.
        let temperature = parameters.temperature.max(1e-30);
        for candidate in candidates.iter_mut() {
            candidate.weight /= temperature;
        }
        let order = |a: &Candidate, b: &Candidate| {
            b.weight.total_cmp(&a.weight).then(a.token.cmp(&b.token))
        };
        let keep = parameters.top_k as usize;
        if keep > 0 && keep < candidates.len() {
            candidates.select_nth_unstable_by(keep - 1, order);
            candidates.truncate(keep);
        }
        candidates.sort_unstable_by(order);
        let top = candidates.first()?.weight;
        candidates
            .iter_mut()
            .for_each(|candidate| candidate.weight = (candidate.weight - top).exp());
        // The most probable token has weight 1, and always stays.
        let total: f32 = candidates.iter().map(|candidate| candidate.weight).sum();
        let mut mass = 0.0;
        let kept = candidates.iter().take_while(|candidate| {
            let reached = mass >= parameters.top_p * total;
            mass += candidate.weight;
            !reached && candidate.weight >= parameters.min_p
        });
        let kept = kept.count().max(1);
        candidates.truncate(kept);
        // The order of the vocabulary: a device draws without sorting, and draws the same token.
        candidates.sort_unstable_by_key(|candidate| candidate.token);
        let total: f32 = candidates.iter().map(|candidate| candidate.weight).sum();
        let mut left = uniform(parameters.seed, self.counter) * total;
        for candidate in candidates.iter() {
            left -= candidate.weight;
            if left < 0.0 {
                return Some(candidate.token);
            }
        }
        // Rounding may leave a remainder, which belongs to the last candidate.
        candidates.last().map(|candidate| candidate.token)
    }
}

/// Returns the token of the greatest logit, the first of equals.
fn greatest(candidates: &[Candidate]) -> Option<u32> {
    let mut best: Option<Candidate> = None;
    for candidate in candidates {
        if best.is_none_or(|best| candidate.weight > best.weight) {
            best = Some(*candidate);
        }
    }
    best.map(|best| best.token)
}
