//! After each step this tells those who look the figures, and the journal the events. None of it waits for who looks.

use std::time::{Duration, Instant};

use super::live::{GraphStatus, News, Sample, Work};
use crate::engine::intake::inbox::Inbox;
use crate::graph::{Event, Renewal};
use crate::journal;
use crate::runner::{RunError, Runner};

/// Watches steps, whoever's they are.
#[derive(Debug)]
pub(crate) struct Observer<'a> {
    inbox: &'a Inbox,
    /// Whom the engine answers, as it was shown last.
    work: Work,
    /// When the last tokens came, if nothing but a step was between.
    last: Option<Instant>,
}

impl<'a> Observer<'a> {
    pub(crate) fn new(inbox: &'a Inbox) -> Self {
        Self {
            inbox,
            work: Work::default(),
            last: None,
        }
    }

    /// Something else than a step runs: the time until the next tokens is not a step's.
    pub(crate) fn interrupted(&mut self) {
        self.last = None;
    }

    /// Whether the next step of one conversation is to be one whose operations are timed: once a second, while somebody
    /// looks.
    pub(crate) fn wants_times(&self) -> bool {
        self.inbox.live().is_due()
    }

    /// Runs such a step of the turn that runs. It takes longer than others do, and does not count among them.
    pub(crate) fn time(&mut self, runner: &mut Runner) -> Result<u32, RunError> {
        let (token, kinds) = runner.time_step()?;
        if let Some(kinds) = kinds {
            self.inbox.live().tell(News::Timed(kinds));
            self.last = None;
        }
        Ok(token)
    }

    /// Whom the engine answers, as it was shown last.
    pub(crate) fn work(&self) -> Work {
        self.work
    }

    /// Shows whom the engine answers.
    pub(crate) fn show(&mut self, work: Work) {
        if work != self.work {
            self.work = work;
            self.inbox.live().tell(News::Work(work));
        }
    }

    /// So many tokens have come: after a prompt, or by a step.
    pub(crate) fn tokens(&mut self, runner: &mut Runner, tokens: usize) {
        let now = Instant::now();
        self.inbox.progress().advance();
        let took = self.last.replace(now).map(|last| now - last);
        let times = took.map(|took| {
            let times = runner.step_times();
            let host = took.checked_sub(times.waited).unwrap_or(Duration::ZERO);
            [took, times.idle, host]
        });
        self.inbox.live().tell(News::Step(Sample {
            tokens: tokens as u64,
            counters: runner.graph().counters(),
            prompts: runner.prompt_graphs(),
            times,
        }));
        graph(self.inbox, runner);
    }
}

/// Shows the decode graph as it is.
pub(crate) fn publish(inbox: &Inbox, runner: &Runner) {
    let graph = GraphStatus::of(runner);
    let state = graph.state;
    inbox.live().tell(News::Graph(Box::new(graph)));
    inbox.publish(|status| status.graph_state = state);
}

/// Tells what happened to the decode graph, if anything did.
pub(crate) fn graph(inbox: &Inbox, runner: &mut Runner) {
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
                refused,
                epoch,
                failures,
                state,
            } => {
                let name = refused.driver_error.as_deref();
                journal::graph_failed(&refused.text, name, epoch, state.name(), failures);
            }
            Event::Disabled { refused, epoch } => {
                journal::graph_disabled(&refused.text, refused.driver_error.as_deref(), epoch);
            }
            Event::Off { epoch } => journal::graph_off(epoch),
        }
    }
    // Last: what is shown has been told.
    publish(inbox, runner);
}
