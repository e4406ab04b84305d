//! Cases of operations on the cache.

use std::num::NonZeroUsize;

use super::common::ACTIVATIONS;
use crate::check::deck::Deck;
use crate::check::world::{Builder, ROWS, Run, World, rotations};
use crate::kv::KvTypes;
use crate::quant::Format;
use crate::tape::{
    Attention, Buffer, CacheLayer, HeadNorms, Input, KvInfo, KvKind, Op, QueryScale, Rotation,
};

/// Query heads for each KV head. The last is more than attention computes at a time.
const GROUPS: [usize; 8] = [1, 2, 3, 4, 5, 7, 8, 16];
const LENGTHS: [usize; 8] = [1, 2, 127, 4095, 128, 65, 513, 1000];
/// Positions that a row sees; `None` is all.
const WINDOWS: [Option<usize>; 8] = [
    None,
    Some(1),
    None,
    Some(63),
    None,
    Some(128),
    None,
    Some(700),
];
/// Whether q and k are normed, v is normed, and k and v are stored.
const NORMS: [[bool; 3]; 5] = [
    [true, false, true],
    [false, false, true],
    [true, true, true],
    [false, false, true],
    [true, false, false],
];
/// Positions of long conversations.
const FAR: [usize; 4] = [40_000, 9_001, 32_769, 20_000];

const QUERY_SCALE: QueryScale = QueryScale {
    beta: 0.1,
    original: NonZeroUsize::new(64).expect("it is not 0"),
};

/// The decks of positions, lengths and options, shared by all caches.
pub(super) struct Deal {
    rows: Deck<usize>,
    lengths: Deck<usize>,
    groups: Deck<usize>,
    /// Whether q and k are normed, v is normed, and k and v are stored.
    norms: Deck<[bool; 3]>,
    padding: Deck<usize>,
    slots: Deck<usize>,
    /// Rows of a step.
    steps: Deck<usize>,
    windows: Deck<Option<usize>>,
    /// Factors of scores in addition to 1 / sqrt(head_dim).
    scales: Deck<f32>,
    softcaps: Deck<Option<f32>>,
    sunk: Deck<bool>,
    /// Indices of `rotations`.
    rotations: Deck<usize>,
    query_scales: Deck<Option<QueryScale>>,
}

impl Deal {
    pub(super) fn new() -> Self {
        Self {
            rows: Deck::new(21, &[1, 2, 7, 8, 9, 16, 63, 64, 65, 128, ROWS]),
            lengths: Deck::new(22, &LENGTHS),
            groups: Deck::new(23, &GROUPS),
            norms: Deck::new(24, &NORMS),
            padding: Deck::new(25, &[0, 1, 0, 11]),
            slots: Deck::new(26, &[0, 1]),
            steps: Deck::new(27, &[1, 8, 2, 4]),
            windows: Deck::new(51, &WINDOWS),
            scales: Deck::new(52, &[1.0, 1.0, 0.5]),
            softcaps: Deck::new(53, &[None, None, Some(2.0)]),
            sunk: Deck::new(54, &[false, true, false]),
            rotations: Deck::new(55, &[0, 1, 0, 2]),
            query_scales: Deck::new(56, &[None, None, Some(QUERY_SCALE)]),
        }
    }

    /// Decks for long conversations: few rows, because each reads all earlier positions.
    pub(super) fn far() -> Self {
        Self {
            rows: Deck::new(28, &[65, 1, 16]),
            lengths: Deck::new(29, &FAR),
            groups: Deck::new(30, &[4, 1, 8]),
            steps: Deck::new(31, &[1, 2]),
            windows: Deck::new(57, &[None, Some(4096), None]),
            ..Self::new()
        }
    }
}

/// The operations of a case. On a GPU, a step's rotation and attention are one kernel.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Store,
    Attend,
    Both,
}

pub(super) fn world(kv: KvInfo, deal: &mut Deal) -> World {
    let KvKind {
        heads, head_dim, ..
    } = kv.kinds[0];
    let nth = KvTypes::all().position(|types| types == kv.types);
    let seed = (1000 * head_dim + nth.unwrap_or_default()) as u64;
    let mut b = Builder::new(seed, kv, (Format::F16, 2, 64));
    let norms = [(); 2].map(|()| b.vector(head_dim, 1.0, 0.3));
    for activation in ACTIVATIONS {
        for (kind, input) in [
            (Kind::Store, Input::Step),
            (Kind::Store, Input::Prompt),
            (Kind::Attend, Input::Step),
            (Kind::Both, Input::Step),
            (Kind::Attend, Input::Prompt),
            (Kind::Attend, Input::Prompt),
        ] {
            let rows = if input == Input::Step {
                deal.steps.deal().min(kv.slots)
            } else {
                deal.rows.deal()
            };
            let length = deal.lengths.deal().min(kv.context - 1).max(rows);
            let group = deal.groups.deal();
            let (wide, narrow) = (group * heads * head_dim, heads * head_dim);
            let run = Run {
                rows,
                input,
                activation,
            };
            let mut name = vec![
                format!("head_dim {head_dim}, {heads} kv heads x {group}"),
                format!("cache {}, length {length}", kv.types.name()),
            ];
            let (mut ops, mut buffers) = (Vec::new(), Vec::new());
            if kind != Kind::Attend {
                let rotation = deal.rotation(head_dim, &mut name);
                let [normed, v, stored] = deal.norms.deal();
                name.extend(normed.then(|| "normed".to_owned()));
                name.extend(v.then(|| "v normed".to_owned()));
                name.extend((!stored).then(|| "nothing stored".to_owned()));
                let norm = |which: usize| normed.then_some(norms[which]);
                buffers.push(("q", wide, false));
                if stored {
                    buffers.extend([("k", narrow, false), ("v", narrow, false)]);
                }
                ops.push(Op::RopeStore {
                    layer: CacheLayer::default(),
                    q: Buffer(0),
                    kv: stored.then_some([Buffer(1), Buffer(2)]),
                    norms: HeadNorms {
                        q: norm(0),
                        k: norm(1).filter(|_| stored),
                        v,
                    },
                    epsilon: 1e-6,
                    rotation,
                    rotated: Buffer(buffers.len()),
                });
            }
            buffers.push(("rotated", wide, true));
            if kind != Kind::Store {
                let q = Buffer(buffers.len() - 1);
                buffers.push(("attended", wide, true));
                ops.push(Op::Attend {
                    layer: CacheLayer::default(),
                    q,
                    attention: deal.attention(&mut b, (group * heads, head_dim), &mut name),
                    out: Buffer(buffers.len() - 1),
                });
            }
            let case = b.case_of(&name.join(", "), run, &buffers, ops);
            case.pad(deal.padding.deal().min(rows - 1));
            case.slot = deal.slots.deal() % kv.slots;
            if input == Input::Step {
                case.position = length - 1;
                case.others = (1..case.tokens.len())
                    .map(|row| {
                        let length = deal.lengths.deal().min(kv.context - 1);
                        ((case.slot + row) % kv.slots, length - 1)
                    })
                    .collect();
            } else {
                case.position = length - case.tokens.len();
            }
        }
    }
    b.finish()
}

impl Deal {
    /// The rotation of a case. An unusual one adds to the name.
    fn rotation(&mut self, head_dim: usize, name: &mut Vec<String>) -> Rotation {
        let rotation = Rotation {
            query_scale: self.query_scales.deal(),
            ..rotations(head_dim)[self.rotations.deal()]
        };
        if rotation.dims < head_dim {
            name.push(format!("{} rotated", rotation.dims));
        }
        if rotation.query_scale.is_some() {
            name.push("queries scaled".into());
        }
        rotation
    }

    /// The attention of a case with a number of query heads. An unusual one adds to the name.
    fn attention(
        &mut self,
        b: &mut Builder,
        (heads, head_dim): (usize, usize),
        name: &mut Vec<String>,
    ) -> Attention {
        let plain = Attention::plain(head_dim);
        let by = self.scales.deal();
        let attention = Attention {
            scale: by * plain.scale,
            window: self.windows.deal().and_then(NonZeroUsize::new),
            softcap: self.softcaps.deal(),
            sinks: self.sunk.deal().then(|| b.vector(heads, 0.0, 1.0)),
            ..plain
        };
        if by < 1.0 {
            name.push(format!("scale {}", attention.scale));
        }
        if let Some(window) = attention.window {
            name.push(format!("window {window}"));
        }
        if let Some(cap) = attention.softcap {
            name.push(format!("softcap {cap}"));
        }
        if attention.sinks.is_some() {
            name.push("sinks".into());
        }
        attention
    }
}
