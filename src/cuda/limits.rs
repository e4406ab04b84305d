//! The limits of the kernels, which are checked before a model is loaded.

use super::kernels::widest_row;
use super::memory;
use crate::quant::padded;
use crate::tape::{Buffer, KvKind, Op, StateHeads, Tape, Vision, WeightId};

/// The widest head in `rope.cuh`: 8 pairs for each of 32 lanes.
const WIDEST_HEAD: usize = 2 * 8 * 32;

/// The most keys of a column in `recurrent/update.cuh`.
const MOST_KEYS: usize = 128;

/// The widest head of a vision tower that `kernels/vision/` has kernels for.
const WIDEST_TOWER_HEAD: usize = 128;

/// The most blocks along the second side of a grid.
const MOST_PATCHES: usize = u16::MAX as usize;

/// The most query heads of a KV head whose blocks `splits.rs` can count separately.
const MOST_GROUP: usize = 256;

/// Why a model needs another backend.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unsuited {
    #[error(
        "the CUDA kernels take {what} of at most {most}, and the model has {value}: use backend = \"cpu\""
    )]
    Size {
        what: &'static str,
        value: usize,
        most: usize,
    },
    #[error(
        "the CUDA kernels take heads of a multiple of 8, and the model has {value}: use backend = \"cpu\""
    )]
    Head { value: usize },
    #[error(
        "the CUDA kernels take recurrent layers whose {what} are a multiple of 4, and the model has {value}: \
         use backend = \"cpu\""
    )]
    Recurrent { what: &'static str, value: usize },
    #[error(
        "{weight} is larger than the 512 MiB that a layer's matrix may have with CUDA: \
         use a smaller quantization of the model, or backend = \"cpu\""
    )]
    Matrix { weight: String },
}

/// Checks that the kernels can run a tape.
///
/// # Errors
/// The first limit that the tape exceeds.
pub fn suits(tape: &Tape) -> Result<(), Unsuited> {
    for KvKind { head_dim, .. } in tape.kv.used_kinds() {
        within("heads", head_dim, WIDEST_HEAD)?;
        if !head_dim.is_multiple_of(16 / 2) {
            return Err(Unsuited::Head { value: head_dim });
        }
    }
    if let Some(StateHeads {
        key_dim,
        heads,
        value_dim,
        ..
    }) = tape.state.and_then(|state| state.heads)
    {
        within("keys of a recurrent head", key_dim, MOST_KEYS)?;
        let parts = [("keys", key_dim), ("values", heads * value_dim)];
        if let Some((what, value)) = parts.into_iter().find(|(_, n)| !n.is_multiple_of(4)) {
            return Err(Unsuited::Recurrent { what, value });
        }
    }
    for op in &tape.ops {
        match *op {
            Op::Qkv {
                x, ref projections, ..
            } => {
                for projection in projections {
                    normed(tape, x, projection.weight)?;
                    whole(tape, projection.weight)?;
                }
            }
            Op::GateUp { x, gate, up, .. } => {
                for weight in [gate, up] {
                    normed(tape, x, weight)?;
                    whole(tape, weight)?;
                }
            }
            Op::Project { input, weight, .. } | Op::Product { input, weight, .. } => {
                let columns = padded(tape.buffer(input).columns);
                let widest = widest_row(tape.weight(weight).format);
                within("an intermediate size", columns, widest)?;
                whole(tape, weight)?;
            }
            Op::Head { x, weight, .. } => normed(tape, x, weight)?,
            Op::Attend { layer, q, .. } => {
                let group = tape.buffer(q).columns / tape.kv.kind(layer).width();
                within("query heads of each KV head", group, MOST_GROUP)?;
            }
            Op::Vision(ref op) => tower(tape, op)?,
            Op::Images(_)
            | Op::Recurrent(_)
            | Op::Hidden(_)
            | Op::Embed { .. }
            | Op::RopeStore { .. }
            | Op::AddNormed { .. }
            | Op::Norm { .. }
            | Op::LayerInputs { .. }
            | Op::Gate { .. }
            | Op::Softcap { .. }
            | Op::Sample { .. } => {}
        }
    }
    Ok(())
}

/// Checks an operation of a vision tower.
fn tower(tape: &Tape, op: &Vision) -> Result<(), Unsuited> {
    within("patches of an image", tape.rows, MOST_PATCHES)?;
    let head_dim = match *op {
        Vision::Linear { weight, .. } => return whole(tape, weight),
        Vision::Rotate { turns, .. } => tape.buffer(turns).columns,
        Vision::Attend { out, heads, .. } => tape.buffer(out).columns / heads,
        Vision::Norm { .. } | Vision::Merge { .. } | Vision::Pool { .. } => return Ok(()),
    };
    within("heads of a vision tower", head_dim, WIDEST_TOWER_HEAD)?;
    let fits = head_dim.is_multiple_of(16 / 2);
    fits.then_some(()).ok_or(Unsuited::Head { value: head_dim })
}

/// Checks a normed row, which a step keeps in shared memory.
fn normed(tape: &Tape, x: Buffer, weight: WeightId) -> Result<(), Unsuited> {
    let columns = padded(tape.buffer(x).columns);
    within(
        "a hidden size",
        columns,
        widest_row(tape.weight(weight).format),
    )
}

fn within(what: &'static str, value: usize, most: usize) -> Result<(), Unsuited> {
    if value <= most {
        return Ok(());
    }
    Err(Unsuited::Size { what, value, most })
}

/// Checks that a matrix fits one chunk: only embeddings and heads are launched in parts.
fn whole(tape: &Tape, weight: WeightId) -> Result<(), Unsuited> {
    let info = tape.weight(weight);
    if info.rows <= memory::part_rows(info, tape.activation) {
        return Ok(());
    }
    Err(Unsuited::Matrix {
        weight: info.name.clone(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kv::KvType;
    use crate::quant::{DType, Format};
    use crate::tape::{BufferInfo, Ending, Input, KvInfo, WeightInfo};

    fn projection(rows: usize, head_dim: usize) -> Tape {
        let columns = 8192;
        let weight = WeightInfo {
            name: "blk.0.ffn_down.weight".into(),
            rows,
            columns,
            format: Format::F32,
        };
        let buffer = |columns| BufferInfo {
            name: "x",
            rows: 1,
            columns,
            dtype: DType::F32,
        };
        let kv = KvInfo {
            kinds: KvInfo::alike(1, 1, head_dim),
            context: 1,
            slots: 1,
            pages: 1,
            chunk: 1,
            types: KvType::F16.into(),
            run: 1,
            state_bytes: 0,
        };
        Tape {
            rows: 1,
            input: Input::Step,
            ending: Ending::Kv,
            activation: DType::F16,
            kv,
            state: None,
            buffers: vec![buffer(columns), buffer(rows)],
            weights: [weight].into(),
            ops: vec![Op::Project {
                input: Buffer(0),
                weight: WeightId(0),
                x: Buffer(1),
            }],
        }
    }

    #[test]
    fn exactly_the_tapes_that_exceed_a_limit_are_refused() {
        assert_eq!(suits(&projection(16384, 512)), Ok(()));
        let text = |tape: &Tape| suits(tape).expect_err("it is too large").to_string();
        assert!(text(&projection(16384, 514)).contains("heads of at most 512"));
        // One tile more than 512 MiB: a launch would only multiply the first part.
        assert!(text(&projection(16385, 256)).starts_with("blk.0.ffn_down.weight is larger"));
        let mut wide = projection(16384, 256);
        wide.buffers[0].columns = 16384;
        assert_eq!(normed(&wide, Buffer(0), WeightId(0)), Ok(()));
        wide.buffers[0].columns = 16385;
        let refused = normed(&wide, Buffer(0), WeightId(0));
        assert!(refused.is_err(), "padded, it is wider than the room");
    }
}
