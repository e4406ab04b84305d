//! Whether the engine makes progress: atomics that it writes, and that any thread reads without waiting.
//!
//! It judges nothing. A watchdog decides what is too slow, and what follows.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

/// What the engine thread does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Phase {
    #[default]
    Opening,
    Vocabulary,
    Weights,
    Preparing,
    Prompt,
    Answer,
    Between,
}

impl Phase {
    const ALL: [Self; 7] = [
        Self::Opening,
        Self::Vocabulary,
        Self::Weights,
        Self::Preparing,
        Self::Prompt,
        Self::Answer,
        Self::Between,
    ];

    /// Returns its name for people.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Opening => "opening the model",
            Self::Vocabulary => "reading the vocabulary",
            Self::Weights => "reading weights",
            Self::Preparing => "preparing the first step",
            Self::Prompt => "reading a prompt",
            Self::Answer => "making tokens",
            Self::Between => "between requests",
        }
    }
}

/// Counters that only grow: two reads show whether anything happened between them. They are relaxed, because nothing else
/// is concluded from them.
#[derive(Debug, Default)]
pub struct Progress {
    advanced: AtomicU64,
    loaded: AtomicU64,
    idle: AtomicBool,
    phase: AtomicU8,
}

/// The counters at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pulse {
    /// Grows with each token, slice of a prompt, step of a load, and command of the engine thread.
    pub advanced: u64,
    /// Grows with each step of a load, at the start or by a reload.
    pub loaded: u64,
    /// Whether the engine thread has nothing to do.
    pub idle: bool,
    pub phase: Phase,
}

impl Progress {
    /// Counts work of the engine thread.
    pub fn advance(&self) {
        self.advanced.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a step of a load, on any thread.
    pub fn load_step(&self) {
        self.loaded.fetch_add(1, Ordering::Relaxed);
    }

    /// Sets what the engine thread does.
    pub fn enter(&self, phase: Phase) {
        self.phase.store(phase as u8, Ordering::Relaxed);
        self.advance();
    }

    pub(crate) fn set_idle(&self, idle: bool) {
        self.idle.store(idle, Ordering::Relaxed);
    }

    #[must_use]
    pub fn pulse(&self) -> Pulse {
        let phase = usize::from(self.phase.load(Ordering::Relaxed));
        Pulse {
            advanced: self.advanced.load(Ordering::Relaxed),
            loaded: self.loaded.load(Ordering::Relaxed),
            idle: self.idle.load(Ordering::Relaxed),
            phase: Phase::ALL.get(phase).copied().unwrap_or_default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::caller::client::Client;
    use crate::engine::caller::handle::channel;
    use crate::engine::caller::limits::{Limits, UserLimits};
    use crate::engine::caller::request::Options;
    use crate::engine::schedule::slices::Share;
    use crate::model::{Message, Role};
    use crate::sampler::Parameters;

    /// A caller that gives up must not make a hanging thread look idle.
    #[tokio::test]
    async fn only_the_engine_thread_says_that_it_is_idle() {
        let (engine, receiver) = channel(Limits {
            prefill: Share::default(),
            grammar: crate::guide::Limits::USUAL,
            requests: 1,
            queue: 1,
            sessions: 1,
            user: UserLimits {
                requests: 1,
                sessions: 1,
                queue_percent: 100,
                kv_percent: 100,
            },
        });
        let client = Client {
            name: ":1.1".into(),
            user: 1000,
        };
        // The thread hangs after it has set this.
        engine.progress().set_idle(true);
        let message = Message::new(Role::User, "hello");
        let options = Options::new(1, Parameters::default());
        let ticket = engine
            .generate(client, vec![message], options)
            .await
            .unwrap();
        assert!(!engine.progress().pulse().idle);
        engine.cancel(ticket.id);
        assert!(!engine.progress().pulse().idle);
        engine.close();
        assert!(receiver.next().is_none());
        assert!(engine.progress().pulse().idle, "the engine thread has run");
    }

    #[test]
    fn every_phase_is_published_as_it_was_entered() {
        for phase in Phase::ALL {
            let progress = Progress::default();
            progress.enter(phase);
            assert_eq!(progress.pulse().phase, phase);
        }
    }
}
