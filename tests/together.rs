//! Many random conversations at once, compared with an engine that answers each request alone: other requests,
//! priorities and preemption change no answer.

use std::collections::{BTreeSet, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ganglion::engine::{
    Client, Event, FinishReason, Handle, Held, Hold, Likelihood, Limits, Message, Options, Outcome,
    Priority, Refusal, Replaced, Role, SessionId, State, Ticket, UserLimits, channel, worker,
};
use ganglion::graph::GraphOptions;
use ganglion::guide::Grammar;
use ganglion::kv::{KvType, Reuse};
use ganglion::load::{self, Backend, KvMemory};
use ganglion::runner::{LogitsObserver, LostStates};
use ganglion::sampler::Parameters;
use ganglion::tools::Formats;

use crate::support::journal::Journal;
use crate::support::limits::limits;
use crate::support::tiny_gguf;

const CONVERSATIONS: u32 = 12;
const TURNS_BETWEEN_RELOADS: usize = 8;
const LIMITS: Limits = limits(64, Duration::from_micros(200));

/// The constraints of answers; most answers are free. Many tokens are forced, and run several in a step if there is
/// room.
const GRAMMARS: [Option<&str>; 5] = [
    None,
    None,
    None,
    Some(
        r#"{"enum": ["hello a robot", "hello", {"a": "long list", "of": ["what", "must", "come"]}]}"#,
    ),
    Some(
        r#"{"type": "object", "properties": {"robot": {"type": "string", "maxLength": 9}, "hello": {"type": "boolean"}},
            "required": ["robot", "hello"], "additionalProperties": false}"#,
    ),
];

/// Holds requests for another caller.
fn hold_device(handle: &Handle, held: Held, reason: &str) -> Hold {
    let client = Client {
        name: ":1.99".into(),
        user: 99,
    };
    handle.hold(client, held, reason.into(), Duration::from_secs(60))
}

/// The file of a chat template next to a model without one.
const TEMPLATE: &str = "template.jinja";

fn template(folder: &Path) -> Option<PathBuf> {
    Some(folder.join(TEMPLATE)).filter(|path| path.exists())
}

/// An engine with a tiny model on its own thread.
pub(crate) struct Engine {
    pub(crate) handle: Handle,
    journal: Journal,
}

impl Engine {
    pub(crate) async fn start(folder: &Path, rows: usize, whole: usize) -> Self {
        Self::with_context(folder, rows, whole, 256).await
    }

    pub(crate) async fn with_context(
        folder: &Path,
        rows: usize,
        whole: usize,
        context: usize,
    ) -> Self {
        let runner = load::Settings {
            context,
            kv_memory: KvMemory::Conversations(whole),
            rows,
            ..Self::settings()
        };
        Self::with(folder, runner).await
    }

    /// Memory of the cache comes and goes all the time, steps are launched ahead, and are left wherever they may be.
    pub(crate) fn settings() -> load::Settings {
        load::Settings {
            backend: Backend::Cpu,
            context: 256,
            kv_chunk: 1,
            kv_rest: Duration::from_millis(1),
            reuse: Reuse::Exact,
            threads: 1,
            prefill_chunk: 16,
            launch_ahead: true,
            graph: GraphOptions {
                part_bytes: 1,
                ..GraphOptions::default()
            },
            ..load::Settings::default()
        }
    }

    /// Starts an engine whose model is still loading.
    pub(crate) fn loading(folder: &Path) -> Handle {
        Self::begin(folder, Self::settings(), &Journal::default())
    }

    pub(crate) async fn with(folder: &Path, runner: load::Settings) -> Self {
        let journal = Journal::default();
        let handle = Self::begin(folder, runner, &journal);
        let mut status = handle.status();
        let loaded = status.wait_for(|status| status.state != State::Loading);
        let loaded = loaded.await.expect("the engine lives").clone();
        assert_eq!(loaded.state, State::Ready, "{}", loaded.detail);
        Self { handle, journal }
    }

    fn begin(folder: &Path, runner: load::Settings, journal: &Journal) -> Handle {
        let (handle, inbox) = channel(LIMITS);
        let formats = Path::new(env!("CARGO_MANIFEST_DIR")).join("config/tools");
        handle.set_formats(Formats::read(&formats).expect("they are right"));
        let settings = worker::Settings {
            model: folder.join("tiny.gguf"),
            chat_template: template(folder),
            runner,
        };
        let captured = journal.clone();
        std::thread::spawn(move || captured.during(|| worker::run(&inbox, &settings)));
        handle
    }

    /// Requests that were evicted and started again.
    fn made_way(&self) -> usize {
        let (mut begun, mut again) = (BTreeSet::new(), 0);
        for entry in self.journal.take() {
            if entry.contains_key("sequence") {
                again += usize::from(!begun.insert(entry["request_id"].clone()));
            }
        }
        again
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.handle.close();
    }
}

/// The next event of a conversation.
#[derive(Clone, Debug)]
#[allow(clippy::large_enum_variant)] // there are few
enum Step {
    Say {
        text: String,
        options: Options,
        then: Then,
    },
    Rewind(u32),
    Clear,
    /// Closes the session, possibly during a turn, and opens another.
    Leave,
}

/// The end of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Then {
    AnswerPart,
    /// Cancelled after that many pieces of text.
    Cancelled(usize),
    Abandoned,
}

/// The answer to a completed turn.
#[derive(Clone, Debug, PartialEq)]
struct Answer {
    text: String,
    reason: FinishReason,
    tokens: [u32; 2],
    /// A hash of each token's probability and the most probable ones, if requested.
    logprobs: Vec<u64>,
}

/// Hashes of the logits of all chosen tokens of all conversations.
#[derive(Clone, Default)]
struct Logits(Arc<Mutex<HashSet<u64>>>);

impl Logits {
    fn observer(&self) -> LogitsObserver {
        let all = self.0.clone();
        LogitsObserver::new(move |logits| {
            let mut hasher = DefaultHasher::new();
            logits
                .iter()
                .for_each(|logit| hasher.write_u32(logit.to_bits()));
            let mut all = all.lock().unwrap_or_else(PoisonError::into_inner);
            all.insert(hasher.finish());
        })
    }

    fn take(&self) -> HashSet<u64> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Every reported probability of a token.
fn hash(likelihood: &Likelihood) -> u64 {
    let mut hasher = DefaultHasher::new();
    for one in std::iter::once(likelihood).chain(&likelihood.best) {
        (one.token, one.logprob.to_bits()).hash(&mut hasher);
    }
    hasher.finish()
}

fn program(random: &mut fastrand::Rng) -> Vec<Step> {
    let step = |_| match random.u32(0..12) {
        0 => Step::Rewind(random.u32(1..3)),
        1 => Step::Clear,
        2 => Step::Leave,
        _ => {
            let words =
                (0..random.usize(1..12)).map(|_| ["hello", "a", "robot"][random.usize(0..3)]);
            let text = words.collect::<Vec<_>>().join(" ");
            let sampled = random.bool();
            Step::Say {
                text,
                options: Options {
                    grammar: GRAMMARS[random.usize(0..GRAMMARS.len())]
                        .map(|schema| Grammar::JsonSchema(schema.into())),
                    priority: Priority::ALL[random.usize(0..3)],
                    deadline: (random.u32(0..8) == 0)
                        .then(|| Duration::from_micros(random.u64(0..20_000))),
                    ..Options::new(
                        random.usize(1..40),
                        Parameters {
                            temperature: if sampled { 1.0 } else { 0.0 },
                            repetition_penalty: [1.0, 1.3][random.usize(0..2)],
                            seed: random.u64(..),
                            // Without probabilities, several forced tokens run in one step.
                            logprobs: (random.u32(0..4) > 0).then_some(20),
                            ..Parameters::default()
                        },
                    )
                },
                then: match random.u32(0..8) {
                    0 => Then::Cancelled(random.usize(0..6)),
                    1 => Then::Abandoned,
                    _ => Then::AnswerPart,
                },
            }
        }
    };
    (0..14).map(step).collect()
}

/// One conversation of a user with an engine.
struct Talk<'a> {
    engine: &'a Handle,
    user: u32,
    session: SessionId,
}

impl<'a> Talk<'a> {
    fn begin(engine: &'a Handle, user: u32) -> Self {
        let client = Client {
            name: format!(":1.{user}").into(),
            // Some conversations share a user.
            user: user % 5,
        };
        let session = engine
            .open_session(client, Vec::new())
            .expect("there is room");
        Self {
            engine,
            user,
            session,
        }
    }

    fn turns(&self) -> u32 {
        let status = self.engine.session(self.session);
        status.expect("it is open").turns
    }

    async fn say(&self, text: &str, options: &Options) -> Option<Ticket> {
        let sent = self
            .engine
            .send(self.session, text.to_owned(), options.clone());
        // At the context's end.
        sent.await.ok()
    }

    /// Follows a turn to its end, or cancels it after that many pieces of text.
    async fn hear(&self, mut ticket: Ticket, pieces: usize) -> (String, Outcome, Vec<u64>) {
        let (mut text, mut heard, mut logprobs) = (String::new(), 0, Vec::new());
        if pieces == 0 {
            self.engine.cancel(ticket.id);
        }
        loop {
            match ticket.events.recv().await.expect("it ends") {
                Event::Text(more) => {
                    text += &more;
                    heard += 1;
                    if heard == pieces {
                        self.engine.cancel(ticket.id);
                    }
                }
                Event::Likelihood(likelihood) => logprobs.push(hash(&likelihood)),
                Event::Reasoning(_) | Event::Call(_) => {}
                Event::Done(outcome) => return (text, outcome, logprobs),
            }
        }
    }

    /// Runs a program next to others, and counts `turns` that have ended. An incomplete turn is rewound, so that later turns do
    /// not depend on timing.
    async fn run(mut self, program: Vec<Step>, turns: Arc<AtomicUsize>) -> Vec<Option<Answer>> {
        let mut answers = Vec::new();
        for step in program {
            match step {
                Step::Rewind(turns) => drop(self.engine.rewind(self.session, turns).await),
                Step::Clear => self
                    .engine
                    .clear_session(self.session)
                    .await
                    .expect("it is idle"),
                Step::Leave => self.leave(),
                Step::Say {
                    text,
                    options,
                    then,
                } => {
                    let before = self.turns();
                    let Some(ticket) = self.say(&text, &options).await else {
                        answers.push(None);
                        continue;
                    };
                    if then == Then::Abandoned {
                        self.leave();
                        answers.push(None);
                        continue;
                    }
                    let pieces = match then {
                        Then::Cancelled(pieces) => pieces,
                        _ => usize::MAX,
                    };
                    let (text, outcome, logprobs) = self.hear(ticket, pieces).await;
                    assert_eq!(outcome.error, None);
                    turns.fetch_add(1, Relaxed);
                    if outcome.reason.is_partial() {
                        let kept = self.turns() - before;
                        assert_eq!(kept > 0, !text.is_empty());
                        self.engine
                            .rewind(self.session, kept)
                            .await
                            .expect("it has them");
                    }
                    answers.push(Some(Answer {
                        text,
                        reason: outcome.reason,
                        tokens: [outcome.usage.prompt_tokens, outcome.usage.completion_tokens],
                        logprobs,
                    }));
                }
            }
        }
        answers
    }

    fn leave(&mut self) {
        self.engine.close_session(self.session);
        *self = Self::begin(self.engine, self.user);
    }

    /// Runs it alone, and compares its answers. Returns the number of equal answers.
    async fn hold(mut self, program: &[Step], among: Vec<Option<Answer>>) -> usize {
        let (mut among, mut equal) = (among.into_iter(), 0);
        for step in program {
            match step {
                Step::Rewind(turns) => drop(self.engine.rewind(self.session, *turns).await),
                Step::Clear => self
                    .engine
                    .clear_session(self.session)
                    .await
                    .expect("it is idle"),
                Step::Leave => self.leave(),
                Step::Say {
                    text,
                    options,
                    then,
                } => {
                    let answer = among.next().expect("an answer a turn");
                    let options = Options {
                        deadline: None,
                        ..options.clone()
                    };
                    let Some(ticket) = self.say(text, &options).await else {
                        assert_eq!(answer, None, "alone there is no room");
                        continue;
                    };
                    let (text, outcome, logprobs) = self.hear(ticket, usize::MAX).await;
                    let alone = Answer {
                        text,
                        reason: outcome.reason,
                        tokens: [outcome.usage.prompt_tokens, outcome.usage.completion_tokens],
                        logprobs,
                    };
                    match answer {
                        None => {
                            assert_eq!(*then, Then::Abandoned);
                            self.leave();
                        }
                        Some(answer) if answer.reason.is_partial() => {
                            // An answer that ended within a character has a replacement character.
                            let whole = answer.text.trim_end_matches(char::REPLACEMENT_CHARACTER);
                            assert!(
                                alone.text.starts_with(whole),
                                "user {}: {answer:?}, alone {alone:?}",
                                self.user
                            );
                            self.engine
                                .rewind(self.session, 1)
                                .await
                                .expect("it has one");
                        }
                        Some(answer) => {
                            assert_eq!(answer, alone, "user {}, {options:?}", self.user);
                            equal += 1;
                        }
                    }
                }
            }
        }
        equal
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_of_many_at_once_are_those_of_each_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let model = tiny_gguf::with_vocabulary().file();
    std::fs::write(folder.path().join("tiny.gguf"), model).expect("it is written");
    hold_together(folder.path()).await;
}

/// The same with recurrent states, which rows of other requests, preemption and eviction must not change.
#[tokio::test(flavor = "multi_thread")]
async fn answers_of_a_recurrent_model_are_those_of_each_alone() {
    for name in ["tiny-qwen3_5", "tiny-lfm2"] {
        let folder = tempfile::tempdir().expect("a folder");
        let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
        let model = golden.join(name).join("model.q8_0.gguf");
        std::fs::copy(model, folder.path().join("tiny.gguf")).expect("it is copied");
        // Prompts spell earlier answers apart from the beginning of a new one, so their tokens are encoded again: a replaced
        // model would not recognize those that a random model chose.
        let template = "{% for message in messages %}{{ message.role }}: {{ message.content }}\n{% endfor %}\
                        {% if add_generation_prompt %}> {% endif %}";
        std::fs::write(folder.path().join(TEMPLATE), template).expect("it is written");
        let lost = hold_together(folder.path()).await;
        println!("{name}: {lost:?}");
        assert!(lost.idle > 0, "{name}: no slot lost its state");
    }
}

/// Runs with many or few rows and pages, and with priorities that preempt others. The logits of every chosen token have
/// the hashes that they have alone. `GANGLION_SEED` selects other programs. Returns the recurrent states that others
/// needed.
async fn hold_together(folder: &Path) -> LostStates {
    let [of_alone, of_together] = [(); 2].map(|()| Logits::default());
    let watched = |rows, whole, logits: &Logits| load::Settings {
        observer: Some(logits.observer()),
        // What runs is left for whoever comes; what was launched ahead has run already.
        launch_ahead: whole > 1,
        ..of_rows(folder, rows, whole).runner
    };
    let alone = Engine::with(folder, watched(1, 1, &of_alone)).await;
    let seed = std::env::var("GANGLION_SEED").map_or(Ok(1600), |seed| seed.parse());
    let seed = seed.expect("GANGLION_SEED is a number");
    println!("GANGLION_SEED={seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let (mut made_way, mut lost) = (0, LostStates::default());
    for (rows, whole) in [(8, 8), (4, 1), (2, 3), (3, 1), (8, 2)] {
        let settings = watched(rows, whole, &of_together);
        let together = Engine::with(folder, settings.clone()).await;
        let programs: Vec<_> = (0..CONVERSATIONS).map(|_| program(&mut random)).collect();
        let (mut talks, turns) = (Vec::new(), Arc::new(AtomicUsize::new(0)));
        for (user, program) in (0..).zip(programs.clone()) {
            let (handle, turns) = (together.handle.clone(), turns.clone());
            talks.push(tokio::spawn(async move {
                Talk::begin(&handle, user).run(program, turns).await
            }));
        }
        // From time to time the robot needs its device for other work.
        let handle = together.handle.clone();
        let holder = tokio::spawn(async move {
            for what in [Held::Background, Held::All].into_iter().cycle() {
                let hold = hold_device(&handle, what, "for a test");
                tokio::time::sleep(Duration::from_millis(3)).await;
                drop(hold);
                tokio::time::sleep(Duration::from_millis(7)).await;
            }
        });
        // If pages are not scarce, the model is reloaded while rows run. A prompt in progress begins again then: on a slow
        // machine no turn would end if reloads did not wait for some.
        let reloads = whole > 2;
        let handle = together.handle.clone();
        let mut next = worker::Settings {
            runner: settings,
            ..of_rows(folder, rows, whole)
        };
        let reloader = tokio::spawn(async move {
            // Equal settings would load nothing.
            let others = [(Duration::ZERO, 24), (Duration::from_millis(5), 16)];
            let mut reloaded_at = 0;
            for (drain, chunk) in others.into_iter().cycle().take_while(|_| reloads) {
                tokio::time::sleep(Duration::from_millis(150)).await;
                while turns.load(Relaxed) < reloaded_at + TURNS_BETWEEN_RELOADS {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
                reloaded_at = turns.load(Relaxed);
                next.runner.prefill_chunk = chunk;
                let replaced = handle.replace(next.clone(), drain).await;
                assert_eq!(replaced.expect("it is loaded"), Replaced::Model);
            }
        });
        let mut heard = Vec::new();
        for talk in talks {
            heard.push(talk.await.expect("it ends"));
        }
        reloader.abort();
        if let Err(ended) = reloader.await {
            assert!(!ended.is_panic(), "{ended}");
        }
        let mut equal = 0;
        for ((user, program), among) in (0..).zip(&programs).zip(heard) {
            let talk = Talk::begin(&alone.handle, user);
            equal += talk.hold(program, among).await;
        }
        holder.abort();
        assert!(equal > 40, "few were heard to their end: {equal}");
        together.handle.idle().await;
        // Every computation, including those of incomplete turns, is as alone.
        let (alone, together_saw) = (of_alone.take(), of_together.take());
        let others = together_saw.difference(&alone).count();
        assert_eq!(others, 0, "of {} rows of logits", together_saw.len());
        let rows = together_saw.len();
        assert!(rows > 500, "few rows of logits were seen: {rows}");
        if !reloads {
            made_way += together.made_way();
        }
        let work = together.handle.live().work;
        assert_eq!(work.of, [0; 3]);
        lost.idle += work.lost_states.idle;
        lost.continued += work.lost_states.continued;
    }
    assert!(made_way > 0, "no request was evicted");
    lost
}

/// Asks a question for a new user, and returns its answer's events.
async fn ask(engine: &Handle, user: u32, options: Options) -> (Ticket, String) {
    let client = Client {
        name: format!(":1.{user}").into(),
        user,
    };
    let question = Message::new(Role::User, format!("hello robot {user}"));
    let asked = engine.generate(client, vec![question], options).await;
    (asked.expect("it is accepted"), String::new())
}

/// Follows an answer to its end, or to its first text.
async fn follow((ticket, text): &mut (Ticket, String), to_end: bool) -> Option<Outcome> {
    loop {
        match ticket.events.recv().await.expect("it ends") {
            Event::Text(more) => {
                *text += &more;
                if !to_end {
                    return None;
                }
            }
            Event::Done(outcome) => {
                assert_eq!(outcome.error, None);
                return Some(outcome);
            }
            Event::Likelihood(_) | Event::Reasoning(_) | Event::Call(_) => {}
        }
    }
}

fn sampled(user: u32, tokens: usize, priority: Priority) -> Options {
    Options {
        priority,
        ..Options::new(
            tokens,
            Parameters {
                temperature: if user.is_multiple_of(2) { 0.0 } else { 1.0 },
                repetition_penalty: 1.3,
                seed: user.into(),
                ..Parameters::default()
            },
        )
    }
}

/// Settings of another model, from the engine's view.
fn another(folder: &Path, rows: usize, context: usize) -> worker::Settings {
    let mut another = of_rows(folder, rows, 8);
    another.runner.context = context;
    another
}

/// Settings of the same model, with that many rows and pages for that many whole conversations.
fn of_rows(folder: &Path, rows: usize, whole: usize) -> worker::Settings {
    worker::Settings {
        model: folder.join("tiny.gguf"),
        chat_template: template(folder),
        runner: load::Settings {
            kv_memory: KvMemory::Conversations(whole),
            rows,
            ..Engine::settings()
        },
    }
}

/// An answer that outlasts the drain deadline continues with the new model at its position. Until then no request
/// starts except `realtime`.
#[tokio::test(flavor = "multi_thread")]
async fn a_reload_continues_running_answers() {
    let folder = tempfile::tempdir().expect("a folder");
    let model = tiny_gguf::with_vocabulary().file();
    std::fs::write(folder.path().join("tiny.gguf"), model).expect("it is written");
    let Engine { handle, .. } = &Engine::start(folder.path(), 4, 8).await;
    let mut alone = Vec::new();
    for user in 0..40 {
        let mut asked = ask(handle, user, sampled(user, 150, Priority::Background)).await;
        let outcome = follow(&mut asked, true).await.expect("its end");
        if outcome.usage.completion_tokens == 150 {
            alone.push((user, asked.1));
        }
    }
    assert!(alone.len() >= 3, "few answers are long: {}", alone.len());
    alone.truncate(3);
    for (drain, context) in [(Duration::ZERO, 320), (Duration::from_secs(3600), 256)] {
        let mut running = Vec::new();
        for (user, _) in &alone {
            running.push(ask(handle, *user, sampled(*user, 150, Priority::Background)).await);
        }
        for asked in &mut running {
            follow(asked, false).await;
        }
        let hold = hold_device(handle, Held::Background, "in the middle");
        let (engine, settings) = (handle.clone(), another(folder.path(), 4, context));
        let replacing = tokio::spawn(async move { engine.replace(settings, drain).await });
        if drain.is_zero() {
            replacing.await.expect("it ends").expect("it is loaded");
            drop(hold);
        } else {
            // Idle requests delay the new model, and no urgent request.
            for user in 50..60 {
                let mut urgent = ask(handle, user, sampled(user, 3, Priority::Realtime)).await;
                follow(&mut urgent, true).await.expect("its end");
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            assert!(!replacing.is_finished(), "no request ran");
            drop(hold);
            replacing.await.expect("it ends").expect("it is loaded");
        }
        for ((user, alone), asked) in alone.iter().zip(&mut running) {
            follow(asked, true).await.expect("its end");
            assert_eq!((user, &asked.1), (user, alone), "{drain:?}");
        }
    }
}

/// A reload finishes whatever step the last answer ends at, also if memory was released at that time.
#[tokio::test(flavor = "multi_thread")]
async fn a_reload_finishes_however_the_last_answer_ends() {
    const TOKENS: usize = 150;
    let folder = tempfile::tempdir().expect("a folder");
    let model = tiny_gguf::with_vocabulary().file();
    std::fs::write(folder.path().join("tiny.gguf"), model).expect("it is written");
    let settings = |context| {
        let mut settings = another(folder.path(), 4, context);
        settings.runner.kv_rest = Duration::ZERO;
        settings
    };
    let engine = Engine::with(folder.path(), settings(256).runner).await;
    let handle = &engine.handle;
    let mut long = Vec::new();
    for user in 0..60 {
        let mut asked = ask(handle, user, sampled(user, TOKENS, Priority::Normal)).await;
        let outcome = follow(&mut asked, true).await.expect("its end");
        if outcome.usage.completion_tokens as usize == TOKENS {
            long.push(user);
        }
    }
    let [last, others @ ..] = &long[..] else {
        panic!("no answer is long");
    };
    assert!(others.len() >= 3, "few answers are long: {long:?}");
    for outlives in 0..32 {
        let options = sampled(*last, TOKENS, Priority::Normal);
        let scored = Parameters {
            logprobs: Some(0),
            ..options.sampling
        };
        let asked = ask(
            handle,
            *last,
            Options {
                sampling: scored,
                ..options
            },
        )
        .await;
        let (mut ticket, mut said) = (asked.0, 0);
        while said < 3 {
            let event = ticket.events.recv().await.expect("it goes on");
            said += usize::from(matches!(event, Event::Likelihood(_)));
        }
        let hold = hold_device(handle, Held::All, "in the middle");
        let (engine, next) = (handle.clone(), settings([320, 256][outlives % 2]));
        let drain = Duration::from_secs(3600);
        let replacing = tokio::spawn(async move { engine.replace(next, drain).await });
        // It is loaded in the meantime, and waits for the answer.
        tokio::time::sleep(Duration::from_millis(100)).await;
        while let Ok(event) = ticket.events.try_recv() {
            said += usize::from(matches!(event, Event::Likelihood(_)));
        }
        let tokens = (TOKENS - said).saturating_sub(outlives).max(1);
        let mut urgent = Vec::new();
        for user in &others[..3] {
            urgent.push(ask(handle, *user, sampled(*user, tokens, Priority::Realtime)).await);
        }
        drop(hold);
        let replaced = tokio::time::timeout(Duration::from_secs(60), replacing).await;
        let replaced = replaced.unwrap_or_else(|_| panic!("it waits, {outlives} tokens later"));
        replaced.expect("it ends").expect("it is loaded");
    }
}

/// Cached pages survive a reload of the same model with the same results. They do not survive another cache type.
#[tokio::test(flavor = "multi_thread")]
async fn pages_survive_a_reload_of_the_same_model() {
    let folder = tempfile::tempdir().expect("a folder");
    let model = tiny_gguf::with_vocabulary().file();
    std::fs::write(folder.path().join("tiny.gguf"), model).expect("it is written");
    let changes: [fn(&mut load::Settings); 3] = [
        |_| (),
        |to| (to.context, to.rows) = (320, 3),
        |to| (to.context, to.kv_type) = (320, KvType::Q8_0.into()),
    ];
    let mut answers = Vec::new();
    for change in changes {
        let engine = Engine::start(folder.path(), 4, 4).await;
        let talk = Talk::begin(&engine.handle, 1);
        let say = |text: &'static str| {
            let options = sampled(1, 30, Priority::Normal);
            let options = Options {
                sampling: Parameters {
                    logprobs: Some(20),
                    ..options.sampling
                },
                ..options
            };
            let talk = &talk;
            async move {
                let ticket = talk.say(text, &options).await.expect("it is accepted");
                talk.hear(ticket, usize::MAX).await
            }
        };
        say("hello a robot hello a robot").await;
        let mut settings = of_rows(folder.path(), 4, 4);
        change(&mut settings.runner);
        let replaced = engine.handle.replace(settings, Duration::ZERO).await;
        replaced.expect("it is loaded");
        let (text, outcome, logprobs) = say("a robot").await;
        answers.push((outcome.usage.cached_tokens, text, logprobs));
    }
    let [stayed, same, other] = &answers[..] else {
        panic!("three were asked");
    };
    assert!(stayed.0 > 20, "{stayed:?}");
    assert_eq!(same, stayed);
    assert_eq!(other.0, 0);
    assert_ne!(
        other.2, stayed.2,
        "the type of the cache makes no difference"
    );
}

/// Reloads at random times while rows run: each answer is as alone.
#[tokio::test(flavor = "multi_thread")]
async fn repeated_reloads_change_no_answer() {
    let folder = tempfile::tempdir().expect("a folder");
    let model = tiny_gguf::with_vocabulary().file();
    std::fs::write(folder.path().join("tiny.gguf"), model).expect("it is written");
    let alone = Engine::start(folder.path(), 1, 1).await;
    let together = Engine::start(folder.path(), 4, 8).await;
    let talks: Vec<_> = (0..8)
        .map(|user| {
            let engine = together.handle.clone();
            tokio::spawn(async move { questions(&engine, user).await })
        })
        .collect();
    let mut reloads = 0;
    while talks.iter().any(|talk| !talk.is_finished()) {
        let context = [256, 320][reloads % 2];
        let settings = another(folder.path(), 2 + reloads % 3, context);
        let drain = Duration::from_millis([0, 0, 5][reloads % 3]);
        let replaced = together.handle.replace(settings, drain).await;
        replaced.expect("it is loaded");
        reloads += 1;
    }
    assert!(reloads > 1, "{reloads} reloads");
    for (user, talk) in (0..).zip(talks) {
        let among = talk.await.expect("it ends");
        assert_eq!(among, questions(&alone.handle, user).await, "user {user}");
    }
}

/// Asks several questions of a user in sequence, and returns the answers.
async fn questions(engine: &Handle, user: u32) -> Vec<(String, FinishReason)> {
    let mut texts = Vec::new();
    for number in 0..12 {
        let seed = user * 100 + number;
        let (at, priority) = (seed as usize, Priority::ALL[seed as usize % 3]);
        let options = Options {
            grammar: GRAMMARS[at % GRAMMARS.len()].map(|schema| Grammar::JsonSchema(schema.into())),
            ..sampled(seed, 20 + at % 60, priority)
        };
        let mut asked = ask(engine, user, options).await;
        let outcome = follow(&mut asked, true).await.expect("its end");
        texts.push((asked.1, outcome.reason));
    }
    texts
}

/// Simultaneous requests of one user prefill their common prefix once; another user's request prefills it again.
#[tokio::test(flavor = "multi_thread")]
async fn simultaneous_requests_of_a_user_prefill_their_common_prefix_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let model = tiny_gguf::with_vocabulary().file();
    std::fs::write(folder.path().join("tiny.gguf"), model).expect("it is written");
    let engine = Engine::with_context(folder.path(), 8, 4, 512).await;
    let hold = hold_device(&engine.handle, Held::All, "until all wait");
    let rules = "hello a robot ".repeat(30);
    let mut tickets = Vec::new();
    for (number, user) in (0..).zip([1, 1, 2, 1]) {
        let client = Client {
            name: format!(":1.{number}").into(),
            user,
        };
        let said = vec![
            Message::new(Role::System, rules.clone()),
            Message::new(Role::User, ["hello", "a", "robot", "hello a"][number]),
        ];
        let options = Options::new(8, Parameters::default());
        let asked = engine.handle.generate(client, said, options).await;
        tickets.push((asked.expect("it is accepted"), String::new()));
    }
    drop(hold);
    let mut cached = Vec::new();
    for asked in &mut tickets {
        let usage = loop {
            if let Some(outcome) = follow(asked, true).await {
                break outcome.usage;
            }
        };
        assert!(usage.prompt_tokens > 128, "{usage:?}");
        cached.push(usage.cached_tokens);
    }
    let (first, others) = (cached[0], [cached[1], cached[3]]);
    assert_eq!((first, cached[2]), (0, 0), "{cached:?}");
    assert!(others.iter().all(|cached| *cached > 128), "{cached:?}");
}

/// A user beyond its share of the cache waits for its own requests, and delays no other user. A request that could
/// never start is refused.
#[tokio::test(flavor = "multi_thread")]
async fn a_user_has_a_share_of_the_cache() {
    let folder = tempfile::tempdir().expect("a folder");
    let model = tiny_gguf::with_vocabulary().file();
    std::fs::write(folder.path().join("tiny.gguf"), model).expect("it is written");
    // Eight pages.
    let engine = Engine::start(folder.path(), 8, 2).await;
    let share = |kv_percent| {
        let user = UserLimits {
            kv_percent,
            ..LIMITS.user
        };
        engine.handle.set_limits(Limits { user, ..LIMITS });
    };
    let ask = |user: u32| {
        let client = Client {
            name: format!(":1.{user}").into(),
            user,
        };
        let question = Message::new(Role::User, "hello");
        let options = Options::new(200, Parameters::default());
        engine.handle.generate(client, vec![question], options)
    };
    share(25);
    let refused = ask(1).await;
    assert!(
        matches!(
            refused,
            Err(Refusal::UserPages {
                user: 1,
                share: 2,
                percent: 25,
                ..
            })
        ),
        "{refused:?}"
    );
    share(50);
    let hold = hold_device(&engine.handle, Held::All, "until all wait");
    let mut tickets = Vec::new();
    for user in [1, 1, 2] {
        tickets.push(ask(user).await.expect("it is within its share"));
    }
    drop(hold);
    let ids: Vec<u64> = tickets.iter().map(|ticket| ticket.id).collect();
    for mut ticket in tickets {
        while !matches!(ticket.events.recv().await, Some(Event::Done(_))) {}
    }
    engine.handle.idle().await;
    let events = engine.journal.take();
    let at = |id: u64, field: &str| {
        let of = events.iter().position(|entry| {
            entry.get("request_id").map(String::as_str) == Some(&id.to_string())
                && entry.contains_key(field)
        });
        of.expect("an event")
    };
    let [began, ended] = ["sequence", "finish_reason"];
    assert!(at(ids[2], began) < at(ids[0], ended), "{events:?}");
    assert!(at(ids[1], began) > at(ids[0], ended), "{events:?}");
}
