//! A random conversation, and its answers with other engines.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ganglion::engine::{
    Client, Event, FinishReason, Handle, Likelihood, Options, Outcome, Priority, SessionId, Ticket,
};
use ganglion::guide::Grammar;
use ganglion::runner::LogitsObserver;
use ganglion::sampler::Parameters;

use super::guesses;

/// The constraints of answers; most answers are free. Many tokens are forced, and run several in a step if there is
/// room.
pub(super) const GRAMMARS: [Option<&str>; 5] = [
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

/// The next event of a conversation.
#[derive(Clone, Debug)]
#[allow(clippy::large_enum_variant)] // there are few
pub(super) enum Step {
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
pub(super) enum Then {
    AnswerPart,
    /// Cancelled after that many pieces of text.
    Cancelled(usize),
    Abandoned,
}

/// The answer to a completed turn.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Answer {
    text: String,
    reason: FinishReason,
    tokens: [u32; 2],
    /// A hash of each token's probability and the most probable ones, if requested.
    logprobs: Vec<u64>,
}

/// Hashes of the logits of all chosen tokens of all conversations.
#[derive(Clone, Default)]
pub(super) struct Logits(Arc<Mutex<HashSet<u64>>>);

impl Logits {
    pub(super) fn observer(&self) -> LogitsObserver {
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

    pub(super) fn take(&self) -> HashSet<u64> {
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

pub(super) fn program(random: &mut fastrand::Rng) -> Vec<Step> {
    let step = |_| match random.u32(0..12) {
        0 => Step::Rewind(random.u32(1..3)),
        1 => Step::Clear,
        2 => Step::Leave,
        _ => {
            let words =
                (0..random.usize(1..12)).map(|_| ["hello", "a", "robot"][random.usize(0..3)]);
            let text = words.collect::<Vec<_>>().join(" ");
            let sampled = random.bool();
            // Half of the answers are not guessed.
            let guess = guesses::all().into_iter().nth(random.usize(0..14));
            let guess = guess.map(|(_, guess)| guess);
            Step::Say {
                text,
                options: Options {
                    grammar: GRAMMARS[random.usize(0..GRAMMARS.len())]
                        .map(|schema| Grammar::JsonSchema(schema.into())),
                    priority: Priority::ALL[random.usize(0..3)],
                    guess,
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
pub(super) struct Talk<'a> {
    engine: &'a Handle,
    user: u32,
    session: SessionId,
}

impl<'a> Talk<'a> {
    pub(super) fn begin(engine: &'a Handle, user: u32) -> Self {
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

    pub(super) fn turns(&self) -> u32 {
        let status = self.engine.session(self.session);
        status.expect("it is open").turns
    }

    pub(super) async fn say(&self, text: &str, options: &Options) -> Option<Ticket> {
        let sent = self
            .engine
            .send(self.session, text.to_owned(), options.clone());
        // At the context's end.
        sent.await.ok()
    }

    /// Follows a turn to its end, or cancels it after that many pieces of text.
    pub(super) async fn hear(
        &self,
        mut ticket: Ticket,
        pieces: usize,
    ) -> (String, Outcome, Vec<u64>) {
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
    pub(super) async fn run(
        mut self,
        program: Vec<Step>,
        turns: Arc<AtomicUsize>,
    ) -> Vec<Option<Answer>> {
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

    pub(super) fn leave(&mut self) {
        self.engine.close_session(self.session);
        *self = Self::begin(self.engine, self.user);
    }

    /// Runs it alone, and compares its answers. Returns the number of equal answers.
    pub(super) async fn hold(mut self, program: &[Step], among: Vec<Option<Answer>>) -> usize {
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
                        guess: None,
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
