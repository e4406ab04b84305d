//! One answer in its grammar's process: sends the tokens, and receives the masks.
//!
//! A thread of the answer receives the reports. Only methods whose names say so wait for the process.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, MutexGuard};

use super::frame::{ANSWER, FromProcess, Guessed, Report, ToProcess};
use super::guesses::Guesses;
use super::guide_error::GuideError;
use super::keeper::{Lost, Process};
use super::limits::{ANSWERING, Limits};
use crate::confined::Bound;
use crate::sampler::Mask;
use crate::sampler::Promise;
use crate::sampler::Promised;

/// Notifies the thread that makes answers.
pub type Wake = Arc<dyn Fn() + Send + Sync>;

/// The state after the reported tokens.
#[derive(Debug, Default)]
enum After {
    /// The process has not reported it yet.
    #[default]
    Unknown,
    /// A mask has arrived.
    Mask,
    /// Nothing follows.
    Over,
    Failed(GuideError),
}

#[derive(Default)]
struct Known {
    /// The number of the last question, which identifies late replies to earlier ones.
    question: u32,
    /// Tokens that must come, in order.
    forced: VecDeque<u32>,
    /// The tokens that the process has reported to come since the question.
    reported: usize,
    after: After,
    /// The mask after `forced`, or the first mask that implies it.
    promise: Promise,
    promised: Option<Promised>,
    guesses: Guesses,
    /// The time of the question that has no reply yet.
    asked: Option<Instant>,
    /// The processor time of the last mask.
    took: Duration,
    /// A token that may come first although the grammar does not allow it, because it begins thoughts.
    thought_begin: Option<u32>,
    /// Whether the answer needs no further masks.
    ended: bool,
    wake: Option<Wake>,
}

/// The tokens that may follow, as far as they are known.
pub(super) enum Follows {
    Forced(Vec<u32>),
    Nothing,
    /// One of the tokens of this mask. If it is not known yet whether a token is to be chosen, the mask may later allow
    /// only the token that must come. There is no mask if the answer turns out to be complete.
    Choice(Promise),
}

/// Returns a process to the shelf, with the number of its own bytes.
pub(super) type Back = Box<dyn FnOnce(Arc<Process>, usize) + Send>;

/// An answer's process. Dropping it ends the answer.
pub(super) struct Matching(Arc<Shared>);

struct Shared {
    process: Arc<Process>,
    limits: Limits,
    vocabulary: usize,
    known: Mutex<Known>,
    changed: Condvar,
}

impl Matching {
    /// Begins an answer in a process. `thought_begin` may come first in addition to the tokens of the grammar.
    pub(super) fn begin(
        process: Arc<Process>,
        limits: Limits,
        thought_begin: Option<u32>,
        back: Back,
    ) -> std::io::Result<Self> {
        let vocabulary = process.words().count() as usize;
        let shared = Arc::new(Shared {
            process,
            limits,
            vocabulary,
            known: Mutex::default(),
            changed: Condvar::new(),
        });
        let forced = thought_begin.is_none();
        shared.ask(&mut shared.lock(), |question| ToProcess::Begin {
            question,
            forced,
        });
        shared.lock().thought_begin = thought_begin;
        let answer = shared.clone();
        let thread = thread::Builder::new().name("guide".into());
        thread.spawn(move || {
            if let Some(bytes) = answer.receive() {
                back(answer.process.clone(), bytes);
            }
        })?;
        Ok(Self(shared))
    }

    /// Returns JSON pointers to keywords of the caller's schemas that are not enforced.
    pub(super) fn unchecked(&self) -> &[String] {
        self.0.process.unchecked()
    }

    /// Sets the function to call when an awaited report arrives.
    pub(super) fn wake(&self, wake: Wake) {
        self.0.lock().wake = Some(wake);
    }

    /// Begins the answer after thoughts.
    pub(super) fn answers(&self) {
        let mut known = self.0.lock();
        if known.thought_begin.is_some() {
            let forced = true;
            let begin = |question| ToProcess::Begin { question, forced };
            self.0.ask(&mut known, begin);
        }
    }

    /// Adds the next tokens of the answer.
    pub(super) fn take(&self, tokens: &[u32]) {
        let mut known = self.0.lock();
        // The process has these tokens already.
        let forced = known.follows_forced(tokens);
        known.forced.drain(..forced);
        let tokens = tokens[forced..].to_vec();
        if !tokens.is_empty() {
            let take = |question| ToProcess::Take { question, tokens };
            self.0.ask(&mut known, take);
        }
    }

    /// Returns how many of these tokens may come next, one after the other, as far as that is known.
    pub(super) fn plausible(&self, tokens: &[u32]) -> usize {
        let known = self.0.lock();
        let forced = known.follows_forced(tokens);
        let goes_on = forced == known.forced.len() && known.goes_on();
        match (tokens.get(forced), known.promise.now()) {
            (None, _) => tokens.len(),
            (Some(next), Some(Some(mask))) if goes_on && !mask.allows(*next) => forced,
            (Some(_), _) if goes_on => tokens.len(),
            (Some(_), _) => forced,
        }
    }

    /// Requests the masks after guesses of the next tokens, in order. There is none after a guess that is known not to be
    /// allowed, or known to complete the answer. A promise breaks if the process finds that.
    pub(super) fn guess(&self, tokens: &[u32]) -> Vec<Promise> {
        let mut known = self.0.lock();
        let forced = known.follows_forced(tokens);
        let mut masks = Vec::with_capacity(tokens.len());
        for next in known.forced.iter().skip(1).take(forced) {
            masks.push(Promise::of(Mask::only(*next, self.0.vocabulary)));
        }
        if forced < known.forced.len() || !known.goes_on() {
            return masks;
        }
        if forced > 0 {
            masks.push(known.promise.clone());
        }
        let others = &tokens[forced..];
        let excludes = |mask: &Mask| others.first().is_some_and(|next| !mask.allows(*next));
        let is_wrong = known.promise.now().flatten().is_some_and(excludes);
        if !is_wrong && !others.is_empty() {
            let after = known.reported;
            // The receiving thread reports a process that has ended.
            let send = |message| drop(self.0.process.send(&message));
            masks.extend(known.guesses.request(after, others, send));
        }
        masks
    }

    /// Returns the tokens that may follow, and waits up to `patience` if they are unknown.
    pub(super) fn follows(&self, patience: Duration) -> Result<Follows, GuideError> {
        let until = Instant::now() + patience;
        let mut known = self.0.lock();
        loop {
            if !known.forced.is_empty() {
                return Ok(Follows::Forced(known.forced.iter().copied().collect()));
            }
            match &known.after {
                After::Unknown => {}
                After::Mask => return Ok(Follows::Choice(known.promise.clone())),
                After::Over => return Ok(Follows::Nothing),
                After::Failed(error) => return Err(error.clone()),
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                // The lock is still held, because the next report makes another promise.
                return Ok(Follows::Choice(known.promise.clone()));
            }
            self.0.changed.wait_for(&mut known, left);
        }
    }

    /// Returns the number of known tokens that must come.
    pub(super) fn forced(&self) -> usize {
        self.0.lock().forced.len()
    }

    /// Takes up to `most` of the tokens that must come. The last of them stays if the mask after it is late, so that no
    /// step waits for it.
    pub(super) fn force(&self, most: usize, patience: Duration) -> Vec<u32> {
        let until = Instant::now() + patience;
        let mut known = self.0.lock();
        while known.forced.len() <= most && !known.forced.is_empty() && !known.is_settled() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            self.0.changed.wait_for(&mut known, left);
        }
        let all = known.forced.len();
        let may = if known.is_settled() {
            all
        } else {
            all.saturating_sub(1)
        };
        known.forced.drain(..may.min(most)).collect()
    }

    /// Whether nothing may follow.
    pub(super) fn is_over(&self) -> bool {
        let known = self.0.lock();
        known.forced.is_empty() && matches!(known.after, After::Over)
    }

    /// Whether it is not known yet which tokens may follow.
    pub(super) fn is_unknown(&self) -> bool {
        let known = self.0.lock();
        known.forced.is_empty() && matches!(known.after, After::Unknown)
    }

    pub(super) fn error(&self) -> Option<GuideError> {
        match &self.0.lock().after {
            After::Failed(error) => Some(error.clone()),
            _ => None,
        }
    }

    /// Returns the processor time of the last mask.
    pub(super) fn took(&self) -> Duration {
        self.0.lock().took
    }
}

impl Drop for Matching {
    fn drop(&mut self) {
        let mut known = self.0.lock();
        known.ended = true;
        // The wall clock limits this, too: the process must confirm the end.
        self.0.ask(&mut known, |_| ToProcess::End);
    }
}

impl Known {
    /// Whether it is known what follows the tokens that must come.
    fn is_settled(&self) -> bool {
        !matches!(self.after, After::Unknown)
    }

    /// Whether a token may follow those that must come, as far as that is known.
    fn goes_on(&self) -> bool {
        matches!(self.after, After::Unknown | After::Mask)
    }

    /// Returns how many of these tokens are those that must come.
    fn follows_forced(&self, tokens: &[u32]) -> usize {
        let pairs = self.forced.iter().zip(tokens);
        pairs.take_while(|(forced, token)| forced == token).count()
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock()
    }

    /// Sends a message after which the process reports the tokens that may follow.
    fn ask(&self, known: &mut Known, message: impl FnOnce(u32) -> ToProcess) {
        known.question += 1;
        known.forced.clear();
        known.reported = 0;
        known.guesses.forget();
        let (promise, promised) = Promise::new();
        known.promise = promise;
        known.promised = Some(promised);
        known.after = After::Unknown;
        known.thought_begin = None;
        known.asked = Some(Instant::now());
        // The receiving thread reports a process that has ended.
        let _ = self.process.send(&message(known.question));
    }

    /// Records what may follow the next guess.
    fn note_guess(&self, number: u32, report: &Guessed) {
        let mut known = self.lock();
        known.guesses.note(number, || match report {
            Guessed::Forced(token) => Some(Mask::only(*token, self.vocabulary)),
            Guessed::Mask(place) => self.process.masks().read(*place, self.vocabulary).ok(),
            Guessed::End => None,
        });
    }

    /// Receives reports until the answer has ended; returns the bytes of a process that can serve another answer.
    fn receive(&self) -> Option<usize> {
        loop {
            match self.process.receive(|| self.overdue()) {
                Ok(FromProcess::Ended(bytes)) => return Some(bytes),
                Ok(FromProcess::Follows(question, report)) => {
                    let wake = self.note(question, report);
                    self.changed.notify_all();
                    if let Some(wake) = wake {
                        wake();
                    }
                }
                Ok(FromProcess::Guessed(number, report)) => self.note_guess(number, &report),
                Ok(_) => {}
                Err(lost) => {
                    let mut known = self.lock();
                    known.after = After::Failed(self.error(&lost));
                    // The masks will never arrive.
                    known.promised = None;
                    known.guesses.forget();
                    let wake = known.wake.clone();
                    drop(known);
                    self.changed.notify_all();
                    if let Some(wake) = wake {
                        wake();
                    }
                    return None;
                }
            }
        }
    }

    /// Gives up a process that takes too long on the wall clock.
    fn overdue(&self) -> Option<Lost> {
        let asked = self.lock().asked?;
        (asked.elapsed() > self.limits.mask_on_the_wall()).then_some(Lost::TooLong)
    }

    /// Records a report; returns the function to call.
    fn note(&self, question: u32, report: Report) -> Option<Wake> {
        let mut known = self.lock();
        if known.ended || known.question != question {
            return None;
        }
        match report {
            Report::Forced(tokens) => {
                if let Some(promised) = known.promised.take()
                    && let Some(first) = tokens.first()
                {
                    promised.keep(Mask::only(*first, self.vocabulary));
                }
                known.reported += tokens.len();
                known.forced.extend(tokens);
                // The mask after these tokens gets a promise of its own.
                let (promise, promised) = Promise::new();
                known.promise = promise;
                known.promised = Some(promised);
            }
            Report::Mask(micros) => {
                known.asked = None;
                known.took = Duration::from_micros(micros);
                known.after = After::Mask;
                let promised = known.promised.take()?;
                match self.process.masks().read(ANSWER, self.vocabulary) {
                    Ok(mut mask) => {
                        if let Some(token) = known.thought_begin {
                            mask.allow(token);
                        }
                        promised.keep(mask);
                    }
                    Err(error) => {
                        let why = format!("its mask cannot be read: {error}");
                        known.after = After::Failed(GuideError::Stopped(why));
                    }
                }
            }
            Report::Over => {
                known.asked = None;
                known.after = After::Over;
                // A running step chooses nothing.
                known.promised = None;
            }
            Report::Failed(error) => {
                known.asked = None;
                known.after = After::Failed(error);
                known.promised = None;
            }
        }
        known.wake.clone()
    }

    fn error(&self, lost: &Lost) -> GuideError {
        let seconds = self.limits.mask.as_secs_f64();
        GuideError::Stopped(match lost {
            Lost::Bound(Bound::Time) => {
                format!("a mask took more than {seconds} s of processor time (limits.mask_seconds)")
            }
            Lost::Bound(Bound::Memory) => {
                format!("it needs more than {} MiB of memory", ANSWERING >> 20)
            }
            lost => lost.to_string(),
        })
    }
}

impl fmt::Debug for Matching {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Matching")
            .field("process", &self.0.process)
            .finish_non_exhaustive()
    }
}
