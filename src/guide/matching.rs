//! One answer's way through its grammar's process: tokens go there, and what may follow comes back.
//!
//! A thread of the answer receives the reports, so no call here waits for the process unless its name says so.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::frame::{FromProcess, Report, ToProcess};
use super::keeper::{Lost, Process};
use super::{ANSWERING, GuideError, Limits};
use crate::confined::Bound;
use crate::sampler::Mask;
use crate::sampler::Promise;
use crate::sampler::Promised;

/// Notifies the thread that makes answers.
pub type Wake = Arc<dyn Fn() + Send + Sync>;

/// What follows the tokens that were reported.
#[derive(Debug, Default)]
enum After {
    /// The process has not reported it.
    #[default]
    Unknown,
    /// A mask, which is there.
    Mask,
    /// Nothing.
    Over,
    Failed(GuideError),
}

#[derive(Default)]
struct Known {
    /// The number of the last question; replies to others are late.
    question: u32,
    /// Tokens that must come, in order.
    forced: VecDeque<u32>,
    after: After,
    /// The mask that follows `forced`, or the first mask that says as much.
    promise: Promise,
    promised: Option<Promised>,
    /// When the process was asked what it has not answered yet.
    asked: Option<Instant>,
    /// The processor time of the last mask.
    took: Duration,
    /// A token that may come first although the grammar does not allow it: it begins thoughts.
    besides: Option<u32>,
    /// The answer needs no more masks.
    ended: bool,
    wake: Option<Wake>,
}

/// What may follow, as far as it is known.
pub(super) enum Follows {
    Forced(Vec<u32>),
    Nothing,
    /// One of the tokens of this mask. If it is not known yet whether a token is to be chosen, the mask may turn out to allow only
    /// the token that must come, and there is none if the answer turns out to be complete.
    Choice(Promise),
}

/// Returns a process to the place where it came from, with the bytes that it has of its own.
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
    /// Begins an answer in a process. A token `besides` those of the grammar may come first.
    pub(super) fn begin(
        process: Arc<Process>,
        limits: Limits,
        besides: Option<u32>,
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
        let forced = besides.is_none();
        shared.ask(&mut shared.lock(), |question| ToProcess::Begin {
            question,
            forced,
        });
        shared.lock().besides = besides;
        let answer = shared.clone();
        let thread = thread::Builder::new().name("guide".into());
        thread.spawn(move || {
            if let Some(bytes) = answer.receive() {
                back(answer.process.clone(), bytes);
            }
        })?;
        Ok(Self(shared))
    }

    /// JSON pointers to keywords of the caller's schemas that the answer is not held to.
    pub(super) fn unchecked(&self) -> &[String] {
        self.0.process.unchecked()
    }

    /// Has `wake` called whenever a report arrives that an answer may wait for.
    pub(super) fn wake(&self, wake: Wake) {
        self.0.lock().wake = Some(wake);
    }

    /// The answer begins only now, after thoughts.
    pub(super) fn answers(&self) {
        let mut known = self.0.lock();
        if known.besides.is_some() {
            let forced = true;
            let begin = |question| ToProcess::Begin { question, forced };
            self.0.ask(&mut known, begin);
        }
    }

    /// Adds the next token of the answer.
    pub(super) fn take(&self, token: u32) {
        let mut known = self.0.lock();
        if known.forced.front() == Some(&token) {
            // The process has taken it already.
            known.forced.pop_front();
            return;
        }
        let take = |question| ToProcess::Take { question, token };
        self.0.ask(&mut known, take);
    }

    /// Returns what may follow, and waits so long for it if it is not known.
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
                // Under the same lock: the next report makes another promise.
                return Ok(Follows::Choice(known.promise.clone()));
            }
            let waited = self.0.changed.wait_timeout(known, left);
            known = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// How many tokens must come, as far as it is known.
    pub(super) fn forced(&self) -> usize {
        self.0.lock().forced.len()
    }

    /// Takes up to `most` of the tokens that must come. The last of them stays if what follows it is not known in time: no step is
    /// to wait for a mask after it.
    pub(super) fn force(&self, most: usize, patience: Duration) -> Vec<u32> {
        let until = Instant::now() + patience;
        let mut known = self.0.lock();
        while known.forced.len() <= most && !known.forced.is_empty() && !known.is_settled() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            let waited = self.0.changed.wait_timeout(known, left);
            known = waited.unwrap_or_else(PoisonError::into_inner).0;
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

    /// Whether it is not known yet what may follow.
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

    /// The processor time of the last mask.
    pub(super) fn took(&self) -> Duration {
        self.0.lock().took
    }
}

impl Drop for Matching {
    fn drop(&mut self) {
        let mut known = self.0.lock();
        known.ended = true;
        // The wall clock bounds this, too: the process answers that the answer has ended.
        self.0.ask(&mut known, |_| ToProcess::End);
    }
}

impl Known {
    /// Whether it is known what follows the tokens that must come.
    fn is_settled(&self) -> bool {
        !matches!(self.after, After::Unknown)
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a message after which the process reports what may follow.
    fn ask(&self, known: &mut Known, message: impl FnOnce(u32) -> ToProcess) {
        known.question += 1;
        known.forced.clear();
        let (promise, promised) = Promise::new();
        known.promise = promise;
        known.promised = Some(promised);
        known.after = After::Unknown;
        known.besides = None;
        known.asked = Some(Instant::now());
        // A process that has ended is reported by the thread that receives.
        let _ = self.process.send(&message(known.question));
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
                Ok(_) => {}
                Err(lost) => {
                    let mut known = self.lock();
                    known.after = After::Failed(self.error(&lost));
                    // The mask will never come.
                    known.promised = None;
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

    /// Gives up a process that is not slowed by its own work alone.
    fn overdue(&self) -> Option<Lost> {
        let asked = self.lock().asked?;
        (asked.elapsed() > self.limits.mask_on_the_wall()).then_some(Lost::TooLong)
    }

    /// Notes a report; returns what is to be woken.
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
                known.forced.extend(tokens);
                // What follows them has a mask of its own.
                let (promise, promised) = Promise::new();
                known.promise = promise;
                known.promised = Some(promised);
            }
            Report::Mask(micros) => {
                known.asked = None;
                known.took = Duration::from_micros(micros);
                known.after = After::Mask;
                let promised = known.promised.take()?;
                match self.process.masks().read(self.vocabulary) {
                    Ok(mut mask) => {
                        if let Some(token) = known.besides {
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
                // A step that is under way chooses nothing.
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
