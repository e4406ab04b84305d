//! Cases of vision towers: each operation with the shapes of all families, and with sizes that fill no tile.

use super::common::{ACTIVATIONS, unused_cache};
use crate::check::deck::Deck;
use crate::check::world::{Builder, Run, World};
use crate::quant::Format;
use crate::tape::{
    Activation, Buffer, Clip, HeadNorms, Input, Norm, NormKind, Op, PatchOrder, Square, Vision,
    WeightId,
};

/// The formats of towers' files.
const FORMATS: [Format; 4] = [Format::F32, Format::F16, Format::BF16, Format::Q8_0];
/// Patches of an image.
const PATCHES: [usize; 5] = [1, 17, 64, 129, 36];
const EPSILON: f32 = 1e-6;

/// A world with the operations of vision towers.
pub fn towers() -> impl Iterator<Item = World> {
    std::iter::once_with(world).flat_map(World::split)
}

fn world() -> World {
    let mut b = Builder::new(81, unused_cache(), (Format::F16, 64, 64));
    let mut patches = Deck::new(82, &PATCHES);
    for activation in ACTIVATIONS {
        let mut run = |rows: Option<usize>| Run {
            rows: rows.unwrap_or_else(|| patches.deal()),
            input: Input::Patches { buffers: 0 },
            activation,
        };
        for columns in [32, 100, 768, 1152] {
            for kind in [NormKind::Layer, NormKind::RootMeanSquare] {
                for rounded in [true, false] {
                    norm(&mut b, run(None), columns, (kind, rounded));
                }
            }
        }
        for format in FORMATS {
            for (index, (outputs, columns)) in SIZES.into_iter().enumerate() {
                let run = run(None);
                linear(&mut b, run, format, (outputs, columns), index);
                sum(&mut b, run, format, (outputs, columns), index);
            }
        }
        // Its blocks have a minimum, which needs sums of inputs.
        for (index, size) in SIZES.into_iter().enumerate().take(3) {
            linear(&mut b, run(None), Format::Q4_1, size, index);
            sum(&mut b, run(None), Format::Q4_1, size, index);
        }
        for outputs in [48, 18] {
            parts(&mut b, run(None), outputs);
        }
        for (heads, head_dim) in [(2, 16), (4, 64), (3, 72), (2, 80)] {
            for rows in [None, None, Some(200)] {
                rotate(&mut b, run(rows), (heads, head_dim), head_dim == 16);
                attend(&mut b, run(rows), (heads, head_dim));
            }
        }
        for head_dim in [8, 32, 48, 96, 112, 128] {
            attend(&mut b, run(Some(131)), (1 + head_dim % 3, head_dim));
        }
        for (side, [down, across]) in [(2, [4, 6]), (3, [3, 9]), (4, [8, 4])] {
            for order in [PatchOrder::Blocks, PatchOrder::Raster { columns: across }] {
                let square = Square { side, order };
                squares(&mut b, run(Some(down * across)), square, 40);
            }
        }
    }
    b.finish()
}

/// The outputs and inputs of linear layers.
const SIZES: [(usize, usize); 5] = [(64, 96), (17, 160), (130, 64), (33, 288), (256, 32)];

fn norm(b: &mut Builder, run: Run, columns: usize, (kind, rounded): (NormKind, bool)) {
    let plain = kind == NormKind::RootMeanSquare && !rounded;
    let norm = Norm {
        kind,
        weight: (!plain).then(|| b.vector(columns, 1.0, 0.3)),
        bias: (kind == NormKind::Layer).then(|| b.vector(columns, 0.0, 1.0)),
        epsilon: EPSILON,
    };
    let op = Vision::Norm {
        x: Buffer(0),
        norm,
        out: Buffer(1),
    };
    let buffers = [("x", columns, false), ("normed", columns, rounded)];
    let name = format!("{kind:?} {columns}");
    b.case(&name, run, &buffers, Op::Vision(op));
}

fn linear(
    b: &mut Builder,
    run: Run,
    format: Format,
    (outputs, columns): (usize, usize),
    index: usize,
) {
    let clips = index % 3 == 2;
    let activations = [
        None,
        Some(Activation::GeluTanh),
        Some(Activation::Gelu),
        Some(Activation::Silu),
    ];
    let op = Vision::Linear {
        input: Buffer(0),
        weight: b.matrix(format, outputs, columns),
        bias: index.is_multiple_of(2).then(|| b.vector(outputs, 0.0, 1.0)),
        clip: clips.then_some(CLIP),
        activation: activations[index % activations.len()],
        adds: false,
        out: Buffer(1),
        first: 0,
    };
    // The input and the output are rounded, or f32.
    let (from, to) = (index.is_multiple_of(2), index % 4 < 2);
    let buffers = [("input", columns, from), ("out", outputs, to)];
    let name = format!("{} ", described(format, outputs, columns, index));
    b.case(name.trim_end(), run, &buffers, Op::Vision(op));
}

const CLIP: Clip = Clip {
    input: [-0.7, 0.9],
    output: [-1.1, 0.8],
};

fn sum(
    b: &mut Builder,
    run: Run,
    format: Format,
    (outputs, columns): (usize, usize),
    index: usize,
) {
    let op = Vision::Linear {
        input: Buffer(0),
        weight: b.matrix(format, outputs, columns),
        bias: (index % 2 == 1).then(|| b.vector(outputs, 0.0, 1.0)),
        clip: (index % 3 == 1).then_some(CLIP),
        activation: None,
        adds: true,
        out: Buffer(1),
        first: 0,
    };
    let buffers = [("input", columns, true), ("x", outputs, false)];
    let name = format!("{} added", described(format, outputs, columns, index));
    b.case(&name, run, &buffers, Op::Vision(op));
}

fn described(format: Format, outputs: usize, columns: usize, index: usize) -> String {
    format!("{format:?} {outputs}x{columns} kind {index}")
}

/// Three linear layers that fill the columns of one buffer.
fn parts(b: &mut Builder, run: Run, outputs: usize) {
    let columns = 64;
    let ops = [0, 1, 2].map(|part| {
        Op::Vision(Vision::Linear {
            input: Buffer(0),
            weight: b.matrix(Format::F16, outputs, columns),
            bias: Some(b.vector(outputs, 0.0, 1.0)),
            clip: None,
            activation: None,
            adds: false,
            out: Buffer(1),
            first: part * outputs,
        })
    });
    let buffers = [("normed", columns, true), ("qkv", 3 * outputs, true)];
    b.case_of(&format!("parts of {outputs}"), run, &buffers, ops.into());
}

fn rotate(b: &mut Builder, run: Run, (heads, head_dim): (usize, usize), halves: bool) {
    let norm = |b: &mut Builder| halves.then(|| b.vector(head_dim, 1.0, 0.3));
    let op = Vision::Rotate {
        qkv: Buffer(0),
        heads,
        norms: HeadNorms {
            q: norm(b),
            k: norm(b),
            v: halves,
        },
        epsilon: EPSILON,
        parts: if halves { 2 } else { 1 },
        turns: Buffer(1),
        out: Buffer(2),
    };
    let width = 3 * heads * head_dim;
    let buffers = [
        ("qkv", width, false),
        ("turns", head_dim, false),
        ("rotated", width, true),
    ];
    let name = format!("{heads} heads of {head_dim}");
    b.case(&name, run, &buffers, Op::Vision(op));
}

fn attend(b: &mut Builder, run: Run, (heads, head_dim): (usize, usize)) {
    #[allow(clippy::cast_precision_loss)] // heads are far narrower than 2^24
    let scale = if heads == 2 {
        1.0
    } else {
        1.0 / (head_dim as f32).sqrt()
    };
    let op = Vision::Attend {
        qkv: Buffer(0),
        heads,
        scale,
        out: Buffer(1),
    };
    let width = heads * head_dim;
    let buffers = [("qkv", 3 * width, true), ("attended", width, true)];
    let name = format!("{heads} heads of {head_dim}");
    b.case(&name, run, &buffers, Op::Vision(op));
}

fn squares(b: &mut Builder, run: Run, square: Square, columns: usize) {
    let tokens = run.rows / square.patches();
    let name = format!("{:?} {}", square.order, square.side);
    for rounded in [true, false] {
        let op = Vision::Merge {
            x: Buffer(0),
            square,
            out: Buffer(1),
        };
        let wide = square.patches() * columns;
        let buffers = [("x", columns, false), ("merged", wide, rounded)];
        let case = b.case(&name, run, &buffers, Op::Vision(op));
        case.set_rows(Buffer(1), tokens);
    }
    for standard in [true, false] {
        let vectors: [WeightId; 2] = [0.1, 1.0].map(|middle| b.vector(columns, middle, 0.3));
        let op = Vision::Pool {
            x: Buffer(0),
            square,
            scale: if standard { 5.5 } else { 1.0 },
            standard: standard.then_some(vectors),
            out: Buffer(1),
        };
        let buffers = [("x", columns, false), ("pooled", columns, false)];
        let case = b.case(&name, run, &buffers, Op::Vision(op));
        case.set_rows(Buffer(1), tokens);
    }
}
