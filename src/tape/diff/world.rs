//! What one executor is made of: weights and a cache, and the cases that run on them.

use std::ops::Range;
use std::sync::Arc;

use super::random::{self, Random};
use crate::graph::Mode;
use crate::model::Format;
use crate::sampler::Parameters;
use crate::tape::cpu::{self, Cpu};
#[cfg(feature = "cuda")]
use crate::tape::cuda::{self, Cuda};
use crate::tape::{
    DType, Ending, Executor, FillError, GraphOptions, Input, KvInfo, Op, Slot, SlotInfo, Source,
    Tape, WeightId, WeightInfo,
};

/// Regions of each cache.
pub(super) const REGIONS: usize = 2;
/// The most rows of any case.
pub(super) const ROWS: usize = 129;

/// Why there is no executor of a world.
#[derive(Debug, thiserror::Error)]
pub enum WorldError {
    #[error(transparent)]
    Fill(#[from] FillError),
    #[error("the threads cannot be started: {0}")]
    Threads(#[from] rayon::ThreadPoolBuildError),
    #[cfg(feature = "cuda")]
    #[error(transparent)]
    Device(#[from] cuda::Error),
}

/// One operation on random inputs.
#[derive(Clone, Debug)]
pub struct Case {
    pub name: String,
    /// Of one operation.
    pub tape: Tape,
    /// Of the cache.
    pub(super) region: usize,
    /// Of its first row.
    pub position: usize,
    /// Region and position of a step's other rows.
    pub(super) others: Vec<(usize, usize)>,
    /// Of its first rows; the others only fill it up, and what becomes of them does not matter.
    pub(super) tokens: Vec<u32>,
    pub(super) parameters: Parameters,
    /// What was there before, for the sampler.
    pub(super) history: Vec<u32>,
    pub(super) logits: Logits,
    /// How often it runs, each time from the same slots, in the state that the last left.
    pub(super) runs: usize,
    pub(super) seed: u64,
}

/// How the logits lie that a token is chosen from.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) enum Logits {
    #[default]
    Normal,
    /// A few stand out, and the rest cannot be drawn: no sum of rounded weights decides.
    Peaked,
    /// Several share the greatest.
    Tied,
    /// One is not finite.
    With(f32),
}

/// Weights, a cache, and cases.
#[derive(Clone, Debug)]
pub struct World {
    pub kv: KvInfo,
    /// Of its cases, once it has been split by it.
    activation: DType,
    pub(super) frequencies: Vec<f32>,
    infos: Arc<[WeightInfo]>,
    /// As a file stores them.
    bytes: Vec<Vec<u8>>,
    pub cases: Vec<Case>,
}

impl World {
    /// Its cases of each type of activations, apart: an executor runs those of one.
    pub(super) fn split(self) -> impl Iterator<Item = Self> {
        let parts = [DType::F16, DType::BF16].map(|activation| {
            let mut world = self.clone();
            world.activation = activation;
            world
                .cases
                .retain(|case| case.tape.activation == activation);
            world
        });
        parts.into_iter().filter(|world| !world.cases.is_empty())
    }

    /// The reference.
    ///
    /// # Errors
    /// If there are no threads or not enough memory.
    pub fn cpu(&self, threads: usize) -> Result<Executor, WorldError> {
        let cpu = Cpu::new(
            cpu::load(&self.infos, self, &mut |_| ())?,
            self.frequencies.clone(),
            self.kv,
            threads,
            &eager(),
        )?;
        Ok(Executor::Cpu(Box::new(cpu)))
    }

    /// What is held against it.
    ///
    /// # Errors
    /// If there is not enough memory.
    #[cfg(feature = "cuda")]
    pub fn cuda(&self, device: cuda::Device) -> Result<Executor, WorldError> {
        let options = cuda::Options {
            rows: ROWS,
            activation: self.activation,
            places: cuda::Places::default(),
            graph: eager(),
            spin: std::time::Duration::from_micros(50),
        };
        let mut cuda = Cuda::new(
            device,
            &self.infos,
            &self.frequencies,
            self.kv,
            options,
            (self, &mut |_| ()),
        )?;
        let mut random = Random::new(self.kv.head_dim as u64);
        cuda.scatter_pages(|n| random.below(n))?;
        Ok(Executor::Cuda(Box::new(cuda)))
    }

    /// A norm or a bias.
    pub(super) fn vector(&self, WeightId(id): WeightId) -> Vec<f32> {
        let values = self.bytes[id].as_chunks::<4>().0.iter();
        values.map(|bytes| f32::from_le_bytes(*bytes)).collect()
    }
}

impl Source for World {
    type Error = WorldError;

    fn read(
        &self,
        weight: usize,
        rows: Range<usize>,
        take: &mut dyn FnMut(&[u8]),
    ) -> Result<(), WorldError> {
        let info = &self.infos[weight];
        let row_bytes = info.format.row_bytes(info.columns);
        take(&self.bytes[weight][rows.start * row_bytes..rows.end * row_bytes]);
        Ok(())
    }

    fn place(&self, weight: usize, row: usize) -> (usize, u64) {
        (weight, row as u64)
    }
}

fn eager() -> GraphOptions {
    GraphOptions {
        mode: Mode::None,
        ..GraphOptions::default()
    }
}

/// A world while its cases are written.
#[derive(Debug)]
pub(super) struct Builder {
    pub(super) random: Random,
    kv: KvInfo,
    infos: Vec<WeightInfo>,
    bytes: Vec<Vec<u8>>,
    cases: Vec<Case>,
}

/// What the tapes of a case have in common.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    pub(super) rows: usize,
    pub(super) input: Input,
    pub(super) activation: DType,
}

impl Run {
    pub(super) fn describe(self) -> String {
        let input = if self.input == Input::Step {
            "step"
        } else {
            "prompt"
        };
        format!("{} {input} {}", self.activation.name(), self.rows)
    }
}

impl Builder {
    /// With a table of `vocabulary` rows as its first weight, as every model has one.
    pub(super) fn new(seed: u64, kv: KvInfo, table: (Format, usize, usize)) -> Self {
        let mut builder = Self {
            random: Random::new(seed),
            kv,
            infos: Vec::new(),
            bytes: Vec::new(),
            cases: Vec::new(),
        };
        let (format, vocabulary, columns) = table;
        builder.matrix(format, vocabulary, columns);
        builder
    }

    pub(super) fn matrix(&mut self, format: Format, rows: usize, columns: usize) -> WeightId {
        let bytes = random::matrix(self.random.next(), format, rows, columns);
        self.weight(format, rows, columns, bytes)
    }

    /// Normal values of deviation `spread` around `middle`.
    pub(super) fn vector(&mut self, columns: usize, middle: f32, spread: f32) -> WeightId {
        let values = self.random.normals(columns);
        let bytes = values
            .iter()
            .flat_map(|value| (middle + spread * value).to_le_bytes())
            .collect();
        self.weight(Format::F32, 1, columns, bytes)
    }

    fn weight(&mut self, format: Format, rows: usize, columns: usize, bytes: Vec<u8>) -> WeightId {
        self.infos.push(WeightInfo {
            name: format!("{format:?} {rows} x {columns}"),
            rows,
            columns,
            format,
        });
        self.bytes.push(bytes);
        WeightId(self.infos.len() - 1)
    }

    /// Adds a case at position 0, whose slots are (name, columns, whether they are activations).
    pub(super) fn case(
        &mut self,
        name: &str,
        run: Run,
        slots: &[(&'static str, usize, bool)],
        op: Op,
    ) -> &mut Case {
        let slots = slots.iter().map(|&(name, columns, activation)| SlotInfo {
            name,
            rows: run.rows,
            columns,
            dtype: if activation {
                run.activation
            } else {
                DType::F32
            },
        });
        let ending = if matches!(op, Op::Choose { .. }) {
            Ending::Token
        } else {
            Ending::Kv
        };
        let (slots, name) = (
            slots.collect(),
            format!("{} {name} {}", op.name(), run.describe()),
        );
        let tape = Tape {
            rows: run.rows,
            input: run.input,
            ending,
            activation: run.activation,
            kv: self.kv,
            slots,
            weights: Arc::new([]),
            ops: vec![op],
        };
        self.cases.push(Case {
            name,
            tape,
            region: 0,
            position: 0,
            others: match run.input {
                Input::Step => (1..run.rows).map(|row| (row, 0)).collect(),
                Input::Prompt => Vec::new(),
            },
            tokens: vec![0; run.rows],
            parameters: Parameters::default(),
            history: Vec::new(),
            logits: Logits::default(),
            runs: 1,
            seed: self.random.next(),
        });
        let last = self.cases.len() - 1;
        &mut self.cases[last]
    }

    pub(super) fn finish(self) -> World {
        let infos: Arc<[WeightInfo]> = self.infos.into();
        let mut cases = self.cases;
        for case in &mut cases {
            case.tape.weights = infos.clone();
        }
        #[allow(clippy::cast_precision_loss)] // heads are far narrower than 2^24
        let frequency = |pair| 1.0 / 10_000.0_f32.powf((2 * pair) as f32 / self.kv.head_dim as f32);
        World {
            kv: self.kv,
            activation: DType::F16,
            frequencies: (0..self.kv.head_dim / 2).map(frequency).collect(),
            infos,
            bytes: self.bytes,
            cases,
        }
    }
}

impl Case {
    pub(super) fn op(&self) -> &Op {
        &self.tape.ops[0]
    }

    /// Region and position of each row of a step; of a prompt its first.
    pub(super) fn places(&self) -> Vec<(usize, usize)> {
        let first = std::iter::once((self.region, self.position));
        first.chain(self.others.iter().copied()).collect()
    }

    /// The positions of its rows, by region.
    pub(super) fn runs(&self) -> Vec<(usize, std::ops::Range<usize>)> {
        let rows = if self.tape.input == Input::Step {
            1
        } else {
            self.tokens.len()
        };
        let places = self.places().into_iter();
        places.map(|(region, at)| (region, at..at + rows)).collect()
    }

    /// Gives a slot its own number of rows.
    pub(super) fn set_rows(&mut self, Slot(slot): Slot, rows: usize) {
        self.tape.slots[slot].rows = rows;
    }

    /// Has its last `rows` only fill it up.
    pub(super) fn pad(&mut self, rows: usize) {
        if rows > 0 {
            self.tokens.truncate(self.tape.rows - rows);
            self.others.truncate(self.tokens.len() - 1);
            self.name = format!("{} padded by {rows}", self.name);
        }
    }
}
