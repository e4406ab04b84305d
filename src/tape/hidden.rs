//! The hidden states that an assistant continues from: those of the model at the last positions of each conversation.
//!
//! They lie in a buffer, a ring by position for each slot of the cache. A conversation whose last row ran elsewhere, such as
//! one that was restored, has the hidden states of another conversation: its next guesses are then wrong, and no answer
//! depends on them.

use super::operands::Buffer;

/// Positions in a ring: those of a step with guesses, and of one that was launched ahead.
pub const PLACES: usize = 16;

/// An operation on the hidden states of conversations. `ring` is f32 (slots * `PLACES`, hidden).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hidden {
    /// Stores the rows of a step, or the last row of a prompt, in the ring of their slot.
    Keep {
        /// f32 (rows, hidden)
        input: Buffer,
        ring: Buffer,
    },
    /// A row of `out` is `[x | hidden state]`. The state of a slot's first row is that of its position in the ring. A later row
    /// has that of the row before it in `before`, which the last run of the tape has left.
    Join {
        /// f32 (rows, hidden)
        x: Buffer,
        /// f32 (rows, hidden)
        before: Buffer,
        ring: Buffer,
        /// f32 (rows, 2 * hidden)
        out: Buffer,
    },
}

impl Hidden {
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Keep { .. } => "keep_hidden",
            Self::Join { .. } => "join_hidden",
        }
    }

    #[must_use]
    pub const fn ring(&self) -> Buffer {
        match *self {
            Self::Keep { ring, .. } | Self::Join { ring, .. } => ring,
        }
    }

    /// The buffers that the operation reads, and those that it writes.
    #[must_use]
    pub fn buffers(&self) -> (Vec<Buffer>, Vec<Buffer>) {
        match *self {
            Self::Keep { input, ring } => (vec![input], vec![ring]),
            Self::Join {
                x,
                before,
                ring,
                out,
            } => (vec![x, before, ring], vec![out]),
        }
    }

    /// The place of a position in the ring of a slot, as a row of the buffer.
    #[must_use]
    pub const fn place(slot: usize, position: usize) -> usize {
        slot * PLACES + position % PLACES
    }
}
