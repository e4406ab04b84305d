//! Recurrent layers: the states of conversations, and the operations on them.
//!
//! A step replays the pending updates of its conversations, stores their states, and runs its rows on copies: it leaves
//! only updates and inputs of the convolution, in rings by position. A step that runs again therefore adds nothing. A
//! prompt writes a spare state, which replaces that of its slot at the end.

mod columns;
mod convolution;
mod gated_norm;
mod group;
mod layer;
mod prepare;
mod ring;
mod shift;
mod states;
#[cfg(test)]
mod tests;

use self::columns::{Outputs, Token};
use self::convolution::{Kernel, convolve};
use self::gated_norm::GatedNorm;
pub(super) use self::group::Group;
use self::prepare::{Gates, prepare, prepared};
use self::shift::shift;
pub(super) use self::states::States;
use super::matmul::transpose;
use super::weight::Weight;
use crate::executor::StateError;
use crate::tape::{Buffer, Convolution, Recurrent, StateHeads, Tape, WeightId};

/// The memory of an operation.
#[derive(Debug)]
pub(super) struct Memory<'a> {
    pub(super) states: &'a mut States,
    pub(super) weights: &'a [Weight],
    pub(super) activations: &'a mut [Vec<f32>],
    /// As long as all inputs of the operation.
    pub(super) scratch: &'a mut [f32],
    /// As long as all outputs of the operation.
    pub(super) product: &'a mut [f32],
}

/// Runs an operation on the rows of `groups`. `advanced` returns whether a slot is at a position after the run.
///
/// # Errors
/// If a slot has no state, a state does not fit the position of its rows, or no spare state is free.
pub(super) fn execute(
    op: &Recurrent,
    tape: &Tape,
    groups: &[Group],
    mut memory: Memory<'_>,
    advanced: impl Fn(usize, usize) -> bool,
) -> Result<(), StateError> {
    // Below, buffers of the tape are taken for a while, which an error must not lose.
    for group in groups {
        memory.states.places().own(group.slot)?;
    }
    let columns = |buffer: Buffer| tape.buffer(buffer).columns;
    match *op {
        Recurrent::Commit => memory.commit(groups),
        Recurrent::Swap => {
            memory.swap(groups, advanced);
            Ok(())
        }
        Recurrent::Convolve {
            layer,
            input,
            convolution,
            silu,
            out,
        } => {
            let mut outputs = std::mem::take(&mut memory.activations[out.0]);
            let kernel = memory.kernel(convolution, silu);
            for group in groups {
                let rows = group.of(columns(out));
                let input = &memory.activations[input.0][rows.clone()];
                convolve(
                    memory.states,
                    layer,
                    group,
                    kernel,
                    input,
                    &mut outputs[rows],
                )?;
            }
            memory.activations[out.0] = outputs;
            Ok(())
        }
        Recurrent::Shift { input, out } => memory.shift(groups, columns(out), input, out),
        Recurrent::ShortConv {
            layer,
            input,
            convolution,
            out,
        } => memory.short_conv(tape, groups, (layer, convolution), input, out),
        Recurrent::DeltaNet {
            layer,
            input,
            gates: [a, b],
            rate,
            dt_bias,
            epsilon,
            out,
        } => {
            let gates = (a, Some(b), rate, dt_bias, epsilon);
            memory.update(groups, (layer, input), gates, out)
        }
        Recurrent::Mamba2 {
            layer,
            input,
            gate,
            rate,
            dt_bias,
            skip,
            out,
        } => {
            let gates = (gate, None, rate, dt_bias, 0.0);
            memory.update(groups, (layer, input), gates, out)?;
            memory.skip(groups, (input, columns(input)), skip, (out, columns(out)));
            Ok(())
        }
        Recurrent::GatedNorm {
            y,
            gate,
            norm,
            epsilon,
            order,
            group,
            out,
        } => {
            let norm = GatedNorm {
                columns: columns(y),
                group,
                order,
                weight: memory.weights[norm.0].vector(),
                epsilon,
            };
            let len = tape.rows * columns(out);
            let mut outputs = std::mem::take(&mut memory.activations[out.0]);
            let [y, gate] = [y, gate].map(|buffer| &memory.activations[buffer.0][..len]);
            norm.run(y, gate, &mut outputs[..len]);
            tape.buffer(out).dtype.round(&mut outputs[..len]);
            memory.activations[out.0] = outputs;
            Ok(())
        }
    }
}

/// Steps, betas, rate, bias of the steps, and the epsilon of the norms of q and k.
type GateIds = (Buffer, Option<Buffer>, WeightId, WeightId, f32);

impl<'a> Memory<'a> {
    fn kernel(&self, convolution: Convolution, silu: bool) -> Kernel<'a> {
        let Convolution { kernel, bias } = convolution;
        Kernel {
            taps: self.weights[kernel.0].vector(),
            bias: bias.map(|bias| self.weights[bias.0].vector()),
            silu,
        }
    }

    fn commit(&mut self, groups: &[Group]) -> Result<(), StateError> {
        groups.iter().try_for_each(|group| {
            self.states.commit(group.slot, group.position)?;
            if group.prompt {
                self.states.places_mut().reserve(group.slot, group.end())?;
            }
            Ok(())
        })
    }

    fn swap(&mut self, groups: &[Group], advanced: impl Fn(usize, usize) -> bool) {
        for Group { slot, .. } in groups {
            let places = self.states.places_mut();
            let written = places.written(*slot);
            if written.is_some_and(|(_, end)| advanced(*slot, end)) {
                places.swap(*slot);
            }
        }
    }

    fn shift(
        &mut self,
        groups: &[Group],
        columns: usize,
        input: Buffer,
        out: Buffer,
    ) -> Result<(), StateError> {
        let mut outputs = std::mem::take(&mut self.activations[out.0]);
        let shifted = groups.iter().try_for_each(|group| {
            let rows = group.of(columns);
            let input = &self.activations[input.0][rows.clone()];
            shift(self.states, group, input, &mut outputs[rows])
        });
        self.activations[out.0] = outputs;
        shifted
    }

    fn short_conv(
        &mut self,
        tape: &Tape,
        groups: &[Group],
        (layer, convolution): (usize, Convolution),
        input: Buffer,
        out: Buffer,
    ) -> Result<(), StateError> {
        let [wide, channels] = [input, out].map(|buffer| tape.buffer(buffer).columns);
        let mut outputs = std::mem::take(&mut self.activations[out.0]);
        let kernel = self.kernel(convolution, false);
        for group in groups {
            let input = self.activations[input.0][group.of(wide)].chunks_exact(wide);
            let rows = group.of(channels);
            let (products, outputs) = (&mut self.scratch[rows.clone()], &mut outputs[rows]);
            for (row, products) in input.clone().zip(products.chunks_exact_mut(channels)) {
                for (channel, product) in products.iter_mut().enumerate() {
                    *product = row[channel] * row[2 * channels + channel];
                }
            }
            convolve(self.states, layer, group, kernel, products, outputs)?;
            for (row, outputs) in input.zip(outputs.chunks_exact_mut(channels)) {
                for (output, gate) in outputs.iter_mut().zip(&row[channels..]) {
                    *output *= gate;
                }
            }
            tape.buffer(out).dtype.round(outputs);
        }
        self.activations[out.0] = outputs;
        Ok(())
    }

    /// Updates the states of some rows' conversations, and computes the rows' outputs.
    fn update(
        &mut self,
        groups: &[Group],
        (layer, input): (usize, Buffer),
        (steps, betas, rate, dt_bias, epsilon): GateIds,
        out: Buffer,
    ) -> Result<(), StateError> {
        // `check` refuses a tape without heads.
        let Some(heads) = self.states.info().heads else {
            return Ok(());
        };
        let rows: usize = groups.iter().map(|group| group.rows.len()).sum();
        let scratch = &mut self.scratch[..rows * prepared(heads)];
        let gates = Gates {
            steps: &self.activations[steps.0],
            betas: betas.map(|betas| self.activations[betas.0].as_slice()),
            rate: self.weights[rate.0].vector(),
            dt_bias: self.weights[dt_bias.0].vector(),
            epsilon,
        };
        prepare(heads, gates, &self.activations[input.0], scratch);
        let product = &mut self.product[..rows * heads.values()];
        for group in groups {
            let of_group = &scratch[group.of(prepared(heads))];
            let outputs = Outputs {
                product: &mut *product,
                rows,
                first: group.rows.start,
            };
            if group.prompt {
                prompt(self.states, layer, group, heads, of_group, outputs)?;
            } else {
                step(self.states, layer, group, heads, of_group, outputs)?;
            }
        }
        transpose(product, rows, &mut self.activations[out.0], |out, y, _| {
            *out = y;
        });
        Ok(())
    }

    /// Adds `skip x` to the outputs of each head.
    fn skip(
        &mut self,
        groups: &[Group],
        (input, channels): (Buffer, usize),
        skip: WeightId,
        (out, width): (Buffer, usize),
    ) {
        let skip = self.weights[skip.0].vector();
        let head = width / skip.len();
        let mut outputs = std::mem::take(&mut self.activations[out.0]);
        for row in groups.iter().flat_map(|group| group.rows.clone()) {
            let x = &self.activations[input.0][row * channels..][..width];
            let outputs = &mut outputs[row * width..][..width];
            let heads = outputs.chunks_exact_mut(head).zip(x.chunks_exact(head));
            for ((outputs, x), by) in heads.zip(skip) {
                for (output, x) in outputs.iter_mut().zip(x) {
                    *output += by * x;
                }
            }
        }
        self.activations[out.0] = outputs;
    }
}

/// The rows of a step: the state keeps only the pending updates before them.
fn step(
    states: &mut States,
    layer: usize,
    group: &Group,
    heads: StateHeads,
    rows: &[f32],
    outputs: Outputs<'_>,
) -> Result<(), StateError> {
    let layer = states.layer(group.slot, layer)?;
    let pending = columns::begin(layer, group.position, group.rows.len())?;
    let kept = pending.len();
    for (at, row) in (group.position..).zip(rows.chunks_exact(prepared(heads))) {
        let update = layer.updates.at_mut(at);
        update.copy_from_slice(&row[..heads.update()]);
    }
    let before = pending.map(|at| Token {
        update: layer.updates.at(at),
        queries: None,
    });
    let tokens: Vec<_> = before.chain(tokens(heads, rows)).collect();
    columns::run(heads, &mut layer.heads, (&tokens, kept), Some(outputs));
    layer.position = group.position;
    Ok(())
}

/// The rows of a prompt, whose state is a spare one. Before it, the slot's state was committed.
fn prompt(
    states: &mut States,
    layer: usize,
    group: &Group,
    heads: StateHeads,
    rows: &[f32],
    outputs: Outputs<'_>,
) -> Result<(), StateError> {
    let (own, spare) = states.layers(group.slot, layer)?;
    let (state, position) = (own.position, group.position);
    let spare = spare.filter(|_| state == position);
    let spare = spare.ok_or(StateError::Position { position, state })?;
    spare.heads.copy_from_slice(&own.heads);
    let tokens: Vec<_> = tokens(heads, rows).collect();
    columns::run(
        heads,
        &mut spare.heads,
        (&tokens, tokens.len()),
        Some(outputs),
    );
    spare.position = group.end();
    Ok(())
}

/// Prepared rows as tokens.
fn tokens(heads: StateHeads, rows: &[f32]) -> impl Iterator<Item = Token<'_>> {
    rows.chunks_exact(prepared(heads)).map(move |row| {
        let (update, queries) = row.split_at(heads.update());
        Token {
            update,
            queries: Some(queries),
        }
    })
}
