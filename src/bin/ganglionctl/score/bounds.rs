//! How far scores may be from a reference's.

use clap::Args;
use ganglion::engine::score::Comparison;
use ganglion::tape::KvType;

/// The bounds of the command line.
#[derive(Debug, Args)]
pub(super) struct Given {
    /// Bound of the mean |delta logprob|
    #[arg(long, value_name = "X", requires = "compare")]
    mean: Option<f64>,
    /// Bound of the 99th percentile of |delta logprob|
    #[arg(long, value_name = "Y", requires = "compare")]
    p99: Option<f64>,
    /// Bound of the mean regret: our logprob of our argmax minus that of the reference's
    #[arg(long, value_name = "Z", requires = "compare")]
    regret: Option<f64>,
}

/// What may not be exceeded.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Bounds {
    mean: f64,
    p99: f64,
    regret: f64,
    /// Whether every greedy token must be the reference's.
    greedy: bool,
}

impl Bounds {
    /// The bounds of tiny models, unless others are `given`.
    pub(super) fn new(given: &Given, backend: &str, kv: KvType) -> Self {
        let (mean, p99) = match (backend, kv) {
            ("cpu", KvType::F32) => (1e-4, 1e-4),
            ("cpu", KvType::F16) => (1e-3, 1e-3),
            ("cpu", KvType::Q8_0) => (6e-3, 2e-2),
            (_, KvType::F32 | KvType::F16) => (5e-3, 5e-2),
            (_, KvType::BF16 | KvType::Q8_0) => (1e-2, 5e-2),
        };
        // A real model has near-ties that rounding may turn: who sets bounds wants statistics.
        let exact = given.mean.or(given.p99).or(given.regret).is_none();
        Self {
            mean: given.mean.unwrap_or(mean),
            p99: given.p99.unwrap_or(p99),
            regret: given.regret.unwrap_or(mean),
            greedy: exact && backend == "cpu" && kv == KvType::F32,
        }
    }

    /// What `comparison` exceeds, in words; empty if nothing.
    pub(super) fn exceeded(&self, comparison: &Comparison) -> Vec<String> {
        let mut exceeded: Vec<String> = [
            ("mean |delta logprob|", comparison.mean, self.mean),
            ("p99 |delta logprob|", comparison.p99, self.p99),
            ("mean regret", comparison.mean_regret, self.regret),
        ]
        .into_iter()
        // A NaN exceeds every bound.
        .filter(|(_, value, bound)| value.is_nan() || value > bound)
        .map(|(name, value, bound)| format!("{name} {value:.2e} exceeds {bound:.2e}"))
        .collect();
        let (equal, total) = (comparison.greedy_equal, comparison.greedy_total);
        if self.greedy && equal != total {
            exceeded.push(format!("only {equal} of {total} greedy tokens are equal"));
        }
        exceeded
    }
}
