//! The shapes of the operations of vision towers.

use super::super::activation::Activation;
use super::super::op::Op;
use super::super::operands::{Buffer, WeightId};
use super::super::vision::{Norm, PatchOrder, Square, Vision};
use super::super::{Input, Tape};
use crate::quant::DType;

impl Tape {
    /// Checks that exactly the tapes of images have operations of a vision tower, and none that reads tokens or the
    /// cache.
    pub(super) fn check_input(&self) -> Result<(), String> {
        let of_image =
            |op: &Op| matches!(op, Op::Vision(_) | Op::Gate { .. } | Op::AddNormed { .. });
        let is_vision = |op: &Op| matches!(op, Op::Vision(_));
        let wrong = match self.input {
            Input::Patches { buffers } if buffers > self.buffers.len() => {
                return Err(format!("{buffers} buffers are written by the host"));
            }
            Input::Patches { .. } => self.ops.iter().find(|op| !of_image(op)),
            Input::Step | Input::Prompt => self.ops.iter().find(|op| is_vision(op)),
        };
        wrong.map_or(Ok(()), |op| {
            Err(format!("{} does not fit the input of the tape", op.name()))
        })
    }

    pub(super) fn check_vision(&self, op: &Vision) -> Result<(), String> {
        match *op {
            Vision::Norm { x, ref norm, out } => self.check_norm(x, norm, out),
            Vision::Linear { .. } => self.check_linear(op),
            Vision::Rotate {
                qkv,
                heads,
                norms,
                parts,
                turns,
                out,
                ..
            } => {
                self.typed(qkv, DType::F32)?;
                self.typed(turns, DType::F32)?;
                self.same_rows(qkv, turns)?;
                self.same_rows(qkv, out)?;
                self.typed(out, self.activation)?;
                self.columns_of(out, self.buffer(qkv).columns)?;
                let head_dim = Self::head_dim(self.buffer(qkv).columns, 3 * heads)?;
                self.columns_of(turns, head_dim)?;
                if parts == 0 || !head_dim.is_multiple_of(2 * parts) {
                    return Err(format!(
                        "heads of {head_dim} cannot be rotated in {parts} parts"
                    ));
                }
                let mut norms = norms.q.into_iter().chain(norms.k);
                norms.try_for_each(|norm| self.matrix(norm, 1, head_dim))
            }
            Vision::Attend {
                qkv, heads, out, ..
            } => {
                self.typed(qkv, self.activation)?;
                self.typed(out, self.activation)?;
                self.same_rows(qkv, out)?;
                let head_dim = Self::head_dim(self.buffer(qkv).columns, 3 * heads)?;
                self.columns_of(out, heads * head_dim)
            }
            Vision::Merge { x, square, out } => {
                self.f32_or_rounded(x)?;
                self.f32_or_rounded(out)?;
                self.check_square(x, square, out)?;
                self.columns_of(out, square.patches() * self.buffer(x).columns)
            }
            Vision::Pool {
                x,
                square,
                standard,
                out,
                ..
            } => {
                self.typed(x, DType::F32)?;
                self.typed(out, DType::F32)?;
                self.check_square(x, square, out)?;
                let columns = self.buffer(x).columns;
                self.columns_of(out, columns)?;
                let mut standard = standard.into_iter().flatten();
                standard.try_for_each(|of| self.matrix(of, 1, columns))
            }
        }
    }

    fn check_norm(&self, x: Buffer, norm: &Norm, out: Buffer) -> Result<(), String> {
        self.typed(x, DType::F32)?;
        self.f32_or_rounded(out)?;
        self.same_rows(x, out)?;
        let columns = self.buffer(x).columns;
        self.columns_of(out, columns)?;
        let mut vectors = norm.weight.into_iter().chain(norm.bias);
        vectors.try_for_each(|of| self.matrix(of, 1, columns))
    }

    fn check_linear(&self, op: &Vision) -> Result<(), String> {
        let Vision::Linear {
            input,
            weight,
            bias,
            activation,
            adds,
            out,
            first,
            ..
        } = *op
        else {
            return Ok(());
        };
        self.f32_or_rounded(input)?;
        self.f32_or_rounded(out)?;
        self.same_rows(input, out)?;
        let outputs = self.weight(weight).rows;
        self.matrix(weight, outputs, self.buffer(input).columns)?;
        bias.map_or(Ok(()), |bias: WeightId| self.matrix(bias, 1, outputs))?;
        let info = self.buffer(out);
        if adds {
            self.typed(out, DType::F32)?;
            self.columns_of(out, outputs)?;
            if first > 0 || input == out || activation.is_some() {
                return Err(format!("cannot add to {} so", info.name));
            }
        }
        if first + outputs > info.columns {
            let name = info.name;
            return Err(format!("{name} has no {outputs} columns from {first} on"));
        }
        let is_known = |activation| {
            matches!(
                activation,
                Activation::Silu | Activation::GeluTanh | Activation::Gelu
            )
        };
        match activation.filter(|activation| !is_known(*activation)) {
            Some(other) => Err(format!("{other:?} is not the activation of a linear layer")),
            None => Ok(()),
        }
    }

    /// Checks that squares of patches become the rows of a buffer.
    fn check_square(&self, x: Buffer, square: Square, out: Buffer) -> Result<(), String> {
        let (patches, side) = (self.buffer(x).rows, square.side);
        let fits = match square.order {
            _ if side == 0 => false,
            PatchOrder::Blocks => patches.is_multiple_of(side * side),
            PatchOrder::Raster { columns } => {
                columns > 0
                    && columns.is_multiple_of(side)
                    && patches.is_multiple_of(columns * side)
            }
        };
        if !fits {
            return Err(format!(
                "{patches} patches cannot become squares of {side} x {side}"
            ));
        }
        self.rows_of(out, patches / (side * side))
    }

    /// The size of a head in a row of `columns` that has `heads`.
    fn head_dim(columns: usize, heads: usize) -> Result<usize, String> {
        let fits = heads > 0 && columns > 0 && columns.is_multiple_of(heads);
        fits.then(|| columns / heads)
            .ok_or_else(|| format!("{columns} columns are not {heads} heads"))
    }

    fn same_rows(&self, one: Buffer, other: Buffer) -> Result<(), String> {
        self.rows_of(other, self.buffer(one).rows)
    }
}
