//! Who comes while a step runs: whether it is left for them, and whether nothing is launched behind it.

use std::cell::Cell;
use std::time::Instant;

use crate::engine::caller::request::Priority;
use crate::engine::intake::inbox::Inbox;
use crate::engine::intake::turn::Turn;
use crate::engine::schedule::policy::{self, Stage, Standing};
use crate::engine::schedule::prefill_time::Service;
use crate::engine::schedule::slices::Slices;

/// What is asked of each who comes.
pub(super) struct Comers<'a> {
    pub(super) inbox: &'a Inbox,
    /// Of a step, and whether one of them is free.
    pub(super) rows: usize,
    pub(super) has_row: bool,
    pub(super) chunk: usize,
    pub(super) slices: &'a Slices,
    pub(super) service: &'a Service,
    /// The queue tells of each but once.
    pub(super) has_come: Cell<bool>,
}

impl Comers<'_> {
    /// Waits until then, or until somebody comes who is read before a step of `all`.
    pub(super) fn leave(&self, all: &[Standing], until: Instant) -> bool {
        let share = self.inbox.limits().prefill;
        let owed = self.slices.owed();
        self.inbox.comes_by(until, |turn| {
            self.has_come.set(self.has_come.get() || self.is_read(turn));
            let (user, unread) = (turn.client.user, turn.wanted().1.tokens.len());
            let one = Standing {
                id: u64::MAX,
                user,
                priority: turn.options.priority,
                stage: Stage::Reading,
                had: self.service.had(&turn.client),
                unread,
                passes: self.slices.passes(share, self.chunk, user, unread),
            };
            !self.inbox.held().rests(one.priority)
                && policy::leaves(all, one, self.rows, owed, share.slice)
        })
    }

    /// Whether somebody has come who is to be read before another step, or after the one that runs at the latest.
    pub(super) fn preempt(&self) -> bool {
        self.has_come.get() || self.inbox.has_come(|turn| self.is_read(turn))
    }

    /// Whether there is a row for it.
    fn is_read(&self, turn: &Turn) -> bool {
        self.has_row || turn.options.priority == Priority::Realtime
    }
}
