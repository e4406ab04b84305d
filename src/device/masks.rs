//! Masks on their way to the device: each has a copy in pinned memory, and its own stream copies it to a fixed address
//! while steps run.
//!
//! A mask is valid for one token. Its number is copied after its bits, and the sampling kernel accepts no other number
//! (`NOT_READY` of `kernels/sample.cu`). Masks do not wait for steps, and steps do not wait for masks.

use std::rc::Rc;
use std::sync::atomic::Ordering;

use super::Result;
use super::arena::Arena;
use super::context::Context;
use super::event::Event;
use super::mailbox::words;
use super::pinned::Pinned;
use super::plan::Region;
use super::stream::Stream;

/// Masks in pinned memory, by index: that of each slot, then those after guesses.
#[derive(Debug)]
pub struct Masks {
    memory: Pinned,
    stream: Stream,
    /// The end of the last copy of each mask.
    copied: Vec<Event>,
    /// Words of a mask.
    words: usize,
}

impl Masks {
    /// Words before the bits: the number of the token, and padding to 16 bytes.
    pub const HEAD: usize = 4;

    /// Words of a mask for a vocabulary.
    #[must_use]
    pub const fn words(vocabulary: usize) -> usize {
        Self::HEAD + vocabulary.div_ceil(32).next_multiple_of(4)
    }

    /// Allocates a number of masks.
    pub fn new(context: &Rc<Context>, masks: usize, vocabulary: usize) -> Result<Self> {
        let words = Self::words(vocabulary);
        Ok(Self {
            memory: Pinned::new(context, 4 * words * masks)?,
            stream: Stream::new(context)?,
            copied: (0..masks)
                .map(|_| Event::new(context))
                .collect::<Result<_>>()?,
            words,
        })
    }

    /// Queues the copy of a mask for token `number` to the arena, where the masks have the same order. Missing bits are not
    /// allowed tokens.
    pub fn send(
        &mut self,
        index: usize,
        (number, bits): (u32, &[u32]),
        (arena, to): (&mut Arena, Region),
    ) -> Result<()> {
        // An unfinished copy of an earlier mask uses the same bytes.
        self.copied[index].synchronize()?;
        let first = index * self.words;
        let mine = &words(&self.memory)[first..][..self.words];
        let bits = bits.iter().copied().chain(std::iter::repeat(0));
        for (word, bits) in mine[Self::HEAD..].iter().zip(bits) {
            word.store(bits, Ordering::Relaxed);
        }
        mine[0].store(number, Ordering::Relaxed);
        let (at, bytes) = (4 * first, 4 * self.words);
        let stream = &mut self.stream;
        arena.copy_pinned(to, &self.memory, at + 4 * Self::HEAD..at + bytes, stream)?;
        arena.copy_pinned(to, &self.memory, at..at + 4, stream)?;
        self.copied[index].record(stream)
    }

    /// Waits until a mask is in device memory.
    pub fn settle(&self, index: usize) -> Result<()> {
        self.copied[index].synchronize()
    }
}
