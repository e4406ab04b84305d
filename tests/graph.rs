//! The decode graph's life cycle on the CPU executor, which records and replays like a GPU. Whatever call fails, the
//! text is that of eager execution, and the state is that of the design.

mod cache;
mod faults;
mod model;
mod random;
mod random_events;
mod reported;

use std::path::Path;

use ganglion::graph::GraphOptions;
use ganglion::load::{self, Backend, KvMemory, Settings};
use ganglion::model::Checkpoint;
use ganglion::runner::Runner;
use ganglion::tape::Ending;

const TINY: [&str; 4] = ["tiny-llama", "tiny-llama3-rope", "tiny-qwen2", "tiny-qwen3"];

const CONTEXT: usize = 64;
const CHUNK: usize = 16;
const SIZES: [usize; 3] = [4, 8, 16];

fn runner(name: &str, pages: usize, graph: GraphOptions) -> Runner {
    runner_with(name, pages, graph, false)
}

/// A runner that may launch steps ahead.
fn runner_with(name: &str, pages: usize, graph: GraphOptions, launch_ahead: bool) -> Runner {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden")
        .join(name);
    let settings = Settings {
        backend: Backend::Cpu,
        context: CONTEXT,
        kv_memory: KvMemory::Conversations(pages),
        prefill_chunk: CHUNK,
        threads: 1,
        graph,
        launch_ahead,
        ..Settings::default()
    };
    let checkpoint = Checkpoint::open(&path).expect("the golden models open");
    load::runner(&checkpoint, &settings, &mut |_, _| {}).expect("the golden models load")
}

/// Returns the chunks of a prompt, each with its ending.
fn chunks(tokens: &[u32]) -> impl Iterator<Item = (&[u32], Ending)> {
    let last = tokens.len().div_ceil(CHUNK) - 1;
    let ending = move |at| {
        if at == last {
            Ending::Token
        } else {
            Ending::Kv
        }
    };
    let chunks = tokens.chunks(CHUNK).enumerate();
    chunks.map(move |(at, chunk)| (chunk, ending(at)))
}
