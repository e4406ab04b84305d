//! The cache releases memory and allocates it again between turns: conversations continue unchanged, and the graph is
//! not recorded again. `src/kv` tests the choice of the released memory without a GPU.

use std::path::Path;
use std::process::ExitCode;

use ganglion::device::Context;
use ganglion::kv::{Owner, Reuse};
use ganglion::load::{self, Backend, KvMemory, Settings};
use ganglion::model::Checkpoint;
use ganglion::runner::Runner;

use super::reload::{PROMPT, same, say};

const ROUNDS: usize = 8;
const KEPT: Owner = Owner(1);
const OTHERS: [Owner; 3] = [Owner(3), Owner(4), Owner(5)];

/// Prints a line for each model. `--cpu` runs it without a GPU.
pub(crate) fn run(arguments: &[String]) -> ExitCode {
    let (backend, models) = match super::backend(arguments) {
        Ok(found) => found,
        Err(code) => return code,
    };
    let mut failed = models.is_empty();
    for model in models {
        let said = give_back(Path::new(model), backend);
        failed |= said.is_err();
        let said = said.unwrap_or_else(|error| format!("FAILED: {error}"));
        println!("{model}: {said}");
    }
    super::verdict(!failed)
}

fn give_back(model: &Path, backend: Backend) -> Result<String, String> {
    let failed = |error: ganglion::runner::RunError| error.to_string();
    let context = match backend {
        Backend::Cpu => None,
        _ => Some(Context::open(false).map_err(|error| error.to_string())?),
    };
    let free = || match &context {
        Some(context) => context.free_memory().map_err(|error| error.to_string()),
        None => Ok(0),
    };
    let mut calm = load(model, backend)?;
    let first = say(&mut calm, KEPT, &PROMPT)?;
    let text = [&PROMPT[..], &first, &[9]].concat();
    let second = say(&mut calm, KEPT, &text)?;
    drop(calm);

    let mut runner = load(model, backend)?;
    let (mut least, mut given_back, mut freed) = (0, 0, 0);
    let mut recordings = None;
    for _ in 0..ROUNDS {
        same("the text", &say(&mut runner, KEPT, &PROMPT)?, &first)?;
        for owner in OTHERS {
            same("another's text", &say(&mut runner, owner, &PROMPT)?, &first)?;
        }
        let most = runner.memory().kv;
        if most <= least {
            return Err("nothing was taken again".into());
        }
        OTHERS.into_iter().for_each(|owner| runner.release(owner));
        let before = free()?;
        runner.give_back(runner.turns()).map_err(failed)?;
        freed += free()?.saturating_sub(before);
        least = runner.memory().kv;
        if least >= most {
            return Err("nothing was given back".into());
        }
        given_back += most - least;
        let goes_on = say(&mut runner, KEPT, &text)?;
        same("the text that goes on", &goes_on, &second)?;
        // Recorded once; the CPU records once per slot.
        let now = runner.graph().counters().recordings;
        if backend != Backend::Cpu {
            same("recordings so far", &now, recordings.get_or_insert(now))?;
        }
    }
    Ok(format!(
        "{ROUNDS} times, {given_back} bytes given back; the device had {freed} more"
    ))
}

/// Each page is its own chunk, and four conversations have room.
fn load(model: &Path, backend: Backend) -> Result<Runner, String> {
    let settings = Settings {
        backend,
        context: 128,
        kv_memory: KvMemory::Conversations(4),
        kv_chunk: 1,
        reuse: Reuse::Exact,
        prefill_chunk: 16,
        ..Settings::default()
    };
    let checkpoint = Checkpoint::open(model).map_err(|error| error.to_string())?;
    load::runner(&checkpoint, &settings, &mut |_, _| {}).map_err(|error| error.to_string())
}
