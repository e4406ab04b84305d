//! A layer with random weights, whose inputs depend on the position alone.

use std::sync::Arc;

use super::super::super::weight::Weight;
use super::super::{Group, Memory, States, execute};
use crate::executor::StateError;
use crate::kv::KvType;
use crate::quant::DType;
use crate::tape::{
    Buffer, BufferInfo, Convolution, Ending, HeadOrder, Input, KvInfo, Recurrent, StateHeads,
    StateInfo, StatePool, Tape, UpdateRule, WeightId,
};

pub(super) const TAPS: usize = 4;

pub(super) fn delta() -> StateHeads {
    StateHeads {
        rule: UpdateRule::Delta,
        heads: 4,
        value_dim: 12,
        key_heads: 2,
        key_dim: 20,
        order: HeadOrder::Tiled,
    }
}

pub(super) fn mamba() -> StateHeads {
    StateHeads {
        rule: UpdateRule::Additive,
        heads: 4,
        value_dim: 8,
        key_heads: 2,
        key_dim: 32,
        order: HeadOrder::Grouped,
    }
}

/// Numbers between -1 and 1.
#[allow(clippy::cast_precision_loss)] // 24 bits
pub(super) fn random(seed: u64, count: usize) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) + 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f32 / (1 << 23) as f32 - 1.0
    };
    for _ in 0..8 {
        next();
    }
    (0..count).map(|_| next()).collect()
}

pub(super) struct Layer {
    pub(super) heads: Option<StateHeads>,
    pub(super) states: States,
    pub(super) weights: Vec<Weight>,
    /// Rows from this position on have other inputs.
    pub(super) wrong_from: Option<usize>,
    /// Whether prompts end before their states are swapped.
    pub(super) drops: bool,
}

/// The weights, by their index.
pub(super) const KERNEL: usize = 0;
pub(super) const BIAS: usize = 1;
pub(super) const RATE: usize = 2;
pub(super) const DT_BIAS: usize = 3;
pub(super) const SKIP: usize = 4;

/// The buffers, by their index.
const INPUT: Buffer = Buffer(0);
const STEPS: Buffer = Buffer(1);
const BETAS: Buffer = Buffer(2);
const CONVOLVED: Buffer = Buffer(3);
const OUT: Buffer = Buffer(4);

impl Layer {
    pub(super) fn new(heads: StateHeads) -> Self {
        Self::with(StateInfo {
            layers: 1,
            heads: Some(heads),
            channels: 2 * heads.keys() + heads.values(),
            taps: TAPS,
            hidden: 0,
            pool: StatePool {
                slots: 3,
                owned: 3,
                spares: 1,
            },
        })
    }

    pub(super) fn short(info: StateInfo) -> Self {
        Self::with(info)
    }

    fn with(info: StateInfo) -> Self {
        let heads = info.heads.map_or(1, |heads| heads.heads);
        // Slow and fast decays.
        let rate = random(13, heads).into_iter();
        let rate = rate.map(|x| -(3.0 * x).exp() / 4.0).collect();
        let weights = vec![
            random(11, info.channels * TAPS),
            random(12, info.channels),
            rate,
            random(14, heads),
            random(15, heads),
        ];
        Self {
            heads: info.heads,
            states: States::new(info),
            weights: weights.into_iter().map(Weight::Vector).collect(),
            wrong_from: None,
            drops: false,
        }
    }

    /// The columns of the input.
    fn wide(&self) -> usize {
        let channels = self.states.info().channels;
        if self.heads.is_some() {
            channels
        } else {
            3 * channels
        }
    }

    /// The input, steps and betas of a position.
    pub(super) fn inputs(&self, position: usize) -> [Vec<f32>; 3] {
        let wrong = self.wrong_from.is_some_and(|from| position >= from);
        let seed = 100 + position as u64 + if wrong { 1 << 20 } else { 0 };
        let heads = self.heads.map_or(1, |heads| heads.heads);
        let [wide, steps, betas] = [(0, self.wide()), (1, heads), (2, heads)]
            .map(|(n, count)| random(seed * 3 + n, count));
        [wide, steps, betas]
    }

    /// Runs rows of (slot, position).
    pub(super) fn step(&mut self, rows: &[(usize, usize)]) -> Result<Vec<f32>, StateError> {
        let groups = rows.chunk_by(|a, b| a.0 == b.0);
        let groups = groups.scan(0, |first, rows| {
            let begin = *first;
            *first += rows.len();
            Some(Group {
                slot: rows[0].0,
                position: rows[0].1,
                rows: begin..*first,
                prompt: false,
            })
        });
        self.run(Input::Step, &groups.collect::<Vec<_>>())
    }

    pub(super) fn prompt(
        &mut self,
        slot: usize,
        positions: std::ops::Range<usize>,
    ) -> Result<Vec<f32>, StateError> {
        let group = Group {
            slot,
            position: positions.start,
            rows: 0..positions.len(),
            prompt: true,
        };
        self.run(Input::Prompt, &[group])
    }

    fn run(&mut self, input: Input, groups: &[Group]) -> Result<Vec<f32>, StateError> {
        let tape = self.tape(input, groups);
        tape.check_shapes_alone().expect("the shapes fit");
        let mut buffers = tape
            .buffers
            .iter()
            .map(|info| vec![0.0; info.rows * info.columns]);
        let mut activations: Vec<_> = buffers.by_ref().collect();
        for group in groups {
            for (row, position) in group.rows.clone().zip(group.position..) {
                for (buffer, values) in self.inputs(position).iter().enumerate() {
                    let columns = values.len();
                    activations[buffer][row * columns..][..columns].copy_from_slice(values);
                }
            }
        }
        let longest: usize = activations.iter().map(Vec::len).sum();
        let (mut scratch, mut product) = (vec![0.0; longest], vec![0.0; longest]);
        for op in &tape.ops {
            let crate::tape::Op::Recurrent(op) = op else {
                continue;
            };
            let memory = Memory {
                states: &mut self.states,
                weights: &self.weights,
                activations: &mut activations,
                scratch: &mut scratch,
                product: &mut product,
            };
            let drops = self.drops;
            execute(op, &tape, groups, memory, |_, _| !drops)?;
        }
        Ok(std::mem::take(&mut activations[OUT.0]))
    }

    fn tape(&self, input: Input, groups: &[Group]) -> Tape {
        let info = self.states.info();
        let rows = groups.iter().map(|group| group.rows.len()).sum();
        let width = info.heads.map_or(info.channels, |heads| heads.values());
        let heads = info.heads.map_or(1, |heads| heads.heads);
        let buffer = |name, columns| BufferInfo {
            name,
            rows,
            columns,
            dtype: DType::F32,
        };
        let mut infos = vec![(info.channels * TAPS), info.channels];
        infos.extend([heads; 3]);
        let weights = infos.into_iter().map(|columns| crate::tape::WeightInfo {
            name: String::new(),
            rows: 1,
            columns,
            format: crate::quant::Format::F32,
        });
        let convolution = Convolution {
            kernel: WeightId(KERNEL),
            bias: Some(WeightId(BIAS)),
        };
        let convolve = Recurrent::Convolve {
            layer: 0,
            input: INPUT,
            convolution,
            silu: true,
            out: CONVOLVED,
        };
        let (rate, dt_bias) = (WeightId(RATE), WeightId(DT_BIAS));
        let layer = match info.heads.map(|heads| heads.rule) {
            None => vec![Recurrent::ShortConv {
                layer: 0,
                input: INPUT,
                convolution,
                out: OUT,
            }],
            Some(UpdateRule::Delta) => vec![
                convolve,
                Recurrent::DeltaNet {
                    layer: 0,
                    input: CONVOLVED,
                    gates: [STEPS, BETAS],
                    rate,
                    dt_bias,
                    epsilon: 1e-6,
                    out: OUT,
                },
            ],
            Some(UpdateRule::Additive) => vec![
                convolve,
                Recurrent::Mamba2 {
                    layer: 0,
                    input: CONVOLVED,
                    gate: STEPS,
                    rate,
                    dt_bias,
                    skip: WeightId(SKIP),
                    out: OUT,
                },
            ],
        };
        let around = input == Input::Prompt;
        let begin = around.then_some(Recurrent::Commit).into_iter();
        let end = around.then_some(Recurrent::Swap);
        let ops = begin
            .chain(layer)
            .chain(end)
            .map(crate::tape::Op::Recurrent);
        Tape {
            rows,
            input,
            ending: Ending::Kv,
            activation: DType::F32,
            kv: KvInfo {
                kinds: KvInfo::alike(1, 1, 32),
                context: 64,
                slots: 1,
                pages: 1,
                chunk: 1,
                types: KvType::F16.into(),
                run: 64,
                state_bytes: 0,
            },
            state: Some(info),
            buffers: vec![
                buffer("input", self.wide()),
                buffer("steps", heads),
                buffer("betas", heads),
                buffer("convolved", info.channels),
                buffer("out", width),
            ],
            weights: weights.collect::<Arc<[_]>>(),
            ops: ops.collect(),
        }
    }
}
