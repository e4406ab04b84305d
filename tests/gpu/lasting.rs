//! Sessions that are evicted, restored, branched and rewound answer like untouched ones, on a GPU and on the CPU: the
//! random programs of `tests/lasting.rs`, with the built-in tiny model or others with a vocabulary.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use super::sequences::{Model, sequences};
use super::tiny_gguf;

/// The default number of sequences.
const SEQUENCES: u64 = 100;
/// That many include every kind of event.
const MANY: u64 = 100;

/// Prints a line for each model; the first different answer is an error. `--cpu` runs it without a GPU.
pub(crate) fn run(arguments: &[String]) -> ExitCode {
    let (backend, rest) = match super::backend(arguments) {
        Ok(found) => found,
        Err(code) => return code,
    };
    let (count, models) = match rest {
        [flag, count, models @ ..] if flag == "--sequences" => (count.parse().ok(), models),
        models => (Some(SEQUENCES), models),
    };
    let (Some(count), Ok(runtime)) = (count, tokio::runtime::Runtime::new()) else {
        return ExitCode::from(2);
    };
    let Ok(folder) = tempfile::tempdir() else {
        return ExitCode::FAILURE;
    };
    let mut paths: Vec<PathBuf> = models.iter().map(PathBuf::from).collect();
    if paths.is_empty() {
        let tiny = folder.path().join("tiny.gguf");
        if let Err(error) = std::fs::write(&tiny, tiny_gguf::with_vocabulary().file()) {
            println!("{}: {error}", tiny.display());
            return ExitCode::FAILURE;
        }
        paths.push(tiny);
    }
    for path in paths {
        let begun = Instant::now();
        let name = path.display().to_string();
        let counts = runtime.block_on(sequences(&Model::new(path, backend), count));
        let seconds = begun.elapsed().as_secs_f64();
        println!("{name}: {count} sequences in {seconds:.1} s: {counts:?}");
        if counts.far_back == 0 && count >= MANY {
            println!("{name}: turns of long ago were read anew");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}
