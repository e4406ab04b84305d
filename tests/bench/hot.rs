//! Lets a model at a high temperature answer under each accepted schema of the public JSON-Schema-Test-Suite. An
//! independent validator checks each complete answer.
//!
//! Run `cargo run --release --example hot -- MODEL [cpu|cuda]` after `make deps`. It prints figures, and fails if an
//! answer is invalid or a schema has no answer. `cargo test` runs a part of it.

#[path = "../guided/decimals.rs"]
mod decimals;
mod engine;
#[path = "../guided/hot_answers.rs"]
mod hot_answers;
#[path = "../guided/schemas.rs"]
mod schemas;

use std::process::ExitCode;
use std::time::Instant;

use ganglion::load::Backend;

/// Answers per schema: more than 2,000 in all.
const EACH: u64 = 13;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let Some(model) = arguments.next() else {
        eprintln!("hot MODEL [cpu|cuda]");
        return ExitCode::from(2);
    };
    let backend = match arguments.next().as_deref() {
        Some("cuda") => Backend::Cuda,
        _ => Backend::Cpu,
    };
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let begun = Instant::now();
    let count = runtime.block_on(async {
        let engine = engine::start(
            model.into(),
            engine::settings(backend, 1024, engine::CONVERSATIONS),
        )
        .await;
        let count = hot_answers::answer(&engine, &schemas::suite(), EACH).await;
        engine.close();
        count
    });
    println!("{count:#?} in {:.0} s", begun.elapsed().as_secs_f64());
    if count.invalid.is_empty() && count.unjudged.is_empty() && count.without.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
