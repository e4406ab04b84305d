//! Memory of the cache that nobody needs goes back to the system, and comes again for who needs it.

use std::path::Path;

use ganglion::engine::{Client, Event, Options, Outcome, SessionId};
use ganglion::load::{self, KvMemory};
use ganglion::sampler::Parameters;

use crate::support::daemon::eventually;
use crate::support::tiny_gguf;
use crate::together::Engine;

/// Pages of the longest conversation, whose memory stays whatever happens.
const EACH: u64 = 4;
/// K and V of 64 positions in f16: 3 layers, 2 heads, 16 wide.
const PAGE_BYTES: u64 = 2 * 64 * 3 * 2 * 16 * 2;
const USERS: u32 = 6;

/// An engine of room for eight conversations on a system that has so much memory, which the test may change.
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

    /// Waits until the cache takes so many bytes.
    async fn takes(&self, expected: impl Fn(u64) -> bool) {
        let mut status = self.engine.handle.status();
        let told = status.wait_for(|status| expected(status.memory.kv));
        eventually(told).await.expect("the engine lives");
    }

    fn open(&self, user: u32) -> SessionId {
        let client = Client {
            name: format!(":1.{user}").into(),
            user,
        };
        let opened = self.engine.handle.open_session(client, Vec::new());
        opened.expect("there is room")
    }

    /// A turn that takes most pages of a conversation.
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

    /// All users at once, each in a session of its own.
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

/// So many kilobytes are available.
fn has(folder: &Path, kilobytes: u64) {
    let text = format!("MemAvailable:   {kilobytes} kB\n");
    std::fs::write(folder.join("meminfo"), text).expect("it is written");
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_goes_back_when_sessions_are_closed_and_comes_again_for_others() {
    let system = System::start().await;
    // Nobody has come yet.
    system.takes(|kv| kv == EACH * PAGE_BYTES).await;
    let said = system.all_say().await;
    // What is said in open sessions is kept, and that of one conversation more.
    let kept = u64::from(USERS) * 2 * PAGE_BYTES;
    system.takes(|kv| kv >= kept + EACH * PAGE_BYTES).await;
    system.close(&said);
    system.takes(|kv| kv == EACH * PAGE_BYTES).await;
    let again = system.all_say().await;
    assert_eq!(answers(&again), answers(&said));
    system.takes(|kv| kv >= kept + EACH * PAGE_BYTES).await;
}

/// Others may have taken what was given back: whoever comes waits for those that run, and makes those forget that rest.
#[tokio::test(flavor = "multi_thread")]
async fn who_finds_no_memory_waits_for_others_and_is_answered() {
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
