//! Memory that kernels share besides weights and buffers, allocated once.

use std::rc::Rc;

use super::narrow::narrow;
use super::splits;
use super::work::{Addresses, SAMPLE_BLOCKS};
use crate::device::{
    Arena, Context, Error, Masks, MemoryKind, PageTables, Plan, PromptMailbox, Region, Row,
    STEP_ROWS, SamplerState, Scores, StepMailbox, Stream, TokenMailbox, Upload,
};
use crate::sampler::Mask;
use crate::tape::{Angles, KvInfo, Op, Tape};

/// Bytes of a row of a prompt with images: `Shown` of `kernels/state.cuh`.
pub(super) const SHOWN_BYTES: usize = 16;

/// Device memory besides weights and cache, and the mailboxes in pinned memory.
#[derive(Debug)]
pub(super) struct Scratch {
    pub(super) arena: Arena,
    pub(super) addresses: Addresses,
    pub(super) steps: StepMailbox,
    pub(super) prompts: PromptMailbox,
    pub(super) tokens: TokenMailbox,
    pub(super) tables: PageTables,
    /// (slots, pages)
    pub(super) device_tables: Region,
    pub(super) prompt: Region,
    /// The masks in pinned memory, and their destination (slots + STEP_ROWS, words).
    pub(super) masks: (Masks, Region),
    /// (rows): how the rows of a prompt with images rotate and see each other.
    pub(super) shown: Region,
    /// The mask of conversations without a guide.
    pub(super) allowed: Region,
    pub(super) upload: Upload,
    pub(super) scores: Scores,
}

/// The regions of scratch memory.
#[derive(Debug)]
pub(super) struct Regions {
    conversations: Region,
    tables: Region,
    rows: Region,
    /// The command and the tokens of a prompt.
    prompt: Region,
    sequence: Region,
    pub(super) angles: Region,
    arrivals: Region,
    best: Region,
    masks: Region,
    shown: Region,
    allowed: Region,
}

impl Scratch {
    /// Sends the mask for token `number` to its index in device memory: a slot, or a place for the mask after a guess.
    pub(super) fn send_mask(
        &mut self,
        index: usize,
        number: u32,
        mask: &Mask,
    ) -> Result<(), Error> {
        let (masks, to) = &mut self.masks;
        masks.send(index, (number, mask.words()), (&mut self.arena, *to))
    }

    /// Plans the memory for a vocabulary and the rows of a prompt.
    pub(super) fn plan(
        kv: KvInfo,
        tables: Tables,
        (vocabulary, rows): (usize, usize),
    ) -> Result<(Plan, Regions), Error> {
        let mut plan = Plan::new();
        let regions = Regions {
            conversations: plan.add(kv.slots * SamplerState::CONVERSATION_BYTES)?,
            tables: plan.add(8 * kv.slots * kv.blocks() * kv.groups())?,
            rows: plan.add(STEP_ROWS * Row::BYTES)?,
            prompt: plan.add(PromptMailbox::bytes(rows))?,
            sequence: plan.add(4)?,
            angles: plan.add(tables.count * tables.pitch(kv))?,
            arrivals: plan.add(4 * splits::most_arrivals(kv))?,
            best: plan.add(8 * SAMPLE_BLOCKS as usize * STEP_ROWS)?,
            masks: plan.add(4 * Masks::words(vocabulary) * (kv.slots + STEP_ROWS))?,
            shown: plan.add(SHOWN_BYTES * rows)?,
            allowed: plan.add(4 * Masks::words(vocabulary))?,
        };
        Ok((plan, regions))
    }

    pub(super) fn new(
        context: &Rc<Context>,
        angles: &[Angles],
        kv: KvInfo,
        (vocabulary, rows): (usize, usize),
        stream: &mut Stream,
    ) -> Result<Self, Error> {
        let tables = Tables::of(angles.iter().map(|table| table.frequencies.len()));
        let (plan, at) = Self::plan(kv, tables, (vocabulary, rows))?;
        let mut arena = Arena::new(context, MemoryKind::Device, &plan)?;
        let mut bytes = Vec::with_capacity(at.angles.bytes());
        for (index, table) in angles.iter().enumerate() {
            let turns = (0..kv.context).flat_map(|position| table.at(position));
            bytes.extend(
                turns
                    .flat_map(|(sin, cos)| [cos, sin])
                    .flat_map(f32::to_le_bytes),
            );
            bytes.resize((index + 1) * tables.pitch(kv), 0);
        }
        arena.write(at.angles, &bytes, stream)?;
        for region in [
            at.conversations,
            at.tables,
            at.rows,
            at.prompt,
            at.sequence,
            at.arrivals,
            at.masks,
        ] {
            arena.set(region, 0, stream)?;
        }
        let steps = StepMailbox::new(context)?;
        let prompts = PromptMailbox::new(context, rows, stream)?;
        let tokens = TokenMailbox::new(context)?;
        let page_tables = PageTables::new(context, kv.slots * kv.blocks() * kv.groups())?;
        let masks = Masks::new(context, kv.slots + STEP_ROWS, vocabulary)?;
        let scores = Scores::new(context)?;
        let prompt = arena.address(at.prompt)?;
        let addresses = Addresses {
            conversations: arena.address(at.conversations)?,
            tables: arena.address(at.tables)?,
            rows: arena.address(at.rows)?,
            prompt,
            sequence: arena.address(at.sequence)?,
            angles: arena.address(at.angles)?,
            angles_pitch: tables.pitch(kv) as u64,
            arrivals: arena.address(at.arrivals)?,
            best: arena.address(at.best)?,
            masks: arena.address(at.masks)?,
            allowed: 0,
            shown: arena.address(at.shown)?,
            mask_words: narrow(Masks::words(vocabulary)),
            steps: steps.address(),
            tokens: tokens.address(),
            scores: scores.address(),
            host_tables: page_tables.address(),
        };
        Ok(Self {
            arena,
            addresses,
            steps,
            prompts,
            tokens,
            tables: page_tables,
            device_tables: at.tables,
            prompt: at.prompt,
            masks: (masks, at.masks),
            shown: at.shown,
            allowed: at.allowed,
            upload: Upload::new(context, stream)?,
            scores,
        })
    }
}

/// The tables of angles, each (position, pairs) of (cos, sin), at equal distances.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tables {
    count: usize,
    /// The pairs of the widest table.
    pairs: usize,
}

impl Tables {
    /// Tables with these numbers of pairs.
    pub(super) fn of(pairs: impl Iterator<Item = usize>) -> Self {
        pairs.fold(Self::default(), |Self { count, pairs }, of| Self {
            count: count + 1,
            pairs: pairs.max(of),
        })
    }

    /// The tables that a tape's layers use.
    pub(super) fn of_tape(tape: &Tape) -> Self {
        let turning = tape.ops.iter().filter_map(|op| match op {
            Op::RopeStore { rotation, .. } if rotation.dims > 0 => Some(rotation),
            _ => None,
        });
        turning.fold(Self::default(), |Self { count, pairs }, rotation| Self {
            count: count.max(rotation.table + 1),
            pairs: pairs.max(rotation.dims / 2),
        })
    }

    /// Bytes from one table to the next. Kernels read two pairs at a time.
    fn pitch(self, kv: KvInfo) -> usize {
        (8 * kv.context * self.pairs).next_multiple_of(16)
    }
}
