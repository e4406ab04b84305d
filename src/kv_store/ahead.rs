//! Reads the pages of a file in order, several at the same time. A disk reaches its full speed only with several
//! requests.

use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;

use super::file::Reading;
use super::refusal::Refusal;

/// The most threads that read.
const READERS: usize = 4;
/// Bytes in the memory of several readers: room for a page of a 4B model for each.
const HELD: usize = 40 << 20;

/// Reads pages and passes each to `take`, until it returns false or a page is damaged. Returns whether all were taken.
pub(super) fn read(
    reading: &Reading,
    pages: &[usize],
    mut take: impl FnMut(Vec<u8>) -> bool,
) -> Result<bool, Refusal> {
    let readers = HELD / reading.page_bytes().max(1);
    let readers = readers.min(pages.len()).clamp(1, READERS);
    thread::scope(|scope| {
        // Each reader reads every n-th page, and holds one until it is taken.
        let read = |first: usize| -> Result<Receiver<_>, Refusal> {
            let (sender, read) = sync_channel(0);
            let pages = pages.iter().copied().skip(first).step_by(readers);
            let work = move || {
                for page in pages {
                    let bytes = reading.page(page);
                    let is_last = bytes.is_err();
                    if sender.send(bytes).is_err() || is_last {
                        return;
                    }
                }
            };
            let builder = thread::Builder::new().name("pages-read".into());
            builder.spawn_scoped(scope, work)?;
            Ok(read)
        };
        let read: Vec<_> = (0..readers).map(read).collect::<Result<_, _>>()?;
        for (page, read) in pages.iter().copied().zip(read.iter().cycle()) {
            let bytes = read.recv().unwrap_or(Err(Refusal::Page(page)))?;
            if !take(bytes) {
                return Ok(false);
            }
        }
        Ok(true)
    })
}
