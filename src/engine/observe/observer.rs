//! Publishes the figures of each step, and reports the events of the decode graph to the journal. It never waits for readers.

use std::time::{Duration, Instant};

use super::live::{GraphStatus, News, Sample, Work};
use crate::engine::intake::shared::Shared;
use crate::graph::{Event, Renewal};
use crate::journal;
use crate::runner::{RetiredRunner, RunError, Runner};
use crate::telemetry::Proposals;

/// Observes the steps of the engine thread.
#[derive(Debug)]
pub(crate) struct Observer<'a> {
    shared: &'a Shared,
    /// What was published last.
    work: Work,
    /// When the last tokens were chosen, if nothing but steps ran since.
    last: Option<Instant>,
}

impl<'a> Observer<'a> {
    pub(crate) fn new(shared: &'a Shared) -> Self {
        Self {
            shared,
            work: Work::default(),
            last: None,
        }
    }

    /// Notes that something else than a step runs, so that the time until the next tokens is not that of a step.
    pub(crate) fn interrupt(&mut self) {
        self.last = None;
    }

    /// Whether the operations of the next step of one row are to be timed: once a second, while the figures are read.
    pub(crate) fn is_timing_due(&self) -> bool {
        self.shared.live.is_timing_due()
    }

    /// Runs a step of the runner's current slot, and times its operations. It is slower than others, and not counted as a step.
    pub(crate) fn time_step(&mut self, runner: &mut Runner) -> Result<u32, RunError> {
        let (token, kinds) = runner.time_step()?;
        if let Some(kinds) = kinds {
            self.shared.live.publish(News::Timed(kinds));
            self.last = None;
        }
        Ok(token)
    }

    /// Returns what was published last.
    pub(crate) fn work(&self) -> Work {
        self.work
    }

    /// Publishes how many generations the engine runs.
    pub(crate) fn publish_work(&mut self, work: Work) {
        if work != self.work {
            self.work = work;
            self.shared.live.publish(News::Work(work));
        }
    }

    /// Publishes that tokens were chosen, after a prompt or by a step with these guesses. Returns the time of the step, unless
    /// not only a step ran.
    pub(crate) fn tokens(
        &mut self,
        runner: &mut Runner,
        tokens: usize,
        guesses: Proposals,
    ) -> Option<Duration> {
        let now = Instant::now();
        self.shared.progress.advance();
        let took = self.last.replace(now).map(|last| now - last);
        let times = took.map(|took| {
            let times = runner.step_times();
            let host = took.checked_sub(times.waited).unwrap_or(Duration::ZERO);
            self.shared.totals.decode.record(tokens, took);
            [took, times.idle, host]
        });
        self.shared.live.publish(News::Step(Sample {
            tokens: tokens as u64,
            guesses,
            counters: runner.graph().counters(),
            prompts: runner.prompt_graphs(),
            times,
        }));
        report_graph_events(self.shared, runner);
        took
    }
}

/// Publishes the state of the decode graph.
pub(crate) fn publish_graph(shared: &Shared, runner: &Runner) {
    publish_graph_status(shared, GraphStatus::of(runner));
}

/// Publishes the state of the decode graph of a runner without a model.
pub(crate) fn publish_retired_graph(shared: &Shared, runner: &RetiredRunner) {
    publish_graph_status(shared, GraphStatus::of_retired(runner));
}

fn publish_graph_status(shared: &Shared, graph: GraphStatus) {
    let state = graph.state;
    shared.live.publish(News::Graph(Box::new(graph)));
    shared.publish(|status| status.graph_state = state);
}

/// Reports what happened to the decode graph to the journal, and publishes its state, if anything happened.
pub(crate) fn report_graph_events(shared: &Shared, runner: &mut Runner) {
    let events = runner.take_graph_events();
    if !events.is_empty() {
        report_events(events);
        // Readers see a state only after its events are in the journal.
        publish_graph(shared, runner);
    }
}

/// Reports and publishes, as `report_graph_events`, what happened to the decode graph of a runner without a model.
pub(crate) fn report_retired_graph_events(shared: &Shared, runner: &mut RetiredRunner) {
    report_events(runner.take_graph_events());
    publish_retired_graph(shared, runner);
}

/// Reports the failures among the events of a draft model's decode graph to the journal. Its state is not published.
pub(crate) fn report_draft_failures(events: Vec<Event>) {
    let is_failure = |event: &Event| matches!(event, Event::Failed { .. } | Event::Disabled { .. });
    report_events(events.into_iter().filter(is_failure).collect());
}

fn report_events(events: Vec<Event>) {
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
}
