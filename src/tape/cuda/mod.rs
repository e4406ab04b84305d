//! The CUDA executor: each operation of a step is one launch, and a step is one graph. Prompts have kernels of their own.
//!
//! It knows tapes, kernels and memory: not what a model is, nor where its weights come from. An address
//! never changes once it has been launched with, so what was recorded stays good.

mod copy;
mod footprint;
mod inspect;
mod kernels;
mod launch;
mod limits;
mod memory;
mod observe;
mod opened;
mod product;
mod prompt;
mod quants;
mod queue;
mod scratch;
mod shapes;
mod stamps;
mod state;
mod step;
mod storage;
mod thread;
mod tiles;

use std::collections::VecDeque;
use std::rc::Rc;
use std::time::{Duration, Instant};

pub use self::footprint::footprint;
use self::kernels::Kernels;
pub use self::limits::{Unsuited, suits};
pub use self::memory::{Places, Reader};
use self::memory::{Slots, Weight};
pub use self::opened::Device;
use self::scratch::{Cache, Scratch};
use self::stamps::Stamps;
use self::state::State;
use self::step::Step;
use super::{DType, Ending, ExecuteError, GraphOptions, KvInfo, Pace, StepState, Tape, WeightInfo};
pub use crate::device::Error;
pub use crate::device::Memory;
use crate::device::{Arena, Context, Event, StepMailbox, Stream, TokenMailbox};
use crate::graph::{Buckets, DecodeGraph, Graph, Key, Ran, Stepper};
use crate::sampler::{History, Parameters};

/// How to run on a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    pub places: Places,
    /// The most rows of a prompt that run at once.
    pub rows: usize,
    /// Of every tape that will run.
    pub activation: DType,
    pub graph: GraphOptions,
    /// How long to spin for a token before the thread sleeps.
    pub spin: Duration,
}

/// Steps that may be launched before the first one's token has been taken.
const AHEAD: usize = 2;

/// A model's weights, cache and activations on a device, and the graph of its step.
#[derive(Debug)]
pub struct Cuda {
    // Dropped in this order: what can still run before what it runs on.
    graph: DecodeGraph<Graph>,
    prompts: Buckets<Graph>,
    /// Steps launched whose tokens have not been taken, oldest first.
    pending: VecDeque<Ran>,
    /// The end of step n is marked in place n % AHEAD.
    ends: [Event; AHEAD],
    kernels: Kernels,
    weights: Vec<Weight>,
    slots: Slots,
    cache: Cache,
    /// Of the cache: where the turn runs.
    region: usize,
    /// How often an address has changed.
    moves: u64,
    scratch: Scratch,
    stamps: Option<Stamps>,
    weight_arena: Arena,
    step_mailbox: StepMailbox,
    token_mailbox: TokenMailbox,
    stream: Stream,
    context: Rc<Context>,
    image: &'static str,
    options: Options,
    kv: KvInfo,
    vocabulary: usize,
    state: StepState,
    generation: u32,
    /// Tokens taken since the start.
    sequence: u32,
    pace: Pace,
    /// When the last token was taken while nothing more was queued.
    idle_since: Option<Instant>,
    /// The rows of logits of the last run that ended with them.
    logits: Vec<f32>,
}

impl Cuda {
    /// Allocates everything but the slots on a device, and has `read` fill the weights.
    ///
    /// # Errors
    /// If there is not enough memory, or `read` fails.
    pub fn new<E: From<Error>>(
        Device { context, modules }: Device,
        infos: &[WeightInfo],
        rope_frequencies: &[f32],
        kv: KvInfo,
        options: Options,
        read: Reader<'_, E>,
    ) -> Result<Self, E> {
        let mut stream = Stream::new(&context)?;
        let integrated = context.properties().integrated;
        let storages = memory::storages(infos, options.activation);
        let kernels = Kernels::load(&modules, options.activation, &storages)?;
        let (weight_arena, weights) = memory::load(
            &context,
            options.places.weights(integrated),
            (infos, options.activation),
            &mut stream,
            read,
        )?;
        let cache = Cache::new(&context, options.places.kv(integrated), kv, &mut stream)?;
        let vocabulary = infos.first().map_or(0, |table| table.rows);
        let mut scratch = Scratch::new(&context, rope_frequencies, kv, options.rows, &mut stream)?;
        let (step_mailbox, token_mailbox) =
            (StepMailbox::new(&context)?, TokenMailbox::new(&context)?);
        scratch.addresses.step_mailbox = step_mailbox.address();
        scratch.addresses.token_mailbox = token_mailbox.address();
        let graph = &options.graph;
        Ok(Self {
            graph: DecodeGraph::new(graph.mode, graph.verify_addresses),
            prompts: Buckets::new(graph.capture_sizes.clone(), graph.budget),
            pending: VecDeque::with_capacity(AHEAD),
            ends: [Event::new(&context)?, Event::new(&context)?],
            kernels,
            weights,
            slots: Slots::default(),
            cache,
            region: 0,
            moves: 0,
            scratch,
            stamps: None,
            weight_arena,
            step_mailbox,
            token_mailbox,
            stream,
            image: modules.kind(),
            context,
            options,
            kv,
            vocabulary,
            state: StepState::default(),
            generation: 0,
            sequence: 0,
            pace: Pace::default(),
            idle_since: None,
            logits: Vec::new(),
        })
    }

    /// The device and the image that runs on it, for people.
    #[must_use]
    pub fn describe(&self) -> String {
        let properties = self.context.properties();
        format!("{}, {}", properties.name, self.image)
    }

    /// Where generation stands.
    #[must_use]
    pub fn state(&self) -> StepState {
        self.state
    }

    /// Makes room for a tape.
    ///
    /// # Errors
    /// If there is not enough memory.
    pub fn prepare(&mut self, tape: &Tape) -> Result<(), Error> {
        if self.slots.grow(&self.context, tape, &mut self.stream)? {
            self.moves += 1;
        }
        Ok(())
    }

    /// Bytes of activations and scratch.
    #[must_use]
    pub fn activation_bytes(&self) -> u64 {
        self.slots.bytes() + self.scratch.arena.bytes()
    }

    /// Starts a request at `position` of a region of the cache, once all that was queued has ended.
    ///
    /// # Errors
    /// If the device has failed.
    pub fn begin(
        &mut self,
        (region, position): (usize, usize),
        parameters: Parameters,
        history: &History,
    ) -> Result<(), Error> {
        self.drain()?;
        // A step that failed may have left a token that nobody took: its number is not used again.
        self.sequence = self.sequence.wrapping_add(narrow(AHEAD));
        self.give_weights()?;
        self.idle_since = None;
        self.region = region;
        self.state.position = position;
        let state = State::new(
            self.state,
            self.generation,
            self.sequence,
            parameters,
            history,
        );
        self.scratch
            .arena
            .write(self.scratch.state, &state.to_bytes(), &mut self.stream)
    }

    /// Gives unified weights over to the stream when they are first needed: a discrete device begins to move them
    /// then.
    fn give_weights(&mut self) -> Result<(), Error> {
        self.weight_arena.attach(&mut self.stream)
    }

    /// Waits for steps that were launched ahead; nobody wants their tokens.
    fn drain(&mut self) -> Result<(), Error> {
        if !self.pending.is_empty() {
            self.stream.synchronize()?;
            self.sequence = self.sequence.wrapping_add(narrow(self.pending.len()));
            self.pending.clear();
        }
        Ok(())
    }

    /// The next step starts with `token` rather than the one chosen last.
    pub fn post(&mut self, token: u32) {
        self.state.token = token;
        self.generation = self
            .step_mailbox
            .post(token, narrow(self.state.position), 0);
    }

    /// Runs a prepared tape of a prompt; fewer `tokens` than it has rows are padded.
    ///
    /// # Errors
    /// A token outside the vocabulary, a position outside the context, logits that are not finite, a
    /// device that fails.
    pub fn run(&mut self, tape: &Tape, tokens: &[u32]) -> Result<(), ExecuteError> {
        self.drain()?;
        let (rows, position) = (tokens.len(), self.state.position);
        self.fits(rows)?;
        let vocabulary = self.vocabulary;
        if let Some(&token) = tokens.iter().find(|token| **token as usize >= vocabulary) {
            return Err(ExecuteError::Token { token, vocabulary });
        }
        let words = [narrow(position), narrow(rows)].into_iter();
        let words = words.chain(tokens.iter().copied());
        let bytes: Vec<u8> = words.flat_map(u32::to_le_bytes).collect();
        self.scratch
            .arena
            .write(self.scratch.prompt, &bytes, &mut self.stream)?;
        let key = self.key(tape);
        let recorded =
            tape.ending != Ending::Logits && self.prompts.serve(self.graph.life(), tape.rows);
        let (mut step, graph, prompts) = self.split(tape);
        if recorded {
            prompts.run(key, &mut step, graph.life_mut())?;
        } else {
            step.eager(0..tape.ops.len())?;
        }
        match tape.ending {
            Ending::Token => {
                self.mark()?;
                self.pending.push_back(Ran::Eagerly);
                self.take_token(rows)?;
            }
            Ending::Kv => self.state.position += rows,
            Ending::Logits => {
                self.logits.resize(rows * vocabulary, 0.0);
                self.slots
                    .read_logits(tape, &mut self.logits, &mut self.stream)?;
                self.state.position += rows;
            }
        }
        Ok(())
    }

    /// Runs one step, and with `more` launches the one after it before it waits for this one's token: the
    /// device then has no time to idle. A step that was launched ahead and is not wanted costs its time, no more.
    ///
    /// # Errors
    /// As `run`.
    pub fn step(&mut self, tape: &Tape, more: bool) -> Result<(), ExecuteError> {
        self.fits(1)?;
        let idle = self.idle_since.take().filter(|_| self.pending.is_empty());
        self.pace.idle = idle.map_or(Duration::ZERO, |since| since.elapsed());
        let wanted = if more && self.fits(2).is_ok() {
            AHEAD
        } else {
            1
        };
        while self.pending.len() < wanted {
            let (mut step, graph, _) = self.split(tape);
            let ran = graph.step(&mut step)?;
            self.mark()?;
            self.pending.push_back(ran);
        }
        self.take_token(1)
    }

    fn key(&self, tape: &Tape) -> Key {
        Key {
            rows: tape.rows,
            token: tape.ending == Ending::Token,
            region: self.region,
            moves: self.moves,
        }
    }

    /// Marks the end of the step that was launched last.
    fn mark(&mut self) -> Result<(), Error> {
        let number = self.sequence as usize + self.pending.len();
        self.ends[number % AHEAD].record(&mut self.stream)
    }

    fn fits(&self, rows: usize) -> Result<(), ExecuteError> {
        let (position, context) = (self.state.position, self.kv.context);
        if rows > 0 && position + rows <= context {
            return Ok(());
        }
        Err(ExecuteError::Context {
            rows,
            position,
            context,
        })
    }

    /// A tape, ready to be launched, beside the graphs that may do it.
    fn split<'a>(
        &'a mut self,
        tape: &'a Tape,
    ) -> (Step<'a>, &'a mut DecodeGraph<Graph>, &'a mut Buckets<Graph>) {
        let ahead = narrow(self.pending.len());
        let step = Step {
            work: launch::Work {
                kernels: &self.kernels,
                multiprocessors: self.context.properties().multiprocessors.unsigned_abs(),
                weights: &self.weights,
                slots: &self.slots,
                addresses: &self.scratch.addresses,
                cache: self.cache.region(self.region),
                kv: self.kv,
            },
            stream: &mut self.stream,
            tape,
            layout: self.moves * self.kv.slots as u64 + self.region as u64,
            notes: self.stamps.as_ref().map(Stamps::notes),
            mailbox: &self.token_mailbox,
            sequence: self.sequence.wrapping_add(ahead + 1),
        };
        (step, &mut self.graph, &mut self.prompts)
    }

    fn take_token(&mut self, rows: usize) -> Result<(), ExecuteError> {
        let end = &self.ends[self.sequence as usize % AHEAD];
        let spin = self.pace.spin(self.options.spin);
        let begun = Instant::now();
        let next = self.sequence.wrapping_add(1);
        let token = self.token_mailbox.wait(next, spin, || end.synchronize())?;
        self.pace.waited = begun.elapsed();
        self.sequence = next;
        if self.pending.pop_front() == Some(Ran::Replayed) {
            self.graph.life_mut().arrived();
        }
        self.idle_since = self.pending.is_empty().then(Instant::now);
        let last = self.state.position + rows - 1;
        if token == state::NOT_FINITE {
            return Err(ExecuteError::NonFinite { position: last });
        }
        self.state = StepState {
            token,
            position: last + 1,
        };
        Ok(())
    }
}

/// Positions and rows are bounded by the context, which is far below 2^32.
fn narrow(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}
