//! Updates of a state's columns, token by token.
//!
//! Columns do not depend on each other, and the sum over a column has a fixed order (`dots`). The bits of a row
//! therefore depend neither on the threads, nor on the number of rows, nor on where a prompt was cut. A prompt is
//! computed as the recurrence, too: its state stays in the nearest cache, so the chunked form would save nothing.

use std::cell::RefCell;

use pulp::{Simd, WithSimd};

use super::super::dots::dot;
use super::super::threads::each;
use super::layer::Layer;
use crate::executor::StateError;
use crate::tape::{StateHeads, UPDATES, UpdateRule};

/// The most columns that a thread updates at a time, so that they share the keys of a token.
const GROUP: usize = 16;

thread_local! {
    /// Columns that are not stored.
    static COPY: RefCell<Vec<f32>> = const { RefCell::new(Vec::new()) };
}

/// A token's part of a state: its update, and its queries if it has an output.
#[derive(Clone, Copy, Debug)]
pub(super) struct Token<'a> {
    /// `StateHeads::update` elements: keys, values, decays, betas
    pub(super) update: &'a [f32],
    /// (key_heads * key_dim)
    pub(super) queries: Option<&'a [f32]>,
}

/// Where outputs go: (columns, rows), from a row on.
#[derive(Debug)]
pub(super) struct Outputs<'a> {
    pub(super) product: &'a mut [f32],
    pub(super) rows: usize,
    pub(super) first: usize,
}

/// Replays the pending updates of a layer up to `position`. At position 0 a state is zero.
///
/// # Errors
/// If the state has passed the position, or lacks updates before it.
pub(super) fn replay(
    layer: &mut Layer,
    heads: Option<StateHeads>,
    position: usize,
) -> Result<(), StateError> {
    let Some(heads) = heads else {
        return Ok(());
    };
    let pending = begin(layer, position, 0)?;
    let Layer { heads: state, .. } = layer;
    let tokens: Vec<_> = pending
        .map(|at| Token {
            update: layer.updates.at(at),
            queries: None,
        })
        .collect();
    if !tokens.is_empty() {
        run(heads, state, (&tokens, tokens.len()), None);
    }
    layer.position = position;
    Ok(())
}

/// Prepares a layer for rows from `position` on. Returns the positions of the updates to replay.
pub(super) fn begin(
    layer: &mut Layer,
    position: usize,
    rows: usize,
) -> Result<std::ops::Range<usize>, StateError> {
    if position == 0 {
        layer.heads.fill(0.0);
        layer.position = 0;
    }
    let state = layer.position;
    if position < state || position + rows > state + UPDATES {
        return Err(StateError::Position { position, state });
    }
    Ok(state..position)
}

/// Runs tokens in order. The state keeps the updates of the first `kept` of them.
pub(super) fn run(
    heads: StateHeads,
    state: &mut [f32],
    (tokens, kept): (&[Token<'_>], usize),
    outputs: Option<Outputs<'_>>,
) {
    let StateHeads {
        value_dim, key_dim, ..
    } = heads;
    let group = (1..=GROUP)
        .rev()
        .find(|group| value_dim.is_multiple_of(*group));
    let group = group.unwrap_or(1);
    let arch = pulp::Arch::new();
    let columns = |index: usize, state: &mut [f32], outputs: Option<Outputs<'_>>| {
        arch.dispatch(Columns {
            heads,
            head: index * group / value_dim,
            first: index * group % value_dim,
            state,
            tokens,
            kept,
            outputs,
        });
    };
    let states = state.chunks_exact_mut(group * key_dim);
    let Some(Outputs {
        product,
        rows,
        first,
    }) = outputs
    else {
        return each(states.enumerate(), |(index, state): (usize, &mut [f32])| {
            columns(index, state, None);
        });
    };
    let products = product.chunks_exact_mut(group * rows);
    each(
        states.zip(products).enumerate(),
        |(index, (state, product)): (usize, (&mut [f32], &mut [f32]))| {
            let outputs = Outputs {
                product,
                rows,
                first,
            };
            columns(index, state, Some(outputs));
        },
    );
}

/// Some columns of a head.
struct Columns<'a> {
    heads: StateHeads,
    head: usize,
    /// The first column.
    first: usize,
    /// (columns, key_dim)
    state: &'a mut [f32],
    tokens: &'a [Token<'a>],
    kept: usize,
    outputs: Option<Outputs<'a>>,
}

impl WithSimd for Columns<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self {
            heads,
            head,
            first,
            state,
            tokens,
            kept,
            mut outputs,
        } = self;
        let (stored, passing) = tokens.split_at(kept);
        let mut row = 0;
        let mut all = |state: &mut [f32], tokens: &[Token<'_>]| {
            for token in tokens {
                advance(simd, heads, (head, first), state, token, |column, value| {
                    if let Some(outputs) = &mut outputs {
                        outputs.product[column * outputs.rows + outputs.first + row] = value;
                    }
                });
                row += usize::from(token.queries.is_some());
            }
        };
        all(state, stored);
        if !passing.is_empty() {
            COPY.with_borrow_mut(|copy| {
                copy.clear();
                copy.extend_from_slice(state);
                all(copy, passing);
            });
        }
    }
}

/// Updates columns by a token, and calls `put` with each column's output.
#[inline(always)]
fn advance<S: Simd>(
    simd: S,
    heads: StateHeads,
    (head, first): (usize, usize),
    state: &mut [f32],
    token: &Token<'_>,
    mut put: impl FnMut(usize, f32),
) {
    let StateHeads {
        value_dim, key_dim, ..
    } = heads;
    let own = heads.key_head(head) * key_dim;
    let (keys, rest) = token.update.split_at(heads.keys());
    let (values, scalars) = rest.split_at(heads.values());
    let (key, decay) = (&keys[own..own + key_dim], scalars[head]);
    let values = &values[head * value_dim + first..];
    let query = token.queries.map(|queries| &queries[own..own + key_dim]);
    for (index, (column, value)) in state.chunks_exact_mut(key_dim).zip(values).enumerate() {
        let added = match heads.rule {
            UpdateRule::Delta => {
                let beta = scalars[heads.heads + head];
                beta * (value - decay * dot(simd, column, key))
            }
            UpdateRule::Additive => *value,
        };
        for (element, key) in column.iter_mut().zip(key) {
            *element = added.mul_add(*key, decay * *element);
        }
        if let Some(query) = query {
            put(index, dot(simd, column, query));
        }
    }
}
