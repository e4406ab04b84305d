//! The two mailboxes between the CPU and a running graph: pinned, 64 bytes each, written by one side only.
//!
//! Exactly one kernel reads the first and one writes the second, with one warp: pinned memory is not
//! cached by an integrated GPU, and many warps polling it cost more than the work.

use std::rc::Rc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::{Context, Error, Pinned, Result};

const BYTES: usize = 64;

/// CPU to GPU: where the next step starts, if not where the last one ended. Words: token, position,
/// flags, generation; a kernel takes the first three when the fourth differs from what it took last.
#[derive(Debug)]
pub struct StepMailbox {
    memory: Pinned,
    generation: u32,
}

impl StepMailbox {
    /// # Errors
    /// If there is no memory left to pin.
    pub fn new(context: &Rc<Context>) -> Result<Self> {
        Ok(Self {
            memory: Pinned::new(context, BYTES)?,
            generation: 0,
        })
    }

    /// Where the GPU sees it.
    #[must_use]
    pub fn address(&self) -> u64 {
        self.memory.address()
    }

    /// Puts a step's start in, and returns its generation. The caller has seen a token of the last
    /// generation arrive, or nothing runs: a step in flight may be reading.
    pub fn post(&mut self, token: u32, position: u32, flags: u32) -> u32 {
        self.generation = self.generation.wrapping_add(1);
        let words = self.words();
        words[0].store(token, Ordering::Relaxed);
        words[1].store(position, Ordering::Relaxed);
        words[2].store(flags, Ordering::Relaxed);
        // Last: whoever sees it sees the rest.
        words[3].store(self.generation, Ordering::Release);
        self.generation
    }

    fn words(&self) -> &[AtomicU32; 4] {
        // SAFETY: 64 aligned bytes that live as long as `self`; the CPU touches them here only, atomically.
        unsafe { self.memory.host().cast().as_ref() }
    }
}

/// GPU to CPU: chosen tokens, each with its number in one 8-byte store. Token n is in word n % `SLOTS`,
/// so that one queued ahead does not overwrite one not yet read.
#[derive(Debug)]
pub struct TokenMailbox {
    memory: Pinned,
}

impl TokenMailbox {
    pub const SLOTS: u32 = 8;

    /// # Errors
    /// If there is no memory left to pin.
    pub fn new(context: &Rc<Context>) -> Result<Self> {
        Pinned::new(context, BYTES).map(|memory| Self { memory })
    }

    /// Where the GPU sees it.
    #[must_use]
    pub fn address(&self) -> u64 {
        self.memory.address()
    }

    /// Token `sequence`, counted from 1, if it has arrived.
    #[must_use]
    pub fn peek(&self, sequence: u32) -> Option<u32> {
        // SAFETY: 64 aligned bytes that live as long as `self`; the CPU only reads them, atomically.
        let words: &[AtomicU64; 8] = unsafe { self.memory.host().cast().as_ref() };
        let word = words[(sequence % Self::SLOTS) as usize].load(Ordering::Acquire);
        #[allow(clippy::cast_possible_truncation)] // the low half
        let token = word as u32;
        (word >> 32 == u64::from(sequence)).then_some(token)
    }

    /// Token `sequence`: spins for at most `spin`, then waits by `block`, which returns once the step has
    /// ended, and fails if it has failed.
    ///
    /// # Errors
    /// What `block` says; or that the step ended without its token.
    pub fn wait(
        &self,
        sequence: u32,
        spin: Duration,
        block: impl FnOnce() -> Result<()>,
    ) -> Result<u32> {
        let start = Instant::now();
        loop {
            if let Some(token) = self.peek(sequence) {
                return Ok(token);
            }
            if start.elapsed() >= spin {
                break;
            }
            std::hint::spin_loop();
        }
        block()?;
        self.peek(sequence).ok_or(Error::NoToken { sequence })
    }
}
