//! Sessions whose pages are evicted, written to the disk and read back, branched and taken back, by random programs: what they
//! answer is what an engine answers that has nothing but their journal, to the last bit.

mod connection;
mod damage;
mod quota;
mod sequences;

use std::path::Path;

use ganglion::load::Backend;

use crate::support::{limits, tiny_gguf};
use sequences::Model;

/// Sequences that run each time; `GANGLION_SEQUENCES` may ask for more.
const SEQUENCES: u64 = 100;

fn model(folder: &Path) -> Model {
    let path = folder.join("tiny.gguf");
    std::fs::write(&path, tiny_gguf::with_vocabulary().file()).expect("it is written");
    Model::new(path, Backend::Cpu)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_answers_as_if_it_had_never_lost_its_pages() {
    let folder = tempfile::tempdir().expect("a folder");
    let model = model(folder.path());
    let asked = std::env::var("GANGLION_SEQUENCES");
    let sequences = asked.map_or(SEQUENCES, |asked| asked.parse().expect("a number"));
    let counts = sequences::sequences(&model, sequences).await;
    println!("{sequences} sequences: {counts:?}");
    assert!(counts.far_back > 0 && counts.from_host > 0);
}

/// A session of a connection has nothing on the disk: what comes back is from the host's memory, for as long as it is open.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_without_a_name_comes_back_from_the_hosts_memory() {
    let folder = tempfile::tempdir().expect("a folder");
    let model = model(folder.path());
    let evicted = connection::of_a_connection(&model, true).await;
    let stayed = connection::of_a_connection(&model, false).await;
    assert_eq!(evicted, stayed);
}
