//! A reload replaces a model while it answers. Another thread loads the new one, as in the service. `tests/graph`
//! compares the transitions with the design without a GPU.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::mpsc::{self, TryRecvError};
use std::thread;

use ganglion::device::Context;
use ganglion::graph::InvalidationReason;
use ganglion::kv::{Change, Owner, Wanted};
use ganglion::load::{self, Backend, KvMemory, Settings};
use ganglion::model::Checkpoint;
use ganglion::runner::{RetiredRunner, Runner};
use ganglion::sampler::Parameters;

const ROUNDS: usize = 12;
const UNLOADS: usize = 5;
/// After this many, the driver has allocated its own memory.
const WARM: usize = 3;
/// Bytes of driver memory that may still change: far less than any model.
const SLACK: u64 = 4 << 20;
const TOKENS: usize = 24;
const KEPT: Owner = Owner(1);
const OTHER: Owner = Owner(2);
pub(crate) const PROMPT: [u32; 5] = [3, 1, 4, 1, 5];

/// Prints a line for each model. `--cpu` runs it without a GPU.
pub(crate) fn run(arguments: &[String]) -> ExitCode {
    let (flags, models): (Vec<_>, Vec<_>) = arguments
        .iter()
        .partition(|argument| argument.starts_with("--"));
    let on_cpu = flags.iter().any(|flag| *flag == "--cpu");
    let (backend, context) = match (on_cpu, Context::open(false)) {
        (true, _) => (Backend::Cpu, None),
        (false, Ok(context)) => (Backend::Cuda, Some(context)),
        (false, Err(error)) => return super::not_run(&error),
    };
    let free = || match &context {
        Some(context) => context.free_memory().map_err(|error| error.to_string()),
        None => Ok(0),
    };
    let mut failed = models.is_empty();
    for model in models {
        let said = reload(Path::new(model), backend, &free);
        failed |= said.is_err();
        let said = said.unwrap_or_else(|error| format!("FAILED: {error}"));
        println!("{model}: {said}");
    }
    super::verdict(!failed)
}

fn reload(
    model: &Path,
    backend: Backend,
    free: &dyn Fn() -> Result<u64, String>,
) -> Result<String, String> {
    let mut runner = load(model, backend, 2)?;
    let first = say(&mut runner, KEPT, &PROMPT)?;
    let text = [&PROMPT[..], &first, &[9]].concat();
    let second = say(&mut runner, KEPT, &text)?;
    // A recurrent model has the state after the answer, and so serves a prompt that continues it.
    let next = [&text[..], &second, &[9]].concat();
    let (mut meanwhile, mut after_warm) = (0, 0);
    for round in 0..ROUNDS {
        let (done, loaded) = mpsc::channel();
        let path = PathBuf::from(model);
        let slots = 2 + round % 2;
        let thread = thread::spawn(move || drop(done.send(load(&path, backend, slots))));
        let mut new = loop {
            match loaded.try_recv() {
                Ok(new) => break new?,
                Err(TryRecvError::Disconnected) => return Err("the loader has panicked".into()),
                Err(TryRecvError::Empty) => {}
            }
            same(
                "the text meanwhile",
                &say(&mut runner, OTHER, &PROMPT)?,
                &first,
            )?;
            meanwhile += TOKENS;
        };
        drop(thread.join());
        // Every other reload keeps the cached pages.
        let comes_along = round % 4 > 1;
        let taken = if comes_along {
            new.inherit(&mut runner)
        } else {
            new.succeed(&mut runner).map(|()| false)
        };
        let taken = taken.map_err(|error| error.to_string())?;
        same("what came along", &taken, &comes_along)?;
        let said = text.len()..text.len() + TOKENS;
        let next = Wanted {
            tokens: &next,
            said: std::slice::from_ref(&said),
        };
        let held = new.held_of((0, next));
        same("whether it is held", &(held > 0), &comes_along)?;
        same(
            "the reason",
            new.graph().reason(),
            &InvalidationReason::Kv(Change::Resized),
        )?;
        let (was, is) = (runner.graph().counters(), new.graph().counters());
        same("launches", &is.launches, &was.launches)?;
        runner = new;
        same(
            "the text that goes on",
            &say(&mut runner, KEPT, &text)?,
            &second,
        )?;
        same(
            "the reason",
            runner.graph().reason(),
            &InvalidationReason::Kv(if comes_along {
                Change::NewTurn
            } else {
                Change::Restored
            }),
        )?;
        if round + 1 == WARM {
            after_warm = free()?;
        }
    }
    let lost = after_warm.saturating_sub(free()?);
    if lost > SLACK {
        return Err(format!(
            "{lost} bytes of the device are gone after {ROUNDS} reloads"
        ));
    }
    unload(runner, (model, backend), (&text, &second))?;
    Ok(format!(
        "{ROUNDS} reloads, {meanwhile} tokens made meanwhile, {lost} bytes less free than after {WARM}; {UNLOADS} unloads"
    ))
}

/// Releases the weights and loads them again: the text goes on, and no executable graph is made again.
fn unload(
    mut runner: Runner,
    (model, backend): (&Path, Backend),
    (text, second): (&[u32], &Vec<u32>),
) -> Result<(), String> {
    let made = runner.graph().counters().instantiations;
    for _ in 0..UNLOADS {
        let mut retired = runner.retire();
        runner = load_after(model, backend, 2, Some(&mut retired))?;
        runner.resume(retired);
        let said = say(&mut runner, KEPT, text)?;
        same("the text after an unload", &said, second)?;
        let counters = runner.graph().counters();
        same("instantiations", &counters.instantiations, &made)?;
    }
    Ok(())
}

fn load(model: &Path, backend: Backend, slots: usize) -> Result<Runner, String> {
    load_after(model, backend, slots, None)
}

fn load_after(
    model: &Path,
    backend: Backend,
    slots: usize,
    retired: Option<&mut RetiredRunner>,
) -> Result<Runner, String> {
    let settings = Settings {
        backend,
        context: 128,
        kv_memory: KvMemory::Conversations(slots),
        prefill_chunk: 16,
        ..Settings::default()
    };
    let checkpoint = Checkpoint::open(model).map_err(|error| error.to_string())?;
    load::runner_after(&checkpoint, &settings, retired, &mut |_, _| {})
        .map_err(|error| error.to_string())
}

/// A turn that continues from its slot's part of `prompt`, and then leaves the slot.
pub(crate) fn say(runner: &mut Runner, owner: Owner, prompt: &[u32]) -> Result<Vec<u32>, String> {
    let failed = |error: ganglion::runner::RunError| error.to_string();
    let cached = runner
        .begin(
            Some(owner),
            u32::from(owner == OTHER),
            prompt,
            Parameters::default(),
        )
        .map_err(failed)?;
    runner.prefill_all(&prompt[cached..]).map_err(failed)?;
    let mut tokens = vec![runner.token()];
    while tokens.len() < TOKENS {
        tokens.push(runner.step(tokens.len() + 1 < TOKENS).map_err(failed)?);
    }
    runner.leave(runner.slot());
    Ok(tokens)
}

pub(crate) fn same<T: PartialEq + std::fmt::Debug>(
    what: &str,
    is: &T,
    to_be: &T,
) -> Result<(), String> {
    if is == to_be {
        return Ok(());
    }
    Err(format!("{what}: {is:?} in place of {to_be:?}"))
}
