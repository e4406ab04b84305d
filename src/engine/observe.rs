//! After each step: the figures for those who look, the events for the journal.

use std::time::{Duration, Instant};

use super::Inbox;
use super::live::GraphStatus;
use super::load::LoadError;
use super::runner::{RunError, Runner};
use crate::graph::{Event, Renewal};
use crate::journal;

/// Watches steps, whoever's they are.
#[derive(Debug)]
pub(super) struct Observer<'a> {
    inbox: &'a Inbox,
    /// When the last tokens came, if nothing but a step was between.
    last: Option<Instant>,
}

impl<'a> Observer<'a> {
    pub(super) fn new(inbox: &'a Inbox) -> Self {
        Self { inbox, last: None }
    }

    /// Something else than a step runs: the time until the next tokens is not a step's.
    pub(super) fn interrupted(&mut self) {
        self.last = None;
    }

    /// Whether the next step of one conversation is to be one whose operations are timed: once a second, while somebody
    /// looks.
    pub(super) fn wants_times(&self) -> bool {
        self.inbox.times().is_due()
    }

    /// Runs such a step of the turn that runs. It takes longer than others do, and does not count among them.
    ///
    /// # Errors
    /// As `Runner::step`.
    pub(super) fn time(&mut self, runner: &mut Runner) -> Result<u32, RunError> {
        let (token, kinds) = runner.time_step()?;
        if let Some(kinds) = kinds {
            self.inbox.times().timed(kinds);
            self.last = None;
        }
        Ok(token)
    }

    /// So many tokens have come: after a prompt, or by a step.
    pub(super) fn tokens(&mut self, runner: &mut Runner, tokens: usize) {
        let now = Instant::now();
        self.inbox.progress().advance();
        let took = self.last.replace(now).map(|last| now - last);
        {
            let mut live = self.inbox.live();
            live.tokens += tokens as u64;
            live.graph.counters = runner.graph().counters();
            live.graph.prompts = runner.prompt_graphs();
            if let Some(took) = took {
                let pace = runner.pace();
                let host = took.checked_sub(pace.waited).unwrap_or(Duration::ZERO);
                live.timing.record(took, pace.idle, host);
            }
        }
        graph(self.inbox, runner);
    }
}

/// Shows the decode graph as it is.
pub(super) fn publish(inbox: &Inbox, runner: &Runner) {
    let graph = GraphStatus::of(runner);
    let state = graph.state;
    inbox.live().graph = graph;
    inbox.publish(|status| status.graph_state = state);
}

/// Tells what happened to the decode graph, if anything did.
pub(super) fn graph(inbox: &Inbox, runner: &mut Runner) {
    let events = runner.take_graph_events();
    if events.is_empty() {
        return;
    }
    for event in events {
        match event {
            Event::Changed {
                change,
                epoch,
                state,
            } => journal::kv_changed(change.name(), epoch, state.name()),
            Event::Invalidated { reason, epoch } => {
                journal::graph_invalid(&reason.to_string(), epoch);
            }
            Event::Recorded {
                reason,
                epoch,
                nodes,
                updated,
                time,
            } => {
                let how = if updated { "updated" } else { "instantiated" };
                journal::graph_recorded(&reason.to_string(), epoch, nodes, how, time.as_micros());
            }
            Event::Verified {
                reason,
                epoch,
                nodes,
            } => journal::graph_verified(&reason.to_string(), epoch, nodes),
            Event::Renewed {
                segment,
                renewal,
                nodes,
                time,
            } => {
                let how = match renewal {
                    Renewal::Updated => "updated",
                    Renewal::Instantiated => "instantiated",
                };
                journal::graph_renewed(segment, nodes, how, time.as_micros());
            }
            Event::Failed {
                error,
                epoch,
                failures,
                state,
            } => {
                let name = cuda_error(&error);
                journal::graph_failed(&error, name, epoch, state.name(), failures);
            }
            Event::Disabled { error, epoch } => {
                journal::graph_disabled(&error, cuda_error(&error), epoch);
            }
            Event::Off { epoch } => journal::graph_off(epoch),
        }
    }
    // Last: what is shown has been told.
    publish(inbox, runner);
}

/// Tells why a model cannot be loaded, where that is the memory's fault or the GPU's.
pub(super) fn load_error(error: &LoadError) {
    let text = error.to_string();
    match error {
        LoadError::Memory(refusal) => {
            journal::memory_refused(&text, refusal.need(), refusal.have(), refusal.largest());
        }
        _ => gpu_error(&text),
    }
}

/// Tells of an error if it is the GPU's.
pub(super) fn gpu_error(error: &str) {
    if let Some(name) = cuda_error(error) {
        journal::gpu_error(error, name);
    }
}

/// The name of a driver's error, which the text of every such error holds.
fn cuda_error(error: &str) -> Option<&str> {
    let rest = &error[error.find("CUDA_ERROR_")?..];
    let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
    Some(&rest[..end.unwrap_or(rest.len())])
}
