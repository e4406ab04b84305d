//! The attacks on the bus in HTTP's form: the daemon lives, answers others meanwhile, and has everything back afterwards.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use tokio::io::AsyncWriteExt as _;
use tokio::net::UnixStream;
use zbus::Variant;

use super::raw::{HEALTH, ask_at};
use crate::support::daemon::{Client, eventually, until};
use crate::support::http_openings::openings;
use crate::support::private_bus::PrivateBus;
use crate::support::process::Process;
use crate::support::stream::Reader;

const CONNECTIONS: usize = 500;
/// Memory for what the attackers had sent. The bodies alone would be 8 GB.
const GROWTH: u64 = 128 << 20;

/// Connects, sends, maybe ends its side, and reads nothing.
async fn attack(path: &Path, opening: String, half_closes: bool) -> Option<UnixStream> {
    // The backlog may be full, or the daemon may have closed it.
    let mut stream = UnixStream::connect(path).await.ok()?;
    let _ = stream.write_all(opening.as_bytes()).await;
    if half_closes {
        let _ = stream.shutdown().await;
    }
    Some(stream)
}

fn descriptors(daemon: &Process) -> usize {
    let open = fs::read_dir(format!("/proc/{}/fd", daemon.id()));
    open.map_or(0, Iterator::count)
}

#[tokio::test(flavor = "multi_thread")]
async fn five_hundred_hostile_connections() {
    let bus = PrivateBus::start();
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("http");
    let config = "stream.stall_seconds = 1\n";
    let mut daemon = Process::over_http(&bus, "tokens=4", config, &path).await;
    let client = Client::connect(&bus).await;
    let (before, memory) = (descriptors(&daemon), daemon.resident().unwrap());

    let openings = openings();
    let attackers = (0..CONNECTIONS).map(|number| {
        let opening = openings[number % openings.len()].clone();
        let path = path.clone();
        tokio::spawn(async move { attack(&path, opening, number % 5 == 0).await })
    });
    let attackers: Vec<_> = attackers.collect();
    // A caller on the bus is answered meanwhile.
    for _ in 0..20 {
        let content = HashMap::from([("content", Variant::from("hello"))]);
        let messages = [("user", content)];
        let answer = client.manager.generate(&messages, HashMap::new());
        let (_, stream) = eventually(answer).await.expect("it is answered");
        let answer = Reader::new(stream).answer().await;
        assert_eq!(answer.text, "sim: hello hello hello");
    }
    let mut open = Vec::new();
    for attacker in attackers {
        open.extend(eventually(attacker).await.expect("no panic"));
    }
    let grown = daemon.peak().unwrap().saturating_sub(memory);
    assert!(daemon.lives());
    drop(open);

    until(async || descriptors(&daemon) <= before).await;
    let (status, body) = ask_at(&path, HEALTH).await.expect("an answer");
    assert!(
        status == 200 && body.contains("\"ready\""),
        "{status} {body}"
    );
    let after = daemon.resident().unwrap();
    assert!(after < memory + GROWTH, "{memory} {after} {grown}");
}
