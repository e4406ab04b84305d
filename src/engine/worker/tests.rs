//! Requests with images through the engine thread, on the CPU, against a runner that runs their prompts alone.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::Settings;
use crate::engine::caller::client::Client;
use crate::engine::caller::handle::{Handle, channel};
use crate::engine::caller::limits::{Limits, UserLimits};
use crate::engine::caller::request::{Event, Options, Outcome, Priority, Ticket};
use crate::engine::caller::status::State;
use crate::engine::intake::accept::Submission;
use crate::engine::intake::registration::Registration;
use crate::engine::observe::live::ImageCounts;
use crate::engine::picture::decode;
use crate::engine::picture::picture::{Picture, PictureKey};
use crate::engine::prompt::encoder::{Encoded, Encoder, Prepared};
use crate::engine::prompt::overflow::Talk;
use crate::engine::schedule::slices::Share;
use crate::engine::session::sessions::SessionId;
use crate::kv::{FIRST_IMAGE_ROW, KvType, Reuse};
use crate::load::{self, Backend, KvMemory, LoadError, TowerFile, VisionSettings};
use crate::model::tower::Grid;
use crate::model::{Checkpoint, Message, Role, TowerCheckpoint};
use crate::runner::{MixedPrompt, PromptImage, PromptInput, Runner, Tower};
use crate::sampler::Parameters;
use crate::telemetry::FinishReason;
use crate::vision::{self, Fields, Format, Received};

/// A language model and a tower of the repository that fit.
#[derive(Clone, Copy)]
struct Model {
    text: &'static str,
    tower: &'static str,
}

/// Positions of three parts, and recurrent layers.
const QWEN: Model = Model {
    text: "tiny-qwen3_5/model.q8_0.gguf",
    tower: "vision/tiny-qwen3_5.mmproj-f16.gguf",
};
/// Rows of an image see each other.
const GEMMA: Model = Model {
    text: "tiny-gemma4_dense/model.q8_0.gguf",
    tower: "vision/tiny-gemma4.mmproj-f16.gguf",
};
const BOTH: [Model; 2] = [QWEN, GEMMA];

const TOKENS: usize = 12;
const USER: u32 = 1;

fn golden(name: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    root.join(name)
}

impl Model {
    fn settings(self) -> Settings {
        Settings {
            model: golden(self.text),
            chat_template: None,
            runner: load::Settings {
                backend: Backend::Cpu,
                kv_type: KvType::F32.into(),
                context: 512,
                kv_memory: KvMemory::Conversations(2),
                reuse: Reuse::Exact,
                rows: 4,
                threads: 1,
                prefill_chunk: 16,
                launch_ahead: true,
                vision: VisionSettings {
                    tower: TowerFile::Named(golden(self.tower)),
                    max_tokens: 36,
                    cache: 1 << 20,
                    ..VisionSettings::default()
                },
                ..load::Settings::default()
            },
        }
    }
}

/// The model without an engine.
struct Alone {
    runner: Runner,
    tower: Tower,
}

impl Alone {
    fn load(model: Model) -> Self {
        let checkpoint = Checkpoint::open(&golden(model.text)).expect("golden data");
        let settings = load::Settings {
            prefill_chunk: 128,
            rows: 1,
            launch_ahead: false,
            ..model.settings().runner
        };
        let runner = load::runner(&checkpoint, &settings, &mut |_, _| {}).expect("it loads");
        let tower = TowerCheckpoint::open(&golden(model.tower)).expect("golden data");
        let tower = tower.expect("it is a tower");
        let tower = load::tower(&tower, &settings, 4096, &mut |_, _| {}).expect("it loads");
        Self { runner, tower }
    }

    /// The greedy tokens after a prompt.
    fn answer(&mut self, prompt: &[Part]) -> Vec<u32> {
        let (mut images, mut inputs) = (Vec::new(), Vec::new());
        for part in prompt {
            match part {
                Part::Text(tokens) => {
                    inputs.extend(tokens.iter().map(|token| PromptInput::Token(*token)));
                }
                Part::Image(picture) => {
                    let pixels = picture.pixels.patches.clone();
                    let tile = picture.picture.plan.tiles[0];
                    let grid = Grid {
                        rows: tile.patches.rows as usize,
                        columns: tile.patches.columns as usize,
                    };
                    let embeddings = self.tower.embed(&pixels, grid).expect("it is encoded");
                    let rows = 0..embeddings.tokens;
                    let image = images.len();
                    inputs.extend(rows.map(|row| PromptInput::Image { image, row }));
                    let sides = [tile.tokens.rows, tile.tokens.columns];
                    images.push((embeddings, sides.map(|side| side as usize)));
                }
            }
        }
        let images = images.iter().map(|(embeddings, grid)| PromptImage {
            embeddings,
            grid: *grid,
        });
        let images: Vec<_> = images.collect();
        let prompt = MixedPrompt {
            inputs: &inputs,
            images: &images,
        };
        let ran = (self.runner).prompt(None, 0, prompt, Parameters::default());
        ran.expect("it runs");
        let mut tokens = vec![self.runner.token()];
        while tokens.len() < TOKENS {
            tokens.push(self.runner.step(true).expect("it steps"));
        }
        tokens
    }
}

/// A part of a prompt.
#[derive(Clone)]
enum Part {
    Text(Vec<u32>),
    Image(Shown),
}

#[derive(Clone)]
struct Shown {
    picture: Arc<Picture>,
    pixels: Arc<vision::Pixels>,
}

fn text(tokens: impl IntoIterator<Item = u32>) -> Part {
    Part::Text(tokens.into_iter().collect())
}

/// An engine with a model, and the pictures that its prompts show.
struct Engine {
    handle: Handle,
    encoder: Arc<Encoder>,
    thread: Option<JoinHandle<Result<(), LoadError>>>,
    pictures: HashMap<PictureKey, Shown>,
    next: u32,
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.handle.close();
        if let Some(thread) = self.thread.take() {
            let served = thread.join();
            if !std::thread::panicking() {
                served.expect("no panic").expect("it has served to its end");
            }
        }
    }
}

fn client(user: u32) -> Client {
    Client {
        name: format!(":1.{user}").as_str().into(),
        user,
    }
}

impl Engine {
    async fn start(settings: Settings) -> Self {
        Self::start_with(settings, Duration::from_millis(2)).await
    }

    /// Starts an engine whose slices take at most `slice` while others wait.
    async fn start_with(settings: Settings, slice: Duration) -> Self {
        let user = UserLimits {
            requests: 64,
            sessions: 16,
            queue_percent: 100,
            kv_percent: 100,
        };
        let (handle, receiver) = channel(Limits {
            prefill: Share { slice, percent: 50 },
            grammar: crate::guide::Limits::USUAL,
            requests: 64,
            queue: 64,
            sessions: 16,
            user,
        });
        let thread = std::thread::spawn(move || super::run(&receiver, &settings));
        let mut status = handle.status();
        let reached =
            status.wait_for(|status| matches!(status.state, State::Ready | State::Failed));
        let reached = reached.await.expect("the engine lives").clone();
        assert_eq!(reached.state, State::Ready, "{}", reached.detail);
        assert!(reached.model.images);
        let encoder = handle.shared.encoder().clone().expect("there is a model");
        Self {
            handle,
            encoder,
            thread: Some(thread),
            pictures: HashMap::new(),
            next: FIRST_IMAGE_ROW,
        }
    }

    /// Returns an image of a user, with its pixels. The same image is the same picture.
    fn image(&mut self, user: u32, seed: u64, (width, height): (u32, u32)) -> Part {
        let mut random = fastrand::Rng::with_seed(seed);
        let bytes: Vec<u8> = std::iter::repeat_with(|| random.u8(..))
            .take((width * height * 3) as usize)
            .collect();
        let fields = Fields {
            format: Format::Rgb24,
            width: Some(width),
            height: Some(height),
            ..Fields::default()
        };
        let received = Received::new(bytes.into(), fields, ());
        let sight = self.encoder.sight().expect("it sees").clone();
        let most = Some(sight.max_tokens);
        let plan = sight.processor.plan(width, height, most).expect("it fits");
        let source = received.source();
        let opened = source.open(&vision::Limits::default()).expect("it opens");
        let hash = vision::hash(&opened, sight.processor.settings(), &plan);
        drop(opened);
        let key = PictureKey { user, hash };
        let shown = self.pictures.entry(key).or_insert_with(|| {
            let pixels = decode::pixels(&received, &sight.processor, &plan, &|| false);
            let pixels = Arc::new(pixels.expect("it is decoded"));
            let tokens = u32::try_from(plan.tokens()).expect("few");
            let rows = self.next..self.next + tokens;
            self.next += tokens;
            let picture = Picture::new(key, Arc::new(received), plan, rows);
            picture.set_pixels(Some(pixels.clone()));
            let picture = Arc::new(picture);
            Shown { picture, pixels }
        });
        Part::Image(shown.clone())
    }

    fn encoded(&self, parts: &[Part]) -> Encoded {
        let (mut tokens, mut pictures) = (Vec::new(), Vec::new());
        for part in parts {
            match part {
                Part::Text(text) => tokens.extend(text),
                Part::Image(Shown { picture, .. }) => {
                    tokens.extend(picture.rows.clone());
                    pictures.push(picture.clone());
                }
            }
        }
        self.encoder.encoded(tokens, pictures)
    }

    fn ask(&self, client: Client, parts: &[Part], options: Options) -> Ticket {
        self.ask_in(None, client, parts, options)
    }

    fn ask_in(
        &self,
        session: Option<SessionId>,
        client: Client,
        parts: &[Part],
        options: Options,
    ) -> Ticket {
        let registration = Registration::new(&self.handle.shared);
        if let Some(session) = session {
            let lease = self.handle.lease(session).expect("it is open");
            let mut sessions = self.handle.shared.sessions();
            let begun = sessions.begin_turn(lease, registration.id());
            drop(begun.expect("it is idle"));
        }
        let place = self.handle.queue.place(client.user).expect("there is room");
        let submission = Submission {
            registration,
            client,
            session,
            last: None,
            asked: Instant::now(),
        };
        let prepared = Prepared {
            prompt: self.encoded(parts),
            bound: None,
            writing: None,
        };
        let talk = Talk::whole(vec![Message::new(Role::User, "a")]);
        let queued = (self.handle).enqueue(submission, place, (talk, Some(prepared)), options);
        queued.expect("it is queued")
    }

    async fn answer(&self, user: u32, parts: &[Part]) -> (Vec<u32>, Outcome) {
        hear(self.ask(client(user), parts, options())).await
    }

    fn counts(&self) -> ImageCounts {
        self.handle.live().images
    }
}

fn options() -> Options {
    let sampling = Parameters {
        logprobs: Some(0),
        ..Parameters::default()
    };
    Options::new(TOKENS, sampling)
}

/// The tokens of an answer, and its end.
async fn hear(mut ticket: Ticket) -> (Vec<u32>, Outcome) {
    let mut tokens = Vec::new();
    loop {
        match ticket.events.recv().await.expect("it ends with an outcome") {
            Event::Likelihood(likelihood) => tokens.push(likelihood.token),
            Event::Done(outcome) => return (tokens, outcome),
            _ => {}
        }
    }
}

/// An answer may end before as many tokens, at the end of a turn.
#[track_caller]
fn assert_same(what: &str, found: &[u32], expected: &[u32]) {
    assert!(found.len() > 3, "{what}: {found:?}");
    assert_eq!(found, &expected[..found.len()], "{what}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn images_are_encoded_once_and_answers_are_those_of_the_runner() {
    for model in BOTH {
        let mut alone = Alone::load(model);
        let mut engine = Engine::start(model.settings()).await;
        let [one, other] = [1, 2].map(|seed| engine.image(USER, seed, (400, 240)));
        let prompt = |image: &Part| vec![text(3..80), image.clone(), text([40, 41, 42])];
        let (found, outcome) = engine.answer(USER, &prompt(&one)).await;
        let expected = alone.answer(&prompt(&one));
        assert_same(model.text, &found, &expected);
        assert_eq!(outcome.usage.cached_tokens, 0);
        let Part::Image(Shown { picture, .. }) = &one else {
            unreachable!()
        };
        assert!(picture.pixels().is_none() && picture.embeddings().is_some());

        // Another image of the same size: no row of the first is shared.
        let (found, outcome) = engine.answer(USER, &prompt(&other)).await;
        assert_same("another image", &found, &alone.answer(&prompt(&other)));
        assert_ne!(found, expected[..found.len()], "the image matters");
        // A recurrent state is stored at a multiple of 64.
        let shared = if model.text == QWEN.text {
            0..=64
        } else {
            1..=77
        };
        assert!(shared.contains(&outcome.usage.cached_tokens), "{outcome:?}");
        assert_eq!(engine.counts().encoded, 2);

        // The same image again, then text: it is neither encoded nor prefilled again.
        let mut longer = prompt(&one);
        longer.extend([text(50..120), other.clone(), text([9, 8])]);
        let (found, outcome) = engine.answer(USER, &longer).await;
        assert_same("a cached image", &found, &alone.answer(&longer));
        let tokens = picture.plan.tokens();
        let image_end = 77 + u32::try_from(tokens).expect("few");
        // A recurrent state is stored at multiples of 64.
        let shared = if model.text == QWEN.text {
            64
        } else {
            image_end
        };
        assert!(outcome.usage.cached_tokens >= shared, "{outcome:?}");
        let counts = engine.counts();
        assert_eq!((counts.encoded, counts.cache_bytes > 0), (2, true));
        assert!(counts.reused > 0);

        // Another user shares nothing.
        let theirs = engine.image(7, 1, (400, 240));
        let (found, outcome) = engine.answer(7, &prompt(&theirs)).await;
        assert_same("another user", &found, &expected);
        assert_eq!(outcome.usage.cached_tokens, 0);
        assert_eq!(engine.counts().encoded, 3);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn requests_that_preempt_each_other_change_no_answer() {
    for model in BOTH {
        let mut alone = Alone::load(model);
        let mut engine = Engine::start(model.settings()).await;
        let prompts: Vec<(u32, Priority, Vec<Part>)> = (0..6_u32)
            .map(|number| {
                let user = 1 + number % 3;
                let priority = Priority::ALL[number as usize % 3];
                let image = engine.image(user, u64::from(number / 2), (300, 520));
                let again = engine.image(user, u64::from(number), (360, 160));
                let begin = 3 + number;
                let parts = [
                    text(begin..begin + 30),
                    image,
                    text([30, 31]),
                    again,
                    text([5]),
                ];
                (user, priority, parts.to_vec())
            })
            .collect();
        let tickets = prompts.iter().map(|(user, priority, parts)| {
            let options = Options {
                priority: *priority,
                ..options()
            };
            engine.ask(client(*user), parts, options)
        });
        let tickets: Vec<_> = tickets.collect();
        for (ticket, (_, _, parts)) in tickets.into_iter().zip(&prompts) {
            let (found, outcome) = hear(ticket).await;
            assert_eq!(outcome.error, None);
            assert_same(model.text, &found, &alone.answer(parts));
        }
    }
}

/// Without a cache, an image that returns is decoded again, and no embeddings stay.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn images_without_embeddings_are_decoded_again() {
    for model in BOTH {
        let mut alone = Alone::load(model);
        let mut settings = model.settings();
        settings.runner.vision.cache = 0;
        let mut engine = Engine::start(settings).await;
        let image = engine.image(USER, 5, (300, 300));
        for (round, begin) in (1..).zip([3, 4, 5]) {
            let prompt = [text(begin..begin + 20), image.clone(), text([7])];
            let (found, outcome) = engine.answer(USER, &prompt).await;
            assert_eq!(outcome.error, None);
            assert_same(model.text, &found, &alone.answer(&prompt));
            let counts = engine.counts();
            assert_eq!((counts.encoded, counts.cache_bytes), (round, 0));
        }
    }
}

/// A small cache of pages evicts conversations with images. Sessions are rewound and branched.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn conversations_with_images_are_evicted_branched_and_rewound() {
    for model in BOTH {
        let mut alone = Alone::load(model);
        let mut settings = model.settings();
        (settings.runner.context, settings.runner.kv_memory) = (384, KvMemory::Conversations(1));
        let mut engine = Engine::start(settings).await;
        let session = engine.handle.open_session(client(USER), Vec::new());
        let session = session.expect("there is room");
        let image = engine.image(USER, 5, (300, 390));
        let other = engine.image(USER, 6, (300, 390));
        let first = vec![text(3..40), image.clone(), text([7])];
        let mut second = first.clone();
        second.extend([text(60..75), other.clone(), text([8])]);
        let crowd = [text(10..150), other, text([9])];
        for round in 0..2 {
            for parts in [&first, &second] {
                let ticket = engine.ask_in(Some(session), client(USER), parts, options());
                let (found, outcome) = hear(ticket).await;
                assert_eq!(outcome.error, None);
                assert_same(&format!("{round}"), &found, &alone.answer(parts));
            }
            let (found, _) = engine.answer(2 - round, &crowd).await;
            assert_same("the crowd", &found, &alone.answer(&crowd));
        }
        let ticket = engine.ask_in(Some(session), client(USER), &first, options());
        let (found, _) = hear(ticket).await;
        assert_same("rewound", &found, &alone.answer(&first));
        assert_eq!(engine.counts().encoded, 2);
    }
}

/// The tower leaves an image between two parts, which are all slices here. Two images do not displace each other for ever.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_request_ends_while_its_image_is_encoded() {
    let mut settings = QWEN.settings();
    settings.runner.vision.max_tokens = 64;
    let mut engine = Engine::start_with(settings, Duration::from_micros(1)).await;
    let small = engine.image(2, 2, (320, 320));
    let mut alone = Alone::load(QWEN);
    let mut seed = 10;
    let mut shown = |engine: &mut Engine| {
        seed += 1;
        [
            text([3, 4]),
            engine.image(USER, seed, (2000, 2000)),
            text([5]),
        ]
    };
    let begun = Instant::now();
    alone.answer(&shown(&mut engine));
    let mut deadline = begun.elapsed() / 8;
    // On a busy machine the first deadline may pass after the image.
    let (prompt, encoded) = loop {
        let (prompt, encoded) = (shown(&mut engine), engine.counts().encoded);
        let late = Options {
            deadline: Some(deadline),
            ..options()
        };
        let (tokens, outcome) = hear(engine.ask(client(USER), &prompt, late)).await;
        if engine.counts().encoded == encoded {
            let ended = (tokens, outcome.reason);
            assert_eq!(ended, (Vec::new(), FinishReason::Deadline));
            break (prompt, encoded);
        }
        deadline /= 2;
        assert!(!deadline.is_zero(), "no deadline ends an image");
    };
    // Another request is answered next to it.
    let ticket = engine.ask(client(USER), &prompt, options());
    let (_, outcome) = engine.answer(2, &[text([3]), small, text([4])]).await;
    assert_eq!(outcome.error, None);
    let (found, _) = hear(ticket).await;
    assert_same(
        "after the deadline of another",
        &found,
        &alone.answer(&prompt),
    );
    assert_eq!(engine.counts().encoded, encoded + 2);
    let (found, _) = engine.answer(USER, &prompt).await;
    assert_same("once more", &found, &alone.answer(&prompt));
}
