//! Random sequences of sessions whose pages are evicted, written to the disk, restored, branched and rewound. The
//! answers equal those of an engine that has only their journal, to the last bit.

mod cleared;
mod connection;
mod damage;
mod quota;
mod sequences;
mod unloaded;

use std::path::Path;

use ganglion::load::Backend;

use crate::support::{limits, tiny_gguf, tiny_recurrent, tiny_seeing};
use sequences::Model;

/// Sequences of each run; `GANGLION_SEQUENCES` may set more.
const SEQUENCES: u64 = 100;
const RECURRENT_SEQUENCES: u64 = 20;
const SEEING_SEQUENCES: u64 = 6;

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
    assert!(counts.far_back > 0 && counts.from_host > 0 && counts.unloaded > 0);
}

/// The same with recurrent states, which are stored at few positions.
#[tokio::test(flavor = "multi_thread")]
async fn a_recurrent_session_answers_as_if_it_had_never_lost_its_state() {
    let folder = tempfile::tempdir().expect("a folder");
    let files = tiny_recurrent::write(folder.path()).expect("they are written");
    let model = Model::recurrent(files, Backend::Cpu);
    let counts = sequences::sequences(&model, RECURRENT_SEQUENCES).await;
    println!("{RECURRENT_SEQUENCES} sequences: {counts:?}");
    assert!(counts.from_host > 0 && counts.unloaded > 0);
}

/// Without copies of their pages, sessions are computed again through the same families.
#[tokio::test(flavor = "multi_thread")]
async fn an_unnamed_session_continues_after_each_unload() {
    let folder = tempfile::tempdir().expect("a folder");
    let files = tiny_recurrent::write(folder.path()).expect("they are written");
    let recurrent = Model::recurrent(files, Backend::Cpu);
    for model in [model(folder.path()), recurrent] {
        let unloaded = unloaded::answers(&model, true).await;
        let stayed = unloaded::answers(&model, false).await;
        assert_eq!(unloaded, stayed);
    }
}

/// The decode graph is recorded again, and no executable graph is made again.
#[tokio::test(flavor = "multi_thread")]
async fn executable_graphs_survive_an_unload() {
    let folder = tempfile::tempdir().expect("a folder");
    unloaded::graphs_survive(&model(folder.path())).await;
}

/// The same with images, some of the same size.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_with_images_answers_as_if_it_had_never_lost_its_pages() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut restored = 0;
    for files in tiny_seeing::write(folder.path()).expect("they are written") {
        let model = Model::seeing(files, Backend::Cpu);
        let counts = sequences::sequences(&model, SEEING_SEQUENCES).await;
        println!("{}: {counts:?}", model.path.display());
        assert!(counts.images > 0);
        restored += counts.restored_images;
    }
    assert!(restored > 0);
}

/// A conversation that has filled its windows several times leaves nothing to the next one.
#[tokio::test(flavor = "multi_thread")]
async fn a_cleared_session_answers_as_a_new_one() {
    let folder = tempfile::tempdir().expect("a folder");
    for files in tiny_seeing::write(folder.path()).expect("they are written") {
        cleared::answers(&Model::seeing(files, Backend::Cpu)).await;
    }
}

/// A session of a connection has no file: its pages are restored from the host's memory while it is open.
#[tokio::test(flavor = "multi_thread")]
async fn an_unnamed_session_is_restored_from_the_hosts_memory() {
    let folder = tempfile::tempdir().expect("a folder");
    let model = model(folder.path());
    let evicted = connection::of_a_connection(&model, true).await;
    let stayed = connection::of_a_connection(&model, false).await;
    assert_eq!(evicted, stayed);
}
