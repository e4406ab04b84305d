//! `ganglionctl score`: a model's scores of token ids, and their distance from a reference.

use std::fs;
use std::path::PathBuf;

use clap::{Args, Parser};
use ganglion::bench::score::{Case, Comparison, Reference, compare, score};
use ganglion::graph::Mode;
use ganglion::kv::{KvType, KvTypes};
use ganglion::load;

use crate::choice::choice;
use crate::failure::{Exit, OrFail as _, Outcome, ensure};
use crate::offline::{Setup, not_loaded};
use crate::output;

/// Score token ids, without a tokenizer
///
/// FILE holds `{"cases": [{"input_ids": [...]}, ...]}`. The scores are printed in the same form, with `token_logprobs`,
/// argmax, `last_top10` and greedy in each case; all logarithms are natural.
#[derive(Debug, Parser)]
pub(crate) struct Arguments {
    #[command(flatten)]
    setup: Setup,
    /// Parts of the work that are recorded and replayed
    #[arg(long, value_parser = choice::<Mode>(), default_value = Mode::default().name())]
    mode: Mode,
    /// Greedy tokens after each case [default: 0, or with --compare as many as FILE has]
    #[arg(long, value_name = "N")]
    greedy: Option<usize>,
    /// Print the distance of the scores from those in FILE, and fail if it exceeds the bounds
    ///
    /// The default bounds are those of tiny models, by backend and type of the cache. On the CPU with an f32 cache
    /// every greedy token must be equal too, unless a bound is given.
    #[arg(long)]
    compare: bool,
    #[command(flatten)]
    bounds: Bounds,
    /// Token ids, and with --compare the reference's scores
    file: PathBuf,
}

pub(crate) fn run(arguments: &Arguments) -> Outcome {
    let Arguments { setup, file, .. } = arguments;
    let checkpoint = setup.open()?;
    let shown = file.display();
    let text = fs::read_to_string(file).or_fail(Exit::Data, &shown)?;
    let reference: Reference = serde_json::from_str(&text).or_fail(Exit::Data, &shown)?;
    let checked = reference.check(checkpoint.shape.vocabulary);
    // Checked before the model is loaded, which may take long.
    checked.or_fail(Exit::Data, &shown)?;
    let most = |of: fn(&Case) -> usize| reference.cases.iter().map(of).max().unwrap_or(0);
    let known = most(|case| case.greedy.len());
    let compared = if arguments.compare { known } else { 0 };
    let greedy = arguments.greedy.unwrap_or(compared);
    let mut settings = setup.settings()?;
    settings.context = most(|case| case.input_ids.len()).saturating_add(greedy);
    settings.graph.mode = arguments.mode;
    let loaded = load::runner(&checkpoint, &settings, &mut |_, _| ());
    let mut runner = loaded.map_err(not_loaded)?;
    let mut scores = score(&mut runner, &reference, greedy).or_fail(Exit::Data, &shown)?;

    let kv = runner.kv_selection().types;
    if !arguments.compare {
        scores.source = format!("{}, {} KV", scores.source, kv.name());
        // Printed on one line: most of it is a long list of numbers.
        let text = serde_json::to_string(&scores).or_fail(Exit::Failed, "JSON")?;
        return output::print(&format!("{text}\n"));
    }
    let comparison = compare(&scores, &reference);
    ensure!(comparison.positions > 0, Data: "{shown}: no case has token_logprobs or last_top10 to compare with");
    output::print(&comparison.to_string())?;
    let bounds = &arguments.bounds;
    let exceeded = bounds.exceeded(&comparison, runner.backend(), kv);
    ensure!(exceeded.is_empty(), Failed: "{}", exceeded.join("; "));
    Ok(())
}

/// The bounds of the distance from a reference. The defaults are those of tiny models.
#[derive(Debug, Args)]
struct Bounds {
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
    /// Lists the bounds that `comparison` exceeds.
    fn exceeded(&self, comparison: &Comparison, backend: &str, kv: KvTypes) -> Vec<String> {
        // The type with fewer bits decides.
        let worst = kv.one().unwrap_or(KvType::Q8_0);
        let (mean, p99) = match (backend, worst) {
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
        // In a large model, rounding may decide near-ties. A given bound asks for statistics instead of equality.
        let is_exact = self.mean.or(self.p99).or(self.regret).is_none();
        let (equal, total) = (comparison.greedy_equal, comparison.greedy_total);
        if is_exact && backend == "cpu" && worst == KvType::F32 && equal != total {
            exceeded.push(format!("only {equal} of {total} greedy tokens are equal"));
        }
        exceeded
    }
}
