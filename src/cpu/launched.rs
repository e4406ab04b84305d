//! A step that was launched ahead: the state of its slots after it.

use super::core::Conversation;
use crate::executor::ExecuteError;

/// The state of several slots.
pub(super) type Snapshot = Vec<(usize, Conversation)>;

/// The result of a step whose tokens have not been taken.
#[derive(Debug)]
pub(super) struct Ahead {
    pub(super) after: Snapshot,
    pub(super) ran: Result<(), ExecuteError>,
}

impl Ahead {
    /// Whether the step has a row for each of these slots. It may have others.
    pub(super) fn serves(&self, slots: &[usize]) -> bool {
        slots.iter().all(|slot| self.has(*slot))
    }

    pub(super) fn has(&self, slot: usize) -> bool {
        self.after.iter().any(|(of, _)| *of == slot)
    }

    /// Takes the tokens of these slots. Other slots of the step stay unchanged.
    pub(super) fn take(
        self,
        conversations: &mut [Conversation],
        slots: &[usize],
    ) -> Result<(), ExecuteError> {
        for (slot, after) in self.after {
            if !slots.contains(&slot) {
                continue;
            }
            let conversation = &mut conversations[slot];
            // A mask that arrived since then is for the token that the step could not choose.
            let guide = std::mem::take(&mut conversation.guide);
            let awaits_mask = after.awaits_mask;
            *conversation = after;
            if awaits_mask {
                conversation.guide = guide;
            }
        }
        self.ran
    }
}
