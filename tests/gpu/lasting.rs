//! Sessions that are evicted, restored, branched and rewound answer like untouched ones, on a GPU and on the CPU: the
//! random programs of `tests/lasting.rs`, with the built-in tiny models, two of which see images, or
//! others with a vocabulary.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use super::sequences::{Model, sequences};
use super::{tiny_gguf, tiny_recurrent, tiny_seeing};

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
    let paths = models.iter().map(PathBuf::from);
    let mut models: Vec<Model> = paths.map(|path| Model::new(path, backend)).collect();
    if models.is_empty() {
        let tiny = folder.path().join("tiny.gguf");
        if let Err(error) = std::fs::write(&tiny, tiny_gguf::with_vocabulary().file()) {
            println!("{}: {error}", tiny.display());
            return ExitCode::FAILURE;
        }
        models.push(Model::new(tiny, backend));
        let written = tiny_recurrent::write(folder.path())
            .and_then(|recurrent| Ok((recurrent, tiny_seeing::write(folder.path())?)));
        match written {
            Ok((recurrent, seeing)) => {
                models.push(Model::recurrent(recurrent, backend));
                let seeing = seeing.into_iter();
                models.extend(seeing.map(|files| Model::seeing(files, backend)));
            }
            Err(error) => {
                println!("{}: {error}", folder.path().display());
                return ExitCode::FAILURE;
            }
        }
    }
    for model in models {
        let begun = Instant::now();
        let name = model.path.display().to_string();
        let counts = runtime.block_on(sequences(&model, count));
        let seconds = begun.elapsed().as_secs_f64();
        println!("{name}: {count} sequences in {seconds:.1} s: {counts:?}");
        if counts.far_back == 0 && count >= MANY && !model.is_recurrent() {
            println!("{name}: turns of long ago were read anew");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}
