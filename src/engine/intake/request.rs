//! One request, from the queue to its end.
//!
//! It ends exactly once: its session, its caller and the journal get the outcome then.

use std::sync::Arc;
use std::time::Instant;

use tokio::sync::mpsc::UnboundedSender;

use super::fair::Queued;
use super::registration::Registration;
use super::shared::Shared;
use crate::engine::caller::client::Client;
use crate::engine::caller::request::{
    Event, Likelihood, Options, Outcome, Reading, Refusal, RequestError,
};
use crate::engine::observe::report;
use crate::engine::prompt::encoder::{Bound, Encoded, Encoder, Last, Lent, Prepared};
use crate::engine::prompt::overflow::{self, Talk};
use crate::engine::session::answer::Answer;
use crate::engine::session::sessions::{Answered, SessionId};
use crate::guide::Guide;
use crate::journal;
use crate::kv::Wanted;
use crate::model::Message;
use crate::sampler::Parameters;
use crate::telemetry::{FinishReason, Receipt, Sampling, Usage, decimal};
use crate::tools::{Piece, Writing};

/// One request on its way through the engine. Its owner must `finish` or `fail` it.
#[derive(Debug)]
pub struct Request {
    pub id: u64,
    pub client: Arc<Client>,
    pub session: Option<SessionId>,
    /// The whole conversation. The last message is the new one.
    pub messages: Vec<Message>,
    /// The index of the first message of each turn of the session, and of the messages after the last turn.
    pub(crate) turns: Vec<usize>,
    /// How many of the oldest turns are dropped so that the conversation fits the context.
    pub(crate) dropped: u32,
    /// The previous turn of its session.
    pub(crate) last: Option<Last>,
    /// The tokens of the conversation, maybe of a replaced model; `None` if it was accepted before a model was loaded.
    pub prompt: Option<Encoded>,
    /// The limits of its answer, for the same model.
    pub(crate) bound: Option<Bound>,
    /// Guides its answer, once that begins.
    pub guide: Option<Guide>,
    /// JSON pointers to keywords of its schemas that the guide does not enforce.
    pub unchecked: Vec<String>,
    /// The tokens of its prompt that were in the cache when it first had a slot. It may lose that and begin again.
    pub(crate) cached: Option<u32>,
    /// How the model writes calls of its tools.
    pub writing: Option<Writing>,
    pub options: Options,
    /// The stop string that ended its answer.
    pub(crate) stop: Option<String>,
    pub accepted: Instant,
    /// When it ends with a partial answer.
    pub deadline: Option<Instant>,
    pub(crate) events: UnboundedSender<Event>,
    pub(crate) reading: Reading,
    pub(crate) registration: Registration,
    pub(crate) shared: Arc<Shared>,
}

impl Request {
    /// Whether it was cancelled, or its caller has gone. The engine checks this before each token.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.registration.is_cancelled() || self.events.is_closed()
    }

    /// Returns why it must end at once, if it must. The engine checks this before each token.
    #[must_use]
    pub fn ends(&self) -> Option<FinishReason> {
        let late = self.deadline.is_some_and(|at| Instant::now() >= at);
        if self.is_cancelled() {
            Some(FinishReason::Cancelled)
        } else {
            late.then_some(FinishReason::Deadline)
        }
    }

    /// Whether it only prefills ahead of a session's next turn, without an answer.
    pub(crate) fn is_prefill_ahead(&self) -> bool {
        self.options.max_tokens == 0
    }

    /// Whether its prompt was encoded by `encoder`.
    pub(crate) fn is_encoded(&self, encoder: &Encoder) -> bool {
        let prompt = self.prompt.as_ref();
        prompt.is_some_and(|prompt| encoder.is_own(prompt))
    }

    /// Returns the tokens of its prompt for a model. A prompt that was accepted without a model, or for another one, is encoded
    /// again, which can take long.
    pub(crate) fn tokens(&mut self, encoder: &Encoder) -> Result<Vec<u32>, Refusal> {
        let own = self.prompt.take().filter(|encoded| encoder.is_own(encoded));
        let own = if let Some(own) = own {
            own
        } else {
            let rules = self.shared.rules(self.client.user);
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

    /// Gets the guide of its answer, if it needs one. Returns false if the grammar must be compiled first.
    pub(crate) fn lend(&mut self, encoder: &Encoder) -> Result<bool, Refusal> {
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

    /// Returns how many tokens of its prompt the previous turn had run.
    pub(crate) fn past(&self) -> usize {
        self.prompt.as_ref().map_or(0, |encoded| encoded.past)
    }

    /// Returns how many positions of the cache its prompt and its answer may need, at most `context`.
    pub(crate) fn positions(&self, context: usize) -> usize {
        let prompt = self
            .prompt
            .as_ref()
            .map(|encoded| encoded.prompt.tokens.len());
        // A prompt that is not encoded yet can have any length.
        prompt.map_or(context, |prompt| {
            prompt.saturating_add(self.options.max_tokens).min(context)
        })
    }

    /// Returns its user, and the tokens that it needs in the cache.
    pub(crate) fn wanted(&self) -> (u32, Wanted<'_>) {
        let wanted = self.prompt.as_ref().map(|encoded| Wanted {
            tokens: &encoded.prompt.tokens,
            said: &encoded.said,
        });
        (self.client.user, wanted.unwrap_or_default())
    }

    /// Refuses it if it can never fit its user's share of the cache. A prompt that is not encoded yet must be checked later.
    pub(crate) fn admit_pages(&self) -> Result<(), Refusal> {
        let (all, pages) = self.shared.pages_of(|context| self.positions(context));
        if all == 0 || self.prompt.is_none() {
            return Ok(());
        }
        let limits = self.shared.limits();
        let share = limits.user_pages(all);
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

    /// Sends text to the caller. Never waits; `is_cancelled` notices a caller that has gone.
    pub fn emit(&self, text: String) {
        let _ = self.events.send(Event::Text(text));
    }

    /// Sends a part of the thoughts to the caller.
    pub fn think(&self, text: String) {
        let _ = self.events.send(Event::Reasoning(text));
    }

    /// Sends a part of a tool call to the caller.
    pub fn call(&self, piece: Piece) {
        let _ = self.events.send(Event::Call(piece));
    }

    /// Sends the probability of a token to the caller.
    pub fn send_likelihood(&self, likelihood: Likelihood) {
        let _ = self.events.send(Event::Likelihood(likelihood));
    }

    /// Ends the request. Its session gets `answer` as the newest message: as a partial one if the request was cancelled or
    /// out of time, or if a guided answer is incomplete. Without an answer the session stays as it was.
    pub fn finish(mut self, reason: FinishReason, usage: Usage, answer: Option<Answer>) {
        let mut outcome = Outcome::new(reason, usage, None);
        outcome.stop = self.stop.take();
        outcome.incomplete = reason.is_cut() && self.options.is_bound();
        outcome.unchecked.clone_from(&self.unchecked);
        if let Some(Answer { message, .. }) = &answer {
            outcome.reasoning.clone_from(&message.reasoning);
            outcome.calls.clone_from(&message.calls);
        }
        self.end(outcome, answer);
    }

    /// Ends the request with an error. Its session stays as it was.
    pub fn fail(self, error: RequestError, usage: Usage) {
        self.end(Outcome::new(FinishReason::Error, usage, Some(error)), None);
    }

    fn end(self, mut outcome: Outcome, answer: Option<Answer>) {
        let is_prefill_ahead = self.is_prefill_ahead();
        let Self {
            id,
            client,
            session,
            messages,
            dropped,
            prompt,
            options,
            accepted,
            events,
            registration,
            shared,
            ..
        } = self;
        outcome.usage.seed = options.sampling.seed;
        let images = messages.iter().flat_map(|message| &message.images);
        let lost = images.filter(|image| image.image.is_none()).count();
        outcome.usage.lost_images = u32::try_from(lost).unwrap_or(u32::MAX);
        // A request that was never answered was not sampled.
        let sampled = outcome.usage.completion_tokens > 0;
        outcome.usage.sampling = sampled.then(|| sampling(&options.sampling));
        let answer = answer.filter(|_| !is_prefill_ahead);
        let answered = answer.zip(prompt).map(|(answer, prompt)| Answered {
            messages,
            dropped,
            prompt,
            answer,
            partial: outcome.reason.is_partial() || outcome.incomplete,
            thinking: options.thinking,
            tools: options.tools.map(|tools| tools.given().to_owned()),
        });
        // Turns are only dropped together with an answer.
        outcome.usage.dropped_turns = answered.as_ref().map_or(0, |one| one.dropped);
        let kept = session.zip(answered.as_ref());
        let kept = kept.and_then(|(id, answered)| shared.sessions().entry(id, answered));
        let ended = Ended {
            id,
            client,
            session,
            accepted: (!is_prefill_ahead).then_some(accepted),
            events,
            registration,
            shared,
        };
        let Some((file, entry)) = kept else {
            return ended.publish(outcome, answered);
        };
        // An outcome is published only once it cannot be lost.
        file.append(entry, move |kept| match kept {
            Ok(()) => ended.publish(outcome, answered),
            Err(error) => {
                let error = RequestError::Refused(error.into());
                let failed = Outcome::new(FinishReason::Error, outcome.usage, Some(error));
                ended.publish(failed, None);
            }
        });
    }
}

/// Returns the sampling parameters for a receipt.
fn sampling(parameters: &Parameters) -> Sampling {
    Sampling {
        temperature: decimal(parameters.temperature),
        top_k: parameters.top_k,
        top_p: decimal(parameters.top_p),
        min_p: decimal(parameters.min_p),
        repetition_penalty: decimal(parameters.repetition_penalty),
    }
}

/// A request that has ended, but whose outcome is not published.
struct Ended {
    id: u64,
    client: Arc<Client>,
    session: Option<SessionId>,
    /// When it was accepted; `None` for a prefill ahead, which is not counted.
    accepted: Option<Instant>,
    events: UnboundedSender<Event>,
    registration: Registration,
    shared: Arc<Shared>,
}

impl Ended {
    fn publish(self, outcome: Outcome, answered: Option<Answered>) {
        let Self {
            id: request,
            client,
            session,
            accepted,
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
        if let Some(accepted) = accepted {
            shared.totals.finished(&receipt, accepted.elapsed());
        }
        let mut model = String::new();
        // The queue must not count the request any more when its caller gets `Done`.
        registration.end();
        shared.publish(|status| {
            status.receipt = Some(receipt);
            model.clone_from(&status.model.name);
        });
        let failure = outcome.error.clone();
        let dropped = outcome.usage.dropped_turns;
        let _ = events.send(Event::Done(outcome));
        let request = journal::Request {
            id: request,
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

impl Queued for Request {
    fn client(&self) -> &Client {
        &self.client
    }
}

/// Returns the text of an error for the journal, without messages that a chat template may have quoted.
fn without_quotes(error: &RequestError) -> String {
    match error {
        RequestError::Refused(Refusal::InvalidMessages(_)) => {
            "the chat template refused its messages".to_owned()
        }
        error => error.to_string(),
    }
}
