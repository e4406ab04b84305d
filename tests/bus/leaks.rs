//! Reloads, cancelled requests and sessions in numbers: descriptors, threads and memory are as before.

use crate::support::leaks::{Held, cancelled, reloads, sessions};
use crate::support::private_bus::PrivateBus;
use crate::support::process::Process;
use crate::support::tiny_gguf;

const RELOADS: usize = 8;
const CANCELLED: usize = 300;
const SESSIONS: usize = 600;
const GROWTH: u64 = 16 << 20;

#[tokio::test(flavor = "multi_thread")]
async fn what_is_done_often_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let model = folder.path().join("model.gguf");
    std::fs::write(&model, tiny_gguf::with_vocabulary().file()).unwrap();
    let lines = format!("backend = 'cpu'\nmodel.path = '{}'", model.display());
    let bus = PrivateBus::start();
    let daemon = Process::serving(&bus, &format!("kv.context = 256\n{lines}\n")).await;
    let all = |times: usize| {
        let (socket, file, lines) = (bus.socket(), daemon.config(), lines.clone());
        tokio::task::spawn_blocking(move || {
            reloads(&socket, RELOADS / times, &file, &lines)?;
            cancelled(&socket, CANCELLED / times)?;
            sessions(&socket, SESSIONS / times)
        })
    };
    // What is made on the first use stays.
    all(4).await.unwrap().unwrap();
    let before = settled(daemon.id(), None).await;
    all(1).await.unwrap().unwrap();
    let after = settled(daemon.id(), Some(before)).await;
    println!("before: {before}\nafter:  {after}");
    assert_eq!(after.descriptors, before.descriptors);
    assert_eq!(after.threads, before.threads);
    assert!(
        after.resident < before.resident + GROWTH,
        "{before}, then {after}"
    );
}

/// What is held once it is no more than `before`, or as good as for ever.
async fn settled(process: u32, before: Option<Held>) -> Held {
    let pause = std::time::Duration::from_millis(100);
    tokio::time::sleep(10 * pause).await;
    let mut held = Held::by(process).unwrap();
    for _ in 0..100 {
        let more = before.is_some_and(|before| {
            held.descriptors > before.descriptors || held.threads > before.threads
        });
        if !more {
            break;
        }
        tokio::time::sleep(pause).await;
        held = Held::by(process).unwrap();
    }
    held
}
