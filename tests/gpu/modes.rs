//! The mode of recording and the rows of a prefill do not change the tokens.

use std::error::Error;
use std::path::Path;
use std::process::ExitCode;

use ganglion::graph::{GraphOptions, Mode};
use ganglion::kv::{Owner, PAGE};
use ganglion::load::{self, Backend, CudaSettings, Head, KvMemory, OpenDraft, Settings};
use ganglion::model::Checkpoint;
use ganglion::runner::Runner;
use ganglion::sampler::Parameters;
use ganglion::tape::{Ending, STEP_ROWS};

use super::Types;

const TOKENS: usize = 64;
const PROMPTS: [usize; 6] = [1, 2, 9, 64, 65, 130];
const SEEDS: [u64; 4] = [1, 2, 3, 4];
/// Rows of a prefill that run at once: as many as a wide product takes, and fewer than a narrow one.
const CHUNKS: [usize; 2] = [64, 7];

/// Prints a line for each model and type. `--cpu` runs the check without a GPU.
pub(crate) fn run(arguments: &[String]) -> ExitCode {
    let (backend, models) = match super::backend(arguments) {
        Ok(found) => found,
        Err(code) => return code,
    };
    let mut passed = true;
    for model in models {
        for types in super::TYPES {
            let outcome = compare(Path::new(model), backend, types);
            passed &= outcome.is_ok();
            let said = outcome.unwrap_or_else(|error| format!("FAILED: {error}"));
            let (activations, cache) = (types.0.name(), types.1.name());
            println!("{model} {activations}, {cache} cache: {said}");
        }
    }
    super::verdict(passed)
}

/// One way to run a model.
struct Way {
    mode: Mode,
    chunk: usize,
    runner: Runner,
}

impl Way {
    fn name(&self) -> String {
        format!("{} by {} rows", self.mode.name(), self.chunk)
    }
}

/// Compares every way with the first, which records nothing.
fn compare(model: &Path, backend: Backend, types: Types) -> Result<String, Box<dyn Error>> {
    let mut ways = Vec::new();
    for mode in [
        Mode::None,
        Mode::FullDecodeOnly,
        Mode::Full,
        Mode::Piecewise,
    ] {
        for chunk in CHUNKS {
            let runner = load(model, backend, types, (mode, chunk), 2)?;
            ways.push(Way {
                mode,
                chunk,
                runner,
            });
        }
    }
    let sampled = SEEDS.map(|seed| Parameters {
        temperature: 0.8,
        top_k: 40,
        top_p: 0.95,
        min_p: 0.05,
        repetition_penalty: 1.1,
        seed,
        ..Parameters::default()
    });
    let (mut texts, mut distinct) = (0, std::collections::HashSet::new());
    for parameters in std::iter::once(Parameters::default()).chain(sampled) {
        for length in PROMPTS {
            let mut expected = None;
            for way in &mut ways {
                let (tokens, _) = generate(way, None, 0, length, parameters)?;
                let expected = expected.get_or_insert_with(|| tokens.clone());
                if let Some(at) = (0..TOKENS).find(|&at| tokens[at] != expected[at]) {
                    return Err(format!(
                        "{} differs at token {at} after a prompt of {length}, {parameters:?}",
                        way.name()
                    )
                    .into());
                }
            }
            texts += 1;
            distinct.extend(expected);
        }
    }
    for way in &mut ways {
        takes_over(way)?;
    }
    let mut replays = 0;
    for way in &ways {
        let counters = way.runner.graph().counters();
        if (way.mode == Mode::None) != (counters.launches == 0) || counters.failures > 0 {
            return Err(format!("{}: {counters:?}", way.name()).into());
        }
        replays += counters.launches;
    }
    Ok(format!(
        "{texts} texts of {TOKENS} tokens, {} of them distinct, the same in {} ways; {replays} steps replayed",
        distinct.len(),
        ways.len()
    ))
}

/// A conversation with a shared prefix copies it from the other's slot, with the same tokens.
fn takes_over(way: &mut Way) -> Result<(), Box<dyn Error>> {
    for (user, length) in (1..).zip(PROMPTS) {
        let [first, second] = [1, 2].map(|owner| Some(Owner(owner)));
        let greedy = Parameters::default();
        let (alone, _) = generate(way, first, user, length, greedy)?;
        let (copied, cached) = generate(way, second, user, length, greedy)?;
        way.runner.release(Owner(1));
        way.runner.release(Owner(2));
        // A recurrent state is stored at least 16 tokens before the end of the first prompt, where a run has ended.
        let shared = if way.runner.layout().is_recurrent() {
            (length.saturating_sub(16) / PAGE * PAGE).min(cached)
        } else {
            length - 1
        };
        if (cached, &copied) != (shared, &alone) {
            let name = way.name();
            return Err(
                format!("{name}: {cached} of {length} tokens were taken over, or wrongly").into(),
            );
        }
    }
    Ok(())
}

pub(crate) fn load(
    model: &Path,
    backend: Backend,
    types: Types,
    recorded: (Mode, usize),
    conversations: usize,
) -> Result<Runner, Box<dyn Error>> {
    let rows = conversations.min(STEP_ROWS);
    load_with(model, backend, types, recorded, (conversations, rows))
}

/// Settings with pages for that many conversations, and steps of that many rows.
pub(crate) fn load_with(
    model: &Path,
    backend: Backend,
    (activations, kv_type): Types,
    (mode, prefill_chunk): (Mode, usize),
    (conversations, rows): (usize, usize),
) -> Result<Runner, Box<dyn Error>> {
    let types = (activations, kv_type);
    let settings = settings(backend, types, (mode, prefill_chunk), (conversations, rows));
    let checkpoint = Checkpoint::open(model)?;
    Ok(load::runner(&checkpoint, &settings, &mut |_, _| {})?)
}

/// The same for eight conversations and rows, with or without the model's head.
pub(crate) fn load_head(
    model: &Path,
    backend: Backend,
    types: Types,
    mode: Mode,
    head: bool,
) -> Result<Runner, Box<dyn Error>> {
    let text = model.to_string_lossy();
    let (model, assistant) = match text.split_once(',') {
        Some((model, assistant)) => (Path::new(model), Some(assistant.into())),
        None => (model, None),
    };
    let settings = Settings {
        head: if head { Head::Required } else { Head::Off },
        draft: assistant.filter(|_| head),
        ..settings(backend, types, (mode, 64), (8, 8))
    };
    let checkpoint = Checkpoint::open(model)?;
    let draft = OpenDraft::unchecked(model, &settings)?;
    let loaded =
        load::runner_with_draft(&checkpoint, &settings, draft.as_ref(), None, &mut |_, _| {})?;
    Ok(loaded.runner)
}

fn settings(
    backend: Backend,
    (activations, kv_type): Types,
    (mode, prefill_chunk): (Mode, usize),
    (conversations, rows): (usize, usize),
) -> Settings {
    Settings {
        backend,
        kv_type: kv_type.into(),
        context: 256,
        kv_memory: KvMemory::Conversations(conversations),
        rows,
        prefill_chunk,
        graph: GraphOptions {
            mode,
            // A size within the smaller chunk as well.
            capture_sizes: vec![4, 16, 32, 64],
            verify_addresses: true,
            // A step is cut at every point where it can be preempted.
            part_bytes: 1,
            ..GraphOptions::default()
        },
        cuda: CudaSettings {
            activations,
            ..CudaSettings::default()
        },
        ..Settings::default()
    }
}

/// Tokens of a fixed pseudo-random order.
fn prompt(length: usize, vocabulary: usize) -> Vec<u32> {
    let token = |at: usize| (7 + at * at * 31 + at * 17) % vocabulary;
    let tokens = (0..length).map(token);
    tokens
        .filter_map(|token| u32::try_from(token).ok())
        .collect()
}

/// Returns the tokens, and the number of cached prompt tokens.
fn generate(
    way: &mut Way,
    owner: Option<Owner>,
    user: u32,
    length: usize,
    parameters: Parameters,
) -> Result<(Vec<u32>, usize), Box<dyn Error>> {
    // Without recording nothing is launched ahead.
    let ahead = way.mode != Mode::None;
    let runner = &mut way.runner;
    let prompt = prompt(length, runner.shape().vocabulary);
    let cached = runner.begin(owner, user, &prompt, parameters)?;
    let mut chunks = prompt[cached..].chunks(way.chunk).peekable();
    while let Some(chunk) = chunks.next() {
        let ending = if chunks.peek().is_some() {
            Ending::Kv
        } else {
            Ending::Token
        };
        runner.prefill(chunk, ending)?;
    }
    let mut tokens = vec![runner.token()];
    while tokens.len() < TOKENS {
        // One of the two ways in each mode times some steps: the first of a pair may use a step that was launched
        // ahead.
        let timed = way.chunk == CHUNKS[1] && tokens.len() % 9 < 2;
        tokens.push(if timed {
            time(runner)?
        } else {
            runner.step(ahead && tokens.len() + 1 < TOKENS)?
        });
    }
    Ok((tokens, cached))
}

/// Times a step, which leaves the recording valid.
fn time(runner: &mut Runner) -> Result<u32, Box<dyn Error>> {
    let recorded = |runner: &Runner| (runner.graph().state(), runner.graph().counters().recordings);
    let before = recorded(runner);
    let (token, kinds) = runner.time_step()?;
    let after = recorded(runner);
    if before != after {
        return Err(format!("a step that is timed leads from {before:?} to {after:?}").into());
    }
    if kinds.is_some_and(|kinds| kinds.iter().all(|kind| kind.time.is_zero())) {
        return Err("a step that is timed takes no time".into());
    }
    Ok(token)
}
