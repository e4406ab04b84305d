//! Measures the configured model with `ganglionctl bench`, and compares it with the projection for the board and its power
//! mode.

use std::path::Path;

use ganglion::board::{BoardState, Sensors};
use ganglion::choice::Choice as _;
use ganglion::config::{Config, ConfigError};
use ganglion::load::{Backend, Target};
use ganglion::model::Checkpoint;
use ganglion::projection::{Board, Limits, Work};
use serde_json::Value;

use super::checks::{DECODE, LOAD_PEAK, PROMPT};
use super::found::Results;
use super::parts::Runs;
use crate::doctor::Machine;

/// The part of a projection that a board must reach.
const REACHED: f64 = 0.8;
/// The most that a load may take in shared memory, relative to weights and cache.
const PEAK: f64 = 1.05;
/// A model of four billion weights of 4.9 bits, where there is none.
const TYPICAL: Work = Work {
    step_bytes: 2.573e9,
    products: 3.63e9,
};
const SHORT: usize = 512;
const LONG: usize = 2048;

/// Adds the results that a board's files and a model allow without a run.
pub(super) fn project(machine: &Machine, work: Option<Work>, results: &mut Results) {
    match limits(machine, results) {
        Err(why) => {
            let expected = format!("no projection: {why}");
            results.expect(DECODE, &expected);
            results.expect(PROMPT, &expected);
        }
        Ok((mode, limits)) => {
            let of = if work.is_some() {
                "the model"
            } else {
                "4B Q4_K_M"
            };
            let work = work.unwrap_or(TYPICAL);
            for (check, name, speed) in [
                (DECODE, "decode projected tok/s", limits.decode(work)),
                (PROMPT, "prompt projected tok/s", limits.prompt(work)),
            ] {
                results.figure(name, speed);
                let least = REACHED * speed;
                results.expect(
                    check,
                    format!("at least {least:.0} tok/s, 80% of the projection of {of} for {mode}"),
                );
            }
        }
    }
}

/// Returns the power mode of a board, and what it leaves of its speed.
fn limits(machine: &Machine, results: &Results) -> Result<(String, Limits), String> {
    let name = machine.name();
    let memory = machine.meminfo("MemTotal:").unwrap_or(0);
    let board = Board::find(name, memory);
    let board =
        board.ok_or_else(|| format!("{name} is not Orin Nano 8 GB, NX 16 GB or AGX 64 GB"))?;
    let state = Sensors::find(&machine.path(Path::new("/"))).read();
    let multiprocessors = results.figures.get("multiprocessors");
    of_mode(&board, &state, multiprocessors.copied())
}

/// Returns what the present mode leaves of a board. The clock and the multiprocessors that the machine shows count, instead of
/// those of the table.
fn of_mode(
    board: &Board,
    state: &BoardState,
    multiprocessors: Option<f64>,
) -> Result<(String, Limits), String> {
    let mode = state.power_mode.as_ref();
    let mode = mode.ok_or("nvpmodel shows no power mode")?;
    let known = board.mode(&mode.name);
    let known = known.ok_or_else(|| format!("the power mode {} is not known", mode.name))?;
    let mut limits = board.limits(known);
    #[allow(clippy::cast_precision_loss)] // below 2^53
    if let Some(gpu) = state.gpu {
        limits.gpu_hertz = gpu.cap as f64;
    }
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // a small number
    if let Some(some) = multiprocessors {
        limits.multiprocessors = some as u32;
    }
    Ok((format!("{} {}", board.name, mode.name), limits))
}

/// Measures the model.
pub(super) async fn measure(
    runs: &Runs<'_>,
    machine: &Machine,
    config: &Result<Config, ConfigError>,
    results: &mut Results,
) {
    let not_run = |why: &str, results: &mut Results| {
        for check in [LOAD_PEAK, DECODE, PROMPT] {
            results.not_run(check, why);
        }
    };
    let Some(model) = &runs.model else {
        return not_run(
            "no model is configured: sudo ganglionctl pull, or --model",
            results,
        );
    };
    let checkpoint = match Checkpoint::open(model) {
        Ok(checkpoint) => checkpoint,
        Err(error) => return not_run(&error.to_string(), results),
    };
    results.fact("model", &checkpoint.name);
    let backend = config
        .as_ref()
        .map_or(Backend::Auto, |config| config.backend);
    let target = machine.site(backend).unwrap_or(Target::Cpu);
    let trained = checkpoint.shape.context;
    let size = |tokens: usize| tokens.min(trained / 4).max(1);
    // A CPU would need minutes for more.
    let (prompts, generate, repetitions, rows) = match target {
        Target::Cpu => (vec![size(64)], size(16), 1, ""),
        _ => (vec![size(SHORT), size(LONG)], size(64), 2, "1,4,8"),
    };
    let arguments = |prompt: usize, generate: usize, rows: &str| {
        let mut arguments = vec![
            "bench".to_owned(),
            "--json".into(),
            format!("--backend={}", backend.name()),
            format!("--model={}", model.display()),
            format!("--prompt={prompt}"),
            format!("--generate={generate}"),
            format!("--reps={repetitions}"),
        ];
        arguments.extend(runs.sms.map(|sms| format!("--sms={sms}")));
        if !rows.is_empty() {
            arguments.push(format!("--rows={rows}"));
        }
        arguments
    };
    let short = prompts[0];
    let report = match report(runs, &arguments(short, generate, rows)).await {
        Ok(report) => report,
        Err(why) => {
            for check in [LOAD_PEAK, DECODE, PROMPT] {
                results.fail(check, &why);
            }
            return;
        }
    };
    load_peak(&report, target, results);
    figures(&report, results);
    let decode = report["best"]["decode_tokens_per_second"].as_f64();
    let moved = report["best"]["decode_gigabytes_per_second"].as_f64();
    let mut prompt = report["best"]["prefill_tokens_per_second"].as_f64();
    let mut of = short;
    if let Some(long) = prompts.get(1).filter(|long| **long != short) {
        match self::report(runs, &arguments(*long, 2, "")).await {
            Ok(report) => {
                prompt = report["best"]["prefill_tokens_per_second"].as_f64();
                of = *long;
            }
            Err(why) => return results.fail(PROMPT, why),
        }
    }
    let (Some(decode), Some(prompt), Some(moved)) = (decode, prompt, moved) else {
        return not_run("bench reports no speed", results);
    };
    let work = Work {
        step_bytes: moved * 1e9 / decode,
        products: products(&checkpoint),
    };
    let decoded = format!("{decode:.1} tok/s after {short} tokens");
    let read = format!("{prompt:.0} tok/s of {of} tokens");
    judge(machine, work, [(decode, decoded), (prompt, read)], results);
}

/// Compares the speeds of decoding and of a prompt with their projections.
fn judge(machine: &Machine, work: Work, speeds: [(f64, String); 2], results: &mut Results) {
    let [(decode, decoded), (prompt, read)] = speeds;
    results.figure("step bytes", work.step_bytes);
    results.figure("decode tok/s", decode);
    results.figure("prompt tok/s", prompt);
    let projected = limits(machine, results);
    for (check, speed, observed) in [(DECODE, decode, decoded), (PROMPT, prompt, read)] {
        match &projected {
            Err(why) => results.not_run(check, format!("no projection: {why}; {observed}")),
            Ok((_, limits)) => {
                let to_reach = match check {
                    DECODE => limits.decode(work),
                    _ => limits.prompt(work),
                };
                results.judge(check, speed >= REACHED * to_reach, observed);
            }
        }
    }
    if projected.is_ok() {
        project(machine, Some(work), results);
    }
}

async fn report(runs: &Runs<'_>, arguments: &[String]) -> Result<Value, String> {
    let ended = runs.output(arguments).await;
    match ended.failure {
        Some(why) => Err(why),
        None => serde_json::from_str(&ended.written).map_err(|error| error.to_string()),
    }
}

fn load_peak(report: &Value, target: Target, results: &mut Results) {
    let Some(ratio) = report["load_peak_ratio"].as_f64() else {
        return results.not_run(LOAD_PEAK, "free memory cannot be read here");
    };
    results.figure("load peak / (weights + cache)", ratio);
    let observed = format!("{ratio:.2} times");
    match target {
        Target::Integrated => results.judge(LOAD_PEAK, ratio <= PEAK, observed),
        Target::Cpu | Target::Discrete(_) => {
            let why = format!("no memory is shared with a GPU here; {observed}");
            results.not_run(LOAD_PEAK, why);
        }
    }
}

/// Takes the figures that two machines are compared by.
fn figures(report: &Value, results: &mut Results) {
    for (key, name) in [
        ("load_seconds", "load s"),
        ("load_gigabytes_per_second", "load GB/s"),
        ("disk_gigabytes_per_second", "disk GB/s"),
        ("cached_load_seconds", "cached load s"),
        ("device_open_seconds", "GPU opened s"),
        ("copy_gigabytes_per_second", "copy GB/s"),
        ("read_gigabytes_per_second", "read GB/s"),
        ("step_nodes", "step nodes"),
    ] {
        if let Some(value) = report[key].as_f64() {
            results.figure(name, value);
        }
    }
    for row in report["rows"].as_array().into_iter().flatten() {
        if let (Some(rows), Some(time)) = (row["rows"].as_u64(), row["step_milliseconds"].as_f64())
        {
            results.figure(&format!("step of {rows} rows ms"), time);
        }
    }
    let modes = report["modes"].as_array().into_iter().flatten();
    for mode in modes {
        for (key, name) in [
            ("gap_microseconds_per_node", "gap us a node"),
            ("host_microseconds_per_token", "host us a token"),
            ("recording_microseconds", "recording us"),
        ] {
            if let Some(value) = mode[key].as_f64() {
                results.figure(name, value);
            }
        }
    }
}

/// Returns the number of weights that a prompt's token is multiplied with: the matrices of the layers, without embeddings and
/// head, whose rows are those of the vocabulary.
fn products(checkpoint: &Checkpoint) -> f64 {
    let mut sum = 0.0;
    let vocabulary = checkpoint.shape.vocabulary;
    // The closure never fails.
    let _ = checkpoint.tensors.try_map(|tensor| {
        #[allow(clippy::cast_precision_loss)] // a few billions
        if tensor.rows > 1 && tensor.rows != vocabulary {
            sum += (tensor.rows * tensor.columns) as f64;
        }
        Ok::<_, std::convert::Infallible>(())
    });
    sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use ganglion::board::{Clock, PowerMode};

    #[test]
    fn the_clock_of_the_machine_counts_and_an_unknown_mode_has_no_projection() {
        let board = Board::find("NVIDIA Jetson AGX Orin Developer Kit", 65_900_000_000);
        let board = board.expect("the board");
        let state = |name: &str, cap| BoardState {
            power_mode: Some(PowerMode {
                id: 0,
                name: name.into(),
            }),
            gpu: Some(Clock {
                now: None,
                cap,
                highest: None,
            }),
            ..BoardState::default()
        };
        let (name, limits) =
            of_mode(&board, &state("MAXN", 900_000_000), Some(14.0)).expect("a mode");
        assert_eq!(name, "AGX MAXN");
        assert_eq!(
            (limits.multiprocessors, limits.gpu_hertz.to_bits()),
            (14, 9e8_f64.to_bits())
        );
        assert!(of_mode(&board, &state("of my own", 0), None).is_err());
    }
}
