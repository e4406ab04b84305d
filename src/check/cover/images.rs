//! Cases of prompts with images: rows that embeddings replace, positions of three parts, and rows that see each other; and
//! of text after an image, which rotates by other positions than those of the cache.

use std::num::NonZeroUsize;
use std::ops::Range;

use super::common::CHUNK;
use crate::check::world::{Builder, Run, SLOTS, World};
use crate::kv::{KvType, PAGE};
use crate::quant::{DType, Format};
use crate::tape::{
    Attention, Buffer, CacheLayer, HeadNorms, ImageRows, Input, KvInfo, Op, Rotation, Sections,
};

const ROWS: usize = 67;
/// The second prompt crosses a border of attention's splits.
const POSITIONS: [usize; 2] = [100, 470];
const CONTEXT: usize = 1024;
const HIDDEN: usize = 48;
/// The first begins a prompt, the second has one row, and the last ends the prompt behind text.
const IMAGES: [Range<usize>; 3] = [0..21, 30..31, 40..ROWS];
/// Positions that a row sees: all, fewer than an image has, and more.
const WINDOWS: [Option<usize>; 3] = [None, Some(7), Some(90)];
/// What a conversation's rows of text rotate by, relative to their positions in the cache.
const OFFSET: isize = -37;

/// The types of the cache and of the activations, the size of heads, and the pairs of each part of a position.
const KINDS: [(KvType, DType, usize, [usize; 3]); 9] = [
    (KvType::F32, DType::F16, 32, [6, 5, 5]),
    (KvType::F32, DType::F16, 64, [11, 11, 10]),
    (KvType::Q8_0, DType::F16, 32, [6, 5, 5]),
    (KvType::Q8_0, DType::F16, 64, [11, 11, 10]),
    (KvType::F16, DType::F16, 64, [11, 11, 10]),
    (KvType::BF16, DType::BF16, 128, [24, 20, 20]),
    (KvType::F16, DType::F16, 80, [14, 13, 13]),
    (KvType::Q8_0, DType::BF16, 128, [24, 20, 20]),
    (KvType::F16, DType::F16, 256, [44, 42, 42]),
];

/// Worlds with images, for comparisons with plain loops and between executors.
pub fn images() -> impl Iterator<Item = World> {
    KINDS.into_iter().map(world).flat_map(World::split)
}

fn world((types, activation, head_dim, pairs): (KvType, DType, usize, [usize; 3])) -> World {
    let kv = KvInfo {
        kinds: KvInfo::alike(1, 2, head_dim),
        context: CONTEXT,
        slots: SLOTS,
        pages: SLOTS * CONTEXT / PAGE,
        chunk: CHUNK,
        types: types.into(),
        run: CONTEXT,
        state_bytes: 0,
    };
    let mut b = Builder::new(91 + head_dim as u64, kv, (Format::F16, 2, 64));
    let run = Run {
        rows: ROWS,
        input: Input::Prompt,
        activation,
    };
    let wide = 4 * head_dim;
    let name = format!("head_dim {head_dim}, cache {}", types.name());
    let mut add = |name: String, buffers: &[(&'static str, usize, bool)], op: Op, position| {
        let case = b.case(&format!("images {name}"), run, buffers, op);
        case.images = IMAGES.to_vec();
        case.position = position;
    };
    for position in POSITIONS {
        for window in WINDOWS {
            let attention = Attention {
                window: window.and_then(NonZeroUsize::new),
                joins_images: true,
                ..Attention::plain(head_dim)
            };
            let buffers = [("rotated", wide, true), ("attended", wide, true)];
            let name = format!("{name}, window {window:?}, after {position}");
            add(
                name,
                &buffers,
                attend(Buffer(0), attention, Buffer(1)),
                position,
            );
        }
    }
    let first = POSITIONS[0];
    for sections in [None, Some(Sections { pairs })] {
        let rotation = Rotation {
            sections,
            ..Rotation::whole(head_dim)
        };
        let name = format!("{name}, {sections:?}");
        add(name, &rotated(head_dim), rotate(rotation, false), first);
    }
    let (rows, x) = (Buffer(0), Buffer(1));
    let buffers = [("images", HIDDEN, false), ("x", HIDDEN, false)];
    add(
        name.clone(),
        &buffers,
        Op::Images(ImageRows::Place { rows, x }),
        first,
    );
    let buffers = [("deepstack", 3 * HIDDEN, false), ("x", HIDDEN, false)];
    let place = Op::Images(ImageRows::Add {
        rows,
        first: HIDDEN,
        x,
    });
    add(name.clone(), &buffers, place, first);
    text(&mut b, activation, &name, head_dim);
    b.finish()
}

/// Rows of text after an image: a prompt, and steps whose rotation is a kernel of its own or part of attention.
fn text(b: &mut Builder, activation: DType, name: &str, head_dim: usize) {
    let rotation = Rotation::whole(head_dim);
    for (rows, input, norms_v, attends) in [
        (9, Input::Prompt, false, false),
        (SLOTS, Input::Step, true, false),
        (1, Input::Step, false, true),
        (SLOTS, Input::Step, false, true),
    ] {
        let run = Run {
            rows,
            input,
            activation,
        };
        let mut ops = vec![rotate(rotation, norms_v)];
        let mut buffers = rotated(head_dim).to_vec();
        if attends {
            let plain = Attention::plain(head_dim);
            ops.push(attend(Buffer(3), plain, Buffer(4)));
            buffers.push(("attended", 4 * head_dim, true));
        }
        let case = b.case_of(&format!("offset {name}"), run, &buffers, ops);
        case.offset = OFFSET;
        case.position = 100;
        case.others.iter_mut().for_each(|(_, at)| *at = 77);
    }
}

fn attend(q: Buffer, attention: Attention, out: Buffer) -> Op {
    Op::Attend {
        layer: CacheLayer::default(),
        q,
        attention,
        out,
    }
}

/// The buffers of a rotation.
fn rotated(head_dim: usize) -> [(&'static str, usize, bool); 4] {
    let (wide, narrow) = (4 * head_dim, 2 * head_dim);
    [
        ("q", wide, false),
        ("k", narrow, false),
        ("v", narrow, false),
        ("rotated", wide, true),
    ]
}

fn rotate(rotation: Rotation, norms_v: bool) -> Op {
    Op::RopeStore {
        layer: CacheLayer::default(),
        q: Buffer(0),
        kv: Some([Buffer(1), Buffer(2)]),
        norms: HeadNorms {
            v: norms_v,
            ..HeadNorms::default()
        },
        epsilon: 1e-6,
        rotation,
        rotated: Buffer(3),
    }
}
