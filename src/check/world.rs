//! A world: the weights and the cache of an executor, and the cases that run on them.

use std::ops::Range;
use std::sync::Arc;

use super::case::{Case, Logits};
use crate::cpu::{self, Cpu};
#[cfg(feature = "cuda")]
use crate::cuda::{self, Cuda};
use crate::executor::{FillError, WeightSource};
use crate::graph::{GraphOptions, Mode};
use crate::quant::random::{self, Random};
use crate::quant::{DType, Format};
use crate::sampler::Parameters;
use crate::tape::{
    Angles, BufferInfo, Ending, Input, KvInfo, Op, Rotation, StateInfo, Tape, WeightId, WeightInfo,
};

/// Slots of each cache.
pub(super) const SLOTS: usize = 2;
/// The most rows of any case.
pub(super) const ROWS: usize = 129;

/// Why an executor for a world cannot be created.
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

/// Weights, a cache, and cases.
#[derive(Clone, Debug)]
pub struct World {
    pub kv: KvInfo,
    /// The recurrent states of all cases.
    #[cfg(feature = "cuda")]
    state: Option<StateInfo>,
    /// The activation type of all cases, after `split`.
    activation: DType,
    pub(super) angles: [Angles; 2],
    infos: Arc<[WeightInfo]>,
    /// The stored bytes of each weight.
    bytes: Vec<Vec<u8>>,
    pub cases: Vec<Case>,
}

impl World {
    /// Splits the cases by their type of activations, because an executor has one type.
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

    /// Creates the reference.
    pub fn cpu(&self, threads: usize) -> Result<Cpu, WorldError> {
        Ok(Cpu::new(
            cpu::load(&self.infos, self, &mut |_| ())?,
            self.angles.to_vec(),
            self.kv,
            threads,
            &eager(),
        )?)
    }

    /// Creates the executor under test.
    #[cfg(feature = "cuda")]
    pub fn cuda(&self, device: cuda::Device) -> Result<Cuda, WorldError> {
        let rows = self.cases.iter().map(|case| case.tape.rows);
        let options = cuda::Options {
            rows: rows.fold(ROWS, usize::max),
            activation: self.activation,
            state: self.state,
            tower: self.has_towers(),
            places: cuda::Places::default(),
            graph: eager(),
            spin: std::time::Duration::from_micros(50),
        };
        let mut cuda = Cuda::new(
            device,
            &self.infos,
            &self.angles,
            self.kv,
            options,
            (self, &mut |_| ()),
        )?;
        let mut random = Random::new(self.kv.kinds[0].head_dim as u64);
        cuda.scatter_pages(|n| random.below(n))?;
        Ok(cuda)
    }

    /// Whether cases have operations of vision towers.
    #[cfg(feature = "cuda")]
    fn has_towers(&self) -> bool {
        let mut inputs = self.cases.iter().map(|case| case.tape.input);
        inputs.any(|input| matches!(input, Input::Patches { .. }))
    }

    /// The values of a matrix, row by row.
    pub(super) fn matrix(&self, WeightId(id): WeightId) -> Vec<f32> {
        let WeightInfo { rows, columns, .. } = self.infos[id];
        let mut values = vec![0.0; rows * columns];
        self.infos[id]
            .format
            .dequantize(&self.bytes[id], &mut values);
        values
    }

    /// A norm or a bias.
    pub(super) fn vector(&self, WeightId(id): WeightId) -> Vec<f32> {
        let values = self.bytes[id].as_chunks::<4>().0.iter();
        values.map(|bytes| f32::from_le_bytes(*bytes)).collect()
    }
}

impl WeightSource for World {
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

/// A world under construction.
#[derive(Debug)]
pub(super) struct Builder {
    pub(super) random: Random,
    kv: KvInfo,
    state: Option<StateInfo>,
    infos: Vec<WeightInfo>,
    bytes: Vec<Vec<u8>>,
    cases: Vec<Case>,
}

/// The common properties of the tapes of a case.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    pub(super) rows: usize,
    pub(super) input: Input,
    pub(super) activation: DType,
}

impl Run {
    pub(super) fn describe(self) -> String {
        let input = match self.input {
            Input::Step => "step",
            Input::Prompt => "prompt",
            Input::Patches { .. } => "patches",
        };
        format!("{} {input} {}", self.activation.name(), self.rows)
    }
}

impl Builder {
    /// Creates a world whose first weight is a table of `vocabulary` rows, as in every model.
    pub(super) fn new(seed: u64, kv: KvInfo, table: (Format, usize, usize)) -> Self {
        let mut builder = Self {
            random: Random::new(seed),
            kv,
            state: None,
            infos: Vec::new(),
            bytes: Vec::new(),
            cases: Vec::new(),
        };
        let (format, vocabulary, columns) = table;
        builder.matrix(format, vocabulary, columns);
        builder
    }

    pub(super) fn with_state(self, state: StateInfo) -> Self {
        Self {
            state: Some(state),
            ..self
        }
    }

    pub(super) fn matrix(&mut self, format: Format, rows: usize, columns: usize) -> WeightId {
        let bytes = random::matrix(self.random.bits(), format, rows, columns);
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

    /// Adds a case at position 0 with one operation; `buffers` are (name, columns, whether they are activations).
    pub(super) fn case(
        &mut self,
        name: &str,
        run: Run,
        buffers: &[(&'static str, usize, bool)],
        op: Op,
    ) -> &mut Case {
        self.case_of(name, run, buffers, vec![op])
    }

    /// Adds a case with several operations, each of which may read the outputs of earlier ones.
    pub(super) fn case_of(
        &mut self,
        name: &str,
        run: Run,
        buffers: &[(&'static str, usize, bool)],
        ops: Vec<Op>,
    ) -> &mut Case {
        let buffers = buffers
            .iter()
            .map(|&(name, columns, activation)| BufferInfo {
                name,
                rows: run.rows,
                columns,
                dtype: if activation {
                    run.activation
                } else {
                    DType::F32
                },
            });
        let names: Vec<&str> = ops.iter().map(Op::name).collect();
        let ending = if matches!(ops[..], [Op::Sample { .. }]) {
            Ending::Token
        } else {
            Ending::Kv
        };
        let (buffers, name) = (
            buffers.collect(),
            format!("{} {name} {}", names.join("+"), run.describe()),
        );
        let tape = Tape {
            rows: run.rows,
            input: run.input,
            ending,
            activation: run.activation,
            kv: self.kv,
            state: self.state,
            buffers,
            weights: Arc::new([]),
            ops,
        };
        self.cases.push(Case {
            name,
            tape,
            slot: 0,
            position: 0,
            others: match run.input {
                Input::Step => (1..run.rows).map(|row| (row, 0)).collect(),
                Input::Prompt | Input::Patches { .. } => Vec::new(),
            },
            tokens: vec![0; run.rows],
            parameters: Parameters::default(),
            mask: None,
            history: Vec::new(),
            logits: Logits::default(),
            runs: 1,
            seed: self.random.bits(),
            offset: 0,
            images: Vec::new(),
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
        // The second table rotates only a part of a head.
        let head_dim = self.kv.kinds[0].head_dim;
        let angles = [(head_dim, 10_000.0, 1.0), (part(head_dim), 500_000.0, 1.25)];
        #[allow(clippy::cast_precision_loss)] // heads are far narrower than 2^24
        let angles = angles.map(|(dims, theta, amplitude): (usize, f32, f32)| Angles {
            frequencies: (0..dims / 2)
                .map(|pair| 1.0 / theta.powf((2 * pair) as f32 / dims as f32))
                .collect(),
            amplitude,
        });
        World {
            kv: self.kv,
            #[cfg(feature = "cuda")]
            state: self.state,
            activation: DType::F16,
            angles,
            infos,
            bytes: self.bytes,
            cases,
        }
    }
}

/// The number of elements that the second table rotates: not a multiple of a vector's width, if possible.
const fn part(head_dim: usize) -> usize {
    head_dim / 4 + 2
}

/// The rotations of the cases of a world: by either table, or none.
pub(super) fn rotations(head_dim: usize) -> [Rotation; 3] {
    let whole = Rotation::whole(head_dim);
    let parted = Rotation {
        table: 1,
        dims: part(head_dim),
        ..whole
    };
    [whole, parted, Rotation { dims: 0, ..whole }]
}
