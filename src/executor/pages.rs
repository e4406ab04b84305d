//! The memory of the key-value cache: the pages of each slot, their chunks, and copies to and from the host.

use super::step::ExecuteError;

/// Pages of the cache. All of them have the same size, and belong to chunks that are allocated and released as a whole.
pub trait Pages {
    /// Sets the page tables of a slot, one for each group of layers, in the order of positions. The slot has no other
    /// pages afterwards. No row reads an element without a page.
    ///
    /// # Errors
    /// If the device has failed.
    fn set_pages(&mut self, slot: usize, tables: &[Vec<Option<usize>>])
    -> Result<(), ExecuteError>;

    /// Waits for launched work, then returns the memory of chunks to the system.
    ///
    /// No running turn may have a page in these chunks. The tables of any other slot are cut before its first page there.
    /// The pages cannot be used again before `allocate`.
    ///
    /// # Errors
    /// If the device has failed.
    fn release(&mut self, chunks: &[usize]) -> Result<(), ExecuteError>;

    /// Allocates the memory of a released chunk. The content of its pages is undefined.
    ///
    /// # Errors
    /// If there is not enough memory.
    fn allocate(&mut self, chunk: usize) -> Result<(), ExecuteError>;

    /// Copies one page to another.
    ///
    /// # Errors
    /// If the device has failed. The content of the destination is then undefined.
    fn copy_page(&mut self, from: usize, to: usize) -> Result<(), ExecuteError>;

    /// Starts copying the first positions of a page of a group of layers to the host, in order after all launched work. Returns
    /// false if too many copies are in flight; `take_page` makes room.
    ///
    /// # Errors
    /// If the device has failed.
    fn send_page(
        &mut self,
        page: usize,
        group: usize,
        positions: usize,
    ) -> Result<bool, ExecuteError>;

    /// Returns the oldest page in flight if its copy has finished. Positions that were not requested are zero.
    ///
    /// # Errors
    /// If the device has failed.
    fn take_page(&mut self) -> Result<Option<Vec<u8>>, ExecuteError>;

    /// Discards the pages in flight.
    fn discard_pages(&mut self);

    /// Starts copying the bytes of a page from the host, in order before all work that is launched later. Returns false if too
    /// many copies are in flight; the caller has to try again.
    ///
    /// # Errors
    /// If the device has failed. The content of the page is then undefined.
    fn write_page(&mut self, page: usize, bytes: &[u8]) -> Result<bool, ExecuteError>;
}
