//! The engine thread: loads the model, then takes one turn after another.

use std::time::{Duration, Instant};

use super::encoder::Encoder;
use super::load::LoadError;
use super::observe::{self, Observer};
use super::replace;
use super::runner::{RunError, Runner};
pub use super::served::Settings;
use super::served::{Loading, Served};
use super::stop::StopStrings;
use super::{
    Answer, Codec, Command, Control, FinishReason, Inbox, Phase, RequestError, SessionId, Turn,
    Usage,
};
use crate::journal;
use crate::kv::Owner;
use crate::model::language::Decoder;
use crate::tape::Ending;

/// Loads the model and serves turns until the queue is closed. Everyone who waits is told if it fails.
///
/// # Errors
/// If the model cannot be loaded, or its device is lost.
pub fn run(inbox: &Inbox, settings: &Settings) -> Result<(), LoadError> {
    let tell = |loading| {
        let detail = match loading {
            Loading::Begins(phase) => {
                inbox.progress().enter(phase);
                Some(phase.name().to_owned())
            }
            Loading::Read(percent) => percent.map(|percent| format!("loading {percent}%")),
        };
        inbox.load_step();
        if let Some(detail) = detail {
            inbox.publish(|status| status.detail = detail);
        }
    };
    let served = Served::load(settings, tell).inspect_err(|error| refuse(inbox, error))?;
    let (mut runner, mut encoder) = replace::put_in_force(inbox, served);
    while let Some(command) = inbox.next() {
        match command {
            Command::Turn(turn) => serve(inbox, &mut runner, &encoder, *turn)?,
            // Here alone: a turn that runs keeps its model to its end.
            Command::Control(Control::Replace(replacement)) => {
                if let Some(another) = replacement.take_place(inbox, &mut runner) {
                    encoder = another;
                }
            }
            Command::Control(control) => obey(inbox, &mut runner, control),
        }
    }
    Ok(())
}

/// Tells everyone why there is no model.
fn refuse(inbox: &Inbox, error: &LoadError) {
    observe::load_error(error);
    inbox.fail(&error.to_string());
}

/// Does what is asked besides turns.
fn obey(inbox: &Inbox, runner: &mut Runner, control: Control) {
    match control {
        Control::Forget(SessionId(id)) => runner.release(Owner(id)),
        Control::Rewind {
            session: SessionId(id),
            keep,
        } => runner.rewind(Owner(id), keep),
        // Whoever asked may have gone.
        Control::ResetGraph(reply) => {
            runner.reset_graph();
            let life = runner.graph();
            journal::graph_reset(life.epoch(), life.state().name());
            tell(inbox, runner);
            drop(reply.send(Ok(())));
        }
        Control::DumpGraph(reply) => {
            let dot = runner.graph_dot().map_err(|error| error.to_string());
            drop(reply.send(dot.map_err(|error| {
                observe::gpu_error(&error);
                RequestError::EngineFailed(error)
            })));
        }
        Control::SetMode(mode, reply) => {
            runner.set_graph_mode(mode);
            tell(inbox, runner);
            drop(reply.send(Ok(())));
        }
        // Never between tokens; whoever asked is told by its end.
        Control::Replace(_) => {}
    }
    observe::graph(inbox, runner);
}

/// Before whoever asked hears that it is done: the decode graph as it is, and what happened to it.
fn tell(inbox: &Inbox, runner: &mut Runner) {
    observe::publish(inbox, runner);
    observe::graph(inbox, runner);
}

/// Answers one turn. Only a device that is lost is an error: the turn has been told, and so will be those
/// who wait, by the end of the process.
fn serve(
    inbox: &Inbox,
    runner: &mut Runner,
    encoder: &Encoder,
    mut turn: Turn,
) -> Result<(), LoadError> {
    if turn.is_cancelled() {
        turn.finish(FinishReason::Cancelled, Usage::default(), None);
        return Ok(());
    }
    let tokens = match turn.tokens(encoder) {
        Ok(tokens) => tokens,
        Err(refusal) => {
            turn.fail(RequestError::Refused(refusal), Usage::default());
            return Ok(());
        }
    };
    let Some(decoder) = encoder.decoder() else {
        let error = RequestError::EngineFailed("the engine has no vocabulary".into());
        turn.fail(error, Usage::default());
        return Ok(());
    };
    let mut generation = Generation::new(inbox, &turn, encoder.codec(), decoder);
    match generation.run(runner, &tokens) {
        Ok(reason) => {
            let (usage, answer) = generation.close(reason);
            turn.finish(reason, usage, answer);
        }
        Err(error) => {
            let usage = generation.usage();
            turn.fail(RequestError::EngineFailed(error.to_string()), usage);
            if error.is_fatal() {
                return Err(error.into());
            }
        }
    }
    Ok(())
}

/// One turn being answered.
struct Generation<'a> {
    inbox: &'a Inbox,
    turn: &'a Turn,
    codec: &'a Codec,
    decoder: Decoder,
    stops: StopStrings<'a>,
    text: String,
    /// Without the end-of-turn token.
    tokens: Vec<u32>,
    /// Whether a stop string ended `text` within the text of `tokens`.
    cut: bool,
    usage: Usage,
    decoding: Duration,
    decoded_bytes: u64,
}

impl<'a> Generation<'a> {
    fn new(inbox: &'a Inbox, turn: &'a Turn, codec: &'a Codec, decoder: Decoder) -> Self {
        Self {
            inbox,
            turn,
            codec,
            decoder,
            stops: StopStrings::new(&turn.options.stop),
            text: String::new(),
            tokens: Vec::new(),
            cut: false,
            usage: Usage::default(),
            decoding: Duration::ZERO,
            decoded_bytes: 0,
        }
    }

    fn run(&mut self, runner: &mut Runner, prompt: &[u32]) -> Result<FinishReason, RunError> {
        self.inbox.progress().enter(Phase::Prompt);
        let started = Instant::now();
        self.usage.queue_us = micros(started - self.turn.accepted);
        let (user, sampling) = (self.turn.client.user, self.turn.options.sampling);
        let cached = runner.begin(self.owner(), user, prompt, sampling)?;
        self.usage.prompt_tokens = count(prompt.len());
        self.usage.cached_tokens = count(cached);
        self.turn.reading.set(cached, prompt.len());
        let client = &self.turn.client;
        journal::turn_began(
            self.turn.id,
            client.user,
            runner.slot(),
            prompt.len(),
            cached,
        );
        observe::graph(self.inbox, runner);

        let mut rest = &prompt[cached..];
        while !rest.is_empty() {
            if self.turn.is_cancelled() {
                return Ok(FinishReason::Cancelled);
            }
            let (chunk, after) = rest.split_at(rest.len().min(runner.prefill_chunk()));
            runner.prefill(
                chunk,
                if after.is_empty() {
                    Ending::Token
                } else {
                    Ending::Kv
                },
            )?;
            rest = after;
            self.inbox.progress().advance();
            let read = prompt.len() - rest.len();
            self.turn.reading.set(read, prompt.len());
            journal::prompt_read(self.turn.id, client.user, read, prompt.len());
            self.obey_urgent(runner);
        }
        self.usage.first_token_us = micros(started.elapsed());
        self.inbox.progress().enter(Phase::Answer);
        let first = Instant::now();
        let reason = self.decode(runner);
        self.decoding = first.elapsed();
        reason
    }

    /// Whose region of the cache it runs in.
    fn owner(&self) -> Option<Owner> {
        self.turn.session.map(|SessionId(id)| Owner(id))
    }

    fn decode(&mut self, runner: &mut Runner) -> Result<FinishReason, RunError> {
        let mut token = runner.token();
        let mut observer = Observer::new(self.inbox);
        observer.token(runner);
        loop {
            self.usage.completion_tokens += 1;
            if self.codec.is_end(token) {
                return Ok(FinishReason::Stop);
            }
            self.tokens.push(token);
            let text = self.decoder.push(token);
            if self.show(&text) {
                return Ok(FinishReason::Stop);
            }
            if self.tokens.len() >= self.turn.options.max_tokens {
                return Ok(FinishReason::Length);
            }
            if runner.len() >= runner.context() {
                return Ok(FinishReason::Context);
            }
            if self.turn.is_cancelled() {
                return Ok(FinishReason::Cancelled);
            }
            self.decoded_bytes += runner.step_bytes();
            let more = self.tokens.len() + 1 < self.turn.options.max_tokens;
            token = observer.step(runner, more)?;
            self.obey_urgent(runner);
        }
    }

    /// Does what cannot wait for the end of the turn.
    fn obey_urgent(&self, runner: &mut Runner) {
        while let Some(control) = self.inbox.urgent() {
            obey(self.inbox, runner, control);
        }
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
            self.turn.emit(text);
        }
    }

    /// Shows what was held back; the receipt, and what a session remembers.
    fn close(mut self, reason: FinishReason) -> (Usage, Option<Answer>) {
        if !self.cut {
            let rest = self.decoder.clone().finish();
            self.show(&rest);
            let held = std::mem::replace(&mut self.stops, StopStrings::new(&[])).finish();
            self.emit(held);
        }
        let usage = self.usage();
        let answered = reason != FinishReason::Cancelled || !self.text.is_empty();
        let tokens = (!self.cut).then_some(self.tokens);
        (
            usage,
            answered.then_some(Answer {
                text: self.text,
                tokens,
            }),
        )
    }

    #[allow(clippy::cast_precision_loss)] // for people
    fn usage(&self) -> Usage {
        let mut usage = self.usage;
        let seconds = self.decoding.as_secs_f64();
        let steps = usage.completion_tokens.saturating_sub(1);
        if steps > 0 && seconds > 0.0 {
            usage.tokens_per_second = f64::from(steps) / seconds;
            usage.gigabytes_per_second = self.decoded_bytes as f64 / seconds / 1e9;
        }
        usage
    }
}

fn count(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
