//! The life cycle of the decode graph on a device: refused calls, changes, costs, and leaks. `tests/graph` compares its
//! transitions with the design without a GPU.

mod changes;
mod cost;
mod modes;
mod spoilt;

use std::path::Path;
use std::process::ExitCode;
use std::rc::Rc;

use ganglion::device::Context;
use ganglion::graph::{GraphOptions, Mode};
use ganglion::load::{self, Backend, KvMemory, Settings};
use ganglion::model::Checkpoint;
use ganglion::runner::Runner;

const RECORDING: [Mode; 3] = [Mode::FullDecodeOnly, Mode::Piecewise, Mode::Full];

/// The result of a check, or the reason of its failure.
type Outcome = Result<String, String>;

/// One model, loaded twice.
struct Subject {
    /// Checks its addresses at each replay.
    verified: Runner,
    /// Has the default settings.
    plain: Runner,
    /// Returns the free memory, with a device.
    context: Option<Rc<Context>>,
}

type Check = (&'static str, fn(&mut Subject) -> Outcome);

const CHECKS: &[Check] = &[
    ("the same tokens in every mode", |on| {
        modes::same_tokens(&mut on.verified)
    }),
    ("every call refused", |on| {
        spoilt::each_call(&mut on.verified)
    }),
    ("every launch of an eager step refused", |on| {
        spoilt::eagerly(&mut on.verified)
    }),
    ("three refusals in a row", |on| {
        spoilt::in_a_row(&mut on.verified)
    }),
    ("no address moves", |on| {
        changes::no_false_alarm(&mut on.verified)
    }),
    (
        "memory after 1,000 rounds as after 10",
        changes::nothing_leaks,
    ),
    ("a change of the cache", |on| {
        cost::of_a_change(&mut on.plain)
    }),
];

/// On one model only, because it takes long.
const ONCE: &[Check] = &[("10,000 changes of the cache", changes::many)];

/// Prints a line for each model and check. `--cpu` runs the checks without a GPU. `--cost` prints only the cost of a
/// cache change and the time of a short prompt.
pub(crate) fn run(arguments: &[String]) -> ExitCode {
    let (flags, models): (Vec<_>, Vec<_>) = arguments
        .iter()
        .partition(|argument| argument.starts_with("--"));
    let flag = |name: &str| flags.iter().any(|flag| *flag == name);
    let backend = if flag("--cpu") {
        Backend::Cpu
    } else {
        Backend::Cuda
    };
    let context = match (backend, Context::open(false)) {
        (Backend::Cpu, _) => None,
        (_, Ok(context)) => Some(context),
        (_, Err(error)) => return super::not_run(&error),
    };
    let (mut passed, mut failed) = (0, 0);
    let mut say = |model: &str, check: &str, outcome: Outcome| {
        match &outcome {
            Ok(_) => passed += 1,
            Err(_) => failed += 1,
        }
        let said = outcome.unwrap_or_else(|error| format!("FAILED: {error}"));
        println!("{model:<24} {check:<38} {said}");
    };
    for (index, model) in models.into_iter().enumerate() {
        let name = Path::new(model).file_name().unwrap_or_default();
        let name = name.to_string_lossy();
        if flag("--cost") {
            say(&name, "cost", cost::of_a_model(Path::new(model), backend));
            continue;
        }
        let loaded = Subject::load(Path::new(model), backend, context.clone());
        let mut subject = match loaded {
            Ok(subject) => subject,
            Err(error) => {
                say(&name, "loads", Err(error));
                continue;
            }
        };
        let once = if index == 0 { ONCE } else { &[] };
        for (check, of) in CHECKS.iter().chain(once) {
            say(&name, check, of(&mut subject));
        }
    }
    if !flag("--cost") || failed > 0 {
        println!("{passed} checks passed, {failed} failed");
    }
    super::verdict(failed == 0 && passed > 0)
}

impl Subject {
    fn load(model: &Path, backend: Backend, context: Option<Rc<Context>>) -> Result<Self, String> {
        let load = |verify_addresses| {
            let settings = Settings {
                backend,
                context: 64,
                kv_memory: KvMemory::Conversations(2),
                prefill_chunk: 16,
                threads: 1,
                graph: GraphOptions {
                    capture_sizes: vec![4, 8, 16],
                    verify_addresses,
                    ..GraphOptions::default()
                },
                ..Settings::default()
            };
            load(model, &settings)
        };
        Ok(Self {
            verified: load(true)?,
            plain: load(false)?,
            context,
        })
    }
}

fn load(model: &Path, settings: &Settings) -> Result<Runner, String> {
    let checkpoint = Checkpoint::open(model).map_err(|error| error.to_string())?;
    load::runner(&checkpoint, settings, &mut |_, _| {}).map_err(|error| error.to_string())
}
