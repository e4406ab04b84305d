//! What kernels share besides weights and slots; all allocated once.

use std::rc::Rc;

use super::{attend, launch};
use crate::device::{
    Arena, Context, Error, Memory, PageTables, Plan, PromptMailbox, Region, Row, STEP_ROWS,
    SamplerState, StepMailbox, Stream, TokenMailbox,
};
use crate::tape::{KvInfo, PAGE};

/// In device memory, and the mailboxes in pinned memory.
#[derive(Debug)]
pub(super) struct Scratch {
    pub(super) arena: Arena,
    pub(super) addresses: launch::Addresses,
    pub(super) steps: StepMailbox,
    pub(super) prompts: PromptMailbox,
    pub(super) tokens: TokenMailbox,
    pub(super) tables: PageTables,
    /// (conversations, pages)
    pub(super) device_tables: Region,
    pub(super) prompt: Region,
}

/// Where each thing lies.
#[derive(Debug)]
pub(super) struct Regions {
    conversations: Region,
    tables: Region,
    rows: Region,
    /// A command, whose row is the prompt's, and tokens.
    prompt: Region,
    sequence: Region,
    pub(super) angles: Region,
    arrivals: Region,
    best: Region,
}

impl Scratch {
    pub(super) fn plan(kv: KvInfo, rows: usize) -> Result<(Plan, Regions), Error> {
        let mut plan = Plan::new();
        let regions = Regions {
            conversations: plan.add(kv.slots * SamplerState::CONVERSATION_BYTES)?,
            tables: plan.add(8 * kv.slots * pages(kv))?,
            rows: plan.add(STEP_ROWS * Row::BYTES)?,
            prompt: plan.add(PromptMailbox::bytes(rows))?,
            sequence: plan.add(4)?,
            angles: plan.add(8 * kv.context * (kv.head_dim / 2))?,
            arrivals: plan.add(4 * attend::most_arrivals(kv))?,
            best: plan.add(8 * launch::CHOOSE_BLOCKS as usize * STEP_ROWS)?,
        };
        Ok((plan, regions))
    }

    pub(super) fn new(
        context: &Rc<Context>,
        rope_frequencies: &[f32],
        kv: KvInfo,
        rows: usize,
        stream: &mut Stream,
    ) -> Result<Self, Error> {
        let (plan, at) = Self::plan(kv, rows)?;
        let mut arena = Arena::new(context, Memory::Device, &plan)?;
        // (cos, sin), computed as the reference computes them.
        let angle = |position: usize, frequency: &f32| {
            #[allow(clippy::cast_precision_loss)] // as the reference does, in f32
            let (sin, cos) = (position as f32 * frequency).sin_cos();
            [cos, sin]
        };
        let table =
            (0..kv.context).flat_map(|p| rope_frequencies.iter().flat_map(move |f| angle(p, f)));
        arena.write(
            at.angles,
            &table.flat_map(f32::to_le_bytes).collect::<Vec<u8>>(),
            stream,
        )?;
        for region in [
            at.conversations,
            at.tables,
            at.rows,
            at.prompt,
            at.sequence,
            at.arrivals,
        ] {
            arena.set(region, 0, stream)?;
        }
        let steps = StepMailbox::new(context)?;
        let prompts = PromptMailbox::new(context, rows, stream)?;
        let tokens = TokenMailbox::new(context)?;
        let tables = PageTables::new(context, kv.slots * pages(kv))?;
        let prompt = arena.address(at.prompt)?;
        let addresses = launch::Addresses {
            conversations: arena.address(at.conversations)?,
            tables: arena.address(at.tables)?,
            rows: arena.address(at.rows)?,
            prompt,
            sequence: arena.address(at.sequence)?,
            angles: arena.address(at.angles)?,
            arrivals: arena.address(at.arrivals)?,
            best: arena.address(at.best)?,
            steps: steps.address(),
            tokens: tokens.address(),
            host_tables: tables.address(),
        };
        Ok(Self {
            arena,
            addresses,
            steps,
            prompts,
            tokens,
            tables,
            device_tables: at.tables,
            prompt: at.prompt,
        })
    }
}

/// Pages of a conversation's table.
pub(super) fn pages(kv: KvInfo) -> usize {
    kv.context.div_ceil(PAGE)
}
