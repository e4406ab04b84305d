//! Cases of recurrent layers: convolutions, updates of states and gated norms. Steps run several times in a row, so that
//! each continues from what the one before has left. A prompt continues only from the states of all layers, so it runs once.

use super::common::unused_cache;
use crate::check::case::Case;
use crate::check::deck::Deck;
use crate::check::world::{Builder, Run, World};
use crate::quant::{DType, Format};
use crate::tape::{
    Buffer, Convolution, GateOrder, HeadOrder, Input, Op, Recurrent, STEP_ROWS, StateHeads,
    StateInfo, StatePool, UpdateRule,
};

/// Runs of a step.
const RUNS: usize = 20;
const EPSILON: f32 = 1e-6;

/// A world for each state: a GPU's kernels take parts of heads, and heads that share keys, in two orders.
pub(super) fn worlds() -> impl Iterator<Item = World> {
    use HeadOrder::{Grouped, Tiled};
    use UpdateRule::{Additive, Delta};
    let heads = |rule, heads, value_dim, key_heads, key_dim, order| {
        Some(StateHeads {
            rule,
            heads,
            value_dim,
            key_heads,
            key_dim,
            order,
        })
    };
    let states = [
        (heads(Delta, 4, 16, 2, 16, Tiled), 4),
        (heads(Delta, 6, 128, 3, 128, Grouped), 3),
        (heads(Additive, 8, 40, 2, 36, Grouped), 4),
        (heads(Additive, 3, 64, 1, 128, Grouped), 2),
        (None, 3),
    ];
    states
        .into_iter()
        .enumerate()
        .map(|(index, (heads, taps))| {
            let channels = heads.map_or(300, |heads: StateHeads| 2 * heads.keys() + heads.values());
            world(
                60 + index as u64,
                StateInfo {
                    layers: 2,
                    heads,
                    channels,
                    taps,
                    hidden: 96 + 40 * index,
                    pool: StatePool {
                        slots: STEP_ROWS,
                        owned: STEP_ROWS,
                        spares: 1,
                    },
                },
            )
        })
}

fn world(seed: u64, info: StateInfo) -> World {
    let mut b = Builder::new(seed, unused_cache(), (Format::F16, 64, 64)).with_state(info);
    let mut rows = Deck::new(seed, &[(1, 0), (70, 0), (5, 2), (129, 7), (64, 0), (33, 0)]);
    let mut steps = Deck::new(seed, &[(8, 0), (1, 0), (4, 1)]);
    let mut groups = Deck::new(seed, &[1, 2, 0]);
    for activation in [DType::F16, DType::BF16] {
        for input in [[Input::Prompt; 4], [Input::Step; 4]].as_flattened() {
            let input = *input;
            let mut run = |b: &mut Builder, name: &str, widths: Buffers<'_>, op: Recurrent| {
                let (rows, padding) = match input {
                    Input::Step => steps.deal(),
                    Input::Prompt | Input::Patches { .. } => rows.deal(),
                };
                let run = Run {
                    rows,
                    input,
                    activation,
                };
                case(b, name, run, widths, op).pad(padding);
            };
            for layer in 0..info.layers {
                convolutions(&mut b, info, layer, &mut run);
                if let Some(heads) = info.heads {
                    updates(&mut b, (info, heads), layer, &mut run);
                }
            }
            shift(&mut b, info.hidden, &mut run);
            if let Some(heads) = info.heads {
                for groups in [groups.deal(), groups.deal()] {
                    norm(&mut b, heads, groups, &mut run);
                }
            }
        }
    }
    b.finish()
}

/// The name, the columns, and whether a buffer has the type of activations.
type Buffers<'a> = &'a [(&'static str, usize, bool)];
/// Adds a case.
type Add<'a> = dyn FnMut(&mut Builder, &str, Buffers<'_>, Recurrent) + 'a;

fn case<'b>(
    b: &'b mut Builder,
    name: &str,
    run: Run,
    buffers: Buffers<'_>,
    op: Recurrent,
) -> &'b mut Case {
    let ops = match run.input {
        Input::Prompt if op.writes_state() => vec![Recurrent::Commit, op, Recurrent::Swap],
        _ => vec![op],
    };
    let ops = ops.into_iter().map(Op::Recurrent).collect();
    let case = b.case_of(name, run, buffers, ops);
    if run.input == Input::Step {
        case.runs = RUNS;
    }
    case
}

fn convolutions(b: &mut Builder, info: StateInfo, layer: usize, run: &mut Add<'_>) {
    let StateInfo { channels, taps, .. } = info;
    let convolution = Convolution {
        kernel: b.vector(channels * taps, 0.0, 0.5),
        bias: (layer == 1).then(|| b.vector(channels, 0.0, 1.0)),
    };
    let (input, out) = (Buffer(0), Buffer(1));
    let name = format!("{channels} channels, {taps} taps");
    if info.heads.is_some() {
        let buffers = [("input", channels, false), ("out", channels, false)];
        let op = Recurrent::Convolve {
            layer,
            input,
            convolution,
            silu: layer == 0,
            out,
        };
        run(b, &name, &buffers, op);
    } else {
        let buffers = [("input", 3 * channels, false), ("out", channels, true)];
        let op = Recurrent::ShortConv {
            layer,
            input,
            convolution,
            out,
        };
        run(b, &name, &buffers, op);
    }
}

fn shift(b: &mut Builder, hidden: usize, run: &mut Add<'_>) {
    let buffers = [("input", hidden, false), ("out", hidden, false)];
    let op = Recurrent::Shift {
        input: Buffer(0),
        out: Buffer(1),
    };
    run(b, &format!("{hidden} columns"), &buffers, op);
}

fn updates(
    b: &mut Builder,
    (info, heads): (StateInfo, StateHeads),
    layer: usize,
    run: &mut Add<'_>,
) {
    let count = heads.heads;
    let [rate, dt_bias] =
        [(-0.5, 0.1), (0.0, 1.0)].map(|(middle, spread)| b.vector(count, middle, spread));
    let name = format!("{count} heads of {} x {}", heads.value_dim, heads.key_dim);
    let (input, steps) = (Buffer(0), Buffer(1));
    let (wide, narrow) = (
        ("input", info.channels, false),
        ("out", heads.values(), false),
    );
    match heads.rule {
        UpdateRule::Delta => {
            let buffers = [wide, ("a", count, false), ("b", count, false), narrow];
            let op = Recurrent::DeltaNet {
                layer,
                input,
                gates: [steps, Buffer(2)],
                rate,
                dt_bias,
                epsilon: EPSILON,
                out: Buffer(3),
            };
            run(b, &name, &buffers, op);
        }
        UpdateRule::Additive => {
            let buffers = [wide, ("dt", count, false), narrow];
            let op = Recurrent::Mamba2 {
                layer,
                input,
                gate: steps,
                rate,
                dt_bias,
                skip: b.vector(count, 0.0, 1.0),
                out: Buffer(2),
            };
            run(b, &name, &buffers, op);
        }
    }
}

/// Groups of the width of a head, or a number of groups with a weight for each column.
fn norm(b: &mut Builder, heads: StateHeads, groups: usize, run: &mut Add<'_>) {
    let columns = heads.values();
    let (order, group, weights) = match columns.checked_div(groups) {
        None => (GateOrder::NormFirst, heads.value_dim, heads.value_dim),
        Some(group) => (GateOrder::GateFirst, group, columns),
    };
    let buffers = [
        ("y", columns, false),
        ("gate", columns, false),
        ("out", columns, true),
    ];
    let op = Recurrent::GatedNorm {
        y: Buffer(0),
        gate: Buffer(1),
        norm: b.vector(weights, 1.0, 0.3),
        epsilon: EPSILON,
        order,
        group,
        out: Buffer(2),
    };
    run(b, &format!("groups of {group}"), &buffers, op);
}
