//! The CUDA executor: each operation is one launch, and a step is one graph.
//!
//! It knows tapes, kernels and memory: not what a model is, nor where its weights come from. An address
//! never changes once it has been launched with, so what was recorded stays good.

mod kernels;
mod launch;
mod memory;
mod quants;
mod scratch;
mod state;
mod tiles;

use std::rc::Rc;
use std::time::Duration;

use self::kernels::Kernels;
pub use self::memory::{Places, Reader};
use self::memory::{Slots, Weight};
use self::scratch::{Cache, Scratch};
use self::state::State;
use super::{Ending, ExecuteError, Input, KvInfo, StepState, Tape, WeightInfo};
pub use crate::device::Error;
pub use crate::device::Memory;
use crate::device::{Arena, Context, Modules, StepMailbox, Stream, TokenMailbox};
use crate::graph::{Graph, Recording};
use crate::sampler::{History, Parameters};

/// How to run on a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    pub places: Places,
    /// The most rows of a prompt that run at once.
    pub rows: usize,
    /// Whether a step is recorded and replayed.
    pub graph: bool,
    /// How long to spin for a token before the thread sleeps.
    pub spin: Duration,
    /// Refuse on a discrete device what an Orin would not allow.
    pub emulate_tegra: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            places: Places::default(),
            rows: 64,
            graph: true,
            spin: Duration::from_micros(50),
            emulate_tegra: false,
        }
    }
}

/// What has been launched since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    pub eager_steps: u64,
    pub graph_launches: u64,
    /// Kernels of one replay; 0 before there is a graph.
    pub nodes: usize,
}

/// A model's weights, cache and activations on a device, and the graph of its step.
#[derive(Debug)]
pub struct Cuda {
    // Dropped in this order: what can still run before what it runs on.
    graph: Option<Graph>,
    kernels: Kernels,
    weights: Vec<Weight>,
    slots: Slots,
    cache: Cache,
    scratch: Scratch,
    _weight_arena: Arena,
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
    /// Tokens chosen since the start.
    sequence: u32,
    counters: Counters,
    /// The rows of logits of the last run that ended with them.
    logits: Vec<f32>,
}

impl Cuda {
    /// Opens the device, allocates everything but the slots, and has `read` fill the weights.
    ///
    /// # Errors
    /// If there is no device that suits, not enough memory, or `read` fails.
    pub fn new<E: From<Error>>(
        infos: &[WeightInfo],
        rope_frequencies: &[f32],
        kv: KvInfo,
        options: Options,
        read: Reader<'_, E>,
    ) -> Result<Self, E> {
        let context = Context::open(options.emulate_tegra)?;
        let mut stream = Stream::new(&context)?;
        let modules = Modules::load(&context)?;
        let integrated = context.properties().integrated;
        let kernels = Kernels::load(&modules)?;
        let (mut arena, weights) = memory::load(
            &context,
            options.places.weights(integrated),
            infos,
            &mut stream,
            read,
        )?;
        arena.attach(&mut stream)?;
        let cache = Cache::new(&context, options.places.kv(integrated), kv, &mut stream)?;
        let vocabulary = infos.first().map_or(0, |table| table.rows);
        let mut scratch = Scratch::new(&context, rope_frequencies, kv, options.rows, &mut stream)?;
        let (step_mailbox, token_mailbox) =
            (StepMailbox::new(&context)?, TokenMailbox::new(&context)?);
        scratch.addresses.step_mailbox = step_mailbox.address();
        scratch.addresses.token_mailbox = token_mailbox.address();
        Ok(Self {
            graph: None,
            kernels,
            weights,
            slots: Slots::default(),
            cache,
            scratch,
            _weight_arena: arena,
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
            counters: Counters::default(),
            logits: Vec::new(),
        })
    }

    /// The device and the image that runs on it, for people.
    #[must_use]
    pub fn describe(&self) -> String {
        let properties = self.context.properties();
        format!("{}, {}", properties.name, self.image)
    }

    #[must_use]
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Where generation stands.
    #[must_use]
    pub fn state(&self) -> StepState {
        self.state
    }

    /// Makes room for a tape. A graph recorded before is forgotten if anything had to move.
    ///
    /// # Errors
    /// If there is not enough memory.
    pub fn prepare(&mut self, tape: &Tape) -> Result<(), Error> {
        if self.slots.grow(&self.context, tape, &mut self.stream)? {
            self.graph = None;
        }
        Ok(())
    }

    /// Bytes of activations and scratch.
    #[must_use]
    pub fn activation_bytes(&self) -> u64 {
        self.slots.bytes() + self.scratch.arena.bytes()
    }

    /// Starts a request at `position`; nothing runs meanwhile.
    ///
    /// # Errors
    /// If the device has failed.
    pub fn begin(
        &mut self,
        position: usize,
        parameters: Parameters,
        history: &History,
    ) -> Result<(), Error> {
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

    /// The next step starts with `token` rather than the one chosen last.
    pub fn post(&mut self, token: u32) {
        self.state.token = token;
        self.generation = self
            .step_mailbox
            .post(token, narrow(self.state.position), 0);
    }

    /// The row of logits that a tape of `Ending::Logits` left.
    #[must_use]
    pub fn logits(&self, row: usize) -> &[f32] {
        self.logits
            .get(row * self.vocabulary..)
            .and_then(|rest| rest.get(..self.vocabulary))
            .unwrap_or(&[])
    }

    /// Runs a prepared tape. `tokens` are the rows of a prompt; a step takes its token from the state.
    ///
    /// # Errors
    /// A token outside the vocabulary, a position outside the context, logits that are not finite, a
    /// device that fails.
    pub fn run(&mut self, tape: &Tape, tokens: &[u32]) -> Result<(), ExecuteError> {
        let (rows, context, position) = (tape.rows, self.kv.context, self.state.position);
        let step = tape.input == Input::Step;
        if position + rows > context || (!step && tokens.len() != rows) {
            return Err(ExecuteError::Context {
                rows,
                position,
                context,
            });
        }
        let vocabulary = self.vocabulary;
        if let Some(&token) = tokens.iter().find(|token| **token as usize >= vocabulary) {
            return Err(ExecuteError::Token { token, vocabulary });
        }
        if step {
            self.run_step(tape)?;
        } else {
            let words = std::iter::once(narrow(position)).chain(tokens.iter().copied());
            let bytes: Vec<u8> = words.flat_map(u32::to_le_bytes).collect();
            self.scratch
                .arena
                .write(self.scratch.prompt, &bytes, &mut self.stream)?;
            self.launch(tape)?;
        }
        match tape.ending {
            Ending::Token => self.take_token(position, rows)?,
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

    /// The first step warms up eagerly, and its token counts; the second is recorded; all later ones are
    /// replays.
    fn run_step(&mut self, tape: &Tape) -> Result<(), ExecuteError> {
        if !self.options.graph || self.counters.eager_steps == 0 {
            self.counters.eager_steps += 1;
            return Ok(self.launch(tape)?);
        }
        if self.graph.is_none() {
            let (work, stream) = self.work();
            let captured = Recording::begin(stream)?.record(|stream| work.run(tape, stream))?;
            let graph = Graph::new(captured, stream)?;
            self.counters.nodes = graph.nodes();
            self.graph = Some(graph);
        }
        if let Some(graph) = &mut self.graph {
            graph.launch(&mut self.stream)?;
            self.counters.graph_launches += 1;
        }
        Ok(())
    }

    fn launch(&mut self, tape: &Tape) -> Result<(), Error> {
        let (work, stream) = self.work();
        work.run(tape, stream)
    }

    /// What launches need, apart from the stream that they go to.
    fn work(&mut self) -> (launch::Work<'_>, &mut Stream) {
        let Self {
            kernels,
            weights,
            slots,
            cache,
            scratch,
            kv,
            stream,
            ..
        } = self;
        let addresses = &scratch.addresses;
        let work = launch::Work {
            kernels,
            weights,
            slots,
            addresses,
            cache: (&cache.k, &cache.v),
            kv: *kv,
        };
        (work, stream)
    }

    fn take_token(&mut self, position: usize, rows: usize) -> Result<(), ExecuteError> {
        self.sequence = self.sequence.wrapping_add(1);
        let stream = &mut self.stream;
        let token = self
            .token_mailbox
            .wait(self.sequence, self.options.spin, || stream.synchronize())?;
        let last = position + rows - 1;
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
