//! The mailboxes between the CPU and a running graph, in pinned memory. Only one side writes each of them.
//!
//! An integrated GPU does not cache pinned memory. So only the first kernel of a step reads commands, one thread for each
//! row, and only the last kernel writes tokens. `kernels/state.cuh` defines commands and rows.

use std::rc::Rc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::Result;
use super::arena::Arena;
use super::context::Context;
use super::error::Error;
use super::event::Event;
use super::pinned::Pinned;
use super::plan::Region;
use super::stream::Stream;

/// The most rows of a step, as in `kernels/state.cuh`.
pub const STEP_ROWS: usize = 8;
/// The slot of a padding row, which fills a step up to a recorded size; as in `kernels/state.cuh`.
pub const NO_SLOT: u32 = u32::MAX;
/// `Row::advances` of the rows of a slot that has guesses, as in `kernels/sample.cu`: each chooses a token, and the device's
/// conversation stays where it is.
pub const GUESSES: u32 = 2;
/// The end of a list of tokens, as in `kernels/state.cuh`.
pub(super) const NO_TOKEN: u32 = u32::MAX;

/// Steps whose commands the mailbox can hold, more than can be in flight.
const COMMANDS: u32 = 4;
/// Steps whose tokens the mailbox can hold.
pub(super) const MAILBOX_STEPS: u32 = 8;

/// One row of a step, or all rows of a prompt.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Row {
    pub slot: u32,
    /// The position of the row, or of a prompt's first row.
    pub position: u32,
    pub token: u32,
    /// The first row of this step with the same slot.
    pub first: u32,
    /// 1 for the last row of a slot, from which the conversation continues; `GUESSES` for all rows of a slot with guesses.
    pub advances: u32,
    /// The number of the run, counted from 1 over all steps and prompts that choose a token.
    pub sequence: u32,
    /// Rows of a prompt that are not padding.
    pub count: u32,
    /// The index of the spare recurrent state that a prompt writes.
    pub spare: u32,
    /// The position that the row rotates by, or a prompt's first row if it is text.
    pub turned: u32,
    /// Of a given token of a conversation that masks limit: the number of the mask after it, or 0 if there is none.
    pub mask: u32,
    /// The index of that mask.
    pub mask_at: u32,
    pub unused: u32,
}

impl Row {
    pub const BYTES: usize = size_of::<Self>();
    /// The offset of `count`.
    pub const COUNT_AT: u64 = std::mem::offset_of!(Self, count) as u64;

    const fn words(self) -> [u32; 12] {
        [
            self.slot,
            self.position,
            self.token,
            self.first,
            self.advances,
            self.sequence,
            self.count,
            self.spare,
            self.turned,
            self.mask,
            self.mask_at,
            self.unused,
        ]
    }
}

/// The sampler of a conversation.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SamplerState {
    pub temperature: f32,
    pub top_p: f32,
    pub min_p: f32,
    pub repetition_penalty: f32,
    pub top_k: u32,
    /// The number of random numbers drawn, low half first.
    pub counter: [u32; 2],
    pub seed: [u32; 2],
    /// One more than the number of most probable tokens to report; 0 reports none.
    pub best: u32,
    /// Tokens that were added to `history` so far.
    pub pushed: u32,
    pub history: History,
}

/// The latest tokens.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct History(pub [u32; 64]);

impl Default for History {
    fn default() -> Self {
        Self([0; 64])
    }
}

impl SamplerState {
    const WORDS: usize = size_of::<Self>() / 4;
    /// Bytes of a conversation on the device: token, position, mask number, index of its recurrent state, sampler, rotary
    /// offset.
    pub const CONVERSATION_BYTES: usize = 16 + size_of::<Self>() + 4;

    fn words(&self) -> impl Iterator<Item = u32> + '_ {
        let floats = [
            self.temperature,
            self.top_p,
            self.min_p,
            self.repetition_penalty,
        ];
        let integers = [self.top_k].into_iter().chain(self.counter);
        let integers = integers.chain(self.seed).chain([self.best, self.pushed]);
        floats
            .map(f32::to_bits)
            .into_iter()
            .chain(integers)
            .chain(self.history.0)
    }
}

/// A row, and the changes of its conversation that the device applies before it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Command {
    pub row: Row,
    /// Whether the conversation takes its token and position from the row.
    pub moves: bool,
    pub sampler: Option<SamplerState>,
    /// The changed elements of the page table in the host's copy: the first, and their number.
    pub pages: (u32, u32),
    /// The number of the conversation's next mask; 0 ends guiding.
    pub guide: Option<u32>,
    /// The index of the conversation's recurrent state.
    pub state: Option<u32>,
    /// The distance from the conversation's positions in the cache to those that its next rows rotate by.
    pub offset: Option<i32>,
}

impl Command {
    /// The offset of a prompt's tokens, which follow its command in device memory.
    pub const TOKENS_AT: u64 = Self::BYTES as u64;

    /// Words of a command: its row, flags, pages and guide; a sampler; a state; an offset; a pad.
    const WORDS: usize = 96;
    const BYTES: usize = 4 * Self::WORDS;
    const SEQUENCE_AT: usize = 5;
    const FLAGS_AT: usize = size_of::<Row>() / 4;
    const SAMPLER_AT: usize = Self::FLAGS_AT + 4;
    const STATE_AT: usize = Self::SAMPLER_AT + SamplerState::WORDS;
    const OFFSET_AT: usize = Self::STATE_AT + 1;

    fn store(&self, words: &[AtomicU32]) {
        // `CommandFlags` of `kernels/state.cuh`.
        const TOKEN_AND_POSITION: u32 = 1 | 2;
        const SAMPLER: u32 = 4;
        const PAGES: u32 = 8;
        const GUIDE: u32 = 16;
        const STATE: u32 = 32;
        const OFFSET: u32 = 64;
        let mut flags = 0;
        if self.moves {
            flags |= TOKEN_AND_POSITION;
        }
        if let Some(sampler) = &self.sampler {
            flags |= SAMPLER;
            for (word, value) in words[Self::SAMPLER_AT..].iter().zip(sampler.words()) {
                word.store(value, Ordering::Relaxed);
            }
        }
        if self.pages.1 > 0 {
            flags |= PAGES;
        }
        if self.guide.is_some() {
            flags |= GUIDE;
        }
        if let Some(state) = self.state {
            flags |= STATE;
            words[Self::STATE_AT].store(state, Ordering::Relaxed);
        }
        if let Some(offset) = self.offset {
            flags |= OFFSET;
            words[Self::OFFSET_AT].store(offset.cast_unsigned(), Ordering::Relaxed);
        }
        let (first, pages) = self.pages;
        let fields = [flags, first, pages, self.guide.unwrap_or_default()];
        for (word, value) in words[Self::FLAGS_AT..].iter().zip(fields) {
            word.store(value, Ordering::Relaxed);
        }
        for (at, value) in self.row.words().into_iter().enumerate() {
            if at != Self::SEQUENCE_AT {
                words[at].store(value, Ordering::Relaxed);
            }
        }
        // A kernel that sees the sequence number sees the other words, too.
        words[Self::SEQUENCE_AT].store(self.row.sequence, Ordering::Release);
    }
}

const _: () = assert!(Command::OFFSET_AT < Command::WORDS);
const _: () = assert!(Row::BYTES.is_multiple_of(16));

/// CPU to GPU: the commands of rows that differ from those of the last step.
#[derive(Debug)]
pub struct StepMailbox {
    memory: Pinned,
}

impl StepMailbox {
    pub fn new(context: &Rc<Context>) -> Result<Self> {
        let memory = Pinned::new(context, COMMANDS as usize * STEP_ROWS * Command::BYTES)?;
        Ok(Self { memory })
    }

    /// The address for the GPU.
    #[must_use]
    pub fn address(&self) -> u64 {
        self.memory.address()
    }

    /// Stores the command of a row of step `command.row.sequence`.
    ///
    /// The caller has not launched that step yet, and has taken the token of the step `COMMANDS` earlier.
    pub fn post(&mut self, row: usize, command: &Command) {
        let place = (command.row.sequence % COMMANDS) as usize * STEP_ROWS + row % STEP_ROWS;
        command.store(&words(&self.memory)[place * Command::WORDS..][..Command::WORDS]);
    }
}

/// CPU to GPU: the command and the tokens of a prompt. A copy brings them to device memory, so that no block reads its token
/// over the bus.
#[derive(Debug)]
pub struct PromptMailbox {
    memory: Pinned,
    /// The end of the last copy.
    copied: Event,
    rows: usize,
}

impl PromptMailbox {
    /// Creates a mailbox for prompts of at most `rows` rows.
    pub fn new(context: &Rc<Context>, rows: usize, stream: &mut Stream) -> Result<Self> {
        let memory = Pinned::new(context, Self::bytes(rows))?;
        let mut copied = Event::new(context)?;
        copied.record(stream)?;
        Ok(Self {
            memory,
            copied,
            rows,
        })
    }

    /// Bytes of a command and the tokens.
    #[must_use]
    pub const fn bytes(rows: usize) -> usize {
        Command::BYTES + 4 * rows
    }

    /// Queues the copy of a prompt to `to`, after the last copy has finished.
    ///
    /// # Errors
    /// If there are too many tokens, or the driver refuses.
    pub fn send(
        &mut self,
        command: &Command,
        tokens: &[u32],
        (arena, to): (&mut Arena, Region),
        stream: &mut Stream,
    ) -> Result<()> {
        let bytes = Self::bytes(tokens.len());
        if tokens.len() > self.rows {
            return Err(Error::Bounds { bytes });
        }
        self.copied.synchronize()?;
        let words = words(&self.memory);
        for (word, token) in words[Command::WORDS..].iter().zip(tokens) {
            word.store(*token, Ordering::Relaxed);
        }
        command.store(&words[..Command::WORDS]);
        arena.copy_pinned(to, &self.memory, 0..bytes, stream)?;
        self.copied.record(stream)
    }
}

/// CPU to GPU: the page table of each slot. A command names the changed elements.
#[derive(Debug)]
pub struct PageTables {
    memory: Pinned,
}

impl PageTables {
    pub fn new(context: &Rc<Context>, addresses: usize) -> Result<Self> {
        let memory = Pinned::new(context, 8 * addresses)?;
        Ok(Self { memory })
    }

    /// The address for the GPU.
    #[must_use]
    pub fn address(&self) -> u64 {
        self.memory.address()
    }

    /// Stores an address. No launched command may name this element.
    pub fn set(&mut self, index: usize, address: u64) {
        if let Some(word) = wide_words(&self.memory).get(index) {
            word.store(address, Ordering::Relaxed);
        }
    }
}

/// GPU to CPU: chosen tokens, each with its step's number in one 8-byte store.
///
/// Those of step n are at index n % `MAILBOX_STEPS`, so that a later step does not overwrite a token that has not been read.
#[derive(Debug)]
pub struct TokenMailbox {
    memory: Pinned,
}

impl TokenMailbox {
    pub fn new(context: &Rc<Context>) -> Result<Self> {
        Pinned::new(context, MAILBOX_STEPS as usize * STEP_ROWS * 8).map(|memory| Self { memory })
    }

    /// The address for the GPU.
    #[must_use]
    pub fn address(&self) -> u64 {
        self.memory.address()
    }

    /// The token of a row of step `sequence`, counted from 1, if it has arrived.
    #[must_use]
    pub fn peek(&self, sequence: u32, row: usize) -> Option<u32> {
        let place = (sequence % MAILBOX_STEPS) as usize * STEP_ROWS + row % STEP_ROWS;
        let word = wide_words(&self.memory)[place].load(Ordering::Acquire);
        #[allow(clippy::cast_possible_truncation)] // the low half
        let token = word as u32;
        (word >> 32 == u64::from(sequence)).then_some(token)
    }

    /// Waits for the tokens of the first rows of step `sequence`. It spins for at most `spin`, then calls `block`, which returns
    /// once the step has ended.
    ///
    /// # Errors
    /// The error of `block`, or that the step ended without its tokens.
    pub fn wait(
        &self,
        sequence: u32,
        rows: usize,
        spin: Duration,
        block: impl FnOnce() -> Result<()>,
    ) -> Result<[u32; STEP_ROWS]> {
        let mut tokens = [0; STEP_ROWS];
        let start = Instant::now();
        let mut block = Some(block);
        for (row, token) in tokens.iter_mut().enumerate().take(rows) {
            *token = loop {
                if let Some(token) = self.peek(sequence, row) {
                    break token;
                }
                if start.elapsed() < spin {
                    std::hint::spin_loop();
                    continue;
                }
                let block = block.take().ok_or(Error::NoToken { sequence })?;
                block()?;
            };
        }
        Ok(tokens)
    }
}

/// The words of pinned memory, which the CPU accesses atomically only.
pub(super) fn words(memory: &Pinned) -> &[AtomicU32] {
    // SAFETY: page-aligned bytes that live as long as `memory`, whose owners in this file touch them atomically only.
    unsafe { std::slice::from_raw_parts(memory.host().as_ptr().cast(), memory.bytes() / 4) }
}

pub(super) fn wide_words(memory: &Pinned) -> &[AtomicU64] {
    // SAFETY: as above.
    unsafe { std::slice::from_raw_parts(memory.host().as_ptr().cast(), memory.bytes() / 8) }
}
