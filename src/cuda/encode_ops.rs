//! Launches the operations of vision towers: one match, in the order of `tape/vision.rs`.

use super::encode_kernels::ATTEND_THREADS;
use super::encode_linear::of_rows;
use super::memory::stride;
use super::narrow::narrow;
use super::queue::LaunchQueue;
use super::work::{THREADS, Work};
use crate::device::{
    Error, Geometry, VisionAttendArgs, VisionNormArgs, VisionRotateArgs, VisionSquareArgs,
};
use crate::quant::DType;
use crate::tape::{Buffer, NormKind, PatchOrder, Square, Tape, Vision, WeightId};

/// Warps of a block, each of which rotates a head.
const WARPS: u32 = THREADS / 32;

impl Work<'_> {
    /// Launches an operation of a vision tower.
    #[allow(clippy::too_many_lines)] // one arm an operation: in the order of vision.rs
    pub(super) fn vision(
        &self,
        tape: &Tape,
        op: &Vision,
        queue: &mut LaunchQueue<'_>,
    ) -> Result<(), Error> {
        // Executors of language models have no kernels for it.
        let missing = || Error::NoKernel {
            kernel: op.name().into(),
        };
        let kernels = self.kernels.encode.as_ref().ok_or_else(missing)?;
        let columns = |buffer: Buffer| narrow(tape.buffer(buffer).columns);
        let wide = |buffer: Buffer| narrow(stride(tape, buffer));
        let is_rounded = |buffer: Buffer| (tape.buffer(buffer).dtype != DType::F32).into();
        let vector = |id: Option<WeightId>| id.map_or(0, |id| self.vector(id));
        match *op {
            Vision::Norm { x, norm, out } => {
                let args = VisionNormArgs {
                    x: self.buffer(x),
                    weight: vector(norm.weight),
                    bias: vector(norm.bias),
                    out: self.buffer(out),
                    stamp: queue.stamp(),
                    columns: columns(x),
                    stride: wide(out),
                    epsilon: norm.epsilon,
                    centered: (norm.kind == NormKind::Layer).into(),
                    rounded: is_rounded(out),
                    pad: 0,
                };
                let rows = narrow(tape.buffer(x).rows);
                queue.launch(&kernels.norm, Geometry::new(rows, THREADS), &args)
            }
            Vision::Linear { .. } => self.vision_linear(kernels, tape, op, queue),
            Vision::Rotate {
                qkv,
                heads,
                norms,
                epsilon,
                parts,
                turns,
                out,
            } => {
                let args = VisionRotateArgs {
                    qkv: self.buffer(qkv),
                    turns: self.buffer(turns),
                    q_norm: vector(norms.q),
                    k_norm: vector(norms.k),
                    out: self.buffer(out),
                    stamp: queue.stamp(),
                    heads: narrow(heads),
                    head_dim: columns(turns),
                    parts: narrow(parts),
                    stride: wide(out),
                    epsilon,
                    norms_v: norms.v.into(),
                };
                let geometry = Geometry {
                    grid: [
                        narrow(tape.buffer(qkv).rows),
                        (3 * args.heads).div_ceil(WARPS),
                        1,
                    ],
                    ..Geometry::new(1, THREADS)
                };
                queue.launch(&kernels.rotate, geometry, &args)
            }
            Vision::Attend {
                qkv,
                heads,
                scale,
                out,
            } => {
                let (rows, head_dim) = (tape.buffer(qkv).rows, tape.buffer(out).columns / heads);
                let attend = kernels.attend(head_dim).ok_or_else(missing)?;
                let args = VisionAttendArgs {
                    qkv: self.buffer(qkv),
                    out: self.buffer(out),
                    stamp: queue.stamp(),
                    rows: narrow(rows),
                    stride: wide(qkv),
                    out_stride: wide(out),
                    heads: narrow(heads),
                    head_dim: narrow(head_dim),
                    scale,
                };
                let geometry = Geometry {
                    grid: [narrow(rows.div_ceil(attend.rows)), args.heads, 1],
                    shared: narrow(attend.shared),
                    ..Geometry::new(1, ATTEND_THREADS)
                };
                queue.launch(&attend.kernel, geometry, &args)
            }
            Vision::Merge { x, square, out } => {
                let args = VisionSquareArgs {
                    stamp: queue.stamp(),
                    ..self.square(tape, (x, square, out))
                };
                let geometry = of_rows(tape.buffer(out).rows, columns(out));
                queue.launch(&kernels.merge, geometry, &args)
            }
            Vision::Pool {
                x,
                square,
                scale,
                standard,
                out,
            } => {
                let [bias, factor] = standard.map_or([0; 2], |of| of.map(|id| self.vector(id)));
                let args = VisionSquareArgs {
                    bias,
                    factor,
                    stamp: queue.stamp(),
                    scale,
                    ..self.square(tape, (x, square, out))
                };
                let geometry = of_rows(tape.buffer(out).rows, columns(out));
                queue.launch(&kernels.pool, geometry, &args)
            }
        }
    }

    /// Arguments of tokens that squares of patches become.
    fn square(&self, tape: &Tape, (x, square, out): (Buffer, Square, Buffer)) -> VisionSquareArgs {
        let is_rounded = |buffer: Buffer| (tape.buffer(buffer).dtype != DType::F32).into();
        VisionSquareArgs {
            x: self.buffer(x),
            out: self.buffer(out),
            columns: narrow(tape.buffer(x).columns),
            x_stride: narrow(stride(tape, x)),
            stride: narrow(stride(tape, out)),
            side: narrow(square.side),
            across: match square.order {
                PatchOrder::Blocks => 0,
                PatchOrder::Raster { columns } => narrow(columns),
            },
            x_rounded: is_rounded(x),
            rounded: is_rounded(out),
            ..VisionSquareArgs::default()
        }
    }
}
