//! Runs a part in this process, and writes a line for each result.

use std::path::PathBuf;
use std::time::Duration;

use ganglion::check::self_test::{self, SelfTest};
use ganglion::config::Config;
use ganglion::graph::{GraphOptions, Mode};
use ganglion::load::{self, Backend, KvMemory, Settings, Target, admit, with_tower};
use ganglion::model::Checkpoint;
use ganglion::runner::Runner;
use ganglion::service;
use ganglion::trial::{recordings, rows};

use super::arguments::Arguments;
use super::checks::{ADMISSION, GRAPH, OF_CPU, OF_GPU, ROWS};
use super::device;
use super::found::Results;
use super::part::Part;
use crate::doctor::Machine;

/// The time for refused calls.
const REFUSALS: Duration = Duration::from_secs(60);
/// Bytes by which a load may exceed what was admitted: other programs run, and a driver keeps memory of its own.
const SLACK: u64 = 256 << 20;
const TWENTIETH: u64 = 20;

/// Runs a part.
pub(super) fn run(part: Part, arguments: &Arguments) {
    let mut results = Results::written();
    match part {
        Part::Device => device::check(arguments.sms, &mut results),
        Part::Operations => operations(arguments, &mut results),
        Part::Load => with_model(arguments, ADMISSION, &mut results, load_model),
        Part::Graph => with_model(arguments, GRAPH, &mut results, refuse),
        Part::Rows => with_model(arguments, ROWS, &mut results, step_together),
    }
}

fn operations(arguments: &Arguments, results: &mut Results) {
    let mut report = |check: &str, tested: &SelfTest| match tested {
        SelfTest::NoDevice(why) => results.not_run(check, why),
        SelfTest::Ran { report, error } => {
            let (cases, operations) = (report.cases(), report.operations());
            let mut observed = format!("{cases} cases of {operations} operations");
            let failures = report.failures().iter().chain(error).take(3);
            for failure in failures {
                observed = format!("{observed}; {failure}");
            }
            results.judge(check, tested.passed(), observed);
        }
    };
    report(OF_GPU, &self_test::gpu(arguments.every, arguments.sms));
    report(OF_CPU, &self_test::cpu(arguments.every));
}

/// A model, and the settings with which the daemon would load it.
struct Opened {
    checkpoint: Checkpoint,
    settings: Settings,
    path: PathBuf,
}

/// Opens the model for a check that needs one.
fn with_model(
    arguments: &Arguments,
    check: &str,
    results: &mut Results,
    run: fn(&Opened, &mut Results),
) {
    let Some(path) = &arguments.model else {
        return results.not_run(check, "there is no model");
    };
    let config = Config::read(&arguments.config).unwrap_or_default();
    let checkpoint = match Checkpoint::open(path) {
        Ok(checkpoint) => checkpoint,
        Err(error) => return results.fail(check, error),
    };
    let mut settings = service::settings(path, &config).runner;
    settings.cuda.multiprocessors = arguments.sms;
    if arguments.sms.is_some() {
        settings.backend = Backend::Cuda;
    }
    let opened = Opened {
        checkpoint,
        settings,
        path: path.clone(),
    };
    run(&opened, results);
}

/// Loads the model as the daemon does, and compares the fall of free memory with what was admitted.
fn load_model(opened: &Opened, results: &mut Results) {
    let Opened {
        checkpoint,
        settings,
        path,
    } = opened;
    let machine = Machine::new(None);
    let target = match machine.site(settings.backend) {
        Ok(target) => target,
        Err(failure) => return results.not_run(ADMISSION, failure.message),
    };
    let settings = match with_tower(path, checkpoint, settings.clone()) {
        Ok(settings) => settings,
        Err(error) => return results.fail(ADMISSION, error),
    };
    let need = match admit(checkpoint, &settings, target) {
        Ok(admitted) => admitted.estimate.bytes(),
        // A smaller model would be loaded. This one is refused, with the reason and the remedy.
        Err(error) => return results.not_run(ADMISSION, error),
    };
    let free = device::free_memory(target);
    let before = free();
    let runner = match load::runner(checkpoint, &settings, &mut |_, _| {}) {
        Ok(runner) => runner,
        Err(error) => return results.fail(ADMISSION, error),
    };
    let (Some(before), Some(after)) = (before, free()) else {
        return results.not_run(ADMISSION, "free memory cannot be read");
    };
    let fell = before.saturating_sub(after);
    let of = match target {
        Target::Discrete(_) => "the GPU's own",
        Target::Cpu | Target::Integrated => "MemAvailable's",
    };
    let [need_mib, before_mib, fell_mib] = [need, before, fell].map(|bytes| bytes >> 20);
    let observed =
        format!("{need_mib} of {of} {before_mib} MiB admitted, and {fell_mib} MiB taken");
    results.judge(ADMISSION, fell <= need + need / TWENTIETH + SLACK, observed);
    #[allow(clippy::cast_precision_loss)] // shown in MiB
    for (name, mib) in [("admitted MiB", need_mib), ("taken MiB", fell_mib)] {
        results.figure(name, mib as f64);
    }
    drop(runner);
}

fn refuse(opened: &Opened, results: &mut Results) {
    let settings = Settings {
        context: 64,
        kv_memory: KvMemory::Conversations(2),
        prefill_chunk: 16,
        rows: 1,
        graph: GraphOptions {
            capture_sizes: vec![4, 8, 16],
            verify_addresses: true,
            ..GraphOptions::default()
        },
        ..of_device(&opened.settings)
    };
    let refused = load_runner(opened, &settings).and_then(|mut runner| {
        let refused = recordings::refuse_first_calls(&mut runner, REFUSALS);
        refused.map_err(|error| error.to_string())
    });
    match refused {
        Ok(calls) if calls.iter().all(|(_, calls)| *calls == 0) => {
            results.not_run(GRAPH, "no call was refused in the time for it");
        }
        Ok(calls) => {
            let calls: Vec<_> = calls
                .iter()
                .map(|(mode, calls)| format!("{} {calls}", mode.name()))
                .collect();
            let observed = format!("calls refused: {}", calls.join(", "));
            results.pass(GRAPH, observed);
        }
        Err(error) => results.fail(GRAPH, error),
    }
}

fn step_together(opened: &Opened, results: &mut Results) {
    let longest = rows::PROMPTS.into_iter().max().unwrap_or(0);
    let is_cpu = Machine::new(None)
        .site(opened.settings.backend)
        .is_ok_and(|target| target == Target::Cpu);
    let steps = if is_cpu { 12 } else { 48 };
    let context = longest + steps + 8;
    let trained = opened.checkpoint.shape.context;
    if trained < context {
        let why = format!("the model has {trained} positions, and {context} are needed");
        return results.not_run(ROWS, why);
    }
    let settings = Settings {
        context,
        kv_memory: KvMemory::Conversations(rows::PROMPTS.len()),
        rows: rows::PROMPTS.len(),
        prefill_chunk: 64,
        graph: GraphOptions {
            mode: Mode::FullDecodeOnly,
            ..GraphOptions::default()
        },
        ..of_device(&opened.settings)
    };
    let compared = load_runner(opened, &settings).and_then(|mut runner| {
        rows::as_alone(&mut runner, steps).map_err(|error| error.to_string())
    });
    match compared {
        Ok(compared) => {
            let conversations = rows::PROMPTS.len();
            results.pass(
                ROWS,
                format!("{compared} rows of {conversations} conversations as alone"),
            );
        }
        Err(error) => results.fail(ROWS, error),
    }
}

/// Returns the daemon's settings of the device alone.
fn of_device(settings: &Settings) -> Settings {
    Settings {
        backend: settings.backend,
        threads: settings.threads,
        precision: settings.precision,
        cuda: settings.cuda.clone(),
        ..Settings::default()
    }
}

fn load_runner(opened: &Opened, settings: &Settings) -> Result<Runner, String> {
    let loaded = load::runner(&opened.checkpoint, settings, &mut |_, _| {});
    loaded.map_err(|error| error.to_string())
}
