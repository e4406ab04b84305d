//! One request, from the queue to its end: what it asks, and whom it tells.

use std::sync::Arc;
use std::time::Instant;

use tokio::sync::mpsc::UnboundedSender;

use super::encoder::{Bound, Encoded, Encoder, Last, Lent, Prepared};
use super::fair::Waits;
use super::overflow::{self, Talk};
use super::registration::Registration;
use super::report;
use super::session::{Answered, SessionId};
use super::shared::Shared;
use super::{Answer, Client, Event, FinishReason, Message, Options, Outcome, Reading};
use super::{Likelihood, Refusal, RequestError, Usage};
use crate::guide::Guide;
use crate::journal;
use crate::kv::{PAGE, Wanted};
use crate::sampler::Parameters;
use crate::telemetry::{Receipt, Sampling, decimal};
use crate::tools::{Piece, Writing};

/// One request on its way through the engine. Whoever holds it must `finish` it.
#[derive(Debug)]
pub struct Turn {
    pub id: u64,
    pub client: Arc<Client>,
    pub session: Option<SessionId>,
    /// The whole conversation, its last message being the new one.
    pub messages: Vec<Message>,
    /// Where each turn of the session begins in them, and at last where what follows those does.
    pub(super) turns: Vec<usize>,
    /// The oldest ones, which it drops so that it fits the context.
    pub(super) dropped: u32,
    /// The turn before it in its session.
    pub(super) last: Option<Last>,
    /// The conversation as tokens, maybe another model's by now; `None` if it was accepted before one was loaded.
    pub prompt: Option<Encoded>,
    /// What bounds its answer, of the same model.
    pub(super) bound: Option<Bound>,
    /// What follows its answer, once that begins.
    pub guide: Option<Guide>,
    /// JSON pointers to keywords of its schemas that its answer is not held to.
    pub unchecked: Vec<String>,
    /// How the model calls the tools that it may call.
    pub writing: Option<Writing>,
    pub options: Options,
    pub accepted: Instant,
    /// When it is to end with what there is.
    pub deadline: Option<Instant>,
    pub(super) events: UnboundedSender<Event>,
    pub(super) reading: Reading,
    pub(super) registration: Registration,
    pub(super) shared: Arc<Shared>,
}

impl Turn {
    /// Whether its caller has lost interest: the engine asks before each token.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.registration.is_cancelled() || self.events.is_closed()
    }

    /// Why it is to end before its answer does, if it is: the engine asks before each token.
    #[must_use]
    pub fn ends(&self) -> Option<FinishReason> {
        let late = self.deadline.is_some_and(|at| Instant::now() >= at);
        if self.is_cancelled() {
            Some(FinishReason::Cancelled)
        } else {
            late.then_some(FinishReason::Deadline)
        }
    }

    /// Whether its prompt is tokens of the model that this encodes for.
    pub(super) fn is_encoded(&self, encoder: &Encoder) -> bool {
        let prompt = self.prompt.as_ref();
        prompt.is_some_and(|prompt| encoder.is_own(prompt))
    }

    /// Its tokens for a model. A prompt that was accepted without a model, or for another one, is encoded again, which takes long.
    pub(super) fn tokens(&mut self, encoder: &Encoder) -> Result<Vec<u32>, Refusal> {
        let own = self.prompt.take().filter(|encoded| encoder.is_own(encoded));
        let own = if let Some(own) = own {
            own
        } else {
            let rules = self.shared.rules();
            let talk = Talk {
                messages: std::mem::take(&mut self.messages),
                turns: std::mem::take(&mut self.turns),
                dropped: self.dropped,
            };
            let last = self.last.as_deref();
            let (talk, prepared) = overflow::fitted(encoder, talk, last, &self.options, &rules)?;
            (self.messages, self.turns, self.dropped) = (talk.messages, talk.turns, talk.dropped);
            let Prepared {
                prompt,
                bound,
                writing,
            } = prepared;
            (self.bound, self.guide, self.writing) = (bound, None, writing);
            prompt
        };
        self.options.sample_as(encoder.sampling());
        Ok(self.prompt.insert(own).prompt.tokens.clone())
    }

    /// Has what bounds its answer; returns whether it has all that it needs.
    pub(super) fn lend(&mut self, encoder: &Encoder) -> Result<bool, Refusal> {
        if self.guide.is_some() {
            return Ok(true);
        }
        let prompt = self.prompt.as_ref();
        let prompt = prompt.map_or(&[][..], |encoded| &encoded.prompt.tokens);
        match encoder.lend(self.client.user, self.bound.as_ref(), prompt)? {
            Lent::Free => {}
            Lent::Guide(guide) => {
                self.unchecked = guide.unchecked().to_vec();
                self.guide = Some(guide);
            }
            Lent::Absent => return Ok(false),
        }
        Ok(true)
    }

    /// How many tokens of its prompt the turn before it had run.
    pub(super) fn past(&self) -> usize {
        self.prompt.as_ref().map_or(0, |encoded| encoded.past)
    }

    /// Positions of the cache that it may need: its prompt's and its answer's, of at most so many.
    pub(super) fn positions(&self, context: usize) -> usize {
        let prompt = self
            .prompt
            .as_ref()
            .map(|encoded| encoded.prompt.tokens.len());
        // What is not encoded yet may be as long as any.
        prompt.map_or(context, |prompt| {
            prompt.saturating_add(self.options.max_tokens).min(context)
        })
    }

    /// Its user, and what of the cache its prompt is to have.
    pub(super) fn wanted(&self) -> (u32, Wanted<'_>) {
        let wanted = self.prompt.as_ref().map(|encoded| Wanted {
            tokens: &encoded.prompt.tokens,
            said: &encoded.said,
        });
        (self.client.user, wanted.unwrap_or_default())
    }

    /// The same in pages.
    pub(super) fn pages(&self, context: usize) -> usize {
        self.positions(context).div_ceil(PAGE)
    }

    /// Refuses it if it could never begin within its user's share of the cache; how long one is that is not encoded yet is asked
    /// again when it is.
    pub(super) fn admit_pages(&self) -> Result<(), Refusal> {
        let (all, context) = self.shared.cache();
        if all == 0 || self.prompt.is_none() {
            return Ok(());
        }
        let limits = self.shared.limits();
        let (pages, share) = (self.pages(context), limits.user_pages(all));
        if pages <= share {
            return Ok(());
        }
        Err(Refusal::UserPages {
            user: self.client.user,
            pages,
            share,
            percent: limits.user.kv_percent,
        })
    }

    /// Sends text to the reader; never waits, and a reader that has gone is noticed by `is_cancelled`.
    pub fn emit(&self, text: String) {
        let _ = self.events.send(Event::Text(text));
    }

    /// Sends what the model thinks.
    pub fn think(&self, text: String) {
        let _ = self.events.send(Event::Reasoning(text));
    }

    /// Sends a part of a call.
    pub fn call(&self, piece: Piece) {
        let _ = self.events.send(Event::Call(piece));
    }

    /// Tells how probable a token was.
    pub fn tell(&self, likelihood: Likelihood) {
        let _ = self.events.send(Event::Likelihood(likelihood));
    }

    /// Ends the turn. A session keeps `answer` as its newest message, as a partial one if the turn was cancelled or
    /// out of time, or what it was to fit is incomplete; without one its history is as before.
    pub fn finish(self, reason: FinishReason, usage: Usage, answer: Option<Answer>) {
        let mut outcome = Outcome::new(reason, usage, None);
        outcome.incomplete = reason.is_cut() && self.options.is_bound();
        outcome.unchecked.clone_from(&self.unchecked);
        if let Some(Answer { message, .. }) = &answer {
            outcome.reasoning.clone_from(&message.reasoning);
            outcome.calls.clone_from(&message.calls);
        }
        self.end(outcome, answer);
    }

    /// Ends the turn with an error; a session's history is as before.
    pub fn fail(self, error: RequestError, usage: Usage) {
        self.end(Outcome::new(FinishReason::Error, usage, Some(error)), None);
    }

    fn end(self, mut outcome: Outcome, answer: Option<Answer>) {
        let Self {
            id,
            client,
            session,
            messages,
            dropped,
            prompt,
            options,
            events,
            registration,
            shared,
            ..
        } = self;
        outcome.usage.seed = options.sampling.seed;
        // A request that was never answered was not sampled.
        let sampled = outcome.usage.completion_tokens > 0;
        outcome.usage.sampling = sampled.then(|| sampling(&options.sampling));
        // Who only reads ahead has nothing to say.
        let answer = answer.filter(|_| options.max_tokens > 0);
        let answered = answer.zip(prompt).map(|(answer, prompt)| Answered {
            messages,
            dropped,
            prompt,
            answer,
            partial: outcome.reason.is_partial() || outcome.incomplete,
            thinking: options.thinking,
            tools: options.tools.map(|tools| tools.given().to_owned()),
        });
        // Without an answer the session stays as it is.
        outcome.usage.dropped_turns = answered.as_ref().map_or(0, |one| one.dropped);
        let kept = session.zip(answered.as_ref());
        let kept = kept.and_then(|(id, answered)| shared.sessions().entry(id, answered));
        let ended = Ended {
            id,
            client,
            session,
            events,
            registration,
            shared,
        };
        let Some((file, entry)) = kept else {
            return ended.tell(outcome, answered);
        };
        // Nobody is told of what could be lost.
        file.append(entry, move |kept| match kept {
            Ok(()) => ended.tell(outcome, answered),
            Err(error) => {
                let error = RequestError::Refused(error.into());
                let failed = Outcome::new(FinishReason::Error, outcome.usage, Some(error));
                ended.tell(failed, None);
            }
        });
    }
}

/// What a receipt tells of parameters.
fn sampling(parameters: &Parameters) -> Sampling {
    Sampling {
        temperature: decimal(parameters.temperature),
        top_k: parameters.top_k,
        top_p: decimal(parameters.top_p),
        min_p: decimal(parameters.min_p),
        repetition_penalty: decimal(parameters.repetition_penalty),
    }
}

/// A turn that is over, of which nobody has been told.
struct Ended {
    id: u64,
    client: Arc<Client>,
    session: Option<SessionId>,
    events: UnboundedSender<Event>,
    registration: Registration,
    shared: Arc<Shared>,
}

impl Ended {
    fn tell(self, outcome: Outcome, answered: Option<Answered>) {
        let Self {
            id: turn,
            client,
            session,
            events,
            registration,
            shared,
        } = self;
        if let Some(id) = session {
            shared.sessions().end_turn(id, answered);
        }
        let receipt = Receipt {
            reason: outcome.reason,
            usage: outcome.usage,
        };
        let mut model = String::new();
        // Whoever sees `done` must find the request gone from the queue.
        registration.end();
        shared.publish(|status| {
            status.receipt = Some(receipt);
            model.clone_from(&status.model.name);
        });
        let failure = outcome.error.clone();
        let dropped = outcome.usage.dropped_turns;
        let _ = events.send(Event::Done(outcome));
        let request = journal::Request {
            id: turn,
            session: session.map(|SessionId(id)| id),
            client: client.name.as_str(),
            client_uid: client.user,
            model: &model,
        };
        if dropped > 0 {
            journal::turns_dropped(&request, dropped);
        }
        match failure {
            None => journal::request_finished(&request, &receipt),
            Some(error) => {
                if let RequestError::EngineFailed(error) = &error {
                    report::engine_error(error);
                }
                journal::request_failed(&request, &without_quotes(&error));
            }
        }
    }
}

impl Waits for Turn {
    fn client(&self) -> &Client {
        &self.client
    }
}

/// The error without what a chat template may quote of the messages: the journal never holds any of them.
fn without_quotes(error: &RequestError) -> String {
    match error {
        RequestError::Refused(Refusal::InvalidMessages(_)) => {
            "the chat template refused its messages".to_owned()
        }
        error => error.to_string(),
    }
}
