//! A hot model answers under each schema of the public JSON-Schema-Test-Suite that is accepted, thirteen times; each answer that
//! comes to its end is held against the schema by an independent validator.
//!
//! `cargo run --release --example hot -- MODEL [cpu|cuda]`, after `make deps`. It prints figures, and fails if an answer is not
//! valid, or a schema has none. `cargo test` asks for some of them.

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

/// Under each schema: more than 2,000 together.
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
        let engine = engine::start(model.into(), backend, 1024).await;
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
