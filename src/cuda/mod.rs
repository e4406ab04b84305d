//! The CUDA executor: each operation of a step is one launch, and a step is one graph. Prompts have kernels of their own.
//!
//! It knows tapes, kernels and memory: not what a model is, nor where its weights come from. An address
//! never changes once it has been launched with, so what was recorded stays good.

mod attend;
mod cache_types;
mod executor;
mod inspect;
mod kernels;
mod late;
mod launch;
mod limits;
mod load;
mod memory;
mod memory_estimate;
mod opened;
mod pace;
mod pages;
mod parts;
mod product;
mod prompt;
mod prompt_attend;
mod queue;
mod recache;
mod run;
mod scratch;
mod shapes;
mod splits;
mod state;
mod step;
mod step_attend;
mod step_shared;
mod thread;
mod timestamps;
mod work;

use std::collections::VecDeque;
use std::ops::Range;
use std::rc::Rc;
use std::time::{Duration, Instant};

use self::kernels::Kernels;
use self::late::Late;
pub use self::limits::{Unsuited, suits};
pub use self::memory::Places;
use self::memory::{Buffers, Weight};
pub use self::memory_estimate::memory_estimate;
pub use self::opened::Device;
use self::pace::Pace;
use self::pages::Pages;
use self::scratch::Scratch;
use self::state::{Conversation, Listed};
use self::step::CudaStep;
use self::timestamps::Timestamps;
use self::work::Work;
pub use crate::device::Error;
use crate::device::{Arena, Context, Event, STEP_ROWS, Stream};
pub use crate::device::{MemoryKind, is_jetson};
use crate::executor::{Preempted, Rows};
use crate::graph::{Buckets, DecodeGraph, Graph, Key, Ran};
use crate::tape::{
    Angles, DType, Ending, GraphOptions, KvInfo, Source, StepTimes, Tape, WeightInfo,
};

// A tape has as many rows as a mailbox takes.
const _: () = assert!(STEP_ROWS == crate::tape::STEP_ROWS);

/// How to run on a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    pub places: Places,
    /// The most rows of a prompt that run at once.
    pub rows: usize,
    /// The type of activations of every tape that will run.
    pub activation: DType,
    pub graph: GraphOptions,
    /// How long to spin for a token before the thread sleeps.
    pub spin: Duration,
}

/// Steps that may be launched before the first one's token has been taken.
const AHEAD: usize = 2;

/// Halves of a prompt's layers that are queued, where it may be left between two: one runs, and the next is launched meanwhile.
/// Whoever comes waits for what is queued.
const HALVES_AHEAD: usize = 2;

/// Halves of a prompt's layers that are queued behind steps, while the tokens of these are taken.
const HALVES_BEHIND: usize = 2;

/// A step whose tokens have not been taken. It is made for every token, so it lies in place.
#[derive(Clone, Copy, Debug)]
struct Launched {
    ran: Ran,
    /// The conversation of each of its rows.
    rows: [usize; STEP_ROWS],
    count: usize,
    /// Its first operation that was not launched, and how many it has.
    next: usize,
    end: usize,
}

impl Launched {
    /// All of it was launched.
    fn new(ran: Ran, entries: &[usize]) -> Self {
        Self::of(ran, entries, 0..0)
    }

    fn of(ran: Ran, entries: &[usize], left: Range<usize>) -> Self {
        let mut rows = [0; STEP_ROWS];
        let count = entries.len().min(STEP_ROWS);
        rows[..count].copy_from_slice(&entries[..count]);
        let Range { start: next, end } = left;
        Self {
            ran,
            rows,
            count,
            next,
            end,
        }
    }

    fn entries(&self) -> &[usize] {
        &self.rows[..self.count]
    }
}

/// A model's weights, cache and activations on a device, and the graph of its step.
#[derive(Debug)]
pub struct Cuda {
    // Dropped in this order: what can still run before what it runs on.
    graph: DecodeGraph<Graph>,
    prompts: Buckets<Graph>,
    /// Steps launched whose tokens have not been taken, oldest first.
    pending: VecDeque<Launched>,
    /// The step that was left between two of its parts; then nothing is pending.
    left: Option<Launched>,
    /// The end of step n, as far as it was launched, is marked in place n % AHEAD.
    ends: [Event; AHEAD],
    /// The ends of halves of a prompt's layers, in turn.
    halves: [Event; HALVES_AHEAD],
    /// Prompts that were left between two halves.
    preempted: Preempted,
    /// The prompt that was begun behind steps whose tokens were not taken then, and its first operation that was not launched.
    started: Option<(Rows, usize)>,
    kernels: Kernels,
    weights: Vec<Weight>,
    buffers: Buffers,
    pages: Pages,
    /// There is one for each entry.
    conversations: Vec<Conversation>,
    /// Their masks that are still being made.
    late: Late,
    /// The one whose turn runs.
    entry: usize,
    listed: Listed,
    /// How often an address has changed.
    moves: u64,
    scratch: Scratch,
    timestamps: Option<Timestamps>,
    /// Steps that are timed in passing leave theirs here.
    in_passing: Option<Timestamps>,
    weight_arena: Arena,
    stream: Stream,
    context: Rc<Context>,
    image: &'static str,
    options: Options,
    kv: KvInfo,
    vocabulary: usize,
    /// Steps and prompts that have ended with a token since the start, wanted or not.
    sequence: u32,
    times: StepTimes,
    pace: Pace,
    /// When the last token was taken while nothing more was queued.
    idle_since: Option<Instant>,
    /// The rows of logits of the last run that ended with them.
    logits: Vec<f32>,
}

impl Cuda {
    /// Allocates everything but the buffers on a device, and fills the weights from `source`; `read` hears of the bytes of
    /// each piece.
    pub fn new<S: Source>(
        Device { context, modules }: Device,
        infos: &[WeightInfo],
        angles: &[Angles],
        kv: KvInfo,
        options: Options,
        (source, read): (&S, &mut dyn FnMut(usize)),
    ) -> Result<Self, S::Error>
    where
        S::Error: From<Error>,
    {
        let mut stream = Stream::new(&context)?;
        let integrated = context.properties().integrated;
        let storages = memory::storages(infos, options.activation);
        let kernels = Kernels::load(&modules, options.activation, kv, &storages)?;
        let (weight_arena, weights) = load::load(
            &context,
            options.places.weights(integrated),
            (infos, options.activation),
            &mut stream,
            (source, read),
        )?;
        let pages = Pages::new(&context, options.places.kv(integrated), kv, &mut stream)?;
        let vocabulary = infos.first().map_or(0, |table| table.rows);
        let widths = (vocabulary, options.rows);
        let scratch = Scratch::new(&context, angles, kv, widths, &mut stream)?;
        let graph = &options.graph;
        let mut cuda = Self {
            graph: DecodeGraph::new(graph.mode, graph.verify_addresses),
            prompts: Buckets::new(graph.capture_sizes.clone(), graph.budget),
            pending: VecDeque::with_capacity(AHEAD),
            left: None,
            ends: [Event::new(&context)?, Event::new(&context)?],
            halves: [Event::new(&context)?, Event::new(&context)?],
            preempted: Preempted::default(),
            started: None,
            kernels,
            weights,
            buffers: Buffers::default(),
            pages,
            conversations: vec![Conversation::default(); kv.entries],
            late: Late::default(),
            entry: 0,
            listed: Listed::default(),
            moves: 0,
            scratch,
            timestamps: None,
            in_passing: None,
            weight_arena,
            stream,
            image: modules.kind(),
            context,
            options,
            kv,
            vocabulary,
            sequence: 0,
            times: StepTimes::default(),
            pace: Pace::default(),
            idle_since: None,
            logits: Vec::new(),
        };
        cuda.give_tables()?;
        Ok(cuda)
    }

    /// Has the device know the pages of all conversations, before any of them begins.
    fn give_tables(&mut self) -> Result<(), Error> {
        let addresses = self.pages.addresses()?;
        for (index, address) in addresses.iter().enumerate() {
            self.scratch.tables.set(index, *address);
        }
        let bytes: Vec<u8> = addresses.iter().flat_map(|at| at.to_le_bytes()).collect();
        let tables = self.scratch.device_tables;
        self.scratch.arena.write(tables, &bytes, &mut self.stream)
    }

    /// The device and the image that runs on it, for people.
    #[must_use]
    pub fn describe(&self) -> String {
        let properties = self.context.properties();
        format!("{}, {}", properties.name, self.image)
    }

    /// Gives unified weights over to the stream when they are first needed: a discrete device begins to move them
    /// then.
    fn give_weights(&mut self) -> Result<(), Error> {
        self.weight_arena.attach(&mut self.stream)
    }

    fn key(&self, tape: &Tape) -> Key {
        Key {
            rows: tape.rows,
            token: tape.ending == Ending::Token,
            // It is found on the device.
            entry: 0,
            moves: self.moves,
        }
    }

    /// A tape, ready to be launched, beside the graphs that may do it.
    fn split<'a>(
        &'a mut self,
        tape: &'a Tape,
    ) -> (
        CudaStep<'a>,
        &'a mut DecodeGraph<Graph>,
        &'a mut Buckets<Graph>,
    ) {
        let ahead = narrow(self.pending.len());
        let step = CudaStep {
            work: Work {
                kernels: &self.kernels,
                multiprocessors: self.context.properties().multiprocessors,
                weights: &self.weights,
                buffers: &self.buffers,
                addresses: &self.scratch.addresses,
                pages: &self.pages,
                kv: self.kv,
            },
            stream: &mut self.stream,
            tape,
            layout: self.moves * (STEP_ROWS + 1) as u64 + tape.rows.min(STEP_ROWS) as u64,
            timestamps: self.timestamps.as_ref().map(Timestamps::addresses),
            part_bytes: self.options.graph.part_bytes,
            mailbox: &self.scratch.tokens,
            sequence: self.sequence.wrapping_add(ahead + 1),
        };
        (step, &mut self.graph, &mut self.prompts)
    }
}

/// Positions and rows are bounded by the context, which is far below 2^32.
fn narrow(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}
