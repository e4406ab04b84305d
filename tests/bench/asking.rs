//! Who asks the engine something while it is measured, and what each hears: when every token came.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use ganglion::engine::{Client, Event, Handle, Message, Options, Outcome, Priority, Role};
use ganglion::sampler::Parameters;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// What became of a question.
pub(crate) struct Heard {
    pub(crate) text: String,
    pub(crate) outcome: Outcome,
    /// From the question to its first token; to its end, if it had none.
    pub(crate) first: Duration,
}

/// Between two tokens of one answer: when the later one came, and how long after the other.
#[derive(Clone, Copy)]
pub(crate) struct Gap {
    pub(crate) ended: Instant,
    pub(crate) length: Duration,
}

/// A story of a topic of the user's own; every other user's is sampled.
pub(crate) fn story(user: u32) -> Vec<Message> {
    let topic = [
        "a river",
        "two robots",
        "the sea",
        "a city",
        "trees",
        "a clock",
        "snow",
        "bread",
    ];
    let topic = topic[user as usize % 8];
    asked(&format!("Tell me a long story about {topic}."))
}

/// A prompt of one message.
pub(crate) fn asked(question: &str) -> Vec<Message> {
    vec![Message::new(Role::User, question.to_owned())]
}

/// How a user's answer is to be made. `told` has the engine tell of each token, also of one that is no text yet.
pub(crate) fn options(user: u32, max_tokens: usize, priority: Priority, told: bool) -> Options {
    let sampling = Parameters {
        temperature: if user % 2 == 1 { 0.8 } else { 0.0 },
        repetition_penalty: 1.1,
        seed: user.into(),
        logprobs: told.then_some(0),
        ..Parameters::default()
    };
    Options {
        priority,
        ..Options::new(max_tokens, sampling)
    }
}

/// Follows an answer to its end, and calls `token` for each that is told.
pub(crate) async fn hear(
    engine: &Handle,
    user: u32,
    messages: Vec<Message>,
    options: Options,
    mut token: impl FnMut(Instant),
) -> Heard {
    let client = Client {
        name: format!(":1.{user}").into(),
        user,
    };
    let begun = Instant::now();
    let accepted = engine.generate(client, messages, options).await;
    let mut ticket = accepted.expect("it is accepted");
    let (mut text, mut first) = (String::new(), None);
    loop {
        match ticket.events.recv().await.expect("it ends") {
            Event::Text(more) => text += &more,
            Event::Likelihood(_) => {
                let now = Instant::now();
                first.get_or_insert(now - begun);
                token(now);
            }
            Event::Reasoning(_) | Event::Call(_) => {}
            Event::Done(outcome) => {
                let first = first.unwrap_or_else(|| begun.elapsed());
                return Heard {
                    text,
                    outcome,
                    first,
                };
            }
        }
    }
}

/// Long answers that go on, and begin again when they end, until this is dropped.
pub(crate) struct Answers {
    answering: Vec<JoinHandle<()>>,
    gaps: Arc<Mutex<Vec<Gap>>>,
}

impl Answers {
    /// Returns when each of them has had its first token.
    pub(crate) async fn begin(
        engine: &Handle,
        many: u32,
        tokens: usize,
        priority: Priority,
    ) -> Self {
        let gaps = Arc::<Mutex<Vec<Gap>>>::default();
        let (tell, mut told) = mpsc::unbounded_channel();
        let answer = |user| {
            let (engine, gaps, tell) = (engine.clone(), gaps.clone(), tell.clone());
            tokio::spawn(async move {
                loop {
                    let mut last = None;
                    let token = |now| match last.replace(now) {
                        None => drop(tell.send(user)),
                        Some(before) => lock(&gaps).push(Gap {
                            ended: now,
                            length: now - before,
                        }),
                    };
                    let options = options(user, tokens, priority, true);
                    hear(&engine, user, story(user), options, token).await;
                }
            })
        };
        let answers = Self {
            answering: (0..many).map(answer).collect(),
            gaps: gaps.clone(),
        };
        let mut heard = vec![false; many as usize];
        while heard.contains(&false) {
            let user = told.recv().await.expect("they answer");
            heard[user as usize] = true;
        }
        answers
    }

    /// Those that ended between two times, at least in part.
    pub(crate) fn gaps(&self, from: Instant, to: Instant) -> Vec<Duration> {
        let gaps = lock(&self.gaps);
        let within = gaps
            .iter()
            .filter(|gap| gap.ended > from && gap.ended < to + gap.length);
        within.map(|gap| gap.length).collect()
    }
}

impl Drop for Answers {
    fn drop(&mut self) {
        self.answering.iter().for_each(JoinHandle::abort);
    }
}

fn lock(gaps: &Mutex<Vec<Gap>>) -> std::sync::MutexGuard<'_, Vec<Gap>> {
    gaps.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Asks for one token after a long prompt of another user each time, again and again until it is aborted.
pub(crate) fn prompts(engine: &Handle, long: String) -> JoinHandle<()> {
    let engine = engine.clone();
    tokio::spawn(async move {
        for user in 2000.. {
            let options = options(user, 1, Priority::Normal, true);
            hear(&engine, user, asked(&long), options, |_| {}).await;
        }
    })
}

/// Words of a model whose vocabulary nobody knows.
pub(crate) struct Words {
    /// Tokens of a phrase.
    each: usize,
}

const PHRASE: &str = "all work and no play ";

impl Words {
    pub(crate) async fn of(engine: &Handle) -> Self {
        let mut tokens = [0, 0];
        for (tokens, phrases) in tokens.iter_mut().zip([10, 20]) {
            let options = options(1, 1, Priority::Normal, false);
            let heard = hear(engine, 1, asked(&PHRASE.repeat(phrases)), options, |_| {}).await;
            *tokens = heard.outcome.usage.prompt_tokens as usize;
        }
        let each = (tokens[1] - tokens[0]).div_ceil(10).max(1);
        Self { each }
    }

    /// About so many tokens.
    pub(crate) fn about(&self, tokens: usize) -> String {
        PHRASE.repeat(tokens / self.each)
    }
}

/// Wastes the engine's time until it is aborted: opens a session, fills it, and then either leaves in the middle of the answer or
/// never reads it.
pub(crate) fn waste(engine: &Handle, leaves: bool, text: String) -> JoinHandle<()> {
    let engine = engine.clone();
    tokio::spawn(async move {
        let user = 50 + u32::from(leaves);
        for number in 0_u64.. {
            let client = Client {
                name: format!(":1.{user}").into(),
                user,
            };
            let Ok(session) = engine.open_session(client, Vec::new()) else {
                return;
            };
            let text = format!("{number} {text}");
            let options = Options::new(256, Parameters::default());
            let Ok(mut ticket) = engine.send(session, text, options).await else {
                return;
            };
            if leaves {
                let _first = ticket.events.recv().await;
            } else {
                while engine.session(session).is_some_and(|session| session.busy) {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
            }
            engine.close_session(session);
        }
    })
}
