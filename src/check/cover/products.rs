//! Cases of matrix products and of embeddings: each format, activation type and kernel.

use super::common::{ACTIVATIONS, VOCABULARY, unused_cache};
use crate::check::case::Case;
use crate::check::deck::Deck;
use crate::check::world::{Builder, ROWS, Run, World};
use crate::quant::random::Random;
use crate::quant::{DType, Format};
use crate::tape::{Activation, Buffer, Input, Op, Projection, WeightId};

/// Rows of prompts for the narrow product, and for the wide one.
const FEW: [usize; 4] = [1, 2, 7, 8];
const MANY: [usize; 7] = [9, 16, 63, 64, 65, 128, ROWS];
/// Rows of a matrix. Few of them are a multiple of a tile.
const OUTPUTS: [usize; 7] = [17, 100, 16, 130, 33, 256, 8];

fn columns_of(block_len: usize) -> &'static [usize] {
    match block_len {
        1 => &[64, 72, 33, 100, 160, 288, 1000, 576],
        32 => &[32, 96, 160, 288, 416, 576, 1024],
        _ => &[256, 512, 768, 2048],
    }
}

/// Runs of each kind: a step, few rows, many rows; each with both activation types.
struct Runs {
    steps: Deck<usize>,
    few: Deck<usize>,
    many: Deck<usize>,
}

impl Runs {
    fn new(seed: u64) -> Self {
        Self {
            steps: Deck::new(seed + 2, &[1, 8, 1, 2, 4]),
            few: Deck::new(seed, &FEW),
            many: Deck::new(seed + 1, &MANY),
        }
    }

    fn each(&mut self) -> Vec<Run> {
        let each = ACTIVATIONS.map(|activation| {
            [
                (self.steps.deal(), Input::Step),
                (self.few.deal(), Input::Prompt),
                (self.many.deal(), Input::Prompt),
            ]
            .map(|(rows, input)| Run {
                rows,
                input,
                activation,
            })
        });
        each.concat()
    }
}

/// Decks of the sizes of products.
struct Sizes {
    outputs: Deck<usize>,
    columns: [Deck<usize>; 3],
    others: Deck<Format>,
}

impl Sizes {
    fn new() -> Self {
        Self {
            outputs: Deck::new(11, &OUTPUTS),
            columns: [1, 32, 256].map(|block| Deck::new(12, columns_of(block))),
            others: Deck::new(13, &Format::ALL),
        }
    }

    fn columns(&mut self, format: Format) -> usize {
        self.columns[match format.block_len() {
            1 => 0,
            32 => 1,
            _ => 2,
        }]
        .deal()
    }

    /// Another format for such rows, because real files mix formats.
    fn other(&mut self, columns: usize) -> Format {
        loop {
            let format = self.others.deal();
            if columns.is_multiple_of(format.block_len()) {
                return format;
            }
        }
    }
}

pub(super) fn world() -> World {
    let mut b = Builder::new(1, unused_cache(), (Format::BF16, 1024, 64));
    let (mut runs, mut sizes) = (Runs::new(2), Sizes::new());
    for format in Format::ALL {
        // The rows are f32, whatever the type of activations is.
        for run in runs.each().into_iter().take(3) {
            embed(
                &mut b,
                format,
                (sizes.outputs.deal(), sizes.columns(format)),
                run,
            );
        }
        for run in runs.each() {
            let columns = sizes.columns(format);
            let formats = [format, sizes.other(columns), sizes.other(columns)];
            qkv(&mut b, (formats, columns), run, &mut sizes);
        }
        for run in runs.each() {
            let (outputs, columns) = (sizes.outputs.deal(), sizes.columns(format));
            let weight = b.matrix(format, outputs, columns);
            let op = Op::Project {
                input: Buffer(0),
                weight,
                x: Buffer(1),
            };
            let buffers = [("attended", columns, true), ("x", outputs, false)];
            b.case(&named(format, outputs, columns), run, &buffers, op);
        }
        for run in runs.each() {
            let (outputs, columns) = (sizes.outputs.deal(), sizes.columns(format));
            let op = Op::Product {
                input: Buffer(0),
                weight: b.matrix(format, outputs, columns),
                out: Buffer(1),
            };
            let buffers = [("attended", columns, true), ("y", outputs, false)];
            b.case(&named(format, outputs, columns), run, &buffers, op);
        }
        for run in runs.each() {
            let (outputs, columns) = (sizes.outputs.deal(), sizes.columns(format));
            let other = sizes.other(columns);
            gate_up(&mut b, [format, other], (outputs, columns), run);
        }
        for run in runs.each() {
            let weight = (sizes.outputs.deal(), sizes.columns(format));
            // All rows have logits, or only the last one of a prompt.
            let mut scored = vec![run.rows];
            if run.input == Input::Prompt {
                scored.push(1);
            }
            // The last row alone uses the step's kernel. Steps cover it with all types of activations, so f16 is enough here.
            scored.truncate(if run.activation == DType::F16 { 2 } else { 1 });
            scored.dedup();
            for scored in scored {
                let weight_id = b.matrix(format, weight.0, weight.1);
                let case = head(&mut b, (weight_id, format, weight), run, scored);
                if scored == 1 && run.input == Input::Prompt {
                    // The last row that is not padding has logits.
                    case.pad((run.rows - 1).min(3));
                }
            }
        }
    }
    for columns in [33, 64, 1000, 2560] {
        for run in runs.each() {
            let norm = b.vector(columns, 1.0, 0.3);
            let op = Op::AddNormed {
                y: Buffer(0),
                norm,
                epsilon: 1e-6,
                scale: (run.rows % 2 == 0).then(|| b.vector(1, 0.7, 0.1)),
                x: Buffer(1),
            };
            let buffers = [("y", columns, false), ("x", columns, false)];
            b.case(&columns.to_string(), run, &buffers, op);
            let op = Op::Softcap {
                logits: Buffer(0),
                cap: 0.75,
            };
            b.case(&columns.to_string(), run, &[("logits", columns, false)], op);
        }
    }
    layer_inputs(&mut b, &mut runs, &mut sizes);
    // The formats of one kernel, if the columns are a multiple of both blocks.
    for first in [Format::Q4_K, Format::Q5_K] {
        for formats in [
            [first, first, Format::Q6_K],
            [first, Format::Q6_K, Format::Q6_K],
        ] {
            for run in runs
                .each()
                .into_iter()
                .filter(|run| run.input == Input::Step)
            {
                qkv(&mut b, (formats, sizes.columns(first)), run, &mut sizes);
            }
        }
    }
    b.finish()
}

/// Additional inputs of layers, and products of the residual stream.
fn layer_inputs(b: &mut Builder, runs: &mut Runs, sizes: &mut Sizes) {
    for format in Format::ALL {
        for run in runs.each() {
            let (outputs, columns) = (sizes.outputs.deal(), sizes.columns(format));
            let op = Op::Product {
                input: Buffer(0),
                weight: b.matrix(format, outputs, columns),
                out: Buffer(1),
            };
            let buffers = [("x", columns, false), ("y", outputs, false)];
            let name = format!("{} of x", named(format, outputs, columns));
            b.case(&name, run, &buffers, op);
        }
        let width = sizes.columns(format);
        let rows = sizes.outputs.deal();
        for run in runs.each().into_iter().take(3) {
            let op = Op::LayerInputs {
                table: b.matrix(format, rows, 3 * width),
                scale: 2.5,
                norm: b.vector(width, 1.0, 0.3),
                epsilon: 1e-5,
                inputs: Buffer(0),
            };
            let name = named(format, rows, 3 * width);
            let case = b.case(&name, run, &[("inputs", 3 * width, false)], op);
            for (at, token) in case.tokens.iter_mut().enumerate() {
                *token = u32::try_from(at * 7 % rows).unwrap_or(0);
            }
            case.pad(if run.rows == 7 { 2 } else { 0 });
        }
    }
    norms(b, runs);
    let activations = [
        Activation::GeluTanh,
        Activation::SquaredRelu,
        Activation::Sigmoid,
        Activation::Silu,
    ];
    let mut activations = Deck::new(61, &activations);
    // In f32, in the type of activations, and none.
    let mut inputs = Deck::new(62, &[Some(false), Some(true), None]);
    for width in [16, 33, 256, 1000] {
        for run in runs.each() {
            let (activation, input) = (activations.deal(), inputs.deal());
            let op = Op::Gate {
                gate: Buffer(0),
                input: input.map(|_| Buffer(2)),
                first: if input.is_some() { 2 * width } else { 0 },
                activation,
                out: Buffer(1),
            };
            let mut buffers = vec![("gate", width, false), ("gated", width, true)];
            buffers.extend(input.map(|rounded| ("inputs", 4 * width, rounded)));
            b.case(&format!("{activation:?} {width}"), run, &buffers, op);
        }
    }
}

/// Norms of two inputs into the halves of a row, and one of a whole row.
fn norms(b: &mut Builder, runs: &mut Runs) {
    for width in [33, 256, 2560] {
        for run in runs.each() {
            let norm = |b: &mut Builder, (x, first): (Buffer, usize), out: Buffer| Op::Norm {
                x,
                norm: b.vector(width, 1.0, 0.3),
                epsilon: 1e-5,
                first,
                out,
            };
            let halves = [(Buffer(0), 0), (Buffer(1), width)];
            let halves = halves.map(|half| norm(b, half, Buffer(2)));
            let buffers = [
                ("x", width, false),
                ("y", width, false),
                ("out", 2 * width, false),
            ];
            b.case_of(&format!("halves of {width}"), run, &buffers, halves.into());
            let whole = norm(b, (Buffer(0), 0), Buffer(1));
            let buffers = [("x", width, false), ("out", width, false)];
            b.case(&format!("{width}"), run, &buffers, whole);
        }
    }
}

fn named(format: Format, rows: usize, columns: usize) -> String {
    format!("{format:?} {rows}x{columns}")
}

fn embed(b: &mut Builder, format: Format, (rows, columns): (usize, usize), run: Run) {
    let table = b.matrix(format, rows, columns);
    embed_of(b, (table, format, (rows, columns)), run);
}

type Sized = (WeightId, Format, (usize, usize));

fn embed_of(b: &mut Builder, (table, format, (rows, columns)): Sized, run: Run) {
    let op = Op::Embed {
        table,
        scale: if rows % 2 == 0 { 1.0 } else { 12.5 },
        x: Buffer(0),
    };
    let mut random = Random::new(b.random.bits());
    let name = named(format, rows, columns);
    let case = b.case(&name, run, &[("x", columns, false)], op);
    for (at, token) in case.tokens.iter_mut().enumerate() {
        // Including the first and the last row.
        let row = [0, rows - 1, rows / 2].get(at).copied();
        let row = if run.rows > 2 { row } else { None };
        *token = u32::try_from(row.unwrap_or_else(|| random.below(rows))).unwrap_or(0);
    }
    case.pad(if run.rows == 7 { 2 } else { 0 });
    if run.input == Input::Step {
        // The second run takes the token that the first one chose.
        case.runs = 2;
    }
}

fn qkv(b: &mut Builder, (formats, columns): ([Format; 3], usize), run: Run, sizes: &mut Sizes) {
    let widths = [(); 3].map(|()| sizes.outputs.deal());
    let biased = b.random.below(2) == 0;
    let norm = b.vector(columns, 1.0, 0.3);
    let mut at = 0..3;
    let projections = [(); 3].map(|()| {
        let at = at.next().unwrap_or_default();
        Projection {
            weight: b.matrix(formats[at], widths[at], columns),
            bias: biased.then(|| b.vector(widths[at], 0.0, 1.0)),
            out: Buffer(1 + at),
        }
    });
    let op = Op::Qkv {
        x: Buffer(0),
        norm,
        epsilon: 1e-5,
        projections: projections.into(),
    };
    let buffers = [
        ("x", columns, false),
        ("q", widths[0], false),
        ("k", widths[1], false),
        ("v", widths[2], false),
    ];
    let bias = if biased { " biased" } else { "" };
    let name = format!(
        "{}, {:?}, {:?}{bias}",
        named(formats[0], widths[0], columns),
        formats[1],
        formats[2]
    );
    b.case(&name, run, &buffers, op);
}

fn gate_up(b: &mut Builder, [gate, up]: [Format; 2], (outputs, columns): (usize, usize), run: Run) {
    let op = Op::GateUp {
        x: Buffer(0),
        norm: b.vector(columns, 1.0, 0.3),
        epsilon: 1e-6,
        gate: b.matrix(gate, outputs, columns),
        up: b.matrix(up, outputs, columns),
        activation: [Activation::Silu, Activation::GeluTanh][outputs % 2],
        out: Buffer(1),
    };
    let buffers = [("x", columns, false), ("mlp", outputs, true)];
    let name = format!("{}, {up:?}", named(gate, outputs, columns));
    b.case(&name, run, &buffers, op);
}

fn head(
    b: &mut Builder,
    (weight, format, (rows, columns)): Sized,
    run: Run,
    scored: usize,
) -> &mut Case {
    let op = Op::Head {
        x: Buffer(0),
        norm: b.vector(columns, 1.0, 0.3),
        epsilon: 1e-5,
        weight,
        logits: Buffer(1),
    };
    let name = format!("{} last {scored}", named(format, rows, columns));
    let buffers = [("x", columns, false), ("logits", rows, false)];
    let case = b.case(&name, run, &buffers, op);
    case.set_rows(Buffer(1), scored);
    case
}

/// Worlds that are too large for a quick test: tables of a real vocabulary, one of them in two chunks of memory, and
/// products that are large enough for another tile shape.
pub fn large() -> impl Iterator<Item = World> {
    const COLUMNS: usize = 1024;
    let mut b = Builder::new(41, unused_cache(), (Format::F32, VOCABULARY, COLUMNS));
    let table = (WeightId(0), Format::F32, (VOCABULARY, COLUMNS));
    let runs = |rows, input| {
        ACTIVATIONS.map(|activation| Run {
            rows,
            input,
            activation,
        })
    };
    for run in [runs(1, Input::Step), runs(ROWS, Input::Prompt)].concat() {
        embed_of(&mut b, table, run);
    }
    for run in [runs(1, Input::Step), runs(9, Input::Prompt)].concat() {
        head(&mut b, table, run, run.rows);
    }
    // Enough tiles that each of 132 multiprocessors has one in a shape of 64 x 80 only.
    for format in [Format::F16, Format::BF16] {
        let (rows, columns) = (3456, 128);
        let weight = b.matrix(format, rows, columns);
        for run in runs(ROWS, Input::Prompt) {
            head(&mut b, (weight, format, (rows, columns)), run, ROWS);
        }
    }
    // Enough tiles that 132 multiprocessors have a few left after four turns of the largest shape, which are computed
    // in smaller shapes.
    for format in [
        Format::F16,
        Format::BF16,
        Format::Q8_0,
        Format::Q4_0,
        Format::Q2_K,
        Format::Q3_K,
        Format::Q4_K,
        Format::Q5_K,
        Format::Q6_K,
    ] {
        let (rows, columns) = (22_780, 256);
        let weight = b.matrix(format, rows, columns);
        for run in runs(ROWS, Input::Prompt) {
            head(&mut b, (weight, format, (rows, columns)), run, ROWS);
            gate_up(&mut b, [format; 2], (rows / 2, columns), run);
        }
    }
    // Enough tiles in both directions that three turns of 128 x 128 leave none.
    for format in [Format::F16, Format::BF16] {
        let (rows, columns) = (25_330, 128);
        let weight = b.matrix(format, rows, columns);
        for run in runs(250, Input::Prompt) {
            head(&mut b, (weight, format, (rows, columns)), run, run.rows);
            gate_up(&mut b, [format; 2], (rows / 2, columns), run);
        }
    }
    for format in [Format::BF16, Format::Q8_0, Format::Q4_0, Format::Q6_K] {
        let weight = b.matrix(format, VOCABULARY, 256);
        for run in [runs(1, Input::Step), runs(7, Input::Prompt)].concat() {
            let run_of = (weight, format, (VOCABULARY, 256));
            head(&mut b, run_of, run, run.rows);
        }
    }
    b.finish().split()
}
