//! Log probabilities of one row of logits.

/// How many of the most probable tokens a score lists.
pub(crate) const TOP: usize = 10;

/// One position's logits, and what turns them into log probabilities.
#[derive(Debug)]
pub(crate) struct Row<'a> {
    logits: &'a [f32],
    /// ln(sum(exp(logits))), summed in f64.
    log_sum: f64,
    argmax: usize,
}

impl<'a> Row<'a> {
    /// `None` if there are no logits, or one of them is not finite.
    pub(crate) fn new(logits: &'a [f32]) -> Option<Self> {
        if !logits.iter().all(|logit| logit.is_finite()) {
            return None;
        }
        // The first of equals, as every executor chooses.
        let (argmax, greatest) = logits
            .iter()
            .copied()
            .enumerate()
            .reduce(|best, next| if next.1 > best.1 { next } else { best })?;
        let greatest = f64::from(greatest);
        let sum: f64 = logits
            .iter()
            .map(|&logit| (f64::from(logit) - greatest).exp())
            .sum();
        Some(Self {
            logits,
            log_sum: greatest + sum.ln(),
            argmax,
        })
    }

    /// The most probable token.
    pub(crate) fn argmax(&self) -> u32 {
        id(self.argmax)
    }

    /// log p(`token`); `None` if the vocabulary does not hold it.
    pub(crate) fn logprob(&self, token: u32) -> Option<f64> {
        let logit = self.logits.get(usize::try_from(token).ok()?)?;
        Some(f64::from(*logit) - self.log_sum)
    }

    /// The `TOP` most probable tokens, best first.
    pub(crate) fn top(&self) -> Vec<(u32, f64)> {
        let mut order: Vec<usize> = (0..self.logits.len()).collect();
        order.sort_by(|&a, &b| self.logits[b].total_cmp(&self.logits[a]).then(a.cmp(&b)));
        order
            .into_iter()
            .take(TOP)
            .map(|index| (id(index), f64::from(self.logits[index]) - self.log_sum))
            .collect()
    }
}

fn id(index: usize) -> u32 {
    u32::try_from(index).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::Row;

    #[test]
    fn probabilities_sum_to_one_whatever_the_logits_size() {
        let logits = [1000.0_f32, 999.0, 998.0, -1000.0];
        let row = Row::new(&logits).unwrap();
        let sum: f64 = (0..4).map(|token| row.logprob(token).unwrap().exp()).sum();
        assert!((sum - 1.0).abs() < 1e-12, "{sum}");
        assert_eq!(row.argmax(), 0);
        assert_eq!(row.top().len(), 4);
        assert_eq!(row.logprob(4), None);
    }

    #[test]
    fn logits_that_are_not_finite_have_no_probabilities() {
        assert!(Row::new(&[0.0, f32::NAN]).is_none());
        assert!(Row::new(&[0.0, f32::INFINITY]).is_none());
        assert!(Row::new(&[]).is_none());
    }
}
