//! Depthwise causal convolutions over the inputs of a conversation, of which earlier ones lie in a ring by position.

use pulp::NullaryFnOnce;

use super::super::exp::exp;
use super::super::threads::{each, piece};
use super::group::Group;
use super::states::States;
use crate::executor::StateError;

/// Channels that a thread computes at a time in a step.
const CHANNELS: usize = 256;

/// The weights of a convolution.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kernel<'a> {
    /// (channels, taps)
    pub(super) taps: &'a [f32],
    /// (channels)
    pub(super) bias: Option<&'a [f32]>,
    pub(super) silu: bool,
}

/// Convolves the rows of a conversation, and stores them in a layer's ring; input and out are (rows, channels).
///
/// # Errors
/// If the conversation's slot has no state.
pub(super) fn convolve(
    states: &mut States,
    layer: usize,
    group: &Group,
    kernel: Kernel<'_>,
    input: &[f32],
    out: &mut [f32],
) -> Result<(), StateError> {
    let (channels, history) = (states.info.channels, states.info.taps - 1);
    let first = group.position;
    let ring = &states.layer(group.slot, layer)?.columns;
    let columns_of = |row: usize| -> Vec<&[f32]> {
        let position = first + row;
        (position.saturating_sub(history)..=position)
            .map(|at| match at.checked_sub(first) {
                Some(row) => &input[row * channels..][..channels],
                None => ring.at(at),
            })
            .collect()
    };
    let arch = pulp::Arch::new();
    let convolve = |columns: &[&[f32]], from: usize, out: &mut [f32]| {
        arch.dispatch(Channels {
            kernel,
            all: history + 1,
            columns,
            from,
            out,
        });
    };
    if group.prompt {
        let piece = piece(out.len(), channels);
        each(
            out.chunks_mut(piece).enumerate(),
            |(index, out): (usize, &mut [f32])| {
                for (row, out) in out.chunks_exact_mut(channels).enumerate() {
                    convolve(&columns_of(index * (piece / channels) + row), 0, out);
                }
            },
        );
    } else {
        for (row, out) in out.chunks_exact_mut(channels).enumerate() {
            let columns = columns_of(row);
            let piece = piece(channels, CHANNELS);
            each(
                out.chunks_mut(piece).enumerate(),
                |(index, out): (usize, &mut [f32])| convolve(&columns, index * piece, out),
            );
        }
    }
    store(states, layer, group, input)
}

/// Stores the rows of a step; of a prompt, those that its successors need, in the spare state.
fn store(
    states: &mut States,
    layer: usize,
    group: &Group,
    input: &[f32],
) -> Result<(), StateError> {
    let (channels, history) = (states.info.channels, states.info.taps - 1);
    let (first, end) = (group.position, group.position + group.rows.len());
    let row = |at: usize| &input[(at - first) * channels..][..channels];
    let (own, spare) = states.layers(group.slot, layer)?;
    if let Some(spare) = spare {
        for at in end.saturating_sub(history)..end {
            let column = if at < first {
                own.columns.at(at)
            } else {
                row(at)
            };
            spare.columns.at_mut(at).copy_from_slice(column);
        }
        return Ok(());
    }
    let own = states.layer(group.slot, layer)?;
    for at in first..end {
        own.columns.at_mut(at).copy_from_slice(row(at));
    }
    Ok(())
}

/// Some channels of a row.
struct Channels<'a> {
    kernel: Kernel<'a>,
    /// All taps of the kernel.
    all: usize,
    /// (channels) of each position, the row's own last. Positions before the conversation's first are missing.
    columns: &'a [&'a [f32]],
    /// The first channel.
    from: usize,
    out: &'a mut [f32],
}

impl NullaryFnOnce for Channels<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let Self {
            kernel: Kernel { taps, bias, silu },
            all,
            columns,
            from,
            out,
        } = self;
        let missing = all - columns.len();
        match bias {
            Some(bias) => out.copy_from_slice(&bias[from..from + out.len()]),
            None => out.fill(0.0),
        }
        let taps = &taps[from * all..];
        for (tap, column) in (missing..).zip(columns) {
            let kernel = taps[tap..].iter().step_by(all);
            for ((out, value), by) in out.iter_mut().zip(&column[from..]).zip(kernel) {
                *out = by.mul_add(*value, *out);
            }
        }
        if silu {
            out.iter_mut()
                .for_each(|value| *value /= 1.0 + exp(-*value));
        }
    }
}
