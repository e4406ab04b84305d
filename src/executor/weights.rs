//! Reads the weights of a model in pieces on several threads.
//!
//! It knows neither files nor the memory layout of an executor.

use std::io;
use std::ops::Range;
use std::sync::mpsc;
use std::thread;

use parking_lot::Mutex;

/// Bytes of a piece, unless a row is longer. A few pieces of this size keep a disk busy.
pub const PIECE_BYTES: usize = 512 << 10;
/// Bytes of all pieces that are in flight.
pub const FLIGHT_BYTES: usize = 8 << 20;

/// The source of weights. Several threads read it at the same time.
pub trait WeightSource: Sync {
    type Error: From<FillError> + Send;

    /// Calls `take` with rows of a weight, as its file stores them; vectors are converted to f32.
    ///
    /// # Errors
    /// If they cannot be read; `take` is not called then.
    fn read(
        &self,
        weight: usize,
        rows: Range<usize>,
        take: &mut dyn FnMut(&[u8]),
    ) -> Result<(), Self::Error>;

    /// The file and offset of a row. A disk reads fastest in this order.
    fn place(&self, weight: usize, row: usize) -> (usize, u64);
}

/// Why weights cannot be brought to an executor, whatever their source.
#[derive(Debug, thiserror::Error)]
pub enum FillError {
    #[error("no thread to read weights can be started: {0}; raise TasksMax= of the unit")]
    Threads(io::Error),
    #[error("no memory for {bytes} bytes of weights: {error}; use a smaller quantization")]
    Memory { bytes: usize, error: io::Error },
}

/// The number of pieces of a size that may be in flight.
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

/// Runs jobs in order on reader threads, each with its own buffer.
///
/// `done` is called on this thread for each finished piece, and the buffer is reused after that. With more buffers than
/// threads, readers do not wait for `done`.
///
/// # Errors
/// The first error of `work` or `done`, after all threads have stopped, or that no thread could be started.
pub fn in_flight<P: Send, B: Send, E: From<FillError> + Send>(
    threads: usize,
    pieces: Vec<P>,
    buffers: Vec<B>,
    work: impl Fn(&mut P, &mut B) -> Result<(), E> + Sync,
    mut done: impl FnMut(P, &mut B) -> Result<(), E>,
) -> Result<(), E> {
    let waiting = Mutex::new(pieces.into_iter());
    // The channel has room for all buffers, so that sending never waits.
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
                    let Some(mut piece) = waiting.lock().next() else {
                        return;
                    };
                    // The channel is closed if another piece has failed.
                    let Ok(mut buffer) = free.lock().recv() else {
                        return;
                    };
                    let result = work(&mut piece, &mut buffer).map(|()| (piece, buffer));
                    let failed = result.is_err();
                    // The channel is closed if another piece has failed.
                    if ended.send(result).is_err() || failed {
                        return;
                    }
                }
            });
            match started {
                Ok(_) => {}
                // Fewer threads are slower, but sufficient.
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
        // Threads that wait for a buffer end, and no thread begins another piece.
        drop(back);
        waiting.lock().by_ref().for_each(drop);
        outcome
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Each piece is processed once, and `done` gets the buffer of its piece.
    #[test]
    fn each_piece_is_processed_once_in_its_own_buffer() {
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

    /// Reading stops at the first error of either side.
    #[test]
    fn the_first_error_stops_reading() {
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
                *worked.lock() += 1;
                if *piece == 10 {
                    return Err(failure(10));
                }
                // This leaves the failing thread time to report its error on a busy machine.
                if *piece > 10 {
                    thread::sleep(Duration::from_millis(2));
                }
                Ok(())
            },
            |_, ()| Ok(()),
        );
        assert!(matches!(reading, Err(FillError::Memory { bytes: 10, .. })));
        assert!(*worked.lock() < 100, "{worked:?} of 1000");
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
