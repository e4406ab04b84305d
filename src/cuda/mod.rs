//! The CUDA executor. An operation of a step is one launch, and a step is one graph; prompts have other kernels.
//!
//! It knows tapes, kernels and device memory. It knows no model and reads no files. `encode` runs the tapes of vision
//! towers, as an executor of its own.
//! Addresses that a launch has used never change, so that recordings stay valid.

mod activation;
mod attend;
mod cache_types;
mod encode;
mod encode_kernels;
mod encode_linear;
mod encode_needs;
mod encode_ops;
mod executor;
mod hidden;
mod images;
mod inspect;
mod kernels;
mod late;
mod launch;
mod limits;
mod load;
mod memory;
mod memory_estimate;
mod narrow;
mod opened;
mod pace;
mod page_access;
mod pages;
mod parts;
mod probe;
mod product;
mod prompt;
mod prompt_attend;
mod queue;
mod recache;
mod recurrent;
mod recurrent_kernels;
mod retired;
mod rows;
mod run;
mod scratch;
mod send_late;
mod shapes;
mod splits;
mod state;
mod state_access;
mod states;
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
use self::narrow::narrow;
pub use self::opened::Device;
use self::pace::Pace;
use self::pages::Pages;
use self::scratch::Scratch;
use self::state::{Conversation, Listed};
use self::states::States;
use self::step::CudaStep;
use self::timestamps::Timestamps;
use self::work::Work;
pub use crate::device::Error;
use crate::device::{Arena, Context, Event, Modules, STEP_ROWS, Stream, TokenMailbox};
pub use crate::device::{MemoryKind, is_jetson};
use crate::executor::{Base, PromptRows, WeightSource};
use crate::graph::{Buckets, DecodeGraph, Graph, GraphOptions, Key, Ran};
use crate::quant::DType;
use crate::sampler::Mask;
use crate::tape::{Angles, Ending, KvInfo, StateInfo, Tape, WeightInfo};

// A mailbox has room for the rows of any tape.
const _: () = assert!(STEP_ROWS == crate::tape::STEP_ROWS);

/// How to run on a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    pub places: Places,
    /// The most rows of a prompt in one run.
    pub rows: usize,
    /// The type of activations of every tape that will run.
    pub activation: DType,
    /// The recurrent states of every tape, in models with recurrent layers.
    pub state: Option<StateInfo>,
    /// Whether the tapes may be those of a vision tower.
    pub tower: bool,
    pub graph: GraphOptions,
    /// How long the thread spins for a token before it sleeps.
    pub spin: Duration,
}

/// Steps that may be in flight: launched, and their tokens not taken.
const AHEAD: usize = 2;

/// Half layers of a preemptible prompt that are queued: one runs while the next is launched. An arriving request waits for
/// the queued ones.
const HALVES_AHEAD: usize = 2;

/// Half layers of a prompt that are queued after steps in flight, while the tokens of these are taken.
const HALVES_BEHIND: usize = 2;

/// A step whose tokens have not been taken. It is created for every token, so it needs no allocation.
#[derive(Clone, Copy, Debug)]
struct Launched {
    ran: Ran,
    /// The slot of each row.
    rows: [usize; STEP_ROWS],
    count: usize,
    /// The first operation that was not launched, and the number of operations.
    next: usize,
    end: usize,
}

impl Launched {
    /// A step that was launched as a whole.
    fn new(ran: Ran, slots: &[usize]) -> Self {
        Self::of(ran, slots, 0..0)
    }

    fn of(ran: Ran, slots: &[usize], rest: Range<usize>) -> Self {
        let mut rows = [0; STEP_ROWS];
        let count = slots.len().min(STEP_ROWS);
        rows[..count].copy_from_slice(&slots[..count]);
        let Range { start: next, end } = rest;
        Self {
            ran,
            rows,
            count,
            next,
            end,
        }
    }

    fn slots(&self) -> &[usize] {
        &self.rows[..self.count]
    }
}

/// A model's weights, cache and activations on a device, and the graph of its step.
#[derive(Debug)]
pub struct Cuda {
    // Fields drop in this order: recordings before the memory that they use.
    base: Base<Graph>,
    /// The recordings of a retired executor, until this one continues them.
    recordings: Option<Base<Graph>>,
    /// The steps in flight, oldest first.
    pending: VecDeque<Launched>,
    /// The step that was preempted between two of its parts; then no step is pending.
    preempted_step: Option<Launched>,
    /// The end of the launched parts of step n is the event n % AHEAD.
    ends: [Event; AHEAD],
    /// The ends of half layers of a prompt, alternating.
    halves: [Event; HALVES_AHEAD],
    /// The prompt that was launched in part after steps in flight, and its first operation that was not launched.
    started: Option<(PromptRows, usize)>,
    kernels: Kernels,
    weights: Vec<Weight>,
    buffers: Buffers,
    pages: Pages,
    /// In models with recurrent layers.
    states: Option<States>,
    /// The conversation of each slot.
    conversations: Vec<Conversation>,
    /// Masks that are still being computed.
    late: Late,
    /// The tokens that a conversation may choose without a guide; `None` allows all.
    allowed: Option<Mask>,
    /// The active slot.
    slot: usize,
    listed: Listed,
    scratch: Scratch,
    timestamps: Option<Timestamps>,
    /// The timestamps of `time_step`.
    single_step_timestamps: Option<Timestamps>,
    weight_arena: Arena,
    stream: Stream,
    /// The loaded kernels, which the recordings name.
    modules: Rc<Modules>,
    context: Rc<Context>,
    image: &'static str,
    options: Options,
    kv: KvInfo,
    vocabulary: usize,
    /// Steps and prompts that have ended with a token since the start, including discarded ones.
    sequence: u32,
    pace: Pace,
    /// When the last token was taken, if the device is idle since then.
    idle_since: Option<Instant>,
    /// The logits of the last run that ended with them.
    logits: Vec<f32>,
}

impl Cuda {
    /// Allocates all memory except the buffers, and reads the weights from `source`. `read` is called with the bytes of each
    /// piece.
    pub fn new<S: WeightSource>(
        Device {
            recordings,
            modules,
            context,
        }: Device,
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
        let kinds = (kv, options.state, options.tower);
        let kernels = Kernels::load(&modules, options.activation, kinds, &storages)?;
        let (weight_arena, weights) = load::load(
            &context,
            options.places.weights(integrated),
            (infos, options.activation),
            &mut stream,
            (source, read),
        )?;
        let pages = Pages::new(&context, options.places.kv(integrated), kv, &mut stream)?;
        let memory = options.places.kv(integrated);
        let states = (options.state)
            .map(|info| States::new(&context, memory, info, &mut stream))
            .transpose()?;
        let vocabulary = infos.first().map_or(0, |table| table.rows);
        let widths = (vocabulary, options.rows);
        let scratch = Scratch::new(&context, angles, kv, widths, &mut stream)?;
        let mut cuda = Self {
            base: Base::new(&options.graph),
            recordings,
            pending: VecDeque::with_capacity(AHEAD),
            preempted_step: None,
            ends: [Event::new(&context)?, Event::new(&context)?],
            halves: [Event::new(&context)?, Event::new(&context)?],
            started: None,
            kernels,
            weights,
            buffers: Buffers::default(),
            pages,
            conversations: conversations(kv, states.as_ref()),
            states,
            late: Late::default(),
            allowed: None,
            slot: 0,
            listed: Listed::default(),
            scratch,
            timestamps: None,
            single_step_timestamps: None,
            weight_arena,
            stream,
            image: modules.kind(),
            modules,
            context,
            options,
            kv,
            vocabulary,
            sequence: 0,
            pace: Pace::default(),
            idle_since: None,
            logits: Vec::new(),
        };
        cuda.send_tables()?;
        Ok(cuda)
    }

    /// Sends the page tables of all conversations, before any of them begins.
    fn send_tables(&mut self) -> Result<(), Error> {
        let addresses = self.pages.addresses()?;
        for (index, address) in addresses.iter().enumerate() {
            self.scratch.tables.set(index, *address);
        }
        let bytes: Vec<u8> = addresses.iter().flat_map(|at| at.to_le_bytes()).collect();
        let tables = self.scratch.device_tables;
        self.scratch.arena.write(tables, &bytes, &mut self.stream)
    }

    /// The names of the device and of the image that runs on it.
    #[must_use]
    pub fn describe(&self) -> String {
        let properties = self.context.properties();
        format!("{}, {}", properties.name, self.image)
    }

    /// Attaches unified weights to the stream on first use. A discrete device starts to move them then.
    fn attach_weights(&mut self) -> Result<(), Error> {
        self.weight_arena.attach(&mut self.stream)
    }

    fn key(&self, tape: &Tape) -> Key {
        Key {
            rows: tape.rows,
            token: tape.ending == Ending::Token,
            // The device finds the slot in the command.
            slot: 0,
            moves: self.base.moves,
        }
    }

    /// The context of launches, and what changes while they run: the stream, and the recordings.
    fn work(&mut self) -> (Work<'_>, &mut Stream, &mut Base<Graph>, &TokenMailbox) {
        let work = Work {
            kernels: &self.kernels,
            multiprocessors: self.context.properties().multiprocessors,
            weights: &self.weights,
            buffers: &self.buffers,
            addresses: &self.scratch.addresses,
            pages: &self.pages,
            kv: self.kv,
            states: self.states.as_ref().map_or(0, States::table),
        };
        (work, &mut self.stream, &mut self.base, &self.scratch.tokens)
    }

    /// Returns a tape that is ready to be launched, and the graphs that can replay it.
    fn split<'a>(
        &'a mut self,
        tape: &'a Tape,
    ) -> (
        CudaStep<'a>,
        &'a mut DecodeGraph<Graph>,
        &'a mut Buckets<Graph>,
    ) {
        let ahead = narrow(self.pending.len());
        let sequence = self.sequence.wrapping_add(ahead + 1);
        let timestamps = self.timestamps.as_ref().map(Timestamps::addresses);
        let part_bytes = self.options.graph.part_bytes;
        let (work, stream, base, mailbox) = self.work();
        let step = CudaStep {
            work,
            stream,
            tape,
            layout: base.moves * (STEP_ROWS + 1) as u64 + tape.rows.min(STEP_ROWS) as u64,
            timestamps,
            part_bytes,
            mailbox,
            sequence,
        };
        (step, &mut base.graph, &mut base.prompts)
    }
}

/// A conversation for each slot. The first slots have a state of the pool.
fn conversations(kv: KvInfo, states: Option<&States>) -> Vec<Conversation> {
    let of = |slot| Conversation::new(states.and_then(|states| states.number(slot)));
    (0..kv.slots).map(of).collect()
}
