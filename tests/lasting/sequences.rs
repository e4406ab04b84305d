//! Random sequences of sessions whose pages are evicted, written to the disk or the host's memory, restored, branched
//! and rewound. They run on any executor with a model that has a vocabulary, and do not depend on the test that runs
//! them.

use std::hash::{DefaultHasher, Hasher as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use ganglion::engine::{
    Client, Event, Handle, Limits, Name, Opening, Options, Receiver, Role, SessionId, State,
    Ticket, channel, worker,
};
use ganglion::files::Disk;
use ganglion::guess::{Guess, MOST_GUESSES, Source};
use ganglion::guide::Grammar;
use ganglion::kv::{PAGE, Reuse};
use ganglion::kv_store::{self, HostRules, Rules, Store as Pages};
use ganglion::load::{self, Backend, KvMemory, LoadError, TowerFile, VisionSettings};
use ganglion::model::{Message, MessageImage};
use ganglion::runner::LogitsObserver;
use ganglion::sampler::Parameters;
use ganglion::session_store::{Durability, Quota, Store};
use ganglion::telemetry::Usage;
use ganglion::vision::{Fields, Format, Received};
use tokio::task::JoinSet;

use super::limits::limits;
use super::tiny_seeing;

const CONTEXT: usize = 512;
/// Tokens after which a session starts again, so that every turn fits.
const LONG: u32 = 240;
/// Tokens of a session that is longer than a page.
const GROWN: u32 = 96;
/// The most branches until one begins within a page.
const MOST_BRANCHES: usize = 50;
/// The least number of turns in a long rewind.
const FAR: u32 = 10;
pub(crate) const USER: u32 = 1000;
const OTHER: u32 = 1001;
pub(crate) const SESSION: &str = "talk";
/// Waits longer than this mean that the awaited event never happens.
const PATIENCE: Duration = Duration::from_secs(180);
const LIMITS: Limits = limits(64, Duration::from_millis(1));
/// Rules that write pages as soon as a turn has ended.
pub(crate) const AT_ONCE: Rules = Rules {
    bytes: 1 << 30,
    writes: None,
    rest: Duration::ZERO,
    stop: Duration::from_secs(60),
    // Measured times decide nothing here.
    measured: false,
};
/// Rules that keep pages in the host's memory, on any device.
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
    sessions: Arc<Store>,
    seen: Seen,
    /// The grammar of answers.
    words: Option<Grammar>,
    /// What loads the model, until it does.
    engine: Option<(Receiver, worker::Settings)>,
    thread: Option<JoinHandle<Result<(), LoadError>>>,
}

/// The model of a session, and its backend.
#[derive(Clone)]
pub(crate) struct Model {
    pub(crate) path: PathBuf,
    template: Option<PathBuf>,
    /// Whether it continues from few positions only.
    is_recurrent: bool,
    /// Of a model that sees images.
    tower: Option<PathBuf>,
    backend: Backend,
}

impl Model {
    pub(crate) fn new(path: PathBuf, backend: Backend) -> Self {
        Self {
            path,
            template: None,
            is_recurrent: false,
            tower: None,
            backend,
        }
    }

    pub(crate) fn recurrent([path, template]: [PathBuf; 2], backend: Backend) -> Self {
        Self {
            template: Some(template),
            is_recurrent: true,
            ..Self::new(path, backend)
        }
    }

    pub(crate) fn seeing(files: tiny_seeing::Files, backend: Backend) -> Self {
        Self {
            template: Some(files.template),
            tower: Some(files.tower),
            ..Self::new(files.model, backend)
        }
    }

    /// A state is stored at the end of an answer, so answers are to end where the next prompt has the same tokens: not within
    /// a character. The models that see images would end most answers at once, or within a character.
    fn words(&self) -> Option<Grammar> {
        let needs = self.is_recurrent() || self.sees();
        needs.then(|| Grammar::Regex("[a-z]+".into()))
    }

    pub(crate) fn is_recurrent(&self) -> bool {
        self.is_recurrent
    }

    pub(crate) fn sees(&self) -> bool {
        self.tower.is_some()
    }

    fn vision(&self) -> VisionSettings {
        VisionSettings {
            tower: (self.tower.clone()).map_or(TowerFile::default(), TowerFile::Named),
            max_tokens: 16,
            // Few images stay encoded.
            cache: 4096,
            ..VisionSettings::default()
        }
    }
}

impl Daemon {
    pub(crate) async fn start(root: &Path, model: &Model, rules: Rules) -> Self {
        let mut daemon = Self::begin(root, model, rules);
        daemon.load().await;
        daemon
    }

    /// Starts an engine without a model.
    fn begin(root: &Path, model: &Model, rules: Rules) -> Self {
        let (handle, inbox) = channel(LIMITS);
        let (sessions, pages) = keep(&handle, root, rules);
        let seen = Seen::default();
        let settings = worker::Settings {
            model: model.path.clone(),
            chat_template: model.template.clone(),
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
                vision: model.vision(),
                ..load::Settings::default()
            },
        };
        Self {
            handle,
            pages,
            sessions,
            seen,
            words: model.words(),
            engine: Some((inbox, settings)),
            thread: None,
        }
    }

    async fn load(&mut self) {
        let (inbox, settings) = self.engine.take().expect("it has no model yet");
        let thread = std::thread::spawn(move || worker::run(&inbox, &settings));
        self.thread = Some(thread);
        let mut status = self.handle.status();
        let reached =
            status.wait_for(|status| matches!(status.state, State::Ready | State::Failed));
        let reached = reached.await.expect("the engine lives");
        assert_eq!(reached.state, State::Ready, "{}", reached.detail);
    }

    /// An orderly stop.
    pub(crate) async fn stop(&mut self) {
        self.handle.close();
        let thread = self.thread.take().expect("it runs");
        let ended = tokio::task::spawn_blocking(|| thread.join());
        let ended = ended.await.expect("it is waited for").expect("no panic");
        ended.expect("it has served to its end");
    }

    /// An orderly stop, after which another engine may write the session's file. The store's thread could still replace that
    /// file by a compacted one, unless the session is opened again. In a daemon it ends with the process.
    async fn stop_for_another(&mut self) {
        self.stop().await;
        let opened = self.sessions.open(USER, &kept().name);
        drop(opened.expect("the disk works"));
    }

    pub(crate) async fn open(&self) -> SessionId {
        let opened = self.handle.open_named(Opening {
            client: client(USER),
            name: Name::new(SESSION).expect("a name"),
            persistent: None,
            take: true,
            messages: Vec::new(),
            // After a restart, the session shows the same images.
            options: serde_json::Map::from_iter([("keep_pictures".into(), true.into())]),
        });
        opened.await.expect("it can be opened").id
    }

    /// Deletes the open session.
    pub(crate) async fn delete(&self, session: SessionId) {
        self.handle.release_session(session, &client(USER).name);
        let deleted = self.handle.delete_session(USER, kept().name).await;
        deleted.expect("it is free");
    }

    pub(crate) async fn say(&self, session: SessionId, said: &Said) -> Answer {
        self.hear(self.send(session, said).await).await
    }

    /// Cancels a turn at its first text, when a step may be ahead.
    pub(crate) async fn cancel(&self, mut ticket: Ticket) {
        let first = ticket.events.recv().await.expect("it ends");
        if !matches!(first, Event::Done(_)) {
            self.handle.cancel(ticket.id);
            hear(ticket).await;
        }
        self.seen.all().clear();
    }

    /// Follows a turn to its end while no other one runs.
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

    pub(crate) async fn send(&self, session: SessionId, said: &Said) -> Ticket {
        let options = Options {
            grammar: self.words.clone(),
            // A session whose pages were restored continues with the same answer, with guesses and without.
            guess: said.tokens.is_multiple_of(2).then(|| Guess {
                source: Source::Lookup,
                most: MOST_GUESSES,
                is_auto: false,
            }),
            ..Options::new(said.tokens, said.sampling)
        };
        let sent = self.handle.reply(session, vec![said.message()], options);
        sent.await.expect("there is room")
    }

    /// Lets another user take all pages of the cache.
    pub(crate) async fn evict(&self) {
        let options = Options {
            // It must not end with its first token.
            grammar: Some(Grammar::Regex("[a-z]{64}".into())),
            ..Options::new(CONTEXT, Parameters::default())
        };
        let messages = vec![Message::new(Role::User, "hello")];
        let generated = self.handle.generate(client(OTHER), messages, options);
        // The other user has them from its first word on.
        self.cancel(generated.await.expect("there is room")).await;
        self.handle.idle().await;
        self.seen.all().clear();
    }

    /// Has the weights released, which returns once they are.
    pub(crate) async fn unload(&self) {
        self.handle.idle().await;
        self.handle.release().await.expect("nothing runs");
        let status = self.handle.status();
        assert_eq!(status.borrow().state, State::Idle);
        assert_eq!(status.borrow().memory.weights, 0);
    }

    pub(crate) fn used(&self, session: SessionId) -> u32 {
        self.handle
            .session(session)
            .expect("it is open")
            .context_used
    }

    /// Returns once pages are in the host's memory, or none are.
    async fn has_in_host(&self, any: bool) {
        let has = async {
            while (self.handle.live().work.pages_in_host > 0) != any {
                tokio::time::sleep(Duration::from_micros(200)).await;
            }
        };
        let within = tokio::time::timeout(PATIENCE, has).await;
        within.expect("the engine moves pages");
    }

    /// Returns once the session's pages are on the disk.
    pub(crate) async fn has(&self, place: &kv_store::Place) {
        let has = async {
            while !self.pages.has(place) {
                tokio::time::sleep(Duration::from_micros(200)).await;
            }
        };
        let within = tokio::time::timeout(PATIENCE, has).await;
        within.unwrap_or_else(|_| panic!("{:?}", self.pages.counts()));
    }
}

/// Makes an engine store sessions and their pages below a folder.
fn keep(handle: &Handle, root: &Path, rules: Rules) -> (Arc<Store>, Arc<Pages>) {
    let sessions = store(root);
    handle.set_store(sessions.clone());
    let pages = Pages::open(Arc::new(Disk), root.into(), rules);
    let pages = Arc::new(pages.expect("a thread"));
    handle.set_pages(pages.clone());
    (sessions, pages)
}

/// Makes an engine keep pages in the host's memory, or not.
pub(crate) fn keep_in_host(daemon: &Daemon, is_kept: bool) {
    let none = HostRules::default();
    let rules = if is_kept { IN_HOST } else { none };
    daemon.handle.keep_in_host(rules);
}

/// Opens the store of sessions below a folder.
fn store(root: &Path) -> Arc<Store> {
    let quota = Quota {
        sessions: 64,
        bytes: 1 << 30,
    };
    let store = Store::new(Arc::new(Disk), root.into(), Durability::Relaxed, quota);
    Arc::new(store.expect("a thread"))
}

/// The place of the session's pages.
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

/// A user's message and its sampling.
#[derive(Clone, Debug)]
pub(crate) struct Said {
    text: String,
    /// The number of an image, and the byte of the text before which it stands.
    image: Option<(u8, usize)>,
    tokens: usize,
    sampling: Parameters,
}

impl Said {
    pub(crate) fn some(random: &mut fastrand::Rng, words: std::ops::Range<usize>) -> Self {
        let words = (0..random.usize(words)).map(|_| ["hello", "a", "robot"][random.usize(0..3)]);
        Self {
            text: words.collect::<Vec<_>>().join(" "),
            image: None,
            tokens: random.usize(2..12),
            sampling: Parameters {
                temperature: [0.0, 1.0][random.usize(0..2)],
                seed: random.u64(..),
                ..Parameters::default()
            },
        }
    }

    /// Has an answer without guesses, as `Daemon::send` decides.
    #[allow(dead_code)] // not on a device
    pub(crate) fn unguessed(self) -> Self {
        Self { tokens: 7, ..self }
    }

    /// Shows one of a few images in half of the messages, at their beginning or end.
    fn with_image(self, random: &mut fastrand::Rng) -> Self {
        let at = [0, self.text.len()][random.usize(0..2)];
        let image = random.bool().then(|| (random.u8(0..IMAGES), at));
        Self { image, ..self }
    }

    fn message(&self) -> Message {
        let images = self.image.iter().map(|(number, at)| MessageImage {
            at: *at,
            image: Some(Arc::new(image(*number))),
        });
        Message {
            images: images.collect(),
            ..Message::new(Role::User, self.text.clone())
        }
    }
}

/// The number of images: two of one size, and two of another.
const IMAGES: u8 = 4;

/// An image of random pixels.
fn image(number: u8) -> Received {
    let (width, height) = [(64, 96), (96, 64)][usize::from(number / 2)];
    let mut random = fastrand::Rng::with_seed(number.into());
    let bytes = std::iter::repeat_with(|| random.u8(..)).take((width * height * 3) as usize);
    let fields = Fields {
        format: Format::Rgb24,
        width: Some(width),
        height: Some(height),
        ..Fields::default()
    };
    Received::new(bytes.collect(), fields, ())
}

/// An answer and its usage.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) text: String,
    /// A hash of all logits per token.
    pub(crate) logits: Vec<u64>,
    pub(crate) usage: Usage,
}

impl Answer {
    /// Asserts that it is a cold engine's answer, to the last bit.
    pub(crate) fn assert_equals(&self, cold: &Self, said: &Said) {
        if (&self.text, &self.logits) == (&cold.text, &cold.logits) {
            return;
        }
        let pairs = self.logits.iter().zip(&cold.logits);
        let equal = pairs.take_while(|(own, cold)| own == cold).count();
        panic!(
            "the logits differ from token {equal} on: {:?} of {} tokens instead of {:?} of {}\n{said:?}\n{:?}\ncold: {:?}",
            self.text,
            self.logits.len(),
            cold.text,
            cold.logits.len(),
            self.usage,
            cold.usage,
        );
    }
}

/// Hashes of the logits of each chosen token, in order.
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
        self.0.lock().expect("no panic")
    }
}

/// Returns the text of an answer and its usage.
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

/// A session's folder and its model.
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

/// In memory if possible: these tests do not depend on a real disk.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
    folder.expect("a folder")
}

fn file(root: &Path, end: &str) -> PathBuf {
    let folder = root.join(USER.to_string());
    folder.join(format!("{SESSION}.{end}"))
}

/// An engine that has only the journal of the session.
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
        // The deleted session is not in memory either.
        assert_eq!((answer.usage.cached_tokens, answer.usage.restored), (0, 0));
        self.daemon.delete(session).await;
        answer
    }
}

/// Counts of a sequence's events, to check that none is missing.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    answers: u32,
    evicted: u32,
    /// Evictions with pages in the host's memory only.
    pub(crate) from_host: u32,
    restarted: u32,
    restored: u32,
    positions: u32,
    branched: u32,
    rewound: u32,
    /// Rewinds over many turns.
    pub(crate) far_back: u32,
    pub(crate) unloaded: u32,
    /// Messages with an image.
    pub(crate) images: u32,
    /// Restored conversations that may show images.
    pub(crate) restored_images: u32,
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
        self.unloaded += other.unloaded;
        self.images += other.images;
        self.restored_images += other.restored_images;
    }
}

/// The next event.
#[derive(Clone, Copy, Debug)]
enum Step {
    Say,
    Rewind,
    /// Rewinds further than the cached turns.
    FarBack,
    Branch,
    /// Branches and then clears the original session.
    BranchAndClear,
    Evict,
    Restart,
    /// Restarts and sends a turn before the model is loaded.
    EarlyRestart,
    /// Restarts and sends a turn to a branch before the session itself.
    RestartAndBranch,
    /// Releases the weights, and all pages in memory.
    Unload,
}

/// A session during a sequence.
struct Sequence<'a> {
    cold: &'a Cold,
    place: Place,
    daemon: Daemon,
    session: SessionId,
    random: fastrand::Rng,
    counts: Counts,
    /// Whether pages are also kept in the host's memory.
    in_host: bool,
    /// Whether the session may show images. Pages with images are kept in the host's memory, never on the disk.
    shows: bool,
}

impl<'a> Sequence<'a> {
    async fn begin(seed: u64, mut daemon: Daemon, place: Place, cold: &'a Cold) -> Self {
        (daemon.sessions, daemon.pages) = keep(&daemon.handle, place.root.path(), AT_ONCE);
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
            shows: false,
        }
    }

    /// Makes a message, which may show an image if the model sees them.
    fn said(&mut self, words: std::ops::Range<usize>) -> Said {
        let said = Said::some(&mut self.random, words);
        if !self.place.model.sees() {
            return said;
        }
        let said = said.with_image(&mut self.random);
        self.counts.images += u32::from(said.image.is_some());
        self.shows |= said.image.is_some();
        said
    }

    /// Sends a turn to a session and compares the answer with a cold engine's.
    async fn say_in(&mut self, session: SessionId, words: std::ops::Range<usize>) -> Usage {
        let said = self.said(words);
        let cold = self.cold.answer(&self.place, &said).await;
        let answer = self.daemon.say(session, &said).await;
        self.hold(&answer, &cold, &said)
    }

    /// Compares an answer with a cold engine's.
    fn hold(&mut self, answer: &Answer, cold: &Answer, said: &Said) -> Usage {
        answer.assert_equals(cold, said);
        self.counts.answers += 1;
        self.counts.restored += u32::from(answer.usage.restored > 0);
        self.counts.positions += answer.usage.restored;
        self.counts.restored_images += u32::from(self.shows && answer.usage.restored > 0);
        answer.usage
    }

    async fn say(&mut self, words: std::ops::Range<usize>) -> Usage {
        self.say_in(self.session, words).await
    }

    /// Starts again before the session becomes too long.
    async fn clear(&mut self) {
        if self.daemon.used(self.session) > LONG {
            self.clear_at_once().await;
        }
    }

    async fn clear_at_once(&mut self) {
        let cleared = self.daemon.handle.clear_session(self.session);
        cleared.await.expect("it is idle");
        self.shows = false;
    }

    /// Makes the session longer than a page, with a turn as its last event.
    async fn grow(&mut self) {
        self.clear().await;
        self.say(8..16).await;
        while self.daemon.used(self.session) < GROWN {
            self.say(8..16).await;
        }
    }

    /// Rewinds many turns at once, and continues.
    async fn far_back(&mut self) {
        self.clear_at_once().await;
        let most = FAR + self.random.u32(1..4);
        for _ in 0..most {
            let said = self.said(1..3);
            self.daemon.say(self.session, &said).await;
        }
        let turns = self.random.u32(FAR..most);
        let rewound = self.daemon.handle.rewind(self.session, turns).await;
        rewound.expect("it has them");
        let left = self.daemon.used(self.session);
        let usage = self.say(1..12).await;
        // All tokens are cached apart from the last, which was only chosen. A text that ends within a token is encoded
        // again.
        self.counts.far_back += u32::from(usage.cached_tokens + 1 >= left);
        self.counts.rewound += 1;
    }

    /// Replaces the engine by another one.
    async fn restart(&mut self) {
        self.grow().await;
        self.daemon.stop_for_another().await;
        self.daemon = self.place.start(AT_ONCE).await;
        keep_in_host(&self.daemon, self.in_host);
        self.session = self.daemon.open().await;
        self.counts.restarted += 1;
    }

    /// Lets another user take the pages, and continues.
    async fn evict(&mut self) {
        // Older pages are not those that this tests. A copy of them that has begun ends with the next turn.
        keep_in_host(&self.daemon, false);
        self.grow().await;
        self.daemon.has_in_host(false).await;
        keep_in_host(&self.daemon, self.in_host);
        // Later events belong to the next turn, whatever is still being written.
        let place = kept();
        self.daemon.pages.delete(&place);
        self.say(1..4).await;
        if !self.shows {
            self.daemon.has(&place).await;
        }
        if self.in_host {
            self.daemon.has_in_host(true).await;
            // The page was in the host's memory before it was on the disk.
            self.daemon.pages.delete(&place);
            self.counts.from_host += 1;
        }
        self.daemon.evict().await;
        let usage = self.say(1..12).await;
        self.counts.evicted += 1;
        self.came_back(usage);
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
                // Both share the page at the branch until one writes to it. A text that ended within a token diverges there,
                // perhaps before every stored state.
                let shares = usage.cached_tokens > 0 || self.place.model.is_recurrent();
                assert!(shares, "{usage:?}");
                self.counts.branched +=
                    u32::from(!(usage.cached_tokens as usize).is_multiple_of(PAGE));
            }
            Step::BranchAndClear => {
                self.grow().await;
                let said = self.said(1..12);
                let cold = self.cold.answer(&self.place, &said).await;
                let branch = self.daemon.handle.branch(self.session, client(USER));
                let branch = branch.await.expect("there is room");
                self.clear_at_once().await;
                let answer = self.daemon.say(branch, &said).await;
                let usage = self.hold(&answer, &cold, &said);
                self.daemon.handle.close_session(branch);
                let shares = usage.cached_tokens > 0 && usage.reread_tokens == 0;
                assert!(shares || self.place.model.is_recurrent(), "{usage:?}");
                self.counts.branched += 1;
            }
            Step::Evict => self.evict().await,
            Step::Restart => {
                self.restart().await;
                let usage = self.say(1..12).await;
                self.came_back(usage);
            }
            Step::RestartAndBranch => {
                self.restart().await;
                let branch = self.daemon.handle.branch(self.session, client(USER));
                let branch = branch.await.expect("there is room");
                let usage = self.say_in(branch, 1..12).await;
                self.daemon.handle.close_session(branch);
                self.came_back(usage);
            }
            Step::Unload => {
                self.grow().await;
                let place = kept();
                self.daemon.pages.delete(&place);
                self.say(1..4).await;
                self.daemon.unload().await;
                // The last pages were on their way to the disk.
                if !self.shows {
                    self.daemon.has(&place).await;
                }
                let usage = self.say(1..12).await;
                self.counts.unloaded += 1;
                self.came_back(usage);
            }
            Step::EarlyRestart => {
                self.grow().await;
                self.daemon.stop_for_another().await;
                self.daemon = Daemon::begin(self.place.root.path(), &self.place.model, AT_ONCE);
                keep_in_host(&self.daemon, self.in_host);
                self.session = self.daemon.open().await;
                let said = self.said(1..12);
                let cold = self.cold.answer(&self.place, &said).await;
                let waits = self.daemon.send(self.session, &said).await;
                self.daemon.load().await;
                let usage = self.hold(&self.daemon.hear(waits).await, &cold, &said);
                self.counts.restarted += 1;
                self.came_back(usage);
            }
        }
    }

    /// None of it was in memory, and at least a page was restored: a silent prefill is not a restore. The pages for states that
    /// another user did not need may still have an early one.
    fn came_back(&self, usage: Usage) {
        let Usage {
            cached_tokens,
            restored,
            ..
        } = usage;
        if self.shows {
            return;
        }
        // Another user does not take all pages of a model with windows: it needs few of those for the windows.
        let keeps_some = self.place.model.is_recurrent() || self.place.model.sees();
        let stayed = if keeps_some {
            cached_tokens
        } else {
            assert_eq!(cached_tokens, 0, "{usage:?}");
            0
        };
        assert!((stayed + restored) as usize >= PAGE, "{usage:?}");
    }
}

/// Runs a sequence and returns its counts. Panics at a wrong answer.
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
        Step::Unload,
    ];
    steps.extend((0..more).map(|_| others[random.usize(0..others.len())]));
    random.shuffle(&mut steps);
    for step in steps {
        sequence.step(step).await;
    }
    for _ in 0..MOST_BRANCHES {
        if sequence.counts.branched == 0 {
            sequence.step(Step::Branch).await;
        }
    }
    // After restores from the host's memory alone, the disk gets its turn.
    while sequence.counts.disk_alone() == 0 {
        sequence.step(Step::Restart).await;
    }
    let has_images = sequence.place.model.sees();
    let Sequence {
        daemon,
        counts,
        session,
        ..
    } = sequence;
    assert_eq!(daemon.pages.counts().refused, 0);
    assert!(counts.evicted > 0 && counts.branched > 0);
    assert!(counts.restored > 0 || has_images);
    daemon.delete(session).await;
    (daemon, counts)
}

/// Names the sequence that has failed.
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

/// Runs that many sequences, one per core at once, each next to its own cold engine. An engine serves several sequences
/// unless a sequence restarts it.
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
