//! Checks on the GPU at hand what a test without one cannot. It exits 0 if all is well, 1 if not, and 77
//! where there is no GPU.

mod diff;
#[path = "../support/gguf_writer.rs"]
mod gguf_writer;
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

use std::process::ExitCode;

use ganglion::load::Backend;
use ganglion::tape::{DType, KvType, KvTypes};

const USAGE: &str = "usage: gpu-check CHECK [ARGUMENT...]
  smoke [PART...]         the device layer, in parts
  diff [--sms N] [NAME...]
                          each operation against the CPU executor, on a part of the GPU; only cases whose names hold all of NAME
  modes [--cpu] MODEL...  every mode of the graph gives the same tokens, and so do prompts by few rows and by many
  lifecycle [--cost] [--cpu] MODEL...
                          the decode graph's life cycle with refused calls, its memory and its cost; --cost: only that,
                          and the time to a short prompt's first token
  rows [--cpu] MODEL...   conversations that step together have the bits that each has alone, whoever joins or leaves
  long [--cpu] MODEL...   at 9,000 and 33,000 positions the log probabilities are as near to the CPU's as at the first
  lasting [--cpu] [--sequences N] [MODEL...]
                          sessions that were evicted, restored from the disk, branched and taken back in random order answer as
                          if nothing had happened; a model needs a vocabulary, and where none is given it is a tiny one
  reload [--cpu] MODEL... another thread loads the model again while it answers, and it takes its own place
  memory [--cpu] MODEL... memory of the cache is given back and taken again, and nobody's text changes";

/// Activations and the cache that they meet.
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
    // A model's chat template runs in a process of this program, where no gangliond lies beside it.
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
        Some((check, rest)) if check == "long" && !rest.is_empty() => long::run(rest),
        Some((check, rest)) if check == "lasting" => lasting::run(rest),
        Some((check, rest)) if check == "reload" && !rest.is_empty() => reload::run(rest),
        Some((check, rest)) if check == "memory" && !rest.is_empty() => memory::run(rest),
        _ => {
            eprintln!("{USAGE}");
            ExitCode::from(2)
        }
    }
}

/// Where a check runs, and what it is to look at: `--cpu` tries it where there is no GPU.
fn backend(arguments: &[String]) -> Result<(Backend, &[String]), ExitCode> {
    match arguments.split_first() {
        Some((flag, rest)) if flag == "--cpu" => Ok((Backend::Cpu, rest)),
        _ => match ganglion::device::Context::open(false) {
            Ok(_) => Ok((Backend::Cuda, arguments)),
            Err(error) => Err(not_run(&error)),
        },
    }
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
