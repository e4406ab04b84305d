//! Unused memory of the cache is released, and allocated again when it is needed.

use std::path::Path;

use ganglion::engine::{Client, Event, Options, Outcome, SessionId};
use ganglion::load::{self, KvMemory};
use ganglion::sampler::Parameters;

use crate::support::daemon::eventually;
use crate::support::tiny_gguf;
use crate::together::Engine;

/// Pages of the longest conversation, whose memory is never released.
const EACH: u64 = 4;
/// K and V of 64 positions in f16: 3 layers, 2 heads, 16 wide.
const PAGE_BYTES: u64 = 2 * 64 * 3 * 2 * 16 * 2;
const USERS: u32 = 6;

/// An engine with room for eight conversations, on a system whose free memory the test sets.
struct System {
    folder: tempfile::TempDir,
    engine: Engine,
}

impl System {
    async fn start() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let model = tiny_gguf::with_vocabulary().file();
        std::fs::write(folder.path().join("tiny.gguf"), model).expect("it is written");
        has(folder.path(), 1 << 20);
        let settings = load::Settings {
            kv_memory: KvMemory::Conversations(8),
            rows: 8,
            meminfo: folder.path().join("meminfo"),
            groups: None,
            ..Engine::settings()
        };
        let engine = Engine::with(folder.path(), settings).await;
        Self { folder, engine }
    }

    /// Waits until the cache has that many bytes.
    async fn takes(&self, expected: impl Fn(u64) -> bool) {
        let mut status = self.engine.handle.status();
        let reached = status.wait_for(|status| expected(status.memory.kv));
        eventually(reached).await.expect("the engine lives");
    }

    fn open(&self, user: u32) -> SessionId {
        let client = Client {
            name: format!(":1.{user}").into(),
            user,
        };
        let opened = self.engine.handle.open_session(client, Vec::new());
        opened.expect("there is room")
    }

    /// A turn that uses most pages of a conversation.
    async fn say(&self, session: SessionId, text: &str) -> (String, Outcome) {
        let options = Options::new(40, Parameters::default());
        let sent = self.engine.handle.send(session, text.to_owned(), options);
        let mut ticket = sent.await.expect("it is accepted");
        let mut answer = String::new();
        loop {
            match ticket.events.recv().await.expect("it ends") {
                Event::Text(more) => answer += &more,
                Event::Done(outcome) => return (answer, outcome),
                Event::Reasoning(_) | Event::Call(_) | Event::Likelihood(_) => {}
            }
        }
    }

    /// All users at once, each in its own session.
    async fn all_say(&self) -> Vec<(SessionId, String)> {
        let says = (0..USERS).map(|user| async move {
            let session = self.open(user);
            let (answer, outcome) = self.say(session, &"hello a robot ".repeat(15)).await;
            assert_eq!(outcome.error, None);
            (session, answer)
        });
        futures_util::future::join_all(says).await
    }

    fn close(&self, sessions: &[(SessionId, String)]) {
        for (session, _) in sessions {
            self.engine.handle.close_session(*session);
        }
    }
}

fn answers(said: &[(SessionId, String)]) -> Vec<&str> {
    said.iter().map(|(_, answer)| answer.as_str()).collect()
}

/// Sets the available memory in kilobytes.
fn has(folder: &Path, kilobytes: u64) {
    let text = format!("MemAvailable:   {kilobytes} kB\n");
    std::fs::write(folder.join("meminfo"), text).expect("it is written");
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_is_released_when_sessions_close_and_allocated_again() {
    let system = System::start().await;
    // No request has arrived yet.
    system.takes(|kv| kv == EACH * PAGE_BYTES).await;
    let said = system.all_say().await;
    // Open sessions stay cached, and so does one more conversation.
    let kept = u64::from(USERS) * 2 * PAGE_BYTES;
    system.takes(|kv| kv >= kept + EACH * PAGE_BYTES).await;
    system.close(&said);
    system.takes(|kv| kv == EACH * PAGE_BYTES).await;
    let again = system.all_say().await;
    assert_eq!(answers(&again), answers(&said));
    system.takes(|kv| kv >= kept + EACH * PAGE_BYTES).await;
}

/// Other programs may have taken the released memory. A new request then waits for running ones, and evicts idle
/// sessions.
#[tokio::test(flavor = "multi_thread")]
async fn a_request_without_memory_waits_for_others_and_is_answered() {
    let system = System::start().await;
    system.takes(|kv| kv == EACH * PAGE_BYTES).await;
    has(system.folder.path(), 0);
    let said = system.all_say().await;
    let status = system.engine.handle.status();
    assert_eq!(status.borrow().memory.kv, EACH * PAGE_BYTES);
    has(system.folder.path(), 1 << 20);
    let again = system.all_say().await;
    assert_eq!(answers(&again), answers(&said));
    system.takes(|kv| kv > EACH * PAGE_BYTES).await;
}
