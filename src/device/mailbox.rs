//! The mailboxes between the CPU and a running graph: pinned, each written by one side only.
//!
//! Exactly one kernel reads commands and one writes tokens: pinned memory is not cached by an integrated GPU, and many
//! warps polling it cost more than the work. What a command and a row are stands in `kernels/state.cuh`.

use std::rc::Rc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::{Arena, Context, Error, Event, Pinned, Region, Result, Stream};

/// Rows of a step, at most: those of `kernels/state.cuh`.
pub const STEP_ROWS: usize = 8;
/// The entry of a row that only fills a step up to a recorded size.
pub const NOBODY: u32 = u32::MAX;

/// Steps whose commands are there at once, more than may be launched ahead.
const COMMANDS: u32 = 4;
/// Steps whose tokens are there at once.
pub(super) const TOKENS: u32 = 8;

/// One row of a step, or all rows of a prompt.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Row {
    /// The conversation, by its place on the device.
    pub entry: u32,
    /// The row stands there, or a prompt's first.
    pub position: u32,
    pub token: u32,
    /// The first row of this step that is of the same conversation.
    pub first: u32,
    /// 1 if the conversation goes on from here: its last row of this step.
    pub advances: u32,
    /// Number of the token that it ends with.
    pub sequence: u32,
    /// Rows of a prompt that are real.
    pub count: u32,
    pub unused: u32,
}

impl Row {
    pub const BYTES: usize = size_of::<Self>();
    /// Where `count` is in it.
    pub const COUNT_AT: u64 = std::mem::offset_of!(Self, count) as u64;

    const fn words(self) -> [u32; 8] {
        [
            self.entry,
            self.position,
            self.token,
            self.first,
            self.advances,
            self.sequence,
            self.count,
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
    /// How many random numbers were drawn, low half first.
    pub counter: [u32; 2],
    pub seed: [u32; 2],
    /// How many of the most probable tokens are told with each, and 1; 0: nothing is told.
    pub best: u32,
    /// Tokens that `history` has seen.
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
    /// Bytes of what a conversation keeps on the device: token, position, guide, a pad, sampler.
    pub const CONVERSATION_BYTES: usize = 16 + size_of::<Self>();

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

/// What a row, and the conversation it names, are to start from.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Command {
    pub row: Row,
    /// Whether the conversation's token and position are the row's from now on, rather than where it stands.
    pub moves: bool,
    pub sampler: Option<SamplerState>,
    /// Pages of the conversation's table that are new in the host's copy: the first, and how many.
    pub pages: (u32, u32),
    /// Number of the token that the conversation's next mask is of; 0: none is needed from now on.
    pub guide: Option<u32>,
}

impl Command {
    /// Where a prompt's tokens begin behind its command, in device memory.
    pub const TOKENS_AT: u64 = Self::BYTES as u64;

    /// Words of a command: its row, flags, pages and guide; a sampler; a pad.
    const WORDS: usize = 96;
    const BYTES: usize = 4 * Self::WORDS;
    const SEQUENCE_AT: usize = 5;
    const FLAGS_AT: usize = size_of::<Row>() / 4;
    const SAMPLER_AT: usize = Self::FLAGS_AT + 4;

    fn store(&self, words: &[AtomicU32]) {
        // `CommandFlags` of `kernels/state.cuh`.
        const TOKEN_AND_POSITION: u32 = 1 | 2;
        const SAMPLER: u32 = 4;
        const PAGES: u32 = 8;
        const GUIDE: u32 = 16;
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
        // Last: whoever sees it sees the rest.
        words[Self::SEQUENCE_AT].store(self.row.sequence, Ordering::Release);
    }
}

const _: () = assert!(Command::SAMPLER_AT + SamplerState::WORDS <= Command::WORDS);

/// CPU to GPU: what rows of a step start from, if not from where the last step left them.
#[derive(Debug)]
pub struct StepMailbox {
    memory: Pinned,
}

impl StepMailbox {
    pub fn new(context: &Rc<Context>) -> Result<Self> {
        let memory = Pinned::new(context, COMMANDS as usize * STEP_ROWS * Command::BYTES)?;
        Ok(Self { memory })
    }

    /// Where the GPU sees it.
    #[must_use]
    pub fn address(&self) -> u64 {
        self.memory.address()
    }

    /// Puts in what a row of step `command.row.sequence` is to take. The caller has not launched that step yet, and has
    /// seen the token of the one `COMMANDS` before it.
    pub fn post(&mut self, row: usize, command: &Command) {
        let place = (command.row.sequence % COMMANDS) as usize * STEP_ROWS + row % STEP_ROWS;
        command.store(&words(&self.memory)[place * Command::WORDS..][..Command::WORDS]);
    }
}

/// CPU to GPU: a prompt's rows and tokens, which a copy takes to where kernels read them: each of many blocks reads its
/// own token, and none over the bus.
#[derive(Debug)]
pub struct PromptMailbox {
    memory: Pinned,
    /// The end of the last copy.
    copied: Event,
    rows: usize,
}

impl PromptMailbox {
    /// Makes one for prompts of at most `rows` rows.
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

    /// What it takes on the device: a command, then tokens.
    #[must_use]
    pub const fn bytes(rows: usize) -> usize {
        Command::BYTES + 4 * rows
    }

    /// Queues that a prompt comes to `to`, once the one before it has been copied.
    ///
    /// # Errors
    /// If there are more tokens than it was made for, or the driver refuses.
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

/// CPU to GPU: the pages of each conversation, of which a command says what is new.
#[derive(Debug)]
pub struct PageTables {
    memory: Pinned,
}

impl PageTables {
    pub fn new(context: &Rc<Context>, addresses: usize) -> Result<Self> {
        let memory = Pinned::new(context, 8 * addresses)?;
        Ok(Self { memory })
    }

    /// Where the GPU sees them.
    #[must_use]
    pub fn address(&self) -> u64 {
        self.memory.address()
    }

    /// Puts an address in, where no command that was launched says that it is new.
    pub fn set(&mut self, index: usize, address: u64) {
        if let Some(word) = wide_words(&self.memory).get(index) {
            word.store(address, Ordering::Relaxed);
        }
    }
}

/// GPU to CPU: chosen tokens, each with its number in one 8-byte store. Those of step n are in place n % `TOKENS`, so that
/// one queued ahead does not overwrite one not yet read.
#[derive(Debug)]
pub struct TokenMailbox {
    memory: Pinned,
}

impl TokenMailbox {
    pub fn new(context: &Rc<Context>) -> Result<Self> {
        Pinned::new(context, TOKENS as usize * STEP_ROWS * 8).map(|memory| Self { memory })
    }

    /// Where the GPU sees it.
    #[must_use]
    pub fn address(&self) -> u64 {
        self.memory.address()
    }

    /// What a row of step `sequence`, counted from 1, has chosen, if it has arrived.
    #[must_use]
    pub fn peek(&self, sequence: u32, row: usize) -> Option<u32> {
        let place = (sequence % TOKENS) as usize * STEP_ROWS + row % STEP_ROWS;
        let word = wide_words(&self.memory)[place].load(Ordering::Acquire);
        #[allow(clippy::cast_possible_truncation)] // the low half
        let token = word as u32;
        (word >> 32 == u64::from(sequence)).then_some(token)
    }

    /// What the first `rows` rows of step `sequence` have chosen: spins for at most `spin`, then waits by `block`, which
    /// returns once the step has ended, and fails if it has failed.
    ///
    /// # Errors
    /// What `block` says; or that the step ended without its tokens.
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

/// What the CPU touches atomically only.
pub(super) fn words(memory: &Pinned) -> &[AtomicU32] {
    // SAFETY: page-aligned bytes that live as long as `memory`, whose owners in this file touch them atomically only.
    unsafe { std::slice::from_raw_parts(memory.host().as_ptr().cast(), memory.bytes() / 4) }
}

pub(super) fn wide_words(memory: &Pinned) -> &[AtomicU64] {
    // SAFETY: as above.
    unsafe { std::slice::from_raw_parts(memory.host().as_ptr().cast(), memory.bytes() / 8) }
}
