//! The recurrent states of slots, and their copies in pages of the cache.

use super::step::ExecuteError;

/// Recurrent states. Models without recurrent layers have none: then nothing here is called.
pub trait States {
    /// Sets the state of a slot to that before the first token.
    ///
    /// # Errors
    /// If the device has failed.
    fn clear_state(&mut self, slot: usize) -> Result<(), ExecuteError>;

    /// Stores the state of a slot after its first `position` tokens in pages. All of these tokens have been computed.
    ///
    /// # Errors
    /// If the state is not at that position, or the device has failed.
    fn store_state(
        &mut self,
        slot: usize,
        position: usize,
        pages: &[usize],
    ) -> Result<(), ExecuteError>;

    /// Replaces the state of a slot by a stored one.
    ///
    /// # Errors
    /// If the pages do not hold a state of this model, or the device has failed.
    fn load_state(&mut self, slot: usize, pages: &[usize]) -> Result<(), ExecuteError>;
}
