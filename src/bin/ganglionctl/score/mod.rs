//! `ganglionctl score`: what a model says of token ids, and how far that is from a reference.

mod bounds;
mod reference;

use std::path::PathBuf;

use clap::Parser;
use ganglion::engine::score::{compare, score};
use ganglion::graph::Mode;

use crate::failure::{Exit, Failure};
use crate::offline::{self, Setup};
use crate::output;
use bounds::{Bounds, Given};

/// Scores token ids; loads no tokenizer
///
/// FILE holds `{"cases": [{"input_ids": [...]}, ...]}`. The scores are printed in the same form, with
/// `token_logprobs`, argmax, `last_top10` and greedy in each case; all logarithms are natural.
#[derive(Debug, Parser)]
pub(crate) struct Arguments {
    #[command(flatten)]
    setup: Setup,
    /// What of the work is recorded and replayed
    #[arg(long, value_parser = offline::mode(), default_value = Mode::default().name())]
    mode: Mode,
    /// Greedy tokens after each case [default: 0, or with --compare as many as FILE has]
    #[arg(long, value_name = "N")]
    greedy: Option<usize>,
    /// Print how far the scores are from those in FILE, and fail if that is too far
    ///
    /// The default bounds are those of tiny models, by backend and type of the cache. On the CPU with an
    /// f32 cache every greedy token must be equal too, unless a bound is given.
    #[arg(long)]
    compare: bool,
    #[command(flatten)]
    bounds: Given,
    /// Token ids, and with --compare what a reference said of them
    file: PathBuf,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Exit, Failure> {
    let Arguments { setup, file, .. } = arguments;
    let checkpoint = setup.open()?;
    let reference = reference::read(file, checkpoint.shape.vocabulary)?;
    let greedy = match (arguments.greedy, arguments.compare) {
        (Some(greedy), _) => greedy,
        (None, true) => {
            let known = reference.cases.iter().map(|case| case.greedy.len());
            known.max().unwrap_or(0)
        }
        (None, false) => 0,
    };
    let longest = reference
        .cases
        .iter()
        .map(|case| case.input_ids.len())
        .max();
    let context = longest.unwrap_or(0).saturating_add(greedy);
    let mut runner = setup.load(&checkpoint, (context, 1), arguments.mode, &mut |_, _| ())?;
    let mut scores = score(&mut runner, &reference, greedy)
        .map_err(|error| Failure::new(Exit::Data, format!("{}: {error}", file.display())))?;

    let kv = setup.kv_type();
    if !arguments.compare {
        scores.source = format!("{}, {} KV", scores.source, kv.name());
        output::print_json_line(&scores)?;
        return Ok(Exit::Ok);
    }
    let comparison = compare(&scores, &reference);
    if comparison.positions == 0 {
        return Err(Failure::new(
            Exit::Data,
            format!(
                "{}: no case has token_logprobs or last_top10 to compare with",
                file.display()
            ),
        ));
    }
    output::print(&comparison.to_string())?;
    let exceeded = Bounds::new(&arguments.bounds, runner.backend(), kv).exceeded(&comparison);
    if exceeded.is_empty() {
        Ok(Exit::Ok)
    } else {
        Err(Failure::new(Exit::Failed, exceeded.join("; ")))
    }
}
