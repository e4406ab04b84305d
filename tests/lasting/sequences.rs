//! Random programs of sessions whose pages are evicted, written to the disk or kept in the host's memory and read back, branched and taken back. On any
//! executor, with a model that has a vocabulary; it knows nothing of which tests run it.

use std::hash::{DefaultHasher, Hasher as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ganglion::engine::{
    Client, Event, Handle, Limits, Name, Opening, Options, Receiver, Role, SessionId, State,
    Ticket, channel, worker,
};
use ganglion::files::Disk;
use ganglion::kv::{PAGE, Reuse};
use ganglion::kv_store::{self, HostRules, Rules, Store as Pages};
use ganglion::load::{self, Backend, KvMemory, LoadError};
use ganglion::model::Message;
use ganglion::runner::LogitsObserver;
use ganglion::sampler::Parameters;
use ganglion::session_store::{Durability, Quota, Store};
use ganglion::telemetry::Usage;
use tokio::task::JoinSet;

use super::limits::limits;

const CONTEXT: usize = 512;
/// Tokens from which on a session begins anew, so that every turn fits.
const LONG: u32 = 240;
/// Tokens of a session that is more than a page.
const GROWN: u32 = 96;
/// Turns that are taken back at once at least, where they are many.
const FAR: u32 = 10;
pub(crate) const USER: u32 = 1000;
const OTHER: u32 = 1001;
pub(crate) const SESSION: &str = "talk";
const LIMITS: Limits = limits(64, Duration::from_millis(1));
/// Pages are written as soon as a turn has ended.
pub(crate) const AT_ONCE: Rules = Rules {
    bytes: 1 << 30,
    writes: None,
    rest: Duration::ZERO,
    stop: Duration::from_secs(60),
    // How long things take decides nothing here.
    measured: false,
};
/// The same of the host's memory, wherever the cache lies.
pub(crate) const IN_HOST: HostRules = HostRules {
    bytes: 1 << 30,
    discrete: false,
    rest: Duration::ZERO,
    measured: false,
};
pub(crate) const NOWHERE: Rules = Rules {
    bytes: 0,
    ..AT_ONCE
};

/// An engine with a tiny model, and sessions below a folder.
pub(crate) struct Daemon {
    pub(crate) handle: Handle,
    pub(crate) pages: Arc<Pages>,
    seen: Seen,
    /// What loads the model, until it does.
    engine: Option<(Receiver, worker::Settings)>,
    thread: Option<JoinHandle<Result<(), LoadError>>>,
}

/// What a session is answered by.
#[derive(Clone)]
pub(crate) struct Model {
    pub(crate) path: PathBuf,
    backend: Backend,
}

impl Model {
    pub(crate) fn new(path: PathBuf, backend: Backend) -> Self {
        Self { path, backend }
    }
}

impl Daemon {
    pub(crate) async fn start(root: &Path, model: &Model, rules: Rules) -> Self {
        let mut daemon = Self::begin(root, model, rules);
        daemon.load().await;
        daemon
    }

    /// One that has no model yet.
    fn begin(root: &Path, model: &Model, rules: Rules) -> Self {
        let (handle, inbox) = channel(LIMITS);
        let pages = keep(&handle, root, rules);
        let seen = Seen::default();
        let settings = worker::Settings {
            model: model.path.clone(),
            chat_template: None,
            runner: load::Settings {
                backend: model.backend,
                context: CONTEXT,
                kv_memory: KvMemory::Conversations(1),
                reuse: Reuse::Exact,
                rows: 8,
                threads: 1,
                prefill_chunk: 32,
                launch_ahead: true,
                observer: Some(seen.observer()),
                ..load::Settings::default()
            },
        };
        Self {
            handle,
            pages,
            seen,
            engine: Some((inbox, settings)),
            thread: None,
        }
    }

    async fn load(&mut self) {
        let (inbox, settings) = self.engine.take().expect("it has no model yet");
        let thread = std::thread::spawn(move || worker::run(&inbox, &settings));
        self.thread = Some(thread);
        let mut status = self.handle.status();
        let told = status.wait_for(|status| matches!(status.state, State::Ready | State::Failed));
        let told = told.await.expect("the engine lives");
        assert_eq!(told.state, State::Ready, "{}", told.detail);
    }

    /// An orderly stop.
    pub(crate) async fn stop(&mut self) {
        self.handle.close();
        let thread = self.thread.take().expect("it runs");
        let ended = tokio::task::spawn_blocking(|| thread.join());
        let ended = ended.await.expect("it is waited for").expect("no panic");
        ended.expect("it has served to its end");
    }

    pub(crate) async fn open(&self) -> SessionId {
        let opened = self.handle.open_named(Opening {
            client: client(USER),
            name: Name::new(SESSION).expect("a name"),
            persistent: None,
            take: true,
            messages: Vec::new(),
            options: serde_json::Map::new(),
        });
        opened.await.expect("it can be opened").id
    }

    /// Deletes the session that is open.
    pub(crate) async fn delete(&self, session: SessionId) {
        self.handle.release_session(session, &client(USER).name);
        let deleted = self.handle.delete_session(USER, kept().name).await;
        deleted.expect("nobody holds it");
    }

    pub(crate) async fn say(&self, session: SessionId, said: &Said) -> Answer {
        self.hear(self.send(session, said).await).await
    }

    /// Hears a turn to its end, beside which there is no other.
    async fn hear(&self, ticket: Ticket) -> Answer {
        let (text, usage) = hear(ticket).await;
        let logits = std::mem::take(&mut *self.seen.all());
        let chosen = usage.completion_tokens as usize;
        assert_eq!(logits.len(), chosen, "each token is chosen once: {text:?}");
        Answer {
            text,
            logits,
            usage,
        }
    }

    async fn send(&self, session: SessionId, said: &Said) -> Ticket {
        let options = Options::new(said.tokens, said.sampling);
        let sent = self.handle.send(session, said.text.clone(), options);
        sent.await.expect("there is room")
    }

    /// Another user takes all pages of the cache.
    pub(crate) async fn evict(&self) {
        let options = Options::new(CONTEXT, Parameters::default());
        let messages = vec![Message::new(Role::User, "hello")];
        let generated = self.handle.generate(client(OTHER), messages, options);
        let mut ticket = generated.await.expect("there is room");
        // From its first word on it has them.
        ticket.events.recv().await.expect("it ends");
        self.handle.cancel(ticket.id);
        hear(ticket).await;
        self.handle.idle().await;
        self.seen.all().clear();
    }

    fn used(&self, session: SessionId) -> u32 {
        self.handle
            .session(session)
            .expect("it is open")
            .context_used
    }

    /// Returns when the pages of a session are on the disk.
    pub(crate) async fn has(&self, place: &kv_store::Place) {
        let begun = Instant::now();
        while !self.pages.has(place) {
            let counts = self.pages.counts();
            assert!(begun.elapsed() < Duration::from_secs(60), "{counts:?}");
            tokio::time::sleep(Duration::from_micros(200)).await;
        }
    }
}

/// Has an engine keep sessions and their pages below a folder from now on.
fn keep(handle: &Handle, root: &Path, rules: Rules) -> Arc<Pages> {
    handle.set_store(store(root));
    let pages = Pages::open(Arc::new(Disk), root.into(), rules);
    let pages = Arc::new(pages.expect("a thread"));
    handle.set_pages(pages.clone());
    pages
}

/// Has an engine keep pages in the host's memory from now on, or not.
pub(crate) fn keep_in_host(daemon: &Daemon, is_kept: bool) {
    let none = HostRules::default();
    let rules = if is_kept { IN_HOST } else { none };
    daemon.handle.keep_in_host(rules);
}

/// Sessions below a folder.
fn store(root: &Path) -> Arc<Store> {
    let quota = Quota {
        sessions: 64,
        bytes: 1 << 30,
    };
    let store = Store::new(Arc::new(Disk), root.into(), Durability::Relaxed, quota);
    Arc::new(store.expect("a thread"))
}

/// Where pages of the session are.
pub(crate) fn kept() -> kv_store::Place {
    kv_store::Place {
        user: USER,
        name: Name::new(SESSION).expect("a name"),
    }
}

pub(crate) fn client(user: u32) -> Client {
    Client {
        name: format!(":1.{user}").into(),
        user,
    }
}

/// What a user says, and how it is to be answered.
#[derive(Clone, Debug)]
pub(crate) struct Said {
    text: String,
    tokens: usize,
    sampling: Parameters,
}

impl Said {
    pub(crate) fn some(random: &mut fastrand::Rng, words: std::ops::Range<usize>) -> Self {
        let words = (0..random.usize(words)).map(|_| ["hello", "a", "robot"][random.usize(0..3)]);
        Self {
            text: words.collect::<Vec<_>>().join(" "),
            tokens: random.usize(2..12),
            sampling: Parameters {
                temperature: [0.0, 1.0][random.usize(0..2)],
                seed: random.u64(..),
                ..Parameters::default()
            },
        }
    }
}

/// What was answered, and what it took.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) text: String,
    /// Of each token a hash of all logits that it was chosen from.
    pub(crate) logits: Vec<u64>,
    pub(crate) usage: Usage,
}

/// Hashes of what tokens were chosen from, in their order.
#[derive(Clone, Default)]
struct Seen(Arc<Mutex<Vec<u64>>>);

impl Seen {
    fn observer(&self) -> LogitsObserver {
        let seen = self.clone();
        LogitsObserver::new(move |logits| {
            let mut hasher = DefaultHasher::new();
            logits
                .iter()
                .for_each(|one| hasher.write_u32(one.to_bits()));
            seen.all().push(hasher.finish());
        })
    }

    fn all(&self) -> std::sync::MutexGuard<'_, Vec<u64>> {
        self.0.lock().expect("nobody has panicked")
    }
}

/// The text of an answer, and what it took.
async fn hear(mut ticket: Ticket) -> (String, Usage) {
    let mut text = String::new();
    loop {
        match ticket.events.recv().await.expect("it ends") {
            Event::Text(more) => text += &more,
            Event::Likelihood(_) | Event::Reasoning(_) | Event::Call(_) => {}
            Event::Done(outcome) => {
                assert_eq!(outcome.error, None);
                return (text, outcome.usage);
            }
        }
    }
}

/// A session's folder and the model that answers there.
pub(crate) struct Place {
    root: tempfile::TempDir,
    pub(crate) model: Model,
}

impl Place {
    pub(crate) fn new(model: &Model) -> Self {
        Self {
            root: folder(),
            model: model.clone(),
        }
    }

    pub(crate) async fn start(&self, rules: Rules) -> Daemon {
        Daemon::start(self.root.path(), &self.model, rules).await
    }

    pub(crate) fn file(&self, end: &str) -> PathBuf {
        file(self.root.path(), end)
    }
}

/// In memory, where there is a place for that: nothing here is about what a disk keeps.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
    folder.expect("a folder")
}

fn file(root: &Path, end: &str) -> PathBuf {
    let folder = root.join(USER.to_string());
    folder.join(format!("{SESSION}.{end}"))
}

/// An engine that knows only the journal of the session that it is asked for.
pub(crate) struct Cold {
    daemon: Daemon,
    _root: tempfile::TempDir,
}

impl Cold {
    pub(crate) async fn start(model: &Model) -> Self {
        let root = folder();
        Self {
            daemon: Daemon::start(root.path(), model, NOWHERE).await,
            _root: root,
        }
    }

    pub(crate) async fn stop(mut self) {
        self.daemon.stop().await;
    }

    pub(crate) async fn answer(&self, place: &Place, said: &Said) -> Answer {
        let root = folder();
        let journal = file(root.path(), "session");
        std::fs::create_dir_all(journal.parent().expect("a folder")).expect("it is made");
        std::fs::copy(place.file("session"), journal).expect("it is copied");
        let Daemon { handle, .. } = &self.daemon;
        handle.set_store(store(root.path()));
        let session = self.daemon.open().await;
        let answer = self.daemon.say(session, said).await;
        // What was deleted is not in memory either.
        assert_eq!((answer.usage.cached_tokens, answer.usage.restored), (0, 0));
        self.daemon.delete(session).await;
        answer
    }
}

/// What happened in sequences, so that none is silent.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    answers: u32,
    evicted: u32,
    /// Of these, what could come back from the host's memory alone.
    pub(crate) from_host: u32,
    restarted: u32,
    restored: u32,
    positions: u32,
    branched: u32,
    rewound: u32,
    /// Of these, over many turns, to what is known token by token.
    pub(crate) far_back: u32,
}

impl Counts {
    /// Evictions and restarts after which only the disk had pages.
    fn disk_alone(&self) -> u32 {
        self.evicted - self.from_host + self.restarted
    }

    pub(crate) fn add(&mut self, other: Self) {
        self.answers += other.answers;
        self.evicted += other.evicted;
        self.from_host += other.from_host;
        self.restarted += other.restarted;
        self.restored += other.restored;
        self.positions += other.positions;
        self.branched += other.branched;
        self.rewound += other.rewound;
        self.far_back += other.far_back;
    }
}

/// What happens next.
#[derive(Clone, Copy, Debug)]
enum Step {
    Say,
    Rewind,
    /// Takes back more turns than are held as more than tokens.
    FarBack,
    Branch,
    /// The same, and the one that was branched begins anew at once.
    BranchAndClear,
    Evict,
    Restart,
    /// The same, and it is asked before there is a model.
    EarlyRestart,
    /// The same, and a branch is asked before the session itself.
    RestartAndBranch,
}

/// A session in the course of a sequence.
struct Sequence<'a> {
    cold: &'a Cold,
    place: Place,
    daemon: Daemon,
    session: SessionId,
    random: fastrand::Rng,
    counts: Counts,
    /// Whether pages are kept in the host's memory too.
    in_host: bool,
}

impl<'a> Sequence<'a> {
    async fn begin(seed: u64, mut daemon: Daemon, place: Place, cold: &'a Cold) -> Self {
        daemon.pages = keep(&daemon.handle, place.root.path(), AT_ONCE);
        let in_host = seed % 2 == 1;
        keep_in_host(&daemon, in_host);
        let session = daemon.open().await;
        Self {
            cold,
            place,
            daemon,
            session,
            random: fastrand::Rng::with_seed(seed),
            counts: Counts::default(),
            in_host,
        }
    }

    /// Says something in a session that goes on from the one that is kept, as it stands, and holds the answer against a cold one.
    async fn say_in(&mut self, session: SessionId, words: std::ops::Range<usize>) -> Usage {
        let said = Said::some(&mut self.random, words);
        let cold = self.cold.answer(&self.place, &said).await;
        let answer = self.daemon.say(session, &said).await;
        self.hold(&answer, &cold, &said)
    }

    /// Holds an answer against a cold one.
    fn hold(&mut self, answer: &Answer, cold: &Answer, said: &Said) -> Usage {
        assert_eq!(answer.text, cold.text, "{said:?}");
        assert_eq!(answer.logits, cold.logits, "{said:?}");
        self.counts.answers += 1;
        self.counts.restored += u32::from(answer.usage.restored > 0);
        self.counts.positions += answer.usage.restored;
        answer.usage
    }

    async fn say(&mut self, words: std::ops::Range<usize>) -> Usage {
        self.say_in(self.session, words).await
    }

    /// Begins anew before it is too long.
    async fn clear(&self) {
        if self.daemon.used(self.session) > LONG {
            let cleared = self.daemon.handle.clear_session(self.session);
            cleared.await.expect("it is idle");
        }
    }

    /// Has the session be longer than a page, and the last thing that happened to it a turn.
    async fn grow(&mut self) {
        self.clear().await;
        self.say(8..16).await;
        while self.daemon.used(self.session) < GROWN {
            self.say(8..16).await;
        }
    }

    /// Takes back many turns at once, and goes on.
    async fn far_back(&mut self) {
        let cleared = self.daemon.handle.clear_session(self.session);
        cleared.await.expect("it is idle");
        let most = FAR + self.random.u32(1..4);
        for _ in 0..most {
            let said = Said::some(&mut self.random, 1..3);
            self.daemon.say(self.session, &said).await;
        }
        let turns = self.random.u32(FAR..most);
        let rewound = self.daemon.handle.rewind(self.session, turns).await;
        rewound.expect("it has them");
        let left = self.daemon.used(self.session);
        let usage = self.say(1..12).await;
        // All but the token that was only chosen, unless its text was cut within a token: then it is encoded anew.
        self.counts.far_back += u32::from(usage.cached_tokens + 1 >= left);
        self.counts.rewound += 1;
    }

    /// Another engine takes the place of the one that runs.
    async fn restart(&mut self) {
        self.grow().await;
        self.daemon.stop().await;
        self.daemon = self.place.start(AT_ONCE).await;
        keep_in_host(&self.daemon, self.in_host);
        self.session = self.daemon.open().await;
        self.counts.restarted += 1;
    }

    async fn step(&mut self, step: Step) {
        match step {
            Step::Say => {
                self.clear().await;
                self.say(1..24).await;
            }
            Step::Rewind => {
                let turns = self
                    .daemon
                    .handle
                    .session(self.session)
                    .expect("it is open")
                    .turns;
                let turns = self.random.u32(0..=turns.min(3));
                let rewound = self.daemon.handle.rewind(self.session, turns).await;
                rewound.expect("it has them");
                self.counts.rewound += u32::from(turns > 0);
            }
            Step::FarBack => self.far_back().await,
            Step::Branch => {
                self.grow().await;
                let branch = self.daemon.handle.branch(self.session, client(USER));
                let branch = branch.await.expect("there is room");
                let usage = self.say_in(branch, 1..12).await;
                self.daemon.handle.close_session(branch);
                // Both have the page that the branch begins in, until one writes to it.
                assert!(usage.cached_tokens > 0, "{usage:?}");
                self.counts.branched +=
                    u32::from(!(usage.cached_tokens as usize).is_multiple_of(PAGE));
            }
            Step::BranchAndClear => {
                self.grow().await;
                let said = Said::some(&mut self.random, 1..12);
                let cold = self.cold.answer(&self.place, &said).await;
                let branch = self.daemon.handle.branch(self.session, client(USER));
                let branch = branch.await.expect("there is room");
                let cleared = self.daemon.handle.clear_session(self.session);
                cleared.await.expect("it is idle");
                let answer = self.daemon.say(branch, &said).await;
                let usage = self.hold(&answer, &cold, &said);
                self.daemon.handle.close_session(branch);
                assert!(
                    usage.cached_tokens > 0 && usage.reread_tokens == 0,
                    "{usage:?}"
                );
                self.counts.branched += 1;
            }
            Step::Evict => {
                self.grow().await;
                // What comes after this is of the next turn, whatever is still on its way.
                let place = kept();
                self.daemon.pages.delete(&place);
                self.say(1..4).await;
                self.daemon.has(&place).await;
                if self.in_host {
                    // It was in the host's memory before it was on the disk.
                    self.daemon.pages.delete(&place);
                    self.counts.from_host += 1;
                }
                self.daemon.evict().await;
                let usage = self.say(1..12).await;
                self.counts.evicted += 1;
                Self::came_back(usage);
            }
            Step::Restart => {
                self.restart().await;
                let usage = self.say(1..12).await;
                Self::came_back(usage);
            }
            Step::RestartAndBranch => {
                self.restart().await;
                let branch = self.daemon.handle.branch(self.session, client(USER));
                let branch = branch.await.expect("there is room");
                let usage = self.say_in(branch, 1..12).await;
                self.daemon.handle.close_session(branch);
                Self::came_back(usage);
            }
            Step::EarlyRestart => {
                self.grow().await;
                self.daemon.stop().await;
                self.daemon = Daemon::begin(self.place.root.path(), &self.place.model, AT_ONCE);
                keep_in_host(&self.daemon, self.in_host);
                self.session = self.daemon.open().await;
                let said = Said::some(&mut self.random, 1..12);
                let cold = self.cold.answer(&self.place, &said).await;
                let waits = self.daemon.send(self.session, &said).await;
                self.daemon.load().await;
                let usage = self.hold(&self.daemon.hear(waits).await, &cold, &said);
                self.counts.restarted += 1;
                Self::came_back(usage);
            }
        }
    }

    /// Nothing of it was in memory, and a page at least came from the disk: reading in silence is no restoring.
    fn came_back(usage: Usage) {
        let Usage {
            cached_tokens,
            restored,
            ..
        } = usage;
        assert_eq!(cached_tokens, 0, "{usage:?}");
        assert!(restored as usize >= PAGE, "{usage:?}");
    }
}

/// What happened in a sequence; it panics where an answer is not as it should be.
async fn sequence(seed: u64, daemon: Daemon, place: Place, cold: &Cold) -> (Daemon, Counts) {
    let _told = Told { seed };
    let mut sequence = Sequence::begin(seed, daemon, place, cold).await;
    let random = &mut sequence.random;
    let mut steps = vec![Step::Evict, Step::Branch, Step::Branch];
    let more = random.usize(2..5);
    let others = [
        Step::Say,
        Step::Rewind,
        Step::Rewind,
        Step::FarBack,
        Step::Branch,
        Step::BranchAndClear,
        Step::Evict,
        Step::Restart,
        Step::EarlyRestart,
        Step::RestartAndBranch,
    ];
    steps.extend((0..more).map(|_| others[random.usize(0..others.len())]));
    random.shuffle(&mut steps);
    for step in steps {
        sequence.step(step).await;
    }
    while sequence.counts.branched == 0 {
        sequence.step(Step::Branch).await;
    }
    // Where all came back from the host's memory, the disk has its turn.
    while sequence.counts.disk_alone() == 0 {
        sequence.step(Step::Restart).await;
    }
    let Sequence {
        daemon,
        counts,
        session,
        ..
    } = sequence;
    assert_eq!(daemon.pages.counts().refused, 0);
    assert!(counts.evicted > 0 && counts.restored > 0 && counts.branched > 0);
    daemon.delete(session).await;
    (daemon, counts)
}

/// Says which sequence it was that has failed.
struct Told {
    seed: u64,
}

impl Drop for Told {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("sequence {}", self.seed);
        }
    }
}

/// Runs so many sequences, as many at once as there are cores, each beside an engine of its own that answers cold. An engine goes
/// on from one sequence to the next, unless the sequence has restarted it.
pub(crate) async fn sequences(model: &Model, count: u64) -> Counts {
    let next = Arc::new(AtomicU64::new(0));
    let cores = std::thread::available_parallelism().map_or(1, usize::from) as u64;
    let mut lanes = JoinSet::new();
    for _ in 0..cores.min(count) {
        let (model, next) = (model.clone(), next.clone());
        lanes.spawn(async move {
            let cold = Cold::start(&model).await;
            let mut daemon = Place::new(&model).start(AT_ONCE).await;
            let mut counts = Counts::default();
            loop {
                let seed = next.fetch_add(1, Ordering::Relaxed);
                if seed >= count {
                    break;
                }
                let had = sequence(seed, daemon, Place::new(&model), &cold).await;
                daemon = had.0;
                counts.add(had.1);
            }
            daemon.stop().await;
            cold.stop().await;
            counts
        });
    }
    let mut counts = Counts::default();
    while let Some(lane) = lanes.join_next().await {
        counts.add(lane.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic())));
    }
    counts
}
