//! One of the turns that are answered at once: where its prompt and its answer stand, and what it costs.
//!
//! It is told its tokens and says when it ends; what makes them, and which entry is next, is not known here.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::speech::{Said, Speech};
use super::stop::StopStrings;
use crate::engine::caller::error::EngineError;
use crate::engine::caller::request::{Likelihood, Priority, RequestError};
use crate::engine::intake::request::Request;
use crate::engine::prompt::encoder::Encoder;
use crate::engine::schedule::policy::{Candidate, Stage};
use crate::engine::schedule::prefill_time::PrefillTimes;
use crate::engine::session::answer::Answer;
use crate::engine::session::sessions::SessionId;
use crate::guide::{Guide, GuideError, Next, Soon};
use crate::kv::{Family, Owner};
use crate::model::language::Decoder;
use crate::sampler::{Mask, Promise, Scored};
use crate::telemetry::{FinishReason, Usage};

/// A turn that has joined.
#[derive(Debug)]
pub(crate) struct Generation {
    request: Request,
    encoder: Arc<Encoder>,
    /// Its entry of the cache, while it has one.
    slot: usize,
    prompt: Vec<u32>,
    /// Tokens of the prompt that are in the cache.
    read: usize,
    /// The rows of a slice that was left, and how long it has taken.
    slice: Option<(usize, Duration)>,
    /// Tokens that were in the cache when it gave up its place to others, or that the turn before had run.
    held: usize,
    speech: Speech,
    stops: StopStrings,
    /// What was shown, without thoughts and calls.
    text: String,
    /// What bounds it.
    guide: Option<Guide>,
    /// The mask of its next choice, if one was asked for.
    promise: Option<Promise>,
    /// Whether its last step found no mask.
    waits: bool,
    /// Whether its guide has the token that was chosen last.
    shown: bool,
    /// Why it ends, once it is known that its guide does not say otherwise.
    ending: Option<FinishReason>,
    /// The end-of-turn token is not among them.
    tokens: Vec<u32>,
    /// How many of them steps have run.
    ran: usize,
    /// So many of them stand as they were chosen; fewer while an answer that had to begin again catches up.
    caught_up: usize,
    /// Whether a stop string ended `text` within the text of `tokens`.
    cut: bool,
    usage: Usage,
    began: Instant,
    /// When its first token came.
    answers: Option<Instant>,
    decoded_bytes: u64,
}

/// A token of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// Its guide knows of it already.
    Forced(u32),
    Chosen(u32),
}

impl Taken {
    const fn token(self) -> u32 {
        match self {
            Self::Forced(token) | Self::Chosen(token) => token,
        }
    }
}

/// What may be chosen next.
#[derive(Debug)]
pub(crate) enum Follows {
    Anything,
    Allowed(Mask),
    /// A mask that is being made.
    Later(Promise),
}

/// Whether a token is wanted after one that is yet to be known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GoesOn {
    AtOnce,
    /// How it goes on is said only by what is known then.
    Later,
    /// That one is its last.
    Ends,
}

/// What follows a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum After {
    /// Another token.
    More,
    /// This one was chosen before, in its place: whatever is chosen when an answer begins again, it stands.
    Instead(u32),
    /// Its end, unless its guide says that it is complete, which is not known yet.
    Ends(FinishReason),
    End(FinishReason),
}

impl Generation {
    /// Nothing of its prompt is in the cache yet.
    pub(crate) fn new(
        mut request: Request,
        prompt: Vec<u32>,
        encoder: Arc<Encoder>,
        decoder: Decoder,
    ) -> Self {
        let began = Instant::now();
        // The same answer to the same prompt has the same ids.
        let salt = request.options.sampling.seed ^ (prompt.len() as u64) << 40;
        let listener = request
            .writing
            .as_ref()
            .map(|writing| writing.listener(salt));
        // Text beside calls may begin with any space; what fits a grammar begins as that says.
        let fits = request.options.grammar.as_ref().and(request.guide.as_ref());
        let thinking = encoder.codec().thinking(&prompt);
        let speech = Speech::new(decoder, thinking, fits.map(Guide::apart), listener);
        let usage = Usage {
            queue_us: micros(began - request.accepted),
            prompt_tokens: count(prompt.len()),
            ..Usage::default()
        };
        Self {
            stops: StopStrings::new(&request.options.stop),
            guide: request.guide.take(),
            promise: None,
            waits: false,
            shown: false,
            ending: None,
            held: request.past().min(prompt.len().saturating_sub(1)),
            request,
            encoder,
            slot: 0,
            prompt,
            read: 0,
            slice: None,
            speech,
            text: String::new(),
            tokens: Vec::new(),
            ran: 0,
            caught_up: 0,
            cut: false,
            usage,
            began,
            answers: None,
            decoded_bytes: 0,
        }
    }

    /// It has an entry of the cache, which holds so many tokens of its prompt: the first, or another after it had to give
    /// that up.
    pub(crate) fn placed(&mut self, slot: usize, cached: usize) {
        if self.answers.is_none() {
            self.usage.cached_tokens = count(cached);
        }
        self.usage.reread_tokens += count(self.held.saturating_sub(cached));
        self.slot = slot;
        self.caught_up = 0;
        self.advance(cached);
    }

    /// So many tokens of its prompt are there, as some of them came back from the disk.
    pub(crate) fn restored(&mut self, held: usize) {
        let back = count(held.saturating_sub(self.read));
        if self.answers.is_none() {
            self.usage.restored += back;
        }
        self.usage.reread_tokens = self.usage.reread_tokens.saturating_sub(back);
        self.advance(held);
    }

    /// It gives up its place, where so many tokens of it were.
    pub(crate) fn leaves(&mut self, held: usize) {
        self.ran = self.ran.max(held.saturating_sub(self.prompt.len()));
        self.held = held;
        self.slice = None;
    }

    /// Whether no token of it has come.
    pub(crate) fn has_said_nothing(&self) -> bool {
        self.answers.is_none()
    }

    /// Returns its turn, to begin again.
    pub(crate) fn into_request(self) -> Request {
        self.request
    }

    /// Continues with another model, of such a context, if its tokens are the same there: they are run again. `None` if it has
    /// ended, and its caller has the reason. Encodes its prompt, which takes long.
    pub(crate) fn go_on_with(mut self, encoder: &Arc<Encoder>, context: usize) -> Option<Self> {
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
        // Its own guide knows what was said.
        (self.guide, self.request.guide) = (guide, None);
        self.encoder = encoder.clone();
        self.read = 0;
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

    /// Which tokens of its prompt it has said before.
    pub(crate) fn said(&self) -> &[Range<usize>] {
        self.request
            .prompt
            .as_ref()
            .map_or(&[], |encoded| &encoded.said)
    }

    /// What of its prompt is to be read, and what made the first of that before: as much as one family makes.
    pub(crate) fn remaining(&self) -> (Family, &[u32]) {
        let (read, all) = (self.read, &self.prompt);
        let next = self.said().iter().find(|range| range.end > read);
        match next {
            Some(said) if said.contains(&read) => (Family::Step, &all[read..said.end]),
            Some(said) => (Family::Prompt, &all[read..said.start]),
            None => (Family::Prompt, &all[read..]),
        }
    }

    /// Whether so many more tokens are all that is unread.
    pub(crate) fn reads_last(&self, rows: usize) -> bool {
        self.read + rows == self.prompt.len()
    }

    /// How many tokens its prompt begins with that others begin with too, if some of them are yet to be read.
    pub(crate) fn reads_for(&self, others: &[u32]) -> Option<usize> {
        let equal = self.prompt.iter().zip(others);
        let common = equal.take_while(|(own, other)| own == other).count();
        (common > self.read).then_some(common)
    }

    /// Tokens of its prompt that are in the cache.
    pub(crate) fn read(&self) -> usize {
        self.read
    }

    /// Whether all of its prompt is in the cache.
    pub(crate) fn has_read(&self) -> bool {
        self.read == self.prompt.len()
    }

    /// So many tokens of its prompt are in the cache.
    pub(crate) fn advance(&mut self, read: usize) {
        self.read = read;
        self.slice = None;
        if self.answers.is_none() {
            self.request.reading.set(read, self.prompt.len());
        }
    }

    /// The rows of a slice that was left, if one was, and how long it has taken.
    pub(crate) fn slice(&self) -> Option<(usize, Duration)> {
        self.slice
    }

    /// A slice of so many rows was left after so long; it goes on where it was.
    pub(crate) fn left(&mut self, rows: usize, took: Duration) {
        self.slice = Some((rows, took));
    }

    /// As the scheduler sees it, where users have had such service; whether it `passes` steps that are due depends on what it is
    /// to read.
    pub(crate) fn candidate(
        &self,
        prefill_times: &PrefillTimes,
        passes: impl Fn(u32, usize) -> bool,
    ) -> Candidate {
        let (user, remaining) = (self.request.client.user, self.prompt.len() - self.read);
        Candidate {
            id: self.id(),
            user,
            priority: self.priority(),
            prefill_time: prefill_times.of(&self.request.client),
            remaining,
            passes: passes(user, remaining),
            stage: if self.has_read() {
                Stage::Decode
            } else {
                Stage::Prefill
            },
        }
    }

    /// Whether it has a row of a step that is launched before what is before it has ended, which may be a step that it has a row
    /// of too. Of tokens that must come, several are run in one step where that has rows to spare, before which nothing is ahead.
    pub(crate) fn goes_on(&self, steps: bool, spare: usize) -> GoesOn {
        let forced = self.guide.as_ref().map_or(0, Guide::forced);
        let runs_several = spare > 0 && !self.is_scored();
        let forced = if runs_several { forced } else { 0 };
        if forced >= 2 || (steps && !self.has_caught_up()) {
            GoesOn::Later
        } else if steps && self.may_say() <= 1 {
            GoesOn::Ends
        } else {
            GoesOn::AtOnce
        }
    }

    /// Whether each of its tokens is chosen in a step of its own, which tells how probable it was.
    fn is_scored(&self) -> bool {
        self.request.options.sampling.logprobs.is_some()
    }

    /// Whether its next token is a new one.
    fn has_caught_up(&self) -> bool {
        self.caught_up == self.tokens.len()
    }

    /// Tokens that it may still say.
    fn may_say(&self) -> usize {
        let most = self.request.options.max_tokens;
        most.saturating_sub(self.tokens.len())
    }

    /// Whether something guides it.
    pub(crate) fn is_guided(&self) -> bool {
        self.guide.is_some()
    }

    /// What may be chosen for its next token. It is asked before each token.
    ///
    /// # Errors
    /// If nothing may, and the answer is not complete.
    pub(crate) fn follows(&mut self, vocabulary: usize) -> Result<Follows, GuideError> {
        self.promise = None;
        self.waits = false;
        let replays = !self.has_caught_up();
        let Some(guide) = self.guide.as_mut().filter(|_| !replays) else {
            return Ok(Follows::Anything);
        };
        Ok(match guide.follows_soon()? {
            // A complete answer has ended.
            Soon::Known(Next::Anything | Next::Nothing) => Follows::Anything,
            Soon::Known(Next::Allowed(mask)) => Follows::Allowed(mask),
            Soon::Known(Next::Forced(tokens)) => {
                tokens.first().map_or(Follows::Anything, |first| {
                    Follows::Allowed(Mask::only(*first, vocabulary))
                })
            }
            Soon::Later(promise) => {
                self.promise = Some(promise.clone());
                Follows::Later(promise)
            }
        })
    }

    /// Whether it must wait for a mask before it gets on: a prompt cannot be repeated as a step is, and a step that found no mask is
    /// not to be repeated in vain.
    pub(crate) fn awaits_mask(&self) -> bool {
        let made = |promise: &Promise| matches!(promise.now(), Some(Some(_)));
        let pending = self.promise.as_ref().is_some_and(|promise| !made(promise));
        self.ending.is_some() || pending && (self.waits || !self.has_read())
    }

    /// Why nothing will ever be chosen for it, if that was found since it was asked what follows.
    pub(crate) fn never_goes_on(&self) -> Option<GuideError> {
        self.guide.as_ref()?.error()
    }

    /// Why it ends, if its guide has reported meanwhile that it is complete, or that it is not where it was to end otherwise.
    pub(crate) fn ends_now(&self) -> Option<FinishReason> {
        let guide = self.guide.as_ref()?;
        if self.is_whole() {
            Some(FinishReason::Stop)
        } else {
            self.ending.filter(|_| !guide.may_be_over())
        }
    }

    /// Takes at most `most` of the tokens that must come now; what is chosen comes after them. The same number of tokens
    /// must be `take`n before anything else.
    pub(crate) fn force(&mut self, most: usize) -> Vec<u32> {
        if self.is_scored() {
            return Vec::new();
        }
        // One is left to choose.
        let most = most.min(self.may_say().saturating_sub(1));
        let replays = !self.has_caught_up();
        let guide = self.guide.as_mut().filter(|_| !replays);
        guide.map_or_else(Vec::new, |guide| guide.force(most))
    }

    /// A step that moves so many bytes makes its next token.
    pub(crate) fn steps(&mut self, bytes: u64) {
        self.decoded_bytes += bytes;
    }

    /// A step made no token for it, and runs again.
    pub(crate) fn repeats(&mut self) {
        self.usage.repeated_steps += 1;
        self.waits = true;
    }

    /// Shows a token to its guide that was chosen for it, and that it takes next: its mask is computed while others take theirs.
    pub(crate) fn show_guide(&mut self, token: u32) {
        if self.has_caught_up()
            && !self.encoder.codec().is_end(token)
            && let Some(guide) = &mut self.guide
        {
            guide.take(token);
            self.shown = true;
        }
    }

    /// A token was forced, or chosen.
    ///
    /// # Errors
    /// If nothing can follow it, or the grammar becomes too complex.
    pub(crate) fn take(
        &mut self,
        token: Taken,
        scored: &[Scored],
        full: bool,
    ) -> Result<After, GuideError> {
        let replays = !self.has_caught_up();
        if !replays {
            self.tell(scored);
        }
        let after = self.say(token.token(), full);
        let ends = self.encoder.codec().is_end(token.token());
        let (Some(guide), Taken::Chosen(token)) = (&mut self.guide, token) else {
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

    /// Whether its answer is complete, so that what was chosen after its forced tokens is not said.
    pub(crate) fn is_whole(&self) -> bool {
        self.has_caught_up() && self.guide.as_ref().is_some_and(Guide::is_over)
    }

    /// Tells how probable a token was: it comes first, then the most probable ones.
    fn tell(&self, scored: &[Scored]) {
        let codec = self.encoder.codec();
        let likelihood = |scored: &Scored| Likelihood {
            token: scored.token,
            text: codec.text_of(scored.token),
            logprob: scored.logprob,
            best: Vec::new(),
        };
        if let Some((chosen, best)) = scored.split_first() {
            self.request.tell(Likelihood {
                best: best.iter().map(likelihood).collect(),
                ..likelihood(chosen)
            });
        }
    }

    /// A token has come; `full` says that no other could follow it in the cache.
    fn say(&mut self, token: u32, full: bool) -> After {
        if let Some(before) = self.tokens.get(self.caught_up) {
            self.caught_up += 1;
            return if *before == token {
                After::More
            } else {
                After::Instead(*before)
            };
        }
        if self.answers.is_none() {
            self.answers = Some(Instant::now());
            self.usage.first_token_us = micros(self.began.elapsed());
        }
        self.usage.completion_tokens += 1;
        if self.encoder.codec().is_end(token) {
            return After::End(FinishReason::Stop);
        }
        self.tokens.push(token);
        self.caught_up += 1;
        let said = self.speech.take(token);
        if self.tell_said(said) {
            After::End(FinishReason::Stop)
        } else if self.tokens.len() >= self.request.options.max_tokens {
            After::End(FinishReason::Length)
        } else if full {
            After::End(FinishReason::Context)
        } else {
            After::More
        }
    }

    /// Shows what was said; returns whether a stop string was reached.
    fn tell_said(&mut self, said: Vec<Said>) -> bool {
        for said in said {
            match said {
                Said::Reasoning(text) => self.request.think(text),
                Said::Call(piece) => {
                    // Nothing that was held back may come after it.
                    let held = std::mem::replace(&mut self.stops, StopStrings::new(&[])).finish();
                    self.emit(held);
                    self.request.call(piece);
                }
                Said::Text(text) => {
                    if self.show(&text) {
                        return true;
                    }
                }
            }
        }
        false
    }

    /// Shows text, up to a stop string; returns whether one was reached.
    fn show(&mut self, text: &str) -> bool {
        let (text, stopped) = self.stops.push(text);
        self.cut |= stopped;
        self.emit(text);
        stopped
    }

    fn emit(&mut self, text: String) {
        if !text.is_empty() {
            self.text += &text;
            self.request.emit(text);
        }
    }

    /// Shows what was held back, and tells the turn's end; so many were answered at once.
    pub(crate) fn finish(mut self, reason: FinishReason, at_once: usize) {
        self.request
            .shared
            .request_times
            .took(self.began.elapsed(), at_once);
        if !self.cut {
            let rest = self.speech.finish();
            self.tell_said(rest);
            let held = std::mem::replace(&mut self.stops, StopStrings::new(&[])).finish();
            self.emit(held);
        }
        let usage = self.usage();
        let reason = match reason {
            FinishReason::Stop if !self.speech.calls().is_empty() => FinishReason::ToolCalls,
            reason => reason,
        };
        let spelled = || self.encoder.codec().spelled(&self.tokens);
        let message = self.speech.message(self.text, spelled);
        let answered = !reason.is_partial() || message.bytes() > 0;
        let said = self.ran.min(self.tokens.len());
        let tokens = (!self.cut).then_some(self.tokens);
        let answer = answered.then_some(Answer {
            message,
            tokens,
            said,
        });
        self.request.finish(reason, usage, answer);
    }

    /// Tells that it cannot go on.
    pub(crate) fn fail(self, error: RequestError) {
        let usage = self.usage();
        self.request.fail(error, usage);
    }

    #[allow(clippy::cast_precision_loss)] // for people
    fn usage(&self) -> Usage {
        let mut usage = self.usage;
        let seconds = self
            .answers
            .map_or(0.0, |since| since.elapsed().as_secs_f64());
        let steps = usage.completion_tokens.saturating_sub(1);
        if steps > 0 && seconds > 0.0 {
            usage.tokens_per_second = f64::from(steps) / seconds;
            usage.gigabytes_per_second = self.decoded_bytes as f64 / seconds / 1e9;
        }
        usage
    }
}

/// Whose entry of the cache a turn runs in.
pub(crate) fn owner(request: &Request) -> Option<Owner> {
    request.session.map(|SessionId(id)| Owner(id))
}

fn count(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
