//! Many reloads, cancelled requests and sessions leave no descriptors, threads or memory behind.

use crate::support::at_rest::{at_rest, settled};
use crate::support::leaks::{cancelled, reloads, sessions};
use crate::support::private_bus::PrivateBus;
use crate::support::process::Process;
use crate::support::tiny_gguf;

const RELOADS: usize = 8;
const CANCELLED: usize = 300;
const SESSIONS: usize = 600;
const GROWTH: u64 = 16 << 20;

#[tokio::test(flavor = "multi_thread")]
async fn repeated_work_leaves_nothing() {
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
    // The first use allocates what stays.
    all(4).await.unwrap().unwrap();
    let before = at_rest(daemon.id()).await;
    all(1).await.unwrap().unwrap();
    let after = settled(daemon.id(), before).await;
    assert_eq!(after.descriptors, before.descriptors);
    assert_eq!(after.threads, before.threads);
    assert!(
        after.resident < before.resident + GROWTH,
        "{before}, then {after}"
    );
}
