//! Measures how far q8_0 in the KV cache moves a model from f16: for K and V, K alone, V alone, and the choice of
//! "auto".
//!
//! Run `cargo run --release --example kv -- MODEL TEXT [cpu|cuda] [TOKENS]`. TEXT is a file, of which the first TOKENS
//! (512) are scored.

use std::error::Error;
use std::path::Path;
use std::process::ExitCode;

use ganglion::bench::score::{Reference, compare, score};
use ganglion::kv::{KvType, KvTypes};
use ganglion::load::{self, Backend, KvChoice, KvChoices, PROBE, Settings};
use ganglion::model::{Checkpoint, Language};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [model, text, more @ ..] = &arguments[..] else {
        eprintln!("kv MODEL TEXT [cpu|cuda] [TOKENS]");
        return ExitCode::from(2);
    };
    let backend = if more.iter().any(|word| word == "cuda") {
        Backend::Cuda
    } else {
        Backend::Cpu
    };
    let tokens = more.iter().find_map(|word| word.parse().ok());
    match run(Path::new(model), text, backend, tokens.unwrap_or(512)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

#[allow(clippy::cast_precision_loss)] // counts of tokens
fn run(model: &Path, text: &str, backend: Backend, tokens: usize) -> Result<(), Box<dyn Error>> {
    let checkpoint = Checkpoint::open(model)?;
    let language = Language::load(checkpoint.language_source()?)?;
    let mut input_ids = language.encode_plain(&std::fs::read_to_string(text)?);
    input_ids.truncate(tokens);
    let load = |kv_type: KvChoices, probe: Vec<u32>| {
        let settings = Settings {
            backend,
            kv_type,
            context: input_ids.len() + 1,
            probe,
            ..Settings::default()
        };
        load::runner(&checkpoint, &settings, &mut |_, _| {})
    };
    let case = serde_json::json!({ "cases": [{ "input_ids": input_ids }] });
    let mut reference: Reference = serde_json::from_value(case)?;
    println!("{}, {} tokens", checkpoint.name, input_ids.len());
    println!("K/V         mean |delta logprob|  changed top tokens (%)");
    let (f16, q8_0) = (KvType::F16, KvType::Q8_0);
    for (k, v) in [(f16, f16), (q8_0, q8_0), (q8_0, f16), (f16, q8_0)] {
        let types = KvTypes::of(k, v);
        let scored = score(&mut load(types.into(), Vec::new())?, &reference, 0)?;
        if types.one() == Some(f16) {
            reference = scored;
            continue;
        }
        let (ours, theirs) = (&scored.cases[0].argmax, &reference.cases[0].argmax);
        let changed = ours.iter().zip(theirs).filter(|(a, b)| a != b).count();
        let share = 100.0 * changed as f64 / ours.len() as f64;
        let mean = compare(&scored, &reference).mean;
        println!("{:<10}  {mean:>20.4}  {share:>22.1}", types.name());
    }
    for asked in [KvChoice::Auto, KvChoice::Q8_0] {
        let begun = std::time::Instant::now();
        let selection = load(asked.into(), language.encode_plain(PROBE))?.kv_selection();
        let (name, seconds) = (asked.name(), begun.elapsed().as_secs_f64());
        println!("{name}: {selection:?}, loaded in {seconds:.1} s");
    }
    Ok(())
}
