//! An engine without a model, for tests: it takes requests from the same queue, and follows a script.
//!
//! It answers with the words of the question, a word for each token, so that a test recognizes its answer. The script also
//! has delays and faults.

mod answer;
mod freeze;
mod script;

use std::collections::HashMap;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

pub use script::{Script, ScriptError};

use crate::engine::caller::error::EngineError;
use crate::engine::caller::request::{Refusal, RequestError};
use crate::engine::caller::status::ModelInfo;
use crate::engine::intake::control::{Command, Control};
use crate::engine::intake::receiver::Receiver;
use crate::engine::intake::request::Request;
use crate::engine::observe::live::News;
use crate::engine::observe::progress::Phase;
use crate::engine::prompt::codec::Codec;
use crate::engine::prompt::encoder::Encoder;
use crate::engine::session::answer::Answer;
use crate::engine::session::sessions::SessionId;
use crate::telemetry::{FinishReason, Usage};
use answer::Scripted;
use parking_lot::{Mutex, MutexGuard};

/// How often a delay checks whether its request has been cancelled.
const NAP: Duration = Duration::from_millis(5);
/// The driver's name for a lost device.
const LOST: &str = "CUDA_ERROR_LAUNCH_FAILED";

/// Answers the requests of `receiver` until its queue is closed and empty. Call it on a thread of its own.
pub fn run(receiver: &Receiver, script: &Script) {
    receiver.shared.publish(|status| {
        "sim".clone_into(&mut status.backend);
        "a script".clone_into(&mut status.device);
        status.model = ModelInfo {
            name: "scripted".to_owned(),
            architecture: "sim".to_owned(),
            context: u32::try_from(script.context).unwrap_or(u32::MAX),
            images: script.images,
            ..ModelInfo::default()
        };
    });
    load(receiver, script);
    let loaded = match &script.load_error {
        Some(error) => {
            receiver.fail(error);
            Err(error)
        }
        None => Ok(receiver.ready(Codec::Words, script.context)),
    };
    let served = Served {
        receiver,
        script,
        loaded,
        released: Mutex::default(),
        kept: Mutex::default(),
    };
    // All threads end when the queue is closed. A script that loses its device has one row.
    thread::scope(|scope| {
        for _ in 1..script.rows {
            scope.spawn(|| served.serve());
        }
        served.serve();
    });
}

/// What the threads of all rows share.
struct Served<'a> {
    receiver: &'a Receiver,
    script: &'a Script,
    loaded: Result<Arc<Encoder>, &'a String>,
    /// Whether an operator has released the weights that a model would have.
    released: Mutex<bool>,
    /// The tokens of each session, as a KV cache would hold them.
    kept: Mutex<Kept>,
}

type Kept = HashMap<SessionId, Vec<u32>>;

impl Served<'_> {
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock()
    }

    /// Answers one request after another.
    fn serve(&self) {
        while let Some(command) = self.receiver.next() {
            match (command, &self.loaded) {
                (Command::Control(Control::Release(reply)), _) => {
                    *self.released.lock() = true;
                    self.receiver.idle("the script plays an unloaded model");
                    // The caller may have gone.
                    drop(reply.send(Ok(())));
                }
                (Command::Control(control), _) => obey(control, &mut self.kept()),
                (Command::Request(request), Ok(encoder)) => {
                    self.load_if_released();
                    if self.answer(*request, encoder) == Then::End {
                        return;
                    }
                }
                // It was queued while the waiting requests failed.
                (Command::Request(request), Err(error)) => request.fail(
                    RequestError::Refused(Refusal::NotReady((*error).clone())),
                    Usage::default(),
                ),
            }
        }
    }
}

impl Served<'_> {
    /// Plays another load for the first request after a release. The threads of other rows wait for it.
    fn load_if_released(&self) {
        let mut released = self.released.lock();
        if std::mem::take(&mut *released) {
            self.receiver.loads_again();
            load(self.receiver, self.script);
            self.receiver.ready_again();
        }
    }
}

/// Takes as long as the script says, with the progress of a load.
fn load(receiver: &Receiver, script: &Script) {
    receiver.shared.progress.enter(Phase::Weights);
    if let Some(text) = &script.library {
        tracing::warn!(target: "library", "{text}");
        tracing::error!(target: "library", "{text}");
    }
    let begun = Instant::now();
    while let Some(left) = script.load.checked_sub(begun.elapsed()) {
        if script.freeze_load.is_some_and(|at| begun.elapsed() >= at) {
            freeze::this_thread();
        }
        receiver.shared.progress.advance();
        receiver.shared.progress.load_step();
        std::thread::sleep(left.min(NAP));
    }
}

/// Obeys a command that is not a request.
fn obey(control: Control, kept: &mut Kept) {
    let none = || "the scripted engine records no decode graph".to_owned();
    match control {
        Control::Forget { session, .. } => drop(kept.remove(&session)),
        Control::Rewind { session, keep } => {
            if let Some(tokens) = kept.get_mut(&session) {
                tokens.truncate(keep);
            }
        }
        Control::Branch { from, to } => {
            if let Some(tokens) = kept.get(&from).cloned() {
                kept.insert(to, tokens);
            }
        }
        Control::SetMode(_, reply) => drop(reply.send(Err(none()))),
        Control::ResetGraph(reply) => drop(reply.send(Err(Refusal::NotSupported(none()).into()))),
        Control::DumpGraph(reply) => drop(reply.send(Err(Refusal::NotSupported(none()).into()))),
        // A script has no pages and no model. A reply channel that is dropped is an error for its caller.
        Control::Pages
        | Control::Pressure
        | Control::Release(_)
        | Control::Replace(_)
        | Control::Erase(_)
        | Control::Continue(_) => {}
    }
}

impl Served<'_> {
    /// Answers one request.
    fn answer(&self, mut request: Request, encoder: &Encoder) -> Then {
        let script = self.script;
        if let Some(reason) = request.ends() {
            request.finish(reason, Usage::default(), None);
            return Then::Continue;
        }
        let prompt = match request.tokens(encoder) {
            Ok(prompt) => prompt,
            Err(refusal) => {
                request.fail(RequestError::Refused(refusal), Usage::default());
                return Then::Continue;
            }
        };
        let before = request
            .session
            .and_then(|session| self.kept().remove(&session))
            .unwrap_or_default();
        let cached = before.iter().zip(&prompt).take_while(|(a, b)| a == b);
        let mut usage = Usage {
            prompt_tokens: count(prompt.len()),
            cached_tokens: count(cached.count()),
            queue_us: micros(request.accepted.elapsed()),
            ..Usage::default()
        };
        request
            .reading
            .set(usage.cached_tokens as usize, prompt.len());
        let room = script.context.saturating_sub(prompt.len());
        let scripted = Scripted::new(script.tokens, room, &request.messages, &request.options);
        match speak(&request, script, &scripted, &mut usage) {
            Err(Interrupted::Ended(reason)) => {
                let answer = scripted.answer(usage.completion_tokens as usize);
                let answer = (!answer.message.content.is_empty()).then_some(answer);
                keep(&mut self.kept(), &request, &prompt, answer.as_ref());
                request.finish(reason, usage, answer);
            }
            Err(Interrupted::Failed(text)) => {
                let error = EngineError::Scripted {
                    text,
                    driver_error: None,
                };
                request.fail(error.into(), usage);
            }
            Err(Interrupted::Lost) => {
                let error = EngineError::Scripted {
                    text: format!("the device is lost: {LOST} (scripted)"),
                    driver_error: Some(LOST),
                };
                request.fail(error.into(), usage);
                return Then::End;
            }
            Ok(()) => {
                let answer = scripted.answer(scripted.pieces.len());
                keep(&mut self.kept(), &request, &prompt, Some(&answer));
                request.stop.clone_from(&scripted.stop);
                request.finish(scripted.reason, usage, Some(answer));
            }
        }
        Then::Continue
    }
}

/// Keeps the tokens that a cache would hold of the session after this request.
fn keep(kept: &mut Kept, request: &Request, prompt: &[u32], answer: Option<&Answer>) {
    let said = answer.and_then(|answer| answer.tokens.as_ref());
    if let (Some(session), Some(said)) = (request.session, said) {
        kept.insert(session, [prompt, said].concat());
    }
}

/// What a thread does after a request.
#[derive(PartialEq, Eq)]
enum Then {
    Continue,
    End,
}

enum Interrupted {
    /// It was cancelled, or its deadline has passed.
    Ended(FinishReason),
    Failed(String),
    Lost,
}

/// Emits the scripted pieces at the script's pace.
fn speak(
    request: &Request,
    script: &Script,
    scripted: &Scripted,
    usage: &mut Usage,
) -> Result<(), Interrupted> {
    request.shared.progress.enter(Phase::Answer);
    let started = Instant::now();
    let mut last = None;
    for piece in &scripted.pieces {
        let delay = match usage.completion_tokens {
            0 => script.first_token,
            _ => script.per_token,
        };
        pause(request, delay)?;
        if script.fail_after == Some(usage.completion_tokens) {
            return Err(Interrupted::Failed(format!(
                "logits are not finite after {} tokens (scripted)",
                usage.completion_tokens
            )));
        }
        if script.lost_after == Some(usage.completion_tokens) {
            return Err(Interrupted::Lost);
        }
        if script.freeze_after == Some(usage.completion_tokens) {
            freeze::this_thread();
        }
        if script.freeze_reactor_after == Some(usage.completion_tokens) {
            freeze::reactor();
        }
        assert!(
            script.panic_after != Some(usage.completion_tokens),
            "a panic of the script's"
        );
        if usage.completion_tokens == 0 {
            let of = usage.prompt_tokens as usize;
            request.reading.set(of, of);
            usage.first_token_us = micros(started.elapsed());
            let rows = usage.prompt_tokens.saturating_sub(usage.cached_tokens);
            let totals = &request.shared.totals;
            totals.prefill.record(rows as usize, started.elapsed());
        }
        usage.completion_tokens += 1;
        count_token(request, last.replace(Instant::now()));
        request.shared.live.publish(News::Tokens(1));
        request.shared.progress.advance();
        if !piece.is_empty() {
            request.emit(piece.clone());
        }
    }
    let decoding =
        started.elapsed().as_secs_f64() - Duration::from_micros(usage.first_token_us).as_secs_f64();
    if usage.completion_tokens > 1 && decoding > 0.0 {
        usage.tokens_per_second = f64::from(usage.completion_tokens - 1) / decoding;
    }
    Ok(())
}

/// Counts a token of an answer; `last` is when the token before it was chosen.
fn count_token(request: &Request, last: Option<Instant>) {
    let since = last.map(|last| last.elapsed());
    request.shared.totals.token(since);
    if let Some(since) = since {
        request.shared.totals.decode.record(1, since);
    }
}

fn pause(request: &Request, delay: Duration) -> Result<(), Interrupted> {
    let until = Instant::now() + delay;
    loop {
        if let Some(reason) = request.ends() {
            return Err(Interrupted::Ended(reason));
        }
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(());
        }
        std::thread::sleep(left.min(NAP));
    }
}

fn count(tokens: usize) -> u32 {
    u32::try_from(tokens).unwrap_or(u32::MAX)
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
