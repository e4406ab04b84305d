//! The cost of a cache change, and the gain of a recorded prompt against its padding. It prints figures; it judges
//! nothing.

use std::path::Path;
use std::time::{Duration, Instant};

use ganglion::fault::{Call, Fault, How};
use ganglion::graph::Mode;
use ganglion::kv::Owner;
use ganglion::load::{Backend, Settings};
use ganglion::runner::Runner;
use ganglion::sampler::Parameters;
use ganglion::trial::refusals::same;

use super::changes::short_turn;
use super::spoilt::failed;
use super::{Outcome, load};

const CHANGES: usize = 200;
const INSTANTIATIONS: usize = 50;
const PROMPTS: usize = 50;
const PROMPT: u32 = 24;

/// Medians of recording by update, after a refused launch, and by instantiation, without the launch.
pub(super) fn of_a_change(runner: &mut Runner) -> Outcome {
    runner.set_graph_mode(Mode::FullDecodeOnly);
    short_turn(runner, Owner(1), 2)?;
    short_turn(runner, Owner(1), 2)?;
    let was = runner.graph().counters();
    let updated = recordings(runner, CHANGES, refuse)?;
    let count = runner.graph().counters().updates - was.updates;
    same("updates", count, CHANGES as u64)?;
    let instantiated = recordings(runner, INSTANTIATIONS, |runner| {
        runner.reset_graph();
        Ok(())
    })?;
    let count = runner.graph().counters().instantiations - was.instantiations;
    same("instantiations", count, INSTANTIATIONS as u64)?;
    let nodes = runner.graph().nodes();
    let updated = micros(updated);
    #[allow(clippy::cast_precision_loss)] // a few hundred
    let each = updated / nodes as f64;
    Ok(format!(
        "{nodes} kernels recorded in {updated:.1} us by update ({each:.2} us each), {:.1} us by instantiation",
        micros(instantiated)
    ))
}

/// Medians for any model, and the time to its first token.
pub(super) fn of_a_model(model: &Path, backend: Backend) -> Outcome {
    let settings = Settings {
        backend,
        context: 256,
        ..Settings::default()
    };
    let mut runner = load(model, &settings)?;
    let change = of_a_change(&mut runner)?;
    // Alternately, so that both see the same clocks.
    let mut times = [Vec::new(), Vec::new()];
    for _ in 0..5 {
        for (mode, times) in [Mode::Full, Mode::None].into_iter().zip(&mut times) {
            runner.set_graph_mode(mode);
            for index in 0..3 + PROMPTS / 5 {
                let time = first_token(&mut runner)?;
                // The first turns record and warm up.
                times.extend((index >= 3).then_some(time));
            }
        }
    }
    let [full, none] = times.map(|times| micros(median(times)));
    Ok(format!(
        "{change}; first token of {PROMPT}: full {full:.1} us, none {none:.1} us"
    ))
}

/// Returns the median recording of that many turns, with a call of `before` before each.
fn recordings(
    runner: &mut Runner,
    turns: usize,
    before: fn(&mut Runner) -> Result<(), String>,
) -> Result<Duration, String> {
    let mut times = Vec::new();
    for _ in 0..turns {
        before(runner)?;
        let recordings = runner.graph().counters().recordings;
        short_turn(runner, Owner(1), 2)?;
        same(
            "recordings of a turn",
            runner.graph().counters().recordings,
            recordings + 1,
        )?;
        times.push(runner.graph().last_recording());
        runner.take_graph_events();
    }
    Ok(median(times))
}

/// A turn whose step is refused, which makes the recording invalid.
fn refuse(runner: &mut Runner) -> Result<(), String> {
    runner.executor().faults().arm(Fault {
        call: Call::GraphLaunch,
        skip: 0,
        how: How::Before,
    });
    short_turn(runner, Owner(1), 2)
}

fn first_token(runner: &mut Runner) -> Result<Duration, String> {
    let owner = Owner(1);
    let prompt: Vec<u32> = (0..PROMPT).map(|at| (7 + at * at * 31) % 500).collect();
    runner.rewind(owner, 0).map_err(failed)?;
    let begun = Instant::now();
    let cached = runner.begin(Some(owner), 0, &prompt, Parameters::default());
    same("tokens kept", cached.map_err(failed)?, 0)?;
    runner.prefill_all(&prompt).map_err(failed)?;
    Ok(begun.elapsed())
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}
