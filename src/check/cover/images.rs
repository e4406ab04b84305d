//! Cases of prompts with images: rows that embeddings replace, positions of three parts, and rows that see each other. A
//! GPU computes none of them.

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
const POSITION: usize = 100;
const HIDDEN: usize = 48;
/// The first begins a prompt, the second has one row, and the last ends the prompt behind text.
const IMAGES: [Range<usize>; 3] = [0..21, 30..31, 40..ROWS];
/// Positions that a row sees: all, fewer than an image has, and more.
const WINDOWS: [Option<usize>; 3] = [None, Some(7), Some(90)];

/// Worlds with images, for comparisons with plain loops.
pub fn images() -> impl Iterator<Item = World> {
    let types = [KvType::F32, KvType::Q8_0].into_iter();
    types.flat_map(|types| [(32, [6, 5, 5]), (64, [11, 11, 10])].map(|of| world(types, of)))
}

fn world(types: KvType, (head_dim, pairs): (usize, [usize; 3])) -> World {
    let kv = KvInfo {
        kinds: KvInfo::alike(1, 2, head_dim),
        context: 512,
        slots: SLOTS,
        pages: SLOTS * 512 / PAGE,
        chunk: CHUNK,
        types: types.into(),
        run: 512,
        state_bytes: 0,
    };
    let mut b = Builder::new(91 + head_dim as u64, kv, (Format::F16, 2, 64));
    let run = Run {
        rows: ROWS,
        input: Input::Prompt,
        activation: DType::F16,
    };
    let (wide, narrow) = (4 * head_dim, 2 * head_dim);
    let name = format!("head_dim {head_dim}, cache {}", types.name());
    let mut add = |name: String, buffers: &[(&'static str, usize, bool)], op: Op| {
        let case = b.case(&name, run, buffers, op);
        case.images = IMAGES.to_vec();
        case.position = POSITION;
    };
    for window in WINDOWS {
        let op = Op::Attend {
            layer: CacheLayer::default(),
            q: Buffer(0),
            attention: Attention {
                window: window.and_then(NonZeroUsize::new),
                joins_images: true,
                ..Attention::plain(head_dim)
            },
            out: Buffer(1),
        };
        let buffers = [("rotated", wide, true), ("attended", wide, true)];
        add(format!("{name}, window {window:?}"), &buffers, op);
    }
    for sections in [None, Some(Sections { pairs })] {
        let op = Op::RopeStore {
            layer: CacheLayer::default(),
            q: Buffer(0),
            kv: Some([Buffer(1), Buffer(2)]),
            norms: HeadNorms::default(),
            epsilon: 1e-6,
            rotation: Rotation {
                sections,
                ..Rotation::whole(head_dim)
            },
            rotated: Buffer(3),
        };
        let inputs = [
            ("q", wide, false),
            ("k", narrow, false),
            ("v", narrow, false),
        ];
        let buffers = [&inputs[..], &[("rotated", wide, true)]].concat();
        add(format!("{name}, {sections:?}"), &buffers, op);
    }
    let (rows, x) = (Buffer(0), Buffer(1));
    let buffers = [("images", HIDDEN, false), ("x", HIDDEN, false)];
    add(
        name.clone(),
        &buffers,
        Op::Images(ImageRows::Place { rows, x }),
    );
    let buffers = [("deepstack", 3 * HIDDEN, false), ("x", HIDDEN, false)];
    let first = HIDDEN;
    add(
        name,
        &buffers,
        Op::Images(ImageRows::Add { rows, first, x }),
    );
    b.finish()
}
