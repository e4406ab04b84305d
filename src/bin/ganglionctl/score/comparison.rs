//! How far a model's scores are from a reference's: statistics, never exact text.

use super::golden::Case;
use super::logprobs::Row;

/// What may not be exceeded.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Bounds {
    /// Of the mean of |delta logprob|.
    pub(crate) mean: f64,
    /// Of the 99th percentile of |delta logprob|.
    pub(crate) p99: f64,
    /// Of the mean regret.
    pub(crate) regret: f64,
    /// Whether every greedy token must be the reference's.
    pub(crate) greedy: bool,
}

/// Collects the differences of all cases.
#[derive(Debug, Default)]
pub(crate) struct Comparison {
    /// |our logprob - the reference's|, of `token_logprobs` and `last_top10`.
    deltas: Vec<f64>,
    /// Our logprob of our argmax minus our logprob of the reference's, at every position.
    regrets: Vec<f64>,
    greedy_equal: usize,
    greedy_total: usize,
}

impl Comparison {
    /// Adds position `at` of `reference`.
    pub(crate) fn add_row(&mut self, reference: &Case, at: usize, row: &Row<'_>) {
        let mut delta = |token: u32, theirs: f64| {
            if let Some(ours) = row.logprob(token) {
                self.deltas.push((ours - theirs).abs());
            }
        };
        let next = reference.input_ids.get(at + 1);
        if let (Some(&token), Some(&theirs)) = (next, reference.token_logprobs.get(at)) {
            delta(token, theirs);
        }
        if at + 1 == reference.input_ids.len() {
            for &(token, theirs) in &reference.last_top10 {
                delta(token, theirs);
            }
        }
        if let Some(&theirs) = reference.argmax.get(at) {
            let (best, other) = (row.logprob(row.argmax()), row.logprob(theirs));
            if let (Some(best), Some(other)) = (best, other) {
                self.regrets.push(best - other);
            }
        }
    }

    /// Adds the greedy tokens of one case. Those after the first difference answer another question,
    /// so they count as different.
    pub(crate) fn add_greedy(&mut self, reference: &[u32], ours: &[u32]) {
        self.greedy_total += ours.len();
        self.greedy_equal += reference.iter().zip(ours).take_while(|(a, b)| a == b).count();
    }

    /// The figures; `None` if the reference had nothing to compare with.
    pub(crate) fn figures(mut self) -> Option<Figures> {
        self.deltas.sort_by(f64::total_cmp);
        let rank = (self.deltas.len() * 99).div_ceil(100).checked_sub(1)?;
        Some(Figures {
            count: self.deltas.len(),
            mean: mean(&self.deltas),
            p99: *self.deltas.get(rank)?,
            regret_mean: mean(&self.regrets),
            regret_max: self.regrets.iter().copied().fold(0.0, f64::max),
            greedy_equal: self.greedy_equal,
            greedy_total: self.greedy_total,
        })
    }
}

/// What is printed and held against `Bounds`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Figures {
    pub(crate) count: usize,
    pub(crate) mean: f64,
    pub(crate) p99: f64,
    pub(crate) regret_mean: f64,
    pub(crate) regret_max: f64,
    pub(crate) greedy_equal: usize,
    pub(crate) greedy_total: usize,
}

impl Figures {
    /// What is over its bound, in words; empty if nothing is.
    pub(crate) fn over(&self, bounds: &Bounds) -> Vec<String> {
        // A NaN is over every bound.
        let mut over: Vec<String> = [
            ("mean |delta logprob|", self.mean, bounds.mean),
            ("p99 |delta logprob|", self.p99, bounds.p99),
            ("mean regret", self.regret_mean, bounds.regret),
        ]
        .into_iter()
        .filter(|(_, value, bound)| value.is_nan() || value > bound)
        .map(|(name, value, bound)| format!("{name} {value:.3e} is over {bound:.1e}"))
        .collect();
        if bounds.greedy && self.greedy_equal != self.greedy_total {
            over.push(format!(
                "{} of {} greedy tokens differ",
                self.greedy_total - self.greedy_equal,
                self.greedy_total
            ));
        }
        over
    }
}

impl std::fmt::Display for Figures {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "logprobs compared     {}", self.count)?;
        writeln!(f, "mean |delta logprob|  {:.3e}", self.mean)?;
        writeln!(f, "p99 |delta logprob|   {:.3e}", self.p99)?;
        writeln!(f, "mean regret           {:.3e}", self.regret_mean)?;
        writeln!(f, "max regret            {:.3e}", self.regret_max)?;
        writeln!(
            f,
            "greedy tokens equal   {} of {}",
            self.greedy_equal, self.greedy_total
        )
    }
}

/// 0 of nothing.
fn mean(values: &[f64]) -> f64 {
    #[allow(clippy::cast_precision_loss)] // a count of positions fits an f64
    let count = values.len().max(1) as f64;
    values.iter().sum::<f64>() / count
}

#[cfg(test)]
mod tests {
    use super::{Bounds, Comparison};
    use crate::score::golden::Case;
    use crate::score::logprobs::Row;

    const BOUNDS: Bounds = Bounds {
        mean: 1e-4,
        p99: 1e-4,
        regret: 1e-4,
        greedy: true,
    };

    /// A model of three tokens that always answers alike, and what it says of itself.
    fn reference(row: &Row<'_>) -> Case {
        Case {
            input_ids: vec![0, 2],
            token_logprobs: vec![row.logprob(2).unwrap()],
            argmax: vec![1, 1],
            last_top10: row.top(),
            greedy: vec![1, 1],
        }
    }

    #[test]
    fn a_model_agrees_with_itself_and_every_falsified_figure_shows() {
        let row = Row::new(&[0.5, 2.0, -1.0]).unwrap();
        let over = |falsify: fn(&mut Case)| {
            let mut case = reference(&row);
            falsify(&mut case);
            let mut comparison = Comparison::default();
            comparison.add_row(&case, 0, &row);
            comparison.add_row(&case, 1, &row);
            comparison.add_greedy(&case.greedy, &[1, 1]);
            comparison.figures().unwrap().over(&BOUNDS).join("; ")
        };
        assert_eq!(over(|_| ()), "");
        assert!(over(|case| case.token_logprobs[0] += 0.01).contains("mean |delta"));
        assert!(over(|case| case.last_top10[1].1 = f64::NAN).contains("p99"));
        assert!(over(|case| case.argmax[0] = 0).contains("regret"));
        assert!(over(|case| case.greedy[0] = 2).contains("2 of 2 greedy"));
    }

    #[test]
    fn a_file_without_figures_compares_nothing() {
        assert!(Comparison::default().figures().is_none());
    }
}
