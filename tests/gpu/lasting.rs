//! Sessions that are evicted, restored from the disk, branched and taken back answer as if nothing had happened, on the GPU as
//! on the CPU: the random programs of `tests/lasting.rs`, with a model that has a vocabulary.

use std::process::ExitCode;

use super::sequences::{Cold, Counts, Model, sequence};

/// Where nobody says how many.
const SEQUENCES: u64 = 8;

/// Prints a line for each model; the first answer that differs ends it. `--cpu` tries it where there is no GPU.
pub(crate) fn run(arguments: &[String]) -> ExitCode {
    let (backend, rest) = match super::backend(arguments) {
        Ok(found) => found,
        Err(code) => return code,
    };
    let (sequences, models) = match rest {
        [flag, count, models @ ..] if flag == "--sequences" => (count.parse().ok(), models),
        models => (Some(SEQUENCES), models),
    };
    let (Some(sequences), Ok(runtime)) = (sequences, tokio::runtime::Runtime::new()) else {
        return ExitCode::from(2);
    };
    for path in models {
        let model = Model::new(path.into(), backend);
        let counts = runtime.block_on(async {
            let cold = Cold::start(&model).await;
            let mut counts = Counts::default();
            for seed in 0..sequences {
                counts.add(sequence(seed, &model, &cold).await);
            }
            cold.stop().await;
            counts
        });
        println!("{path}: {sequences} sequences: {counts:?}");
        if counts.far_back == 0 && sequences >= SEQUENCES {
            println!("{path}: turns of long ago were read anew");
            return ExitCode::FAILURE;
        }
    }
    super::verdict(!models.is_empty())
}
