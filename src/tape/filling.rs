//! Weights on their way to an executor: in pieces, of which several are read and laid out at once.
//!
//! It knows neither files nor where a piece is to lie.

use std::io;
use std::ops::Range;
use std::sync::mpsc;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

/// Bytes of a piece, where its rows are not longer: enough for a disk to be busy with a few of them.
pub const PIECE_BYTES: usize = 512 << 10;
/// Bytes of all pieces that are on their way at once.
pub const FLIGHT_BYTES: usize = 8 << 20;

/// Where weights come from. Threads read at once.
pub trait Source: Sync {
    type Error: From<FillError> + Send;

    /// Hands `rows` of a weight, by its place in the list, to `take`, as its file stores them; vectors as f32.
    ///
    /// # Errors
    /// If they cannot be read; `take` is not called then.
    fn read(
        &self,
        weight: usize,
        rows: Range<usize>,
        take: &mut dyn FnMut(&[u8]),
    ) -> Result<(), Self::Error>;

    /// Where a row lies among all: a disk reads in this order best.
    fn place(&self, weight: usize, row: usize) -> (usize, u64);
}

/// Why weights cannot be brought to where they belong, whatever they come from.
#[derive(Debug, thiserror::Error)]
pub enum FillError {
    #[error("no thread to read weights can be started: {0}; raise TasksMax= of the unit")]
    Threads(io::Error),
    #[error("the system has no {bytes} bytes for the weights: {error}; use a smaller quantization")]
    Memory { bytes: usize, error: io::Error },
}

/// How many pieces of so many bytes may be on their way at once.
#[must_use]
pub const fn pieces_at_once(bytes: usize) -> usize {
    let pieces = FLIGHT_BYTES / if bytes == 0 { 1 } else { bytes };
    let most = FLIGHT_BYTES / PIECE_BYTES;
    match pieces {
        0 => 1,
        pieces if pieces > most => most,
        pieces => pieces,
    }
}

/// Has threads carry out `work` on the pieces, the first first, each with a buffer that nobody else has; `done` hears on
/// this thread of each piece whose work has ended, and has its buffer until it returns. More buffers than threads, and
/// nobody waits for `done`.
///
/// # Errors
/// The first of `work` or `done`, once no thread works any more; or that no thread could be started.
pub fn in_flight<P: Send, B: Send, E: From<FillError> + Send>(
    threads: usize,
    pieces: Vec<P>,
    buffers: Vec<B>,
    work: impl Fn(&mut P, &mut B) -> Result<(), E> + Sync,
    mut done: impl FnMut(P, &mut B) -> Result<(), E>,
) -> Result<(), E> {
    let waiting = Mutex::new(pieces.into_iter());
    // As many as there are buffers: nobody ever waits to send.
    let (ended, results) = mpsc::sync_channel(buffers.len());
    let (back, free) = mpsc::sync_channel(buffers.len());
    buffers
        .into_iter()
        .for_each(|buffer| drop(back.send(buffer)));
    let free = Mutex::new(free);
    thread::scope(|scope| {
        for number in 0..threads {
            let (ended, waiting, free, work) = (ended.clone(), &waiting, &free, &work);
            let reader = thread::Builder::new().name(format!("reader-{number}"));
            let started = reader.spawn_scoped(scope, move || {
                loop {
                    let Some(mut piece) = locked(waiting).next() else {
                        return;
                    };
                    // None comes any more if another piece has failed.
                    let Ok(mut buffer) = locked(free).recv() else {
                        return;
                    };
                    let result = work(&mut piece, &mut buffer).map(|()| (piece, buffer));
                    let failed = result.is_err();
                    // If nobody listens any more, another has failed before.
                    if ended.send(result).is_err() || failed {
                        return;
                    }
                }
            });
            match started {
                Ok(_) => {}
                // The fewer there are the slower it gets, and no worse.
                Err(_) if number > 0 => break,
                Err(error) => return Err(FillError::Threads(error).into()),
            }
        }
        drop(ended);
        let outcome = results.iter().try_for_each(|result| {
            let (piece, mut buffer) = result?;
            done(piece, &mut buffer)?;
            // All threads may have ended.
            let _ = back.send(buffer);
            Ok(())
        });
        // Whoever waits for a buffer ends, and after a failure nobody begins another piece.
        drop(back);
        locked(&waiting).by_ref().for_each(drop);
        outcome
    })
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Each piece once, each with a buffer that nobody else has, until `done` has had it.
    #[test]
    fn every_piece_is_worked_on_once_and_handed_over_with_its_buffer() {
        let mut sum = 0;
        let work = |piece: &mut usize, buffer: &mut usize| {
            *buffer = *piece;
            Ok::<_, FillError>(())
        };
        in_flight(4, (0..1000).collect(), vec![0; 6], work, |piece, buffer| {
            assert_eq!(piece, *buffer);
            sum += piece;
            Ok(())
        })
        .expect("nothing fails");
        assert_eq!(sum, 999 * 1000 / 2);
    }

    /// It ends, with the first error, whichever side fails, and begins nothing after it.
    #[test]
    fn the_first_failure_ends_it() {
        let failure = |bytes| FillError::Memory {
            bytes,
            error: io::ErrorKind::OutOfMemory.into(),
        };
        let worked = Mutex::new(0);
        let reading = in_flight(
            4,
            (0..1000).collect(),
            vec![(); 4],
            |piece, ()| {
                *locked(&worked) += 1;
                if *piece == 10 {
                    return Err(failure(10));
                }
                // Whoever fails may have to wait for a processor to say so.
                if *piece > 10 {
                    thread::sleep(Duration::from_millis(2));
                }
                Ok(())
            },
            |_, ()| Ok(()),
        );
        assert!(matches!(reading, Err(FillError::Memory { bytes: 10, .. })));
        assert!(*locked(&worked) < 100, "{worked:?} of 1000");
        let copying = in_flight(
            4,
            (0..1000).collect(),
            vec![(); 4],
            |_: &mut usize, ()| Ok(()),
            |piece, ()| Err(failure(piece)),
        );
        assert!(matches!(copying, Err(FillError::Memory { .. })));
    }
}
