//! Proves a tape before its first run: shapes, types, read before write, aliasing.

mod hidden;
mod images;
mod recurrent;
mod vision;

use super::activation::Activation;
use super::attention::Rotation;
use super::hidden::Hidden;
use super::kv_info::{CacheLayer, KvInfo, KvKind};
use super::op::{Op, Projection};
use super::operands::{Buffer, WeightId};
use super::recurrent::Recurrent;
use super::{Ending, Input, STEP_ROWS, Tape};
use crate::kv::KvType;
use crate::quant::DType;

/// Why a tape must not run: a mistake in its construction, or a model whose parts do not fit together.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("operation {index} ({op}): {reason}")]
pub struct TapeError {
    pub index: usize,
    pub op: &'static str,
    pub reason: String,
}

impl Tape {
    /// Checks every operation in order.
    ///
    /// # Errors
    /// The first operation that reads a buffer never written, writes one that it reads, names a buffer, weight or layer
    /// that does not exist, or has shapes or types that do not fit together.
    pub fn check(&self) -> Result<(), TapeError> {
        let mut written = vec![false; self.buffers.len()];
        if let Input::Patches { buffers } = self.input {
            written.iter_mut().take(buffers).for_each(|one| *one = true);
        }
        for Buffer(rows) in self.image_buffers() {
            // A buffer that does not exist is refused below.
            written
                .get_mut(rows)
                .into_iter()
                .for_each(|one| *one = true);
        }
        if self.guesses() {
            // These have the rows of the run before, and those of the model's last runs.
            let kept = self.ops.iter().find_map(|op| match *op {
                Op::Recurrent(Recurrent::Shift { input, .. }) => Some([input; 2]),
                Op::Hidden(Hidden::Join { before, ring, .. }) => Some([before, ring]),
                _ => None,
            });
            for Buffer(kept) in kept.into_iter().flatten() {
                let kept = written.get_mut(kept).into_iter();
                kept.for_each(|one| *one = true);
            }
        }
        for (index, op) in self.ops.iter().enumerate() {
            let fail = |reason| TapeError {
                index,
                op: op.name(),
                reason,
            };
            self.check_names(op).map_err(fail)?;
            self.check_order(op, &mut written).map_err(fail)?;
            self.check_shapes(op).map_err(fail)?;
        }
        let fail = |reason: &str| TapeError {
            index: self.ops.len(),
            op: "end",
            reason: reason.into(),
        };
        if self.input == Input::Step && self.rows > STEP_ROWS {
            return Err(fail("a step has at most 8 rows"));
        }
        if self.guesses() && (self.input, self.ending) != (Input::Step, Ending::Token) {
            return Err(fail("a head guesses in a step that ends with a token"));
        }
        self.check_commits().map_err(|reason| fail(&reason))?;
        self.check_input().map_err(|reason| fail(&reason))?;
        self.check_images().map_err(|reason| fail(&reason))?;
        // The swap of a recurrent state follows the choice of a token.
        let swap = Op::Recurrent(Recurrent::Swap);
        let last = self.ops.iter().rfind(|op| **op != swap);
        let samples = matches!(last, Some(Op::Sample { .. }));
        if samples != (self.ending == Ending::Token) {
            return Err(fail("a tape samples a token exactly if it ends with one"));
        }
        Ok(())
    }

    /// Checks names, shapes and types of all operations, but not their order.
    pub(crate) fn check_shapes_alone(&self) -> Result<(), TapeError> {
        self.ops.iter().enumerate().try_for_each(|(index, op)| {
            let fits = self.check_names(op).and_then(|()| self.check_shapes(op));
            fits.map_err(|reason| TapeError {
                index,
                op: op.name(),
                reason,
            })
        })
    }

    fn check_names(&self, op: &Op) -> Result<(), String> {
        let (reads, writes) = op.buffers();
        if let Some(Buffer(buffer)) = reads
            .iter()
            .chain(&writes)
            .find(|buffer| buffer.0 >= self.buffers.len())
        {
            return Err(format!("buffer {buffer} does not exist"));
        }
        if let Some(WeightId(id)) = op.weights().iter().find(|id| id.0 >= self.weights.len()) {
            return Err(format!("weight {id} does not exist"));
        }
        match op {
            Op::RopeStore { layer, .. } | Op::Attend { layer, .. } => self.check_heads(*layer),
            Op::Recurrent(op) => self.check_state(op),
            _ => Ok(()),
        }
    }

    fn check_heads(&self, layer: CacheLayer) -> Result<(), String> {
        let KvInfo { kinds, types, .. } = self.kv;
        let CacheLayer { kind, index } = layer;
        let of = kinds.get(kind).filter(|of| index < of.layers);
        let Some(KvKind { head_dim, .. }) = of else {
            return Err(format!("layer {index} of kind {kind} is not in the cache"));
        };
        if !types.is_supported() {
            let [k, v] = types.sides().map(KvType::name);
            return Err(format!(
                "a cache with K of {k} and V of {v} is not supported"
            ));
        }
        let granule = types.granule();
        let fits = head_dim.is_multiple_of(granule);
        fits.then_some(()).ok_or_else(|| {
            format!(
                "heads of {head_dim} are not a multiple of {granule}, which a cache of {} needs",
                types.name()
            )
        })
    }

    fn check_order(&self, op: &Op, written: &mut [bool]) -> Result<(), String> {
        let (reads, writes) = op.buffers();
        if let Some(buffer) = reads.iter().find(|buffer| !written[buffer.0]) {
            return Err(format!(
                "reads {} before it is written",
                self.buffer(*buffer).name
            ));
        }
        let in_place = op.is_in_place();
        for (n, buffer) in writes.iter().enumerate() {
            if writes[..n].contains(buffer) || (!in_place && reads.contains(buffer)) {
                return Err(format!(
                    "{} is written twice, or written while it is read",
                    self.buffer(*buffer).name
                ));
            }
            written[buffer.0] = true;
        }
        if let Op::Project { input, x, .. } | Op::AddNormed { y: input, x, .. } = op
            && input == x
        {
            return Err(format!("adds {} to itself", self.buffer(*x).name));
        }
        Ok(())
    }

    #[allow(clippy::too_many_lines)] // one arm an operation
    fn check_shapes(&self, op: &Op) -> Result<(), String> {
        match op {
            Op::Embed { table, x, .. } => {
                self.rows_of(*x, self.rows)?;
                self.residual(*x)?;
                self.matrix(*table, self.weight(*table).rows, self.buffer(*x).columns)
            }
            Op::Qkv {
                x,
                norm,
                projections,
                ..
            } => self.check_projections(*x, *norm, projections),
            Op::RopeStore {
                layer,
                q,
                kv,
                norms,
                rotation,
                rotated,
                ..
            } => {
                let kind = self.kv.kind(*layer);
                self.check_rotation(kind, (*q, *kv), *rotation, *rotated)?;
                let mut norms = norms.q.into_iter().chain(norms.k);
                norms.try_for_each(|norm| self.matrix(norm, 1, kind.head_dim))
            }
            Op::Attend {
                layer,
                q,
                attention,
                out,
            } => {
                let heads = self.buffer(*q).columns / self.kv.kind(*layer).head_dim;
                let sinks = attention.sinks;
                sinks.map_or(Ok(()), |sinks| self.matrix(sinks, 1, heads))?;
                self.rows_of(*out, self.rows)?;
                self.typed(*out, self.activation)?;
                self.columns_of(*out, self.buffer(*q).columns)
            }
            Op::Project { input, weight, x } => {
                self.typed(*input, self.activation)?;
                self.check_product(*input, *weight, *x)
            }
            Op::Product { input, weight, out } => self.check_product(*input, *weight, *out),
            Op::AddNormed {
                y, norm, scale, x, ..
            } => {
                self.check_normed(*x, *norm)?;
                self.residual(*y)?;
                self.columns_of(*y, self.buffer(*x).columns)?;
                scale.map_or(Ok(()), |scale| self.matrix(scale, 1, 1))
            }
            Op::Norm {
                x,
                norm,
                first,
                out,
                ..
            } => {
                self.check_normed(*x, *norm)?;
                self.residual(*out)?;
                self.has_columns(*out, *first, self.buffer(*x).columns)
            }
            Op::LayerInputs {
                table,
                norm,
                inputs,
                ..
            } => self.check_layer_inputs(*inputs, *table, *norm),
            Op::Gate {
                gate,
                input,
                first,
                out,
                ..
            } => self.check_gate(*gate, input.map(|input| (input, *first)), *out),
            Op::GateUp {
                x,
                norm,
                gate,
                up,
                activation,
                out,
                ..
            } => {
                if !matches!(activation, Activation::Silu | Activation::GeluTanh) {
                    return Err(format!(
                        "{activation:?} is not the activation of an MLP's gate"
                    ));
                }
                self.typed(*out, self.activation)?;
                self.check_normed(*x, *norm)?;
                self.check_outputs([*gate, *up], *x, *out)
            }
            Op::Head {
                x,
                norm,
                weight,
                logits,
                ..
            } => {
                self.check_normed(*x, *norm)?;
                self.typed(*logits, DType::F32)?;
                if ![1, self.rows].contains(&self.buffer(*logits).rows) {
                    return Err("logits must have one row, or as many as the tape".into());
                }
                let columns = |buffer: &Buffer| self.buffer(*buffer).columns;
                self.matrix(*weight, columns(logits), columns(x))
            }
            Op::Softcap { logits, .. } => self.typed(*logits, DType::F32),
            Op::Images(op) => self.check_image_rows(*op),
            Op::Recurrent(op) => self.check_recurrent(op),
            Op::Hidden(op) => self.check_hidden(op),
            Op::Vision(op) => self.check_vision(op),
            Op::Sample { logits } => self.rows_of(*logits, self.chosen()),
        }
    }

    fn check_projections(
        &self,
        x: Buffer,
        norm: WeightId,
        projections: &[Projection],
    ) -> Result<(), String> {
        self.check_normed(x, norm)?;
        for Projection { weight, bias, out } in projections {
            self.typed(*out, DType::F32)?;
            self.check_outputs([*weight], x, *out)?;
            let width = self.buffer(*out).columns;
            bias.map_or(Ok(()), |bias| self.matrix(bias, 1, width))?;
        }
        Ok(())
    }

    /// Checks the residual stream and its norm.
    fn check_normed(&self, x: Buffer, norm: WeightId) -> Result<(), String> {
        self.residual(x)?;
        self.matrix(norm, 1, self.buffer(x).columns)
    }

    /// Checks matrices that multiply the residual stream, with outputs for a buffer.
    fn check_outputs<const N: usize>(
        &self,
        weights: [WeightId; N],
        x: Buffer,
        out: Buffer,
    ) -> Result<(), String> {
        self.rows_of(out, self.rows)?;
        let (hidden, width) = (self.buffer(x).columns, self.buffer(out).columns);
        (weights.into_iter()).try_for_each(|weight| self.matrix(weight, width, hidden))
    }

    /// Checks a product, whose input is in f32 or in the type of activations.
    fn check_product(&self, input: Buffer, weight: WeightId, out: Buffer) -> Result<(), String> {
        self.residual(out)?;
        self.rows_of(input, self.rows)?;
        self.f32_or_rounded(input)?;
        self.matrix(weight, self.buffer(out).columns, self.buffer(input).columns)
    }

    fn check_layer_inputs(
        &self,
        inputs: Buffer,
        table: WeightId,
        norm: WeightId,
    ) -> Result<(), String> {
        self.residual(inputs)?;
        let (columns, each) = (self.buffer(inputs).columns, self.weight(norm).columns);
        self.matrix(table, self.weight(table).rows, columns)?;
        self.matrix(norm, 1, each)?;
        let fits = columns.is_multiple_of(each);
        fits.then_some(())
            .ok_or_else(|| format!("{columns} columns are not a multiple of {each}"))
    }

    /// Checks a gate; `input` are a buffer and its first column.
    fn check_gate(
        &self,
        gate: Buffer,
        input: Option<(Buffer, usize)>,
        out: Buffer,
    ) -> Result<(), String> {
        self.residual(gate)?;
        self.rows_of(out, self.rows)?;
        self.typed(out, self.activation)?;
        let columns = self.buffer(gate).columns;
        self.columns_of(out, columns)?;
        let Some((input, first)) = input else {
            return Ok(());
        };
        self.rows_of(input, self.rows)?;
        self.f32_or_rounded(input)?;
        self.has_columns(input, first, columns)
    }

    fn has_columns(&self, buffer: Buffer, first: usize, columns: usize) -> Result<(), String> {
        let info = self.buffer(buffer);
        let fits = first + columns <= info.columns;
        fits.then_some(())
            .ok_or_else(|| format!("{} has no {columns} columns from {first} on", info.name))
    }

    fn f32_or_rounded(&self, buffer: Buffer) -> Result<(), String> {
        if self.buffer(buffer).dtype == DType::F32 {
            return Ok(());
        }
        self.typed(buffer, self.activation)
    }

    /// The number of rows that choose a token.
    fn chosen(&self) -> usize {
        if self.input == Input::Step {
            self.rows
        } else {
            1
        }
    }

    fn check_rotation(
        &self,
        kind: KvKind,
        (q, kv): (Buffer, Option<[Buffer; 2]>),
        rotation: Rotation,
        rotated: Buffer,
    ) -> Result<(), String> {
        let (query, head_dim) = (self.buffer(q).columns, kind.head_dim);
        let width = kind.width();
        for side in kv.into_iter().flatten() {
            self.columns_of(side, width)?;
        }
        self.columns_of(rotated, query)?;
        self.rows_of(rotated, self.rows)?;
        if !query.is_multiple_of(width) {
            return Err(format!(
                "{query} columns of q are not a multiple of the cache's {width}"
            ));
        }
        let dims = rotation.dims;
        if !dims.is_multiple_of(2) || dims > head_dim {
            return Err(format!(
                "{dims} elements of heads of {head_dim} cannot be rotated in pairs"
            ));
        }
        Ok(())
    }

    fn residual(&self, buffer: Buffer) -> Result<(), String> {
        self.typed(buffer, DType::F32)?;
        self.rows_of(buffer, self.rows)
    }

    fn typed(&self, buffer: Buffer, dtype: DType) -> Result<(), String> {
        let info = self.buffer(buffer);
        let fits = info.dtype == dtype;
        fits.then_some(()).ok_or_else(|| {
            format!(
                "{} is {}, not {}",
                info.name,
                info.dtype.name(),
                dtype.name()
            )
        })
    }

    fn rows_of(&self, buffer: Buffer, rows: usize) -> Result<(), String> {
        let info = self.buffer(buffer);
        (info.rows == rows)
            .then_some(())
            .ok_or_else(|| format!("{} has {} rows, not {rows}", info.name, info.rows))
    }

    fn columns_of(&self, buffer: Buffer, columns: usize) -> Result<(), String> {
        let info = self.buffer(buffer);
        let fits = info.columns == columns;
        fits.then_some(())
            .ok_or_else(|| format!("{} has {} columns, not {columns}", info.name, info.columns))
    }

    fn matrix(&self, id: WeightId, rows: usize, columns: usize) -> Result<(), String> {
        let weight = self.weight(id);
        let fits = (weight.rows, weight.columns) == (rows, columns);
        fits.then_some(()).ok_or_else(|| {
            format!(
                "{} is {} x {}, not {rows} x {columns}",
                weight.name, weight.rows, weight.columns
            )
        })
    }
}
