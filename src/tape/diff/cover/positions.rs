//! What reads and writes one cache.

use super::{ACTIVATIONS, ROWS, Run, World};
use crate::model::Format;
use crate::tape::diff::random::Deck;
use crate::tape::diff::world::Builder;
use crate::tape::{Input, KvInfo, Op, Slot};

/// The last is more than attention takes at a time.
const GROUPS: [usize; 8] = [1, 2, 3, 4, 5, 7, 8, 16];
const LENGTHS: [usize; 8] = [1, 2, 127, 4095, 128, 65, 513, 1000];
/// Of long conversations.
const FAR: [usize; 4] = [40_000, 9_001, 32_769, 20_000];

/// What cases of a position and a length are dealt from, over all caches.
pub(super) struct Deal {
    rows: Deck<usize>,
    lengths: Deck<usize>,
    groups: Deck<usize>,
    normed: Deck<bool>,
    padding: Deck<usize>,
    regions: Deck<usize>,
    /// Rows of a step.
    steps: Deck<usize>,
}

impl Deal {
    pub(super) fn new() -> Self {
        Self {
            rows: Deck::new(21, &[1, 2, 7, 8, 9, 16, 63, 64, 65, 128, ROWS]),
            lengths: Deck::new(22, &LENGTHS),
            groups: Deck::new(23, &GROUPS),
            normed: Deck::new(24, &[true, false]),
            padding: Deck::new(25, &[0, 1, 0, 11]),
            regions: Deck::new(26, &[0, 1]),
            steps: Deck::new(27, &[1, 8, 2, 4]),
        }
    }

    /// Far into a conversation: few rows, for each reads all that was before it.
    pub(super) fn far() -> Self {
        Self {
            rows: Deck::new(28, &[65, 1, 16]),
            lengths: Deck::new(29, &FAR),
            groups: Deck::new(30, &[4, 1, 8]),
            steps: Deck::new(31, &[1, 2]),
            ..Self::new()
        }
    }
}

pub(super) fn world(kv: KvInfo, deal: &mut Deal) -> World {
    let KvInfo {
        heads, head_dim, ..
    } = kv;
    let seed = 1000 * head_dim as u64 + kv.element as u64;
    let mut b = Builder::new(seed, kv, (Format::F16, 2, 64));
    let norms = [(); 2].map(|()| b.vector(head_dim, 1.0, 0.3));
    for activation in ACTIVATIONS {
        for (attend, input) in [
            (false, Input::Step),
            (false, Input::Prompt),
            (true, Input::Step),
            (true, Input::Step),
            (true, Input::Prompt),
            (true, Input::Prompt),
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
            let name = format!(
                "head_dim {head_dim}, {heads} kv heads x {group}, cache {}, length {length}",
                kv.element.name()
            );
            let case = if attend {
                let op = Op::Attend {
                    layer: 0,
                    q: Slot(0),
                    out: Slot(1),
                };
                b.case(
                    &name,
                    run,
                    &[("q", wide, true), ("attended", wide, true)],
                    op,
                )
            } else {
                let normed = deal.normed.deal();
                let op = Op::RopeStore {
                    layer: 0,
                    inputs: [Slot(0), Slot(1), Slot(2)],
                    norms: normed.then_some(norms),
                    epsilon: 1e-6,
                    rotated: Slot(3),
                };
                let slots = [
                    ("q", wide, false),
                    ("k", narrow, false),
                    ("v", narrow, false),
                    ("rotated", wide, true),
                ];
                let name = format!("{name}{}", if normed { " normed" } else { "" });
                b.case(&name, run, &slots, op)
            };
            case.pad(deal.padding.deal().min(rows - 1));
            case.region = deal.regions.deal() % kv.slots;
            if input == Input::Step {
                case.position = length - 1;
                case.others = (1..case.tokens.len())
                    .map(|row| {
                        let length = deal.lengths.deal().min(kv.context - 1);
                        ((case.region + row) % kv.slots, length - 1)
                    })
                    .collect();
            } else {
                case.position = length - case.tokens.len();
            }
        }
    }
    b.finish()
}
