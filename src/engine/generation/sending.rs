//! What a generation sends to its caller: text, thoughts, calls, probabilities, and the end.
//!
//! It does not decide when the answer ends.

use super::speech::Said;
use super::state::Generation;
use super::stop::StopStrings;
use crate::engine::caller::request::{Likelihood, RequestError};
use crate::engine::session::answer::Answer;
use crate::sampler::Scored;
use crate::telemetry::{FinishReason, Usage};

impl Generation {
    /// Sends the probability of a token to the caller. `scored` has the token first, then the most probable ones.
    pub(super) fn send_likelihood(&self, scored: &[Scored]) {
        let codec = self.encoder.codec();
        let likelihood = |scored: &Scored| Likelihood {
            token: scored.token,
            text: codec.text_of(scored.token),
            logprob: scored.logprob,
            best: Vec::new(),
        };
        if let Some((chosen, best)) = scored.split_first() {
            self.request.send_likelihood(Likelihood {
                best: best.iter().map(likelihood).collect(),
                ..likelihood(chosen)
            });
        }
    }

    /// Sends parts of the answer to the caller. Returns whether a stop string was reached.
    pub(super) fn send(&mut self, said: Vec<Said>) -> bool {
        for said in said {
            match said {
                Said::Reasoning(text) => self.request.think(text),
                Said::Call(piece) => {
                    // Text that was held back comes before the call.
                    let held = std::mem::replace(&mut self.stops, StopStrings::new(&[])).finish();
                    self.emit(held);
                    self.request.call(piece);
                }
                Said::Text(text) => {
                    if self.send_text(&text) {
                        return true;
                    }
                }
            }
        }
        false
    }

    /// Sends text up to a stop string. Returns whether one was reached.
    fn send_text(&mut self, text: &str) -> bool {
        let (text, stopped) = self.stops.push(text);
        if stopped {
            self.cut = true;
            self.request.stop = self.stops.reached().map(str::to_owned);
        }
        self.emit(text);
        stopped
    }

    fn emit(&mut self, text: String) {
        if !text.is_empty() {
            self.text += &text;
            self.request.emit(text);
        }
    }

    /// Sends the text that was held back, and ends the request. `at_once` is the number of generations that were active.
    pub(crate) fn finish(mut self, reason: FinishReason, at_once: usize) {
        self.request
            .shared
            .request_times
            .took(self.began.elapsed(), at_once);
        if !self.cut {
            let rest = self.speech.finish();
            self.send(rest);
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

    /// Ends the request with an error.
    pub(crate) fn fail(self, error: RequestError) {
        let usage = self.usage();
        self.request.fail(error, usage);
    }

    /// Returns the usage so far.
    fn usage(&self) -> Usage {
        let mut usage = self.usage;
        self.token_times.write_speed(&mut usage);
        // The power between two samples is a guess, which a later sample can lower.
        usage.joules = usage.joules.map(|joules| joules.max(0.0));
        usage
    }
}
