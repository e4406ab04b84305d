//! Simulated users who ask the engine during a measurement, and the time of each token that they receive.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use ganglion::engine::{Client, Event, Handle, Message, Options, Outcome, Priority, Role};
use ganglion::sampler::Parameters;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// The outcome of a question.
pub(crate) struct AnswerPart {
    pub(crate) text: String,
    pub(crate) outcome: Outcome,
    /// From the question to its first token, or to its end if it had no token.
    pub(crate) first: Duration,
}

/// The gap between two tokens of an answer: the time of the later one and the distance to the earlier.
#[derive(Clone, Copy)]
pub(crate) struct Gap {
    pub(crate) ended: Instant,
    pub(crate) length: Duration,
}

/// Asks for a story about a topic of the user's own. Every other user samples.
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

/// Returns a user's options. With `token_events` the engine reports each token, including those without a whole
/// character.
pub(crate) fn options(
    user: u32,
    max_tokens: usize,
    priority: Priority,
    token_events: bool,
) -> Options {
    let sampling = Parameters {
        temperature: if user % 2 == 1 { 0.8 } else { 0.0 },
        repetition_penalty: 1.1,
        seed: user.into(),
        logprobs: token_events.then_some(0),
        ..Parameters::default()
    };
    Options {
        priority,
        ..Options::new(max_tokens, sampling)
    }
}

/// Follows an answer to its end, and calls `token` for each reported token.
pub(crate) async fn hear(
    engine: &Handle,
    user: u32,
    messages: Vec<Message>,
    options: Options,
    mut token: impl FnMut(Instant),
) -> AnswerPart {
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
                return AnswerPart {
                    text,
                    outcome,
                    first,
                };
            }
        }
    }
}

/// Long answers that start again when they end, until this is dropped.
pub(crate) struct Answers {
    answering: Vec<JoinHandle<()>>,
    gaps: Arc<Mutex<Vec<Gap>>>,
}

impl Answers {
    /// Returns after each answer's first token.
    pub(crate) async fn begin(
        engine: &Handle,
        many: u32,
        tokens: usize,
        priority: Priority,
    ) -> Self {
        let gaps = Arc::<Mutex<Vec<Gap>>>::default();
        let (sender, mut receiver) = mpsc::unbounded_channel();
        let answer = |user| {
            let (engine, gaps, sender) = (engine.clone(), gaps.clone(), sender.clone());
            tokio::spawn(async move {
                loop {
                    let mut last = None;
                    let token = |now| match last.replace(now) {
                        None => drop(sender.send(user)),
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
            let user = receiver.recv().await.expect("they answer");
            heard[user as usize] = true;
        }
        answers
    }

    /// Counts the answers that ended between two times, at least in part.
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

/// Requests one token after a long prompt of a new user each time, until it is aborted.
pub(crate) fn prompts(engine: &Handle, long: String) -> JoinHandle<()> {
    let engine = engine.clone();
    tokio::spawn(async move {
        for user in 2000.. {
            let options = options(user, 1, Priority::Normal, true);
            hear(&engine, user, asked(&long), options, |_| {}).await;
        }
    })
}

/// Words that the unknown vocabulary of a model has.
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

    /// Returns a text of about that many tokens.
    pub(crate) fn about(&self, tokens: usize) -> String {
        PHRASE.repeat(tokens / self.each)
    }
}

/// Wastes the engine's time until it is aborted: opens a session, fills it, and then leaves during the answer or never
/// reads it.
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
