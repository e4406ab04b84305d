//! Cases of hidden states: those of a step are kept, and joined with embeddings.

use super::common::{ACTIVATIONS, unused_cache};
use crate::check::world::{Builder, Run, World};
use crate::quant::Format;
use crate::tape::{Buffer, Hidden, Input, Op, PLACES};

const ROWS: [usize; 4] = [1, 2, 5, 8];
const WIDTHS: [usize; 3] = [33, 256, 2560];

pub(super) fn world() -> World {
    let kv = unused_cache();
    let mut b = Builder::new(70, kv, (Format::F16, 64, 64));
    let [input, ring, x, before, out] = [0, 1, 2, 3, 4].map(Buffer);
    for activation in ACTIVATIONS {
        for (rows, width) in ROWS
            .into_iter()
            .flat_map(|rows| WIDTHS.map(|width| (rows, width)))
        {
            let run = Run {
                rows,
                input: Input::Step,
                activation,
            };
            let buffers = [
                ("hidden", width, false),
                ("ring", width, false),
                ("x", width, false),
                ("before", width, false),
                ("joined", 2 * width, false),
            ];
            let ops = vec![
                Op::Hidden(Hidden::Keep { input, ring }),
                Op::Hidden(Hidden::Join {
                    x,
                    before,
                    ring,
                    out,
                }),
            ];
            let case = b.case_of(&format!("{width}"), run, &buffers, ops);
            case.set_rows(ring, kv.slots * PLACES);
            // Rings begin again in the middle.
            case.position = PLACES + 5;
            for (slot, position) in &mut case.others {
                *position = 7 * *slot;
            }
        }
    }
    b.finish()
}
