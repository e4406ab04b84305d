//! One answer while it is generated: how far its prompt is prefilled, the tokens so far, and what they cost.
//!
//! It takes tokens and decides when the answer ends. It does not run the model, and knows no other generation.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::acceptances::{Acceptances, named};
use super::speech::Speech;
use super::stop::StopStrings;
use super::token_times::TokenTimes;
use crate::engine::caller::error::EngineError;
use crate::engine::caller::request::{Priority, RequestError};
use crate::engine::intake::request::Request;
use crate::engine::picture::picture::{Picture, PictureKey};
use crate::engine::prompt::encoder::Encoder;
use crate::engine::schedule::policy::{Candidate, Stage};
use crate::engine::schedule::prefill_time::PrefillTimes;
use crate::engine::session::sessions::SessionId;
use crate::guess::Proposer;
use crate::guide::{Guide, GuideError};
use crate::kv::{Family, Owner};
use crate::model::Decoder;
use crate::sampler::{Mask, Promise, Scored};
use crate::telemetry::{self, FinishReason, Usage};

/// A request that has joined the active ones, and its answer so far.
#[derive(Debug)]
#[allow(clippy::struct_excessive_bools)] // they are independent of each other
pub(crate) struct Generation {
    pub(super) request: Request,
    pub(super) encoder: Arc<Encoder>,
    /// The slot of the cache, while it has one.
    slot: usize,
    has_slot: bool,
    prompt: Vec<u32>,
    /// Tokens of the prompt that are in the cache.
    prefilled: usize,
    /// The rows of a preempted slice, and how long it has taken.
    slice: Option<(usize, Duration)>,
    /// Tokens that were in the cache when it lost its slot, or that the turn before it had run.
    held: usize,
    pub(super) speech: Speech,
    pub(super) stops: StopStrings,
    /// The text that was sent to the caller, without thoughts and calls.
    pub(super) text: String,
    /// Guesses its next tokens.
    pub(super) proposer: Option<Proposer>,
    /// The forced tokens that the proposer has seen before they were added to the answer.
    pub(super) forced_seen: usize,
    pub(super) acceptances: Acceptances,
    /// What made the guesses of its last step.
    pub(super) asked: telemetry::Proposer,
    /// Limits the tokens that may be chosen.
    pub(super) guide: Option<Guide>,
    /// The mask of the next token, if it was requested.
    pub(super) promise: Option<Promise>,
    /// Whether its last step found no mask.
    pub(super) waits: bool,
    /// Whether the guide has the token that was chosen last.
    pub(super) shown: bool,
    /// Why it ends, unless its guide reports that the answer is complete.
    pub(super) ending: Option<FinishReason>,
    /// The tokens so far, without the end-of-turn token.
    pub(super) tokens: Vec<u32>,
    /// How many of `tokens` steps have run.
    pub(super) ran: usize,
    /// How many of `tokens` have been chosen since it got its slot: fewer than all while it repeats its answer in a new slot.
    repeated: usize,
    /// Whether a stop string ended `text` within the text of `tokens`.
    pub(super) cut: bool,
    pub(super) usage: Usage,
    pub(super) began: Instant,
    pub(super) token_times: TokenTimes,
}

/// A token of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Token {
    /// The guide has it already.
    Forced(u32),
    /// A guess that was chosen. The guide has it already, and another chosen token follows.
    Accepted(u32),
    Chosen(u32),
}

impl Token {
    const fn token(self) -> u32 {
        match self {
            Self::Forced(token) | Self::Accepted(token) | Self::Chosen(token) => token,
        }
    }
}

/// The tokens that may be chosen next.
#[derive(Debug)]
pub(crate) enum Allowed {
    Any,
    Mask(Mask),
    /// The mask is being computed.
    Pending(Promise),
}

/// Whether a step can be launched before the token of the step before it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lookahead {
    /// The generation has one more token in any case.
    Known,
    /// The token of the step before it decides.
    Unknown,
    /// The generation ends with the step before it.
    Ends,
}

/// What follows a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum After {
    /// Another token.
    More,
    /// Another token, but the generation repeats its answer, and this is the token that was chosen the first time.
    Instead(u32),
    /// The end, for this reason unless the guide reports that the answer is complete.
    Ends(FinishReason),
    /// The end.
    End(FinishReason),
}

impl Generation {
    /// Makes a generation, of whose prompt nothing is in the cache yet.
    pub(crate) fn new(
        mut request: Request,
        prompt: Vec<u32>,
        encoder: Arc<Encoder>,
        decoder: Decoder,
    ) -> Self {
        let began = Instant::now();
        // Calls in the same answer to the same prompt get the same ids.
        let salt = request.options.sampling.seed ^ (prompt.len() as u64) << 40;
        let listener = request
            .writing
            .as_ref()
            .map(|writing| writing.listener(salt));
        // White space is trimmed next to calls, but not in an answer that must match a grammar.
        let fits = request.options.grammar.as_ref().and(request.guide.as_ref());
        let thinking = encoder.codec().thinking(&prompt);
        let speech = Speech::new(decoder, thinking, fits.map(Guide::apart), listener);
        let speech = speech.without_heading(encoder.codec().thought_heading());
        let guess = request.options.guess.clone();
        let guess = guess.as_ref().filter(|_| !request.is_prefill_ahead());
        let usage = Usage {
            queue_us: micros(began - request.accepted),
            prompt_tokens: count(prompt.len()),
            proposer: guess.map(|guess| named(&guess.source)),
            ..Usage::default()
        };
        Self {
            stops: StopStrings::new(&request.options.stop),
            proposer: guess.and_then(|guess| Proposer::new(&guess.source)),
            forced_seen: 0,
            acceptances: Acceptances::default(),
            asked: telemetry::Proposer::Lookup,
            guide: request.guide.take(),
            promise: None,
            waits: false,
            shown: false,
            ending: None,
            held: request.past().min(prompt.len().saturating_sub(1)),
            request,
            encoder,
            slot: 0,
            has_slot: false,
            prompt,
            prefilled: 0,
            slice: None,
            speech,
            text: String::new(),
            tokens: Vec::new(),
            ran: 0,
            repeated: 0,
            cut: false,
            usage,
            began,
            token_times: TokenTimes::default(),
        }
    }

    /// Gives it a slot, which holds `cached` tokens of its prompt: its first slot, or a new one after it lost one.
    pub(crate) fn start(&mut self, slot: usize, cached: usize) {
        if self.is_unanswered() {
            self.usage.cached_tokens = *self.request.cached.get_or_insert(count(cached));
        }
        self.usage.reread_tokens += count(self.held.saturating_sub(cached));
        (self.slot, self.has_slot) = (slot, true);
        self.repeated = 0;
        self.advance_to(cached);
    }

    /// Notes that its pages were restored, so that the first `held` tokens of its prompt are in the cache.
    pub(crate) fn restored_to(&mut self, held: usize) {
        let back = count(held.saturating_sub(self.prefilled));
        if self.is_unanswered() {
            self.usage.restored += back;
        }
        self.usage.reread_tokens = self.usage.reread_tokens.saturating_sub(back);
        self.advance_to(held);
    }

    /// Takes its slot, which holds `held` of its tokens.
    pub(crate) fn lose_slot(&mut self, held: usize) {
        self.ran = self.ran.max(held.saturating_sub(self.prompt.len()));
        self.held = held;
        self.slice = None;
        self.has_slot = false;
    }

    /// Whether no token was chosen yet.
    pub(crate) fn is_unanswered(&self) -> bool {
        self.token_times.is_empty()
    }

    /// Returns its request, to start again.
    pub(crate) fn into_request(self) -> Request {
        self.request
    }

    /// Continues with another model, whose context has `context` tokens, if the tokens mean the same there. Returns `None` if
    /// it has ended, and its caller has the reason. Encodes the prompt, which can take long.
    pub(crate) fn continue_with(mut self, encoder: &Arc<Encoder>, context: usize) -> Option<Self> {
        let spelled = self.encoder.codec().spelled(&self.tokens);
        let guide = self.guide.take();
        let prompt = match self.request.tokens(encoder) {
            Ok(prompt) => prompt,
            Err(refusal) => {
                self.fail(RequestError::Refused(refusal));
                return None;
            }
        };
        if let Err(refusal) = self.request.admit_pages() {
            self.fail(RequestError::Refused(refusal));
            return None;
        }
        let same = prompt == self.prompt && encoder.codec().spelled(&self.tokens) == spelled;
        if !same || encoder.codec().decoder().is_none() {
            self.fail(EngineError::Replaced.into());
            return None;
        }
        if prompt.len() + self.tokens.len() > context {
            self.finish(FinishReason::Context, 1);
            return None;
        }
        // Its own guide has the tokens so far.
        (self.guide, self.request.guide) = (guide, None);
        self.encoder = encoder.clone();
        self.prefilled = 0;
        Some(self)
    }

    pub(crate) fn request(&self) -> &Request {
        &self.request
    }

    pub(crate) fn id(&self) -> u64 {
        self.request.id
    }

    pub(crate) fn priority(&self) -> Priority {
        self.request.options.priority
    }

    pub(crate) fn slot(&self) -> usize {
        self.slot
    }

    pub(crate) fn prompt(&self) -> &[u32] {
        &self.prompt
    }

    /// Returns the ranges of its prompt that earlier answers of the session generated.
    pub(crate) fn said(&self) -> &[Range<usize>] {
        self.request
            .prompt
            .as_ref()
            .map_or(&[], |encoded| &encoded.said)
    }

    /// Returns the images that its prompt shows.
    pub(crate) fn pictures(&self) -> &[Arc<Picture>] {
        let prompt = self.request.prompt.as_ref();
        prompt.map_or(&[], |encoded| &encoded.pictures)
    }

    /// Whether rows of its prompt that are not in the cache show an image.
    pub(crate) fn needs_picture(&self, key: PictureKey) -> bool {
        let mut pictures = self.pictures().iter();
        // Without a slot it may have to prefill all of its prompt again.
        let from = if self.has_slot { self.prefilled } else { 0 };
        pictures.any(|picture| picture.key == key && picture.is_in(&self.prompt[from..]))
    }

    /// Returns the tokens of the prompt that are not in the cache, up to the first that another family of kernels computed
    /// before, and that family.
    pub(crate) fn remaining(&self) -> (Family, &[u32]) {
        let (prefilled, all) = (self.prefilled, &self.prompt);
        let next = self.said().iter().find(|range| range.end > prefilled);
        match next {
            Some(said) if said.contains(&prefilled) => (Family::Step, &all[prefilled..said.end]),
            Some(said) => (Family::Prompt, &all[prefilled..said.start]),
            None => (Family::Prompt, &all[prefilled..]),
        }
    }

    /// Whether `rows` more tokens complete the prompt.
    pub(crate) fn ends_with(&self, rows: usize) -> bool {
        self.prefilled + rows == self.prompt.len()
    }

    /// Returns the length of the prefix that its prompt shares with `others`, if some of it is not in the cache yet.
    pub(crate) fn pending_prefix(&self, others: &[u32]) -> Option<usize> {
        let equal = self.prompt.iter().zip(others);
        let common = equal.take_while(|(own, other)| own == other).count();
        (common > self.prefilled).then_some(common)
    }

    /// Returns the number of tokens of its prompt that are in the cache.
    pub(crate) fn prefilled(&self) -> usize {
        self.prefilled
    }

    /// Whether all of its prompt is in the cache.
    pub(crate) fn is_prefilled(&self) -> bool {
        self.prefilled == self.prompt.len()
    }

    /// Notes that the first `prefilled` tokens of its prompt are in the cache.
    pub(crate) fn advance_to(&mut self, prefilled: usize) {
        self.prefilled = prefilled;
        self.slice = None;
        if let Some(proposer) = &mut self.proposer {
            proposer.follow(&self.prompt[..prefilled]);
        }
        if self.is_unanswered() {
            self.request.reading.set(prefilled, self.prompt.len());
        }
    }

    /// Returns the rows of its preempted slice, if there is one, and how long it has taken.
    pub(crate) fn preempted_slice(&self) -> Option<(usize, Duration)> {
        self.slice
    }

    /// Notes that a slice was preempted, which continues later.
    pub(crate) fn preempt_slice(&mut self, rows: usize, took: Duration) {
        self.slice = Some((rows, took));
    }

    /// Returns it as the scheduler sees it. `passes` decides by user and remaining tokens whether its prefill may come before
    /// steps that are due.
    pub(crate) fn candidate(
        &self,
        prefill_times: &PrefillTimes,
        passes: impl Fn(u32, usize) -> bool,
    ) -> Candidate {
        let (user, remaining) = (self.request.client.user, self.prompt.len() - self.prefilled);
        Candidate {
            slot: self.slot,
            user,
            priority: self.priority(),
            prefill_time: prefill_times.of(&self.request.client),
            remaining,
            passes: passes(user, remaining),
            stage: if self.is_prefilled() {
                Stage::Decode
            } else {
                Stage::Prefill
            },
        }
    }

    /// Whether it can have a row in a step that is launched ahead. `steps` says that the step before it has a row of it too.
    /// Forced tokens share one step that has `spare` rows, or guesses as many of them as pay (`guesses`), and that step is not
    /// launched ahead.
    pub(crate) fn lookahead(&self, steps: bool, spare: usize, guesses: usize) -> Lookahead {
        let forced = self.guide.as_ref().map_or(0, Guide::forced);
        let runs_several = spare > 0 && !self.is_scored();
        let forced = if runs_several { forced } else { 0 };
        if forced >= 2 || self.may_guess(steps, guesses) || (steps && !self.is_current()) {
            Lookahead::Unknown
        } else if steps && self.tokens_left() <= 1 {
            Lookahead::Ends
        } else {
            Lookahead::Known
        }
    }

    /// Whether its caller wants the probability of each token, so that each has a step of its own.
    pub(super) fn is_scored(&self) -> bool {
        self.request.options.sampling.logprobs.is_some()
    }

    /// Whether its next token is a new one, not a repeated one.
    pub(super) fn is_current(&self) -> bool {
        self.repeated == self.tokens.len()
    }

    /// Returns how many more tokens it may have.
    pub(super) fn tokens_left(&self) -> usize {
        let most = self.request.options.max_tokens;
        most.saturating_sub(self.tokens.len())
    }

    /// Counts a step for its next token, and the bytes that it moves.
    pub(crate) fn count_step(&mut self, bytes: u64) {
        self.token_times.moved(bytes);
    }

    /// Adds energy that it used, if that is known.
    pub(crate) fn add_energy(&mut self, joules: Option<f64>) {
        if let Some(joules) = joules {
            *self.usage.joules.get_or_insert(0.0) += joules;
        }
    }

    /// Counts a step that chose no token, and runs again.
    pub(crate) fn count_repeat(&mut self) {
        self.usage.repeated_steps += 1;
        self.waits = true;
    }

    /// Adds a token to the answer, and returns what follows it. `full` says that the slot has no position for another.
    ///
    /// # Errors
    /// If no token can follow it, or the grammar becomes too complex.
    pub(crate) fn take(
        &mut self,
        token: Token,
        scored: &[Scored],
        full: bool,
    ) -> Result<After, GuideError> {
        let replays = !self.is_current();
        if !replays {
            self.send_likelihood(scored);
        }
        let after = self.add(token.token(), full);
        let ends = self.encoder.codec().is_end(token.token());
        let (Some(guide), Token::Chosen(token)) = (&mut self.guide, token) else {
            return Ok(after);
        };
        if replays || ends {
            return Ok(after);
        }
        if !std::mem::take(&mut self.shown) {
            guide.take(token);
        }
        guide.follows_soon()?;
        Ok(match after {
            // A complete answer is not cut off.
            After::More | After::End(FinishReason::Length | FinishReason::Context)
                if guide.is_over() =>
            {
                After::End(FinishReason::Stop)
            }
            After::End(reason @ (FinishReason::Length | FinishReason::Context))
                if guide.may_be_over() =>
            {
                self.ending = Some(reason);
                After::Ends(reason)
            }
            after => after,
        })
    }

    /// Adds a token to the answer's text.
    fn add(&mut self, token: u32, full: bool) -> After {
        if let Some(before) = self.tokens.get(self.repeated) {
            self.repeated += 1;
            return if *before == token {
                After::More
            } else {
                After::Instead(*before)
            };
        }
        let since = self.token_times.token();
        if since.is_none() {
            self.usage.first_token_us = micros(self.began.elapsed());
        }
        self.usage.completion_tokens += 1;
        // The token after a prefill ahead is in no answer.
        if !self.request.is_prefill_ahead() {
            self.request.shared.totals.token(since);
        }
        if self.encoder.codec().is_end(token) {
            return After::End(FinishReason::Stop);
        }
        self.tokens.push(token);
        self.repeated += 1;
        self.acceptances.age();
        if let Some(proposer) = &mut self.proposer {
            match self.forced_seen.checked_sub(1) {
                Some(left) => self.forced_seen = left,
                None => proposer.push(token),
            }
        }
        let said = self.speech.take(token);
        if self.send(said) {
            After::End(FinishReason::Stop)
        } else if self.tokens.len() >= self.request.options.max_tokens {
            After::End(FinishReason::Length)
        } else if full {
            After::End(FinishReason::Context)
        } else {
            After::More
        }
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

/// Returns the owner of a request's pages: its session.
pub(crate) fn owner(request: &Request) -> Option<Owner> {
    request.session.map(|SessionId(id)| Owner(id))
}

fn count(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}
