//! Checks on a GPU what a test without one cannot. Exit codes: 0 if all checks pass, 1 if one fails, 77 without a GPU.

mod diff;
mod draft;
#[path = "../support/few_states.rs"]
mod few_states;
#[path = "../support/gguf_writer.rs"]
mod gguf_writer;
#[path = "../support/guessing.rs"]
mod guessing;
mod head;
mod image_rows;
mod images;
#[path = "../support/joining.rs"]
mod joining;
mod lasting;
mod lifecycle;
#[path = "../support/limits.rs"]
mod limits;
mod long;
mod memory;
mod modes;
#[path = "../support/preempted.rs"]
mod preempted;
mod reload;
#[path = "../support/restored.rs"]
mod restored;
mod rows;
#[path = "../lasting/sequences.rs"]
mod sequences;
mod smoke;
#[allow(dead_code)] // a test has more uses for it
#[path = "../support/tiny_gguf.rs"]
mod tiny_gguf;
#[path = "../support/tiny_recurrent.rs"]
mod tiny_recurrent;
#[path = "../support/tiny_seeing.rs"]
mod tiny_seeing;
mod towers;

use std::process::ExitCode;

use ganglion::kv::{KvType, KvTypes};
use ganglion::load::{Backend, Placement, Settings};
use ganglion::quant::DType;

const USAGE: &str = "usage: gpu-check CHECK [ARGUMENT...]
  smoke [PART...]         the device layer, in parts
  diff [--sms N] [NAME...]
                          compares each operation with the CPU executor, on a part of the GPU; only cases whose names have all of NAME
  modes [--cpu] MODEL...  every mode of the graph and every number of prefill rows gives the same tokens
  lifecycle [--cost] [--cpu] MODEL...
                          the decode graph's life cycle with refused calls, its memory and its cost; --cost: only the cost,
                          and the first-token time of a short prompt
  rows [--cpu] MODEL...   conversations that step together have the bits that each has alone, whichever join or leave
  draft [--cpu] MODEL...  a draft model's guesses do not depend on earlier ones
  head [--cpu] MODEL[,ASSISTANT]...
                          guesses of a model's own head, or of an assistant, change nothing, and its logits are near the CPU's
  long [--cpu] MODEL...   at 9,000 and 33,000 positions the log probabilities are as near to the CPU's as at the start
  lasting [--cpu] [--sequences N] [MODEL...]
                          sessions that are evicted, restored, branched and rewound at random answer like untouched ones; a
                          model needs a vocabulary, and without MODEL four tiny ones run
  reload [--cpu] MODEL... another thread loads the model again during an answer, and the new one replaces it
  memory [--cpu] MODEL... the cache releases and allocates memory, and no text changes
  towers [--cpu | --tegra | --sms N] FOLDER
                          the embeddings of vision towers meet their references in FOLDER, and pauses change no bits;
                          --tegra: with weights in managed memory and an Orin's restrictions, --sms: on a part of the GPU
  towers [--cpu] --time FILE
                          the time of a tower with patches of 16 for an image of 1280 x 720
  images [--cpu | --tegra | --sms N] FOLDER
                          prompts with images meet their references in FOLDER, and neither slices nor other
                          conversations change bits";

/// Types of the activations and of the cache.
type Types = (DType, KvTypes);

const TYPES: [Types; 6] = [
    (DType::F16, KvTypes::both(KvType::F16)),
    (DType::BF16, KvTypes::both(KvType::BF16)),
    (DType::F16, KvTypes::both(KvType::Q8_0)),
    (DType::BF16, KvTypes::both(KvType::Q8_0)),
    (DType::F16, KvTypes::of(KvType::F16, KvType::Q8_0)),
    (DType::BF16, KvTypes::of(KvType::BF16, KvType::Q8_0)),
];

fn main() -> ExitCode {
    // A model's chat template runs in a process of this program, because gangliond is not in its folder.
    if let Some(code) =
        ganglion::confined::run_if_asked(&[ganglion::model::chat::TASK, ganglion::guide::TASK])
    {
        return code;
    }
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.split_first() {
        Some((check, rest)) if check == "smoke" => smoke::run(rest),
        Some((check, rest)) if check == "diff" => diff::run(rest),
        Some((check, rest)) if check == "modes" && !rest.is_empty() => modes::run(rest),
        Some((check, rest)) if check == "lifecycle" && !rest.is_empty() => lifecycle::run(rest),
        Some((check, rest)) if check == "rows" && !rest.is_empty() => rows::run(rest),
        Some((check, rest)) if check == "draft" && !rest.is_empty() => draft::run(rest),
        Some((check, rest)) if check == "head" && !rest.is_empty() => head::run(rest),
        Some((check, rest)) if check == "long" && !rest.is_empty() => long::run(rest),
        Some((check, rest)) if check == "lasting" => lasting::run(rest),
        Some((check, rest)) if check == "reload" && !rest.is_empty() => reload::run(rest),
        Some((check, rest)) if check == "memory" && !rest.is_empty() => memory::run(rest),
        Some((check, rest)) if check == "towers" && !rest.is_empty() => towers::run(rest),
        Some((check, rest)) if check == "images" && !rest.is_empty() => images::run(rest),
        _ => {
            eprintln!("{USAGE}");
            ExitCode::from(2)
        }
    }
}

/// The device and arguments of a check. `--cpu` runs it without a GPU.
fn backend(arguments: &[String]) -> Result<(Backend, &[String]), ExitCode> {
    match arguments.split_first() {
        Some((flag, rest)) if flag == "--cpu" => Ok((Backend::Cpu, rest)),
        _ => match ganglion::device::Context::open(false) {
            Ok(_) => Ok((Backend::Cuda, arguments)),
            Err(error) => Err(not_run(&error)),
        },
    }
}

/// The settings of a check on a part of the GPU, or as on an Orin, and its arguments.
fn place(arguments: &[String]) -> Result<(Settings, &[String]), ExitCode> {
    let mut settings = Settings {
        threads: 2,
        ..Settings::default()
    };
    let rest = match arguments {
        [flag, rest @ ..] if flag == "--tegra" => {
            settings.cuda.emulate_tegra = true;
            settings.cuda.weights = Placement::Unified;
            settings.cuda.kv = Placement::Unified;
            rest
        }
        [flag, part, rest @ ..] if flag == "--sms" => {
            let part = part.parse().map_err(|_| ExitCode::from(2))?;
            settings.cuda.multiprocessors = Some(part);
            rest
        }
        rest => rest,
    };
    let (backend, rest) = backend(rest)?;
    settings.backend = backend;
    Ok((settings, rest))
}

fn verdict(passed: bool) -> ExitCode {
    if passed {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn not_run(error: &ganglion::device::Error) -> ExitCode {
    println!("NOT RUN: {error}");
    ExitCode::from(77)
}
