//! What conversations may say next, on its way to the device: a copy of each mask in pinned memory, and a stream of its own
//! that takes it to a fixed place while steps run.
//!
//! A mask is of one token of its conversation: its number is copied after its bits, and the kernel that chooses takes no other
//! (`NOT_READY` of `kernels/sample.cu`). Nothing here waits for a step, and no step waits for this.

use std::rc::Rc;
use std::sync::atomic::Ordering;

use super::mailbox::words;
use super::{Arena, Context, Event, Pinned, Region, Result, Stream};

/// Words before the bits: the number of the token, and what fills up to 16 bytes.
const HEAD: usize = 4;

/// Masks of conversations, in pinned memory.
#[derive(Debug)]
pub struct Masks {
    memory: Pinned,
    stream: Stream,
    /// The end of the last copy of each conversation.
    copied: Vec<Event>,
    /// The mask of one conversation has so many.
    words: usize,
}

impl Masks {
    /// Words of a conversation's mask, of so many bits.
    #[must_use]
    pub const fn words(vocabulary: usize) -> usize {
        HEAD + vocabulary.div_ceil(32).next_multiple_of(4)
    }

    /// Makes room for the masks of so many conversations and tokens.
    pub fn new(context: &Rc<Context>, conversations: usize, vocabulary: usize) -> Result<Self> {
        let words = Self::words(vocabulary);
        Ok(Self {
            memory: Pinned::new(context, 4 * words * conversations)?,
            stream: Stream::new(context)?,
            copied: (0..conversations)
                .map(|_| Event::new(context))
                .collect::<Result<_>>()?,
            words,
        })
    }

    /// Queues the mask of a conversation's token `number`, beside all that runs, for `to`, where those of all conversations
    /// lie as they do here. Bits that are not said are not allowed.
    pub fn send(
        &mut self,
        conversation: usize,
        (number, bits): (u32, &[u32]),
        (arena, to): (&mut Arena, Region),
    ) -> Result<()> {
        // A copy that still runs is of a mask that was given up, but of these bytes.
        self.copied[conversation].synchronize()?;
        let first = conversation * self.words;
        let mine = &words(&self.memory)[first..][..self.words];
        let bits = bits.iter().copied().chain(std::iter::repeat(0));
        for (word, bits) in mine[HEAD..].iter().zip(bits) {
            word.store(bits, Ordering::Relaxed);
        }
        mine[0].store(number, Ordering::Relaxed);
        let (at, bytes) = (4 * first, 4 * self.words);
        let stream = &mut self.stream;
        arena.copy_pinned(to, &self.memory, at + 4 * HEAD..at + bytes, stream)?;
        arena.copy_pinned(to, &self.memory, at..at + 4, stream)?;
        self.copied[conversation].record(stream)
    }

    /// Waits until a conversation's mask is where kernels find it.
    pub fn settle(&self, conversation: usize) -> Result<()> {
        self.copied[conversation].synchronize()
    }
}
