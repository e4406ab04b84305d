//! The recurrent states of slots, and their copies in pages of the cache.

use super::step::{ExecuteError, StateError};

/// Recurrent states. Models without recurrent layers have none: then nothing here is called.
///
/// There may be fewer states than slots. A slot without a state cannot run.
pub trait States {
    /// Whether a slot has a state; always in models without recurrent layers.
    fn has_state(&self, slot: usize) -> bool;

    /// Whether a slot has a state that neither its prompt nor a step that is ahead or preempted needs.
    fn can_lose_state(&self, slot: usize) -> bool;

    /// Gives a slot that has no state a free one, or that of another slot, which then has none. Its content is that of
    /// another conversation: `clear_state` or `load_state` has to replace it.
    ///
    /// # Errors
    /// If no state is free, or the other slot cannot lose its state.
    fn give_state(&mut self, slot: usize, from: Option<usize>) -> Result<(), StateError>;

    /// Takes the state of a slot, which must not run then. It becomes free.
    fn leave_state(&mut self, slot: usize);

    /// Sets the state of a slot to that before the first token.
    ///
    /// # Errors
    /// If the device has failed.
    fn clear_state(&mut self, slot: usize) -> Result<(), ExecuteError>;

    /// Stores the state of a slot after its first `position` tokens in pages. All of these tokens have been computed.
    ///
    /// # Errors
    /// If the slot has no state, or it is not at that position, or the device has failed.
    fn store_state(
        &mut self,
        slot: usize,
        position: usize,
        pages: &[usize],
    ) -> Result<(), ExecuteError>;

    /// Replaces the state of a slot by a stored one.
    ///
    /// # Errors
    /// If the slot has no state, or the pages do not hold one of this model, or the device has failed.
    fn load_state(&mut self, slot: usize, pages: &[usize]) -> Result<(), ExecuteError>;
}
