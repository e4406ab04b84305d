//! Many reloads, cancelled requests and sessions leave no descriptors, threads or memory behind.

use std::time::Duration;

use crate::support::leaks::{Held, cancelled, reloads, sessions};
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

const PAUSE: Duration = Duration::from_millis(100);

/// Returns the figures once they are stable for longer than tokio keeps an idle blocking thread, or after two minutes.
async fn at_rest(process: u32) -> Held {
    let mut held = Held::by(process).unwrap();
    let mut same = 0;
    for _ in 0..1200 {
        if same == 120 {
            break;
        }
        tokio::time::sleep(PAUSE).await;
        let now = Held::by(process).unwrap();
        let alike = (now.descriptors, now.threads) == (held.descriptors, held.threads);
        same = if alike { same + 1 } else { 0 };
        held = now;
    }
    held
}

/// Returns the figures once they are at most `before`, or after a long time.
async fn settled(process: u32, before: Held) -> Held {
    let mut held = Held::by(process).unwrap();
    for _ in 0..300 {
        if held.descriptors <= before.descriptors && held.threads <= before.threads {
            break;
        }
        tokio::time::sleep(PAUSE).await;
        held = Held::by(process).unwrap();
    }
    held
}
