//! How far scores may be from a reference's.

use clap::Args;
use ganglion::engine::score::Comparison;
use ganglion::tape::KvType;

/// Those of tiny models, unless others are given.
#[derive(Debug, Args)]
pub(super) struct Bounds {
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

impl Bounds {
    /// What `comparison` exceeds, in words; empty if nothing.
    pub(super) fn exceeded(
        &self,
        comparison: &Comparison,
        backend: &str,
        kv: KvType,
    ) -> Vec<String> {
        let (mean, p99) = match (backend, kv) {
            ("cpu", KvType::F32) => (1e-4, 1e-4),
            ("cpu", KvType::F16) => (1e-3, 1e-3),
            ("cpu", KvType::Q8_0) => (6e-3, 2e-2),
            (_, KvType::F32 | KvType::F16) => (5e-3, 5e-2),
            (_, KvType::BF16 | KvType::Q8_0) => (1e-2, 5e-2),
        };
        let mut exceeded = Vec::new();
        for (name, value, given, bound) in [
            ("mean |delta logprob|", comparison.mean, self.mean, mean),
            ("p99 |delta logprob|", comparison.p99, self.p99, p99),
            ("mean regret", comparison.mean_regret, self.regret, mean),
        ] {
            let bound = given.unwrap_or(bound);
            // A NaN exceeds every bound.
            if value.is_nan() || value > bound {
                exceeded.push(format!("{name} {value:.2e} exceeds {bound:.2e}"));
            }
        }
        // A real model has near-ties that rounding may turn: who sets bounds wants statistics.
        let is_exact = self.mean.or(self.p99).or(self.regret).is_none();
        let (equal, total) = (comparison.greedy_equal, comparison.greedy_total);
        if is_exact && backend == "cpu" && kv == KvType::F32 && equal != total {
            exceeded.push(format!("only {equal} of {total} greedy tokens are equal"));
        }
        exceeded
    }
}
